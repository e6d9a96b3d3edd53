//! What is there, held against what was written and what the rules let go.

use thalweg::{Offset, Partition};

use crate::rules::{Written, millis};
use crate::world::{World, said};

impl World {
    /// Everything that must be there is, and nothing else.
    pub(crate) fn judge(&mut self) -> Result<(), String> {
        let partition = self.partition().map_err(said)?;
        let offsets = partition.offsets();
        let (start, end) = (offsets.start.get(), offsets.end.get());
        if end != self.end || start < self.start || start > end {
            return Err(format!(
                "{offsets:?}, and it was {}..{}",
                self.start, self.end
            ));
        }
        let now = self.now();
        for (offset, written) in self.written.range(self.start..start) {
            let deleted = *offset < self.deleted || self.rules.bytes.is_some();
            let old = self.rules.is_old(written, now);
            if !deleted && !old && !self.may_be_gone(*offset, written) {
                return Err(format!("{offset} is below {offsets:?}: {written:?}"));
            }
        }
        self.start = start;
        let there = self.read(&partition)?;
        for (offset, written) in self.written.range(start..) {
            if there.binary_search(offset).is_err() && !self.may_be_gone(*offset, written) {
                return Err(format!("{offset} is gone: {written:?}"));
            }
        }
        Ok(())
    }

    /// The offsets that can be read, each of them as it was written.
    fn read(&self, partition: &Partition) -> Result<Vec<u64>, String> {
        let mut there: Vec<u64> = Vec::new();
        for entry in partition.entries(..) {
            let offset = self.check(&entry.map_err(said)?)?;
            if there.last().is_some_and(|last| *last >= offset) {
                return Err(format!("{offset} behind {:?}", there.last()));
            }
            there.push(offset);
        }
        let mut back = Vec::new();
        for entry in partition.entries(..).rev() {
            back.push(entry.map_err(said)?.offset().get());
        }
        back.reverse();
        if back != there {
            return Err(format!("backwards {back:?}, forwards {there:?}"));
        }
        for offset in self.start..self.end.min(self.start + 40) {
            let got = partition.get(Offset::new(offset)).map_err(said)?;
            if got.is_some() != there.binary_search(&offset).is_ok() {
                return Err(format!("get {offset}: {got:?}"));
            }
        }
        Ok(there)
    }

    /// Later records of the same key.
    fn later<'w>(
        &'w self,
        offset: u64,
        of: &'w Written,
    ) -> impl Iterator<Item = (&'w u64, &'w Written)> {
        let later = self.written.range(offset + 1..);
        later.filter(move |(_, later)| later.rec.key == of.rec.key)
    }

    fn may_be_gone(&self, offset: u64, written: &Written) -> bool {
        let now = self.now();
        let mut later = self.later(offset, written);
        let superseded = written.rec.key.is_some()
            && later.any(|(_, later)| self.rules.may_supersede(later, now));
        superseded || self.rules.may_end(written, now)
    }

    /// After maintenance that left nothing to do: what has to be gone is.
    pub(crate) fn judge_maintained(&mut self) -> Result<(), String> {
        let partition = self.partition().map_err(said)?;
        let offsets = partition.offsets();
        let now = self.now();
        // Those too that are gone already: what is deleted by hand may lie in a segment that is still there.
        let mut all = self.written.values();
        if self.rules.age.is_some() && all.all(|written| self.rules.is_old(written, now)) {
            let any = partition.entries(..).next().is_some();
            if any {
                return Err(format!("all is too old, and {offsets:?}"));
            }
        }
        if let Some(limit) = self.rules.bytes {
            let segments = self.segments();
            let all: u64 = segments.iter().sum();
            let first = segments.first().copied().unwrap_or(0);
            if segments.len() > 1 && all - first >= limit {
                return Err(format!("{segments:?} where {limit} are enough"));
            }
            if offsets.start.get() > self.start.max(self.deleted)
                && self.rules.age.is_none()
                && self.rules.compacted.is_none()
                && all < limit
            {
                return Err(format!("{segments:?} are too few: {limit} are to be kept"));
            }
        }
        let lags = self.rules.compacted.filter(|lags| lags.min.is_none());
        match lags.and_then(|lags| lags.max) {
            Some(max) => self.judge_superseded(|later| later.appended + millis(max) < now),
            None => Ok(()),
        }
    }

    /// After the last segment was ended and the topic compacted: nothing is left that a later record takes the place of.
    pub(crate) fn judge_compacted(&mut self) -> Result<(), String> {
        match self.rules.compacted {
            Some(lags) if lags.min.is_none() => self.judge_superseded(|_| true),
            _ => Ok(()),
        }
    }

    /// No record is left that one like this takes the place of.
    fn judge_superseded(&mut self, by: impl Fn(&Written) -> bool) -> Result<(), String> {
        let partition = self.partition().map_err(said)?;
        for entry in partition.entries(..) {
            let offset = self.check(&entry.map_err(said)?)?;
            let written = &self.written[&offset];
            let mut later = self.later(offset, written);
            if let Some((later, _)) = later.find(|(_, later)| by(later)) {
                return Err(format!(
                    "{offset} is still there, and {later} takes its place"
                ));
            }
        }
        Ok(())
    }

    /// A poll returned these and goes on at `next`. Where it was overtaken it has said from where to where.
    pub(crate) fn judge_polled(
        &mut self,
        partition: &Partition,
        overtaken: Option<(u64, u64)>,
        returned: &[u64],
        next: u64,
    ) -> Result<(), String> {
        let (last, start) = (self.polled, self.start);
        self.polled = next;
        let (from, to) = overtaken.unwrap_or((next, next));
        let silent = returned.is_empty() && next < start; // a block that was read is given out first
        if from < last || silent || overtaken.is_some() && (from >= to || to != start) {
            return Err(format!(
                "read to {last}, told {overtaken:?}, goes on at {next}"
            ));
        }
        let there = self.read(partition)?;
        let polled = |offset: &u64| (last..from).contains(offset) || (to..next).contains(offset);
        let mut expected = there.iter().filter(|offset| polled(offset));
        // What was read before and is gone since is given out all the same.
        let ascend = returned.is_sorted_by(|one, next| one < next) && returned.iter().all(polled);
        if !ascend || !expected.all(|offset| returned.contains(offset)) {
            return Err(format!("read to {last}, {returned:?} of {there:?}"));
        }
        Ok(())
    }
}
