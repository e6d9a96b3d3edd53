//! The newest offset of each key, in a table that never takes more memory than it was given.
//!
//! Keys are known by 128 bits of their hash, so that a long one takes no more room than a short one. Records are taken in some at a
//! time: the places of all of them are asked for before the first is looked at, so that one wait for the memory does for many.

use std::hint::black_box;

use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Offsets by key while they are collected; then, sorted, the offsets alone.
pub(crate) struct Newest {
    seed: u64,
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

/// A key, as two halves of its hash, and the offset after its newest record: zero where there is none. (An array, because memory for
/// arrays of zeros is had without being touched.)
type Slot = [u64; 3];

/// What became of a record that was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noted {
    /// It took the place of an earlier one, which had this offset.
    After(u64),
    /// There is no room for its key. It has this offset.
    Full(u64),
}

/// The least number of slots: room for a dozen keys.
const LEAST_SLOTS: usize = 16;
/// A table that may grow begins with so many.
const FIRST_SLOTS: usize = 1 << 14;
/// So many records are taken in at a time.
const AT_ONCE: usize = 32;

impl Newest {
    /// A table for so many keys, or fewer, if that takes at most so many bytes, else for as many as these hold.
    pub(crate) fn new(keys: u64, bytes: usize, seed: u64) -> Newest {
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
            slots: vec![[0; 3]; count],
            keys: 0,
            room: room(count),
            most,
            waiting: Vec::with_capacity(AT_ONCE),
            passed: None,
        }
    }

    /// Tells of a record. They come in order of their offsets, and what becomes of them is said in that order, now or later.
    pub(crate) fn note(&mut self, key: &[u8], offset: u64, said: impl FnMut(Noted)) {
        let [high, low] = self.hash(key);
        self.waiting.push([high, low, offset + 1]);
        if self.waiting.len() == AT_ONCE {
            self.take_in(said);
        }
    }

    /// Takes in what was told. From the first record on for which there is no room, nothing is.
    pub(crate) fn take_in(&mut self, mut said: impl FnMut(Noted)) {
        let homes = self.waiting.iter().map(|&[high, ..]| self.home(high));
        // A slot may lie on two lines of memory: its beginning and its end.
        let touched = homes.map(|at| self.slots[at][0] ^ self.slots[at][2]);
        black_box(touched.fold(0, |all, one| all ^ one));
        for at in 0..self.waiting.len() {
            let [high, low, after] = self.waiting[at];
            let mut place = self.find([high, low]);
            let known = self.slots[place][2];
            if known == 0 && self.keys >= self.room && self.grow() {
                place = self.find([high, low]);
            }
            if known > 0 {
                said(Noted::After(known - 1));
            } else if self.keys >= self.room {
                said(Noted::Full(after - 1));
                break;
            } else {
                self.keys += 1;
            }
            self.slots[place] = [high, low, after];
        }
        self.waiting.clear();
    }

    /// Makes the table larger: most records have a key that is known, and a small table stays in the cache. `false`: it is as large as it
    /// may be.
    fn grow(&mut self) -> bool {
        let count = (2 * self.slots.len()).min(self.most);
        if count <= self.slots.len() {
            return false;
        }
        let slots = std::mem::replace(&mut self.slots, vec![[0; 3]; count]);
        self.room = room(count);
        for slot in slots.into_iter().filter(|slot| slot[2] > 0) {
            let place = self.find([slot[0], slot[1]]);
            self.slots[place] = slot;
        }
        true
    }

    /// Was a record with this key taken in?
    pub(crate) fn knows(&self, key: &[u8]) -> bool {
        debug_assert!(self.passed.is_none(), "it is not sorted yet");
        self.slots[self.find(self.hash(key))][2] > 0
    }

    fn hash(&self, key: &[u8]) -> [u64; 2] {
        let hash = xxh3_128_with_seed(key, self.seed);
        [(hash >> 64) as u64, hash as u64]
    }

    /// Where a key is looked for first.
    fn home(&self, high: u64) -> usize {
        ((u128::from(high) * self.slots.len() as u128) >> 64) as usize
    }

    /// The slot of this key, or the free one where it would be.
    fn find(&self, [high, low]: [u64; 2]) -> usize {
        let mut at = self.home(high);
        loop {
            let slot = &self.slots[at];
            if slot[2] == 0 || (slot[0], slot[1]) == (high, low) {
                return at;
            }
            at = if at + 1 == self.slots.len() {
                0
            } else {
                at + 1
            };
        }
    }

    /// The first offset from this one on that is the newest of its key. Asked in ascending order.
    pub(crate) fn next(&mut self, from: u64) -> Option<u64> {
        let mut at = self.passed.unwrap_or_else(|| self.sort());
        while self.slots.get(at).is_some_and(|slot| slot[2] <= from) {
            at += 1;
        }
        self.passed = Some(at);
        self.slots.get(at).map(|slot| slot[2] - 1)
    }

    /// From now on only offsets are known, in their order; no more memory is taken for it.
    fn sort(&mut self) -> usize {
        debug_assert!(self.waiting.is_empty(), "all was taken in");
        self.slots.retain(|slot| slot[2] > 0);
        self.slots.sort_unstable_by_key(|slot| slot[2]);
        0
    }
}

/// How many keys a table of so many slots takes: three in four.
fn room(count: usize) -> usize {
    count - count.div_ceil(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tells of records with these keys and offsets; what is said of them.
    fn told(newest: &mut Newest, records: impl Iterator<Item = (String, u64)>) -> Vec<Noted> {
        let mut said = Vec::new();
        for (key, offset) in records {
            newest.note(key.as_bytes(), offset, |noted| said.push(noted));
        }
        newest.take_in(|noted| said.push(noted));
        said
    }

    #[test]
    fn the_newest_offset_of_each_key_counts() {
        let mut newest = Newest::new(10, 1 << 20, 7);
        let records = [("a", 0), ("", 1), ("a", 5)].map(|(key, offset)| (key.to_owned(), offset));
        assert_eq!(told(&mut newest, records.into_iter()), [Noted::After(0)]);
        assert!(newest.knows(b"a") && newest.knows(b"") && !newest.knows(b"b"));
        let found = [0, 1, 2, 5, 6].map(|from| newest.next(from));
        assert_eq!(found, [Some(1), Some(1), Some(5), Some(5), None]);
    }

    #[test]
    fn what_is_full_takes_every_record_before_the_first_that_has_no_room() {
        let key = |n: u64| n.to_string();
        for records in [31, 32, 33, 64, 100] {
            let mut newest = Newest::new(1_000_000, 24 * 40, 7);
            assert_eq!(newest.slots.len(), 40);
            let again = (0..5).map(|n| (key(n), 200 + n));
            let said = told(&mut newest, (0..records).map(|n| (key(n), n)));
            assert_eq!(said.first(), Some(&Noted::Full(30)), "{records}");
            assert!((0..30).all(|n| newest.knows(key(n).as_bytes())));
            assert!((30..records).all(|n| !newest.knows(key(n).as_bytes())));
            let said = told(&mut newest, again);
            assert_eq!(said, [0, 1, 2, 3, 4].map(Noted::After));
        }
    }

    #[test]
    fn there_is_room_for_as_many_keys_as_were_announced() {
        for keys in [0, 1, 11, 12, 13, 100, 1000, 4096, 100_000] {
            let mut newest = Newest::new(keys, 1 << 30, 1);
            let said = told(&mut newest, (0..keys).map(|n| (n.to_string(), n)));
            assert_eq!(said, [], "{keys}");
            let offsets = (0..keys).map_while(|from| newest.next(from));
            assert!(offsets.eq(0..keys));
        }
    }
}
