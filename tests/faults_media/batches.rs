//! F39 to F43: damage inside the segments, from one bit to a batch that strayed.

use thalweg::testing::Disk;
use thalweg::{Durability, Error, FindingKind, Offset, OnCorruption};

use crate::forge::{self, BATCH_HEADER, BatchAt, SEGMENT_HEADER};
use crate::media::{self, End, Golden, Plan, append_probe};

/// The offsets that the log cannot read must be these.
fn expect_lost(golden: &Golden, disk: &Disk, lost: impl Iterator<Item = u64>, what: &str) {
    let opened = golden
        .judge(disk)
        .unwrap_or_else(|e| panic!("{what}: {e}"))
        .opened();
    let lost: Vec<u64> = lost.collect();
    assert_eq!(opened.found.lost, lost, "{what}");
    assert!(opened.found.cut.is_empty(), "{what}");
}

#[test]
fn f39_a_flipped_bit_in_a_sealed_segment_costs_the_batch_it_hits_and_no_other() {
    let golden = Golden::new(Plan::small(3, Durability::Power, End::Closed));
    for segment in [0, 1] {
        for batch in golden.batches(segment) {
            for at in [0, 4, 9, 20, 35, BATCH_HEADER, batch.len - 1] {
                let disk = golden.copy();
                let bit = (batch.position + at) as u64 * 8 + at as u64 % 8;
                disk.flip_bit(&golden.segments[segment], bit).unwrap();
                let files = disk.files();
                let what = format!("segment {segment}, {batch:?}, byte {at}");
                expect_lost(&golden, &disk, batch.first..=batch.last(), &what);
                let left = disk.files();
                assert!(
                    files
                        .iter()
                        .all(|file| left.iter().any(|l| l.0 == file.0 && l.1 >= file.1)),
                    "{what}: something was deleted or cut"
                );
            }
        }
    }
}

#[test]
fn f39_the_error_names_the_file_the_byte_and_where_to_go_on() {
    let golden = Golden::new(Plan::small(2, Durability::Power, End::Closed));
    let batch = golden.batches(0)[3];
    let disk = golden.copy();
    let file = &golden.segments[0];
    disk.flip_bit(file, (batch.end() as u64 - 1) * 8).unwrap();
    let opened = golden.judge(&disk).unwrap().opened();
    let [error] = &opened.found.errors[..] else {
        panic!("{:?}", opened.found.errors);
    };
    assert!(matches!(error, Error::Corruption { file: named, byte, .. }
        if **named == **file && *byte == batch.position as u64));
    let behind = error.resume_at().expect("a place to go on");
    assert_eq!(behind.offset().get(), batch.first + batch.count);
    let hit = opened.partition.get(Offset::new(batch.first));
    assert!(matches!(hit, Err(Error::Corruption { .. })), "{hit:?}");
    assert!(opened.partition.get(behind.offset()).unwrap().is_some());
}

#[test]
fn f39_damage_is_told_once_backwards_too() {
    let golden = Golden::new(Plan::small(2, Durability::Power, End::Closed));
    let batch = golden.batches(0)[5];
    let disk = golden.copy();
    disk.flip_bit(&golden.segments[0], (batch.end() as u64 - 1) * 8)
        .unwrap();
    let log = media::open(&disk).unwrap();
    let partition = media::partition(&log);
    let mut seen: Vec<u64> = Vec::new();
    let mut errors = 0;
    for item in partition.entries(..).rev() {
        match item {
            Ok(entry) => seen.push(entry.offset().get()),
            Err(Error::Corruption { .. }) => errors += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    seen.reverse();
    let hit = batch.first..=batch.last();
    let expected: Vec<u64> = (0..golden.end()).filter(|n| !hit.contains(n)).collect();
    assert_eq!((seen, errors), (expected, 1));
}

#[test]
fn f39_a_log_that_refuses_damage_is_not_opened_where_opening_finds_it() {
    let golden = Golden::new(Plan::small(2, Durability::Power, End::Closed));
    let disk = golden.copy();
    disk.flip_bit(&golden.segments[1], 8 * 60).unwrap(); // in the header of the last segment
    let strict = media::builder().on_corruption(OnCorruption::RefuseLog);
    assert!(matches!(
        strict.open_on(&disk),
        Err(Error::Corruption { .. })
    ));
    let opened = golden.judge(&disk).unwrap().opened();
    let lost = golden.batches(1)[0].first..golden.end();
    assert!(
        opened.found.lost.iter().copied().eq(lost),
        "{:?}",
        opened.found
    );
}

/// A log below `Power`, killed: nothing of the last segment was synced, so opening reads all of it.
fn unsynced() -> Golden {
    Golden::new(Plan::small(2, Durability::Process, End::Killed))
}

#[test]
fn f40_damage_in_the_middle_of_the_active_segment_is_not_cut() {
    let golden = unsynced();
    let batches = golden.batches(1);
    let len = golden.bytes(1).len() as u64;
    for batch in &batches[..batches.len() - 1] {
        for at in [2, 10, 30, BATCH_HEADER + 1] {
            let disk = golden.copy();
            disk.flip_bit(&golden.segments[1], (batch.position + at) as u64 * 8)
                .unwrap();
            let what = format!("{batch:?}, byte {at}");
            let opened = golden
                .judge(&disk)
                .unwrap_or_else(|e| panic!("{what}: {e}"))
                .opened();
            assert!(
                opened
                    .found
                    .lost
                    .iter()
                    .copied()
                    .eq(batch.first..=batch.last()),
                "{what}"
            );
            let findings = opened.log.recovery().findings();
            let damaged = findings
                .iter()
                .find(|found| found.kind == FindingKind::Damaged);
            let damaged = damaged.unwrap_or_else(|| panic!("{what}: {findings:?}"));
            assert_eq!(damaged.byte, Some(batch.position as u64), "{what}");
            assert_eq!(append_probe(&opened.partition), None, "{what}");
            drop(opened);
            let after = disk.read_file(&golden.segments[1]).unwrap();
            assert_eq!(after.len() as u64, len, "{what}: it was cut");
        }
    }
}

#[test]
fn f40_the_refusal_names_the_repair() {
    let golden = unsynced();
    let batch = golden.batches(1)[0];
    let disk = golden.copy();
    disk.flip_bit(&golden.segments[1], (batch.position + 10) as u64 * 8)
        .unwrap();
    let log = media::open(&disk).unwrap();
    let partition = media::partition(&log);
    let refused = partition.append(("k", "v")).unwrap_err();
    assert!(refused.is_corruption());
    assert!(refused.to_string().contains("repair"), "{refused}");
    assert_eq!(partition.offsets().end.get(), golden.end());
}

#[test]
fn f40_damage_survives_reopening_and_closing_unmended() {
    let golden = unsynced();
    let batch = golden.batches(1)[1];
    let disk = golden.copy();
    disk.flip_bit(&golden.segments[1], (batch.position + 10) as u64 * 8)
        .unwrap();
    for life in 0..3 {
        let opened = golden
            .judge(&disk)
            .unwrap_or_else(|e| panic!("life {life}: {e}"))
            .opened();
        assert!(
            opened
                .found
                .lost
                .iter()
                .copied()
                .eq(batch.first..=batch.last()),
            "life {life}"
        );
        assert_eq!(append_probe(&opened.partition), None, "life {life}");
        opened.log.close().unwrap();
    }
}

#[test]
fn f41_every_bit_of_a_batch_header_is_covered() {
    let golden = unsynced();
    let batch = golden.batches(1)[2];
    for bit in 0..BATCH_HEADER as u64 * 8 {
        let disk = golden.copy();
        disk.flip_bit(&golden.segments[1], batch.position as u64 * 8 + bit)
            .unwrap();
        expect_lost(
            &golden,
            &disk,
            batch.first..=batch.last(),
            &format!("bit {bit}"),
        );
    }
}

/// A batch header with this body length, with a checksum that holds.
fn with_body_len(golden: &Golden, segment: usize, batch: &BatchAt, body_len: u32) -> Disk {
    let mut bytes = golden.bytes(segment);
    forge::put(&mut bytes, batch.position + 8, &body_len.to_le_bytes());
    forge::sum_batch_header(&mut bytes, batch.position);
    let disk = golden.copy();
    disk.write_file(&golden.segments[segment], &bytes).unwrap();
    disk
}

/// Peak of this process's memory in bytes, where the system tells.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[test]
fn f42_absurd_lengths_with_a_sound_checksum_are_refused_without_the_memory_they_ask_for() {
    let lengths = [
        0,
        1,
        35,
        0x3FFF_FFFF,
        0x4000_0000,
        0x7FFF_FFFF,
        0x8000_0000,
        u32::MAX,
    ];
    for golden in [
        unsynced(),
        Golden::new(Plan::small(2, Durability::Power, End::Closed)),
    ] {
        let before = peak_memory();
        for segment in [0, 1] {
            let batches = golden.batches(segment);
            for batch in [&batches[0], &batches[2], &batches[batches.len() - 1]] {
                for len in lengths {
                    let disk = with_body_len(&golden, segment, batch, len);
                    let what = format!("{batch:?} of {len:#x} bytes");
                    let opened = golden
                        .judge(&disk)
                        .unwrap_or_else(|e| panic!("{what}: {e}"));
                    let found = opened.opened().found;
                    assert!(!found.is_whole(), "{what}: the length was not noticed");
                    let gone = found.lost.iter().chain(&found.cut);
                    assert!(gone.copied().any(|n| n == batch.first), "{what}");
                }
            }
        }
        assert!(
            peak_memory().saturating_sub(before) < 64 << 20, // the count of the kernel is inexact, and may go down
            "memory was taken on the word of a length"
        );
    }
}

#[test]
fn f42_an_extension_longer_than_the_file_is_refused() {
    let golden = unsynced();
    let batches = golden.batches(1);
    for batch in [&batches[0], &batches[3]] {
        for ext_len in [1_u16, 2, 255, 0x7FFF, u16::MAX] {
            let disk = golden.copy();
            let at = batch.position as u64 + 34;
            disk.replace(&golden.segments[1], at, &ext_len.to_le_bytes())
                .unwrap();
            let what = format!("{batch:?}, extension of {ext_len}");
            let opened = golden
                .judge(&disk)
                .unwrap_or_else(|e| panic!("{what}: {e}"))
                .opened();
            assert!(!opened.found.is_whole(), "{what}");
        }
    }
}

/// Two partitions of the same topic, filled alike.
fn twins() -> (Disk, Vec<std::path::PathBuf>) {
    let disk = Disk::seeded(3);
    let log = media::open(&disk).unwrap();
    let config = thalweg::TopicConfig::new().partitions(2);
    let topic = log.create_topic("t", config).unwrap();
    for n in 0..20 {
        for partition in topic.partitions() {
            let value = format!("value {n} of partition {}", partition.id().get());
            partition.append(("key", value)).unwrap();
        }
    }
    log.close().unwrap();
    let files = media::segments(&disk);
    assert_eq!(files.len(), 2);
    (disk, files)
}

/// All values of a partition, and how many errors came between them.
fn values(partition: &thalweg::Partition) -> (Vec<(u64, String)>, usize) {
    let (mut values, mut errors) = (Vec::new(), 0);
    for item in partition.entries(..) {
        match item {
            Ok(entry) => values.push((entry.offset().get(), entry.value_str().unwrap().to_owned())),
            Err(Error::Corruption { .. }) => errors += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    (values, errors)
}

#[test]
fn f43_a_batch_of_one_partition_written_into_another_is_not_served() {
    let (disk, files) = twins();
    let bytes = disk.read_file(&files[0]).unwrap();
    let batches = forge::batches(&bytes);
    // Whole, and the body alone (its own checksum does not know where it belongs).
    for (from, name) in [
        (0, "batch"),
        (8, "all but sync and checksum"),
        (BATCH_HEADER, "body"),
    ] {
        for batch in &batches {
            let damaged = media::copy(&disk);
            let at = (batch.position + from) as u64;
            damaged
                .replace(&files[1], at, &bytes[batch.position + from..batch.end()])
                .unwrap();
            let log = media::open(&damaged).unwrap();
            let second = log.topic("t").unwrap().partition(1).unwrap();
            let (values, errors) = values(&second);
            assert_eq!((values.len(), errors), (19, 1), "{name} of {}", batch.first);
            let own = |(n, value): &(u64, String)| *value == format!("value {n} of partition 1");
            assert!(
                values.iter().all(own),
                "{name} of {}: {values:?}",
                batch.first
            );
        }
    }
}

#[test]
fn f43_a_batch_written_to_a_wrong_position_is_not_served_twice() {
    let (disk, files) = twins();
    let bytes = disk.read_file(&files[0]).unwrap();
    let batches = forge::batches(&bytes);
    for (from, onto) in [(2, 9), (9, 2), (10, 11), (19, 0)] {
        let (from, onto) = (batches[from], batches[onto]);
        let len = from.len.min(onto.len);
        let damaged = media::copy(&disk);
        let stray = &bytes[from.position..from.position + len];
        damaged
            .replace(&files[0], onto.position as u64, stray)
            .unwrap();
        let log = media::open(&damaged).unwrap();
        let first = log.topic("t").unwrap().partition(0).unwrap();
        let (values, errors) = values(&first);
        let expected: Vec<_> = (0..20)
            .filter(|&n| n != onto.first)
            .map(|n| (n, format!("value {n} of partition 0")))
            .collect();
        assert_eq!((values, errors), (expected, 1));
    }
}

#[test]
fn f43_swapped_sectors_and_stale_pages_are_noticed() {
    let golden = Golden::new(Plan::small(3, Durability::Power, End::Closed));
    for segment in 0..3 {
        let len = golden.bytes(segment).len() as u64;
        for sector in 0..len / 512 - 1 {
            let what = format!("segment {segment}, sector {sector}");
            let disk = golden.copy();
            let (one, other) = (sector * 512, (sector + 1) * 512);
            disk.swap(&golden.segments[segment], one, other, 512)
                .unwrap();
            let opened = golden
                .judge(&disk)
                .unwrap_or_else(|e| panic!("{what} swapped: {e}"));
            assert!(!opened.opened().found.is_whole(), "{what}");
            // As if the write of this sector had never come.
            let disk = golden.copy();
            disk.zero(&golden.segments[segment], one..other).unwrap();
            let opened = golden
                .judge(&disk)
                .unwrap_or_else(|e| panic!("{what} zeroed: {e}"));
            assert!(!opened.opened().found.is_whole(), "{what}");
        }
    }
    assert!(golden.bytes(0).len() > SEGMENT_HEADER);
}
