//! F120: a durable commit survives, and never stands ahead of the records that it speaks of.

use std::time::Duration;

use thalweg::Durability::{self, Power, Process};
use thalweg::testing::{CrashModel, Disk, ManualClock};
use thalweg::{Error, Log, Offset};

use crate::common::{self, scale};
use crate::group::{TOPIC, committed, fill, join, open};

const LOSSES: [CrashModel; 3] = [
    CrashModel::LostSuffix,
    CrashModel::LostPages,
    CrashModel::GarbagePages,
];

/// A group that has read so many records and committed nothing of them.
fn read(log: &Log, records: u64) -> thalweg::Consumer {
    let mut group = join(log, "g", TOPIC);
    let mut seen = 0;
    while seen < records {
        seen += group.poll(Duration::ZERO).unwrap().len() as u64;
    }
    group
}

/// The offsets that are there.
fn offsets(log: &Log) -> Vec<u64> {
    let partition = log.topic(TOPIC).unwrap().partition(0).unwrap();
    let entries = partition.entries(..).map(|entry| entry.unwrap());
    entries.map(|entry| entry.offset().get()).collect()
}

/// What the group finds after a crash, and that a record appended then is not skipped.
fn found(disk: &Disk) -> (Option<u64>, Vec<u64>) {
    let log = open(disk);
    let found = (committed(&log, "g", TOPIC), offsets(&log));
    let partition = log.topic(TOPIC).unwrap().partition(0).unwrap();
    let new = partition.append(("k", "new")).unwrap().offset();
    let mut group = join(&log, "g", TOPIC);
    let mut last = None;
    loop {
        let batch = group.poll(Duration::ZERO).unwrap();
        let Some(entry) = batch.iter().last() else {
            break;
        };
        last = Some(entry.offset());
    }
    assert_eq!(
        last,
        Some(new),
        "a new record is read, whatever was committed"
    );
    found
}

#[test]
fn f120_a_durable_commit_and_its_records_survive_every_power_loss() {
    for level in [Process, Power] {
        let disk = Disk::new();
        let log = open(&disk);
        fill(&log, TOPIC, level, 10);
        let mut group = read(&log, 10);
        let before = disk.points();
        group.commit_durable().unwrap();
        let after = disk.points();
        fill(&log, TOPIC, level, 3);
        for model in LOSSES {
            for point in before..=disk.points() {
                for seed in 0..6 * scale() {
                    let (commit, there) = found(&disk.crash(point, model, seed));
                    let what = format!("{level:?}, {model:?}, {point}, {seed}: {commit:?}");
                    assert!(
                        commit == Some(10) || commit.is_none() && point < after,
                        "{what}"
                    );
                    if commit.is_some() {
                        assert!(there.starts_with(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn f120_a_commit_that_reached_the_disk_alone_skips_no_new_record() {
    let disk = Disk::new();
    let log = open(&disk);
    fill(&log, TOPIC, Process, 10);
    log.sync().unwrap();
    fill(&log, TOPIC, Process, 10);
    let mut group = read(&log, 20);
    let before = disk.points();
    group.commit().unwrap();
    let (mut alone, mut lost) = (0, 0);
    for model in LOSSES {
        for point in before..=disk.points() {
            for seed in 0..40 * scale() {
                let (commit, there) = found(&disk.crash(point, model, seed));
                assert!(there.len() >= 10);
                assert!(commit.is_none() || commit == Some(20));
                alone += u64::from(commit.is_some() && there.len() < 20);
                lost += u64::from(commit.is_none());
            }
        }
    }
    assert!(
        alone > 0 && lost > 0,
        "the crashes lose something: {alone}, {lost}"
    );
}

#[test]
fn f120_what_is_synced_in_the_background_is_synced_behind_its_records() {
    let disk = Disk::new();
    let clock = ManualClock::new();
    let log = common::open(&disk, &clock).unwrap();
    fill(&log, TOPIC, Process, 10);
    let mut group = read(&log, 10);
    group.commit().unwrap();
    clock.advance(Duration::from_secs(1));
    log.maintain().unwrap();
    let (commit, there) = found(&disk.crash(disk.points(), CrashModel::LostSuffix, 0));
    assert_eq!((commit, there.len()), (Some(10), 10));
    // A record that is lost takes its commit with it: the ledger is never synced alone.
    let mut lost = 0;
    for point in 0..disk.points() {
        let crashed = disk.crash(point, CrashModel::LostSuffix, 0);
        let log = open(&crashed);
        if log.topic(TOPIC).is_err() || log.topic(TOPIC).unwrap().partitions().is_empty() {
            continue;
        }
        let (commit, there) = (committed(&log, "g", TOPIC), offsets(&log));
        assert!(commit.is_none() || there.len() == 10, "{point}: {commit:?}");
        lost += u64::from(commit.is_none());
    }
    assert!(lost > 0);
}

#[test]
fn a_durable_commit_makes_an_earlier_one_durable_too() {
    let disk = Disk::new();
    let log = open(&disk);
    fill(&log, TOPIC, Process, 10);
    let mut group = read(&log, 10);
    group.commit().unwrap();
    group.commit_durable().unwrap(); // nothing was read since
    let (commit, there) = found(&disk.crash(disk.points(), CrashModel::LostSuffix, 0));
    assert_eq!((commit, there.len()), (Some(10), 10));
}

#[test]
fn a_durable_commit_inside_a_loop_by_value_is_refused() {
    let log = Log::in_memory();
    fill(&log, TOPIC, Durability::Power, 5);
    let mut group = join(&log, "g", TOPIC);
    let mut entries = group.poll(Duration::ZERO).unwrap().into_iter();
    entries.next();
    let refused = group.commit_durable();
    assert!(matches!(
        refused,
        Err(Error::BatchUnfinished { left: 4, .. })
    ));
    drop(entries);
    let nothing: Option<Offset> = group.committed(&crate::group::at(TOPIC)).unwrap();
    assert_eq!(nothing, None);
}
