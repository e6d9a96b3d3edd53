//! What a group knows: its members, its topics, what each member should read and what each does read. A plain structure.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use super::standing::Standing;
use super::{Joining, Limits, Protocol};
use crate::error::{Error, FencedBy, Result};
use crate::log::PartitionKey;
use crate::offset::{Offset, TopicPartition};

/// One group. What changes it tells the members that have to look at it.
pub(super) struct State {
    /// Of the target. Grows with each one.
    pub(super) generation: u64,
    pub(super) joined: u64,
    /// Grows with all that a target depends on.
    pub(super) epoch: u64,
    /// The epoch that the target is of.
    pub(super) settled: u64,
    /// While a group that was empty waits for more members: no target before the first, nor put off beyond the second.
    pub(super) not_before: Option<(Duration, Duration)>,
    /// The threads that are asking the assignor.
    pub(super) asking: Vec<ThreadId>,
    pub(super) protocol: Option<Protocol>,
    pub(super) members: BTreeMap<Arc<str>, Seat>,
    /// How old the newest look at the topics is.
    looked_at: Option<Offset>,
    /// The topics that members subscribed to, and that there are.
    pub(super) topics: BTreeMap<Arc<str>, TopicInfo>,
    /// Who reads what now.
    pub(super) owners: HashMap<PartitionKey, Owner>,
    /// Who should.
    pub(super) targets: HashMap<PartitionKey, Arc<str>>,
    /// Where to begin where nothing is committed; `None` where that must be told. Kept while there are members, so that a
    /// partition that moves before the first commit is repeated and not skipped.
    pub(super) starts: Starts,
}

/// Who reads a partition.
pub(super) struct Owner {
    pub(super) member: Arc<str>,
    pub(super) at: TopicPartition,
    /// It rests after an error.
    pub(super) halted: bool,
}

pub(in crate::consumer) type Starts = HashMap<PartitionKey, Option<Offset>>;

/// One member's place.
pub(super) struct Seat {
    pub(super) instance: Option<Arc<str>>,
    pub(super) topics: Arc<[String]>,
    pub(super) target: Vec<Owned>,
    pub(super) standing: Arc<Standing>,
    pub(super) limits: Limits,
    /// Its consumer is closed or silent, and the place is kept, since then.
    pub(super) away: Option<Duration>,
    /// That it came to in a poll.
    pub(super) generation: u64,
    /// Where all give up everything: the generation that it did so for.
    pub(super) gave_up: u64,
}

/// A topic, as a group needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::consumer) struct TopicInfo {
    pub(in crate::consumer) uuid: u128,
    pub(in crate::consumer) partitions: u32,
}

/// A partition of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::consumer) struct Owned {
    pub(in crate::consumer) at: TopicPartition,
    pub(in crate::consumer) key: PartitionKey,
}

/// A look at topics.
pub(in crate::consumer) struct Look {
    /// What [`Log::changes`](crate::log::Log::changes) said before.
    pub(in crate::consumer) at: Offset,
    pub(in crate::consumer) topics: Vec<Looked>,
}

/// One topic, and where its partitions begin without a commit.
pub(in crate::consumer) struct Looked {
    pub(in crate::consumer) name: String,
    /// `None`: there is none.
    pub(in crate::consumer) info: Option<TopicInfo>,
    pub(in crate::consumer) starts: Vec<Start>,
}

/// Where to begin in a partition without a commit.
pub(in crate::consumer) struct Start {
    pub(in crate::consumer) key: PartitionKey,
    /// As who looked wants it; `None` if that must be told.
    pub(in crate::consumer) wanted: Option<Offset>,
    /// The first record: where a topic is begun that the group has been waiting for.
    pub(in crate::consumer) first: Offset,
}

impl State {
    /// A group without members, with everything above these.
    pub(super) fn after(generation: u64, joined: u64) -> State {
        State {
            generation,
            joined,
            epoch: 0,
            settled: 0,
            not_before: None,
            asking: Vec::new(),
            protocol: None,
            members: BTreeMap::new(),
            looked_at: None,
            topics: BTreeMap::new(),
            owners: HashMap::new(),
            targets: HashMap::new(),
            starts: Starts::new(),
        }
    }

    // ── members

    /// A new member, or a new one in the place of a static one. `None`: the look at the topics is older than what is known.
    pub(super) fn admit(
        &mut self,
        joining: &Joining<'_>,
        look: Look,
        now: Duration,
    ) -> Result<Option<(Arc<str>, Arc<Standing>)>> {
        if Some(look.at) < self.looked_at {
            return Ok(None);
        }
        let replaced = joining.instance.and_then(|id| self.of_instance(id));
        if let (Some(old), Some(before)) = (&replaced, joining.instead_of)
            && **old != *before
        {
            return Err(Error::Fenced {
                who: before.into(),
                why: FencedBy::NewerInstance,
            });
        }
        let alone = self.members.len() == usize::from(replaced.is_some());
        if let Some(protocol) = self.protocol.as_ref().filter(|_| !alone)
            && !protocol.agrees(joining.protocol)
        {
            return Err(other_protocol(protocol));
        }
        self.take_in(look); // before it is a member: topics that others wait for are not begun where it wants to
        self.joined += 1;
        let client = joining.instance.unwrap_or(joining.client);
        let id: Arc<str> = format!("{client}-{:010}", self.joined).into();
        let standing = Arc::new(Standing::new(joining.parker, now));
        let mut seat = Seat {
            instance: joining.instance.map(Arc::from),
            topics: joining.topics.into(),
            target: Vec::new(),
            standing: Arc::clone(&standing),
            limits: joining.limits,
            away: None,
            generation: 0,
            gave_up: 0,
        };
        let agreed = self.protocol.as_ref();
        let mut same = agreed.is_some_and(|known| known.agrees(joining.protocol));
        if alone {
            self.protocol = Some(joining.protocol.clone());
        }
        if let Some(old) = replaced {
            same &= self.replace(&old, &id, &mut seat);
        } else {
            same = false;
            self.put_off(joining.limits, now);
        }
        self.members.insert(Arc::clone(&id), seat);
        if !same {
            self.change();
        }
        Ok(Some((id, standing)))
    }

    fn of_instance(&self, instance: &str) -> Option<Arc<str>> {
        let mut seats = self.members.iter();
        let found = seats.find(|(_, seat)| seat.instance.as_deref() == Some(instance));
        found.map(|(id, _)| Arc::clone(id))
    }

    /// `seat`, of the member `id`, inherits what the static member `old` should read. `true`: and wants the same.
    fn replace(&mut self, old: &Arc<str>, id: &Arc<str>, seat: &mut Seat) -> bool {
        let Some(gone) = self.members.remove(old) else {
            return false;
        };
        gone.standing.fence(FencedBy::NewerInstance);
        self.disown(old);
        seat.target = gone.target;
        for of in &seat.target {
            self.targets.insert(of.key, Arc::clone(id));
        }
        gone.topics == seat.topics
    }

    /// The first members of a group that was empty come together, if that is wanted.
    fn put_off(&mut self, limits: Limits, now: Duration) {
        let delay = limits.rebalance_delay;
        if self.members.is_empty() && delay > Duration::ZERO {
            let last = now.saturating_add(limits.poll_interval.max(delay));
            self.not_before = Some((now.saturating_add(delay), last));
        } else if let Some((at, last)) = &mut self.not_before {
            *at = now.saturating_add(delay).min(*last);
        }
    }

    /// The member goes, and what it reads is free.
    pub(super) fn remove(&mut self, id: &str, why: FencedBy) {
        let Some(seat) = self.members.remove(id) else {
            return;
        };
        seat.standing.fence(why);
        self.disown(id);
        self.drop_unwanted();
        self.change();
    }

    /// The member reads nothing any more. A static one keeps its place.
    pub(super) fn step_out(&mut self, id: &str, now: Duration) {
        match self.members.get_mut(id) {
            Some(seat) if seat.instance.is_some() => {
                seat.away.get_or_insert(now);
                seat.standing.fence(FencedBy::Left);
                self.disown(id);
            }
            _ => self.remove(id, FencedBy::Left),
        }
    }

    /// Nobody reads what `id` did.
    fn disown(&mut self, id: &str) {
        let mut freed = Vec::new();
        self.owners.retain(|key, owner| {
            let kept = *owner.member != *id;
            if !kept {
                freed.push(*key);
            }
            kept
        });
        self.tell_of(&freed);
    }

    /// Shuts out who was silent for too long, and gives up places that were kept long enough.
    pub(super) fn expire(&mut self, now: Duration) {
        let is_silent = |seat: &Seat| {
            let limit = seat.limits.poll_interval;
            seat.away.is_none() && seat.standing.fence_if_silent(now, limit)
        };
        for id in self.those(is_silent) {
            self.step_out(&id, now); // a static one keeps its place for a while
        }
        let is_over = |seat: &Seat| {
            let until = |since: Duration| since.saturating_add(seat.limits.session_timeout);
            seat.away.is_some_and(|since| until(since) <= now)
        };
        for id in self.those(is_over) {
            self.remove(&id, FencedBy::Left);
        }
    }

    fn those(&self, which: impl Fn(&Seat) -> bool) -> Vec<Arc<str>> {
        let those = self.members.iter().filter(|(_, seat)| which(seat));
        those.map(|(id, _)| Arc::clone(id)).collect()
    }

    /// Shuts out a member as if it had been silent for too long.
    #[cfg(feature = "testing")]
    pub(super) fn silence(&mut self, id: &str, now: Duration) {
        if let Some(seat) = self.members.get(id) {
            let limit = seat.limits.poll_interval;
            let silent_for = limit;
            let why = FencedBy::PollInterval { limit, silent_for };
            seat.standing.fence(why);
            self.step_out(id, now);
        }
    }

    /// When somebody's time runs out next, or a target is due.
    pub(super) fn due(&self, now: Duration) -> Option<Duration> {
        let seats = self.members.values().map(|seat| match seat.away {
            Some(since) => since.saturating_add(seat.limits.session_timeout),
            None => seat.standing.silent_at(now, seat.limits.poll_interval),
        });
        let waiting = self.not_before.map(|(at, _)| at).filter(|&at| at > now);
        seats.chain(waiting).min()
    }

    // ── topics

    /// Topics as they are now. `true`: the group knew one of them otherwise.
    pub(super) fn take_in(&mut self, look: Look) -> bool {
        self.looked_at = Some(look.at);
        let mut new = false;
        for topic in look.topics {
            new |= self.take_topic(topic);
        }
        new
    }

    pub(super) fn is_outdated(&self, look: &Look) -> bool {
        Some(look.at) < self.looked_at
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
            self.forget(|(uuid, _)| *uuid == old.uuid);
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

    fn forget(&mut self, gone: impl Fn(&PartitionKey) -> bool) {
        self.owners.retain(|key, _| !gone(key));
        self.starts.retain(|key, _| !gone(key));
    }

    /// Forgets topics that no member is subscribed to any more; who still reads them does so until its next poll.
    pub(super) fn drop_unwanted(&mut self) {
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

    // ── telling

    /// A new target is needed, and everybody may find it so.
    pub(super) fn change(&mut self) {
        self.epoch += 1;
        self.tell_all();
    }

    pub(super) fn tell_all(&self) {
        for seat in self.members.values() {
            seat.standing.tell();
        }
    }

    /// Tells who should read what is free now.
    pub(super) fn tell_of(&self, freed: &[PartitionKey]) {
        if self.is_eager() {
            if !freed.is_empty() {
                self.tell_all(); // it may be the last that they waited for
            }
            return;
        }
        let mut told = HashSet::new();
        for id in freed.iter().filter_map(|key| self.targets.get(key)) {
            if told.insert(id)
                && let Some(seat) = self.members.get(id)
            {
                seat.standing.tell();
            }
        }
    }

    pub(super) fn is_eager(&self) -> bool {
        self.protocol.as_ref().is_some_and(|of| of.eager)
    }
}

fn other_protocol(agreed: &Protocol) -> Error {
    let mode = if agreed.eager { "" } else { "not " };
    let why = format!(
        "the members of this group share by {:?}, {mode}eager: all must name the same",
        agreed.assignor.name()
    );
    Error::invalid("assignor", why)
}
