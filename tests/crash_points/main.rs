//! Every crash point of the workloads of a log, under every crash model: what recovery finds is what was promised.
//!
//! A state is what a crash after some number of disk operations may leave: M0 kills the process, M1 to M3 cut the power and
//! lose or spoil what was not synced, M4 is a device that lied about syncs. Each state is opened by the real code, judged
//! against a tally of what was acknowledged, led on, often crashed once more, and closed. `THALWEG_LONG=10` tries all states;
//! the usual run tries a slice of them. Each test prints how many: `cargo test --test crash_points -- --nocapture`.

#[path = "../common/mod.rs"]
mod common;
mod deletions;
mod enumerate;
mod found;
mod judge;
mod nested;
#[path = "../common/tally.rs"]
mod tally;
mod trims;
#[path = "../common/workload.rs"]
mod workload;

use std::time::Duration;

use thalweg::Durability;
use thalweg::Durability::{Power, Process};
use thalweg::testing::CrashModel;

use enumerate::{every_crash_of, some_crashes_of};
use nested::recoveries_of;
use workload::Key;
use workload::Step::{self, *};

const A: Key = ("a", 0);
const B: Key = ("b", 0);
const C: Key = ("c", 1);
const INTERVAL: Durability = Durability::Interval {
    time: Duration::from_secs(1),
    bytes: 1500,
};

/// Appends of changing size, enough to roll twice.
fn appends(level: Durability) -> Vec<Step> {
    let sizes = [20, 600, 0, 300, 900, 1200, 100, 1500, 700, 40, 1100, 800];
    let mut steps = vec![Topic("a", level)];
    steps.extend(sizes.map(|len| Append(A, len)));
    steps
}

/// Three topics, one at each level, written in turn.
fn levels_in_turn() -> Vec<Step> {
    let mut steps = vec![Topic("a", Power), Topic("b", Process), Topic("c", INTERVAL)];
    for len in [900, 30, 1300, 500, 1100] {
        steps.extend([Append(B, len), Append(A, len), Batch(C, 2, len / 2)]);
    }
    steps
}

/// Killed, opened, written, killed: what the third process finds was written by two.
fn killed_again_and_again(level: Durability) -> Vec<Step> {
    let mut steps = vec![Topic("a", level)];
    for _ in 0..3 {
        steps.extend([Append(A, 700), Batch(A, 3, 200), Append(A, 900), Kill]);
    }
    steps.push(Append(A, 100));
    steps
}

/// The power fails in the middle of work; `seed` chooses what is left of it.
fn power_lost(level: Durability, model: CrashModel, seed: u64) -> Vec<Step> {
    let mut steps = vec![Topic("a", level)];
    steps.extend([Append(A, 500), Sync, Append(A, 800), Batch(A, 4, 500)]);
    steps.extend([PowerLoss(model, seed), Append(A, 60), Batch(A, 2, 900)]);
    steps.extend([Kill, Append(A, 60)]);
    steps
}

fn commits() -> Vec<Step> {
    vec![
        Topic("a", Power),
        Topic("b", Process),
        Batch(A, 5, 100),
        Batch(B, 5, 100),
        Commit("a"),
        Commit("b"),
        Append(B, 200),
        Append(A, 200),
        Commit("b"),
        Sync,
        Batch(B, 3, 1500),
        Commit("b"),
        Commit("a"),
        Close,
        Append(B, 10),
        Commit("b"),
        Kill,
        Commit("a"),
    ]
}

fn closed_and_opened() -> Vec<Step> {
    vec![
        Topic("a", Power),
        Topic("b", Process),
        Append(A, 900),
        Batch(B, 6, 300),
        Close,
        Append(B, 1200),
        Close,
        Batch(A, 9, 500),
        Append(B, 2000),
        Close,
    ]
}

/// Levels that change up and down: beside records, over an empty segment, after a close, a kill and a power loss.
fn levels_changed() -> Vec<Step> {
    let mut steps = vec![Topic("a", Process), Topic("b", Power)];
    steps.extend([Append(A, 300), Append(B, 300), Batch(A, 3, 200)]);
    for (up, down) in [(Power, Process), (Power, INTERVAL)] {
        steps.extend([Alter("a", up), Append(A, 500), Alter("b", down)]);
        steps.extend([Append(B, 500), Alter("a", down), Batch(A, 2, 300)]);
        steps.extend([Alter("b", up), Batch(B, 2, 300), Roll(A), Roll(B)]);
    }
    steps.extend([Alter("a", Power), Append(A, 100), Alter("b", Process)]);
    steps.extend([Append(B, 100), Close, Alter("a", Process), Append(A, 900)]);
    steps.extend([
        Alter("b", INTERVAL),
        Batch(B, 3, 900),
        Kill,
        Alter("a", Power),
    ]);
    steps.extend([
        Append(A, 50),
        Append(B, 50),
        Alter("b", Power),
        Append(B, 50),
    ]);
    steps
}

/// What a power loss left of a topic below `Power` is altered before it is written again.
fn level_raised_after(model: CrashModel, seed: u64) -> Vec<Step> {
    let mut steps = vec![Topic("a", Process), Topic("b", INTERVAL)];
    steps.extend([Append(A, 500), Sync, Append(A, 800), Batch(A, 4, 500)]);
    steps.extend([Batch(B, 4, 300), PowerLoss(model, seed)]);
    steps.extend([Alter("a", Power), Alter("b", Power), Append(A, 60)]);
    steps.extend([Kill, Alter("a", INTERVAL), Append(A, 60), Append(B, 60)]);
    steps
}

#[test]
fn levels_that_change_keep_what_each_promised_after_every_crash() {
    some_crashes_of("levels changed", &levels_changed(), 2);
    for (model, seed) in [(CrashModel::LostPages, 3), (CrashModel::GarbagePages, 7)] {
        let what = format!("level raised after {model:?}");
        every_crash_of(&what, &level_raised_after(model, seed));
    }
}

#[test]
fn f08_crashes_within_recovery_change_nothing_where_levels_change() {
    recoveries_of("recoveries of levels changed", &levels_changed());
    let raised = level_raised_after(CrashModel::LostPages, 5);
    recoveries_of("recoveries of a level raised", &raised);
}

#[test]
fn f03_appends_at_power_survive_every_crash_once_acknowledged() {
    every_crash_of("appends at Power", &appends(Power));
}

#[test]
fn f02_appends_at_process_leave_a_prefix_after_every_crash() {
    every_crash_of("appends at Process", &appends(Process));
}

#[test]
fn f02_appends_at_interval_lose_no_more_than_their_bound() {
    every_crash_of("appends at Interval", &appends(INTERVAL));
}

#[test]
fn f09_the_first_appends_to_each_partition_are_there_or_not() {
    let mut steps = vec![Topic("a", Power), Topic("b", Process)];
    for partition in [0, 1] {
        steps.extend([Append(("a", partition), 50), Append(("b", partition), 50)]);
    }
    every_crash_of("first appends", &steps);
}

#[test]
fn f10_a_topic_is_there_once_it_was_made_and_else_as_a_whole_not() {
    let steps = [
        Topic("a", Power),
        Append(A, 10),
        Topic("b", INTERVAL),
        Topic("c", Process),
        Append(C, 10),
        Close,
    ];
    every_crash_of("topics made", &steps);
}

#[test]
fn f04_batches_over_page_edges_are_there_whole_or_not_at_all() {
    for level in [Power, Process] {
        let steps = [
            Topic("a", level),
            Batch(A, 20, 30),
            Batch(A, 5, 700),
            Batch(A, 3, 4000),
            Append(A, 9000),
            Batch(A, 50, 100),
        ];
        every_crash_of(&format!("batches at {level:?}"), &steps);
    }
}

#[test]
fn f11_rolls_put_no_byte_behind_what_is_not_synced() {
    let mut steps = vec![Topic("a", Process), Topic("b", Power)];
    for len in [100, 800, 2500] {
        steps.extend([Append(A, len), Roll(A), Batch(A, 2, len), Append(A, len)]);
        steps.extend([Append(B, len), Roll(B)]);
    }
    every_crash_of("rolls", &steps);
}

#[test]
fn f02_what_was_synced_by_hand_survives_every_crash() {
    let mut steps = vec![Topic("a", Process), Topic("b", INTERVAL), Topic("c", Power)];
    for len in [100, 900, 1700] {
        steps.extend([Append(A, len), Batch(B, 2, len), Sync, Append(C, len)]);
        steps.extend([Append(A, len), Append(B, len)]);
    }
    every_crash_of("syncs", &steps);
}

#[test]
fn f03_levels_side_by_side_keep_each_its_own_promise() {
    every_crash_of("levels in turn", &levels_in_turn());
}

#[test]
fn f07_processes_that_are_killed_again_and_again_lose_nothing() {
    for level in [Power, Process] {
        let what = format!("kills at {level:?}");
        every_crash_of(&what, &killed_again_and_again(level));
    }
}

#[test]
fn f19_power_losses_one_after_the_other_never_give_an_offset_twice() {
    let models = [
        (CrashModel::LostSuffix, 2),
        (CrashModel::LostPages, 5),
        (CrashModel::GarbagePages, 7),
    ];
    for level in [Power, Process, INTERVAL] {
        for (model, seed) in models {
            let what = format!("{model:?} at {level:?}");
            every_crash_of(&what, &power_lost(level, model, seed));
        }
    }
}

#[test]
fn f19b_a_partition_that_was_left_alone_after_a_power_loss_is_not_taken_for_the_same_boot() {
    let steps = [
        Topic("a", Process),
        Topic("b", Process),
        Append(A, 900),
        Append(B, 900),
        Sync,
        Batch(A, 3, 200),
        Batch(B, 3, 200),
        PowerLoss(CrashModel::LostSuffix, 1),
        Append(A, 50),
        Kill,
        Append(A, 50),
        Kill,
        Append(B, 50),
    ];
    every_crash_of("one of two after a power loss", &steps);
}

#[test]
fn f120_a_commit_is_there_once_it_was_synced_and_never_ahead_of_its_partition() {
    every_crash_of("offset commits", &commits());
}

#[test]
fn f20_a_log_that_was_closed_is_whole_after_every_crash_and_opens_without_a_write() {
    every_crash_of("closes", &closed_and_opened());
}

#[test]
fn f14_a_state_file_that_was_lost_is_written_anew_at_any_crash() {
    let steps = [
        Topic("a", Power),
        Topic("b", Process),
        Append(A, 500),
        Batch(B, 3, 500),
        Close,
        LoseState,
        Append(A, 500),
        Append(B, 100),
        Close,
        Append(B, 100),
    ];
    every_crash_of("STATE lost", &steps);
}

#[test]
fn f08_crashes_within_recovery_change_nothing_of_its_result() {
    let lost = power_lost(Process, CrashModel::LostPages, 3);
    recoveries_of("recoveries of appends at Power", &appends(Power));
    recoveries_of("recoveries of appends at Process", &appends(Process));
    recoveries_of("recoveries of levels in turn", &levels_in_turn());
    recoveries_of("recoveries of a power loss", &lost);
}
