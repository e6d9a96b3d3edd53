//! F63 and F64: opening costs what is above the recovery points, and a limit of the system is never taken for damage.

use thalweg::testing::{Disk, DiskCall, DiskError, Fault};
use thalweg::{Durability, Error, FindingKind, Offset, ReadMode, TopicConfig};

use crate::media::{self, End, Golden, Plan, append_probe};

/// Calls of each kind that opening a log takes, and nothing else.
fn calls_to_open(disk: &Disk) -> [u64; 3] {
    disk.mark();
    let log = media::open(disk).expect("the log opens");
    let calls = disk.calls();
    drop(log);
    [DiskCall::Open, DiskCall::Read, DiskCall::ReadDir]
        .map(|call| calls.get(&call).copied().unwrap_or(0))
}

#[test]
fn f63_opening_costs_the_same_with_ten_segments_and_with_a_thousand() {
    for end in [End::Closed, End::Killed, End::Unplugged] {
        let calls = [10, 1000].map(|segments| {
            let mut plan = Plan::small(segments, Durability::Power, end);
            plan.segment_bytes = 600;
            plan.last_bytes = 0;
            let golden = Golden::new(plan);
            calls_to_open(&golden.copy())
        });
        assert_eq!(calls[0], calls[1], "{end:?}: opens, reads, listings");
    }
}

/// A log of one topic with so many partitions, of which each 100th is used.
fn wide(partitions: u32) -> Disk {
    let disk = Disk::new();
    let log = media::open(&disk).unwrap();
    let topic = log
        .create_topic("t", TopicConfig::new().partitions(partitions))
        .unwrap();
    for id in (0..partitions).step_by(100) {
        topic.partition(id).unwrap().append(("k", "v")).unwrap();
    }
    log.close().unwrap();
    disk
}

#[test]
fn f63_of_ten_thousand_partitions_opening_reads_the_used_ones_alone() {
    let disk = wide(10_000);
    let [opens, reads, _] = calls_to_open(&disk);
    // 100 used partitions: a few files each, and the log's own.
    assert!(opens <= 100 * 4 + 30, "{opens} files were opened");
    assert!(reads <= 100 * 8 + 60, "{reads} reads");
    let log = media::open(&disk).unwrap();
    assert!(log.recovery().is_empty());
    let topic = log.topic("t").unwrap();
    let used = topic
        .partitions()
        .iter()
        .filter(|p| p.offsets().end > Offset::ZERO)
        .count();
    assert_eq!(used, 100);
}

#[test]
fn f63_what_lies_below_the_recovery_point_is_not_read_after_a_kill() {
    // 2 MiB in one segment at Power, killed: every append left a recovery point.
    let disk = Disk::new();
    let log = media::open(&disk).unwrap();
    let partition = log
        .create_topic("t", TopicConfig::new())
        .unwrap()
        .partition(0)
        .unwrap();
    let value = vec![1; 32 << 10];
    let mut reads = Vec::new();
    for n in 0..64 {
        partition.append(("k", &value)).unwrap();
        if [3, 63].contains(&n) {
            reads.push(calls_to_open(&media::copy(&disk)));
        }
    }
    assert_eq!(reads[0], reads[1]);
}

/// What opening under a limit may say.
fn is_a_limit(error: &Error) -> bool {
    matches!(
        error,
        Error::Io { .. } | Error::NoSpace { .. } | Error::ReadOnly { .. }
    )
}

#[test]
fn f64_a_limit_met_while_opening_is_that_limit_and_nothing_is_touched() {
    let errors = [
        DiskError::TooManyFiles,
        DiskError::TooManyFilesInAll,
        DiskError::NoMemory,
        DiskError::AccessDenied,
        DiskError::Io,
        DiskError::Stale,
    ];
    for end in [End::Closed, End::Killed, End::Unplugged] {
        let golden = Golden::new(Plan::small(4, Durability::Process, end));
        for call in [DiskCall::Open, DiskCall::Read, DiskCall::ReadDir] {
            for error in errors {
                let mut after = 0;
                loop {
                    let disk = golden.copy();
                    let before = disk.hash();
                    disk.fail(Fault::error(call, error).after(after).lasting());
                    let what = format!("{end:?}, {call:?} gives {error:?} from call {after} on");
                    let opened = media::open(&disk);
                    if disk.struck() == 0 {
                        break;
                    }
                    match opened {
                        Err(refused) => {
                            assert!(is_a_limit(&refused), "{what}: {refused:?}");
                            disk.heal();
                            assert_eq!(disk.hash(), before, "{what}: something was changed");
                        }
                        Ok(log) => {
                            let damaged = |f: &thalweg::Finding| f.kind == FindingKind::Damaged;
                            let findings = log.recovery().findings();
                            assert!(!findings.iter().any(damaged), "{what}: {findings:?}");
                            disk.heal();
                        }
                    }
                    let judged = golden
                        .judge(&disk)
                        .unwrap_or_else(|e| panic!("{what}: {e}"));
                    assert!(
                        judged.opened().found.is_whole(),
                        "{what}: not whole after healing"
                    );
                    after += 1;
                }
                assert!(after > 0, "{end:?}: opening makes no {call:?}");
            }
        }
    }
}

#[test]
fn f64_a_limit_met_while_a_leftover_is_judged_removes_nothing() {
    use crate::forge;
    let golden = Golden::new(Plan::small(4, Durability::Power, End::Killed));
    let dir = media::partition_dir(&golden.disk);
    // Segment 2 is replaced by generation 1, which the manifest (lost meanwhile) made live; the old file is gone.
    let base = golden.batches(2)[0].first;
    let mut bytes = golden.bytes(2);
    forge::put(&mut bytes, forge::header::GENERATION, &1_u32.to_le_bytes());
    forge::sum_head(&mut bytes);
    let live = dir.join(format!("{base:020}-00000001.log"));
    for error in [
        None,
        Some(DiskError::TooManyFiles),
        Some(DiskError::Io),
        Some(DiskError::AccessDenied),
    ] {
        let disk = golden.copy();
        disk.remove(&golden.segments[2]).unwrap();
        disk.write_file(&live, &bytes).unwrap();
        if let Some(error) = error {
            disk.fail(
                Fault::error(DiskCall::Open, error)
                    .on("-00000001.log")
                    .lasting(),
            );
        }
        let what = format!("{error:?}");
        match media::open(&disk) {
            Err(refused) => assert!(
                error.is_some() && is_a_limit(&refused),
                "{what}: {refused:?}"
            ),
            Ok(log) => {
                assert_eq!(error, None, "the limit was swallowed");
                assert_eq!(append_probe(&media::partition(&log)), None, "{what}");
            }
        }
        assert_eq!(
            disk.read_file(&live).ok().as_ref(),
            Some(&bytes),
            "{what}: a live file was removed"
        );
    }
}

#[test]
fn f64_without_memory_for_a_map_segments_are_read_by_position() {
    let golden = Golden::new(Plan::small(3, Durability::Power, End::Closed));
    let disk = golden.copy();
    disk.fail(Fault::error(DiskCall::Map, DiskError::NoMemory).lasting());
    let opened = golden.judge_in(&disk, ReadMode::Mapped).unwrap().opened();
    assert!(opened.found.is_whole(), "{:?}", opened.found);
    assert!(disk.struck() > 0, "nothing was mapped");
}

#[test]
fn f64_a_limit_met_while_reading_is_told_as_itself_and_passes() {
    let golden = Golden::new(Plan::small(3, Durability::Power, End::Closed));
    for (call, error) in [
        (DiskCall::Open, DiskError::TooManyFiles),
        (DiskCall::Open, DiskError::AccessDenied),
        (DiskCall::Read, DiskError::NoMemory),
        (DiskCall::Read, DiskError::Io),
    ] {
        let disk = golden.copy();
        let log = media::open(&disk).unwrap();
        let partition = media::partition(&log);
        disk.fail(Fault::error(call, error).on(".log").lasting());
        let what = format!("{call:?} gives {error:?}");
        let items: Vec<_> = partition.entries(..).collect();
        let errors: Vec<_> = items
            .iter()
            .filter_map(|item| item.as_ref().err())
            .collect();
        assert!(
            !errors.is_empty() && errors.iter().all(|e| is_a_limit(e)),
            "{what}: {errors:?}"
        );
        disk.heal();
        let offsets = partition
            .entries(..)
            .map(|entry| entry.unwrap().offset().get());
        assert!(offsets.eq(0..golden.end()), "{what}: after it passed");
    }
}
