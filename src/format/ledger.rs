//! Keys and values of the ledger, the partition that keeps what is small and must survive.

use super::Bad;
use super::tlv::whole;
use super::wire::{Reader, put_bytes, put_i64, put_u8, put_u16, put_u32, put_u64, put_u128};

/// The registry of kinds: the first two bytes of every key. A number is never used for anything else; compaction keeps
/// kinds that it does not know.
pub(crate) mod kind {
    /// Where a group reads on: group, topic, partition → offset, time.
    pub(crate) const GROUP_POSITION: u16 = 1;
    /// Producer by name → id.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "reserved: the golden log holds it")
    )]
    pub(crate) const PRODUCER: u16 = 2;
    /// Who is the present holder of a name.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "reserved: the golden log holds it")
    )]
    pub(crate) const FENCING_EPOCH: u16 = 3;
    /// Deliveries of a share group.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "reserved: the golden log holds it")
    )]
    pub(crate) const SHARE_STATE: u16 = 4;
    /// Table and key → row; state of windows too.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "reserved: the golden log holds it")
    )]
    pub(crate) const TABLE_ROW: u16 = 5;
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "reserved: the golden log holds it")
    )]
    pub(crate) const TIMER: u16 = 6;
    /// Of an aggregate: covered offset, checksum, bytes.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "reserved: the golden log holds it")
    )]
    pub(crate) const SNAPSHOT: u16 = 7;
    /// Of an aggregate: events it ever had, first readable one.
    pub(crate) const STREAM_HEAD: u16 = 8;

    /// The last one that has a meaning yet.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "reserved: the golden log holds it")
    )]
    pub(crate) const LAST: u16 = STREAM_HEAD;
}

/// Kind, version.
const KEY_HEAD_LEN: usize = 3;
const GROUP_POSITION_VERSION: u8 = 0;

/// Puts a key together.
pub(crate) fn encode_key(kind: u16, version: u8, bytes: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(KEY_HEAD_LEN.saturating_add(bytes.len()));
    put_u16(&mut key, kind);
    put_u8(&mut key, version);
    key.extend_from_slice(bytes);
    key
}

/// Takes a key apart: kind, version, bytes. `None` if it is none; kind 0 is not used.
pub(crate) fn split_key(key: &[u8]) -> Option<(u16, u8, &[u8])> {
    let mut reader = Reader::new(key);
    let kind = reader.u16().filter(|&kind| kind != 0)?;
    Some((kind, reader.u8()?, reader.rest()))
}

/// Key of [`kind::GROUP_POSITION`]: whose position, and in what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GroupPosition {
    pub(crate) group: String,
    pub(crate) topic: u128,
    pub(crate) partition: u32,
}

impl GroupPosition {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_bytes(&mut bytes, self.group.as_bytes());
        put_u128(&mut bytes, self.topic);
        put_u32(&mut bytes, self.partition);
        encode_key(kind::GROUP_POSITION, GROUP_POSITION_VERSION, &bytes)
    }

    /// A key of another kind is `Newer` or `Corrupt` here: look at its kind first, by [`split_key`].
    pub(crate) fn decode(key: &[u8]) -> Result<GroupPosition, Bad> {
        let (kind, version, bytes) = split_key(key).ok_or(Bad::Corrupt)?;
        if kind != kind::GROUP_POSITION {
            return Err(Bad::Corrupt);
        }
        if version > GROUP_POSITION_VERSION {
            return Err(Bad::Newer {
                found: version.into(),
                supported: GROUP_POSITION_VERSION.into(),
            });
        }
        whole(bytes, |reader| {
            Some(GroupPosition {
                group: reader.text()?.to_owned(),
                topic: reader.u128()?,
                partition: reader.u32()?,
            })
        })
    }
}

/// Value of [`kind::GROUP_POSITION`]: the next offset, and when it was committed in milliseconds since the epoch.
pub(crate) fn encode_group_position(offset: u64, time: i64) -> Vec<u8> {
    let mut value = Vec::with_capacity(16);
    put_u64(&mut value, offset);
    put_i64(&mut value, time);
    value
}

/// Bytes behind the two are a newer version's, and skipped.
pub(crate) fn decode_group_position(value: &[u8]) -> Result<(u64, i64), Bad> {
    let mut reader = Reader::new(value);
    let offset = reader.u64().ok_or(Bad::Corrupt)?;
    let time = reader.i64().ok_or(Bad::Corrupt)?;
    if i64::try_from(offset).is_err() {
        return Err(Bad::Corrupt);
    }
    Ok((offset, time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> GroupPosition {
        GroupPosition {
            group: "kitchen".into(),
            topic: 7,
            partition: 3,
        }
    }

    #[test]
    fn a_group_position_comes_back() {
        assert_eq!(GroupPosition::decode(&key().encode()), Ok(key()));
        let value = encode_group_position(17, -1);
        assert_eq!(decode_group_position(&value), Ok((17, -1)));
    }

    #[test]
    fn every_cut_of_a_key_or_value_is_corrupt() {
        let bytes = key().encode();
        for cut in 0..bytes.len() {
            assert_eq!(GroupPosition::decode(&bytes[..cut]), Err(Bad::Corrupt));
        }
        let value = encode_group_position(17, -1);
        for cut in 0..value.len() {
            assert_eq!(decode_group_position(&value[..cut]), Err(Bad::Corrupt));
        }
    }

    #[test]
    fn a_newer_version_and_an_unknown_kind_are_told_apart_from_damage() {
        let mut bytes = key().encode();
        bytes[2] = 1;
        let newer = Bad::Newer {
            found: 1,
            supported: 0,
        };
        assert_eq!(GroupPosition::decode(&bytes), Err(newer));
        let unknown = encode_key(kind::LAST + 1, 4, b"kept");
        assert_eq!(split_key(&unknown), Some((9, 4, &b"kept"[..])));
        assert_eq!(split_key(&[0, 0, 0, 1]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_answer(bytes: Vec<u8>) {
            let _ = split_key(&bytes);
            let _ = GroupPosition::decode(&bytes);
            let _ = decode_group_position(&bytes);
        }
    }
}
