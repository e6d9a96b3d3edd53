//! What the suites about input, directories, reported cases and the public surface share: a log on a simulated disk, and a look
//! at what it holds.

#![allow(dead_code, reason = "each suite uses a part of it")]

use std::path::{Path, PathBuf};

use thalweg::testing::{CrashModel, Disk, ManualClock};
use thalweg::{Entry, Log, Maintenance, Offset, Partition, RecoveryReport, Topic, TopicConfig};

/// Opens the log of a simulated disk; nothing happens in the background.
pub(crate) fn open(disk: &Disk) -> Log {
    try_open(disk).expect("the log opens")
}

pub(crate) fn try_open(disk: &Disk) -> thalweg::Result<Log> {
    Log::builder()
        .maintenance(Maintenance::Manual)
        .open_on(disk)
}

/// As [`open`], on a clock that the test moves.
pub(crate) fn open_with(disk: &Disk, clock: &ManualClock) -> Log {
    Log::builder()
        .maintenance(Maintenance::Manual)
        .clock(clock)
        .open_on(disk)
        .expect("the log opens")
}

/// A new topic `t` of one partition on a new disk, and that partition.
pub(crate) fn fresh(config: TopicConfig) -> (Disk, Log, Partition) {
    let disk = Disk::new();
    let log = open(&disk);
    let partition = one(&log.create_topic("t", config).expect("a new topic"));
    (disk, log, partition)
}

/// Partition 0.
pub(crate) fn one(topic: &Topic) -> Partition {
    topic.partition(0).expect("a topic has a partition 0")
}

/// Partition 0 of the topic `t`.
pub(crate) fn t0(log: &Log) -> Partition {
    one(&log.topic("t").expect("the topic is there"))
}

/// The log, and partition 0 of its topic `t`: the log is open as long as both are there.
pub(crate) fn reopened(disk: &Disk) -> (Log, Partition) {
    let log = open(disk);
    let partition = t0(&log);
    (log, partition)
}

/// What a kill of the process leaves. The handles of the dead process may be dropped at any time.
pub(crate) fn killed(disk: &Disk) -> Disk {
    disk.crash(disk.points(), CrashModel::ProcessKill, 0)
}

/// What a power loss leaves of what was synced, and of the rest nothing.
pub(crate) fn unplugged(disk: &Disk) -> Disk {
    disk.crash(disk.points(), CrashModel::LostPages, 0)
}

/// Offsets and values, which must be text; any error fails the test.
pub(crate) fn rows(partition: &Partition) -> Vec<(u64, String)> {
    partition
        .entries(..)
        .map(|entry| row(&entry.expect("a readable entry")))
        .collect()
}

pub(crate) fn row(entry: &Entry) -> (u64, String) {
    let value = entry.value_str().expect("a value of text");
    (entry.offset().get(), value.to_owned())
}

/// The rows that [`fill`] leaves.
pub(crate) fn numbered(range: std::ops::Range<u64>) -> Vec<(u64, String)> {
    range.map(|n| (n, format!("value-{n:04}"))).collect()
}

/// Appends `value-0000` and so on, keyed, one by one, at the offsets of their numbers.
pub(crate) fn fill(partition: &Partition, range: std::ops::Range<u64>) {
    for n in range {
        let at = partition
            .append((format!("key-{n}"), format!("value-{n:04}")))
            .expect("an append");
        assert_eq!(at.offset(), Offset::new(n));
    }
}

/// The end of a partition as a number.
pub(crate) fn end(partition: &Partition) -> u64 {
    partition.offsets().end.get()
}

/// The files with this ending that belong to a topic, in the order of their names.
pub(crate) fn files(disk: &Disk, topic: &str, ending: &str) -> Vec<PathBuf> {
    let place = format!("/log/topics/{topic}-");
    let ours = |path: &Path| {
        path.to_string_lossy().starts_with(&place) && path.to_string_lossy().ends_with(ending)
    };
    let all = disk.files().into_iter().map(|(path, _)| path);
    all.filter(|path| ours(path)).collect()
}

/// The last segment of the topic `t`.
pub(crate) fn last_segment(disk: &Disk) -> PathBuf {
    files(disk, "t", ".log").pop().expect("a segment")
}

pub(crate) fn len(disk: &Disk, path: &Path) -> u64 {
    disk.read_file(path).expect("a file").len() as u64
}

/// Everything that opening found, for the message of an assertion.
pub(crate) fn kinds(report: &RecoveryReport) -> Vec<thalweg::FindingKind> {
    report.findings().iter().map(|found| found.kind).collect()
}

/// The seed of a random test, printed so that a failure can be repeated: `THALWEG_SEED` sets it.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("THALWEG_SEED").ok();
    let seed = given.and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("THALWEG_SEED={seed}");
    seed
}

/// How much more than usual is to be done: `THALWEG_LONG`, or 1.
pub(crate) fn scale() -> u64 {
    let given = std::env::var("THALWEG_LONG").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(1).max(1)
}

/// Numbers that look random and follow from a seed.
#[derive(Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `n`, which is above zero.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.roll() % n
    }
}
