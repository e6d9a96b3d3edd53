//! Whole logs: one file replaced by the input, or a tree of files damaged as the input says.

use std::path::Path;

use super::golden::{self, Image};
use super::lives::{Harm, live};
use super::{mend, mutation, split};
use crate::format::batch;
use crate::format::index::{self, Index};
use crate::format::segment::{SEGMENT_HEADER_LEN, SegmentHeader};
use crate::format::state;

/// Seeds of the three targets.
pub(super) fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for image in [Image::Closed, Image::Killed, Image::PowerLost] {
        let chosen = (image as u8) << 1;
        let (disk, _) = golden::copy(image);
        let read = |path: &Path| disk.read_file(path).unwrap_or_default();
        let bytes = read(Path::new(STATE));
        for mended in [0, 1] {
            let name = format!("{image:?}-{mended}").to_lowercase();
            seeds.push(("state", name, [&[chosen | mended], &bytes[..]].concat()));
        }
        for (n, (path, _)) in golden::segments(image).iter().enumerate() {
            let name = format!("{image:?}-{n}").to_lowercase();
            let bytes = read(&path.with_extension("idx"));
            if let Some(blocks) = bytes.get(HEAD..) {
                let choice = [chosen | 1, n as u8];
                seeds.push((
                    "index",
                    format!("{name}-lies"),
                    [&choice[..], &lie(blocks)].concat(),
                ));
                seeds.push(("index", name, [&choice, blocks].concat()));
            }
        }
        for (n, (path, segment)) in golden::segments(image).iter().enumerate() {
            let file = disk.files().iter().position(|(file, _)| file == path);
            let first = batch::hop(&segment[SEGMENT_HEADER_LEN..]).map_or(0, |hop| hop.2 as usize);
            let last = SEGMENT_HEADER_LEN + first - 1;
            let name = format!("{image:?}-flip-{n}").to_lowercase();
            let flip = [
                chosen,
                0,
                file.unwrap_or(0) as u8,
                last as u8,
                (last >> 8) as u8,
            ];
            seeds.push(("directory", name, [&flip[..], &[0; 4]].concat()));
        }
        for deed in 0..11_u8 {
            let name = format!("{image:?}-deed-{deed}").to_lowercase();
            let steps = [deed, 5 + deed, 200, 0, 9, 0, deed, 0];
            let bytes = [&[chosen][..], &steps, &[0xA5; 9]].concat();
            seeds.push(("directory", name, bytes));
        }
    }
    seeds
}

/// These blocks of an index, every position in the first of them one too high.
fn lie(blocks: &[u8]) -> Vec<u8> {
    let mut bytes = blocks.to_vec();
    if let Some((head, rest)) = bytes.split_first_chunk_mut::<12>() {
        let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let entries = rest.get_mut(..len).unwrap_or_default();
        for entry in entries.chunks_exact_mut(8) {
            entry[4] = entry[4].wrapping_add(1);
        }
    }
    bytes
}

const STATE: &str = "/log/STATE";
/// Bytes of the head of an index file, as this version writes it.
const HEAD: usize = 36;

/// The index of one sealed segment of a golden log. (With bit 0 the head is made anew, and the input begins with its blocks.)
///
/// # Panics
///
/// If the index changes what is read.
pub fn index(data: &[u8]) {
    let Some((mended, flags, rest)) = split(data) else {
        return;
    };
    let Some((&chosen, bytes)) = rest.split_first() else {
        return;
    };
    let image = Image::chosen(flags >> 1);
    let segments = golden::segments(image);
    let (path, segment) = &segments[usize::from(chosen) % segments.len()];
    let (header, _) = SegmentHeader::decode(segment).expect("a golden segment");
    let bytes = if mended {
        framed(bytes, header.salt, segment.len() as u64)
    } else {
        bytes.to_vec()
    };
    if let Ok(read) = Index::decode(&bytes, header.salt) {
        let again = Index::decode(&read.encode(header.salt), header.salt);
        assert_eq!(again, Ok(read), "what was read can be written");
    }
    let (disk, known) = golden::copy(image);
    disk.write_file(path.with_extension("idx"), &bytes)
        .expect("the directory is there");
    live(disk, known, Harm::NoRecord);
}

/// These bytes as the blocks of an index of a segment of `len` bytes, with right sums.
fn framed(bytes: &[u8], salt: u64, len: u64) -> Vec<u8> {
    // The footer is not covered.
    let covers = len.saturating_sub(crate::format::footer::FOOTER_LEN as u64);
    let mut blocks = Vec::new();
    let mut rest = bytes;
    while let Some((head, behind)) = rest.split_first_chunk::<12>() {
        let kind = u16::from_le_bytes([head[0], head[1]]);
        let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let (payload, behind) = behind.split_at(len.min(behind.len()));
        blocks.push((kind, payload.to_vec()));
        rest = behind;
    }
    index::encode_blocks(salt, covers, &blocks)
}

/// The `STATE` file of a golden log.
///
/// # Panics
///
/// If decoding is not total, or if records come out that were not appended.
pub fn state(data: &[u8]) {
    let Some((mended, flags, bytes)) = split(data) else {
        return;
    };
    let mut bytes = bytes.to_vec();
    if mended {
        let _ = mend::state(&mut bytes);
    }
    check_entries(&bytes);
    let (disk, known) = golden::copy(Image::chosen(flags >> 1));
    disk.write_file(STATE, &bytes).expect("the root is there");
    // Bytes whose sums are right may lie: about where a partition ends, for one.
    let harm = if mended {
        Harm::Anything
    } else {
        Harm::NoRecord
    };
    live(disk, known, harm);
}

/// Every byte belongs to the head, to one entry, or to what was skipped; entries come back when they are written.
fn check_entries(bytes: &[u8]) {
    let Ok(decoded) = state::decode_all(bytes) else {
        return;
    };
    let mut skipped = 0;
    let mut last = 0;
    for hole in &decoded.skipped {
        assert!(hole.start >= last && hole.end > hole.start, "holes ascend");
        last = hole.end;
        skipped += hole.end - hole.start;
    }
    assert_eq!(decoded.sound, skipped == 0);
    assert!(decoded.end <= bytes.len() as u64);
    let mut before = None;
    for (position, entry) in &decoded.entries {
        assert!(before < Some(*position), "entries ascend");
        before = Some(*position);
        let mut file = bytes[..*position as usize].to_vec();
        state::encode_entry(entry, decoded.salt, *position, &mut file);
        let again = state::decode_all(&file).map(|again| again.entries.last().copied());
        assert_eq!(
            again,
            Ok(Some((*position, *entry))),
            "what was read can be written"
        );
    }
}

/// A golden log, damaged as the input says.
///
/// # Panics
///
/// If opening, reading or appending panics, or gives wrong data, or an error that damage cannot cause.
pub fn directory(data: &[u8]) {
    let Some((_, flags, program)) = split(data) else {
        return;
    };
    let (disk, known) = golden::copy(Image::chosen(flags >> 1));
    mutation::damage(&disk, program);
    live(disk, known, Harm::Anything);
}
