//! What a topic's `config` file says: its name, its settings, and which of its partitions were ever written.

use super::Bad;
use super::compress::{Codec, LAST_CODEC};
pub(crate) use super::epoch::{Epoch, Routing};
use super::epoch::{decode_epochs, encode_epochs};
use super::tlv::{self, Width, whole};
use super::wire::{Reader, put_u32, put_u64};
use std::time::Duration;

const NAME: u8 = 1;
const UUID: u8 = 2;
const PARTITIONS: u8 = 3;
const PARTITIONER: u8 = 4;
const DURABILITY: u8 = 5;
const RETENTION_AGE: u8 = 6;
const RETENTION_BYTES: u8 = 7;
const COMPACTION: u8 = 8;
const TIMESTAMPS: u8 = 9;
const RETENTION_TIME: u8 = 10;
const TIMESTAMP_LIMITS: u8 = 11;
const COMPRESSION: u8 = 12;
const INDEX_INTERVAL: u8 = 13;
const SEGMENT_BYTES: u8 = 14;
const SEGMENT_AGE: u8 = 15;
const OFFSET_SPAN: u8 = 16;
const MAX_RECORD_BYTES: u8 = 17;
const MAX_BATCH_BYTES: u8 = 18;
const KEY_INDEX: u8 = 19;
const KEYED: u8 = 20;
const USED: u8 = 21;
const EPOCHS: u8 = 22;
const LAST_FIELD: u8 = EPOCHS;

/// Fields that may be absent; all others must be there.
const MAY_BE_ABSENT: [u8; 5] = [
    RETENTION_AGE,
    RETENTION_BYTES,
    COMPACTION,
    TIMESTAMP_LIMITS,
    SEGMENT_AGE,
];

/// What an acknowledgement means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Level {
    Process,
    Interval {
        time: Duration,
        bytes: u64,
    },
    #[default]
    Power,
}

/// Which time of its records a segment ages by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AgeBy {
    #[default]
    Smaller,
    RecordTime,
    AppendTime,
}

/// Settings of compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CompactionFields {
    /// From 0 to 1.
    pub(crate) min_dirty_ratio: Option<f32>,
    pub(crate) tombstone_retention: Option<Duration>,
    pub(crate) min_lag: Option<Duration>,
    pub(crate) max_lag: Option<Duration>,
}

/// The payload of `config`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TopicDescription {
    pub(crate) name: String,
    pub(crate) topic: u128,
    pub(crate) partitions: u32,
    pub(crate) partitioner: Routing,
    pub(crate) durability: Level,
    pub(crate) retention_age: Option<Duration>,
    pub(crate) retention_bytes: Option<u64>,
    pub(crate) compaction: Option<CompactionFields>,
    /// Records get their append time, whatever event time they carry.
    pub(crate) append_time: bool,
    pub(crate) retention_time: AgeBy,
    /// How far before and after the clock an event time may be.
    pub(crate) timestamp_limits: Option<(Duration, Duration)>,
    pub(crate) compression: Codec,
    pub(crate) index_interval_bytes: u32,
    pub(crate) segment_bytes: u64,
    pub(crate) segment_age: Option<Duration>,
    pub(crate) offset_span: u32,
    pub(crate) max_record_bytes: u32,
    pub(crate) max_batch_bytes: u32,
    pub(crate) key_index: bool,
    /// A record with a key was appended: from then on the partitioner matters.
    pub(crate) keyed: bool,
    /// Of each partition: its directory was made.
    pub(crate) used: Vec<bool>,
    /// One at first; another for each ordered growth.
    pub(crate) epochs: Vec<Epoch>,
}

impl TopicDescription {
    /// Adds partitions to the present epoch: nothing orders them behind those that were there.
    pub(crate) fn add_partitions(&mut self, count: u32) {
        let ids = self.partitions..self.partitions.saturating_add(count);
        self.partitions = ids.end;
        self.used.resize(ids.end as usize, false);
        if let Some(epoch) = self.epochs.last_mut() {
            epoch.add(ids);
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        tlv::put_wide(&mut out, NAME, self.name.as_bytes());
        tlv::put_wide(&mut out, UUID, &self.topic.to_le_bytes());
        tlv::put_wide(&mut out, PARTITIONS, &self.partitions.to_le_bytes());
        tlv::put_wide(&mut out, PARTITIONER, &self.partitioner.encode());
        tlv::put_wide(&mut out, DURABILITY, &encode_level(self.durability));
        self.put_retention(&mut out);
        tlv::put_wide(&mut out, COMPRESSION, &[self.compression.id()]);
        tlv::put_wide(
            &mut out,
            INDEX_INTERVAL,
            &self.index_interval_bytes.to_le_bytes(),
        );
        tlv::put_wide(&mut out, SEGMENT_BYTES, &self.segment_bytes.to_le_bytes());
        if let Some(age) = self.segment_age {
            tlv::put_wide(&mut out, SEGMENT_AGE, &encode_duration(age));
        }
        tlv::put_wide(&mut out, OFFSET_SPAN, &self.offset_span.to_le_bytes());
        tlv::put_wide(
            &mut out,
            MAX_RECORD_BYTES,
            &self.max_record_bytes.to_le_bytes(),
        );
        tlv::put_wide(
            &mut out,
            MAX_BATCH_BYTES,
            &self.max_batch_bytes.to_le_bytes(),
        );
        tlv::put_wide(&mut out, KEY_INDEX, &[self.key_index.into()]);
        tlv::put_wide(&mut out, KEYED, &[self.keyed.into()]);
        tlv::put_wide(&mut out, USED, &encode_bits(&self.used));
        tlv::put_wide(&mut out, EPOCHS, &encode_epochs(&self.epochs));
        out
    }

    /// The fields from [`RETENTION_AGE`] to [`TIMESTAMP_LIMITS`].
    fn put_retention(&self, out: &mut Vec<u8>) {
        if let Some(age) = self.retention_age {
            tlv::put_wide(out, RETENTION_AGE, &encode_duration(age));
        }
        if let Some(bytes) = self.retention_bytes {
            tlv::put_wide(out, RETENTION_BYTES, &bytes.to_le_bytes());
        }
        if let Some(compaction) = &self.compaction {
            tlv::put_wide(out, COMPACTION, &encode_compaction(compaction));
        }
        tlv::put_wide(out, TIMESTAMPS, &[self.append_time.into()]);
        tlv::put_wide(out, RETENTION_TIME, &[age_by_id(self.retention_time)]);
        if let Some((before, after)) = self.timestamp_limits {
            let mut field = encode_duration(before);
            field.extend_from_slice(&encode_duration(after));
            tlv::put_wide(out, TIMESTAMP_LIMITS, &field);
        }
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<TopicDescription, Bad> {
        let mut found = TopicDescription::default();
        let mut seen = 0_u64;
        let mut used: &[u8] = &[];
        tlv::walk(payload, Width::Four, |kind, field| {
            if kind == USED {
                used = field;
            } else {
                found.take_field(kind, field)?;
            }
            seen |= 1_u64.checked_shl(kind.into()).unwrap_or(0);
            Ok(())
        })?;
        let needed = |kind: &u8| !MAY_BE_ABSENT.contains(kind);
        let complete = (NAME..=LAST_FIELD)
            .filter(needed)
            .all(|kind| seen & 1_u64.checked_shl(kind.into()).unwrap_or(0) != 0);
        if !complete {
            return Err(Bad::Corrupt);
        }
        found.used = decode_bits(used, found.partitions).ok_or(Bad::Corrupt)?;
        Ok(found)
    }

    fn take_field(&mut self, kind: u8, field: &[u8]) -> Result<(), Bad> {
        match kind {
            NAME => self.name = whole(field, read_name)?,
            UUID => self.topic = whole(field, Reader::u128)?,
            PARTITIONS => self.partitions = whole(field, Reader::u32)?,
            PARTITIONER => self.partitioner = Routing::decode(field)?,
            DURABILITY => self.durability = decode_level(field)?,
            RETENTION_AGE => self.retention_age = Some(whole(field, read_duration)?),
            RETENTION_BYTES => self.retention_bytes = Some(whole(field, Reader::u64)?),
            COMPACTION => self.compaction = Some(whole(field, read_compaction)?),
            TIMESTAMPS => self.append_time = whole(field, read_bool)?,
            RETENTION_TIME => self.retention_time = decode_age_by(whole(field, Reader::u8)?)?,
            TIMESTAMP_LIMITS => {
                let both = |reader: &mut Reader<'_>| {
                    Some((read_duration(reader)?, read_duration(reader)?))
                };
                self.timestamp_limits = Some(whole(field, both)?);
            }
            COMPRESSION => self.compression = decode_codec(whole(field, Reader::u8)?)?,
            INDEX_INTERVAL => self.index_interval_bytes = whole(field, Reader::u32)?,
            SEGMENT_BYTES => self.segment_bytes = whole(field, Reader::u64)?,
            SEGMENT_AGE => self.segment_age = Some(whole(field, read_duration)?),
            OFFSET_SPAN => self.offset_span = whole(field, Reader::u32)?,
            MAX_RECORD_BYTES => self.max_record_bytes = whole(field, Reader::u32)?,
            MAX_BATCH_BYTES => self.max_batch_bytes = whole(field, Reader::u32)?,
            KEY_INDEX => self.key_index = whole(field, read_bool)?,
            KEYED => self.keyed = whole(field, read_bool)?,
            EPOCHS => self.epochs = decode_epochs(field)?,
            other => tlv::unknown(other, LAST_FIELD)?,
        }
        Ok(())
    }
}

fn encode_duration(duration: Duration) -> Vec<u8> {
    let mut out = Vec::with_capacity(12);
    put_u64(&mut out, duration.as_secs());
    put_u32(&mut out, duration.subsec_nanos());
    out
}

fn read_duration(reader: &mut Reader<'_>) -> Option<Duration> {
    let (secs, nanos) = (reader.u64()?, reader.u32()?);
    (nanos < 1_000_000_000).then(|| Duration::new(secs, nanos))
}

fn read_name(reader: &mut Reader<'_>) -> Option<String> {
    let bytes = reader.take(reader.rest().len())?;
    String::from_utf8(bytes.to_vec()).ok()
}

fn read_bool(reader: &mut Reader<'_>) -> Option<bool> {
    match reader.u8()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

const PROCESS: u8 = 1;
const INTERVAL: u8 = 2;
const POWER: u8 = 3;

fn encode_level(level: Level) -> Vec<u8> {
    match level {
        Level::Process => vec![PROCESS],
        Level::Interval { time, bytes } => {
            let mut out = vec![INTERVAL];
            out.extend_from_slice(&encode_duration(time));
            put_u64(&mut out, bytes);
            out
        }
        Level::Power => vec![POWER],
    }
}

fn decode_level(field: &[u8]) -> Result<Level, Bad> {
    let mut reader = Reader::new(field);
    let level = match reader.u8().ok_or(Bad::Corrupt)? {
        PROCESS => Level::Process,
        INTERVAL => {
            let time = read_duration(&mut reader).ok_or(Bad::Corrupt)?;
            Level::Interval {
                time,
                bytes: reader.u64().ok_or(Bad::Corrupt)?,
            }
        }
        POWER => Level::Power,
        other => return Err(newer(other, POWER)),
    };
    reader.end().ok_or(Bad::Corrupt)?;
    Ok(level)
}

fn age_by_id(age_by: AgeBy) -> u8 {
    match age_by {
        AgeBy::Smaller => 1,
        AgeBy::RecordTime => 2,
        AgeBy::AppendTime => 3,
    }
}

fn decode_age_by(id: u8) -> Result<AgeBy, Bad> {
    match id {
        1 => Ok(AgeBy::Smaller),
        2 => Ok(AgeBy::RecordTime),
        3 => Ok(AgeBy::AppendTime),
        other => Err(newer(other, 3)),
    }
}

fn decode_codec(id: u8) -> Result<Codec, Bad> {
    Codec::from_id(id).ok_or(Bad::Newer {
        found: id.into(),
        supported: LAST_CODEC.into(),
    })
}

/// Zero is no value of any choice, so that zeros never decode.
fn newer(found: u8, supported: u8) -> Bad {
    match found {
        0 => Bad::Corrupt,
        _ => Bad::Newer {
            found: found.into(),
            supported: supported.into(),
        },
    }
}

/// One byte says which of the four are set; the ratio is an `f32`, the others are durations.
fn encode_compaction(fields: &CompactionFields) -> Vec<u8> {
    let durations = [fields.tombstone_retention, fields.min_lag, fields.max_lag];
    let mut set = u8::from(fields.min_dirty_ratio.is_some());
    for (duration, bit) in durations.iter().zip([2, 4, 8]) {
        if duration.is_some() {
            set |= bit;
        }
    }
    let mut out = vec![set];
    if let Some(ratio) = fields.min_dirty_ratio {
        out.extend_from_slice(&ratio.to_le_bytes());
    }
    for duration in durations.into_iter().flatten() {
        out.extend_from_slice(&encode_duration(duration));
    }
    out
}

fn read_compaction(reader: &mut Reader<'_>) -> Option<CompactionFields> {
    let set = reader.u8()?;
    (set < 16).then_some(())?;
    let mut fields = CompactionFields::default();
    if set & 1 != 0 {
        let ratio = f32::from_le_bytes(reader.array()?);
        (0.0..=1.0).contains(&ratio).then_some(())?;
        fields.min_dirty_ratio = Some(ratio);
    }
    let places = [
        &mut fields.tombstone_retention,
        &mut fields.min_lag,
        &mut fields.max_lag,
    ];
    for (place, bit) in places.into_iter().zip([2, 4, 8]) {
        if set & bit != 0 {
            *place = Some(read_duration(reader)?);
        }
    }
    Some(fields)
}

/// One bit for each, the first in the lowest bit of the first byte.
fn encode_bits(bits: &[bool]) -> Vec<u8> {
    let pack = |byte: u8, (bit, set): (u8, &bool)| if *set { byte | bit } else { byte };
    let places = [1, 2, 4, 8, 16, 32, 64, 128];
    let eights = bits.chunks(8);
    eights
        .map(|eight| places.into_iter().zip(eight).fold(0, pack))
        .collect()
}

/// `None` if there are not exactly bytes for `count` bits, or bits behind the last are set.
fn decode_bits(bytes: &[u8], count: u32) -> Option<Vec<bool>> {
    let count = usize::try_from(count).ok()?;
    (bytes.len() == count.div_ceil(8)).then_some(())?;
    let places = [1_u8, 2, 4, 8, 16, 32, 64, 128];
    let mut bits = bytes
        .iter()
        .flat_map(|byte| places.map(|place| byte & place != 0));
    let wanted = bits.by_ref().take(count).collect();
    bits.all(|bit| !bit).then_some(wanted)
}

#[cfg(test)]
mod tests;
