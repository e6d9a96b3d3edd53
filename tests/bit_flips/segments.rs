//! F39 and F40, exhaustively: bits and lengths of the segments themselves.

use std::ops::Range;

use thalweg::testing::Disk;
use thalweg::{Durability, ReadMode};

use crate::common::{Dice, seed};
use crate::forge::SEGMENT_HEADER;
use crate::media::{End, Golden, Plan, Verdict, append_probe};
use crate::sampling::{how_many, run, sample};

/// A way in which the log came to its end.
#[derive(Clone, Copy, Debug)]
struct Ending {
    name: &'static str,
    durability: Durability,
    end: End,
}

const ENDINGS: [Ending; 3] = [
    Ending {
        name: "closed",
        durability: Durability::Power,
        end: End::Closed,
    },
    // Nothing of the last segment was synced, so opening reads and judges all of it.
    Ending {
        name: "killed",
        durability: Durability::Process,
        end: End::Killed,
    },
    Ending {
        name: "killed at Power",
        durability: Durability::Power,
        end: End::Killed,
    },
];

/// Two segments of 32 KiB or a little more.
fn golden(ending: Ending) -> Golden {
    let mut plan = Plan::small(2, ending.durability, ending.end);
    plan.config = plan.config.index_interval(4096);
    plan.segment_bytes = 34 << 10; // a batch of 1.5 KiB may not fit any more
    plan.last_bytes = 32 << 10;
    Golden::new(plan)
}

/// A place in the two segments taken as one: the segment, and the number within it.
fn place(lens: &[u64; 2], number: u64) -> (usize, u64) {
    if number < lens[0] {
        (0, number)
    } else {
        (1, number - lens[0])
    }
}

fn lens(golden: &Golden) -> [u64; 2] {
    [0, 1].map(|segment| golden.bytes(segment).len() as u64)
}

/// For each byte of a segment: what may at most be lost to a reader when it is hit.
fn at_most_lost(golden: &Golden, segment: usize) -> Vec<Range<u64>> {
    let (batches, len) = (golden.batches(segment), golden.bytes(segment).len());
    let all = batches[0].first..batches[batches.len() - 1].last() + 1;
    // In header and footer: what it is, or where it ends, cannot be known any more.
    let mut most = vec![all; len];
    for batch in &batches {
        most[batch.position..batch.end()].fill(batch.first..batch.last() + 1);
    }
    most
}

/// Opens the damaged log, reads all of it, and names what came of it.
fn outcome(
    golden: &Golden,
    disk: &Disk,
    mode: ReadMode,
    most: &Range<u64>,
) -> Result<&'static str, String> {
    let opened = match golden.judge_in(disk, mode)? {
        Verdict::Refused(_) => {
            return Err("one partition's damage kept the log from opening".into());
        }
        Verdict::Opened(opened) => opened,
    };
    let found = &opened.found;
    if let Some(other) = found
        .lost
        .iter()
        .chain(&found.cut)
        .find(|&n| !most.contains(n))
    {
        return Err(format!(
            "{other} was lost too, though only {most:?} was hit"
        ));
    }
    if found.is_whole() {
        return Ok("the same data");
    }
    if !found.cut.is_empty() {
        return Ok("the last batch cut off, kept aside, reported");
    }
    Ok("an error for the batches that were hit")
}

fn flip_all(ending: Ending, mode: ReadMode, usual: u64) {
    let golden = golden(ending);
    let lens = lens(&golden);
    let bits = (lens[0] + lens[1]) * 8;
    assert!(bits >= 64 * 1024 * 8, "{bits} bits are not 64 KiB");
    let mut dice = Dice::new(seed());
    let chosen = sample(bits, how_many(bits, usual), &mut dice);
    let most = [at_most_lost(&golden, 0), at_most_lost(&golden, 1)];
    let what = format!("bit flips, {}, {mode:?}, bit", ending.name);
    let counts = run(&what, &chosen, |bit| {
        let (segment, byte) = place(&lens, bit / 8);
        let disk = golden.copy();
        let path = &golden.segments[segment];
        disk.flip_bit(path, byte * 8 + bit % 8)
            .map_err(|e| e.to_string())?;
        outcome(&golden, &disk, mode, &most[segment][byte as usize])
    });
    let told = counts
        .get("an error for the batches that were hit")
        .copied()
        .unwrap_or(0);
    let total: u64 = counts.values().sum();
    assert!(
        told > total * 9 / 10,
        "most bits hit a batch, and that must be told: {counts:?}"
    );
}

#[test]
fn f39_every_bit_of_a_closed_log_read_by_position() {
    flip_all(ENDINGS[0], ReadMode::Positioned, 5_000);
}

#[test]
fn f39_every_bit_of_a_closed_log_read_through_maps() {
    flip_all(ENDINGS[0], ReadMode::Mapped, 5_000);
}

#[test]
fn f40_every_bit_of_a_killed_log_read_by_position() {
    flip_all(ENDINGS[1], ReadMode::Positioned, 5_000);
}

#[test]
fn f40_every_bit_of_a_killed_log_read_through_maps() {
    flip_all(ENDINGS[1], ReadMode::Mapped, 2_500);
}

#[test]
fn f40_every_bit_of_a_log_killed_at_power() {
    flip_all(ENDINGS[2], ReadMode::Positioned, 2_500);
}

/// Every length of both segments, in turn.
fn cut_all(ending: Ending, mode: ReadMode, usual: u64) {
    let golden = golden(ending);
    let lens = lens(&golden);
    let mut dice = Dice::new(seed());
    let all = lens[0] + lens[1];
    let chosen = sample(all, how_many(all, usual), &mut dice);
    let all_batches = [golden.batches(0), golden.batches(1)];
    let what = format!("cut, {}, {mode:?}, to byte", ending.name);
    run(&what, &chosen, |number| {
        let (segment, len) = place(&lens, number);
        let disk = golden.copy();
        disk.resize(&golden.segments[segment], len)
            .map_err(|e| e.to_string())?;
        let batches = &all_batches[segment];
        let whole = batches
            .iter()
            .filter(|batch| batch.end() as u64 <= len)
            .count();
        let kept = batches.get(whole).map_or(golden.end(), |b| b.first);
        let edge = batches.iter().any(|batch| batch.position as u64 == len);
        let edge = edge || len <= SEGMENT_HEADER as u64; // such a file holds nothing, and is made anew
        if edge && segment == 1 && ending.durability == Durability::Process {
            // Nothing vouches for batches that were never synced: the log looks as if it had ended there.
            let mut shorter = golden.clone();
            shorter.written.truncate(kept as usize);
            return outcome(&shorter, &disk, mode, &(0..0));
        }
        // Of a sealed segment without its footer, nothing has to be readable.
        let from = if segment == 0 { 0 } else { kept };
        let most = from..batches[batches.len() - 1].last() + 1;
        outcome(&golden, &disk, mode, &most)
    });
}

#[test]
fn f60_every_length_of_a_closed_log() {
    cut_all(ENDINGS[0], ReadMode::Positioned, 1_024);
    cut_all(ENDINGS[0], ReadMode::Mapped, 512);
}

#[test]
fn f13_every_length_of_a_killed_log() {
    cut_all(ENDINGS[1], ReadMode::Positioned, 1_024);
    cut_all(ENDINGS[1], ReadMode::Mapped, 512);
    cut_all(ENDINGS[2], ReadMode::Positioned, 1_024);
}

#[test]
fn what_is_appended_behind_damage_gets_an_offset_of_its_own() {
    for ending in ENDINGS {
        let golden = golden(ending);
        let lens = lens(&golden);
        let bits = (lens[0] + lens[1]) * 8;
        let mut dice = Dice::new(seed());
        let chosen = sample(bits, how_many(bits, 700), &mut dice);
        let what = format!("append behind a flip, {}, bit", ending.name);
        let counts = run(&what, &chosen, |bit| {
            let (segment, byte) = place(&lens, bit / 8);
            let disk = golden.copy();
            let path = &golden.segments[segment];
            disk.flip_bit(path, byte * 8 + bit % 8)
                .map_err(|e| e.to_string())?;
            let opened = golden.judge(&disk)?.opened();
            let torn = opened.log.recovery().findings().iter();
            let torn = torn
                .clone()
                .any(|f| f.kind == thalweg::FindingKind::TornTail);
            match append_probe(&opened.partition) {
                None => Ok("refused"),
                Some(next) if next >= golden.end() => Ok("a new offset"),
                // The last batch looks cut short: its extension seems to go on behind the end of the file.
                Some(_) if torn => Ok("the offset of a batch that looked unfinished"),
                Some(next) => Err(format!("{next} was given out before")),
            }
        });
        let reused = counts.get("the offset of a batch that looked unfinished");
        assert!(reused.copied().unwrap_or(0) <= 16, "{counts:?}");
    }
}
