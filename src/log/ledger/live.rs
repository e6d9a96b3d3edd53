//! What the ledger's records add up to: the newest commit of each group and partition.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use super::expiry::Moment;
use super::{Commit, Damage, PartitionKey};
use crate::entry::EntryRef;
use crate::error::{Error, Result};
use crate::format::ledger::{
    GroupPosition, decode_group_position, kind, put_group_position, split_key,
};
use crate::offset::Offset;
use crate::partition::Partition;
use crate::record::Record;

/// The newest commit of each group and partition, and what is still to be done for those that were stored. Locked while a commit
/// is written (one write, no sync), so that the map has the order of the log.
#[derive(Default)]
pub(super) struct Live {
    groups: HashMap<String, OfGroup>,
    /// When the log was opened: of what was committed before, nobody knows since when it counts.
    pub(super) opened: Moment,
    /// Something before the oldest entry of `groups` could not be read.
    pub(super) damage: Option<Damage>,
    /// Partitions with a commit since their records were last synced for it.
    pub(super) dirty: HashSet<PartitionKey>,
    /// Bytes of commits, about, since the last sync began.
    pub(super) unsynced: u64,
    /// A sync has been asked for and has not begun; and that it comes soon.
    pub(super) asked: bool,
    pub(super) hurried: bool,
    /// Where commits are put together: what is written, and what of it goes into the map.
    rows: Vec<u8>,
    taken: Vec<(PartitionKey, Row)>,
}

/// What one group has committed.
#[derive(Default)]
pub(super) struct OfGroup {
    pub(super) rows: HashMap<PartitionKey, Row>,
    /// When its last member went, if one did since the log was opened.
    pub(super) emptied: Moment,
}

/// One commit.
#[derive(Clone, Copy)]
pub(super) struct Row {
    next: Offset,
    /// When it was stored, if that was since the log was opened. (Told only where offsets expire.)
    pub(super) at: Moment,
}

/// What a record takes in the log beside key and value, about.
const AROUND: u64 = 44;

impl Live {
    /// Writes these commits as one batch, and takes them in if that went well. Those for topics that are deleted are left out: a
    /// topic whose deletion is decided from now on finds its commits here, and forgets them.
    pub(super) fn store<'p>(
        &mut self,
        partition: &Partition,
        group: &str,
        commits: impl Iterator<Item = Commit<'p>>,
        time: i64,
        at: Moment,
    ) -> Result<()> {
        let there = commits.filter(|commit| !commit.partition.is_deleted());
        let row = |commit: Commit<'p>| {
            let next = commit.next;
            (commit.key(), Row { next, at })
        };
        self.taken.clear();
        self.taken.extend(there.map(row));
        if self.taken.is_empty() {
            return Ok(());
        }
        self.rows.clear();
        let mut key_len = 0;
        for &((topic, number), Row { next, .. }) in &self.taken {
            let before = self.rows.len();
            GroupPosition {
                group,
                topic,
                partition: number,
            }
            .put(&mut self.rows);
            key_len = self.rows.len() - before; // the same for all of one group
            put_group_position(&mut self.rows, next.get(), time);
        }
        let rows = self.rows.chunks_exact(self.rows.len() / self.taken.len());
        let mut rows = rows.map(|row| {
            let (key, value) = row.split_at(key_len);
            Record::new(key, value)
        });
        match (rows.next(), rows.len()) {
            (Some(only), 0) => partition.append(only).map(drop)?,
            (first, _) => {
                partition.append_all(first.into_iter().chain(rows))?;
            }
        }
        self.unsynced += self.rows.len() as u64 + AROUND;
        let taken = std::mem::take(&mut self.taken);
        self.dirty.extend(taken.iter().map(|(key, _)| key));
        self.group(group).rows.extend(taken.iter().copied());
        self.taken = taken;
        Ok(())
    }

    /// What is committed so already is so from now on; what somebody else has set stays as it is. `false`: nothing is committed there.
    pub(super) fn renew(
        &mut self,
        group: &str,
        key: PartitionKey,
        next: Offset,
        at: Moment,
    ) -> bool {
        let of_group = self.groups.get_mut(group);
        let row = of_group.and_then(|of| of.rows.get_mut(&key));
        row.map(|row| {
            if row.next == next {
                row.at = at;
            }
        })
        .is_some()
    }

    fn group(&mut self, name: &str) -> &mut OfGroup {
        if !self.groups.contains_key(name) {
            self.groups.insert(name.to_owned(), OfGroup::default());
        }
        self.groups.get_mut(name).expect("it was just put there")
    }

    pub(super) fn committed(&self, group: &str, key: PartitionKey) -> Option<Offset> {
        self.groups.get(group)?.rows.get(&key).map(|row| row.next)
    }

    /// What a group has committed; `None` if that is nothing.
    pub(super) fn of(&self, group: &str) -> Option<&OfGroup> {
        self.groups.get(group)
    }

    /// The last member of a group went at this time.
    pub(super) fn emptied(&mut self, group: &str, at: Moment) {
        if let Some(of_group) = self.groups.get_mut(group) {
            of_group.emptied = at;
        }
    }

    /// Everything a group has committed, in no order.
    pub(super) fn committed_by(&self, group: &str) -> Vec<(PartitionKey, Offset)> {
        let rows = self.groups.get(group).into_iter().flat_map(|of| &of.rows);
        rows.map(|(&key, row)| (key, row.next)).collect()
    }

    /// The groups that have committed something, in no order.
    pub(super) fn groups(&self) -> Vec<String> {
        self.groups.keys().cloned().collect()
    }

    /// The keys of all commits in one topic, as they are stored.
    pub(super) fn keys_of_topic(&self, topic: u128) -> Vec<Vec<u8>> {
        self.keys_of(|_, key| key.0 == topic)
    }

    /// The keys of all commits of one group.
    pub(super) fn keys_of_group(&self, group: &str) -> Vec<Vec<u8>> {
        self.keys_of(|of, _| of == group)
    }

    fn keys_of(&self, which: impl Fn(&str, &PartitionKey) -> bool) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        for (group, of) in &self.groups {
            let those = of.rows.keys().filter(|key| which(group, key));
            keys.extend(those.map(|&key| stored_key(group, key)));
        }
        keys.sort_unstable(); // so that a simulation writes the same bytes each time
        keys
    }

    pub(super) fn forget_group(&mut self, group: &str) {
        self.groups.remove(group);
    }

    pub(super) fn forget_topic(&mut self, topic: u128) {
        for of in self.groups.values_mut() {
            of.rows.retain(|key, _| key.0 != topic);
        }
        self.groups.retain(|_, of| !of.rows.is_empty());
        self.dirty.retain(|key| key.0 != topic);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Takes in one record. Kinds that this version does not know are somebody else's.
    pub(super) fn take(&mut self, entry: EntryRef<'_>) {
        let key = entry.key().unwrap_or_default();
        if split_key(key).is_some_and(|(of_kind, ..)| of_kind != kind::GROUP_POSITION) {
            return;
        }
        let decoded = GroupPosition::decode(key).ok().zip(match entry.value() {
            Some(value) => decode_group_position(value)
                .map(|(next, _)| Some(next))
                .ok(),
            None => Some(None),
        });
        let Some((position, next)) = decoded else {
            // The batch is sound, so this is not rot, but it is not what a commit looks like either.
            self.damaged(Damage {
                file: PathBuf::from(entry.position().to_string()),
                byte: 0,
            });
            return;
        };
        let key = (position.topic, position.partition);
        match next {
            Some(next) => {
                let row = Row {
                    next: Offset::new(next),
                    at: Moment::default(),
                };
                self.group(position.group).rows.insert(key, row);
            }
            None => self.remove(position.group, key),
        }
    }

    /// Of a group without commits nothing is left.
    pub(super) fn remove(&mut self, group: &str, key: PartitionKey) {
        if let Some(of_group) = self.groups.get_mut(group) {
            of_group.rows.remove(&key);
            if of_group.rows.is_empty() {
                self.groups.remove(group);
            }
        }
    }

    /// Forgets what may have been superseded by something that cannot be read. What comes later is certain again.
    pub(super) fn damaged(&mut self, damage: Damage) {
        self.groups.clear();
        self.damage.get_or_insert(damage);
    }
}

/// The key of a commit, as it is stored.
pub(super) fn stored_key(group: &str, (topic, partition): PartitionKey) -> Vec<u8> {
    let mut key = Vec::new();
    GroupPosition {
        group,
        topic,
        partition,
    }
    .put(&mut key);
    key
}

impl Damage {
    pub(super) fn error(&self) -> Error {
        Error::corruption(&self.file, self.byte, None)
    }
}
