//! What a member stores as done: by the user's word, and by itself where that was asked for.

use std::time::Duration;

use super::{Member, Role};
use crate::consumer::coordinator::{Gate, Groups};
use crate::consumer::source::{Source, check_next};
use crate::error::{FencedBy, Result};
use crate::log::Commit;
use crate::offset::{Position, Positions};
use crate::sync::MutexGuard;

/// Commits that a poll makes when their time has come.
pub(super) struct Automatic {
    every: Duration,
    next: Duration,
    /// The batch up to which it was done.
    done: u64,
}

impl Automatic {
    pub(super) fn new(every: Duration, now: Duration) -> Automatic {
        Automatic {
            every,
            next: now.saturating_add(every),
            done: 0,
        }
    }

    fn due(&self) -> Duration {
        self.next
    }

    /// When there is something to commit, if that was the last batch.
    pub(super) fn due_after(&self, batch: u64) -> Option<Duration> {
        (self.done < batch).then_some(self.next)
    }

    /// The next one is an interval away.
    pub(super) fn restart(&mut self, now: Duration) {
        self.next = now.saturating_add(self.every);
    }
}

/// While it lives, what allows a commit stays as it is.
enum Held<'h> {
    /// Nobody fences this member.
    Member { _gate: MutexGuard<'h, Gate> },
    /// Nobody joins the group.
    Empty { _groups: MutexGuard<'h, Groups> },
}

impl Member {
    /// Everything returned so far of these is done.
    pub(super) fn commit_moved(&mut self, of: impl Fn(&Source) -> bool) -> Result<()> {
        self.log.check_open()?;
        self.store(self.moved(&of).chain(self.forgotten(&of)))?;
        for source in self.sources.iter_mut().filter(|source| of(source)) {
            source.moved = false;
        }
        Ok(())
    }

    pub(super) fn commit_moved_durably(&mut self) -> Result<()> {
        self.log.check_open()?;
        let all = |_: &Source| true;
        let moved: Vec<Commit<'_>> = self.moved(&all).chain(self.forgotten(&all)).collect();
        let still = |source: &&Source| !source.moved;
        let others = self.sources.iter().filter(still).filter_map(commit_of);
        let others: Vec<Commit<'_>> = others.collect();
        let ledger = self.log.ledger();
        ledger.commit_durable(self.group(), &moved, &others, || self.hold())?;
        for source in &mut self.sources {
            source.moved = false;
        }
        Ok(())
    }

    /// All of them or none.
    pub(super) fn commit_these(&mut self, next: &Positions) -> Result<()> {
        self.log.check_open()?;
        for position in next.iter() {
            let source = self.source(position.topic_partition())?;
            check_next(source.partition(), position.offset())?;
        }
        let commit = |position: &Position| {
            Some(Commit {
                partition: self.source(position.topic_partition()).ok()?.partition(),
                next: position.offset(),
            })
        };
        self.store(next.iter().filter_map(commit))?;
        for position in next.iter() {
            let source = self.source_mut(position.topic_partition())?;
            source.moved = source.position() != Some(position.offset());
        }
        Ok(())
    }

    /// The commit that a poll makes, if one was asked for and its time has come. An error of it takes a poll, and the next try is
    /// an interval away: a full disk does not keep records from being read.
    pub(super) fn commit_if_due(&mut self, unfinished: bool) -> Result<()> {
        let is_due = |of: &Automatic| of.due() <= self.now();
        if self.automatic.as_ref().is_some_and(is_due) {
            self.commit_automatically(unfinished)
        } else {
            Ok(())
        }
    }

    /// Commits what earlier polls returned, never backwards. If the last batch is `unfinished`, what was returned before it.
    pub(super) fn commit_automatically(&mut self, unfinished: bool) -> Result<()> {
        let now = self.now();
        let Some(automatic) = &mut self.automatic else {
            return Ok(());
        };
        automatic.restart(now);
        let mut commits = Vec::new();
        let mut done = Vec::new();
        for (i, source) in self.sources.iter().enumerate().filter(|(_, of)| of.moved) {
            let last = unfinished.then_some(self.last_batch);
            let Some(next) = source.position_before(last) else {
                continue;
            };
            let partition = source.partition();
            let committed = self.log.ledger().committed(self.group(), partition.key())?;
            if committed.is_none_or(|committed| committed < next) {
                commits.push(Commit { partition, next });
            } else if committed > Some(next) {
                continue; // never backwards
            }
            if source.position() == Some(next) {
                done.push(i);
            }
        }
        commits.extend(self.forgotten(&|_| true));
        self.store(commits.into_iter())?;
        for i in done {
            self.sources[i].moved = false;
        }
        if let Some(automatic) = &mut self.automatic {
            automatic.done = self.last_batch.saturating_sub(u64::from(unfinished));
        }
        Ok(())
    }

    fn moved<'s>(&'s self, of: &'s impl Fn(&Source) -> bool) -> impl Iterator<Item = Commit<'s>> {
        let sources = self.sources.iter();
        let sources = sources.filter(move |source| source.moved && of(source));
        sources.filter_map(commit_of)
    }

    /// Those that did not move and are not stored any more: what nobody subscribes to may expire. The time of the others counts from now on.
    fn forgotten(&self, of: &impl Fn(&Source) -> bool) -> Vec<Commit<'_>> {
        let ledger = self.log.ledger();
        if !matches!(self.role, Role::ByHand) || !ledger.expires() {
            return Vec::new();
        }
        let still = self.sources.iter();
        let still = still.filter(|source| !source.moved && of(source));
        ledger.renew(self.group(), still.filter_map(commit_of))
    }

    fn store<'s>(&'s self, commits: impl Iterator<Item = Commit<'s>>) -> Result<()> {
        self.log
            .ledger()
            .commit(self.group(), commits, || self.hold())
    }

    /// May it commit? While what is returned lives, it may.
    fn hold(&self) -> Result<Held<'_>> {
        match &self.role {
            Role::Member(place) => {
                let held = place.hold(self.now(), self.settings.max_poll_interval);
                let gate = held.map_err(|why| self.fenced(why))?;
                Ok(Held::Member { _gate: gate })
            }
            Role::ByHand => {
                let held = self.coordinator.without_members(self.group(), self.now());
                let groups = held.map_err(|_| self.fenced(FencedBy::Members))?;
                Ok(Held::Empty { _groups: groups })
            }
            Role::Out => Err(self.fenced(FencedBy::Left)),
        }
    }
}

/// Where a partition is read on.
fn commit_of(source: &Source) -> Option<Commit<'_>> {
    Some(Commit {
        partition: source.partition(),
        next: source.position()?,
    })
}
