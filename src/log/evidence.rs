//! What the entries of `STATE` prove: which openings there were, whether the last one ended cleanly, and what was synced.
//!
//! Nothing here writes. Every answer errs towards "not proved", which costs a scan or a gap in the offsets, never a record.

use std::collections::{BTreeMap, HashMap};

use crate::format::state::{Decoded, Entry, IdentityFields, Point};

/// A partition as `STATE` names it: UUID of the topic, number.
pub(super) type Key = (u128, u32);

/// The boot and the directory that this process sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Here {
    /// `None` where the system does not tell: then the same boot is never proved.
    pub(super) boot: Option<u128>,
    /// Device, inode and birth time of `FORMAT`.
    pub(super) identity: IdentityFields,
}

/// What is known from `STATE`: as it was read, and what this opening added.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Where each opening took place.
    pub(super) opens: BTreeMap<u64, Here>,
    /// 0 if none.
    pub(super) newest_close: u64,
    pub(super) points: HashMap<Key, Point>,
    pub(super) checked: HashMap<Key, Point>,
    /// The file was there and decoded from end to end.
    pub(super) sound: bool,
    /// A valid `CLOSE` of the newest opening was the last entry.
    pub(super) clean: bool,
    /// The newest catalogue that an entry has seen.
    pub(super) catalogue: u64,
    /// The greatest opening that any entry names, those included whose `OPEN` is gone, or whose topic.
    greatest: u64,
}

impl Known {
    /// What these entries say. Entries in front of and behind a hole are used; the hole itself only takes proofs away.
    pub(super) fn of(decoded: Decoded) -> Known {
        let mut known = Known {
            sound: decoded.sound,
            ..Known::default()
        };
        let mut last = None;
        for (_, entry) in decoded.entries {
            last = match entry {
                Entry::Close { number, .. } => Some(number),
                _ => None,
            };
            known.add(entry);
        }
        let newest = known.newest_open();
        known.clean = known.sound && newest > 0 && last == Some(newest);
        known
    }

    pub(super) fn add(&mut self, entry: Entry) {
        self.greatest = self.greatest.max(match &entry {
            Entry::Open { number, .. } | Entry::Close { number, .. } => *number,
            Entry::Point(point) | Entry::Checked(point) => point.open_number,
        });
        match entry {
            Entry::Open {
                number,
                boot_id: boot,
                identity,
                catalogue_generation,
                ..
            } => {
                self.catalogue = self.catalogue.max(catalogue_generation);
                self.opens.insert(number, Here { boot, identity });
            }
            Entry::Close {
                number,
                catalogue_generation,
            } => {
                self.catalogue = self.catalogue.max(catalogue_generation);
                self.newest_close = self.newest_close.max(number);
            }
            Entry::Point(point) => {
                self.points.insert((point.topic, point.partition), point);
            }
            Entry::Checked(point) => {
                self.checked.insert((point.topic, point.partition), point);
            }
        }
    }

    /// 0 if none.
    pub(super) fn newest_open(&self) -> u64 {
        self.opens.last_key_value().map_or(0, |(&number, _)| number)
    }

    /// Number of the next opening, where `seen` is the greatest in any segment header (looked up only if this is not sound).
    /// After a loss one number is left out, so that no later opening can take the numbers for consecutive.
    pub(super) fn next_number(&self, seen: u64) -> u64 {
        let greatest = self.greatest.max(seen);
        greatest.saturating_add(if self.sound { 1 } else { 2 })
    }

    /// Is every opening from `era` to the newest there, in this boot and this directory? `current` is this opening's own
    /// number, if it has one by now.
    pub(super) fn same_boot_since(&self, era: u64, here: Here, current: Option<u64>) -> bool {
        // What this opening itself wrote needs no other witness.
        if current == Some(era) {
            return true;
        }
        let newest = self.newest_open();
        let from = if planted!(SAME_BOOT_BY_NEWEST_OPEN) {
            newest
        } else {
            era.max(self.newest_close.saturating_add(1))
        };
        // A hole may have held an `OPEN` of another boot.
        if !self.sound || from > newest || here.boot.is_none() {
            return false;
        }
        (from..=newest).all(|number| self.opens.get(&number) == Some(&here))
    }

    /// The entry for an opening; what it says of the catalogue may be newer than at its time, never older.
    pub(super) fn open_entry(&self, number: u64, here: Here) -> Entry {
        Entry::Open {
            number,
            boot_id: here.boot,
            identity: here.identity,
            catalogue_generation: self.catalogue,
            journal_position: 0,
        }
    }

    /// What a rewrite keeps, in an order in which a `CLOSE` is never last: the newest `CLOSE`, every `OPEN` above it, the
    /// newest of the rest for each partition.
    pub(super) fn essence(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        if self.newest_close > 0 {
            entries.push(Entry::Close {
                number: self.newest_close,
                catalogue_generation: self.catalogue,
            });
        }
        let opens = self.opens.range(self.newest_close.saturating_add(1)..);
        entries.extend(opens.map(|(&number, &here)| self.open_entry(number, here)));
        // Sorted, so that a simulation writes the same bytes each time.
        entries.extend(sorted(&self.checked).into_iter().map(Entry::Checked));
        entries.extend(sorted(&self.points).into_iter().map(Entry::Point));
        entries
    }
}

fn sorted(points: &HashMap<Key, Point>) -> Vec<Point> {
    let mut all: Vec<Point> = points.values().copied().collect();
    all.sort_by_key(|point| (point.topic, point.partition));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Here = Here {
        boot: Some(7),
        identity: (1, 2, 3),
    };

    fn open(number: u64) -> Entry {
        Known::default().open_entry(number, HERE)
    }

    fn open_elsewhere(number: u64) -> Entry {
        let elsewhere = Here {
            boot: Some(8),
            ..HERE
        };
        Known::default().open_entry(number, elsewhere)
    }

    fn close(number: u64) -> Entry {
        Entry::Close {
            number,
            catalogue_generation: 1,
        }
    }

    fn known(entries: &[Entry], sound: bool) -> Known {
        let entries = entries.iter().enumerate();
        Known::of(Decoded {
            salt: 0,
            entries: entries.map(|(n, &entry)| (n as u64, entry)).collect(),
            sound,
            end: 0,
            skipped: Vec::new(),
        })
    }

    #[test]
    fn a_close_counts_only_as_the_last_entry_of_a_sound_file_and_for_the_newest_opening() {
        assert!(known(&[open(1), close(1)], true).clean);
        assert!(!known(&[open(1), close(1)], false).clean);
        assert!(!known(&[open(1), close(1), open(2)], true).clean);
        assert!(!known(&[open(1), open(2), close(1)], true).clean);
        assert!(!known(&[], true).clean);
    }

    #[test]
    fn the_same_boot_holds_if_every_opening_since_was_here() {
        let all_here = known(&[open(1), close(1), open(2), open(3)], true);
        assert!(all_here.same_boot_since(2, HERE, None));
        assert!(all_here.same_boot_since(3, HERE, None));
        // Before a close there is nothing to judge.
        assert!(all_here.same_boot_since(1, HERE, None));
        let elsewhere = Here {
            identity: (1, 9, 3),
            ..HERE
        };
        assert!(!all_here.same_boot_since(2, elsewhere, None));
        let unknown = Here { boot: None, ..HERE };
        assert!(!all_here.same_boot_since(2, unknown, None));
    }

    #[test]
    fn one_opening_in_another_boot_or_missing_breaks_it_for_who_was_not_written_since() {
        let moved = known(&[open(1), open_elsewhere(2), open(3)], true);
        assert!(!moved.same_boot_since(1, HERE, None));
        assert!(!moved.same_boot_since(2, HERE, None));
        assert!(moved.same_boot_since(3, HERE, None));
        let missing = known(&[open(1), open(3)], true);
        assert!(!missing.same_boot_since(1, HERE, None));
        assert!(missing.same_boot_since(3, HERE, None));
        // A segment names an opening that no entry does.
        assert!(!missing.same_boot_since(4, HERE, None));
    }

    #[test]
    fn a_hole_never_makes_it_hold_but_for_this_opening_itself() {
        let holed = known(&[open(1), open(2)], false);
        assert!(!holed.same_boot_since(2, HERE, None));
        assert!(holed.same_boot_since(4, HERE, Some(4)));
    }

    #[test]
    fn numbers_follow_one_another_and_leave_one_out_after_a_loss() {
        assert_eq!(known(&[open(1), open(2)], true).next_number(0), 3);
        assert_eq!(known(&[open(1), open(2)], false).next_number(0), 4);
        assert_eq!(known(&[], false).next_number(9), 11);
        assert_eq!(Known::default().next_number(0), 2);
    }

    #[test]
    fn a_rewrite_keeps_what_is_needed_and_ends_with_no_close() {
        let essence = known(&[open(1), close(1), open(2), open(3), close(2)], true).essence();
        assert_eq!(
            essence,
            [close(2), open(3)].map(|entry| with_catalogue(entry, 1))
        );
        let proves_the_same = known(&essence, true);
        assert!(proves_the_same.same_boot_since(3, HERE, None));
        assert!(!proves_the_same.clean);
    }

    fn with_catalogue(entry: Entry, generation: u64) -> Entry {
        match entry {
            Entry::Open { number, .. } => Known {
                catalogue: generation,
                ..Known::default()
            }
            .open_entry(number, HERE),
            other => other,
        }
    }
}
