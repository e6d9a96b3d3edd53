//! The `config` file of a topic: what it is, and which of its partitions were ever written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::description;
use super::settings::Description;
use crate::error::{Error, Result};
use crate::format::names;
use crate::format::slots::SlotFile;
use crate::format::topic::TopicDescription;
use crate::io::Storage;
use crate::offset::PartitionId;
use crate::partition::home::{Evidence, Owner};
use crate::partition::settings::Settings;
use crate::slotted::{SlottedFile, bad_content, certain};

/// `config` of one topic. Partitions hold it, to tell it of their first append.
pub(super) struct Config {
    storage: Arc<dyn Storage>,
    evidence: Arc<dyn Evidence>,
    stored: Mutex<Stored>,
}

struct Stored {
    file: SlottedFile,
    description: TopicDescription,
    /// The file may say more than `description`, until it is written again.
    undecided: bool,
}

/// What reading a config gave.
pub(super) struct Read {
    pub(super) path: PathBuf,
    pub(super) file: SlottedFile,
    pub(super) stored: TopicDescription,
    /// What it says.
    pub(super) description: Description,
    pub(super) lost_slot: bool,
}

/// Reads the config in a topic's directory. A topic without one is damaged: it was there before the topic was.
pub(super) fn read(storage: &dyn Storage, dir: &Path) -> Result<Read> {
    let path = dir.join(names::CONFIG);
    let (file, slotted) = SlottedFile::open(storage, &path, SlotFile::TopicConfig)?
        .ok_or_else(|| Error::corruption(&path, 0, None))?;
    let stored =
        TopicDescription::decode(&slotted.payload).map_err(|bad| bad_content(&path, bad))?;
    let description = description::read(&stored, &path)?;
    Ok(Read {
        path,
        file,
        stored,
        description,
        lost_slot: slotted.bad_other,
    })
}

impl Config {
    pub(super) fn new(
        storage: &Arc<dyn Storage>,
        evidence: &Arc<dyn Evidence>,
        file: SlottedFile,
        description: TopicDescription,
    ) -> Arc<Config> {
        Arc::new(Config {
            storage: Arc::clone(storage),
            evidence: Arc::clone(evidence),
            stored: Mutex::new(Stored {
                file,
                description,
                undecided: false,
            }),
        })
    }

    pub(super) fn is_used(&self, partition: PartitionId) -> bool {
        let stored = self.stored.lock();
        stored
            .description
            .used
            .get(partition.get() as usize)
            .copied()
            .unwrap_or(false)
    }

    /// Makes it durable that the topic has so many partitions more.
    ///
    /// # Errors
    ///
    /// As [`change`](Self::change).
    pub(super) fn add_partitions(&self, count: u32) -> Result<()> {
        self.change(|description| description.add_partitions(count))
    }

    /// Makes it durable that the topic works by these settings.
    ///
    /// # Errors
    ///
    /// As [`change`](Self::change).
    pub(super) fn alter(&self, settings: &Settings) -> Result<()> {
        self.change(|stored| description::put_settings(settings, stored))
    }

    /// The file may say something else than what is so.
    pub(super) fn is_undecided(&self) -> bool {
        self.stored.lock().undecided
    }

    /// # Errors
    ///
    /// `Indeterminate`: the file says the old or the new, or what an earlier try wanted that was so; what is written next says the
    /// old, but for its own change. Any other error: the old.
    fn change(&self, change: impl FnOnce(&mut TopicDescription)) -> Result<()> {
        let mut stored = self.stored.lock();
        let mut changed = stored.description.clone();
        change(&mut changed);
        let written = stored.file.write(&*self.storage, &changed.encode());
        match written {
            Ok(_) => {
                stored.description = changed;
                stored.undecided = false;
                Ok(())
            }
            Err(e @ Error::Indeterminate { .. }) => {
                stored.undecided = true;
                Err(e)
            }
            Err(e) if stored.undecided => Err(Error::indeterminate(None, e)),
            Err(e) => Err(e),
        }
    }
}

impl Owner for Config {
    fn mark_used(&self, partition: PartitionId) -> Result<()> {
        self.evidence.open_number()?;
        // The lock is held over a sync: once in the life of each partition.
        let mut stored = self.stored.lock();
        let mut changed = stored.description.clone();
        let bit = changed
            .used
            .get_mut(partition.get() as usize)
            .expect("a partition of this topic");
        if std::mem::replace(bit, true) {
            return Ok(());
        }
        // The bit may be durable after a failed sync; the partition's directory is, so that is true in any case, and the
        // record that was to follow was not written.
        stored
            .file
            .write(&*self.storage, &changed.encode())
            .map_err(certain)?;
        stored.description = changed;
        stored.undecided = false;
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        self.stored.lock().file.settle(&*self.storage)
    }
}
