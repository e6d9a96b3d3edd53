//! How a partition behaves: the settings of its topic that concern it, with defaults and bounds.

use std::time::Duration;

use super::policy::{Compaction, Retention, RetentionTime};
use crate::entry::TimestampType;
use crate::error::{Error, Result};
use crate::format::batch::MAX_BATCH_BYTES;
use crate::format::compress::Codec;
use crate::format::encoder;
use crate::format::segment::SEGMENT_HEADER_LEN;
use crate::record::Record;

/// What `Ok` from an append means. Set per topic.
///
/// | Level | `Ok` means | survives panic, abort, kill -9 | survives power loss |
/// | --- | --- | --- | --- |
/// | `Process` | the operating system has the bytes | every acknowledged record | a prefix; no bound on the lost tail |
/// | `Interval` | as `Process`; a sync follows within `time` or `bytes` | every acknowledged record | a prefix; the lost tail is at most the last `time` (and one pass of syncs) or `bytes` |
/// | `Power` (default) | data synced, and every new directory entry up to the root | every acknowledged record | every acknowledged record |
///
/// Below `Power` an append waits now and then all the same: for a sync when 16 MiB are un-synced, and when a segment is full. If
/// that sync fails, the append is [`Error::Indeterminate`](crate::Error::Indeterminate) or
/// [`Error::Poisoned`](crate::Error::Poisoned), though its record may be seen already. The `time` of `Interval` is kept by the
/// log's thread: under [`Maintenance::Manual`](crate::Maintenance::Manual) it is as good as the host's calls of
/// [`Log::maintain`](crate::Log::maintain), and `bytes` is kept all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// The operating system has the bytes: they survive the process.
    Process,
    /// As `Process`, and a sync follows.
    Interval {
        /// Longest time from an append to the start of the sync that covers it.
        time: Duration,
        /// Bytes of one partition that may be un-synced, and what those who append just then add; 16 MiB at most.
        bytes: u64,
    },
    /// The bytes survive a power loss. The default.
    #[default]
    Power,
}

/// How record batches are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// As they are. The default.
    #[default]
    None,
    /// LZ4: fast, about half the size for text.
    #[cfg(feature = "lz4")]
    Lz4,
    /// Zstandard: smaller, slower to write.
    #[cfg(feature = "zstd")]
    Zstd,
}

impl Compression {
    pub(crate) fn codec(self) -> Codec {
        match self {
            Compression::None => Codec::None,
            #[cfg(feature = "lz4")]
            Compression::Lz4 => Codec::Lz4,
            #[cfg(feature = "zstd")]
            Compression::Zstd => Codec::Zstd,
        }
    }
}

/// What opening does with a tail that may be more than an interrupted write: whole valid record batches would go, or the bytes are
/// neither a batch cut short nor followed by a valid one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnSuspectTail {
    /// It is cut and kept aside, the report says so, and none of its offsets is used again. The default.
    #[default]
    Cut,
    /// The partition is damaged: it is read, and not written until it is repaired.
    Damaged,
}

/// The settings of a topic that its partitions work by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) durability: Durability,
    pub(crate) segment_bytes: u64,
    pub(crate) segment_age: Option<Duration>,
    pub(crate) offset_span: u32,
    pub(crate) index_interval: u32,
    pub(crate) max_record_bytes: u32,
    pub(crate) max_batch_bytes: u32,
    pub(crate) timestamps: TimestampType,
    /// How far an event time may lie before and after the clock.
    pub(crate) timestamp_limits: Option<(Duration, Duration)>,
    pub(crate) compression: Compression,
    pub(crate) retention: Retention,
    pub(crate) retention_time: RetentionTime,
    /// Only the latest record of each key is wanted.
    pub(crate) compaction: Option<Compaction>,
    /// Where a partition begins. Not zero only where a test looks at the end of all offsets.
    pub(crate) first_offset: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            durability: Durability::Power,
            segment_bytes: 64 << 20,
            segment_age: Some(Duration::from_secs(7 * 24 * 60 * 60)),
            offset_span: 1 << 24,
            index_interval: 4096,
            max_record_bytes: 1 << 20,
            max_batch_bytes: 8 << 20,
            timestamps: TimestampType::EventTime,
            timestamp_limits: None,
            compression: Compression::None,
            retention: Retention::default(),
            retention_time: RetentionTime::default(),
            compaction: None,
            first_offset: 0,
        }
    }
}

/// The largest segment: positions in an index are 32 bits wide.
pub(crate) const MAX_SEGMENT_BYTES: u64 = 1 << 31;

impl Settings {
    /// Refuses what cannot work, naming the setting.
    pub(crate) fn check(&self) -> Result<()> {
        let refuse = |setting, why: &str| Err(Error::invalid(setting, why));
        let smallest = SEGMENT_HEADER_LEN as u64 + 256;
        if !(smallest..=MAX_SEGMENT_BYTES).contains(&self.segment_bytes) {
            return refuse(
                "segment_bytes",
                &format!("must be from {smallest} bytes to {MAX_SEGMENT_BYTES}"),
            );
        }
        if self
            .segment_age
            .is_some_and(|age| age < Duration::from_millis(1))
        {
            return refuse("segment_age", "must be a millisecond or more");
        }
        if self.offset_span == 0 {
            return refuse("offset_span", "must be 1 or more");
        }
        if self.index_interval == 0 {
            return refuse("index_interval", "must be a byte or more");
        }
        if self.max_record_bytes == 0 || self.max_record_bytes > MAX_BATCH_BYTES / 2 {
            return refuse(
                "max_record_bytes",
                &format!("must be from 1 byte to {}", MAX_BATCH_BYTES / 2),
            );
        }
        if self.max_batch_bytes > MAX_BATCH_BYTES || self.max_batch_bytes < self.max_record_bytes {
            return refuse(
                "max_batch_bytes",
                &format!("must be from max_record_bytes to {MAX_BATCH_BYTES}"),
            );
        }
        if let Durability::Interval { time, bytes } = self.durability
            && (time.is_zero() || bytes == 0)
        {
            return refuse(
                "durability",
                "an interval needs a time and a number of bytes above zero",
            );
        }
        self.retention.check()?;
        self.compaction.map_or(Ok(()), Compaction::check)
    }

    /// How old a segment may become before the next one is begun: so that its records can be compacted in time, too.
    pub(crate) fn roll_age(&self) -> Option<Duration> {
        let lag = self.compaction.and_then(|compaction| compaction.max_lag);
        match (self.segment_age, lag) {
            (Some(age), Some(lag)) => Some(age.min(lag)),
            (age, lag) => age.or(lag),
        }
    }

    /// A record without a key is refused: nothing could ever take its place.
    #[inline]
    pub(crate) fn needs_keys(&self) -> bool {
        self.compaction.is_some()
    }

    pub(crate) fn below_power(&self) -> bool {
        self.durability != Durability::Power
    }

    /// What can be said of a record by itself: its size, and that it has a key where one is needed.
    #[inline]
    pub(crate) fn check_record(&self, record: &Record<'_>, topic: &str) -> Result<()> {
        let clear = encoder::is_surely_within(record, self.max_record_bytes) && !self.needs_keys();
        if clear {
            return Ok(());
        }
        self.check_closely(record, topic)
    }

    #[cold]
    fn check_closely(&self, record: &Record<'_>, topic: &str) -> Result<()> {
        within(
            encoder::size_of(record),
            self.max_record_bytes,
            "max_record_bytes",
        )?;
        if self.needs_keys() && record.key().is_none() {
            return Err(Error::KeyRequired {
                topic: topic.into(),
            });
        }
        Ok(())
    }

    /// May a batch have a body of so many bytes, uncompressed?
    #[inline]
    pub(crate) fn check_batch(&self, bytes: u64) -> Result<()> {
        within(bytes, self.max_batch_bytes, "max_batch_bytes")
    }
}

#[inline]
fn within(size: u64, limit: u32, setting: &'static str) -> Result<()> {
    let limit = u64::from(limit);
    if size > limit {
        return Err(Error::RecordTooLarge {
            size,
            limit,
            setting,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Spoil = fn(&mut Settings);

    #[test]
    fn the_defaults_pass_and_nonsense_names_its_setting() {
        Settings::default().check().unwrap();
        let cases: [(&str, Spoil); 7] = [
            ("segment_bytes", |s| s.segment_bytes = 0),
            ("segment_bytes", |s| s.segment_bytes = u64::MAX),
            ("segment_age", |s| s.segment_age = Some(Duration::ZERO)),
            ("offset_span", |s| s.offset_span = 0),
            ("index_interval", |s| s.index_interval = 0),
            ("max_record_bytes", |s| s.max_record_bytes = u32::MAX),
            ("max_batch_bytes", |s| s.max_batch_bytes = 1),
        ];
        for (setting, spoil) in cases {
            let mut settings = Settings::default();
            spoil(&mut settings);
            let said = settings.check().unwrap_err().to_string();
            assert!(said.contains(setting), "{said}");
        }
    }
}
