//! A full disk is ordinary: nothing of the write is left, reading goes on, and writing does too once there is room.

use thalweg::testing::{CrashModel, Disk, DiskCall, DiskError, Fault, Short};
use thalweg::{
    Durability, Error, FindingKind, Log, Offset, Outcome, Partition, Record, TopicConfig,
};

use crate::common::{Dice, seed};
use crate::story::{
    LEVELS, Story, again, create, every_crash, kinds, open, read, refusal, reopened, segments,
    small,
};

const FULL: [DiskError; 3] = [
    DiskError::NoSpace,
    DiskError::Quota,
    DiskError::FileTooLarge,
];

fn three(level: Durability) -> (Disk, Log, Partition, Story) {
    let disk = Disk::new();
    let log = open(&disk).unwrap();
    let config = small(level).segment_bytes(1 << 20);
    let partition = log.create_topic("t", config).unwrap().partition(0).unwrap();
    let mut story = Story::new(level);
    for _ in 0..3 {
        story.append(&disk, &partition, 1, 40).unwrap();
    }
    (disk, log, partition, story)
}

fn assert_no_space(error: &Error, state: &str) {
    assert!(matches!(error, Error::NoSpace { .. }), "{state}: {error:?}");
    assert_eq!(error.outcome(), Outcome::Rejected, "{state}");
    assert!(error.is_retriable(), "{state}");
}

#[test]
fn f25_a_full_disk_refuses_the_append_and_changes_nothing() {
    for level in LEVELS {
        let (disk, log, partition, mut story) = three(level);
        let before = disk.hash();
        disk.set_capacity(Some(disk.used()));
        for _ in 0..3 {
            assert_no_space(&refusal(story.append(&disk, &partition, 2, 40)), "full");
        }
        assert_eq!(disk.hash(), before, "{level:?}");
        assert_eq!(partition.offsets().end, Offset::new(3));
        assert_eq!(story.check(&partition, "while it is full"), 3);
        disk.set_capacity(None);
        let first = story.append(&disk, &partition, 2, 40).unwrap();
        assert_eq!(first, 3, "no offset is lost");
        // What was refused is in no state that a crash leaves.
        let mut dice = Dice::new(seed());
        for model in [CrashModel::ProcessKill, CrashModel::LostPages] {
            every_crash(&disk, 0, model, 8, &mut dice, |after, crashed, state| {
                let log = open(crashed).unwrap();
                let Ok(partition) = again(&log) else { return };
                story.check_crash(&partition, after, model, state);
            });
        }
        log.close().unwrap();
    }
}

#[test]
fn f26_a_write_that_stops_after_any_number_of_bytes_is_cut_off_again() {
    for level in LEVELS {
        for error in FULL {
            for part in (1..90).step_by(if error == DiskError::NoSpace { 1 } else { 13 }) {
                let (disk, log, partition, mut story) = three(level);
                let before = disk.hash();
                let (path, len) = segments(&disk).remove(0);
                let from = disk.points();
                let short = Fault::short_write_then(Short::Bytes(part), error);
                disk.fail(short.on(".log"));
                let state = format!("{level:?}, {error:?} after {part} bytes");
                assert_no_space(&refusal(story.append(&disk, &partition, 1, 60)), &state);
                assert_eq!(disk.hash(), before, "{state}");
                assert_eq!(partition.offsets().end, Offset::new(3));
                // Killed anywhere within: what was refused is not there.
                for after in from..=disk.points() {
                    let killed = disk.crash(after, CrashModel::ProcessKill, 0);
                    let (_log, found) = reopened(&killed);
                    assert_eq!(story.check(&found, &state), 3, "{state}");
                }
                disk.heal();
                story.append(&disk, &partition, 1, 60).unwrap();
                assert!(disk.read_file(path).unwrap().len() as u64 > len);
                assert_eq!(story.check(&partition, &state), 4);
                story.go_on_with(4);
                story.live_on(&disk, log, &partition, &state);
            }
        }
    }
}

#[test]
fn f26_a_partial_write_that_cannot_be_cut_off_stops_the_partition() {
    for level in LEVELS {
        for part in [1, 36, 70] {
            let (disk, log, partition, mut story) = three(level);
            let short = Fault::short_write_then(Short::Bytes(part), DiskError::NoSpace);
            disk.fail(short.on(".log"));
            disk.fail(Fault::error(DiskCall::SetLen, DiskError::Io).on(".log"));
            let error = refusal(story.append(&disk, &partition, 1, 60));
            assert_eq!(error.outcome(), Outcome::Indeterminate, "{error:?}");
            let next = refusal(story.append(&disk, &partition, 1, 60));
            assert!(matches!(next, Error::Poisoned { .. }), "{next:?}");
            let state = format!("{level:?}, {part} bytes");
            assert_eq!(story.check(&partition, &state), 3, "{state}: reads go on");
            // Recovery cuts it, here or in the next life.
            let killed = disk.crash(disk.points(), CrashModel::ProcessKill, 0);
            let (_next_log, found) = reopened(&killed);
            assert_eq!(story.check(&found, &state), 3);
            let report = partition.recover().unwrap();
            assert_eq!(kinds(&report), [FindingKind::TornTail], "{state}");
            story.go_on_with(story.check(&partition, &state));
            story.live_on(&disk, log, &partition, &state);
        }
    }
}

#[test]
fn f26_a_write_that_got_all_its_bytes_through_before_the_error_is_taken_back_too() {
    // The last piece is written, and the call after it never comes: pieces of every size, no error.
    for level in LEVELS {
        let (disk, log, partition, mut story) = three(level);
        disk.fail(
            Fault::short(DiskCall::Write, Short::Bytes(7))
                .on(".log")
                .lasting(),
        );
        story.append(&disk, &partition, 2, 60).unwrap();
        assert!(disk.struck() > 5);
        assert_eq!(story.check(&partition, "in pieces of seven"), 4);
        disk.heal();
        story.go_on_with(4);
        story.live_on(&disk, log, &partition, "in pieces of seven");
    }
}

/// Killed with a torn tail.
fn torn(level: Durability) -> (Disk, Story) {
    let (disk, _log, partition, mut story) = three(level);
    let before = disk.points();
    disk.fail(Fault::short_write_then(Short::Bytes(70), DiskError::NoSpace).on(".log"));
    refusal(partition.append(("k", "half of this is written".repeat(9))));
    story.go_on_with(3);
    (disk.crash(before + 1, CrashModel::ProcessKill, 0), story)
}

#[test]
fn f27_a_log_opens_for_reading_without_a_free_byte() {
    for level in LEVELS {
        for boot in [None, Some(99)] {
            let (disk, mut story) = torn(level);
            if let Some(boot) = boot {
                disk.set_boot_id(boot);
            }
            let state = format!("{level:?}, boot {boot:?}");
            let before = disk.hash();
            disk.set_capacity(Some(disk.used()));
            let log = open(&disk).unwrap_or_else(|e| panic!("{state}: {e:?}"));
            assert_eq!(kinds(log.recovery())[0], FindingKind::TornTail);
            let partition = again(&log).unwrap();
            assert_eq!(
                story.check(&partition, &state),
                3,
                "{state}: the tail is cut in memory"
            );
            for _ in 0..2 {
                assert_no_space(&refusal(partition.append(("k", "v"))), &state);
            }
            assert_no_space(&refusal(log.create_topic("u", TopicConfig::new())), &state);
            let same = disk.read_file(&segments(&disk)[0].0).unwrap();
            assert_eq!(disk.hash(), before, "{state}: {} bytes", same.len());
            // Room again: recovery finishes with the next append.
            disk.set_capacity(None);
            story.live_on(&disk, log, &partition, &state);
        }
    }
}

#[test]
fn f27_a_clean_log_on_a_full_disk_opens_and_closes() {
    let (disk, log, partition, story) = three(Durability::Power);
    log.close().unwrap();
    drop(partition);
    disk.set_capacity(Some(disk.used()));
    let before = disk.hash();
    for _ in 0..2 {
        let (log, partition) = reopened(&disk);
        assert!(log.recovery().is_empty());
        assert_eq!(story.check(&partition, "full"), 3);
        assert_no_space(&refusal(partition.append(("k", "v"))), "full");
        log.close().unwrap();
    }
    assert_eq!(disk.hash(), before);
}

#[test]
fn f28_a_disk_that_is_full_at_any_step_of_a_roll_only_refuses() {
    for level in LEVELS {
        // A budget of so many bytes more, each in turn: every write of roll and append meets the end of it.
        let mut rolled = 0;
        for room in (0..700).step_by(9) {
            let disk = Disk::new();
            let log = open(&disk).unwrap();
            let partition = create(&log, level);
            let mut story = Story::new(level);
            while segments(&disk)[..].last().is_none_or(|(_, len)| *len < 850) {
                story.append(&disk, &partition, 1, 40).unwrap();
            }
            disk.set_capacity(Some(disk.used() + room));
            let state = format!("{level:?}, room for {room} bytes");
            for _ in 0..6 {
                match story.append(&disk, &partition, 3, 60) {
                    Ok(_) => {}
                    Err(e) => assert_no_space(&e, &state),
                }
            }
            rolled += usize::from(segments(&disk).len() > 1);
            assert_eq!(story.check(&partition, &state), story.batches(), "{state}");
            for model in [CrashModel::ProcessKill, CrashModel::LostSuffix] {
                let crashed = disk.crash(disk.points(), model, 0);
                let (_log, found) = reopened(&crashed);
                story.check_crash(&found, disk.points(), model, &state);
            }
            disk.set_capacity(None);
            story.append(&disk, &partition, 3, 60).unwrap();
            let batches = story.batches();
            story.go_on_with(batches);
            story.live_on(&disk, log, &partition, &state);
        }
        assert!(rolled > 0, "{level:?}: the roll was met");
    }
}

#[test]
fn f28_recovery_points_that_find_no_space_are_left_out() {
    for level in LEVELS {
        let (disk, log, partition, mut story) = three(level);
        disk.fail(
            Fault::error(DiskCall::Write, DiskError::NoSpace)
                .on("STATE")
                .lasting(),
        );
        for _ in 0..10 {
            story.append(&disk, &partition, 1, 40).unwrap();
        }
        log.sync().unwrap();
        partition.roll().unwrap();
        story.append(&disk, &partition, 1, 40).unwrap();
        assert!(disk.struck() > 0, "{level:?}");
        let killed = disk.crash(disk.points(), CrashModel::ProcessKill, 0);
        let (_log, found) = reopened(&killed);
        assert_eq!(story.check(&found, "without points"), 14, "{level:?}");
    }
}

#[test]
fn f28_a_close_whose_recovery_point_found_no_space_does_not_call_the_log_clean() {
    for level in LEVELS {
        // Each write to STATE in turn finds no space, the others do.
        for number in 0..6 {
            let (disk, log, partition, mut story) = three(level);
            disk.fail(
                Fault::error(DiskCall::Write, DiskError::NoSpace)
                    .on("STATE")
                    .after(number),
            );
            story.append(&disk, &partition, 1, 40).unwrap();
            let closed = log.close();
            disk.heal();
            let state = format!("{level:?}, write {number} of STATE: {closed:?}");
            let log = open(&disk).unwrap();
            assert!(
                kinds(log.recovery()).is_empty(),
                "{state}: {:?}",
                log.recovery()
            );
            let partition = again(&log).unwrap();
            assert_eq!(story.check(&partition, &state), 4, "{state}");
            story.go_on_with(4);
            story.live_on(&disk, log, &partition, &state);
        }
    }
}

#[test]
fn f28_a_topic_that_finds_no_space_is_not_there_and_can_be_made_later() {
    let disk = Disk::new();
    let log = open(&disk).unwrap();
    log.create_topic("before", TopicConfig::new()).unwrap();
    for room in (0..1500).step_by(100) {
        disk.set_capacity(Some(disk.used() + room));
        match log.create_topic("t", TopicConfig::new()) {
            Ok(_) => break,
            Err(e) => assert_no_space(&e, &format!("room for {room} bytes")),
        }
        assert!(matches!(log.topic("t"), Err(Error::NotFound { .. })));
        let killed = disk.crash(disk.points(), CrashModel::ProcessKill, 0);
        let next = open(&killed).unwrap();
        assert!(matches!(next.topic("t"), Err(Error::NotFound { .. })));
    }
    disk.set_capacity(None);
    let topic = log.topic_or_create("t", TopicConfig::new()).unwrap();
    topic.append(Record::keyless("v")).unwrap();
    log.close().unwrap();
    let log = open(&disk).unwrap();
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
    assert_eq!(
        read(&log.topic("t").unwrap().partition(0).unwrap())
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn f31_a_limit_of_the_files_size_is_as_a_full_disk() {
    for level in LEVELS {
        let (disk, _log, partition, mut story) = three(level);
        disk.fail(
            Fault::error(DiskCall::Write, DiskError::FileTooLarge)
                .on(".log")
                .lasting(),
        );
        assert_no_space(&refusal(story.append(&disk, &partition, 1, 40)), "EFBIG");
        disk.heal();
        story.append(&disk, &partition, 1, 40).unwrap();
        assert_eq!(story.check(&partition, "EFBIG"), 4);
    }
}
