//! A small file that is replaced whole: after a crash it holds the old content or the new, never a mixture, never defaults.
//!
//! The file has two slots, each with a generation and a checksum. A write goes into the slot that does *not* hold the newest
//! content, so a torn write spoils nothing that counts. Content that outgrows its slot goes by the longer way: a temporary
//! file, synced, renamed over the old one, the directory synced.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::Bad;
use crate::format::slots::{self, SlotFile};
use crate::io::{File, OpenMode, Storage, read_full, write_full};

/// The name of a file that is not finished; such files are ignored, and removed when the log is opened.
pub(crate) const TEMPORARY: &str = "tmp";

/// No small file comes near this; a longer one is not read into memory.
const MAX_BYTES: u64 = 64 << 20;

/// What a slotted file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slotted {
    pub(crate) generation: u64,
    pub(crate) payload: Vec<u8>,
    /// The other slot does not decode: a torn write, or rot. To be reported.
    pub(crate) bad_other: bool,
}

/// The writing side: knows which slot may be overwritten. Dropped and opened again, it finds out anew.
#[derive(Debug)]
pub(crate) struct SlottedFile {
    path: PathBuf,
    kind: SlotFile,
    slot_size: u32,
    /// Of the newest content that is known to be durable. It says which slot that is in.
    generation: u64,
    trust: Trust,
}

/// What is known about the durability of the newest slot.
#[derive(Debug)]
enum Trust {
    /// This value wrote and synced it.
    Synced,
    /// It was read. The cache may hold what a failed sync of an earlier opening left there, so it is written once more, and
    /// synced, before the other slot is given up.
    Read(Vec<u8>),
    /// A replacement of the whole file failed half-way: only another one tells where the content is.
    Replace,
}

impl SlottedFile {
    /// The newest content of the file at `path`; `None` if there is no such file.
    ///
    /// # Errors
    ///
    /// `Corruption` if no slot decodes, `Incompatible` if a newer version wrote it, `Io`.
    pub(crate) fn read(
        storage: &dyn Storage,
        path: &Path,
        kind: SlotFile,
    ) -> Result<Option<Slotted>> {
        Ok(Self::open(storage, path, kind)?.map(|(_, slotted)| slotted))
    }

    /// As [`read`](Self::read), to be written later.
    pub(crate) fn open(
        storage: &dyn Storage,
        path: &Path,
        kind: SlotFile,
    ) -> Result<Option<(SlottedFile, Slotted)>> {
        let Some(bytes) = read_whole(storage, path)? else {
            return Ok(None);
        };
        let found = slots::decode_slots(kind, &bytes).map_err(|bad| bad_content(path, bad))?;
        let (generation, _, range) = found
            .newest
            .ok_or_else(|| Error::corruption(path, 0, None))?;
        let payload = bytes.get(range).unwrap_or_default().to_vec();
        let file = SlottedFile {
            path: path.to_owned(),
            kind,
            slot_size: found.slot_size,
            generation,
            trust: Trust::Read(payload.clone()),
        };
        let slotted = Slotted {
            generation,
            payload,
            bad_other: found.bad_other,
        };
        Ok(Some((file, slotted)))
    }

    /// Makes the file, with generation 1. It is there whole and durable when this returns.
    pub(crate) fn create(
        storage: &dyn Storage,
        path: &Path,
        kind: SlotFile,
        payload: &[u8],
    ) -> Result<SlottedFile> {
        let mut file = SlottedFile {
            path: path.to_owned(),
            kind,
            slot_size: 0,
            generation: 0,
            trust: Trust::Replace,
        };
        file.replace(storage, payload)?;
        Ok(file)
    }

    /// The generation of the newest content.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Replaces the content; returns its generation. It is durable when this returns.
    ///
    /// # Errors
    ///
    /// `Indeterminate` after a failed sync, or a write that could not be taken back: the file then holds the old content or
    /// the new. Any other error: the old. The next write is sound in both cases.
    pub(crate) fn write(&mut self, storage: &dyn Storage, payload: &[u8]) -> Result<u64> {
        let next = self.generation + 1;
        let slot = match self.trust {
            Trust::Replace => None,
            _ => slots::encode_slot(self.kind, next, payload, self.slot_size),
        };
        let Some(bytes) = slot else {
            return self.replace(storage, payload);
        };
        self.settle(storage)?;
        let file = self.open_to_write(storage)?;
        self.overwrite(&*file, next, &bytes)
            .map_err(|e| self.taken_back(storage, &*file, next, e))?;
        self.generation = next;
        Ok(next)
    }

    /// A write failed. Where the slot can be read all the same, since only padding was missing, it is blanked, durably.
    #[cold]
    fn taken_back(
        &self,
        storage: &dyn Storage,
        file: &dyn File,
        generation: u64,
        error: Error,
    ) -> Error {
        if matches!(error, Error::Indeterminate { .. }) {
            return error; // it was written, and not synced
        }
        match Self::read(storage, &self.path, self.kind) {
            Ok(Some(found)) if found.generation != generation => return error,
            _ => {}
        }
        match self.overwrite(file, generation, &slots::NO_HEAD) {
            Ok(()) => error,
            Err(_) => Error::indeterminate(None, error),
        }
    }

    /// Makes sure that the newest slot is durable: before the other one is overwritten, and before anything rests on it.
    pub(crate) fn settle(&mut self, storage: &dyn Storage) -> Result<()> {
        if let Trust::Read(payload) = &self.trust {
            let bytes = slots::encode_slot(self.kind, self.generation, payload, self.slot_size)
                .expect("what was read from a slot fits into it");
            let file = self.open_to_write(storage)?;
            self.overwrite(&*file, self.generation, &bytes)
                .map_err(certain)?;
            sync_parent(storage, &self.path)?;
            self.trust = Trust::Synced;
        }
        Ok(())
    }

    fn open_to_write(&self, storage: &dyn Storage) -> Result<Arc<dyn File>> {
        let file = storage.open(&self.path, OpenMode::Write);
        file.map_err(|e| Error::io("open", &self.path, e))
    }

    fn overwrite(&self, file: &dyn File, generation: u64, bytes: &[u8]) -> Result<()> {
        let io = |call, e| Error::io(call, &self.path, e);
        let position = slots::slot_position(generation, self.slot_size);
        write_full(file, bytes, position).map_err(|e| io("write", e))?;
        file.sync_data()
            .map_err(|e| Error::indeterminate(None, io("sync", e)))
    }

    /// The longer way: the numbered steps are crash points.
    fn replace(&mut self, storage: &dyn Storage, payload: &[u8]) -> Result<u64> {
        let temporary = temporary(&self.path);
        let next = self.generation + 1;
        let (slot_size, bytes) = slots::slot_size_for(payload.len())
            .and_then(|size| Some((size, slots::encode_file(self.kind, next, payload, size)?)))
            .ok_or(Error::LimitExceeded {
                setting: "bytes of a small file",
                limit: MAX_BYTES,
            })?;
        // 1. The whole file beside the old one.
        self.write_temporary(storage, &temporary, &bytes)?;
        // 2. In its place: from here on only the directory's sync is missing.
        self.trust = Trust::Replace;
        storage
            .rename(&temporary, &self.path)
            .map_err(|e| Error::io("rename", &self.path, e))?;
        // 3. Durable there.
        sync_parent(storage, &self.path).map_err(|e| Error::indeterminate(None, e))?;
        self.generation = next;
        self.slot_size = slot_size;
        self.trust = Trust::Synced;
        Ok(next)
    }

    fn write_temporary(&self, storage: &dyn Storage, temporary: &Path, bytes: &[u8]) -> Result<()> {
        let io = |call, e| Error::io(call, &self.path, e);
        remove_if_there(storage, temporary)?;
        let file = storage
            .open(temporary, OpenMode::CreateNew)
            .map_err(|e| io("create", e))?;
        let written = write_full(&*file, bytes, 0).and_then(|()| file.sync_all());
        written.map_err(|e| {
            // A file that is not finished means nothing; whether it goes now or at the next opening does not matter.
            let _ = storage.remove_file(temporary);
            io("write", e)
        })
    }
}

/// A file, or the payload of one, that does not decode.
pub(crate) fn bad_content(path: &Path, bad: Bad) -> Error {
    match bad {
        Bad::Newer { found, supported } => Error::incompatible(path, found, supported),
        Bad::Short { .. } | Bad::Corrupt => Error::corruption(path, 0, None),
    }
}

/// What failed, where the step that failed leaves the content as it was.
pub(crate) fn certain(error: Error) -> Error {
    match error {
        Error::Indeterminate { source, .. } => match source.downcast::<Error>() {
            Ok(cause) => *cause,
            Err(source) => Error::indeterminate(None, source),
        },
        other => other,
    }
}

/// Where a file is built before it takes its name.
pub(crate) fn temporary(path: &Path) -> PathBuf {
    let mut name = path.file_name().map(OsString::from).unwrap_or_default();
    name.push(".");
    name.push(TEMPORARY);
    path.with_file_name(name)
}

/// Removes a file; that there is none is fine.
pub(crate) fn remove_if_there(storage: &dyn Storage, path: &Path) -> Result<()> {
    match storage.remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", path, e)),
        _ => Ok(()),
    }
}

/// Makes the name of `path` durable.
pub(crate) fn sync_parent(storage: &dyn Storage, path: &Path) -> Result<()> {
    let dir = path.parent().unwrap_or(path);
    storage.sync_dir(dir).map_err(|e| Error::io("sync", dir, e))
}

/// All bytes of a small file; `None` if there is none.
pub(crate) fn read_whole(storage: &dyn Storage, path: &Path) -> Result<Option<Vec<u8>>> {
    let io = |call, e| Error::io(call, path, e);
    let file = match storage.open(path, OpenMode::Read) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        // A directory, a link or a pipe stands in its place.
        Err(e) if e.kind() == std::io::ErrorKind::InvalidInput => {
            return Err(Error::corruption(path, 0, None));
        }
        other => other.map_err(|e| io("open", e))?,
    };
    let len = file.len().map_err(|e| io("read", e))?;
    if len > MAX_BYTES {
        return Err(Error::corruption(path, MAX_BYTES, None));
    }
    let mut bytes = vec![0; len as usize];
    let read = read_full(&*file, &mut bytes, 0).map_err(|e| io("read", e))?;
    bytes.truncate(read);
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests;
