//! The file `STATE`: openings, recovery points and closes, appended as they happen, so that the next opening knows what to trust.
//!
//! Only `OPEN` and `CLOSE` are synced. A `POINT` is written after the data that it speaks of was synced, so it is true whenever
//! it survives; losing it, or the whole file, costs time and never a record.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use super::evidence::{Here, Known};
use super::held::Held;
use super::root::Root;
use crate::error::{Error, Result};
use crate::format::Bad;
use crate::format::names;
use crate::format::slots::SlotFile;
use crate::format::state::{self, Entry, Point};
use crate::io::{File, OpenMode, Storage, write_full};
use crate::partition::home::Evidence;
use crate::slotted::{SlottedFile, read_whole, remove_if_there, sync_parent, temporary};

/// `STATE` is rewritten above this size, and above twice what the last rewrite left.
const REWRITE_ABOVE: u64 = 4 << 20;

/// `STATE` of one open log.
pub(super) struct State {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    here: Here,
    held: Arc<Held>,
    assume_power_loss: bool,
    /// As read by this opening. Fixed, so that two partitions opened an hour apart judge by the same evidence.
    read: Known,
    writer: Mutex<Writer>,
}

/// The writing side. Its lock is held over the sync of `OPEN` and `CLOSE`: nobody may write before the former, nor after the
/// latter.
struct Writer {
    file: Option<Arc<dyn File>>,
    salt: u64,
    /// Where the next entry goes.
    end: u64,
    after_rewrite: u64,
    /// The bytes on disk are not those that should be there (unsound, lost, a partial entry): only a rewrite helps.
    broken: bool,
    /// What was read, and what was added since.
    known: Known,
    /// This opening's number, once its `OPEN` is durable.
    number: Option<u64>,
    /// The greatest opening seen in a segment header.
    seen: u64,
    closed: bool,
}

impl State {
    /// Reads `STATE` of the log in `root`, and writes nothing. A file that cannot be understood is as good as none.
    pub(super) fn read(root: &Root, assume_power_loss: bool) -> Result<State> {
        let path = root.dir.join(names::STATE);
        let bytes = read_whole(&*root.storage, &path)?;
        let decoded = match bytes.as_deref().map(state::decode_all) {
            Some(Err(Bad::Newer { found, supported })) => {
                return Err(Error::incompatible(&path, found, supported));
            }
            other => other.and_then(Result::ok),
        };
        let (salt, end) = decoded
            .as_ref()
            .map_or((0, 0), |decoded| (decoded.salt, decoded.end));
        let read = decoded.map(Known::of).unwrap_or_default();
        let writer = Writer {
            file: None,
            salt,
            end,
            after_rewrite: 0,
            broken: !read.sound,
            known: read.clone(),
            number: None,
            seen: 0,
            closed: false,
        };
        Ok(State {
            storage: Arc::clone(&root.storage),
            path,
            here: root.here,
            held: Arc::clone(&root.held),
            assume_power_loss,
            read,
            writer: Mutex::new(writer),
        })
    }

    /// Was all of it there?
    pub(super) fn is_sound(&self) -> bool {
        self.read.sound
    }

    /// The newest catalogue that an entry has seen.
    pub(super) fn catalogue_seen(&self) -> u64 {
        self.read.catalogue
    }

    /// The catalogue is at this generation from now on.
    pub(super) fn set_catalogue(&self, generation: u64) {
        let known = &mut self.writer.lock().known;
        known.catalogue = known.catalogue.max(generation);
    }

    /// Topics that are no more: what is known of them is left out of the next rewrite.
    pub(super) fn keep_points(&self, of: impl Fn(u128) -> bool) {
        let known = &mut self.writer.lock().known;
        known.points.retain(|&(topic, _), _| of(topic));
        known.checked.retain(|&(topic, _), _| of(topic));
    }

    /// Some segment header names this opening: to be called, before the first write, if `STATE` is not sound.
    pub(super) fn saw(&self, number: u64) {
        let mut writer = self.writer.lock();
        writer.seen = writer.seen.max(number);
    }

    /// Has this opening written anything?
    pub(super) fn has_opened(&self) -> bool {
        self.writer.lock().number.is_some()
    }

    /// An earlier process may have left the newest topics in the cache alone. Their records, and `OPEN`, rest on them.
    fn settle_catalogue(&self) -> Result<()> {
        let path = self.path.with_file_name(names::CATALOGUE);
        match SlottedFile::open(&*self.storage, &path, SlotFile::Catalogue)? {
            Some((mut file, _)) => file.settle(&*self.storage),
            None => Ok(()),
        }
    }

    /// Marks the log clean: every partition ends where its newest `POINT` says. Nothing to do if nothing was written.
    pub(super) fn close(&self) -> Result<()> {
        self.held()?;
        let mut writer = self.writer.lock();
        let Some(number) = writer.number.filter(|_| !writer.closed) else {
            return Ok(());
        };
        let entry = Entry::Close {
            number,
            catalogue_generation: writer.known.catalogue,
        };
        self.add_synced(&mut writer, entry)?;
        writer.closed = true;
        Ok(())
    }

    /// From now on nothing is written, whatever comes.
    pub(super) fn abandon(&self) {
        self.writer.lock().closed = true;
    }

    /// Writes an entry that must be durable before anything else happens.
    fn add_synced(&self, writer: &mut Writer, entry: Entry) -> Result<()> {
        if writer.broken {
            return self.rewrite(writer, Some(entry));
        }
        let before = writer.end;
        self.append(writer, &entry)?;
        let file = self.file(writer)?;
        let skipped = planted!(OPEN_NOT_SYNCED) && matches!(entry, Entry::Open { .. });
        if !skipped && let Err(e) = file.sync_data() {
            // Whether it is there is unknown; a rewrite under a new salt makes it certain.
            writer.broken = true;
            writer.end = before;
            return Err(Error::io("sync", &self.path, e));
        }
        writer.known.add(entry);
        Ok(())
    }

    fn file(&self, writer: &mut Writer) -> Result<Arc<dyn File>> {
        if let Some(file) = &writer.file {
            return Ok(Arc::clone(file));
        }
        let file = self
            .storage
            .open(&self.path, OpenMode::Write)
            .map_err(|e| Error::io("open", &self.path, e))?;
        writer.file = Some(Arc::clone(&file));
        Ok(file)
    }

    /// Writes an entry at the end; a partial one is cut back, or the file counts as broken.
    fn append(&self, writer: &mut Writer, entry: &Entry) -> Result<()> {
        let file = self.file(writer)?;
        let mut bytes = Vec::new();
        state::encode_entry(entry, writer.salt, writer.end, &mut bytes);
        if let Err(e) = write_full(&*file, &bytes, writer.end) {
            writer.broken = file.set_len(writer.end).is_err();
            return Err(Error::io("write", &self.path, e));
        }
        writer.end += bytes.len() as u64;
        Ok(())
    }

    /// Writes the file anew, with what is still needed and `last`, which is durable when this returns.
    fn rewrite(&self, writer: &mut Writer, last: Option<Entry>) -> Result<()> {
        // Only a rewrite that went all the way tells which file the name stands for.
        writer.broken = true;
        let salt = self.storage.random() as u64;
        let mut bytes = state::encode_header(salt);
        for entry in writer.known.essence().iter().chain(&last) {
            let position = bytes.len() as u64;
            state::encode_entry(entry, salt, position, &mut bytes);
        }
        let file = self.replace(&bytes)?;
        writer.file = Some(file);
        writer.salt = salt;
        writer.end = bytes.len() as u64;
        writer.after_rewrite = writer.end;
        writer.broken = false;
        if let Some(entry) = last {
            writer.known.add(entry);
        }
        Ok(())
    }

    /// 1. Write beside it, and sync. 2. Rename. 3. Sync the directory. (Crash points.)
    fn replace(&self, bytes: &[u8]) -> Result<Arc<dyn File>> {
        let storage = &*self.storage;
        let io = |call, e| Error::io(call, &self.path, e);
        let temporary = temporary(&self.path);
        remove_if_there(storage, &temporary)?;
        let file = storage
            .open(&temporary, OpenMode::CreateNew)
            .map_err(|e| io("create", e))?;
        write_full(&*file, bytes, 0)
            .and_then(|()| file.sync_all())
            .map_err(|e| io("write", e))?;
        storage
            .rename(&temporary, &self.path)
            .map_err(|e| io("rename", e))?;
        sync_parent(storage, &self.path)?;
        Ok(file)
    }

    /// Adds an entry whose loss costs time only: errors are of no interest to anybody.
    fn add_unsynced(&self, entry: Entry) {
        let mut writer = self.writer.lock();
        // Before `OPEN` and after `CLOSE` nothing is written.
        if writer.number.is_none() || writer.closed {
            return;
        }
        let full = writer.end > REWRITE_ABOVE.max(2 * writer.after_rewrite);
        let written = if full || writer.broken {
            self.rewrite(&mut writer, Some(entry))
        } else {
            self.append(&mut writer, &entry)
        };
        if written.is_ok() {
            writer.known.add(entry);
        }
    }
}

impl Evidence for State {
    fn same_boot_since(&self, era: u64) -> bool {
        let current = self.writer.lock().number;
        if self.assume_power_loss && current != Some(era) {
            return false;
        }
        self.read.same_boot_since(era, self.here, current)
    }

    fn clean(&self) -> bool {
        self.read.clean
    }

    fn newest_close(&self) -> u64 {
        self.read.newest_close
    }

    fn point(&self, topic: u128, partition: u32) -> Option<Point> {
        self.writer
            .lock()
            .known
            .points
            .get(&(topic, partition))
            .copied()
    }

    fn checked(&self, topic: u128, partition: u32) -> Option<Point> {
        self.writer
            .lock()
            .known
            .checked
            .get(&(topic, partition))
            .copied()
    }

    fn open_number(&self) -> Result<u64> {
        self.held()?;
        let mut writer = self.writer.lock();
        if let Some(number) = writer.number {
            return Ok(number);
        }
        if writer.closed {
            return Err(Error::Closed);
        }
        // A clean end names the catalogue that was durable then. What a failed sync left in the cache is newer.
        if !self.read.clean || writer.known.catalogue > self.read.catalogue {
            self.settle_catalogue()?;
        }
        let number = writer.known.next_number(writer.seen);
        let open = writer.known.open_entry(number, self.here);
        self.add_synced(&mut writer, open)?;
        writer.number = Some(number);
        Ok(number)
    }

    fn held(&self) -> Result<()> {
        self.held.check()
    }

    fn doubt(&self) {
        let number = self.writer.lock().number;
        let Some(number) = number else {
            return;
        };
        // The same opening once more, in a boot that nobody knows.
        let here = Here {
            boot: None,
            ..self.here
        };
        let open = self.writer.lock().known.open_entry(number, here);
        self.add_unsynced(open);
    }

    fn record_point(&self, point: &Point) {
        self.add_unsynced(Entry::Point(*point));
    }

    fn record_checked(&self, point: &Point) {
        self.add_unsynced(Entry::Checked(*point));
    }
}

#[cfg(test)]
mod tests;
