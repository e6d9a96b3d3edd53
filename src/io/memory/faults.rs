//! Errors that a test asks for: which call fails, when, and how.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;

use super::content::PAGE;
use super::tree::Inode;
use super::{DiskCall, Memory};

/// An error of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DiskError {
    /// `EIO`: the medium failed.
    Io,
    /// `ENOSPC`: the disk is full.
    NoSpace,
    /// `EDQUOT`: the user's share of the disk is full.
    Quota,
    /// `EFBIG`: a limit of the file's size.
    FileTooLarge,
    /// `EINTR`: a signal came in between. The library tries again, so a lasting one spares every second call.
    Interrupted,
    /// `EMFILE`: this process has too many files open.
    TooManyFiles,
    /// `ENFILE`: the machine has too many files open.
    TooManyFilesInAll,
    /// `ENOMEM`.
    NoMemory,
    /// `EACCES`.
    AccessDenied,
    /// `EROFS`: the file system is read-only.
    ReadOnly,
    /// `EBUSY`.
    Busy,
    /// `ESTALE`: a network file system has lost the file.
    Stale,
}

impl DiskError {
    /// All of them, for tests that try each.
    pub const ALL: [DiskError; 12] = [
        DiskError::Io,
        DiskError::NoSpace,
        DiskError::Quota,
        DiskError::FileTooLarge,
        DiskError::Interrupted,
        DiskError::TooManyFiles,
        DiskError::TooManyFilesInAll,
        DiskError::NoMemory,
        DiskError::AccessDenied,
        DiskError::ReadOnly,
        DiskError::Busy,
        DiskError::Stale,
    ];
}

#[cfg(unix)]
impl From<DiskError> for io::Error {
    fn from(error: DiskError) -> io::Error {
        io::Error::from_raw_os_error(match error {
            DiskError::Io => libc::EIO,
            DiskError::NoSpace => libc::ENOSPC,
            DiskError::Quota => libc::EDQUOT,
            DiskError::FileTooLarge => libc::EFBIG,
            DiskError::Interrupted => libc::EINTR,
            DiskError::TooManyFiles => libc::EMFILE,
            DiskError::TooManyFilesInAll => libc::ENFILE,
            DiskError::NoMemory => libc::ENOMEM,
            DiskError::AccessDenied => libc::EACCES,
            DiskError::ReadOnly => libc::EROFS,
            DiskError::Busy => libc::EBUSY,
            DiskError::Stale => libc::ESTALE,
        })
    }
}

#[cfg(not(unix))]
impl From<DiskError> for io::Error {
    fn from(error: DiskError) -> io::Error {
        io::Error::from(match error {
            DiskError::NoSpace => io::ErrorKind::StorageFull,
            DiskError::Quota => io::ErrorKind::QuotaExceeded,
            DiskError::FileTooLarge => io::ErrorKind::FileTooLarge,
            DiskError::Interrupted => io::ErrorKind::Interrupted,
            DiskError::NoMemory => io::ErrorKind::OutOfMemory,
            DiskError::AccessDenied => io::ErrorKind::PermissionDenied,
            DiskError::ReadOnly => io::ErrorKind::ReadOnlyFilesystem,
            DiskError::Busy => io::ErrorKind::ResourceBusy,
            DiskError::Stale => io::ErrorKind::StaleNetworkFileHandle,
            DiskError::Io | DiskError::TooManyFiles | DiskError::TooManyFilesInAll => {
                io::ErrorKind::Other
            }
        })
    }
}

/// How much of a read or write is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Short {
    /// So many bytes, at least one.
    Bytes(usize),
    /// Half of them.
    Half,
    /// Those up to the next multiple of 4096 in the file; all where the call does not cross one.
    PageEdge,
}

impl Short {
    /// How many of `len` bytes at `position`.
    pub(super) fn of(self, position: u64, len: usize) -> usize {
        let count = match self {
            Short::Bytes(count) => count,
            Short::Half => len / 2,
            Short::PageEdge => PAGE - (position % PAGE as u64) as usize,
        };
        count.max(1).min(len)
    }
}

/// What a failed sync leaves behind. (A directory whose sync fails goes by the first, whichever is chosen.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailedSync {
    /// The cache keeps the new bytes, the disk the old ones, and the pages count as clean: a later sync succeeds, and does not
    /// write them.
    Keep,
    /// The cache goes back to what the disk has.
    Revert,
    /// As `Keep`, but this sync succeeds, and the next one of the same file returns the error.
    Late,
}

/// A rule by which calls to the simulated disk fail. Without more it strikes the next matching call, once.
///
/// ```
/// use thalweg::testing::{Disk, DiskCall, DiskError, Fault};
///
/// let disk = Disk::new();
/// // The third write to a segment from now finds the disk full.
/// disk.fail(Fault::error(DiskCall::Write, DiskError::NoSpace).on(".log").after(2));
/// ```
#[derive(Clone, Debug)]
#[must_use = "a fault does nothing until it is given to `Disk::fail`"]
pub struct Fault {
    call: Option<DiskCall>,
    part: Option<String>,
    range: Option<Range<u64>>,
    skip: u64,
    lasting: bool,
    effect: Effect,
    /// The error of the call that follows a short one.
    then: Option<DiskError>,
}

/// What happens to the call that a rule strikes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Effect {
    Error(DiskError),
    Short(Short),
    Sync(FailedSync, DiskError),
}

impl Fault {
    fn new(call: Option<DiskCall>, effect: Effect) -> Fault {
        Fault {
            call,
            part: None,
            range: None,
            skip: 0,
            lasting: false,
            effect,
            then: None,
        }
    }

    /// The call returns `error` and does nothing. A file whose sync fails so stays un-synced: the next sync makes it durable.
    pub fn error(call: DiskCall, error: DiskError) -> Fault {
        Fault::new(Some(call), Effect::Error(error))
    }

    /// As [`error`](Fault::error), whatever the call is.
    pub fn any(error: DiskError) -> Fault {
        Fault::new(None, Effect::Error(error))
    }

    /// A read ([`DiskCall::Read`]) or write ([`DiskCall::Write`]) moves fewer bytes than asked for.
    pub fn short(call: DiskCall, short: Short) -> Fault {
        Fault::new(Some(call), Effect::Short(short))
    }

    /// A write moves fewer bytes than asked for, and the next one returns `error`.
    pub fn short_write_then(short: Short, error: DiskError) -> Fault {
        Fault {
            then: Some(error),
            ..Fault::short(DiskCall::Write, short)
        }
    }

    /// A sync ([`DiskCall::SyncData`], [`DiskCall::SyncAll`] or [`DiskCall::SyncDir`]) fails in one of the ways of real systems.
    pub fn sync(call: DiskCall, failed: FailedSync, error: DiskError) -> Fault {
        Fault::new(Some(call), Effect::Sync(failed, error))
    }

    /// Only for paths that contain `part`. A file's path is the one it was opened by.
    pub fn on(mut self, part: impl Into<String>) -> Fault {
        self.part = Some(part.into());
        self
    }

    /// Only for reads and writes that touch these bytes of the file.
    pub fn within(mut self, bytes: Range<u64>) -> Fault {
        self.range = Some(bytes);
        self
    }

    /// Lets so many matching calls through first.
    pub fn after(mut self, calls: u64) -> Fault {
        self.skip = calls;
        self
    }

    /// Strikes every matching call from then on, not one.
    pub fn lasting(mut self) -> Fault {
        self.lasting = true;
        self
    }

    fn matches(&self, call: DiskCall, path: &Path, position: u64, len: usize) -> bool {
        self.call.is_none_or(|of| of == call)
            && self
                .part
                .as_ref()
                .is_none_or(|part| path.to_string_lossy().contains(part.as_str()))
            && self.range.as_ref().is_none_or(|bytes| {
                position < bytes.end && bytes.start < position.saturating_add(len as u64)
            })
    }

    /// The rule is met. What it does now, and what is left of it.
    fn strike(mut self) -> (Effect, Option<Fault>) {
        let effect = self.effect;
        if let Some(error) = self.then.take() {
            let next = Fault {
                effect: Effect::Error(error),
                skip: 0,
                ..self
            };
            return (effect, Some(next));
        }
        if matches!(effect, Effect::Error(DiskError::Interrupted)) {
            self.skip = 1;
        }
        let left = self.lasting.then_some(self);
        (effect, left)
    }
}

/// The rules in force, and what has happened so far.
#[derive(Debug, Default)]
pub(super) struct Faults {
    rules: Vec<Fault>,
    struck: u64,
    calls: BTreeMap<DiskCall, u64>,
    late: BTreeMap<Inode, DiskError>,
}

impl Faults {
    /// Counts the call and tells what is to happen to it. The first rule that strikes wins.
    pub(super) fn strike(
        &mut self,
        call: DiskCall,
        path: &Path,
        position: u64,
        len: usize,
    ) -> Option<Effect> {
        *self.calls.entry(call).or_default() += 1;
        for at in 0..self.rules.len() {
            let rule = &mut self.rules[at];
            if !rule.matches(call, path, position, len) {
                continue;
            }
            if rule.skip > 0 {
                rule.skip -= 1;
                continue;
            }
            let (effect, left) = self.rules.remove(at).strike();
            if let Some(left) = left {
                self.rules.insert(at, left);
            }
            self.struck += 1;
            return Some(effect);
        }
        None
    }

    pub(super) fn report_late(&mut self, inode: Inode, error: DiskError) {
        self.late.insert(inode, error);
    }

    /// The error that a sync of this file owes from an earlier one.
    pub(super) fn late(&mut self, inode: Inode) -> Option<DiskError> {
        self.late.remove(&inode)
    }
}

impl Memory {
    pub(crate) fn fail(&self, fault: Fault) {
        self.with_sim(|sim, _| sim.faults.rules.push(fault));
    }

    /// Drops all rules.
    pub(crate) fn heal(&self) {
        self.with_sim(|sim, _| sim.faults.rules.clear());
    }

    /// How many calls were struck so far.
    pub(crate) fn struck(&self) -> u64 {
        self.with_sim(|sim, _| sim.faults.struck)
    }

    /// Starts counting calls anew.
    pub(crate) fn mark(&self) {
        self.with_sim(|sim, _| sim.faults.calls.clear());
    }

    /// Calls since the mark.
    pub(crate) fn calls(&self) -> BTreeMap<DiskCall, u64> {
        self.with_sim(|sim, _| sim.faults.calls.clone())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::sync::Arc;

    use super::super::Setting;
    use super::super::models::CrashModel;
    use super::*;
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
        assert_eq!(durable(&reopened)[..3], b"new!"[..3]);
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
}
