//! Small files that are replaced in place: two slots written in turn, so that a torn write leaves the other one.

use super::Bad;
use super::wire::{Reader, Seed, decode_head, encode_head, overwrite, put_u32, put_u64};
use std::ops::Range;

const VERSION: u16 = 0;
/// Generation, length of the payload, checksum.
const SLOT_HEAD_LEN: usize = 16;
const CRC_AT: usize = 12;
/// In the place of its head, this makes a slot unreadable.
pub(crate) const NO_HEAD: [u8; SLOT_HEAD_LEN] = [0; SLOT_HEAD_LEN];
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: u32 = 64;
    const KIND: SlotFile = SlotFile::Manifest;

    /// A file made with generation 1, and then one write for each payload more.
    fn file(payloads: &[&[u8]]) -> Vec<u8> {
        let mut bytes = encode_file(KIND, 1, payloads[0], SIZE).unwrap();
        for (generation, payload) in (2..).zip(&payloads[1..]) {
            let slot = encode_slot(KIND, generation, payload, SIZE).unwrap();
            let at = usize::try_from(slot_position(generation, SIZE)).unwrap();
            bytes[at..at + slot.len()].copy_from_slice(&slot);
        }
        bytes
    }

    fn newest(bytes: &[u8]) -> (Option<(u64, Vec<u8>)>, bool) {
        let slots = decode_slots(KIND, bytes).unwrap();
        let newest = slots.newest.map(|(generation, slot, payload)| {
            assert_eq!(slot, slot_of(generation));
            (generation, bytes[payload].to_vec())
        });
        (newest, slots.bad_other)
    }

    #[test]
    fn the_newest_generation_is_the_one_that_counts() {
        assert_eq!(
            newest(&file(&[b"one"])),
            (Some((1, b"one".to_vec())), false)
        );
        assert_eq!(
            newest(&file(&[b"one", b"two"])),
            (Some((2, b"two".to_vec())), false)
        );
        assert_eq!(
            newest(&file(&[b"one", b"two", b""])),
            (Some((3, Vec::new())), false)
        );
    }

    #[test]
    fn every_flipped_bit_of_a_slot_leaves_the_other_one_and_is_told() {
        let bytes = file(&[b"one", b"two"]);
        let used = SLOT_HEAD_LEN + 3;
        for (slot, left) in [(0, (1, b"one".to_vec())), (1, (2, b"two".to_vec()))] {
            let begin = SLOTS_START + slot * SIZE as usize;
            for bit in begin * 8..(begin + used) * 8 {
                let mut bad = bytes.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(newest(&bad), (Some(left.clone()), true), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_torn_second_write_is_told() {
        let mut bytes = file(&[b"one"]);
        bytes[SLOTS_START + 20] = 1;
        assert_eq!(newest(&bytes), (Some((1, b"one".to_vec())), true));
    }

    #[test]
    fn a_slot_that_became_zeros_is_told() {
        let mut bytes = file(&[b"one", b"two"]);
        bytes[SLOTS_START + SIZE as usize..].fill(0);
        assert_eq!(newest(&bytes), (Some((2, b"two".to_vec())), true));
        bytes[SLOTS_START..].fill(0);
        assert_eq!(newest(&bytes), (None, true));
    }

    #[test]
    fn a_stale_slot_beside_a_newer_one_is_told() {
        let mut bytes = file(&[b"one", b"two", b"three", b"four"]);
        let slot = encode_slot(KIND, 1, b"one", SIZE).unwrap();
        let at = usize::try_from(slot_position(1, SIZE)).unwrap();
        bytes[at..at + slot.len()].copy_from_slice(&slot);
        assert_eq!(newest(&bytes), (Some((4, b"four".to_vec())), true));
    }

    #[test]
    fn a_payload_that_outgrew_its_slot_is_told_apart() {
        assert!(encode_slot(KIND, 1, &[0; 48], SIZE).is_some());
        assert_eq!(encode_slot(KIND, 1, &[0; 49], SIZE), None);
        let size = slot_size_for(1000).unwrap();
        assert!(encode_slot(KIND, 1, &[0; 2000], size).is_some());
        assert_eq!(slot_size_for(usize::MAX), None);
        assert_eq!(slot_size_for(0), Some(512));
    }

    #[test]
    fn a_file_of_another_kind_does_not_pass() {
        let bytes = file(&[b"one"]);
        assert_eq!(decode_slots(SlotFile::Format, &bytes), Err(Bad::Corrupt));
        let mut bytes = bytes;
        let stray = encode_slot(SlotFile::Format, 2, b"two", SIZE).unwrap();
        bytes[SLOTS_START..][..stray.len()].copy_from_slice(&stray);
        assert_eq!(newest(&bytes), (Some((1, b"one".to_vec())), true));
    }

    #[test]
    fn every_cut_is_noticed() {
        let bytes = file(&[b"one", b"two"]);
        for cut in 0..bytes.len() {
            match decode_slots(KIND, &bytes[..cut]) {
                Ok(slots) => assert!(slots.bad_other, "cut at {cut}"),
                Err(bad) => assert!(matches!(bad, Bad::Short { .. }), "cut at {cut}"),
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_answer(tail in prop::collection::vec(any::<u8>(), 0..400), with_head: bool) {
            let mut bytes = tail;
            if with_head {
                let head = file(&[b""])[..SLOTS_START].to_vec();
                bytes.splice(..0, head);
            }
            match decode_slots(KIND, &bytes) {
                Ok(slots) => prop_assert!(with_head && slots.newest.is_none()),
                Err(_) => prop_assert!(!with_head),
            }
        }
    }
}
