//! Batch headers: every flipped bit is noticed, and no length is trusted.

use super::*;
use proptest::prelude::*;

const SALT: u64 = 0x0102_0304_0506_0708;
const POSITION: u64 = 128;

fn seed() -> Seed {
    Seed::new(SALT, POSITION)
}

fn header(ext_len: usize) -> BatchHeader {
    BatchHeader {
        codec: Codec::None,
        sparse: false,
        event_times: true,
        optional: MIXED_TIMES,
        body_len: 40,
        body_crc: 0x1234_5678,
        base_delta: 9,
        last_delta: 2,
        watermark_back: NO_WATERMARK,
        append_ms: (1 << 48) - 1,
        ext_len: u16::try_from(ext_len).unwrap(),
    }
}

fn extension() -> Vec<u8> {
    let mut ext = Vec::new();
    let extension = Extension {
        max_event_time: Some(77),
        ..Extension::default()
    };
    extension.encode(&mut ext);
    ext
}

/// Header and extension as they stand in a file.
fn encoded(header: &BatchHeader, ext: &[u8]) -> Vec<u8> {
    let mut bytes = header.encode(ext, seed()).to_vec();
    bytes.extend_from_slice(ext);
    bytes
}

/// As [`encoded`], with a byte of the header replaced and the checksum made anew: what a newer version may write.
fn resealed(at: usize, byte: u8) -> Vec<u8> {
    let ext = extension();
    let mut bytes = encoded(&header(ext.len()), &ext);
    bytes[at] = byte;
    reseal(&mut bytes);
    bytes
}

fn reseal(bytes: &mut [u8]) {
    let (fixed, ext) = bytes.split_at(HEADER_LEN);
    let crc = header_crc(fixed.try_into().unwrap(), ext, seed());
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn a_header_comes_back() {
    let ext = extension();
    let bytes = encoded(&header(ext.len()), &ext);
    let found = BatchHeader::decode(&bytes, seed()).unwrap();
    assert_eq!(found, header(ext.len()));
    assert_eq!(found.total_len(), 36 + 10 + 40);
    assert_eq!(found.body_start(), 46);
    assert_eq!(found.dense_count(), Some(3));
    assert_eq!(hop(&bytes), Some((9, 2, 86)));
}

#[test]
fn every_flipped_bit_of_header_and_extension_is_noticed() {
    let ext = extension();
    let bytes = encoded(&header(ext.len()), &ext);
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(BatchHeader::decode(&bad, seed()).is_err(), "bit {bit}");
        // With more bytes behind it a greater length of the extension is no excuse.
        bad.resize(100_000, 0);
        assert_eq!(
            BatchHeader::decode(&bad, seed()),
            Err(Bad::Corrupt),
            "bit {bit}"
        );
    }
}

#[test]
fn a_header_that_is_cut_asks_for_what_it_needs() {
    let ext = extension();
    let bytes = encoded(&header(ext.len()), &ext);
    for cut in 0..bytes.len() {
        let needed = if cut < HEADER_LEN { HEADER_LEN } else { 46 };
        let short = Err(Bad::Short { needed });
        assert_eq!(
            BatchHeader::decode(&bytes[..cut], seed()),
            short,
            "cut at {cut}"
        );
    }
    assert_eq!(hop(&bytes[..35]), None);
}

#[test]
fn zeros_and_ones_are_no_batch_at_any_length() {
    for byte in [0x00, 0xFF] {
        for len in 1..200 {
            let bytes = vec![byte; len];
            assert_eq!(BatchHeader::decode(&bytes, seed()), Err(Bad::Corrupt));
            assert_eq!(hop(&bytes), None);
        }
    }
    let [low, high] = SYNC.to_le_bytes();
    assert!(low != high && ![low, high].iter().any(|byte| [0x00, 0xFF].contains(byte)));
}

#[test]
fn a_batch_in_a_wrong_file_or_place_does_not_pass() {
    let bytes = encoded(&header(0), &[]);
    assert!(BatchHeader::decode(&bytes, seed()).is_ok());
    for (salt, position) in [
        (SALT + 1, POSITION),
        (SALT, POSITION + 1),
        (SALT, 0),
        (0, POSITION),
    ] {
        let other = Seed::new(salt, position);
        assert_eq!(BatchHeader::decode(&bytes, other), Err(Bad::Corrupt));
    }
}

#[test]
fn what_a_newer_version_added_is_told_apart_from_damage() {
    let decode = |bytes: &[u8]| BatchHeader::decode(bytes, seed());
    for bit in 5..8 {
        let newer = Bad::Newer {
            found: (1 << bit) | 0x10,
            supported: 0x1F,
        };
        assert_eq!(decode(&resealed(2, (1 << bit) | 0x10)), Err(newer));
    }
    let newer = Bad::Newer {
        found: 3,
        supported: 2,
    };
    assert_eq!(decode(&resealed(2, 3)), Err(newer));
    // The extension's type: unknown below 128, unknown above.
    let newer = Bad::Newer {
        found: 6,
        supported: 5,
    };
    assert_eq!(decode(&resealed(HEADER_LEN, 6)), Err(newer));
    assert_eq!(hop(&resealed(HEADER_LEN, 6)), Some((9, 2, 86)));
    assert!(decode(&resealed(HEADER_LEN, 128)).is_ok());
    // Optional bits.
    assert!(decode(&resealed(3, 0xFF)).is_ok());
    // Without a sound checksum nothing is newer.
    let mut damaged = resealed(2, 3);
    damaged[10] ^= 1;
    assert_eq!(decode(&damaged), Err(Bad::Corrupt));
}

#[test]
fn lengths_that_cannot_be_are_corrupt_however_well_summed() {
    let check = |change: &dyn Fn(&mut BatchHeader)| {
        let mut header = header(0);
        change(&mut header);
        BatchHeader::decode(&encoded(&header, &[]), seed())
    };
    // More records than bytes.
    assert_eq!(check(&|h| h.body_len = 2), Err(Bad::Corrupt));
    assert!(check(&|h| h.body_len = 3).is_ok());
    for len in [
        0,
        1,
        0x7FFF_FFFF,
        0x8000_0000,
        0xFFFF_FFFF,
        MAX_BATCH_BYTES,
        MAX_BATCH_BYTES - 35,
    ] {
        assert_eq!(check(&|h| h.body_len = len), Err(Bad::Corrupt), "{len}");
    }
    assert!(check(&|h| h.body_len = MAX_BATCH_BYTES - 36).is_ok());
    // Offsets beyond u32 from the base.
    assert_eq!(check(&|h| h.base_delta = u32::MAX - 1), Err(Bad::Corrupt));
    assert!(check(&|h| h.base_delta = u32::MAX - 2).is_ok());
    // A compressed body without its length.
    assert_eq!(check(&|h| h.codec = Codec::Lz4), Err(Bad::Corrupt));
    assert_eq!(check(&|h| h.last_delta = u32::MAX), Err(Bad::Corrupt));
}

proptest! {
    #[test]
    fn any_bytes_give_an_answer(mut bytes: Vec<u8>, with_sync: bool, salt: u64) {
        if with_sync {
            bytes.splice(..0, SYNC.to_le_bytes());
        }
        prop_assert!(BatchHeader::decode(&bytes, Seed::new(salt, 0)).is_err());
        let _ = hop(&bytes);
    }

    /// Behind a sound checksum everything is read.
    #[test]
    fn any_summed_bytes_give_an_answer(mut bytes in prop::collection::vec(any::<u8>(), 36..120)) {
        bytes[..2].copy_from_slice(&SYNC.to_le_bytes());
        let ext_len = u16::try_from(bytes.len() - HEADER_LEN).unwrap();
        bytes[34..36].copy_from_slice(&ext_len.to_le_bytes());
        reseal(&mut bytes);
        if let Ok(header) = BatchHeader::decode(&bytes, seed()) {
            let ext = &bytes[HEADER_LEN..];
            // Which comes back as it was.
            prop_assert_eq!(encoded(&header, ext), bytes.clone());
        }
    }
}
