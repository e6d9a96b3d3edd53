//! A member's own handle on its group: what it should read, what it takes and gives up, and that it is alive.

use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::standing::{Beat, Gate, Standing};
use super::state::{Look, Owned, Owner, State};
use super::{Coordinator, Group, MutexGuard};
use crate::clock::Clock;
use crate::consumer::Membership;
use crate::error::{FencedBy, Result};
use crate::log::PartitionKey;
use crate::offset::Offset;

/// The place of one member. It is left by [`leave`](Self::leave) or [`step_out`](Self::step_out).
pub(in crate::consumer) struct Place {
    coordinator: Arc<Coordinator>,
    group: Arc<Group>,
    id: Arc<str>,
    standing: Arc<Standing>,
}

/// What [`Place::target`] found.
pub(in crate::consumer) enum Found {
    Target(Target),
    /// The group waits for more members before it shares.
    PutOff {
        version: u64,
    },
    /// It is no member any more.
    ShutOut,
}

/// A partition that a member has taken.
pub(in crate::consumer) struct Taken {
    pub(in crate::consumer) of: Owned,
    pub(in crate::consumer) begins: Begins,
}

/// Where to begin in a partition if nothing is committed.
pub(in crate::consumer) enum Begins {
    At(Offset),
    /// That must be told.
    Nowhere,
    /// Nobody has looked: something was committed then.
    Unknown,
}

/// What a member should read, and when that was so.
pub(in crate::consumer) struct Target {
    pub(in crate::consumer) version: u64,
    pub(in crate::consumer) generation: u64,
    pub(in crate::consumer) owned: Vec<Owned>,
    /// It gives up everything first, whatever it should read.
    pub(in crate::consumer) everything_first: bool,
}

/// As long as it lives, a member waits within a poll, which is no silence.
pub(in crate::consumer) struct Waiting {
    standing: Arc<Standing>,
    clock: Arc<dyn Clock>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.standing.waits(false, self.clock.elapsed());
    }
}

impl Place {
    pub(super) fn new(
        coordinator: Arc<Coordinator>,
        group: Arc<Group>,
        id: Arc<str>,
        standing: Arc<Standing>,
    ) -> Place {
        Place {
            coordinator,
            group,
            id,
            standing,
        }
    }

    /// It polls: so it is alive, if nobody has shut it out. Sees to those whose time has run out.
    ///
    /// # Errors
    ///
    /// Why it is no member any more.
    pub(in crate::consumer) fn beat(&self, now: Duration, limit: Duration) -> Result<(), FencedBy> {
        let beat = self.standing.beat(now, limit);
        if matches!(beat, Beat::Late) || self.group.is_due(now) {
            self.coordinator.sweep(&self.group, now);
        }
        match beat {
            Beat::Alive => Ok(()),
            Beat::Fenced(why) => Err(why),
            Beat::Late => Err(self.why_late(now, limit)),
        }
    }

    fn why_late(&self, now: Duration, limit: Duration) -> FencedBy {
        let gate = self.standing.hold();
        let silent_for = self.standing.silence(now).unwrap_or(limit);
        gate.fenced()
            .unwrap_or(FencedBy::PollInterval { limit, silent_for })
    }

    /// A member, and nobody fences it while what is returned is held.
    pub(in crate::consumer) fn hold(
        &self,
        now: Duration,
        limit: Duration,
    ) -> Result<MutexGuard<'_, Gate>, FencedBy> {
        let gate = self.standing.hold();
        if planted!(OLD_GENERATION_COMMITS) {
            return Ok(gate);
        }
        if self
            .standing
            .silence(now)
            .is_some_and(|silent| silent >= limit)
        {
            drop(gate);
            self.coordinator.sweep(&self.group, now);
            return Err(self.why_late(now, limit));
        }
        match gate.fenced() {
            Some(why) => Err(why),
            None => Ok(gate),
        }
    }

    /// It is shut out.
    pub(in crate::consumer) fn fence(&self, why: FencedBy) {
        self.standing.fence(why);
    }

    /// Within a poll, it waits while what is returned lives.
    pub(in crate::consumer) fn waiting(&self, clock: &Arc<dyn Clock>) -> Waiting {
        self.standing.waits(true, clock.elapsed());
        Waiting {
            standing: Arc::clone(&self.standing),
            clock: Arc::clone(clock),
        }
    }

    /// It waits as this member, not as one that it was before.
    pub(in crate::consumer) fn is_waiting(&self, waiting: &Waiting) -> bool {
        Arc::ptr_eq(&self.standing, &waiting.standing)
    }

    /// The user's code runs: however long it takes, that is no waiting. `true`: it was, and goes on to be with
    /// [`waits`](Self::waits).
    pub(in crate::consumer) fn runs(&self, now: Duration) -> bool {
        self.standing.waits(false, now)
    }

    pub(in crate::consumer) fn waits(&self, waiting: bool, now: Duration) {
        self.standing.waits(waiting, now);
    }

    /// When the time of somebody else runs out, at the earliest, or that of a target that is put off.
    pub(in crate::consumer) fn due(&self) -> Option<Duration> {
        let due = self.group.due_to_others.load(Ordering::Relaxed);
        (due != u64::MAX).then(|| Duration::from_nanos(due))
    }

    /// Has anything changed since [`Target::version`]?
    pub(in crate::consumer) fn version(&self) -> u64 {
        self.standing.version()
    }

    /// What this member should read now.
    pub(in crate::consumer) fn target(&self, now: Duration) -> Result<Found> {
        let state = loop {
            let version = self.version(); // before the look: what changes during it is looked at again
            if !self.group.settle(now)? {
                return Ok(Found::PutOff { version });
            }
            let state = self.group.state.lock();
            if state.epoch == state.settled || state.members.is_empty() {
                break state;
            } // else something has changed in between
        };
        let version = self.version(); // what changes is told behind the lock
        let Some(seat) = state.members.get(&self.id) else {
            return Ok(Found::ShutOut);
        };
        Ok(Found::Target(Target {
            version,
            generation: state.generation,
            owned: seat.target.clone(),
            everything_first: state.is_eager() && seat.gave_up != state.generation,
        }))
    }

    /// It reads these no longer: they are free for those who should.
    pub(in crate::consumer) fn release(&self, keys: &[PartitionKey]) {
        if keys.is_empty() {
            return;
        }
        self.group.change(|state| {
            state.disown_these(&self.id, keys);
            state.tell_of(keys);
        });
    }

    /// It could not read these, which it should and has just taken. Nobody else waits for them.
    pub(in crate::consumer) fn put_back(&self, keys: &[PartitionKey]) {
        self.group.state.lock().disown_these(&self.id, keys);
    }

    /// It has given up everything, for the target of this generation.
    pub(in crate::consumer) fn gave_up(&self, generation: u64) {
        self.group.change(|state| {
            if let Some(seat) = state.members.get_mut(&self.id) {
                seat.gave_up = generation;
            }
            state.tell_if_all_gave_up(); // it may be the last that they waited for
        });
    }

    /// Takes what it should read and nobody does. `None`: the others have not given up everything yet, or this is not the target any
    /// more.
    pub(in crate::consumer) fn take(&self, generation: u64) -> Option<Vec<Taken>> {
        let mut state = self.group.state.lock();
        let state = &mut *state;
        if state.generation != generation {
            return None;
        }
        if state.is_eager() && !state.all_gave_up() {
            return None;
        }
        let seat = state.members.get_mut(&self.id)?;
        seat.generation = generation;
        let mut taken = Vec::new();
        for of in &seat.target {
            if let Entry::Vacant(free) = state.owners.entry(of.key) {
                free.insert(Owner {
                    member: Arc::clone(&self.id),
                    at: of.at.clone(),
                    halted: false,
                });
                taken.push(Taken {
                    of: of.clone(),
                    begins: match state.starts.get(&of.key) {
                        Some(Some(start)) => Begins::At(*start),
                        Some(None) => Begins::Nowhere,
                        None => Begins::Unknown,
                    },
                });
            }
        }
        Some(taken)
    }

    /// Nobody has looked where to begin there, since what was committed then was forgotten: here, or where another member has said. Kept
    /// as what is found at a join is: a hand-over before the first commit skips nothing.
    pub(in crate::consumer) fn begins(
        &self,
        key: PartitionKey,
        start: Option<Offset>,
    ) -> Option<Offset> {
        let mut state = self.group.state.lock();
        if !state.topics.values().any(|topic| topic.uuid == key.0) {
            return start; // nobody wants it any more: who comes later looks
        }
        *state.starts.entry(key).or_insert(start)
    }

    /// These topics came, went or changed, unless another member has said so.
    pub(in crate::consumer) fn changed(&self, look: Look) {
        self.group.change(|state| {
            let is_in = state.members.contains_key(&self.id); // else nobody may want these topics
            if is_in && !state.is_outdated(&look) && state.take_in(look) {
                state.change();
            }
        });
    }

    /// It wants these topics from now on. `false`: the group knows them as they were later; look again.
    pub(in crate::consumer) fn subscribe(&self, topics: &[String], look: Look) -> bool {
        self.group.change(|state| {
            if state.is_outdated(&look) {
                return false;
            }
            if let Some(seat) = state.members.get_mut(&self.id) {
                let old = std::mem::replace(&mut seat.topics, topics.into());
                state.take_in(look);
                state.want(topics);
                state.want_no_longer(&old);
                state.change();
            }
            true
        })
    }

    /// Asks for a new target, though nothing has changed.
    pub(in crate::consumer) fn rebalance(&self) {
        self.group.change(State::change);
    }

    /// A partition that it reads rests after an error, or does so no longer.
    pub(in crate::consumer) fn halted(&self, key: PartitionKey, halted: bool) {
        let mut state = self.group.state.lock();
        if let Some(owner) = state.owners.get_mut(&key)
            && owner.member == self.id
        {
            owner.halted = halted;
        }
    }

    pub(in crate::consumer) fn membership(&self, generation: u64) -> Membership {
        Membership {
            group: Arc::clone(&self.group.name),
            member: Arc::clone(&self.id),
            generation,
        }
    }

    /// Leaves the group; what it read is free.
    pub(in crate::consumer) fn leave(&self, now: Duration) {
        let what = |state: &mut State| state.remove(&self.id, FencedBy::Left);
        self.coordinator.change(&self.group, now, what);
    }

    /// Reads nothing any more. A static member keeps its place for its `session_timeout`, any other leaves.
    pub(in crate::consumer) fn step_out(&self, now: Duration) {
        let what = |state: &mut State| state.step_out(&self.id, now);
        self.coordinator.change(&self.group, now, what);
    }
}
