//! The way to an offset or a time inside a segment: its index, from memory, from the file beside it, or made again.

use std::path::PathBuf;

use super::guess::Guess;
use super::index::{Index, Place};
use super::{Ground, Indexed, Segment, scan};
use crate::error::{Error, Result};
use crate::format::index as format;
use crate::format::names;
use crate::io::{self, OpenMode};

/// The way to an offset.
pub(crate) struct Way {
    /// A batch begins here: the one that holds the offset, or one before it.
    pub(crate) position: u64,
    /// Bytes to the next known place, or to the end of a sealed segment.
    pub(crate) reach: Option<usize>,
    /// Where to look first.
    pub(crate) guess: Option<Guess>,
}

impl Segment {
    /// The way to `offset`.
    pub(crate) fn locate(&self, ground: &Ground, offset: u64) -> Result<Way> {
        let delta = u32::try_from(offset.saturating_sub(self.base())).unwrap_or(u32::MAX);
        if let Some(found) = self.known(delta) {
            return Ok(found);
        }
        self.complete_index(ground)?;
        Ok(self.known(delta).unwrap_or_else(|| self.at_start()))
    }

    /// `None` if the index does not reach down to `delta` yet.
    fn known(&self, delta: u32) -> Option<Way> {
        let indexed = self.index.read();
        match indexed.index.around(delta) {
            (Some(floor), next) => Some(Way {
                position: u64::from(floor.position),
                reach: next
                    .map(|next| u64::from(next.position))
                    .or_else(|| self.data_end())
                    .map(|end| end.saturating_sub(u64::from(floor.position)) as usize),
                guess: next.and_then(|next| Guess::between(floor, next, delta)),
            }),
            (None, _) if self.is_complete(&indexed) => Some(self.at_start()),
            (None, _) => None,
        }
    }

    fn at_start(&self) -> Way {
        Way {
            position: self.header_len,
            reach: None,
            guess: None,
        }
    }

    /// Does the index reach down to the first batch? (That of a sealed segment is empty until somebody needs it.)
    fn is_complete(&self, indexed: &Indexed) -> bool {
        indexed.from <= self.header_len && (self.seal().is_none() || !indexed.index.is_empty())
    }

    /// First offset of the last batch known to begin at or before `offset`.
    pub(crate) fn floor_offset(&self, ground: &Ground, offset: u64) -> Result<u64> {
        let place = self.floor_place(ground, offset)?;
        Ok(place.map_or(self.base(), |(first, _)| first))
    }

    /// Offset and position of the last batch known to begin at or before `offset`.
    pub(super) fn floor_place(&self, ground: &Ground, offset: u64) -> Result<Option<(u64, u64)>> {
        self.complete_index(ground)?;
        let delta = u32::try_from(offset.saturating_sub(self.base())).unwrap_or(u32::MAX);
        let floor = self.index.read().index.floor(delta);
        Ok(floor.map(|place| {
            let offset = self.base() + u64::from(place.delta);
            (offset, u64::from(place.position))
        }))
    }

    /// The index led to a place that is not right: it is not used again, and made anew from the batches.
    pub(crate) fn forget_index(&self) {
        let end = self.data_end().unwrap_or(self.header_len);
        self.set_index(Index::default(), end.max(self.header_len + 1));
    }

    /// Position and offset at which to begin to look for the first record of `time` or later.
    pub(crate) fn locate_time(&self, ground: &Ground, time: i64) -> Result<(u64, u64)> {
        self.complete_index(ground)?;
        let place = self.index.read().index.before_time(time);
        Ok(place.map_or((self.header_len, self.base()), |place| {
            (
                u64::from(place.position),
                self.base() + u64::from(place.delta),
            )
        }))
    }

    /// The first known batch at or behind a position: its offset and position.
    pub(crate) fn known_place_from(&self, position: u64) -> Option<(u64, u64)> {
        let indexed = self.index.read();
        indexed
            .index
            .first_from(position)
            .map(|p| (self.base() + u64::from(p.delta), u64::from(p.position)))
    }

    /// Adds what the writer, or a scan, saw.
    pub(crate) fn note_place(&self, place: Place) {
        self.index.write().index.push(place);
    }

    /// Everything known is known from `from` on only (a scan began there).
    pub(crate) fn set_index(&self, index: Index, from: u64) {
        *self.index.write() = Indexed { index, from };
    }

    /// Reads the index file, or walks the batches below what is known already.
    fn complete_index(&self, ground: &Ground) -> Result<()> {
        let indexed = self.index.read();
        if self.is_complete(&indexed) {
            return Ok(());
        }
        let from = indexed.from;
        drop(indexed);
        let stop = if from <= self.header_len {
            self.data_end().unwrap_or(from)
        } else {
            from
        };
        let below = match self.load_index(ground, stop) {
            Some(index) => index,
            None => scan::index_below(ground, self, stop)
                .map_err(|e| Error::io("read", self.path(), e))?,
        };
        self.put_below(from, below);
        Ok(())
    }

    /// What was not known below `from`.
    fn put_below(&self, from: u64, below: Index) {
        let mut indexed = self.index.write();
        if indexed.from == from {
            let above = std::mem::replace(&mut indexed.index, below);
            above.places().for_each(|place| indexed.index.push(place));
            indexed.from = self.header_len;
        }
    }

    fn index_path(&self) -> PathBuf {
        self.path()
            .with_file_name(names::index_name(self.base(), self.header.generation))
    }

    /// The index file of a sealed segment, if there is one that can be used. It is a cache: any fault of it means "not there".
    fn load_index(&self, ground: &Ground, end: u64) -> Option<Index> {
        let file = ground
            .storage
            .open(&self.index_path(), OpenMode::Read)
            .ok()?;
        let len = usize::try_from(file.len().ok()?)
            .ok()
            .filter(|&len| len <= MAX_INDEX_BYTES)?;
        let mut bytes = vec![0; len];
        let read = io::read_full(&*file, &mut bytes, 0).ok()?;
        let file = format::Index::decode(bytes.get(..read)?, self.header.salt).ok()?;
        if file.covers != end {
            return None;
        }
        Index::from_file(&file)
    }

    /// Writes the index file, for the next opening. Failing to costs time only.
    pub(crate) fn save_index(&self, ground: &Ground, covers: u64) {
        let from = self.index.read().from;
        if from > self.header_len
            && let Some(below) = self.load_index(ground, from)
        {
            self.put_below(from, below); // an earlier life closed in order here: the file goes on where it ended
        }
        let indexed = self.index.read();
        if indexed.from > self.header_len || indexed.index.is_empty() {
            return;
        }
        let file = indexed.index.to_file(covers);
        drop(indexed);
        let bytes = file.encode(self.header.salt);
        let path = self.index_path();
        let _ = ground.storage.remove_file(&path); // an older one speaks of less
        let made = ground.storage.open(&path, OpenMode::CreateNew);
        let written = made.and_then(|file| io::write_full(&*file, &bytes, 0));
        if written.is_err() {
            let _ = ground.storage.remove_file(&path); // half an index is not used: its checksum says so; this saves the room
        }
    }

    /// Where the batches end, for a sealed segment.
    fn data_end(&self) -> Option<u64> {
        self.seal().map(|seal| seal.data_end)
    }

    /// Bytes from `position` to the end of the batches; for the active segment as many as one likes.
    pub(crate) fn left_after(&self, position: u64) -> usize {
        let left = self
            .data_end()
            .map_or(u64::MAX, |end| end.saturating_sub(position));
        usize::try_from(left).unwrap_or(usize::MAX)
    }
}

/// More than the index of the largest segment takes.
const MAX_INDEX_BYTES: usize = 256 << 20;
