//! The newest bytes of a partition, kept in memory while somebody reads at the tail, so that this takes no system call.
//!
//! ```text
//!            floor                     head
//!   ──────────┼─────────────────────────┼──────▶ stream position
//!   overwritten│  held: one ring of words│ not written yet
//! ```
//!
//! One writer (under the partition's writer lock) and any number of readers, without a lock between them: the ring is made of
//! atomic words, and `floor` works as a sequence lock. The writer raises `floor` *before* it overwrites, a reader looks at
//! `floor` *after* it copied; a copy that the writer may have touched is thrown away and read from the file instead. Positions
//! count the bytes of the partition over all its segments (a *stream position*), so that the ring goes on over a roll.
//!
//! But for those that it begins with, its bytes were never on a disk: the writer encoded them, summed them and put them here. The
//! newest large batches are kept whole beside it, see [`Latest`].

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use super::latest::Latest;
use crate::format::encoder::Encoder;

const WORD: u64 = 8;

/// So many times over a ring is filled without being read.
const UNREAD_LAPS: u64 = 16;

/// A ring over the last bytes written to one partition.
pub(crate) struct Tail {
    words: Box<[AtomicU64]>,
    floor: AtomicU64,
    head: AtomicU64,
    /// From here on, the writer has encoded what it put in; before that, it was read from the file.
    own: u64,
    /// Where the head was when bytes were last taken, about.
    read_at: AtomicU64,
    latest: Latest,
    budget: Arc<TailBudget>,
}

/// How much memory the rings of one log may take together.
pub(crate) struct TailBudget {
    limit: usize,
    used: AtomicUsize,
}

impl TailBudget {
    pub(crate) fn new(limit: usize) -> Arc<TailBudget> {
        Arc::new(TailBudget {
            limit,
            used: AtomicUsize::new(0),
        })
    }

    fn take(&self, bytes: usize) -> bool {
        // Relaxed: only the sum matters, nothing is published with it.
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|&sum| sum <= self.limit)
            })
            .is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Takes `new` bytes for `old` ones; `false`, and nothing is done, if there are not so many.
    pub(super) fn exchange(&self, old: usize, new: usize) -> bool {
        let fits = self.take(new.saturating_sub(old));
        if fits {
            self.give_back(old.saturating_sub(new));
        }
        fits
    }
}

impl Tail {
    /// A ring of `bytes` (a power of two) that begins at stream position `start`, and from `own` on holds what its writer has
    /// encoded itself; `None` if the log's budget is used up.
    pub(crate) fn new(
        budget: &Arc<TailBudget>,
        bytes: usize,
        start: u64,
        own: u64,
    ) -> Option<Tail> {
        assert!(
            bytes.is_power_of_two() && bytes >= 64,
            "a ring is a power of two"
        );
        if !budget.take(bytes) {
            return None;
        }
        let words = (0..bytes / 8).map(|_| AtomicU64::new(0)).collect();
        Some(Tail {
            words,
            floor: AtomicU64::new(start),
            head: AtomicU64::new(start),
            own,
            read_at: AtomicU64::new(start),
            latest: Latest::default(),
            budget: Arc::clone(budget),
        })
    }

    fn capacity(&self) -> u64 {
        self.words.len() as u64 * WORD
    }

    /// Did somebody take bytes lately? If not, the ring is not worth being filled.
    pub(crate) fn is_read(&self) -> bool {
        let head = self.head.load(Ordering::Relaxed);
        let unread = head.saturating_sub(self.read_at.load(Ordering::Relaxed));
        unread < UNREAD_LAPS * self.capacity()
    }

    /// Adds the batch that was just placed and written at stream position `at`. The encoder may lose its buffer with it, and get
    /// another one. Called by the one writer only.
    pub(crate) fn add(&self, at: u64, written: &mut Encoder) {
        let (buffer, start) = written.placed_in();
        self.push(at, buffer.get(start..).unwrap_or_default());
        let most = self.capacity() as usize;
        self.latest.keep(at, (buffer, start), most, &self.budget);
    }

    /// Adds `bytes`, which begin at stream position `at`. Called by the one writer only.
    ///
    /// Bytes that do not follow the head (the writer skipped some) restart the ring at `at`.
    pub(crate) fn push(&self, at: u64, bytes: &[u8]) {
        let end = at + bytes.len() as u64;
        // Words are shared between neighbours, so the word that holds `end` counts as overwritten too.
        let overwritten = (end + WORD).saturating_sub(self.capacity());
        let floor = if self.head.load(Ordering::Relaxed) == at {
            overwritten
        } else {
            self.latest.forget();
            overwritten.max(at)
        };
        if floor > self.floor.load(Ordering::Relaxed) {
            self.floor.store(floor, Ordering::Relaxed);
        }
        fence(Ordering::Release); // pairs with the Acquire fence in `copy`: who sees a new word sees the new floor
        let skipped = bytes.len().saturating_sub(self.words.len() * 8 - 16);
        self.store(at + skipped as u64, &bytes[skipped..]);
        if skipped > 0 {
            self.floor.fetch_max(at + skipped as u64, Ordering::Relaxed);
        }
        self.head.store(end, Ordering::Release); // pairs with the Acquire load in `copy`
    }

    fn store(&self, mut at: u64, mut bytes: &[u8]) {
        let lead = (at % WORD) as usize;
        if lead != 0 {
            self.lead_in(at, lead, bytes);
            let n = bytes.len().min(8 - lead);
            at += n as u64;
            bytes = &bytes[n..];
        }
        let (whole, rest) = bytes.as_chunks::<8>();
        let mut left = whole;
        while !left.is_empty() {
            let words = self.words_from(at);
            let (now, later) = left.split_at(left.len().min(words.len()));
            for (word, chunk) in words.iter().zip(now) {
                word.store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
            }
            at += now.len() as u64 * WORD;
            left = later;
        }
        if !rest.is_empty() {
            // What stands behind them in that word is not held, see `push`.
            let word = match bytes.last_chunk() {
                Some(last) => u64::from_le_bytes(*last) >> (64 - 8 * rest.len()),
                None => word_of(rest),
            };
            self.word(at).store(word, Ordering::Relaxed);
        }
    }

    /// Puts the first bytes behind those that stand in the word already.
    fn lead_in(&self, at: u64, lead: usize, bytes: &[u8]) {
        let new = bytes.first_chunk().map_or_else(
            || word_of(bytes), // fewer than eight
            |first| u64::from_le_bytes(*first),
        );
        let word = self.word(at);
        let shift = 8 * lead;
        let old = word.load(Ordering::Relaxed) & ((1 << shift) - 1);
        word.store(old | new << shift, Ordering::Relaxed);
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        &self.words[self.place(at)]
    }

    /// The words from a stream position on, to the end of the ring: where it goes on, it goes on at the front.
    fn words_from(&self, at: u64) -> &[AtomicU64] {
        &self.words[self.place(at)..]
    }

    fn place(&self, at: u64) -> usize {
        (at / WORD) as usize & (self.words.len() - 1)
    }

    /// Are the bytes from stream position `at` on as the writer encoded them in this process? No medium can have changed them.
    pub(crate) fn is_own(&self, at: u64) -> bool {
        at >= self.own
    }

    /// How many bytes from stream position `at` on are held, 0 if that place is not.
    fn held_from(&self, at: u64) -> u64 {
        let head = self.head.load(Ordering::Acquire);
        if at < self.floor.load(Ordering::Relaxed) {
            0
        } else {
            head.saturating_sub(at)
        }
    }

    /// The batch that begins at stream position `at`, whole and in the memory where it was made; the newest large ones alone.
    pub(crate) fn whole(&self, at: u64) -> Option<(Arc<Vec<u8>>, Range<usize>)> {
        let whole = self.latest.batch(at)?;
        self.note_read(self.head.load(Ordering::Relaxed));
        Some(whole)
    }

    fn note_read(&self, head: u64) {
        if head.saturating_sub(self.read_at.load(Ordering::Relaxed)) > self.capacity() {
            self.read_at.store(head, Ordering::Relaxed); // seldom, so that readers do not fight for it
        }
    }

    /// Copies what is held from stream position `at` on, `most` bytes at most; otherwise as [`copy`](Self::copy).
    pub(crate) fn copy_held(&self, at: u64, most: usize, into: &mut Vec<u8>) -> Option<usize> {
        let held = usize::try_from(self.held_from(at)).unwrap_or(usize::MAX);
        match most.min(held) {
            0 => None,
            len => self.copy(at, len, into),
        }
    }

    /// Copies `len` bytes at stream position `at`, and gives where in `into` they begin: whole words are copied, and stores that
    /// straddle words are slow. `None` if they are not, or no longer, all held (what was copied is void).
    fn copy(&self, at: u64, len: usize, into: &mut Vec<u8>) -> Option<usize> {
        let end = at + len as u64;
        let head = self.head.load(Ordering::Acquire);
        if end > head || at < self.floor.load(Ordering::Relaxed) {
            return None;
        }
        self.note_read(head);
        let before = (at % WORD) as usize;
        into.resize((before + len).next_multiple_of(8), 0);
        self.load(at, into.as_chunks_mut().0);
        into.truncate(before + len);
        fence(Ordering::Acquire); // pairs with the Release fence in `push`
        (at >= self.floor.load(Ordering::Relaxed)).then_some(before)
    }

    /// Copies words from the one on that holds a stream position.
    fn load(&self, mut at: u64, mut into: &mut [[u8; 8]]) {
        while !into.is_empty() {
            let words = self.words_from(at);
            let (now, later) = into.split_at_mut(into.len().min(words.len()));
            copy_words(words, now);
            at += now.len() as u64 * WORD;
            into = later;
        }
    }
}

/// Copies as many words as `into` has room for. Eight at a time: the compiler joins no atomic loads, and alone the steps of the
/// loop take as long as the words.
fn copy_words(words: &[AtomicU64], into: &mut [[u8; 8]]) {
    let (eights, words) = words.split_at(into.len() / 8 * 8);
    let (into_eights, into) = into.as_chunks_mut::<8>();
    let (eights, _) = eights.as_chunks::<8>();
    let load = |word: &AtomicU64| word.load(Ordering::Relaxed).to_le_bytes();
    for ([a, b, c, d, e, f, g, h], into) in eights.iter().zip(into_eights) {
        *into = [
            load(a),
            load(b),
            load(c),
            load(d),
            load(e),
            load(f),
            load(g),
            load(h),
        ];
    }
    for (word, into) in words.iter().zip(into) {
        *into = load(word);
    }
}

/// Fewer than eight bytes as the low end of a word.
fn word_of(bytes: &[u8]) -> u64 {
    let number = |word, &byte| word << 8 | u64::from(byte);
    bytes.iter().rev().fold(0, number)
}

impl Drop for Tail {
    fn drop(&mut self) {
        let bytes = self.words.len() * 8 + self.latest.capacity();
        self.budget.give_back(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(bytes: usize, start: u64) -> Tail {
        Tail::new(&TailBudget::new(1 << 20), bytes, start, start).unwrap()
    }

    /// The bytes at a stream position, if they are held.
    fn copied(tail: &Tail, at: u64, len: usize) -> Option<Vec<u8>> {
        let mut into = Vec::new();
        let start = tail.copy(at, len, &mut into)?;
        Some(into.split_off(start))
    }

    #[test]
    fn what_was_pushed_comes_back_at_every_alignment() {
        for start in 0..9 {
            let tail = tail(256, start);
            let bytes: Vec<u8> = (0..100u8).collect();
            let mut at = start;
            for piece in [&bytes[..1], &bytes[1..13], &bytes[13..64], &bytes[64..]] {
                tail.push(at, piece);
                at += piece.len() as u64;
            }
            for from in 0..100 {
                let got = copied(&tail, start + from as u64, 100 - from);
                assert_eq!(got.as_deref(), Some(&bytes[from..]));
            }
        }
    }

    #[test]
    fn overwritten_and_unwritten_places_are_not_held() {
        let tail = tail(64, 0);
        let mut at = 0;
        for n in 0..20u8 {
            tail.push(at, &[n; 10]);
            at += 10;
        }
        assert_eq!(copied(&tail, 190, 10), Some(vec![19; 10]));
        assert_eq!(copied(&tail, 100, 10), None);
        assert_eq!(copied(&tail, 195, 10), None);
        assert_eq!(tail.held_from(0), 0);
        assert_eq!(tail.held_from(190), 10);
    }

    #[test]
    fn a_piece_larger_than_the_ring_leaves_its_end() {
        let tail = tail(64, 0);
        let bytes: Vec<u8> = (0..200u8).collect();
        tail.push(0, &bytes);
        assert_eq!(copied(&tail, 192, 8).as_deref(), Some(&bytes[192..]));
        assert_eq!(copied(&tail, 0, 8), None);
    }

    #[test]
    fn a_piece_that_does_not_follow_restarts_the_ring() {
        let tail = tail(64, 0);
        tail.push(0, &[1; 8]);
        tail.push(16, &[2; 8]);
        assert_eq!(copied(&tail, 0, 8), None);
        assert_eq!(copied(&tail, 8, 8), None);
        assert_eq!(copied(&tail, 16, 8), Some(vec![2; 8]));
    }

    #[test]
    fn what_the_ring_began_with_is_not_its_writers_own() {
        let tail = Tail::new(&TailBudget::new(64), 64, 10, 30).unwrap();
        assert!(!tail.is_own(10) && !tail.is_own(29));
        assert!(tail.is_own(30) && tail.is_own(31));
    }

    #[test]
    fn rings_share_one_budget_and_give_it_back() {
        let budget = TailBudget::new(128);
        let first = Tail::new(&budget, 128, 0, 0);
        assert!(first.is_some());
        assert!(Tail::new(&budget, 64, 0, 0).is_none());
        drop(first);
        assert!(Tail::new(&budget, 64, 0, 0).is_some());
    }

    #[test]
    fn readers_beside_a_writer_never_see_torn_bytes() {
        let tail = tail(1024, 0);
        let pattern = |at: u64| (at.wrapping_mul(0x9E37_79B9) >> 8) as u8;
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut got = Vec::new();
                    let mut last = 0;
                    while last < 60_000 {
                        let head = tail.head.load(Ordering::Acquire);
                        let at = head.saturating_sub(300);
                        if head >= 40
                            && let Some(start) = tail.copy(at, 40, &mut got)
                        {
                            for (i, byte) in got[start..].iter().enumerate() {
                                assert_eq!(*byte, pattern(at + i as u64));
                            }
                        }
                        last = head;
                    }
                });
            }
            let mut at = 0;
            while at < 70_000 {
                let piece: Vec<u8> = (at..at + 1 + at % 90).map(pattern).collect();
                tail.push(at, &piece);
                at += piece.len() as u64;
            }
        });
    }
}
