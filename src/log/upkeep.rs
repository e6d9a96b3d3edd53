//! The upkeep that nobody asks for: idle segments come to an end, old ones go, compacted topics are compacted, and what groups have
//! committed expires, where that is wanted.
//!
//! One pass looks at every partition and stops when it has done so much; whoever calls it is told whether there is more. Nothing here holds
//! a lock that appends or reads take while a file is written, synced or removed.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::inner::Topics;
use super::ledger::{Ledger, PartitionKey};
use super::maintenance::MaintenanceReport;
use super::topic::TopicCore;
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::partition::Partition;
use crate::partition::agenda::Chore;
use crate::partition::ages::JUMP;
use crate::partition::compaction::{Compacted, Dirt};
use crate::partition::home::Home;
use crate::partition::retention::Most;
use crate::partition::settings::Settings;

/// A pass removes so many segments at most.
const REMOVED_AT_ONCE: u64 = 10_000;
/// A pass begins no round of compaction once it has read so much for others.
const READ_AT_ONCE: u64 = 256 << 20;
/// So long after the calendar jumped ahead of the time that passed, a pass removes one segment of a partition for its age and no more, and
/// compacts nothing unless it is asked to: time for somebody to see to the clock.
const WARY_FOR: Duration = Duration::from_secs(60 * 60);

/// Looks after the topics of one open log, and after offsets that expire.
pub(super) struct Upkeep {
    this: Weak<Upkeep>,
    home: Arc<Home>,
    topics: Topics,
    ledger: Arc<Ledger>,
    /// Bytes that the table of keys may take while a partition is compacted.
    memory: usize,
    /// How often a thread does a pass; `None`: the host does.
    every: Option<Duration>,
    /// Held for a look, and not over a pass: that wakes readers, whose code may want one. (Two of them may do no harm to each other.)
    seen: Mutex<Seen>,
}

/// What the last pass saw.
struct Seen {
    /// What the calendar said, and the time that had passed.
    clock: (Timestamp, Duration),
    /// When the calendar was seen to have jumped ahead, in time that had passed, and how far.
    jump: Option<(Duration, Duration)>,
    /// Where something could not be read that was to be compacted, and from which offset to which that was: it is not tried again
    /// before there is more, or less.
    failed: HashMap<PartitionKey, (u64, u64)>,
    /// What a pass of the thread met, which has nobody to tell.
    failure: Option<Arc<Error>>,
}

impl Upkeep {
    pub(super) fn new(
        home: &Arc<Home>,
        topics: &Topics,
        ledger: &Arc<Ledger>,
        memory: usize,
        every: Option<Duration>,
    ) -> Arc<Upkeep> {
        let clock = (home.clock.now(), home.clock.elapsed());
        Arc::new_cyclic(|this| Upkeep {
            this: Weak::clone(this),
            home: Arc::clone(home),
            topics: Arc::clone(topics),
            ledger: Arc::clone(ledger),
            memory,
            every,
            seen: Mutex::new(Seen {
                clock,
                jump: None,
                failed: HashMap::new(),
                failure: None,
            }),
        })
    }

    /// A topic like this is to be looked after: soon, and again and again, if there is a thread to do it.
    pub(super) fn ask_for(&self, settings: &Settings) {
        if self.every.is_some() && needs_upkeep(settings) {
            self.ask(Duration::ZERO);
        }
    }

    /// As [`ask_for`](Self::ask_for), for the offsets that groups commit.
    pub(super) fn ask_for_offsets(&self) {
        if self.every.is_some() && self.ledger.expires() {
            self.ask(Duration::ZERO);
        }
    }

    fn ask(&self, within: Duration) {
        let chore: Weak<dyn Chore> = self.this.clone();
        self.home.upkeep.ask(&chore, within);
    }

    /// What a pass of the thread met, if all is not well since.
    pub(super) fn failure(&self) -> Option<Arc<Error>> {
        self.seen.lock().failure.clone()
    }

    /// One pass. That all is well is noted.
    ///
    /// # Errors
    ///
    /// As [`go_through`](Self::go_through).
    pub(super) fn pass(&self, report: &mut MaintenanceReport) -> Result<()> {
        self.go_through(report)?;
        let mut seen = self.seen.lock();
        if seen.failed.is_empty() {
            seen.failure = None;
        }
        Ok(())
    }

    /// One pass.
    ///
    /// # Errors
    ///
    /// The first that a partition gives, the ledger too; the others are looked after all the same.
    fn go_through(&self, report: &mut MaintenanceReport) -> Result<()> {
        let now = self.home.clock.now();
        let wary = self.seen.lock().look_at(now, self.home.clock.elapsed());
        report.clock_jump = wary;
        let cores: Vec<Arc<TopicCore>> = self
            .topics
            .read()
            .values()
            .filter_map(|known| known.core().ok().cloned())
            .collect();
        let partitions = || cores.iter().flat_map(|core| core.partitions.iter());
        let mut result = self.ledger.expire(report);
        for partition in partitions() {
            self.home.check_open()?;
            let trimmed = trim(partition, now, wary.is_some(), report);
            result = result.and(unless_gone(partition, trimmed));
        }
        if wary.is_some() {
            return result;
        }
        let mut due: Vec<(Dirt, &Partition)> = Vec::new();
        for partition in partitions() {
            match partition.dirt(now) {
                Ok(dirt) => due.extend(dirt.map(|dirt| (dirt, partition))),
                Err(e) => result = result.and(unless_gone(partition, Err(e))),
            }
        }
        let mut seen = self.seen.lock();
        let still = |of: &PartitionKey, reach: &(u64, u64)| {
            let mut due = due.iter();
            due.any(|(dirt, partition)| partition.key() == *of && dirt.reach == *reach)
        };
        seen.failed.retain(|of, reach| still(of, reach));
        due.retain(|(_, of)| !seen.failed.contains_key(&of.key()));
        drop(seen);
        result.and(self.compact(due, report))
    }

    /// The filthiest first, until so much was read.
    fn compact(
        &self,
        mut due: Vec<(Dirt, &Partition)>,
        report: &mut MaintenanceReport,
    ) -> Result<()> {
        due.sort_by(|(a, _), (b, _)| {
            let overdue = b.overdue.cmp(&a.overdue);
            overdue.then(b.ratio().total_cmp(&a.ratio()))
        });
        let (mut read, mut result) = (0, Ok(()));
        for (dirt, partition) in due {
            self.home.check_open()?;
            if read >= READ_AT_ONCE {
                report.more = true;
                break;
            }
            match partition.compact(self.memory, self.home.clock.now()) {
                Ok(done) => {
                    self.seen.lock().failed.remove(&partition.key());
                    read += done.read;
                    report.more |= done.more;
                    report.add(&done);
                }
                Err(e) => {
                    if e.is_corruption() || matches!(e, Error::Incompatible { .. }) {
                        let key = partition.key();
                        self.seen.lock().failed.insert(key, dirt.reach);
                    }
                    result = result.and(unless_gone(partition, Err(e)));
                }
            }
        }
        result
    }

    /// Compacts a topic as far as it can be, whatever its settings say of when that pays.
    pub(super) fn compact_now(
        &self,
        core: &TopicCore,
        report: &mut MaintenanceReport,
    ) -> Result<()> {
        let mut result = Ok(());
        for partition in core.partitions.iter() {
            loop {
                match partition.compact(self.memory, self.home.clock.now()) {
                    Ok(done) => {
                        report.add(&done);
                        if !done.more {
                            break;
                        }
                    }
                    Err(e) => {
                        result = result.and(Err(e));
                        break;
                    }
                }
            }
        }
        result
    }
}

/// Ends the last segment of a partition if it is too old, and removes those that need not be kept.
fn trim(
    partition: &Partition,
    now: Timestamp,
    wary: bool,
    report: &mut MaintenanceReport,
) -> Result<()> {
    let cleared = partition.tend(now).and_then(|()| partition.clear_debris()); // a file that stays does not keep the others
    let left = REMOVED_AT_ONCE.saturating_sub(report.segments_deleted);
    let most = Most {
        in_all: left,
        by_age: if wary { 1 } else { u64::MAX },
    };
    let trimmed = partition.trim(now, most)?;
    report.segments_deleted += trimmed.segments;
    report.bytes_freed += trimmed.bytes;
    report.more |= trimmed.more;
    cleared
}

/// What goes wrong while a topic is deleted is nobody's loss.
fn unless_gone(partition: &Partition, result: Result<()>) -> Result<()> {
    match result {
        Err(Error::NotFound { .. }) => Ok(()),
        Err(_) if partition.is_gone() => Ok(()),
        result => result,
    }
}

/// Is there anything to be done for a topic like this that no append does?
pub(super) fn needs_upkeep(settings: &Settings) -> bool {
    !settings.retention.is_unlimited() || settings.compaction.is_some()
}

impl Seen {
    /// How far the calendar has jumped ahead, if that was a short time ago.
    fn look_at(&mut self, now: Timestamp, elapsed: Duration) -> Option<Duration> {
        let (then, before) = self.clock;
        self.clock = (now, elapsed);
        let expected = then.plus(elapsed.saturating_sub(before));
        let ahead = now.as_millis().saturating_sub(expected.as_millis());
        let ahead = Duration::from_millis(u64::try_from(ahead).unwrap_or(0));
        let is_recent = |(at, _): &(Duration, _)| elapsed.saturating_sub(*at) < WARY_FOR;
        self.jump = self.jump.filter(is_recent);
        // One at a time: a computer that sleeps jumps each time it wakes, and would else be wary for ever.
        if ahead >= JUMP && self.jump.is_none() {
            self.jump = Some((elapsed, ahead));
        }
        self.jump.map(|(_, by)| by)
    }
}

impl MaintenanceReport {
    fn add(&mut self, done: &Compacted) {
        self.segments_compacted += done.segments;
        self.bytes_freed += done.freed;
    }
}

impl Chore for Upkeep {
    fn run(&self) -> Result<()> {
        let mut report = MaintenanceReport::default();
        let done = self.pass(&mut report);
        if let Some(every) = self.every {
            self.ask(if report.more { Duration::ZERO } else { every });
        }
        if let Err(e) = done
            && !matches!(e, Error::Closed)
        {
            self.seen.lock().failure = Some(Arc::new(e)); // nobody waits for an answer
        }
        Ok(())
    }

    fn whose(&self) -> String {
        "the upkeep of topics".to_owned()
    }
}

#[cfg(test)]
mod tests;
