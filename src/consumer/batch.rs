//! What one poll returned: entries of several partitions, in order within each.

use std::fmt;
use std::iter::FusedIterator;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::entry::{Entry, EntryRef, View};
use crate::offset::{Offset, Position, Positions, TopicPartition};
use crate::segment::chunk::{Chunk, Views};

/// What one poll returned: entries of several partitions, in order within each. Owned, `Send`; pins the blocks it shows.
///
/// `for entry in &batch` gives each as an [`EntryRef`] and touches no counter; `for entry in batch` gives each as an
/// [`Entry`] that outlives the batch.
#[must_use = "these entries were handed out and will not be returned again"]
#[derive(Default)]
pub struct Batch {
    chunks: Vec<Chunk>,
    next: Positions,
    resets: Vec<Reset>,
    left: Left,
}

/// A partition whose oldest records went before this consumer read them: it went on at the first that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reset {
    /// The next record that was to be read.
    pub from: Position,
    /// The first that is there.
    pub to: Offset,
}

/// How many records of a batch, taken by value, were not taken yet. Shared with the consumer, which refuses to commit then.
#[derive(Clone, Default)]
pub(super) struct Left(Option<Arc<AtomicUsize>>);

impl Left {
    pub(super) fn count(&self) -> usize {
        // Relaxed: it is a guard against a mistake on one thread; it publishes nothing.
        self.0
            .as_ref()
            .map_or(0, |left| left.load(Ordering::Relaxed))
    }

    fn set(&self, count: usize) {
        if let Some(left) = &self.0 {
            left.store(count, Ordering::Relaxed);
        }
    }
}

impl Batch {
    pub(super) fn new(chunks: Vec<Chunk>, resets: Vec<Reset>) -> Batch {
        let mut next = Positions::new();
        for chunk in &chunks {
            next.set(chunk.at().at(chunk.next()));
        }
        let left = Left((!chunks.is_empty()).then(Arc::default));
        Batch {
            chunks,
            next,
            resets,
            left,
        }
    }

    pub(super) fn left(&self) -> Left {
        self.left.clone()
    }

    /// How many records.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(Chunk::len).sum()
    }

    /// No records. It may still tell of [`resets`](Self::resets), once: look at those first. (And positions may have moved past a gap.)
    pub fn is_empty(&self) -> bool {
        self.chunks.iter().all(|chunk| chunk.len() == 0)
    }

    /// There are records, or something to be told. (Who waits need not wait longer.)
    pub(super) fn says_something(&self) -> bool {
        !self.is_empty() || !self.resets.is_empty()
    }

    /// All entries, partition after partition.
    pub fn iter(&self) -> BatchIter<'_> {
        self.only(Only::All)
    }

    /// The partitions that have entries here, sorted.
    pub fn partitions(&self) -> Vec<TopicPartition> {
        let with_entries = self.chunks.iter().filter(|chunk| chunk.len() > 0);
        let mut all: Vec<TopicPartition> = with_entries.map(|chunk| chunk.at().clone()).collect();
        all.sort();
        all.dedup();
        all
    }

    /// The entries of one partition, in order.
    pub fn partition(&self, at: &TopicPartition) -> BatchIter<'_> {
        let found = self.chunks.iter().find(|chunk| chunk.at() == at);
        self.only(found.map_or(Only::None, |chunk| Only::Partition(chunk.at())))
    }

    /// The entries of one topic, partition after partition.
    pub fn topic(&self, name: &str) -> BatchIter<'_> {
        let found = self.chunks.iter().find(|chunk| chunk.at().topic() == name);
        self.only(found.map_or(Only::None, |chunk| Only::Topic(chunk.at().topic())))
    }

    /// The next offsets after this batch, past all gaps.
    pub fn next_positions(&self) -> &Positions {
        &self.next
    }

    /// Partitions that retention overtook: from, to. Told once and at once, so that a batch may have this and no records.
    pub fn resets(&self) -> &[Reset] {
        &self.resets
    }

    /// Bytes of memory or mapped file that this batch keeps alive. (A block that several reads share counts for each.)
    pub fn pinned_bytes(&self) -> u64 {
        self.chunks.iter().map(Chunk::pinned_bytes).sum()
    }

    fn only<'b>(&'b self, wanted: Only<'b>) -> BatchIter<'b> {
        BatchIter {
            chunks: self.chunks.iter(),
            current: None,
            wanted,
        }
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("len", &self.len())
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

/// Which entries of a batch are wanted.
#[derive(Clone, Copy)]
enum Only<'b> {
    All,
    None,
    Topic(&'b str),
    Partition(&'b TopicPartition),
}

impl Only<'_> {
    fn includes(self, at: &TopicPartition) -> bool {
        match self {
            Only::All => true,
            Only::None => false,
            Only::Topic(name) => at.topic() == name,
            Only::Partition(wanted) => at == wanted,
        }
    }
}

/// Entries borrowed from a [`Batch`].
pub struct BatchIter<'b> {
    chunks: std::slice::Iter<'b, Chunk>,
    current: Option<(&'b Chunk, Views<'b>)>,
    wanted: Only<'b>,
}

impl<'b> Iterator for BatchIter<'b> {
    type Item = EntryRef<'b>;

    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "measured: where it is a call, each entry goes through memory, and a loop takes twice the time"
    )]
    fn next(&mut self) -> Option<EntryRef<'b>> {
        if let Some((chunk, views)) = &mut self.current
            && let Some(view) = views.next_plain()
        {
            return Some(EntryRef::among(chunk.block(), views.bytes(), view));
        }
        let (chunk, view) = self.next_any()?;
        Some(EntryRef::new(chunk.block(), view))
    }

    /// What `sum`, `for_each` and their like go through.
    #[inline]
    fn fold<B, F: FnMut(B, EntryRef<'b>) -> B>(mut self, init: B, mut f: F) -> B {
        let mut all = init;
        loop {
            if let Some((chunk, views)) = &mut self.current {
                let block = chunk.block();
                all = views.fold_plain(all, |all, view, bytes| {
                    f(all, EntryRef::among(block, bytes, view))
                });
            }
            let Some((chunk, view)) = self.next_any() else {
                return all;
            };
            all = f(all, EntryRef::new(chunk.block(), view));
        }
    }
}

impl<'b> BatchIter<'b> {
    /// What is not one more plain record of the same chunk. Seldom, and not part of every loop over a batch.
    #[inline(never)]
    fn next_any(&mut self) -> Option<(&'b Chunk, View)> {
        loop {
            if let Some((chunk, views)) = &mut self.current
                && let Some(view) = views.next()
            {
                return Some((chunk, view));
            }
            let wanted = self.wanted;
            let chunk = self.chunks.find(|chunk| wanted.includes(chunk.at()))?;
            self.current = Some((chunk, chunk.views()));
        }
    }
}

impl FusedIterator for BatchIter<'_> {}

impl fmt::Debug for BatchIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchIter").finish_non_exhaustive()
    }
}

impl<'b> IntoIterator for &'b Batch {
    type Item = EntryRef<'b>;
    type IntoIter = BatchIter<'b>;

    fn into_iter(self) -> BatchIter<'b> {
        self.iter()
    }
}

/// Entries taken out of a [`Batch`]. Until all were taken, `Consumer::commit` is refused.
pub struct BatchIntoIter {
    chunks: std::vec::IntoIter<Chunk>,
    /// The chunk that is being taken apart, and where its records are; one buffer for all chunks.
    current: Option<Chunk>,
    views: Vec<View>,
    taken: usize,
    remaining: usize,
    left: Left,
}

impl Iterator for BatchIntoIter {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            if let Some(chunk) = &self.current
                && let Some(&view) = self.views.get(self.taken)
            {
                self.taken += 1;
                self.remaining = self.remaining.saturating_sub(1);
                self.left.set(self.remaining);
                return Some(Entry::new(Arc::clone(chunk.block()), view));
            }
            let chunk = self.chunks.next()?;
            self.views.clear();
            self.views.extend(chunk.views());
            self.taken = 0;
            self.current = Some(chunk);
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining, Some(self.remaining))
    }
}

impl FusedIterator for BatchIntoIter {}

impl fmt::Debug for BatchIntoIter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchIntoIter")
            .field("remaining", &self.remaining)
            .finish_non_exhaustive()
    }
}

impl IntoIterator for Batch {
    type Item = Entry;
    type IntoIter = BatchIntoIter;

    fn into_iter(self) -> BatchIntoIter {
        let remaining = self.len();
        self.left.set(remaining);
        BatchIntoIter {
            chunks: self.chunks.into_iter(),
            current: None,
            views: Vec::new(),
            taken: 0,
            remaining,
            left: self.left,
        }
    }
}
