//! The first and the last bytes of a segment file: who it is, what it holds, and how it hangs together with its neighbours.

use super::Bad;
use super::wire::{
    Reader, decode_head, encode_head, put_i64, put_u8, put_u16, put_u32, put_u64, put_u128,
};

#[cfg(test)]
pub(crate) use super::footer::Footer;

const MAGIC: [u8; 8] = *b"TWGsegm\n";
const VERSION: u16 = 0;

/// Bytes of the header that this version writes; a newer one may be longer.
pub(crate) const SEGMENT_HEADER_LEN: usize = 128;

/// Flag: un-synced records of this segment may have been acknowledged.
const BELOW_POWER: u16 = 1;
/// Flag: append times in this segment may be later than the clock was.
const HELD_UP: u16 = 1 << 8;
/// Flags that change the meaning of the file; the upper eight may be ignored by who does not know them.
const REQUIRED_FLAGS: u16 = 0x00FF;

/// Length and footer checksum of a sealed segment: what its successor remembers of it. Zero: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) len: u64,
    pub(crate) crc: u32,
}

/// Why a segment does not begin where its predecessor ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum GapReason {
    /// There is no gap.
    #[default]
    None,
    /// After a power loss the partition went on behind every offset that may have been handed out.
    Recovery,
    /// Damaged records were removed by a repair.
    Repair,
}

const LAST_GAP_REASON: u8 = 2;

impl GapReason {
    fn id(self) -> u8 {
        match self {
            GapReason::None => 0,
            GapReason::Recovery => 1,
            GapReason::Repair => 2,
        }
    }

    fn from_id(id: u8) -> Option<GapReason> {
        match id {
            0 => Some(GapReason::None),
            1 => Some(GapReason::Recovery),
            2 => Some(GapReason::Repair),
            _ => None,
        }
    }
}

/// The first [`SEGMENT_HEADER_LEN`] bytes of a segment file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) log: u128,
    pub(crate) topic: u128,
    pub(crate) partition: u32,
    pub(crate) generation: u32,
    /// The least offset that may stand in this segment.
    pub(crate) base: u64,
    /// The offset after the predecessor's last: `base`, or lower where a gap lies between.
    pub(crate) expected: u64,
    pub(crate) gap: GapReason,
    /// No batch reaches `base` + this.
    pub(crate) offset_span: u32,
    /// Un-synced records of this segment may have been acknowledged.
    pub(crate) below_power: bool,
    /// Append times in this segment may be those of earlier appends: the clock was behind those, or is ahead no more.
    pub(crate) held_up: bool,
    /// The number of the opening that made this file.
    pub(crate) open_number: u64,
    /// When it was begun, and not held up as append times are: milliseconds since the epoch. A rewritten one has that of the first whose
    /// place it takes.
    pub(crate) created_ms: i64,
    /// Random; every checksum in this file but this header's starts from it.
    pub(crate) salt: u64,
    /// The predecessor.
    pub(crate) prev_link: Link,
    /// What the successor's `prev_link` says; zero: the length and checksum of this file's own footer.
    pub(crate) out_link: Link,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEADER_LEN] {
        assert!(
            self.is_sound(),
            "a segment begins where its predecessor ended, or says why not, and ends within the offsets there are"
        );
        let mut fields = Vec::with_capacity(SEGMENT_HEADER_LEN);
        put_u128(&mut fields, self.log);
        put_u128(&mut fields, self.topic);
        put_u32(&mut fields, self.partition);
        put_u32(&mut fields, self.generation);
        put_u64(&mut fields, self.base);
        put_u64(&mut fields, self.expected);
        put_u32(&mut fields, self.offset_span);
        put_u16(&mut fields, self.flags());
        put_u8(&mut fields, self.gap.id());
        put_u8(&mut fields, 0);
        put_u64(&mut fields, self.open_number);
        put_i64(&mut fields, self.created_ms);
        put_u64(&mut fields, self.salt);
        for link in [self.prev_link, self.out_link] {
            put_u64(&mut fields, link.len);
            put_u32(&mut fields, link.crc);
        }
        let head = encode_head(MAGIC, VERSION, &fields);
        head.try_into()
            .expect("the fields of a segment header add up to its length")
    }

    /// The header at the front of `bytes`, and its length: there the first batch begins.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(SegmentHeader, usize), Bad> {
        let (fields, len) = decode_head(bytes, MAGIC, VERSION)?;
        let mut reader = Reader::new(fields);
        let (mut header, flags, gap) = read_header(&mut reader).ok_or(Bad::Corrupt)?;
        let unknown = flags & REQUIRED_FLAGS & !BELOW_POWER;
        if unknown != 0 {
            return Err(Bad::Newer {
                found: (flags & REQUIRED_FLAGS).into(),
                supported: BELOW_POWER.into(),
            });
        }
        let newer = Bad::Newer {
            found: gap.into(),
            supported: LAST_GAP_REASON.into(),
        };
        header.gap = GapReason::from_id(gap).ok_or(newer)?;
        if header.is_sound() {
            Ok((header, len))
        } else {
            Err(Bad::Corrupt)
        }
    }

    fn flags(&self) -> u16 {
        let below_power = if self.below_power { BELOW_POWER } else { 0 };
        below_power | if self.held_up { HELD_UP } else { 0 }
    }

    /// The first offset that no batch of this segment can have.
    pub(crate) fn span_end(&self) -> u64 {
        self.base.saturating_add(self.offset_span.into())
    }

    /// `base` at the very end of the offsets is allowed: such a partition can only be read.
    fn is_sound(&self) -> bool {
        let gap = self.gap != GapReason::None;
        i64::try_from(self.base).is_ok()
            && self.offset_span > 0
            && if gap {
                self.expected < self.base
            } else {
                self.expected == self.base
            }
    }
}

fn read_header(reader: &mut Reader<'_>) -> Option<(SegmentHeader, u16, u8)> {
    let log = reader.u128()?;
    let topic = reader.u128()?;
    let partition = reader.u32()?;
    let generation = reader.u32()?;
    let base = reader.u64()?;
    let expected = reader.u64()?;
    let offset_span = reader.u32()?;
    let flags = reader.u16()?;
    let gap = reader.u8()?;
    reader.u8()?;
    let header = SegmentHeader {
        log,
        topic,
        partition,
        generation,
        base,
        expected,
        gap: GapReason::None,
        offset_span,
        below_power: flags & BELOW_POWER != 0,
        held_up: flags & HELD_UP != 0,
        open_number: reader.u64()?,
        created_ms: reader.i64()?,
        salt: reader.u64()?,
        prev_link: read_link(reader)?,
        out_link: read_link(reader)?,
    };
    Some((header, flags, gap))
}

fn read_link(reader: &mut Reader<'_>) -> Option<Link> {
    Some(Link {
        len: reader.u64()?,
        crc: reader.u32()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header() -> SegmentHeader {
        SegmentHeader {
            log: 1,
            topic: u128::MAX,
            partition: 3,
            generation: 4,
            base: 500,
            expected: 400,
            gap: GapReason::Recovery,
            offset_span: 1 << 24,
            below_power: true,
            held_up: true,
            open_number: 8,
            created_ms: -9,
            salt: 10,
            prev_link: Link { len: 11, crc: 12 },
            out_link: Link { len: 13, crc: 14 },
        }
    }

    #[test]
    fn a_header_comes_back() {
        let decoded = SegmentHeader::decode(&header().encode());
        assert_eq!(decoded, Ok((header(), SEGMENT_HEADER_LEN)));
        assert_eq!(header().span_end(), 500 + (1 << 24));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let bytes = header().encode();
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHeader::decode(&bad).is_err(), "bit {bit}");
        }
        for cut in 0..bytes.len() {
            let found = SegmentHeader::decode(&bytes[..cut]);
            assert!(matches!(found, Err(Bad::Short { .. })), "cut at {cut}");
        }
    }

    /// As a newer version may write it: a byte behind the fixed part replaced, the checksum right.
    fn resealed(at: usize, byte: u8) -> Result<(SegmentHeader, usize), Bad> {
        let mut fields = header().encode()[super::super::wire::HEAD_FIXED_LEN..].to_vec();
        fields[at - super::super::wire::HEAD_FIXED_LEN] = byte;
        SegmentHeader::decode(&encode_head(MAGIC, VERSION, &fields))
    }

    #[test]
    fn unknown_required_flags_and_reasons_are_newer_and_optional_flags_are_ignored() {
        let newer = Bad::Newer {
            found: 3,
            supported: 1,
        };
        assert_eq!(resealed(76, 3), Err(newer));
        assert!(resealed(77, 0xFF).is_ok());
        let newer = Bad::Newer {
            found: 3,
            supported: 2,
        };
        assert_eq!(resealed(78, 3), Err(newer));
    }

    #[test]
    fn a_gap_without_a_reason_or_a_reason_without_a_gap_is_corrupt() {
        assert_eq!(resealed(78, 0), Err(Bad::Corrupt));
        // Expected 500 + 1, and a base beyond the last offset.
        assert_eq!(resealed(64, 0xFF), Err(Bad::Corrupt));
        assert_eq!(resealed(63, 0x80), Err(Bad::Corrupt));
    }

    proptest! {
        #[test]
        fn any_fields_give_an_answer(fields: Vec<u8>) {
            let _ = SegmentHeader::decode(&encode_head(MAGIC, VERSION, &fields));
            prop_assert!(SegmentHeader::decode(&fields).is_err());
        }
    }
}
