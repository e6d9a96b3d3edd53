//! The header of a record batch: 36 bytes that say what follows, where it belongs, and whether that is so.

use super::Bad;
use super::compress::{Codec, LAST_CODEC};
use super::wire::{RUN_LEN, Reader, overwrite};

use super::extension::Extension;
pub(crate) use super::wire::Seed;

/// Bytes of the header, before the extension.
pub(crate) const HEADER_LEN: usize = 36;
/// The first two bytes of every record batch: unequal, neither 0x00 nor 0xFF, so that neither zeros nor ones begin one.
pub(crate) const SYNC: u16 = u16::from_le_bytes([0xB5, 0x4C]);
/// Bound of one record batch with header and extension, stored and uncompressed, by format. Topics set a lower one.
pub(crate) const MAX_BATCH_BYTES: u32 = 1 << 30;
/// In [`BatchHeader::watermark_back`]: nothing is claimed to be durable.
pub(crate) const NO_WATERMARK: u32 = u32::MAX;

/// In [`BatchHeader::optional`], beside `event_times`: some record has no event time, its time is the append time.
pub(crate) const MIXED_TIMES: u8 = 1;

const CODEC_BITS: u8 = 0b0000_0111;
const SPARSE: u8 = 1 << 3;
const EVENT_TIMES: u8 = 1 << 4;
const REQUIRED_BITS: u8 = CODEC_BITS | SPARSE | EVENT_TIMES;

/// The fixed fields of a record batch. The field table is in the [module's documentation](super).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BatchHeader {
    pub(crate) codec: Codec,
    /// Records carry offset deltas, since compaction or repair removed some.
    pub(crate) sparse: bool,
    /// Some record has an event time.
    pub(crate) event_times: bool,
    /// Bits that a reader may ignore: [`MIXED_TIMES`].
    pub(crate) optional: u8,
    /// Bytes of the body as stored.
    pub(crate) body_len: u32,
    /// The plain CRC of these bytes.
    pub(crate) body_crc: u32,
    /// First offset − base of the segment.
    pub(crate) base_delta: u32,
    /// Last offset − first offset.
    pub(crate) last_delta: u32,
    /// The durable end when this was built, as a distance back from the first offset; [`NO_WATERMARK`]: no claim.
    pub(crate) watermark_back: u32,
    /// Milliseconds since the epoch, 48 bits; never below that of the batch before.
    pub(crate) append_ms: u64,
    /// Bytes of the extension between header and body.
    pub(crate) ext_len: u16,
}

impl BatchHeader {
    /// The header of a batch with this extension at the place that the seed stands for.
    #[expect(
        clippy::inline_always,
        reason = "measured: the append of one record is bound by the lines of code that it fetches, and each call takes one or two more"
    )]
    #[inline(always)]
    pub(crate) fn encode(&self, ext: &[u8], seed: Seed) -> [u8; HEADER_LEN] {
        assert_eq!(
            usize::from(self.ext_len),
            ext.len(),
            "the header tells the length of its extension"
        );
        assert!(
            self.append_ms < 1 << 48,
            "append times are checked where the clock is read"
        );
        let run = self.covered();
        let crc = seed.crc_at_once(&run, ext).to_le_bytes();
        let mut header = [0; HEADER_LEN];
        let (front, back) = header.split_at_mut(CRC_AT);
        let (place, back) = back.split_at_mut(crc.len());
        let (before, behind) = run.split_at(CRC_AT);
        front.copy_from_slice(before);
        place.copy_from_slice(&crc);
        back.copy_from_slice(behind);
        header
    }

    /// All but the checksum. Put together in whole words, which takes few steps.
    fn covered(&self) -> [u8; RUN_LEN] {
        let word = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        let [s0, s1] = SYNC.to_le_bytes();
        let first = u32::from_le_bytes([s0, s1, self.required(), self.optional]);
        let words = [
            word(first, self.body_len),
            word(self.body_crc, self.base_delta),
            word(self.last_delta, self.watermark_back),
            u64::from(self.ext_len) << 48 | self.append_ms,
        ];
        let mut run = [0; RUN_LEN];
        let (places, _) = run.as_chunks_mut::<8>();
        for (place, word) in places.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        run
    }

    fn required(&self) -> u8 {
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        self.codec.id() | flag(self.sparse, SPARSE) | flag(self.event_times, EVENT_TIMES)
    }

    /// The header at the front of `bytes`, which go on at least to the end of its extension.
    ///
    /// `Newer` is said only of a header whose checksum holds, so its lengths (by [`hop`]) can be relied on to step over it.
    pub(crate) fn decode(bytes: &[u8], seed: Seed) -> Result<BatchHeader, Bad> {
        if planted!(ZERO_HEADER_ACCEPTED) && bytes.starts_with(&[0; HEADER_LEN]) {
            return BatchHeader::fields(bytes).ok_or(Bad::Corrupt);
        }
        let (fixed, ext) = split(bytes)?;
        let mut reader = Reader::new(fixed);
        let header = read_fields(&mut reader).ok_or(Bad::Corrupt)?;
        if header_crc(fixed, ext, seed) != header.crc {
            return Err(Bad::Corrupt);
        }
        let extension = header.judge_newer(ext)?;
        let header = header.into_header()?;
        header.check_bounds(&extension)?;
        Ok(header)
    }

    /// The fields as they stand there, *not verified*: for bytes that were verified before.
    ///
    /// A codec of a newer version is given as none: the lengths of such a batch can be relied on, its body cannot be read.
    #[inline]
    pub(crate) fn fields(bytes: &[u8]) -> Option<BatchHeader> {
        let mut reader = Reader::new(bytes.get(..HEADER_LEN)?);
        let unchecked = read_fields(&mut reader)?;
        Some(BatchHeader {
            codec: Codec::from_id(unchecked.required & CODEC_BITS).unwrap_or(Codec::None),
            ..unchecked.header
        })
    }

    /// Bytes that the whole batch takes: header, extension, body.
    pub(crate) fn total_len(&self) -> u64 {
        total_len(self.ext_len, self.body_len)
    }

    /// Where the body begins, from the start of the batch.
    pub(crate) fn body_start(&self) -> usize {
        HEADER_LEN.saturating_add(self.ext_len.into())
    }

    /// How many records a dense batch holds; a sparse one says so in its body.
    pub(crate) fn dense_count(&self) -> Option<u64> {
        (!self.sparse).then(|| u64::from(self.last_delta).saturating_add(1))
    }

    /// Some record has no event time, so its time is the append time.
    pub(crate) fn has_append_times(&self) -> bool {
        !self.event_times || self.optional & MIXED_TIMES != 0
    }

    /// What no batch of ours can say, whatever its checksum.
    fn check_bounds(&self, extension: &Extension) -> Result<(), Bad> {
        let plain_len = extension.uncompressed_len.unwrap_or(self.body_len);
        let compressed = self.codec != Codec::None;
        let longest = self.total_len().max(plain_len.into());
        let sound = (longest <= MAX_BATCH_BYTES.into() || planted!(LENGTH_CAP_REMOVED))
            && self.body_len > 0
            && compressed == extension.uncompressed_len.is_some()
            && self.base_delta.checked_add(self.last_delta).is_some()
            // The smallest record is one byte, so a dense batch has no more of them than bytes.
            && (self.sparse || self.last_delta < plain_len);
        if sound { Ok(()) } else { Err(Bad::Corrupt) }
    }
}

/// The lengths of the batch at the front of `bytes`: (base delta, last delta, total length), *not verified*.
///
/// For finding a batch quickly: whoever lands on one verifies it. `None` where no batch begins or the header is cut.
#[inline]
pub(crate) fn hop(bytes: &[u8]) -> Option<(u32, u32, u64)> {
    let fixed = bytes.first_chunk::<HEADER_LEN>()?;
    let [
        s0,
        s1,
        _,
        _,
        _,
        _,
        _,
        _,
        l0,
        l1,
        l2,
        l3,
        _,
        _,
        _,
        _,
        b0,
        b1,
        b2,
        b3,
        d0,
        d1,
        d2,
        d3,
        ..,
    ] = *fixed;
    let [.., e0, e1] = *fixed;
    if [s0, s1] != SYNC.to_le_bytes() {
        return None;
    }
    let body_len = u32::from_le_bytes([l0, l1, l2, l3]);
    let base_delta = u32::from_le_bytes([b0, b1, b2, b3]);
    let last_delta = u32::from_le_bytes([d0, d1, d2, d3]);
    let total = total_len(u16::from_le_bytes([e0, e1]), body_len);
    Some((base_delta, last_delta, total))
}

/// The checksum that the batch at the front of `bytes` claims for its header; `None` where the header is cut.
pub(crate) fn stored_header_crc(bytes: &[u8]) -> Option<u32> {
    let [_, _, _, _, c0, c1, c2, c3, ..] = *bytes.first_chunk::<HEADER_LEN>()?;
    Some(u32::from_le_bytes([c0, c1, c2, c3]))
}

/// Gives the sound batch at the front of `bytes` another place: the distance from its segment's base, and the checksum. All else
/// stays as it is, what a newer version added too. `None` where the header is cut.
pub(crate) fn move_to(bytes: &mut [u8], base_delta: u32, seed: Seed) -> Option<u32> {
    split(bytes).ok()?;
    overwrite(bytes, BASE_DELTA_AT, &base_delta.to_le_bytes());
    let (fixed, ext) = split(bytes).ok()?;
    let crc = header_crc(fixed, ext, seed);
    overwrite(bytes, CRC_AT, &crc.to_le_bytes());
    Some(crc)
}

const BASE_DELTA_AT: usize = 16;

fn total_len(ext_len: u16, body_len: u32) -> u64 {
    u64::from(body_len)
        .saturating_add(ext_len.into())
        .saturating_add(HEADER_LEN as u64)
}

/// Header and extension, or why they are not here. Bytes that cannot begin a batch are `Corrupt` rather than `Short`.
fn split(bytes: &[u8]) -> Result<(&[u8; HEADER_LEN], &[u8]), Bad> {
    let sync = SYNC.to_le_bytes();
    let known = bytes.len().min(sync.len());
    if bytes.get(..known) != sync.get(..known) {
        return Err(Bad::Corrupt);
    }
    let Some((fixed, rest)) = bytes.split_first_chunk::<HEADER_LEN>() else {
        return Err(Bad::Short { needed: HEADER_LEN });
    };
    let [.., e0, e1] = *fixed;
    let ext_len = usize::from(u16::from_le_bytes([e0, e1]));
    let needed = HEADER_LEN.saturating_add(ext_len);
    let ext = rest.get(..ext_len).ok_or(Bad::Short { needed })?;
    Ok((fixed, ext))
}

/// Over everything but the checksum itself: the bytes before and behind it make one short run together.
fn header_crc(fixed: &[u8; HEADER_LEN], ext: &[u8], seed: Seed) -> u32 {
    let [a, b, c, d, _, _, _, _, rest @ ..] = fixed;
    let mut run = [0; RUN_LEN];
    let (front, back) = run.split_at_mut(CRC_AT);
    front.copy_from_slice(&[*a, *b, *c, *d]);
    back.copy_from_slice(rest);
    seed.crc_at_once(&run, ext)
}

/// Where in the header its checksum stands: these four bytes are all that it does not cover.
const CRC_AT: usize = 4;
const _: () = assert!(RUN_LEN == HEADER_LEN - 4);

/// The fields as they stand, before their checksum was looked at.
struct Unchecked {
    crc: u32,
    required: u8,
    header: BatchHeader,
}

fn read_fields(reader: &mut Reader<'_>) -> Option<Unchecked> {
    reader.take(2)?;
    let required = reader.u8()?;
    let optional = reader.u8()?;
    let crc = reader.u32()?;
    let header = BatchHeader {
        codec: Codec::None,
        sparse: required & SPARSE != 0,
        event_times: required & EVENT_TIMES != 0,
        optional,
        body_len: reader.u32()?,
        body_crc: reader.u32()?,
        base_delta: reader.u32()?,
        last_delta: reader.u32()?,
        watermark_back: reader.u32()?,
        append_ms: reader.u48()?,
        ext_len: reader.u16()?,
    };
    Some(Unchecked {
        crc,
        required,
        header,
    })
}

impl Unchecked {
    /// Refuses what a newer version added, and gives the extension.
    fn judge_newer(&self, ext: &[u8]) -> Result<Extension, Bad> {
        if self.required & !REQUIRED_BITS != 0 {
            return Err(Bad::Newer {
                found: self.required.into(),
                supported: REQUIRED_BITS.into(),
            });
        }
        Extension::decode(ext)
    }

    fn into_header(self) -> Result<BatchHeader, Bad> {
        let id = self.required & CODEC_BITS;
        let newer = Bad::Newer {
            found: id.into(),
            supported: LAST_CODEC.into(),
        };
        let codec = Codec::from_id(id).ok_or(newer)?;
        Ok(BatchHeader {
            codec,
            ..self.header
        })
    }
}

#[cfg(test)]
mod tests;
