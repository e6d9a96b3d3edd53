//! An open directory of topics: one lock, one recovery, one close.
//!
//! [`Log`] is what a user holds, [`inner`] what all handles share. Opening is [`open`], in the order of its steps, with
//! [`root`], [`held`], [`state`] and [`evidence`], [`catalogue`] and [`survey`]. A topic is [`topic`], with [`settings`],
//! [`config`], [`description`], [`partitions`] and [`routing`]; it comes, grows and goes by [`lifecycle`], and changes by [`alter`]. [`ledger`] keeps what groups have committed.

mod alter;
mod builder;
mod catalogue;
mod config;
mod description;
mod evidence;
mod held;
mod inner;
mod ledger;
mod lifecycle;
mod maintenance;
mod open;
mod partitions;
mod root;
mod routing;
mod settings;
mod state;
mod survey;
mod topic;
mod upkeep;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use inner::Inner;
use root::Access;

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::partition::progress::Progress;
use crate::partition::report::RecoveryReport;

pub(crate) use inner::check_topic_name;
pub(crate) use ledger::{Commit, Ledger, PartitionKey, Readers, Reading};

pub use builder::{LogBuilder, OnCorruption};
pub use maintenance::{Maintenance, MaintenanceReport};
pub use routing::Partitioner;
pub use settings::{TopicConfig, TopicSettings};
pub use topic::Topic;

/// An open directory of topics. A cheap clone, `Send + Sync`.
///
/// The log stays open while there is a `Log`, a [`Topic`], a [`Partition`](crate::Partition) or what reads from one, or anything of
/// a consumer group; the last one dropped closes it, which cannot report what fails then: [`close`](Self::close) can. Dropped
/// while its thread panics, it is not marked as closed, and is checked when it is opened again.
///
/// ```
/// use thalweg::{Log, TopicConfig};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path();
/// let log = Log::open(path)?;
/// let orders = log.topic_or_create("orders", TopicConfig::new().partitions(4))?;
/// orders.append(("customer-7", "2 x espresso"))?;
/// log.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Log {
    inner: Arc<Inner>,
}

impl Log {
    /// Opens the log in `dir`, or makes one there. See [`LogBuilder::open`].
    ///
    /// # Errors
    ///
    /// As [`LogBuilder::open`].
    pub fn open(dir: impl AsRef<Path>) -> Result<Log> {
        Log::builder().open(dir)
    }

    /// A log in memory: the same in every way, until it is dropped.
    pub fn in_memory() -> Log {
        Log::builder()
            .in_memory()
            .expect("a new log in memory meets no error")
    }

    /// Opens the log in `dir` to look at it, beside a process that writes it: takes no lock, repairs nothing, writes
    /// nothing. It shows every whole batch that is in the files now, also those that the writer has not made durable yet, and
    /// does not go on when more is written. The report says that the view may be behind. When the writer removes or compacts segments
    /// meanwhile, what was not read of them yet is an error here, though nothing is damaged: open it anew.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if there is no log; [`Error::Corruption`], [`Error::Incompatible`], [`Error::Io`]. Whatever
    /// would write is [`Error::ReadOnly`].
    pub fn open_read_only(dir: impl AsRef<Path>) -> Result<Log> {
        Log::builder().open_disk(dir.as_ref(), Access::ReadOnly)
    }

    /// To set more than a directory.
    pub fn builder() -> LogBuilder {
        LogBuilder::default()
    }

    /// What opening found, and what it did about it. Empty after a clean open, unless there are files of somebody else. A
    /// sealed segment is checked when it is read, not here.
    pub fn recovery(&self) -> &RecoveryReport {
        &self.inner.report
    }

    /// Makes a topic. It is durable, at every level of durability, when this returns. A name has 1 to 249 of the characters
    /// `a-z`, `A-Z`, `0-9`, `.`, `_` and `-`, as in Kafka.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`]; [`Error::InvalidSetting`], naming it; [`Error::AlreadyExists`]; [`Error::NoSpace`] and the
    /// like. After [`Error::Indeterminate`] the topic may be there when the log is opened again.
    pub fn create_topic(&self, name: &str, config: TopicConfig) -> Result<Topic> {
        self.inner.create_topic(name, config)
    }

    /// A topic that exists.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if there is none; [`Error::Corruption`] if its description cannot be read.
    pub fn topic(&self, name: &str) -> Result<Topic> {
        self.inner.topic(name).map(|core| Topic {
            core,
            open: Arc::clone(&self.inner),
        })
    }

    /// The topic as it is stored, or a new one. Of a topic that is there the settings stay as they are stored, see
    /// [`Topic::settings`]; [`Topic::alter`] changes them. (A retention or compaction that differs is no error.)
    ///
    /// # Errors
    ///
    /// [`Error::ConfigMismatch`] if `partitions` or `partitioner` was set and is stored differently, or if a `durability` was set
    /// and the stored one is weaker; as [`create_topic`](Self::create_topic).
    #[expect(
        clippy::needless_pass_by_value,
        reason = "taken as `create_topic` takes it"
    )]
    pub fn topic_or_create(&self, name: &str, config: TopicConfig) -> Result<Topic> {
        loop {
            match self.topic(name) {
                Ok(topic) => {
                    config.agree(name, &topic.core.description())?;
                    return Ok(topic);
                }
                Err(Error::NotFound { .. }) => {}
                Err(e) => return Err(e),
            }
            match self.create_topic(name, config.clone()) {
                // Somebody else made it in between: look again.
                Err(Error::AlreadyExists { .. }) => {}
                other => return other,
            }
        }
    }

    /// All topics, by name; those whose description cannot be read are left out, and in [`recovery`](Self::recovery).
    pub fn topics(&self) -> Vec<Topic> {
        let cores = self.inner.cores().into_iter();
        cores
            .map(|core| Topic {
                core,
                open: Arc::clone(&self.inner),
            })
            .collect()
    }

    /// Deletes a topic with all its records, and what groups have committed for it. It is gone for good when this returns, and its
    /// name can be used again. Handles of it answer [`Error::NotFound`]; members of groups let go of it in their next poll, and wait
    /// for a new topic of its name. Files that cannot be removed now are removed at the next opening.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if there is none; [`Error::NoSpace`], [`Error::Io`]: nothing was done. After [`Error::Indeterminate`]
    /// the topic refuses everything until the log is opened again, when it may be there or not. [`Error::Corruption`] for one that the
    /// catalogue has lost.
    pub fn delete_topic(&self, name: &str) -> Result<()> {
        self.inner.delete_topic(name)
    }

    /// Everything written before this call survives a power loss after it, whatever the level of its topic.
    ///
    /// # Errors
    ///
    /// The first that a partition gives; the others are synced all the same, unless the lock on the directory was lost.
    /// [`Error::Panicked`] if background work panicked since this was last asked: call again.
    pub fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    /// One bounded pass of maintenance, now: the syncs that time demands ([`Durability::Interval`](crate::Durability::Interval))
    /// and that are due; segments that are older than [`TopicConfig::segment_age`] are ended, and those that go beyond the
    /// [`Retention`](crate::Retention) of their topic removed; topics with a [`Compaction`](crate::Compaction) are compacted where that
    /// pays, and so is what groups have committed; what they have committed is forgotten where it has expired
    /// ([`LogBuilder::offsets_retention`]). For hosts without a thread ([`Maintenance::Manual`]) the only way to have this done;
    /// with one it may be called all the same. Neither appends nor polls wait for it.
    ///
    /// ```
    /// use thalweg::{Log, Retention, TopicConfig};
    ///
    /// let log = Log::in_memory();
    /// let config = TopicConfig::new()
    ///     .segment_bytes(10_000)
    ///     .retention(Retention::new().bytes(30_000));
    /// let clicks = log.create_topic("clicks", config)?;
    /// for _ in 0..100 {
    ///     clicks.append(("somebody", "x".repeat(1000)))?; // ten segments
    /// }
    ///
    /// let report = log.maintain()?;
    ///
    /// assert!(report.segments_deleted > 0 && !report.more);
    /// let left = clicks.partition(0)?.offsets();
    /// assert!(left.start.get() > 60 && left.end.get() == 100);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::ReadOnly`], [`Error::Closed`]; [`Error::Panicked`] if background work panicked since this was last asked;
    /// [`Error::Corruption`] if what is to be compacted, or weighed, cannot be read: of that partition, or of committed offsets,
    /// everything is kept then, and it is not tried again before there is more to do. The first error that a partition gives; the
    /// others are seen to all the same.
    pub fn maintain(&self) -> Result<MaintenanceReport> {
        self.inner.maintain()
    }

    /// What a pass of the log's own thread met, if all is not well since: a segment that cannot be read or removed, a full disk. The others
    /// are seen to all the same. (Who calls [`maintain`](Self::maintain) is told by that.)
    pub fn maintenance_failure(&self) -> Option<Arc<Error>> {
        self.inner.maintenance_failure()
    }

    /// Syncs everything, marks the log as closed in order, and gives up the lock. Other handles then answer
    /// [`Error::Closed`].
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] if it was; the first that a partition gives. The log is closed in any case; it is then checked when
    /// it is opened again. [`Error::Panicked`] if background work panicked: everything is synced then, and closed in order.
    pub fn close(self) -> Result<()> {
        self.inner.close()
    }

    /// What the threads of a log do when its time has come, and no more.
    #[cfg(feature = "testing")]
    pub(crate) fn do_what_is_due(&self) -> Result<()> {
        self.check_open()?;
        self.inner.home.run_due()
    }

    /// Ends as a process does that dies. Other handles then answer `Closed`.
    #[cfg(feature = "testing")]
    pub(crate) fn abandon(&self) {
        self.inner.abandon();
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        self.inner.home.check_open()
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.home.clock
    }

    pub(crate) fn initial_rebalance_delay(&self) -> Duration {
        self.inner.initial_rebalance_delay
    }

    /// Somebody is about to commit: what is committed is synced in the background.
    pub(crate) fn prepare_commits(&self) -> Result<()> {
        self.inner.start_worker()
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.inner.ledger
    }

    /// Moves when a topic comes to be, grows or goes, and when the log is closed.
    pub(crate) fn changes(&self) -> &Progress {
        &self.inner.changes
    }

    /// The one value of this type that belongs to this open log.
    pub(crate) fn shared<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.inner.shared()
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("dir", &self.inner.home.root)
            .finish_non_exhaustive()
    }
}

const _: () = {
    const fn shared<T: Send + Sync + 'static>() {}
    shared::<Log>();
    shared::<Topic>();
};
