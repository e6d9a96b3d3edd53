//! An open file and a held lock of the tree in memory.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::tree::{Change, Inode};
use super::{DiskCall, Memory};
use crate::io::{File, Lock, LockState, Mapping};

/// A file stays readable and writable through its handles when its name is gone.
#[derive(Debug)]
pub(super) struct MemoryFile {
    memory: Memory,
    inode: Inode,
    /// The path that it was opened by.
    path: PathBuf,
}

impl MemoryFile {
    /// Takes over one handle that is already counted.
    pub(super) fn new(memory: Memory, inode: Inode, path: &Path) -> MemoryFile {
        MemoryFile {
            memory,
            inode,
            path: path.to_owned(),
        }
    }
}

impl File for MemoryFile {
    fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize> {
        let mut state = self.memory.state.lock();
        let count = state.allow(DiskCall::Read, &self.path, position, into.len())?;
        let content = state.tree.file(self.inode).ok_or(io::ErrorKind::NotFound)?;
        Ok(content.read(&mut into[..count], position))
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        let end = position.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > i64::MAX.cast_unsigned()) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut state = self.memory.state.lock();
        let count = state.allow(DiskCall::Write, &self.path, position, bytes.len())?;
        let count = state.room(self.inode, position, count as u64)? as usize;
        let bytes = Cow::Borrowed(&bytes[..count]);
        state.change(Change::Write {
            inode: self.inode,
            bytes,
            position,
        });
        Ok(count)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.memory
            .call(|state| state.sync(DiskCall::SyncData, &self.path, self.inode))
    }

    fn sync_all(&self) -> io::Result<()> {
        self.memory
            .call(|state| state.sync(DiskCall::SyncAll, &self.path, self.inode))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.memory.call(|state| {
            state.enter(DiskCall::SetLen, &self.path)?;
            let present = state
                .tree
                .file(self.inode)
                .map_or(0, |content| content.len());
            let growth = len.saturating_sub(present);
            if state.room(self.inode, present, growth)? < growth {
                return Err(io::ErrorKind::StorageFull.into());
            }
            state.change(Change::SetLen {
                inode: self.inode,
                len,
            });
            Ok(())
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.memory.call(|state| {
            state.enter(DiskCall::Metadata, &self.path)?;
            Ok(state
                .tree
                .file(self.inode)
                .ok_or(io::ErrorKind::NotFound)?
                .len())
        })
    }

    /// A copy: nothing here stays where it is when the file is written.
    fn map(&self, len: u64) -> io::Result<Mapping> {
        self.memory.call(|state| {
            state.enter(DiskCall::Map, &self.path)?;
            let content = state.tree.file(self.inode).ok_or(io::ErrorKind::NotFound)?;
            if len > content.len() {
                let present = content.len();
                let message = format!("cannot map {len} bytes of a file of {present}");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
            Ok(Arc::new(content.prefix(len)) as Mapping)
        })
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        self.memory.state.lock().release(self.inode);
    }
}

/// A lock file that somebody of this process holds.
#[derive(Debug)]
pub(super) struct MemoryLock {
    memory: Memory,
    inode: Inode,
    path: PathBuf,
    process: u64,
}

impl MemoryLock {
    /// Takes over the lock and the handle, both already noted.
    pub(super) fn new(memory: Memory, inode: Inode, path: &Path) -> MemoryLock {
        let process = memory.state.lock().process();
        MemoryLock {
            memory,
            inode,
            path: path.to_owned(),
            process,
        }
    }
}

impl Lock for MemoryLock {
    fn check(&self) -> io::Result<LockState> {
        if self.process != self.memory.state.lock().process() {
            return Ok(LockState::Forked);
        }
        self.memory.call(|state| {
            state.enter(DiskCall::Metadata, &self.path)?;
            match state.tree.find(&self.path) {
                Ok(inode) if inode == self.inode => Ok(LockState::Held),
                Ok(_) => Ok(LockState::Lost),
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(LockState::Lost),
                Err(e) => Err(e),
            }
        })
    }
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        let mut state = self.memory.state.lock();
        state.locked.remove(&self.inode);
        state.release(self.inode);
    }
}
