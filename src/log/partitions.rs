//! The partitions of a topic: a list that only grows, and is looked at without a lock.
//!
//! Those that were there when the topic was opened stand in one piece. What is added later goes into blocks of 1, 2, 4, … places:
//! nothing is ever moved, so who looks needs no lock. The count is moved last, and what it does not cover is not there yet.

use std::iter;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::settings::MAX_PARTITIONS;
use crate::offset::PartitionId;
use crate::partition::Partition;

/// Blocks that hold as many partitions as a topic may have.
const BLOCKS: usize = (MAX_PARTITIONS.ilog2() + 1) as usize;

/// The partitions of one topic, from 0. One handle each, whether it was ever written or not: an unused partition has no file.
pub(super) struct Partitions {
    count: AtomicU32,
    first: Box<[Partition]>,
    /// The block `n` has 2ⁿ places.
    more: [OnceLock<Box<[OnceLock<Partition>]>>; BLOCKS],
}

impl Partitions {
    pub(super) fn new(first: Vec<Partition>) -> Partitions {
        Partitions {
            count: AtomicU32::new(first.len() as u32),
            first: first.into(),
            more: [const { OnceLock::new() }; BLOCKS],
        }
    }

    /// How many there are now; never fewer later.
    pub(super) fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire) // pairs with `add`: those it counts are in their places
    }

    pub(super) fn get(&self, id: PartitionId) -> Option<&Partition> {
        let index = id.get() as usize;
        match self.first.get(index) {
            None if id.get() < self.count() => self.added(index),
            found => found,
        }
    }

    /// All that there are now.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Partition> {
        let count = self.count() as usize;
        let added = (self.first.len()..count).filter_map(|index| self.added(index));
        self.first.iter().chain(added)
    }

    /// Adds partitions behind the last one, for all to see at once. Called by one at a time.
    pub(super) fn add(&self, added: Vec<Partition>) {
        let count = self.count();
        let new_count = count + added.len() as u32;
        for (index, partition) in (count as usize..).zip(added) {
            let (block, place) = self.place(index);
            let places = self.more[block].get_or_init(|| empty(block));
            assert!(
                places[place].set(partition).is_ok(),
                "a partition is added by one at a time"
            );
        }
        self.count.store(new_count, Ordering::Release);
    }

    fn added(&self, index: usize) -> Option<&Partition> {
        let (block, place) = self.place(index);
        self.more.get(block)?.get()?.get(place)?.get()
    }

    /// Block, and place in it, of a partition that was added.
    fn place(&self, index: usize) -> (usize, usize) {
        let nth = index - self.first.len() + 1;
        let block = nth.ilog2();
        (block as usize, nth - (1 << block))
    }
}

fn empty(block: usize) -> Box<[OnceLock<Partition>]> {
    iter::repeat_with(OnceLock::new).take(1 << block).collect()
}
