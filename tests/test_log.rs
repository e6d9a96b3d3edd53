//! What a user of `TestLog` sees: crashes, faults and time as the test says, and a log that is the real one in between.

use std::io::ErrorKind;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use thalweg::testing::{Call, Survives, TestLog};
use thalweg::{
    Consumer, Durability, Error, Offset, Outcome, Partition, Positions, Result, Topic, TopicConfig,
    TopicPartition,
};

const NOW: Duration = Duration::ZERO;
const EIO: i32 = 5;
const SECOND: Duration = Duration::from_secs(1);
const EVERY_WAY: [Survives; 4] = [
    Survives::Everything,
    Survives::SyncedOnly,
    Survives::Prefix,
    Survives::RandomPages,
];

fn topic(test: &TestLog, level: Durability) -> Topic {
    test.log()
        .create_topic("orders", TopicConfig::new().durability(level))
        .unwrap()
}

fn append(topic: &Topic, values: impl IntoIterator<Item = u32>) {
    for value in values {
        topic.append(("customer-7", &value.to_string())).unwrap();
    }
}

fn orders(test: &TestLog) -> Partition {
    test.log().topic("orders").unwrap().partition(0).unwrap()
}

/// The values of all records.
fn values(test: &TestLog) -> Vec<u32> {
    orders(test)
        .entries(..)
        .map(|entry| entry.unwrap().value_str().unwrap().parse().unwrap())
        .collect()
}

fn join(test: &TestLog) -> Consumer {
    test.log()
        .group("kitchen")
        .subscribe(["orders"])
        .join()
        .unwrap()
}

fn poll(consumer: &mut Consumer) -> Vec<u32> {
    let batch = consumer.poll(NOW).unwrap();
    batch
        .iter()
        .map(|entry| entry.value_str().unwrap().parse().unwrap())
        .collect()
}

fn at() -> TopicPartition {
    TopicPartition::new("orders", 0)
}

// ── crashes

#[test]
fn what_was_acknowledged_at_power_survives_every_crash() {
    for survives in EVERY_WAY {
        for seed in 0..20 {
            let test = TestLog::seeded(seed);
            append(&topic(&test, Durability::Power), 0..10);
            let report = test.crash(survives).unwrap();
            assert!(report.is_empty(), "{survives:?}, seed {seed}: {report:?}");
            assert_eq!(
                values(&test),
                (0..10).collect::<Vec<_>>(),
                "{survives:?}, seed {seed}"
            );
        }
    }
}

#[test]
fn what_the_operating_system_has_survives_the_process_and_a_prefix_of_it_a_power_cut() {
    for survives in EVERY_WAY {
        for seed in 0..20 {
            let test = TestLog::seeded(seed);
            append(&topic(&test, Durability::Process), 0..10);
            test.crash(survives).unwrap();
            let (found, all) = (values(&test), (0..10).collect::<Vec<_>>());
            match survives {
                Survives::Everything => assert_eq!(found, all, "seed {seed}"),
                Survives::SyncedOnly => assert_eq!(found, [0; 0], "seed {seed}"),
                _ => assert_eq!(found, all[..found.len()], "{survives:?}, seed {seed}"),
            }
        }
    }
}

#[test]
fn what_was_synced_survives_a_power_cut_at_every_level() {
    for level in [
        Durability::Process,
        Durability::Interval {
            time: SECOND,
            bytes: 1 << 20,
        },
    ] {
        for survives in EVERY_WAY {
            let test = TestLog::new();
            let topic = topic(&test, level);
            append(&topic, 0..5);
            test.log().sync().unwrap();
            append(&topic, 5..10);
            test.crash(survives).unwrap();
            let found = values(&test);
            assert!(found.len() >= 5, "{level:?}, {survives:?}: {found:?}");
            assert_eq!(found, (0..found.len() as u32).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_power_cut_can_tear_a_record_which_recovery_cuts_and_reports() {
    let torn = (0..200).find(|&seed| {
        let test = TestLog::seeded(seed);
        let topic = topic(&test, Durability::Process);
        let long = "7".repeat(5000);
        for _ in 0..3 {
            topic.append(("customer-7", &long)).unwrap();
        }
        let report = test.crash(Survives::RandomPages).unwrap();
        for entry in orders(&test).entries(..) {
            assert_eq!(entry.unwrap().value_str().unwrap(), long, "seed {seed}");
        }
        assert_eq!(
            report.findings().len(),
            test.log().recovery().findings().len()
        );
        report.findings().iter().any(|finding| finding.bytes > 0)
    });
    assert!(torn.is_some());
}

/// How many of ten records at `Process` a crash leaves.
fn left_by(seed: u64, survives: Survives) -> usize {
    let test = TestLog::seeded(seed);
    append(&topic(&test, Durability::Process), 0..10);
    test.crash(survives).unwrap();
    values(&test).len()
}

#[test]
fn the_same_seed_repeats_and_other_seeds_leave_other_states() {
    for survives in [Survives::Prefix, Survives::RandomPages] {
        let first: Vec<usize> = (0..30).map(|seed| left_by(seed, survives)).collect();
        let again: Vec<usize> = (0..30).map(|seed| left_by(seed, survives)).collect();
        assert_eq!(first, again, "{survives:?}");
        let distinct: std::collections::BTreeSet<_> = first.iter().collect();
        assert!(distinct.len() > 1, "{survives:?}: {first:?}");
    }
}

#[test]
fn new_and_default_are_seed_0() {
    let findings = |test: TestLog| {
        append(&topic(&test, Durability::Process), 0..10);
        let report = test.crash(Survives::RandomPages).unwrap();
        (format!("{report:?}"), values(&test))
    };
    let expected = findings(TestLog::seeded(0));
    assert_eq!(findings(TestLog::new()), expected);
    assert_eq!(findings(TestLog::default()), expected);
}

#[test]
fn several_crashes_in_a_row_lose_nothing_that_was_acknowledged() {
    for seed in 0..10 {
        let test = TestLog::seeded(seed);
        topic(&test, Durability::Power);
        for round in 0..8 {
            append(
                &test.log().topic("orders").unwrap(),
                round * 3..round * 3 + 3,
            );
            test.crash(EVERY_WAY[round as usize % 4]).unwrap();
            assert_eq!(values(&test), (0..round * 3 + 3).collect::<Vec<_>>());
        }
    }
}

#[test]
fn each_crash_of_one_test_is_another_chance() {
    let left = |test: &TestLog| {
        let before = orders(test).offsets().end.get() as usize;
        append(&test.log().topic("orders").unwrap(), 0..10);
        test.crash(Survives::Prefix).unwrap();
        orders(test).entries(..).count().saturating_sub(before)
    };
    let test = TestLog::seeded(3);
    topic(&test, Durability::Process);
    let lefts: std::collections::BTreeSet<usize> = (0..10).map(|_| left(&test)).collect();
    assert!(lefts.len() > 1, "{lefts:?}");
}

#[test]
fn a_log_that_was_closed_is_opened_again_by_a_crash_and_ended_in_order() {
    let test = TestLog::new();
    append(&topic(&test, Durability::Process), 0..3);
    test.log().close().unwrap();
    assert!(matches!(test.log().topic("orders"), Err(Error::Closed)));
    assert!(test.crash(Survives::SyncedOnly).unwrap().is_empty()); // closing synced
    assert_eq!(values(&test), [0, 1, 2]);
}

#[test]
fn an_empty_log_may_crash_too() {
    for survives in EVERY_WAY {
        let test = TestLog::new();
        assert!(test.crash(survives).unwrap().is_empty());
        assert_eq!(test.log().topics().len(), 0);
    }
}

// ── old handles

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

// ── groups

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

// ── time

#[test]
fn time_stands_still_until_it_is_moved_and_goes_on_over_a_crash() {
    let test = TestLog::new();
    let begin = test.now();
    assert_eq!(begin.as_millis(), 1_577_836_800_000);
    append(&topic(&test, Durability::Power), 0..1);
    test.advance(Duration::from_secs(60));
    test.crash(Survives::Everything).unwrap();
    append(&test.log().topic("orders").unwrap(), 1..2);
    let times: Vec<i64> = orders(&test)
        .entries(..)
        .map(|entry| entry.unwrap().timestamp().as_millis() - begin.as_millis())
        .collect();
    assert_eq!(times, [0, 60_000]);
    assert_eq!(test.now().as_millis() - begin.as_millis(), 60_000);
}

#[test]
fn nothing_waits_unless_it_is_said() {
    let test = TestLog::new();
    topic(&test, Durability::Power);
    let mut kitchen = join(&test);
    assert!(kitchen.poll(Duration::MAX).unwrap().is_empty());
    assert!(kitchen.next_batch().unwrap().is_none());
}

// ── faults

#[test]
fn a_write_that_fails_is_rejected_once_and_leaves_nothing() {
    for level in [Durability::Power, Durability::Process] {
        let test = TestLog::new();
        let topic = topic(&test, level);
        for n in 0..3 {
            test.fail_next(Call::Write, ErrorKind::StorageFull);
            let error = topic.append(("customer-7", "lost")).unwrap_err();
            assert!(matches!(error, Error::NoSpace { .. }), "{error}");
            assert_eq!(error.outcome(), Outcome::Rejected);
            append(&topic, n..=n);
        }
        test.crash(Survives::Everything).unwrap();
        assert_eq!(values(&test), [0, 1, 2]);
    }
}

#[test]
fn the_kind_of_the_error_is_given_back() {
    let test = TestLog::new();
    let topic = topic(&test, Durability::Power);
    append(&topic, 0..1);
    let source = |wanted: ErrorKind| {
        test.fail_next(Call::Write, wanted);
        match topic.append(("customer-7", "lost")).unwrap_err() {
            Error::Io { source, .. } => source,
            other => panic!("{wanted:?}: {other}"),
        }
    };
    for wanted in [
        ErrorKind::OutOfMemory,
        ErrorKind::PermissionDenied,
        ErrorKind::ResourceBusy,
        ErrorKind::StaleNetworkFileHandle,
    ] {
        assert_eq!(source(wanted).kind(), wanted);
    }
    for full in [
        ErrorKind::StorageFull,
        ErrorKind::QuotaExceeded,
        ErrorKind::FileTooLarge,
    ] {
        test.fail_next(Call::Write, full);
        let error = topic.append(("customer-7", "lost")).unwrap_err();
        assert!(matches!(error, Error::NoSpace { .. }), "{full:?}: {error}");
    }
    for other in [ErrorKind::Other, ErrorKind::NotFound, ErrorKind::WouldBlock] {
        assert_eq!(source(other).raw_os_error(), Some(EIO), "{other:?}");
    }
    test.fail_next(Call::Write, ErrorKind::Interrupted);
    append(&topic, 1..2); // tried again
    assert_eq!(values(&test), [0, 1]);
}

#[test]
fn an_append_whose_sync_fails_is_indeterminate_and_the_partition_stops_until_it_recovers() {
    let test = TestLog::new();
    let topic = topic(&test, Durability::Power);
    append(&topic, 0..1);
    test.fail_next(Call::Sync, ErrorKind::Other);
    let error = topic.append(("customer-7", "1")).unwrap_err();
    assert!(matches!(error, Error::Indeterminate { .. }), "{error}");
    let error = topic.append(("customer-7", "2")).unwrap_err();
    assert!(matches!(error, Error::Poisoned { .. }), "{error}");
    assert_eq!(values(&test), [0]); // reads go on

    topic.partition(0).unwrap().recover().unwrap();
    append(&topic, 3..4);
    let found = values(&test);
    assert!(found == [0, 3] || found == [0, 1, 3], "{found:?}");
}

#[test]
fn what_a_failed_sync_left_in_memory_survives_the_process_and_not_the_power() {
    for (survives, wanted) in [
        (Survives::Everything, vec![0, 1]),
        (Survives::SyncedOnly, vec![0]),
    ] {
        let test = TestLog::new();
        let topic = topic(&test, Durability::Power);
        append(&topic, 0..1);
        test.fail_next(Call::Sync, ErrorKind::Other);
        topic.append(("customer-7", "1")).unwrap_err();
        test.crash(survives).unwrap();
        assert_eq!(values(&test), wanted, "{survives:?}");
        append(&test.log().topic("orders").unwrap(), 2..3); // reopening made it sound again
    }
}

#[test]
fn the_first_append_of_a_topic_meets_a_failing_sync_as_any_other_does() {
    let test = TestLog::new();
    let topic = topic(&test, Durability::Power);
    test.fail_next(Call::Sync, ErrorKind::Other);
    let error = topic.append(("customer-7", "0")).unwrap_err();
    assert!(matches!(error, Error::Indeterminate { .. }), "{error}");
}

#[test]
fn a_sync_of_the_log_tells_that_it_failed() {
    let test = TestLog::new();
    let topic = topic(&test, Durability::Process);
    append(&topic, 0..1);
    test.fail_next(Call::Sync, ErrorKind::Other);
    assert!(test.log().sync().is_err());
    let error = topic.append(("customer-7", "1")).unwrap_err();
    assert!(matches!(error, Error::Poisoned { .. }), "{error}");
}

#[test]
fn a_topic_whose_rename_fails_is_not_there_and_can_be_made_again() {
    let test = TestLog::new();
    test.fail_next(Call::Rename, ErrorKind::PermissionDenied);
    let made = test.log().create_topic("orders", TopicConfig::new());
    assert!(matches!(made, Err(Error::Io { call: "rename", .. })));
    assert!(matches!(
        test.log().topic("orders"),
        Err(Error::NotFound { .. })
    ));
    append(&topic(&test, Durability::Power), 0..1);
    assert_eq!(values(&test), [0]);
}

#[test]
fn a_commit_that_fails_was_not_done_and_appends_do_not_meet_its_fault() {
    let test = TestLog::new();
    let topic = topic(&test, Durability::Power);
    append(&topic, 0..2);
    let mut kitchen = join(&test);
    assert_eq!(poll(&mut kitchen), [0, 1]);
    test.fail_next(Call::Commit, ErrorKind::StorageFull);
    append(&topic, 2..3);
    let error = kitchen.commit().unwrap_err();
    assert!(matches!(error, Error::NoSpace { .. }), "{error}");
    assert_eq!(kitchen.committed(&at()).unwrap(), None);
    kitchen.commit().unwrap();
    assert_eq!(kitchen.committed(&at()).unwrap(), Some(Offset::new(2)));
    test.crash(Survives::Everything).unwrap();
    assert_eq!(poll(&mut join(&test)), [2]);
}

#[test]
fn faults_that_were_asked_for_twice_happen_twice_and_a_crash_forgets_them() {
    let test = TestLog::new();
    let topic = topic(&test, Durability::Power);
    for _ in 0..2 {
        test.fail_next(Call::Write, ErrorKind::StorageFull);
    }
    assert!(topic.append(("customer-7", "lost")).is_err());
    assert!(topic.append(("customer-7", "lost")).is_err());
    append(&topic, 0..1);
    test.fail_next(Call::Write, ErrorKind::StorageFull);
    test.crash(Survives::Everything).unwrap();
    append(&test.log().topic("orders").unwrap(), 1..2);
}

// ── threads

/// A consumer that polls in a thread of its own until it is told to stop, and tells what each poll gave.
fn polling<'s>(
    threads: &'s thread::Scope<'s, '_>,
    mut kitchen: Consumer,
    timeout: Duration,
) -> mpsc::Receiver<Result<usize>> {
    let (told, polls) = mpsc::channel();
    threads.spawn(move || {
        loop {
            let polled = kitchen.poll(timeout).map(|batch| batch.len());
            let goes_on = polled.is_ok();
            if told.send(polled).is_err() || !goes_on {
                return;
            }
        }
    });
    polls
}

#[test]
fn a_blocked_poll_ends_with_a_record_with_a_wake_and_with_a_crash() {
    let test = TestLog::new().blocking();
    let topic = topic(&test, Durability::Power);
    for survives in EVERY_WAY {
        let kitchen = join(&test);
        let wake = kitchen.wake_handle();
        thread::scope(|threads| {
            let polls = polling(threads, kitchen, Duration::MAX);
            append(&test.log().topic("orders").unwrap(), 0..1);
            assert!(polls.recv().unwrap().unwrap() > 0);
            wake.wake();
            let ended = polls.iter().find(Result::is_err).unwrap();
            assert!(matches!(ended, Err(Error::Woken)));
        });
        let kitchen = join(&test);
        thread::scope(|threads| {
            let polls = polling(threads, kitchen, Duration::MAX);
            assert!(polls.recv().unwrap().unwrap() > 0); // what was read is not committed
            test.crash(survives).unwrap();
            let ended = polls.iter().find(Result::is_err).unwrap();
            assert!(matches!(ended, Err(Error::Closed)));
        });
    }
    drop(topic);
}

#[test]
fn a_blocked_poll_ends_when_the_clock_has_moved_by_its_timeout_and_not_before() {
    let test = TestLog::new().blocking();
    topic(&test, Durability::Power);
    let kitchen = join(&test);
    let wake = kitchen.wake_handle();
    thread::scope(|threads| {
        let polls = polling(threads, kitchen, 5 * SECOND);
        // When the other thread's poll begins cannot be known, so time is moved until one has ended: at most 5 s had passed in it.
        let mut moved = Duration::ZERO;
        for _ in 0..3 {
            let mut ended = None;
            while ended.is_none() {
                test.advance(SECOND);
                moved += SECOND;
                ended = polls.try_recv().ok();
            }
            assert_eq!(ended.unwrap().unwrap(), 0);
        }
        assert!(moved >= 15 * SECOND);
        wake.wake();
        while polls.recv().unwrap().is_ok() {}
    });
}

#[test]
fn a_blocked_poll_of_no_time_does_not_wait() {
    let test = TestLog::new().blocking();
    topic(&test, Durability::Power);
    assert_eq!(poll(&mut join(&test)), [0; 0]);
}

#[test]
fn a_blocked_service_loop_serves_what_other_threads_write_and_ends_when_it_is_woken() {
    let test = TestLog::new().blocking();
    let topic = topic(&test, Durability::Power);
    let mut kitchen = join(&test);
    let wake = kitchen.wake_handle();
    let (served, tally) = mpsc::channel();
    thread::scope(|threads| {
        threads.spawn(move || {
            while let Some(batch) = kitchen.next_batch().unwrap() {
                for order in &batch {
                    served.send(order.offset().get()).unwrap();
                }
                kitchen.commit().unwrap();
            }
            kitchen.close().unwrap();
        });
        for writer in 0..2 {
            let topic = &topic;
            threads.spawn(move || append(topic, writer * 50..writer * 50 + 50));
        }
        let offsets: Vec<u64> = tally.iter().take(100).collect();
        assert_eq!(offsets, (0..100).collect::<Vec<_>>());
        wake.wake();
    });
    let committed = test.log().group("kitchen").committed().unwrap();
    assert_eq!(committed.next(&at()), Some(Offset::new(100)));
}

#[test]
fn an_append_that_was_acknowledged_to_a_thread_before_the_crash_is_there_after_it() {
    for seed in 0..10 {
        let test = TestLog::seeded(seed);
        let topic = topic(&test, Durability::Power);
        let (told, acknowledged) = mpsc::channel();
        let last = thread::scope(|threads| {
            threads.spawn(move || {
                for n in 0.. {
                    match topic.append(("customer-7", &u32::to_string(&n))) {
                        Ok(position) => told.send(position.offset().get()).unwrap(),
                        Err(_) => return,
                    }
                }
            });
            acknowledged.recv().unwrap();
            test.crash(EVERY_WAY[seed as usize % 4]).unwrap();
            acknowledged.iter().last().unwrap_or(0)
        });
        let found = values(&test);
        assert_eq!(found, (0..found.len() as u32).collect::<Vec<_>>());
        assert!(found.len() as u64 > last, "seed {seed}: {last} is missing");
    }
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
