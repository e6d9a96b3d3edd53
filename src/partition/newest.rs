//! The newest offset of each key, in a table that never takes more memory than it was given.
//!
//! Keys are known by 128 bits of their hash, so that a long one takes no more room than a short one.

use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Offsets by key while they are collected; then, sorted, the offsets alone.
pub(crate) struct Newest {
    seed: u64,
    slots: Vec<Slot>,
    keys: usize,
    /// So many keys are taken, and no more.
    room: usize,
    /// Of the slots, which then ascend by offset: those before were passed.
    passed: Option<usize>,
}

/// A key and the offset after its newest record, which is zero where there is none.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    high: u64,
    low: u64,
    after: u64,
}

/// What became of a record that was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noted {
    First,
    /// An earlier record of the key was told, with this offset.
    After(u64),
    /// There is no room for another key.
    Full,
}

/// The least number of slots: room for a dozen keys.
const LEAST_SLOTS: usize = 16;

impl Newest {
    /// A table for so many keys if that takes at most so many bytes, else for as many as these hold.
    pub(crate) fn new(keys: u64, bytes: usize, seed: u64) -> Newest {
        let wanted = usize::try_from(keys.saturating_mul(4) / 3 + 1).unwrap_or(usize::MAX);
        let count = wanted.min(bytes / size_of::<Slot>()).max(LEAST_SLOTS);
        Newest {
            seed,
            slots: vec![Slot::default(); count],
            keys: 0,
            room: count - count.div_ceil(4),
            passed: None,
        }
    }

    /// Tells of a record. They come in order of their offsets.
    pub(crate) fn note(&mut self, key: &[u8], offset: u64) -> Noted {
        debug_assert!(self.passed.is_none(), "it is not sorted yet");
        let at = self.find(key);
        let full = self.keys >= self.room;
        let (slot, hash) = at;
        let slot = &mut self.slots[slot];
        match slot.after {
            0 if full => Noted::Full,
            0 => {
                *slot = Slot {
                    after: offset + 1,
                    ..hash
                };
                self.keys += 1;
                Noted::First
            }
            before => {
                slot.after = offset + 1;
                Noted::After(before - 1)
            }
        }
    }

    /// Was a record with this key told?
    pub(crate) fn knows(&self, key: &[u8]) -> bool {
        debug_assert!(self.passed.is_none(), "it is not sorted yet");
        let (slot, _) = self.find(key);
        self.slots[slot].after > 0
    }

    /// The slot of this key, or the free one where it would be; and its hash.
    fn find(&self, key: &[u8]) -> (usize, Slot) {
        let hash = xxh3_128_with_seed(key, self.seed);
        let hash = Slot {
            high: (hash >> 64) as u64,
            low: hash as u64,
            after: 0,
        };
        let count = self.slots.len();
        let mut at = ((u128::from(hash.high) * count as u128) >> 64) as usize;
        loop {
            let slot = &self.slots[at];
            if slot.after == 0 || (slot.high, slot.low) == (hash.high, hash.low) {
                return (at, hash);
            }
            at = if at + 1 == count { 0 } else { at + 1 };
        }
    }

    /// Is one of the offsets from the first to the last the newest of its key? Asked in ascending order.
    pub(crate) fn has_any(&mut self, first: u64, last: u64) -> bool {
        let mut at = self.passed.unwrap_or_else(|| self.sort());
        while self.slots.get(at).is_some_and(|slot| slot.after <= first) {
            at += 1;
        }
        self.passed = Some(at);
        self.slots
            .get(at)
            .is_some_and(|slot| slot.after - 1 <= last)
    }

    /// From now on only offsets are known, in their order; no more memory is taken for it.
    fn sort(&mut self) -> usize {
        self.slots.retain(|slot| slot.after > 0);
        self.slots.sort_unstable_by_key(|slot| slot.after);
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_offset_of_each_key_counts() {
        let mut newest = Newest::new(10, 1 << 20, 7);
        assert_eq!(newest.note(b"a", 0), Noted::First);
        assert_eq!(newest.note(b"", 1), Noted::First);
        assert_eq!(newest.note(b"a", 5), Noted::After(0));
        assert!(newest.knows(b"a") && newest.knows(b"") && !newest.knows(b"b"));
        let asked = [(0, 0), (0, 1), (2, 4), (2, 5), (6, 9)];
        let found = asked.map(|(first, last)| newest.has_any(first, last));
        assert_eq!(found, [false, true, false, true, false]);
    }

    #[test]
    fn what_is_full_takes_no_other_key_and_every_known_one() {
        let mut newest = Newest::new(1_000_000, 24 * 40, 7);
        let keys: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        let told: Vec<Noted> = (0..100)
            .map(|n| newest.note(keys[n].as_bytes(), n as u64))
            .collect();
        assert_eq!(told[..30], [Noted::First; 30]);
        assert_eq!(told[30..], [Noted::Full; 70]);
        assert_eq!(newest.slots.len(), 40);
        assert_eq!(newest.note(b"7", 200), Noted::After(7));
        assert!((0..30).all(|n| newest.knows(keys[n].as_bytes())));
        assert!((30..100).all(|n| !newest.knows(keys[n].as_bytes())));
    }

    #[test]
    fn there_is_room_for_as_many_keys_as_were_announced() {
        for keys in [0, 1, 11, 12, 13, 100, 1000, 4096] {
            let mut newest = Newest::new(keys, usize::MAX, 1);
            for n in 0..keys {
                assert_eq!(
                    newest.note(&n.to_le_bytes(), n),
                    Noted::First,
                    "{n} of {keys}"
                );
            }
        }
    }
}
