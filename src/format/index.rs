//! Index files: where in a segment an offset or a time is found. They are caches: losing one costs time alone.

use super::Bad;
use super::wire::{
    Reader, Seed, decode_head, encode_head, overwrite, put_i64, put_u16, put_u32, put_u64,
};
use std::num::TryFromIntError;

const MAGIC: [u8; 8] = *b"TWGindx\n";
const VERSION: u16 = 0;

/// Kinds of blocks. Unknown ones are skipped.
const OFFSETS: u16 = 1;
const TIMES: u16 = 2;
/// Reserved: key → offsets.
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "reserved: the golden log holds it")
)]
pub(crate) const KEYS: u16 = 3;
/// Reserved: which keys may be there.
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "reserved: the golden log holds it")
)]
pub(crate) const BLOOM: u16 = 4;

/// Kind, zero, length, checksum.
const BLOCK_HEAD_LEN: usize = 12;
const BLOCK_CRC_AT: usize = 8;

/// A record batch begins at this position of the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OffsetEntry {
    /// Its first offset − the segment's base.
    pub(crate) delta: u32,
    pub(crate) position: u32,
}

const OFFSET_ENTRY_LEN: usize = 8;

/// What the batch at this offset brought: times in milliseconds since the epoch, both never falling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeEntry {
    pub(crate) append_ms: i64,
    /// The greatest record time of this batch and all before it in the segment.
    pub(crate) max_time: i64,
    /// Its first offset − the segment's base.
    pub(crate) delta: u32,
}

const TIME_ENTRY_LEN: usize = 20;

/// An index file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    /// The bytes of the segment that it speaks of.
    pub(crate) covers: u64,
    pub(crate) offsets: Vec<OffsetEntry>,
    pub(crate) times: Vec<TimeEntry>,
}

impl Index {
    /// A whole file; `salt` is that of the segment, so that the index of another one is told apart.
    pub(crate) fn encode(&self, salt: u64) -> Vec<u8> {
        let mut offsets = Vec::with_capacity(self.offsets.len().saturating_mul(OFFSET_ENTRY_LEN));
        for entry in &self.offsets {
            put_u32(&mut offsets, entry.delta);
            put_u32(&mut offsets, entry.position);
        }
        let mut times = Vec::with_capacity(self.times.len().saturating_mul(TIME_ENTRY_LEN));
        for entry in &self.times {
            put_i64(&mut times, entry.append_ms);
            put_i64(&mut times, entry.max_time);
            put_u32(&mut times, entry.delta);
        }
        encode_blocks(salt, self.covers, &[(OFFSETS, offsets), (TIMES, times)])
    }

    /// Reads a whole file. Nothing in it is trusted before the batch that it points at was verified.
    pub(crate) fn decode(bytes: &[u8], salt: u64) -> Result<Index, Bad> {
        let (fields, head_len) = decode_head(bytes, MAGIC, VERSION)?;
        let mut reader = Reader::new(fields);
        let (covers, blocks) = read_fields(&mut reader, salt).ok_or(Bad::Corrupt)?;
        let mut index = Index {
            covers,
            ..Index::default()
        };
        let mut at = head_len;
        for _ in 0..blocks {
            let rest = bytes.get(at..).unwrap_or_default();
            let (kind, payload) = read_block(rest, salt, at as u64).ok_or(Bad::Corrupt)?;
            index.take_block(kind, payload).ok_or(Bad::Corrupt)?;
            at = at
                .saturating_add(BLOCK_HEAD_LEN)
                .saturating_add(payload.len());
        }
        if at == bytes.len() {
            Ok(index)
        } else {
            Err(Bad::Corrupt)
        }
    }

    fn take_block(&mut self, kind: u16, payload: &[u8]) -> Option<()> {
        match kind {
            OFFSETS => self.offsets = read_offsets(payload)?,
            TIMES => self.times = read_times(payload)?,
            _ => {}
        }
        Some(())
    }
}

/// A file of these blocks, each a kind and its bytes.
pub(crate) fn encode_blocks(salt: u64, covers: u64, blocks: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let count = || -> Result<u32, TryFromIntError> { blocks.len().try_into() };
    let mut fields = Vec::new();
    put_u64(&mut fields, salt);
    put_u64(&mut fields, covers);
    put_u32(&mut fields, count().expect("an index has a few blocks"));
    let mut out = encode_head(MAGIC, VERSION, &fields);
    for (kind, payload) in blocks {
        let begin = out.len();
        let len = u32::try_from(payload.len()).expect("an index is far smaller than 4 GiB");
        put_u16(&mut out, *kind);
        put_u16(&mut out, 0);
        put_u32(&mut out, len);
        put_u32(&mut out, 0);
        out.extend_from_slice(payload);
        let block = out.get_mut(begin..).unwrap_or_default();
        let crc = block_crc(block, salt, begin as u64);
        overwrite(block, BLOCK_CRC_AT, &crc.to_le_bytes());
    }
    out
}

fn read_fields(reader: &mut Reader<'_>, salt: u64) -> Option<(u64, u32)> {
    let found = reader.u64()?;
    let covers = reader.u64()?;
    let blocks = reader.u32()?;
    (found == salt).then_some((covers, blocks))
}

/// The sound block at the front of `bytes`.
fn read_block(bytes: &[u8], salt: u64, position: u64) -> Option<(u16, &[u8])> {
    let mut reader = Reader::new(bytes);
    let kind = reader.u16()?;
    reader.u16()?;
    let len = reader.u32()?;
    let crc = reader.u32()?;
    let payload = reader.take_u64(len.into())?;
    let end = BLOCK_HEAD_LEN.checked_add(payload.len())?;
    (block_crc(bytes.get(..end)?, salt, position) == crc).then_some((kind, payload))
}

fn read_offsets(payload: &[u8]) -> Option<Vec<OffsetEntry>> {
    let mut reader = Reader::new(payload);
    let mut entries = Vec::with_capacity(payload.len().div_ceil(OFFSET_ENTRY_LEN));
    while !reader.is_empty() {
        entries.push(OffsetEntry {
            delta: reader.u32()?,
            position: reader.u32()?,
        });
    }
    let rising = |a: &OffsetEntry, b: &OffsetEntry| a.delta < b.delta && a.position < b.position;
    entries.is_sorted_by(rising).then_some(entries)
}

fn read_times(payload: &[u8]) -> Option<Vec<TimeEntry>> {
    let mut reader = Reader::new(payload);
    let mut entries = Vec::with_capacity(payload.len().div_ceil(TIME_ENTRY_LEN));
    while !reader.is_empty() {
        entries.push(TimeEntry {
            append_ms: reader.i64()?,
            max_time: reader.i64()?,
            delta: reader.u32()?,
        });
    }
    let rising = |a: &TimeEntry, b: &TimeEntry| {
        a.delta < b.delta && a.append_ms <= b.append_ms && a.max_time <= b.max_time
    };
    entries.is_sorted_by(rising).then_some(entries)
}

/// Over everything but the checksum itself.
fn block_crc(block: &[u8], salt: u64, position: u64) -> u32 {
    let (front, back) = (block.get(..BLOCK_CRC_AT), block.get(BLOCK_HEAD_LEN..));
    Seed::new(salt, position).crc(&[front.unwrap_or_default(), back.unwrap_or_default()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SALT: u64 = 99;

    fn index() -> Index {
        Index {
            covers: 4096,
            offsets: vec![
                OffsetEntry {
                    delta: 0,
                    position: 128,
                },
                OffsetEntry {
                    delta: 9,
                    position: 700,
                },
            ],
            times: vec![
                TimeEntry {
                    append_ms: 5,
                    max_time: 5,
                    delta: 0,
                },
                TimeEntry {
                    append_ms: 5,
                    max_time: 80,
                    delta: 9,
                },
            ],
        }
    }

    #[test]
    fn an_index_comes_back() {
        assert_eq!(Index::decode(&index().encode(SALT), SALT), Ok(index()));
        let empty = Index::default();
        assert_eq!(Index::decode(&empty.encode(SALT), SALT), Ok(empty));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let bytes = index().encode(SALT);
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Index::decode(&bad, SALT).is_err(), "bit {bit}");
        }
        for cut in 0..bytes.len() {
            assert!(Index::decode(&bytes[..cut], SALT).is_err(), "cut at {cut}");
        }
        let mut longer = bytes;
        longer.push(0);
        assert_eq!(Index::decode(&longer, SALT), Err(Bad::Corrupt));
    }

    #[test]
    fn the_index_of_another_segment_is_not_taken() {
        assert_eq!(
            Index::decode(&index().encode(SALT), SALT + 1),
            Err(Bad::Corrupt)
        );
    }

    #[test]
    fn blocks_of_other_kinds_are_skipped() {
        let blocks = [(KEYS, vec![1, 2, 3]), (BLOOM, Vec::new()), (77, vec![0])];
        let bytes = encode_blocks(SALT, 5, &blocks);
        let skipped = Index {
            covers: 5,
            ..Index::default()
        };
        assert_eq!(Index::decode(&bytes, SALT), Ok(skipped));
    }

    #[test]
    fn entries_that_do_not_rise_are_corrupt() {
        let mut bad = index();
        bad.offsets.reverse();
        assert_eq!(Index::decode(&bad.encode(SALT), SALT), Err(Bad::Corrupt));
        let mut bad = index();
        bad.times[0].max_time = 81;
        assert_eq!(Index::decode(&bad.encode(SALT), SALT), Err(Bad::Corrupt));
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_answer(mut bytes: Vec<u8>, with_magic: bool) {
            if with_magic {
                bytes.splice(..0, MAGIC);
            }
            prop_assert!(Index::decode(&bytes, SALT).is_err());
        }
    }
}
