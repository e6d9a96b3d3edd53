//! One record within a body: the bits that say which parts it has, its headers, and its size as Kafka counts it.

use super::wire::put_bytes;
use crate::record::Record;
use crate::varint;
use std::borrow::Cow;

/// The record has a key.
pub(super) const KEY: u8 = 1;
/// It has a value; without one it is a tombstone.
pub(super) const VALUE: u8 = 1 << 1;
/// It has headers.
pub(super) const HEADERS: u8 = 1 << 2;
/// It has an event time; without one its time is the append time.
pub(super) const EVENT_TIME: u8 = 1 << 3;
/// It has an extension.
pub(super) const EXTENSION: u8 = 1 << 4;
/// All that have a meaning yet. A reader that meets another one cannot know where the record ends.
pub(super) const ATTRIBUTES: u8 = KEY | VALUE | HEADERS | EVENT_TIME | EXTENSION;

/// Name and value.
type Header<'a> = (Cow<'a, str>, Option<Cow<'a, [u8]>>);

/// The length of all headers comes first, so that a reader can pass them in one step.
pub(super) fn put_headers(out: &mut Vec<u8>, headers: &[Header<'_>]) {
    let mut len = 0_u64;
    for (name, value) in headers {
        len = len.saturating_add(part_len(name.len() as u64));
        len = len.saturating_add(match value {
            // One more than its length is stored, since 0 says that there is none.
            Some(value) => value_len(value.len() as u64),
            None => 1,
        });
    }
    varint::put(out, len);
    for (name, value) in headers {
        put_bytes(out, name.as_bytes());
        match value {
            Some(value) => {
                varint::put(out, (value.len() as u64).saturating_add(1));
                out.extend_from_slice(value);
            }
            None => out.push(0),
        }
    }
}

fn part_len(len: u64) -> u64 {
    len.saturating_add(varint::len(len) as u64)
}

fn value_len(len: u64) -> u64 {
    len.saturating_add(varint::len(len.saturating_add(1)) as u64)
}

/// Kafka's estimate of what a batch and a record cost beside their parts
/// (`RECORD_BATCH_OVERHEAD` 61 and `MAX_RECORD_OVERHEAD` 21).
const KAFKA_OVERHEAD: u64 = 61 + 21;

/// The size of a record as Kafka counts it against its limit, so that what is accepted here fits a default cluster.
pub(crate) fn size_of(record: &Record<'_>) -> u64 {
    let part = |len: Option<usize>| match len {
        // A missing part is −1, which is one byte.
        None => 1,
        // Lengths are zigzag there: twice the number.
        Some(len) => {
            let len = len as u64;
            len.saturating_add(varint::len(len.saturating_mul(2)) as u64)
        }
    };
    let mut size = KAFKA_OVERHEAD
        .saturating_add(part(record.key().map(<[u8]>::len)))
        .saturating_add(part(record.value().map(<[u8]>::len)))
        .saturating_add(varint::len((record.headers().len() as u64).saturating_mul(2)) as u64);
    for (name, value) in record.headers() {
        size = size
            .saturating_add(part(Some(name.len())))
            .saturating_add(part(value.as_deref().map(<[u8]>::len)));
    }
    size
}

/// Is the size of a record below a limit, so clearly that its exact size need not be told? `false` says nothing.
#[inline]
pub(crate) fn is_surely_within(record: &Record<'_>, limit: u32) -> bool {
    /// More than the overhead, and the lengths of key, value and number of headers, can take.
    const BESIDE: u64 = KAFKA_OVERHEAD + 3 * varint::MAX_LEN as u64;
    let len = |part: Option<&[u8]>| part.map_or(0, |part| part.len() as u64);
    let parts = len(record.key()).saturating_add(len(record.value()));
    record.headers().is_empty() && parts.saturating_add(BESIDE) <= u64::from(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_before_the_headers_is_theirs() {
        for len in [0, 1, 62, 63, 126, 127, 128, 200, 16_383] {
            let text = "x".repeat(len);
            let headers: Vec<Header<'_>> = vec![
                (Cow::Borrowed(&text), Some(Cow::Borrowed(text.as_bytes()))),
                (Cow::Borrowed("n"), None),
            ];
            let mut out = Vec::new();
            put_headers(&mut out, &headers);
            let mut rest = &out[..];
            let told = varint::take(&mut rest);
            assert_eq!(told, Some(rest.len() as u64), "{len}");
        }
    }

    #[test]
    fn what_is_surely_within_a_limit_is_within_it() {
        for len in [0, 1, 63, 64, 8191, 8192, 100_000] {
            let record = Record::new(vec![0; len], vec![0; len]);
            let size = size_of(&record) as u32;
            assert!(!is_surely_within(&record, size - 1), "{len}");
            assert!(is_surely_within(&record, size + 100), "{len}");
        }
        let headers = Record::keyless("").header("n", vec![0; 1000]);
        assert!(!is_surely_within(&headers, 200));
    }

    #[test]
    fn sizes_are_what_kafkas_upper_bound_gives() {
        // 61 for the batch, 21 for the record, then each part with the length of its length.
        assert_eq!(size_of(&Record::keyless("")), 82 + 1 + 1 + 1);
        assert_eq!(size_of(&Record::new("key", "value")), 82 + 4 + 6 + 1);
        let longer = Record::keyless(vec![0; 64]);
        assert_eq!(size_of(&longer), 82 + 1 + (2 + 64) + 1);
        let headers = Record::keyless("v").header("name", "value");
        assert_eq!(size_of(&headers), 82 + 1 + 2 + 1 + 5 + 6);
    }
}
