//! F24, F28, F66b, F68, F123, F124: passes one after the other, errors at every call, damage, and what is left of a long life.

use std::collections::BTreeSet;
use std::time::Duration;

use thalweg::Durability::{self, Process};
use thalweg::testing::{CrashModel, Disk, DiskCall, DiskError, FailedSync, Fault, ManualClock};
use thalweg::{Error, Log, Offset, Positions, TopicConfig, TopicPartition};

use crate::common;
use crate::group::{Groups, RECORDS, TOPIC, assigned, fill, ledger_bytes, open, segments};

#[test]
fn f66b_passes_rolls_and_openings_in_turn_lose_no_commit_and_leave_few_files() {
    let mut disk = Disk::new();
    let mut groups = Groups::new(15);
    let (mut there, mut gone) = (BTreeSet::new(), BTreeSet::new());
    for round in 0..12 {
        let log = open(&disk);
        fill(&log, TOPIC, Process, if round == 0 { RECORDS } else { 1 });
        groups.check(&log, false).unwrap();
        groups.fill_segment(&log, &disk);
        log.maintain().unwrap();
        groups.check(&log, false).unwrap();
        if round % 4 == 1 {
            log.maintain().unwrap(); // there is nothing left to do
        }
        groups.commit_one(&log);
        assert!(segments(&disk).len() <= 3, "{round}: {:?}", segments(&disk));
        let now: BTreeSet<_> = segments(&disk).into_iter().map(|(path, _)| path).collect();
        assert!(now.is_disjoint(&gone), "{round}: {now:?} of {gone:?}");
        gone.extend(there.difference(&now).cloned());
        there = now;
        if round % 3 == 0 {
            log.close().unwrap();
        } else if round % 3 == 1 {
            log.sync().unwrap();
            drop(log);
            disk = disk.crash(disk.points(), CrashModel::LostSuffix, 0);
        } else {
            disk = disk.crash(disk.points(), CrashModel::ProcessKill, 0);
        }
    }
}

/// So many commits of one group in a topic of many partitions.
fn many_commits(log: &Log, partitions: u32, rounds: u64) {
    let config = TopicConfig::new()
        .partitions(partitions)
        .durability(Process);
    let topic = log.topic_or_create("wide", config).unwrap();
    for partition in topic.partitions() {
        partition
            .append_all((0..rounds).map(|_| ("k", "v")))
            .unwrap();
    }
    let mut group = assigned(log, "wide", "wide");
    for round in 1..=rounds {
        let next = (0..partitions).map(|n| TopicPartition::new("wide", n).at(Offset::new(round)));
        group.commit_at(&next.collect::<Positions>()).unwrap();
    }
}

#[test]
fn f124_many_commits_leave_no_more_than_the_newest_of_each_key() {
    let disk = Disk::new();
    let log = open(&disk);
    many_commits(&log, 200, 500);
    let before = ledger_bytes(&disk);
    assert!(before > 4 << 20, "{before}");
    let report = log.maintain().unwrap();
    assert_eq!(report.segments_compacted, 1);
    let after = ledger_bytes(&disk);
    assert!(after < 16 << 10, "{after}");
    assert!(report.bytes_freed >= before - after - 1000, "{report:?}");
    log.close().unwrap();
    let log = open(&disk);
    assert!(log.recovery().is_empty());
    let committed = log.group("wide").committed().unwrap();
    assert_eq!(committed.iter().count(), 200);
    assert!(committed.iter().all(|p| p.offset() == Offset::new(500)));
}

/// A log whose ledger has a segment that was rewritten, and another that is worth it.
fn due() -> (Disk, Log, Groups) {
    let disk = Disk::new();
    let log = open(&disk);
    fill(&log, TOPIC, Process, RECORDS);
    let mut groups = Groups::new(12);
    groups.fill_segment(&log, &disk);
    log.maintain().unwrap();
    groups.fill_segment(&log, &disk);
    (disk, log, groups)
}

#[test]
fn f68_f123_damage_stops_the_pass_keeps_its_inputs_and_hides_no_commit() {
    let (disk, log, _groups) = due();
    let (first, len) = segments(&disk)[0].clone();
    disk.flip_bit(&first, 8 * (len / 2)).unwrap();
    let before = disk.read_file(&first).unwrap();
    for _ in 0..2 {
        assert!(log.maintain().unwrap_err().is_corruption());
        assert_eq!(disk.read_file(&first).unwrap(), before);
        assert_eq!(segments(&disk).len(), 3, "one more is sealed, none is gone");
    }
    fill(&log, TOPIC, Process, 1); // appends go on
    let mut one = Groups::new(1);
    one.commit_one(&log);
    one.check(&log, false).unwrap();
    log.close().unwrap();
    let log = open(&disk);
    assert!(
        log.group("never seen")
            .committed()
            .unwrap_err()
            .is_corruption()
    );
    assert!(log.maintain().unwrap_err().is_corruption());
}

#[test]
fn f28_a_full_disk_stops_the_pass_and_leaves_nothing_of_it() {
    let (disk, log, mut groups) = due();
    log.sync().unwrap();
    let names = |disk: &Disk| segments(disk).into_iter().map(|(path, _)| path);
    disk.set_capacity(Some(disk.used() + 20_000)); // enough for the roll
    assert!(matches!(log.maintain(), Err(Error::NoSpace { .. })));
    let after: Vec<_> = names(&disk).collect();
    assert_eq!(after.len(), 3, "{after:?}");
    groups.check(&log, false).unwrap();
    disk.set_capacity(None);
    assert_eq!(log.maintain().unwrap().segments_compacted, 2);
    groups.commit_all(&log);
    log.close().unwrap();
    groups.check(&open(&disk), false).unwrap();
}

/// One call of a pass fails; whatever it answers, no commit is lost, in this process or the next.
fn fails(fault: &dyn Fn(u64) -> Fault, what: &str) {
    for n in 0..60 {
        let (disk, log, groups) = due();
        disk.fail(fault(n));
        let first = log.maintain();
        let struck = disk.struck() > 0;
        disk.heal();
        groups.check(&log, false).unwrap();
        let second = log.maintain();
        groups.check(&log, false).unwrap();
        let why = format!("{what} {n}: {first:?}, {second:?}");
        drop(log);
        for crash in [false, true] {
            let model = CrashModel::ProcessKill;
            let disk = if crash {
                disk.crash(disk.points(), model, 0)
            } else {
                disk.clone()
            };
            let log = open(&disk);
            groups
                .check_but_first(&log, false)
                .unwrap_or_else(|e| panic!("{why}: {e}"));
            let mut one = Groups::new(1);
            one.commit_one(&log);
            log.maintain().unwrap_or_else(|e| panic!("{why}: {e:?}"));
            log.close().unwrap();
            let log = open(&disk);
            groups
                .check_but_first(&log, false)
                .unwrap_or_else(|e| panic!("{why}: {e}"));
        }
        if !struck {
            return;
        }
    }
}

#[test]
fn f24_a_call_of_a_pass_that_fails_loses_no_commit() {
    fails(&|n| Fault::any(DiskError::Io).after(n), "any call");
}

#[test]
fn f24_a_sync_of_a_pass_that_fails_loses_no_commit() {
    for call in [DiskCall::SyncData, DiskCall::SyncAll, DiskCall::SyncDir] {
        let fault = |n| Fault::sync(call, FailedSync::Keep, DiskError::Io).after(n);
        fails(&fault, &format!("{call:?}"));
    }
}

#[test]
fn maintenance_of_a_closed_log_and_of_one_that_is_read_only_is_refused() {
    let disk = Disk::new();
    let log = open(&disk);
    let other = log.clone();
    log.close().unwrap();
    assert!(matches!(other.maintain(), Err(Error::Closed)));
    let dir = tempfile::tempdir().unwrap();
    Log::open(dir.path()).unwrap().close().unwrap();
    let log = Log::open_read_only(dir.path()).unwrap();
    assert!(matches!(log.maintain(), Err(Error::ReadOnly { .. })));
}

#[test]
fn what_time_demands_is_done_by_maintenance_when_it_is_due_and_not_before() {
    let disk = Disk::new();
    let clock = ManualClock::new();
    let log = common::open(&disk, &clock).unwrap();
    let level = Durability::Interval {
        time: Duration::from_secs(5),
        bytes: 1 << 20,
    };
    fill(&log, TOPIC, level, 1);
    let survives = || {
        let crashed = disk.crash(disk.points(), CrashModel::LostSuffix, 0);
        let log = open(&crashed);
        let topic = log.topic(TOPIC).unwrap().partition(0).unwrap();
        topic.entries(..).count()
    };
    for step in 0..5 {
        log.maintain().unwrap();
        assert_eq!(survives(), 0, "after {step} s");
        clock.advance(Duration::from_secs(1));
    }
    log.maintain().unwrap();
    assert_eq!(survives(), 1);
    fill(&log, TOPIC, level, 1); // and again
    clock.advance(Duration::from_secs(5));
    log.maintain().unwrap();
    assert_eq!(survives(), 2);
}
