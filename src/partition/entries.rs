//! Looking at a partition: all entries of a range, forwards or backwards, one entry by its offset, the first of a time.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use super::Partition;
use super::reader::Cursor;
use super::segments::Segments;
use crate::clock::Timestamp;
use crate::entry::{Entry, EntryRef, View};
use crate::error::{Error, Result};
use crate::offset::Offset;
use crate::segment::chunk::Chunk;
use crate::segment::read::WINDOW;

/// Entries of one partition, in offset order; `rev()` or `next_back` read from the end. It ends at the end that was visible when it was
/// made.
///
/// Meanwhile a compacted topic may be compacted: of a key that is appended again behind that end, an older record than the latest before the end
/// may be what is found, or none. Who needs the latest of each key reads on from the end, as a consumer does.
///
/// Damage is one `Err` for the range that cannot be read; the next call goes on behind it (or before it, backwards). Where the range begins
/// below the log start, or retention overtakes it, that is one [`Error::OutOfRange`], and the next call goes on at the first record that there is.
#[must_use = "nothing is read before it is iterated"]
pub struct Scan {
    partition: Partition,
    forward: Cursor,
    ready: Ready,
    /// Entries from it on were given out from the back.
    back: u64,
    /// Entries from it on were read from the back; those not given out yet are `behind`.
    read_back: u64,
    behind: Vec<Result<Entry>>,
}

/// Records of a chunk that were not given out yet.
#[derive(Default)]
struct Ready {
    chunk: Option<Chunk>,
    views: Vec<View>,
    at: usize,
}

impl Partition {
    /// The entries of a range of offsets: `..`, `from..`, `from..to`. See [`Scan`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> thalweg::Result<()> {
    /// # let log = thalweg::Log::in_memory();
    /// # let topic = log.create_topic("t", thalweg::TopicConfig::new().partitions(1))?;
    /// let partition = topic.partition(0)?;
    /// partition.append_all(["a", "b", "c"].map(|v| ("key", v)))?;
    /// let newest = partition.entries(..).next_back().unwrap()?;
    /// assert_eq!(newest.value_str()?, "c");
    /// # Ok(()) }
    /// ```
    pub fn entries(&self, range: impl RangeBounds<Offset>) -> Scan {
        let valid = self.offsets();
        let from = match range.start_bound() {
            Bound::Included(from) => *from,
            Bound::Excluded(from) => from.next(),
            Bound::Unbounded => valid.start,
        };
        let to = match range.end_bound() {
            Bound::Included(to) => to.next(),
            Bound::Excluded(to) => *to,
            Bound::Unbounded => valid.end,
        };
        let back = to.min(valid.end).get();
        Scan {
            partition: self.clone(),
            forward: self.cursor(from),
            ready: Ready::default(),
            back,
            read_back: back,
            behind: Vec::new(),
        }
    }

    /// The record at an offset; `None` if there is none: it lies in a gap, or at the end or behind it.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] below the first readable offset; [`Error::Corruption`], [`Error::Incompatible`] or [`Error::Io`] if
    /// it cannot be read.
    pub fn get(&self, offset: Offset) -> Result<Option<Entry>> {
        let mut cursor = self.cursor_with(offset, None);
        let Some(chunk) = cursor.read_one(offset.get())? else {
            return Ok(None);
        };
        Ok(chunk
            .views()
            .next()
            .filter(|view| view.offset == offset)
            .map(|view| Entry::new(Arc::clone(chunk.block()), view)))
    }

    /// The first offset whose record has a timestamp of `time` or later; `None` if there is none.
    ///
    /// # Errors
    ///
    /// As [`get`](Partition::get).
    pub fn offset_for_time(&self, time: Timestamp) -> Result<Option<Offset>> {
        loop {
            let end = self.inner.progress.end();
            let segments = self.inner.segments();
            match self.look_for_time(&segments, end, time) {
                // They were replaced or removed while they were looked at.
                Err(_) if self.inner.segments().changes != segments.changes => {}
                found => return found,
            }
        }
    }

    fn look_for_time(
        &self,
        segments: &Segments,
        end: Offset,
        time: Timestamp,
    ) -> Result<Option<Offset>> {
        let from = segments.holding(segments.log_start).unwrap_or(0);
        let mut cursor = self.cursor(Offset::new(segments.log_start));
        for at in from..segments.slots.len() {
            let segment = cursor.open_at(segments, at)?;
            if segment.seal().is_some_and(|seal| {
                let accumulator = &seal.footer.accumulator;
                accumulator.last_append.max(accumulator.max_event) < time.as_millis()
            }) {
                continue;
            }
            let next = segments
                .slots
                .get(at + 1)
                .map_or(end.get(), |next| next.base);
            cursor.stand_at_time(&segment, segments.log_start, time)?;
            while let Some(chunk) = cursor.read_below(next.min(end.get()), usize::MAX, WINDOW)? {
                if let Some(view) = chunk.views().find(|view| view.timestamp >= time) {
                    return Ok(Some(view.offset));
                }
            }
        }
        Ok(None)
    }
}

impl Ready {
    fn fill(&mut self, chunk: Chunk) {
        self.views.clear();
        self.views.extend(chunk.views());
        self.at = 0;
        self.chunk = Some(chunk);
    }

    fn next(&mut self, below: u64) -> Option<Entry> {
        let view = *self.views.get(self.at)?;
        if view.offset.get() >= below {
            return None;
        }
        self.at += 1;
        let chunk = self.chunk.as_ref()?;
        Some(Entry::new(Arc::clone(chunk.block()), view))
    }
}

impl Iterator for Scan {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        loop {
            if let Some(entry) = self.ready.next(self.back) {
                return Some(Ok(entry));
            }
            if self.forward.next_offset().get() >= self.back {
                return None; // also where nothing can be read any more: an error is told once
            }
            match self.forward.read_below(self.back, usize::MAX, WINDOW) {
                Ok(Some(chunk)) => self.ready.fill(chunk),
                Ok(None) => return None,
                Err(e) => {
                    self.step_over(&e);
                    return Some(Err(e));
                }
            }
        }
    }
}

impl Scan {
    /// Goes on behind what cannot be read; if that is not known, the scan ends.
    fn step_over(&mut self, e: &Error) {
        let to = e
            .resume_at()
            .map_or(self.back, |position| position.offset().get());
        let to = if to > self.forward.next_offset().get() {
            to
        } else {
            self.back
        };
        self.forward.seek(Offset::new(to));
    }

    /// The fast way: hands each entry to `f` by reference, without a counter or an allocation per entry. Ends at the first
    /// error, from reading or from `f`.
    ///
    /// # Errors
    ///
    /// The error of the read, or what `f` returned.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> thalweg::Result<()> {
    /// # let log = thalweg::Log::in_memory();
    /// # let topic = log.create_topic("t", thalweg::TopicConfig::new().partitions(1))?;
    /// # let partition = topic.partition(0)?;
    /// partition.append(("k", "four"))?;
    /// let mut bytes = 0;
    /// partition.entries(..).try_for_each_ref(|entry| {
    ///     bytes += entry.value().map_or(0, <[u8]>::len);
    ///     Ok::<_, thalweg::Error>(())
    /// })?;
    /// assert_eq!(bytes, 4);
    /// # Ok(()) }
    /// ```
    pub fn try_for_each_ref<E: From<Error>>(
        mut self,
        mut f: impl FnMut(EntryRef<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(entry) = self.ready.next(self.back) {
            f((&entry).into())?;
        }
        while let Some(chunk) = self.forward.read_below(self.back, usize::MAX, WINDOW)? {
            for view in chunk.views() {
                f(EntryRef::new(chunk.block(), view))?;
            }
        }
        Ok(())
    }

    /// Entries below it were given out from the front.
    fn front(&self) -> u64 {
        let ready = self
            .ready
            .views
            .get(self.ready.at)
            .map(|view| view.offset.get());
        ready.unwrap_or_else(|| self.forward.next_offset().get())
    }

    /// Reads the stretch of entries before those that were read from the back. `false`: there is none.
    fn fill_back(&mut self) -> bool {
        let front = self.front();
        if self.read_back <= front {
            return false;
        }
        let mut cursor = self.partition.cursor(Offset::new(self.read_back - 1));
        if self.read_back <= self.partition.offsets().start.get() {
            // Everything before was removed since this scan was made: told once.
            self.behind.extend(cursor.read(1, 1).err().map(Err));
            self.read_back = front;
            return true;
        }
        let mut from = cursor
            .stretch_start()
            .unwrap_or(self.read_back - 1)
            .max(front);
        cursor.seek(Offset::new(from));
        while cursor.next_offset().get() < self.read_back {
            match cursor.read_below(self.read_back, usize::MAX, WINDOW) {
                Ok(None) => break,
                Ok(Some(chunk)) => {
                    let entries = chunk
                        .views()
                        .map(|view| Ok(Entry::new(Arc::clone(chunk.block()), view)));
                    self.behind.extend(entries);
                }
                Err(e) => {
                    let to = e.resume_at().map(|position| position.offset().get());
                    if to.is_none() {
                        from = front; // it is not about a place: asking for what lies before it would give the same
                    }
                    self.behind.push(Err(e));
                    let to = to.unwrap_or(self.read_back);
                    cursor.seek(Offset::new(to.max(cursor.next_offset().get() + 1)));
                }
            }
        }
        self.read_back = from;
        true
    }
}

impl DoubleEndedIterator for Scan {
    fn next_back(&mut self) -> Option<Result<Entry>> {
        loop {
            match self.behind.pop() {
                Some(Ok(entry)) if entry.offset().get() < self.front() => return None,
                Some(Ok(entry)) => {
                    self.back = entry.offset().get();
                    return Some(Ok(entry));
                }
                Some(Err(e)) => return Some(Err(e)),
                None if self.fill_back() => {}
                None => return None,
            }
        }
    }
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan")
            .field("next", &self.forward.next_offset())
            .field("back", &self.back)
            .finish_non_exhaustive()
    }
}
