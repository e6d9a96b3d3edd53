//! Where a log may lie: paths that are no text, links, file systems in memory; and what happens when it is taken away.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use thalweg::{Durability, Error, Log, Record};

use crate::child::{Running, in_memory_dir, play};
use crate::{append, check, open, partition};

#[test]
fn f95_a_path_need_not_be_utf_8() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(OsStr::from_bytes(b"\xff-log \x80"));
    let log = open(&path).unwrap();
    append(&partition(&log, Durability::Power), 0..100);
    log.close().unwrap();
    let log = open(&path).unwrap();
    assert!(log.recovery().is_empty());
    check(&partition(&log, Durability::Power), 100);
    check(
        &partition(&Log::open_read_only(&path).unwrap(), Durability::Power),
        100,
    );
}

#[test]
fn f96_a_link_and_a_relative_path_are_resolved_once() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("real")).unwrap();
    symlink("real", dir.path().join("link")).unwrap();
    let mut child = Running::start(play("chdir", dir.path()));
    assert_eq!(child.line().unwrap(), "done");
    let log = open(&dir.path().join("real/log")).unwrap();
    assert!(log.recovery().is_empty());
    check(&partition(&log, Durability::Power), 100);
    assert_eq!(log.topics().len(), 2);
}

#[test]
fn f96_a_link_that_is_turned_meanwhile_does_not_matter() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["one", "other"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    let link = dir.path().join("link");
    symlink(dir.path().join("one"), &link).unwrap();
    let log = open(&link).unwrap();
    let one = partition(&log, Durability::Power);
    append(&one, 0..10);
    fs::remove_file(&link).unwrap();
    symlink(dir.path().join("other"), &link).unwrap();
    append(&one, 10..100);
    log.close().unwrap();
    assert_eq!(fs::read_dir(dir.path().join("other")).unwrap().count(), 0);
    check(
        &partition(&open(&dir.path().join("one")).unwrap(), Durability::Power),
        100,
    );
}

#[test]
fn f98_a_tree_that_is_removed_under_a_running_log_does_not_come_back() {
    for level in [Durability::Process, Durability::Power] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let log = open(&path).unwrap();
        let partition = partition(&log, level);
        append(&partition, 0..10);
        fs::remove_dir_all(&path).unwrap();
        let failed = (10..2000)
            .find_map(|n| {
                partition
                    .append(Record::keyless(format!("record {n}")))
                    .err()
            })
            .expect("at the latest a roll finds out");
        let stopped = matches!(
            failed,
            Error::Poisoned { .. } | Error::Indeterminate { .. } | Error::Io { .. }
        );
        assert!(stopped, "{failed:?}");
        for _ in 0..3 {
            assert!(
                partition.append(Record::keyless("x")).is_err(),
                "{level:?}: it stays so"
            );
        }
        assert!(partition.roll().is_err());
        assert!(log.create_topic("u", crate::small(level)).is_err());
        assert!(log.close().is_err());
        assert!(!path.exists(), "{level:?}: no half tree");
    }
}

#[test]
fn f100_a_file_system_in_memory_is_as_good_as_another() {
    let places = [tempfile::tempdir().ok(), in_memory_dir()];
    for dir in places.into_iter().flatten() {
        for level in [Durability::Process, Durability::Power] {
            let path = dir.path().join(format!("{level:?}"));
            for life in 0..3 {
                let log = open(&path).unwrap();
                assert!(log.recovery().is_empty());
                let partition = partition(&log, level);
                check(&partition, life * 100);
                append(&partition, life * 100..(life + 1) * 100);
                log.close().unwrap();
            }
        }
    }
}
