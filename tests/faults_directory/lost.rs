//! Row F97: a partition's directory that is missing, empty, or there without a reason.

use std::path::{Path, PathBuf};

use thalweg::testing::Disk;
use thalweg::{Durability, Error, FindingKind, Log, OnCorruption, Outcome, TopicConfig};

use super::logs::{end, files, fill, killed, kinds, numbered, open, rows};

/// A topic of three partitions: 0 and 1 used, 2 never.
fn three(level: Durability) -> (Disk, Log) {
    let disk = Disk::new();
    let log = open(&disk);
    let config = TopicConfig::new()
        .partitions(3)
        .durability(level)
        .offset_span(1000);
    let topic = log.create_topic("t", config).unwrap();
    fill(&topic.partition(0).unwrap(), 0..10);
    fill(&topic.partition(1).unwrap(), 0..10);
    (disk, log)
}

fn dir(disk: &Disk, number: u32) -> PathBuf {
    let config = files(disk, "t", "/config").pop().expect("a topic");
    config
        .parent()
        .expect("a directory")
        .join(number.to_string())
}

/// Partition 1 is lost, loudly, and goes on being lost; the others work.
fn assert_lost(disk: &Disk, what: &str) {
    for _ in 0..2 {
        let log = open(disk);
        let topic = log.topic("t").unwrap();
        let lost = topic.partition(1).unwrap();
        let found = log.recovery().findings();
        let damaged = found
            .iter()
            .find(|found| found.kind == FindingKind::Damaged);
        assert_eq!(
            damaged.and_then(|found| found.at.clone()),
            Some(lost.topic_partition()),
            "{what}: {found:?}"
        );
        let error = lost.append(("k", "again from 0")).unwrap_err();
        assert!(error.is_corruption(), "{what}: {error:?}");
        assert_eq!(error.outcome(), Outcome::Rejected);
        let read: Vec<_> = lost.entries(..).filter_map(Result::ok).collect();
        assert!(read.is_empty(), "{what}");
        let sound = topic.partition(0).unwrap();
        sound.append(("k", "another")).unwrap();
        assert_eq!(rows(&sound)[..10], numbered(0..10), "{what}");
        assert!(
            files(disk, "t", ".log")
                .iter()
                .all(|path| !path.starts_with(dir(disk, 1))),
            "{what}: made again"
        );
        log.close().unwrap();
    }
    let refused = Log::builder()
        .on_corruption(OnCorruption::RefuseLog)
        .open_on(disk);
    assert!(refused.is_err_and(|e| e.is_corruption()), "{what}");
}

#[test]
fn f97_a_used_partition_without_its_directory_is_lost_and_not_begun_anew() {
    for level in [Durability::Power, Durability::Process] {
        for clean in [true, false] {
            let (disk, log) = three(level);
            let disk = if clean {
                log.close().unwrap();
                disk
            } else {
                killed(&disk)
            };
            disk.remove(dir(&disk, 1)).unwrap();
            assert_lost(&disk, &format!("{level:?}, clean {clean}"));
        }
    }
}

#[test]
fn f97_a_used_partition_without_its_segments_is_lost_and_not_begun_anew() {
    for level in [Durability::Power, Durability::Process] {
        for (clean, state) in [(true, true), (false, true), (true, false), (false, false)] {
            let (disk, log) = three(level);
            let disk = if clean {
                log.close().unwrap();
                disk
            } else {
                killed(&disk)
            };
            for path in files(&disk, "t", ".log") {
                if path.starts_with(dir(&disk, 1)) {
                    disk.remove(path).unwrap();
                }
            }
            if !state {
                disk.remove("/log/STATE").unwrap();
            }
            assert_lost(&disk, &format!("{level:?}, clean {clean}, STATE {state}"));
        }
    }
}

#[test]
fn f97_a_partition_that_was_never_used_has_no_directory_and_needs_none() {
    let (disk, log) = three(Durability::Power);
    log.close().unwrap();
    assert!(
        files(&disk, "t", "")
            .iter()
            .all(|path| !path.starts_with(dir(&disk, 2)))
    );
    let log = open(&disk);
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
    let unused = log.topic("t").unwrap().partition(2).unwrap();
    assert_eq!((end(&unused), rows(&unused)), (0, Vec::new()));
    fill(&unused, 0..3);
    assert_eq!(rows(&unused), numbered(0..3));
}

/// What is none of ours is left alone, said once per opening, and in nobody's way.
#[test]
fn f97_what_is_extra_is_reported_and_left_alone() {
    let (disk, log) = three(Durability::Power);
    log.close().unwrap();
    let topic = dir(&disk, 0).parent().unwrap().to_path_buf();
    let extra = [
        topic.join("9/00000000000000000000-00000000.log"),
        topic.join("07/00000000000000000000-00000000.log"),
        topic.join("notes.txt"),
        topic.join("0/notes.txt"),
        topic.join("0/00000000000000000005-00000000.log.bak"),
        topic.join("0/+0000000000000000005-00000000.log"),
        PathBuf::from("/log/README"),
        PathBuf::from("/log/topics/other-file"),
        PathBuf::from("/log/topics/strange directory/0/x"),
    ];
    for path in &extra {
        disk.write_file(path, b"none of yours").unwrap();
    }
    for _ in 0..2 {
        let log = open(&disk);
        let found = kinds(log.recovery());
        assert!(
            !found.is_empty() && found.iter().all(|kind| *kind == FindingKind::UnknownFiles),
            "{found:?}"
        );
        let topic = log.topic("t").unwrap();
        assert_eq!(topic.partitions().len(), 3);
        for number in [0, 1] {
            let partition = topic.partition(number).unwrap();
            fill(&partition, end(&partition)..end(&partition) + 1);
            assert_eq!(rows(&partition), numbered(0..end(&partition)));
        }
        log.close().unwrap();
        for path in &extra {
            assert_eq!(disk.read_file(path).unwrap(), b"none of yours", "{path:?}");
        }
    }
}

/// A file where a directory should be harms that partition alone.
#[test]
fn f97_a_file_in_place_of_a_directory_is_damage_of_that_partition() {
    let (disk, log) = three(Durability::Power);
    log.close().unwrap();
    disk.remove(dir(&disk, 1)).unwrap();
    disk.write_file(dir(&disk, 1), b"a file").unwrap();
    match super::logs::try_open(&disk) {
        Ok(log) => {
            let topic = log.topic("t").unwrap();
            assert!(topic.partition(1).unwrap().append(("k", "v")).is_err());
            assert_eq!(rows(&topic.partition(0).unwrap()), numbered(0..10));
        }
        Err(error) => panic!("one partition stops the log: {error:?}"),
    }
    assert_eq!(disk.read_file(dir(&disk, 1)).unwrap(), b"a file");
}

#[test]
fn f97_a_topic_without_its_directory_is_lost_and_not_made_again() {
    let (disk, log) = three(Durability::Power);
    let other = log.create_topic("other", TopicConfig::new()).unwrap();
    fill(&super::logs::one(&other), 0..3);
    log.close().unwrap();
    let topic = dir(&disk, 0).parent().unwrap().to_path_buf();
    disk.remove(&topic).unwrap();
    for _ in 0..2 {
        let log = open(&disk);
        assert!(kinds(log.recovery()).contains(&FindingKind::Damaged));
        assert!(matches!(log.topic("t"), Err(e) if e.is_corruption()));
        let again = log.create_topic("t", TopicConfig::new());
        assert!(
            matches!(&again, Err(e) if e.is_corruption() || matches!(e, Error::AlreadyExists { .. })),
            "{again:?}"
        );
        let other = log.topic("other").unwrap();
        assert_eq!(rows(&super::logs::one(&other)), numbered(0..3));
        log.close().unwrap();
    }
    assert!(
        disk.files()
            .iter()
            .all(|(path, _)| !Path::new(path).starts_with(&topic))
    );
}
