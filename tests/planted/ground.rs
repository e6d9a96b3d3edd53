//! What the scenarios stand on: a disk with one log of one topic, filled, killed, and read again.

use std::path::PathBuf;

use thalweg::testing::{CrashModel, Disk, ManualClock};
use thalweg::{Durability, Entry, Error, FindingKind, Log, Partition, TopicConfig};

use crate::common;

pub(crate) fn open(disk: &Disk) -> thalweg::Result<Log> {
    common::open(disk, &ManualClock::new())
}

/// Two partitions, small segments, a small span.
pub(crate) fn config(durability: Durability) -> TopicConfig {
    TopicConfig::new()
        .partitions(2)
        .durability(durability)
        .segment_bytes(1024)
        .offset_span(1000)
        .index_interval(64)
}

/// A new log on an empty disk, and its topic's first partition.
pub(crate) fn begin(disk: &Disk, durability: Durability) -> (Log, Partition) {
    let log = open(disk).expect("an empty disk takes a log");
    let topic = log
        .create_topic("orders", config(durability))
        .expect("a new topic");
    let partition = topic.partition(0).expect("the first of two");
    (log, partition)
}

pub(crate) fn partition(log: &Log, number: u32) -> Partition {
    let topic = log.topic("orders").expect("the topic is there");
    topic.partition(number).expect("one of two")
}

pub(crate) fn value(n: u64) -> String {
    format!("value number {n}, of some length")
}

/// Appends records `from .. to`, one by one; each gets its number as its offset.
pub(crate) fn fill(partition: &Partition, from: u64, to: u64) {
    for n in from..to {
        let at = partition
            .append(("key", value(n)))
            .expect("a sound disk takes records");
        assert_eq!(at.offset().get(), n);
    }
}

/// The disk after the process died.
pub(crate) fn killed(disk: &Disk) -> Disk {
    disk.crash(disk.points(), CrashModel::ProcessKill, 0)
}

/// The disk after a power loss that took everything that was not synced.
pub(crate) fn powerless(disk: &Disk) -> Disk {
    disk.crash(disk.points(), CrashModel::LostSuffix, 0)
}

/// The numbers of the records that can be read, each checked, and the first error.
pub(crate) fn read(partition: &Partition) -> (Vec<u64>, Option<Error>) {
    read_from(partition, 0)
}

pub(crate) fn read_from(partition: &Partition, from: u64) -> (Vec<u64>, Option<Error>) {
    let mut numbers = Vec::new();
    for entry in partition.entries(thalweg::Offset::new(from)..) {
        match entry {
            Ok(entry) => numbers.push(checked(&entry)),
            Err(e) => return (numbers, Some(e)),
        }
    }
    (numbers, None)
}

fn checked(entry: &Entry) -> u64 {
    let offset = entry.offset().get();
    let text = String::from_utf8_lossy(entry.value().unwrap_or_default()).into_owned();
    assert_eq!(text, value(offset), "wrong data at {}", entry.position());
    offset
}

/// All records below `end`, and nothing else.
pub(crate) fn assert_whole(partition: &Partition, end: u64) {
    let (numbers, error) = read(partition);
    assert!(error.is_none(), "reading fails: {error:?}");
    assert_eq!(numbers, (0..end).collect::<Vec<_>>(), "what can be read");
}

/// Files of the first partition with this ending, in the order of their bases.
pub(crate) fn files(disk: &Disk, ending: &str) -> Vec<PathBuf> {
    let paths = disk.files().into_iter().map(|(path, _)| path);
    paths
        .filter(|path| path.to_string_lossy().contains("/topics/"))
        .filter(|path| path.parent().is_some_and(|dir| dir.ends_with("0")))
        .filter(|path| path.extension().is_some_and(|has| has == ending))
        .collect()
}

pub(crate) fn found(log: &Log, kind: FindingKind) -> bool {
    let findings = log.recovery().findings();
    findings.iter().any(|finding| finding.kind == kind)
}
