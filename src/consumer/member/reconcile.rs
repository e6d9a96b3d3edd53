//! How what a member reads becomes what it should read: within its own poll, step by step, told to its listener.
//!
//! 1. whoever was fenced has lost everything, is told so, and joins again
//! 2. topics that came, went or changed are told to the group
//! 3. what it should not read any more: committed if that is automatic, told as `revoked`, given up
//! 4. what it should read and nobody does: taken, and told as `assigned`

use std::collections::HashSet;

use super::{Member, Role, enter};
use crate::consumer::builder::Wanted;
use crate::consumer::coordinator::{Begins, Found, Look, Owned, Place, Taken, Target};
use crate::consumer::engine::{Caller, Going};
use crate::consumer::listener::{Rebalance, failed};
use crate::consumer::source::Source;
use crate::consumer::starts::{self, Before};
use crate::error::{Error, FencedBy, Result};
use crate::log::PartitionKey;
use crate::offset::{Offset, TopicPartition};

impl Member {
    /// Brings what it reads in line with what it should read, and commits if that is due. A few comparisons if nothing has changed.
    pub(super) fn reconcile(&mut self, caller: &mut Caller<'_>) -> Result<()> {
        self.beat(caller)?; // 1
        let changes = self.log.changes().end(); // before the look: what changes during it is looked at again
        let mut looked = Ok(());
        if changes != self.looked_at {
            looked = self.look_at_topics(changes); // 2
            if looked.is_ok() {
                self.looked_at = changes;
            }
        }
        if let Role::Member(place) = &self.role
            && self.seen != Some(place.version())
        {
            looked = self.move_partitions(caller).and(looked); // 3, 4; what a listener says is told first
        }
        looked.and(self.commit_if_due(caller.left > 0))
    }

    /// It polls, so it is alive; if it was shut out before, that is told, and it joins again where it can.
    pub(super) fn beat(&mut self, caller: &mut Caller<'_>) -> Result<()> {
        match &self.role {
            Role::Member(place) => match place.beat(self.now(), self.settings.max_poll_interval) {
                Ok(()) => Ok(()),
                Err(why) => self.lose(why, caller),
            },
            Role::ByHand => Ok(()),
            Role::Out => Err(self.fenced(FencedBy::Left)),
        }
    }

    fn lose(&mut self, why: FencedBy, caller: &mut Caller<'_>) -> Result<()> {
        let gone = self.those(|_| true);
        self.sources.clear();
        (self.seen, self.turn) = (None, 0);
        let told = if gone.is_empty() {
            Ok(())
        } else {
            caller.listener.lost(&gone).map_err(failed("lost"))
        };
        if why == FencedBy::NewerInstance {
            return told.and(Err(self.fenced(why))); // for good: two would throw each other out for ever
        }
        let before = Before {
            wanted: &self.settings.wanted,
            begun: &self.begun,
        };
        let before = Some((self.membership.member(), before));
        let wanted = &self.settings.wanted;
        let entered = enter(&self.log, &self.settings, wanted, before, &self.parker);
        if let (Role::Member(place), Err(Error::Fenced { why, .. })) = (&self.role, &entered) {
            place.fence(*why); // so that the next poll knows
        }
        match entered {
            Ok(entered) => {
                self.become_member(entered);
                told
            }
            Err(e) => told.and(Err(e)),
        }
    }

    /// Topics may have come or gone: tells the group. One that cannot be looked at is left as it was known.
    fn look_at_topics(&mut self, at: Offset) -> Result<()> {
        if matches!(self.role, Role::ByHand) {
            self.let_go_of_deleted();
            return Ok(());
        }
        let topics = match &self.settings.wanted {
            Wanted::Where(_) => starts::topics(&self.log, &self.settings.wanted)?,
            Wanted::Topics(_) | Wanted::ByHand(_) => self.topics.clone(),
        };
        let mut result = Ok(());
        let mut looked = Vec::new();
        for name in &topics {
            match starts::look_later(&self.log, name) {
                Ok(look) => looked.push(look),
                Err(e) => result = result.and(Err(e)),
            }
        }
        let look = Look { at, topics: looked };
        if let Role::Member(place) = &self.role {
            if topics == self.topics {
                place.changed(look);
            } else if place.subscribe(&topics, look) {
                self.topics = topics;
            }
        }
        result
    }

    /// Calls the listener, who may take its time.
    fn call<T>(&mut self, callback: impl FnOnce(&mut Self) -> T) -> T {
        let waited = self.place().is_ok_and(|place| place.runs(self.now()));
        let answer = callback(self);
        if waited && let Ok(place) = self.place() {
            place.waits(true, self.now());
        }
        answer
    }

    pub(super) fn place(&self) -> Result<&Place> {
        match &self.role {
            Role::Member(place) => Ok(place),
            Role::ByHand | Role::Out => Err(self.fenced(FencedBy::Left)),
        }
    }

    fn move_partitions(&mut self, caller: &mut Caller<'_>) -> Result<()> {
        let target = match self.place()?.target(self.now())? {
            Found::Target(target) => target,
            Found::PutOff { version } => {
                self.put_off = Some(version);
                return Ok(());
            }
            Found::ShutOut => return self.beat(caller), // since this poll began: it is told so
        };
        let given_up = self.give_up(&target, caller);
        let Some(taken) = self.place()?.take(target.generation) else {
            self.seen = Some(target.version); // told when the others have given up
            return given_up;
        };
        let completed = self.membership.generation() != target.generation;
        self.membership = self.place()?.membership(target.generation);
        let (added, opened) = self.open_all(taken)?;
        if opened.is_ok() {
            self.seen = Some(target.version);
        }
        let mut told = Ok(());
        if completed || !added.is_empty() {
            let now = self.now();
            if let Some(automatic) = &mut self.automatic {
                automatic.restart(now);
            }
            let listener = &mut *caller.listener;
            let assigned = |member: &mut Member| {
                listener.assigned(&mut Rebalance::new(member, &added, 0), &added)
            };
            told = self.call(assigned).map_err(failed("assigned"));
        }
        // A callback may have taken so long that it was shut out meanwhile, and what it read is read by others.
        let alive = self.beat(caller);
        given_up.and(told).and(alive).and(opened)
    }

    /// Step 3. What went wrong is told when all is done.
    fn give_up(&mut self, target: &Target, caller: &mut Caller<'_>) -> Result<()> {
        let wanted: HashSet<PartitionKey> = if target.everything_first {
            HashSet::new()
        } else {
            target.owned.iter().map(|of| of.key).collect()
        };
        let goes = |source: &Source| !wanted.contains(&source.partition().key());
        let going = self.those(goes);
        let mut result = Ok(());
        if !going.is_empty() {
            result = self.commit_automatically(caller.left > 0);
        }
        if !going.is_empty() || target.everything_first {
            let listener = &mut *caller.listener;
            let revoked = |member: &mut Member| {
                listener.revoked(&mut Rebalance::new(member, &going, 0), &going)
            };
            result = result.and(self.call(revoked).map_err(failed("revoked")));
        }
        let gone = self.sources.extract_if(.., |source| goes(source));
        let mut keys = Vec::new();
        for source in gone {
            let key = source.partition().key();
            if source.partition().is_deleted() {
                self.begun.remove(&key); // it never comes back
            }
            keys.push(key);
        }
        let place = self.place()?;
        place.release(&keys);
        if target.everything_first {
            place.gave_up(target.generation);
        }
        result
    }

    /// Opens what was taken; what cannot be opened is free again. Gives what was opened, and the first error.
    fn open_all(&mut self, taken: Vec<Taken>) -> Result<(Vec<TopicPartition>, Result<()>)> {
        let mut result = Ok(());
        let mut added = Vec::new();
        let mut failed = Vec::new();
        for Taken { of, begins } in taken {
            match self.open(&of, &begins) {
                Ok(source) => {
                    added.push(of.at);
                    self.sources.push(source);
                }
                // Deleted meanwhile: the next look at the topics tells the group.
                Err(Error::NotFound { .. }) => failed.push(of.key),
                Err(e) => {
                    failed.push(of.key);
                    result = result.and(Err(e));
                }
            }
        }
        self.place()?.put_back(&failed);
        self.sources.sort_by(|a, b| a.at().cmp(b.at()));
        added.sort();
        Ok((added, result))
    }

    /// Where the group goes on in a partition that this member has taken: what it has committed, or where it `begins`, or else (what
    /// it had committed was forgotten just now) where this member wants to.
    fn open(&mut self, of: &Owned, begins: &Begins) -> Result<Source> {
        let topic = self.log.topic(of.at.topic())?;
        let partition = topic.partition(of.at.partition())?;
        if partition.key() != of.key {
            return Err(Error::not_found("topic", of.at.topic())); // another one of its name, which the next look finds
        }
        let mut next = self.log.ledger().committed(self.group(), of.key)?;
        if next.is_none() {
            next = match begins {
                Begins::At(start) => Some(*start),
                Begins::Nowhere => None,
                Begins::Unknown => {
                    let start = starts::start(&self.log, &partition, self.settings.start_from)?;
                    self.place()?.begins(of.key, start)
                }
            };
            self.begun.insert(of.key, next);
        }
        Ok(Source::new(partition, next, &self.spares))
    }

    pub(super) fn subscribe_anew(&mut self, topics: Vec<String>) -> Result<()> {
        self.log.check_open()?;
        let wanted = Wanted::topics(topics);
        match &self.role {
            Role::ByHand => return Err(super::seeks::by_hand()),
            Role::Member(place) => loop {
                let before = Some(Before {
                    wanted: &self.settings.wanted,
                    begun: &self.begun,
                });
                let (look, topics) = starts::look(&self.log, &self.settings, &wanted, before)?;
                let begun: Vec<_> = look.starts().collect();
                if place.subscribe(&topics, look) {
                    self.topics = topics;
                    self.begun.extend(begun);
                    break;
                }
            },
            Role::Out => {
                let entered = enter(&self.log, &self.settings, &wanted, None, &self.parker)?;
                self.become_member(entered);
            }
        }
        self.settings.wanted = wanted;
        Ok(())
    }

    /// Leaves in order: automatic commit, `revoked` or, if it was shut out, `lost`, and out.
    pub(super) fn go(&mut self, going: Going, caller: &mut Caller<'_>) -> Result<()> {
        let owned = self.those(|_| true);
        let mut result = Ok(());
        let member = match &self.role {
            Role::Member(place) => {
                let shut_out = place
                    .hold(self.now(), self.settings.max_poll_interval)
                    .err();
                if shut_out.is_some() && !owned.is_empty() {
                    result = caller.listener.lost(&owned).map_err(failed("lost"));
                }
                shut_out.is_none()
            }
            Role::ByHand => {
                result = self.commit_automatically(caller.left > 0);
                false
            }
            Role::Out => false,
        };
        if member && !owned.is_empty() {
            result = self.commit_automatically(caller.left > 0);
            let mut rebalance = Rebalance::new(self, &owned, caller.left);
            let revoked = caller.listener.revoked(&mut rebalance, &owned);
            result = result.and(revoked.map_err(failed("revoked")));
        }
        self.sources.clear();
        (self.seen, self.turn) = (None, 0);
        if let Role::Member(place) = std::mem::replace(&mut self.role, Role::Out) {
            match going {
                Going::KeepingPlace => place.step_out(self.now()),
                Going::ForGood => place.leave(self.now()),
            }
        }
        self.topics.clear();
        result
    }
}
