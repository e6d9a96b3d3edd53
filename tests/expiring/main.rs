//! Committed offsets that expire: by which rule, over restarts and crashes, beside commits and joins, and by the log's thread.

mod background;
#[path = "../common/mod.rs"]
mod common;
mod crashes;
mod races;
mod restarts;
mod rules;
mod times;

use std::time::Duration;

use thalweg::testing::{Disk, ManualClock};
use thalweg::{
    Consumer, ConsumerGroup, Log, Maintenance, Offset, Positions, TopicConfig, TopicPartition,
};

const NOW: Duration = Duration::ZERO;
const DAY: Duration = Duration::from_secs(24 * 3600);
/// How long offsets stay in these tests.
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
const TICK: Duration = Duration::from_millis(1);

fn just_under(time: Duration) -> Duration {
    time.saturating_sub(TICK)
}

fn open(disk: &Disk, clock: &ManualClock) -> Log {
    open_for(disk, clock, WEEK)
}

/// Where offsets stay for so long.
fn open_for(disk: &Disk, clock: &ManualClock, retention: Duration) -> Log {
    let builder = Log::builder().maintenance(Maintenance::Manual);
    let builder = builder.offsets_retention(retention).clock(clock);
    builder.open_on(disk).expect("the log opens")
}

/// A log with the topics `orders` and `bills`, of two partitions each, with ten records in each.
fn begin() -> (Disk, ManualClock, Log) {
    let (disk, clock) = (Disk::new(), ManualClock::new());
    let log = open(&disk, &clock);
    for name in ["orders", "bills"] {
        make(&log, name);
    }
    (disk, clock, log)
}

fn make(log: &Log, name: &str) {
    let topic = log.create_topic(name, TopicConfig::new().partitions(2));
    for partition in topic.unwrap().partitions() {
        partition.append_all([("k", "v"); 10]).unwrap();
    }
}

/// A member that may be silent for ever, and has its partitions.
fn member(group: &ConsumerGroup, topics: &[&str]) -> Consumer {
    let builder = group.subscribe(topics.iter().copied());
    let mut member = builder.max_poll_interval(Duration::MAX).join().unwrap();
    let _ = member.poll(NOW).unwrap();
    member
}

fn next(of: &[(&str, u32, u64)]) -> Positions {
    let of = of.iter();
    of.map(|&(topic, n, next)| TopicPartition::new(topic, n).at(Offset::new(next)))
        .collect()
}

/// What is committed, as it is printed: `orders-0@5`.
fn committed(group: &ConsumerGroup) -> Vec<String> {
    let committed = group.committed().unwrap();
    let described = group.describe().unwrap().partitions;
    let described = described.into_iter().filter_map(|of| {
        let next = of.committed?;
        Some(of.at.at(next))
    });
    assert_eq!(described.collect::<Positions>(), committed);
    committed.iter().map(ToString::to_string).collect()
}

/// One pass of maintenance: how many offsets it forgot.
fn expired(log: &Log) -> u64 {
    log.maintain().unwrap().offsets_expired
}

/// So much time passes, in steps that a busy log would take.
fn pass(log: &Log, clock: &ManualClock, time: Duration) -> u64 {
    let mut sum = 0;
    for _ in 0..8 {
        clock.advance(time / 8);
        sum += expired(log);
    }
    sum
}

fn groups(log: &Log) -> Vec<String> {
    let groups = log.groups().unwrap();
    groups.iter().map(|group| group.name().to_owned()).collect()
}
