//! Reading and writing little-endian numbers, with every length checked; and the one checksum of the format.

use std::sync::LazyLock;

use crc32fast::Hasher;

use super::Bad;
use crate::varint;

/// The CRC-32 (IEEE, as in zlib) of these bytes.
pub(crate) fn crc(bytes: &[u8]) -> u32 {
    let mut hasher = hasher();
    hasher.update(bytes);
    hasher.finalize()
}

/// A new hasher is made by asking the processor what it can, which takes longer than to sum a short record: so it is asked once.
fn hasher() -> Hasher {
    static NEW: LazyLock<Hasher> = LazyLock::new(Hasher::new);
    NEW.clone()
}

/// The checksum of more bytes, going on where another one ended.
pub(crate) fn crc_onward(crc: u32, bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new_with_initial(crc);
    hasher.update(bytes);
    hasher.finalize()
}

/// Bytes of a seed: salt and position.
const SEED_LEN: usize = 16;
/// Bytes that [`Seed::crc_at_once`] takes in one run.
pub(crate) const RUN_LEN: usize = 32;

/// Where a seeded checksum starts from: the identity of the file and the place in it.
///
/// A checksum that starts here is the plain CRC-32 of salt, position and the bytes it covers, so bytes that were moved to
/// another file or another place do not pass, although they are unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seed([u8; SEED_LEN]);

impl Seed {
    /// `salt` is the random number of the file, `position` the byte at which the item begins.
    pub(crate) fn new(salt: u64, position: u64) -> Seed {
        let mut bytes = [0; SEED_LEN];
        let (low, high) = bytes.split_at_mut(8);
        low.copy_from_slice(&salt.to_le_bytes());
        high.copy_from_slice(&position.to_le_bytes());
        Seed(bytes)
    }

    /// The checksum of these parts, one after the other.
    pub(crate) fn crc(self, parts: &[&[u8]]) -> u32 {
        let mut hasher = hasher();
        if !planted!(SEED_WITHOUT_PLACE) {
            hasher.update(&self.0);
        }
        for part in parts {
            hasher.update(part);
        }
        hasher.finalize()
    }

    /// The same of a short run and what follows it: in one go with the seed, since three short runs would take far longer.
    #[inline]
    pub(crate) fn crc_at_once(self, run: &[u8; RUN_LEN], behind: &[u8]) -> u32 {
        if planted!(SEED_WITHOUT_PLACE) {
            return self.crc(&[run, behind]);
        }
        let mut whole = [0; SEED_LEN + RUN_LEN];
        let (front, back) = whole.split_at_mut(SEED_LEN);
        front.copy_from_slice(&self.0);
        back.copy_from_slice(run);
        let mut hasher = hasher();
        hasher.update(&whole);
        if !behind.is_empty() {
            hasher.update(behind);
        }
        hasher.finalize()
    }
}

/// Takes numbers from the front of some bytes; `None` where there are too few, and then nothing was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// What was not taken yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    /// As [`take`](Reader::take), with a length that was read from the bytes themselves.
    pub(crate) fn take_u64(&mut self, len: u64) -> Option<&'a [u8]> {
        self.take(usize::try_from(len).ok()?)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Six bytes; the upper two are zero.
    pub(crate) fn u48(&mut self) -> Option<u64> {
        let low: [u8; 6] = self.array()?;
        let mut all = [0; 8];
        let (place, _) = all.split_at_mut(low.len());
        place.copy_from_slice(&low);
        Some(u64::from_le_bytes(all))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    pub(crate) fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }

    pub(crate) fn i128(&mut self) -> Option<i128> {
        self.array().map(i128::from_le_bytes)
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        varint::take(&mut self.rest)
    }

    /// Bytes behind a varint that says how many.
    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let len = ahead.varint()?;
        let taken = ahead.take_u64(len)?;
        *self = ahead;
        Some(taken)
    }

    /// Text behind a varint that says how many bytes it has; `None` too if it is not UTF-8.
    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let mut ahead = *self;
        let text = std::str::from_utf8(ahead.bytes()?).ok()?;
        *self = ahead;
        Some(text)
    }

    /// Nothing may be left.
    pub(crate) fn end(self) -> Option<()> {
        self.is_empty().then_some(())
    }
}

pub(crate) fn put_u8(out: &mut Vec<u8>, n: u8) {
    out.push(n);
}

pub(crate) fn put_u16(out: &mut Vec<u8>, n: u16) {
    out.extend_from_slice(&n.to_le_bytes());
}

pub(crate) fn put_u32(out: &mut Vec<u8>, n: u32) {
    out.extend_from_slice(&n.to_le_bytes());
}

/// The lower six bytes.
#[cfg(test)]
pub(crate) fn put_u48(out: &mut Vec<u8>, n: u64) {
    let all = n.to_le_bytes();
    let (low, _) = all.split_at(6);
    out.extend_from_slice(low);
}

pub(crate) fn put_u64(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(&n.to_le_bytes());
}

pub(crate) fn put_i64(out: &mut Vec<u8>, n: i64) {
    out.extend_from_slice(&n.to_le_bytes());
}

pub(crate) fn put_u128(out: &mut Vec<u8>, n: u128) {
    out.extend_from_slice(&n.to_le_bytes());
}

pub(crate) fn put_i128(out: &mut Vec<u8>, n: i128) {
    out.extend_from_slice(&n.to_le_bytes());
}

/// A varint that says how many, then the bytes.
#[inline]
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Puts `bytes` over what stands at `at`.
///
/// Used for checksums and counts, whose place was left open while the bytes behind it were written.
pub(crate) fn overwrite(out: &mut [u8], at: usize, bytes: &[u8]) {
    let place = at
        .checked_add(bytes.len())
        .and_then(|end| out.get_mut(at..end));
    place
        .expect("the place was left open when the bytes behind it were written")
        .copy_from_slice(bytes);
}

/// Longest first part that a newer version may give a file.
const MAX_HEAD_LEN: u16 = 4096;
/// Magic, version, length of the head, its checksum.
pub(crate) const HEAD_FIXED_LEN: usize = 16;

/// The first bytes of every file: `magic` 8, `version` u16, `head_len` u16, `crc` u32, then the fields of that kind of file.
/// `head_len` counts all of it, so an older reader can skip fields that it does not know; the checksum covers all but itself.
pub(crate) fn encode_head(magic: [u8; 8], version: u16, fields: &[u8]) -> Vec<u8> {
    let len = HEAD_FIXED_LEN.saturating_add(fields.len());
    let len_u16 = u16::try_from(len).expect("the head of a file has a few hundred bytes");
    let mut out = Vec::with_capacity(len);
    out.extend_from_slice(&magic);
    put_u16(&mut out, version);
    put_u16(&mut out, len_u16);
    put_u32(&mut out, 0);
    out.extend_from_slice(fields);
    let crc = head_crc(&out);
    overwrite(&mut out, 12, &crc.to_le_bytes());
    out
}

/// The fields of a file's head, and how long the head is.
pub(crate) fn decode_head(
    bytes: &[u8],
    magic: [u8; 8],
    supported: u16,
) -> Result<(&[u8], usize), Bad> {
    let known = bytes.len().min(magic.len());
    if bytes.get(..known) != magic.get(..known) {
        return Err(Bad::Corrupt);
    }
    let short = Bad::Short {
        needed: HEAD_FIXED_LEN,
    };
    let mut reader = Reader::new(bytes);
    reader.take(magic.len()).ok_or(short)?;
    let version = reader.u16().ok_or(short)?;
    let len = reader.u16().ok_or(short)?;
    let crc = reader.u32().ok_or(short)?;
    if !(HEAD_FIXED_LEN..=usize::from(MAX_HEAD_LEN)).contains(&usize::from(len)) {
        return Err(Bad::Corrupt);
    }
    let len = usize::from(len);
    let head = bytes.get(..len).ok_or(Bad::Short { needed: len })?;
    if head_crc(head) != crc {
        return Err(Bad::Corrupt);
    }
    if version > supported {
        return Err(Bad::Newer {
            found: version.into(),
            supported: supported.into(),
        });
    }
    Ok((head.get(HEAD_FIXED_LEN..).ok_or(Bad::Corrupt)?, len))
}

/// Over everything but the checksum itself.
fn head_crc(head: &[u8]) -> u32 {
    let mut hasher = hasher();
    hasher.update(head.get(..12).unwrap_or_default());
    hasher.update(head.get(HEAD_FIXED_LEN..).unwrap_or_default());
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAGIC: [u8; 8] = *b"TWGtest\n";

    #[test]
    fn numbers_come_back_and_stand_low_byte_first() {
        let mut out = Vec::new();
        put_u8(&mut out, 1);
        put_u16(&mut out, 0x0203);
        put_u32(&mut out, 0x0405_0607);
        put_u48(&mut out, 0x0809_0A0B_0C0D);
        put_u64(&mut out, u64::MAX - 1);
        put_i64(&mut out, -2);
        put_u128(&mut out, u128::MAX - 3);
        put_i128(&mut out, -4);
        put_bytes(&mut out, b"text");
        assert_eq!(out[..7], [1, 3, 2, 7, 6, 5, 4]);
        assert_eq!(out[7..13], [0x0D, 0x0C, 0x0B, 0x0A, 9, 8]);
        let mut reader = Reader::new(&out);
        assert_eq!(reader.u8(), Some(1));
        assert_eq!(reader.u16(), Some(0x0203));
        assert_eq!(reader.u32(), Some(0x0405_0607));
        assert_eq!(reader.u48(), Some(0x0809_0A0B_0C0D));
        assert_eq!(reader.u64(), Some(u64::MAX - 1));
        assert_eq!(reader.i64(), Some(-2));
        assert_eq!(reader.u128(), Some(u128::MAX - 3));
        assert_eq!(reader.i128(), Some(-4));
        assert_eq!(reader.text(), Some("text"));
        assert_eq!(reader.end(), Some(()));
    }

    #[test]
    fn what_is_not_there_is_not_taken() {
        let bytes = [3, b'a', b'b'];
        let mut reader = Reader::new(&bytes);
        assert_eq!(
            (reader.u32(), reader.bytes(), reader.text()),
            (None, None, None)
        );
        assert_eq!(reader.take_u64(u64::MAX), None);
        assert_eq!(reader.rest(), bytes);
    }

    #[test]
    fn a_seeded_checksum_is_the_plain_one_of_salt_position_and_bytes() {
        let mut all = 5_u64.to_le_bytes().to_vec();
        all.extend(6_u64.to_le_bytes());
        all.extend(b"some bytes");
        assert_eq!(Seed::new(5, 6).crc(&[b"some", b" bytes"]), crc(&all));
        // The check value of this CRC.
        assert_eq!(crc(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn every_flipped_bit_and_every_cut_of_a_head_is_noticed() {
        let bytes = encode_head(MAGIC, 0, b"fields");
        assert_eq!(decode_head(&bytes, MAGIC, 0), Ok((&b"fields"[..], 22)));
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            bad.resize(5000, 0);
            assert_eq!(decode_head(&bad, MAGIC, 0), Err(Bad::Corrupt), "bit {bit}");
        }
        for cut in 0..bytes.len() {
            let needed = if cut < HEAD_FIXED_LEN {
                HEAD_FIXED_LEN
            } else {
                bytes.len()
            };
            let short = Err(Bad::Short { needed });
            assert_eq!(decode_head(&bytes[..cut], MAGIC, 0), short);
        }
    }

    #[test]
    fn a_newer_head_is_newer_and_a_longer_one_of_this_version_is_read() {
        let newer = Bad::Newer {
            found: 2,
            supported: 1,
        };
        assert_eq!(
            decode_head(&encode_head(MAGIC, 2, b""), MAGIC, 1),
            Err(newer)
        );
        let (fields, len) = (&b"fields and more"[..], 31);
        assert_eq!(
            decode_head(&encode_head(MAGIC, 1, fields), MAGIC, 1),
            Ok((fields, len))
        );
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_answer(mut bytes: Vec<u8>, with_magic: bool) {
            if with_magic {
                bytes.splice(..0, MAGIC);
            }
            prop_assert!(decode_head(&bytes, MAGIC, 0).is_err());
        }
    }
}
