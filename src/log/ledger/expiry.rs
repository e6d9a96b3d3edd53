//! Committed offsets that expire, where the host asks for it: by the rules of Kafka (KIP-211).
//!
//! | The group | An offset goes |
//! | --- | --- |
//! | has members, and one of them subscribes to the topic | never |
//! | has members, and none of them does | so long after its last commit |
//! | has none | so long after its last commit, and after the last member went |
//!
//! Nothing counts from before the log was opened: members are not stored, so nobody knows then when a group was left, and an
//! application that was off for longer must be able to join before its place is forgotten. That is also why the time is that which
//! passes ([`Clock::elapsed`](crate::clock::Clock::elapsed)): a calendar that jumps makes no offset older.
//!
//! Each group is decided on by itself, while nobody joins it, leaves it or changes its topics, and behind the lock that orders commits:
//! a commit is either seen here, and young, or comes after the tombstone, and counts.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::live::stored_key;
use super::{Commit, Ledger, PartitionKey, chunks};
use crate::error::Result;
use crate::log::maintenance::MaintenanceReport;
use crate::record::Record;

/// A point in the time that passes, in nanoseconds: small, since there is one for each commit. The first of all unless set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(u64);

impl Moment {
    /// Stops after 584 years.
    fn of(elapsed: Duration) -> Moment {
        Moment(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    fn until(self, now: Moment) -> Duration {
        Duration::from_nanos(now.0.saturating_sub(self.0))
    }
}

/// Who reads in the groups, which only the layer above knows.
pub(crate) trait Readers: Send + Sync {
    /// Who has been silent for too long is no member from now on.
    fn sweep(&self, now: Duration);
    /// Calls `then`, once, with what is so of a group. Nobody joins it, leaves it or changes its topics meanwhile.
    fn hold(&self, group: &str, then: &mut dyn FnMut(Reading<'_>));
}

/// Who reads in a group.
pub(crate) enum Reading<'r> {
    Nobody,
    /// Does one of its members want the topic of this name?
    Members(&'r dyn Fn(&str) -> bool),
}

/// How long offsets stay, and who is asked whether they are in use.
pub(super) struct Expiry {
    after: Duration,
    /// `None` before anybody can have joined. Locked while a group is decided on.
    readers: Mutex<Option<Weak<dyn Readers>>>,
}

impl Expiry {
    pub(super) fn new(after: Duration) -> Expiry {
        Expiry {
            after,
            readers: Mutex::new(None),
        }
    }

    fn readers(&self) -> Option<Arc<dyn Readers>> {
        self.readers.lock().as_ref()?.upgrade()
    }
}

/// What is so of the group of an offset, and of its topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// A member subscribes to the topic; or it is not known which topic that is.
    Subscribed,
    /// There are members, and none of them does.
    Unsubscribed,
    NoMembers,
}

/// What decides when an offset expires.
#[derive(Clone, Copy, Debug)]
struct Facts {
    /// The log was.
    opened: Moment,
    committed: Moment,
    /// The last member went.
    emptied: Moment,
    in_use: Use,
}

impl Facts {
    /// From when on its time counts; `None`: it stays.
    fn counts_from(self) -> Option<Moment> {
        let unread_since = self.opened.max(self.committed);
        match self.in_use {
            Use::Subscribed if planted!(OFFSETS_EXPIRE_UNDER_MEMBERS) => Some(unread_since),
            Use::Subscribed => None,
            Use::Unsubscribed => Some(unread_since),
            Use::NoMembers => Some(unread_since.max(self.emptied)),
        }
    }

    fn is_expired(self, now: Moment, after: Duration) -> bool {
        self.counts_from()
            .is_some_and(|since| since.until(now) >= after)
    }
}

type TopicNames = HashMap<u128, Arc<str>>;

impl Ledger {
    /// Does what is committed expire?
    pub(crate) fn expires(&self) -> bool {
        self.expiry.is_some()
    }

    /// Now, if anybody wants to know.
    pub(super) fn moment(&self) -> Moment {
        match &self.expiry {
            Some(_) => Moment::of(self.clock.elapsed()),
            None => Moment::default(),
        }
    }

    /// From now on these are asked who reads; to be called before anybody can. What is returned wants to be told of
    /// groups that become [`emptied`](Self::emptied). `None`: nothing expires, and nobody wants to know.
    pub(crate) fn ask(&self, readers: Weak<dyn Readers>) -> Option<Weak<Ledger>> {
        let expiry = self.expiry.as_ref()?;
        *expiry.readers.lock() = Some(readers);
        Some(Weak::clone(&self.this))
    }

    /// The last member of a group has gone. Said before anybody else can join it.
    pub(crate) fn emptied(&self, group: &str, now: Duration) {
        self.live.lock().emptied(group, Moment::of(now));
    }

    /// These were committed before, and are so again now: from now on their time counts. Those that were forgotten meanwhile, or never
    /// committed, are given back: they are to be stored.
    pub(crate) fn renew<'c>(
        &self,
        group: &str,
        commits: impl Iterator<Item = Commit<'c>>,
    ) -> Vec<Commit<'c>> {
        let mut live = self.live.lock();
        let at = self.moment();
        commits
            .filter(|commit| !live.renew(group, commit.key(), commit.next, at))
            .collect()
    }

    /// Forgets what has expired. Durable with the next sync, which is asked for.
    ///
    /// # Errors
    ///
    /// As a commit: what could not be forgotten is still known, and is tried again by the next call.
    pub(in crate::log) fn expire(&self, report: &mut MaintenanceReport) -> Result<()> {
        let Some(expiry) = &self.expiry else {
            return Ok(());
        };
        // Under no lock: it wakes members, which is foreign code.
        if let Some(readers) = expiry.readers() {
            readers.sweep(self.clock.elapsed());
        }
        let names = self.topic_names();
        let mut groups = {
            let live = self.live.lock();
            if live.damage.is_some() {
                return Ok(()); // nothing goes because something else cannot be read
            }
            live.groups()
        };
        groups.sort_unstable(); // so that a simulation does the same each time
        for group in groups {
            loop {
                self.home.check_open()?;
                match self.expire_some(expiry, &group, &names)? {
                    0 => break,
                    some => report.offsets_expired += some,
                }
            }
        }
        Ok(())
    }

    /// The topics that there are. (One that comes later has no offsets yet that could expire.)
    fn topic_names(&self) -> TopicNames {
        let topics = self.topics.read();
        let cores = topics.values().filter_map(|known| known.core().ok());
        cores
            .map(|core| (core.uuid(), Arc::clone(core.name())))
            .collect()
    }

    /// As many of one group as one write takes; gives how many.
    fn expire_some(&self, expiry: &Expiry, group: &str, names: &TopicNames) -> Result<u64> {
        if !self.may_have_expired(expiry, group) {
            return Ok(0); // without a lock that joins wait for
        }
        let mut done = Ok(0);
        let mut decide = |reading: Reading<'_>| {
            let in_use = |topic: u128| match &reading {
                Reading::Nobody => Use::NoMembers,
                Reading::Members(want) => match names.get(&topic) {
                    Some(name) if !want(name) => Use::Unsubscribed,
                    _ => Use::Subscribed,
                },
            };
            done = self.forget_expired(expiry.after, group, &in_use);
        };
        let readers = expiry.readers.lock(); // who might have the first member waits
        match readers.as_ref().and_then(Weak::upgrade) {
            Some(readers) => readers.hold(group, &mut decide),
            None => decide(Reading::Nobody),
        }
        done
    }

    /// Whatever its members want: is something of a group so old?
    fn may_have_expired(&self, expiry: &Expiry, group: &str) -> bool {
        let live = self.live.lock();
        let now = self.moment();
        let is_old = |at: Moment| at.max(live.opened).until(now) >= expiry.after;
        live.of(group)
            .is_some_and(|of| of.rows.values().any(|row| is_old(row.at)))
    }

    fn forget_expired(
        &self,
        after: Duration,
        group: &str,
        in_use: &dyn Fn(u128) -> Use,
    ) -> Result<u64> {
        let mut live = self.live.lock();
        let now = self.moment();
        let Some(of_group) = live.of(group) else {
            return Ok(0);
        };
        let rows = of_group.rows.iter().filter(|(key, row)| {
            let facts = Facts {
                opened: live.opened,
                committed: row.at,
                emptied: of_group.emptied,
                in_use: in_use(key.0),
            };
            facts.is_expired(now, after)
        });
        let mut expired: Vec<PartitionKey> = rows.map(|(key, _)| *key).collect();
        expired.sort_unstable(); // as the groups
        let keys: Vec<Vec<u8>> = expired.iter().map(|key| stored_key(group, *key)).collect();
        let Some(keys) = chunks(&keys).next() else {
            return Ok(0);
        };
        let tombstones = keys.iter().map(|key| Record::tombstone(key.as_slice()));
        self.partition().append_all(tombstones)?;
        for key in &expired[..keys.len()] {
            live.remove(group, *key);
        }
        live.unsynced += keys.iter().map(|key| key.len() as u64).sum::<u64>();
        let _ = self.ask_for_sync(&mut live); // where there is no thread, who called this syncs next
        Ok(keys.len() as u64)
    }
}

#[cfg(test)]
mod tests;
