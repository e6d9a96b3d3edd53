//! What went is gone once that was told, and what was to stay is there: after a crash at any step of a retention delete, or of
//! `delete_before`, a partition begins where it did or where it was to, and from there to its end nothing is missing.

use std::time::Duration;

use thalweg::Durability::{self, Power, Process};
use thalweg::Retention;
use thalweg::testing::CrashModel;

use crate::enumerate::some_crashes_of;
use crate::nested::recoveries_of;
use crate::workload::Step::{self, *};
use crate::{A, B, INTERVAL};

/// A usual run crashes after one operation in so many.
const ONE_IN: u64 = 3;

fn age() -> Retention {
    Retention::new().age(Duration::from_secs(60))
}

fn bytes() -> Retention {
    Retention::new().bytes(3000)
}

/// Within the first segment, at the edge of one, over several, all there is, and again when there is nothing.
fn by_hand(level: Durability) -> Vec<Step> {
    let mut steps = vec![Topic("a", level)];
    steps.extend([Batch(A, 5, 100), Trim(A, 3), Append(A, 900)]);
    steps.extend([Roll(A), Trim(A, 0), Append(A, 700), Append(A, 1500)]);
    steps.extend([Append(A, 1900), Batch(A, 3, 900), Append(A, 1700)]);
    steps.extend([
        Trim(A, 2),
        Trim(A, 0),
        Trim(A, 0),
        Batch(A, 4, 30),
        Trim(A, 1),
    ]);
    steps
}

/// Segments grow old while others are written, and at last all of them are.
fn by_age(level: Durability) -> Vec<Step> {
    let mut steps = vec![Keep("a", level, age()), Topic("b", level)];
    steps.extend([Batch(A, 3, 900), Append(A, 1200), Wait(40), Append(A, 1800)]);
    steps.extend([Append(A, 1000), Append(B, 40), Wait(30), Maintain]);
    steps.extend([Append(A, 300), Wait(61), Maintain, Maintain, Append(A, 20)]);
    steps
}

fn by_size(level: Durability) -> Vec<Step> {
    let mut steps = vec![Keep("a", level, bytes())];
    for len in [1000, 1900, 700] {
        steps.extend([Batch(A, 3, len), Append(A, len), Maintain]);
    }
    steps
}

/// Each life begins with what the one before it was about to remove.
fn over_lives(level: Durability) -> Vec<Step> {
    let mut steps = vec![Keep("a", level, age())];
    steps.extend([Batch(A, 3, 1500), Append(A, 900), Trim(A, 2), Kill]);
    steps.extend([Append(A, 50), Wait(61), Maintain, Close, Append(A, 70)]);
    steps.extend([Trim(A, 0), Close, Append(A, 1500), Wait(61), Kill, Maintain]);
    steps
}

/// An emptied partition, and power losses that leave a gap in front of it or behind it; `seed` chooses what is left.
fn power_lost(level: Durability, model: CrashModel, seed: u64) -> Vec<Step> {
    let mut steps = vec![Keep("a", level, age())];
    steps.extend([Batch(A, 3, 900), Trim(A, 1), Append(A, 40)]);
    steps.extend([PowerLoss(model, seed), Trim(A, 0), PowerLoss(model, seed)]);
    steps.extend([Append(A, 1900), PowerLoss(model, seed), Trim(A, 500)]);
    steps.extend([
        Append(A, 60),
        Wait(61),
        Maintain,
        PowerLoss(model, seed),
        Append(A, 60),
    ]);
    steps
}

/// A group is told where it goes on, and what it has committed stays as it is.
fn committed(level: Durability) -> Vec<Step> {
    let mut steps = vec![Topic("a", level)];
    steps.extend([
        Batch(A, 4, 800),
        Commit("a"),
        Append(A, 1500),
        Trim(A, 1),
        Append(A, 900),
    ]);
    steps.extend([
        Commit("a"),
        Trim(A, 0),
        Commit("a"),
        Append(A, 20),
        Commit("a"),
    ]);
    steps
}

#[test]
fn f65_a_partition_begins_where_it_did_or_where_it_was_to_after_every_crash() {
    for level in [Power, Process, INTERVAL] {
        some_crashes_of(&format!("trims at {level:?}"), &by_hand(level), ONE_IN);
    }
}

#[test]
fn f65_old_segments_are_there_or_gone_after_every_crash_and_no_other_is() {
    for level in [Power, Process] {
        some_crashes_of(&format!("age at {level:?}"), &by_age(level), ONE_IN);
        some_crashes_of(&format!("size at {level:?}"), &by_size(level), ONE_IN);
    }
}

#[test]
fn f73_an_emptied_partition_goes_on_where_it_ended_in_every_life() {
    for level in [Power, Process] {
        let what = format!("trims over lives at {level:?}");
        some_crashes_of(&what, &over_lives(level), ONE_IN);
    }
}

#[test]
fn f73_power_losses_around_an_emptied_partition_never_give_an_offset_twice() {
    for (level, model, seed) in [
        (Process, CrashModel::LostSuffix, 0),
        (Process, CrashModel::LostPages, 3),
        (INTERVAL, CrashModel::GarbagePages, 5),
        (Power, CrashModel::LostPages, 2),
    ] {
        let what = format!("trims and {model:?} at {level:?}");
        some_crashes_of(&what, &power_lost(level, model, seed), ONE_IN);
    }
}

#[test]
fn f74_a_commit_stays_what_it_was_whatever_went_below_it() {
    some_crashes_of("commits and trims", &committed(Power), ONE_IN);
    some_crashes_of("commits and trims", &committed(Process), ONE_IN);
}

#[test]
fn f65_crashes_within_the_recovery_from_a_trim_change_nothing_of_its_result() {
    let lost = power_lost(Process, CrashModel::LostPages, 3);
    recoveries_of("recoveries of trims", &by_hand(Power));
    recoveries_of("recoveries of trims", &by_hand(Process));
    recoveries_of("recoveries of old segments", &by_age(Process));
    recoveries_of("recoveries of trims over lives", &over_lives(Power));
    recoveries_of("recoveries of trims and power losses", &lost);
}
