//! The ways in which a call to the simulated disk can go wrong.

use std::io;

use super::pages::PAGE;

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
