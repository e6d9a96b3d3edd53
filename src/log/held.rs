//! That this process may write: the lock of the log's directory, and what losing it means.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::format::names;
use crate::io::{Lock, LockState, Storage};

/// The right to write to one directory, for as long as it lasts.
pub(super) struct Held {
    dir: PathBuf,
    lock: Mutex<Right>,
}

enum Right {
    Locked(Box<dyn Lock>),
    /// Opened for reading: there never was a lock.
    ReadOnly,
    /// Closed.
    Given,
}

impl Held {
    /// Takes the lock of `dir`, at once.
    ///
    /// # Errors
    ///
    /// `AlreadyOpen` if this process or another one has it.
    pub(super) fn take(storage: &dyn Storage, dir: &Path) -> Result<Arc<Held>> {
        let path = dir.join(names::LOCK);
        let lock = storage.lock(&path).map_err(|e| match e.kind() {
            std::io::ErrorKind::WouldBlock => Error::AlreadyOpen { dir: dir.into() },
            _ => Error::io("lock", &path, e),
        })?;
        let held = Held {
            dir: dir.to_owned(),
            lock: Mutex::new(Right::Locked(lock)),
        };
        // Between opening the lock file and locking it, somebody may have put another in its place.
        held.check()?;
        Ok(Arc::new(held))
    }

    pub(super) fn read_only(dir: &Path) -> Arc<Held> {
        Arc::new(Held {
            dir: dir.to_owned(),
            lock: Mutex::new(Right::ReadOnly),
        })
    }

    /// May this process write now?
    ///
    /// # Errors
    ///
    /// `Poisoned`, caused by `LockLost`, if the lock file was replaced or this is a forked child; `ReadOnly`; `Closed`.
    pub(super) fn check(&self) -> Result<()> {
        let state = match &*self.lock.lock() {
            Right::Locked(lock) => lock
                .check()
                .map_err(|e| Error::io("check", &self.dir.join(names::LOCK), e))?,
            Right::ReadOnly if planted!(LOCK_AFTER_RECOVERY) => return Ok(()),
            Right::ReadOnly => {
                return Err(Error::ReadOnly {
                    dir: self.dir.as_path().into(),
                });
            }
            Right::Given => return Err(Error::Closed),
        };
        match state {
            LockState::Held => Ok(()),
            LockState::Lost => Err(self.lost(false)),
            LockState::Forked => Err(self.lost(true)),
        }
    }

    fn lost(&self, forked: bool) -> Error {
        Error::poisoned(
            None,
            Arc::new(Error::LockLost {
                dir: self.dir.as_path().into(),
                forked,
            }),
        )
    }

    /// Is this a forked child of the process that opened the log? It must leave everything alone, threads included.
    pub(super) fn is_forked(&self) -> bool {
        match &*self.lock.lock() {
            Right::Locked(lock) => matches!(lock.check(), Ok(LockState::Forked)),
            Right::ReadOnly | Right::Given => false,
        }
    }

    /// Gives the lock up, for the next who opens the log.
    pub(super) fn release(&self) {
        *self.lock.lock() = Right::Given;
    }
}
