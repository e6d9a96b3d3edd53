//! Open files under a cap: a sealed segment's file is opened when it is read and closed when others need the room.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::io::{File, OpenMode, Storage};

/// The file of one segment, open or not.
pub(crate) struct Handle {
    path: PathBuf,
    slot: Mutex<Option<Arc<dyn File>>>,
}

/// The open files of a log's sealed segments. A file that may hold un-synced bytes is never given to it, so closing one here
/// cannot lose a write-back error.
pub(crate) struct Handles {
    storage: Arc<dyn Storage>,
    cap: usize,
    open: Mutex<VecDeque<Weak<Handle>>>,
}

impl Handle {
    pub(crate) fn new(path: PathBuf) -> Arc<Handle> {
        Arc::new(Handle {
            path,
            slot: Mutex::new(None),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps an open file that only its owner closes: the active segment's.
    pub(crate) fn pin(&self, file: Arc<dyn File>) {
        *self.slot.lock() = Some(file);
    }
}

impl Handles {
    pub(crate) fn new(storage: Arc<dyn Storage>, cap: usize) -> Handles {
        Handles {
            storage,
            cap: cap.max(1),
            open: Mutex::new(VecDeque::new()),
        }
    }

    /// The open file, opened for reading if it is not. When the process may open no more files, the oldest are closed and it
    /// is tried once again.
    pub(crate) fn file(&self, handle: &Arc<Handle>) -> io::Result<Arc<dyn File>> {
        if let Some(file) = handle.slot.lock().as_ref() {
            return Ok(Arc::clone(file));
        }
        let file = self.open(handle, OpenMode::Read)?;
        *handle.slot.lock() = Some(Arc::clone(&file));
        self.admit(handle);
        Ok(file)
    }

    /// Opens a file that is not kept here, making room as [`Handles::file`] does.
    pub(crate) fn open(&self, handle: &Handle, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        self.with_room(|storage| storage.open(&handle.path, mode))
    }

    /// Syncs a directory, which has to be opened for it.
    pub(crate) fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.with_room(|storage| storage.sync_dir(dir))
    }

    /// Where too many files are open, half of those kept here are closed, and it is tried once again.
    fn with_room<T>(&self, call: impl Fn(&dyn Storage) -> io::Result<T>) -> io::Result<T> {
        match call(&*self.storage) {
            Err(e) if too_many_files(&e) => {
                let open = self.open.lock().len();
                self.shrink(open / 2);
                call(&*self.storage)
            }
            result => result,
        }
    }

    /// From now on this file may be closed here: it is sealed and synced.
    pub(crate) fn admit(&self, handle: &Arc<Handle>) {
        self.open.lock().push_back(Arc::downgrade(handle));
        self.shrink(self.cap);
    }

    /// Closes a file that will be removed: as long as it is open its bytes stay on the disk.
    pub(crate) fn close(handle: &Handle) {
        drop(handle.slot.lock().take());
    }

    fn shrink(&self, keep: usize) {
        let mut closed = Vec::new(); // files are closed after the lock is released
        let mut open = self.open.lock();
        while open.len() > keep {
            if let Some(handle) = open.pop_front().and_then(|weak| weak.upgrade()) {
                closed.push(handle.slot.lock().take());
            }
        }
    }
}

pub(super) fn too_many_files(e: &io::Error) -> bool {
    #[cfg(unix)]
    return matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
    #[cfg(not(unix))]
    return false;
}
