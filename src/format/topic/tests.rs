//! Topic descriptions: every field comes back, and no bytes panic.

use super::*;
use proptest::prelude::*;

fn description() -> TopicDescription {
    TopicDescription {
        name: "orders".into(),
        topic: 1 << 90,
        partitions: 10,
        partitioner: Routing::RoundRobin,
        durability: Level::Interval {
            time: Duration::from_micros(1500),
            bytes: 1 << 20,
        },
        retention_age: Some(Duration::MAX),
        retention_bytes: Some(0),
        compaction: Some(CompactionFields {
            min_dirty_ratio: Some(0.5),
            tombstone_retention: None,
            min_lag: Some(Duration::from_secs(1)),
            max_lag: Some(Duration::from_secs(2)),
        }),
        append_time: true,
        retention_time: AgeBy::AppendTime,
        timestamp_limits: Some((Duration::ZERO, Duration::from_secs(3600))),
        compression: Codec::Zstd,
        index_interval_bytes: 4096,
        segment_bytes: 64 << 20,
        segment_age: Some(Duration::from_secs(60)),
        offset_span: 1 << 24,
        max_record_bytes: 1 << 20,
        max_batch_bytes: 8 << 20,
        key_index: true,
        keyed: true,
        used: [
            true, false, false, false, false, false, false, true, false, true,
        ]
        .to_vec(),
        epochs: vec![Epoch::first(10, Routing::RoundRobin)],
    }
}

/// With everything that may be absent absent.
fn plain() -> TopicDescription {
    TopicDescription {
        name: "plain".into(),
        partitions: 1,
        used: vec![false],
        ..TopicDescription::default()
    }
}

#[test]
fn a_description_comes_back() {
    for description in [description(), plain()] {
        let found = TopicDescription::decode(&description.encode());
        assert_eq!(found, Ok(description));
    }
}

#[test]
fn every_cut_is_corrupt_since_what_is_last_must_be_there() {
    let bytes = description().encode();
    for cut in 0..bytes.len() {
        let found = TopicDescription::decode(&bytes[..cut]);
        assert_eq!(found, Err(Bad::Corrupt), "cut at {cut}");
    }
}

#[test]
fn fields_to_come_are_newer_below_128_and_skipped_above() {
    let mut bytes = plain().encode();
    tlv::put_wide(&mut bytes, 128, b"skipped");
    assert_eq!(TopicDescription::decode(&bytes), Ok(plain()));
    let mut bytes = plain().encode();
    tlv::put_wide(&mut bytes, LAST_FIELD + 1, b"");
    let newer = Bad::Newer {
        found: 23,
        supported: 22,
    };
    assert_eq!(TopicDescription::decode(&bytes), Err(newer));
}

#[test]
fn values_to_come_are_newer_and_zero_is_none() {
    for (found, supported, answer) in [
        (decode_level(&[4]).err(), 3, 4),
        (decode_age_by(9).err(), 3, 9),
        (decode_codec(3).err(), 2, 3),
    ] {
        assert_eq!(
            found,
            Some(Bad::Newer {
                found: answer,
                supported
            })
        );
    }
    assert_eq!(decode_level(&[0]), Err(Bad::Corrupt));
    assert_eq!(decode_age_by(0), Err(Bad::Corrupt));
}

#[test]
fn a_ratio_or_a_duration_that_is_none_is_corrupt() {
    for ratio in [f32::NAN, -0.1, 1.1, f32::INFINITY] {
        let fields = CompactionFields {
            min_dirty_ratio: Some(ratio),
            ..CompactionFields::default()
        };
        let bytes = encode_compaction(&fields);
        assert_eq!(whole(&bytes, read_compaction), Err(Bad::Corrupt), "{ratio}");
    }
    let mut bytes = encode_duration(Duration::ZERO);
    bytes[8..].copy_from_slice(&1_000_000_000_u32.to_le_bytes());
    assert_eq!(whole(&bytes, read_duration), Err(Bad::Corrupt));
}

#[test]
fn bits_stand_for_exactly_the_partitions() {
    assert_eq!(encode_bits(&[true, false, false, true]), [0b1001]);
    assert_eq!(
        decode_bits(&[0b1001], 4),
        Some(vec![true, false, false, true])
    );
    assert_eq!(decode_bits(&[0b1001], 3), None);
    assert_eq!(decode_bits(&[0b1001], 9), None);
    assert_eq!(decode_bits(&[], u32::MAX), None);
    assert_eq!(decode_bits(&[], 0), Some(Vec::new()));
}

proptest! {
    #[test]
    fn any_bytes_give_an_answer(bytes: Vec<u8>, at: prop::sample::Index, byte: u8) {
        prop_assert!(TopicDescription::decode(&bytes).is_err());
        let mut bytes = description().encode();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = TopicDescription::decode(&bytes);
    }

    #[test]
    fn bits_come_back(bits: Vec<bool>) {
        let count = u32::try_from(bits.len()).unwrap();
        prop_assert_eq!(decode_bits(&encode_bits(&bits), count), Some(bits));
    }
}
