//! Compaction: of each key the latest record stays, at its offset, and what it took the place of goes.
//!
//! A round, which the crash tests walk through:
//!
//! 1. the newest offset of each key is collected, from where the last round ended until the memory for it is full, and what stands before
//!    is looked through for what these take the place of
//! 2. run by run, the oldest first, the segments up to there are rewritten without what was superseded; each takes the place of its run
//!    by the order of [`pass`](super::pass). Tombstones learn when they may go; those whose time is up do
//! 3. the manifest says up to where the partition is clean, and when the first tombstone may go: durable
//!
//! A crash in between leaves some runs rewritten and others not. Nothing is wrong with that: of every key at least the latest record is
//! there, and a tombstone goes only in a round after the one that removed, in this order, what it deletes. The round is then done again.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::ages::{Ages, Begin, latest, over_at};
use super::newest::Newest;
use super::pass::{Pass, file_len, runs};
use super::policy::{Compaction, RetentionTime};
use super::settings::Settings;
use super::{Inner, Partition, manifest};
use crate::clock::Timestamp;
use crate::error::Result;
use crate::format::root::{Clean, Manifest};
use crate::segment::Segment;
use crate::segment::rewrite::{Keeper, Packing};
use crate::segment::whole::{Candidate, each_record};

/// How a partition is to be compacted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) now: Timestamp,
    /// Bytes that the table of keys may take.
    pub(crate) memory: usize,
    pub(crate) packing: Packing,
    /// How long a tombstone stays after what it deletes. `None`: it goes with it.
    pub(crate) tombstones: Option<Duration>,
    /// Segments with a record that is no older than this stay as they are.
    pub(crate) settled: Option<(RetentionTime, Duration)>,
    /// Segments are put together up to this size.
    pub(crate) run_bytes: u64,
}

/// What a round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compacted {
    /// Segments that others took the place of, and the bytes that this freed.
    pub(crate) segments: u64,
    pub(crate) freed: u64,
    /// Bytes of the segments that were looked through.
    pub(crate) read: u64,
    /// Another round is needed.
    pub(crate) more: bool,
}

/// Why a partition should be compacted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dirt {
    /// Bytes that no round has seen, of those that may be compacted.
    pub(crate) dirty: u64,
    pub(crate) clean: u64,
    /// Something is overdue, however little is dirty.
    pub(crate) overdue: bool,
    /// The first offset of what may be compacted, and the one behind the last.
    pub(crate) reach: (u64, u64),
}

impl Dirt {
    /// The dirty part, from 0 to 1.
    #[expect(
        clippy::cast_precision_loss,
        reason = "what is compared is a setting with few digits"
    )]
    pub(crate) fn ratio(&self) -> f64 {
        self.dirty as f64 / (self.dirty + self.clean).max(1) as f64
    }

    /// Is it enough?
    fn is_due(&self, compaction: &Compaction) -> bool {
        self.overdue || self.dirty > 0 && self.ratio() > f64::from(compaction.dirty_ratio())
    }
}

impl Plan {
    /// For a topic with these settings.
    fn of(settings: &Settings, compaction: &Compaction, memory: usize, now: Timestamp) -> Plan {
        let settled = compaction.min_lag.filter(|lag| !lag.is_zero());
        Plan {
            now,
            memory,
            packing: Packing::AsTheyWere,
            tombstones: Some(compaction.tombstones()),
            settled: settled.map(|lag| (settings.retention_time, lag)),
            run_bytes: settings.segment_bytes,
        }
    }
}

impl Partition {
    /// One round, if the topic is compacted.
    pub(crate) fn compact(&self, memory: usize, now: Timestamp) -> Result<Compacted> {
        let settings = self.inner.settings();
        match &settings.compaction {
            Some(compaction) => self.compact_as(&Plan::of(&settings, compaction, memory, now)),
            None => Ok(Compacted::default()),
        }
    }

    /// One round by this plan.
    ///
    /// # Errors
    ///
    /// `Corruption`, `Incompatible`, `Io` if a record cannot be read: what it is the latest of is not known, so everything stays. Of the
    /// disk, if the new segments cannot be written.
    pub(crate) fn compact_as(&self, plan: &Plan) -> Result<Compacted> {
        let pass = self.next_pass()?;
        let mut sealed = pass.sealed()?;
        sealed.truncate(pass.inner.settled(plan, &sealed)?);
        let mut round = Round::collect(&pass, plan, &sealed)?; // 1
        if round.has_work() {
            round.look_through_clean()?;
            round.rewrite()?; // 2, 3
        }
        Ok(round.done)
    }

    /// What there is to compact; `None` if that is nothing, or too little.
    pub(crate) fn dirt(&self, now: Timestamp) -> Result<Option<Dirt>> {
        let inner = &*self.inner;
        let settings = inner.settings();
        let Some(compaction) = &settings.compaction else {
            return Ok(None);
        };
        if inner.segments().slots.len() < 2 || !inner.is_sound() {
            return Ok(None); // the last segment is never compacted
        }
        let plan = Plan::of(&settings, compaction, 0, now);
        let dirt = self.dirt_by(&plan, compaction.max_lag)?;
        Ok(dirt.filter(|dirt| dirt.is_due(compaction)))
    }

    /// By this plan; `None` while somebody is at it.
    pub(crate) fn dirt_by(&self, plan: &Plan, max_lag: Option<Duration>) -> Result<Option<Dirt>> {
        let Some(pass) = self.try_pass() else {
            return Ok(None);
        };
        let clean = self.inner.clean();
        let horizon = clean.and_then(|clean| clean.horizon);
        let mut dirt = Dirt {
            dirty: 0,
            clean: 0,
            overdue: horizon.is_some_and(|horizon| horizon < plan.now.as_millis()),
            reach: (0, 0),
        };
        let below = clean.map_or(0, |clean| clean.below);
        let sealed = pass.sealed()?;
        for segment in &sealed[..pass.inner.settled(plan, &sealed)?] {
            if dirt.reach.1 == 0 {
                dirt.reach.0 = segment.base();
            }
            dirt.reach.1 = end_of(segment);
            if end_of(segment) <= below {
                dirt.clean += file_len(segment);
                continue;
            }
            let totals = segment.seal().map(|seal| seal.footer.accumulator);
            let first = totals.filter(|totals| totals.records > 0);
            dirt.overdue |= first.zip(max_lag).is_some_and(|(totals, lag)| {
                over_at(Begin::of(&segment.header), &totals, lag, plan.now) < plan.now
            });
            dirt.dirty += file_len(segment);
        }
        Ok(Some(dirt))
    }
}

impl Inner {
    /// How far it is compacted.
    fn clean(&self) -> Option<Clean> {
        self.manifest.lock().manifest.clean
    }

    /// How many of the sealed segments may be compacted, from the oldest on. Those that were once need no lag any more. Where nobody knows
    /// how old one is, the last segment may be begun anew, which will say it.
    fn settled(&self, plan: &Plan, sealed: &[Arc<Segment>]) -> Result<usize> {
        let Some((by, lag)) = plan.settled else {
            return Ok(sealed.len());
        };
        let before = plan.now.minus(lag);
        let below = self.clean().map_or(0, |clean| clean.below);
        let Some(last) = self.writer.lock().last() else {
            return Ok(0);
        };
        let (now, totals) = (plan.now, &last.totals);
        let (count, unknown) = Ages::new(by, now).older(sealed, last.begin, before, below)?;
        let over = || totals.records == 0 || over_at(last.begin, totals, lag, now) <= now;
        if unknown && over() {
            self.renew_last()?;
        }
        Ok(count)
    }
}

fn end_of(segment: &Segment) -> u64 {
    let seal = segment.seal();
    seal.map_or(segment.base(), |seal| seal.footer.next_base)
}

/// A round that is under way.
struct Round<'r> {
    pass: &'r Pass<'r>,
    plan: &'r Plan,
    /// What may be compacted.
    sealed: &'r [Arc<Segment>],
    /// What was found out about each.
    traits: Vec<Trait>,
    judge: Judge,
    done: Compacted,
    /// Bytes of the files that went, and of those that took their place.
    before: u64,
    after: u64,
}

/// What step 1 found out about a segment.
#[derive(Clone, Copy, Default)]
struct Trait {
    /// How many of its records were superseded; while they are collected, how many were told of.
    superseded: u64,
    /// Something in it is to be told when it may go, or may go now.
    news: bool,
}

/// Says which records stay.
struct Judge {
    newest: Newest,
    /// The keys of records from the first offset to the second are known; what is behind stays as it is.
    from: u64,
    to: u64,
    /// All records there have a key.
    keyed: bool,
    /// Tombstones of an earlier time may go.
    now: i64,
    /// When those that were not told yet may go. `None`: at once.
    horizon: Option<i64>,
    /// When the first tombstone may go of those that stay.
    earliest: Option<i64>,
    /// A record was met whose batch stays whole: it may be one that a tombstone deletes, so that no tombstone behind it goes.
    fixed: bool,
}

impl<'r> Round<'r> {
    /// Step 1.
    fn collect(
        pass: &'r Pass<'r>,
        plan: &'r Plan,
        sealed: &'r [Arc<Segment>],
    ) -> Result<Round<'r>> {
        let from = pass.inner.clean().map_or(0, |clean| clean.below);
        let first = sealed.partition_point(|segment| end_of(segment) <= from);
        let dirty = sealed.iter().skip(first);
        let records = dirty.filter_map(|segment| segment.seal());
        let records = records.map(|seal| seal.footer.accumulator.records).sum();
        let seed = pass.inner.home.log as u64;
        let horizon = plan.tombstones.map(|stay| plan.now.plus(stay).as_millis());
        let mut round = Round {
            pass,
            plan,
            sealed,
            traits: vec![Trait::default(); sealed.len()],
            judge: Judge {
                newest: Newest::new(records, plan.memory, seed, from),
                from,
                to: sealed.last().map_or(from, |last| end_of(last)).max(from),
                keyed: true,
                now: plan.now.as_millis(),
                horizon,
                earliest: None,
                fixed: false,
            },
            done: Compacted::default(),
            before: 0,
            after: 0,
        };
        for at in first..sealed.len() {
            round.collect_from(at)?;
        }
        let last = sealed.len().saturating_sub(1);
        let all = round.judge.newest.take_in();
        debug_assert!(all, "what has no room is said at once");
        round.done.more |= sealed
            .get(last)
            .is_some_and(|last| round.judge.to < end_of(last));
        Ok(round)
    }

    fn collect_from(&mut self, at: usize) -> Result<()> {
        let (segment, found, judge) = (&self.sealed[at], &mut self.traits[at], &mut self.judge);
        if segment.base() >= judge.to {
            return Ok(());
        }
        self.pass.go_on()?;
        // A round has ended within it.
        found.news |= segment.base() < judge.from;
        self.done.read += file_len(segment);
        let from = judge.from;
        each_record(
            &self.pass.inner.home.ground,
            segment,
            |next| next.max(from),
            |record| {
                found.superseded += u64::from(judge.collect(&record));
                found.news |= judge.is_news(&record);
            },
        )
    }

    /// Was something added since the last round, or may a tombstone go?
    fn has_work(&self) -> bool {
        let clean = self.pass.inner.clean();
        let horizon = clean.and_then(|clean| clean.horizon);
        self.judge.from < self.judge.to || horizon.is_some_and(|horizon| horizon < self.judge.now)
    }

    /// The rest of step 1: what the clean part holds that was superseded since.
    fn look_through_clean(&mut self) -> Result<()> {
        for (segment, found) in self.sealed.iter().zip(&mut self.traits) {
            if end_of(segment) > self.judge.from {
                break;
            }
            self.pass.go_on()?;
            self.done.read += file_len(segment);
            let ground = &self.pass.inner.home.ground;
            each_record(
                ground,
                segment,
                |next| next,
                |record| {
                    found.superseded += u64::from(!self.judge.wants(record));
                },
            )?;
        }
        Ok(())
    }

    /// Steps 2 and 3.
    fn rewrite(&mut self) -> Result<()> {
        self.count_newest();
        for run in self.runs() {
            if run.len() == 1 && self.traits[run.start].is_as_it_should_be() {
                continue;
            }
            if self.done.segments > 0 && self.pass.is_wanted() {
                self.done.more = true; // somebody waits; and something is done, so that who asks again and again comes to an end
                return Ok(());
            }
            // From now on, or a little later, what they delete is gone.
            let inner = self.pass.inner;
            let now = inner.home.clock.now().max(self.plan.now);
            let last = inner.writer.lock().last();
            let now = latest(now, self.sealed, last.as_ref());
            self.judge.horizon = self.plan.tombstones.map(|stay| now.plus(stay).as_millis());
            let (run, packing) = (&self.sealed[run], self.plan.packing);
            let swapped = self.pass.swap(run, packing, &mut self.judge)?;
            self.done.segments += swapped.segments;
            self.before += swapped.before;
            self.after += swapped.after;
            self.done.freed = self.before.saturating_sub(self.after);
        }
        let clean = Clean {
            below: self.judge.to,
            horizon: self.judge.earliest,
        };
        self.pass.change_manifest(|stored, ground, place| {
            let manifest = Manifest {
                clean: Some(clean),
                ..stored.manifest.clone()
            };
            manifest::write(ground, place, stored, manifest) // 3
        })
    }

    /// Of what was told of, the newest were not superseded.
    fn count_newest(&mut self) {
        let bases: Vec<u64> = self.sealed.iter().map(|segment| segment.base()).collect();
        for offset in self.judge.newest.offsets() {
            let at = bases.partition_point(|&base| base <= offset) - 1;
            self.traits[at].superseded -= 1;
        }
    }

    /// What becomes one segment each, up to where this round goes. What will be small is put together with its neighbours, so that no
    /// pile of files is left that hold next to nothing.
    fn runs(&self) -> Vec<Range<usize>> {
        let within = |segment: &Arc<Segment>| segment.base() < self.judge.to;
        let count = self.sealed.partition_point(within);
        let stays = |at: usize| {
            let seal = self.sealed[at].seal();
            let records = seal.map_or(0, |seal| seal.footer.accumulator.records);
            let left = records.saturating_sub(self.traits[at].superseded);
            let bytes = seal.map_or(0, |seal| seal.data_end - self.sealed[at].header_len);
            (u128::from(bytes) * u128::from(left) / u128::from(records.max(1))) as u64 // a part of a length
        };
        runs(&self.sealed[..count], self.plan.run_bytes, stays)
    }
}

impl Trait {
    /// Nothing is to be left out of the segment, and nothing in it is to be told.
    fn is_as_it_should_be(self) -> bool {
        self.superseded == 0 && !self.news
    }
}

impl Judge {
    /// Tells of a record, in order. Was it taken in?
    fn collect(&mut self, record: &Candidate<'_>) -> bool {
        if !(self.from..self.to).contains(&record.offset) {
            return false;
        }
        let Some(key) = record.key else {
            self.keyed = false;
            return false;
        };
        let room = self.newest.note(key, record.offset);
        if !room {
            self.to = record.offset; // where the round ends
        }
        room
    }

    /// Does the record say something that its batch is to be told, or that it may go?
    fn is_news(&mut self, record: &Candidate<'_>) -> bool {
        if !record.tombstone || record.key.is_none() || record.offset >= self.to {
            return false;
        }
        if let Some(horizon) = record.horizon {
            self.stays_until(horizon);
        }
        record.horizon.is_none_or(|horizon| horizon < self.now)
    }

    fn stays_until(&mut self, horizon: i64) {
        self.earliest = Some(self.earliest.map_or(horizon, |known| known.min(horizon)));
    }
}

impl Keeper for Judge {
    fn wants(&mut self, record: Candidate<'_>) -> bool {
        let Some(key) = record.key else {
            return true; // nothing can take its place
        };
        self.fixed |= record.fixed;
        let offset = record.offset;
        let superseded = match offset {
            _ if offset >= self.to && !planted!(DROPPED_BEYOND_ROUND) => return true,
            _ if offset >= self.from => self.newest.next(offset) != Some(offset),
            _ => self.newest.knows(key),
        };
        if superseded || !record.tombstone {
            return !superseded;
        }
        match record.horizon.or(self.horizon) {
            _ if self.fixed => true,
            None => false,
            Some(horizon)
                if record.horizon.is_some()
                    && (horizon < self.now || planted!(TOMBSTONE_DROPPED_EARLY)) =>
            {
                false
            }
            Some(horizon) => {
                self.stays_until(horizon);
                true
            }
        }
    }

    fn next_wanted(&mut self, from: u64) -> u64 {
        if !self.keyed || !(self.from..self.to).contains(&from) {
            return from; // what stands here was not looked at, or has no key
        }
        self.newest.next(from).unwrap_or(self.to)
    }

    fn horizon(&self, last: u64) -> Option<i64> {
        self.horizon.filter(|_| last < self.to)
    }
}

#[cfg(test)]
mod tests;
