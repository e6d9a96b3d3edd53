//! F60 and F61: recovery points that are ahead of the data, behind it, or missing.

use thalweg::testing::Disk;
use thalweg::{Durability, FindingKind, Offset};

use crate::forge;
use crate::media::{self, End, Golden, Plan, append_probe};

const SPAN: u32 = 1000;

fn plan(segments: usize, durability: Durability, end: End) -> Plan {
    let mut plan = Plan::small(segments, durability, end);
    plan.config = plan.config.offset_span(SPAN);
    plan
}

const STATE: &str = "/log/STATE";

/// The entries of a kind, removed by what rot does: a hole that no checksum passes.
fn without(disk: &Disk, kind: u8) {
    let state = disk.read_file(STATE).unwrap();
    for (found, range) in forge::state_entries(&state) {
        if found == kind {
            disk.zero(STATE, range).unwrap();
        }
    }
}

#[test]
fn f60_a_segment_shorter_than_its_recovery_point_is_corruption_and_not_a_shorter_log() {
    for end in [End::Closed, End::Killed, End::Unplugged] {
        let golden = Golden::new(plan(2, Durability::Power, end));
        let batches = golden.batches(1);
        // At the edge of every batch, and within.
        for batch in &batches {
            for len in [batch.position, batch.position + 1, batch.end() - 1] {
                let disk = golden.copy();
                disk.resize(&golden.segments[1], len as u64).unwrap();
                let what = format!("{end:?}, cut to {len}");
                let opened = golden
                    .judge(&disk)
                    .unwrap_or_else(|e| panic!("{what}: {e}"))
                    .opened();
                let findings = opened.log.recovery().findings();
                assert_eq!(
                    findings[0].kind,
                    FindingKind::Damaged,
                    "{what}: {findings:?}"
                );
                assert_eq!(append_probe(&opened.partition), None, "{what}");
                let lost: Vec<u64> = (batch.first..golden.end()).collect();
                assert_eq!(opened.found.lost, lost, "{what}");
                assert_eq!(opened.partition.offsets().end.get(), golden.end(), "{what}");
            }
        }
    }
}

#[test]
fn f60_a_recovery_point_in_a_segment_that_is_gone_is_corruption() {
    for end in [End::Closed, End::Killed, End::Unplugged] {
        let golden = Golden::new(plan(3, Durability::Power, end));
        let disk = golden.copy();
        disk.remove(&golden.segments[2]).unwrap();
        let opened = golden
            .judge(&disk)
            .unwrap_or_else(|e| panic!("{end:?}: {e}"))
            .opened();
        assert_eq!(append_probe(&opened.partition), None, "{end:?}");
        let first = golden.batches(2)[0].first;
        assert!(
            opened.found.lost.iter().copied().eq(first..golden.end()),
            "{end:?}"
        );
        assert_eq!(
            opened.partition.offsets().end.get(),
            golden.end(),
            "{end:?}"
        );
    }
}

#[test]
fn f60_all_segments_gone_is_corruption_and_not_a_new_partition() {
    for end in [End::Closed, End::Killed, End::Unplugged] {
        let golden = Golden::new(plan(2, Durability::Power, end));
        let disk = golden.copy();
        golden
            .segments
            .iter()
            .for_each(|file| disk.remove(file).unwrap());
        let opened = golden
            .judge(&disk)
            .unwrap_or_else(|e| panic!("{end:?}: {e}"))
            .opened();
        assert_eq!(append_probe(&opened.partition), None, "{end:?}");
        assert_eq!(
            opened.partition.offsets().end.get(),
            golden.end(),
            "{end:?}"
        );
        assert_eq!(opened.found.lost.len(), golden.written.len(), "{end:?}");
    }
}

#[test]
fn f60_all_segments_and_state_gone_is_still_no_new_partition() {
    let golden = Golden::new(plan(2, Durability::Power, End::Closed));
    let disk = golden.copy();
    golden
        .segments
        .iter()
        .for_each(|file| disk.remove(file).unwrap());
    disk.remove(STATE).unwrap();
    let opened = golden.judge(&disk).unwrap().opened();
    assert_eq!(append_probe(&opened.partition), None);
}

#[test]
fn f61_at_power_a_lost_state_costs_time_and_nothing_else() {
    for end in [End::Closed, End::Killed, End::Unplugged] {
        let golden = Golden::new(plan(3, Durability::Power, end));
        let disk = golden.copy();
        disk.remove(STATE).unwrap();
        for life in 0..3 {
            let what = format!("{end:?}, life {life}");
            let opened = golden
                .judge(&disk)
                .unwrap_or_else(|e| panic!("{what}: {e}"))
                .opened();
            assert!(opened.found.is_whole(), "{what}: {:?}", opened.found);
            let findings = opened.log.recovery().findings();
            assert!(
                findings.iter().all(|f| f.kind != FindingKind::Gap),
                "{what}: {findings:?}"
            );
            assert_eq!(opened.partition.offsets().end.get(), golden.end(), "{what}");
            opened.log.close().unwrap();
        }
        let log = media::open(&disk).unwrap();
        let partition = media::partition(&log);
        assert_eq!(append_probe(&partition), Some(golden.end()), "{end:?}");
    }
}

#[test]
fn f61_below_power_a_lost_state_leaves_a_gap_and_no_offset_comes_twice() {
    for end in [End::Closed, End::Killed, End::Unplugged] {
        let golden = Golden::new(plan(3, Durability::Process, end));
        let base = golden.batches(2)[0].first;
        let disk = golden.copy();
        disk.remove(STATE).unwrap();
        let opened = golden
            .judge(&disk)
            .unwrap_or_else(|e| panic!("{end:?}: {e}"))
            .opened();
        assert!(opened.found.is_whole(), "{end:?}: {:?}", opened.found);
        let gap = opened
            .log
            .recovery()
            .findings()
            .iter()
            .find(|f| f.kind == FindingKind::Gap);
        let gap = gap.expect("a gap is reported").offsets.clone();
        let behind = base + u64::from(SPAN);
        assert_eq!(
            gap,
            Some(Offset::new(golden.end())..Offset::new(behind)),
            "{end:?}"
        );
        assert_eq!(append_probe(&opened.partition), Some(behind), "{end:?}");
        opened.log.close().unwrap();
        // The gap is written down: it does not grow at the next opening.
        let log = media::open(&disk).unwrap();
        assert!(log.recovery().is_empty(), "{end:?}: {:?}", log.recovery());
        assert_eq!(
            append_probe(&media::partition(&log)),
            Some(behind + 1),
            "{end:?}"
        );
        let partition = media::partition(&log);
        let in_gap = partition.get(Offset::new(behind - 1)).unwrap();
        assert!(in_gap.is_none(), "{end:?}");
        let next = partition
            .entries(Offset::new(golden.end())..)
            .next()
            .unwrap()
            .unwrap();
        assert_eq!(
            next.offset().get(),
            behind,
            "{end:?}: a position in the gap reads the next record"
        );
    }
}

#[test]
fn f61_in_the_same_boot_lost_points_cost_time_alone_only_if_nothing_else_may_be_lost_with_them() {
    // The hole where the points were may have held an `OPEN`: the same boot is not proved any more.
    for end in [End::Closed, End::Killed] {
        for durability in [Durability::Power, Durability::Process] {
            let golden = Golden::new(plan(2, durability, end));
            let disk = golden.copy();
            without(&disk, forge::POINT);
            let what = format!("{end:?}, {durability:?}");
            let opened = golden
                .judge(&disk)
                .unwrap_or_else(|e| panic!("{what}: {e}"))
                .opened();
            assert!(opened.found.is_whole(), "{what}: {:?}", opened.found);
            let findings = opened.log.recovery().findings();
            let gap = findings.iter().any(|found| found.kind == FindingKind::Gap);
            assert_eq!(
                gap,
                durability == Durability::Process,
                "{what}: {findings:?}"
            );
        }
    }
}

#[test]
fn f61_recovery_points_that_lag_behind_change_nothing() {
    // `STATE` as it was early in the same life: all later points are missing from it.
    let golden = Golden::new(plan(3, Durability::Power, End::Killed));
    let state = golden.disk.read_file(STATE).unwrap();
    let entries = forge::state_entries(&state);
    for keep in 1..entries.len().min(30) {
        let disk = golden.copy();
        disk.resize(STATE, entries[keep].1.start).unwrap();
        let what = format!("{keep} entries");
        let opened = golden
            .judge(&disk)
            .unwrap_or_else(|e| panic!("{what}: {e}"))
            .opened();
        assert!(opened.found.is_whole(), "{what}: {:?}", opened.found);
        assert_eq!(
            append_probe(&opened.partition),
            Some(golden.end()),
            "{what}"
        );
    }
}

#[test]
fn f61_a_stale_state_from_before_the_last_life_is_no_reason_to_cut() {
    let golden = Golden::new(plan(2, Durability::Power, End::Closed));
    let stale = golden.disk.read_file(STATE).unwrap();
    let disk = golden.copy();
    let log = media::open(&disk).unwrap();
    let partition = media::partition(&log);
    for n in 0..5 {
        partition.append(("k", format!("late {n}"))).unwrap();
    }
    log.close().unwrap();
    let file = golden.segments[1].clone();
    let before = disk.read_file(&file).unwrap();
    disk.write_file(STATE, &stale).unwrap();
    // It says that the log was closed in order, and shorter than it is: neither is to be believed blindly.
    let log = media::open(&disk).unwrap();
    let findings = log.recovery().findings();
    assert!(
        findings.iter().any(|f| f.kind == FindingKind::Damaged),
        "{findings:?}"
    );
    let partition = media::partition(&log);
    assert_eq!(append_probe(&partition), None);
    drop((log, partition));
    assert_eq!(disk.read_file(&file).unwrap(), before, "nothing was cut");
}
