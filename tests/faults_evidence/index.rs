//! F53 to F58: an index is missing, short, long, garbage, or wrong behind a checksum that holds.

use std::path::PathBuf;

use thalweg::testing::{CrashModel, Disk, DiskCall, DiskError, Fault};
use thalweg::{Durability, Offset, ReadMode, Timestamp};

use crate::common::{Dice, seed};
use crate::forge;
use crate::media::{self, End, Golden, Plan, Written};

fn golden() -> Golden {
    Golden::new(Plan::small(3, Durability::Power, End::Closed))
}

fn indexes(disk: &Disk) -> Vec<PathBuf> {
    media::files(disk, "/log/topics/t-", ".idx")
}

/// Every way of reading gives what was written, whatever the indexes are like.
fn expect_all(golden: &Golden, disk: &Disk, what: &str) {
    for mode in [ReadMode::Positioned, ReadMode::Mapped] {
        let judged = golden.judge_in(disk, mode);
        let opened = judged.unwrap_or_else(|e| panic!("{what}: {e}")).opened();
        assert!(opened.found.is_whole(), "{what}: {:?}", opened.found);
        assert!(
            opened.log.recovery().is_empty(),
            "{what}: {:?}",
            opened.log.recovery()
        );
        let partition = &opened.partition;
        for Written { offset, .. } in golden.written.iter().rev().step_by(3) {
            let entry = partition.get(Offset::new(*offset));
            let entry = entry.unwrap_or_else(|e| panic!("{what}: {offset}: {e:?}"));
            assert_eq!(entry.expect("a record").offset().get(), *offset, "{what}");
        }
        let backwards = partition
            .entries(..)
            .rev()
            .map(|entry| entry.unwrap().offset().get());
        assert!(backwards.eq((0..golden.end()).rev()), "{what}: backwards");
        for from in [1, golden.end() / 3, golden.end() - 2] {
            let some = partition
                .entries(Offset::new(from)..)
                .map(|e| e.unwrap().offset().get());
            assert!(some.eq(from..golden.end()), "{what}: from {from}");
        }
    }
}

/// The first record of each time, found by reading everything.
fn first_of_time(golden: &Golden, time: i64) -> Option<u64> {
    let log = media::open(&golden.copy()).unwrap();
    let partition = media::partition(&log);
    let mut entries = partition.entries(..).map(Result::unwrap);
    let found = entries.find(|entry| entry.timestamp().as_millis() >= time);
    found.map(|entry| entry.offset().get())
}

#[test]
fn f53_missing_indexes_change_nothing_and_come_back() {
    let golden = golden();
    let all = indexes(&golden.disk);
    assert!(all.len() >= 2, "sealed segments have indexes: {all:?}");
    for missing in &all {
        let disk = golden.copy();
        disk.remove(missing).unwrap();
        expect_all(&golden, &disk, &format!("without {}", missing.display()));
    }
    let disk = golden.copy();
    for index in &all {
        disk.remove(index).unwrap();
    }
    expect_all(&golden, &disk, "without any");
}

#[test]
fn f53_without_an_index_a_time_is_found_all_the_same() {
    let golden = golden();
    let disk = golden.copy();
    for index in indexes(&disk) {
        disk.remove(index).unwrap();
    }
    let log = media::open(&disk).unwrap();
    let partition = media::partition(&log);
    for offset in (0..golden.end()).step_by(7) {
        let time = partition
            .get(Offset::new(offset))
            .unwrap()
            .unwrap()
            .timestamp();
        let found = partition.offset_for_time(time).unwrap().map(Offset::get);
        assert_eq!(found, first_of_time(&golden, time.as_millis()), "{time:?}");
    }
}

/// The golden log with another index for its first segment, whose checksums hold.
fn with_places(golden: &Golden, covers: u64, places: &[(u32, u32, i64, i64)]) -> Disk {
    let disk = golden.copy();
    let salt = forge::salt(&golden.bytes(0));
    disk.write_file(&indexes(&disk)[0], &forge::index(salt, covers, places))
        .unwrap();
    disk
}

/// The places of the true index of the first segment, and the bytes that it covers.
fn true_places(golden: &Golden) -> (Vec<(u32, u32, i64, i64)>, u64) {
    let file = golden.disk.read_file(&indexes(&golden.disk)[0]).unwrap();
    let places = forge::index_places(&file);
    let covers = forge::u64_at(&file, 24);
    assert!(places.len() >= 4, "{places:?}");
    let again = forge::index(forge::salt(&golden.bytes(0)), covers, &places);
    assert_eq!(
        again, file,
        "the index that the test writes is the one that the library writes"
    );
    (places, covers)
}

#[test]
fn f54_an_index_that_points_past_the_end_of_the_log_is_not_followed() {
    let golden = golden();
    let (places, covers) = true_places(&golden);
    let (last, end) = (places[places.len() - 1], golden.bytes(0).len() as u32);
    for (delta, position) in [
        (last.0 + 1, end + 1),
        (last.0 + 1, u32::MAX),
        (u32::MAX, end - 1),
    ] {
        let mut past = places.clone();
        past.push((delta, position, last.2, last.3));
        let reach = covers.max(u64::from(position) + 1);
        for covers in [covers, reach, u64::MAX] {
            let disk = with_places(&golden, covers, &past);
            expect_all(
                &golden,
                &disk,
                &format!("{delta} at {position}, {covers} covered"),
            );
        }
    }
}

#[test]
fn f55_an_index_shorter_than_the_log_is_no_end_of_it() {
    let golden = golden();
    let (places, covers) = true_places(&golden);
    for len in 0..places.len() {
        for covers in [covers, u64::from(places[len].1), 0] {
            let disk = with_places(&golden, covers, &places[..len]);
            expect_all(&golden, &disk, &format!("{len} places, {covers} covered"));
        }
    }
}

#[test]
fn f56_garbage_zeros_and_cut_indexes_are_not_used() {
    let golden = golden();
    let mut dice = Dice::new(seed());
    let all = indexes(&golden.disk);
    for index in &all {
        let bytes = golden.disk.read_file(index).unwrap();
        let mut variants = vec![Vec::new(), vec![0; bytes.len()], vec![0xFF; bytes.len()]];
        for _ in 0..10 {
            variants.push((0..bytes.len()).map(|_| dice.roll() as u8).collect());
            variants.push(bytes[..dice.below(bytes.len() as u64) as usize].to_vec());
        }
        variants.push([&bytes[..], &bytes[..]].concat());
        for (n, variant) in variants.iter().enumerate() {
            let disk = golden.copy();
            disk.write_file(index, variant).unwrap();
            expect_all(&golden, &disk, &format!("{}, variant {n}", index.display()));
        }
    }
}

#[test]
fn f56_the_index_of_another_segment_is_not_used() {
    let golden = golden();
    let all = indexes(&golden.disk);
    for (from, onto) in [(0, 1), (1, 0)] {
        let disk = golden.copy();
        disk.copy_over(&all[from], &all[onto]).unwrap();
        expect_all(&golden, &disk, &format!("{from} over {onto}"));
    }
}

#[test]
fn f56_a_wrong_index_behind_a_sound_checksum_gives_no_wrong_data() {
    let golden = golden();
    let (places, covers) = true_places(&golden);
    let batches = golden.batches(0);
    let seed = seed();
    for round in 0..60 {
        let mut dice = Dice::new(seed ^ round);
        let mut wrong = places.clone();
        for place in &mut wrong {
            match dice.below(5) {
                // Another batch's position, a place between batches, another batch's offset, an offset within a batch.
                0 => place.1 = batches[dice.below(batches.len() as u64) as usize].position as u32,
                1 => place.1 = dice.below(covers) as u32,
                2 => place.0 = batches[dice.below(batches.len() as u64) as usize].first as u32,
                3 => place.0 = dice.below(golden.end()) as u32,
                _ => {}
            }
        }
        if dice.once_in(2) {
            // As the library would write them: ascending.
            let (mut deltas, mut positions): (Vec<_>, Vec<_>) =
                wrong.iter().map(|place| (place.0, place.1)).unzip();
            deltas.sort_unstable();
            deltas.dedup();
            positions.sort_unstable();
            positions.dedup();
            let pairs = deltas.into_iter().zip(positions).zip(&places);
            wrong = pairs
                .map(|((delta, position), of)| (delta, position, of.2, of.3))
                .collect();
        }
        let disk = with_places(&golden, covers, &wrong);
        expect_all(&golden, &disk, &format!("round {round}: {wrong:?}"));
    }
}

#[test]
fn f56_a_wrong_time_index_gives_no_record_older_than_asked_for() {
    let golden = golden();
    let (places, covers) = true_places(&golden);
    let everything = golden.written.len() as u64;
    for shift in [-1_000_000_000, -5_000, 5_000, 1_000_000_000] {
        let wrong: Vec<_> = places
            .iter()
            .map(|&(delta, position, append, greatest)| {
                (delta, position, append, greatest.saturating_add(shift))
            })
            .collect();
        let disk = with_places(&golden, covers, &wrong);
        let log = media::open(&disk).unwrap();
        let partition = media::partition(&log);
        for offset in (0..everything).step_by(5) {
            let time = partition
                .get(Offset::new(offset))
                .unwrap()
                .unwrap()
                .timestamp();
            let Some(found) = partition.offset_for_time(time).unwrap() else {
                continue;
            };
            let entry = partition.get(found).unwrap().unwrap();
            assert!(
                entry.timestamp() >= time,
                "{found:?} for {time:?}, shifted by {shift}"
            );
        }
    }
}

#[test]
fn f57_a_crash_while_an_index_is_written_leaves_none_that_is_used_half() {
    // Sealing and closing write indexes; each crash point of both is opened.
    let plan = Plan::small(2, Durability::Power, End::Killed);
    let golden = Golden::new(plan);
    let disk = golden.copy();
    for index in indexes(&disk) {
        disk.remove(index).unwrap();
    }
    disk.forget_history();
    let log = media::open(&disk).unwrap();
    media::partition(&log).roll().unwrap();
    log.close().unwrap();
    let mut states = 0;
    for after in 0..=disk.points() {
        for model in [
            CrashModel::ProcessKill,
            CrashModel::LostPages,
            CrashModel::GarbagePages,
        ] {
            for choice in 0..media::choices(&disk, after, model, 32) {
                let crashed = disk.crash(after, model, choice);
                let what = format!("{model:?} after {after}, {choice}");
                let opened = golden
                    .judge(&crashed)
                    .unwrap_or_else(|e| panic!("{what}: {e}"))
                    .opened();
                assert!(opened.found.is_whole(), "{what}: {:?}", opened.found);
                let last = Offset::new(golden.end() - 1);
                assert!(opened.partition.get(last).unwrap().is_some(), "{what}");
                states += 1;
            }
        }
    }
    assert!(states > 100, "{states} states");
}

#[test]
fn f57_a_failed_write_of_an_index_is_no_error() {
    let golden = Golden::new(Plan::small(2, Durability::Power, End::Killed));
    for call in [
        DiskCall::Write,
        DiskCall::Open,
        DiskCall::Remove,
        DiskCall::Read,
    ] {
        for error in [DiskError::Io, DiskError::NoSpace, DiskError::AccessDenied] {
            let disk = golden.copy();
            let what = format!("{call:?} gives {error:?}");
            disk.fail(Fault::error(call, error).on(".idx").lasting());
            let opened = golden
                .judge(&disk)
                .unwrap_or_else(|e| panic!("{what}: {e}"))
                .opened();
            assert!(opened.found.is_whole(), "{what}");
            opened
                .partition
                .roll()
                .unwrap_or_else(|e| panic!("{what}: {e:?}"));
            opened
                .log
                .close()
                .unwrap_or_else(|e| panic!("{what}: {e:?}"));
            disk.heal();
            expect_all(&golden, &disk, &what);
        }
    }
}

#[test]
fn f58_a_wrong_time_index_removes_nothing() {
    let golden = golden();
    let (places, covers) = true_places(&golden);
    let zeros: Vec<_> = places
        .iter()
        .map(|place| (place.0, place.1, 0, 0))
        .collect();
    let ancient: Vec<_> = places
        .iter()
        .map(|p| (p.0, p.1, i64::MIN, i64::MIN))
        .collect();
    for places in [zeros, ancient] {
        let disk = with_places(&golden, covers, &places);
        let log = media::open(&disk).unwrap();
        let before = media::segments(&disk);
        log.close().unwrap();
        assert_eq!(media::segments(&disk), before);
        let log = media::open(&disk).unwrap();
        let latest = media::partition(&log);
        let never = latest
            .offset_for_time(Timestamp::from_millis(i64::MAX))
            .unwrap();
        assert_eq!(never, None);
        drop((log, latest));
        expect_all(&golden, &disk, "times of zero");
    }
}
