//! Reported cases of others as scenarios of this crate: offsets and commits (B23–B37), members (B41–B47), what goes to other
//! threads (B92), fairness (B101), and what a log in memory owes to tests (B104, B105).
//!
//! Not here, for want of what it is about: B35 (transactions). B30 is in `cases_keeping`. B24, B28, B39, B40, B44 and B45 are in
//! `membership` and `listeners`.

mod backends;
mod committing;
mod conformance;
mod members;
mod offsets;
mod sharing;

use std::time::Duration;

use thalweg::testing::Disk;
use thalweg::{
    Consumer, Log, Maintenance, Offset, Partition, Position, TopicConfig, TopicPartition,
};

const NOW: Duration = Duration::ZERO;

/// Opens the log of a simulated disk; nothing happens in the background.
fn open(disk: &Disk) -> Log {
    let builder = Log::builder().maintenance(Maintenance::Manual);
    builder.open_on(disk).expect("the log opens")
}

/// A new topic `t` of so many partitions.
fn topic(log: &Log, partitions: u32) -> Vec<Partition> {
    let config = TopicConfig::new().partitions(partitions);
    log.create_topic("t", config).unwrap().partitions()
}

/// Appends these numbers, each as its own value.
fn append(partition: &Partition, numbers: std::ops::Range<u64>) {
    let values: Vec<String> = numbers.map(|n| n.to_string()).collect();
    let records = values.iter().map(|value| ("key", value.as_str()));
    partition.append_all(records).unwrap();
}

fn join(log: &Log, group: &str) -> Consumer {
    log.group(group).subscribe(["t"]).join().unwrap()
}

/// Partition `n` of the topic `t`.
fn t(n: u32) -> TopicPartition {
    TopicPartition::new("t", n)
}

/// A place in partition 0 of the topic `t`.
fn at(offset: u64) -> Position {
    t(0).at(Offset::new(offset))
}

/// The offsets that one poll returns.
fn poll(consumer: &mut Consumer) -> Vec<u64> {
    let batch = consumer.poll(NOW).unwrap();
    batch.iter().map(|entry| entry.offset().get()).collect()
}

/// All that is there, as `partition@offset value`.
fn drain(consumer: &mut Consumer) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        let batch = consumer.poll(NOW).unwrap();
        if batch.is_empty() {
            return seen;
        }
        seen.extend(batch.iter().map(|entry| {
            let value = entry.value_str().unwrap();
            format!("{}@{} {value}", entry.partition(), entry.offset())
        }));
    }
}
