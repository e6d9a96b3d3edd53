//! How a member sleeps when there is nothing, as a thread and as a task.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::{Member, Role};
use crate::consumer::batch::Batch;
use crate::consumer::coordinator::{Place, Waiting};
use crate::consumer::engine::{Caller, Wait};
use crate::consumer::source::Source;
use crate::error::Result;
use crate::partition::progress::Watch;

impl Member {
    /// Waits until there is something, or the time is over: then the batch is empty.
    pub(super) fn wait(&mut self, wait: Wait, caller: &mut Caller<'_>) -> Result<Batch> {
        let clock = Arc::clone(self.log.clock());
        let deadline = match wait {
            Wait::AtMost(limit) => Some(clock.elapsed().saturating_add(limit)),
            Wait::ForEver => None,
        };
        let mut waiting = self.waiting();
        loop {
            // The order matters: armed, registered, looked, and only then asleep. What happens in between rings.
            self.parker.arm();
            let watches = self.watch();
            let moves = clock.watch(&self.waker());
            let seen = self.seen;
            let batch = self.look(caller)?;
            if batch.says_something() {
                return Ok(batch);
            }
            let same = |place: &Place| waiting.as_ref().is_some_and(|of| place.is_waiting(of));
            let other = self.place().is_ok_and(|place| !same(place));
            if other {
                waiting = self.waiting(); // it was shut out meanwhile, and is another member now
            }
            let now = clock.elapsed();
            let limit = deadline.map(|deadline| deadline.saturating_sub(now));
            if limit == Some(Duration::ZERO) {
                return Ok(batch);
            }
            if other || self.seen != seen {
                continue; // partitions came or went: those that it reads now ring
            }
            // On a clock that a test moves, its moves ring, and no real time counts.
            let limit = match moves {
                Some(_) => None,
                None => self
                    .until_due(now, caller.left)
                    .into_iter()
                    .chain(limit)
                    .min(),
            };
            self.parker.park(limit);
            // Nearly always there is something now, and then nothing is armed and registered again.
            let batch = self.look(caller)?;
            if batch.says_something() {
                return Ok(batch);
            }
            drop((watches, moves));
        }
    }

    fn waiting(&self) -> Option<Waiting> {
        let place = self.place().ok()?;
        Some(place.waiting(self.log.clock()))
    }

    /// How long until there is something to do that nobody rings for.
    fn until_due(&self, now: Duration, left: usize) -> Option<Duration> {
        let others = match &self.role {
            Role::Member(place) => place.due(),
            Role::ByHand | Role::Out => None,
        };
        let own = self.automatic.as_ref().filter(|_| left == 0);
        let own = own.and_then(|own| own.due_after(self.last_batch));
        let next = others.into_iter().chain(own).min()?;
        Some(next.saturating_sub(now))
    }

    pub(super) fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.parker))
    }

    fn watch(&self) -> Vec<Watch> {
        let waker = self.waker();
        let progress = self
            .sources
            .iter()
            .filter(|source| !source.is_halted() && !source.paused)
            .map(Source::progress);
        progress
            .chain([self.log.changes()])
            .map(|progress| progress.watch(&waker))
            .collect()
    }

    /// Registers the task, then looks whether a poll would do something.
    pub(super) fn sleep_as(&mut self, task: &mut Context<'_>) -> Poll<()> {
        self.asleep = None;
        self.parker.arm_task(Some(task.waker().clone()));
        self.watches = self.watch();
        self.watches.extend(self.log.clock().watch(&self.waker()));
        if self.would_do_something() {
            self.wake_up();
            return Poll::Ready(());
        }
        self.asleep = self.waiting();
        Poll::Pending
    }

    pub(super) fn wake_up(&mut self) {
        self.parker.arm_task(None);
        self.watches.clear();
        self.asleep = None;
    }

    fn would_do_something(&self) -> bool {
        let group = match &self.role {
            Role::Member(place) => {
                let version = Some(place.version());
                self.seen != version && self.put_off != version
            }
            Role::ByHand => false,
            Role::Out => true, // it says so
        };
        let due = || self.until_due(self.now(), 0) == Some(Duration::ZERO);
        group
            || self.parker.is_woken()
            || self.log.check_open().is_err()
            || self.log.changes().end() != self.looked_at
            || self.sources.iter().any(Source::has_news)
            || due()
    }
}
