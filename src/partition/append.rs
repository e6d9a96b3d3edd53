//! The way in as users call it: from records to one batch at the end, and to what `Ok` promises.

use std::ops::Range;

use super::Partition;
use super::settings::{Durability, Settings};
use super::writer::{After, Desk, Writer};
use crate::error::{Error, Result};
use crate::format::encoder::Encoder;
use crate::offset::{Offset, Position};
use crate::record::Record;

/// Bytes of key and value up to which a record is small: the desk of an idle partition keeps little more than that.
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
        let record = record.into();
        let offsets = match self.append_small(&record)? {
            Some(offsets) => offsets,
            None => self.append_records(None, |encoder, settings| {
                self.push(encoder, settings, &record)
            })?,
        };
        Ok(self.inner.place.at.at(offsets.start))
    }

    /// Encodes it under the lock, at the writer's own desk: it is soon done, and nothing that is shared with others is touched.
    /// `None`: it is large, or has headers.
    fn append_small(&self, record: &Record<'_>) -> Result<Option<Range<Offset>>> {
        let len = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len);
        if len(record.key()) + len(record.value()) > SMALL_BYTES || !record.headers().is_empty() {
            return Ok(None);
        }
        let mut writer = self.inner.writer.lock();
        self.inner.make_ready(&mut writer)?;
        let Some(mut desk) = writer.desk.take() else {
            return Ok(None);
        };
        desk.encoder.start();
        let written = self.write_small(&mut writer, &mut desk, record);
        writer.desk = Some(desk);
        drop(writer); // the next one may write while this one waits for its level
        self.acknowledged(written?).map(Some)
    }

    fn write_small(
        &self,
        writer: &mut Writer,
        Desk { encoder, settings }: &mut Desk,
        record: &Record<'_>,
    ) -> Result<(Range<Offset>, After)> {
        self.push(encoder, settings, record)?;
        finish(encoder, settings)?;
        let (first, after) = self.inner.append_here(writer, encoder, settings)?;
        Ok((Offset::new(first)..Offset::new(first + 1), after))
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
        self.append_records(None, |encoder, settings| {
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
        self.append_records(Some(end), |encoder, settings| {
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

    /// The whole way in: encode outside the lock, append under it, wait for the level outside it again.
    fn append_records(
        &self,
        expected: Option<Offset>,
        fill: impl FnOnce(&mut Encoder, &Settings) -> Result<()>,
    ) -> Result<Range<Offset>> {
        let inner = &*self.inner;
        inner.home.check_open()?;
        let settings = inner.settings();
        let mut encoder = inner.home.encoder();
        let written = self.write_batch(&mut encoder, &settings, expected, fill);
        inner.home.give_back(encoder);
        self.acknowledged(written?)
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
            return Ok((self.append_nothing(settings, expected)?, After::Nothing));
        }
        finish(encoder, settings)?;
        let (first, after) = self
            .inner
            .append(encoder, settings, expected.map(Offset::get))?;
        let offsets = Offset::new(first)..Offset::new(first + records);
        Ok((offsets, after))
    }

    /// Waits for the level of what was written.
    fn acknowledged(&self, (offsets, after): (Range<Offset>, After)) -> Result<Range<Offset>> {
        match after {
            After::Nothing => {}
            After::Wait(mark) => self.inner.acknowledge(mark)?,
            After::Bound(limit, mark) => self.inner.keep_below(limit, mark)?,
        }
        Ok(offsets)
    }

    /// No records: the answer alone, which rests on what others wrote as any other does.
    fn append_nothing(
        &self,
        settings: &Settings,
        expected: Option<Offset>,
    ) -> Result<Range<Offset>> {
        let inner = &*self.inner;
        let mut writer = inner.writer.lock();
        inner.make_ready(&mut writer)?;
        let mark = writer.mark();
        drop(writer);
        let end = Offset::new(mark.end);
        match expected {
            Some(expected) if expected != end => {
                return Err(inner.conflict(settings, expected.get(), mark));
            }
            _ if settings.durability == Durability::Power => inner.wait_durable(mark)?,
            _ => {}
        }
        Ok(end..end)
    }
}

fn finish(encoder: &mut Encoder, settings: &Settings) -> Result<()> {
    let finished = encoder.finish(settings.compression.codec());
    finished.map_err(|large| Error::RecordTooLarge {
        size: large.bytes,
        limit: large.limit,
        setting: "max_batch_bytes",
    })
}
