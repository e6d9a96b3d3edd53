//! Reading and writing little-endian numbers, with every length checked; and the one checksum of the format.

use super::Bad;
use crate::varint;

/// The CRC-32 (IEEE, as in zlib) of these bytes.
pub(crate) fn crc(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// Where a seeded checksum starts from: the identity of the file and the place in it.
///
/// A checksum that starts here is the plain CRC-32 of salt, position and the bytes it covers, so bytes that were moved to
/// another file or another place do not pass, although they are unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seed(u32);

impl Seed {
    /// `salt` is the random number of the file, `position` the byte at which the item begins.
    pub(crate) fn new(salt: u64, position: u64) -> Seed {
        let mut bytes = [0; 16];
        let (low, high) = bytes.split_at_mut(8);
        low.copy_from_slice(&salt.to_le_bytes());
        high.copy_from_slice(&position.to_le_bytes());
        Seed(crc(&bytes))
    }

    /// Goes on where a checksum ended.
    pub(crate) fn go_on(crc: u32) -> Seed {
        Seed(crc)
    }

    /// The checksum of these parts, one after the other.
    pub(crate) fn crc(self, parts: &[&[u8]]) -> u32 {
        let mut hasher = crc32fast::Hasher::new_with_initial(self.0);
        for part in parts {
            hasher.update(part);
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
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head.get(..12).unwrap_or_default());
    hasher.update(head.get(HEAD_FIXED_LEN..).unwrap_or_default());
    hasher.finalize()
}
