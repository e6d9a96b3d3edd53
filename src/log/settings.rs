//! What a topic should be, what it is, and that the two agree.

use std::time::Duration;

use super::routing::Partitioner;
use crate::entry::TimestampType;
use crate::error::{Error, Result};
use crate::partition::policy::{Compaction, Retention, RetentionTime};
use crate::partition::settings::{Compression, Durability, Settings};

/// A topic of more partitions is refused: each costs some memory, and a directory and a file once it is used.
pub(super) const MAX_PARTITIONS: u32 = 100_000;

/// What a topic should be. Settings count when the topic is made, where unset ones take the default, and in
/// [`Topic::alter`](crate::Topic::alter), where unset ones stay as they are. When it is opened it stays as it is stored; what was set
/// and must not differ in silence is then [`Error::ConfigMismatch`], see [`Log::topic_or_create`](crate::Log::topic_or_create).
///
/// ```
/// use thalweg::{Durability, Log, TopicConfig};
///
/// let log = Log::in_memory();
/// let clicks = TopicConfig::new().partitions(4).durability(Durability::Process);
/// let topic = log.topic_or_create("clicks", clicks)?;
/// assert_eq!(topic.settings().partitions, 4);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "it changes nothing before a topic is made with it"]
pub struct TopicConfig {
    partitions: Option<u32>,
    partitioner: Option<Partitioner>,
    durability: Option<Durability>,
    retention: Option<Retention>,
    compaction: Option<Compacting>,
    timestamps: Option<TimestampType>,
    retention_time: Option<RetentionTime>,
    timestamp_limits: Option<(Duration, Duration)>,
    compression: Option<Compression>,
    index_interval: Option<u32>,
    segment_bytes: Option<u64>,
    segment_age: Option<Duration>,
    offset_span: Option<u32>,
    max_record_bytes: Option<u32>,
    max_batch_bytes: Option<u32>,
    first_offset: u64,
}

/// What is wanted of compaction.
#[derive(Clone, Copy, Debug)]
enum Compacting {
    Off,
    On(Compaction),
}

impl TopicConfig {
    /// Every setting at its default.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many partitions, from 1 to 100,000. 1 unless set. More can be added later, which moves keys:
    /// [`Topic::add_partitions_breaking_key_order`](crate::Topic::add_partitions_breaking_key_order).
    pub fn partitions(mut self, n: u32) -> Self {
        self.partitions = Some(n);
        self
    }

    /// How a record finds its partition. [`Partitioner::Xxh3`] unless set.
    pub fn partitioner(mut self, how: Partitioner) -> Self {
        self.partitioner = Some(how);
        self
    }

    /// What `Ok` from an append means. [`Durability::Power`] unless set.
    pub fn durability(mut self, level: Durability) -> Self {
        self.durability = Some(level);
        self
    }

    /// How much is kept. Everything unless set.
    pub fn retention(mut self, keep: Retention) -> Self {
        self.retention = Some(keep);
        self
    }

    /// Keeps the latest record of each key; records without a key are refused. Not compacted unless set.
    pub fn compacted(mut self, how: Compaction) -> Self {
        self.compaction = Some(Compacting::On(how));
        self
    }

    /// Keeps every record, whatever its key, and takes those without: ends what [`compacted`](Self::compacted) began, when a topic is
    /// [altered](crate::Topic::alter). For a topic that is made it is the default.
    pub fn not_compacted(mut self) -> Self {
        self.compaction = Some(Compacting::Off);
        self
    }

    /// Which time a record shows. [`TimestampType::EventTime`] unless set.
    pub fn timestamps(mut self, of: TimestampType) -> Self {
        self.timestamps = Some(of);
        self
    }

    /// Which time the age of a record is counted from. [`RetentionTime::Smaller`] unless set.
    pub fn retention_time(mut self, from: RetentionTime) -> Self {
        self.retention_time = Some(from);
        self
    }

    /// How far an event time may lie before and after the clock of the log. Unlimited unless set, and with [`Duration::MAX`].
    pub fn timestamp_limits(mut self, before: Duration, after: Duration) -> Self {
        self.timestamp_limits = Some((before, after));
        self
    }

    /// How record batches are stored. [`Compression::None`] unless set.
    pub fn compression(mut self, how: Compression) -> Self {
        self.compression = Some(how);
        self
    }

    /// Bytes between two entries of a segment's index. 4096 unless set.
    pub fn index_interval(mut self, bytes: u32) -> Self {
        self.index_interval = Some(bytes);
        self
    }

    /// Size in bytes at which the next segment is begun: 384 bytes to 2 GiB. 64 MiB unless set.
    pub fn segment_bytes(mut self, n: u64) -> Self {
        self.segment_bytes = Some(n);
        self
    }

    /// Age at which the next segment is begun, by an append or by maintenance; counted from the first append to the present one, by
    /// the clock of the log; 1 ms or more. 7 days unless set, and never with [`Duration::MAX`].
    pub fn segment_age(mut self, age: Duration) -> Self {
        self.segment_age = Some(age);
        self
    }

    /// Offsets that one segment may cover, which bounds the gap that recovery may leave, and the records of one batch. 2²⁴ unless
    /// set.
    pub fn offset_span(mut self, n: u32) -> Self {
        self.offset_span = Some(n);
        self
    }

    /// Bytes that one record may have, counted as Kafka counts them: key, value and headers, and some 80 bytes beside them, so
    /// that what is accepted here fits a cluster with the same setting. 1 byte to 512 MiB; 1 MiB unless set.
    pub fn max_record_bytes(mut self, n: u32) -> Self {
        self.max_record_bytes = Some(n);
        self
    }

    /// Bytes that the records of one batch may have, before compression. From `max_record_bytes` to 1 GiB; 8 MiB unless set.
    pub fn max_batch_bytes(mut self, n: u32) -> Self {
        self.max_batch_bytes = Some(n);
        self
    }

    /// The first record of a partition gets this offset, behind a gap from zero: for tests at the end of all offsets. It is
    /// not stored, counts until a partition has its first record, and cannot be altered.
    #[cfg(feature = "testing")]
    pub fn first_offset(mut self, first: crate::offset::Offset) -> Self {
        self.first_offset = first.get();
        self
    }

    /// The description of a new topic.
    ///
    /// # Errors
    ///
    /// `InvalidSetting`, naming it.
    pub(super) fn resolve(self) -> Result<Description> {
        let default = Settings::default();
        let mut description = Description {
            partitions: self.partitions.unwrap_or(1),
            partitioner: self.partitioner.clone().unwrap_or_default(),
            settings: Settings {
                timestamps: self.timestamps.unwrap_or(default.timestamps),
                first_offset: self.first_offset,
                ..default
            },
        };
        self.put_into(&mut description.settings);
        description.check()?;
        Ok(description)
    }

    /// The description of a topic of which what is set here is changed.
    ///
    /// # Errors
    ///
    /// `ConfigMismatch` for what differs and cannot be changed; `InvalidSetting`, naming it.
    pub(super) fn applied_to(&self, name: &str, now: &Description) -> Result<Description> {
        self.same_routing(name, now)?;
        let stored = now.settings.timestamps;
        if self.timestamps.is_some_and(|wanted| wanted != stored) {
            return Err(mismatch(name, "timestamps", format!("{stored:?}")));
        }
        let mut changed = now.clone();
        self.put_into(&mut changed.settings);
        changed.check()?;
        Ok(changed)
    }

    /// What is set here of all that can be changed.
    fn put_into(&self, settings: &mut Settings) {
        put(&mut settings.durability, self.durability);
        put(&mut settings.segment_bytes, self.segment_bytes);
        put(&mut settings.offset_span, self.offset_span);
        put(&mut settings.index_interval, self.index_interval);
        put(&mut settings.max_record_bytes, self.max_record_bytes);
        put(&mut settings.max_batch_bytes, self.max_batch_bytes);
        put(&mut settings.compression, self.compression);
        put(&mut settings.retention, self.retention);
        put(&mut settings.retention_time, self.retention_time);
        settings.segment_age = self.segment_age.or(settings.segment_age);
        settings.timestamp_limits = self.timestamp_limits.or(settings.timestamp_limits);
        match self.compaction {
            None => {}
            Some(Compacting::Off) => settings.compaction = None,
            Some(Compacting::On(how)) => settings.compaction = Some(how),
        }
    }

    /// Does the stored topic agree with what was set and opening does not change, and is it as safe?
    ///
    /// # Errors
    ///
    /// `ConfigMismatch`, with the stored value.
    pub(super) fn agree(&self, name: &str, stored: &Description) -> Result<()> {
        self.same_routing(name, stored)?;
        let level = stored.settings.durability;
        match self.durability {
            Some(wanted) if is_below(level, wanted) => {
                Err(mismatch(name, "durability", format!("{level:?}")))
            }
            _ => Ok(()),
        }
    }

    /// What decides where records are.
    fn same_routing(&self, name: &str, stored: &Description) -> Result<()> {
        let count = stored.partitions;
        if self.partitions.is_some_and(|wanted| wanted != count) {
            return Err(mismatch(name, "partitions", count.to_string()));
        }
        match &self.partitioner {
            Some(wanted) if *wanted != stored.partitioner => {
                let stored = format!("{:?}", stored.partitioner);
                Err(mismatch(name, "partitioner", stored))
            }
            _ => Ok(()),
        }
    }
}

fn put<T>(setting: &mut T, wanted: Option<T>) {
    if let Some(wanted) = wanted {
        *setting = wanted;
    }
}

fn mismatch(topic: &str, setting: &'static str, stored: String) -> Error {
    Error::ConfigMismatch {
        topic: topic.into(),
        setting,
        stored: stored.into(),
    }
}

/// Does a level promise less than another? (Of two intervals, neither does: both lose a tail of a known size.)
fn is_below(level: Durability, wanted: Durability) -> bool {
    let rank = |level| match level {
        Durability::Process => 0,
        Durability::Interval { .. } => 1,
        Durability::Power => 2,
    };
    rank(level) < rank(wanted)
}

/// What a topic is: every setting has a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Description {
    pub(super) partitions: u32,
    pub(super) partitioner: Partitioner,
    pub(super) settings: Settings,
}

impl Description {
    pub(super) fn check(&self) -> Result<()> {
        if !(1..=MAX_PARTITIONS).contains(&self.partitions) {
            return Err(Error::invalid(
                "partitions",
                format!("must be from 1 to {MAX_PARTITIONS}"),
            ));
        }
        if self.partitioner == Partitioner::Custom("".into()) {
            return Err(Error::invalid(
                "partitioner",
                "a function of the host needs a name",
            ));
        }
        self.settings.check()
    }
}

/// What a topic is, as [`Topic::settings`](crate::Topic::settings) shows it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TopicSettings {
    /// How many there are.
    pub partitions: u32,
    /// How a record finds one of them.
    pub partitioner: Partitioner,
    /// What `Ok` from an append means.
    pub durability: Durability,
    /// How much is kept.
    pub retention: Retention,
    /// Which time of a record its age is counted from.
    pub retention_time: RetentionTime,
    /// Size in bytes at which the next segment is begun.
    pub segment_bytes: u64,
    /// Age at which the next segment is begun. `None`: it has no limit.
    pub segment_age: Option<Duration>,
    /// How many offsets one segment may span.
    pub offset_span: u32,
    /// Bytes of a segment from one entry of its index to the next.
    pub index_interval: u32,
    /// Bytes that one record may have.
    pub max_record_bytes: u32,
    /// Bytes that the records of one batch may have.
    pub max_batch_bytes: u32,
    /// Which time a record shows.
    pub timestamps: TimestampType,
    /// How far an event time may lie before and after the clock. `None`: anywhere.
    pub timestamp_limits: Option<(Duration, Duration)>,
    /// How record batches are stored.
    pub compression: Compression,
    /// Is only the latest record of each key wanted?
    pub compaction: Option<Compaction>,
}

impl From<&Description> for TopicSettings {
    fn from(description: &Description) -> Self {
        TopicSettings {
            partitions: description.partitions,
            partitioner: description.partitioner.clone(),
            durability: description.settings.durability,
            retention: description.settings.retention,
            retention_time: description.settings.retention_time,
            segment_bytes: description.settings.segment_bytes,
            segment_age: description
                .settings
                .segment_age
                .filter(|age| *age != Duration::MAX),
            offset_span: description.settings.offset_span,
            index_interval: description.settings.index_interval,
            max_record_bytes: description.settings.max_record_bytes,
            max_batch_bytes: description.settings.max_batch_bytes,
            timestamps: description.settings.timestamps,
            timestamp_limits: description.settings.timestamp_limits,
            compression: description.settings.compression,
            compaction: description.settings.compaction,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(config: TopicConfig) -> &'static str {
        match config.resolve() {
            Err(Error::InvalidSetting { setting, .. }) => setting,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nonsense_is_refused_with_the_name_of_the_setting() {
        let new = TopicConfig::new;
        assert_eq!(refused(new().partitions(0)), "partitions");
        assert_eq!(refused(new().partitions(1_000_000)), "partitions");
        assert_eq!(
            refused(new().partitioner(Partitioner::Custom("".into()))),
            "partitioner"
        );
        assert_eq!(
            refused(new().retention(Retention::new().bytes(0))),
            "retention"
        );
        assert_eq!(refused(new().segment_bytes(u64::MAX)), "segment_bytes");
        assert_eq!(refused(new().offset_span(0)), "offset_span");
        let interval = Durability::Interval {
            time: Duration::ZERO,
            bytes: 1,
        };
        assert_eq!(refused(new().durability(interval)), "durability");
    }

    #[test]
    fn what_is_unset_never_conflicts() {
        let stored = TopicConfig::new()
            .partitions(4)
            .partitioner(Partitioner::Kafka)
            .resolve()
            .unwrap();
        TopicConfig::new()
            .segment_bytes(1 << 20)
            .agree("t", &stored)
            .unwrap();
        TopicConfig::new()
            .partitions(4)
            .agree("t", &stored)
            .unwrap();
    }

    #[test]
    fn what_differs_and_cannot_change_is_named_with_its_stored_value() {
        let stored = TopicConfig::new().partitions(4).resolve().unwrap();
        let error = TopicConfig::new()
            .partitions(5)
            .agree("orders", &stored)
            .unwrap_err();
        assert!(
            matches!(&error, Error::ConfigMismatch { setting: "partitions", stored, .. } if &**stored == "4")
        );
        let error = TopicConfig::new()
            .partitioner(Partitioner::Kafka)
            .agree("orders", &stored);
        assert!(matches!(
            error,
            Err(Error::ConfigMismatch {
                setting: "partitioner",
                ..
            })
        ));
    }

    #[test]
    fn what_is_set_is_changed_and_the_rest_stays() {
        let stored = TopicConfig::new()
            .partitions(4)
            .retention_time(RetentionTime::AppendTime)
            .compacted(Compaction::new())
            .segment_age(Duration::from_secs(1))
            .resolve()
            .unwrap();
        let changed = |changes: TopicConfig| changes.applied_to("t", &stored).unwrap();
        assert_eq!(changed(TopicConfig::new()), stored);
        let mut wanted = stored.clone();
        wanted.settings.retention_time = RetentionTime::RecordTime;
        wanted.settings.compaction = None;
        wanted.settings.timestamp_limits = Some((Duration::ZERO, Duration::MAX));
        let changes = TopicConfig::new()
            .retention_time(RetentionTime::RecordTime)
            .not_compacted()
            .timestamp_limits(Duration::ZERO, Duration::MAX);
        assert_eq!(changed(changes), wanted);
    }

    #[test]
    fn a_compacted_topic_wants_keys() {
        assert!(
            TopicConfig::new()
                .compacted(Compaction::new())
                .resolve()
                .unwrap()
                .settings
                .needs_keys()
        );
        assert!(!TopicConfig::new().resolve().unwrap().settings.needs_keys());
    }
}
