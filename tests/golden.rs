//! Logs that an earlier version wrote are read as they were written; what a later one wrote is refused, and never harmed.
//!
//! `golden/v0/log` is a whole directory, as the code of that version left it. It is never written again: a version that writes
//! other bytes gets a directory of its own beside it.

mod common;
#[path = "common/forge.rs"]
mod forge;
#[path = "golden/newer.rs"]
mod newer;
#[path = "golden/written.rs"]
mod written;

use std::path::{Path, PathBuf};
use std::time::Duration;

use common::Rec;
use thalweg::testing::{Disk, ManualClock};
use thalweg::{Durability, Log, Offset, Partition, Partitioner, StartFrom, TopicPartition};
use written::{GROUP, Written};

/// Where the golden log of version 0 is kept.
fn golden_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v0/log")
}

/// A copy of it on a disk of its own.
fn golden() -> Disk {
    let disk = Disk::new();
    disk.import(golden_dir(), "/log")
        .expect("the golden log is there");
    disk
}

fn open(disk: &Disk) -> thalweg::Result<Log> {
    common::open(disk, &ManualClock::new())
}

fn partition(log: &Log, topic: &str) -> Partition {
    let topic = log.topic(topic).expect("the topic is there");
    topic.partition(0).expect("the first")
}

fn read(partition: &Partition) -> Vec<(u64, Rec)> {
    let entries = partition.entries(..);
    entries
        .map(|entry| common::seen(&entry.expect("the golden log is sound")))
        .collect()
}

#[test]
fn f132_the_golden_log_of_version_0_is_read_exactly() {
    let disk = golden();
    let before = disk.hash();
    let log = open(&disk).expect("it opens");
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
    let written = Written::story();
    for (topic, records) in written.topics() {
        let partition = partition(&log, topic);
        assert_eq!(&read(&partition), records, "{topic}");
        let mut back: Vec<_> = partition
            .entries(..)
            .rev()
            .map(|entry| common::seen(&entry.expect("the golden log is sound")))
            .collect();
        back.reverse();
        assert_eq!(&back, records, "{topic}, backwards");
        for (offset, record) in records {
            let entry = partition.get(Offset::new(*offset)).expect("it is read");
            assert_eq!(
                entry.as_ref().map(common::seen),
                Some((*offset, record.clone()))
            );
        }
    }
    let unused = log
        .topic("sure")
        .and_then(|topic| topic.partition(1))
        .expect("it has two");
    assert!(read(&unused).is_empty());
    log.close().expect("nothing to do");
    assert_eq!(disk.hash(), before, "reading wrote something");
}

#[test]
fn f132_settings_and_commits_of_the_golden_log_are_as_they_were() {
    let log = open(&golden()).expect("it opens");
    let sure = log.topic("sure").expect("it is there").settings();
    assert_eq!((sure.partitions, sure.durability), (2, Durability::Power));
    assert_eq!(sure.segment_bytes, written::SEGMENT_BYTES);
    let fast = log.topic("fast").expect("it is there").settings();
    assert_eq!(fast.durability, Durability::Process);
    assert_eq!(fast.partitioner, Partitioner::Kafka);
    let committed = log.group(GROUP).committed().expect("the ledger is sound");
    let at = TopicPartition::new("fast", 0);
    assert_eq!(
        committed.next(&at),
        Some(Offset::new(Written::story().committed))
    );
    let mut reader = log
        .group(GROUP)
        .subscribe(["fast"])
        .start_from(StartFrom::Fail)
        .join()
        .expect("the group goes on");
    let batch = reader.poll(Duration::ZERO).expect("it is read");
    let first = batch.iter().next().map(|entry| entry.offset().get());
    assert_eq!(first, Some(Written::story().committed));
}

#[test]
fn f132_the_golden_log_is_written_on_and_nothing_old_changes() {
    let disk = golden();
    let log = open(&disk).expect("it opens");
    for (topic, records) in Written::story().topics() {
        let at = partition(&log, topic)
            .append(("key", "new"))
            .expect("it goes on");
        assert_eq!(at.offset().get(), records.len() as u64);
    }
    log.close().expect("a sound disk");
    let log = open(&disk).expect("it opens again");
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
    for (topic, records) in Written::story().topics() {
        let read = read(&partition(&log, topic));
        assert_eq!(read[..records.len()], *records, "{topic}");
        assert_eq!(read.len(), records.len() + 1);
    }
}

/// Whoever changes a byte of the format learns it here: version 0 may, and then writes the golden log anew, by
/// `cargo test --test golden -- --ignored`.
#[test]
fn the_present_code_writes_the_golden_log_byte_for_byte() {
    let (now, golden) = (written::write(), golden());
    // How often a recovery point is written is not a matter of the format.
    let compared = |disk: &Disk| {
        let mut files = disk.files();
        files.retain(|(path, _)| !path.ends_with("STATE"));
        files
    };
    assert_eq!(compared(&now), compared(&golden));
    for (path, _) in compared(&now) {
        let bytes = |disk: &Disk| disk.read_file(&path).expect("it is listed");
        assert!(bytes(&now) == bytes(&golden), "{}", path.display());
    }
}

#[test]
#[ignore = "writes the golden log into the repository: only when version 0 changes"]
fn write_the_golden_log() {
    let dir = golden_dir();
    if dir.exists() {
        std::fs::remove_dir_all(&dir).expect("the old one goes");
    }
    std::fs::create_dir_all(&dir).expect("a place for it");
    written::write()
        .export("/log", &dir)
        .expect("it is written");
}
