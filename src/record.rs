//! What goes into the log: a record with key, value, headers and time, borrowed where it can be.
//!
//! A missing value is a *tombstone*, which says that its key is gone; an empty value is a value like any other. An empty key
//! is a key; a record without one goes to any partition.

use std::borrow::Cow;
use std::fmt;

use crate::clock::Timestamp;
use crate::entry::{EntryRef, TimestampType};

/// Bytes that go into a record: strings, slices, vectors, owned or borrowed. Borrowed bytes are not copied here.
pub trait IntoBytes<'a> {
    /// The bytes, borrowed if they were.
    fn into_bytes(self) -> Cow<'a, [u8]>;
}

impl<'a> IntoBytes<'a> for &'a str {
    #[inline]
    fn into_bytes(self) -> Cow<'a, [u8]> {
        Cow::Borrowed(self.as_bytes())
    }
}

impl<'a> IntoBytes<'a> for String {
    #[inline]
    fn into_bytes(self) -> Cow<'a, [u8]> {
        Cow::Owned(String::into_bytes(self))
    }
}

impl<'a> IntoBytes<'a> for &'a String {
    #[inline]
    fn into_bytes(self) -> Cow<'a, [u8]> {
        Cow::Borrowed(self.as_bytes())
    }
}

impl<'a> IntoBytes<'a> for &'a [u8] {
    #[inline]
    fn into_bytes(self) -> Cow<'a, [u8]> {
        Cow::Borrowed(self)
    }
}

impl<'a, const N: usize> IntoBytes<'a> for &'a [u8; N] {
    #[inline]
    fn into_bytes(self) -> Cow<'a, [u8]> {
        Cow::Borrowed(self)
    }
}

impl<'a> IntoBytes<'a> for Vec<u8> {
    #[inline]
    fn into_bytes(self) -> Cow<'a, [u8]> {
        Cow::Owned(self)
    }
}

impl<'a> IntoBytes<'a> for &'a Vec<u8> {
    #[inline]
    fn into_bytes(self) -> Cow<'a, [u8]> {
        Cow::Borrowed(self)
    }
}

impl<'a> IntoBytes<'a> for Cow<'a, [u8]> {
    #[inline]
    fn into_bytes(self) -> Cow<'a, [u8]> {
        self
    }
}

impl<'a> IntoBytes<'a> for Cow<'a, str> {
    #[inline]
    fn into_bytes(self) -> Cow<'a, [u8]> {
        match self {
            Cow::Borrowed(s) => s.into_bytes(),
            Cow::Owned(s) => IntoBytes::into_bytes(s),
        }
    }
}

/// A header that goes in: its name, and its value, which may be missing.
pub(crate) type Header<'a> = (Cow<'a, str>, Option<Cow<'a, [u8]>>);

/// What goes in. Borrows: `append` encodes it once into the log's buffer and allocates nothing.
///
/// A pair of key and value becomes a record by itself, so `append(("customer-7", "2 x espresso"))` is short for
/// `append(Record::new(..))`. `Debug` prints lengths, never contents.
///
/// ```
/// use thalweg::{Record, Timestamp};
///
/// let order = Record::new("customer-7", "2 x espresso")
///     .header("trace", "00f067aa")
///     .at(Timestamp::from_millis(1_700_000_000_000));
/// let order_is_gone = Record::tombstone("customer-7");
/// let measured = Record::keyless(21.5_f64.to_le_bytes().to_vec());
/// # let _ = (order, order_is_gone, measured);
/// ```
#[derive(Clone, Default)]
pub struct Record<'a> {
    key: Option<Cow<'a, [u8]>>,
    value: Option<Cow<'a, [u8]>>,
    headers: Vec<Header<'a>>, // an empty one allocates nothing
    timestamp: Option<Timestamp>,
}

impl<'a> Record<'a> {
    /// A record with key and value.
    #[inline]
    pub fn new(key: impl IntoBytes<'a>, value: impl IntoBytes<'a>) -> Self {
        Record {
            key: Some(key.into_bytes()),
            value: Some(value.into_bytes()),
            ..Record::default()
        }
    }

    /// A record without a key: any partition may get it.
    #[inline]
    pub fn keyless(value: impl IntoBytes<'a>) -> Self {
        Record {
            value: Some(value.into_bytes()),
            ..Record::default()
        }
    }

    /// A record without a value: what its key stood for is gone. Compaction removes the key for good.
    pub fn tombstone(key: impl IntoBytes<'a>) -> Self {
        Record {
            key: Some(key.into_bytes()),
            ..Record::default()
        }
    }

    /// A record again, headers and event time included, borrowed from where it was read.
    ///
    /// The time at which another log appended it is no event time: such a record gets a new one.
    pub fn of(entry: impl Into<EntryRef<'a>>) -> Self {
        let entry = entry.into();
        Record {
            key: entry.key().map(Cow::Borrowed),
            value: entry.value().map(Cow::Borrowed),
            headers: entry
                .headers()
                .map(|(name, value)| (name.into(), value.map(Cow::Borrowed)))
                .collect(),
            timestamp: (entry.timestamp_type() == TimestampType::EventTime)
                .then(|| entry.timestamp()),
        }
    }

    /// Adds a header behind those that are there. A name may occur twice.
    #[must_use = "the header is in the record that is returned"]
    pub fn header(mut self, name: &'a str, value: impl IntoBytes<'a>) -> Self {
        self.headers
            .push((Cow::Borrowed(name), Some(value.into_bytes())));
        self
    }

    /// Sets the event time: when it happened. Without one, a record gets the time at which it is appended.
    #[must_use = "the time is in the record that is returned"]
    pub fn at(mut self, event_time: Timestamp) -> Self {
        self.timestamp = Some(event_time);
        self
    }

    /// `None` is keyless; an empty key is a key.
    #[inline]
    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.key.as_deref()
    }

    /// `None` is a tombstone; an empty value is a value.
    #[inline]
    pub(crate) fn value(&self) -> Option<&[u8]> {
        self.value.as_deref()
    }

    /// In the order in which they were added.
    #[inline]
    pub(crate) fn headers(&self) -> &[Header<'a>] {
        &self.headers
    }

    /// The event time, if it has one.
    #[inline]
    pub(crate) fn timestamp(&self) -> Option<Timestamp> {
        self.timestamp
    }
}

impl<'a, K: IntoBytes<'a>, V: IntoBytes<'a>> From<(K, V)> for Record<'a> {
    fn from((key, value): (K, V)) -> Self {
        Record::new(key, value)
    }
}

impl fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("key_len", &self.key().map(<[u8]>::len))
            .field("value_len", &self.value().map(<[u8]>::len))
            .field("headers", &self.headers.len())
            .field("timestamp", &self.timestamp)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::tests::entry;

    fn bytes_of<'a>(v: impl IntoBytes<'a>) -> Cow<'a, [u8]> {
        v.into_bytes()
    }

    #[test]
    fn borrowed_bytes_stay_borrowed() {
        let (text, vec) = (String::from("ab"), vec![b'a', b'b']);
        let all = [
            bytes_of("ab"),
            bytes_of(&text),
            bytes_of(&vec),
            bytes_of(&vec[..]),
            bytes_of(b"ab"),
            bytes_of(Cow::Borrowed("ab")),
        ];
        for bytes in all {
            assert!(matches!(bytes, Cow::Borrowed(b"ab")));
        }
    }

    #[test]
    fn owned_bytes_are_moved_and_not_copied() {
        let text = String::from("ab");
        let place = text.as_ptr();
        assert_eq!(bytes_of(text).as_ptr(), place);
        let vec = vec![b'a', b'b'];
        let place = vec.as_ptr();
        assert_eq!(bytes_of(Cow::<[u8]>::Owned(vec)).as_ptr(), place);
        assert_eq!(&*bytes_of(Cow::<str>::Owned("ab".into())), b"ab");
    }

    #[test]
    fn missing_and_empty_are_told_apart() {
        let empty = Record::new("", "");
        assert_eq!(
            (empty.key(), empty.value()),
            (Some(&b""[..]), Some(&b""[..]))
        );
        assert_eq!(Record::keyless("v").key(), None);
        assert_eq!(Record::tombstone("k").value(), None);
    }

    #[test]
    fn a_pair_is_a_record() {
        let record = Record::from(("k", vec![1, 2]));
        assert_eq!(
            (record.key(), record.value()),
            (Some(&b"k"[..]), Some(&[1, 2][..]))
        );
        assert_eq!(record.timestamp(), None);
    }

    #[test]
    fn headers_keep_their_order_and_their_repetitions() {
        let record = Record::keyless("v")
            .header("a", "1")
            .header("b", "2")
            .header("a", b"3");
        let names: Vec<_> = record
            .headers()
            .iter()
            .map(|(name, _)| name.as_ref())
            .collect();
        assert_eq!(names, ["a", "b", "a"]);
    }

    #[test]
    fn a_record_without_headers_allocates_nothing_for_them() {
        assert_eq!(Record::new("k", "v").headers.capacity(), 0);
        let read = entry(Some(b"k"), Some(b"v"), &[]);
        assert_eq!(Record::of(&read).headers.capacity(), 0);
    }

    #[test]
    fn a_record_of_an_entry_has_all_that_the_entry_has_and_borrows_it() {
        let read = entry(Some(b"k"), None, &[("a", Some(b"1")), ("a", None)]);
        let record = Record::of(&read);
        assert_eq!((record.key(), record.value()), (read.key(), None));
        assert_eq!(
            record.key().map(<[u8]>::as_ptr),
            read.key().map(<[u8]>::as_ptr)
        );
        assert_eq!(
            record.headers()[0],
            ("a".into(), Some(Cow::Borrowed(&b"1"[..])))
        );
        assert_eq!(record.headers()[1], ("a".into(), None));
        assert_eq!(record.timestamp(), Some(read.timestamp()));
    }

    #[test]
    fn debug_prints_lengths_and_no_contents() {
        let record = Record::new("secret", "hidden")
            .header("token", "private")
            .at(Timestamp::from_millis(5));
        let shown = format!("{record:?}");
        assert_eq!(
            shown,
            "Record { key_len: Some(6), value_len: Some(6), headers: 1, timestamp: Some(Timestamp(5)) }"
        );
    }
}
