//! The level of durability, changed up and down: what was acknowledged is as safe as the level that counts, and what was seen stays.

use std::time::{Duration, Instant};

use thalweg::testing::{CrashModel, Disk, DiskCall, DiskError, FailedSync, Fault, ManualClock};
use thalweg::{Durability, Error, Log, Maintenance, Outcome};

use super::logs::{
    end, files, fill, fresh, killed, numbered, one, open, open_with, reopened, rows, unplugged,
};
use super::{INTERVAL, new};

const PROCESS: Durability = Durability::Process;
const POWER: Durability = Durability::Power;

#[test]
fn what_was_acknowledged_below_power_is_durable_when_the_level_is_raised() {
    for level in [PROCESS, INTERVAL] {
        let (disk, log, partition) = fresh(new().durability(level));
        fill(&partition, 0..50);
        assert!(rows(&reopened(&unplugged(&disk)).1).len() < 50);
        log.topic("t")
            .unwrap()
            .alter(new().durability(POWER))
            .unwrap();
        assert_eq!(rows(&reopened(&unplugged(&disk)).1), numbered(0..50));
        // And from now on each append is when it is acknowledged.
        for n in 50..60 {
            fill(&partition, n..n + 1);
            assert_eq!(rows(&reopened(&unplugged(&disk)).1), numbered(0..n + 1));
        }
    }
}

#[test]
fn a_lower_level_counts_from_the_next_append_and_no_offset_is_used_again() {
    let (disk, log, partition) = fresh(new().offset_span(1000));
    fill(&partition, 0..10);
    log.topic("t")
        .unwrap()
        .alter(new().durability(PROCESS))
        .unwrap();
    fill(&partition, 10..11); // begins a segment
    disk.mark();
    fill(&partition, 11..20);
    assert_eq!(
        disk.calls().keys().copied().collect::<Vec<_>>(),
        [DiskCall::Write]
    );
    let lost = unplugged(&disk);
    let (_log, partition) = reopened(&lost);
    assert_eq!(rows(&partition), numbered(0..10));
    let at = partition.append(("k", "v")).unwrap().offset().get();
    assert!(at >= 20, "{at} was another record's");
    assert_eq!(rows(&reopened(&killed(&disk)).1), numbered(0..20));
}

#[test]
fn the_first_append_at_another_level_begins_a_segment_and_no_other_does() {
    let (disk, log, partition) = fresh(new());
    let topic = log.topic("t").unwrap();
    let segments = || files(&disk, "t", ".log").len();
    fill(&partition, 0..2);
    let mut of = 1;
    for (n, level) in [PROCESS, POWER, INTERVAL, POWER].into_iter().enumerate() {
        // There and back changes nothing.
        for level in [POWER, PROCESS, POWER, level] {
            topic.alter(new().durability(level)).unwrap();
        }
        assert_eq!(segments(), of, "{level:?}");
        let n = 2 + 3 * n as u64;
        fill(&partition, n..n + 3);
        of += 1;
        assert_eq!(segments(), of, "{level:?}");
    }
    topic.alter(new().durability(INTERVAL)).unwrap();
    fill(&partition, 14..15);
    topic.alter(new().durability(PROCESS)).unwrap();
    fill(&partition, 15..16);
    assert_eq!(segments(), of + 1, "both are below power");
    assert_eq!(rows(&partition), numbered(0..16));
    log.close().unwrap();
    let (log, partition) = reopened(&disk);
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
    assert_eq!(rows(&partition), numbered(0..16));
}

#[test]
fn an_empty_segment_that_cannot_serve_is_replaced_and_never_sealed() {
    let changes = [
        (POWER, new().durability(PROCESS), 1),
        (PROCESS, new().durability(POWER), 1),
        // More records in a batch than the segment has offsets.
        (POWER, new().offset_span(10_000), 200),
    ];
    for (level, change, batch) in changes {
        let (disk, log, partition) = fresh(new().durability(level).offset_span(100));
        fill(&partition, 0..10);
        partition.roll().unwrap();
        log.topic("t").unwrap().alter(change).unwrap();
        let appended = partition.append_all(vec![("k", "v"); batch]).unwrap();
        assert_eq!(appended.start.get(), 10);
        let names = files(&disk, "t", ".log");
        let generation = |n: usize| names[n].to_string_lossy().ends_with("-00000001.log");
        assert_eq!((names.len(), generation(1)), (2, true), "{names:?}");
        log.close().unwrap();
        let (log, partition) = reopened(&disk);
        assert!(log.recovery().is_empty(), "{:?}", log.recovery());
        assert_eq!(end(&partition), 10 + batch as u64);
    }
}

#[test]
fn an_interval_covers_what_is_un_synced_already() {
    let clock = ManualClock::new();
    let interval = |bytes| Durability::Interval {
        time: Duration::from_secs(10),
        bytes,
    };
    for (bytes, within) in [(1 << 20, 10), (1, 0)] {
        let disk = Disk::new();
        let log = open_with(&disk, &clock);
        let topic = log.create_topic("t", new().durability(PROCESS)).unwrap();
        fill(&one(&topic), 0..20);
        log.maintain().unwrap();
        topic.alter(new().durability(interval(bytes))).unwrap();
        log.maintain().unwrap();
        let safe = || rows(&reopened(&unplugged(&disk)).1).len();
        assert_eq!(safe() == 20, within == 0);
        clock.advance(Duration::from_secs(within));
        log.maintain().unwrap();
        assert_eq!(safe(), 20);
    }
}

#[test]
fn a_shorter_interval_counts_for_what_waits_for_a_longer_one() {
    let clock = ManualClock::new();
    let disk = Disk::new();
    let log = open_with(&disk, &clock);
    let interval = |secs| Durability::Interval {
        time: Duration::from_secs(secs),
        bytes: 1 << 20,
    };
    let topic = log.create_topic("t", new().durability(interval(3600)));
    let topic = topic.unwrap();
    fill(&one(&topic), 0..20);
    topic.alter(new().durability(interval(2))).unwrap();
    clock.advance(Duration::from_secs(2));
    log.maintain().unwrap();
    assert_eq!(rows(&reopened(&unplugged(&disk)).1), numbered(0..20));
}

/// The thread that syncs is there from when the level asks for one.
#[test]
fn a_log_that_had_no_thread_gets_one_with_the_first_level_that_needs_it() {
    let disk = Disk::new();
    let every = Duration::from_secs(3600);
    let builder = Log::builder().maintenance(Maintenance::Background { every });
    let log = builder.open_on(&disk).unwrap();
    let topic = log.create_topic("t", new()).unwrap();
    fill(&one(&topic), 0..5);
    let soon = Durability::Interval {
        time: Duration::from_millis(1),
        bytes: 1 << 20,
    };
    topic.alter(new().durability(soon)).unwrap();
    fill(&one(&topic), 5..10);
    let begun = Instant::now();
    while rows(&reopened(&unplugged(&disk)).1).len() < 10 {
        assert!(begun.elapsed() < Duration::from_secs(10), "nobody syncs");
        std::thread::yield_now();
    }
}

/// What opening found at `Process` may be in the cache alone: it is durable when the level is raised, before anything is written.
#[test]
fn what_a_crash_left_is_durable_when_the_level_is_raised_before_the_first_write() {
    let (disk, _log, partition) = fresh(new().durability(PROCESS).offset_span(1000));
    fill(&partition, 0..20);
    let kill = killed(&disk);
    let (log, partition) = reopened(&kill);
    assert_eq!(rows(&partition), numbered(0..20));
    log.topic("t")
        .unwrap()
        .alter(new().durability(POWER))
        .unwrap();
    assert_eq!(rows(&reopened(&unplugged(&kill)).1), numbered(0..20));
    fill(&partition, 20..25);
    assert_eq!(rows(&reopened(&unplugged(&kill)).1), numbered(0..25));

    for (model, seed) in (0..8).flat_map(|seed| {
        [
            (CrashModel::LostPages, seed),
            (CrashModel::GarbagePages, seed),
        ]
    }) {
        let lost = disk.crash(disk.points(), model, seed);
        let (log, partition) = reopened(&lost);
        let (there, next) = (rows(&partition), end(&partition));
        log.topic("t")
            .unwrap()
            .alter(new().durability(POWER))
            .unwrap();
        assert_eq!((rows(&partition), end(&partition)), (there.clone(), next));
        let again = open(&unplugged(&lost));
        let partition = one(&again.topic("t").unwrap());
        assert_eq!(rows(&partition), there, "{model:?} {seed}");
        assert!(end(&partition) >= next, "{model:?} {seed}");
        let at = partition.append(("k", "v")).unwrap().offset().get();
        assert!(at >= 20, "{at} was another record's");
    }
}

#[test]
fn a_level_is_not_raised_where_a_sync_fails_and_the_others_go_on_as_before() {
    for failed in [FailedSync::Keep, FailedSync::Revert] {
        let disk = Disk::new();
        let log = open(&disk);
        let topic = log.create_topic("t", new().partitions(2).durability(PROCESS));
        let topic = topic.unwrap();
        for partition in topic.partitions() {
            fill(&partition, 0..10);
        }
        disk.fail(Fault::sync(DiskCall::SyncData, failed, DiskError::Io).on("/0/"));
        let refused = topic.alter(new().durability(POWER)).unwrap_err();
        assert!(matches!(refused, Error::Poisoned { .. }), "{refused:?}");
        assert_eq!(refused.outcome(), Outcome::Rejected);
        assert_eq!(topic.settings().durability, PROCESS);
        let [bad, good] = &topic.partitions()[..] else {
            panic!("there are two")
        };
        fill(good, 10..11);
        disk.mark();
        fill(good, 11..20);
        assert!(!disk.calls().contains_key(&DiskCall::SyncData));
        assert!(matches!(
            bad.append(("k", "v")),
            Err(Error::Poisoned { .. })
        ));
        bad.recover().unwrap();
        topic.alter(new().durability(POWER)).unwrap();
        let at = bad.append(("k", "last")).unwrap().offset().get();
        assert!(at >= 10, "{at} was another record's");
        let crashed = open(&unplugged(&disk));
        let topic = crashed.topic("t").unwrap();
        assert_eq!(rows(&topic.partition(1).unwrap()), numbered(0..20));
        assert_eq!(rows(&topic.partition(0).unwrap()), rows(bad));
    }
}

/// A record whose sync failed is not seen because the level is lower now: recovery says first whether it is there.
#[test]
fn what_failed_at_power_is_not_seen_at_a_lower_level_before_it_is_recovered() {
    let (disk, log, partition) = fresh(new());
    fill(&partition, 0..3);
    disk.fail(Fault::sync(DiskCall::SyncData, FailedSync::Keep, DiskError::Io).on(".log"));
    let unknown = partition.append(("k", "value-0003")).unwrap_err();
    assert_eq!(unknown.outcome(), Outcome::Indeterminate);
    log.topic("t")
        .unwrap()
        .alter(new().durability(PROCESS))
        .unwrap();
    assert_eq!(rows(&partition), numbered(0..3));
    partition.recover().unwrap();
    let there = rows(&partition);
    assert!(there == numbered(0..3) || there.len() == 4, "{there:?}");
    partition.append(("k", "v")).unwrap();
}

#[test]
fn opening_a_topic_compares_with_the_level_that_it_has_now() {
    let (_disk, log, _partition) = fresh(new().durability(PROCESS));
    let topic = log.topic("t").unwrap();
    let asks = |level| log.topic_or_create("t", new().durability(level)).map(drop);
    assert!(
        matches!(asks(POWER), Err(Error::ConfigMismatch { stored, .. }) if &*stored == "Process")
    );
    topic.alter(new().durability(POWER)).unwrap();
    asks(POWER).unwrap();
    topic.alter(new().durability(INTERVAL)).unwrap();
    asks(PROCESS).unwrap();
    assert!(matches!(asks(POWER), Err(Error::ConfigMismatch { .. })));
}
