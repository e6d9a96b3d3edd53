//! Calls fail as they were told to, and failed syncs leave what they should.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::super::errors::{DiskError, FailedSync, Short};
use super::super::faults::Fault;
use super::super::models::CrashModel;
use super::super::{DiskCall, Memory, Setting};
use crate::io::{File, LockState, OpenMode, Storage, read_full, write_full};

fn disk() -> (Memory, Arc<dyn File>) {
    let disk = Memory::simulated(0);
    let file = disk.open(Path::new("/f"), OpenMode::CreateNew).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    (disk, file)
}

/// What the file holds after a power loss that keeps nothing that was not synced.
fn durable(disk: &Memory) -> Vec<u8> {
    disk.crash(disk.points(), CrashModel::LostSuffix, 0)
        .read_file(Path::new("/f"))
        .unwrap()
}

fn raw<T>(result: io::Result<T>) -> Option<i32> {
    result.err().and_then(|e| e.raw_os_error())
}

#[test]
fn a_rule_strikes_the_call_that_it_describes_and_no_other() {
    let (disk, file) = disk();
    disk.fail(
        Fault::error(DiskCall::Write, DiskError::Io)
            .on("f")
            .after(1),
    );
    disk.fail(Fault::error(DiskCall::Write, DiskError::Busy).on("other"));
    file.write_at(b"a", 0).unwrap();
    file.read_at(&mut [0], 0).unwrap();
    assert_eq!(raw(file.write_at(b"b", 0)), Some(libc::EIO));
    file.write_at(b"c", 0).unwrap();
    assert_eq!(
        (disk.struck(), disk.read_file(Path::new("/f")).unwrap()),
        (1, b"c".to_vec())
    );
}

#[test]
fn a_lasting_rule_strikes_until_it_is_dropped() {
    let (disk, file) = disk();
    disk.fail(Fault::any(DiskError::ReadOnly).lasting());
    assert_eq!(raw(file.set_len(1)), Some(libc::EROFS));
    assert_eq!(raw(disk.read_dir(Path::new("/"))), Some(libc::EROFS));
    assert_eq!(raw(disk.lock(Path::new("/LOCK"))), Some(libc::EROFS));
    disk.heal();
    file.set_len(1).unwrap();
    assert_eq!(
        disk.read_dir(Path::new("/")).unwrap().len(),
        1,
        "no lock file was made"
    );
}

#[test]
fn a_rule_can_be_bound_to_a_range_of_the_file() {
    let (disk, file) = disk();
    write_full(&*file, &[1; 100], 0).unwrap();
    disk.fail(
        Fault::error(DiskCall::Read, DiskError::Io)
            .within(50..60)
            .lasting(),
    );
    assert!(file.read_at(&mut [0; 50], 0).is_ok() && file.read_at(&mut [0; 40], 60).is_ok());
    assert!(file.read_at(&mut [0; 51], 0).is_err() && file.read_at(&mut [0; 1], 59).is_err());
}

#[test]
fn interruptions_are_passed_over() {
    let (disk, file) = disk();
    disk.fail(Fault::any(DiskError::Interrupted).lasting());
    write_full(&*file, b"abc", 0).unwrap();
    file.sync_data().unwrap();
    let mut bytes = [0; 3];
    assert_eq!(read_full(&*file, &mut bytes, 0).unwrap(), 3);
    disk.open(Path::new("/f"), OpenMode::Read).unwrap();
    disk.lock(Path::new("/LOCK")).unwrap();
    assert!(disk.struck() >= 5);
}

#[test]
fn an_interrupted_read_says_so() {
    let (disk, file) = disk();
    disk.fail(Fault::error(DiskCall::Read, DiskError::Interrupted));
    assert_eq!(
        file.read_at(&mut [0], 0).unwrap_err().kind(),
        io::ErrorKind::Interrupted
    );
}

#[test]
fn short_calls_move_part_of_the_bytes_and_the_loops_move_all() {
    let (disk, file) = disk();
    for (short, count) in [
        (Short::Bytes(1), 1),
        (Short::Half, 5000),
        (Short::PageEdge, 4092),
    ] {
        disk.fail(Fault::short(DiskCall::Write, short));
        assert_eq!(file.write_at(&[1; 10_000], 4).unwrap(), count);
    }
    disk.fail(Fault::short(DiskCall::Write, Short::PageEdge).lasting());
    disk.fail(Fault::short(DiskCall::Read, Short::Bytes(1)).lasting());
    write_full(&*file, &[2; 10_000], 4).unwrap();
    let mut back = vec![0; 20_000];
    assert_eq!(read_full(&*file, &mut back, 0).unwrap(), 10_004);
    assert!(back[4..10_004].iter().all(|&b| b == 2));
}

#[test]
fn a_short_write_can_be_followed_by_an_error() {
    let (disk, file) = disk();
    disk.fail(Fault::short_write_then(Short::Bytes(3), DiskError::NoSpace));
    assert_eq!(
        write_full(&*file, b"abcdef", 0).unwrap_err().kind(),
        io::ErrorKind::StorageFull
    );
    assert_eq!(disk.read_file(Path::new("/f")).unwrap(), b"abc");
    write_full(&*file, b"abcdef", 0).unwrap();
}

#[test]
fn a_sync_that_fails_plainly_can_be_repeated() {
    let (disk, file) = disk();
    write_full(&*file, b"new", 0).unwrap();
    disk.fail(Fault::error(DiskCall::SyncData, DiskError::Io));
    assert!(file.sync_data().is_err());
    assert_eq!(durable(&disk), b"");
    file.sync_data().unwrap();
    assert_eq!(durable(&disk), b"new");
}

#[test]
fn a_failed_sync_that_keeps_is_not_healed_by_a_later_one() {
    let (disk, file) = disk();
    write_full(&*file, b"old", 0).unwrap();
    file.sync_data().unwrap();
    write_full(&*file, b"new!", 0).unwrap();
    disk.fail(Fault::sync(
        DiskCall::SyncData,
        FailedSync::Keep,
        DiskError::Io,
    ));
    assert_eq!(raw(file.sync_data()), Some(libc::EIO));
    file.sync_data().unwrap();
    assert_eq!(disk.read_file(Path::new("/f")).unwrap(), b"new!");
    for seed in 0..8 {
        let crashed = disk.crash(disk.points(), CrashModel::LostPages, seed);
        assert_eq!(crashed.read_file(Path::new("/f")).unwrap(), b"old");
    }
    // Also when the process died in between; only writing again helps.
    let reopened = disk.crash(disk.points(), CrashModel::ProcessKill, 0);
    let file = reopened.open(Path::new("/f"), OpenMode::Write).unwrap();
    file.sync_data().unwrap();
    assert_eq!(durable(&reopened), b"old");
    write_full(&*file, b"new!", 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(durable(&reopened), b"new!");
}

#[test]
fn a_failed_sync_can_take_the_cache_back() {
    let (disk, file) = disk();
    write_full(&*file, b"old", 0).unwrap();
    file.sync_data().unwrap();
    write_full(&*file, b"newer", 0).unwrap();
    disk.fail(Fault::sync(
        DiskCall::SyncData,
        FailedSync::Revert,
        DiskError::Io,
    ));
    assert!(file.sync_data().is_err());
    assert_eq!(disk.read_file(Path::new("/f")).unwrap(), b"old");
    file.sync_data().unwrap();
    assert_eq!(durable(&disk), b"old");
}

#[test]
fn a_late_error_is_reported_by_the_next_sync_of_that_file() {
    let (disk, file) = disk();
    let other = disk.open(Path::new("/g"), OpenMode::CreateNew).unwrap();
    write_full(&*file, b"new", 0).unwrap();
    disk.fail(Fault::sync(
        DiskCall::SyncData,
        FailedSync::Late,
        DiskError::Io,
    ));
    file.sync_data().unwrap();
    other.sync_data().unwrap();
    assert_eq!(raw(file.sync_data()), Some(libc::EIO));
    file.sync_data().unwrap();
    assert_eq!(durable(&disk), b"");
}

#[test]
fn a_full_disk_takes_what_fits_and_has_room_again_after_a_cut_or_a_removal() {
    let (disk, file) = disk();
    disk.set(Setting::Capacity(Some(10)));
    assert_eq!(file.write_at(&[1; 12], 0).unwrap(), 10);
    assert_eq!(
        file.write_at(&[1; 1], 10).unwrap_err().kind(),
        io::ErrorKind::StorageFull
    );
    assert!(
        file.write_at(&[2; 10], 0).is_ok(),
        "rewriting needs no room"
    );
    assert!(file.set_len(11).is_err());
    file.set_len(4).unwrap();
    let other = disk.open(Path::new("/g"), OpenMode::CreateNew).unwrap();
    assert_eq!(other.write_at(&[3; 10], 0).unwrap(), 6);
    drop(file);
    disk.remove_file(Path::new("/f")).unwrap();
    assert_eq!((other.write_at(&[3; 10], 6).unwrap(), disk.used()), (4, 10));
}

#[test]
fn calls_are_counted_since_the_mark() {
    let (disk, file) = disk();
    disk.mark();
    assert!(disk.calls().is_empty());
    file.write_at(b"x", 0).unwrap();
    file.write_at(b"x", 0).unwrap();
    disk.sync_many(&[file])
        .into_iter()
        .for_each(|result| result.unwrap());
    assert_eq!(
        disk.calls(),
        BTreeMap::from([(DiskCall::Write, 2), (DiskCall::SyncData, 1)])
    );
}

#[test]
fn a_forked_child_does_not_hold_the_lock() {
    let (disk, _file) = disk();
    let lock = disk.lock(Path::new("/LOCK")).unwrap();
    disk.set(Setting::Forked);
    assert_eq!(lock.check().unwrap(), LockState::Forked);
}
