//! F62 and F62b: `STATE` torn, with holes, with garbage behind, or stale. It says whether the last end was an orderly one.

use thalweg::testing::{CrashModel, Disk, DiskCall, DiskError, Fault, ManualClock};
use thalweg::{Durability, FindingKind, Log, TopicConfig};

use crate::forge::{self, CLOSE, OPEN};
use crate::media::{self, End, Golden, Opened, Plan, append_probe};

const STATE: &str = "/log/STATE";
const SPAN: u32 = 1000;

/// Below `Power`, so that every doubt about the last end shows as a gap.
fn golden(end: End) -> Golden {
    let mut plan = Plan::small(2, Durability::Process, end);
    plan.config = plan.config.offset_span(SPAN);
    Golden::new(plan)
}

fn judged(golden: &Golden, disk: &Disk, what: &str) -> Opened {
    let judged = golden.judge(disk);
    let opened = judged.unwrap_or_else(|e| panic!("{what}: {e}")).opened();
    assert!(opened.found.is_whole(), "{what}: {:?}", opened.found);
    opened
}

fn has_gap(log: &Log) -> bool {
    let findings = log.recovery().findings();
    assert!(
        findings.iter().all(|f| f.kind != FindingKind::Damaged),
        "{findings:?}"
    );
    findings.iter().any(|found| found.kind == FindingKind::Gap)
}

#[test]
fn f62_a_close_counts_only_as_the_last_entry() {
    let golden = golden(End::Closed);
    let disk = golden.copy();
    let log = media::open(&disk).unwrap();
    assert!(!has_gap(&log), "it was closed in order");
    assert_eq!(append_probe(&media::partition(&log)), Some(golden.end()));
    // The power fails at any moment of that second life.
    let mut seen = 0;
    for after in 0..=disk.points() {
        for model in [
            CrashModel::LostSuffix,
            CrashModel::LostPages,
            CrashModel::GarbagePages,
        ] {
            for choice in 0..media::choices(&disk, after, model, 64) {
                let crashed = disk.crash(after, model, choice);
                let what = format!("{model:?} after {after}, {choice}");
                let log = media::open(&crashed).unwrap_or_else(|e| panic!("{what}: {e:?}"));
                let partition = media::partition(&log);
                let written = has_second_life(&crashed, &golden);
                assert_eq!(has_gap(&log), written, "{what}");
                let next = append_probe(&partition).unwrap_or_else(|| panic!("{what}: refused"));
                assert!(next >= golden.end(), "{what}: {next} was given out before");
                assert!(
                    !written || next > golden.end(),
                    "{what}: {next} was given out before"
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "{seen} states");
}

/// Has the second opening left its `OPEN`, sound or not? (All it writes before is nothing.)
fn has_second_life(disk: &Disk, golden: &Golden) -> bool {
    let first = golden.disk.read_file(STATE).unwrap();
    disk.read_file(STATE).unwrap() != first
}

#[test]
fn f62_bytes_behind_a_close_make_the_end_unclean() {
    let golden = golden(End::Closed);
    let state = golden.disk.read_file(STATE).unwrap();
    let (_, first) = &forge::state_entries(&state)[0];
    let stray = &state[first.start as usize..first.end as usize];
    let tails: [&[u8]; 5] = [&[0], &[0xFF; 7], &[0; 4096], &[0x9E, 0x37], stray];
    for tail in tails {
        let disk = golden.copy();
        disk.extend(STATE, tail).unwrap();
        let what = format!("{} bytes behind", tail.len());
        let opened = judged(&golden, &disk, &what);
        assert!(has_gap(&opened.log), "{what}: taken for an orderly end");
    }
}

#[test]
fn f62b_each_entry_lost_costs_certainty_and_no_record() {
    for end in [End::Closed, End::Killed] {
        let golden = golden(end);
        let state = golden.disk.read_file(STATE).unwrap();
        for (kind, range) in forge::state_entries(&state) {
            for damage in ["zeroed", "garbled", "one bit"] {
                let disk = golden.copy();
                match damage {
                    "zeroed" => disk.zero(STATE, range.clone()).unwrap(),
                    "garbled" => {
                        let noise = vec![0xA5; (range.end - range.start) as usize];
                        disk.replace(STATE, range.start, &noise).unwrap();
                    }
                    _ => disk.flip_bit(STATE, (range.end - 1) * 8).unwrap(),
                }
                let what = format!("{end:?}, kind {kind} {damage} at {range:?}");
                let opened = judged(&golden, &disk, &what);
                assert!(has_gap(&opened.log), "{what}: a hole may have held an OPEN");
                let next = append_probe(&opened.partition);
                assert!(next > Some(golden.end()), "{what}: {next:?}");
            }
        }
    }
}

#[test]
fn f62b_state_cut_anywhere_costs_certainty_and_no_record() {
    for end in [End::Closed, End::Killed] {
        let golden = golden(end);
        let state = golden.disk.read_file(STATE).unwrap();
        let edges: Vec<u64> = forge::state_entries(&state)
            .iter()
            .map(|(_, range)| range.start)
            .collect();
        for len in (0..state.len() as u64)
            .step_by(5)
            .chain(edges.iter().copied())
        {
            let disk = golden.copy();
            disk.resize(STATE, len).unwrap();
            let what = format!("{end:?}, cut to {len}");
            let opened = judged(&golden, &disk, &what);
            // At an edge nothing shows that something is missing; then a point is a point, and the `OPEN` vouches.
            if !edges.contains(&len) {
                assert!(has_gap(&opened.log), "{what}");
            }
            let next = append_probe(&opened.partition);
            assert!(next >= Some(golden.end()), "{what}: {next:?}");
        }
    }
}

/// The number of each `OPEN` and `CLOSE`.
fn numbers(state: &[u8], wanted: u8) -> Vec<u64> {
    let entries = forge::state_entries(state).into_iter();
    let of_kind = entries.filter(|(kind, _)| *kind == wanted);
    of_kind
        .map(|(_, range)| forge::u64_at(state, range.start as usize + 12))
        .collect()
}

#[test]
fn f62b_after_a_hole_one_number_is_left_out_and_the_file_is_sound_again() {
    let golden = golden(End::Killed);
    let state = golden.disk.read_file(STATE).unwrap();
    let (_, last) = forge::state_entries(&state).pop().unwrap();
    let disk = golden.copy();
    disk.flip_bit(STATE, last.start * 8 + 40).unwrap();
    let opened = judged(&golden, &disk, "a hole");
    append_probe(&opened.partition).unwrap();
    opened.log.close().unwrap();
    let mended = disk.read_file(STATE).unwrap();
    // It decodes from end to end, or this panics.
    let first = numbers(&state, OPEN)[0];
    assert_eq!(numbers(&mended, OPEN), [first, first + 2]);
    assert_eq!(numbers(&mended, CLOSE), [first + 2]);
    let log = media::open(&disk).unwrap();
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
}

#[test]
fn f62b_a_lost_state_is_numbered_above_every_segment_header() {
    let golden = golden(End::Closed);
    let disk = golden.copy();
    for _ in 0..5 {
        let log = media::open(&disk).unwrap();
        let partition = media::partition(&log);
        append_probe(&partition).unwrap();
        partition.roll().unwrap();
        log.close().unwrap();
    }
    let before = numbers(&disk.read_file(STATE).unwrap(), OPEN)
        .pop()
        .unwrap();
    disk.remove(STATE).unwrap();
    let log = media::open(&disk).unwrap();
    append_probe(&media::partition(&log)).unwrap();
    log.close().unwrap();
    let after = numbers(&disk.read_file(STATE).unwrap(), OPEN);
    assert_eq!(
        after,
        [before + 2],
        "two above the greatest there was, so that one is missing"
    );
}

#[test]
fn f62b_a_partition_untouched_since_the_hole_keeps_its_doubt() {
    // Two partitions; STATE rots; the next life writes to the second one alone and is killed.
    let disk = Disk::seeded(5);
    let log = media::open(&disk).unwrap();
    let config = TopicConfig::new()
        .partitions(2)
        .durability(Durability::Process)
        .offset_span(SPAN);
    let topic = log.create_topic("t", config).unwrap();
    for partition in topic.partitions() {
        partition.append_all([("k", "a"), ("k", "b")]).unwrap();
    }
    let rotten = media::copy(&disk);
    drop(log);
    let state = rotten.read_file(STATE).unwrap();
    let (kind, open) = forge::state_entries(&state).remove(0);
    assert_eq!(kind, OPEN);
    rotten.zero(STATE, open).unwrap();
    let log = media::open(&rotten).unwrap();
    let second = log.topic("t").unwrap().partition(1).unwrap();
    assert_eq!(append_probe(&second), Some(u64::from(SPAN)));
    let killed = media::copy(&rotten);
    drop((log, second));
    let log = media::open(&killed).unwrap();
    let topic = log.topic("t").unwrap();
    let first = topic.partition(0).unwrap();
    assert_eq!(
        append_probe(&first),
        Some(u64::from(SPAN)),
        "its offsets from 2 on may have been given out"
    );
    let second = topic.partition(1).unwrap();
    assert_eq!(
        append_probe(&second),
        Some(u64::from(SPAN) + 1),
        "in the same boot since"
    );
}

#[test]
fn f62b_stale_bytes_of_the_predecessor_of_state_are_no_entries() {
    // The salt of a rewritten STATE is another one: entries of the old file in its tail do not decode.
    let golden = golden(End::Closed);
    let old = golden.disk.read_file(STATE).unwrap();
    let disk = golden.copy();
    disk.remove(STATE).unwrap();
    let opened = judged(&golden, &disk, "STATE is lost");
    let next = append_probe(&opened.partition).unwrap();
    drop(opened.partition);
    opened.log.close().unwrap();
    let new = disk.read_file(STATE).unwrap();
    for (kind, range) in forge::state_entries(&old) {
        let damaged = media::copy(&disk);
        let (begin, end) = (range.start as usize, range.end as usize);
        // At the very position where it stood, if the new file is shorter, and at its end.
        damaged.resize(STATE, begin.max(new.len()) as u64).unwrap();
        damaged.extend(STATE, &old[begin..end]).unwrap();
        let log = media::open(&damaged).unwrap();
        assert!(
            has_gap(&log),
            "kind {kind}: an entry of another file was believed"
        );
        let after = append_probe(&media::partition(&log)).unwrap();
        assert!(after > next, "kind {kind}: {after} was given out before");
    }
}

#[test]
fn f62b_a_full_disk_while_state_is_rewritten_leaves_a_log_that_opens() {
    let golden = golden(End::Killed);
    for (call, error) in [
        (DiskCall::Write, DiskError::NoSpace),
        (DiskCall::Write, DiskError::Quota),
        (DiskCall::Open, DiskError::NoSpace),
        (DiskCall::SyncAll, DiskError::Io),
        (DiskCall::Rename, DiskError::Io),
        (DiskCall::SyncDir, DiskError::Io),
    ] {
        let disk = golden.copy();
        disk.flip_bit(STATE, 8 * (forge::STATE_HEADER as u64 + 5))
            .unwrap(); // so that it is rewritten
        let fault = Fault::error(call, error).lasting();
        disk.fail(match call {
            DiskCall::SyncDir => fault,
            _ => fault.on("STATE.tmp"),
        });
        let what = format!("{call:?} gives {error:?}");
        let judged = golden
            .judge(&disk)
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        let opened = judged.opened();
        assert!(opened.found.is_whole(), "{what}: {:?}", opened.found);
        let refused = opened.partition.append(("k", "v"));
        assert!(refused.is_err(), "{what}: no OPEN, no write");
        assert!(disk.struck() > 0, "{what}: the fault never struck");
        let _ = opened.log.close();
        drop(opened.partition);
        disk.heal();
        let opened = self::judged(&golden, &disk, &what);
        assert!(
            append_probe(&opened.partition) > Some(golden.end()),
            "{what}"
        );
    }
}

#[test]
fn f62b_a_crash_while_state_is_rewritten_leaves_the_old_one_or_the_new() {
    let golden = golden(End::Killed);
    let disk = golden.copy();
    disk.zero(STATE, 30..40).unwrap(); // so that it is rewritten
    disk.forget_history();
    let clock = ManualClock::new();
    let log = media::builder().clock(&clock).open_on(&disk).unwrap();
    let first = append_probe(&media::partition(&log)).unwrap();
    assert_eq!(first, golden.batches(1)[0].first + u64::from(SPAN));
    let mut states = 0;
    for after in 0..=disk.points() {
        for model in [
            CrashModel::ProcessKill,
            CrashModel::LostPages,
            CrashModel::GarbagePages,
        ] {
            for choice in 0..media::choices(&disk, after, model, 16) {
                let crashed = disk.crash(after, model, choice);
                let what = format!("{model:?} after {after}, {choice}");
                let log = media::open(&crashed).unwrap_or_else(|e| panic!("{what}: {e:?}"));
                let next = append_probe(&media::partition(&log));
                assert!(next > Some(golden.end()), "{what}: {next:?}");
                log.close().unwrap();
                let log = media::open(&crashed).unwrap_or_else(|e| panic!("{what}: {e:?}"));
                assert!(log.recovery().is_empty(), "{what}: {:?}", log.recovery());
                states += 1;
            }
        }
    }
    assert!(states > 50, "{states} states");
}
