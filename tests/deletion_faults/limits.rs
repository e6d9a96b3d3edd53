//! Names at their limits, and a thousand topics one after the other.

use std::path::{Path, PathBuf};

use thalweg::testing::Disk;
use thalweg::{Durability, TopicConfig};

use super::{commit, dirs, is_not_found, open, topic_of, values};

#[test]
fn f88_names_at_their_limits_are_deleted_and_used_again_and_no_other_is_touched() {
    let disk = Disk::new();
    let log = open(&disk);
    let long = "x".repeat(249);
    let names = [
        "a",
        "A",
        "_",
        "a-",
        "a-00000000",
        "a-00000001",
        "a.b",
        "a_b",
        "a.tmp",
        "tmp",
        "config",
        "LOCK",
        "con",
        "__ledger",
        "0",
        "-",
        "a-0",
        &long,
    ];
    for name in names {
        topic_of(&log, name, Durability::Process, &[name]);
        commit(&log, name);
    }
    for name in names {
        log.delete_topic(name).unwrap();
        assert!(is_not_found(&log.topic(name)), "{name}");
        assert_eq!(dirs(&disk).len(), names.len() - 1, "{name}");
        for other in names.iter().filter(|other| **other != name) {
            assert_eq!(values(&log, other), [*other], "after {name}");
        }
        assert_eq!(
            log.group("g").committed().unwrap().iter().count(),
            names.len() - 1
        );
        topic_of(&log, name, Durability::Process, &[name]);
        commit(&log, name);
    }
    for wrong in ["", ".", "..", "a/b", "x\0", &"x".repeat(250), "é"] {
        assert!(log.create_topic(wrong, TopicConfig::new()).is_err());
        assert!(is_not_found(&log.delete_topic(wrong)), "{wrong:?}");
    }
    log.close().unwrap();
    let log = open(&disk);
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
    assert_eq!(log.topics().len(), names.len());
}

/// A thousand topics come and go: no file stays, and what the log keeps of topics does not grow.
#[test]
fn f75_a_thousand_topics_that_came_and_went_leave_nothing() {
    let disk = Disk::new();
    let log = open(&disk);
    topic_of(&log, "keep", Durability::Process, &["k"]);
    let size = |name: &str| disk.read_file(Path::new("/log").join(name)).unwrap().len();
    let mut catalogue = 0;
    for n in 0..1000 {
        let name = if n % 2 == 0 {
            "orders".to_owned()
        } else {
            format!("t{n}")
        };
        topic_of(&log, &name, Durability::Process, &["a", "b"]);
        if n % 10 == 0 {
            commit(&log, &name);
        }
        log.delete_topic(&name).unwrap();
        if n % 100 == 0 {
            disk.forget_history();
        }
        if n == 50 {
            catalogue = size("CATALOGUE");
        }
    }
    assert_eq!(dirs(&disk).len(), 1);
    assert_eq!(size("CATALOGUE"), catalogue);
    assert!(size("STATE") < 1 << 20, "{}", size("STATE"));
    let files: Vec<PathBuf> = disk.files().into_iter().map(|(path, _)| path).collect();
    assert!(files.len() < 15, "{files:?}");
    println!(
        "STATE {}, CATALOGUE {}, all {}",
        size("STATE"),
        size("CATALOGUE"),
        disk.used()
    );
    log.close().unwrap();
    let log = open(&disk);
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
    assert_eq!(values(&log, "keep"), ["k"]);
}
