//! Calls on names that fail: open, create, rename, remove. The log stays consistent, and what failed is done later.

use thalweg::testing::{CrashModel, Disk, DiskCall, DiskError, Fault};
use thalweg::{Durability, Error, FindingKind, TopicConfig};

use crate::story::{LEVELS, Story, again, create, kinds, open, read, reopened, segments};

#[test]
fn f32_too_many_open_files_at_a_roll_refuse_the_append_and_nothing_else() {
    for error in [DiskError::TooManyFiles, DiskError::TooManyFilesInAll] {
        for level in LEVELS {
            let disk = Disk::new();
            let log = open(&disk).unwrap();
            let partition = create(&log, level);
            let mut story = Story::new(level);
            disk.fail(
                Fault::error(DiskCall::Open, error)
                    .on(".log")
                    .after(1)
                    .lasting(),
            );
            let mut refused = 0;
            for _ in 0..30 {
                match story.append(&disk, &partition, 1, 60) {
                    Ok(_) => assert_eq!(refused, 0, "the roll is still not possible"),
                    Err(Error::Io { source, .. }) => {
                        assert!(source.raw_os_error().is_some());
                        refused += 1;
                    }
                    Err(e) => panic!("{e:?}"),
                }
            }
            let state = format!("{error:?}, {level:?}");
            assert!(refused > 0, "{state}: the roll was met");
            disk.heal();
            assert_eq!(story.check(&partition, &state), story.batches(), "{state}");
            story.append(&disk, &partition, 1, 60).unwrap();
            let all = story.batches();
            story.go_on_with(all);
            story.live_on(&disk, log, &partition, &state);
        }
    }
}

#[test]
fn f32_too_many_open_files_at_a_read_shrink_the_cache_and_are_tried_once_more() {
    let disk = Disk::new();
    let log = open(&disk).unwrap();
    let partition = create(&log, Durability::Process);
    let mut story = Story::new(Durability::Process);
    for _ in 0..40 {
        story.append(&disk, &partition, 1, 60).unwrap();
    }
    log.close().unwrap();
    // Each opening of a segment in turn is refused once, and granted when it is tried again.
    for number in 0..segments(&disk).len() as u64 - 1 {
        let killed = disk.crash(disk.points(), CrashModel::ProcessKill, 0);
        let (_log, partition) = reopened(&killed);
        let refused = Fault::error(DiskCall::Open, DiskError::TooManyFiles);
        killed.fail(refused.on(".log").after(number));
        assert_eq!(story.check(&partition, "an opening refused once"), 40);
        assert_eq!(killed.struck(), 1);
    }
    // Refused for good: an error that names what is not read, not the end of the log.
    let (_other, partition) = {
        let killed = disk.crash(disk.points(), CrashModel::ProcessKill, 0);
        let opened = reopened(&killed);
        killed.fail(
            Fault::error(DiskCall::Open, DiskError::TooManyFiles)
                .on(".log")
                .lasting(),
        );
        opened
    };
    let first = partition.entries(..).next().unwrap().unwrap_err();
    assert!(
        matches!(
            first,
            Error::Io {
                unread: Some(_),
                ..
            }
        ),
        "{first:?}"
    );
}

#[test]
fn f37_a_creation_whose_steps_are_denied_leaves_the_log_as_it_was() {
    let denied = [
        DiskError::AccessDenied,
        DiskError::Busy,
        DiskError::ReadOnly,
        DiskError::Io,
    ];
    for call in [DiskCall::Rename, DiskCall::CreateDir, DiskCall::Open] {
        for error in denied {
            for number in 0.. {
                let disk = Disk::new();
                let log = open(&disk).unwrap();
                log.create_topic("before", TopicConfig::new()).unwrap();
                disk.fail(Fault::error(call, error).after(number).lasting());
                let result = log.create_topic("t", TopicConfig::new());
                let struck = disk.struck() > 0;
                disk.heal();
                if !struck {
                    assert!(result.is_ok());
                    break;
                }
                let state = format!("{call:?} {number}, {error:?}");
                let failed = result.err().unwrap_or_else(|| panic!("{state}: no error"));
                let typed = matches!(failed, Error::Io { .. } | Error::ReadOnly { .. });
                assert!(typed, "{state}: {failed:?}");
                assert!(
                    matches!(log.topic("t"), Err(Error::NotFound { .. })),
                    "{state}"
                );
                let topic = log.create_topic("t", TopicConfig::new()).unwrap();
                topic.partition(0).unwrap().append(("k", "v")).unwrap();
                log.close().unwrap();
                // What the failed one left is removed by the next opening.
                let log = open(&disk).unwrap();
                assert!(
                    !kinds(log.recovery()).contains(&FindingKind::Damaged),
                    "{state}"
                );
                log.create_topic("u", TopicConfig::new()).unwrap();
                log.close().unwrap();
                let log = open(&disk).unwrap();
                assert!(log.recovery().is_empty(), "{state}: {:?}", log.recovery());
                assert_eq!(log.topics().len(), 3);
            }
        }
    }
}

#[test]
fn f37_what_cannot_be_removed_stays_and_is_removed_later() {
    for level in LEVELS {
        for error in [
            DiskError::AccessDenied,
            DiskError::Busy,
            DiskError::ReadOnly,
        ] {
            // Nothing is left of the first segment: it is replaced, and the old file removed.
            let disk = Disk::new();
            let log = open(&disk).unwrap();
            let partition = create(&log, Durability::Process);
            let mut story = Story::new(level);
            story.append(&disk, &partition, 5, 30).unwrap();
            let lost = disk.crash(disk.points(), CrashModel::LostSuffix, 0);
            lost.write_file("/log/topics/u-0123abcd.tmp/config", b"half")
                .unwrap();
            story.go_on_with(0);
            for kept in [".log", "u-0123abcd"] {
                lost.fail(Fault::error(DiskCall::Remove, error).on(kept).lasting());
            }
            let (log, partition) = reopened(&lost);
            story.append(&lost, &partition, 2, 30).unwrap();
            assert!(lost.struck() > 0, "{error:?}");
            assert_eq!(segments(&lost).len(), 2, "the old one is still there");
            log.close().unwrap();
            lost.heal();
            let (log, partition) = reopened(&lost);
            story.go_on_with(1);
            assert_eq!(story.check(&partition, "a leftover"), 1);
            story.append(&lost, &partition, 1, 30).unwrap();
            log.close().unwrap();
            assert_eq!(segments(&lost).len(), 1, "it is gone");
            assert!(lost.read_file("/log/topics/u-0123abcd.tmp/config").is_err());
            let log = open(&lost).unwrap();
            assert_eq!(read(&again(&log).unwrap()).unwrap().len(), 3);
        }
    }
}
