//! What a later version may have written: the whole log is refused before anything is written, a record batch for itself.

use std::path::PathBuf;

use thalweg::testing::{Disk, ManualClock};
use thalweg::{Error, FindingKind, Log, Offset};

use crate::common;
use crate::forge::{self, BatchAt, put};
use crate::written::Written;
use crate::{golden, partition};

const FORMAT: &str = "/log/FORMAT";

fn open(disk: &Disk) -> thalweg::Result<Log> {
    common::open(disk, &ManualClock::new())
}

/// Changes the payload of `FORMAT`, as a sound version would, in the slot that counts.
fn change_format(disk: &Disk, change: impl Fn(&mut [u8])) {
    let mut file = disk.read_file(FORMAT).expect("every log has one");
    let slot = 64 + forge::u32_at(&file, 16) as usize; // the first generation stands in the second slot
    let len = forge::u32_at(&file, slot + 8) as usize;
    change(&mut file[slot + 16..slot + 16 + len]);
    let mut crc = crc32fast::Hasher::new();
    crc.update(&file[..8]);
    crc.update(&0_u64.to_le_bytes());
    crc.update(&file[slot..slot + 12]);
    crc.update(&file[slot + 16..slot + 16 + len]);
    put(&mut file, slot + 12, &crc.finalize().to_le_bytes());
    disk.write_file(FORMAT, &file).expect("it is there");
}

/// As the disk is, all but the lock file.
fn content(disk: &Disk) -> Vec<(PathBuf, Vec<u8>)> {
    let paths = disk.files().into_iter().map(|(path, _)| path);
    paths
        .filter(|path| !path.ends_with("LOCK"))
        .map(|path| (path.clone(), disk.read_file(path).expect("it is listed")))
        .collect()
}

#[test]
fn f131_a_log_with_a_future_required_bit_is_refused_before_any_write() {
    for bit in 0..64 {
        let disk = golden();
        change_format(&disk, |payload| payload[2 + bit / 8] |= 1 << (bit % 8));
        let before = content(&disk);
        let refused = open(&disk);
        let Err(Error::Incompatible { file, .. }) = &refused else {
            panic!("bit {bit}: {:?}", refused.map(drop));
        };
        assert!(file.ends_with("FORMAT"));
        assert_eq!(content(&disk), before, "bit {bit}");
    }
}

#[test]
fn f131_a_log_of_a_later_major_version_is_refused_and_an_optional_bit_is_not() {
    let disk = golden();
    change_format(&disk, |payload| payload[0] = 1);
    let before = content(&disk);
    assert!(matches!(open(&disk), Err(Error::Incompatible { .. })));
    assert_eq!(content(&disk), before);
    let disk = golden();
    change_format(&disk, |payload| payload[10] = 0x40);
    let log = open(&disk).expect("an optional bit may be ignored");
    assert!(log.recovery().is_empty());
}

/// A segment of the topic `sure`: the first one (sealed) or the last (not).
fn segment(disk: &Disk, last: bool) -> (PathBuf, Vec<u8>) {
    let paths = disk.files().into_iter().map(|(path, _)| path);
    let mut paths: Vec<_> = paths
        .filter(|path| path.to_string_lossy().contains("/sure-"))
        .filter(|path| path.extension().is_some_and(|ending| ending == "log"))
        .collect();
    assert!(paths.len() > 2);
    let path = if last {
        paths.pop().expect("some")
    } else {
        paths.remove(0)
    };
    let bytes = disk.read_file(&path).expect("it is listed");
    (path, bytes)
}

/// What a later version may say of a batch: how its bytes change, in place.
type Change = fn(&mut Vec<u8>, BatchAt);

const CHANGES: [(&str, Change); 4] = [
    ("a required bit", |bytes, batch| {
        bytes[batch.position + 2] |= 1 << 5;
    }),
    ("the last required bit", |bytes, batch| {
        bytes[batch.position + 2] |= 1 << 7;
    }),
    ("an unknown codec", |bytes, batch| {
        bytes[batch.position + 2] |= 5;
    }),
    ("a record attribute", |bytes, batch| {
        let header = batch.position;
        let body = header + forge::BATCH_HEADER + usize::from(forge::u16_at(bytes, header + 34));
        // A base event time stands before the first record.
        let first = body
            + if bytes[header + 2] & (1 << 4) == 0 {
                0
            } else {
                8
            };
        bytes[first] |= 1 << 6;
        let mut crc = crc32fast::Hasher::new();
        crc.update(&bytes[body..batch.end()]);
        put(bytes, batch.position + 12, &crc.finalize().to_le_bytes());
    }),
];

/// The first batch of a segment, changed so; checksums right.
fn changed(bytes: &mut Vec<u8>, which: usize, change: Change) -> BatchAt {
    let batch = forge::batches(bytes)[which];
    change(bytes, batch);
    forge::sum_batch_header(bytes, batch.position);
    batch
}

/// Everything is read but this batch, which is `Incompatible` and says what it holds.
fn assert_only_that_is_refused(log: &Log, batch: BatchAt, what: &str) {
    let records = &Written::story();
    let (_, records) = records.topics()[0];
    let partition = partition(log, "sure");
    let mut next = 0;
    let mut refused = 0;
    while next < records.len() as u64 {
        for entry in partition.entries(Offset::new(next)..) {
            match entry {
                Ok(entry) => {
                    assert_eq!(&common::seen(&entry), &records[next as usize], "{what}");
                    next += 1;
                }
                Err(e) => {
                    let Error::Incompatible { unread, .. } = &e else {
                        panic!("{what}: {e:?}");
                    };
                    let unread = unread.as_ref().expect("a batch says what it holds");
                    let (first, end) = (Offset::new(batch.first), Offset::new(batch.last() + 1));
                    assert_eq!(unread.1, first..end, "{what}");
                    assert_eq!(next, batch.first, "{what}");
                    assert!(!e.is_corruption(), "{what}");
                    next = e.resume_at().expect("it goes on").offset().get();
                    assert_eq!(next, batch.last() + 1, "{what}");
                    refused += 1;
                    break;
                }
            }
        }
    }
    assert_eq!(refused, 1, "{what}");
}

#[test]
fn f134_a_batch_of_a_later_version_is_incompatible_for_itself_alone() {
    for (what, change) in CHANGES {
        for which in [0, 1, 2] {
            let disk = golden();
            let (path, mut bytes) = segment(&disk, false);
            let batch = changed(&mut bytes, which, change);
            disk.write_file(&path, &bytes).expect("it is there");
            let log = open(&disk).expect("it opens");
            assert_only_that_is_refused(&log, batch, what);
        }
    }
}

/// The log was not closed: recovery meets the batch, at the end of the log too, and leaves it where it is.
#[test]
fn f134_recovery_keeps_a_batch_of_a_later_version() {
    for (what, change) in CHANGES {
        let disk = golden();
        let (path, mut bytes) = segment(&disk, true);
        let last = forge::batches(&bytes).len() - 1;
        let batch = changed(&mut bytes, last, change);
        disk.write_file(&path, &bytes).expect("it is there");
        forget_the_close(&disk);
        let log = open(&disk).expect("it opens");
        let cut = |kind| kind == FindingKind::TornTail || kind == FindingKind::SuspectTail;
        let findings = log.recovery().findings();
        assert!(
            !findings.iter().any(|found| cut(found.kind)),
            "{what}: {findings:?}"
        );
        assert_only_that_is_refused(&log, batch, what);
        let now = disk.read_file(&path).expect("it is there");
        assert!(now.starts_with(&bytes), "{what}: the batch is gone");
    }
}

/// Cuts the last entry off `STATE`, and all recovery points: the log looks as if its process had died.
fn forget_the_close(disk: &Disk) {
    let state = disk.read_file("/log/STATE").expect("every log has one");
    let entries = forge::state_entries(&state);
    let first = entries.iter().find(|(kind, _)| *kind != forge::OPEN);
    let (_, range) = first.expect("points and a close");
    disk.resize("/log/STATE", range.start).expect("it is there");
}

fn with_tlv(bytes: &[u8], batch: BatchAt, kind: u8) -> Vec<u8> {
    let ext = usize::from(forge::u16_at(bytes, batch.position + 34));
    let at = batch.position + forge::BATCH_HEADER + ext;
    let mut grown = [
        &bytes[..at],
        &[kind, 2, 0xAB, 0xCD],
        &bytes[at..batch.end()],
    ]
    .concat();
    let ext = u16::try_from(ext + 4).expect("a few bytes");
    put(&mut grown, batch.position + 34, &ext.to_le_bytes());
    forge::sum_batch_header(&mut grown, batch.position);
    grown
}

/// An unknown field of the last batch: below 128 it changes the meaning, from 128 on it is skipped.
#[test]
fn f134_an_unknown_field_is_incompatible_below_128_and_skipped_above() {
    for (kind, skipped) in [(99, false), (127, false), (128, true), (255, true)] {
        let disk = golden();
        let (path, bytes) = segment(&disk, true);
        let batch = *forge::batches(&bytes).last().expect("it holds some");
        disk.write_file(&path, &with_tlv(&bytes, batch, kind))
            .expect("it is there");
        forget_the_close(&disk);
        let log = open(&disk).expect("it opens");
        if skipped {
            let story = Written::story();
            assert_eq!(&crate::read(&partition(&log, "sure")), story.topics()[0].1);
        } else {
            assert_only_that_is_refused(&log, batch, &format!("field {kind}"));
        }
    }
}

/// Optional bits of a header may be ignored.
#[test]
fn f134_an_unknown_optional_bit_is_ignored() {
    for bit in 1..8 {
        let disk = golden();
        let (path, mut bytes) = segment(&disk, false);
        let batch = forge::batches(&bytes)[0];
        bytes[batch.position + 3] |= 1 << bit;
        forge::sum_batch_header(&mut bytes, batch.position);
        disk.write_file(&path, &bytes).expect("it is there");
        let log = open(&disk).expect("it opens");
        let story = Written::story();
        assert_eq!(
            &crate::read(&partition(&log, "sure")),
            story.topics()[0].1,
            "bit {bit}"
        );
    }
}
