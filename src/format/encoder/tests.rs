//! The encoder: batches that decode to what was pushed, wherever they are placed.

use super::*;
use crate::format::batch::{NO_WATERMARK, Seed};
use crate::format::body::{check_body_crc, count, records, validate};
use crate::format::compress::decompress;
use crate::format::extension::RecordExtension;
use proptest::prelude::*;

const PLACE: Place = Place {
    salt: 7,
    position: 128,
    base_delta: 5,
    watermark_back: 3,
    append_ms: 1_700_000_000_000,
};

/// What a record is made of: key, value, headers, event time.
type Model = (
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    Vec<(String, Vec<u8>)>,
    Option<i64>,
);

fn record(model: &Model) -> Record<'_> {
    let (key, value, headers, time) = model;
    let mut record = match (key, value) {
        (Some(key), Some(value)) => Record::new(key, value),
        (Some(key), None) => Record::tombstone(key),
        (None, Some(value)) => Record::keyless(value),
        (None, None) => Record::default(),
    };
    for (name, value) in headers {
        record = record.header(name, value);
    }
    match time {
        Some(time) => record.at(Timestamp::from_millis(*time)),
        None => record,
    }
}

/// A placed batch, taken apart again: header, extension, uncompressed body.
fn taken_apart(bytes: &[u8]) -> (BatchHeader, Extension, Vec<u8>) {
    let header = BatchHeader::decode(bytes, Seed::new(7, 128)).unwrap();
    let ext = Extension::decode(&bytes[HEADER_LEN..header.body_start()]).unwrap();
    let stored = &bytes[header.body_start()..];
    assert!(check_body_crc(&header, stored));
    let body = match ext.uncompressed_len {
        None => stored.to_vec(),
        Some(len) => decompress(header.codec, stored, len, len.into()).unwrap(),
    };
    assert_eq!(validate(&header, &body), Ok(()));
    (header, ext, body)
}

#[test]
fn what_was_pushed_comes_back() {
    let mut encoder = Encoder::new();
    encoder.start();
    encoder.push(&Record::new("k", "v"));
    encoder.push(&Record::keyless("only a value").at(Timestamp::from_millis(-4)));
    encoder.push(&Record::tombstone("gone").header("a", "b").header("", ""));
    encoder.finish(Codec::None).unwrap();
    let (header, ext, body) = taken_apart(encoder.place(PLACE));
    let found: Vec<_> = records(&header, &body).map(Result::unwrap).collect();
    assert_eq!(found[0].key.of(&body), Some(&b"k"[..]));
    assert_eq!(found[1].event_time, Some(-4));
    assert_eq!(found[2].headers.of(&body), Some(&b"\x01a\x02b\x00\x01"[..]));
    assert_eq!(found[2].value.of(&body), None);
    assert_eq!((header.base_delta, header.last_delta), (5, 2));
    assert_eq!(ext.max_event_time, Some(-4));
    assert!(header.event_times && header.has_append_times());
}

#[test]
fn the_overhead_stays_within_what_was_promised() {
    let overhead = |count: u32, keyed: bool, time: Option<i64>| {
        let mut encoder = Encoder::new();
        encoder.start();
        for n in 0..count {
            let record = if keyed {
                Record::new("key", vec![b'v'; 97])
            } else {
                Record::keyless(vec![b'v'; 100])
            };
            let time = time.map(|time| Timestamp::from_millis(time + i64::from(n)));
            encoder.push(&time.into_iter().fold(record, Record::at));
        }
        encoder.finish(Codec::None).unwrap();
        encoder.place(PLACE).len() - 100 * usize::try_from(count).unwrap()
    };
    assert!(overhead(1, false, None) <= 40);
    assert!(overhead(100, true, None) <= 400);
    assert!(overhead(100, true, Some(1_700_000_000_000)) <= 600);
}

#[test]
fn a_batch_can_be_placed_again_elsewhere() {
    let mut encoder = Encoder::new();
    encoder.start();
    encoder.push(&Record::keyless("v"));
    encoder.finish(Codec::None).unwrap();
    let first = encoder.place(PLACE).to_vec();
    let elsewhere = encoder
        .place(Place {
            position: 999,
            watermark_back: NO_WATERMARK,
            ..PLACE
        })
        .to_vec();
    assert!(BatchHeader::decode(&elsewhere, Seed::new(7, 999)).is_ok());
    assert_eq!(encoder.place(PLACE), first);
    assert_eq!(encoder.total_len(), first.len() as u64);
    assert_eq!(encoder.header_crc().to_le_bytes(), first[4..8]);
}

#[test]
fn what_is_set_on_the_extension_last_stands_in_the_batch() {
    let mut encoder = Encoder::new();
    encoder.start();
    encoder.push(&Record::keyless("v"));
    encoder.finish(Codec::None).unwrap();
    encoder.extend(|extension| extension.transaction = Some(8));
    let total = encoder.total_len();
    let bytes = encoder.place(PLACE);
    assert_eq!(bytes.len() as u64, total);
    assert_eq!(taken_apart(bytes).1.transaction, Some(8));
}

#[test]
fn records_are_copied_into_a_sparse_batch_with_all_they_have() {
    let mut encoder = Encoder::new();
    let mut extension = Vec::new();
    let version = RecordExtension {
        version: Some(3),
        ..RecordExtension::default()
    };
    version.encode(&mut extension);
    encoder.start();
    encoder.push(&Record::keyless("dropped"));
    let kept = Record::new("k", "v")
        .header("a", "b")
        .at(Timestamp::from_millis(12));
    encoder.push_extended(&kept, &extension);
    encoder.push(&Record::tombstone("last"));
    encoder.finish(Codec::None).unwrap();
    let (header, _, body) = taken_apart(encoder.place(PLACE));

    let mut copy = Encoder::new();
    copy.start_sparse();
    for record in records(&header, &body).map(Result::unwrap).skip(1) {
        copy.push_copy(record.delta, &record, &body);
    }
    copy.finish(Codec::None).unwrap();
    let (header, _, body) = taken_apart(copy.place(PLACE));
    assert_eq!(count(&header, &body), Ok(2));
    assert!(header.sparse && header.dense_count().is_none());
    let found: Vec<_> = records(&header, &body).map(Result::unwrap).collect();
    assert_eq!((found[0].delta, found[1].delta), (1, 2));
    assert_eq!(found[0].event_time, Some(12));
    assert_eq!(found[0].headers.of(&body), Some(&b"\x01a\x02b"[..]));
    assert_eq!(found[0].extension.of(&body), Some(&extension[..]));
    assert_eq!(found[1].value.of(&body), None);
}

#[test]
fn a_body_that_does_not_shrink_is_stored_as_it_is() {
    for codec in [Codec::Lz4, Codec::Zstd] {
        let mut encoder = Encoder::new();
        encoder.start();
        encoder.push(&Record::keyless("x"));
        encoder.finish(codec).unwrap();
        let (header, ext, _) = taken_apart(encoder.place(PLACE));
        assert_eq!((header.codec, ext.uncompressed_len), (Codec::None, None));
    }
}

fn codecs() -> impl Strategy<Value = Codec> {
    prop_oneof![Just(Codec::None), Just(Codec::Lz4), Just(Codec::Zstd)]
}

fn model() -> impl Strategy<Value = Model> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..200);
    let header = (".{0,8}", bytes());
    (
        prop::option::of(bytes()),
        prop::option::of(bytes()),
        prop::collection::vec(header, 0..3),
        prop::option::of(prop_oneof![any::<i64>(), 0..10_i64]),
    )
}

proptest! {
    #[test]
    fn any_records_come_back(models in prop::collection::vec(model(), 1..20), codec in codecs()) {
        let mut encoder = Encoder::new();
        encoder.start();
        for model in &models {
            encoder.push(&record(model));
        }
        encoder.finish(codec).unwrap();
        let times = || models.iter().filter_map(|model| model.3);
        prop_assert_eq!(encoder.max_event_time(), times().max());
        prop_assert_eq!(encoder.min_event_time(), times().min());
        let (header, ext, body) = taken_apart(encoder.place(PLACE));
        prop_assert_eq!(ext.max_event_time, times().max());
        prop_assert_eq!(header.has_append_times(), models.iter().any(|model| model.3.is_none()));
        let found: Vec<_> = records(&header, &body).map(Result::unwrap).collect();
        prop_assert_eq!(found.len(), models.len());
        for (at, (found, model)) in found.iter().zip(&models).enumerate() {
            prop_assert_eq!(found.delta as usize, at);
            prop_assert_eq!(found.key.of(&body), model.0.as_deref());
            prop_assert_eq!(found.value.of(&body), model.1.as_deref());
            prop_assert_eq!(found.event_time, model.3);
        }
    }

    #[test]
    fn any_bytes_are_a_body_or_are_not(body: Vec<u8>, sparse: bool, event_times: bool, last_delta in 0..20_u32) {
        let mut encoder = Encoder::new();
        encoder.start();
        encoder.push(&Record::keyless(""));
        encoder.finish(Codec::None).unwrap();
        let (header, ..) = taken_apart(encoder.place(PLACE));
        let header = BatchHeader { sparse, event_times, last_delta, ..header };
        let found = records(&header, &body).take_while(Result::is_ok).count();
        prop_assert!(found <= body.len());
        let _ = validate(&header, &body);
    }
}
