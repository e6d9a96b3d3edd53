//! One partition as a member reads it: where it stands, and whether it rests after an error.

use std::sync::Arc;

use super::batch::Reset;
use super::builder::OnOutOfRange;
use super::engine::Spot;
use crate::error::{Error, Result};
use crate::offset::{Offset, Position, TopicPartition};
use crate::partition::Partition;
use crate::partition::progress::Progress;
use crate::partition::reader::Cursor;
use crate::segment::chunk::Chunk;
use crate::segment::spare::Spares;

/// One owned partition.
pub(super) struct Source {
    at: TopicPartition,
    partition: Partition,
    cursor: Cursor,
    state: State,
    /// The user wants nothing of it for now.
    pub(super) paused: bool,
    /// Its position is not what the group has committed.
    pub(super) moved: bool,
    /// The last poll that read here, and where that one began.
    batch: (u64, Offset),
}

/// Does a poll look at this partition?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Reading,
    /// It returned an error. `behind`: where `resume` goes on, if not here.
    Halted {
        behind: Option<Offset>,
    },
    /// There is no committed offset and none was to be assumed; told once, then it rests.
    NoPosition {
        told: bool,
    },
}

/// On whose behalf a poll reads, and which one it is.
#[derive(Clone, Copy)]
pub(super) struct Reading<'m> {
    pub(super) group: &'m str,
    pub(super) then: OnOutOfRange,
    pub(super) poll: u64,
}

/// How much a poll may still take.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub(super) records: usize,
    pub(super) bytes: usize,
    /// It has taken nothing yet: then what it reads first is taken, however large.
    pub(super) untouched: bool,
}

impl Room {
    pub(super) fn is_full(self) -> bool {
        self.records == 0 || self.bytes == 0
    }

    pub(super) fn take(&mut self, chunk: &Chunk) {
        self.records = self.records.saturating_sub(chunk.len());
        self.bytes = self.bytes.saturating_sub(bytes_of(chunk));
        self.untouched = false;
    }

    fn holds(self, chunk: &Chunk) -> bool {
        self.untouched || bytes_of(chunk) <= self.bytes
    }
}

fn bytes_of(chunk: &Chunk) -> usize {
    usize::try_from(chunk.bytes()).unwrap_or(usize::MAX)
}

impl Source {
    /// `next`: where to begin; `None` if that is not known and must be told.
    pub(super) fn new(partition: Partition, next: Option<Offset>, spares: &Arc<Spares>) -> Source {
        let from = next.unwrap_or_else(|| partition.offsets().start);
        let cursor = partition.cursor_with(from, Some(Arc::clone(spares)));
        let state = match next {
            Some(_) => State::Reading,
            None => State::NoPosition { told: false },
        };
        Source {
            at: partition.topic_partition(),
            partition,
            cursor,
            state,
            paused: false,
            moved: false,
            batch: (0, from),
        }
    }

    pub(super) fn at(&self) -> &TopicPartition {
        &self.at
    }

    pub(super) fn partition(&self) -> &Partition {
        &self.partition
    }

    pub(super) fn progress(&self) -> &Progress {
        self.partition.progress()
    }

    pub(super) fn is_halted(&self) -> bool {
        matches!(
            self.state,
            State::Halted { .. } | State::NoPosition { told: true }
        )
    }

    /// Would a poll read nothing here, and have nothing to tell? A few loads.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        match self.state {
            _ if self.paused => true,
            State::Halted { .. } | State::NoPosition { told: true } => true,
            State::NoPosition { told: false } => false,
            State::Reading => self.cursor.is_at_end(),
        }
    }

    /// Would a poll read something here, or have something to tell?
    pub(super) fn has_news(&self) -> bool {
        // (One that may be deleted gives nothing, and wakes who waits when that is known.)
        !self.is_idle() && (self.state != State::Reading || !self.partition.is_gone())
    }

    /// The position, or where this poll began to read, if it did.
    pub(super) fn position_before(&self, poll: Option<u64>) -> Option<Offset> {
        let position = self.position()?;
        let (read, from) = self.batch;
        Some(if poll == Some(read) { from } else { position })
    }

    pub(super) fn position(&self) -> Option<Offset> {
        match self.state {
            State::NoPosition { .. } => None,
            State::Reading | State::Halted { .. } => Some(self.cursor.next_offset()),
        }
    }

    pub(super) fn lag(&self) -> Option<u64> {
        self.position().map(|next| self.partition.lag_from(next))
    }

    /// The next records, if there are any. With an error nothing has moved.
    pub(super) fn read(
        &mut self,
        reading: Reading<'_>,
        room: Room,
        resets: &mut Vec<Reset>,
    ) -> Result<Option<Chunk>> {
        if self.is_idle() {
            return Ok(None);
        }
        if let State::NoPosition { .. } = self.state {
            return Err(Error::NoPosition {
                at: Box::new(self.at.clone()),
                group: reading.group.into(),
            });
        }
        let mut from = self.cursor.next_offset();
        let began = from;
        let chunk = loop {
            match self.cursor.read(room.records, room.bytes) {
                // Again and again, if the log start moves on meanwhile.
                Err(Error::OutOfRange { valid, .. })
                    if self.overtaken(valid.start, reading.then) =>
                {
                    resets.push(Reset {
                        from: self.at.at(self.cursor.next_offset()),
                        to: valid.start,
                    });
                    from = valid.start;
                    self.cursor.seek(from);
                }
                other => break other?,
            }
        };
        if chunk.as_ref().is_some_and(|chunk| !room.holds(chunk)) {
            self.cursor.seek(from); // for a poll that has the room, or nothing else
            return Ok(None);
        }
        if chunk.is_some() {
            self.moved = true;
            if self.batch.0 != reading.poll {
                self.batch = (reading.poll, began);
            }
        }
        Ok(chunk)
    }

    fn overtaken(&self, start: Offset, then: OnOutOfRange) -> bool {
        then == OnOutOfRange::LogStart && self.cursor.next_offset() < start
    }

    /// The error was told: rest until `seek` or `resume`.
    pub(super) fn halt(&mut self, error: &Error) {
        self.state = match error {
            Error::NoPosition { .. } => State::NoPosition { told: true },
            Error::DataLoss { lost, .. } => State::Halted {
                behind: Some(lost.end),
            },
            _ => State::Halted { behind: None },
        };
    }

    pub(super) fn resume(&mut self) {
        self.paused = false;
        self.state = match self.state {
            // Still unknown: reading from just anywhere would be a guess.
            State::NoPosition { .. } => State::NoPosition { told: false },
            State::Halted {
                behind: Some(behind),
            } => {
                self.cursor.seek(behind);
                self.moved = true;
                State::Reading
            }
            State::Halted { behind: None } | State::Reading => State::Reading,
        };
    }

    /// # Errors
    ///
    /// `OutOfRange` above the end: nothing has moved.
    pub(super) fn seek(&mut self, to: Offset) -> Result<()> {
        let valid = self.partition.offsets();
        if to > valid.end {
            return Err(out_of_range(self.at.at(to), valid));
        }
        self.cursor.seek(to);
        self.state = State::Reading;
        self.moved = true;
        Ok(())
    }

    /// What that is now.
    pub(super) fn spot(&self, spot: Spot) -> Result<Offset> {
        let offsets = self.partition.offsets();
        Ok(match spot {
            Spot::Start => offsets.start,
            Spot::End => offsets.end,
            Spot::Time(time) => self.partition.offset_for_time(time)?.unwrap_or(offsets.end),
        })
    }

    /// To where the group goes on, wherever that is.
    pub(super) fn seek_back(&mut self, next: Offset) {
        self.cursor.seek(next);
        self.state = State::Reading;
        self.moved = false;
    }

    /// The group does not know where it goes on, and neither does this.
    pub(super) fn forget_position(&mut self) {
        self.state = State::NoPosition { told: false };
        self.moved = false;
    }
}

/// May a group's position be stored as `next`? From the first readable offset to the end, both included.
pub(super) fn check_next(partition: &Partition, next: Offset) -> Result<()> {
    partition.check_there()?;
    let valid = partition.offsets();
    if next < valid.start || next > valid.end {
        return Err(out_of_range(partition.topic_partition().at(next), valid));
    }
    Ok(())
}

fn out_of_range(requested: Position, valid: std::ops::Range<Offset>) -> Error {
    Error::OutOfRange {
        requested: Box::new(requested),
        valid,
    }
}
