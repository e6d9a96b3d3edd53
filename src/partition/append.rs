//! The way in as users call it: from records to one batch at the end, and to what `Ok` promises.

use std::ops::Range;

use super::Partition;
use super::settings::{Durability, Settings};
use super::writer::{After, Office};
use crate::error::{Error, Result};
use crate::format::encoder::{Encoder, TooLarge};
use crate::offset::{Offset, Position};
use crate::record::Record;

/// Bytes of key and value up to which a record is small: an idle partition keeps little more than that.
const SMALL_BYTES: usize = 1024;

impl Partition {
    /// Appends one record and tells where it is. What `Ok` means is set by the topic's [`Durability`](crate::Durability).
    ///
    /// # Errors
    ///
    /// [`Error::RecordTooLarge`], [`Error::KeyRequired`], [`Error::InvalidTimestamp`] for the record; [`Error::NoSpace`],
    /// [`Error::Io`], [`Error::Poisoned`], [`Error::Corruption`] for the disk: nothing was done. After
    /// [`Error::Indeterminate`] the record may or may not be there when the log is opened again.
    pub fn append<'a>(&self, record: impl Into<Record<'a>>) -> Result<Position> {
        self.append_record(&record.into())
    }

    fn append_record(&self, record: &Record<'_>) -> Result<Position> {
        let offset = if is_small(record) {
            self.append_small(record)?
        } else {
            self.append_large(record)?
        };
        Ok(self.inner.place.at.at(offset))
    }

    /// Encodes it under the lock, at the writer's own desk: it is soon done, and nothing that is shared with others is touched.
    #[inline]
    fn append_small(&self, record: &Record<'_>) -> Result<Offset> {
        let written = self.write_small(record);
        let (first, after) = self.woken(written)?; // the next one may write meanwhile, and while this one waits for its level
        self.acknowledged(&after)?;
        Ok(Offset::new(first))
    }

    #[expect(
        clippy::inline_always,
        reason = "measured: it is the body of `append_small`"
    )]
    #[inline(always)]
    fn write_small(&self, record: &Record<'_>) -> Result<(u64, After)> {
        let inner = &*self.inner;
        let mut office = inner.writer.lock();
        let Office {
            writer,
            encoder,
            settings,
        } = &mut *office;
        inner.make_ready(writer)?;
        settings.check_record(record, inner.place.at.topic())?; // a batch of one is smaller than that
        let encoded = encoder.single(record, settings.compression.codec());
        encoded.map_err(too_large)?;
        let first = inner.append_here(writer, encoder, settings)?;
        Ok((first, inner.after_append(writer, settings)))
    }

    #[inline(never)]
    fn append_large(&self, record: &Record<'_>) -> Result<Offset> {
        let push =
            |encoder: &mut Encoder, settings: &Settings| self.push(encoder, settings, record);
        let settings = self.inner.settings();
        let appended = self.append_records(&settings, None, push);
        appended.map(|offsets| offsets.start)
    }

    /// Appends records as one atomic batch: after any crash all of them are there, or none. No records: an empty range at the
    /// end, and nothing is written.
    ///
    /// # Errors
    ///
    /// As [`append`](Partition::append); `RecordTooLarge` too if the batch is larger than the topic's `max_batch_bytes`.
    pub fn append_all<'a, R: Into<Record<'a>>>(
        &self,
        records: impl IntoIterator<Item = R>,
    ) -> Result<Range<Offset>> {
        self.append_all_by(&self.inner.settings(), records)
    }

    /// As [`append_all`](Partition::append_all), of records that were checked by these settings.
    pub(crate) fn append_all_by<'a, R: Into<Record<'a>>>(
        &self,
        settings: &Settings,
        records: impl IntoIterator<Item = R>,
    ) -> Result<Range<Offset>> {
        self.append_records(settings, None, |encoder, settings| {
            self.push_all(encoder, settings, records)
        })
    }

    /// As [`append_all`](Partition::append_all), if the partition still ends at `end`.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`], with the actual end, if it does not: nothing was done. The answer is given only when what it rests
    /// on is durable at the topic's level.
    pub fn append_at<'a, R: Into<Record<'a>>>(
        &self,
        end: Offset,
        records: impl IntoIterator<Item = R>,
    ) -> Result<Range<Offset>> {
        self.append_records(&self.inner.settings(), Some(end), |encoder, settings| {
            self.push_all(encoder, settings, records)
        })
    }

    fn push_all<'a, R: Into<Record<'a>>>(
        &self,
        encoder: &mut Encoder,
        settings: &Settings,
        records: impl IntoIterator<Item = R>,
    ) -> Result<()> {
        for record in records {
            self.push(encoder, settings, &record.into())?;
        }
        Ok(())
    }

    #[expect(
        clippy::inline_always,
        reason = "measured: a batch of small records is a tenth faster, and it is not done by itself"
    )]
    #[inline(always)]
    fn push(&self, encoder: &mut Encoder, settings: &Settings, record: &Record<'_>) -> Result<()> {
        settings.check_record(record, self.inner.place.at.topic())?;
        encoder.push(record);
        if encoder.is_surely_within(settings.max_batch_bytes) {
            return Ok(());
        }
        settings.check_batch(encoder.body_len() as u64)
    }

    /// Wakes readers, who may read what was written, or have an error to see. Not for what they may read only when it is synced.
    #[inline]
    fn woken<T>(&self, written: Result<(T, After)>) -> Result<(T, After)> {
        if !matches!(written, Ok((_, After::Wait(_)))) {
            self.inner.progress.wake();
        }
        written
    }

    /// The whole way in: encode outside the lock, append under it, wait for the level outside it again. The settings are those to
    /// encode by; where and at which level the batch is written is said by those that count under the lock.
    fn append_records(
        &self,
        settings: &Settings,
        expected: Option<Offset>,
        fill: impl FnOnce(&mut Encoder, &Settings) -> Result<()>,
    ) -> Result<Range<Offset>> {
        let inner = &*self.inner;
        inner.home.check_open()?;
        let mut encoder = inner.home.encoder();
        let written = self.write_batch(&mut encoder, settings, expected, fill);
        inner.home.give_back(encoder);
        let (offsets, after) = self.woken(written)?;
        self.acknowledged(&after)?;
        Ok(offsets)
    }

    /// Encodes and writes: the offsets, and what is still to be done for the level.
    fn write_batch(
        &self,
        encoder: &mut Encoder,
        settings: &Settings,
        expected: Option<Offset>,
        fill: impl FnOnce(&mut Encoder, &Settings) -> Result<()>,
    ) -> Result<(Range<Offset>, After)> {
        fill(encoder, settings)?;
        let records = u64::from(encoder.count());
        if records == 0 {
            return Ok((self.append_nothing(expected)?, After::Nothing));
        }
        let finished = encoder.finish(settings.compression.codec());
        finished.map_err(too_large)?;
        let (first, after) = self.inner.append(encoder, expected.map(Offset::get))?;
        let offsets = Offset::new(first)..Offset::new(first + records);
        Ok((offsets, after))
    }

    /// Waits for the level of what was written.
    #[inline]
    fn acknowledged(&self, after: &After) -> Result<()> {
        match after {
            After::Nothing => Ok(()),
            After::Wait(_) | After::Bound(..) => self.wait_for_level(after),
        }
    }

    #[cold]
    fn wait_for_level(&self, after: &After) -> Result<()> {
        match *after {
            After::Nothing => Ok(()),
            After::Wait(mark) => self.inner.acknowledge(mark),
            After::Bound(limit, mark) => self.inner.keep_below(limit, mark),
        }
    }

    /// No records: the answer alone, which rests on what others wrote as any other does.
    fn append_nothing(&self, expected: Option<Offset>) -> Result<Range<Offset>> {
        let inner = &*self.inner;
        let woken = inner.progress.waking();
        let mut writer = inner.writer.lock();
        inner.make_ready(&mut writer)?;
        let (mark, level) = (writer.mark(), writer.settings.durability);
        drop(writer);
        drop(woken);
        let end = Offset::new(mark.end);
        match expected {
            Some(expected) if expected != end => {
                return Err(inner.conflict(level, expected.get(), mark));
            }
            _ if level == Durability::Power => inner.wait_durable(mark)?,
            _ => {}
        }
        Ok(end..end)
    }
}

fn is_small(record: &Record<'_>) -> bool {
    let len = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len);
    len(record.key()) + len(record.value()) <= SMALL_BYTES && record.headers().is_empty()
}

/// More than the format allows.
#[cold]
fn too_large(large: TooLarge) -> Error {
    Error::RecordTooLarge {
        size: large.bytes,
        limit: large.limit,
        setting: "max_batch_bytes",
    }
}
