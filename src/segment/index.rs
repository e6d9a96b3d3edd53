//! Where offsets and times are in a segment: one entry every few KiB, in memory, and a cache on disk.
//!
//! Deleting it changes nothing but speed. No entry is trusted: whoever follows one checks the batch that it finds there.

use crate::format::index as format;
use crate::format::index::{OffsetEntry, TimeEntry};

/// One place in a segment where a record batch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// First offset of the batch, less the segment's base.
    pub(crate) delta: u32,
    pub(crate) position: u32,
    /// Append time of the batch, and the greatest record time of it and all before it in this segment.
    pub(crate) append_ms: i64,
    pub(crate) max_time: i64,
}

/// Entries in ascending order of offset and position. Offsets stand by themselves, so that looking for one touches little memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    offsets: Vec<OffsetEntry>,
    /// For each of them.
    times: Vec<Times>,
}

/// As in [`Place`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    append_ms: i64,
    max_time: i64,
}

impl Index {
    /// Adds a place behind all others; one that is not behind them is ignored.
    pub(crate) fn push(&mut self, place: Place) {
        let behind =
            |last: &OffsetEntry| place.delta > last.delta && place.position > last.position;
        if self.offsets.last().is_none_or(behind) {
            self.offsets.push(OffsetEntry {
                delta: place.delta,
                position: place.position,
            });
            self.times.push(Times {
                append_ms: place.append_ms,
                max_time: place.max_time,
            });
        }
    }

    /// The last batch known to begin at or before `delta`, and the next known one.
    pub(crate) fn around(&self, delta: u32) -> (Option<OffsetEntry>, Option<OffsetEntry>) {
        let after = self.at_or_before(delta);
        let entry = |at: usize| self.offsets.get(at).copied();
        (after.checked_sub(1).and_then(entry), entry(after))
    }

    /// The last place at or before `delta`.
    pub(crate) fn floor(&self, delta: u32) -> Option<OffsetEntry> {
        self.around(delta).0
    }

    /// How many places begin at or before `delta`.
    ///
    /// Batches are mostly of one size, so a guess from both ends comes near; from there the steps double until the place is
    /// between two of them. Halving the whole list instead would touch twenty distant lines of memory.
    fn at_or_before(&self, delta: u32) -> usize {
        let (Some(first), Some(last)) = (self.offsets.first(), self.offsets.last()) else {
            return 0;
        };
        if delta < first.delta {
            return 0;
        }
        if delta >= last.delta {
            return self.offsets.len();
        }
        // The first place begins at or before `delta`, the last one does not; so do `low` and `high` from here on.
        let (mut low, mut high) = (0, self.offsets.len() - 1);
        let share = u64::from(delta - first.delta) * high as u64;
        let guess = (share / u64::from(last.delta - first.delta)) as usize;
        let mut step = 1;
        if self.offsets[guess].delta <= delta {
            low = guess;
            while low + step < high && self.offsets[low + step].delta <= delta {
                low += step;
                step *= 2;
            }
            high = high.min(low + step);
        } else {
            high = guess;
            while low + step < high && self.offsets[high - step].delta > delta {
                high -= step;
                step *= 2;
            }
            low = low.max(high.saturating_sub(step));
        }
        let between = &self.offsets[low + 1..high];
        low + 1 + between.partition_point(|place| place.delta <= delta)
    }

    /// The last place before which no record is known to have a timestamp of `time` or later.
    pub(crate) fn before_time(&self, time: i64) -> Option<OffsetEntry> {
        let reached = self.times.partition_point(|times| times.max_time < time);
        self.offsets.get(reached.saturating_sub(1)).copied()
    }

    /// The first place at or behind `position`.
    pub(crate) fn first_from(&self, position: u64) -> Option<OffsetEntry> {
        let before = |entry: &OffsetEntry| u64::from(entry.position) < position;
        let at = self.offsets.partition_point(before);
        self.offsets.get(at).copied()
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = Place> {
        let both = self.offsets.iter().zip(&self.times);
        both.map(|(offset, times)| Place {
            delta: offset.delta,
            position: offset.position,
            append_ms: times.append_ms,
            max_time: times.max_time,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// As an index file that speaks of the first `covers` bytes of the segment.
    pub(crate) fn to_file(&self, covers: u64) -> format::Index {
        let time = |p: Place| TimeEntry {
            append_ms: p.append_ms,
            max_time: p.max_time,
            delta: p.delta,
        };
        format::Index {
            covers,
            offsets: self.offsets.clone(),
            times: self.places().map(time).collect(),
        }
    }

    /// From an index file; `None` if its blocks do not fit together or do not ascend, or point past its end.
    pub(crate) fn from_file(file: &format::Index) -> Option<Index> {
        if file.offsets.len() != file.times.len() {
            return None;
        }
        let mut index = Index::default();
        for (offset, time) in file.offsets.iter().zip(&file.times) {
            let place = Place {
                delta: offset.delta,
                position: offset.position,
                append_ms: time.append_ms,
                max_time: time.max_time,
            };
            if offset.delta != time.delta || u64::from(place.position) >= file.covers {
                return None;
            }
            let known = index.offsets.len();
            index.push(place);
            if index.offsets.len() == known {
                return None;
            }
        }
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place(n: u32) -> Place {
        let time = i64::from(n) * 100;
        Place {
            delta: n * 10,
            position: 136 + n * 1000,
            append_ms: time,
            max_time: time,
        }
    }

    fn index() -> Index {
        let mut index = Index::default();
        (0..5).for_each(|n| index.push(place(n)));
        index
    }

    #[test]
    fn the_floor_is_the_last_place_at_or_before() {
        let index = index();
        let entry = |n| {
            index
                .places()
                .nth(n)
                .map(|place| (place.delta, place.position))
        };
        let around = |delta| {
            let (floor, next) = index.around(delta);
            [floor, next].map(|entry| entry.map(|entry| (entry.delta, entry.position)))
        };
        assert_eq!(around(0), [entry(0), entry(1)]);
        assert_eq!(around(9), [entry(0), entry(1)]);
        assert_eq!(around(10), [entry(1), entry(2)]);
        assert_eq!(around(99), [entry(4), None]);
        assert_eq!(Index::default().around(3), (None, None));
    }

    proptest! {
        #[test]
        fn the_way_to_a_place_is_the_same_however_the_places_are_spread(
            gaps in prop::collection::vec(prop_oneof![Just(1_u32), 1_u32..5, 1_000_u32..90_000_000], 0..40),
            first in 0_u32..3,
            wanted: u32,
        ) {
            let mut index = Index::default();
            let mut delta = first;
            for (n, gap) in gaps.iter().enumerate() {
                index.push(Place { delta, ..place(n as u32) });
                delta = delta.saturating_add(*gap);
            }
            let near = index.places().flat_map(|place| [place.delta, place.delta + 1, place.delta.saturating_sub(1)]);
            for delta in near.chain([wanted, 0, u32::MAX]) {
                let expected = index.places().filter(|place| place.delta <= delta).count();
                prop_assert_eq!(index.at_or_before(delta), expected);
            }
        }
    }

    #[test]
    fn a_time_begins_at_the_last_place_that_is_older() {
        let index = index();
        assert_eq!(index.before_time(-1).unwrap().delta, 0);
        assert_eq!(index.before_time(100).unwrap().delta, 0);
        assert_eq!(index.before_time(101).unwrap().delta, 10);
        assert_eq!(index.before_time(i64::MAX).unwrap().delta, 40);
    }

    #[test]
    fn a_place_that_does_not_ascend_is_ignored_and_refused_from_disk() {
        let mut index = index();
        let before = index.clone();
        index.push(Place {
            position: 9000,
            ..place(4)
        });
        assert_eq!(index, before);
        let mut file = index.to_file(10_000);
        assert_eq!(Index::from_file(&file), Some(before));
        file.covers = 4000;
        assert_eq!(Index::from_file(&file), None);
        file.covers = 10_000;
        file.offsets.swap(0, 1);
        assert_eq!(Index::from_file(&file), None);
    }
}
