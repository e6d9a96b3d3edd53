//! Where offsets and times are in a segment: one entry every few KiB, in memory, and a cache on disk.
//!
//! Deleting it changes nothing but speed. No entry is trusted: whoever follows one checks the batch that it finds there.

use crate::format::index::{OffsetEntry, TimeEntry};

/// One place in a segment where a record batch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// First offset of the batch, less the segment's base.
    pub(crate) delta: u32,
    pub(crate) position: u32,
    /// Greatest timestamp of the records before it in this segment; `i64::MIN` if there are none.
    pub(crate) max_before: i64,
}

/// Entries in ascending order of offset and position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    places: Vec<Place>,
}

impl Index {
    /// Adds a place behind all others; one that is not behind them is ignored.
    pub(crate) fn push(&mut self, place: Place) {
        let behind = |last: &Place| place.delta > last.delta && place.position > last.position;
        if self.places.last().is_none_or(behind) {
            self.places.push(place);
        }
    }

    /// Position of the last batch known to begin at or before `delta`, and of the next known one.
    pub(crate) fn around(&self, delta: u32) -> (Option<u32>, Option<u32>) {
        let after = self.places.partition_point(|place| place.delta <= delta);
        let floor = after.checked_sub(1).and_then(|at| self.places.get(at));
        (floor.map(|place| place.position), self.places.get(after).map(|place| place.position))
    }

    /// Position and delta of the last batch before which no record has a timestamp of `time` or later.
    pub(crate) fn before_time(&self, time: i64) -> Option<Place> {
        let after = self.places.partition_point(|place| place.max_before < time);
        after.checked_sub(1).and_then(|at| self.places.get(at)).copied()
    }

    /// The first place at or behind `position`.
    pub(crate) fn first_from(&self, position: u64) -> Option<Place> {
        let at = self.places.partition_point(|place| u64::from(place.position) < position);
        self.places.get(at).copied()
    }

    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }

    pub(crate) fn last(&self) -> Option<Place> {
        self.places.last().copied()
    }

    /// As the two blocks of an index file.
    pub(crate) fn to_entries(&self) -> (Vec<OffsetEntry>, Vec<TimeEntry>) {
        let offsets = self.places.iter().map(|p| OffsetEntry { delta: p.delta, position: p.position });
        let times = self.places.iter().map(|p| TimeEntry { max_before: p.max_before, delta: p.delta });
        (offsets.collect(), times.collect())
    }

    /// From the two blocks of an index file; `None` if they do not fit together or do not ascend, or point past `end`.
    pub(crate) fn from_entries(offsets: &[OffsetEntry], times: &[TimeEntry], end: u64) -> Option<Index> {
        if offsets.len() != times.len() {
            return None;
        }
        let mut index = Index::default();
        for (offset, time) in offsets.iter().zip(times) {
            let place = Place { delta: offset.delta, position: offset.position, max_before: time.max_before };
            if offset.delta != time.delta || u64::from(place.position) >= end {
                return None;
            }
            index.push(place);
            if index.last() != Some(place) {
                return None;
            }
        }
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> Index {
        let mut index = Index::default();
        for n in 0..5u32 {
            let max_before = if n == 0 { i64::MIN } else { i64::from(n) * 100 };
            index.push(Place { delta: n * 10, position: 136 + n * 1000, max_before });
        }
        index
    }

    #[test]
    fn the_floor_is_the_last_place_at_or_before() {
        let index = index();
        assert_eq!(index.around(0), (Some(136), Some(1136)));
        assert_eq!(index.around(9), (Some(136), Some(1136)));
        assert_eq!(index.around(10), (Some(1136), Some(2136)));
        assert_eq!(index.around(99), (Some(4136), None));
        assert_eq!(Index::default().around(3), (None, None));
    }

    #[test]
    fn a_time_begins_where_all_before_is_older() {
        let index = index();
        assert_eq!(index.before_time(50).unwrap().delta, 0);
        assert_eq!(index.before_time(100).unwrap().delta, 0);
        assert_eq!(index.before_time(101).unwrap().delta, 10);
        assert_eq!(index.before_time(i64::MAX).unwrap().delta, 40);
    }

    #[test]
    fn a_place_that_does_not_ascend_is_ignored_and_refused_from_disk() {
        let mut index = index();
        let before = index.clone();
        index.push(Place { delta: 40, position: 9000, max_before: 0 });
        assert_eq!(index, before);
        let (mut offsets, times) = index.to_entries();
        assert_eq!(Index::from_entries(&offsets, &times, 10_000), Some(before));
        assert_eq!(Index::from_entries(&offsets, &times, 4000), None);
        offsets.swap(0, 1);
        assert_eq!(Index::from_entries(&offsets, &times, 10_000), None);
    }
}
