//! The `STATE` file: what was opened, synced and closed, as entries that are only appended.

use super::Bad;
use super::accumulator::Accumulator;
use super::wire::{
    Reader, Seed, decode_head, encode_head, overwrite, put_i128, put_u8, put_u16, put_u32, put_u64,
    put_u128,
};
use std::ops::Range;

const MAGIC: [u8; 8] = *b"TWGstat\n";
const VERSION: u16 = 0;
/// Bytes of the header that this version writes.
#[cfg(test)]
pub(crate) const STATE_HEADER_LEN: usize = 24;

/// The first two bytes of every entry.
pub(crate) const ENTRY_SYNC: u16 = u16::from_le_bytes([0x9E, 0x37]);
/// Sync word, kind, zero, checksum, length of the payload.
const ENTRY_HEAD_LEN: usize = 12;
const CRC_AT: usize = 4;
/// Bounds what a false sync word makes a reader sum.
const MAX_PAYLOAD: u32 = 512;

const OPEN: u8 = 1;
const CLOSE: u8 = 2;
const POINT: u8 = 3;
const CHECKED: u8 = 4;

/// What tells one directory on one device from a copy of it: device, inode, birth time.
pub(crate) type IdentityFields = (u64, u64, i128);

/// One entry of `STATE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// An opening that is about to write.
    Open {
        number: u64,
        /// `None` where the system does not tell.
        boot_id: Option<u128>,
        identity: IdentityFields,
        catalogue_generation: u64,
        journal_position: u64,
    },
    /// The opening of this number was closed: every partition ends at its newest point.
    Close {
        number: u64,
        catalogue_generation: u64,
    },
    /// All bytes below were synced.
    Point(Point),
    /// All bytes below were written.
    Checked(Point),
}

/// A place in a partition, and what lies below it in its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) topic: u128,
    pub(crate) partition: u32,
    /// The opening that wrote this.
    pub(crate) open_number: u64,
    /// The segment, by base and generation.
    pub(crate) base: u64,
    pub(crate) generation: u32,
    /// In the segment's file.
    pub(crate) position: u64,
    /// The next offset at that position.
    pub(crate) offset: u64,
    pub(crate) accumulator: Accumulator,
    /// Everything decided below this in the journal that concerns the partition is applied and synced.
    pub(crate) journal_position: u64,
    /// Of the partition's manifest; zero if it has none.
    pub(crate) manifest_generation: u64,
}

/// A `STATE` file without entries.
pub(crate) fn encode_header(salt: u64) -> Vec<u8> {
    encode_head(MAGIC, VERSION, &salt.to_le_bytes())
}

/// Appends `entry`, which will stand at `position` in the file.
pub(crate) fn encode_entry(entry: &Entry, salt: u64, position: u64, out: &mut Vec<u8>) {
    let begin = out.len();
    put_u16(out, ENTRY_SYNC);
    put_u8(out, entry.kind());
    put_u8(out, 0);
    put_u32(out, 0);
    put_u32(out, 0);
    put_payload(entry, out);
    let written = out.get_mut(begin..).unwrap_or_default();
    let len = written.len().saturating_sub(ENTRY_HEAD_LEN);
    let len = u32::try_from(len).expect("an entry has a few hundred bytes");
    overwrite(written, 8, &len.to_le_bytes());
    let crc = entry_crc(written, salt, position);
    overwrite(written, CRC_AT, &crc.to_le_bytes());
}

impl Entry {
    fn kind(&self) -> u8 {
        match self {
            Entry::Open { .. } => OPEN,
            Entry::Close { .. } => CLOSE,
            Entry::Point(_) => POINT,
            Entry::Checked(_) => CHECKED,
        }
    }
}

fn put_payload(entry: &Entry, out: &mut Vec<u8>) {
    match entry {
        Entry::Open {
            number,
            boot_id,
            identity,
            catalogue_generation,
            journal_position,
        } => {
            put_u64(out, *number);
            put_u8(out, boot_id.is_some().into());
            put_u128(out, boot_id.unwrap_or_default());
            let (device, inode, born) = *identity;
            put_u64(out, device);
            put_u64(out, inode);
            put_i128(out, born);
            put_u64(out, *catalogue_generation);
            put_u64(out, *journal_position);
        }
        Entry::Close {
            number,
            catalogue_generation,
        } => {
            put_u64(out, *number);
            put_u64(out, *catalogue_generation);
        }
        Entry::Point(point) | Entry::Checked(point) => {
            put_u128(out, point.topic);
            put_u32(out, point.partition);
            put_u64(out, point.open_number);
            put_u64(out, point.base);
            put_u32(out, point.generation);
            put_u64(out, point.position);
            put_u64(out, point.offset);
            point.accumulator.encode(out);
            put_u64(out, point.journal_position);
            put_u64(out, point.manifest_generation);
        }
    }
}

/// What a `STATE` file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub(crate) salt: u64,
    /// With the position of each.
    pub(crate) entries: Vec<(u64, Entry)>,
    /// It decodes from end to end: nothing was skipped.
    pub(crate) sound: bool,
    /// The end of the last sound entry, or of the header if there is none.
    pub(crate) end: u64,
    /// The bytes that do not decode.
    pub(crate) skipped: Vec<Range<u64>>,
}

/// Reads a whole `STATE` file, stepping over what does not decode.
///
/// An `Err` speaks of the header, without whose salt no entry can be told from garbage.
pub(crate) fn decode_all(bytes: &[u8]) -> Result<Decoded, Bad> {
    let (fields, header_len) = decode_head(bytes, MAGIC, VERSION)?;
    let salt = Reader::new(fields).u64().ok_or(Bad::Corrupt)?;
    let mut decoded = Decoded {
        salt,
        entries: Vec::new(),
        sound: true,
        end: header_len as u64,
        skipped: Vec::new(),
    };
    let mut at = header_len;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let begin = at as u64;
        let (len, entry) = match decode_entry(rest, salt, begin) {
            Some((len, entry)) => (len, entry),
            None => (next_sync(rest), None),
        };
        at = at.saturating_add(len);
        match entry {
            Some(entry) => {
                decoded.entries.push((begin, entry));
                decoded.end = at as u64;
            }
            None => decoded.skip(begin..at as u64),
        }
    }
    decoded.sound = decoded.skipped.is_empty();
    Ok(decoded)
}

impl Decoded {
    fn skip(&mut self, range: Range<u64>) {
        match self.skipped.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.skipped.push(range),
        }
    }
}

/// How far it is to the next place where an entry may begin.
fn next_sync(bytes: &[u8]) -> usize {
    let behind = bytes.get(1..).unwrap_or_default();
    let found = behind
        .windows(2)
        .position(|two| two == ENTRY_SYNC.to_le_bytes());
    found.unwrap_or(behind.len()).saturating_add(1)
}

/// The length of the sound entry at the front of `bytes`, and the entry itself unless its kind is of a newer version.
fn decode_entry(bytes: &[u8], salt: u64, position: u64) -> Option<(usize, Option<Entry>)> {
    let mut reader = Reader::new(bytes);
    let sync = reader.u16()?;
    let kind = reader.u8()?;
    reader.u8()?;
    let crc = reader.u32()?;
    let payload_len = reader.u32()?;
    if sync != ENTRY_SYNC || payload_len > MAX_PAYLOAD {
        return None;
    }
    let payload = reader.take_u64(payload_len.into())?;
    let len = ENTRY_HEAD_LEN.checked_add(payload.len())?;
    if entry_crc(bytes.get(..len)?, salt, position) != crc {
        return None;
    }
    if !(OPEN..=CHECKED).contains(&kind) {
        return Some((len, None));
    }
    let mut reader = Reader::new(payload);
    let entry = read_payload(kind, &mut reader)?;
    reader.end()?;
    Some((len, Some(entry)))
}

fn read_payload(kind: u8, reader: &mut Reader<'_>) -> Option<Entry> {
    match kind {
        OPEN => {
            let number = reader.u64()?;
            let has_boot_id = reader.u8()?;
            let boot_id = reader.u128()?;
            (has_boot_id <= 1).then_some(())?;
            Some(Entry::Open {
                number,
                boot_id: (has_boot_id == 1).then_some(boot_id),
                identity: (reader.u64()?, reader.u64()?, reader.i128()?),
                catalogue_generation: reader.u64()?,
                journal_position: reader.u64()?,
            })
        }
        CLOSE => Some(Entry::Close {
            number: reader.u64()?,
            catalogue_generation: reader.u64()?,
        }),
        POINT => read_point(reader).map(Entry::Point),
        CHECKED => read_point(reader).map(Entry::Checked),
        _ => None,
    }
}

fn read_point(reader: &mut Reader<'_>) -> Option<Point> {
    Some(Point {
        topic: reader.u128()?,
        partition: reader.u32()?,
        open_number: reader.u64()?,
        base: reader.u64()?,
        generation: reader.u32()?,
        position: reader.u64()?,
        offset: reader.u64()?,
        accumulator: Accumulator::read(reader)?,
        journal_position: reader.u64()?,
        manifest_generation: reader.u64()?,
    })
}

/// Over everything but the checksum itself.
fn entry_crc(entry: &[u8], salt: u64, position: u64) -> u32 {
    let (front, back) = (entry.get(..CRC_AT), entry.get(8..));
    Seed::new(salt, position).crc(&[front.unwrap_or_default(), back.unwrap_or_default()])
}

#[cfg(test)]
mod tests;
