//! What tests of groups share: a topic of numbered records, and short words for what members do.
#![allow(dead_code)] // each test uses a part of it

use std::time::Duration;

use thalweg::testing::TestLog;
use thalweg::{
    Consumer, ConsumerGroup, Durability, Offset, Positions, TopicConfig, TopicPartition,
};

/// A poll of this takes what is there.
pub(crate) const NOW: Duration = Duration::ZERO;

/// With a topic `orders`, whose partitions take turns.
pub(crate) fn log_with(partitions: u32, records: u64) -> TestLog {
    let test = TestLog::new();
    make(&test, "orders", partitions, records);
    test
}

pub(crate) fn make(test: &TestLog, topic: &str, partitions: u32, records: u64) {
    let config = TopicConfig::new()
        .partitions(partitions)
        .durability(Durability::Process);
    test.log().create_topic(topic, config).unwrap();
    append(test, topic, records);
}

pub(crate) fn append(test: &TestLog, topic: &str, records: u64) {
    let topic = test.log().topic(topic).unwrap();
    let partitions = topic.partitions();
    for (n, partition) in (0..records).zip(partitions.iter().cycle()) {
        partition.append(("", &n.to_string())).unwrap();
    }
}

pub(crate) fn group(test: &TestLog) -> ConsumerGroup {
    test.log().group("g")
}

/// A partition of `orders`.
pub(crate) fn at(partition: u32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}

/// What a poll returns, as partition and offset.
pub(crate) fn poll(consumer: &mut Consumer) -> Vec<(u32, u64)> {
    let batch = consumer.poll(NOW).unwrap();
    let seen = batch.iter();
    seen.map(|entry| (entry.partition().get(), entry.offset().get()))
        .collect()
}

/// The numbers of its partitions.
pub(crate) fn owned(consumer: &Consumer) -> Vec<u32> {
    let owned = consumer.assignment();
    owned.iter().map(|at| at.partition().get()).collect()
}

/// Polls all until nobody's partitions change.
pub(crate) fn settle(members: &mut [&mut Consumer]) {
    for _ in 0..2 {
        for member in members.iter_mut() {
            let _ = member.poll(NOW).unwrap();
        }
    }
}

/// Next offsets in `orders`.
pub(crate) fn next(of: &[(u32, u64)]) -> Positions {
    let position = |&(partition, offset): &(u32, u64)| at(partition).at(Offset::new(offset));
    of.iter().map(position).collect()
}
