//! A crash within an append, a roll or a close: what was acknowledged is there, and nothing is there in part.

use std::sync::atomic::{AtomicU64, Ordering};

use thalweg::testing::{CrashModel, Disk, DiskCall, DiskError, FailedSync, Fault, Variants};
use thalweg::{Durability, Error, Log, Offset, Outcome, Partition, Record};

use crate::common::{Dice, scale, seed};
use crate::story::{
    LEVELS, POWER_LOSSES, Story, again, create, every_crash, kinds, open, read, reopened, segments,
};

/// Singles and batches over several segments, with a sync of everything in the middle.
fn workload(disk: &Disk, level: Durability) -> (Log, Partition, Story) {
    let log = open(disk).unwrap();
    let partition = create(&log, level);
    let mut story = Story::new(level);
    for call in 0..18 {
        let (count, bytes) = match call % 6 {
            5 => (7, 40),
            2 => (3, 60),
            _ => (1, 90),
        };
        story.append(disk, &partition, count, bytes).unwrap();
        if call == 8 {
            log.sync().unwrap();
            story.synced(disk);
        }
    }
    assert!(segments(disk).len() > 3, "the workload rolls");
    (log, partition, story)
}

/// Opens a crashed disk, checks what is there, and lives on for a while.
fn check_life(crashed: &Disk, story: &Story, after: usize, model: CrashModel, state: &str) {
    let log = open(crashed).unwrap_or_else(|e| panic!("{state}: {e:?}"));
    let Ok(partition) = again(&log) else {
        assert_eq!(story.acked_by(after), 0, "{state}: the topic is gone");
        return;
    };
    let survived = story.check_crash(&partition, after, model, state);
    let mut story = story.as_of(after);
    story.go_on_with(survived);
    story.live_on(crashed, log, &partition, state);
}

fn crash_everywhere(level: Durability, models: &[CrashModel], most: u64) {
    let mut dice = Dice::new(seed());
    let disk = Disk::new();
    let (_log, _partition, story) = workload(&disk, level);
    for &model in models {
        let states = every_crash(&disk, 0, model, most, &mut dice, |after, crashed, state| {
            let state = format!("{level:?}, {state}");
            check_life(crashed, &story, after, model, &state);
        });
        assert!(states > disk.points() as u64);
    }
}

#[test]
fn f01_a_kill_between_any_two_calls_loses_nothing_that_was_acknowledged() {
    for level in LEVELS {
        crash_everywhere(level, &[CrashModel::ProcessKill], 1);
    }
}

#[test]
fn f02_a_power_loss_below_power_leaves_a_prefix_that_holds_what_was_synced() {
    for level in [LEVELS[0], LEVELS[1]] {
        crash_everywhere(level, &POWER_LOSSES, 6 * scale());
    }
}

#[test]
fn f03_a_power_loss_keeps_every_record_that_was_acknowledged_at_power() {
    crash_everywhere(Durability::Power, &POWER_LOSSES, 6 * scale());
}

#[test]
fn f04_a_batch_of_which_only_the_second_page_persists_is_cut_at_its_start() {
    let disk = Disk::new();
    let log = open(&disk).unwrap();
    let config = crate::story::small(Durability::Process).segment_bytes(1 << 20);
    let partition = log.create_topic("t", config).unwrap().partition(0).unwrap();
    let mut story = Story::new(Durability::Process);
    story.append(&disk, &partition, 1, 3000).unwrap();
    log.sync().unwrap();
    story.synced(&disk);
    for pages in 1..=8 {
        let disk = disk.crash(disk.points(), CrashModel::ProcessKill, 0);
        let log = open(&disk).unwrap();
        let partition = again(&log).unwrap();
        let mut story = story.clone();
        story.go_on_with(1);
        story.append(&disk, &partition, 1, pages * 4096).unwrap();
        let (path, len) = segments(&disk).remove(0);
        let whole = disk.read_file(&path).unwrap();
        let after = disk.points();
        let Variants::All(count) = disk.variants(after, CrashModel::LostPages) else {
            panic!("{pages} pages are few enough to try all subsets");
        };
        let (mut later_page_alone, mut complete) = (0, 0);
        for seed in 0..count {
            let crashed = disk.crash(after, CrashModel::LostPages, seed);
            let found = crashed.read_file(&path).unwrap();
            let first_lost = found.get(3072..4096) != whole.get(3072..4096);
            let second = 4096..whole.len().min(8192);
            later_page_alone += u64::from(
                first_lost && found.len() as u64 == len && found[second.clone()] == whole[second],
            );
            let state = format!("{pages} pages, state {seed}");
            let (_log, partition) = reopened(&crashed);
            let survived = story.check(&partition, &state);
            assert_eq!(survived == 2, found == whole, "{state}");
            complete += u64::from(survived == 2);
        }
        assert!(later_page_alone > 0, "{pages} pages: the row was not met");
        assert!(complete > 0, "{pages} pages");
    }
}

#[test]
fn f09_a_segment_whose_name_was_lost_held_nothing_that_was_acknowledged() {
    let disk = Disk::new();
    let (_log, _partition, story) = workload(&disk, Durability::Power);
    let mut lost_names = 0;
    let mut dice = Dice::new(seed());
    for model in [CrashModel::LostSuffix, CrashModel::LostPages] {
        every_crash(&disk, 0, model, 64, &mut dice, |after, crashed, state| {
            let cached = disk.crash(after, CrashModel::ProcessKill, 0);
            if segments(crashed).len() < segments(&cached).len() {
                lost_names += 1;
                check_life(crashed, &story, after, model, state);
            }
        });
    }
    assert!(lost_names > 10, "the row was met {lost_names} times");
}

#[test]
fn f17_a_record_whose_acknowledgement_was_lost_is_there_once() {
    let disk = Disk::new();
    let log = open(&disk).unwrap();
    let partition = create(&log, Durability::Power);
    partition.append(("k", "one")).unwrap();
    let end = partition.offsets().end;
    disk.mark();
    let before = disk.points();
    partition.append(("k", "two")).unwrap();
    assert_eq!(disk.calls()[&DiskCall::SyncData], 1);
    // The write is the first operation, its sync the second; the caller never hears of it.
    for model in POWER_LOSSES {
        let crashed = disk.crash(before + 2, model, 0);
        let (_log, partition) = reopened(&crashed);
        // Who does not know asks with the end that he expected.
        match partition.append_at(end, [("k", "two")]) {
            Err(Error::Conflict { actual_end, .. }) => assert_eq!(actual_end, end.next()),
            other => panic!("{other:?}"),
        }
        let found = read(&partition).unwrap();
        assert_eq!(found, [(0, "one".to_owned()), (1, "two".to_owned())]);
    }
}

#[test]
fn f18_those_who_share_a_sync_are_acknowledged_after_it_or_not_at_all() {
    for round in 0..20 * scale() {
        let disk = Disk::seeded(round);
        let log = open(&disk).unwrap();
        let partition = create(&log, Durability::Power);
        let good = round % 7;
        let fault = Fault::sync(DiskCall::SyncData, FailedSync::Keep, DiskError::Io);
        let fault = fault.on(".log").after(good);
        disk.fail(fault);
        let acknowledged = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..6 {
                let (partition, acknowledged) = (&partition, &acknowledged);
                scope.spawn(move || {
                    for n in 0..4 {
                        let value = format!("{thread}/{n}");
                        match partition.append(Record::keyless(value)) {
                            Ok(_) => drop(acknowledged.fetch_add(1, Ordering::SeqCst)),
                            Err(e @ (Error::Indeterminate { .. } | Error::Poisoned { .. })) => {
                                let unknown = matches!(e, Error::Indeterminate { .. });
                                assert_eq!(e.outcome() == Outcome::Indeterminate, unknown);
                            }
                            Err(e) => panic!("{e:?}"),
                        }
                    }
                });
            }
        });
        let acknowledged = acknowledged.load(Ordering::SeqCst);
        if good == 0 {
            assert_eq!(acknowledged, 0, "the first sync failed, for all who waited");
        }
        let visible = partition.offsets().end.get();
        // What no sync covered is gone; every acknowledged record is among the rest, and so is all that was visible.
        let crashed = disk.crash(disk.points(), CrashModel::LostSuffix, 0);
        let (_log, partition) = reopened(&crashed);
        let found = read(&partition).unwrap();
        assert!(found.len() as u64 >= acknowledged, "round {round}");
        assert!(found.len() as u64 >= visible, "round {round}");
    }
}

#[test]
fn f20_after_a_clean_close_everything_is_there_and_nothing_is_reported() {
    let mut dice = Dice::new(seed());
    for level in LEVELS {
        let disk = Disk::new();
        let (log, partition, story) = workload(&disk, level);
        let open_end = disk.points();
        log.close().unwrap();
        assert!(matches!(partition.append(("k", "v")), Err(Error::Closed)));
        let closed = disk.points();
        for model in POWER_LOSSES {
            every_crash(&disk, closed, model, 8, &mut dice, |_, crashed, state| {
                let log = open(crashed).unwrap();
                assert!(log.recovery().is_empty(), "{state}: {:?}", log.recovery());
                let survived = story.check(&again(&log).unwrap(), state);
                assert_eq!(survived, story.batches(), "{state}");
            });
            // Within the close, it is as without it.
            every_crash(
                &disk,
                open_end,
                model,
                8,
                &mut dice,
                |after, crashed, state| {
                    check_life(crashed, &story, after, model, state);
                },
            );
        }
    }
}

#[test]
fn f20_with_a_gap_still_to_write_the_log_is_not_called_clean() {
    let disk = Disk::new();
    let log = open(&disk).unwrap();
    let partition = create(&log, Durability::Process);
    let mut story = Story::new(Durability::Process);
    story.append(&disk, &partition, 3, 30).unwrap();
    log.sync().unwrap();
    story.synced(&disk);
    story.append(&disk, &partition, 3, 30).unwrap();
    let crashed = disk.crash(disk.points(), CrashModel::LostSuffix, 0);
    story.go_on_with(1);
    // The disk is full: the gap cannot be recorded, so closing fails, and the next opening knows as much as this one.
    crashed.set_capacity(Some(crashed.used()));
    let log = open(&crashed).unwrap();
    assert!(matches!(log.close(), Err(Error::NoSpace { .. })));
    crashed.set_capacity(None);
    let log = open(&crashed).unwrap();
    assert!(kinds(log.recovery()).contains(&thalweg::FindingKind::Gap));
    let partition = again(&log).unwrap();
    assert_eq!(partition.offsets().end, Offset::new(1 << 24));
    story.live_on(&crashed, log, &partition, "after the full disk");
}
