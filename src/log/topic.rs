//! Topics: where records go in, each to its partition.

use std::any::Any;
use std::cell::OnceCell;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use parking_lot::RwLock;

use super::config::{self, Config};
use super::inner::Inner;
use super::maintenance::MaintenanceReport;
use super::partitions::Partitions;
use super::routing::{CustomPartitioner, Partitioner, Router};
use super::settings::{Description, TopicSettings};
use crate::error::{Error, Result};
use crate::format::names;
use crate::offset::{Offset, PartitionId, Position, TopicPartition};
use crate::partition::Partition;
use crate::partition::home::{Home, Owner};
use crate::partition::place::Place;
use crate::partition::report::{FindingKind, RecoveryReport};
use crate::partition::settings::Settings;
use crate::record::Record;

/// A named stream split into partitions: where you write. A cheap clone, `Send + Sync`; it keeps its log open.
///
/// ```
/// use thalweg::{Log, TopicConfig};
///
/// let log = Log::in_memory();
/// let orders = log.create_topic("orders", TopicConfig::new().partitions(4))?;
/// let first = orders.append(("customer-7", "2 x espresso"))?;
/// let second = orders.append(("customer-7", "1 x flat white"))?;
/// assert_eq!(first.partition(), second.partition());
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone)]
pub struct Topic {
    pub(super) core: Arc<TopicCore>,
    /// Keeps the log open.
    pub(super) open: Arc<Inner>,
}

/// What an open log keeps of a topic.
pub(super) struct TopicCore {
    /// What it is. Of the count, `partitions` knows more.
    pub(super) now: RwLock<Arc<Description>>,
    /// How many calls are [raising](super::alter) its level.
    pub(super) raising: AtomicU32,
    router: Router,
    pub(super) partitions: Partitions,
    site: Site,
}

/// Where the partitions of a topic are.
struct Site {
    name: Arc<str>,
    uuid: u128,
    dir: PathBuf,
    config: Arc<Config>,
    home: Arc<Home>,
}

/// Where the topic is, and what was read of it.
pub(super) struct Opening {
    pub(super) dir: PathBuf,
    pub(super) read: config::Read,
    pub(super) custom: Option<CustomPartitioner>,
    /// Not stored: what a topic that is being made was asked to begin at.
    pub(super) first_offset: u64,
}

impl TopicCore {
    /// Opens all partitions: reads, and changes nothing. Damage in a partition is a finding, and that partition's alone.
    pub(super) fn open(
        opening: Opening,
        home: &Arc<Home>,
        report: &mut RecoveryReport,
    ) -> Result<TopicCore> {
        let read = opening.read;
        let mut description = read.description;
        description.settings.first_offset = opening.first_offset;
        let site = Site {
            name: read.stored.name.as_str().into(),
            uuid: read.stored.topic,
            dir: opening.dir,
            config: Config::new(&home.ground.storage, &home.evidence, read.file, read.stored),
            home: Arc::clone(home),
        };
        let count = description.partitions;
        let partitions = site.open(0..count, &description.settings, report)?;
        Ok(TopicCore {
            router: Router::new(description.partitioner.clone(), opening.custom),
            now: RwLock::new(Arc::new(description)),
            raising: AtomicU32::new(0),
            partitions: Partitions::new(partitions),
            site,
        })
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.site.name
    }

    pub(super) fn uuid(&self) -> u128 {
        self.site.uuid
    }

    /// What the topic is now.
    pub(super) fn description(&self) -> Description {
        Description {
            partitions: self.partitions.count(),
            ..Description::clone(&self.now())
        }
    }

    /// All but the count.
    pub(super) fn now(&self) -> Arc<Description> {
        Arc::clone(&self.now.read())
    }

    pub(super) fn config(&self) -> &Config {
        &self.site.config
    }

    /// May it be read and written?
    pub(super) fn check_there(&self) -> Result<()> {
        self.partitions.iter().try_for_each(Partition::check_there)
    }

    /// May it have so many partitions more? One is asked, and adds them, at a time.
    pub(super) fn check_more(&self, added: u32) -> Result<()> {
        if added == 0 {
            return Err(Error::invalid("partitions", "none is to be added"));
        }
        let mut grown = self.description();
        grown.partitions = grown.partitions.saturating_add(added);
        grown.check()
    }

    /// Adds partitions. The numbered steps are those of [`lifecycle`](super::lifecycle).
    pub(super) fn add_partitions(&self, added: u32) -> Result<()> {
        let count = self.partitions.count();
        let mut report = RecoveryReport::default();
        let new = count..count + added;
        let partitions = self.site.open(new, &self.in_force(), &mut report)?;
        let mut findings = report.findings().iter();
        if let Some(found) = findings.find(|found| found.kind == FindingKind::Damaged) {
            // Records of partitions that a lost description had: neither given out as new nor written over.
            let file = found.file.as_deref().unwrap_or(&self.site.dir);
            return Err(Error::corruption(file, found.byte.unwrap_or(0), None));
        }
        self.site.config.add_partitions(added)?; // 1
        self.partitions.add(partitions); // 2
        Ok(())
    }

    fn routed(&self, id: PartitionId) -> &Partition {
        self.partitions
            .get(id)
            .expect("the router chooses among the partitions there are")
    }
}

impl Site {
    fn open(
        &self,
        numbers: Range<u32>,
        settings: &Settings,
        report: &mut RecoveryReport,
    ) -> Result<Vec<Partition>> {
        let open = |number| {
            let id = PartitionId::new(number);
            let place = Place {
                dir: self.dir.join(names::partition_dir(number)),
                at: TopicPartition::shared(Arc::clone(&self.name), id),
                topic: self.uuid,
                used: self.config.is_used(id),
            };
            let owner = Arc::clone(&self.config) as Arc<dyn Owner>;
            let home = Arc::clone(&self.home);
            Partition::open(place, home, owner, settings.clone(), report)
        };
        numbers.map(open).collect()
    }
}

impl Topic {
    /// The name of the topic.
    pub fn name(&self) -> &str {
        self.core.name()
    }

    /// Appends one record to the partition of its key; records without a key go to each partition in turn.
    ///
    /// # Errors
    ///
    /// As [`Partition::append`]; [`Error::InvalidSetting`] if the topic's partitioner is a function of the host that was not
    /// given when the log was opened.
    pub fn append<'a>(&self, record: impl Into<Record<'a>>) -> Result<Position> {
        let record = record.into();
        let router = &self.core.router;
        let count = self.core.partitions.count();
        let id = router.route(record.key(), count, || router.turn(count))?;
        self.core.routed(id).append(record)
    }

    /// Appends records, those for one partition as one atomic batch; positions in the order given. Records without a key
    /// stay together in one partition, a different one at each call. (A partitioner that ignores keys spreads all of them.)
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append), and [`Error::RecordTooLarge`] for a batch. A record that is too large, or lacks
    /// its key, refuses them all before anything is written. If it fails after the batches of other partitions were written,
    /// [`Error::Indeterminate`] without a partition says so, and its source which one failed: some of the records are there.
    pub fn append_all<'a, R: Into<Record<'a>>>(
        &self,
        records: impl IntoIterator<Item = R>,
    ) -> Result<Vec<Position>> {
        let router = &self.core.router;
        let now = self.core.now(); // once, and all records go by it
        let settings = &now.settings;
        let of = self.core.partitions.count(); // once: a topic that grows meanwhile does not part the records of one key
        let keyless = OnceCell::new();
        let mut parts: Vec<Part<'a>> = Vec::new();
        let mut count = 0;
        for record in records {
            let record = record.into();
            settings.check_record(&record, self.name())?;
            let id = router.route(record.key(), of, || {
                *keyless.get_or_init(|| router.turn(of))
            })?;
            let found = parts.binary_search_by_key(&id, |part| part.id);
            let at = found.unwrap_or_else(|at| {
                parts.insert(
                    at,
                    Part {
                        id,
                        places: Vec::new(),
                        records: Vec::new(),
                        bytes: 0,
                    },
                );
                at
            });
            parts[at].bytes += least_bytes(&record);
            settings.check_batch(parts[at].bytes)?;
            parts[at].places.push(count);
            parts[at].records.push(record);
            count += 1;
        }
        self.append_parts(settings, parts, count)
    }

    fn append_parts(
        &self,
        settings: &Settings,
        parts: Vec<Part<'_>>,
        count: usize,
    ) -> Result<Vec<Position>> {
        let mut positions: Vec<Option<Position>> = vec![None; count];
        let of = parts.len();
        for (done, part) in parts.into_iter().enumerate() {
            let partition = self.core.routed(part.id);
            let at = partition.topic_partition();
            let appended = partition.append_all_by(settings, part.records);
            let offsets = appended.map_err(|e| match done {
                0 => e,
                _ => partly(done, of, &at, e),
            })?;
            for (place, offset) in part.places.into_iter().zip(offsets.start.get()..) {
                positions[place] = Some(at.at(Offset::new(offset)));
            }
        }
        Ok(positions.into_iter().flatten().collect())
    }

    /// One partition, to look at or to write to.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if the topic has no such partition.
    pub fn partition(&self, id: impl Into<PartitionId>) -> Result<Partition> {
        let id = id.into();
        let found = self.core.partitions.get(id);
        found
            .map(|found| self.kept(found))
            .ok_or_else(|| Error::not_found("partition", &format!("{}-{id}", self.name())))
    }

    /// All partitions, from 0.
    pub fn partitions(&self) -> Vec<Partition> {
        let partitions = self.core.partitions.iter();
        partitions.map(|partition| self.kept(partition)).collect()
    }

    /// The partition of records with this key. (For a [`Partitioner`] that ignores keys, or a function of the host that was
    /// not given, the first.)
    pub fn partition_for(&self, key: &[u8]) -> PartitionId {
        let count = self.core.partitions.count();
        let of_key = self.core.router.of_key(key, count);
        of_key.unwrap_or(PartitionId::new(0))
    }

    /// What the topic is now.
    pub fn settings(&self) -> TopicSettings {
        (&self.core.description()).into()
    }

    /// Adds `count` partitions to those that the topic has, and **keys move**: a key's later records may go to another partition
    /// than its earlier ones. What was written stays where it is, so whoever reads may now meet a later record of a key before an
    /// earlier one.
    ///
    /// It is durable when this returns, at every level of durability, and every handle of the topic knows of it. An append that runs
    /// beside it goes by the old count or the new, all records of one call by the same. Partitions cannot be removed again, and
    /// [`topic_or_create`](crate::Log::topic_or_create) with the old count is from now on [`Error::ConfigMismatch`].
    /// (`count` is how many come in addition. Kafka's `NewPartitions.increaseTo` takes how many there are to be.)
    ///
    /// Members of groups share the new partitions from their next poll on, and read them from the first record, also where the
    /// group began at [`StartFrom::Latest`](crate::StartFrom::Latest). For a key to stay in order, let every group read to the end
    /// while nothing is appended, then add partitions, then go on. In a compacted topic, the last record that a key had in
    /// another partition is kept there beside the newer one.
    ///
    /// ```
    /// use thalweg::{Log, TopicConfig};
    ///
    /// let log = Log::in_memory();
    /// let orders = log.create_topic("orders", TopicConfig::new().partitions(2))?;
    /// let before = orders.append(("customer-1", "2 x espresso"))?;
    ///
    /// orders.add_partitions_breaking_key_order(3)?;
    ///
    /// assert_eq!(orders.settings().partitions, 5);
    /// let after = orders.append(("customer-1", "1 x tea"))?;
    /// assert_ne!(before.partition(), after.partition()); // of this key; others stay where they were
    /// assert_eq!(orders.partition(before.partition())?.offsets().end, before.offset().next());
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSetting`] for 0, or if the topic would have more partitions than one can be made with;
    /// [`Error::NotFound`] if it is deleted; [`Error::Closed`], [`Error::ReadOnly`]; [`Error::NoSpace`], [`Error::Io`] and the like:
    /// nothing was done; [`Error::Corruption`] if there are records where a new partition would be. After [`Error::Indeterminate`] the
    /// topic goes on with the partitions it had; when the log is opened again it has those, or the new ones too. Whoever calls
    /// again before that adds to those it had.
    pub fn add_partitions_breaking_key_order(&self, count: u32) -> Result<()> {
        self.open.add_partitions(&self.core, count)
    }

    /// Compacts every partition of the topic now, however little of it is new: of each key, only the latest record stays. What stands in
    /// the last segment of a partition stays as it is ([`Partition::roll`] ends that one), and so does what is younger than
    /// [`Compaction::min_lag`](crate::Compaction::min_lag).
    ///
    /// ```
    /// use thalweg::{Compaction, Log, TopicConfig};
    ///
    /// let log = Log::in_memory();
    /// let config = TopicConfig::new().compacted(Compaction::new());
    /// let prices = log.create_topic("prices", config)?;
    /// for (item, price) in [("tea", "3"), ("milk", "1"), ("tea", "4")] {
    ///     prices.append((item, price))?;
    /// }
    /// let partition = prices.partition(0)?;
    /// partition.roll()?;
    ///
    /// prices.compact()?;
    ///
    /// let left: Vec<_> = partition.entries(..).collect::<thalweg::Result<_>>()?;
    /// let left: Vec<_> = left.iter().map(|e| (e.offset().get(), e.key_str().unwrap(), e.value_str().unwrap())).collect();
    /// assert_eq!(left, [(1, "milk", "1"), (2, "tea", "4")]); // offsets stay as they were
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// It goes by the clock as it is: it does not hold tombstones back after a jump, as maintenance does.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSetting`] if the topic is not compacted; [`Error::Corruption`], [`Error::Incompatible`] if a record cannot be read:
    /// its partition then stays as it is; [`Error::NotFound`], [`Error::Closed`], [`Error::ReadOnly`], and those of the disk. The first
    /// that a partition gives; the others are compacted all the same.
    pub fn compact(&self) -> Result<MaintenanceReport> {
        self.open.compact(&self.core)
    }

    pub(crate) fn uuid(&self) -> u128 {
        self.core.uuid()
    }

    /// A handle that keeps the log open by itself.
    fn kept(&self, partition: &Partition) -> Partition {
        partition.keeping(Arc::clone(&self.open) as Arc<dyn Any + Send + Sync>)
    }
}

/// The records of one call that go to one partition.
struct Part<'a> {
    id: PartitionId,
    /// Which of the call's records these are.
    places: Vec<usize>,
    records: Vec<Record<'a>>,
    /// The batch has at least so many: records without end are stopped while they are collected.
    bytes: u64,
}

/// What a record takes in a batch at the very least.
fn least_bytes(record: &Record<'_>) -> u64 {
    let len = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len) as u64;
    1 + len(record.key()) + len(record.value())
}

/// An error for one partition's batch, after those of others were written.
fn partly(done: usize, of: usize, at: &TopicPartition, error: Error) -> Error {
    let partly = Partly {
        done,
        of,
        at: at.clone(),
        source: error,
    };
    Error::indeterminate(None, partly)
}

/// Why it is not known whether the records of a call are there.
#[derive(Debug, thiserror::Error)]
#[error("the records for {done} of {of} partitions were written, and then those for {at} failed")]
struct Partly {
    done: usize,
    of: usize,
    at: TopicPartition,
    source: Error,
}

/// How a custom partitioner of this name was given, if it is needed.
pub(super) fn custom_for(
    how: &Partitioner,
    given: &[(String, CustomPartitioner)],
) -> Option<CustomPartitioner> {
    let Partitioner::Custom(wanted) = how else {
        return None;
    };
    given
        .iter()
        .rev()
        .find(|(name, _)| name.as_str() == wanted)
        .map(|(_, f)| Arc::clone(f))
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topic")
            .field("name", &self.name())
            .field("partitions", &self.core.partitions.count())
            .finish_non_exhaustive()
    }
}
