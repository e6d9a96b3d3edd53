//! Reads that fail, are short or are interrupted: an error is not the end of the log, and not corruption either.

use thalweg::testing::{CrashModel, Disk, DiskCall, DiskError, Fault, Short};
use thalweg::{Durability, Error, Log, Maintenance, Offset, ReadMode};

use crate::story::{LEVELS, Story, again, create, open, read, reopened, segments, unplugged};

/// Forty records in several segments, closed; nothing of it is in memory.
fn forty(level: Durability) -> (Disk, Story) {
    let disk = Disk::new();
    let log = open(&disk).unwrap();
    let partition = create(&log, level);
    let mut story = Story::new(level);
    for _ in 0..20 {
        story.append(&disk, &partition, 2, 40).unwrap();
    }
    log.close().unwrap();
    let disk = unplugged(&disk);
    story.go_on_with(20);
    (disk, story)
}

/// A whole life: appends, rolls, a topic, a sync, a close, a recovery.
fn life(disk: &Disk, level: Durability) -> Story {
    let log = open(disk).unwrap();
    let partition = create(&log, level);
    let mut story = Story::new(level);
    for _ in 0..12 {
        story.append(disk, &partition, 2, 60).unwrap();
    }
    log.sync().unwrap();
    assert_eq!(story.check(&partition, "the first life"), 12);
    log.close().unwrap();
    let (log, partition) = reopened(disk);
    story.go_on_with(12);
    story.append(disk, &partition, 2, 60).unwrap();
    partition.roll().unwrap();
    assert_eq!(story.check(&partition, "the second life"), 13);
    drop(log);
    story
}

#[test]
fn f29_interruptions_of_any_call_are_not_seen() {
    for level in LEVELS {
        let disk = Disk::new();
        disk.fail(Fault::any(DiskError::Interrupted).lasting());
        let story = life(&disk, level);
        assert!(disk.struck() > 100);
        for call in [
            DiskCall::Open,
            DiskCall::Read,
            DiskCall::Write,
            DiskCall::SyncData,
            DiskCall::SyncDir,
            DiskCall::Lock,
            DiskCall::ReadDir,
        ] {
            assert!(disk.calls()[&call] > 1, "{call:?} was interrupted");
        }
        let crashed = disk.crash(disk.points(), CrashModel::LostSuffix, 0);
        let (_log, partition) = reopened(&crashed);
        assert_eq!(story.check(&partition, "after the interruptions"), 13);
    }
}

#[test]
fn f30_reads_of_one_byte_at_a_time_give_the_same() {
    for level in LEVELS {
        for short in [Short::Bytes(1), Short::Half, Short::PageEdge] {
            let disk = Disk::new();
            disk.fail(Fault::short(DiskCall::Read, short).lasting());
            let story = life(&disk, level);
            let killed = disk.crash(disk.points(), CrashModel::ProcessKill, 0);
            killed.fail(Fault::short(DiskCall::Read, short).lasting());
            let (_log, partition) = reopened(&killed);
            assert_eq!(story.check(&partition, "short reads"), 13);
            let backwards: Vec<u64> = partition
                .entries(..)
                .rev()
                .map(|entry| entry.unwrap().offset().get())
                .collect();
            assert_eq!(backwards, (0..26).rev().collect::<Vec<_>>());
            for offset in 0..26 {
                let entry = partition.get(Offset::new(offset)).unwrap().unwrap();
                assert_eq!(
                    Some(entry.value_str().unwrap()),
                    story.value_at(offset).map(|v| &**v)
                );
            }
        }
    }
}

#[test]
fn f33_where_no_map_can_be_had_sealed_segments_are_read_by_position() {
    let (disk, story) = forty(Durability::Process);
    disk.fail(Fault::error(DiskCall::Map, DiskError::NoMemory).lasting());
    let builder = Log::builder().maintenance(Maintenance::Manual);
    let log = builder.read_mode(ReadMode::Mapped).open_on(&disk).unwrap();
    let partition = again(&log).unwrap();
    assert_eq!(story.check(&partition, "without maps"), 20);
    assert!(disk.struck() > 0, "a map was asked for");
    for offset in [0, 7, 39] {
        let entry = partition.get(Offset::new(offset)).unwrap().unwrap();
        assert_eq!(
            Some(entry.value_str().unwrap()),
            story.value_at(offset).map(|v| &**v)
        );
    }
}

#[test]
fn f34_a_place_that_cannot_be_read_costs_its_own_records_and_ends_nothing() {
    for level in LEVELS {
        let (disk, story) = forty(level);
        let files = segments(&disk);
        let mut missed = 0;
        for (path, len) in &files[..files.len() - 1] {
            for at in (128..len - 84).step_by(37) {
                let (_log, partition) = reopened(&disk);
                let fault = Fault::error(DiskCall::Read, DiskError::Io).on(path.as_str());
                disk.fail(fault.within(at..at + 1).lasting());
                let state = format!("{level:?}, byte {at} of {path}");
                let (mut seen, mut unread) = (0, 0);
                for entry in partition.entries(..) {
                    match entry {
                        Ok(entry) => {
                            let value = story.value_at(entry.offset().get());
                            assert_eq!(Some(entry.value_str().unwrap()), value.map(|v| &**v));
                            seen += 1;
                        }
                        Err(Error::Io {
                            unread: Some(range),
                            ..
                        }) => {
                            let range = range.1;
                            unread += range.end.get() - range.start.get();
                        }
                        Err(e) => panic!("{state}: {e:?}"),
                    }
                }
                assert!(unread > 0, "{state}: the fault was met");
                assert_eq!(seen + unread, 40, "{state}: each record is read or named");
                missed += 1;
                // One by one: the others can be read, and an unreadable one is an error and not an absence.
                for offset in 0..40 {
                    match partition.get(Offset::new(offset)) {
                        Ok(entry) => assert!(entry.is_some(), "{state}: {offset} is not absent"),
                        Err(e) => assert!(matches!(e, Error::Io { .. }), "{state}: {e:?}"),
                    }
                }
                disk.heal();
                assert_eq!(
                    story.check(&partition, &state),
                    20,
                    "{state}: it was the disk"
                );
            }
        }
        assert!(missed > 10);
    }
}

#[test]
fn f35_an_error_while_opening_is_returned_and_nothing_is_modified() {
    for level in LEVELS {
        for closed in [false, true] {
            let (disk, story) = forty(level);
            if !closed {
                disk.remove("/log/STATE").unwrap();
                let (path, len) = segments(&disk).pop().unwrap();
                disk.resize(path, len - 3).unwrap();
            }
            for call in [
                DiskCall::Read,
                DiskCall::Open,
                DiskCall::ReadDir,
                DiskCall::Metadata,
            ] {
                for error in [DiskError::Io, DiskError::AccessDenied, DiskError::Stale] {
                    every_call(&disk, call, error);
                }
            }
            let (_log, partition) = reopened(&disk);
            let survived = story.check(&partition, "after all");
            assert!(survived >= 19, "{level:?}, closed {closed}");
        }
    }
}

/// Each call of the kind in turn fails while the log is opened, until there are no more.
fn every_call(disk: &Disk, call: DiskCall, error: DiskError) {
    for number in 0.. {
        let copy = disk.crash(disk.points(), CrashModel::ProcessKill, 0);
        copy.fail(Fault::error(call, error).after(number));
        let begun = copy.points();
        let result = open(&copy);
        if copy.struck() == 0 {
            assert!(result.is_ok());
            break;
        }
        let state = format!("{call:?} {number} fails with {error:?}");
        match result {
            Err(Error::Io { .. }) => {}
            Ok(log) => {
                // Met by what opening does not depend on, or by work that waits: then reading is possible, or says why not.
                let partition = again(&log).unwrap_or_else(|e| panic!("{state}: {e:?}"));
                read(&partition).unwrap_or_else(|e| panic!("{state}: {e:?}"));
                continue;
            }
            Err(e) => panic!("{state}: {e:?}"),
        }
        let written = copy.points() - begun;
        let before = disk.hash();
        // The lock file is all that may be new; before the work of recovery begins nothing is written at all.
        if written == 0 {
            assert_eq!(copy.hash(), before, "{state}");
        }
        copy.heal();
        let (_log, partition) = reopened(&copy);
        read(&partition).unwrap_or_else(|e| panic!("{state}: {e:?}"));
    }
}

#[test]
fn f36_a_write_that_is_done_in_pieces_is_whole_in_the_end() {
    for level in LEVELS {
        for short in [Short::Bytes(1), Short::Half, Short::PageEdge] {
            let disk = Disk::new();
            disk.fail(Fault::short(DiskCall::Write, short).lasting());
            let story = life(&disk, level);
            assert!(disk.struck() > 10);
            let crashed = disk.crash(disk.points(), CrashModel::LostSuffix, 0);
            let (_log, partition) = reopened(&crashed);
            assert_eq!(story.check(&partition, "in pieces"), 13);
        }
    }
}
