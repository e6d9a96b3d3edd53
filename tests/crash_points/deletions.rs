//! Topics that come and go: a deleted one is gone for good once that was told, and with it what groups committed for it. In
//! between it is there whole, or gone. Its name can be used at once, nothing of it is left over, and no other topic is touched.

use thalweg::Durability;
use thalweg::Durability::{Power, Process};
use thalweg::testing::CrashModel;

use crate::enumerate::some_crashes_of;
use crate::nested::recoveries_of;
use crate::workload::Key;
use crate::workload::Step::{self, *};
use crate::{A, B, INTERVAL};

/// Workloads of hundreds of operations: a usual run crashes after one in so many.
const ONE_IN: u64 = 4;
const A1: Key = ("a", 1);

/// Two topics, committed for, deleted and made again in turn.
fn in_turn(level: Durability) -> Vec<Step> {
    vec![
        Topic("a", level),
        Topic("b", Process),
        Batch(A, 4, 100),
        Append(A1, 30),
        Batch(B, 3, 200),
        Commit("a"),
        Commit("b"),
        Delete("a"),
        Append(B, 50),
        Topic("a", level),
        Append(A, 40),
        Commit("a"),
        Delete("b"),
        Maintain,
        Topic("b", Process),
        Batch(B, 2, 60),
        Commit("b"),
        Delete("a"),
    ]
}

/// Deleted by another process than the one that made it, which was closed, or killed.
fn over_lives(level: Durability) -> Vec<Step> {
    vec![
        Topic("a", level),
        Topic("b", Power),
        Batch(A, 3, 300),
        Append(B, 10),
        Commit("a"),
        Commit("b"),
        Close,
        Delete("a"),
        Close,
        Topic("a", level),
        Append(A, 20),
        Commit("a"),
        Kill,
        Delete("a"),
        Topic("a", level),
        Kill,
        Append(A, 20),
        Commit("a"),
        Maintain,
        Close,
    ]
}

/// The power fails before and after a deletion; `seed` chooses what is left.
fn power_lost(level: Durability, model: CrashModel, seed: u64) -> Vec<Step> {
    vec![
        Topic("a", level),
        Topic("b", level),
        Batch(A, 3, 500),
        Batch(B, 3, 500),
        Commit("a"),
        Sync,
        Append(A, 700),
        Commit("a"),
        Commit("b"),
        PowerLoss(model, seed),
        Delete("a"),
        Append(B, 30),
        PowerLoss(model, seed),
        Topic("a", level),
        Append(A, 30),
        Commit("a"),
        PowerLoss(model, seed),
        Delete("b"),
        Append(A, 30),
    ]
}

/// Many files to be removed: rolled segments, both partitions, and indexes that a close has left.
fn many_files() -> Vec<Step> {
    let mut steps = vec![Topic("a", Process), Topic("b", Power)];
    for len in [900, 1800, 2600] {
        steps.extend([Append(A, len), Roll(A), Append(A1, len), Roll(A1)]);
    }
    steps.extend([
        Commit("a"),
        Close,
        Append(A, 100),
        Append(B, 100),
        Delete("a"),
    ]);
    steps.extend([
        Topic("a", Power),
        Append(A1, 100),
        Close,
        Delete("a"),
        Close,
    ]);
    steps
}

/// Made and deleted, over and over: never used, used, committed for.
fn over_and_over() -> Vec<Step> {
    let mut steps = vec![Topic("b", Power), Append(B, 20), Commit("b")];
    for n in 0..4 {
        steps.extend([Topic("a", Process), Delete("a"), Topic("a", Power)]);
        steps.extend([Batch(A, n + 1, 50), Commit("a"), Delete("a")]);
        if n == 1 {
            steps.push(Close);
        }
    }
    steps.extend([Append(B, 20), Commit("b")]);
    steps
}

#[test]
fn f75b_topics_that_are_deleted_and_made_again_are_there_whole_or_gone() {
    for level in [Power, Process] {
        some_crashes_of(&format!("deletions at {level:?}"), &in_turn(level), ONE_IN);
    }
}

#[test]
fn f75b_a_topic_that_another_process_deletes_is_there_whole_or_gone() {
    for level in [Power, INTERVAL] {
        let what = format!("deletions over lives at {level:?}");
        some_crashes_of(&what, &over_lives(level), ONE_IN);
    }
}

#[test]
fn f75b_power_losses_around_a_deletion_bring_nothing_back() {
    for (level, model, seed) in [
        (Power, CrashModel::LostPages, 3),
        (Process, CrashModel::LostSuffix, 1),
        (Process, CrashModel::GarbagePages, 5),
    ] {
        let what = format!("deletions and {model:?} at {level:?}");
        some_crashes_of(&what, &power_lost(level, model, seed), ONE_IN);
    }
}

#[test]
fn f75b_a_topic_of_many_files_goes_as_a_whole() {
    some_crashes_of("deletions of many files", &many_files(), ONE_IN);
}

#[test]
fn f75b_topics_made_and_deleted_over_and_over_leave_the_others_alone() {
    some_crashes_of("deletions over and over", &over_and_over(), ONE_IN);
}

#[test]
fn f75b_crashes_within_the_recovery_from_a_deletion_change_nothing_of_its_result() {
    let lost = power_lost(Process, CrashModel::LostPages, 3);
    recoveries_of("recoveries of deletions", &in_turn(Process));
    recoveries_of("recoveries of deletions over lives", &over_lives(Power));
    recoveries_of("recoveries of deletions and power losses", &lost);
    recoveries_of("recoveries of deletions of many files", &many_files());
}
