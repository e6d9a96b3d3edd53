//! Who is a member of which group, what each should read, and what each does read: a plain structure behind a lock.
//!
//! ```text
//!   a member joins or leaves, a topic comes or goes ─▶ target: who should read what       (here, at once)
//!   each member, in its own poll:  gives up what it should not read ─▶ takes what nobody reads
//! ```
//!
//! Nobody waits for anybody: a partition moves when the one who read it has given it up, and in between the others go on.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::Membership;
use super::assignor::{self, TopicSize};
use super::wake::Parker;
use crate::log::PartitionKey;
use crate::offset::{Offset, PartitionId, TopicPartition};

/// The groups of one open log that have members.
#[derive(Default)]
pub(super) struct Coordinator {
    groups: Mutex<Groups>,
}

#[derive(Default)]
struct Groups {
    by_name: HashMap<Arc<str>, Arc<Group>>,
    /// A group that is made begins above these, so that it never repeats what one of its name was before.
    generation: u64,
    joined: u64,
}

/// One group with members.
pub(super) struct Group {
    name: Arc<str>,
    /// Grows with everything that a member has to look at.
    version: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Of the target. Grows with each change of it.
    generation: u64,
    joined: u64,
    members: BTreeMap<Arc<str>, Seat>,
    /// How old the newest look at the topics is.
    looked_at: Option<Offset>,
    /// The topics that members subscribed to, and that there are.
    topics: BTreeMap<Arc<str>, TopicInfo>,
    /// Who reads what now.
    owners: HashMap<PartitionKey, Arc<str>>,
    /// Where to begin where nothing is committed; `None` where that must be told. Kept while there are members, so that a
    /// partition that moves before the first commit is repeated and not skipped.
    starts: Starts,
}

pub(super) type Starts = HashMap<PartitionKey, Option<Offset>>;

/// One member's place.
struct Seat {
    topics: Arc<[String]>,
    target: Vec<Owned>,
    parker: Arc<Parker>,
}

/// A topic, as a group needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TopicInfo {
    pub(super) uuid: u128,
    pub(super) partitions: u32,
}

/// A partition of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owned {
    pub(super) at: TopicPartition,
    pub(super) key: PartitionKey,
}

/// A look at topics.
pub(super) struct Look {
    /// What [`Log::changes`](crate::log::Log::changes) said before.
    pub(super) at: Offset,
    pub(super) topics: Vec<Looked>,
}

/// One topic, and where its partitions begin without a commit.
pub(super) struct Looked {
    pub(super) name: String,
    /// `None`: there is none.
    pub(super) info: Option<TopicInfo>,
    pub(super) starts: Vec<Start>,
}

/// Where to begin in a partition without a commit.
pub(super) struct Start {
    pub(super) key: PartitionKey,
    /// As who looked wants it; `None` if that must be told.
    pub(super) wanted: Option<Offset>,
    /// The first record: where a topic is begun that the group has been waiting for.
    pub(super) first: Offset,
}

/// The place of one member. Dropped, it leaves the group, and what it read is free.
pub(super) struct Place {
    coordinator: Arc<Coordinator>,
    group: Arc<Group>,
    id: Arc<str>,
}

/// What a member should read, and when that was so.
pub(super) struct Target {
    pub(super) version: u64,
    pub(super) membership: Membership,
    pub(super) owned: Vec<Owned>,
}

impl Coordinator {
    /// A new member of `group`, and a new target for all. `None`: the group knows the topics as they were later.
    pub(super) fn join(
        self: &Arc<Self>,
        group: &str,
        client: &str,
        topics: &[String],
        look: Look,
        parker: &Arc<Parker>,
    ) -> Option<Place> {
        let mut groups = self.groups.lock();
        let group = groups.named(group);
        let mut state = group.state.lock();
        if Some(look.at) < state.looked_at {
            return None;
        }
        state.joined += 1;
        let id: Arc<str> = format!("{client}-{:010}", state.joined).into();
        state.take_in(look); // before it is a member: topics that others wait for are not begun where it wants to
        let seat = Seat {
            topics: topics.into(),
            target: Vec::new(),
            parker: Arc::clone(parker),
        };
        state.members.insert(Arc::clone(&id), seat);
        state.retarget();
        group.tell(&state, None);
        drop(state);
        Some(Place {
            coordinator: Arc::clone(self),
            group,
            id,
        })
    }

    /// The topics that the members of a group read, and where they begin where nothing is committed.
    pub(super) fn progress(&self, group: &str) -> (Vec<Arc<str>>, Starts) {
        let groups = self.groups.lock();
        let Some(group) = groups.by_name.get(group) else {
            return Default::default();
        };
        let state = group.state.lock();
        (state.topics.keys().cloned().collect(), state.starts.clone())
    }

    fn leave(&self, group: &Arc<Group>, id: &str) {
        let mut groups = self.groups.lock();
        let mut state = group.state.lock();
        if state.members.remove(id).is_none() {
            return;
        }
        state.owners.retain(|_, owner| **owner != *id);
        if state.members.is_empty() {
            groups.generation = groups.generation.max(state.generation);
            groups.joined = groups.joined.max(state.joined);
            groups.by_name.remove(&group.name);
            return;
        }
        state.drop_unwanted();
        state.retarget();
        group.tell(&state, None);
    }

    #[cfg(test)]
    pub(super) fn groups(&self) -> usize {
        self.groups.lock().by_name.len()
    }
}

impl Groups {
    fn named(&mut self, name: &str) -> Arc<Group> {
        if let Some(group) = self.by_name.get(name) {
            return Arc::clone(group);
        }
        let name: Arc<str> = name.into();
        let group = Arc::new(Group {
            name: Arc::clone(&name),
            version: AtomicU64::new(0),
            state: Mutex::new(State {
                generation: self.generation,
                joined: self.joined,
                ..State::default()
            }),
        });
        self.by_name.insert(name, Arc::clone(&group));
        group
    }
}

impl Group {
    /// Has every member look, or those that should read one of `freed`.
    fn tell(&self, state: &State, freed: Option<&[PartitionKey]>) {
        // Release: who sees the new version finds what made it, behind the lock that is still held.
        self.version.fetch_add(1, Ordering::Release);
        for seat in state.members.values() {
            let wants =
                |freed: &[PartitionKey]| seat.target.iter().any(|of| freed.contains(&of.key));
            if freed.is_none_or(wants) {
                seat.parker.ring();
            }
        }
    }
}

impl State {
    /// Topics as they are now. `true`: the group knew one of them otherwise.
    fn take_in(&mut self, look: Look) -> bool {
        self.looked_at = Some(look.at);
        let mut new = false;
        for topic in look.topics {
            new |= self.take_topic(topic);
        }
        new
    }

    fn take_topic(&mut self, topic: Looked) -> bool {
        if self.topics.get(topic.name.as_str()).copied() == topic.info {
            return false;
        }
        let name: Arc<str> = topic.name.into();
        let mut seats = self.members.values();
        let awaited = seats.any(|seat| seat.topics.iter().any(|of| **of == *name));
        if let Some(old) = self.topics.remove(&name)
            && topic.info.is_none_or(|new| new.uuid != old.uuid)
        {
            // Nobody reads what is no more.
            self.owners.retain(|(uuid, _), _| *uuid != old.uuid);
            self.starts.retain(|(uuid, _), _| *uuid != old.uuid);
        }
        if let Some(info) = topic.info {
            self.topics.insert(name, info);
            for Start { key, wanted, first } in topic.starts {
                let start = if awaited { Some(first) } else { wanted };
                self.starts.entry(key).or_insert(start);
            }
        }
        true
    }

    /// Forgets topics that no member is subscribed to any more.
    fn drop_unwanted(&mut self) {
        let wanted: HashSet<&str> = self
            .members
            .values()
            .flat_map(|seat| seat.topics.iter().map(String::as_str))
            .collect();
        let gone: HashSet<u128> = self
            .topics
            .iter()
            .filter(|(name, _)| !wanted.contains(&***name))
            .map(|(_, info)| info.uuid)
            .collect();
        self.topics.retain(|_, info| !gone.contains(&info.uuid));
        self.starts.retain(|(uuid, _), _| !gone.contains(uuid));
    }

    /// Who should read what, anew.
    fn retarget(&mut self) {
        self.generation += 1;
        let members: Vec<assignor::Member<'_>> = self
            .members
            .values()
            .map(|seat| assignor::Member {
                topics: &seat.topics,
            })
            .collect();
        let topics: Vec<(&Arc<str>, &TopicInfo)> = self.topics.iter().collect();
        let sizes: Vec<TopicSize<'_>> = topics
            .iter()
            .map(|(name, info)| TopicSize {
                name,
                partitions: info.partitions,
            })
            .collect();
        let owned = |(topic, partition): (usize, u32)| {
            let (name, info) = topics[topic];
            Owned {
                at: TopicPartition::shared(Arc::clone(name), PartitionId::new(partition)),
                key: (info.uuid, partition),
            }
        };
        let assigned = assignor::range(&members, &sizes).into_iter();
        let targets: Vec<Vec<Owned>> = assigned
            .map(|of_member| of_member.into_iter().map(owned).collect())
            .collect();
        for (seat, target) in self.members.values_mut().zip(targets) {
            seat.target = target;
        }
    }
}

impl Place {
    /// Has anything changed since [`Target::version`]?
    pub(super) fn version(&self) -> u64 {
        self.group.version.load(Ordering::Acquire) // pairs with `tell`
    }

    /// What this member should read now.
    pub(super) fn target(&self) -> Target {
        let version = self.version(); // before the look: what changes during it is looked at again
        let state = self.group.state.lock();
        let seat = state.members.get(&self.id);
        Target {
            version,
            membership: self.membership(state.generation),
            owned: seat.map_or_else(Vec::new, |seat| seat.target.clone()),
        }
    }

    /// It reads these no longer: they are free for those who should.
    pub(super) fn release(&self, keys: &[PartitionKey]) {
        if keys.is_empty() {
            return;
        }
        let mut state = self.group.state.lock();
        for key in keys {
            if state.owners.get(key).is_some_and(|owner| *owner == self.id) {
                state.owners.remove(key);
            }
        }
        self.group.tell(&state, Some(keys));
    }

    /// Takes what it should read and nobody does, with where to begin if nothing is committed.
    pub(super) fn take(&self) -> Vec<(Owned, Option<Offset>)> {
        let mut state = self.group.state.lock();
        let State {
            members,
            owners,
            starts,
            ..
        } = &mut *state;
        let Some(seat) = members.get(&self.id) else {
            return Vec::new();
        };
        let free = seat
            .target
            .iter()
            .filter(|of| !owners.contains_key(&of.key));
        let free: Vec<Owned> = free.cloned().collect();
        let taken = free.into_iter().map(|of| {
            owners.insert(of.key, Arc::clone(&self.id));
            let start = starts.get(&of.key).copied().flatten();
            (of, start)
        });
        taken.collect()
    }

    /// These topics came, went or changed: a new target for all, unless another member has said so.
    pub(super) fn changed(&self, look: Look) {
        let mut state = self.group.state.lock();
        if Some(look.at) >= state.looked_at && state.take_in(look) {
            state.retarget();
            self.group.tell(&state, None);
        }
    }

    pub(super) fn membership(&self, generation: u64) -> Membership {
        Membership {
            group: Arc::clone(&self.group.name),
            member: Arc::clone(&self.id),
            generation,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.coordinator.leave(&self.group, &self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(at: u64, uuid: u128, partitions: u32) -> Look {
        Look {
            at: Offset::new(at),
            topics: vec![Looked {
                name: "orders".to_owned(),
                info: Some(TopicInfo { uuid, partitions }),
                starts: (0..partitions)
                    .map(|n| Start {
                        key: (uuid, n),
                        wanted: Some(Offset::new(at)),
                        first: Offset::ZERO,
                    })
                    .collect(),
            }],
        }
    }

    fn join(coordinator: &Arc<Coordinator>, group: &str, look: Look) -> Option<Place> {
        let topics = ["orders".to_owned()];
        coordinator.join(group, "a", &topics, look, &Arc::default())
    }

    #[test]
    fn groups_without_members_leave_nothing_behind() {
        let coordinator = Arc::new(Coordinator::default());
        for n in 0..1_000 {
            let group = format!("g{n}");
            let places = [1, 2].map(|uuid| join(&coordinator, &group, look(0, uuid, 3)));
            assert_eq!(coordinator.groups(), 1);
            drop(places);
            assert_eq!(coordinator.groups(), 0);
        }
    }

    #[test]
    fn an_older_look_at_the_topics_never_overrules_a_newer_one() {
        let coordinator = Arc::new(Coordinator::default());
        let first = join(&coordinator, "g", look(5, 7, 1)).unwrap();
        assert!(join(&coordinator, "g", look(4, 6, 1)).is_none());
        first.changed(look(4, 6, 1));
        assert_eq!(first.target().owned[0].key, (7, 0));
        first.changed(look(6, 8, 2));
        assert_eq!(first.target().owned.len(), 2);
    }

    #[test]
    fn a_topic_that_was_replaced_is_nobodys_and_begins_anew() {
        let coordinator = Arc::new(Coordinator::default());
        let first = join(&coordinator, "g", look(5, 7, 1)).unwrap();
        assert_eq!(first.take().len(), 1);
        assert!(first.take().is_empty(), "it owns it already");
        first.changed(look(6, 8, 1));
        let taken = first.take();
        assert_eq!(taken[0].0.key, (8, 0));
        assert_eq!(taken[0].1, Some(Offset::ZERO), "from its first record");
    }

    #[test]
    fn only_what_is_free_is_taken_and_only_what_one_owns_is_given_up() {
        let coordinator = Arc::new(Coordinator::default());
        let first = join(&coordinator, "g", look(0, 7, 2)).unwrap();
        assert_eq!(first.take().len(), 2);
        let second = join(&coordinator, "g", look(0, 7, 2)).unwrap();
        assert!(second.take().is_empty());
        second.release(&[(7, 1)]);
        assert!(second.take().is_empty(), "it was not its own to give up");
        let before = second.version();
        first.release(&[(7, 1)]);
        assert!(second.version() > before);
        assert_eq!(second.take()[0].0.key, (7, 1));
        drop(first);
        assert_eq!(second.take()[0].0.key, (7, 0));
    }
}
