//! A topic's settings as its `config` file stores them, and back.

use std::path::Path;

use super::routing::Partitioner;
use super::settings::Description;
use crate::entry::TimestampType;
use crate::error::{Error, Result};
use crate::format::compress::Codec;
use crate::format::topic::{AgeBy, CompactionFields, Epoch, Level, Routing, TopicDescription};
use crate::partition::policy::{Compaction, Retention, RetentionTime};
use crate::partition::settings::{Compression, Durability, Settings};

/// What is stored for a new topic: no partition is used yet, and it has one epoch.
pub(super) fn stored(name: &str, topic: u128, description: &Description) -> TopicDescription {
    let routing = routing(&description.partitioner);
    let mut stored = TopicDescription {
        name: name.to_owned(),
        topic,
        partitions: description.partitions,
        partitioner: routing.clone(),
        used: vec![false; description.partitions as usize],
        epochs: vec![Epoch::first(description.partitions, routing)],
        ..TopicDescription::default()
    };
    put_settings(&description.settings, &mut stored);
    stored
}

/// Changes the settings in what is stored, and nothing beside them.
pub(super) fn put_settings(settings: &Settings, stored: &mut TopicDescription) {
    stored.durability = match settings.durability {
        Durability::Process => Level::Process,
        Durability::Interval { time, bytes } => Level::Interval { time, bytes },
        Durability::Power => Level::Power,
    };
    stored.retention_age = settings.retention.age;
    stored.retention_bytes = settings.retention.bytes;
    stored.compaction = settings.compaction.map(|compaction| CompactionFields {
        min_dirty_ratio: compaction.min_dirty_ratio,
        tombstone_retention: compaction.tombstone_retention,
        min_lag: compaction.min_lag,
        max_lag: compaction.max_lag,
    });
    stored.append_time = settings.timestamps == TimestampType::AppendTime;
    stored.retention_time = match settings.retention_time {
        RetentionTime::Smaller => AgeBy::Smaller,
        RetentionTime::RecordTime => AgeBy::RecordTime,
        RetentionTime::AppendTime => AgeBy::AppendTime,
    };
    stored.timestamp_limits = settings.timestamp_limits;
    stored.compression = settings.compression.codec();
    stored.index_interval_bytes = settings.index_interval;
    stored.segment_bytes = settings.segment_bytes;
    stored.segment_age = settings.segment_age;
    stored.offset_span = settings.offset_span;
    stored.max_record_bytes = settings.max_record_bytes;
    stored.max_batch_bytes = settings.max_batch_bytes;
}

/// What the stored topic is.
///
/// # Errors
///
/// `Corruption` for values that no topic can have, `Incompatible` for those of a newer version or a feature that is not
/// compiled in. `file` is the config.
pub(super) fn read(stored: &TopicDescription, file: &Path) -> Result<Description> {
    let description = Description {
        partitions: stored.partitions,
        partitioner: partitioner(&stored.partitioner),
        settings: Settings {
            durability: match stored.durability {
                Level::Process => Durability::Process,
                Level::Interval { time, bytes } => Durability::Interval { time, bytes },
                Level::Power => Durability::Power,
            },
            segment_bytes: stored.segment_bytes,
            segment_age: stored.segment_age,
            offset_span: stored.offset_span,
            index_interval: stored.index_interval_bytes,
            max_record_bytes: stored.max_record_bytes,
            max_batch_bytes: stored.max_batch_bytes,
            timestamps: if stored.append_time {
                TimestampType::AppendTime
            } else {
                TimestampType::EventTime
            },
            timestamp_limits: stored.timestamp_limits,
            compression: compression(stored.compression, file)?,
            retention: Retention {
                age: stored.retention_age,
                bytes: stored.retention_bytes,
            },
            retention_time: match stored.retention_time {
                AgeBy::Smaller => RetentionTime::Smaller,
                AgeBy::RecordTime => RetentionTime::RecordTime,
                AgeBy::AppendTime => RetentionTime::AppendTime,
            },
            compaction: stored.compaction.map(|fields| Compaction {
                min_dirty_ratio: fields.min_dirty_ratio,
                tombstone_retention: fields.tombstone_retention,
                min_lag: fields.min_lag,
                max_lag: fields.max_lag,
            }),
            first_offset: 0,
        },
    };
    description
        .check()
        .map_err(|_| Error::corruption(file, 0, None))?;
    Ok(description)
}

fn routing(partitioner: &Partitioner) -> Routing {
    match partitioner {
        Partitioner::Xxh3 => Routing::Xxh3,
        Partitioner::Kafka => Routing::Kafka,
        Partitioner::RoundRobin => Routing::RoundRobin,
        Partitioner::Custom(name) => Routing::Custom(name.to_string()),
    }
}

fn partitioner(routing: &Routing) -> Partitioner {
    match routing {
        Routing::Xxh3 => Partitioner::Xxh3,
        Routing::Kafka => Partitioner::Kafka,
        Routing::RoundRobin => Partitioner::RoundRobin,
        Routing::Custom(name) => Partitioner::Custom(name.clone().into()),
    }
}

/// The codecs that are compiled in.
const COMPILED: &[Compression] = &[
    Compression::None,
    #[cfg(feature = "lz4")]
    Compression::Lz4,
    #[cfg(feature = "zstd")]
    Compression::Zstd,
];

/// Whether the codec is compiled in is known here, so that a topic is refused whole and not record by record.
fn compression(codec: Codec, file: &Path) -> Result<Compression> {
    let compiled = COMPILED
        .iter()
        .find(|compression| compression.codec() == codec);
    compiled
        .copied()
        .ok_or_else(|| Error::incompatible(file, codec.id().into(), 0))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::settings::TopicConfig;
    use super::*;

    #[test]
    fn every_setting_comes_back_as_it_was() {
        let config = TopicConfig::new()
            .partitions(3)
            .partitioner(Partitioner::Custom("crc-v1".into()))
            .durability(Durability::Interval {
                time: Duration::from_secs(1),
                bytes: 9,
            })
            .retention(Retention::new().age(Duration::from_secs(60)).bytes(1 << 30))
            .compacted(
                Compaction::new()
                    .min_dirty_ratio(0.25)
                    .max_lag(Duration::from_secs(9)),
            )
            .timestamps(TimestampType::AppendTime)
            .retention_time(RetentionTime::RecordTime)
            .timestamp_limits(Duration::from_secs(1), Duration::from_secs(2))
            .index_interval(512)
            .segment_bytes(1 << 20)
            .segment_age(Duration::from_secs(3))
            .offset_span(1000)
            .max_record_bytes(1000)
            .max_batch_bytes(2000);
        let description = config.resolve().unwrap();
        let bytes = stored("orders", 7, &description).encode();
        let decoded = TopicDescription::decode(&bytes).unwrap();
        assert_eq!(read(&decoded, Path::new("config")).unwrap(), description);
        assert_eq!(
            (decoded.name.as_str(), decoded.topic, decoded.used),
            ("orders", 7, vec![false; 3])
        );
    }

    #[test]
    fn what_is_stored_beside_the_settings_stays_when_they_change() {
        let new = TopicConfig::new().partitions(3).resolve().unwrap();
        let mut before = stored("orders", 7, &new);
        before.used[1] = true;
        before.keyed = true;
        before.add_partitions(2);
        let mut changed = before.clone();
        let other = TopicConfig::new().retention_time(RetentionTime::AppendTime);
        put_settings(&other.resolve().unwrap().settings, &mut changed);
        assert_eq!(changed.retention_time, AgeBy::AppendTime);
        changed.retention_time = before.retention_time;
        assert_eq!(changed, before);
    }

    #[test]
    fn a_stored_value_that_cannot_be_is_corruption() {
        let mut stored = stored("orders", 7, &TopicConfig::new().resolve().unwrap());
        stored.offset_span = 0;
        assert!(
            read(&stored, Path::new("config"))
                .unwrap_err()
                .is_corruption()
        );
    }
}
