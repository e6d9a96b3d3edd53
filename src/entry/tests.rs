//! What entries promise, and entries made for the tests of other files.

use super::*;
use crate::varint;

/// As headers are stored, after their count.
pub(crate) fn encode_headers(headers: &[(&str, Option<&[u8]>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in headers {
        varint::put(&mut out, name.len() as u64);
        out.extend_from_slice(name.as_bytes());
        varint::put(&mut out, value.map_or(0, |v| v.len() as u64 + 1));
        out.extend_from_slice(value.unwrap_or_default());
    }
    out
}

/// An entry at `orders-3@17`, in a block that holds more than its own bytes.
pub(crate) fn entry(
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: &[(&str, Option<&[u8]>)],
) -> Entry {
    let mut bytes = b"what was read before".to_vec();
    let mut place = |part: Option<&[u8]>| part.map_or(Span::NONE, |part| append(&mut bytes, part));
    let encoded = encode_headers(headers);
    let view = View {
        offset: Offset::new(17),
        timestamp: Timestamp::from_millis(1_000),
        timestamp_type: TimestampType::EventTime,
        headers: place(Some(&encoded)),
        value: place(value),
        key: place(key),
    };
    bytes.extend_from_slice(b"and after");
    Entry::new(
        Arc::new(Block::owned(TopicPartition::new("orders", 3), bytes)),
        view,
    )
}

/// An entry of nothing, somewhere.
pub(crate) fn entry_at(topic: &str, partition: u32, offset: u64) -> Entry {
    let view = View {
        offset: Offset::new(offset),
        timestamp: Timestamp::from_millis(0),
        timestamp_type: TimestampType::AppendTime,
        key: Span::NONE,
        value: Span::NONE,
        headers: Span::NONE,
    };
    Entry::new(
        Arc::new(Block::owned(
            TopicPartition::new(topic, partition),
            Vec::new(),
        )),
        view,
    )
}

#[test]
fn an_entry_shows_the_parts_of_its_block() {
    let entry = entry(Some(b"k"), Some(b"value"), &[("a", Some(b"1"))]);
    assert_eq!(entry.position().to_string(), "orders-3@17");
    assert_eq!(
        (entry.topic(), entry.partition().get(), entry.offset().get()),
        ("orders", 3, 17)
    );
    assert_eq!(
        (entry.key(), entry.value()),
        (Some(&b"k"[..]), Some(&b"value"[..]))
    );
    assert_eq!(
        entry.headers().collect::<Vec<_>>(),
        [("a", Some(&b"1"[..]))]
    );
    assert_eq!(
        (entry.timestamp().as_millis(), entry.timestamp_type()),
        (1_000, TimestampType::EventTime)
    );
}

#[test]
fn missing_and_empty_are_told_apart() {
    let empty = entry(Some(b""), Some(b""), &[]);
    assert_eq!(
        (empty.key(), empty.value()),
        (Some(&b""[..]), Some(&b""[..]))
    );
    let missing = entry(None, None, &[]);
    assert_eq!((missing.key(), missing.value()), (None, None));
}

#[test]
fn text_that_is_missing_or_no_utf8_is_an_error_that_names_the_record() {
    let good = entry(Some(b"k"), Some("ä".as_bytes()), &[]);
    assert_eq!(
        (good.key_str().unwrap(), good.value_str().unwrap()),
        ("k", "ä")
    );
    let bad = entry(None, Some(b"\xff"), &[]);
    for error in [bad.key_str().unwrap_err(), bad.value_str().unwrap_err()] {
        assert!(
            matches!(&error, Error::Decode { at, .. } if at.to_string() == "orders-3@17"),
            "{error}"
        );
    }
}

#[test]
fn the_last_header_of_a_name_is_found() {
    let entry = entry(
        None,
        None,
        &[
            ("a", Some(b"1")),
            ("b", Some(b"2")),
            ("a", Some(b"3")),
            ("c", Some(b"4")),
            ("c", None),
        ],
    );
    assert_eq!(entry.header("a"), Some(&b"3"[..]));
    assert_eq!(entry.header("c"), None);
    assert_eq!(entry.header("d"), None);
}

#[test]
fn a_borrowed_entry_outlives_the_loop_but_not_the_batch() {
    let entry = entry(Some(b"k"), None, &[]);
    let key = {
        let borrowed = entry.as_ref();
        borrowed.key() // borrowed from the block, not from `borrowed`
    };
    assert_eq!(key, Some(&b"k"[..]));
}

#[test]
fn an_owned_entry_pins_the_block_and_a_detached_one_does_not() {
    let first = entry(Some(b"k"), Some(b""), &[("a", None)]);
    let second = first.as_ref().to_entry();
    assert_eq!(Arc::strong_count(&first.block), 2);

    let own = second.detached();

    assert_eq!(Arc::strong_count(&first.block), 1);
    assert_eq!(own.block.bytes(), b"k\x01a\x00");
    assert_eq!(
        (own.key(), own.value(), own.position()),
        (first.key(), first.value(), first.position())
    );
    assert!(own.headers().eq(first.headers()));
    assert_eq!(entry_at("t", 0, 1).detached().value(), None);
}

#[test]
fn debug_prints_lengths_and_no_contents() {
    let entry = entry(Some(b"secret"), None, &[("token", Some(b"private"))]);
    let expected = "{ position: orders-3@17, timestamp: Timestamp(1000), key_len: Some(6), value_len: None, headers: 1 }";
    assert_eq!(format!("{entry:?}"), format!("Entry {expected}"));
    assert_eq!(
        format!("{:?}", entry.as_ref()),
        format!("EntryRef {expected}")
    );
}
