//! The newest large record batches of a partition, in the very memory in which the writer made them: a reader at the tail shares
//! that memory, and nothing is copied.
//!
//! The writer gives the buffer of its encoder away and gets that of an earlier batch for it, so neither side asks for memory. A
//! buffer that a reader still holds stays as it is. Neither side waits for the other: who does not get the lock at once goes by way of
//! the ring, which has the same bytes.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::tail::TailBudget;

/// So many batches: a reader holds one while the next is made.
const KEPT: usize = 2;

/// Fewer bytes are as soon copied.
const LARGE: usize = 4 << 10;

#[derive(Default)]
pub(super) struct Latest {
    batches: Mutex<[Made; KEPT]>,
}

/// One batch, with its header.
#[derive(Default)]
struct Made {
    buffer: Arc<Vec<u8>>,
    /// Where it stands in the buffer; empty if there is none.
    range: Range<usize>,
    /// Stream position of its first byte.
    at: u64,
}

impl Latest {
    /// Keeps the batch that was just written at stream position `at`, and stands from `start` to the end of the buffer: if it is
    /// large, the buffer takes `most` bytes at most, and there is another one to give for it.
    pub(super) fn keep(
        &self,
        at: u64,
        (buffer, start): (&mut Vec<u8>, usize),
        most: usize,
        budget: &TailBudget,
    ) {
        let range = start..buffer.len();
        if range.len() < LARGE || buffer.capacity() > most {
            return;
        }
        let Some(mut batches) = self.batches.try_lock() else {
            return;
        };
        batches.sort_unstable_by_key(|made| made.at); // the oldest goes first
        for made in batches.iter_mut() {
            let Some(old) = Arc::get_mut(&mut made.buffer) else {
                continue; // a reader holds it
            };
            if budget.exchange(old.capacity(), buffer.capacity()) {
                std::mem::swap(old, buffer);
                (made.range, made.at) = (range, at);
            }
            return;
        }
    }

    /// The batch that begins at a stream position: the buffer that it stands in, and where.
    pub(super) fn batch(&self, at: u64) -> Option<(Arc<Vec<u8>>, Range<usize>)> {
        let batches = self.batches.try_lock()?;
        let is_it = |made: &&Made| made.at == at && !made.range.is_empty();
        let made = batches.iter().find(is_it)?;
        Some((Arc::clone(&made.buffer), made.range.clone()))
    }

    /// Other bytes may come to the same stream positions. (Here alone the writer waits: seldom, and not for long.)
    #[cold]
    pub(super) fn forget(&self) {
        for made in &mut *self.batches.lock() {
            (made.range, made.at) = (0..0, 0);
        }
    }

    /// Bytes of memory that it keeps.
    pub(super) fn capacity(&mut self) -> usize {
        let batches = self.batches.get_mut().iter();
        batches.map(|made| made.buffer.capacity()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 1 << 20;

    /// A batch of these bytes behind ten others.
    fn keep(latest: &Latest, at: u64, value: u8, len: usize, most: usize, budget: &TailBudget) {
        let mut buffer = vec![0; 10];
        buffer.resize(10 + len, value);
        latest.keep(at, (&mut buffer, 10), most, budget);
    }

    fn found(latest: &Latest, at: u64) -> Option<Vec<u8>> {
        let (buffer, range) = latest.batch(at)?;
        Some(buffer[range].to_vec())
    }

    #[test]
    fn the_newest_batches_are_found_where_they_begin_and_nowhere_else() {
        let (latest, budget) = (Latest::default(), TailBudget::new(1 << 20));
        for n in 0..3 {
            keep(&latest, u64::from(n) * 6000, n, 6000, MOST, &budget);
        }
        assert_eq!(found(&latest, 0), None);
        assert_eq!(found(&latest, 6000), Some(vec![1; 6000]));
        assert_eq!(found(&latest, 12_000), Some(vec![2; 6000]));
        assert_eq!(found(&latest, 12_001), None);
        latest.forget();
        assert_eq!(found(&latest, 12_000), None);
    }

    #[test]
    fn a_batch_that_a_reader_holds_stays_as_it_is() {
        let (latest, budget) = (Latest::default(), TailBudget::new(1 << 20));
        keep(&latest, 0, 1, 6000, MOST, &budget);
        let (first, range) = latest.batch(0).unwrap();
        keep(&latest, 6000, 2, 6000, MOST, &budget);
        let second = latest.batch(6000).unwrap();
        keep(&latest, 12_000, 3, 6000, MOST, &budget);
        assert_eq!(found(&latest, 12_000), None);
        drop(second);
        keep(&latest, 18_000, 4, 6000, MOST, &budget);
        assert_eq!(found(&latest, 18_000), Some(vec![4; 6000]));
        assert_eq!(found(&latest, 6000), None);
        assert_eq!(first[range], [1; 6000]);
    }

    #[test]
    fn small_batches_large_buffers_and_what_the_budget_has_no_room_for_are_not_kept() {
        let (latest, budget) = (Latest::default(), TailBudget::new(8 << 10));
        keep(&latest, 0, 1, 1000, MOST, &budget);
        keep(&latest, 0, 1, 6000, 6000, &budget);
        keep(&latest, 0, 1, 9000, MOST, &budget);
        assert_eq!(found(&latest, 0), None);
        keep(&latest, 0, 1, 6000, MOST, &budget);
        assert_eq!(found(&latest, 0), Some(vec![1; 6000]));
    }
}
