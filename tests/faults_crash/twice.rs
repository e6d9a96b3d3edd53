//! Crashes on crashes: recovery is a workload like any other, and what it cut stays cut.

use thalweg::testing::{CrashModel, Disk, DiskError, Fault, Short};
use thalweg::{Durability, FindingKind, Log, Partition, Result};

use crate::common::{Dice, scale, seed};
use crate::story::{LEVELS, POWER_LOSSES, Story, again, create, every_crash, open, read, reopened};

const SECOND: [CrashModel; 3] = [
    CrashModel::ProcessKill,
    CrashModel::LostSuffix,
    CrashModel::LostPages,
];

/// A first life with a torn tail in view: the last batches are larger than a page.
fn first_life(level: Durability) -> (Disk, Log, Story) {
    let disk = Disk::new();
    let log = open(&disk).unwrap();
    let config = crate::story::small(level).segment_bytes(64 << 10);
    let partition = log.create_topic("t", config).unwrap().partition(0).unwrap();
    let mut story = Story::new(level);
    story.append(&disk, &partition, 2, 40).unwrap();
    log.sync().unwrap();
    story.synced(&disk);
    for _ in 0..3 {
        story.append(&disk, &partition, 2, 3000).unwrap();
    }
    (disk, log, story)
}

/// Power fails at one of the last steps of the first life.
fn power_losses(disk: &Disk, most: u64) -> Vec<(usize, String, Disk)> {
    let mut dice = Dice::new(seed());
    let mut crashes = Vec::new();
    let last = disk.points();
    for after in last.saturating_sub(4)..=last {
        for model in POWER_LOSSES {
            for _ in 0..most {
                let state = format!("{model:?} after {after}");
                crashes.push((after, state, disk.crash(after, model, dice.roll())));
            }
        }
    }
    crashes
}

/// The process is killed in the middle of its last write, of which `part` bytes have happened.
fn killed_within_a_write(level: Durability, part: usize) -> (usize, Disk, Story) {
    let (disk, log, mut story) = first_life(level);
    let partition = again(&log).unwrap();
    let after = disk.points();
    disk.fail(Fault::short_write_then(Short::Bytes(part), DiskError::NoSpace).on(".log"));
    assert!(story.append(&disk, &partition, 2, 3000).is_err());
    let killed = disk.crash(after + 1, CrashModel::ProcessKill, 0);
    (after, killed, story)
}

#[test]
fn f07_the_records_of_the_second_life_survive_the_second_crash() {
    let mut dice = Dice::new(seed());
    for level in LEVELS {
        let (disk, _log, story) = first_life(level);
        let mut crashes: Vec<_> = power_losses(&disk, scale())
            .into_iter()
            .map(|(after, first, crashed)| (after, first, crashed, story.clone()))
            .collect();
        for part in [1, 36, 2000, 6000] {
            let (after, killed, story) = killed_within_a_write(level, part);
            crashes.push((after, format!("killed after {part} bytes"), killed, story));
        }
        for (after, first, crashed, story) in crashes {
            let log = open(&crashed).unwrap();
            let partition = again(&log).unwrap();
            let mut story = story.as_of(after);
            let survived = story.check(&partition, "the first crash");
            if first.starts_with("killed") {
                story.go_on_after_kill(survived, 1);
            } else {
                story.go_on_with(survived);
            }
            let begun = crashed.points();
            // Of the lengths that were lost, so that a tail that comes back would stand where a batch may.
            story.append(&crashed, &partition, 2, 3000).unwrap();
            story.append(&crashed, &partition, 1, 10).unwrap();
            for second in SECOND {
                every_crash(
                    &crashed,
                    begun,
                    second,
                    4,
                    &mut dice,
                    |after, again_crashed, state| {
                        let state = format!("{level:?}, {first}, then {state}");
                        let log = open(again_crashed).unwrap_or_else(|e| panic!("{state}: {e:?}"));
                        let partition = again(&log).unwrap();
                        let survived = story.check_crash(&partition, after, second, &state);
                        let mut story = story.as_of(after);
                        story.go_on_with(survived);
                        story.live_on(again_crashed, log, &partition, &state);
                    },
                );
            }
        }
    }
}

/// What a reader sees, and where the next record goes.
fn outcome(log: &Log) -> Result<(Vec<(u64, String)>, u64)> {
    let partition = again(log)?;
    let found = read(&partition)?;
    let end = append_one(&partition)?;
    Ok((found, end))
}

fn append_one(partition: &Partition) -> Result<u64> {
    Ok(partition.append(("k", "next"))?.offset().get())
}

/// The outcome of recovery in one go, from a copy.
fn single_shot(disk: &Disk) -> (Vec<(u64, String)>, u64) {
    let copy = disk.crash(disk.points(), CrashModel::ProcessKill, 0);
    outcome(&open(&copy).unwrap()).unwrap()
}

/// A second loss of power may open a second gap, since records that were acknowledged in between may be lost too; the records
/// are the same, and no offset is given out again.
fn assert_same(
    found: &(Vec<(u64, String)>, u64),
    expected: &(Vec<(u64, String)>, u64),
    powerless: bool,
    state: &str,
) {
    assert_eq!(found.0, expected.0, "{state}");
    assert!(
        found.1 == expected.1 || powerless && found.1 > expected.1,
        "{state}: {}",
        found.1
    );
}

/// Recovers, crashes at each operation of that, and asks `then` of each state.
fn crash_in_recovery(
    disk: &Disk,
    model: CrashModel,
    most: u64,
    dice: &mut Dice,
    mut then: impl FnMut(&Disk, &str),
) {
    let begun = disk.points();
    let log = open(disk).unwrap();
    // Below `Power` the work waits for the first write or the first act that needs durability.
    log.sync().unwrap();
    every_crash(disk, begun, model, most, dice, |_, crashed, state| {
        then(crashed, state);
    });
}

#[test]
fn f08_a_recovery_that_is_interrupted_anywhere_ends_as_if_it_were_not() {
    let mut dice = Dice::new(seed());
    let mut nested = 0;
    for level in LEVELS {
        let (disk, _log, _) = first_life(level);
        for (_, first, crashed) in power_losses(&disk, 1) {
            let expected = single_shot(&crashed);
            for second in SECOND {
                let state = format!("{level:?}, {first}");
                let copy = crashed.crash(crashed.points(), CrashModel::ProcessKill, 0);
                crash_in_recovery(&copy, second, 3, &mut dice, |twice, state2| {
                    let state = format!("{state}, then {state2}");
                    let log = open(twice).unwrap_or_else(|e| panic!("{state}: {e:?}"));
                    let powerless = second != CrashModel::ProcessKill && level != Durability::Power;
                    assert_same(&outcome(&log).unwrap(), &expected, powerless, &state);
                    nested += 1;
                });
            }
        }
    }
    assert!(nested > 500, "{nested} states");
}

#[test]
fn f08_a_kill_after_a_kill_changes_nothing_either() {
    let mut dice = Dice::new(seed());
    for level in LEVELS {
        for part in [1, 36, 2000, 6000] {
            let (_, crashed, _) = killed_within_a_write(level, part);
            let expected = single_shot(&crashed);
            let state = format!("{level:?}, killed after {part} bytes");
            crash_in_recovery(
                &crashed,
                CrashModel::ProcessKill,
                1,
                &mut dice,
                |twice, state2| {
                    let log = open(twice).unwrap();
                    assert_eq!(outcome(&log).unwrap(), expected, "{state}, then {state2}");
                },
            );
        }
    }
}

#[test]
fn f08_three_crashes_deep_it_is_still_the_same() {
    let mut dice = Dice::new(seed());
    for level in LEVELS {
        let disk = Disk::new();
        let log = open(&disk).unwrap();
        let partition = create(&log, level);
        let mut story = Story::new(level);
        for _ in 0..6 {
            story.append(&disk, &partition, 2, 100).unwrap();
        }
        for _ in 0..20 * scale() {
            let after = disk.points() - dice.below(6) as usize;
            let crashed = disk.crash(after, CrashModel::LostPages, dice.roll());
            let expected = single_shot(&crashed);
            let mut deep = crashed;
            for _ in 0..3 {
                let begun = deep.points();
                open(&deep).unwrap().sync().unwrap();
                let steps = (deep.points() - begun) as u64;
                let at = begun + dice.below(steps + 1) as usize;
                let model = SECOND[dice.below(3) as usize];
                deep = deep.crash(at, model, dice.roll());
            }
            let log = open(&deep).unwrap();
            let found = outcome(&log).unwrap();
            let powerless = level != Durability::Power;
            assert_same(&found, &expected, powerless, &format!("{level:?}"));
        }
    }
}

/// A gap behind an empty segment: it is replaced, and whatever call of that fails at first, nothing of the first try is taken for live.
#[test]
fn f19_an_empty_segment_whose_replacement_fails_at_first_is_replaced_by_the_next_try() {
    let mut tries = 0;
    for error in [DiskError::NoSpace, DiskError::Io] {
        for call in 0..60 {
            let disk = Disk::new();
            let log = open(&disk).unwrap();
            let partition = create(&log, Durability::Process);
            for n in 0..5 {
                partition.append(("k", &n.to_string())).unwrap();
            }
            partition.roll().unwrap();
            partition.append(("k", "lost")).unwrap();
            let disk = disk.crash(disk.points(), CrashModel::LostSuffix, 0);
            let (log, partition) = reopened(&disk);
            disk.fail(Fault::any(error).after(call));
            let first = partition.append(("k", "first"));
            let struck = disk.struck() > 0;
            disk.heal();
            if first.is_err() && partition.append(("k", "second")).is_err() {
                let report = partition.recover().unwrap();
                assert!(
                    report
                        .findings()
                        .iter()
                        .all(|f| f.kind != FindingKind::Damaged)
                );
                partition.append(("k", "third")).unwrap();
            }
            let there = read(&partition).unwrap();
            drop((log, partition));
            let (log, partition) = reopened(&disk);
            assert_eq!(read(&partition).unwrap(), there, "{error:?} at call {call}");
            partition.append(("k", "after")).unwrap();
            assert!(
                log.recovery()
                    .findings()
                    .iter()
                    .all(|f| f.kind != FindingKind::Damaged)
            );
            if !struck {
                break;
            }
            tries += 1;
        }
    }
    assert!(tries > 10, "{tries}");
}
