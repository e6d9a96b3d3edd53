//! Who is a member of which group, what each should read, and what each does read.
//!
//! ```text
//!   a member joins or leaves, falls silent, a topic comes or goes ─▶ the target is stale
//!   the next poll of any member ─▶ target: who should read what          (the assignor, under no lock)
//!   each member, in its own poll ─▶ gives up what it should not read ─▶ takes what nobody reads
//! ```
//!
//! Nobody waits for anybody: a partition moves when the one who read it has given it up, or was fenced, and in between the
//! others go on. Locks are taken in this order: all groups, one group, the [`Standing`](standing::Standing) of one member, the
//! [`Ledger`].

mod admin;
mod aftermath;
mod expiry;
mod place;
mod standing;
mod state;
mod target;
mod topics;

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::assignor::Assignor;
use super::wake::Parker;
use crate::error::Result;
use crate::log::Ledger;
use crate::sync::{AtomicU64, Mutex, MutexGuard};

pub(super) use admin::SeenMember;
use aftermath::Aftermath;
pub(super) use place::{Begins, Found, Place, Taken, Target, Waiting};
pub(super) use standing::Gate;
pub(super) use state::{Look, Looked, Owned, Start, Starts, TopicInfo};
use state::{Seat, State};

/// The groups of one open log that have members.
#[derive(Default)]
pub(super) struct Coordinator {
    groups: Mutex<Groups>,
}

#[derive(Default)]
pub(super) struct Groups {
    by_name: HashMap<Arc<str>, Arc<Group>>,
    /// A group that is made begins above these, so that it never repeats what one of its name was before.
    generation: u64,
    joined: u64,
    /// Where it is told that a group is left, if it matters there.
    ledger: Option<Weak<Ledger>>,
}

/// One group with members.
pub(super) struct Group {
    name: Arc<str>,
    /// When somebody's time runs out, at the earliest, in nanoseconds of the clock.
    due: AtomicU64,
    /// The same, as a member that waits must know it: not for its own sake, so never if it is alone.
    due_to_others: AtomicU64,
    state: Mutex<State>,
}

/// How the members of a group share: all name the same.
#[derive(Clone)]
pub(super) struct Protocol {
    pub(super) assignor: Arc<dyn Assignor>,
    /// The assignor's: asked once, since it is foreign code.
    pub(super) name: Arc<str>,
    /// Everybody gives up everything before anybody takes something.
    pub(super) eager: bool,
}

impl Protocol {
    fn agrees(&self, other: &Protocol) -> bool {
        self.name == other.name && self.eager == other.eager
    }
}

/// How long a member may be silent, and its place may be kept.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Between two polls.
    pub(super) poll_interval: Duration,
    /// After a static member has gone or fallen silent.
    pub(super) session_timeout: Duration,
    /// From the first join of an empty group to its first target.
    pub(super) rebalance_delay: Duration,
}

/// Who wants to join.
pub(super) struct Joining<'j> {
    pub(super) group: &'j str,
    /// Begins the member's id.
    pub(super) client: &'j str,
    pub(super) instance: Option<&'j str>,
    /// The member that it was before it was shut out.
    pub(super) instead_of: Option<&'j str>,
    pub(super) topics: &'j [String],
    pub(super) protocol: &'j Protocol,
    pub(super) limits: Limits,
    pub(super) parker: &'j Arc<Parker>,
}

impl Coordinator {
    /// A new member. `None`: the group knows the topics as they were later; look again.
    ///
    /// # Errors
    ///
    /// `InvalidSetting` where the members share in another way; `Fenced` if it was shut out, and its static member's place is
    /// another one's since.
    pub(super) fn join(
        self: &Arc<Self>,
        joining: &Joining<'_>,
        look: Look,
        now: Duration,
    ) -> Result<Option<Place>> {
        let mut after = Aftermath::default();
        let mut groups = self.groups.lock();
        groups.sweep_all(now, &mut after);
        let group = groups.named(joining.group);
        let admitted = groups.change(&group, now, &mut after, |state| {
            state.admit(joining, look, now)
        });
        let place = |(id, standing)| Place::new(Arc::clone(self), group, id, standing);
        admitted.map(|admitted| admitted.map(place))
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

    /// Whose time has run out is fenced, and places that were kept long enough are given up.
    fn sweep(&self, group: &Arc<Group>, now: Duration) {
        self.change(group, now, |state| state.expire(now));
    }

    /// Does something that may end the group.
    fn change<T>(
        &self,
        group: &Arc<Group>,
        now: Duration,
        what: impl FnOnce(&mut State) -> T,
    ) -> T {
        let mut after = Aftermath::default(); // before the lock, so dropped after it
        self.groups.lock().change(group, now, &mut after, what)
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
            due: AtomicU64::new(u64::MAX),
            due_to_others: AtomicU64::new(u64::MAX),
            state: Mutex::new(State::after(self.generation, self.joined)),
        });
        self.by_name.insert(name, Arc::clone(&group));
        group
    }

    fn sweep_all(&mut self, now: Duration, after: &mut Aftermath) {
        let due = self.by_name.values().filter(|group| group.is_due(now));
        for group in due.cloned().collect::<Vec<_>>() {
            self.change(&group, now, after, |state| state.expire(now));
        }
    }

    fn change<T>(
        &mut self,
        group: &Arc<Group>,
        now: Duration,
        after: &mut Aftermath,
        what: impl FnOnce(&mut State) -> T,
    ) -> T {
        let mut state = group.state.lock();
        let done = what(&mut state);
        group.set_due(&mut state, now);
        after.take(&mut state);
        if state.members.is_empty() {
            after.outlive(state.protocol.take()); // it may end with its group
        }
        self.forget_if_empty(group, &state, now);
        done
    }

    fn forget_if_empty(&mut self, group: &Arc<Group>, state: &State, now: Duration) {
        if state.members.is_empty() {
            self.generation = self.generation.max(state.generation);
            self.joined = self.joined.max(state.joined);
            let same = |known: &Arc<Group>| Arc::ptr_eq(known, group);
            if self.by_name.get(&group.name).is_some_and(same) {
                self.by_name.remove(&group.name);
                self.tell_emptied(group, now);
            }
        }
    }
}

impl Group {
    fn is_due(&self, now: Duration) -> bool {
        nanos(now) >= self.due.load(Ordering::Relaxed) // Relaxed: a hint; who acts on it looks again behind the lock
    }

    fn set_due(&self, state: &mut State, now: Duration) {
        let due = state.due(now).map_or(u64::MAX, nanos);
        self.due.store(due, Ordering::Relaxed);
        let due = if state.is_alone() { u64::MAX } else { due };
        if due < self.due_to_others.swap(due, Ordering::Relaxed) {
            state.ring_all(); // who sleeps does so for too long
        }
    }

    /// Does something to the group, and then, when nothing is locked, what is left to do.
    fn change<T>(&self, what: impl FnOnce(&mut State) -> T) -> T {
        let mut after = Aftermath::default(); // before the lock, so dropped after it
        let mut state = self.state.lock();
        let done = what(&mut state);
        after.take(&mut state);
        done
    }
}

/// Saturates after 584 years.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(all(test, shuttle))]
mod schedules;
#[cfg(all(test, not(shuttle)))]
mod tests;
