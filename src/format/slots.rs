//! Small files that are replaced in place: two slots written in turn, so that a torn write leaves the other one.

use super::Bad;
use super::wire::{Reader, Seed, decode_head, encode_head, overwrite, put_u32, put_u64};
use std::ops::Range;

const VERSION: u16 = 0;
/// Generation, length of the payload, checksum.
const SLOT_HEAD_LEN: usize = 16;
const CRC_AT: usize = 12;
/// Bytes before the first slot.
pub(crate) const SLOTS_START: usize = 64;
/// No slot is larger: these files are read whole.
const MAX_SLOT_SIZE: u32 = 1 << 28;

/// What a file of two slots holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotFile {
    Format,
    Catalogue,
    TopicConfig,
    Manifest,
}

impl SlotFile {
    fn magic(self) -> [u8; 8] {
        match self {
            SlotFile::Format => *b"TWGform\n",
            SlotFile::Catalogue => *b"TWGcata\n",
            SlotFile::TopicConfig => *b"TWGtopi\n",
            SlotFile::Manifest => *b"TWGmani\n",
        }
    }
}

/// What two slots hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slots {
    /// Size of each slot in bytes.
    pub(crate) slot_size: u32,
    /// Generation, slot (0 or 1) and payload (as a range of the file's bytes) of the newest sound slot.
    pub(crate) newest: Option<(u64, usize, Range<usize>)>,
    /// A slot that must hold something does not decode: a torn write, or rot.
    pub(crate) bad_other: bool,
}

/// Which slot a generation goes into.
pub(crate) fn slot_of(generation: u64) -> usize {
    usize::from(generation & 1 == 1)
}

/// Where a generation's slot begins in its file.
pub(crate) fn slot_position(generation: u64, slot_size: u32) -> u64 {
    let before = if slot_of(generation) == 0 {
        0
    } else {
        u64::from(slot_size)
    };
    before.saturating_add(SLOTS_START as u64)
}

/// The smallest slot, in steps of doubling from 512 bytes, that leaves a payload room to double.
pub(crate) fn slot_size_for(payload_len: usize) -> Option<u32> {
    let wanted = payload_len
        .checked_mul(2)?
        .checked_add(SLOT_HEAD_LEN)?
        .max(512);
    let size = u32::try_from(wanted.checked_next_power_of_two()?).ok()?;
    (size <= MAX_SLOT_SIZE).then_some(size)
}

/// A whole new file that holds one generation; its other slot is empty. `None` if the payload does not fit.
pub(crate) fn encode_file(
    kind: SlotFile,
    generation: u64,
    payload: &[u8],
    slot_size: u32,
) -> Option<Vec<u8>> {
    if slot_size > MAX_SLOT_SIZE {
        return None;
    }
    let slot = encode_slot(kind, generation, payload, slot_size)?;
    let mut fields = Vec::new();
    put_u32(&mut fields, slot_size);
    put_u64(&mut fields, generation);
    let mut file = encode_head(kind.magic(), VERSION, &fields);
    file.resize(SLOTS_START, 0);
    let size = usize::try_from(slot_size).ok()?;
    let mut slots = [vec![0; size], vec![0; size]];
    *slots.get_mut(slot_of(generation))? = slot;
    file.extend(slots.into_iter().flatten());
    Some(file)
}

/// One whole slot, to be written at [`slot_position`]; `None` if the payload outgrew it.
pub(crate) fn encode_slot(
    kind: SlotFile,
    generation: u64,
    payload: &[u8],
    slot_size: u32,
) -> Option<Vec<u8>> {
    assert!(
        generation > 0,
        "generations begin at 1, since zeros never decode"
    );
    let size = usize::try_from(slot_size).ok()?;
    if payload.len().checked_add(SLOT_HEAD_LEN)? > size {
        return None;
    }
    let mut slot = Vec::with_capacity(size);
    put_u64(&mut slot, generation);
    put_u32(&mut slot, u32::try_from(payload.len()).ok()?);
    put_u32(&mut slot, 0);
    slot.extend_from_slice(payload);
    let crc = slot_crc(kind, &slot);
    overwrite(&mut slot, CRC_AT, &crc.to_le_bytes());
    slot.resize(size, 0);
    Some(slot)
}

/// Reads a whole file of two slots.
///
/// An `Err` speaks of the file's head. Slots that do not decode are not errors here: `newest` is `None` if neither does.
pub(crate) fn decode_slots(kind: SlotFile, bytes: &[u8]) -> Result<Slots, Bad> {
    let (fields, _) = decode_head(bytes, kind.magic(), VERSION)?;
    let mut reader = Reader::new(fields);
    let slot_size = reader.u32().ok_or(Bad::Corrupt)?;
    let first = reader.u64().ok_or(Bad::Corrupt)?;
    if slot_size > MAX_SLOT_SIZE || first == 0 {
        return Err(Bad::Corrupt);
    }
    let even = decode_slot(kind, bytes, 0, slot_size);
    let odd = decode_slot(kind, bytes, 1, slot_size);
    let newest = match (even.clone(), odd.clone()) {
        (Some(a), Some(b)) => Some(if a.0 > b.0 { a } else { b }),
        (a, b) => a.or(b),
    };
    let bad_other = match (&even, &odd) {
        (Some((a, _)), Some((b, _))) => a.abs_diff(*b) != 1,
        // The file was made with one slot filled; the other one is empty until the next generation is written.
        (Some((g, _)), None) => *g > first || !is_blank(bytes, 1, slot_size),
        (None, Some((g, _))) => *g > first || !is_blank(bytes, 0, slot_size),
        (None, None) => true,
    };
    let newest = newest.map(|(generation, payload)| (generation, slot_of(generation), payload));
    Ok(Slots {
        slot_size,
        newest,
        bad_other,
    })
}

fn slot_range(slot: usize, slot_size: u32) -> Option<Range<usize>> {
    let size = usize::try_from(slot_size).ok()?;
    let start = slot.checked_mul(size)?.checked_add(SLOTS_START)?;
    Some(start..start.checked_add(size)?)
}

fn is_blank(bytes: &[u8], slot: usize, slot_size: u32) -> bool {
    let range = slot_range(slot, slot_size);
    let slot = range.and_then(|range| bytes.get(range));
    slot.is_some_and(|bytes| bytes.iter().all(|&byte| byte == 0))
}

fn decode_slot(
    kind: SlotFile,
    bytes: &[u8],
    slot: usize,
    slot_size: u32,
) -> Option<(u64, Range<usize>)> {
    let range = slot_range(slot, slot_size)?;
    let start = range.start;
    let slot_bytes = bytes.get(range)?;
    let mut reader = Reader::new(slot_bytes);
    let generation = reader.u64()?;
    let len = usize::try_from(reader.u32()?).ok()?;
    let crc = reader.u32()?;
    let end = SLOT_HEAD_LEN.checked_add(len)?;
    let covered = slot_bytes.get(..end)?;
    let sound = generation > 0 && slot_of(generation) == slot && slot_crc(kind, covered) == crc;
    sound.then_some(())?;
    Some((
        generation,
        start.checked_add(SLOT_HEAD_LEN)?..start.checked_add(end)?,
    ))
}

/// Seeded by the kind of file, so that no file's slot passes in another kind; over everything but the checksum itself.
fn slot_crc(kind: SlotFile, slot: &[u8]) -> u32 {
    let (front, back) = (slot.get(..CRC_AT), slot.get(SLOT_HEAD_LEN..));
    Seed::new(u64::from_le_bytes(kind.magic()), 0)
        .crc(&[front.unwrap_or_default(), back.unwrap_or_default()])
}
