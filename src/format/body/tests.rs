//! Bodies: what goes in comes out, and nothing else is taken for one.

use super::*;
use crate::format::batch::Seed;
use crate::format::compress::Codec;
use crate::format::encoder::{Encoder, Place};
use crate::record::Record;

const PLACE: Place = Place {
    salt: 1,
    position: 2,
    base_delta: 3,
    watermark_back: 4,
    append_ms: 5,
};

fn dense(records: u32) -> BatchHeader {
    let mut encoder = Encoder::new();
    encoder.start();
    (0..records).for_each(|_| encoder.push(&Record::keyless("")));
    encoder.finish(Codec::None).unwrap();
    BatchHeader::decode(encoder.place(PLACE), Seed::new(1, 2)).unwrap()
}

fn sparse(last_delta: u32) -> BatchHeader {
    BatchHeader {
        sparse: true,
        last_delta,
        ..dense(1)
    }
}

fn all(header: &BatchHeader, body: &[u8]) -> Result<Vec<RawRecord>, Bad> {
    records(header, body).collect()
}

#[test]
fn a_record_is_the_places_of_its_parts() {
    let found = all(&dense(2), &[VALUE, 2, b'a', b'b', KEY | VALUE, 0, 0]).unwrap();
    assert_eq!(found[0].key, Part::NONE);
    assert_eq!(found[0].value, Part { start: 2, len: 2 });
    assert_eq!(found[1].delta, 1);
    assert_eq!(found[1].key, Part { start: 6, len: 0 });
    assert_eq!(found[1].value, Part { start: 7, len: 0 });
    assert_eq!(found[0].value.span().of(b"--ab"), Some(&b"ab"[..]));
    assert_eq!(found[0].key.span(), Span::NONE);
}

#[test]
fn a_body_that_ends_too_early_or_too_late_is_corrupt() {
    let body = [VALUE, 1, b'a', VALUE, 1, b'b'];
    assert_eq!(validate(&dense(2), &body), Ok(()));
    for cut in 0..body.len() {
        assert_eq!(
            validate(&dense(2), &body[..cut]),
            Err(Bad::Corrupt),
            "cut at {cut}"
        );
    }
    assert_eq!(validate(&dense(1), &body), Err(Bad::Corrupt));
    assert_eq!(validate(&dense(3), &body), Err(Bad::Corrupt));
}

#[test]
fn an_error_is_told_once_and_ends_the_records() {
    let mut records = records(&dense(2), &[VALUE, 0, VALUE, 9]).map(|record| record.is_ok());
    assert_eq!(records.next(), Some(true));
    assert_eq!(records.next(), Some(false));
    assert_eq!(records.next(), None);
}

#[test]
fn more_records_than_bytes_are_refused_before_one_is_read() {
    let header = BatchHeader {
        last_delta: u32::MAX,
        ..dense(1)
    };
    assert_eq!(count(&header, &[VALUE, 0]), Err(Bad::Corrupt));
    let many = [0xff, 0xff, 0xff, 0xff, VALUE, 0, 0];
    assert_eq!(count(&sparse(u32::MAX), &many), Err(Bad::Corrupt));
}

#[test]
fn attributes_of_a_newer_version_are_told_apart_from_damage() {
    for bit in 5..8 {
        let newer = Bad::Newer {
            found: 1 << bit,
            supported: 31,
        };
        assert_eq!(validate(&dense(1), &[1 << bit]), Err(newer));
    }
    let extension = [EXTENSION, 2, 99, 0];
    let newer = Bad::Newer {
        found: 99,
        supported: 4,
    };
    assert_eq!(validate(&dense(1), &extension), Err(newer));
    assert_eq!(validate(&dense(1), &[EXTENSION, 2, 200, 0]), Ok(()));
}

#[test]
fn a_length_that_is_longer_than_it_need_be_is_corrupt() {
    assert_eq!(validate(&dense(1), &[VALUE, 1, b'a']), Ok(()));
    assert_eq!(
        validate(&dense(1), &[VALUE, 0x81, 0, b'a']),
        Err(Bad::Corrupt)
    );
    let huge = [
        VALUE, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1,
    ];
    assert_eq!(validate(&dense(1), &huge), Err(Bad::Corrupt));
}

#[test]
fn offsets_of_a_sparse_batch_rise_and_end_with_the_last() {
    let body = |deltas: &[u8]| {
        let mut body = u32::try_from(deltas.len()).unwrap().to_le_bytes().to_vec();
        for delta in deltas {
            body.extend([KEY, *delta, 0]);
        }
        body
    };
    let deltas = |found: Vec<RawRecord>| found.iter().map(|r| r.delta).collect::<Vec<_>>();
    let found = all(&sparse(9), &body(&[0, 3, 9])).unwrap();
    assert_eq!(deltas(found), [0, 3, 9]);
    for bad in [&[0, 0][..], &[3, 2], &[0, 10], &[]] {
        assert_eq!(
            validate(&sparse(9), &body(bad)),
            Err(Bad::Corrupt),
            "{bad:?}"
        );
    }
    assert_eq!(count(&sparse(1), &body(&[0, 1, 2])), Err(Bad::Corrupt));
}

#[test]
fn headers_are_whole_and_their_names_are_text() {
    let headers = |bytes: &[u8]| {
        let mut body = vec![HEADERS, u8::try_from(bytes.len()).unwrap()];
        body.extend_from_slice(bytes);
        validate(&dense(1), &body)
    };
    assert_eq!(headers(b"\x01a\x02b\x00\x00"), Ok(()));
    for bad in [
        &b""[..],
        b"\x01a",
        b"\x02a",
        b"\x01a\x03b",
        b"\x01\xff\x00",
        b"\x01a\x00\x01",
    ] {
        assert_eq!(headers(bad), Err(Bad::Corrupt), "{bad:?}");
    }
}

#[test]
fn an_event_time_needs_a_base_and_wraps_around() {
    assert_eq!(validate(&dense(1), &[EVENT_TIME, 0]), Err(Bad::Corrupt));
    let header = BatchHeader {
        event_times: true,
        ..dense(1)
    };
    let mut body = i64::MAX.to_le_bytes().to_vec();
    body.extend([EVENT_TIME, 2]);
    assert_eq!(all(&header, &body).unwrap()[0].event_time, Some(i64::MIN));
    assert_eq!(validate(&header, &[0; 7]), Err(Bad::Corrupt));
}
