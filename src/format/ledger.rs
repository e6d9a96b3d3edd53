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
    #[expect(dead_code, reason = "reserved, and never given to anything else")]
    pub(crate) const FENCING_EPOCH: u16 = 3;
    /// Deliveries of a share group.
    #[expect(dead_code, reason = "reserved, and never given to anything else")]
    pub(crate) const SHARE_STATE: u16 = 4;
    /// Table and key → row; state of windows too.
    #[expect(dead_code, reason = "reserved, and never given to anything else")]
    pub(crate) const TABLE_ROW: u16 = 5;
    #[expect(dead_code, reason = "reserved, and never given to anything else")]
    pub(crate) const TIMER: u16 = 6;
    /// Of an aggregate: covered offset, checksum, bytes.
    #[expect(dead_code, reason = "reserved, and never given to anything else")]
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

const GROUP_POSITION_VERSION: u8 = 0;

/// Appends a key.
pub(crate) fn put_key(out: &mut Vec<u8>, kind: u16, version: u8, bytes: &[u8]) {
    put_u16(out, kind);
    put_u8(out, version);
    out.extend_from_slice(bytes);
}

/// Takes a key apart: kind, version, bytes. `None` if it is none; kind 0 is not used.
pub(crate) fn split_key(key: &[u8]) -> Option<(u16, u8, &[u8])> {
    let mut reader = Reader::new(key);
    let kind = reader.u16().filter(|&kind| kind != 0)?;
    Some((kind, reader.u8()?, reader.rest()))
}

/// Key of [`kind::GROUP_POSITION`]: whose position, and in what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupPosition<'k> {
    pub(crate) group: &'k str,
    pub(crate) topic: u128,
    pub(crate) partition: u32,
}

impl<'k> GroupPosition<'k> {
    /// Appends it.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_key(out, kind::GROUP_POSITION, GROUP_POSITION_VERSION, &[]);
        put_bytes(out, self.group.as_bytes());
        put_u128(out, self.topic);
        put_u32(out, self.partition);
    }

    /// A key of another kind is `Newer` or `Corrupt` here: look at its kind first, by [`split_key`].
    pub(crate) fn decode(key: &'k [u8]) -> Result<GroupPosition<'k>, Bad> {
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
                group: reader.text()?,
                topic: reader.u128()?,
                partition: reader.u32()?,
            })
        })
    }
}

/// Value of [`kind::GROUP_POSITION`]: the next offset, and when it was committed in milliseconds since the epoch.
pub(crate) fn put_group_position(out: &mut Vec<u8>, offset: u64, time: i64) {
    put_u64(out, offset);
    put_i64(out, time);
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

    const POSITION: GroupPosition<'_> = GroupPosition {
        group: "kitchen",
        topic: 7,
        partition: 3,
    };

    fn key() -> Vec<u8> {
        let mut key = Vec::new();
        POSITION.put(&mut key);
        key
    }

    fn value() -> Vec<u8> {
        let mut value = Vec::new();
        put_group_position(&mut value, 17, -1);
        value
    }

    #[test]
    fn a_group_position_comes_back() {
        assert_eq!(GroupPosition::decode(&key()), Ok(POSITION));
        let value = value();
        assert_eq!(decode_group_position(&value), Ok((17, -1)));
    }

    #[test]
    fn every_cut_of_a_key_or_value_is_corrupt() {
        let bytes = key();
        for cut in 0..bytes.len() {
            assert_eq!(GroupPosition::decode(&bytes[..cut]), Err(Bad::Corrupt));
        }
        let value = value();
        for cut in 0..value.len() {
            assert_eq!(decode_group_position(&value[..cut]), Err(Bad::Corrupt));
        }
    }

    #[test]
    fn a_newer_version_and_an_unknown_kind_are_told_apart_from_damage() {
        let mut bytes = key();
        bytes[2] = 1;
        let newer = Bad::Newer {
            found: 1,
            supported: 0,
        };
        assert_eq!(GroupPosition::decode(&bytes), Err(newer));
        let mut unknown = Vec::new();
        put_key(&mut unknown, kind::LAST + 1, 4, b"kept");
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
