//! Segments that were put in the place of others are read as the others were, less what was left out.

use std::collections::BTreeMap;

use super::*;
use crate::clock::Timestamp;
use crate::format::names;
use crate::io::Storage;
use crate::offset::Offset;
use crate::partition::tests::{Bench, small};
use crate::record::Record;
use crate::segment::ReadMode;
use crate::segment::whole::Candidate;

/// Whether the record at this offset is kept.
type Wanted = fn(u64) -> bool;

const WANTED: [(&str, Wanted); 5] = [
    ("all", |_| true),
    ("none", |_| false),
    ("every third", |offset| offset.is_multiple_of(3)),
    ("few", |offset| offset % 17 == 5),
    ("the first half", |offset| offset < 30),
];

/// Records of every shape, in batches of changing size; the value says which one it is.
fn fill(partition: &Partition, from: u64, records: u64) {
    let (mut next, mut size) = (from, 1);
    while next < from + records {
        let batch = (next..(next + size).min(from + records)).map(|n| {
            let record = Record::new(format!("key-{}", n % 7), format!("value-{n}"));
            let record = match n % 4 {
                0 => record.header("n", n.to_string()),
                1 => record.at(Timestamp::from_millis(n as i64 * 1000)),
                _ => record,
            };
            if n % 11 == 0 {
                Record::tombstone(format!("gone-{n}"))
            } else {
                record
            }
        });
        partition.append_all(batch.collect::<Vec<_>>()).unwrap();
        next += size;
        size = size % 5 + 1;
    }
}

/// What a record is, but for where it is stored.
fn told(entry: &crate::entry::Entry) -> String {
    let headers: Vec<_> = entry.headers().collect();
    format!(
        "{:?} {:?} {headers:?} {:?}",
        entry.key(),
        entry.value(),
        entry.timestamp()
    )
}

fn all(partition: &Partition) -> BTreeMap<u64, String> {
    let entries = partition.entries(..).map(|entry| entry.unwrap());
    entries
        .map(|entry| (entry.offset().get(), told(&entry)))
        .collect()
}

/// Every way to read finds these records, and nothing else.
fn check(partition: &Partition, expected: &BTreeMap<u64, String>, what: &str) {
    assert_eq!(&all(partition), expected, "{what}, forwards");
    let back = partition.entries(..).rev().map(|entry| entry.unwrap());
    let back: Vec<u64> = back.map(|entry| entry.offset().get()).collect();
    let mut offsets: Vec<u64> = expected.keys().copied().collect();
    offsets.reverse();
    assert_eq!(back, offsets, "{what}, backwards");
    let end = partition.offsets().end.get();
    for offset in 0..end {
        let found = partition.get(Offset::new(offset)).unwrap();
        let found = found.map(|entry| told(&entry));
        assert_eq!(found.as_ref(), expected.get(&offset), "{what}, at {offset}");
        let mut from = partition.entries(Offset::new(offset)..);
        let next = from.next().map(|entry| entry.unwrap().offset().get());
        let behind = expected.range(offset..).next().map(|(offset, _)| *offset);
        assert_eq!(next, behind, "{what}, from {offset} on");
    }
}

fn swap_all(partition: &Partition, packing: Packing, wanted: Wanted) -> Vec<Swapped> {
    let pass = partition.begin_pass().unwrap();
    let sealed = pass.sealed().unwrap();
    let swap = |run: Range<usize>| {
        pass.swap(&sealed[run], packing, &mut |record: Candidate<'_>| {
            wanted(record.offset)
        })
        .unwrap()
    };
    runs(&sealed, MAX_SEGMENT_BYTES, |_| 0)
        .into_iter()
        .map(swap)
        .collect()
}

fn names(bench: &Bench) -> Vec<String> {
    let entries = bench.storage.read_dir(&Bench::dir()).unwrap().into_iter();
    let mut names: Vec<String> = entries.map(|e| e.name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn segment_count(bench: &Bench) -> usize {
    let names = names(bench).into_iter();
    names
        .filter(|name| names::parse_segment_name(name.as_ref()).is_some())
        .count()
}

#[test]
fn what_is_kept_is_read_as_before_in_every_way_and_after_reopening() {
    for mode in [ReadMode::Positioned, ReadMode::Mapped] {
        for (what, wanted) in WANTED {
            for cut in [1, 2, 3] {
                let mut bench = Bench::new(small());
                bench.mode = mode;
                let (partition, _) = bench.open();
                for part in 0..cut {
                    fill(&partition, 20 * part, 20);
                    partition.roll().unwrap();
                }
                fill(&partition, 20 * cut, 10);
                let sealed = partition.sealed().unwrap();
                let last = sealed.last().unwrap().seal().unwrap().footer.last.unwrap();
                let mut expected = all(&partition);
                expected.retain(|&offset, _| offset > last || wanted(offset));
                let swapped = swap_all(&partition, Packing::AsTheyWere, wanted);
                assert_eq!(swapped.len(), 1);
                assert_eq!(swapped[0].segments, sealed.len() as u64);
                check(&partition, &expected, what);
                drop(partition);
                let (partition, report) = bench.open();
                assert!(report.is_empty(), "{report:?}");
                check(&partition, &expected, what);
            }
        }
    }
}

#[test]
fn packed_records_keep_their_offsets_keys_values_headers_and_event_times() {
    let bench = Bench::new(small());
    let (partition, _) = bench.open();
    fill(&partition, 0, 60);
    partition.roll().unwrap();
    let strip = |told: &String| told.rsplit_once(' ').unwrap().0.to_owned();
    let before = all(&partition);
    swap_all(&partition, Packing::Together, |offset| offset % 2 == 1);
    let after = all(&partition);
    assert_eq!(after.len(), 30);
    for (offset, record) in &after {
        if offset % 4 == 1 && offset % 11 != 0 {
            assert_eq!(Some(record), before.get(offset), "with its event time");
        } else {
            assert_eq!(strip(record), strip(&before[offset]));
        }
    }
    let offsets: Vec<u64> = after.keys().copied().collect();
    assert!(offsets.iter().all(|offset| offset % 2 == 1));
}

#[test]
fn times_are_found_behind_records_that_are_gone() {
    let bench = Bench::new(small());
    let (partition, _) = bench.open();
    for n in 0..40 {
        let time = Timestamp::from_millis(1000 * n);
        let record = Record::new("k", n.to_string()).at(time);
        partition.append(record).unwrap();
    }
    partition.roll().unwrap();
    swap_all(&partition, Packing::AsTheyWere, |offset| offset % 10 == 9);
    for n in 0..40_i64 {
        let found = partition.offset_for_time(Timestamp::from_millis(1000 * n));
        let expected = (n..40).find(|n| n % 10 == 9).map(|n| Offset::new(n as u64));
        assert_eq!(found.unwrap(), expected, "at {n}");
    }
}

#[test]
fn f66b_passes_over_what_passes_made_keep_the_chain_whole() {
    let bench = Bench::new(small());
    let mut expected = BTreeMap::new();
    let keeps: [Wanted; 3] = [|o| o % 2 == 0, |o| o % 3 != 1, |o| o % 5 != 4];
    for round in 0..9_u64 {
        let (partition, report) = bench.open();
        assert!(report.is_empty(), "{round}: {report:?}");
        fill(&partition, 30 * round, 30);
        if round % 2 == 0 {
            partition.roll().unwrap();
        }
        let keep = keeps[round as usize % 3];
        let last = partition.sealed().unwrap();
        let last = last.last().unwrap().seal().unwrap().footer.last.unwrap();
        expected.extend(all(&partition).split_off(&(30 * round)));
        swap_all(&partition, Packing::AsTheyWere, keep);
        expected.retain(|&offset, _| offset > last || keep(offset));
        check(&partition, &expected, &format!("round {round}"));
        if round % 3 == 0 {
            swap_all(&partition, Packing::AsTheyWere, keep); // 1 to 1
            assert!(segment_count(&bench) <= 2);
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    for name in names(&bench) {
        assert!(seen.insert(name));
    }
}

#[test]
fn a_reader_in_a_segment_that_is_replaced_goes_on_without_a_loss_or_a_repetition() {
    for stop in [0, 1, 7, 19, 20, 33, 59] {
        let bench = Bench::new(small());
        let (partition, _) = bench.open();
        fill(&partition, 0, 60);
        partition.roll().unwrap();
        let mut cursor = partition.cursor(Offset::new(0));
        let mut seen = Vec::new();
        while seen.len() < stop {
            let chunk = cursor.read(1, 1).unwrap().unwrap();
            seen.extend(chunk.views().map(|view| view.offset.get()));
        }
        swap_all(&partition, Packing::AsTheyWere, |offset| offset % 2 == 0);
        while let Some(chunk) = cursor.read(1, 1).unwrap() {
            seen.extend(chunk.views().map(|view| view.offset.get()));
        }
        let stop = stop as u64;
        // What was read ahead may still be given out: it was there when it was read.
        let ahead = seen.iter().filter(|&&o| o >= stop && o % 2 == 1).count();
        assert!(ahead <= 5, "{seen:?}");
        seen.retain(|&offset| offset < stop || offset % 2 == 0);
        let expected: Vec<u64> = (0..60).filter(|&o| o < stop || o % 2 == 0).collect();
        assert_eq!(seen, expected, "stopped at {stop}");
    }
}

#[test]
fn f68_a_pass_that_meets_damage_changes_nothing() {
    let bench = Bench::new(small());
    let (partition, _) = bench.open();
    fill(&partition, 0, 60);
    partition.roll().unwrap();
    let sealed = partition.sealed().unwrap();
    let victim = &sealed[1];
    let file = bench
        .storage
        .open(victim.path(), crate::io::OpenMode::Write);
    let middle = victim.seal().unwrap().data_end / 2;
    file.unwrap().write_at(&[0xEE; 3], middle).unwrap();
    let before = names(&bench);
    let pass = partition.begin_pass().unwrap();
    let failed = pass.swap(&sealed, Packing::AsTheyWere, &mut |_: Candidate<'_>| false);
    assert!(failed.unwrap_err().is_corruption());
    drop(pass);
    assert_eq!(names(&bench), before);
    partition.append(("k", "appends go on")).unwrap();
}

#[test]
fn f67_what_an_unfinished_pass_left_is_removed_and_its_name_is_not_used_again() {
    let bench = Bench::new(small());
    let (partition, _) = bench.open();
    fill(&partition, 0, 60);
    let expected = all(&partition);
    let sealed = partition.sealed().unwrap();
    let copied = sealed[0].path().with_file_name(names::segment_name(0, 7));
    let file = bench.storage.open(&copied, crate::io::OpenMode::CreateNew);
    file.unwrap().write_at(b"half a header", 0).unwrap();
    drop(partition);
    let (partition, _) = bench.open();
    swap_all(&partition, Packing::AsTheyWere, |_| true);
    check(&partition, &expected, "after");
    let names = names(&bench);
    assert!(!names.contains(&names::segment_name(0, 7)), "{names:?}");
    drop(partition);
    let (partition, report) = bench.open();
    assert!(report.is_empty(), "{report:?}");
    check(&partition, &expected, "reopened");
}

#[test]
fn f67_a_live_file_that_the_manifest_does_not_know_is_damage_and_stays() {
    let bench = Bench::new(small());
    let (partition, _) = bench.open();
    fill(&partition, 0, 60);
    swap_all(&partition, Packing::AsTheyWere, |_| true);
    drop(partition);
    let manifest = Bench::dir().join(names::MANIFEST);
    bench.storage.remove_file(&manifest).unwrap();
    let before = names(&bench);
    let (_partition, report) = bench.open();
    let kinds: Vec<_> = report.findings().iter().map(|f| f.kind).collect();
    assert_eq!(kinds, [crate::partition::report::FindingKind::Damaged]);
    assert_eq!(names(&bench), before);
}

#[test]
fn an_empty_partition_and_one_without_a_sealed_segment_have_nothing_to_rewrite() {
    let bench = Bench::new(small());
    let (partition, _) = bench.open();
    assert!(swap_all(&partition, Packing::Together, |_| false).is_empty());
    partition.append(("k", "v")).unwrap();
    assert!(swap_all(&partition, Packing::Together, |_| false).is_empty());
    assert_eq!(all(&partition).len(), 1);
}
