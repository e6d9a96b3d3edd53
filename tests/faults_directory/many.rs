//! Row F99, on simulated storage: ten thousand partitions cost neither files nor threads, ten thousand segments no open files.

use std::fs;
use std::time::Duration;

use thalweg::testing::{Disk, DiskCall};
use thalweg::{Durability, Offset, TopicConfig};

use super::logs::{end, files, numbered, open, rows, t0};

const MANY: u32 = 10_000;

fn calls(disk: &Disk, call: DiskCall) -> u64 {
    disk.calls().get(&call).copied().unwrap_or(0)
}

fn threads() -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Threads:"))?;
    line.trim().parse().ok()
}

#[test]
fn f99_only_partitions_that_are_used_have_directories_and_files() {
    let disk = Disk::new();
    let log = open(&disk);
    let before = threads();
    disk.mark();
    let topic = log
        .create_topic("t", TopicConfig::new().partitions(MANY))
        .unwrap();
    assert!(calls(&disk, DiskCall::Open) < 50, "{:?}", disk.calls());
    assert_eq!(calls(&disk, DiskCall::CreateDir), 1, "the topic's own");
    for number in (0..MANY).step_by(1000) {
        topic
            .partition(number)
            .unwrap()
            .append(("k", "value-0000"))
            .unwrap();
    }
    assert_eq!(files(&disk, "t", ".log").len(), 10);
    log.close().unwrap();
    disk.mark();
    let log = open(&disk);
    assert!(log.recovery().is_empty());
    assert!(calls(&disk, DiskCall::Open) < 100, "{:?}", disk.calls());
    assert_eq!(calls(&disk, DiskCall::Write), 0, "{:?}", disk.calls());
    let topic = log.topic("t").unwrap();
    assert_eq!(topic.partitions().len(), MANY as usize);
    for number in (0..MANY).step_by(500) {
        let used = u64::from(number % 1000 == 0);
        assert_eq!(rows(&topic.partition(number).unwrap()), numbered(0..used));
    }
    if let (Some(before), Some(now)) = (before, threads()) {
        assert!(now < before + 100, "threads grew from {before} to {now}");
    }
    let mut member = log.group("g").subscribe(["t"]).join().unwrap();
    assert_eq!(member.poll(Duration::ZERO).unwrap().len(), 10);
    member.commit().unwrap();
}

/// Each of a thousand segments is opened when it is read, once per reading, and by nobody before.
#[test]
fn f99_opening_does_not_open_every_segment() {
    let disk = Disk::new();
    let log = open(&disk);
    let config = TopicConfig::new()
        .segment_bytes(400)
        .durability(Durability::Process);
    let partition = super::logs::one(&log.create_topic("t", config).unwrap());
    while files(&disk, "t", ".log").len() < 1000 {
        let from = end(&partition);
        let values: Vec<_> = numbered(from..from + 5);
        partition
            .append_all(values.iter().map(|(_, value)| ("k", value)))
            .unwrap();
    }
    let count = end(&partition);
    log.close().unwrap();
    disk.mark();
    let log = open(&disk);
    assert!(calls(&disk, DiskCall::Open) < 30, "{:?}", disk.calls());
    let partition = t0(&log);
    disk.mark();
    for offset in [0, count / 2, count - 1] {
        let entry = partition.get(Offset::new(offset)).unwrap().unwrap();
        assert_eq!(super::logs::row(&entry), numbered(offset..offset + 1)[0]);
    }
    assert!(calls(&disk, DiskCall::Open) < 30, "{:?}", disk.calls());
    assert_eq!(rows(&partition), numbered(0..count));
    let back: Vec<_> = partition
        .entries(..)
        .rev()
        .map(|e| super::logs::row(&e.unwrap()))
        .collect();
    assert!(back.into_iter().rev().eq(numbered(0..count)));
}
