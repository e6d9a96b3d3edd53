//! STATE: entries come back, holes are stepped over, and no bytes panic.

use super::*;
use proptest::prelude::*;

const SALT: u64 = 5;

fn point() -> Point {
    Point {
        topic: 1 << 100,
        partition: 2,
        open_number: 3,
        base: 4,
        generation: 5,
        position: 6,
        offset: 7,
        accumulator: Accumulator::default(),
        journal_position: 8,
        manifest_generation: 9,
    }
}

fn entries() -> [Entry; 5] {
    let open = |boot_id| Entry::Open {
        number: 1,
        boot_id,
        identity: (2, 3, -4),
        catalogue_generation: 5,
        journal_position: 6,
    };
    [
        open(Some(u128::MAX)),
        open(None),
        Entry::Point(point()),
        Entry::Checked(point()),
        Entry::Close {
            number: 1,
            catalogue_generation: 5,
        },
    ]
}

/// A file of these entries, and where each begins.
fn file(entries: &[Entry]) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = encode_header(SALT);
    let mut begins = Vec::new();
    for entry in entries {
        begins.push(bytes.len());
        let position = bytes.len() as u64;
        encode_entry(entry, SALT, position, &mut bytes);
    }
    (bytes, begins)
}

fn found(decoded: &Decoded) -> Vec<Entry> {
    decoded.entries.iter().map(|(_, entry)| *entry).collect()
}

fn skipped(decoded: &Decoded) -> Vec<(u64, u64)> {
    let ranges = decoded.skipped.iter();
    ranges.map(|range| (range.start, range.end)).collect()
}

#[test]
fn entries_come_back_with_their_places() {
    let (bytes, begins) = file(&entries());
    assert_eq!(begins[0], STATE_HEADER_LEN);
    let decoded = decode_all(&bytes).unwrap();
    assert_eq!(found(&decoded), entries());
    let places: Vec<_> = decoded
        .entries
        .iter()
        .map(|(place, _)| *place as usize)
        .collect();
    assert_eq!(places, begins);
    assert!(decoded.sound && decoded.skipped.is_empty());
    assert_eq!((decoded.salt, decoded.end), (SALT, bytes.len() as u64));
}

#[test]
fn a_file_without_entries_is_sound() {
    let decoded = decode_all(&encode_header(SALT)).unwrap();
    assert!(decoded.sound && decoded.entries.is_empty());
    assert_eq!(decoded.end, STATE_HEADER_LEN as u64);
}

#[test]
fn every_flipped_bit_costs_its_entry_and_no_other() {
    let (bytes, begins) = file(&entries());
    for bit in STATE_HEADER_LEN * 8..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let decoded = decode_all(&bad).unwrap();
        let hit = begins.partition_point(|begin| *begin <= bit / 8) - 1;
        let mut expected = entries().to_vec();
        expected.remove(hit);
        assert_eq!(found(&decoded), expected, "bit {bit}");
        let end = begins.get(hit + 1).copied().unwrap_or(bytes.len());
        assert_eq!(skipped(&decoded), [(begins[hit] as u64, end as u64)]);
        assert!(!decoded.sound);
    }
}

#[test]
fn a_cut_costs_the_last_entry_and_is_told() {
    let (bytes, begins) = file(&entries());
    for cut in STATE_HEADER_LEN..bytes.len() {
        let decoded = decode_all(&bytes[..cut]).unwrap();
        let whole = begins.iter().filter(|begin| **begin <= cut).count() - 1;
        let begin = begins[whole];
        assert_eq!(found(&decoded), entries()[..whole], "cut at {cut}");
        assert_eq!(decoded.end, begin as u64);
        assert_eq!(decoded.sound, begin == cut);
    }
    for cut in 0..STATE_HEADER_LEN {
        assert!(matches!(decode_all(&bytes[..cut]), Err(Bad::Short { .. })));
    }
}

#[test]
fn an_entry_in_a_wrong_place_does_not_pass() {
    let mut bytes = encode_header(SALT);
    encode_entry(&entries()[0], SALT, 999, &mut bytes);
    let decoded = decode_all(&bytes).unwrap();
    assert!(decoded.entries.is_empty() && !decoded.sound);
    assert_eq!(decoded.end, STATE_HEADER_LEN as u64);
}

#[test]
fn zeros_and_ones_behind_the_entries_are_stepped_over() {
    for byte in [0x00, 0xFF] {
        let (mut bytes, _) = file(&entries()[..2]);
        let end = bytes.len();
        bytes.resize(end + 300, byte);
        let at = bytes.len() as u64;
        encode_entry(&entries()[4], SALT, at, &mut bytes);
        let decoded = decode_all(&bytes).unwrap();
        assert_eq!(decoded.entries.len(), 3);
        assert_eq!(skipped(&decoded), [(end as u64, at)]);
        assert_eq!(decoded.end, bytes.len() as u64);
    }
}

#[test]
fn an_entry_of_a_kind_to_come_is_stepped_over_as_a_whole() {
    let (mut bytes, begins) = file(&entries()[3..]);
    let (begin, end) = (begins[0], begins[1]);
    bytes[begin + 2] = CHECKED + 1;
    let crc = entry_crc(&bytes[begin..end], SALT, begin as u64);
    bytes[begin + CRC_AT..begin + 8].copy_from_slice(&crc.to_le_bytes());
    let decoded = decode_all(&bytes).unwrap();
    assert_eq!(found(&decoded), entries()[4..]);
    assert_eq!(skipped(&decoded), [(begin as u64, end as u64)]);
}

proptest! {
    #[test]
    fn any_bytes_behind_a_header_give_an_answer(tail: Vec<u8>, syncs in 0..20_usize) {
        let mut bytes = encode_header(SALT);
        for _ in 0..syncs {
            bytes.extend(ENTRY_SYNC.to_le_bytes());
        }
        bytes.extend(&tail);
        let decoded = decode_all(&bytes).unwrap();
        prop_assert!(decoded.entries.is_empty());
        prop_assert_eq!(decoded.sound, syncs == 0 && tail.is_empty());
        prop_assert!(decode_all(&tail).is_err());
    }
}
