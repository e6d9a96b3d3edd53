//! Scenarios about what survives, and about what a failed sync or a crash means afterwards.

use thalweg::testing::{CrashModel, Disk, DiskCall, DiskError, FailedSync, Fault, Variants};
use thalweg::{Durability, Error, FindingKind, Outcome};

use crate::ground::{
    assert_whole, begin, fill, found, killed, open, partition, powerless, read, value,
};

/// States that a power loss after `after` operations may leave: all of them, or a sample.
fn states(disk: &Disk, after: usize) -> impl Iterator<Item = Disk> + '_ {
    let count = match disk.variants(after, CrashModel::LostPages) {
        Variants::All(count) => count,
        _ => 32,
    };
    (0..count).map(move |seed| disk.crash(after, CrashModel::LostPages, seed))
}

/// The first append of a partition makes a directory and a file: their names survive with it.
pub(crate) fn names_are_durable_at_power() {
    let disk = Disk::new();
    let (_log, orders) = begin(&disk, Durability::Power);
    fill(&orders, 0, 1);
    for crashed in states(&disk, disk.points()) {
        let log = open(&crashed).expect("the log opens");
        assert_whole(&partition(&log, 0), 1);
    }
}

pub(crate) fn acknowledged_at_power_survives() {
    let disk = Disk::new();
    let (_log, orders) = begin(&disk, Durability::Power);
    for n in 0..4 {
        fill(&orders, n, n + 1);
        let log = open(&powerless(&disk)).expect("the log opens");
        assert_whole(&partition(&log, 0), n + 1);
    }
}

/// The second sync would succeed, and the disk would still not have the record.
pub(crate) fn a_failed_sync_is_no_success() {
    let disk = Disk::new();
    let (_log, orders) = begin(&disk, Durability::Power);
    fill(&orders, 0, 2);
    disk.fail(Fault::sync(DiskCall::SyncData, FailedSync::Keep, DiskError::Io).on(".log"));
    let lost = orders.append(("key", value(2)));
    let outcome = lost.expect_err("the sync failed").outcome();
    assert_eq!(outcome, Outcome::Indeterminate);
    assert_eq!(disk.struck(), 1);
    let next = orders.append(("key", value(3)));
    assert!(matches!(next, Err(Error::Poisoned { .. })), "{next:?}");
    let log = open(&powerless(&disk)).expect("the log opens");
    assert_whole(&partition(&log, 0), 2);
}

/// Whatever a power loss leaves of two segments, the second one never stands on a first one that lost something.
pub(crate) fn a_segment_is_durable_before_its_successor() {
    let disk = Disk::new();
    let (_log, orders) = begin(&disk, Durability::Process);
    let filled = disk.points();
    fill(&orders, 0, 24);
    for after in filled..=disk.points() {
        for crashed in states(&disk, after) {
            let log = open(&crashed).expect("the log opens");
            let (numbers, error) = read(&partition(&log, 0));
            assert!(
                error.is_none(),
                "a hole behind {}: {error:?}",
                numbers.len()
            );
            assert!(!found(&log, FindingKind::Damaged), "a hole was found");
            assert!(numbers.iter().copied().eq(0..numbers.len() as u64));
        }
    }
}

/// Three lives: 0–9 are acknowledged, some are lost, new ones come. None of them gets an offset that was given out.
pub(crate) fn no_offset_is_given_out_twice() {
    let disk = Disk::new();
    let (log, orders) = begin(&disk, Durability::Process);
    fill(&orders, 0, 4);
    log.sync().expect("a sound disk");
    fill(&orders, 4, 10);
    let disk = powerless(&disk);
    let log = open(&disk).expect("the log opens");
    let orders = partition(&log, 0);
    let at = orders.append(("key", "second life")).expect("it goes on");
    assert!(
        at.offset().get() >= 10,
        "offset {} was given out before",
        at.offset().get()
    );
    assert!(found(&log, FindingKind::Gap));
    let log = open(&killed(&disk)).expect("the log opens");
    let entry = partition(&log, 0).get(at.offset()).expect("it is read");
    assert!(entry.is_some_and(|entry| entry.value() == Some(b"second life")));
}

/// Life 1 loses power. Life 2 writes to another partition only, and is killed. Life 3 must still know of the power loss.
pub(crate) fn an_untouched_partition_remembers_the_power_loss() {
    let disk = Disk::new();
    let (log, orders) = begin(&disk, Durability::Process);
    fill(&orders, 0, 4);
    log.sync().expect("a sound disk");
    fill(&orders, 4, 10);
    let disk = powerless(&disk);
    let log = open(&disk).expect("the log opens");
    fill(&partition(&log, 1), 0, 3);
    let log = open(&killed(&disk)).expect("the log opens");
    let at = partition(&log, 0)
        .append(("key", "third life"))
        .expect("it goes on");
    assert!(
        at.offset().get() >= 10,
        "offset {} was given out before",
        at.offset().get()
    );
}

/// The log was closed in order, opened again, and written; then power is lost. Whatever is left, the old `CLOSE` speaks of
/// another log.
pub(crate) fn a_stale_close_is_not_believed() {
    let disk = Disk::new();
    let (log, orders) = begin(&disk, Durability::Process);
    fill(&orders, 0, 3);
    drop(orders);
    log.close().expect("a sound disk");
    let log = open(&disk).expect("the log opens");
    let opened = disk.points();
    fill(&partition(&log, 0), 3, 5);
    for after in opened..=disk.points() {
        for crashed in states(&disk, after) {
            let log = open(&crashed).expect("the log opens");
            let (numbers, error) = read(&partition(&log, 0));
            assert!(error.is_none(), "{error:?}");
            assert!(numbers.len() >= 3, "lost what was synced");
            assert!(
                !found(&log, FindingKind::Damaged),
                "an unfinished append is called damage"
            );
        }
    }
}

pub(crate) fn a_poisoned_partition_is_not_closed_in_order() {
    let disk = Disk::new();
    let (log, orders) = begin(&disk, Durability::Power);
    fill(&orders, 0, 2);
    disk.fail(Fault::sync(DiskCall::SyncData, FailedSync::Keep, DiskError::Io).on(".log"));
    let lost = orders.append(("key", value(2)));
    assert!(lost.is_err(), "the sync failed");
    drop(orders);
    let _ = log.close(); // it may say that not everything could be synced
    let log = open(&disk).expect("the log opens");
    let orders = partition(&log, 0);
    let (numbers, error) = read(&orders);
    assert!(error.is_none(), "{error:?}");
    let end = numbers.len() as u64;
    assert!((2..=3).contains(&end));
    let next = orders.append(("key", "goes on"));
    assert!(
        next.is_ok(),
        "a partition that only failed to sync is called damaged: {next:?}"
    );
}

/// A group goes on where it committed, and what it committed is there.
pub(crate) fn a_durable_commit_stands_behind_its_records() {
    let disk = Disk::new();
    let (log, orders) = begin(&disk, Durability::Process);
    fill(&orders, 0, 5);
    let topic = orders.topic_partition();
    let mut group = log.group("g").subscribe([topic.topic()]).join().unwrap();
    while !group.poll(std::time::Duration::ZERO).unwrap().is_empty() {}
    group.commit_durable().expect("nothing fails");
    let log = open(&powerless(&disk)).expect("the log opens");
    let committed = log.group("g").committed().expect("the ledger is sound");
    let next = committed.next(&topic).expect("it was durable");
    assert_eq!(next.get(), 5);
    assert_whole(&partition(&log, 0), 5);
}
