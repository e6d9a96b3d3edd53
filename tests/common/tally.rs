//! What a test remembers of one partition, and the judgement whether what a crash left is allowed.
//!
//! Every append is noted with the *points* at which it began and was acknowledged: numbers of disk operations, as
//! [`Disk::points`](thalweg::testing::Disk::points) counts them. A crash after `k` operations may keep what began before, and
//! must keep what the level of durability promised by then.

#![allow(dead_code)] // each test uses a part of it

mod commits;

use std::ops::Range;

use thalweg::Durability;
use thalweg::testing::CrashModel;

use crate::common::Rec;

pub(crate) use commits::Commits;

/// A record as it is read: offset, content, and the time it shows in milliseconds.
pub(crate) type Seen = (u64, Rec, i64);

/// One record batch.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) records: Vec<Seen>,
    /// A crash after so many operations or fewer cannot have it. `None`: it was there before the first.
    began: Option<usize>,
    /// From here on its caller was told that it is there.
    acked: Option<usize>,
    /// From here on it was synced, whatever the level.
    safe: Option<usize>,
    /// What its acknowledgement meant.
    level: Durability,
}

/// One partition, as it should be.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) level: Durability,
    /// The levels that there were: a change began at the first point, and was acknowledged at the second.
    levels: Vec<(usize, usize, Durability)>,
    batches: Vec<Batch>,
    /// Ends that somebody was told, and from which point on.
    ends: Vec<(usize, u64)>,
    /// Where it begins, one after the other, ever later.
    starts: Vec<Start>,
}

/// A first offset that is there, or was meant to be.
#[derive(Clone, Copy, Debug)]
struct Start {
    offset: u64,
    /// As of a [`Batch`].
    began: Option<usize>,
    acked: Option<usize>,
}

/// How a life ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) point: usize,
    pub(crate) model: CrashModel,
    /// A write-back failed before, so that even a kill may lose what was never synced.
    pub(crate) lost_writeback: bool,
}

impl End {
    pub(crate) fn at(point: usize, model: CrashModel) -> End {
        End {
            point,
            model,
            lost_writeback: false,
        }
    }
}

impl Tally {
    pub(crate) fn new(level: Durability) -> Tally {
        Tally {
            level,
            levels: vec![(0, 0, level)],
            batches: Vec::new(),
            ends: vec![(0, 0)],
            starts: vec![Start {
                offset: 0,
                began: None,
                acked: Some(0),
            }],
        }
    }

    /// The topic has another level. Raised to `Power`, everything so far is synced when that is acknowledged.
    pub(crate) fn altered(&mut self, level: Durability, began: usize, acked: usize) {
        if self.level != Durability::Power && level == Durability::Power {
            self.synced(acked);
        }
        self.level = level;
        self.levels.push((began, acked, level));
    }

    /// May a crash leave the topic at this level? (A device that lies may have lost any change.)
    pub(crate) fn check_level(&self, found: Durability, end: End) -> Result<(), String> {
        let lies = end.model == CrashModel::LyingDevice;
        let told = self.levels.iter().rposition(|of| of.1 <= end.point);
        let may = &self.levels[told.filter(|_| !lies).unwrap_or(0)..];
        let begun = |of: &&(usize, usize, Durability)| of.0 < end.point || of.1 <= end.point;
        if may.iter().filter(begun).any(|of| of.2 == found) {
            return Ok(());
        }
        let levels = &self.levels;
        Err(format!("the level is {found:?}, of {levels:?}"))
    }

    /// As it was found at this level by who opened it. What a killed process had not been told may be in the cache alone.
    pub(crate) fn at(mut self, level: Durability, end: End) -> Tally {
        self.level = level;
        if end.model != CrashModel::ProcessKill {
            self.levels = vec![(0, 0, level)];
            return self;
        }
        self.levels
            .retain(|of| of.0 < end.point || of.1 <= end.point);
        for of in self.levels.iter_mut().filter(|of| of.1 > end.point) {
            of.1 = usize::MAX;
        }
        self
    }

    /// What was below `offset` went, between these points.
    pub(crate) fn trimmed(&mut self, offset: u64, began: usize, acked: usize) {
        if offset > self.start() {
            self.starts.push(Start {
                offset,
                began: Some(began),
                acked: Some(acked),
            });
        }
    }

    /// The first offset that is to be there.
    pub(crate) fn start(&self) -> u64 {
        self.starts.last().map_or(0, |start| start.offset)
    }

    /// A batch went in, between these points. `acked`: its caller was told so.
    pub(crate) fn add(&mut self, records: Vec<Seen>, began: usize, acked: Option<usize>) {
        if let (Some(acked), Some(last)) = (acked, records.last()) {
            self.ends.push((acked, last.0 + 1));
            for start in &mut self.starts {
                start.acked.get_or_insert(acked); // the append rests on it
            }
        }
        self.batches.push(Batch {
            records,
            began: Some(began),
            acked,
            safe: None,
            level: self.level,
        });
    }

    /// Everything so far is synced from here on.
    pub(crate) fn synced(&mut self, point: usize) {
        for batch in &mut self.batches {
            batch.safe.get_or_insert(point);
        }
    }

    /// All but the newest batch are synced from here on: a new segment was begun for that.
    pub(crate) fn rolled(&mut self, point: usize) {
        let older = self.batches.len().saturating_sub(1);
        for batch in &mut self.batches[..older] {
            batch.safe.get_or_insert(point);
        }
    }

    /// Those that are to be there.
    pub(crate) fn records(&self) -> impl DoubleEndedIterator<Item = &Seen> {
        let all = self.batches.iter().flat_map(|batch| &batch.records);
        let start = self.start();
        all.filter(move |record| record.0 >= start)
    }

    /// The greatest end that somebody was told by then.
    pub(crate) fn end_told(&self, point: usize) -> u64 {
        let told = self.ends.iter().filter(|(at, _)| *at <= point);
        told.map(|(_, end)| *end).max().unwrap_or(0)
    }

    /// How many batches may be there.
    fn begun(&self, point: usize) -> usize {
        let begun = |batch: &&Batch| batch.began.is_none_or(|began| began < point);
        self.batches.iter().take_while(begun).count()
    }

    /// How many batches must be there.
    fn floor(&self, end: End) -> usize {
        let by = |at: Option<usize>| at.is_some_and(|at| at <= end.point);
        let last = |holds: &dyn Fn(&Batch) -> bool| {
            let last = self.batches.iter().rposition(holds);
            last.map_or(0, |last| last + 1)
        };
        let acked = last(&|batch| by(batch.acked));
        let at_power = |batch: &Batch| batch.level == Durability::Power;
        let sure = last(&|batch| by(batch.safe) || at_power(batch) && by(batch.acked));
        match end.model {
            CrashModel::LyingDevice => 0,
            CrashModel::ProcessKill if !end.lost_writeback => acked.max(sure),
            _ if !end.lost_writeback => {
                let within = |batch: &Batch| matches!(batch.level, Durability::Interval { .. });
                let acked = last(&|batch| within(batch) && by(batch.acked));
                let bytes = self.batches[..acked].last().map_or(0, Batch::bound);
                sure.max(acked.saturating_sub(self.loosable(acked, bytes)))
            }
            _ => sure,
        }
    }

    /// How many of the first `acked` batches may be missing at the end, if `bytes` and one more batch may be.
    fn loosable(&self, acked: usize, bytes: u64) -> usize {
        let largest = self.batches.iter().map(Batch::bytes).max().unwrap_or(0);
        // The bytes of keys and values alone are fewer than those on disk, so this errs towards allowing; `largest` is one of them.
        let allowed = bytes + largest + 64;
        let mut lost = 0;
        let newest_first = self.batches[..acked].iter().rev();
        newest_first
            .take_while(|batch| {
                lost += batch.bytes();
                lost <= allowed
            })
            .count()
    }

    /// May it begin there?
    fn check_start(&self, start: u64, end: End) -> Result<(), String> {
        let told = |of: &&Start| {
            end.model != CrashModel::LyingDevice && of.acked.is_some_and(|at| at <= end.point)
        };
        let told = self.starts.iter().rfind(told).map_or(0, |of| of.offset);
        let may = |of: &Start| of.offset == start && of.began.is_none_or(|began| began < end.point);
        if start >= told && self.starts.iter().any(may) {
            return Ok(());
        }
        let starts = &self.starts;
        Err(format!("it begins at {start}, {told} was told: {starts:?}"))
    }

    /// Is this what such an end may leave? `Ok`: how many batches are there, or were.
    pub(crate) fn check(
        &self,
        seen: &[Seen],
        valid: Range<u64>,
        end: End,
    ) -> Result<usize, String> {
        self.check_start(valid.start, end)?;
        let next = valid.end;
        let begun = self.begun(end.point);
        let mut rest = seen;
        let mut there = 0;
        for batch in &self.batches[..begun] {
            if rest.is_empty() && batch.end() > valid.start {
                break;
            }
            rest = batch.take_from(rest, valid.start)?;
            there += 1;
        }
        if let Some(foreign) = rest.first() {
            return Err(format!("nobody wrote {foreign:?}"));
        }
        let floor = self.floor(end);
        if there < floor {
            let lost = self.batches[there].records.first();
            return Err(format!(
                "{there} batches of {begun} are there, {floor} were promised: {lost:?} is lost"
            ));
        }
        let told = self.end_told(end.point);
        if end.model != CrashModel::LyingDevice && next < told {
            return Err(format!(
                "the next offset is {next}, but {told} had been reached"
            ));
        }
        if seen.last().is_some_and(|last| last.0 >= next) {
            return Err(format!("the end {next} is not behind {:?}", seen.last()));
        }
        Ok(there)
    }

    /// Is everything that can be read right, if perhaps not all can?
    pub(crate) fn check_readable<'s>(
        &self,
        seen: impl IntoIterator<Item = &'s Seen>,
        end: End,
    ) -> Result<(), String> {
        let begun = &self.batches[..self.begun(end.point)];
        let mut written = begun.iter().flat_map(|batch| &batch.records);
        for one in seen {
            if !written.any(|record| record == one) {
                return Err(format!("nobody wrote {one:?}, or not in this order"));
            }
        }
        Ok(())
    }

    /// The partition as the next life knows it, after [`check`](Tally::check) found `there` batches. It was open, and showed
    /// them, from `opened` on, a point of the new disk; if only the process died, its points go on from those before.
    pub(crate) fn survive(
        &self,
        there: usize,
        valid: Range<u64>,
        end: End,
        opened: usize,
    ) -> Tally {
        let killed = end.model == CrashModel::ProcessKill;
        let (starts, next) = (self.starts_of(valid.start, end, opened), valid.end);
        let mut batches = self.batches[..there].to_vec();
        for batch in &mut batches {
            if killed {
                // What came after the kill never happened.
                let power = self.level == Durability::Power;
                let past = |at: Option<usize>| at.filter(|at| *at <= end.point);
                if past(batch.acked).is_none() {
                    batch.level = self.level;
                }
                batch.acked = past(batch.acked).or(Some(opened));
                batch.safe = past(batch.safe).or(power.then_some(opened));
            } else {
                // What a power loss left is on the medium.
                (batch.began, batch.acked, batch.safe) = (None, Some(0), Some(0));
            }
        }
        if !killed {
            return Tally {
                level: self.level,
                levels: self.levels.clone(),
                ends: vec![(0, self.end_told(end.point)), (opened, next)],
                batches,
                starts,
            };
        }
        let mut ends = self.ends.clone();
        ends.retain(|(at, _)| *at <= end.point);
        // Where it would go on behind a gap counts once something was written there: what this rests on may be in the cache alone.
        let last = batches.last().and_then(|batch| batch.records.last());
        ends.push((opened, next.min(last.map_or(0, |last| last.0 + 1))));
        Tally {
            level: self.level,
            levels: self.levels.clone(),
            batches,
            ends,
            starts,
        }
    }

    /// As the next life knows them, which found it to begin at `found`. What a killed process left in the cache alone is durable from
    /// the next append on, and at `Power` before anybody sees it.
    fn starts_of(&self, found: u64, end: End, opened: usize) -> Vec<Start> {
        let killed = end.model == CrashModel::ProcessKill;
        if !killed {
            return vec![Start {
                offset: found,
                began: None,
                acked: Some(0),
            }];
        }
        let power = self.level == Durability::Power;
        let there = self.starts.iter().filter(|start| start.offset <= found);
        let as_found = |start: &Start| Start {
            acked: start
                .acked
                .filter(|at| *at <= end.point)
                .or(power.then_some(opened)),
            ..*start
        };
        there.map(as_found).collect()
    }
}

impl Tally {
    /// The process was killed, and the topic was not there for who looked: what came after the kill never happened.
    pub(crate) fn unseen(&mut self, end: End) {
        self.batches.truncate(self.begun(end.point));
        let past = |at: Option<usize>| at.filter(|at| *at <= end.point);
        for batch in &mut self.batches {
            (batch.acked, batch.safe) = (past(batch.acked), past(batch.safe));
        }
        self.ends.retain(|(at, _)| *at <= end.point);
        let begun = |start: &Start| start.began.is_none_or(|began| began < end.point);
        self.starts.retain(begun);
        for start in &mut self.starts {
            start.acked = past(start.acked);
        }
    }
}

impl Batch {
    /// The offset behind it.
    fn end(&self) -> u64 {
        self.records.last().map_or(0, |last| last.0 + 1)
    }

    /// What is seen behind it, where the partition begins at `start`.
    fn take_from<'s>(&self, seen: &'s [Seen], start: u64) -> Result<&'s [Seen], String> {
        let left = self.records.iter().filter(|record| record.0 >= start);
        let left: Vec<&Seen> = left.collect();
        for (n, record) in left.iter().enumerate() {
            match seen.get(n) {
                None => {
                    let of = left.len();
                    return Err(format!("only {n} of a batch of {of} are there: {record:?}"));
                }
                Some(one) if one != *record => {
                    return Err(format!("{one:?} instead of {record:?}"));
                }
                Some(_) => {}
            }
        }
        Ok(&seen[left.len()..])
    }

    /// Bytes of its level that may be un-synced.
    fn bound(&self) -> u64 {
        match self.level {
            Durability::Interval { bytes, .. } => bytes,
            _ => 0,
        }
    }

    fn bytes(&self) -> u64 {
        let len = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        let of = |rec: &Rec| len(&rec.key) + len(&rec.value);
        self.records.iter().map(|(_, rec, _)| of(rec) as u64).sum()
    }
}
