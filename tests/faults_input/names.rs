//! Row F88: names that would be paths are refused, names that are taken stay below the root and apart from each other.

use proptest::prelude::*;
use thalweg::testing::Disk;
use thalweg::{Error, TopicConfig};

use super::logs::{numbered, one, open, rows, scale};

fn refused(name: &str) -> bool {
    let disk = Disk::new();
    let log = open(&disk);
    let before = disk.hash();
    match log.create_topic(name, TopicConfig::new()) {
        Err(Error::InvalidName { name: said, .. }) => {
            assert_eq!(&*said, name);
            assert_eq!(disk.hash(), before, "{name:?}: nothing was made");
            assert!(matches!(
                log.topic(name),
                Err(Error::NotFound { .. } | Error::InvalidName { .. })
            ));
            true
        }
        Err(other) => panic!("{name:?}: {other:?}"),
        Ok(topic) => {
            assert_eq!(topic.name(), name);
            one(&topic).append(("k", "v")).unwrap();
            for (path, _) in disk.files() {
                let place = path.strip_prefix("/log").expect("below the root");
                let parts: Vec<_> = place
                    .components()
                    .map(|part| part.as_os_str().to_owned())
                    .collect();
                assert!(
                    parts
                        .iter()
                        .all(|part| part != ".." && !part.to_string_lossy().contains('\0')),
                    "{}",
                    path.display()
                );
            }
            false
        }
    }
}

/// Scenario B99.
#[test]
fn f88_b99_names_that_would_be_paths_are_refused() {
    let (longest, too_long, very_long) = ("n".repeat(249), "n".repeat(250), "n".repeat(4096));
    for name in [
        "", ".", "..", "/", "a/b", "../x", "a\\b", "a\0b", "\0", " ", "a b", "ä", "🦀", "a:b", "*",
        &too_long, &very_long,
    ] {
        assert!(refused(name), "{name:?}");
    }
    for name in [
        "con",
        "nul",
        "aux.txt",
        ".hidden",
        "...",
        "__consumer_offsets",
        "-",
        "_",
        "x.tmp",
        "LOCK",
        "0",
        &longest,
    ] {
        assert!(!refused(name), "{name:?}");
    }
}

/// Legal names that look alike are different topics, after a reopening too.
#[test]
fn f88_b99_names_that_look_alike_stay_apart() {
    let names = [
        "A",
        "a",
        "a.b",
        "a_b",
        "orders",
        "orders-1",
        "orders-1-0",
        "Orders",
        "oRders",
        ".a",
        "%a".trim_start_matches('%'),
    ];
    let disk = Disk::new();
    let log = open(&disk);
    let mut made: Vec<&str> = Vec::new();
    for name in names {
        if made.contains(&name) {
            continue;
        }
        let topic = log
            .create_topic(name, TopicConfig::new().partitions(2))
            .unwrap();
        topic
            .partition(0)
            .unwrap()
            .append(("k", format!("{name}/0")))
            .unwrap();
        topic
            .partition(1)
            .unwrap()
            .append(("k", format!("{name}/1")))
            .unwrap();
        made.push(name);
    }
    log.close().unwrap();
    let log = open(&disk);
    assert_eq!(log.topics().len(), made.len());
    for name in made {
        let topic = log.topic(name).unwrap();
        for number in 0..2 {
            let held = rows(&topic.partition(number).unwrap());
            assert_eq!(held, [(0, format!("{name}/{number}"))]);
        }
    }
}

/// Names of groups are keys, never paths: whatever they are, they stay apart.
#[test]
fn f88_names_of_groups_are_any_text_and_stay_apart() {
    let disk = Disk::new();
    let log = open(&disk);
    let partition = one(&log.create_topic("t", TopicConfig::new()).unwrap());
    super::logs::fill(&partition, 0..20);
    let names = [
        "..", ".", "a/b", "a", "A", "/", "\0", "a\0", "🦀", "t", "con", "a b", "ledger",
    ];
    for (done, name) in names.iter().enumerate() {
        let mut member = log
            .group(name)
            .subscribe(["t"])
            .max_poll_records(done + 1)
            .join()
            .unwrap();
        assert_eq!(
            member.poll(std::time::Duration::ZERO).unwrap().len(),
            done + 1
        );
        member.commit().unwrap();
        member.close().unwrap();
    }
    for (path, _) in disk.files() {
        assert!(
            path.starts_with("/log/topics")
                || path.starts_with("/log/ledger")
                || path.parent() == Some("/log".as_ref())
        );
    }
    log.close().unwrap();
    let log = open(&disk);
    for (done, name) in names.iter().enumerate() {
        let committed = log.group(name).committed().unwrap();
        let next = committed
            .next(&thalweg::TopicPartition::new("t", 0))
            .map(thalweg::Offset::get);
        assert_eq!(next, Some(done as u64 + 1), "{name:?}");
    }
    assert_eq!(rows(&super::logs::t0(&log)), numbered(0..20));
    for name in ["", &"g".repeat(32_768)] {
        let joined = log.group(name).subscribe(["t"]).join();
        assert!(
            matches!(joined.map(drop), Err(Error::InvalidName { .. })),
            "{} bytes",
            name.len()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200 * scale() as u32) })]

    #[test]
    fn f88_any_text_is_refused_or_stays_below_the_root(name in prop_oneof!["\\PC{0,300}", "[./a\\\\\0]{0,6}", "[a-zA-Z0-9._-]{0,260}"]) {
        refused(&name);
    }
}
