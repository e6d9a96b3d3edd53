//! The body of a record batch, read record by record without copying.

use super::Bad;
use super::batch::BatchHeader;
use super::extension::RecordExtension;
use super::wire::{Reader, crc};
use crate::varint;

pub(crate) const KEY: u8 = 1;
pub(crate) const VALUE: u8 = 1 << 1;
pub(crate) const HEADERS: u8 = 1 << 2;
pub(crate) const EVENT_TIME: u8 = 1 << 3;
pub(crate) const EXTENSION: u8 = 1 << 4;
const ATTRIBUTES: u8 = KEY | VALUE | HEADERS | EVENT_TIME | EXTENSION;

/// A part of a record: where it begins in the body, and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    /// `u32::MAX` where the record has no such part.
    pub(crate) len: u32,
}

impl Span {
    /// The record has no such part.
    pub(crate) const NONE: Span = Span {
        start: 0,
        len: u32::MAX,
    };

    /// The part itself; `None` if it is absent or not within `body`.
    #[inline]
    pub(crate) fn of(self, body: &[u8]) -> Option<&[u8]> {
        if self == Span::NONE {
            return None;
        }
        let start = usize::try_from(self.start).ok()?;
        let len = usize::try_from(self.len).ok()?;
        body.get(start..)?.get(..len)
    }
}

/// One record as places in the body it was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawRecord {
    /// Its offset − the batch's first offset.
    pub(crate) delta: u32,
    /// Milliseconds since the epoch; `None`: its time is the append time.
    pub(crate) event_time: Option<i64>,
    pub(crate) key: Span,
    pub(crate) value: Span,
    /// The encoded headers: name length, name, value length + 1 (0: no value), value, and so on to the end.
    pub(crate) headers: Span,
    /// What [`RecordExtension::decode`] reads.
    pub(crate) extension: Span,
}

/// The records of an uncompressed body, in order of offset.
///
/// Every record that comes out is sound: its parts lie within the body, its headers and its extension decode, its offset
/// follows. The first thing that is not ends the iteration with an `Err`, trailing bytes too.
#[derive(Clone, Debug)]
pub(crate) struct Records<'b> {
    body_len: usize,
    rest: &'b [u8],
    left: u64,
    /// The least delta that the next record may have; of a dense batch, the one it has.
    next_delta: u64,
    last_delta: u64,
    sparse: bool,
    base_event_time: Option<i64>,
    failed: Option<Bad>,
}

/// Reads an uncompressed body.
pub(crate) fn records<'b>(header: &BatchHeader, body: &'b [u8]) -> Records<'b> {
    let mut records = Records {
        body_len: body.len(),
        rest: body,
        left: 0,
        next_delta: 0,
        last_delta: header.last_delta.into(),
        sparse: header.sparse,
        base_event_time: None,
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

    #[inline]
    fn next(&mut self) -> Option<Result<RawRecord, Bad>> {
        if self.left == 0 {
            return self.stop();
        }
        match self.record() {
            Ok(record) => {
                self.left = self.left.wrapping_sub(1);
                Some(Ok(record))
            }
            Err(bad) => {
                self.failed = Some(bad);
                self.stop()
            }
        }
    }
}

impl<'b> Records<'b> {
    /// What stands before the first record: the count of a sparse batch, and the base event time.
    fn open(&mut self, header: &BatchHeader) -> Option<()> {
        u32::try_from(self.body_len).ok()?;
        let mut reader = Reader::new(self.rest);
        let count = match header.dense_count() {
            Some(count) => count,
            None => u64::from(reader.u32()?),
        };
        if header.event_times {
            self.base_event_time = Some(reader.i64()?);
        }
        self.rest = reader.rest();
        let fits = count > 0
            && count <= self.rest.len() as u64
            && count <= u64::from(header.last_delta).saturating_add(1);
        self.left = count;
        fits.then_some(())
    }

    /// The end, once: with what went wrong or was left over, if anything.
    #[cold]
    fn stop(&mut self) -> Option<Result<RawRecord, Bad>> {
        let left_over = (!self.rest.is_empty()).then_some(Bad::Corrupt);
        let bad = self.failed.take().or(left_over);
        self.left = 0;
        self.rest = &[];
        bad.map(Err)
    }

    #[inline]
    fn record(&mut self) -> Result<RawRecord, Bad> {
        if self.failed.is_some() {
            return Err(Bad::Corrupt);
        }
        let (&attributes, mut rest) = self.rest.split_first().ok_or(Bad::Corrupt)?;
        if attributes & !ATTRIBUTES != 0 {
            return Err(newer(attributes));
        }
        let delta = self.delta(&mut rest).ok_or(Bad::Corrupt)?;
        let mut event_time = None;
        if attributes & EVENT_TIME != 0 {
            event_time = Some(self.event_time(&mut rest).ok_or(Bad::Corrupt)?);
        }
        let (mut key, mut value) = (Span::NONE, Span::NONE);
        if attributes & KEY != 0 {
            key = self.span(&mut rest).ok_or(Bad::Corrupt)?.0;
        }
        if attributes & VALUE != 0 {
            value = self.span(&mut rest).ok_or(Bad::Corrupt)?.0;
        }
        let (mut headers, mut extension) = (Span::NONE, Span::NONE);
        if attributes & (HEADERS | EXTENSION) != 0 {
            (headers, extension) = self.rare_parts(attributes, &mut rest)?;
        }
        self.rest = rest;
        Ok(RawRecord {
            delta,
            event_time,
            key,
            value,
            headers,
            extension,
        })
    }

    #[inline]
    fn delta(&mut self, rest: &mut &'b [u8]) -> Option<u32> {
        let mut delta = self.next_delta;
        if self.sparse {
            delta = varint::take(rest)?;
            if delta < self.next_delta || delta > self.last_delta {
                return None;
            }
        }
        self.next_delta = delta.wrapping_add(1);
        u32::try_from(delta).ok()
    }

    #[inline]
    fn event_time(&self, rest: &mut &'b [u8]) -> Option<i64> {
        let difference = varint::take_signed(rest)?;
        // Modulo 2⁶⁴, so that any two times can stand in one batch.
        Some(self.base_event_time?.wrapping_add(difference))
    }

    /// Bytes behind a varint that says how many.
    #[inline]
    fn span(&self, rest: &mut &'b [u8]) -> Option<(Span, &'b [u8])> {
        let len = varint::take(rest)?;
        let start = self.body_len.checked_sub(rest.len())?;
        let (part, behind) = rest.split_at_checked(usize::try_from(len).ok()?)?;
        *rest = behind;
        let span = Span {
            start: u32::try_from(start).ok()?,
            len: u32::try_from(len).ok()?,
        };
        Some((span, part))
    }

    /// Headers and extension. Neither is written when it is empty.
    #[inline(never)]
    fn rare_parts(&self, attributes: u8, rest: &mut &'b [u8]) -> Result<(Span, Span), Bad> {
        let (mut headers, mut extension) = (Span::NONE, Span::NONE);
        if attributes & HEADERS != 0 {
            let (span, part) = self.span(rest).ok_or(Bad::Corrupt)?;
            check_headers(part).ok_or(Bad::Corrupt)?;
            headers = span;
        }
        if attributes & EXTENSION != 0 {
            let (span, part) = self.span(rest).ok_or(Bad::Corrupt)?;
            if part.is_empty() {
                return Err(Bad::Corrupt);
            }
            RecordExtension::decode(part)?;
            extension = span;
        }
        Ok((headers, extension))
    }
}

#[cold]
fn newer(attributes: u8) -> Bad {
    Bad::Newer {
        found: attributes.into(),
        supported: ATTRIBUTES.into(),
    }
}

/// At least one header; each with a name in UTF-8 and lengths within bounds.
fn check_headers(part: &[u8]) -> Option<()> {
    let mut reader = Reader::new(part);
    (!part.is_empty()).then_some(())?;
    while !reader.is_empty() {
        reader.text()?;
        if let Some(len) = reader.varint()?.checked_sub(1) {
            reader.take_u64(len)?;
        }
    }
    Some(())
}
