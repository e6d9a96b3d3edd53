//! What a record batch or a record may say beyond its fixed fields.

use super::Bad;
use super::tlv::{self, Width, whole};
use super::wire::Reader;
use crate::varint;

const UNCOMPRESSED_LEN: u8 = 1;
const PRODUCER: u8 = 2;
const TRANSACTION: u8 = 3;
const DELETE_HORIZON: u8 = 4;
const MAX_EVENT_TIME: u8 = 5;

/// Room that [`Extension::encode`] can take: two bytes of type and length, and the field.
pub(crate) const MAX_EXTENSION_LEN: usize = (2 + 4) + (2 + 16) + (2 + 8) + (2 + 8) + (2 + 8);

/// Whose append a record batch is, and which of that producer's records comes first in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProducerTag {
    pub(crate) id: u64,
    pub(crate) epoch: u32,
    pub(crate) first_seq: u32,
}

/// The extension of a record batch, between its header and its body, under the header's checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extension {
    /// Present exactly if the body is compressed: how many bytes it is without.
    pub(crate) uncompressed_len: Option<u32>,
    pub(crate) producer: Option<ProducerTag>,
    /// The journal position of the transaction that this batch is a part of.
    pub(crate) transaction: Option<u64>,
    /// When compaction may drop the tombstones of this batch, in milliseconds since the epoch.
    pub(crate) delete_horizon: Option<i64>,
    /// The greatest event time of its records, in milliseconds since the epoch; absent where none has one.
    pub(crate) max_event_time: Option<i64>,
}

impl Extension {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        if let Some(len) = self.uncompressed_len {
            tlv::put(out, UNCOMPRESSED_LEN, &len.to_le_bytes());
        }
        if let Some(tag) = self.producer {
            out.extend_from_slice(&[PRODUCER, 16]);
            out.extend_from_slice(&tag.id.to_le_bytes());
            out.extend_from_slice(&tag.epoch.to_le_bytes());
            out.extend_from_slice(&tag.first_seq.to_le_bytes());
        }
        if let Some(position) = self.transaction {
            tlv::put(out, TRANSACTION, &position.to_le_bytes());
        }
        if let Some(time) = self.delete_horizon {
            tlv::put(out, DELETE_HORIZON, &time.to_le_bytes());
        }
        if let Some(time) = self.max_event_time {
            tlv::put(out, MAX_EVENT_TIME, &time.to_le_bytes());
        }
    }

    /// Unknown fields from 128 on are skipped; who copies a batch copies its extension as bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Extension, Bad> {
        let mut found = Extension::default();
        tlv::walk(bytes, Width::One, |kind, field| {
            match kind {
                UNCOMPRESSED_LEN => found.uncompressed_len = Some(whole(field, Reader::u32)?),
                PRODUCER => found.producer = Some(whole(field, producer_tag)?),
                TRANSACTION => found.transaction = Some(whole(field, Reader::u64)?),
                DELETE_HORIZON => found.delete_horizon = Some(whole(field, Reader::i64)?),
                MAX_EVENT_TIME => found.max_event_time = Some(whole(field, Reader::i64)?),
                other => tlv::unknown(other, MAX_EVENT_TIME)?,
            }
            Ok(())
        })?;
        Ok(found)
    }
}

fn producer_tag(reader: &mut Reader<'_>) -> Option<ProducerTag> {
    Some(ProducerTag {
        id: reader.u64()?,
        epoch: reader.u32()?,
        first_seq: reader.u32()?,
    })
}

const VERSION: u8 = 1;
const PREVIOUS_OF_KEY: u8 = 2;
const EVENT_ID: u8 = 3;
const INTERNAL_KIND: u8 = 4;

/// The extension of one record, at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordExtension {
    /// Which event of its key this is, counted from 0.
    pub(crate) version: Option<u64>,
    /// How many offsets before this one the previous record of the same key stands.
    pub(crate) previous_of_key: Option<u64>,
    pub(crate) event_id: Option<u128>,
    /// What this record is to the crate itself; users never see such a record.
    pub(crate) internal_kind: Option<u64>,
}

impl RecordExtension {
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "reserved: the golden log holds it")
    )]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let put_varint = |out: &mut Vec<u8>, kind, n| {
            let len = u8::try_from(varint::len(n)).expect("a varint has at most ten bytes");
            out.extend_from_slice(&[kind, len]);
            varint::put(out, n);
        };
        if let Some(version) = self.version {
            put_varint(out, VERSION, version);
        }
        if let Some(distance) = self.previous_of_key {
            put_varint(out, PREVIOUS_OF_KEY, distance);
        }
        if let Some(id) = self.event_id {
            tlv::put(out, EVENT_ID, &id.to_le_bytes());
        }
        if let Some(kind) = self.internal_kind {
            put_varint(out, INTERNAL_KIND, kind);
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<RecordExtension, Bad> {
        let mut found = RecordExtension::default();
        tlv::walk(bytes, Width::One, |kind, field| {
            match kind {
                VERSION => found.version = Some(whole(field, Reader::varint)?),
                PREVIOUS_OF_KEY => found.previous_of_key = Some(whole(field, Reader::varint)?),
                EVENT_ID => found.event_id = Some(whole(field, Reader::u128)?),
                INTERNAL_KIND => found.internal_kind = Some(whole(field, Reader::varint)?),
                other => tlv::unknown(other, INTERNAL_KIND)?,
            }
            Ok(())
        })?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Extension {
        Extension {
            uncompressed_len: Some(7),
            producer: Some(ProducerTag {
                id: 1,
                epoch: 2,
                first_seq: 3,
            }),
            transaction: Some(4),
            delete_horizon: Some(-5),
            max_event_time: Some(i64::MAX),
        }
    }

    #[test]
    fn a_full_extension_takes_the_room_that_is_kept_for_it_and_comes_back() {
        let mut bytes = Vec::new();
        full().encode(&mut bytes);
        assert_eq!(bytes.len(), MAX_EXTENSION_LEN);
        assert_eq!(Extension::decode(&bytes), Ok(full()));
    }

    #[test]
    fn every_cut_of_an_extension_is_corrupt_or_ends_between_two_fields() {
        let mut bytes = Vec::new();
        full().encode(&mut bytes);
        let between = [0, 6, 24, 34, 44];
        for cut in 0..bytes.len() {
            let decoded = Extension::decode(&bytes[..cut]);
            assert_eq!(decoded.is_ok(), between.contains(&cut), "cut at {cut}");
        }
    }

    #[test]
    fn an_unknown_field_is_newer_below_128_and_skipped_above() {
        let newer = Bad::Newer {
            found: 6,
            supported: 5,
        };
        assert_eq!(Extension::decode(&[6, 1, 0]), Err(newer));
        assert_eq!(Extension::decode(&[200, 1, 0]), Ok(Extension::default()));
        let newer = Bad::Newer {
            found: 5,
            supported: 4,
        };
        assert_eq!(RecordExtension::decode(&[5, 0]), Err(newer));
    }

    #[test]
    fn a_record_extension_comes_back() {
        let extension = RecordExtension {
            version: Some(300),
            previous_of_key: Some(1),
            event_id: Some(u128::MAX - 1),
            internal_kind: Some(2),
        };
        let mut bytes = Vec::new();
        extension.encode(&mut bytes);
        assert_eq!(RecordExtension::decode(&bytes), Ok(extension));
    }

    #[test]
    fn a_field_with_a_wrong_length_is_corrupt() {
        assert_eq!(Extension::decode(&[1, 3, 0, 0, 0]), Err(Bad::Corrupt));
        assert_eq!(RecordExtension::decode(&[1, 2, 0x80, 0]), Err(Bad::Corrupt));
    }
}
