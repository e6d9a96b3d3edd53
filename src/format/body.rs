//! The body of a record batch, read record by record without copying.

use super::Bad;
use super::batch::BatchHeader;
use super::extension::RecordExtension;
use super::record::{ATTRIBUTES, EVENT_TIME, EXTENSION, HEADERS, KEY, VALUE};
use super::wire::{Reader, crc};
use crate::entry::Span;
use crate::varint;

/// Where a part of a record stands in the bytes it was read from.
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
        // The length of an absent part is longer than any body.
        let start = usize::try_from(self.start).ok()?;
        let len = usize::try_from(self.len).ok()?;
        body.get(start..)?.get(..len)
    }

    /// The same part of the same bytes; absent if it is absent.
    #[inline]
    pub(crate) fn span(self) -> Span {
        const { assert!(Part::NONE.len == u32::MAX, "as the length of `Span::NONE`") };
        Span::new(self.start, self.len)
    }
}

/// One record as places in the bytes it was read from.
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
    /// Up to the end of the body.
    bytes: &'b [u8],
    /// Where the next record begins.
    at: usize,
    /// The least delta that the next record may have; of a dense batch, the one it has.
    next_delta: u64,
    /// Of a dense batch: the delta behind the last record. Of a sparse one, 0.
    dense_end: u64,
    /// Of a sparse batch: how many records are left. Of a dense one, 0.
    sparse_left: u64,
    shape: Shape,
    failed: Option<Bad>,
}

/// What is the same for all records of a batch.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Where the body ends.
    end: usize,
    last_delta: u64,
    sparse: bool,
    base_event_time: Option<i64>,
}

/// Reads an uncompressed body.
pub(crate) fn records<'b>(header: &BatchHeader, body: &'b [u8]) -> Records<'b> {
    records_from(header, body, 0)
}

/// Reads an uncompressed body that begins at `start` in `bytes`, and ends with them.
pub(crate) fn records_from<'b>(header: &BatchHeader, bytes: &'b [u8], start: usize) -> Records<'b> {
    let mut records = Records {
        bytes,
        at: start,
        next_delta: 0,
        dense_end: 0,
        sparse_left: 0,
        shape: Shape {
            end: bytes.len(),
            last_delta: header.last_delta.into(),
            sparse: header.sparse,
            base_event_time: None,
        },
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
        None => Ok(records.dense_end.max(records.sparse_left)),
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

    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "else each record goes through memory: twice the time of a replay"
    )]
    fn next(&mut self) -> Option<Result<RawRecord, Bad>> {
        if let Some(record) = self.next_plain() {
            return Some(Ok(record));
        }
        // Taken apart and put together again: what is returned must not share its place with what the call returns.
        match self.next_any()? {
            Ok(record) => Some(Ok(record)),
            Err(bad) => Some(Err(bad)),
        }
    }
}

impl<'b> Records<'b> {
    /// The bytes that the parts are places in.
    #[inline]
    pub(crate) fn bytes(&self) -> &'b [u8] {
        self.bytes
    }

    /// The next record of a dense batch if it is a key and a value and no more, as nearly all are: few steps, which stay in
    /// registers where they are put into a loop. `None` says nothing; what comes next is read by [`next`](Iterator::next).
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as `next`")]
    pub(crate) fn next_plain(&mut self) -> Option<RawRecord> {
        if self.next_delta >= self.dense_end {
            return None;
        }
        let attributes = *self.bytes.get(self.at)?;
        if attributes & !(KEY | VALUE) != 0 {
            return None;
        }
        let at = self.at.wrapping_add(1);
        let (key, at) = short_part(attributes & KEY, self.bytes, at)?;
        let (value, at) = short_part(attributes & VALUE, self.bytes, at)?;
        let delta = u32::try_from(self.next_delta).ok()?;
        self.at = at;
        self.next_delta = self.next_delta.wrapping_add(1);
        Some(RawRecord {
            delta,
            event_time: None,
            key,
            value,
            headers: Part::NONE,
            extension: Part::NONE,
        })
    }

    /// The next record, whatever it has; or the end.
    #[inline(never)]
    fn next_any(&mut self) -> Option<Result<RawRecord, Bad>> {
        if self.next_delta >= self.dense_end && self.sparse_left == 0 {
            return self.stop();
        }
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        match self.shape.read_any(self.next_delta, rest) {
            Ok((record, rest)) => {
                self.at = self.bytes.len().saturating_sub(rest.len());
                self.next_delta = u64::from(record.delta).wrapping_add(1);
                self.sparse_left = self.sparse_left.saturating_sub(1);
                Some(Ok(record))
            }
            Err(bad) => {
                self.failed = Some(bad);
                self.stop()
            }
        }
    }

    /// What stands before the first record: the count of a sparse batch, and the base event time.
    fn open(&mut self, header: &BatchHeader) -> Option<()> {
        u32::try_from(self.shape.end).ok()?;
        let mut reader = Reader::new(self.bytes.get(self.at..)?);
        let count = match header.dense_count() {
            Some(count) => count,
            None => u64::from(reader.u32()?),
        };
        if header.event_times {
            self.shape.base_event_time = Some(reader.i64()?);
        }
        let rest = reader.rest().len();
        self.at = self.bytes.len().saturating_sub(rest);
        let fits = count > 0
            && count <= rest as u64
            && count <= u64::from(header.last_delta).saturating_add(1);
        fits.then_some(())?;
        if header.sparse {
            self.sparse_left = count;
        } else {
            self.dense_end = count;
        }
        Some(())
    }

    /// The end, once: with what went wrong or was left over, if anything.
    #[cold]
    fn stop(&mut self) -> Option<Result<RawRecord, Bad>> {
        let left_over = (self.at < self.bytes.len()).then_some(Bad::Corrupt);
        let bad = self.failed.take().or(left_over);
        (self.dense_end, self.sparse_left) = (0, 0);
        self.at = self.bytes.len();
        bad.map(Err)
    }
}

/// A record, and what follows it.
type Read<'b> = Result<(RawRecord, &'b [u8]), Bad>;

impl Shape {
    /// Any record.
    fn read_any(self, next_delta: u64, rest: &[u8]) -> Read<'_> {
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
    fn part(self, bit: u8, rest: &[u8]) -> Option<(Part, &[u8])> {
        if bit == 0 {
            return Some((Part::NONE, rest));
        }
        let mut behind = rest;
        let len = varint::take(&mut behind)?;
        let start = u32::try_from(self.end.checked_sub(behind.len())?).ok()?;
        let behind = behind.get(usize::try_from(len).ok()?..)?;
        let len = u32::try_from(len).ok()?;
        Some((Part { start, len }, behind))
    }
}

/// As [`Shape::part`], where the length takes one byte or two: the part, and where what follows it begins. `None` says nothing.
#[inline(always)]
#[expect(clippy::inline_always, reason = "as `next`")]
fn short_part(bit: u8, bytes: &[u8], at: usize) -> Option<(Part, usize)> {
    if bit == 0 {
        return Some((Part::NONE, at));
    }
    let (len, from) = varint::short_at(bytes, at)?;
    let end = from.wrapping_add(len as usize); // both are far below the end of memory
    let start = u32::try_from(from).ok()?;
    (end <= bytes.len()).then_some((Part { start, len }, end))
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

#[cfg(test)]
mod tests;
