//! What a group knows: its members, its topics, what each member should read and what each does read. A plain structure.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::aftermath::Aftermath;
use super::standing::Standing;
use super::{Joining, Limits, Protocol};
use crate::error::{Error, FencedBy, Result};
use crate::log::PartitionKey;
use crate::offset::{Offset, TopicPartition};
use crate::sync::thread::ThreadId;

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
    pub(super) looked_at: Option<Offset>,
    /// How many members want each topic.
    pub(super) subscribers: HashMap<String, usize>,
    /// Those of them that there are.
    pub(super) topics: BTreeMap<Arc<str>, TopicInfo>,
    /// Who reads what now.
    pub(super) owners: HashMap<PartitionKey, Owner>,
    /// Who should.
    pub(super) targets: HashMap<PartitionKey, Arc<str>>,
    /// Where to begin where nothing is committed; `None` where that must be told. Kept while there are members, so that a
    /// partition that moves before the first commit is repeated and not skipped.
    pub(super) starts: Starts,
    /// To be taken out, and dropped when nothing is locked.
    pub(super) after: Aftermath,
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

impl Look {
    /// Where who looked wants to begin.
    pub(in crate::consumer) fn starts(
        &self,
    ) -> impl Iterator<Item = (PartitionKey, Option<Offset>)> {
        let starts = self.topics.iter().flat_map(|topic| &topic.starts);
        starts.map(|start| (start.key, start.wanted))
    }
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
            subscribers: HashMap::new(),
            topics: BTreeMap::new(),
            owners: HashMap::new(),
            targets: HashMap::new(),
            starts: Starts::new(),
            after: Aftermath::default(),
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
        let news = self.take_in(look); // before it is a member: topics that others wait for are not begun where it wants to
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
        let mut same = !news && agreed.is_some_and(|known| known.agrees(joining.protocol));
        if alone {
            let old = self.protocol.replace(joining.protocol.clone());
            self.after.outlive(old);
        }
        self.want(joining.topics);
        if let Some(old) = replaced {
            same &= self.replace(&old, &id, &mut seat);
        } else {
            same = false;
            self.put_off(joining.limits, now);
        }
        self.members.insert(Arc::clone(&id), seat);
        if !same || self.epoch != self.settled {
            self.change(); // a question that is out names the member that it replaced
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
        self.after.ring(gone.standing.parker());
        self.disown(old);
        seat.target = gone.target;
        for of in &seat.target {
            self.targets.insert(of.key, Arc::clone(id));
        }
        self.want_no_longer(&gone.topics);
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
        self.after.ring(seat.standing.parker());
        self.disown(id);
        self.want_no_longer(&seat.topics);
        self.change();
    }

    /// The member reads nothing any more. A static one keeps its place.
    pub(super) fn step_out(&mut self, id: &str, now: Duration) {
        match self.members.get_mut(id) {
            Some(seat) if seat.instance.is_some() => {
                seat.away.get_or_insert(now);
                seat.standing.fence(FencedBy::Left);
                self.after.ring(seat.standing.parker());
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

    pub(super) fn disown_these(&mut self, id: &str, keys: &[PartitionKey]) {
        for key in keys {
            if self.owners.get(key).is_some_and(|of| *of.member == *id) {
                self.owners.remove(key);
            }
        }
    }

    /// Shuts out who was silent for too long, and gives up places that were kept long enough.
    pub(super) fn expire(&mut self, now: Duration) {
        if self.not_before.is_some_and(|(at, _)| at <= now) {
            self.not_before = None;
            self.tell_all(); // the target that was put off is due
        }
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

    /// There is one member, and nothing is put off: while it waits, no time runs out.
    pub(super) fn is_alone(&self) -> bool {
        self.members.len() <= 1 && self.not_before.is_none()
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

    // ── telling

    /// A new target is needed, and everybody may find it so.
    pub(super) fn change(&mut self) {
        self.epoch += 1;
        self.tell_all();
    }

    pub(super) fn tell_all(&mut self) {
        for seat in self.members.values() {
            seat.standing.tell();
            self.after.ring(seat.standing.parker());
        }
    }

    /// Has everybody who sleeps look how long it may: somebody's time runs out earlier.
    pub(super) fn ring_all(&mut self) {
        for seat in self.members.values() {
            self.after.ring(seat.standing.parker());
        }
    }

    /// Tells who should read what is free now.
    pub(super) fn tell_of(&mut self, freed: &[PartitionKey]) {
        if self.is_eager() {
            self.tell_if_all_gave_up();
            return;
        }
        let mut told = HashSet::new();
        for id in freed.iter().filter_map(|key| self.targets.get(key)) {
            if told.insert(id)
                && let Some(seat) = self.members.get(id)
            {
                seat.standing.tell();
                self.after.ring(seat.standing.parker());
            }
        }
    }

    /// Where all give up everything first: have those who read something done so, for the target as it is?
    pub(super) fn all_gave_up(&self) -> bool {
        let of = |owner: &Owner| self.members.get(&owner.member);
        let mut owners = self.owners.values().filter_map(of);
        owners.all(|seat| seat.gave_up == self.generation)
    }

    pub(super) fn tell_if_all_gave_up(&mut self) {
        if self.all_gave_up() {
            self.tell_all();
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
        agreed.name
    );
    Error::invalid("assignor", why)
}
