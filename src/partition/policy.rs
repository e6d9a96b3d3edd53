//! What of a partition is kept, and how the rest goes: limits of age and size, and the latest record of each key.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::format::accumulator::Accumulator;

/// How much of a topic is kept, for each partition. Unlimited where nothing is set.
///
/// Whole segments go, the oldest first, and nothing but them: a record may outlive its age by the time its segment spans. The log is
/// never cut below the size. Both are kept by maintenance: see [`Log::maintain`](crate::Log::maintain).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    pub(crate) age: Option<Duration>,
    pub(crate) bytes: Option<u64>,
}

impl Retention {
    /// Keeps everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Segments whose records are all older than this may go. The last one is a segment too: so set
    /// [`segment_age`](crate::TopicConfig::segment_age) to a part of it.
    #[must_use = "the retention that is returned has the setting"]
    pub fn age(mut self, age: Duration) -> Self {
        self.age = Some(age);
        self
    }

    /// The oldest segments may go while the partition stays above this many bytes without them. So it takes up to
    /// [`segment_bytes`](crate::TopicConfig::segment_bytes) more.
    #[must_use = "the retention that is returned has the setting"]
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Is everything kept?
    pub(crate) fn is_unlimited(self) -> bool {
        self == Retention::default()
    }

    pub(crate) fn check(self) -> Result<()> {
        if self.age.is_some_and(|age| age.is_zero()) {
            return Err(Error::invalid(
                "retention",
                "an age of zero would keep nothing",
            ));
        }
        if self.bytes == Some(0) {
            return Err(Error::invalid("retention", "zero bytes would keep nothing"));
        }
        Ok(())
    }
}

/// Which time of a record its age is counted from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetentionTime {
    /// The smaller of event time and append time, so that a time in the future pins nothing. The default.
    #[default]
    Smaller,
    /// The event time.
    RecordTime,
    /// The append time.
    AppendTime,
}

impl RetentionTime {
    /// The time of the newest record of a segment whose batches add up so; `None` if it holds none.
    pub(crate) fn newest(self, of: &Accumulator) -> Option<Timestamp> {
        let newest = match self {
            RetentionTime::Smaller => of.max_smaller,
            RetentionTime::RecordTime => of.max_event,
            RetentionTime::AppendTime => of.last_append,
        };
        (of.records > 0).then(|| Timestamp::from_millis(newest))
    }
}

/// That a topic keeps the latest record of each key, and how eagerly. Its records need keys.
///
/// The last segment of a partition is never compacted: see [`Partition::roll`](crate::Partition::roll). It is done by maintenance, and
/// by [`Topic::compact`](crate::Topic::compact).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Compaction {
    pub(crate) min_dirty_ratio: Option<f32>,
    pub(crate) tombstone_retention: Option<Duration>,
    pub(crate) min_lag: Option<Duration>,
    pub(crate) max_lag: Option<Duration>,
}

impl Compaction {
    /// With the defaults of Kafka: half dirty, tombstones for a day, no lag.
    pub fn new() -> Self {
        Self::default()
    }

    /// The part of a partition, from 0 to 1, that must be new before it is compacted. 0.5 unless set.
    #[must_use = "the compaction that is returned has the setting"]
    pub fn min_dirty_ratio(mut self, ratio: f32) -> Self {
        self.min_dirty_ratio = Some(ratio);
        self
    }

    /// How long a tombstone is kept after the records that it deletes went. A day unless set.
    #[must_use = "the compaction that is returned has the setting"]
    pub fn tombstone_retention(mut self, time: Duration) -> Self {
        self.tombstone_retention = Some(time);
        self
    }

    /// Segments with a record younger than this are not compacted, nor those behind them. Zero unless set. The time that counts is the topic's
    /// [`retention_time`](crate::TopicConfig::retention_time): who appends records with old event times sets
    /// [`RetentionTime::AppendTime`].
    #[must_use = "the compaction that is returned has the setting"]
    pub fn min_lag(mut self, lag: Duration) -> Self {
        self.min_lag = Some(lag);
        self
    }

    /// Records that were appended longer ago than this are compacted however little is dirty; so that they can be, no segment becomes older. A millisecond or
    /// more; unlimited unless set.
    #[must_use = "the compaction that is returned has the setting"]
    pub fn max_lag(mut self, lag: Duration) -> Self {
        self.max_lag = Some(lag);
        self
    }

    pub(crate) fn dirty_ratio(&self) -> f32 {
        self.min_dirty_ratio.unwrap_or(0.5)
    }

    pub(crate) fn tombstones(&self) -> Duration {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        self.tombstone_retention.unwrap_or(DAY)
    }

    pub(crate) fn check(self) -> Result<()> {
        if let Some(ratio) = self
            .min_dirty_ratio
            .filter(|ratio| !(0.0..=1.0).contains(ratio))
        {
            return Err(Error::invalid(
                "min_dirty_ratio",
                format!("{ratio} is not from 0 to 1"),
            ));
        }
        if self
            .max_lag
            .is_some_and(|lag| lag < Duration::from_millis(1))
        {
            return Err(Error::invalid("max_lag", "must be a millisecond or more"));
        }
        let crossed = self
            .max_lag
            .is_some_and(|max| max < self.min_lag.unwrap_or_default());
        if crossed {
            return Err(Error::invalid("max_lag", "it is below `min_lag`"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(result: Result<()>) -> Option<&'static str> {
        match result {
            Err(Error::InvalidSetting { setting, .. }) => Some(setting),
            Err(other) => panic!("{other}"),
            Ok(()) => None,
        }
    }

    #[test]
    fn a_retention_that_keeps_nothing_is_refused() {
        assert_eq!(
            setting(Retention::new().age(Duration::ZERO).check()),
            Some("retention")
        );
        assert_eq!(
            setting(Retention::new().bytes(0).check()),
            Some("retention")
        );
        assert_eq!(
            setting(Retention::new().age(Duration::MAX).bytes(u64::MAX).check()),
            None
        );
    }

    #[test]
    fn a_ratio_is_a_number_from_zero_to_one() {
        for ratio in [-0.1, 1.1, f32::NAN, f32::INFINITY] {
            assert_eq!(
                setting(Compaction::new().min_dirty_ratio(ratio).check()),
                Some("min_dirty_ratio")
            );
        }
        for ratio in [0.0, 0.5, 1.0] {
            assert_eq!(
                setting(Compaction::new().min_dirty_ratio(ratio).check()),
                None
            );
        }
    }

    #[test]
    fn the_greatest_lag_is_not_below_the_least() {
        let second = Duration::from_secs(1);
        let crossed = Compaction::new().min_lag(second).max_lag(second / 2);
        assert_eq!(setting(crossed.check()), Some("max_lag"));
        assert_eq!(
            setting(Compaction::new().min_lag(second).max_lag(second).check()),
            None
        );
    }
}
