//! One reader's place in a partition: from the segment that holds its offset, chunk by chunk, to the visible end.
//!
//! The writer's lock is not taken: the visible end is one atomic number, the list of segments a snapshot, and what the end covers is
//! in the snapshot and in the file before the end is published.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::segments::{Joint, Segments, Slot, lost};
use super::{Inner, Partition};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::offset::Offset;
use crate::segment::chunk::Chunk;
use crate::segment::guess::Guess;
use crate::segment::read::{Got, WINDOW, Want, read, read_guessed};
use crate::segment::spare::Spares;
use crate::segment::{Damage, Segment, Why};

/// A place to read on from.
pub(crate) struct Cursor {
    inner: Arc<Inner>,
    next: u64,
    /// The segment that holds `next`, and where its batch begins.
    here: Option<Here>,
    /// What was read and not given out yet.
    rest: Option<Chunk>,
    /// Blocks to read into again; one consumer's readers share them. `None` for a single read.
    spares: Option<Arc<Spares>>,
    /// Of the list of segments that `here` is from.
    changes: u64,
}

struct Here {
    segment: Arc<Segment>,
    position: u64,
    /// The position comes from an index, so it is not trusted yet.
    by_index: bool,
    /// Bytes from there to the next place that the index knows, and where in between the next offset probably is.
    reach: Option<usize>,
    guess: Option<Guess>,
}

/// Bytes that are read for one record where no index says how far to go.
const GET_BYTES: usize = 4096;

impl Partition {
    /// A reader that begins at `next`, and reads on.
    pub(crate) fn cursor(&self, next: Offset) -> Cursor {
        self.cursor_with(next, Some(Arc::default()))
    }

    /// As [`cursor`](Partition::cursor), which reads into these blocks.
    pub(crate) fn cursor_with(&self, next: Offset, spares: Option<Arc<Spares>>) -> Cursor {
        Cursor {
            inner: Arc::clone(&self.inner),
            next: next.get(),
            here: None,
            rest: None,
            spares,
            changes: 0,
        }
    }
}

impl Cursor {
    /// The offset to be read next.
    pub(crate) fn next_offset(&self) -> Offset {
        Offset::new(self.next)
    }

    /// Nothing is left to be read: one load.
    #[inline]
    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_none() && self.next >= self.inner.progress.end().get()
    }

    pub(crate) fn seek(&mut self, to: Offset) {
        if to.get() != self.next {
            self.next = to.get();
            self.here = None;
            self.rest = None;
        }
    }

    /// Records from the next offset on, all in one block: at most `max_records`, and about `max_bytes` (one batch at least).
    /// `None` at the visible end.
    ///
    /// An error says what cannot be read and moves nothing; `Error::resume_at` says where to seek to go on behind it.
    pub(crate) fn read(&mut self, max_records: usize, max_bytes: usize) -> Result<Option<Chunk>> {
        self.read_below(u64::MAX, max_records, max_bytes)
    }

    /// As [`Cursor::read`], below an offset.
    pub(crate) fn read_below(
        &mut self,
        limit: u64,
        max_records: usize,
        max_bytes: usize,
    ) -> Result<Option<Chunk>> {
        if max_records == 0 {
            return Ok(None);
        }
        loop {
            let mut chunk = match self.rest.take() {
                Some(chunk) => chunk,
                None => match self.fill(limit, max_bytes).map_err(|e| self.told(e))? {
                    Some(chunk) => chunk,
                    None => return Ok(None),
                },
            };
            let head = chunk.split(max_records);
            self.next = head.next().get();
            if chunk.len() > 0 {
                self.rest = Some(chunk);
            }
            if head.len() > 0 {
                return Ok(Some(head));
            }
        }
    }

    fn fill(&mut self, limit: u64, max_bytes: usize) -> Result<Option<Chunk>> {
        loop {
            self.inner.check_there()?;
            let end = self.inner.progress.end().get(); // before the snapshot, see above
            let segments = self.inner.segments();
            match self.fill_from(&segments, end, limit, max_bytes) {
                Err(_) if self.is_outdated(&segments) => self.here = None,
                filled => return filled,
            }
        }
    }

    /// Were segments of this snapshot replaced or removed meanwhile? Then their files may be gone, and what stands in them stands elsewhere.
    fn is_outdated(&self, segments: &Segments) -> bool {
        self.inner.segments().changes != segments.changes
    }

    fn fill_from(
        &mut self,
        segments: &Segments,
        end: u64,
        limit: u64,
        max_bytes: usize,
    ) -> Result<Option<Chunk>> {
        if self.next < segments.log_start {
            return Err(self.out_of_range(segments, end));
        }
        let stop = end.min(limit);
        loop {
            if self.next >= stop {
                return Ok(None);
            }
            if !self.stand(segments, end)? {
                continue; // it went on over a gap
            }
            let here = self.here.as_mut().expect("a place to stand on");
            let want = Want {
                offset: self.next,
                position: here.position,
                by_index: here.by_index,
                end: stop,
                bytes: max_bytes.clamp(1, WINDOW),
            };
            let inner = &*self.inner;
            match read(
                &inner.home.ground,
                &here.segment,
                segments.tail.as_deref(),
                &want,
                self.spares.as_deref(),
            ) {
                Ok(Some(Got { chunk, position })) => {
                    here.position = position;
                    here.by_index = false;
                    here.reach = None;
                    if segments.tail.is_none() && chunk.next().get() >= end {
                        inner.tail_wanted.store(true, Ordering::Relaxed); // a hint to the writer, no more
                    }
                    return Ok(Some(chunk));
                }
                Ok(None) => self.pass_by(end),
                Err(damage) => self.not_read(damage)?,
            }
        }
    }

    /// Nothing is left of the segment from here on.
    fn pass_by(&mut self, end: u64) {
        let here = self.here.take().expect("a place to stand on");
        let last = here.segment.seal().and_then(|seal| seal.footer.last);
        self.next = last.map_or(end, |last| last + 1).min(end);
    }

    /// A place that came from an index is looked up again without it, before anything is called damaged.
    fn not_read(&mut self, damage: Damage) -> Result<()> {
        let here = self.here.as_mut().expect("a place to stand on");
        if here.by_index && !matches!(damage.why, Why::Io(_)) && !planted!(INDEX_TRUSTED) {
            here.segment.forget_index();
            here.by_index = false;
            here.position = here.segment.header_len;
            here.reach = None;
            return Ok(());
        }
        Err(here.segment.damage_error(damage))
    }

    /// Stands on the segment that holds the next offset. `false`: there is a gap, and the next offset has moved behind it.
    fn stand(&mut self, segments: &Segments, end: u64) -> Result<bool> {
        if self.changes != segments.changes {
            self.changes = segments.changes;
            self.here = None; // it may be the place of another segment now
        }
        if let Some(here) = &self.here {
            let holds = match here.segment.seal() {
                Some(seal) => seal.footer.last.is_some_and(|last| self.next <= last),
                None => segments.ends_with(&here.segment), // recovery may have put another one in its place
            };
            if holds {
                if segments.gap_from.is_some_and(|from| self.next >= from) {
                    self.next = end;
                    return Ok(false);
                }
                return Ok(true);
            }
            self.here = None;
        }
        let Some(at) = segments.holding(self.next) else {
            return Err(self.all_missing(end));
        };
        if segments.slots[at].base > self.next {
            return self.go_to_first(segments, end);
        }
        let segment = self.open(segments, at)?;
        let past = segment
            .seal()
            .is_some_and(|seal| seal.footer.last.is_none_or(|last| self.next > last));
        if past {
            let behind = segments.slots.get(at + 1);
            if let Some(behind) = behind {
                self.check_behind(&segment, segments, at + 1)?;
                self.next = behind.base.min(end);
            } else {
                self.next = end;
            }
            return Ok(false);
        }
        if segments.gap_from.is_some_and(|from| self.next >= from) {
            self.next = end;
            return Ok(false);
        }
        let way = segment.locate(&self.inner.home.ground, self.next)?;
        self.here = Some(Here {
            by_index: way.position != segment.header_len,
            segment,
            position: way.position,
            reach: way.reach,
            guess: way.guess,
        });
        Ok(true)
    }

    /// What goes wrong while a topic is deleted is that, and no damage.
    #[cold]
    fn told(&self, e: Error) -> Error {
        self.inner.check_there().err().unwrap_or(e)
    }

    /// The record at one offset, and as little as possible around it.
    pub(crate) fn read_one(&mut self, offset: u64) -> Result<Option<Chunk>> {
        self.inner.check_there()?;
        let end = self.inner.progress.end().get(); // before the snapshot, see above
        let segments = self.inner.segments();
        if offset < segments.log_start {
            return Err(self.out_of_range(&segments, end));
        }
        if offset >= end {
            return Ok(None);
        }
        match self.stand(&segments, end) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(_) if self.is_outdated(&segments) => return self.read_one(offset),
            Err(e) => return Err(e),
        }
        if let Some(chunk) = self.read_guessed(&segments, offset) {
            return Ok(Some(chunk));
        }
        let here = self.here.as_ref().expect("a place to stand on");
        let bytes = here.reach.unwrap_or(GET_BYTES);
        self.read_below(offset.saturating_add(1), 1, bytes)
    }

    /// Looks first where the record probably is. `None` says nothing: it is then read as if there had been no guess.
    fn read_guessed(&mut self, segments: &Segments, offset: u64) -> Option<Chunk> {
        let here = self.here.as_mut()?;
        let guess = here.guess.take().filter(|_| here.segment.luck.holds())?;
        let got = read_guessed(
            &self.inner.home.ground,
            &here.segment,
            segments.tail.as_deref(),
            (guess, offset),
            self.spares.as_deref(),
        );
        here.segment.luck.note(got.is_some());
        got.map(|got| got.chunk)
    }

    /// The offset from which on to read, to read everything up to the next offset in one go.
    pub(crate) fn stretch_start(&mut self) -> Result<u64> {
        let segments = self.inner.segments();
        let holding = segments.holding(self.next);
        let Some(at) = holding.filter(|&at| segments.slots[at].base <= self.next) else {
            return Ok(segments.log_start); // a gap before the first segment: nothing stands in it
        };
        let opened = self.open(&segments, at);
        let floor =
            opened.and_then(|segment| segment.floor_offset(&self.inner.home.ground, self.next));
        match floor {
            Err(_) if self.is_outdated(&segments) => self.stretch_start(),
            floor => Ok(floor?.max(segments.log_start)),
        }
    }

    /// The segment at a place of the list.
    pub(crate) fn open_at(&self, segments: &Segments, at: usize) -> Result<Arc<Segment>> {
        self.open(segments, at).map_err(|e| self.told(e))
    }

    /// Goes where the first record of `time` or later can be in a segment.
    pub(crate) fn stand_at_time(
        &mut self,
        segment: &Arc<Segment>,
        log_start: u64,
        time: Timestamp,
    ) -> Result<()> {
        let (position, offset) = segment.locate_time(&self.inner.home.ground, time.as_millis())?;
        self.rest = None;
        if offset < log_start {
            self.seek(Offset::new(log_start));
            return Ok(());
        }
        self.next = offset;
        self.here = Some(Here {
            by_index: position != segment.header_len,
            segment: Arc::clone(segment),
            position,
            reach: None,
            guess: None,
        });
        Ok(())
    }

    /// Records were written, and there is no segment left.
    fn all_missing(&self, end: u64) -> Error {
        let place = &self.inner.place;
        Error::corruption(&place.dir, 0, lost(&place.at, self.next, end))
    }

    /// Goes over the gap before the first segment, if its header records one: otherwise segments are missing.
    fn go_to_first(&mut self, segments: &Segments, end: u64) -> Result<bool> {
        let first = self.open(segments, 0)?;
        if let Some(lost) = lost(&self.inner.place.at, self.next, first.header.expected) {
            return Err(Error::corruption(first.path(), 0, Some(lost)));
        }
        self.next = first.base().min(end);
        Ok(false)
    }

    /// A gap between two segments is legal if the second one records it.
    fn check_behind(&self, segment: &Segment, segments: &Segments, at: usize) -> Result<()> {
        let behind = self.open(segments, at)?;
        let from = segment
            .seal()
            .map_or(self.next, |seal| seal.footer.next_base);
        match self.joint(segments, at, &behind) {
            Joint::Missing(to) => match lost(&self.inner.place.at, from.max(self.next), to) {
                None => Ok(()), // told before
                lost => Err(Error::corruption(behind.path(), 0, lost)),
            },
            Joint::Whole | Joint::Broken => Ok(()),
        }
    }

    /// Opens the segment at a place of the list, and looks whether it belongs behind the one before.
    fn open(&self, segments: &Segments, at: usize) -> Result<Arc<Segment>> {
        let inner = &*self.inner;
        let slot: &Slot = &segments.slots[at];
        if let Some(segment) = slot.opened().filter(|_| at == 0 || slot.is_linked()) {
            return Ok(Arc::clone(segment));
        }
        let times = inner.settings().timestamps;
        let opened = slot.open_sealed(&inner.home.ground, &inner.place, inner.home.log, times);
        let segment = opened.map_err(|e| self.lost_segment(segments, at, e))?;
        if let Joint::Broken = self.joint(segments, at, &segment) {
            let broken = Error::corruption(&slot.path, 0, None);
            return Err(self.lost_segment(segments, at, broken));
        }
        Ok(segment)
    }

    /// How the segment at a place follows the one before. One that cannot be opened, or is not sealed, says nothing.
    fn joint(&self, segments: &Segments, at: usize, segment: &Segment) -> Joint {
        let slot = &segments.slots[at];
        let Some(before) = at.checked_sub(1).filter(|_| !slot.is_linked()) else {
            return Joint::Whole;
        };
        let inner = &*self.inner;
        let times = inner.settings().timestamps;
        let before = segments.slots[before].open_sealed(
            &inner.home.ground,
            &inner.place,
            inner.home.log,
            times,
        );
        match before {
            Ok(before) if before.seal().is_some() => slot.joint(segment, &before),
            _ => Joint::Whole,
        }
    }

    /// A segment that cannot be opened takes its offsets with it, and no others.
    fn lost_segment(&self, segments: &Segments, at: usize, e: Error) -> Error {
        let end = segments
            .slots
            .get(at + 1)
            .map_or(self.inner.progress.end().get(), |next| next.base);
        match lost(&self.inner.place.at, self.next, end) {
            Some((partition, range)) => e.missing(&partition, range),
            None => e,
        }
    }

    fn out_of_range(&self, segments: &Segments, end: u64) -> Error {
        let requested = self.inner.place.at.at(Offset::new(self.next));
        Error::OutOfRange {
            requested: Box::new(requested),
            valid: Offset::new(segments.log_start)..Offset::new(end),
        }
    }
}
