//! The lock file that keeps a second writer out, of this process and of others.

use std::collections::BTreeSet;
use std::fs::{self, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::{careful, open_regular};
use crate::io::{Lock, LockState, retried};

/// The lock files that this process holds, by device and inode.
///
/// The one `static` of the crate. What it describes belongs to the process as a whole: whether the kernel's lock also keeps
/// out a second handle of the *same* process depends on the system and the file system (an emulation by record locks does
/// not, and there the second handle's close would even end the first one's lock), and two logs that the host opens share
/// nothing else that could know of both.
static HELD: Mutex<BTreeSet<(u64, u64)>> = Mutex::new(BTreeSet::new());

/// A lock file that this process holds. The file is never removed: who removes it lets a second holder in.
#[derive(Debug)]
pub(super) struct DiskLock {
    /// `None` only while it is dropped.
    file: Option<fs::File>,
    path: PathBuf,
    id: (u64, u64),
    process: u32,
}

impl DiskLock {
    pub(super) fn take(path: &Path) -> io::Result<DiskLock> {
        let mut options = careful();
        options.read(true).write(true).create(true).truncate(false);
        // Held across opening: while somebody of this process has the lock we must not close a second handle of that file.
        let mut held = HELD.lock();
        if let Ok(metadata) = fs::symlink_metadata(path)
            && held.contains(&id_of(&metadata))
        {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let file = open_regular(path, &options)?;
        let id = id_of(&retried(|| file.metadata())?);
        if held.contains(&id) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        retried(|| match file.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(e)) => Err(e),
        })?;
        held.insert(id);
        Ok(DiskLock {
            file: Some(file),
            path: path.to_owned(),
            id,
            process: std::process::id(),
        })
    }
}

impl Lock for DiskLock {
    fn check(&self) -> io::Result<LockState> {
        if self.process != std::process::id() {
            return Ok(LockState::Forked);
        }
        match retried(|| fs::symlink_metadata(&self.path)) {
            Ok(metadata) if id_of(&metadata) == self.id => Ok(LockState::Held),
            Ok(_) => Ok(LockState::Lost),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(LockState::Lost),
            Err(e) => Err(e),
        }
    }
}

impl Drop for DiskLock {
    fn drop(&mut self) {
        let mut held = HELD.lock();
        // Closed, not unlocked: unlocking in a forked child would take the lock from its parent, which shares the open file.
        drop(self.file.take());
        held.remove(&self.id);
    }
}

fn id_of(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}
