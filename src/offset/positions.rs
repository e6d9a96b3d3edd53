//! How far a reader has come, over many partitions.

use super::{Offset, Position, TopicPartition};
use crate::entry::EntryRef;

/// For each partition the **next** offset to read. What `commit_at` takes and a foreign database stores.
///
/// ```
/// use thalweg::{Offset, Positions, TopicPartition};
///
/// let orders = TopicPartition::new("orders", 3);
/// let mut next = Positions::new();
/// next.set(orders.at(Offset::new(17)));
///
/// assert_eq!(next.next(&orders), Some(Offset::new(17)));
/// assert!(next.covers(&orders.at(Offset::new(16))));  // done
/// assert!(!next.covers(&orders.at(Offset::new(17)))); // to be read next
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Positions {
    /// Sorted by partition, at most one of each.
    next: Vec<Position>,
}

impl Positions {
    /// Of no partition at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the next offset of a partition as given, backwards too.
    pub fn set(&mut self, next: Position) {
        match self.find(next.topic_partition()) {
            Ok(i) => self.next[i] = next,
            Err(i) => self.next.insert(i, next),
        }
    }

    /// This record is done: sets its partition to the offset after it, unless that would go back.
    pub fn done<'e>(&mut self, entry: impl Into<EntryRef<'e>>) {
        let entry = entry.into();
        let after = entry.offset().next();
        match self.find(entry.topic_partition()) {
            Ok(i) => self.next[i].offset = self.next[i].offset.max(after),
            Err(i) => self.next.insert(i, entry.topic_partition().at(after)),
        }
    }

    /// The next offset of a partition; `None` if nothing was set for it.
    pub fn next(&self, at: &TopicPartition) -> Option<Offset> {
        self.find(at).ok().map(|i| self.next[i].offset())
    }

    /// Is this record below the next offset of its partition? (Read your own writes: append, then wait until the reader's
    /// positions cover what `append` returned.)
    pub fn covers(&self, record: &Position) -> bool {
        self.next(record.topic_partition())
            .is_some_and(|next| record.offset() < next)
    }

    /// All of them, by topic and then by partition.
    pub fn iter(&self) -> impl Iterator<Item = &Position> + '_ {
        self.next.iter()
    }

    /// Is nothing set for any partition?
    pub fn is_empty(&self) -> bool {
        self.next.is_empty()
    }

    /// Where a partition is, or where it belongs.
    fn find(&self, at: &TopicPartition) -> Result<usize, usize> {
        self.next.binary_search_by(|p| p.topic_partition().cmp(at))
    }
}

impl<'p> IntoIterator for &'p Positions {
    type Item = &'p Position;
    type IntoIter = std::slice::Iter<'p, Position>;

    fn into_iter(self) -> Self::IntoIter {
        self.next.iter()
    }
}

/// Of several positions in one partition the last one holds.
impl FromIterator<Position> for Positions {
    fn from_iter<I: IntoIterator<Item = Position>>(all: I) -> Self {
        let mut positions = Positions::new();
        for next in all {
            positions.set(next);
        }
        positions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::tests::entry_at;

    fn at(topic: &str, partition: u32, offset: u64) -> Position {
        TopicPartition::new(topic, partition).at(Offset::new(offset))
    }

    #[test]
    fn positions_are_sorted_and_hold_one_per_partition() {
        let all: Positions = [at("b", 0, 1), at("a", 10, 1), at("a", 2, 5), at("a", 10, 7)]
            .into_iter()
            .collect();
        let shown: Vec<_> = (&all).into_iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["a-2@5", "a-10@7", "b-0@1"]);
    }

    #[test]
    fn set_goes_back_where_done_does_not() {
        let mut next = Positions::new();
        next.done(&entry_at("orders", 1, 9));
        next.done(&entry_at("orders", 1, 4));
        assert_eq!(
            next.next(&TopicPartition::new("orders", 1)),
            Some(Offset::new(10))
        );
        next.set(at("orders", 1, 3));
        assert_eq!(
            next.next(&TopicPartition::new("orders", 1)),
            Some(Offset::new(3))
        );
    }

    #[test]
    fn a_record_is_covered_below_the_next_offset_of_its_own_partition() {
        let mut next = Positions::new();
        assert!(next.is_empty());
        next.done(&entry_at("orders", 1, 9));
        assert!(next.covers(&at("orders", 1, 9)));
        assert!(!next.covers(&at("orders", 1, 10)));
        assert!(!next.covers(&at("orders", 2, 0)));
        assert_eq!(next.next(&TopicPartition::new("orders", 2)), None);
    }
}
