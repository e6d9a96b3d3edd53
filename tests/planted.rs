//! Bugs planted on purpose: each makes a scenario red that is green without it, so the scenarios can fail.
//!
//! The bugs are compiled in by a flag of their own; without it the scenarios alone run:
//! `RUSTFLAGS="--cfg planted" cargo test --target-dir target/planted --test planted -- --nocapture`

#[path = "planted/bytes.rs"]
mod bytes;
mod common;
#[path = "planted/compacting.rs"]
mod compacting;
#[path = "planted/files.rs"]
mod files;
#[path = "common/forge.rs"]
mod forge;
#[path = "planted/ground.rs"]
mod ground;
#[path = "planted/groups.rs"]
mod groups;
#[path = "planted/power.rs"]
mod power;

/// Number and name of a bug, the rows of the fault catalogue that it breaks, and what shows it.
struct Scenario {
    number: u8,
    bug: &'static str,
    rows: &'static str,
    run: fn(),
}

const fn scenario(number: u8, bug: &'static str, rows: &'static str, run: fn()) -> Scenario {
    Scenario {
        number,
        bug,
        rows,
        run,
    }
}

const SCENARIOS: [Scenario; 29] = [
    scenario(
        1,
        "directory sync skipped",
        "F9 F10",
        power::names_are_durable_at_power,
    ),
    scenario(
        2,
        "acknowledged before the sync",
        "F3",
        power::acknowledged_at_power_survives,
    ),
    scenario(
        3,
        "failed sync retried",
        "F21 F22",
        power::a_failed_sync_is_no_success,
    ),
    scenario(
        4,
        "short write ignored",
        "F26",
        bytes::a_short_write_is_continued,
    ),
    scenario(
        5,
        "no rollback after a failed write",
        "F26",
        bytes::a_failed_write_leaves_nothing,
    ),
    scenario(
        6,
        "barrier between segments skipped",
        "F11",
        power::a_segment_is_durable_before_its_successor,
    ),
    scenario(
        7,
        "index trusted",
        "F54 F56",
        bytes::an_index_that_lies_is_not_followed,
    ),
    scenario(
        8,
        "CRC not checked on read",
        "F39",
        bytes::a_flipped_bit_is_not_served,
    ),
    scenario(
        9,
        "header CRC without position and salt",
        "F6 F43",
        bytes::a_misdirected_batch_is_not_served,
    ),
    scenario(
        10,
        "cut at damage in the middle",
        "F40",
        bytes::damage_in_the_middle_is_not_cut,
    ),
    scenario(
        11,
        "EIO treated as end of file",
        "F34 F35",
        bytes::an_error_while_opening_changes_nothing,
    ),
    scenario(
        12,
        "all-zero header accepted",
        "F5",
        bytes::zeros_are_no_batch,
    ),
    scenario(
        13,
        "span skip ignored after power loss",
        "F19",
        power::no_offset_is_given_out_twice,
    ),
    scenario(
        14,
        "offset commit made durable before its data",
        "F120",
        power::a_durable_commit_stands_behind_its_records,
    ),
    scenario(
        16,
        "manifest written after unlink",
        "F65",
        files::what_goes_is_forgotten_before_it_is_removed,
    ),
    scenario(
        17,
        "leftover file reused",
        "F67",
        files::an_unfinished_file_is_not_live,
    ),
    scenario(
        18,
        "lock taken after recovery",
        "F89",
        files::a_second_opening_is_refused_before_it_writes,
    ),
    scenario(
        19,
        "callback run under a lock",
        "F105 F107",
        groups::a_callback_may_ask_about_its_group,
    ),
    scenario(
        20,
        "silent consumer never fenced",
        "F109",
        groups::who_falls_silent_is_shut_out,
    ),
    scenario(
        21,
        "commit of an old generation accepted",
        "F111",
        groups::who_was_shut_out_commits_nothing,
    ),
    scenario(
        24,
        "length cap removed",
        "F42",
        bytes::a_length_beyond_the_format_is_no_cut_batch,
    ),
    scenario(
        25,
        "OPEN not synced before the first write",
        "F62",
        power::a_stale_close_is_not_believed,
    ),
    scenario(
        26,
        "second rewrite does not copy out_link",
        "F66b",
        files::what_was_rewritten_twice_is_followed_as_before,
    ),
    scenario(
        27,
        "same boot judged by the newest OPEN alone",
        "F19b",
        power::an_untouched_partition_remembers_the_power_loss,
    ),
    scenario(
        29,
        "CLOSE written while a partition is poisoned",
        "F20",
        power::a_poisoned_partition_is_not_closed_in_order,
    ),
    scenario(
        30,
        "leftover removed though nothing covers it",
        "F67",
        files::a_file_that_nothing_covers_is_kept,
    ),
    scenario(
        32,
        "tombstone dropped before its time",
        "F70",
        compacting::a_tombstone_stays_until_its_time_is_up,
    ),
    scenario(
        33,
        "record beyond the end of the round dropped",
        "F66 F69",
        compacting::what_a_round_has_not_reached_stays,
    ),
    scenario(
        34,
        "offsets expire though a member reads there",
        "B36",
        groups::what_an_idle_member_has_committed_stays,
    ),
];

/// Not with the bugs compiled in: one is planted in the whole process, so the scenarios run one after the other there.
#[cfg(not(planted))]
#[test]
fn every_scenario_passes_without_its_bug() {
    for scenario in &SCENARIOS {
        println!("P{} {} ({})", scenario.number, scenario.bug, scenario.rows);
        (scenario.run)();
    }
}

#[cfg(planted)]
#[test]
fn every_planted_bug_makes_its_scenario_fail() {
    with_bugs::check_all();
}

#[cfg(planted)]
mod with_bugs {
    use std::fs;
    use std::panic;
    use std::path::Path;

    use super::{SCENARIOS, Scenario};
    use thalweg::testing::fuzzing::TARGETS;
    use thalweg::testing::{Bug, plant};

    const BUGS: [Bug; 29] = [
        Bug::DIRECTORY_SYNC_SKIPPED,
        Bug::ACKNOWLEDGED_BEFORE_SYNC,
        Bug::FAILED_SYNC_RETRIED,
        Bug::SHORT_WRITE_IGNORED,
        Bug::NO_ROLLBACK,
        Bug::BARRIER_SKIPPED,
        Bug::INDEX_TRUSTED,
        Bug::CRC_NOT_CHECKED,
        Bug::SEED_WITHOUT_PLACE,
        Bug::CUT_AT_DAMAGE,
        Bug::EIO_IS_END_OF_FILE,
        Bug::ZERO_HEADER_ACCEPTED,
        Bug::SPAN_SKIP_IGNORED,
        Bug::COMMIT_DURABLE_BEFORE_DATA,
        Bug::UNLINKED_BEFORE_MANIFEST,
        Bug::LEFTOVER_REUSED,
        Bug::LOCK_AFTER_RECOVERY,
        Bug::CALLBACK_UNDER_LOCK,
        Bug::SILENT_NEVER_FENCED,
        Bug::OLD_GENERATION_COMMITS,
        Bug::LENGTH_CAP_REMOVED,
        Bug::OPEN_NOT_SYNCED,
        Bug::OUT_LINK_NOT_COPIED,
        Bug::SAME_BOOT_BY_NEWEST_OPEN,
        Bug::CLOSE_WHILE_UNFINISHED,
        Bug::LEFTOVER_REMOVED_UNCOVERED,
        Bug::TOMBSTONE_DROPPED_EARLY,
        Bug::DROPPED_BEYOND_ROUND,
        Bug::OFFSETS_EXPIRE_UNDER_MEMBERS,
    ];

    /// What the scenario says with this bug in: its complaint, if it has one.
    fn complaint(scenario: &Scenario, bug: Bug) -> Option<String> {
        plant(bug);
        let result = panic::catch_unwind(scenario.run);
        plant(Bug::NONE);
        let payload = result.err()?;
        let text = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied());
        Some(
            text.unwrap_or("a panic")
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned(),
        )
    }

    /// How many inputs of a fuzzer's corpus notice the bug.
    fn red_inputs(target: &str, bug: Bug) -> usize {
        let (_, run) = TARGETS
            .into_iter()
            .find(|(name, _)| *name == target)
            .expect("a target");
        run(&[0, 0]); // the golden logs are written now, by sound code
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus");
        let inputs = fs::read_dir(dir.join(target)).expect("a corpus");
        plant(bug);
        let red = inputs.filter(|entry| {
            let path = entry.as_ref().expect("it can be listed").path();
            let input = fs::read(path).expect("an input can be read");
            panic::catch_unwind(|| run(&input)).is_err()
        });
        let red = red.count();
        plant(Bug::NONE);
        red
    }

    /// Prints a table, and panics if a bug stays unnoticed.
    pub(super) fn check_all() {
        panic::set_hook(Box::new(|_| {})); // the complaints are wanted, and printed below
        let mut missed = Vec::new();
        println!(
            "{:<4} {:<46} {:<9} what the scenario says",
            "bug", "", "rows"
        );
        for (scenario, bug) in SCENARIOS.iter().zip(BUGS) {
            let said = complaint(scenario, bug);
            let verdict = said.as_deref().unwrap_or("NOTHING");
            println!(
                "P{:<3} {:<46} {:<9} {verdict}",
                scenario.number, scenario.bug, scenario.rows
            );
            if said.is_none() || bug as u8 != scenario.number {
                missed.push(scenario.number);
            }
            if let Some(said) = complaint(scenario, Bug::NONE) {
                println!("     without the bug: {said}");
                missed.push(scenario.number);
            }
        }
        for (target, bug) in [
            ("directory", Bug::CRC_NOT_CHECKED),
            ("index", Bug::INDEX_TRUSTED),
        ] {
            let red = red_inputs(target, bug);
            println!("P{:<3} {red} inputs of the corpus of `{target}`", bug as u8);
            if red == 0 || red_inputs(target, Bug::NONE) > 0 {
                missed.push(bug as u8);
            }
        }
        let _ = panic::take_hook();
        assert!(
            missed.is_empty(),
            "not caught, or red without a bug: {missed:?}"
        );
    }
}
