//! What a user of `TestLog` sees: crashes, faults and time as the test says, and a log that is the real one in between.

mod crashes;
mod faults;
mod groups;
mod handles;
mod threads;
mod time;

use std::time::Duration;

use thalweg::testing::{Survives, TestLog};
use thalweg::{Consumer, Durability, Partition, Topic, TopicConfig, TopicPartition};

pub(crate) const NOW: Duration = Duration::ZERO;
pub(crate) const EIO: i32 = 5;
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const EVERY_WAY: [Survives; 4] = [
    Survives::Everything,
    Survives::SyncedOnly,
    Survives::Prefix,
    Survives::RandomPages,
];

pub(crate) fn topic(test: &TestLog, level: Durability) -> Topic {
    test.log()
        .create_topic("orders", TopicConfig::new().durability(level))
        .unwrap()
}

pub(crate) fn append(topic: &Topic, values: impl IntoIterator<Item = u32>) {
    for value in values {
        topic.append(("customer-7", &value.to_string())).unwrap();
    }
}

pub(crate) fn orders(test: &TestLog) -> Partition {
    test.log().topic("orders").unwrap().partition(0).unwrap()
}

/// The values of all records.
pub(crate) fn values(test: &TestLog) -> Vec<u32> {
    orders(test)
        .entries(..)
        .map(|entry| entry.unwrap().value_str().unwrap().parse().unwrap())
        .collect()
}

pub(crate) fn join(test: &TestLog) -> Consumer {
    test.log()
        .group("kitchen")
        .subscribe(["orders"])
        .join()
        .unwrap()
}

pub(crate) fn poll(consumer: &mut Consumer) -> Vec<u32> {
    let batch = consumer.poll(NOW).unwrap();
    batch
        .iter()
        .map(|entry| entry.value_str().unwrap().parse().unwrap())
        .collect()
}

pub(crate) fn at() -> TopicPartition {
    TopicPartition::new("orders", 0)
}
