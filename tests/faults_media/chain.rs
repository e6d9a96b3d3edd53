//! F44 to F47: segments that are swapped, missing, or overlap. What the chain of links and the names are for.

use std::path::PathBuf;

use thalweg::testing::Disk;
use thalweg::{Durability, Error, FindingKind, Offset};

use crate::forge::{self, header};
use crate::media::{self, End, Found, Golden, Opened, Plan, append_probe};

fn five(durability: Durability, end: End) -> Golden {
    Golden::new(Plan::small(5, durability, end))
}

/// The offsets in these segments of the golden log.
fn records_of(golden: &Golden, segments: &[usize]) -> Vec<u64> {
    let mut records = Vec::new();
    for &segment in segments {
        let batches = golden.batches(segment);
        let first = batches[0].first;
        records.extend(first..=batches[batches.len() - 1].last());
    }
    records
}

fn judged(golden: &Golden, disk: &Disk, what: &str) -> Opened {
    let judged = golden.judge(disk);
    judged.unwrap_or_else(|e| panic!("{what}: {e}")).opened()
}

/// Every record that is gone, told by an error or the report.
fn gone(found: &Found) -> Vec<u64> {
    let mut gone = [found.lost.clone(), found.cut.clone()].concat();
    gone.sort_unstable();
    gone
}

fn exchange(disk: &Disk, one: &PathBuf, other: &PathBuf) {
    let bytes = [disk.read_file(one).unwrap(), disk.read_file(other).unwrap()];
    disk.write_file(one, &bytes[1]).unwrap();
    disk.write_file(other, &bytes[0]).unwrap();
}

#[test]
fn f44_two_segments_that_were_swapped_are_refused_and_the_rest_is_served() {
    let golden = five(Durability::Power, End::Closed);
    for one in 0..5 {
        for other in one + 1..5 {
            let disk = golden.copy();
            exchange(&disk, &golden.segments[one], &golden.segments[other]);
            let what = format!("{one} and {other}");
            let opened = judged(&golden, &disk, &what);
            assert_eq!(
                gone(&opened.found),
                records_of(&golden, &[one, other]),
                "{what}"
            );
        }
    }
}

#[test]
fn f44_a_segment_under_another_name_is_not_served_at_the_offsets_of_that_name() {
    let golden = five(Durability::Power, End::Closed);
    let dir = media::partition_dir(&golden.disk);
    for segment in 0..5 {
        let base = golden.batches(segment)[0].first;
        for name in [
            format!("{:020}-00000000.log", base + 1),
            format!("{:020}-00000001.log", base),
            format!("{:020}-00000000.log", 1_u64 << 40),
        ] {
            let disk = golden.copy();
            let bytes = disk.read_file(&golden.segments[segment]).unwrap();
            disk.remove(&golden.segments[segment]).unwrap();
            disk.write_file(dir.join(&name), &bytes).unwrap();
            let what = format!("segment {segment} as {name}");
            let opened = judged(&golden, &disk, &what);
            let mut lost = records_of(&golden, &[segment]);
            if name.starts_with("00000001") && segment < 4 {
                // Behind it the last segment, which has no footer, does not look like the last one.
                lost.extend(records_of(&golden, &[4]));
            }
            assert_eq!(gone(&opened.found), lost, "{what}");
            drop(opened);
            assert_eq!(
                disk.read_file(dir.join(&name)).unwrap(),
                bytes,
                "{what}: it was changed"
            );
        }
    }
}

#[test]
fn f44_a_partition_whose_directory_was_swapped_with_another_is_refused() {
    let disk = Disk::new();
    let log = media::open(&disk).unwrap();
    let topic = log
        .create_topic("t", thalweg::TopicConfig::new().partitions(2))
        .unwrap();
    for partition in topic.partitions() {
        partition
            .append(("k", format!("of {}", partition.id().get())))
            .unwrap();
    }
    log.close().unwrap();
    let files = media::segments(&disk);
    exchange(&disk, &files[0], &files[1]);
    let log = media::open(&disk).unwrap();
    for partition in log.topic("t").unwrap().partitions() {
        let entries: Vec<_> = partition.entries(..).collect();
        assert!(
            matches!(entries[..], [Err(Error::Corruption { .. })]),
            "{entries:?}"
        );
        assert_eq!(append_probe(&partition), None);
    }
}

#[test]
fn f45_a_missing_segment_is_told_and_the_others_are_served() {
    for end in [End::Closed, End::Killed] {
        let golden = five(Durability::Power, end);
        for segment in 0..5 {
            let disk = golden.copy();
            disk.remove(&golden.segments[segment]).unwrap();
            let what = format!("{end:?}, segment {segment}");
            let opened = judged(&golden, &disk, &what);
            assert_eq!(
                gone(&opened.found),
                records_of(&golden, &[segment]),
                "{what}"
            );
            if [0, 3, 4].contains(&segment) {
                assert_eq!(
                    append_probe(&opened.partition),
                    None,
                    "{what}: opening must see it"
                );
            }
        }
    }
}

#[test]
fn f45_a_hole_is_told_to_each_reader_and_to_each_look_at_it() {
    let golden = five(Durability::Power, End::Closed);
    let disk = golden.copy();
    disk.remove(&golden.segments[2]).unwrap();
    let lost = records_of(&golden, &[2]);
    let log = media::open(&disk).unwrap();
    let partition = media::partition(&log);
    for round in 0..2 {
        for &offset in &lost {
            let hit = partition.get(Offset::new(offset));
            assert!(
                matches!(hit, Err(Error::Corruption { .. })),
                "{round}: {offset} gave {hit:?}"
            );
        }
        let around: Vec<_> = partition.entries(..).collect();
        let errors = around.iter().filter(|item| item.is_err()).count();
        assert_eq!(
            (around.len() - errors, errors),
            (golden.written.len() - lost.len(), 1),
            "{round}"
        );
        let backwards: Vec<_> = partition.entries(..).rev().collect();
        let errors = backwards.iter().filter(|item| item.is_err()).count();
        assert_eq!(
            backwards.len() - errors,
            golden.written.len() - lost.len(),
            "{round}"
        );
        assert!(errors > 0, "{round}: nothing was said backwards");
    }
    let behind = lost[lost.len() - 1] + 1;
    assert!(partition.get(Offset::new(behind)).unwrap().is_some());
}

#[test]
fn f45_a_reader_that_starts_inside_the_hole_is_told() {
    let golden = five(Durability::Power, End::Closed);
    let disk = golden.copy();
    disk.remove(&golden.segments[1]).unwrap();
    let lost = records_of(&golden, &[1]);
    let inside = Offset::new(lost[lost.len() / 2]);
    let log = media::open(&disk).unwrap();
    let partition = media::partition(&log);
    let mut scan = partition.entries(inside..);
    let first = scan.next().expect("something");
    assert!(matches!(&first, Err(Error::Corruption { .. })), "{first:?}");
    let next = scan
        .next()
        .expect("the rest")
        .expect("a record behind the hole");
    assert_eq!(next.offset().get(), lost[lost.len() - 1] + 1);
}

#[test]
fn f46_missing_first_segments_are_a_loss_if_no_manifest_says_so() {
    let golden = five(Durability::Power, End::Closed);
    let disk = golden.copy();
    disk.remove(&golden.segments[0]).unwrap();
    disk.remove(&golden.segments[1]).unwrap();
    let opened = judged(&golden, &disk, "two are missing");
    assert_eq!(gone(&opened.found), records_of(&golden, &[0, 1]));
    let findings = opened.log.recovery().findings();
    assert_eq!(findings[0].kind, FindingKind::Damaged, "{findings:?}");
    assert!(matches!(
        opened.partition.get(Offset::new(0)),
        Err(Error::Corruption { .. })
    ));
}

#[test]
fn f46_missing_first_segments_are_in_order_if_the_manifest_says_so() {
    let golden = five(Durability::Power, End::Closed);
    let start = golden.batches(2)[0].first;
    // The log start may lie within the first segment, too.
    for log_start in [start, start + 3] {
        let disk = golden.copy();
        disk.remove(&golden.segments[0]).unwrap();
        disk.remove(&golden.segments[1]).unwrap();
        let manifest = media::partition_dir(&disk).join("MANIFEST");
        disk.write_file(manifest, &forge::manifest(log_start, 0, None))
            .unwrap();
        let log = media::open(&disk).unwrap();
        assert!(log.recovery().is_empty(), "{:?}", log.recovery());
        let partition = media::partition(&log);
        assert_eq!(
            partition.offsets(),
            Offset::new(log_start)..Offset::new(golden.end())
        );
        let offsets: Vec<u64> = partition
            .entries(..)
            .map(|e| e.unwrap().offset().get())
            .collect();
        assert!(offsets.into_iter().eq(log_start..golden.end()));
        let below = partition.get(Offset::new(log_start - 1));
        assert!(matches!(below, Err(Error::OutOfRange { .. })), "{below:?}");
        assert_eq!(append_probe(&partition), Some(golden.end()));
    }
}

#[test]
fn f46_segments_below_the_log_start_that_are_still_there_are_removed() {
    let golden = five(Durability::Power, End::Killed);
    let log_start = golden.batches(3)[0].first + 2;
    let disk = golden.copy();
    let manifest = media::partition_dir(&disk).join("MANIFEST");
    disk.write_file(manifest, &forge::manifest(log_start, 0, None))
        .unwrap();
    let log = media::open(&disk).unwrap();
    let partition = media::partition(&log);
    assert_eq!(append_probe(&partition), Some(golden.end()));
    assert_eq!(partition.offsets().start.get(), log_start);
    assert_eq!(media::segments(&disk), golden.segments[3..]);
}

/// The bytes of a segment with another base or generation in its header, and a checksum that holds.
fn reheaded(golden: &Golden, segment: usize, at: usize, field: &[u8]) -> Vec<u8> {
    let mut bytes = golden.bytes(segment);
    forge::put(&mut bytes, at, field);
    if at == header::BASE {
        forge::put(&mut bytes, header::EXPECTED, field);
    }
    forge::sum_head(&mut bytes);
    bytes
}

#[test]
fn f47_a_segment_that_overlaps_its_neighbours_is_refused_and_its_records_are_not_served() {
    let golden = five(Durability::Power, End::Closed);
    let dir = media::partition_dir(&golden.disk);
    for segment in [1, 2, 3] {
        let base = golden.batches(segment)[0].first + 2;
        let disk = golden.copy();
        let bytes = reheaded(&golden, segment, header::BASE, &base.to_le_bytes());
        let intruder = dir.join(format!("{base:020}-00000000.log"));
        disk.write_file(&intruder, &bytes).unwrap();
        let what = format!("over segment {segment}");
        let opened = judged(&golden, &disk, &what);
        let mut refused = 0;
        for written in &golden.written {
            match opened.partition.get(Offset::new(written.offset)) {
                Ok(Some(entry)) => {
                    let same = golden.wrote((&entry).into());
                    assert!(same, "{what}: {} is another record", written.offset);
                }
                Err(Error::Corruption { .. }) => refused += 1,
                other => panic!("{what}: {} gave {other:?}", written.offset),
            }
        }
        assert!(refused > 0, "{what}: served as if nothing were wrong");
        drop(opened);
        assert_eq!(
            disk.read_file(&intruder).unwrap(),
            bytes,
            "{what}: it was changed"
        );
    }
}

#[test]
fn f47_an_uncommitted_generation_is_removed_and_the_live_files_stay() {
    let golden = five(Durability::Power, End::Killed);
    let dir = media::partition_dir(&golden.disk);
    for segment in 0..4 {
        let base = golden.batches(segment)[0].first;
        let disk = golden.copy();
        let bytes = reheaded(&golden, segment, header::GENERATION, &1_u32.to_le_bytes());
        // Also an unfinished one: its header, a part of its batches.
        for len in [bytes.len(), bytes.len() / 2, 128, 60, 0] {
            let leftover = dir.join(format!("{base:020}-00000001.log"));
            disk.write_file(&leftover, &bytes[..len]).unwrap();
            let what = format!("segment {segment}, {len} bytes");
            let opened = judged(&golden, &disk, &what);
            assert!(opened.found.is_whole(), "{what}: {:?}", opened.found);
            opened
                .partition
                .roll()
                .unwrap_or_else(|e| panic!("{what}: {e:?}"));
            assert!(
                disk.read_file(&leftover).is_err(),
                "{what}: the leftover is still there"
            );
            let all = media::segments(&disk);
            assert!(
                golden.segments.iter().all(|file| all.contains(file)),
                "{what}"
            );
        }
    }
}

#[test]
fn f47_what_the_manifest_names_as_replaced_is_removed() {
    let golden = five(Durability::Power, End::Killed);
    let dir = media::partition_dir(&golden.disk);
    let base = golden.batches(1)[0].first;
    let disk = golden.copy();
    let live = dir.join(format!("{base:020}-00000001.log"));
    let bytes = reheaded(&golden, 1, header::GENERATION, &1_u32.to_le_bytes());
    disk.write_file(&live, &bytes).unwrap();
    let swap = (&[(base, 0)][..], (base, 1));
    disk.write_file(dir.join("MANIFEST"), &forge::manifest(0, 1, Some(swap)))
        .unwrap();
    let opened = judged(&golden, &disk, "after a replacement");
    // The copy has the footer of the old file; the links of both neighbours still fit.
    assert!(opened.found.is_whole(), "{:?}", opened.found);
    opened.partition.roll().unwrap();
    assert!(
        disk.read_file(&golden.segments[1]).is_err(),
        "the replaced file is still there"
    );
    assert_eq!(disk.read_file(&live).unwrap(), bytes);
}

#[test]
fn f47_a_live_file_that_the_manifest_names_and_that_is_missing_is_a_loss() {
    let golden = five(Durability::Power, End::Closed);
    let dir = media::partition_dir(&golden.disk);
    let base = golden.batches(1)[0].first;
    let disk = golden.copy();
    let swap = (&[(base, 0)][..], (base, 1));
    disk.write_file(dir.join("MANIFEST"), &forge::manifest(0, 1, Some(swap)))
        .unwrap();
    let before = media::segments(&disk);
    let opened = judged(&golden, &disk, "the live file is missing");
    assert_eq!(append_probe(&opened.partition), None);
    drop(opened);
    assert_eq!(
        media::segments(&disk),
        before,
        "nothing is deleted because something else is missing"
    );
}
