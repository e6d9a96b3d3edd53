//! Handles of a log that has crashed: they answer `Closed`, and write nothing.

use thalweg::testing::{Survives, TestLog};
use thalweg::{Durability, Error, Offset, Positions, Result, TopicConfig};

use crate::{NOW, append, at, join, poll, topic, values};

/// Asserts that a call on a handle of the old log was refused.
fn refused<T>(result: Result<T>) {
    match result {
        Err(Error::Closed) => {}
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("an old handle answered"),
    }
}

#[test]
fn every_old_handle_answers_closed_and_writes_nothing_any_more() {
    let test = TestLog::new();
    let log = test.log();
    let topic = topic(&test, Durability::Process);
    append(&topic, 0..3);
    let partition = topic.partition(0).unwrap();
    let group = log.group("kitchen");
    let mut consumer = join(&test);
    assert_eq!(poll(&mut consumer), [0, 1, 2]);
    let mut scan = partition.entries(..);

    test.crash(Survives::Everything).unwrap();

    refused(log.topic("orders"));
    refused(log.topic_or_create("orders", TopicConfig::new()));
    refused(log.create_topic("bills", TopicConfig::new()));
    refused(log.sync());
    refused(topic.append(("customer-7", "3")));
    refused(topic.append_all([("customer-7", "3")]));
    refused(partition.append(("customer-7", "3")));
    refused(partition.append_at(Offset::new(3), [("customer-7", "3")]));
    refused(partition.get(Offset::ZERO));
    refused(partition.offset_for_time(test.now()));
    refused(partition.roll());
    refused(partition.recover());
    refused(partition.entries(..).next().unwrap());
    refused(scan.next().unwrap());
    refused(group.committed());
    refused(group.lag());
    refused(group.subscribe(["orders"]).join());
    refused(consumer.poll(NOW));
    refused(consumer.next_batch());
    refused(consumer.commit());
    refused(consumer.commit_at(&Positions::new()));
    refused(consumer.committed(&at()));
    refused(consumer.seek(&at().at(Offset::ZERO)));
    refused(consumer.resume(&[at()]));
    refused(consumer.close());
    refused(log.clone().close());
    drop((log, topic, partition, group, scan));

    assert_eq!(values(&test), [0, 1, 2]);
    let mut consumer = join(&test);
    assert_eq!(poll(&mut consumer), [0, 1, 2]); // the commit was refused, not done
    assert!(test.crash(Survives::Everything).unwrap().is_empty());
    assert_eq!(values(&test), [0, 1, 2]);
}

#[test]
fn a_log_that_crashed_without_a_handle_left_is_not_closed_in_order() {
    let test = TestLog::new();
    append(&topic(&test, Durability::Process), 0..3);
    test.crash(Survives::SyncedOnly).unwrap(); // closing would have synced
    assert_eq!(values(&test), [0; 0]);
}
