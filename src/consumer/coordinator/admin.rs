//! What is asked about a group, and done to it, from outside.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::aftermath::Aftermath;
use super::state::Owner;
use super::{Coordinator, Group, Groups, MutexGuard, Owned, Seat};
use crate::error::{Error, FencedBy, Result};
use crate::log::PartitionKey;
use crate::offset::TopicPartition;

/// A group with members, as it is now.
pub(in crate::consumer) struct Seen {
    pub(in crate::consumer) generation: u64,
    pub(in crate::consumer) members: Vec<SeenMember>,
    /// Who reads what, and whether it rests after an error.
    pub(in crate::consumer) owners: HashMap<PartitionKey, (Arc<str>, bool)>,
}

/// One member of it.
pub(in crate::consumer) struct SeenMember {
    pub(in crate::consumer) id: Arc<str>,
    pub(in crate::consumer) instance: Option<Arc<str>>,
    pub(in crate::consumer) owned: Vec<TopicPartition>,
    pub(in crate::consumer) target: Vec<TopicPartition>,
    pub(in crate::consumer) away: bool,
}

impl Coordinator {
    /// The names of the groups that have members.
    pub(in crate::consumer) fn names(&self, now: Duration) -> Vec<Arc<str>> {
        let mut after = Aftermath::default();
        let mut groups = self.groups.lock();
        groups.sweep_all(now, &mut after);
        groups.by_name.keys().cloned().collect()
    }

    /// The group as it is now; `None` if it has no members. Its target is made if it is due, as by a poll.
    pub(in crate::consumer) fn describe(&self, group: &str, now: Duration) -> Result<Option<Seen>> {
        let Some(group) = self.find(group, now) else {
            return Ok(None);
        };
        group.settle(now)?;
        let state = group.state.lock();
        let mut owned: HashMap<&str, Vec<TopicPartition>> = HashMap::new();
        for Owner { member, at, .. } in state.owners.values() {
            owned.entry(member).or_default().push(at.clone());
        }
        let members = state.members.iter().map(|(id, seat)| {
            let mut owned = owned.remove(&**id).unwrap_or_default();
            owned.sort();
            let target = seat.target.iter().map(|Owned { at, .. }| at.clone());
            let mut target: Vec<TopicPartition> = target.collect();
            target.sort();
            SeenMember {
                id: Arc::clone(id),
                instance: seat.instance.clone(),
                owned,
                target,
                away: seat.away.is_some(),
            }
        });
        let members = members.collect();
        let owners = state.owners.iter();
        let owners = owners.map(|(key, of)| (*key, (Arc::clone(&of.member), of.halted)));
        Ok(Some(Seen {
            generation: state.generation,
            members,
            owners: owners.collect(),
        }))
    }

    /// Shuts a member out, named by its id or, a static one, by its instance id: its partitions are free.
    pub(in crate::consumer) fn remove(
        &self,
        group: &str,
        member: &str,
        now: Duration,
    ) -> Result<()> {
        let missing = || Error::not_found("member", member);
        let group = self.find(group, now).ok_or_else(missing)?;
        self.change(&group, now, |state| {
            let named = |(id, seat): &(&Arc<str>, &Seat)| {
                ***id == *member || seat.instance.as_deref() == Some(member)
            };
            let found = state.members.iter().find(named);
            let id = Arc::clone(found.ok_or_else(missing)?.0);
            state.remove(&id, FencedBy::Removed);
            Ok(())
        })
    }

    /// The group, if it has members, without those whose time has run out.
    fn find(&self, group: &str, now: Duration) -> Option<Arc<Group>> {
        let group = self.groups.lock().by_name.get(group).cloned()?;
        self.sweep(&group, now);
        Some(group)
    }

    /// Shuts a member out as if it had been silent for too long.
    #[cfg(feature = "testing")]
    pub(in crate::consumer) fn silence(&self, group: &str, member: &str, now: Duration) {
        if let Some(group) = self.find(group, now) {
            self.change(&group, now, |state| state.silence(member, now));
        }
    }

    /// While what is returned is held nobody joins. The count of members where there are some.
    pub(in crate::consumer) fn without_members(
        &self,
        group: &str,
        now: Duration,
    ) -> Result<MutexGuard<'_, Groups>, usize> {
        let _ = self.find(group, now); // whose time has run out is no member
        let groups = self.groups.lock();
        let members = groups
            .by_name
            .get(group)
            .map(|group| group.state.lock().members.len());
        match members {
            Some(members) => Err(members),
            None => Ok(groups),
        }
    }
}
