//! What a history asks to be kept, and which records may be gone by that.

use std::time::Duration;

use thalweg::{Compaction, Durability, Retention, RetentionTime, TopicConfig};

use crate::common::{Dice, Rec};

/// The settings of the topic and of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) level: Durability,
    pub(crate) age: Option<Duration>,
    pub(crate) bytes: Option<u64>,
    pub(crate) by: RetentionTime,
    pub(crate) compacted: Option<Lags>,
    pub(crate) segment_bytes: u64,
    pub(crate) segment_age: Option<Duration>,
    /// For the keys of a round of compaction.
    pub(crate) memory: usize,
    pub(crate) mapped: bool,
}

/// The settings of compaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lags {
    pub(crate) ratio: f32,
    pub(crate) tombstones: Duration,
    pub(crate) min: Option<Duration>,
    pub(crate) max: Option<Duration>,
}

/// A record as it was written.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) rec: Rec,
    /// When it was appended, by the clock of the log.
    pub(crate) appended: i64,
}

impl Written {
    /// The time that it shows.
    pub(crate) fn shown(&self) -> i64 {
        self.rec.event_time.unwrap_or(self.appended)
    }
}

impl Rules {
    pub(crate) fn roll(dice: &mut Dice) -> Rules {
        let seconds = |n: u64| Duration::from_secs(n);
        let maybe = |dice: &mut Dice, n: u64| dice.once_in(2).then(|| seconds(1 + dice.below(n)));
        let time = seconds(1);
        let bytes = 1 + dice.below(2000);
        let levels = [
            Durability::Power,
            Durability::Process,
            Durability::Interval { time, bytes },
        ];
        let bys = [
            RetentionTime::Smaller,
            RetentionTime::RecordTime,
            RetentionTime::AppendTime,
        ];
        let compacted = (!dice.once_in(3)).then(|| {
            let min = maybe(dice, 10);
            let max = maybe(dice, 30).map(|max| max + min.unwrap_or_default());
            Lags {
                ratio: [0.0, 0.3, 0.5, 1.0][dice.below(4) as usize],
                tombstones: seconds([0, 5, 60, 86_400][dice.below(4) as usize]),
                min,
                max,
            }
        });
        Rules {
            level: levels[dice.below(3) as usize],
            age: maybe(dice, 60),
            bytes: dice.once_in(3).then(|| 500 + dice.below(8000)),
            by: bys[dice.below(3) as usize],
            compacted,
            segment_bytes: 400 + dice.below(2500),
            segment_age: maybe(dice, 20),
            memory: if dice.once_in(2) { 1 << 10 } else { 1 << 20 },
            mapped: dice.once_in(3),
        }
    }

    pub(crate) fn config(&self) -> TopicConfig {
        let mut keep = Retention::new();
        if let Some(age) = self.age {
            keep = keep.age(age);
        }
        if let Some(bytes) = self.bytes {
            keep = keep.bytes(bytes);
        }
        let mut config = TopicConfig::new()
            .durability(self.level)
            .retention(keep)
            .retention_time(self.by)
            .offset_span(10_000)
            .segment_bytes(self.segment_bytes);
        if let Some(age) = self.segment_age {
            config = config.segment_age(age);
        }
        if let Some(lags) = self.compacted {
            let mut how = Compaction::new()
                .min_dirty_ratio(lags.ratio)
                .tombstone_retention(lags.tombstones);
            if let Some(min) = lags.min {
                how = how.min_lag(min);
            }
            if let Some(max) = lags.max {
                how = how.max_lag(max);
            }
            config = config.compacted(how);
        }
        config
    }

    /// The time that retention goes by.
    pub(crate) fn time(&self, of: &Written) -> i64 {
        match self.by {
            RetentionTime::Smaller => of.shown().min(of.appended),
            RetentionTime::RecordTime => of.shown(),
            _ => of.appended,
        }
    }

    /// Is a record older than what is kept by age?
    pub(crate) fn is_old(&self, of: &Written, now: i64) -> bool {
        self.age
            .is_some_and(|age| self.time(of) < now - millis(age))
    }

    /// May a record that nothing took the place of be compacted away?
    pub(crate) fn may_end(&self, of: &Written, now: i64) -> bool {
        let Some(lags) = self.compacted else {
            return false;
        };
        of.rec.key.is_some()
            && of.rec.value.is_none()
            && of.appended + millis(lags.tombstones) < now
    }

    /// May a record take the place of earlier ones with its key?
    pub(crate) fn may_supersede(&self, later: &Written, now: i64) -> bool {
        let Some(lags) = self.compacted else {
            return false;
        };
        let min = lags.min.filter(|min| !min.is_zero());
        min.is_none_or(|min| self.time(later) < now - millis(min))
    }
}

pub(crate) fn millis(d: Duration) -> i64 {
    d.as_millis() as i64
}
