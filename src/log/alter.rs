//! How the settings of a topic are changed while it is written and read.
//!
//! The order, which the crash tests walk through:
//!
//! 1. where the level rises to `Power`: every partition works at `Power`
//! 2. and what was appended before that is synced, with nothing locked
//! 3. the topic's description says what is new: decided
//! 4. every partition works by it, and every handle shows it
//!
//! What fails before step 3 puts the level back: for a while it was better than promised. A crash before step 3 finds the old level,
//! and what was acknowledged meanwhile is synced; after it, the new one, and everything below the end is durable. Where the level
//! falls, nothing is acknowledged un-synced before step 4, and then in a segment that says so: the first append begins it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::inner::Inner;
use super::settings::{Description, TopicConfig};
use super::topic::{Topic, TopicCore};
use crate::error::Result;
use crate::partition::Partition;
use crate::partition::home::Evidence;
use crate::partition::settings::{Durability, Settings};

impl Topic {
    /// Changes what is set in `changes`, durably, effective now, for every handle of the topic. What is not set stays as it is.
    ///
    /// Everything can be changed but `partitions` (see
    /// [`add_partitions_breaking_key_order`](Self::add_partitions_breaking_key_order)), `partitioner` and `timestamps`; they may be set
    /// to what they are. Compaction ends with [`not_compacted`](TopicConfig::not_compacted), a limit of age with [`Retention::new`],
    /// and those of `segment_age` and `timestamp_limits` with [`Duration::MAX`](std::time::Duration::MAX).
    ///
    /// An append that begins when this has returned goes by the new settings, one that runs beside it by the old or the new. What is
    /// stored stays as it is, and can be read: a lower `max_record_bytes` refuses new records only, another `compression` is that of new
    /// batches, and a topic that is compacted from now on may have records without a key. `segment_bytes` and `segment_age` are asked
    /// at the next append; `offset_span` is that of the next segment, and bounds the next batch. `retention` and `compacted` are
    /// asked by the next pass of maintenance, for old segments too.
    ///
    /// **The level of durability.** What `Ok` from an append means is the level that counts when its records are written. Raised to
    /// [`Durability::Power`], the topic is synced, and everything acknowledged before, at whatever level, survives a power loss when
    /// this returns. Under [`Durability::Interval`], what is un-synced already is synced within the new `time`. Lowered from `Power`,
    /// records are seen before they are synced, those included that wait for their sync now; who waits, waits on. The first append after
    /// either begins a new segment.
    ///
    /// ```
    /// use thalweg::{Durability, Log, TopicConfig};
    ///
    /// let log = Log::in_memory();
    /// let import = TopicConfig::new().durability(Durability::Process).max_record_bytes(1 << 20);
    /// let orders = log.create_topic("orders", import)?;
    /// orders.append(("customer-7", "2 x espresso"))?;
    ///
    /// orders.alter(TopicConfig::new().durability(Durability::Power).max_record_bytes(1000))?;
    ///
    /// // What was written before is durable now, and what is written from now on when it is acknowledged.
    /// assert_eq!(orders.settings().durability, Durability::Power);
    /// assert!(orders.append(("customer-9", "x".repeat(2000))).is_err());
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::ConfigMismatch`] for what differs and cannot be changed; [`Error::InvalidSetting`], naming it, if the topic could not
    /// be made as it would be then; [`Error::NotFound`] if it is deleted; [`Error::Closed`], [`Error::ReadOnly`]; [`Error::NoSpace`],
    /// [`Error::Io`] and the like, [`Error::Poisoned`] if a partition cannot be synced: nothing was changed. After
    /// [`Error::Indeterminate`] the topic goes on by the old settings; when the log is opened again it has those, or the new ones. Whoever
    /// calls again before that, decides it.
    ///
    /// [`Error::ConfigMismatch`]: crate::Error::ConfigMismatch
    /// [`Error::InvalidSetting`]: crate::Error::InvalidSetting
    /// [`Error::NotFound`]: crate::Error::NotFound
    /// [`Error::Closed`]: crate::Error::Closed
    /// [`Error::ReadOnly`]: crate::Error::ReadOnly
    /// [`Error::NoSpace`]: crate::Error::NoSpace
    /// [`Error::Io`]: crate::Error::Io
    /// [`Error::Poisoned`]: crate::Error::Poisoned
    /// [`Error::Indeterminate`]: crate::Error::Indeterminate
    /// [`Retention::new`]: crate::Retention::new
    #[expect(
        clippy::needless_pass_by_value,
        reason = "taken as `create_topic` takes it"
    )]
    pub fn alter(&self, changes: TopicConfig) -> Result<()> {
        self.open.alter(&self.core, &changes)
    }
}

impl Inner {
    /// Changes the settings of a topic. The numbered steps are crash points; from step 3 on they are the new ones, whatever comes.
    fn alter(&self, core: &TopicCore, changes: &TopicConfig) -> Result<()> {
        let mut raised = None;
        loop {
            let one_at_a_time = self.catalogue.lock(); // and neither grown, deleted nor closed meanwhile
            core.check_there()?;
            let (now, new) = core.wanted(changes)?;
            if new == now && !core.config().is_undecided() {
                return Ok(());
            }
            self.state.open_number()?;
            let below = (now.settings.below_power(), new.settings.below_power());
            if below == (true, false) && raised.is_none() {
                raised = Some(Raised::of(self, core)); // 1
                drop(one_at_a_time);
                core.sync()?; // 2
                continue;
            }
            self.work_for(&new.settings)?;
            core.config().alter(&new.settings)?; // 3
            *core.now.write() = Arc::new(new); // 4
            core.put_in_force();
            drop(one_at_a_time);
            if below == (false, true) {
                core.wake(); // what waits for its sync is seen
            }
            return Ok(());
        }
    }
}

impl TopicCore {
    /// The topic as it is, and as it is to be.
    fn wanted(&self, changes: &TopicConfig) -> Result<(Description, Description)> {
        let now = self.description();
        let new = changes.applied_to(self.name(), &now)?;
        Ok((now, new))
    }

    /// Everything appended so far.
    fn sync(&self) -> Result<()> {
        let partitions: Vec<Partition> = self.partitions.iter().cloned().collect();
        // What is closed or deleted meanwhile says so.
        Partition::sync_many(&partitions).map_err(|e| self.check_there().err().unwrap_or(e))
    }

    /// What the partitions work by.
    pub(super) fn in_force(&self) -> Settings {
        let mut settings = self.now().settings.clone();
        if self.raising.load(Ordering::Relaxed) > 0 {
            settings.durability = Durability::Power;
        }
        settings
    }

    fn put_in_force(&self) {
        let settings = Arc::new(self.in_force());
        let partitions = self.partitions.iter();
        partitions.for_each(|partition| partition.alter(&settings));
    }

    fn wake(&self) {
        self.partitions.iter().for_each(Partition::wake_sleepers);
    }
}

/// While there is one, the partitions of the topic work at `Power`, whatever its level. Made under the catalogue's lock, under which
/// alone their number is changed, and dropped without it.
struct Raised<'a> {
    inner: &'a Inner,
    core: &'a TopicCore,
}

impl Raised<'_> {
    fn of<'a>(inner: &'a Inner, core: &'a TopicCore) -> Raised<'a> {
        core.raising.fetch_add(1, Ordering::Relaxed);
        core.put_in_force();
        Raised { inner, core }
    }
}

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        let one_at_a_time = self.inner.catalogue.lock();
        self.core.raising.fetch_sub(1, Ordering::Relaxed);
        if self.core.now().settings.below_power() {
            self.core.put_in_force();
        }
        drop(one_at_a_time);
        self.core.wake();
    }
}
