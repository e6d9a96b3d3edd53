//! The headers of an entry, read one by one from the bytes that they are stored as.
//!
//! Each is: length of the name, the name (UTF-8), length of the value + 1, the value. A length of 0 there is a missing value.
//! Lengths are [varints](crate::varint).

use std::fmt;
use std::iter::FusedIterator;
use std::str;

use crate::varint;

/// The headers of an entry, in the order they were written: names, and values, which may be missing.
///
/// A name may occur twice. `Debug` prints how many bytes are left, never contents.
#[derive(Clone)]
pub struct Headers<'b> {
    rest: &'b [u8],
}

impl<'b> Headers<'b> {
    /// `encoded` was found to be sound when its record batch was read; where it is not, the headers end.
    pub(crate) fn new(encoded: &'b [u8]) -> Self {
        Headers { rest: encoded }
    }
}

impl<'b> Iterator for Headers<'b> {
    type Item = (&'b str, Option<&'b [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let header = take(&mut self.rest);
        if header.is_none() {
            self.rest = &[]; // what cannot be read ends it for good
        }
        header
    }
}

impl FusedIterator for Headers<'_> {}

impl fmt::Debug for Headers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Headers")
            .field("len", &self.rest.len())
            .finish()
    }
}

fn take<'b>(bytes: &mut &'b [u8]) -> Option<(&'b str, Option<&'b [u8]>)> {
    let len = varint::take(bytes)?;
    let name = str::from_utf8(take_bytes(bytes, len)?).ok()?;
    let value = match varint::take(bytes)? {
        0 => None,
        len => Some(take_bytes(bytes, len - 1)?),
    };
    Some((name, value))
}

fn take_bytes<'b>(bytes: &mut &'b [u8], len: u64) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(len).ok()?)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::tests::encode_headers;
    use proptest::prelude::*;

    #[test]
    fn headers_come_back_in_order_with_empty_and_missing_values() {
        let written = [
            ("a", Some(&b"1"[..])),
            ("b", None),
            ("a", Some(b"")),
            ("", Some(b"x")),
        ];
        let bytes = encode_headers(&written);
        assert_eq!(Headers::new(&bytes).collect::<Vec<_>>(), written);
    }

    #[test]
    fn they_end_at_a_header_that_is_cut_short_and_stay_ended() {
        let bytes = encode_headers(&[("a", Some(b"1")), ("name", Some(b"value"))]);
        for end in 4..bytes.len() {
            let mut headers = Headers::new(&bytes[..end]);
            assert_eq!(headers.next(), Some(("a", Some(&b"1"[..]))), "{end}");
            assert_eq!(headers.next(), None, "{end}");
            assert_eq!(headers.next(), None, "{end}");
        }
    }

    #[test]
    fn a_name_that_is_not_utf8_ends_them() {
        assert_eq!(Headers::new(&[1, 0xff, 0]).next(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_end(bytes: Vec<u8>) {
            prop_assert!(Headers::new(&bytes).count() <= bytes.len());
        }
    }
}
