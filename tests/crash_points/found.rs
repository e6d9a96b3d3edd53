//! What the enumerations found once, each as a small story of its own.

use thalweg::Durability::{Power, Process};
use thalweg::FindingKind;
use thalweg::testing::{CrashModel, Disk};

use crate::common;
use crate::workload::Step::{Append, Batch, PowerLoss, Sync, Topic, Trim};
use crate::workload::{self, World};
use crate::{A, B};

/// A partition that lost its first segment's only batch begins behind a gap; reading it backwards did not end.
#[test]
fn f19_a_partition_that_begins_behind_a_gap_is_read_backwards() {
    let steps = [
        Topic("a", Process),
        Append(A, 100),
        PowerLoss(CrashModel::LostSuffix, 0),
        Append(A, 100),
    ];
    let mut world = World::after(1, &steps);
    let partition = world.partition(A).unwrap();
    let back = partition.entries(..).rev().map(|entry| entry.unwrap());
    let offsets: Vec<u64> = back.map(|entry| entry.offset().get()).collect();
    assert_eq!(offsets, [u64::from(workload::SPAN)]);
}

/// A killed process may leave the newest topic, and the bit that a partition is in use, in the cache alone. The next one took
/// them for durable, and a power loss took the records that it had acknowledged on their strength.
#[test]
fn f10_what_a_killed_process_began_is_durable_once_the_next_one_builds_on_it() {
    let began = World::after(1, &[Topic("a", Power), Append(A, 30), Topic("b", Power)]);
    for point in 0..=began.disk.points() {
        let killed = began.disk.crash(point, CrashModel::ProcessKill, 0);
        let log = common::open(&killed, &began.clock).unwrap();
        let mut expected = Vec::new();
        for key in [A, B] {
            let topic = log.topic_or_create(key.0, workload::config(Power)).unwrap();
            let partition = topic.partition(key.1).unwrap();
            partition.append(("k", "acknowledged")).unwrap();
            expected.push(workload::read(&partition).unwrap());
        }
        let lost = killed.crash(killed.points(), CrashModel::LostSuffix, 0);
        let again = common::open(&lost, &began.clock)
            .unwrap_or_else(|e| panic!("killed after {point} operations: {e:?}"));
        for (key, expected) in [A, B].iter().zip(expected) {
            let topic = again.topic(key.0).unwrap();
            let partition = topic.partition(key.1).unwrap();
            let found = workload::read(&partition).unwrap();
            assert_eq!(found, expected, "{key:?}, killed after {point} operations");
            let on = partition.append(("k", "goes on"));
            on.unwrap_or_else(|e| panic!("{key:?}, killed after {point} operations: {e:?}"));
        }
    }
}

/// Recovery that cut a segment twice at the same place wrote the second tail over the first one.
#[test]
fn f08_a_tail_that_was_kept_aside_is_never_written_over() {
    // Of a batch over two pages the second is lost.
    let torn = |seed| {
        let steps = [
            Topic("a", Process),
            Append(A, 50),
            Sync,
            Batch(A, 4, 1500),
            PowerLoss(CrashModel::LostPages, seed),
        ];
        let mut world = World::after(1, &steps);
        let report = world.log().unwrap().recovery().clone();
        let kept = report
            .findings()
            .iter()
            .find_map(|f| f.quarantine.clone())?;
        world.take(Append(A, 20)).unwrap();
        let tail = world.disk.read_file(&kept).unwrap();
        tail.iter()
            .any(|byte| *byte != 0)
            .then_some((world, kept, tail))
    };
    let (world, kept, tail) = (0..64).find_map(torn).expect("a torn batch");
    let mut kept_before = 0;
    for point in 0..=world.disk.points() {
        for seed in 0..16 {
            let crashed = world.disk.crash(point, CrashModel::LostPages, seed);
            let whole = |disk: &Disk| disk.read_file(&kept).is_ok_and(|bytes| bytes == tail);
            if !whole(&crashed) {
                continue;
            }
            kept_before += 1;
            let log = common::open(&crashed, &world.clock).unwrap();
            let topic = log.topic(A.0).unwrap();
            let partition = topic.partition(A.1).unwrap();
            partition.append(("k", "v")).unwrap();
            assert!(whole(&crashed), "written over, {seed} after {point}");
        }
    }
    assert!(kept_before > 10, "{kept_before}");
}

/// A recovery that was killed after it had sealed a segment was followed by one that skipped the offsets in silence.
#[test]
fn f19_a_gap_is_reported_until_a_segment_records_it() {
    let steps = [
        Topic("a", Process),
        Append(A, 50),
        Sync,
        Append(A, 50),
        PowerLoss(CrashModel::LostSuffix, 0),
        Append(A, 20),
    ];
    let world = World::after(1, &steps);
    for point in 0..=world.disk.points() {
        let killed = world.disk.crash(point, CrashModel::ProcessKill, 0);
        let log = common::open(&killed, &world.clock).unwrap();
        let partition = log.topic(A.0).unwrap().partition(A.1).unwrap();
        let (seen, next) = workload::read(&partition).unwrap();
        let segments = killed.files().into_iter().filter(|(path, _)| {
            path.to_string_lossy().contains("/a-")
                && path.extension().is_some_and(|end| end == "log")
        });
        let recorded = segments.count() > 1;
        let behind = seen.last().is_some_and(|last| last.0 + 1 < next);
        let gap = |finding: &thalweg::Finding| finding.kind == FindingKind::Gap;
        let said = log.recovery().findings().iter().any(gap);
        assert!(said || recorded || !behind, "killed after {point}");
    }
}

/// Kills before and after each step of a recovery, and of the one after it: nothing of them is ever called damage.
#[test]
fn f08_leftovers_of_recoveries_that_were_killed_are_never_taken_for_live() {
    let steps = [
        Topic("a", Process),
        Append(A, 50),
        PowerLoss(CrashModel::LostSuffix, 0),
        Append(A, 20),
    ];
    let world = World::after(1, &steps);
    for first in 0..=world.disk.points() {
        let once = world.disk.crash(first, CrashModel::LostSuffix, u64::MAX);
        let mut next = World::on(once.clone());
        let log = next.log().unwrap();
        let partition = log.topic(A.0).unwrap().partition(A.1).unwrap();
        partition.append(("k", "v")).unwrap();
        for second in 0..=once.points() {
            let twice = once.crash(second, CrashModel::LostSuffix, u64::MAX);
            let log = common::open(&twice, &world.clock).unwrap();
            let damaged = |f: &thalweg::Finding| f.kind == FindingKind::Damaged;
            let found = log.recovery();
            let state = format!("{first}, {second}");
            assert!(!found.findings().iter().any(damaged), "{state}: {found:?}");
        }
    }
}

/// Recovery seals a segment and begins the next one behind the gap. One that was killed in between left that to the next append:
/// a close called the log clean all the same, and each opening after it reported the gap anew.
#[test]
fn f20_a_gap_that_a_killed_recovery_left_open_is_recorded_by_the_next_close() {
    let steps = [
        Topic("a", Process),
        Append(A, 50),
        Sync,
        Append(A, 50),
        PowerLoss(CrashModel::LostSuffix, 0),
        Sync,
    ];
    let world = World::after(1, &steps);
    for point in 0..=world.disk.points() {
        let killed = world.disk.crash(point, CrashModel::ProcessKill, 0);
        common::open(&killed, &world.clock)
            .unwrap()
            .close()
            .unwrap();
        let hash = killed.hash();
        let log = common::open(&killed, &world.clock).unwrap();
        let found = log.recovery();
        assert!(found.is_empty(), "killed after {point}: {found:?}");
        drop(log);
        assert!(killed.hash() == hash, "killed after {point}: written");
    }
}

#[test]
fn f19_what_a_killed_recovery_left_in_the_cache_is_durable_before_an_append_rests_on_it() {
    let steps = [
        Topic("a", Process),
        Append(A, 50),
        PowerLoss(CrashModel::LostSuffix, 0),
        Append(A, 50),
        // The segment behind the gap is empty now, and is replaced through the manifest.
        PowerLoss(CrashModel::LostSuffix, 0),
        Append(A, 20),
    ];
    let world = World::after(1, &steps);
    for point in 0..=world.disk.points() {
        let killed = world.disk.crash(point, CrashModel::ProcessKill, 0);
        let log = common::open(&killed, &world.clock).unwrap();
        let Ok(topic) = log.topic(A.0) else { continue };
        let told = topic
            .partition(A.1)
            .unwrap()
            .append(("k", "v"))
            .unwrap()
            .offset();
        for (model, seed) in [(CrashModel::LostSuffix, 0), (CrashModel::LostPages, 0)] {
            let lost = killed.crash(killed.points(), model, seed);
            let log = common::open(&lost, &world.clock).unwrap();
            let next = log
                .topic(A.0)
                .unwrap()
                .partition(A.1)
                .unwrap()
                .offsets()
                .end;
            assert!(
                next > told,
                "{told} was told, {next} is next: killed after {point}"
            );
        }
    }
}

/// A killed process may leave a new log start in the cache alone. Who opened the log next saw it, and wrote recovery points that rest on
/// it; a power loss took it back, and the partition was called damaged.
#[test]
fn f65_a_log_start_that_was_seen_never_goes_back() {
    for level in [Power, Process] {
        let steps = [Topic("a", level), Batch(A, 5, 100), Trim(A, 4), Trim(A, 2)];
        let made = World::after(1, &steps[..2]).disk.points();
        let world = World::after(1, &steps);
        for point in made..=world.disk.points() {
            for then in ["nothing", "an append", "a close"] {
                let killed = world.disk.crash(point, CrashModel::ProcessKill, 0);
                let log = common::open(&killed, &world.clock).unwrap();
                let partition = log.topic(A.0).unwrap().partition(A.1).unwrap();
                let shown = partition.offsets().start;
                match then {
                    "an append" => drop(partition.append(("k", "v")).unwrap()),
                    "a close" => log.close().unwrap(),
                    _ if level == Power => {}
                    _ => continue, // nothing rests on it yet
                }
                let lost = killed.crash(killed.points(), CrashModel::LostSuffix, 0);
                let log = common::open(&lost, &world.clock).unwrap();
                let partition = log.topic(A.0).unwrap().partition(A.1).unwrap();
                let found = partition.offsets();
                let state = format!("{level:?}, killed after {point}, then {then}");
                let damaged = |f: &&thalweg::Finding| f.kind == FindingKind::Damaged;
                let damaged = log.recovery().findings().iter().find(damaged);
                assert!(damaged.is_none(), "{state}: {damaged:?}");
                assert!(found.start >= shown, "{state}: {found:?}, {shown} was seen");
            }
        }
    }
}
