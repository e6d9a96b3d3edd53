//! Builds record batches in one buffer that is used again: the hot path of writing.

use super::batch::{
    BatchHeader, HEADER_LEN, MAX_BATCH_BYTES, MIXED_TIMES, Seed, stored_header_crc,
};
use super::body::RawRecord;
use super::compress::{Codec, compress};
use super::extension::{Extension, MAX_EXTENSION_LEN};
use super::record::{EVENT_TIME, EXTENSION, HEADERS, KEY, VALUE, put_headers};
pub(crate) use super::record::{is_surely_within, size_of};
use super::wire::{crc, overwrite, put_bytes};
use crate::clock::Timestamp;
use crate::record::Record;
use crate::varint;

/// Room before the first record, so that the header, whose length is known last, is put before the body and nothing is moved:
/// header, extension, count of a sparse batch, base event time.
const ROOM: usize = HEADER_LEN + MAX_EXTENSION_LEN + COUNT_LEN + TIME_LEN;
const COUNT_LEN: usize = 4;
const TIME_LEN: usize = 8;

/// Where a batch goes: what is known only under the writer's lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Of the file.
    pub(crate) salt: u64,
    /// Of the batch's first byte in the file.
    pub(crate) position: u64,
    pub(crate) base_delta: u32,
    pub(crate) watermark_back: u32,
    pub(crate) append_ms: u64,
}

/// The batch has this many bytes, which is more than the format allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge {
    pub(crate) bytes: u64,
    pub(crate) limit: u64,
}

/// One record batch in the making: `start`, `push` for each record, `finish`, then `place` under the writer's lock.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    /// [`ROOM`], then the records.
    plain: Vec<u8>,
    /// [`ROOM`], then the compressed body.
    packed: Vec<u8>,
    extension: Extension,
    /// The same encoded: empty exactly if it says nothing.
    ext: Vec<u8>,
    count: u32,
    times: Times,
    /// As far as it is known: the lengths once finished, the rest once placed.
    header: BatchHeader,
    header_crc: u32,
    /// Where the body begins in its buffer.
    body_start: usize,
}

/// The event times of a batch.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// The first one seen: the others are stored as differences to it.
    base: Option<i64>,
    min: i64,
    max: i64,
    /// Some record has none.
    missing: bool,
}

impl Encoder {
    #[cfg(test)]
    pub(crate) fn new() -> Encoder {
        Encoder::default()
    }

    /// Begins a dense batch: offsets follow one another.
    pub(crate) fn start(&mut self) {
        self.plain.resize(ROOM, 0);
        self.clear();
    }

    /// Forgets the batch before, all but its records.
    #[inline]
    fn clear(&mut self) {
        if !self.ext.is_empty() {
            self.clear_extension();
        }
        self.count = 0;
        self.times = Times::default();
        self.header = BatchHeader::default();
    }

    #[inline(never)]
    fn clear_extension(&mut self) {
        self.extension = Extension::default();
        self.ext.clear();
    }

    /// A whole batch of one record: what `start`, `push` and `finish` make, in fewer steps where that can be.
    #[expect(
        clippy::inline_always,
        reason = "measured: an append is bound by the lines of code that it fetches, and each call takes one or two more"
    )]
    #[inline(always)]
    pub(crate) fn single(&mut self, record: &Record<'_>, codec: Codec) -> Result<(), TooLarge> {
        if is_extended(record) || self.plain.len() < ROOM {
            return self.single_extended(record, codec);
        }
        self.plain.truncate(ROOM);
        put_plain(&mut self.plain, record);
        self.clear(); // behind the calls: what it sets is known to the compiler from here on
        self.count_plain();
        self.finish_here(codec)
    }

    /// The same of any record, and for the first time.
    #[inline(never)]
    fn single_extended(&mut self, record: &Record<'_>, codec: Codec) -> Result<(), TooLarge> {
        self.start();
        self.push(record);
        self.finish(codec)
    }

    /// Begins a sparse batch: each record is given its offset, by [`push_copy`](Encoder::push_copy).
    pub(crate) fn start_sparse(&mut self) {
        self.start();
        self.header.sparse = true;
    }

    /// Appends one record.
    #[expect(
        clippy::inline_always,
        reason = "measured: a batch of small records is a tenth faster, and it is not done by itself"
    )]
    #[inline(always)]
    pub(crate) fn push(&mut self, record: &Record<'_>) {
        if is_extended(record) || self.header.sparse {
            return self.push_extended(record, &[]);
        }
        put_plain(&mut self.plain, record);
        self.count_plain();
    }

    #[inline]
    fn count_plain(&mut self) {
        self.times.missing = true;
        self.header.last_delta = self.count;
        self.count = self.count.saturating_add(1);
    }

    /// Appends one record with an encoded extension, which may be empty.
    #[inline(never)]
    pub(crate) fn push_extended(&mut self, record: &Record<'_>, extension: &[u8]) {
        assert!(
            !self.header.sparse,
            "the records of a sparse batch are given their offsets"
        );
        let headers = record.headers();
        let time = record.timestamp().map(Timestamp::as_millis);
        let mut attributes = 0;
        if !headers.is_empty() {
            attributes |= HEADERS;
        }
        if !extension.is_empty() {
            attributes |= EXTENSION;
        }
        self.put_front(attributes, self.count, time, record.key(), record.value());
        if !headers.is_empty() {
            put_headers(&mut self.plain, headers);
        }
        if !extension.is_empty() {
            put_bytes(&mut self.plain, extension);
        }
    }

    /// Appends a record of another batch, with headers and extension, at this distance from the first offset.
    pub(crate) fn push_copy(&mut self, delta: u32, record: &RawRecord, body: &[u8]) {
        assert!(
            self.count == 0 || delta > self.header.last_delta,
            "records are copied in the order of their offsets"
        );
        let headers = record.headers.of(body);
        let extension = record.extension.of(body);
        let mut attributes = 0;
        if headers.is_some() {
            attributes |= HEADERS;
        }
        if extension.is_some() {
            attributes |= EXTENSION;
        }
        let (key, value) = (record.key.of(body), record.value.of(body));
        self.put_front(attributes, delta, record.event_time, key, value);
        for part in [headers, extension].into_iter().flatten() {
            put_bytes(&mut self.plain, part);
        }
    }

    /// How many records were pushed.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Bytes of the body: uncompressed while records are pushed, as stored once finished.
    #[inline]
    pub(crate) fn body_len(&self) -> usize {
        if self.header.body_len > 0 {
            return usize::try_from(self.header.body_len).unwrap_or(usize::MAX);
        }
        self.plain.len().saturating_sub(self.plain_start())
    }

    /// Is the body of so many bytes at most, so clearly that its exact size need not be told? `false` says nothing.
    #[inline]
    pub(crate) fn is_surely_within(&self, limit: u32) -> bool {
        self.plain.len() as u64 <= u64::from(limit)
    }

    /// Bytes of the whole batch; final once finished.
    pub(crate) fn total_len(&self) -> u64 {
        let before = HEADER_LEN.saturating_add(self.ext.len());
        before.saturating_add(self.body_len()) as u64
    }

    /// Sets a part of the extension: producer, transaction and delete horizon may be set until the batch is placed.
    #[inline(never)]
    pub(crate) fn extend(&mut self, set: impl FnOnce(&mut Extension)) {
        set(&mut self.extension);
        self.ext.clear();
        self.extension.encode(&mut self.ext);
        self.header.ext_len =
            u16::try_from(self.ext.len()).expect("an extension has a few dozen bytes");
    }

    /// The greatest event time; `None` if no record has one.
    pub(crate) fn max_event_time(&self) -> Option<i64> {
        self.times.base.map(|_| self.times.max)
    }

    /// The least event time; `None` if no record has one.
    pub(crate) fn min_event_time(&self) -> Option<i64> {
        self.times.base.map(|_| self.times.min)
    }

    /// Some record has no event time, so its time will be the append time.
    pub(crate) fn has_append_times(&self) -> bool {
        self.times.missing
    }

    /// As it was last placed.
    pub(crate) fn header_crc(&self) -> u32 {
        self.header_crc
    }

    /// The header, as it was last placed.
    pub(crate) fn placed(&self) -> &BatchHeader {
        &self.header
    }

    /// The buffer that the placed batch stands in, up to its end, and where in it the batch begins. With another buffer in its place
    /// the batch cannot be placed again.
    pub(crate) fn placed_in(&mut self) -> (&mut Vec<u8>, usize) {
        let start = self.body_start.saturating_sub(self.header.body_start());
        let buffer = match self.header.codec {
            Codec::None => &mut self.plain,
            Codec::Lz4 | Codec::Zstd => &mut self.packed,
        };
        (buffer, start)
    }

    /// Bytes of memory that it keeps.
    pub(crate) fn capacity(&self) -> usize {
        self.plain.capacity().saturating_add(self.packed.capacity())
    }

    /// Ends the body: compresses it where that makes it smaller, and sums it.
    ///
    /// # Errors
    ///
    /// [`TooLarge`] if the batch passes the format's limit, compressed or not.
    pub(crate) fn finish(&mut self, codec: Codec) -> Result<(), TooLarge> {
        self.finish_here(codec)
    }

    #[inline]
    fn finish_here(&mut self, codec: Codec) -> Result<(), TooLarge> {
        assert!(self.count > 0, "a record batch holds at least one record");
        let plain_len = self.check_len()?;
        self.header.body_len = plain_len;
        self.body_start = self.plain_start();
        if self.body_start < ROOM {
            self.put_prefix();
        }
        if codec != Codec::None && self.pack(codec) {
            self.extend(|extension| extension.uncompressed_len = Some(plain_len));
        }
        self.header.body_crc = crc(self.body());
        Ok(())
    }

    /// Puts the header for this place before the body, and gives the whole batch, ready for one write.
    ///
    /// May be called again for another place.
    #[expect(
        clippy::inline_always,
        reason = "measured: an append is bound by the lines of code that it fetches, and each call takes one or two more"
    )]
    #[inline(always)]
    pub(crate) fn place(&mut self, place: Place) -> &[u8] {
        assert!(
            self.header.body_len > 0,
            "a batch is finished before it is placed"
        );
        let header = &mut self.header;
        header.base_delta = place.base_delta;
        header.watermark_back = place.watermark_back;
        header.append_ms = place.append_ms;
        let head = header.encode(&self.ext, Seed::new(place.salt, place.position));
        self.header_crc = stored_header_crc(&head).unwrap_or_default();
        let before = HEADER_LEN.saturating_add(self.ext.len());
        let at = self.body_start.saturating_sub(before);
        let buffer = match header.codec {
            Codec::None => &mut self.plain,
            Codec::Lz4 | Codec::Zstd => &mut self.packed,
        };
        let batch = buffer.get_mut(at..).unwrap_or_default();
        overwrite(batch, 0, &head);
        if !self.ext.is_empty() {
            overwrite(batch, HEADER_LEN, &self.ext);
        }
        batch
    }

    /// Attributes, offset, event time, key and value.
    fn put_front(
        &mut self,
        mut attributes: u8,
        delta: u32,
        time: Option<i64>,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) {
        attributes |= attributes_of(key, value);
        attributes |= if time.is_some() { EVENT_TIME } else { 0 };
        self.plain.push(attributes);
        if self.header.sparse {
            varint::put(&mut self.plain, delta.into());
        }
        match time {
            Some(time) => {
                let difference = self.times.note(time);
                varint::put_signed(&mut self.plain, difference);
            }
            None => self.times.missing = true,
        }
        for part in [key, value].into_iter().flatten() {
            put_bytes(&mut self.plain, part);
        }
        self.count = self.count.saturating_add(1);
        self.header.last_delta = delta;
    }

    /// Where the uncompressed body begins: count and base event time stand before the records, if at all.
    #[inline]
    fn plain_start(&self) -> usize {
        let count = if self.header.sparse { COUNT_LEN } else { 0 };
        let time = if self.times.base.is_some() {
            TIME_LEN
        } else {
            0
        };
        ROOM.saturating_sub(count).saturating_sub(time)
    }

    /// What stands before the records, and what header and extension say of it.
    #[inline(never)]
    fn put_prefix(&mut self) {
        if self.header.sparse {
            overwrite(&mut self.plain, self.body_start, &self.count.to_le_bytes());
        }
        if let Some(base) = self.times.base {
            let at = ROOM.saturating_sub(TIME_LEN);
            overwrite(&mut self.plain, at, &base.to_le_bytes());
            let max = self.times.max;
            self.extend(|extension| extension.max_event_time = Some(max));
            self.header.event_times = true;
            self.header.optional = if self.times.missing { MIXED_TIMES } else { 0 };
        }
    }

    fn check_len(&self) -> Result<u32, TooLarge> {
        let plain_len = self.plain.len().saturating_sub(self.plain_start());
        let bytes = plain_len
            .saturating_add(HEADER_LEN)
            .saturating_add(MAX_EXTENSION_LEN) as u64;
        let limit = u64::from(MAX_BATCH_BYTES);
        match u32::try_from(plain_len) {
            Ok(len) if bytes <= limit => Ok(len),
            _ => Err(TooLarge { bytes, limit }),
        }
    }

    /// `false` if the body is better stored as it is.
    #[inline(never)]
    fn pack(&mut self, codec: Codec) -> bool {
        self.packed.resize(ROOM, 0);
        let body = self.plain.get(self.body_start..).unwrap_or_default();
        if !compress(codec, body, &mut self.packed) {
            return false;
        }
        let len = self.packed.len().saturating_sub(ROOM);
        self.header.codec = codec;
        self.body_start = ROOM;
        self.header.body_len = u32::try_from(len).expect("compressed, it is smaller than before");
        true
    }

    fn body(&self) -> &[u8] {
        let buffer = match self.header.codec {
            Codec::None => &self.plain,
            Codec::Lz4 | Codec::Zstd => &self.packed,
        };
        buffer.get(self.body_start..).unwrap_or_default()
    }
}

/// Key and value are all that most records have.
#[inline]
fn is_extended(record: &Record<'_>) -> bool {
    record.timestamp().is_some() || !record.headers().is_empty()
}

/// A record that has no more than key and value: these few steps are worth being apart.
#[expect(
    clippy::inline_always,
    reason = "measured: a batch of small records is a tenth faster, and it is not done by itself"
)]
#[inline(always)]
fn put_plain(out: &mut Vec<u8>, record: &Record<'_>) {
    let (key, value) = (record.key(), record.value());
    out.push(attributes_of(key, value));
    if let Some(key) = key {
        put_bytes(out, key);
    }
    if let Some(value) = value {
        put_bytes(out, value);
    }
}

#[inline]
fn attributes_of(key: Option<&[u8]>, value: Option<&[u8]>) -> u8 {
    let flag = |on: bool, bit: u8| if on { bit } else { 0 };
    flag(key.is_some(), KEY) | flag(value.is_some(), VALUE)
}

impl Times {
    /// Takes note of a record's event time, and gives what is stored of it.
    fn note(&mut self, time: i64) -> i64 {
        let Some(base) = self.base else {
            *self = Times {
                base: Some(time),
                min: time,
                max: time,
                ..*self
            };
            return 0;
        };
        self.min = self.min.min(time);
        self.max = self.max.max(time);
        time.wrapping_sub(base)
    }
}

#[cfg(test)]
mod tests;
