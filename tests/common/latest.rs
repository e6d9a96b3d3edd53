//! A compacted partition: what was written to it, and the judge of what is left.
#![allow(dead_code)] // each suite uses a part of it

use std::collections::{BTreeMap, HashMap};

use thalweg::testing::ManualClock;
use thalweg::{Entry, Offset, Partition, Result};

use crate::common::{Rec, seen};

/// Everything that was appended to a partition, as it must be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Book {
    /// The record of each offset, and the time that it shows.
    pub(crate) written: BTreeMap<u64, (Rec, i64)>,
    /// The offset behind the last one.
    pub(crate) end: u64,
    /// Records below it were deleted, whatever their keys.
    pub(crate) start: u64,
    /// Records show the time of their append, whatever they say.
    pub(crate) append_times: bool,
}

impl Book {
    /// Appends a batch.
    pub(crate) fn append(
        &mut self,
        partition: &Partition,
        clock: &ManualClock,
        records: &[Rec],
    ) -> Result<()> {
        let offsets = partition.append_all(records.iter().map(Rec::record))?;
        let now = clock.now().as_millis();
        for (offset, rec) in (offsets.start.get()..).zip(records) {
            let mut rec = rec.clone();
            if self.append_times {
                rec.event_time = None;
            }
            let time = rec.event_time.unwrap_or(now);
            self.written.insert(offset, (rec, time));
        }
        self.end = offsets.end.get();
        Ok(())
    }

    /// Appends a record of this key; `None` is a tombstone.
    pub(crate) fn put(
        &mut self,
        partition: &Partition,
        clock: &ManualClock,
        key: &str,
        value: Option<&str>,
    ) {
        let rec = Rec {
            key: Some(key.into()),
            value: value.map(Into::into),
            ..Rec::default()
        };
        self.append(partition, clock, &[rec]).expect("an append");
    }

    /// What stays when everything below `clean` was compacted and no tombstone's time was up.
    pub(crate) fn left(&self, clean: u64) -> Vec<u64> {
        let mut newest = HashMap::new();
        for (offset, (rec, _)) in self.written.range(..clean) {
            newest.insert(&rec.key, *offset);
        }
        let stays = |offset: u64, key: &Option<Vec<u8>>| {
            offset >= clean || key.is_none() || newest[key] == offset
        };
        let written = self.written.range(self.start..);
        written
            .filter(|(offset, (rec, _))| stays(**offset, &rec.key))
            .map(|(offset, _)| *offset)
            .collect()
    }

    /// As [`left`](Self::left), when the time of every tombstone was up.
    pub(crate) fn left_without_tombstones(&self, clean: u64) -> Vec<u64> {
        let mut left = self.left(clean);
        left.retain(|offset| *offset >= clean || self.written[offset].0.value.is_some());
        left
    }

    /// The offsets that can be read, if that is what compaction may leave: of each key the latest record, or nothing if that is a
    /// tombstone; and no record that was not written so, there, at that time.
    pub(crate) fn judge(&self, partition: &Partition) -> Result<Vec<u64>, String> {
        if partition.offsets().end != Offset::new(self.end) {
            let offsets = partition.offsets();
            return Err(format!("{offsets:?}, and the end was {}", self.end));
        }
        self.judge_certain(partition, self.end)
    }

    /// As [`judge`](Self::judge), where of the records at `certain` and behind the last ones may be lost.
    pub(crate) fn judge_certain(
        &self,
        partition: &Partition,
        certain: u64,
    ) -> Result<Vec<u64>, String> {
        let mut offsets = Vec::new();
        for entry in partition.entries(..) {
            let entry = entry.map_err(|e| format!("behind {:?}: {e:?}", offsets.last()))?;
            self.check(&entry)?;
            let offset = entry.offset().get();
            if offsets.last().is_some_and(|last| *last >= offset) {
                return Err(format!("{offset} behind {:?}", offsets.last()));
            }
            offsets.push(offset);
        }
        let last = offsets.last().map_or(0, |last| last + 1);
        self.check_latest(&offsets, certain.max(last))?;
        Ok(offsets)
    }

    /// Was this record written so?
    pub(crate) fn check(&self, entry: &Entry) -> Result<(), String> {
        let (offset, rec) = seen(entry);
        let time = entry.timestamp().as_millis();
        match self.written.get(&offset) {
            Some((was, then)) if *was == rec && *then == time && offset >= self.start => Ok(()),
            was => Err(format!("{offset} is {rec:?} at {time}, and was {was:?}")),
        }
    }

    /// Is, of what was written below `end`, each key's latest record among these?
    pub(crate) fn check_latest(&self, offsets: &[u64], end: u64) -> Result<(), String> {
        let mut latest = HashMap::new();
        for (offset, (rec, _)) in self.written.range(self.start..end.max(self.start)) {
            let there = offsets.binary_search(offset).is_ok();
            if rec.key.is_none() && !there {
                return Err(format!("{offset} had no key, and is gone"));
            }
            let before = latest.insert(&rec.key, (*offset, there, false));
            let any = before.is_some_and(|(_, there, any)| there || any);
            latest.entry(&rec.key).and_modify(|last| last.2 = any);
        }
        for (key, (offset, there, earlier)) in latest {
            let deleted = self.written[&offset].0.value.is_none();
            if key.is_some() && !there && (!deleted || earlier) {
                let what = if deleted { "came back" } else { "is lost" };
                return Err(format!("{key:?} {what}: its latest was {offset}"));
            }
        }
        Ok(())
    }

    /// As [`judge`](Self::judge), and every way of reading finds the same.
    pub(crate) fn judge_every_way(&self, partition: &Partition) -> Result<Vec<u64>, String> {
        let offsets = self.judge(partition)?;
        let mut back = Vec::new();
        for entry in partition.entries(..).rev() {
            back.push(entry.map_err(|e| format!("backwards: {e:?}"))?.offset());
        }
        back.reverse();
        if !back.iter().map(|offset| offset.get()).eq(offsets.clone()) {
            return Err(format!("backwards {back:?}, forwards {offsets:?}"));
        }
        for at in self.start..self.end {
            let there = offsets.binary_search(&at);
            let got = partition.get(Offset::new(at));
            match got.map_err(|e| format!("get {at}: {e:?}"))? {
                Some(entry) if there.is_ok() => self.check(&entry)?,
                None if there.is_err() => {}
                other => return Err(format!("get {at}: {other:?}, and read {offsets:?}")),
            }
            let next = partition.entries(Offset::new(at)..).next();
            let next = next.transpose().map_err(|e| format!("from {at}: {e:?}"))?;
            let next = next.map(|entry| entry.offset().get());
            let behind = offsets[there.unwrap_or_else(|behind| behind)..].first();
            if next.as_ref() != behind {
                return Err(format!("from {at}: {next:?}, not {behind:?}"));
            }
        }
        Ok(offsets)
    }
}
