//! How a topic comes to be, how it grows, and how it goes. Each is decided by one replacement of a small file; what a crash leaves of
//! the rest is finished, or removed, at the next opening.
//!
//! Creation: (1) the topic's directory under another name, with its description, (2) its own name, (3) the catalogue.
//!
//! Growth: (1) the topic's description says that it has more partitions: decided, (2) they are there to be written, (3) who waits is
//! told. An unused partition has no file, so a crash leaves nothing but the old count or the new; and no record is in a partition
//! that is not in the description, since none can be written before (2).
//!
//! Deletion: (1) everything new is refused, (2) the catalogue says that it is being deleted: decided, (3) the directory is removed,
//! (4) what groups have committed for it is forgotten in the ledger, durably, (5) the catalogue forgets it. Its name can be used
//! again at once after (2): a topic is known by its UUID.

use std::sync::Arc;

use super::config;
use super::description;
use super::inner::{Inner, Known, check_topic_name};
use super::root::{create_dir, sync_dir};
use super::settings::{Description, TopicConfig};
use super::survey::{list, remove};
use super::topic::{Opening, Topic, TopicCore, custom_for};
use crate::error::{Error, Result};
use crate::format::names;
use crate::format::root::CatalogueEntry;
use crate::format::slots::SlotFile;
use crate::partition::Partition;
use crate::partition::home::Evidence;
use crate::partition::report::RecoveryReport;
use crate::partition::retire::Retired;
use crate::slotted::{SlottedFile, certain};

impl Inner {
    /// Makes a topic. The numbered steps are crash points; before step 3 is through there is no such topic.
    pub(super) fn create_topic(self: &Arc<Self>, name: &str, config: TopicConfig) -> Result<Topic> {
        check_topic_name(name)?;
        let described = config.resolve()?;
        let mut catalogue = self.catalogue.lock();
        match self.topic(name) {
            Err(Error::NotFound { .. }) => {}
            Ok(_) => return Err(Error::already_exists("topic", name)),
            Err(e) => return Err(e),
        }
        self.state.open_number()?;
        let storage = &*self.home.ground.storage;
        let uuid = storage.random();
        let core = Arc::new(self.make(name, uuid, &described)?); // 1, 2
        catalogue.add(storage, name, uuid)?; // 3
        self.state.set_catalogue(catalogue.generation());
        self.topics
            .write()
            .insert(Arc::clone(core.name()), Known::Open(Arc::clone(&core)));
        drop(catalogue);
        self.changed(); // wakes who waits: foreign code, so not under the lock
        self.work_for(&core.now().settings)?;
        Ok(Topic {
            core,
            open: Arc::clone(self),
        })
    }

    fn make(&self, name: &str, uuid: u128, described: &Description) -> Result<TopicCore> {
        let storage = &*self.home.ground.storage;
        let topics = self.home.root.join(names::TOPICS);
        let dir = topics.join(names::topic_dir(name, uuid));
        let making = topics.join(format!("{}{}", names::topic_dir(name, uuid), names::TMP));
        // 1. Its directory, under another name.
        create_dir(storage, &making)?;
        let stored = description::stored(name, uuid, described).encode();
        SlottedFile::create(
            storage,
            &making.join(names::CONFIG),
            SlotFile::TopicConfig,
            &stored,
        )
        .map_err(certain)?; // whatever is there under this name is no topic
        // 2. Under its own.
        storage
            .rename(&making, &dir)
            .map_err(|e| Error::io("rename", &dir, e))?;
        sync_dir(storage, &topics)?;
        let mut read = config::read(storage, &dir)?;
        read.description = described.clone(); // with what is not stored
        TopicCore::open(
            Opening {
                dir,
                read,
                custom: custom_for(&described.partitioner, &self.partitioners),
                first_offset: described.settings.first_offset,
            },
            &self.home,
            &mut RecoveryReport::default(),
        )
    }

    /// Adds partitions to a topic. The numbered steps are crash points; from step 1 on they are there, whatever comes.
    pub(super) fn add_partitions(&self, core: &TopicCore, count: u32) -> Result<()> {
        let one_at_a_time = self.catalogue.lock(); // and neither deleted nor closed meanwhile
        core.check_there()?;
        core.check_more(count)?;
        self.state.open_number()?;
        core.add_partitions(count)?; // 1, 2
        drop(one_at_a_time);
        self.changed(); // 3
        Ok(())
    }

    /// Deletes a topic. The numbered steps are crash points; from step 2 on it is gone, whatever comes.
    pub(super) fn delete_topic(&self, name: &str) -> Result<()> {
        self.home.check_open()?;
        let core = match self.topics.read().get(name) {
            None => return Err(Error::not_found("topic", name)),
            Some(Known::Open(core)) => Some(Arc::clone(core)),
            Some(Known::Damaged { .. }) => None,
        };
        let deleted = self.decide_deletion(name, core.as_deref());
        // Nothing is locked any more: what is woken is foreign code.
        let partitions = core.iter().flat_map(|core| core.partitions.iter());
        if deleted.is_ok() {
            self.changed();
        }
        partitions.for_each(Partition::wake_sleepers);
        deleted?;
        // What cannot be done now is done at the next opening: the topic is gone all the same.
        let _ = self.finish_deletions();
        Ok(())
    }

    /// Steps 1 and 2, of the topic of this name and core, if that still is its core.
    fn decide_deletion(&self, name: &str, core: Option<&TopicCore>) -> Result<()> {
        let mut catalogue = self.catalogue.lock();
        self.home.check_open()?;
        let same = |known: &Known| match known {
            Known::Open(now) => core.is_some_and(|core| core.uuid() == now.uuid()),
            Known::Damaged { .. } => core.is_none(),
        };
        if !self.topics.read().get(name).is_some_and(same) {
            return Err(Error::not_found("topic", name)); // somebody else was faster
        }
        let live = catalogue.live().find(|entry| entry.name == name);
        let Some(entry) = live.cloned() else {
            return Err(self.topic(name).err().unwrap_or(Error::Closed)); // lost by the catalogue, and kept for repair
        };
        self.state.open_number()?;
        let partitions = || core.iter().flat_map(|core| core.partitions.iter());
        // An earlier try may have been written: what a later one says of itself does not undo that.
        let undecided = partitions().any(Partition::is_gone);
        let retired: Vec<Retired> = partitions().map(Partition::retire).collect(); // 1
        let storage = &*self.home.ground.storage;
        match catalogue.delete(storage, entry.topic) {
            Ok(()) => {} // 2
            // Until it is known whether it is deleted, nothing is to be found there that might go.
            Err(e @ Error::Indeterminate { .. }) => return Err(e),
            Err(e) if undecided => return Err(Error::indeterminate(None, e)),
            Err(e) => {
                retired.into_iter().for_each(Retired::reinstate);
                return Err(e);
            }
        }
        self.state.set_catalogue(catalogue.generation());
        self.topics.write().remove(name);
        retired.into_iter().for_each(Retired::let_go);
        Ok(())
    }

    /// Steps 3 to 5 for every topic whose deletion was decided.
    pub(super) fn finish_deletions(&self) -> Result<()> {
        let mut catalogue = self.catalogue.lock();
        let deleting: Vec<CatalogueEntry> = catalogue.deleting().cloned().collect();
        if deleting.is_empty() {
            return Ok(());
        }
        self.state.open_number()?;
        let storage = &*self.home.ground.storage;
        let topics = self.home.root.join(names::TOPICS);
        let mut result = Ok(());
        let mut uuids: Vec<u128> = deleting.iter().map(|entry| entry.topic).collect();
        for entry in list(storage, &topics)? {
            let ours = |of: &&CatalogueEntry| entry.name == *names::topic_dir(&of.name, of.topic);
            if let Some(of) = deleting.iter().find(ours)
                && let Err(e) = remove(storage, &topics, &entry)
            // 3
            {
                uuids.retain(|topic| *topic != of.topic); // later: the others do not wait for it
                result = result.and(Err(e));
            }
        }
        if uuids.is_empty() {
            return result;
        }
        sync_dir(storage, &topics)?;
        self.ledger.forget_topics(&uuids)?; // 4
        catalogue.forget(storage, &uuids)?; // 5
        self.state.set_catalogue(catalogue.generation());
        self.state.keep_points(|topic| !uuids.contains(&topic));
        result
    }
}
