//! Files only, no format: the seam between the log and whatever keeps its bytes.
//!
//! [`Storage`] is a tree of files, [`File`] one open file. Both are objects, given once to the log's builder, and both speak
//! `std::io::Error`; the layers above add the path and the meaning. Nothing here knows what the bytes say.
//!
//! * [`disk`] is the real thing (Unix).
//! * [`map`] reads a sealed file through a memory map: the one `unsafe` module.
//! * [`memory`] keeps files in memory; with the feature `testing` it remembers what was synced, yields the states that a
//!   crash may leave, and returns the errors that a test asks for.

mod ahead;
#[cfg(unix)]
pub(crate) mod disk;
#[cfg(unix)]
pub(crate) mod map;
pub(crate) mod memory;
mod syncing;

#[cfg(test)]
mod conformance;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

pub(crate) use self::ahead::{Ahead, BLOCK, Block, Reading};
pub(crate) use self::syncing::Syncing;

/// How [`Storage::open`] opens a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenMode {
    /// It must exist; it is only read.
    Read,
    /// It must exist; it is read and written.
    Write,
    /// It must not exist; it is made, empty, and read and written. (`AlreadyExists` otherwise.)
    CreateNew,
}

/// What a directory entry is. A symbolic link is never followed: it is `Other`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Dir,
    /// A link, a pipe, a socket, a device.
    Other,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DirEntry {
    pub(crate) name: OsString,
    pub(crate) kind: Kind,
}

/// What tells one place on one device from a copy of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// Birth time in nanoseconds since the epoch; zero where the file system does not tell.
    pub(crate) born: i128,
}

/// Bytes that stay where they are while this is held: a mapped file.
pub(crate) type Mapping = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A tree of files. Paths are absolute and made by the layers above.
///
/// A call that a signal interrupted is made again inside the implementation; only [`File::read_at`] and [`File::write_at`] may
/// say `Interrupted`, and [`read_full`] and [`write_full`] go on from there. A call that returns has happened; whether it
/// survives a power loss is said by the syncs alone.
pub(crate) trait Storage: Send + Sync + fmt::Debug {
    /// Opens a regular file and nothing else: a directory, link or pipe in its place is an error of kind `InvalidInput`
    /// (never a hang, never followed).
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>>;
    /// Replaces `to` if it exists.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Makes one directory (mode 0700 on disk); the parent must exist.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory, in no order, without `.` and `..`.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Takes the lock file at `path` (made if missing) for this process, at once or with an error of kind `WouldBlock`, also
    /// when this same process holds it through another path. The lock ends when the value is dropped.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>>;
    /// `sync_data` on each of them, several at a time where that helps; one result per file, in order.
    fn sync_many(&self, files: &[Arc<dyn File>]) -> Vec<io::Result<()>>;
    /// Begins `sync_data`, which goes on while the caller does something else, where that helps.
    fn sync_behind(&self, file: &Arc<dyn File>) -> Syncing;
    /// Begins to read a part of a file, which goes on while the caller looks at what was read, where that helps.
    fn read_ahead(&self, reading: Reading) -> Ahead;
    /// What is the same until the machine restarts; `None` where it cannot be told.
    fn boot_id(&self) -> Option<u128>;
    /// Identity of the file at `path`.
    fn identity(&self, path: &Path) -> io::Result<Identity>;
    /// A fresh random number: identities and salts are drawn here, so that a simulation repeats itself.
    fn random(&self) -> u128;
    /// Absolute and without links; with `create`, the directory is made first if it is missing (and its parents), and every
    /// name made on the way is durable when this returns.
    fn resolve(&self, path: &Path, create: bool) -> io::Result<std::path::PathBuf>;
    /// May everybody write to this directory?
    fn world_writable(&self, path: &Path) -> io::Result<bool>;
}

/// One open file. Reads and writes name their place; there is no cursor.
pub(crate) trait File: Send + Sync + fmt::Debug {
    /// As `pread`: may return fewer bytes; 0 only at the end of the file, or for an empty buffer.
    fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize>;
    /// As `pwrite`: may write fewer bytes than given, never 0 for a non-empty buffer without an error.
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize>;
    /// Bytes and length survive a power loss when this returns.
    fn sync_data(&self) -> io::Result<()>;
    /// As `sync_data`, all metadata included: once, after a file was made.
    fn sync_all(&self) -> io::Result<()>;
    fn set_len(&self, len: u64) -> io::Result<()>;
    fn len(&self) -> io::Result<u64>;
    /// The first `len` bytes as a map. An error means: read it by position instead.
    fn map(&self, len: u64) -> io::Result<Mapping>;
}

/// A lock that is held until it is dropped.
pub(crate) trait Lock: Send + Sync + fmt::Debug {
    /// Is the file at the lock's path still the one that was locked, and is this still the process that locked it?
    fn check(&self) -> io::Result<LockState>;
}

/// What [`Lock::check`] finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockState {
    Held,
    /// The lock file was removed or replaced.
    Lost,
    /// This is a forked child of the process that took the lock.
    Forked,
}

/// Makes a call again for as long as a signal interrupts it.
pub(crate) fn retried<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Makes the directory at `path` and those above it that are missing, each durable before the next one is made.
fn create_dirs(storage: &dyn Storage, path: &Path) -> io::Result<()> {
    match storage.identity(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        known => return known.map(drop),
    }
    let Some(parent) = path.parent() else {
        return Err(io::ErrorKind::NotFound.into());
    };
    create_dirs(storage, parent)?;
    match storage.create_dir(path) {
        // Somebody else made it in between; it is synced here all the same.
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
        _ => storage.sync_dir(parent),
    }
}

/// Reads until `into` is full or the file ends; returns how many bytes were read.
pub(crate) fn read_full(file: &dyn File, into: &mut [u8], position: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(&mut into[done..], position + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) if planted!(EIO_IS_END_OF_FILE) => break,
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// Writes all of `bytes`. On an error some prefix of them may be in the file: the caller cuts it off again.
pub(crate) fn write_full(file: &dyn File, bytes: &[u8], position: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match file.write_at(&bytes[done..], position + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(_) if planted!(SHORT_WRITE_IGNORED) => return Ok(()),
            Ok(n) => done += n,
            Err(e) => go_on(e)?,
        }
    }
    Ok(())
}

/// A call that a signal interrupted is made again.
#[cold]
fn go_on(e: io::Error) -> io::Result<()> {
    match e.kind() {
        io::ErrorKind::Interrupted => Ok(()),
        _ => Err(e),
    }
}
