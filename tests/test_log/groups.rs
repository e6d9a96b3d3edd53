//! Groups over crashes: they resume where they had committed.

use std::time::Duration;

use thalweg::testing::{Survives, TestLog};
use thalweg::{Durability, TopicConfig};

use crate::{append, join, poll, topic};

#[test]
fn a_group_resumes_where_it_had_committed() {
    let test = TestLog::new();
    let topic = topic(&test, Durability::Power);
    append(&topic, 0..3);
    let mut kitchen = join(&test);
    assert_eq!(poll(&mut kitchen), [0, 1, 2]);
    kitchen.commit().unwrap();
    append(&topic, 3..5);
    assert_eq!(poll(&mut kitchen), [3, 4]); // returned, and never committed

    test.crash(Survives::Everything).unwrap();
    assert_eq!(poll(&mut join(&test)), [3, 4]);
}

#[test]
fn a_commit_that_was_not_synced_is_lost_with_the_power_and_repeats_work() {
    let test = TestLog::new();
    append(&topic(&test, Durability::Power), 0..3);
    for (sync, again) in [(false, vec![0, 1, 2]), (true, vec![])] {
        let mut kitchen = join(&test);
        assert_eq!(poll(&mut kitchen), [0, 1, 2]);
        kitchen.commit().unwrap();
        if sync {
            test.log().sync().unwrap();
        }
        test.crash(Survives::SyncedOnly).unwrap();
        let mut kitchen = join(&test);
        assert_eq!(poll(&mut kitchen), again, "synced: {sync}");
        kitchen.close().unwrap();
    }
}

#[test]
fn a_whole_service_loop_runs_and_ends_when_nothing_is_left() {
    let test = TestLog::new();
    append(&topic(&test, Durability::Power), 0..1200);
    let mut seen = 0;
    let mut kitchen = join(&test);
    while let Some(batch) = kitchen.next_batch().unwrap() {
        seen += batch.len();
        kitchen.commit().unwrap();
    }
    kitchen.close().unwrap();
    assert_eq!(seen, 1200);
}

#[test]
fn commits_survive_a_power_loss_once_their_second_has_passed_and_not_before() {
    let test = TestLog::new();
    let process = TopicConfig::new().durability(Durability::Process);
    let orders = test.log().create_topic("orders", process).unwrap();
    orders.append(("customer-7", "tea")).unwrap();
    let committed = |test: &TestLog| {
        let group = test.log().group("kitchen");
        let ends = group.committed().unwrap();
        ends.iter().map(|at| at.offset().get()).sum::<u64>()
    };
    for (passed, left) in [(Duration::from_millis(999), 0), (Duration::from_secs(1), 1)] {
        let log = test.log();
        let orders = log.topic("orders").unwrap();
        if orders.partition(0).unwrap().entries(..).count() == 0 {
            orders.append(("customer-7", "tea")).unwrap();
        }
        let mut kitchen = log.group("kitchen").subscribe(["orders"]).join().unwrap();
        assert_eq!(kitchen.poll(Duration::ZERO).unwrap().len(), 1);
        kitchen.commit().unwrap();
        test.advance(passed);
        test.crash(Survives::SyncedOnly).unwrap();
        // The record that a commit speaks of reached the disk before it.
        let records = test.log().topic("orders").unwrap().partition(0).unwrap();
        assert_eq!((committed(&test) > 0) as u64, left, "after {passed:?}");
        assert_eq!(records.entries(..).count() as u64, left);
    }
}
