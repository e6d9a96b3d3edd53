//! Bytes of the format written by hand, checksums included: damage that no checksum shows, and a second opinion on the format.
#![allow(dead_code)] // each test uses a part of it

/// Bytes before the first record batch of a segment.
pub(crate) const SEGMENT_HEADER: usize = 128;
/// Bytes of a record batch before its extension.
pub(crate) const BATCH_HEADER: usize = 36;
/// Bytes of the footer of a sealed segment.
pub(crate) const FOOTER: usize = 76;
/// Bytes of `STATE` before its first entry.
pub(crate) const STATE_HEADER: usize = 24;

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

pub(crate) fn put(bytes: &mut [u8], at: usize, new: &[u8]) {
    bytes[at..at + new.len()].copy_from_slice(new);
}

/// The checksum of bytes that belong into the file of this salt, at this position.
fn seeded(salt: u64, position: u64, parts: &[&[u8]]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&salt.to_le_bytes());
    crc.update(&position.to_le_bytes());
    for part in parts {
        crc.update(part);
    }
    crc.finalize()
}

/// Sums the head of a file anew, after a change.
pub(crate) fn sum_head(bytes: &mut [u8]) {
    let len = usize::from(u16_at(bytes, 10));
    let mut crc = crc32fast::Hasher::new();
    crc.update(&bytes[..12]);
    crc.update(&bytes[16..len]);
    let crc = crc.finalize();
    put(bytes, 12, &crc.to_le_bytes());
}

fn head(magic: [u8; 8], fields: &[u8]) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    bytes.extend(0_u16.to_le_bytes());
    let len = u16::try_from(16 + fields.len()).expect("a short head");
    bytes.extend(len.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend_from_slice(fields);
    sum_head(&mut bytes);
    bytes
}

/// Fields of a segment's header that tests change: where they stand.
pub(crate) mod header {
    pub(crate) const TOPIC: usize = 32;
    pub(crate) const PARTITION: usize = 48;
    pub(crate) const GENERATION: usize = 52;
    pub(crate) const BASE: usize = 56;
    pub(crate) const EXPECTED: usize = 64;
    pub(crate) const SALT: usize = 96;
}

pub(crate) fn salt(segment: &[u8]) -> u64 {
    u64_at(segment, header::SALT)
}

/// One record batch in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchAt {
    pub(crate) position: usize,
    pub(crate) len: usize,
    /// First offset, and how many records.
    pub(crate) first: u64,
    pub(crate) count: u64,
}

impl BatchAt {
    pub(crate) fn end(&self) -> usize {
        self.position + self.len
    }

    pub(crate) fn last(&self) -> u64 {
        self.first + self.count - 1
    }
}

/// The batches of a whole segment, sealed or not. (Dense ones: a sparse one would show too many records.)
pub(crate) fn batches(segment: &[u8]) -> Vec<BatchAt> {
    let base = u64_at(segment, header::BASE);
    let mut found = Vec::new();
    let mut at = SEGMENT_HEADER;
    while segment.len() >= at + BATCH_HEADER && segment[at..at + 2] == [0xB5, 0x4C] {
        let ext = usize::from(u16_at(segment, at + 34));
        let body = u32_at(segment, at + 8) as usize;
        found.push(BatchAt {
            position: at,
            len: BATCH_HEADER + ext + body,
            first: base + u64::from(u32_at(segment, at + 16)),
            count: u64::from(u32_at(segment, at + 20)) + 1,
        });
        at += BATCH_HEADER + ext + body;
    }
    found
}

/// Sums the header of the batch at a position anew, after a change. Its extension must lie within the file.
pub(crate) fn sum_batch_header(segment: &mut [u8], at: usize) {
    let ext = usize::from(u16_at(segment, at + 34));
    let (front, back) = (at..at + 4, at + 8..at + BATCH_HEADER + ext);
    let crc = seeded(salt(segment), at as u64, &[&segment[front], &segment[back]]);
    put(segment, at + 4, &crc.to_le_bytes());
}

/// An index file with these places: (first offset − base, position, append time, greatest time so far).
pub(crate) fn index(salt: u64, covers: u64, places: &[(u32, u32, i64, i64)]) -> Vec<u8> {
    let (mut offsets, mut times) = (Vec::new(), Vec::new());
    for &(delta, position, append, greatest) in places {
        offsets.extend(delta.to_le_bytes());
        offsets.extend(position.to_le_bytes());
        times.extend(append.to_le_bytes());
        times.extend(greatest.to_le_bytes());
        times.extend(delta.to_le_bytes());
    }
    let mut fields = salt.to_le_bytes().to_vec();
    fields.extend(covers.to_le_bytes());
    fields.extend(2_u32.to_le_bytes());
    let mut file = head(*b"TWGindx\n", &fields);
    for (kind, payload) in [(1_u16, offsets), (2, times)] {
        let position = file.len();
        let mut block = kind.to_le_bytes().to_vec();
        block.extend([0; 2]);
        block.extend((payload.len() as u32).to_le_bytes());
        let crc = seeded(salt, position as u64, &[&block, &payload]);
        block.extend(crc.to_le_bytes());
        file.extend(block);
        file.extend(payload);
    }
    file
}

/// The places in an index file, as [`index`] takes them.
pub(crate) fn index_places(file: &[u8]) -> Vec<(u32, u32, i64, i64)> {
    let mut at = usize::from(u16_at(file, 10)) + 12;
    let offsets_len = u32_at(file, at - 8) as usize;
    let offsets = &file[at..at + offsets_len];
    at += offsets_len + 12;
    let times = &file[at..];
    let pairs = offsets.chunks(8).zip(times.chunks(20));
    pairs
        .map(|(offset, time)| {
            let times = (u64_at(time, 0).cast_signed(), u64_at(time, 8).cast_signed());
            (u32_at(offset, 0), u32_at(offset, 4), times.0, times.1)
        })
        .collect()
}

/// A base and a generation: the name of a segment.
pub(crate) type Name = (u64, u32);

/// A manifest that says this: the first readable offset, the greatest generation, an open swap (replaced → live).
pub(crate) fn manifest(log_start: u64, generation: u32, swap: Option<(&[Name], Name)>) -> Vec<u8> {
    let segment = |(base, generation): Name| {
        let mut bytes = base.to_le_bytes().to_vec();
        bytes.extend(generation.to_le_bytes());
        bytes
    };
    let mut payload = log_start.to_le_bytes().to_vec();
    payload.extend(generation.to_le_bytes());
    payload.push(swap.is_some().into());
    if let Some((replaced, live)) = swap {
        payload.extend(segment(live));
        payload.push(u8::try_from(replaced.len()).expect("a varint of one byte"));
        for &old in replaced {
            payload.extend(segment(old));
        }
    }
    payload.push(0); // never compacted
    slots(*b"TWGmani\n", &payload)
}

/// A file of two slots as it is when it was just made: generation 1, in the second slot.
fn slots(magic: [u8; 8], payload: &[u8]) -> Vec<u8> {
    const SLOT: usize = 512;
    let mut fields = (SLOT as u32).to_le_bytes().to_vec();
    fields.extend(1_u64.to_le_bytes());
    let mut file = head(magic, &fields);
    file.resize(64 + SLOT, 0);
    let mut slot = 1_u64.to_le_bytes().to_vec();
    slot.extend((payload.len() as u32).to_le_bytes());
    let crc = seeded(u64::from_le_bytes(magic), 0, &[&slot, payload]);
    slot.extend(crc.to_le_bytes());
    slot.extend_from_slice(payload);
    slot.resize(SLOT, 0);
    file.extend(slot);
    file
}

/// Kinds of entries of `STATE`.
pub(crate) const OPEN: u8 = 1;
pub(crate) const CLOSE: u8 = 2;
pub(crate) const POINT: u8 = 3;

/// The entries of a sound `STATE`: kind, and the bytes that each takes.
pub(crate) fn state_entries(state: &[u8]) -> Vec<(u8, std::ops::Range<u64>)> {
    let mut found = Vec::new();
    let mut at = STATE_HEADER;
    while at < state.len() {
        assert_eq!(state[at..at + 2], [0x9E, 0x37], "an entry of STATE at {at}");
        let len = 12 + u32_at(state, at + 8) as usize;
        found.push((state[at + 2], at as u64..(at + len) as u64));
        at += len;
    }
    found
}
