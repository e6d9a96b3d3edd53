//! The body of a record batch, read record by record without copying.

use super::Bad;
use super::batch::BatchHeader;
use super::extension::RecordExtension;
use super::wire::{Reader, crc};
use crate::entry::Span;
use crate::varint;

pub(crate) const KEY: u8 = 1;
pub(crate) const VALUE: u8 = 1 << 1;
pub(crate) const HEADERS: u8 = 1 << 2;
pub(crate) const EVENT_TIME: u8 = 1 << 3;
pub(crate) const EXTENSION: u8 = 1 << 4;
const ATTRIBUTES: u8 = KEY | VALUE | HEADERS | EVENT_TIME | EXTENSION;

/// Where in a body a part of a record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) start: u32,
    /// `u32::MAX` where the record has no such part.
    pub(crate) len: u32,
}

impl Part {
    /// The record has no such part, which is not the same as an empty one.
    pub(crate) const NONE: Part = Part {
        start: 0,
        len: u32::MAX,
    };

    /// The bytes; `None` if the part is absent.
    #[inline]
    pub(crate) fn of(self, body: &[u8]) -> Option<&[u8]> {
        self.within(0).of(body)
    }

    /// The same part as seen from a block in which the body begins at `body_start`.
    #[inline]
    pub(crate) fn within(self, body_start: u32) -> Span {
        if self.len == u32::MAX {
            return Span::NONE;
        }
        Span::new(self.start.saturating_add(body_start), self.len)
    }
}

/// One record as places in the body it was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawRecord {
    /// Its offset − the batch's first offset.
    pub(crate) delta: u32,
    /// Milliseconds since the epoch; `None`: its time is the append time.
    pub(crate) event_time: Option<i64>,
    pub(crate) key: Part,
    pub(crate) value: Part,
    /// The encoded headers: name length, name, value length + 1 (0: no value), value, and so on to the end.
    pub(crate) headers: Part,
    /// What [`RecordExtension::decode`] reads.
    pub(crate) extension: Part,
}

/// The records of an uncompressed body, in order of offset.
///
/// Every record that comes out is sound: its parts lie within the body, its headers and its extension decode, its offset
/// follows. The first thing that is not ends the iteration with an `Err`, trailing bytes too.
#[derive(Clone, Debug)]
pub(crate) struct Records<'b> {
    shape: Shape,
    rest: &'b [u8],
    left: u64,
    /// The least delta that the next record may have; of a dense batch, the one it has.
    next_delta: u64,
    failed: Option<Bad>,
}

/// What is the same for all records of a batch.
#[derive(Clone, Copy, Debug)]
struct Shape {
    body_len: usize,
    last_delta: u64,
    sparse: bool,
    base_event_time: Option<i64>,
}

/// Reads an uncompressed body.
pub(crate) fn records<'b>(header: &BatchHeader, body: &'b [u8]) -> Records<'b> {
    let mut records = Records {
        shape: Shape {
            body_len: body.len(),
            last_delta: header.last_delta.into(),
            sparse: header.sparse,
            base_event_time: None,
        },
        rest: body,
        left: 0,
        next_delta: 0,
        failed: None,
    };
    if records.open(header).is_none() {
        records.failed = Some(Bad::Corrupt);
    }
    records
}

/// How many records a body says it holds: never more than it has bytes.
pub(crate) fn count(header: &BatchHeader, body: &[u8]) -> Result<u64, Bad> {
    let records = records(header, body);
    match records.failed {
        Some(bad) => Err(bad),
        None => Ok(records.left),
    }
}

/// Reads every record of an uncompressed body, and says whether all is well.
pub(crate) fn validate(header: &BatchHeader, body: &[u8]) -> Result<(), Bad> {
    for record in records(header, body) {
        record?;
    }
    Ok(())
}

/// Is this the body, as stored, that the header was made for?
pub(crate) fn check_body_crc(header: &BatchHeader, body: &[u8]) -> bool {
    u64::from(header.body_len) == body.len() as u64 && crc(body) == header.body_crc
}

impl Iterator for Records<'_> {
    type Item = Result<RawRecord, Bad>;

    // Nothing called from here borrows `self` or the slice, so that a loop over the records keeps both in registers.
    #[inline]
    fn next(&mut self) -> Option<Result<RawRecord, Bad>> {
        if self.left == 0 {
            return self.stop().map(Err);
        }
        let read = match self.rest.first() {
            // Nearly all records are a key and a value, and reading those is small enough to be inlined.
            Some(attributes) if attributes & !(KEY | VALUE) == 0 && !self.shape.sparse => self
                .shape
                .read_plain(*attributes, self.next_delta, self.rest),
            _ => self.shape.read_any(self.next_delta, self.rest),
        };
        match read {
            Ok((record, rest)) => {
                self.rest = rest;
                self.next_delta = u64::from(record.delta).wrapping_add(1);
                self.left = self.left.wrapping_sub(1);
                Some(Ok(record))
            }
            Err(bad) => {
                self.failed = Some(bad);
                self.stop().map(Err)
            }
        }
    }
}

impl Records<'_> {
    /// What stands before the first record: the count of a sparse batch, and the base event time.
    fn open(&mut self, header: &BatchHeader) -> Option<()> {
        u32::try_from(self.shape.body_len).ok()?;
        let mut reader = Reader::new(self.rest);
        let count = match header.dense_count() {
            Some(count) => count,
            None => u64::from(reader.u32()?),
        };
        if header.event_times {
            self.shape.base_event_time = Some(reader.i64()?);
        }
        self.rest = reader.rest();
        let fits = count > 0
            && count <= self.rest.len() as u64
            && count <= u64::from(header.last_delta).saturating_add(1);
        fits.then_some(())?;
        self.left = count;
        Some(())
    }

    /// At the end, once: what went wrong or was left over, if anything.
    #[inline]
    fn stop(&mut self) -> Option<Bad> {
        let left_over = (!self.rest.is_empty()).then_some(Bad::Corrupt);
        let bad = self.failed.or(left_over);
        self.failed = None;
        self.left = 0;
        self.rest = &[];
        bad
    }
}

/// A record, and what follows it.
type Read<'b> = Result<(RawRecord, &'b [u8]), Bad>;

impl Shape {
    /// A record of a dense batch that is only a key and a value.
    #[inline]
    fn read_plain<'b>(self, attributes: u8, delta: u64, rest: &'b [u8]) -> Read<'b> {
        let rest = rest.get(1..).ok_or(Bad::Corrupt)?;
        let (key, rest) = self.part(attributes & KEY, rest).ok_or(Bad::Corrupt)?;
        let (value, rest) = self.part(attributes & VALUE, rest).ok_or(Bad::Corrupt)?;
        let delta = u32::try_from(delta).map_err(|_| Bad::Corrupt)?;
        let (headers, extension) = (Part::NONE, Part::NONE);
        let record = RawRecord {
            delta,
            event_time: None,
            key,
            value,
            headers,
            extension,
        };
        Ok((record, rest))
    }

    /// Any record.
    #[inline(never)]
    fn read_any<'b>(self, next_delta: u64, rest: &'b [u8]) -> Read<'b> {
        let (&attributes, mut rest) = rest.split_first().ok_or(Bad::Corrupt)?;
        if attributes & !ATTRIBUTES != 0 {
            let (found, supported) = (attributes.into(), ATTRIBUTES.into());
            return Err(Bad::Newer { found, supported });
        }
        let delta = self.delta(next_delta, &mut rest).ok_or(Bad::Corrupt)?;
        let mut event_time = None;
        if attributes & EVENT_TIME != 0 {
            event_time = Some(self.event_time(&mut rest).ok_or(Bad::Corrupt)?);
        }
        let (key, rest) = self.part(attributes & KEY, rest).ok_or(Bad::Corrupt)?;
        let (value, rest) = self.part(attributes & VALUE, rest).ok_or(Bad::Corrupt)?;
        let (headers, behind) = self.part(attributes & HEADERS, rest).ok_or(Bad::Corrupt)?;
        if headers != Part::NONE {
            check_headers(rest).ok_or(Bad::Corrupt)?;
        }
        let (extension, end) = self
            .part(attributes & EXTENSION, behind)
            .ok_or(Bad::Corrupt)?;
        if extension != Part::NONE {
            check_extension(behind)?;
        }
        let record = RawRecord {
            delta,
            event_time,
            key,
            value,
            headers,
            extension,
        };
        Ok((record, end))
    }

    fn delta(self, next_delta: u64, rest: &mut &[u8]) -> Option<u32> {
        let mut delta = next_delta;
        if self.sparse {
            delta = varint::take(rest)?;
        }
        let in_order = (next_delta..=self.last_delta).contains(&delta);
        u32::try_from(delta).ok().filter(|_| in_order)
    }

    fn event_time(self, rest: &mut &[u8]) -> Option<i64> {
        let difference = varint::take_signed(rest)?;
        // Modulo 2⁶⁴, so that any two times can stand in one batch.
        Some(self.base_event_time?.wrapping_add(difference))
    }

    /// Bytes behind a varint that says how many; absent if `bit` is zero.
    #[inline]
    fn part<'b>(self, bit: u8, rest: &'b [u8]) -> Option<(Part, &'b [u8])> {
        if bit == 0 {
            return Some((Part::NONE, rest));
        }
        let mut behind = rest;
        let len = varint::take(&mut behind)?;
        let start = u32::try_from(self.body_len.checked_sub(behind.len())?).ok()?;
        let behind = behind.get(usize::try_from(len).ok()?..)?;
        let len = u32::try_from(len).ok()?;
        Some((Part { start, len }, behind))
    }
}

/// At least one header; each with a name in UTF-8 and lengths within bounds. `bytes` begin with the length of them all.
fn check_headers(bytes: &[u8]) -> Option<()> {
    let headers = Reader::new(bytes).bytes()?;
    let mut reader = Reader::new(headers);
    (!headers.is_empty()).then_some(())?;
    while !reader.is_empty() {
        reader.text()?;
        if let Some(len) = reader.varint()?.checked_sub(1) {
            reader.take_u64(len)?;
        }
    }
    Some(())
}

/// At least one field. `bytes` begin with the length of them all.
fn check_extension(bytes: &[u8]) -> Result<(), Bad> {
    let fields = Reader::new(bytes)
        .bytes()
        .filter(|fields| !fields.is_empty());
    RecordExtension::decode(fields.ok_or(Bad::Corrupt)?).map(|_| ())
}
