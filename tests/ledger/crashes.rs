//! F66, F67, F122: a crash at every operation of a pass, and at every one of the recovery from it.

use thalweg::Durability::Process;
use thalweg::Log;
use thalweg::testing::{CrashModel, Disk};

use crate::common::{Dice, scale, seed};
use crate::group::{Groups, RECORDS, TOPIC, fill, open, segments};

const MODELS: [CrashModel; 4] = [
    CrashModel::ProcessKill,
    CrashModel::LostSuffix,
    CrashModel::LostPages,
    CrashModel::GarbagePages,
];

/// A log whose ledger has so many segments before the last, all but the newest rewritten before, and the last worth a roll.
fn before_a_pass(groups: usize, sealed: usize) -> (Disk, Log, Groups) {
    let disk = Disk::new();
    let log = open(&disk);
    fill(&log, TOPIC, Process, RECORDS);
    let mut groups = Groups::new(groups);
    groups.fill_segment(&log, &disk);
    while segments(&disk).len() <= sealed {
        log.maintain().unwrap();
        groups.fill_segment(&log, &disk);
    }
    log.sync().unwrap();
    groups.synced();
    disk.forget_history();
    (disk, log, groups)
}

/// Judges what a crash left, leads it on through another pass and a close, and judges that again.
fn lead_on(crashed: &Disk, groups: &Groups, power: bool, dice: &mut Dice) -> Result<(), String> {
    let begun = crashed.points(); // what was not synced before the crash, and survived it
    let log = open(crashed);
    groups
        .check(&log, power)
        .map_err(|e| format!("at first, {e}"))?;
    let mut later = Groups::new(1);
    later.commit_one(&log);
    log.maintain().map_err(|e| format!("{e:?}"))?;
    groups.check_but_first(&log, power)?;
    log.close().map_err(|e| format!("{e:?}"))?;
    for _ in 0..2 * scale() {
        let point = begun + dice.below((crashed.points() - begun) as u64 + 1) as usize;
        let model = MODELS[dice.below(4) as usize];
        let again = crashed.crash(point, model, dice.roll());
        let log = open(&again);
        let power = power || model != CrashModel::ProcessKill;
        let checked = groups.check_but_first(&log, power);
        checked.map_err(|e| format!("crashed again after {point}, {model:?}: {e}"))?;
    }
    let log = open(crashed);
    groups.check_but_first(&log, power)
}

/// Every crash of what happens in `work`.
fn every_crash_of(what: &str, disk: &Disk, groups: &Groups, work: impl FnOnce()) {
    let mut dice = Dice::new(seed());
    let first = disk.points();
    work();
    let mut states = 0;
    for point in first..=disk.points() {
        for model in MODELS {
            let power = model != CrashModel::ProcessKill;
            let variants = if power { 3 * scale() } else { 1 };
            for n in 0..variants {
                let variant = if n < 2 { n } else { dice.roll() };
                let crashed = disk.crash(point, model, variant);
                let judged = lead_on(&crashed, groups, power, &mut dice);
                if let Err(why) = judged {
                    panic!("{what}, after {point} of {first}.., {model:?}, {variant}: {why}");
                }
                states += 1;
            }
        }
    }
    println!(
        "{what}: {states} states over {} operations",
        disk.points() - first
    );
}

#[test]
fn f66_f122_a_crash_within_a_pass_over_one_segment_loses_no_commit() {
    let (disk, log, groups) = before_a_pass(12, 0);
    every_crash_of("1 to 1", &disk, &groups, || {
        let report = log.maintain().unwrap();
        assert_eq!(report.segments_compacted, 1);
    });
}

#[test]
fn f66_f122_a_crash_within_a_pass_over_two_segments_loses_no_commit() {
    let (disk, log, groups) = before_a_pass(12, 1);
    every_crash_of("2 to 1", &disk, &groups, || {
        let report = log.maintain().unwrap();
        assert_eq!(report.segments_compacted, 2);
    });
}

#[test]
fn f66_f122_a_crash_within_a_pass_over_three_segments_loses_no_commit() {
    let (disk, log, groups) = before_a_pass(50, 2);
    every_crash_of("3 to 1", &disk, &groups, || {
        let report = log.maintain().unwrap();
        assert_eq!(report.segments_compacted, 3);
    });
}

#[test]
fn f122_commits_that_were_not_synced_before_the_pass_are_there_or_an_older_one_is() {
    let (disk, log, mut groups) = before_a_pass(12, 1);
    groups.commit_all(&log);
    groups.commit_one(&log);
    every_crash_of("un-synced commits", &disk, &groups, || {
        log.maintain().unwrap();
    });
}
