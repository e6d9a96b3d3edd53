//! Where a record probably is between two places of the index, so that fetching one record reads little more than that record.
//!
//! Record batches are mostly of about one size: the share of the offsets that lie before a record is about the share of the
//! bytes. A guess is no more than that. What is read there counts only if it begins with a batch that holds the offset and
//! passes every check; where it does not, the whole stretch between the two places is read as if there had been no guess.

use std::sync::atomic::{AtomicI8, Ordering};

use crate::format::batch::HEADER_LEN;
use crate::format::index::OffsetEntry;

/// A part of a segment that probably holds a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guess {
    pub(crate) position: u64,
    pub(crate) bytes: usize,
}

impl Guess {
    /// Where the batch with this offset is if those between the two places are nearly alike. `None` where that is not so, or
    /// would save too little.
    pub(crate) fn between(floor: OffsetEntry, next: OffsetEntry, delta: u32) -> Option<Guess> {
        let records = u64::from(next.delta.checked_sub(floor.delta)?);
        let bytes = u64::from(next.position.checked_sub(floor.position)?);
        let size = bytes.checked_div(records)?;
        if records < 2 || size <= HEADER_LEN as u64 {
            return None; // several records share a batch
        }
        let before = u64::from(delta.checked_sub(floor.delta)?) * bytes / records;
        // Bytes that divide evenly are most likely batches of one size. Otherwise: the way that a sum of sizes strays from a
        // straight line, if one size strays by half.
        let slack = if bytes % records == 0 {
            0
        } else {
            size * records.isqrt() / 2
        };
        let from = before.saturating_sub(slack);
        let to = (before + size + slack).min(bytes);
        (to - from <= bytes / 2).then_some(Guess {
            position: u64::from(floor.position) + from,
            bytes: (to - from) as usize,
        })
    }
}

/// Whether guesses pay in a segment: a wrong one costs a read more.
#[derive(Debug)]
pub(crate) struct Luck(AtomicI8);

impl Default for Luck {
    fn default() -> Luck {
        Luck(AtomicI8::new(4))
    }
}

impl Luck {
    const MOST: i8 = 16;

    pub(crate) fn holds(&self) -> bool {
        // Relaxed, here and below: nothing depends on it but speed, and a lost update is no loss.
        self.0.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn note(&self, right: bool) {
        let luck = self.0.load(Ordering::Relaxed);
        let changed = if right { luck + 1 } else { luck - 2 };
        if (0..=Self::MOST).contains(&changed) || !right {
            self.0.store(changed.max(0), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(delta: u32, position: u32) -> OffsetEntry {
        OffsetEntry { delta, position }
    }

    #[test]
    fn batches_of_one_size_are_found_to_the_byte() {
        let (floor, next) = (place(100, 5000), place(130, 5000 + 30 * 138));
        for n in 0..30 {
            let guess = Guess::between(floor, next, 100 + n).unwrap();
            assert_eq!(guess.position, 5000 + u64::from(n) * 138);
            assert_eq!(guess.bytes, 138);
        }
    }

    #[test]
    fn batches_of_several_sizes_leave_room_on_both_sides_and_stay_within_the_stretch() {
        let (floor, next) = (place(0, 1000), place(100, 1000 + 10_001));
        for delta in 0..100 {
            let guess = Guess::between(floor, next, delta).unwrap();
            let around = 1000 + u64::from(delta) * 100;
            assert!(guess.position <= around.max(1000), "{delta}");
            let end = guess.position + guess.bytes as u64;
            assert!((around + 100..=11_001).contains(&end), "{delta}");
        }
    }

    #[test]
    fn nothing_is_guessed_where_it_would_not_pay() {
        let shared = place(500, 6000);
        assert_eq!(Guess::between(place(0, 1000), shared, 7), None);
        assert_eq!(Guess::between(place(0, 1000), place(1, 5000), 0), None);
        assert_eq!(Guess::between(place(0, 1000), place(3, 6002), 1), None);
        assert_eq!(Guess::between(place(9, 1000), place(9, 1000), 9), None);
        assert_eq!(Guess::between(place(9, 1000), place(3, 10), 9), None);
    }

    #[test]
    fn luck_runs_out_after_a_few_wrong_guesses_and_is_kept_by_right_ones() {
        let luck = Luck::default();
        luck.note(false);
        assert!(luck.holds());
        luck.note(false);
        assert!(!luck.holds());
        let luck = Luck::default();
        (0..1000).for_each(|_| luck.note(true));
        (0..8).for_each(|_| luck.note(false));
        assert!(!luck.holds());
    }
}
