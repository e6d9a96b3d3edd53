//! One writer at a time, whoever it is: other processes, other paths, other ends of a fork.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use thalweg::testing::{CrashModel, Disk, DiskCall, DiskError, Fault};
use thalweg::{Durability, Error, Log, Maintenance, Record, TopicConfig};

use crate::child::{Running, play};
use crate::{append, check, open, partition, tree};

#[test]
fn f89_a_second_process_is_refused_at_once_and_touches_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut holder = Running::start(play("hold", dir.path()));
    assert_eq!(holder.line().unwrap(), "open");
    let before = tree(dir.path());
    let mut other = Running::start(play("try", dir.path()));
    assert_eq!(other.line().unwrap(), "already open");
    let refused = open(dir.path()).unwrap_err();
    assert!(matches!(refused, Error::AlreadyOpen { .. }), "{refused:?}");
    assert!(refused.is_retriable());
    assert_eq!(tree(dir.path()), before);
    holder.tell();
    assert_eq!(holder.line().unwrap(), "closed");
    check(&partition(&open(dir.path()).unwrap(), Durability::Power), 1);
}

#[test]
fn f89_a_second_process_repairs_nothing_of_a_log_with_a_torn_tail() {
    // It is refused before any read that could end in a repair: on the simulated disk not one read comes after the lock.
    let disk = Disk::new();
    let manual = || Log::builder().maintenance(Maintenance::Manual);
    let _log = manual().open_on(&disk).unwrap();
    disk.mark();
    let before = disk.hash();
    assert!(matches!(
        manual().open_on(&disk),
        Err(Error::AlreadyOpen { .. })
    ));
    let calls = disk.calls();
    for call in [
        DiskCall::Read,
        DiskCall::Write,
        DiskCall::ReadDir,
        DiskCall::SetLen,
    ] {
        assert_eq!(calls.get(&call), None, "{calls:?}");
    }
    assert_eq!(disk.hash(), before);
}

#[test]
fn f90_the_same_process_is_refused_too_by_whatever_path() {
    let dir = tempfile::tempdir().unwrap();
    let (real, alias) = (dir.path().join("real"), dir.path().join("alias"));
    let log = open(&real).unwrap();
    symlink(&real, &alias).unwrap();
    for path in [
        real.clone(),
        alias.clone(),
        dir.path().join("real/../alias/."),
    ] {
        let refused = open(&path).unwrap_err();
        assert!(matches!(refused, Error::AlreadyOpen { .. }), "{refused:?}");
    }
    // Refusing has not given the lock away.
    append(&partition(&log, Durability::Power), 0..10);
    assert!(matches!(open(&real), Err(Error::AlreadyOpen { .. })));
    log.close().unwrap();
    check(&partition(&open(&alias).unwrap(), Durability::Power), 10);
}

#[test]
fn f91_the_lock_file_of_a_dead_process_is_in_nobodys_way() {
    let dir = tempfile::tempdir().unwrap();
    for life in 0..3 {
        let mut holder = Running::start(play("try", dir.path()));
        assert_eq!(holder.line().unwrap(), "ok", "life {life}");
        holder.kill();
    }
    let mut holder = Running::start(play("hold", dir.path()));
    assert_eq!(holder.line().unwrap(), "open");
    holder.kill();
    assert!(dir.path().join("LOCK").exists());
    check(&partition(&open(dir.path()).unwrap(), Durability::Power), 1);
}

fn lost_lock(error: &Error) -> Option<bool> {
    match error {
        Error::Poisoned {
            at: None, cause, ..
        } => match &**cause {
            Error::LockLost { forked, .. } => Some(*forked),
            _ => None,
        },
        Error::Indeterminate { source, .. } => lost_lock(
            source
                .downcast_ref::<Error>()
                .expect("an error of this crate"),
        ),
        _ => None,
    }
}

#[test]
fn f92_who_lost_the_lock_file_stops_before_it_can_do_harm() {
    for replaced in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let log = open(dir.path()).unwrap();
        let partition = partition(&log, Durability::Power);
        append(&partition, 0..3);
        fs::remove_file(dir.path().join("LOCK")).unwrap();
        if replaced {
            fs::write(dir.path().join("LOCK"), b"").unwrap();
        }
        for error in [
            partition.append(Record::keyless("x")).unwrap_err(),
            partition.roll().unwrap_err(),
            log.sync().unwrap_err(),
            log.create_topic("u", TopicConfig::new()).unwrap_err(),
            log.close().unwrap_err(),
        ] {
            assert_eq!(lost_lock(&error), Some(false), "{error:?}");
        }
        let log = open(dir.path()).unwrap();
        let partition = log.topic("t").unwrap().partition(0).unwrap();
        assert!(partition.entries(..).map(Result::unwrap).count() >= 3);
    }
}

#[test]
fn f92_below_power_it_is_noticed_at_the_next_roll() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path()).unwrap();
    let partition = partition(&log, Durability::Process);
    append(&partition, 0..3);
    fs::remove_file(dir.path().join("LOCK")).unwrap();
    let error = (0..1000)
        .find_map(|_| {
            partition
                .append(Record::keyless("some bytes to fill a segment"))
                .err()
        })
        .expect("a segment is full before");
    assert_eq!(lost_lock(&error), Some(false), "{error:?}");
}

#[test]
fn f93_a_forked_child_may_not_write_and_leaves_everything_alone() {
    for level in [Durability::Process, Durability::Power] {
        let disk = Disk::new();
        let log = Log::builder()
            .maintenance(Maintenance::Manual)
            .open_on(&disk)
            .unwrap();
        let config = TopicConfig::new().durability(level);
        let topic = log.create_topic("t", config).unwrap();
        let partition = topic.partition(0).unwrap();
        partition.append(Record::keyless("of the parent")).unwrap();
        let before = (disk.hash(), disk.points());
        disk.fork();
        for error in [
            partition.roll().unwrap_err(),
            log.create_topic("u", TopicConfig::new()).unwrap_err(),
            log.sync().err().unwrap_or_else(|| {
                assert_eq!(level, Durability::Power, "there was something to sync");
                partition.roll().unwrap_err()
            }),
            log.clone().close().unwrap_err(),
        ] {
            assert_eq!(lost_lock(&error), Some(true), "{level:?}: {error:?}");
        }
        drop((log, topic));
        assert_eq!((disk.hash(), disk.points()), before, "{level:?}");
        // An append that syncs is refused as well; reads go on.
        let disk = Disk::new();
        let log = Log::builder()
            .maintenance(Maintenance::Manual)
            .open_on(&disk)
            .unwrap();
        let topic = log.create_topic("t", TopicConfig::new()).unwrap();
        let partition = topic.partition(0).unwrap();
        partition.append(Record::keyless("of the parent")).unwrap();
        disk.fork();
        let error = partition
            .append(Record::keyless("of the child"))
            .unwrap_err();
        assert_eq!(lost_lock(&error), Some(true), "{error:?}");
        assert_eq!(partition.entries(..).map(Result::unwrap).count(), 1);
    }
}

#[test]
fn f93_a_program_that_was_started_meanwhile_does_not_inherit_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path()).unwrap();
    append(&partition(&log, Durability::Power), 0..3);
    let mut other = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    log.close().unwrap();
    let log = open(dir.path()).unwrap(); // though `cat` is still running
    check(&partition(&log, Durability::Power), 3);
    drop(other.stdin.take());
    other.wait().unwrap();
}

#[test]
fn f94_a_file_system_that_takes_no_writes_is_a_typed_error() {
    let disk = Disk::new();
    let manual = || Log::builder().maintenance(Maintenance::Manual);
    let log = manual().open_on(&disk).unwrap();
    let topic = log.create_topic("t", TopicConfig::new()).unwrap();
    topic.append(Record::keyless("v")).unwrap();
    let disk = disk.crash(disk.points(), CrashModel::ProcessKill, 0);
    let before = disk.hash();
    for (error, read_only) in [
        (DiskError::ReadOnly, true),
        (DiskError::AccessDenied, false),
    ] {
        for call in [DiskCall::Lock, DiskCall::Write, DiskCall::SyncData] {
            disk.fail(Fault::error(call, error).lasting());
        }
        match manual().open_on(&disk).unwrap_err() {
            Error::ReadOnly { .. } => assert!(read_only),
            Error::Io { .. } => assert!(!read_only),
            e => panic!("{e:?}"),
        }
        disk.heal();
        assert_eq!(disk.hash(), before);
    }
}

#[test]
fn f94_a_read_only_log_works_beside_a_live_one_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(
        Log::open_read_only(dir.path()),
        Err(Error::NotFound { .. })
    ));
    assert!(tree(dir.path()).is_empty());
    let log = open(dir.path()).unwrap();
    let live = partition(&log, Durability::Process);
    append(&live, 0..100);
    let before = tree(dir.path());
    let view = Log::open_read_only(dir.path()).unwrap();
    let seen = view.topic("t").unwrap().partition(0).unwrap();
    check(&seen, 100);
    for error in [
        seen.append(Record::keyless("x")).unwrap_err(),
        seen.roll().unwrap_err(),
        view.create_topic("u", TopicConfig::new()).unwrap_err(),
    ] {
        assert!(matches!(error, Error::ReadOnly { .. }), "{error:?}");
    }
    append(&live, 100..110); // the live one was not kept from anything
    drop(view);
    let view = Log::open_read_only(dir.path()).unwrap();
    check(&view.topic("t").unwrap().partition(0).unwrap(), 110);
    view.close().unwrap();
    let after = tree(dir.path());
    let names = |tree: &std::collections::BTreeMap<_, _>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&after), names(&before));
}
