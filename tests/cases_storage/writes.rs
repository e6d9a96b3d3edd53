//! What was said to be written, and what is there: B5, B6, B15, B16 and B17.

use std::time::Duration;

use thalweg::testing::{CrashModel, Disk, DiskCall, DiskError, FailedSync, Fault, Short};
use thalweg::{Durability, Error, Log, Offset, Outcome, TopicConfig};

use super::logs::{end, files, fill, fresh, killed, numbered, one, open, rows, t0, unplugged};

const LEVELS: [Durability; 3] = [
    Durability::Power,
    Durability::Process,
    Durability::Interval {
        time: Duration::from_secs(60),
        bytes: 1 << 30,
    },
];

/// What the group reads after its commit, without waiting.
fn poll(log: &Log) -> Vec<(u64, String)> {
    let mut member = log.group("g").subscribe(["t"]).join().unwrap();
    let batch = member.poll(Duration::ZERO).unwrap();
    let read = batch
        .iter()
        .map(|entry| (entry.offset().get(), entry.value_str().unwrap().to_owned()));
    let read = read.collect();
    member.commit().unwrap();
    member.close().unwrap();
    read
}

#[test]
fn b05_a_write_that_failed_is_nowhere_to_be_seen() {
    let writes = [
        Fault::error(DiskCall::Write, DiskError::Io),
        Fault::error(DiskCall::Write, DiskError::NoSpace),
        Fault::short_write_then(Short::Half, DiskError::NoSpace),
        Fault::short_write_then(Short::Bytes(1), DiskError::Io),
    ];
    for level in LEVELS {
        for fault in &writes {
            let (disk, log, partition) = fresh(TopicConfig::new().durability(level));
            fill(&partition, 0..5);
            let mut member = log.group("g").subscribe(["t"]).join().unwrap();
            assert_eq!(member.poll(Duration::ZERO).unwrap().len(), 5);
            disk.fail(fault.clone().on(".log"));
            let error = partition.append(("k", "phantom")).unwrap_err();
            assert_eq!(
                (disk.struck() > 0, error.outcome()),
                (true, Outcome::Rejected),
                "{error:?}"
            );
            assert_eq!(end(&partition), 5);
            let dead = open(&killed(&disk));
            assert!(
                dead.recovery().is_empty(),
                "it is rolled back: {:?}",
                dead.recovery()
            );
            assert!(partition.get(Offset::new(5)).unwrap().is_none());
            assert!(member.poll(Duration::ZERO).unwrap().is_empty());
            log.sync().unwrap();
            assert_eq!(rows(&t0(&open(&unplugged(&disk)))), numbered(0..5));
            fill(&partition, 5..6);
            assert_eq!(member.poll(Duration::ZERO).unwrap().len(), 1);
            assert_eq!(rows(&t0(&open(&killed(&disk)))), numbered(0..6));
        }
    }
}

/// A sync that fails: nobody is told that the record is durable, now or later.
#[test]
fn b05_a_sync_that_failed_is_not_made_good_by_the_next_one() {
    for failed in [FailedSync::Keep, FailedSync::Revert] {
        let (disk, log, partition) = fresh(TopicConfig::new());
        fill(&partition, 0..5);
        let mut member = log.group("g").subscribe(["t"]).join().unwrap();
        assert_eq!(member.poll(Duration::ZERO).unwrap().len(), 5);
        disk.fail(Fault::sync(DiskCall::SyncData, failed, DiskError::Io).on(".log"));
        let error = partition.append(("k", "unknown")).unwrap_err();
        assert_eq!(error.outcome(), Outcome::Indeterminate, "{error:?}");
        assert_eq!(end(&partition), 5, "readers do not see it");
        assert!(member.poll(Duration::ZERO).unwrap().is_empty());
        for again in [partition.append(("k", "v")).map(drop), log.sync()] {
            assert!(matches!(again, Err(Error::Poisoned { .. })), "{again:?}");
        }
        let held = rows(&t0(&open(&unplugged(&disk))));
        assert_eq!(held[..5], numbered(0..5));
        assert!(held.len() == 5 || held[5..] == [(5, "unknown".to_owned())]);
    }
}

/// Whatever a roll has done when the machine stops, the end is 10, and the group goes on there.
#[test]
fn b06_the_end_never_goes_back_over_a_roll() {
    let (disk, log, partition) = fresh(TopicConfig::new());
    fill(&partition, 0..10);
    assert_eq!(poll(&log).len(), 10);
    log.sync().unwrap();
    let before = disk.points();
    partition.roll().unwrap();
    assert!(disk.points() > before + 4);
    for model in [
        CrashModel::ProcessKill,
        CrashModel::LostSuffix,
        CrashModel::LostPages,
        CrashModel::GarbagePages,
    ] {
        for point in before..=disk.points() {
            for seed in 0..16 {
                let image = disk.crash(point, model, seed);
                let log = open(&image);
                let partition = t0(&log);
                assert_eq!(
                    partition.offsets(),
                    Offset::ZERO..Offset::new(10),
                    "{model:?} {point} {seed}"
                );
                fill(&partition, 10..11);
                assert_eq!(poll(&log), numbered(10..11), "{model:?} {point} {seed}");
            }
        }
    }
}

/// Without `STATE` and indexes nobody knows how far anything was synced, so everything is looked at.
#[test]
fn b15_recovery_needs_no_side_file() {
    for level in LEVELS {
        let (disk, log, partition) = fresh(
            TopicConfig::new()
                .durability(level)
                .segment_bytes(900)
                .offset_span(1000),
        );
        fill(&partition, 0..20);
        assert_eq!(poll(&log).len(), 20);
        fill(&partition, 20..35);
        let image = killed(&disk);
        assert!(files(&image, "t", ".log").len() > 2);
        image.remove("/log/STATE").unwrap();
        for path in files(&image, "t", ".idx") {
            image.remove(path).unwrap();
        }
        let log = open(&image);
        let partition = t0(&log);
        assert_eq!(rows(&partition), numbered(0..35), "{level:?}");
        let next = end(&partition);
        // Below `Power` more may have been given out than is known, so the span is skipped.
        assert!(
            if level == Durability::Power {
                next == 35
            } else {
                next > 35
            },
            "{level:?}: {next}"
        );
        assert_eq!(partition.append(("k", "x")).unwrap().offset().get(), next);
        let mut wanted = numbered(20..35);
        wanted.push((next, "x".to_owned()));
        assert_eq!(poll(&log), wanted, "{level:?}: the commit is there");
    }
}

/// Only what is synced, names included, is left at each acknowledgement: files cannot have vanished.
#[test]
fn b16_a_new_segment_does_not_vanish_with_its_name() {
    let disk = Disk::new();
    let log = open(&disk);
    let partition = one(&log
        .create_topic("t", TopicConfig::new().segment_bytes(500))
        .unwrap());
    for n in 0..30 {
        fill(&partition, n..n + 1);
        let image = unplugged(&disk);
        assert_eq!(rows(&t0(&open(&image))), numbered(0..n + 1));
    }
    assert!(files(&disk, "t", ".log").len() > 5);
}

/// The directory cannot be synced: the append that needs the new file is not acknowledged.
#[test]
fn b16_an_append_behind_a_lost_directory_sync_is_refused() {
    let (disk, _log, partition) = fresh(TopicConfig::new());
    disk.fail(Fault::error(DiskCall::SyncDir, DiskError::Io).lasting());
    let error = partition.append(("k", "v")).unwrap_err();
    assert!(disk.struck() > 0);
    assert_eq!(error.outcome(), Outcome::Rejected, "{error:?}");
    disk.heal();
    let image = unplugged(&disk);
    assert!(rows(&t0(&open(&image))).is_empty());
}

#[test]
fn b17_at_power_ok_means_synced() {
    let (disk, _log, partition) = fresh(TopicConfig::new());
    fill(&partition, 0..1);
    for n in 1..5 {
        disk.mark();
        fill(&partition, n..n + 1);
        assert_eq!(
            disk.calls().get(&DiskCall::SyncData),
            Some(&1),
            "{:?}",
            disk.calls()
        );
        assert_eq!(rows(&t0(&open(&unplugged(&disk)))), numbered(0..n + 1));
    }
    disk.fail(Fault::error(DiskCall::SyncData, DiskError::Io).on(".log"));
    partition.append(("k", "v")).unwrap_err();
}

#[test]
fn b17_below_power_everything_before_a_sync_survives() {
    for level in LEVELS {
        let (disk, log, partition) = fresh(TopicConfig::new().durability(level).offset_span(1000));
        fill(&partition, 0..3);
        log.sync().unwrap();
        let durable = disk.points();
        fill(&partition, 3..5);
        for model in [
            CrashModel::LostSuffix,
            CrashModel::LostPages,
            CrashModel::GarbagePages,
        ] {
            for point in durable..=disk.points() {
                for seed in 0..8 {
                    let held = rows(&t0(&open(&disk.crash(point, model, seed))));
                    assert!(
                        held.len() >= 3,
                        "{level:?} {model:?} {point} {seed}: {held:?}"
                    );
                    assert_eq!(held, numbered(0..held.len() as u64));
                }
            }
        }
    }
}
