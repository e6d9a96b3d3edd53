//! Ends that a crash cut or left dirty: B1, B2, B7, B12 and B14.

use std::path::PathBuf;

use thalweg::testing::{CrashModel, Disk};
use thalweg::{Durability, FindingKind, TopicConfig};

use super::logs::{
    Dice, end, files, fill, fresh, killed, kinds, last_segment, len, numbered, open, reopened,
    rows, seed, t0,
};

/// A killed log of `count` records, and the bytes that the next append would have added to its last segment.
fn before_next(config: TopicConfig, count: u64) -> (Disk, PathBuf, Vec<u8>) {
    let (disk, _log, partition) = fresh(config);
    fill(&partition, 0..count);
    let before = killed(&disk);
    let path = last_segment(&before);
    fill(&partition, count..count + 1);
    let frame = disk
        .read_file(&path)
        .unwrap()
        .split_off(len(&before, &path) as usize);
    (before, path, frame)
}

/// The same twice: once the machine ran on, once it was started again, so that the tail is judged by the weaker rule.
fn boots(disk: &Disk) -> [Disk; 2] {
    let restarted = killed(disk);
    restarted.set_boot_id(disk.boot_id().wrapping_add(1));
    [killed(disk), restarted]
}

fn expect_and_go_on(disk: &Disk, held: u64, context: &str) {
    let log = open(disk);
    let partition = t0(&log);
    assert_eq!(rows(&partition), numbered(0..held), "{context}");
    assert_eq!(end(&partition), held, "{context}");
    fill(&partition, held..held + 2);
    drop((partition, log));
    let log = open(disk);
    assert!(log.recovery().is_empty(), "{context}: {:?}", log.recovery());
    assert_eq!(rows(&t0(&log)), numbered(0..held + 2), "{context}");
}

#[test]
fn b01_a_cut_last_entry_does_not_stop_the_log_from_opening() {
    let (before, path, frame) = before_next(TopicConfig::new(), 2);
    for cut in 0..=frame.len() {
        for image in boots(&before) {
            image.extend(&path, &frame[..cut]).unwrap();
            let whole = cut == frame.len();
            let found = kinds(open(&killed(&image)).recovery());
            let torn = if whole || cut == 0 {
                vec![]
            } else {
                vec![FindingKind::TornTail]
            };
            assert_eq!(found, torn, "cut at {cut}");
            expect_and_go_on(&image, if whole { 3 } else { 2 }, &format!("cut at {cut}"));
        }
    }
}

/// A roll that was interrupted anywhere, its new file of no bytes included.
#[test]
fn b01_a_next_segment_of_no_bytes_does_not_stop_the_log_from_opening() {
    let (disk, _log, partition) = fresh(TopicConfig::new());
    fill(&partition, 0..3);
    let before = disk.points();
    partition.roll().unwrap();
    let mut empty = 0;
    for point in before..=disk.points() {
        let image = disk.crash(point, CrashModel::ProcessKill, 0);
        empty += u32::from(len(&image, &last_segment(&image)) == 0);
        expect_and_go_on(&image, 3, &format!("point {point}"));
    }
    assert!(empty > 0, "no crash point left a file without bytes");
}

#[test]
fn b02_what_is_written_after_a_torn_tail_is_there_at_the_second_opening() {
    let (before, path, frame) = before_next(TopicConfig::new(), 1);
    for tail in [
        &frame[..frame.len() * 6 / 10],
        &frame[..1],
        b"\0",
        b"\xff",
        b"x",
    ] {
        for image in boots(&before) {
            image.extend(&path, tail).unwrap();
            let log = open(&image);
            let partition = t0(&log);
            let from = end(&partition);
            assert!(from == 1 || !kinds(log.recovery()).is_empty());
            partition.append(("k", "C")).unwrap();
            partition.append(("k", "D")).unwrap();
            log.sync().unwrap();
            let mut image = killed(&image);
            let wanted = [
                (0, "value-0000".into()),
                (from, "C".into()),
                (from + 1, "D".into()),
            ];
            for _ in 0..3 {
                let log = open(&image);
                assert!(log.recovery().is_empty(), "{:?}", log.recovery());
                assert_eq!(rows(&t0(&log)), wanted);
                assert_eq!(end(&t0(&log)), from + 2);
                image = killed(&image);
            }
        }
    }
}

/// A piece of a batch is a torn tail, so no offset is skipped.
#[test]
fn b02_a_torn_batch_costs_no_offset() {
    let (before, path, frame) = before_next(TopicConfig::new(), 1);
    for image in boots(&before) {
        image.extend(&path, &frame[..frame.len() * 6 / 10]).unwrap();
        assert_eq!(
            t0(&open(&image)).append(("k", "C")).unwrap().offset().get(),
            1
        );
    }
}

#[test]
fn b07_a_first_segment_without_a_whole_record_is_gone_on_with() {
    let config = TopicConfig::new().durability(Durability::Process);
    let (disk, _log, partition) = fresh(config);
    fill(&partition, 0..1);
    let path = last_segment(&disk);
    let whole = len(&disk, &path);
    for cut in [1, 7, 127, 128, 129, whole - 1] {
        let image = killed(&disk);
        image.resize(&path, cut).unwrap();
        let (_log, partition) = reopened(&image);
        assert_eq!(
            (rows(&partition), end(&partition)),
            (vec![], 0),
            "cut at {cut}"
        );
        partition.append(("k", "r1")).unwrap();
        let image = killed(&image);
        for _ in 0..2 {
            let log = open(&image);
            assert!(
                log.recovery().is_empty(),
                "cut at {cut}: {:?}",
                log.recovery()
            );
            assert_eq!(rows(&t0(&log)), [(0, "r1".to_owned())], "cut at {cut}");
            log.close().unwrap();
        }
    }
}

/// The same at `Power`: there the record was synced, and a recovery point says so. Losing it is told, not hidden.
#[test]
fn b07_a_synced_record_that_is_cut_off_is_damage() {
    let (disk, _log, partition) = fresh(TopicConfig::new());
    fill(&partition, 0..1);
    let path = last_segment(&disk);
    let whole = len(&disk, &path);
    for cut in [0, 1, 7, 127, 128, 129, whole - 1] {
        let image = killed(&disk);
        image.resize(&path, cut).unwrap();
        let log = open(&image);
        assert_eq!(
            kinds(log.recovery()),
            [FindingKind::Damaged],
            "cut at {cut}"
        );
        assert!(t0(&log).append(("k", "v")).unwrap_err().is_corruption());
        assert!(
            t0(&log)
                .entries(..)
                .all(|entry| entry.is_err_and(|e| e.is_corruption()))
        );
    }
}

#[test]
fn b12_an_active_segment_that_recovery_emptied_is_appended_to() {
    for level in [Durability::Power, Durability::Process] {
        let config = TopicConfig::new()
            .segment_bytes(1000)
            .index_interval(1)
            .durability(level);
        let (disk, _log, partition) = fresh(config);
        fill(&partition, 0..10);
        partition.roll().unwrap();
        let before = killed(&disk);
        let path = last_segment(&before);
        fill(&partition, 10..11);
        let frame = disk
            .read_file(&path)
            .unwrap()
            .split_off(len(&before, &path) as usize);
        for cut in 1..frame.len() {
            let image = killed(&before);
            image.extend(&path, &frame[..cut]).unwrap();
            let (_log, partition) = reopened(&image);
            fill(&partition, 10..12);
            let names = files(&image, "t", ".log");
            let of_ten = names
                .iter()
                .filter(|path| path.to_string_lossy().contains("/00000000000000000010-"));
            assert_eq!(of_ten.count(), 1, "{names:?}");
            assert_eq!(
                rows(&t0(&open(&killed(&image)))),
                numbered(0..12),
                "cut at {cut}"
            );
        }
    }
}

/// Zeros or garbage behind the last record. After a power loss they are a torn tail; in the same boot nobody wrote them in
/// order, so the tail is suspect and none of the offsets is used again.
#[test]
fn b14_garbage_at_the_end_is_cut_kept_aside_and_ends_there() {
    let mut dice = Dice(seed());
    let garbage: Vec<u8> = (0..4096).map(|_| dice.roll() as u8).collect();
    let (disk, _log, partition) = fresh(TopicConfig::new().offset_span(1000));
    fill(&partition, 0..5);
    let path = last_segment(&disk);
    for tail in [&vec![0; 4096], &garbage, &vec![0xff; 4096]] {
        for (same_boot, image) in [true, false].into_iter().zip(boots(&disk)) {
            image.extend(&path, tail).unwrap();
            let log = open(&image);
            let (kind, next) = if same_boot {
                (FindingKind::SuspectTail, 1000)
            } else {
                (FindingKind::TornTail, 5)
            };
            let found = log
                .recovery()
                .findings()
                .iter()
                .find(|found| found.kind == kind);
            let kept = found
                .and_then(|found| found.quarantine.clone())
                .expect("kept aside");
            let partition = t0(&log);
            assert_eq!((rows(&partition), end(&partition)), (numbered(0..5), next));
            let at = partition.append(("k", "x")).unwrap().offset().get();
            assert_eq!(at, next);
            assert_eq!(&image.read_file(kept).unwrap(), tail, "all of it is kept");
            let log = open(&killed(&image));
            assert!(log.recovery().is_empty(), "{:?}", log.recovery());
            let mut wanted = numbered(0..5);
            wanted.push((at, "x".to_owned()));
            assert_eq!(rows(&t0(&log)), wanted);
        }
    }
}
