//! The newest offset of each key, in a table that never takes more memory than it was given.
//!
//! Keys are known by 96 bits of their hash, so that a long one takes no more room than a short one: of a thousand million keys two share
//! theirs once in 10^11 logs. Records are taken in some at a
//! time: the places of all of them are asked for before the first is looked at, so that one wait for the memory does for many.

use std::hint::black_box;

use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Offsets by key while they are collected; then, sorted, the offsets alone.
pub(crate) struct Newest {
    seed: u64,
    /// Offsets are counted from here.
    from: u64,
    slots: Vec<Slot>,
    keys: usize,
    /// So many keys have room.
    room: usize,
    /// So many slots there may be.
    most: usize,
    /// Told, and not taken in yet.
    waiting: Vec<Slot>,
    /// Of the slots, which then ascend by offset: those before were passed.
    passed: Option<usize>,
}

/// A key, as 64 bits of its hash and 32 more, and in the lower 32 bits of the second number the offset after its newest record: zero
/// where there is none. (An array, because memory for arrays of zeros is had without being touched.)
type Slot = [u64; 2];

/// The least number of slots: room for a dozen keys.
const LEAST_SLOTS: usize = 16;
/// A table that may grow begins with so many.
const FIRST_SLOTS: usize = 1 << 14;
/// So many records are taken in at a time.
const AT_ONCE: usize = 128;

impl Newest {
    /// A table for so many keys, or fewer, if that takes at most so many bytes, else for as many as these hold; of records from an offset on.
    pub(crate) fn new(keys: u64, bytes: usize, seed: u64, from: u64) -> Newest {
        let wanted = usize::try_from(keys.saturating_mul(4) / 3 + 1).unwrap_or(usize::MAX);
        let allowed = (bytes / size_of::<Slot>()).max(LEAST_SLOTS);
        let most = wanted.clamp(LEAST_SLOTS, allowed);
        // It grows by doubling, and is then there in both sizes for a moment: together they take no more than they may.
        let mut count = most;
        while wanted <= allowed / 3 * 2 && count > FIRST_SLOTS {
            count = count.div_ceil(2);
        }
        Newest {
            seed,
            from,
            slots: vec![[0; 2]; count],
            keys: 0,
            room: room(count),
            most,
            waiting: Vec::with_capacity(AT_ONCE),
            passed: None,
        }
    }

    /// Tells of a record. They come in order of their offsets. `false`: there is no room for it, and from it on nothing is taken in.
    pub(crate) fn note(&mut self, key: &[u8], offset: u64) -> bool {
        let Ok(after) = u32::try_from(offset - self.from + 1) else {
            return false;
        };
        let [high, low] = self.hash(key);
        self.waiting.push([high, low | u64::from(after)]);
        let close = self.keys + self.waiting.len() > self.room && self.slots.len() >= self.most;
        // Where it may get full, one at a time.
        !(close || self.waiting.len() == AT_ONCE) || self.take_in()
    }

    /// Takes in what was told. `false`: there was no room for the last of it.
    pub(crate) fn take_in(&mut self) -> bool {
        let homes = self.waiting.iter().map(|&[high, _]| self.home(high));
        let touched = homes.map(|at| self.slots[at][1]);
        black_box(touched.fold(0, |all, one| all ^ one));
        for at in 0..self.waiting.len() {
            let told = self.waiting[at];
            let mut place = self.find(told);
            if is_free(self.slots[place]) {
                if self.keys >= self.room && self.grow() {
                    place = self.find(told);
                }
                if self.keys >= self.room {
                    self.waiting.clear();
                    return false;
                }
                self.keys += 1;
            }
            self.slots[place] = told;
        }
        self.waiting.clear();
        true
    }

    /// Makes the table larger: most records have a key that is known, and a small table stays in the cache. `false`: it is as large as it
    /// may be.
    fn grow(&mut self) -> bool {
        let count = (2 * self.slots.len()).min(self.most);
        if count <= self.slots.len() {
            return false;
        }
        let slots = std::mem::replace(&mut self.slots, vec![[0; 2]; count]);
        self.room = room(count);
        for slot in slots.into_iter().filter(|&slot| !is_free(slot)) {
            let place = self.find(slot);
            self.slots[place] = slot;
        }
        true
    }

    /// Was a record with this key taken in?
    pub(crate) fn knows(&self, key: &[u8]) -> bool {
        debug_assert!(self.passed.is_none(), "it is not sorted yet");
        !is_free(self.slots[self.find(self.hash(key))])
    }

    fn hash(&self, key: &[u8]) -> [u64; 2] {
        let hash = xxh3_128_with_seed(key, self.seed);
        [(hash >> 64) as u64, hash as u64 & !OFFSET]
    }

    /// Where a key is looked for first.
    fn home(&self, high: u64) -> usize {
        ((u128::from(high) * self.slots.len() as u128) >> 64) as usize
    }

    /// The slot of this key, or the free one where it would be.
    fn find(&self, [high, low]: Slot) -> usize {
        let mut at = self.home(high);
        loop {
            let slot = self.slots[at];
            if is_free(slot) || slot[0] == high && (slot[1] ^ low) & !OFFSET == 0 {
                return at;
            }
            at = if at + 1 == self.slots.len() {
                0
            } else {
                at + 1
            };
        }
    }

    /// The offsets that are the newest of their keys, in no order.
    pub(crate) fn offsets(&self) -> impl Iterator<Item = u64> {
        let taken = self.slots.iter().filter(|&&slot| !is_free(slot));
        taken.map(|&slot| self.offset(slot))
    }

    /// The first of these from this one on. Asked in ascending order, and last: from the first time on keys are not known any more.
    pub(crate) fn next(&mut self, from: u64) -> Option<u64> {
        let mut at = self.passed.unwrap_or_else(|| self.sort());
        while let Some(&slot) = self.slots.get(at)
            && self.offset(slot) < from
        {
            at += 1;
        }
        self.passed = Some(at);
        self.slots.get(at).map(|&slot| self.offset(slot))
    }

    /// From now on only offsets are known, in their order; no more memory is taken for it.
    fn sort(&mut self) -> usize {
        debug_assert!(self.waiting.is_empty(), "all was taken in");
        self.slots.retain(|&slot| !is_free(slot));
        self.slots.sort_unstable_by_key(|slot| slot[1] as u32);
        0
    }

    fn offset(&self, slot: Slot) -> u64 {
        self.from + (slot[1] & OFFSET) - 1
    }
}

/// The part of a slot's second number that is an offset.
const OFFSET: u64 = u32::MAX as u64;

fn is_free(slot: Slot) -> bool {
    slot[1] & OFFSET == 0
}

/// How many keys a table of so many slots takes: three in four.
fn room(count: usize) -> usize {
    count - count.div_ceil(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tells of records with these keys and offsets, up to the first that has no room, whose offset this is.
    fn told(newest: &mut Newest, records: impl Iterator<Item = (String, u64)>) -> Option<u64> {
        for (key, offset) in records {
            if !newest.note(key.as_bytes(), offset) {
                return Some(offset);
            }
        }
        assert!(newest.take_in());
        None
    }

    #[test]
    fn the_newest_offset_of_each_key_counts() {
        for start in [0, 7, u64::MAX - 10] {
            let mut newest = Newest::new(10, 1 << 20, 7, start);
            let records = [("a", 0), ("", 1), ("a", 5)];
            let records = records.map(|(key, offset)| (key.to_owned(), start + offset));
            assert_eq!(told(&mut newest, records.into_iter()), None);
            assert!(newest.knows(b"a") && newest.knows(b"") && !newest.knows(b"b"));
            let mut all: Vec<u64> = newest.offsets().collect();
            all.sort_unstable();
            let found = [0, 1, 2, 5, 6].map(|from| newest.next(start + from));
            assert_eq!(all, [start + 1, start + 5]);
            let right = [Some(1), Some(1), Some(5), Some(5), None];
            assert_eq!(found, right.map(|next| next.map(|next| start + next)));
        }
    }

    #[test]
    fn what_is_full_takes_every_record_before_the_first_that_has_no_room() {
        let key = |n: u64| n.to_string();
        for records in [31, 32, 33, 64, 100] {
            let mut newest = Newest::new(1_000_000, 16 * 40, 7, 0);
            assert_eq!(newest.slots.len(), 40);
            let full = told(&mut newest, (0..records).map(|n| (key(n), n)));
            assert_eq!(full, Some(30), "{records}");
            assert!((0..30).all(|n| newest.knows(key(n).as_bytes())));
            assert!((30..records).all(|n| !newest.knows(key(n).as_bytes())));
            let again = (0..5).map(|n| (key(n), 200 + n));
            assert_eq!(told(&mut newest, again), None);
            newest.sort();
            assert!(newest.offsets().eq((5..30).chain(200..205)));
        }
    }

    #[test]
    fn there_is_room_for_as_many_keys_as_were_announced() {
        for keys in [0, 1, 11, 12, 13, 100, 1000, 4096, 100_000] {
            let mut newest = Newest::new(keys, 1 << 30, 1, 0);
            let full = told(&mut newest, (0..keys).map(|n| (n.to_string(), n)));
            assert_eq!(full, None, "{keys}");
            newest.sort();
            assert!(newest.offsets().eq(0..keys));
        }
    }

    #[test]
    fn an_offset_too_far_from_the_first_has_no_room() {
        let mut newest = Newest::new(10, 1 << 20, 7, 5);
        let last = 5 + u64::from(u32::MAX) - 1;
        assert!(newest.note(b"a", last));
        assert!(!newest.note(b"b", last + 1));
        assert!(newest.take_in());
        newest.sort();
        assert!(newest.offsets().eq([last]));
    }
}
