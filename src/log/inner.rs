//! What all handles of one open log share: its topics, its ledger, and the order in which it is closed.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use super::catalogue::CatalogueFile;
use super::held::Held;
use super::ledger::Ledger;
use super::maintenance::{Maintenance, Worker};
use super::root::Access;
use super::routing::CustomPartitioner;
use super::state::State;
use super::topic::TopicCore;
use super::upkeep::{Upkeep, needs_upkeep};
use crate::error::{Error, Result};
use crate::format::names;
use crate::partition::Partition;
use crate::partition::home::{Evidence, Home};
use crate::partition::progress::Progress;
use crate::partition::report::RecoveryReport;
use crate::partition::settings::Settings;

/// An open log.
pub(crate) struct Inner {
    pub(super) home: Arc<Home>,
    pub(super) state: Arc<State>,
    pub(super) held: Arc<Held>,
    pub(super) access: Access,
    /// Locked while a topic is made, grown, altered or deleted, so that there is one at a time.
    pub(super) catalogue: Mutex<CatalogueFile>,
    pub(super) topics: Topics,
    pub(super) ledger: Arc<Ledger>,
    pub(super) report: RecoveryReport,
    pub(super) partitioners: Vec<(String, CustomPartitioner)>,
    pub(super) maintenance: Maintenance,
    pub(super) worker: Worker,
    pub(super) upkeep: Arc<Upkeep>,
    pub(super) initial_rebalance_delay: Duration,
    /// Grows with each topic that comes to be, grows or goes, and at closing.
    pub(super) changes: Progress,
    /// What higher layers keep per open log, one of each type.
    pub(super) shared: Mutex<Vec<Arc<dyn Any + Send + Sync>>>,
    pub(super) closed: AtomicBool,
}

/// All topics, by name; the ledger looks at them too.
pub(super) type Topics = Arc<RwLock<BTreeMap<Arc<str>, Known>>>;

/// A topic in the catalogue.
pub(super) enum Known {
    Open(Arc<TopicCore>),
    /// Its description cannot be read, so neither can it. The other topics work.
    Damaged {
        file: PathBuf,
    },
}

impl Known {
    pub(super) fn core(&self) -> Result<&Arc<TopicCore>> {
        match self {
            Known::Open(core) => Ok(core),
            Known::Damaged { file } => Err(Error::corruption(file, 0, None)),
        }
    }
}

impl Inner {
    pub(super) fn topic(&self, name: &str) -> Result<Arc<TopicCore>> {
        self.home.check_open()?;
        let topics = self.topics.read();
        topics
            .get(name)
            .ok_or_else(|| Error::not_found("topic", name))?
            .core()
            .cloned()
    }

    /// All that can be read, by name.
    pub(super) fn cores(&self) -> Vec<Arc<TopicCore>> {
        self.topics
            .read()
            .values()
            .filter_map(|known| known.core().ok().cloned())
            .collect()
    }

    /// Starts the maintenance threads if a topic of these settings needs it.
    pub(super) fn work_for(&self, settings: &Settings) -> Result<()> {
        if settings.below_power() || needs_upkeep(settings) {
            self.start_worker()?;
        }
        self.upkeep.ask_for(settings);
        Ok(())
    }

    /// Starts the maintenance threads if what groups commit expires.
    pub(super) fn work_for_offsets(&self) -> Result<()> {
        if self.ledger.expires() {
            self.start_worker()?;
        }
        self.upkeep.ask_for_offsets();
        Ok(())
    }

    /// Starts the maintenance threads, unless the host does without.
    pub(super) fn start_worker(&self) -> Result<()> {
        match self.maintenance {
            Maintenance::Background { .. } if self.access == Access::Write => {
                self.worker.start(&self.home)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn changed(&self) {
        self.changes.publish(self.changes.end().get() + 1);
        self.changes.wake();
    }

    /// Everything written before this call survives a power loss after it. The ledger last: a commit that is durable
    /// speaks of records that are.
    pub(super) fn sync(&self) -> Result<()> {
        self.home.check_open()?;
        self.home.healthy()?;
        let cores = self.cores();
        let partitions: Vec<Partition> = cores
            .iter()
            .flat_map(|core| core.partitions.iter().cloned())
            .collect();
        let synced = Partition::sync_many(&partitions);
        if let Err(e @ Error::Poisoned { at: None, .. }) = synced {
            return Err(e); // the directory is not ours
        }
        synced.and(self.ledger.sync())
    }

    /// Closes once: whoever comes later gets `Closed`.
    pub(super) fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Err(Error::Closed);
        }
        self.home.close();
        self.changed(); // who waits for a topic or a record sees that it is closed
        let _catalogue = self.catalogue.lock(); // a topic that is being made is made before the directory is given up
        let result = match self.access {
            Access::Write => self.finish(),
            Access::ReadOnly => Ok(()),
        };
        self.let_go();
        result.and(self.home.healthy())
    }

    /// Syncs everything and marks the log clean, if it is.
    fn finish(&self) -> Result<()> {
        self.held.check()?;
        if !self.state.has_opened() {
            if self.state.clean() {
                return Ok(()); // nothing was written, and nothing is to be
            }
            self.state.open_number()?;
        }
        let mut clean = self
            .topics
            .read()
            .values()
            .all(|known| known.core().is_ok());
        let mut result = Ok(());
        let mut take = |partition: &Partition| match partition.close() {
            Ok(partition_clean) => clean &= partition_clean,
            Err(e) => {
                clean = false;
                if result.is_ok() {
                    result = Err(e);
                }
            }
        };
        for core in self.cores() {
            core.partitions.iter().for_each(&mut take);
        }
        take(self.ledger.partition());
        if planted!(CLOSE_WHILE_UNFINISHED) {
            return self.state.close();
        }
        result?;
        if clean { self.state.close() } else { Ok(()) }
    }

    /// Ends as a process does that dies: nothing more is written, and nothing is called clean. Handles answer `Closed`.
    pub(super) fn abandon(&self) {
        if !self.closed.swap(true, Ordering::AcqRel) {
            self.home.close();
            self.changed(); // as `close`
            self.let_go();
        }
    }

    /// Ends what only an open log has: the threads and the lock.
    fn let_go(&self) {
        if self.held.is_forked() {
            self.worker.forget();
        } else {
            self.worker.stop();
        }
        self.home.agenda.close();
        self.home.upkeep.close();
        self.state.abandon();
        self.held.release();
    }

    /// The one value of this type that higher layers keep for this open log.
    pub(super) fn shared<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut shared = self.shared.lock();
        if let Some(found) = shared
            .iter()
            .find_map(|any| Arc::clone(any).downcast().ok())
        {
            return found;
        }
        let made = Arc::<T>::default();
        shared.push(Arc::clone(&made) as Arc<dyn Any + Send + Sync>);
        made
    }
}

/// The last handle is gone. Nobody is told what fails now; and while a panic unwinds, nothing is called clean: what was to be
/// written may not have been.
impl Drop for Inner {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.abandon();
        } else {
            let _ = self.close();
        }
    }
}

pub(crate) fn check_topic_name(name: &str) -> Result<()> {
    names::check_topic_name(name).map_err(|why| Error::invalid_name(name, why))
}
