//! F24, F28, F121: crashes at every operation of a pass that forgets offsets, and errors of every call: each offset is the old one, or
//! gone, and what was not to go is there.

use std::collections::BTreeSet;

use thalweg::testing::{CrashModel, Disk, DiskCall, DiskError, FailedSync, Fault, ManualClock};
use thalweg::{Error, Log};

use super::common::{Dice, scale, seed};
use super::{WEEK, begin, committed, expired, next, open};

const MODELS: [CrashModel; 4] = [
    CrashModel::ProcessKill,
    CrashModel::LostSuffix,
    CrashModel::LostPages,
    CrashModel::GarbagePages,
];
const NAMES: [&str; 5] = ["a", "b", "c", "long", "stays"];

/// A name so long that few commits of it can be forgotten at once.
fn name(of: &str) -> String {
    if of == "long" {
        "l".repeat(32_000)
    } else {
        of.to_owned()
    }
}

/// Each group has committed for four partitions, and all but one of the last group's are old now.
fn due() -> (Disk, ManualClock, Log) {
    let (disk, clock, log) = begin();
    for of in NAMES {
        let group = log.group(&name(of));
        group.set_positions(&all(5)).unwrap();
    }
    clock.advance(WEEK);
    let stays = log.group("stays");
    stays.set_positions(&next(&[("bills", 1, 7)])).unwrap();
    log.sync().unwrap();
    (disk, clock, log)
}

fn all(at: u64) -> thalweg::Positions {
    next(&[
        ("orders", 0, at),
        ("orders", 1, at),
        ("bills", 0, at),
        ("bills", 1, at),
    ])
}

const OLD: u64 = 4 * 4 + 3;

/// How many of the old ones are there.
fn left(log: &Log) -> Result<u64, String> {
    let mut left = 0;
    for of in NAMES {
        let found: BTreeSet<String> = committed(&log.group(&name(of))).into_iter().collect();
        let mut known: BTreeSet<String> = all(5).iter().map(ToString::to_string).collect();
        if of == "stays" {
            known.remove("bills-1@5");
            known.insert("bills-1@7".to_owned());
            if !found.contains("bills-1@7") {
                return Err(format!("{of} has {found:?}"));
            }
            left += found.len() as u64 - 1;
        } else {
            left += found.len() as u64;
        }
        if !found.is_subset(&known) {
            return Err(format!("{of} has {found:?}"));
        }
    }
    Ok(left)
}

/// It goes on: commits of then are kept, and what is old is forgotten in the end, for good.
fn lead_on(disk: &Disk, clock: &ManualClock) -> Result<(), String> {
    let told = |e: Error| format!("{e:?}");
    let log = open(disk, clock);
    left(&log)?;
    let again = next(&[("orders", 0, 9)]);
    log.group("a").set_positions(&again).map_err(told)?;
    expired(&log);
    log.close().map_err(told)?;
    let log = open(disk, clock);
    if !committed(&log.group("a")).contains(&"orders-0@9".to_owned()) {
        return Err("a commit of then is lost".to_owned());
    }
    clock.advance(WEEK);
    expired(&log);
    log.close().map_err(told)?;
    let groups = open(disk, clock).groups().map_err(told)?;
    if groups.is_empty() {
        Ok(())
    } else {
        Err(format!("left over: {}", groups.len()))
    }
}

#[test]
fn f121_a_crash_while_offsets_expire_leaves_each_as_it_was_or_gone_and_the_others_alone() {
    let (disk, clock, log) = due();
    let first = disk.points();
    assert_eq!(expired(&log), OLD);
    let last = disk.points();
    assert!(last >= first + 4, "a write for each group, and a sync");
    log.group("a").set_positions(&all(6)).unwrap(); // behind the tombstones
    let mut dice = Dice::new(seed());
    let (mut states, mut between) = (0, 0);
    for point in first..=last {
        for model in MODELS {
            for n in 0..4 * scale() {
                let variant = if n < 2 { n } else { dice.roll() };
                let crashed = disk.crash(point, model, variant);
                let what = format!("after {point} of {first}..={last}, {model:?}, {variant}");
                let log = open(&crashed, &clock);
                let left = left(&log).unwrap_or_else(|e| panic!("{what}: {e}"));
                assert!(point < last || left == 0, "{what}: {left} of them are back");
                between += u64::from(left > 0 && left < OLD);
                drop(log);
                lead_on(&crashed, &clock).unwrap_or_else(|e| panic!("{what}: {e}"));
                states += 1;
            }
        }
    }
    assert!(between > 0, "of {states}");
}

#[test]
fn f121_a_commit_behind_a_tombstone_is_there_whenever_it_was_synced() {
    let (disk, clock, log) = due();
    assert_eq!(expired(&log), OLD);
    log.group("a").set_positions(&all(6)).unwrap();
    log.sync().unwrap();
    for model in MODELS {
        for variant in 0..4 {
            let crashed = disk.crash(disk.points(), model, variant);
            let log = open(&crashed, &clock);
            let now: Vec<String> = all(6).iter().map(ToString::to_string).collect();
            assert_eq!(committed(&log.group("a")), now, "{model:?}");
        }
    }
}

/// One call of a pass fails; later passes do what it did not.
fn fails(fault: &dyn Fn(u64) -> Fault, what: &str) {
    for n in 0..60 {
        let (disk, clock, log) = due();
        disk.fail(fault(n));
        let first = log.maintain();
        let struck = disk.struck() > 0;
        disk.heal();
        let why = format!("{what} {n}: {first:?}");
        let before = left(&log).unwrap_or_else(|e| panic!("{why}: {e}"));
        let second = log.maintain();
        let after = left(&log).unwrap_or_else(|e| panic!("{why}: {e}"));
        match second {
            Ok(report) => assert_eq!((after, report.offsets_expired), (0, before), "{why}"),
            Err(_) => assert!(after <= before, "{why}"),
        }
        drop(log);
        for disk in [disk.crash(disk.points(), CrashModel::ProcessKill, 0), disk] {
            lead_on(&disk, &clock).unwrap_or_else(|e| panic!("{why}: {e}"));
        }
        if !struck {
            assert_eq!(after, 0);
            return;
        }
    }
}

#[test]
fn f24_a_call_that_fails_while_offsets_expire_leaves_the_rest_to_a_later_pass() {
    fails(&|n| Fault::any(DiskError::Io).after(n), "any call");
    fails(&|n| Fault::any(DiskError::NoSpace).after(n), "no space");
}

#[test]
fn f24_a_sync_that_fails_while_offsets_expire_leaves_nothing_half_done() {
    for call in [DiskCall::SyncData, DiskCall::SyncAll, DiskCall::SyncDir] {
        let fault = |n| Fault::sync(call, FailedSync::Keep, DiskError::Io).after(n);
        fails(&fault, &format!("{call:?}"));
    }
}

#[test]
fn f28_on_a_full_disk_offsets_stay_and_expire_when_there_is_space() {
    let (disk, _clock, log) = due();
    disk.set_capacity(Some(disk.used()));
    assert!(matches!(log.maintain(), Err(Error::NoSpace { .. })));
    assert_eq!(left(&log), Ok(OLD));
    disk.set_capacity(None);
    assert_eq!(expired(&log), OLD);
}
