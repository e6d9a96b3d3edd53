//! The single writer of a partition: what the lock guards, and the way of one record batch to the end of the log.
//!
//! The order of an append, which the crash tests walk through:
//!
//! 1. the body is encoded and summed, before the lock unless the record is a small one
//! 2. health, work left by recovery, the expected end
//! 3. room: roll if the segment is full, too old, of another durability, or at the end of its offset span
//! 4. offset and time are assigned, the header is summed
//! 5. one positioned write at the tracked end; on an error it is rolled back
//! 6. published at once below `Power`; else synced after the lock is released, and then published

use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Inner;
use super::ages::{Begin, Young};
use super::examine::Work;
use super::settings::{Durability, Settings};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::format::accumulator::Accumulator;
use crate::format::batch::NO_WATERMARK;
use crate::format::encoder::{Encoder, Place};
use crate::format::state::Point;
use crate::offset::Offset;
use crate::segment::Segment;
use crate::segment::active::{ActiveSegment, WriteFailed};
use crate::segment::tail::Tail;

/// The end of a partition, and what is to be done there.
pub(crate) struct Writer {
    pub(crate) rear: Rear,
    /// The assigned end: the offset that the next record gets.
    pub(crate) next: u64,
    /// Append times never go back: see [`ages`](super::ages) for what that costs.
    pub(crate) last_append: u64,
    pub(crate) health: Health,
    /// What recovery left to do before the first write.
    pub(crate) work: Option<Work>,
    pub(crate) used: bool,
    /// The ring of newest bytes while somebody reads there, as in the list of segments.
    pub(crate) tail: Option<Arc<Tail>>,
    /// Bytes of the active segment that are synced.
    pub(crate) synced: u64,
    /// Position of the newest recovery point, and of the newest `CHECKED`, in the active segment.
    pub(crate) pointed: u64,
    pub(crate) checked: u64,
    /// A sync has been asked for and has not begun.
    pub(crate) sync_asked: bool,
    /// When the active segment is the one to be appended to, if there is room.
    pub(crate) young: Young,
    /// How often recovery was run since the log was opened: see [`Mark`].
    pub(crate) life: u64,
    /// What ended the life before.
    pub(crate) before: Option<Arc<Error>>,
}

/// The last segment: its bytes, what its batches add up to, and when it was begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Last {
    pub(crate) len: u64,
    pub(crate) totals: Accumulator,
    pub(crate) begin: Begin,
}

/// The writer at its desk, where small records are encoded: what the lock guards.
pub(crate) struct Office {
    pub(crate) writer: Writer,
    pub(crate) encoder: Encoder,
    /// The partition's: what `Ok` means is said by those that count when the batch is written.
    pub(crate) settings: Arc<Settings>,
}

impl Deref for Office {
    type Target = Writer;

    fn deref(&self) -> &Writer {
        &self.writer
    }
}

impl DerefMut for Office {
    fn deref_mut(&mut self) -> &mut Writer {
        &mut self.writer
    }
}

/// The end of the list of segments.
pub(crate) enum Rear {
    /// Nothing to append to: the next append makes a segment that follows this one, which is sealed, or the first.
    Closed(Option<Arc<Segment>>),
    /// The last segment as opening found it; its file is opened for writing when it is needed.
    Resting {
        segment: Arc<Segment>,
        len: u64,
        next: u64,
        accumulator: Accumulator,
    },
    Active(ActiveSegment),
}

/// May this partition be written?
#[derive(Clone)]
pub(crate) enum Health {
    Sound,
    /// A sync or a rollback failed.
    Poisoned(Arc<Error>),
    /// Opening found damage.
    Damaged(Arc<Error>),
}

/// An end to be waited for, in the life of the partition in which it was the end: recovery may cut what stands below it, and give
/// its offsets to other records.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    pub(crate) end: u64,
    pub(crate) life: u64,
}

/// What is still to be done when the lock is released.
pub(crate) enum After {
    Nothing,
    /// Acknowledged when everything below is synced.
    Wait(Mark),
    /// So much or more is un-synced, which is too much: the writer waits for a sync, its own if nobody else is at it.
    Bound(u64, Mark),
}

/// Below `Power`, a sync is asked for when so much is un-synced …
pub(crate) const SYNC_EVERY: u64 = 8 << 20;
/// … and the writer waits for it when it is so much: a roll finds little more.
pub(crate) const UNSYNCED_LIMIT: u64 = 16 << 20;
/// A recovery point is written each time so much was synced, a `CHECKED` each time so much was written.
pub(crate) const POINT_EVERY: u64 = 1 << 20;
const CHECKED_EVERY: u64 = 4 << 20;
/// Times that a record batch can hold: 48 bits of milliseconds.
pub(crate) const LATEST: i64 = (1 << 48) - 1;

impl Writer {
    pub(crate) fn active(&self) -> Option<&ActiveSegment> {
        match &self.rear {
            Rear::Active(active) => Some(active),
            Rear::Closed(_) | Rear::Resting { .. } => None,
        }
    }

    /// Where stream positions begin in this life: those of one life are none of another.
    pub(crate) fn stream_of_life(&self) -> u64 {
        self.life << 48
    }

    /// The end as it is now.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            end: self.next,
            life: self.life,
        }
    }

    pub(crate) fn unsynced(&self) -> u64 {
        self.active()
            .map_or(0, |active| active.len.saturating_sub(self.synced))
    }

    /// Nothing is due that is done each time so much was written.
    fn owes_little(&self) -> bool {
        let Rear::Active(active) = &self.rear else {
            return false;
        };
        let since = |done: u64| active.len.saturating_sub(done);
        since(self.synced) < SYNC_EVERY && since(self.checked.max(self.pointed)) < CHECKED_EVERY
    }

    /// The last segment, its bytes, and what its batches add up to.
    fn last_segment(&self) -> Option<(&Arc<Segment>, u64, Accumulator)> {
        match &self.rear {
            Rear::Active(active) => Some((&active.segment, active.len, active.accumulator())),
            Rear::Resting {
                segment,
                len,
                accumulator,
                ..
            } => Some((segment, *len, *accumulator)),
            Rear::Closed(last) => {
                let segment = last.as_ref()?;
                let footer = &segment.seal()?.footer;
                Some((segment, footer.file_len(), footer.accumulator))
            }
        }
    }

    /// `None`: nothing was ever appended.
    pub(crate) fn last(&self) -> Option<Last> {
        let (segment, len, totals) = self.last_segment()?;
        Some(Last {
            len,
            totals,
            begin: Begin::of(&segment.header),
        })
    }

    /// The end of the last segment as a recovery point.
    pub(crate) fn point(&self, inner: &Inner) -> Option<Point> {
        let (segment, position, accumulator) = self.last_segment()?;
        Some(Point {
            topic: inner.place.topic,
            partition: inner.place.at.partition().get(),
            open_number: 0, // filled in where it is kept
            base: segment.base(),
            generation: segment.header.generation,
            position,
            offset: self.next,
            accumulator,
            journal_position: 0,
            manifest_generation: inner.manifest_generation.load(Ordering::Acquire),
        })
    }
}

impl Inner {
    /// Appends what the encoder holds, at `expected` if that is asked for. The offset of its first record, and what is left
    /// to do.
    pub(crate) fn append(
        &self,
        encoder: &mut Encoder,
        expected: Option<u64>,
    ) -> Result<(u64, After)> {
        let mut office = self.writer.lock();
        let Office {
            writer, settings, ..
        } = &mut *office;
        self.make_ready(writer)?;
        if let Some(expected) = expected
            && expected != writer.next
        {
            let (actual, level) = (writer.mark(), settings.durability);
            drop(office);
            return Err(self.conflict(level, expected, actual));
        }
        let first = self.append_here(writer, encoder, settings)?;
        Ok((first, self.after_append(writer, settings)))
    }

    /// Steps 3 to 5, for a writer that is ready: the offset of the first record.
    #[expect(
        clippy::inline_always,
        reason = "measured: an append is bound by the lines of code that it fetches, and each call takes one or two more"
    )]
    #[inline(always)]
    pub(crate) fn append_here(
        &self,
        writer: &mut Writer,
        encoder: &mut Encoder,
        settings: &Settings,
    ) -> Result<u64> {
        let now = self.append_time(settings, encoder)?;
        let append_ms = now.max(writer.last_append);
        self.make_room(writer, settings, encoder, now)?;
        let first = writer.next;
        self.write(writer, encoder, append_ms, settings.index_interval)?;
        writer.last_append = append_ms;
        Ok(first)
    }

    /// Refused because the partition ends elsewhere. The answer rests on records that may not be at their level yet, so it
    /// waits for them: a loser never learns a state that can un-happen.
    #[cold]
    pub(crate) fn conflict(&self, level: Durability, expected: u64, actual: Mark) -> Error {
        if level == Durability::Power
            && let Err(e) = self.wait_durable(actual)
        {
            let cause = match e {
                Error::Poisoned { cause, .. } => cause,
                other => Arc::new(other),
            };
            return Error::poisoned(Some(&self.place.at), cause);
        }
        Error::conflict(
            &self.place.at,
            Offset::new(expected),
            Offset::new(actual.end),
        )
    }

    /// Append time of the batch by the clock, which may be before that of the batch before it. Checks event times too.
    fn append_time(&self, settings: &Settings, encoder: &Encoder) -> Result<u64> {
        let now = self.home.clock.now();
        if !(0..=LATEST).contains(&now.as_millis()) || settings.timestamp_limits.is_some() {
            check_times(now, settings, encoder)?;
        }
        Ok(now.as_millis().unsigned_abs())
    }

    #[expect(
        clippy::inline_always,
        reason = "measured: an append is bound by the lines of code that it fetches, and each call takes one or two more"
    )]
    #[inline(always)]
    fn write(
        &self,
        writer: &mut Writer,
        encoder: &mut Encoder,
        append_ms: u64,
        index_every: u32,
    ) -> Result<()> {
        let durable = self.progress.durable();
        let next = writer.next;
        let Rear::Active(active) = &mut writer.rear else {
            unreachable!("make_room leaves an active segment");
        };
        let base = active.segment.base();
        let back = next
            .checked_sub(durable)
            .and_then(|back| u32::try_from(back).ok());
        let place = Place {
            salt: active.segment.header.salt,
            position: active.len,
            base_delta: u32::try_from(next - base).expect("the span is 32 bits wide"),
            watermark_back: back.unwrap_or(NO_WATERMARK),
            append_ms,
        };
        let bytes = encoder.place(place);
        if let Err(failed) = active.write(bytes) {
            return Err(self.write_failed(writer, failed));
        }
        if writer.tail.is_some() || self.tail_wanted.load(Ordering::Relaxed) {
            self.keep_newest(&mut writer.tail, active, encoder);
        }
        active.take(encoder, index_every);
        writer.next = active.next;
        Ok(())
    }

    /// A write that failed leaves nothing behind, or stops the partition.
    #[cold]
    fn write_failed(&self, writer: &mut Writer, failed: WriteFailed) -> Error {
        let active = writer.active().expect("it was written to");
        let error = Error::io("write", active.segment.path(), failed.source);
        if !failed.stuck {
            return error;
        }
        let cause = Arc::new(error);
        self.progress.failed();
        writer.health = Health::Poisoned(Arc::clone(&cause));
        Error::indeterminate(
            Some(&self.place.at),
            Error::poisoned(Some(&self.place.at), cause),
        )
    }

    /// Step 6, as far as it is done under the lock.
    #[inline]
    pub(crate) fn after_append(&self, writer: &mut Writer, settings: &Settings) -> After {
        if settings.durability == Durability::Process && writer.owes_little() {
            self.progress.publish(writer.next);
            return After::Nothing;
        }
        self.after_much(writer, settings)
    }

    /// The same where more may be due.
    #[cold]
    fn after_much(&self, writer: &mut Writer, settings: &Settings) -> After {
        let end = writer.next;
        if settings.durability == Durability::Power {
            return if planted!(ACKNOWLEDGED_BEFORE_SYNC) {
                self.progress.publish(end);
                After::Nothing
            } else {
                After::Wait(writer.mark())
            };
        }
        self.progress.publish(end);
        let unsynced = writer.unsynced();
        if let Some(active) = writer.active()
            && active
                .len
                .saturating_sub(writer.checked.max(writer.pointed))
                >= CHECKED_EVERY
        {
            self.keep_checked(writer);
        }
        match settings.durability {
            Durability::Interval { bytes, .. } if unsynced >= bytes => {
                After::Bound(bytes, writer.mark())
            }
            _ if unsynced >= UNSYNCED_LIMIT => After::Bound(UNSYNCED_LIMIT, writer.mark()),
            Durability::Interval { time, .. } => self.ask_for_sync(writer, Some(time)),
            _ if unsynced >= SYNC_EVERY => self.ask_for_sync(writer, None),
            _ => After::Nothing,
        }
    }

    /// Notes in the state file how far the segment is right as it was written.
    #[cold]
    fn keep_checked(&self, writer: &mut Writer) {
        if let Some(point) = writer.point(self) {
            self.home.evidence.record_checked(&point);
            writer.checked = point.position;
        }
    }

    /// Leaves it to the thread or, what time demands, to the host's calls; once until it begins. Without a thread the bytes are
    /// kept here.
    #[cold]
    fn ask_for_sync(&self, writer: &mut Writer, within: Option<Duration>) -> After {
        if writer.sync_asked {
            return After::Nothing;
        }
        let asked = self.ask(within);
        writer.sync_asked = asked;
        if asked || within.is_some() {
            After::Nothing
        } else {
            After::Bound(SYNC_EVERY, writer.mark())
        }
    }
}

/// The clock must say a time that a batch can hold, and event times must lie near it where that is asked for.
#[cold]
fn check_times(now: Timestamp, settings: &Settings, encoder: &Encoder) -> Result<()> {
    let check = |at: Timestamp, allowed: Range<Timestamp>| {
        if allowed.contains(&at) {
            return Ok(());
        }
        let allowed = Box::new(allowed);
        Err(Error::InvalidTimestamp { at, allowed })
    };
    check(
        now,
        Timestamp::from_millis(0)..Timestamp::from_millis(LATEST + 1),
    )?;
    let Some((before, after)) = settings.timestamp_limits else {
        return Ok(());
    };
    let allowed = now.minus(before)..now.plus(after).plus(Duration::from_millis(1));
    let times = [encoder.min_event_time(), encoder.max_event_time()];
    let mut times = times.into_iter().flatten().map(Timestamp::from_millis);
    times.try_for_each(|at| check(at, allowed.clone()))
}
