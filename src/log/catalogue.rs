//! The file `CATALOGUE`: which topics there are. Its replacement is the moment at which a topic comes to be, or goes.

use std::collections::HashSet;
use std::path::Path;

use crate::error::{Error, Result};
use crate::format::names;
use crate::format::root::{Catalogue, CatalogueEntry, TopicState};
use crate::format::slots::SlotFile;
use crate::io::Storage;
use crate::slotted::{SlottedFile, bad_content};

/// The topics of an open log, as stored.
pub(super) struct CatalogueFile {
    file: SlottedFile,
    content: Catalogue,
    /// One slot could not be read.
    pub(super) lost_slot: bool,
}

impl CatalogueFile {
    /// Reads the catalogue in `root`. `seen` is the newest generation that an entry of `STATE` has seen.
    ///
    /// # Errors
    ///
    /// `Corruption` if it is missing, unreadable, or older than what was seen: topics would be missing from it.
    pub(super) fn open(storage: &dyn Storage, root: &Path, seen: u64) -> Result<CatalogueFile> {
        let path = root.join(names::CATALOGUE);
        let damaged = || Error::corruption(&path, 0, None);
        let (file, slotted) =
            SlottedFile::open(storage, &path, SlotFile::Catalogue)?.ok_or_else(damaged)?;
        let content = Catalogue::decode(&slotted.payload).map_err(|bad| bad_content(&path, bad))?;
        if slotted.generation < seen {
            return Err(damaged());
        }
        Ok(CatalogueFile {
            file,
            content,
            lost_slot: slotted.bad_other,
        })
    }

    pub(super) fn generation(&self) -> u64 {
        self.file.generation()
    }

    pub(super) fn live(&self) -> impl Iterator<Item = &CatalogueEntry> {
        self.content
            .entries
            .iter()
            .filter(|entry| entry.state == TopicState::Live)
    }

    /// Those whose deletion was decided, and is not finished.
    pub(super) fn deleting(&self) -> impl Iterator<Item = &CatalogueEntry> {
        self.content
            .entries
            .iter()
            .filter(|entry| entry.state != TopicState::Live)
    }

    /// All topics that there is anything left of.
    pub(super) fn uuids(&self) -> HashSet<u128> {
        self.content
            .entries
            .iter()
            .map(|entry| entry.topic)
            .collect()
    }

    /// Adds a topic, durably. After an `Indeterminate` error it may be there when the log is opened again.
    pub(super) fn add(&mut self, storage: &dyn Storage, name: &str, topic: u128) -> Result<()> {
        self.change(storage, |entries| {
            entries.push(CatalogueEntry {
                topic,
                name: name.to_owned(),
                state: TopicState::Live,
            });
        })
    }

    /// Decides that a topic is deleted, durably. After an `Indeterminate` error it may be so when the log is opened again.
    pub(super) fn delete(&mut self, storage: &dyn Storage, topic: u128) -> Result<()> {
        self.change(storage, |entries| {
            for entry in entries.iter_mut().filter(|entry| entry.topic == topic) {
                entry.state = TopicState::Deleting { journal_end: 0 };
            }
        })
    }

    /// Nothing of these topics is left anywhere.
    pub(super) fn forget(&mut self, storage: &dyn Storage, topics: &[u128]) -> Result<()> {
        self.change(storage, |entries| {
            entries.retain(|entry| !topics.contains(&entry.topic));
        })
    }

    fn change(
        &mut self,
        storage: &dyn Storage,
        change: impl FnOnce(&mut Vec<CatalogueEntry>),
    ) -> Result<()> {
        let mut changed = self.content.clone();
        change(&mut changed.entries);
        self.file.write(storage, &changed.encode())?;
        self.content = changed;
        Ok(())
    }
}
