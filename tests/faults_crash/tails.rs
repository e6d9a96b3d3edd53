//! What stands behind the last valid batch: zeros, garbage, stale bytes, half a batch. It is cut, kept, reported, never read.

use thalweg::testing::{CrashModel, Disk, DiskError, Fault, Short};
use thalweg::{Durability, Error, FindingKind, Log, Offset, Partition};

use crate::common::{Dice, scale, seed};
use crate::story::{
    LEVELS, Story, again, create, every_crash, killed, kinds, open, read, reopened, segments,
    small, unplugged,
};

/// Four synced records in one segment, in a process that goes on.
fn four(level: Durability) -> (Disk, Log, Partition, Story) {
    let disk = Disk::new();
    let log = open(&disk).unwrap();
    let config = small(level).segment_bytes(1 << 20);
    let partition = log.create_topic("t", config).unwrap().partition(0).unwrap();
    let mut story = Story::new(level);
    for _ in 0..4 {
        story.append(&disk, &partition, 1, 50).unwrap();
    }
    log.sync().unwrap();
    story.synced(&disk);
    (disk, log, partition, story)
}

fn last(disk: &Disk) -> (String, u64) {
    segments(disk).pop().unwrap()
}

#[test]
fn f05_zeros_behind_the_last_batch_are_cut_whatever_their_number() {
    for level in LEVELS {
        for zeros in [1, 2, 35, 36, 511, 4096, 1 << 20] {
            for crash in [killed, unplugged] {
                let (disk, _log, _partition, mut story) = four(level);
                let crashed = crash(&disk);
                let (path, len) = last(&crashed);
                crashed.resize(&path, len + zeros).unwrap();
                let state = format!("{level:?}, {zeros} zeros");
                let log = open(&crashed).unwrap();
                let cut = &log.recovery().findings()[0];
                assert!(matches!(
                    cut.kind,
                    FindingKind::TornTail | FindingKind::SuspectTail
                ));
                assert_eq!((cut.bytes, cut.byte), (zeros, Some(len)), "{state}");
                let partition = again(&log).unwrap();
                assert_eq!(story.check(&partition, &state), 4, "{state}");
                let kept = cut.quarantine.clone().unwrap();
                story.go_on_with(4);
                story.live_on(&crashed, log, &partition, &state);
                // All of what was cut is kept aside.
                assert_eq!(crashed.read_file(kept).unwrap(), vec![0; zeros as usize]);
            }
        }
    }
}

#[test]
fn f05_zeros_in_a_segment_without_a_batch_are_no_batch_either() {
    // There a header of zeros would even have the offset that is expected.
    for level in LEVELS {
        for zeros in [1, 36, 37, 4096] {
            for crash in [killed, unplugged] {
                let (disk, _log, partition, mut story) = four(level);
                partition.roll().unwrap();
                let crashed = crash(&disk);
                let (path, len) = last(&crashed);
                assert_eq!(len, 128, "a header alone");
                crashed.resize(&path, len + zeros).unwrap();
                let state = format!("{level:?}, {zeros} zeros");
                let log = open(&crashed).unwrap();
                assert_eq!(log.recovery().findings()[0].bytes, zeros, "{state}");
                let partition = again(&log).unwrap();
                assert_eq!(story.check(&partition, &state), 4, "{state}");
                story.go_on_with(4);
                story.live_on(&crashed, log, &partition, &state);
            }
        }
    }
}

#[test]
fn f05_a_size_that_persisted_without_its_data_is_no_error() {
    let (disk, _log, partition, mut story) = four(Durability::Process);
    let synced = last(&disk).1;
    let before = disk.points();
    story.append(&disk, &partition, 1, 9000).unwrap();
    let mut met = 0;
    let mut dice = Dice::new(seed());
    every_crash(
        &disk,
        before + 1,
        CrashModel::LostPages,
        16,
        &mut dice,
        |_, crashed, state| {
            let (path, len) = last(crashed);
            let bytes = crashed.read_file(path).unwrap();
            met += u64::from(len > synced && bytes[synced as usize..].iter().all(|&b| b == 0));
            let log = open(crashed).unwrap();
            let survived = story.check(&again(&log).unwrap(), state);
            assert!(survived >= 4, "{state}");
        },
    );
    assert!(met > 0, "the row was not met");
}

#[test]
fn f06_batches_of_a_removed_segment_are_not_taken_for_this_ones() {
    for level in LEVELS {
        // Two segments with batches of the same lengths, so that each batch of the first stands where one of the second may.
        let disk = Disk::new();
        let log = open(&disk).unwrap();
        let config = small(level).segment_bytes(1 << 20);
        let partition = log.create_topic("t", config).unwrap().partition(0).unwrap();
        let mut story = Story::new(level);
        for _ in 0..4 {
            story.append(&disk, &partition, 1, 100).unwrap();
        }
        partition.roll().unwrap();
        for _ in 0..2 {
            story.append(&disk, &partition, 1, 100).unwrap();
        }
        log.sync().unwrap();
        let (old, _) = segments(&disk).remove(0);
        let stale = disk.read_file(old).unwrap();
        for crash in [killed, unplugged] {
            let crashed = crash(&disk);
            let (path, len) = last(&crashed);
            let tail = &stale[len as usize..];
            assert!(tail.len() > 200, "whole batches of the old segment follow");
            crashed.extend(&path, tail).unwrap();
            let log = open(&crashed).unwrap();
            let partition = again(&log).unwrap();
            let state = format!("{level:?}");
            assert_eq!(story.check(&partition, &state), 6);
            assert_eq!(log.recovery().findings()[0].byte, Some(len));
            let mut story = story.clone();
            story.go_on_with(6);
            story.live_on(&crashed, log, &partition, &state);
        }
    }
}

#[test]
fn f06_stale_bytes_of_removed_files_in_lost_pages_are_cut() {
    let mut dice = Dice::new(seed());
    for level in LEVELS {
        let (disk, log, partition, mut story) = four(level);
        partition.roll().unwrap();
        for _ in 0..3 {
            story.append(&disk, &partition, 1, 50).unwrap();
        }
        log.sync().unwrap();
        story.synced(&disk);
        // A file with batches of this very segment goes, and leaves its bytes on the medium.
        let (path, _) = last(&disk);
        disk.copy_over(&path, "/log/gone").unwrap();
        disk.remove("/log/gone").unwrap();
        let before = disk.points();
        story.append(&disk, &partition, 2, 5000).unwrap();
        let model = CrashModel::GarbagePages;
        every_crash(
            &disk,
            before,
            model,
            40 * scale(),
            &mut dice,
            |after, crashed, state| {
                let log = open(crashed).unwrap();
                story.check_crash(&again(&log).unwrap(), after, model, state);
            },
        );
    }
}

/// Where each batch of the last segment begins, and where it ends.
fn boundaries(level: Durability) -> (Disk, Log, Vec<u64>) {
    let disk = Disk::new();
    let log = open(&disk).unwrap();
    let config = small(level).segment_bytes(1 << 20);
    let partition = log.create_topic("t", config).unwrap().partition(0).unwrap();
    let mut ends = Vec::new();
    for n in 0..8 {
        partition.append(("k", format!("record {n}"))).unwrap();
        ends.push(last(&disk).1);
    }
    (disk, log, ends)
}

#[test]
fn f13_a_file_cut_at_a_batch_boundary_below_its_evidence_is_damaged() {
    // Below a recovery point, in the same boot or another, and below the clean close.
    for closed in [false, true] {
        for crash in [killed, unplugged] {
            let (disk, log, ends) = boundaries(Durability::Power);
            log.sync().unwrap();
            if closed {
                log.close().unwrap();
            }
            for (survived, &end) in ends.iter().take(7).enumerate() {
                let cut = crash(&disk);
                let (path, _) = last(&cut);
                cut.resize(&path, end).unwrap();
                let before = cut.hash();
                let log = open(&cut).unwrap();
                let state = format!("closed {closed}, {} records left", survived + 1);
                assert!(
                    kinds(log.recovery()).contains(&FindingKind::Damaged),
                    "{state}"
                );
                let partition = again(&log).unwrap();
                let refused = partition.append(("k", "v")).unwrap_err();
                assert!(refused.is_corruption(), "{state}: {refused:?}");
                // What is left is read, and then comes an error: not the end of the log.
                let entries: Vec<_> = partition.entries(..).collect();
                let read = entries.iter().take_while(|entry| entry.is_ok()).count();
                assert_eq!(read, survived + 1, "{state}");
                let error = entries.last().unwrap().as_ref().unwrap_err();
                assert!(error.is_corruption(), "{state}: {error:?}");
                assert_eq!(cut.hash(), before, "{state}: nothing is changed");
            }
        }
    }
}

#[test]
fn f13_a_sealed_file_cut_at_a_batch_boundary_is_damaged() {
    for level in LEVELS {
        let (disk, log, ends) = boundaries(level);
        let partition = again(&log).unwrap();
        partition.roll().unwrap();
        partition.append(("k", "next segment")).unwrap();
        let whole = segments(&disk)[0].1;
        for &end in &ends {
            for crash in [killed, unplugged] {
                let cut = crash(&disk);
                let (path, len) = segments(&cut).remove(0);
                assert_eq!(len, whole);
                cut.resize(&path, end).unwrap();
                let log = open(&cut).unwrap();
                assert!(kinds(log.recovery()).contains(&FindingKind::Damaged));
                let partition = again(&log).unwrap();
                assert!(partition.append(("k", "v")).unwrap_err().is_corruption());
            }
        }
    }
}

#[test]
fn f13_a_file_cut_above_its_evidence_has_lost_what_was_not_synced() {
    let (disk, _log, partition, story) = four(Durability::Process);
    let mut ends = vec![last(&disk).1];
    for n in 0..4 {
        partition.append(("k", format!("not synced {n}"))).unwrap();
        ends.push(last(&disk).1);
    }
    for (more, &end) in ends.iter().enumerate() {
        let cut = unplugged(&disk);
        let (path, _) = last(&cut);
        cut.resize(&path, end).unwrap();
        let (_log, partition) = reopened(&cut);
        let found = read(&partition).unwrap();
        assert_eq!(found.len(), 4 + more);
        assert_eq!(story.check_records(&found[..4], "the synced ones"), 4);
    }
}

#[test]
fn f16_a_device_that_lies_may_lose_records_and_never_shows_wrong_ones() {
    let mut dice = Dice::new(seed());
    for level in LEVELS {
        let disk = Disk::new();
        let log = open(&disk).unwrap();
        let partition = create(&log, level);
        let mut story = Story::new(level);
        for call in 0..14 {
            story.append(&disk, &partition, 1 + call % 3, 60).unwrap();
        }
        let model = CrashModel::LyingDevice;
        let most = 6 * scale();
        let mut lost = 0;
        every_crash(&disk, 0, model, most, &mut dice, |_, crashed, state| {
            let Ok(log) = open(crashed) else {
                lost += 1; // a typed error
                return;
            };
            let Ok(partition) = again(&log) else { return };
            let mut found = Vec::new();
            for entry in partition.entries(..) {
                match entry {
                    Ok(entry) => {
                        found.push((entry.offset().get(), entry.value_str().unwrap().to_owned()));
                    }
                    Err(e) => assert!(e.is_corruption(), "{state}: {e:?}"),
                }
            }
            for (offset, value) in &found {
                assert_eq!(Some(value), story.value_at(*offset), "{state}");
            }
            lost += u64::from(found.len() < story.end() as usize);
        });
        assert!(lost > 0, "the row was met");
    }
}

/// A fifth batch of which the process wrote `part` bytes before it died.
fn half_written(level: Durability, part: usize) -> (Disk, Story, u64) {
    let (disk, _log, partition, story) = four(level);
    let end = last(&disk).1;
    disk.fail(Fault::short_write_then(Short::Bytes(part), DiskError::NoSpace).on(".log"));
    let before = disk.points();
    let value = "a large batch ".repeat(1000);
    assert!(partition.append(("k", value)).is_err());
    // The first operation is the short write; rolling it back would be the next.
    (
        disk.crash(before + 1, CrashModel::ProcessKill, 0),
        story,
        end,
    )
}

#[test]
fn f16b_a_kill_within_one_large_write_costs_that_batch_alone() {
    for level in LEVELS {
        for part in [1, 35, 36, 37, 4096, 13_000] {
            let (disk, mut story, end) = half_written(level, part);
            assert_eq!(last(&disk).1, end + part as u64);
            let log = open(&disk).unwrap();
            let state = format!("{level:?}, {part} bytes");
            assert_eq!(kinds(log.recovery()), [FindingKind::TornTail], "{state}");
            let partition = again(&log).unwrap();
            assert_eq!(story.check(&partition, &state), 4);
            assert_eq!(partition.offsets().end, Offset::new(4), "{state}: no gap");
            story.go_on_with(4);
            story.live_on(&disk, log, &partition, &state);
        }
    }
}

#[test]
fn f16b_in_another_boot_the_same_tail_is_judged_by_the_weaker_rule() {
    for level in LEVELS {
        let (disk, mut story, _) = half_written(level, 4096);
        disk.set_boot_id(77);
        let log = open(&disk).unwrap();
        let partition = again(&log).unwrap();
        assert_eq!(story.check(&partition, "another boot"), 4);
        let below_power = level != Durability::Power;
        assert_eq!(partition.offsets().end > Offset::new(4), below_power);
        story.go_on_with(4);
        story.live_on(&disk, log, &partition, "another boot");
    }
}

#[test]
fn f16b_a_tail_that_is_not_short_is_suspect_in_the_same_boot() {
    for level in LEVELS {
        let (disk, mut story, end) = half_written(level, 13_000);
        let (path, len) = last(&disk);
        // A footer-long stretch of garbage in place of the header: nothing that a killed process leaves.
        disk.replace(&path, end, &[0xA5; 200]).unwrap();
        let log = open(&disk).unwrap();
        let report = kinds(log.recovery());
        assert_eq!(
            report,
            [FindingKind::SuspectTail, FindingKind::Gap],
            "{level:?}"
        );
        assert_eq!(log.recovery().findings()[0].bytes, len - end);
        let partition = again(&log).unwrap();
        assert_eq!(story.check(&partition, "suspect"), 4);
        assert!(
            partition.offsets().end > Offset::new(4),
            "its offsets are not reused"
        );
        story.go_on_with(4);
        story.live_on(&disk, log, &partition, "suspect");
    }
}

#[test]
fn f16b_a_valid_batch_behind_it_makes_it_damage_in_the_same_boot() {
    // At `Power` the batch behind it was synced, and nothing below a recovery point is looked at before it is read.
    for level in [LEVELS[0], LEVELS[1]] {
        let (disk, _log, partition, _) = four(level);
        let end = last(&disk).1;
        partition.append(("k", "the fifth")).unwrap();
        partition.append(("k", "the sixth")).unwrap();
        let killed = killed(&disk);
        let (path, _) = last(&killed);
        killed.replace(&path, end, &[0xA5; 4]).unwrap();
        let before = killed.hash();
        let log = open(&killed).unwrap();
        assert_eq!(kinds(log.recovery()), [FindingKind::Damaged], "{level:?}");
        let partition = again(&log).unwrap();
        assert!(partition.append(("k", "v")).unwrap_err().is_corruption());
        let entries: Vec<_> = partition.entries(..).collect();
        assert_eq!(entries.len(), 6, "four, an error, and the sixth");
        let lost = entries[4].as_ref().unwrap_err();
        assert!(matches!(lost, Error::Corruption { .. }), "{lost:?}");
        assert_eq!(
            entries[5].as_ref().unwrap().value_str().unwrap(),
            "the sixth"
        );
        assert_eq!(killed.hash(), before, "nothing is cut");
    }
}
