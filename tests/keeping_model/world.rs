//! A disk, the log on it, and the plain model beside it.

use std::collections::BTreeMap;
use std::time::Duration;

use thalweg::testing::{CrashModel, Disk, ManualClock};
use thalweg::{
    Consumer, Durability, Error, FindingKind, Log, Maintenance, Offset, Partition, ReadMode,
    Result as Done, Topic,
};

use crate::Event;
use crate::common::{Dice, Rec, seen};
use crate::rules::{Rules, Written};

pub(crate) struct World {
    pub(crate) rules: Rules,
    disk: Disk,
    pub(crate) clock: ManualClock,
    log: Option<Log>,
    /// Everything that was written and not lost.
    pub(crate) written: BTreeMap<u64, Written>,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Records below it were deleted by hand.
    pub(crate) deleted: u64,
    /// Records below it survive a power loss.
    synced: u64,
    before: Before,
    reader: Option<Consumer>,
    readers: u64,
    /// Where the reader goes on.
    pub(crate) polled: u64,
    appended: i64,
}

/// As it was when the last event began.
#[derive(Clone, Copy, Default)]
struct Before {
    point: usize,
    start: u64,
    end: u64,
    synced: u64,
}

impl World {
    pub(crate) fn new(rules: Rules) -> World {
        World {
            rules,
            disk: Disk::seeded(7),
            clock: ManualClock::new(),
            log: None,
            written: BTreeMap::new(),
            start: 0,
            end: 0,
            deleted: 0,
            synced: 0,
            before: Before::default(),
            reader: None,
            readers: 0,
            polled: 0,
            appended: 0,
        }
    }

    fn log(&mut self) -> Done<Log> {
        if let Some(log) = &self.log {
            return Ok(log.clone());
        }
        let mode = if self.rules.mapped {
            ReadMode::Mapped
        } else {
            ReadMode::Positioned
        };
        let log = Log::builder()
            .maintenance(Maintenance::Manual)
            .compaction_memory(self.rules.memory)
            .read_mode(mode)
            .clock(&self.clock)
            .open_on(&self.disk)?;
        self.log = Some(log.clone());
        Ok(log)
    }

    fn topic(&mut self) -> Done<Topic> {
        let config = self.rules.config();
        self.log()?.topic_or_create("t", config)
    }

    pub(crate) fn partition(&mut self) -> Done<Partition> {
        self.topic()?.partition(0)
    }

    pub(crate) fn now(&self) -> i64 {
        self.clock.now().as_millis()
    }

    pub(crate) fn take(&mut self, event: Event) -> Result<(), String> {
        if let Event::Crash(part, model, seed) = event {
            return self.crash(part, model, seed);
        }
        self.clock.advance(Duration::from_millis(3));
        let partition = self.partition().map_err(said)?;
        self.begin();
        match event {
            Event::Append(count, seed) => self.append(&partition, count, seed),
            Event::Wait(ms) => {
                self.clock.advance(Duration::from_millis(ms));
                Ok(())
            }
            Event::Roll => partition
                .roll()
                .map(|()| self.synced = self.end)
                .map_err(said),
            Event::Maintain => self.maintain(),
            Event::Compact(rolled) => self.compact(&partition, rolled),
            Event::DeleteBefore(part) => self.delete(&partition, part),
            Event::Sync => self
                .log()
                .and_then(|log| log.sync())
                .map(|()| self.synced = self.end)
                .map_err(said),
            Event::Close => {
                self.reader = None;
                let closed = self.log().and_then(Log::close);
                self.log = None;
                self.synced = self.end;
                closed.map_err(said)
            }
            Event::Poll(most) => self.poll(&partition, most),
            Event::Crash(..) => unreachable!("it was seen to"),
        }
    }

    fn append(&mut self, partition: &Partition, count: u64, seed: u64) -> Result<(), String> {
        let mut dice = Dice::new(seed);
        let now = self.now();
        let keyless = self.rules.compacted.is_none();
        let records: Vec<Rec> = (0..count)
            .map(|_| record(&mut dice, now, keyless))
            .collect();
        let offsets = partition.append_all(records.iter().map(Rec::record));
        let offsets = offsets.map_err(said)?;
        if offsets.start.get() < self.end {
            return Err(format!(
                "{offsets:?} was given before: the end was {}",
                self.end
            ));
        }
        self.appended = self.appended.max(now);
        for (offset, rec) in (offsets.start.get()..).zip(records) {
            let appended = self.appended;
            self.written.insert(offset, Written { rec, appended });
        }
        self.end = offsets.end.get();
        if self.rules.level == Durability::Power {
            self.synced = self.end;
        }
        Ok(())
    }

    fn maintain(&mut self) -> Result<(), String> {
        let log = self.log().map_err(said)?;
        for _ in 0..1000 {
            let report = log.maintain().map_err(said)?;
            let did = report.segments_deleted + report.segments_compacted; // which may leave something to do for the next
            if did == 0 && !report.more {
                return self.judge_maintained();
            }
        }
        Err("maintenance does not come to an end".to_owned())
    }

    fn compact(&mut self, partition: &Partition, rolled: bool) -> Result<(), String> {
        if rolled {
            partition.roll().map_err(said)?;
            self.synced = self.end;
        }
        let topic = self.topic().map_err(said)?;
        match (topic.compact(), self.rules.compacted) {
            (Ok(_), Some(_)) if rolled => self.judge_compacted(),
            (Ok(_), Some(_)) | (Err(Error::InvalidSetting { .. }), None) => Ok(()),
            (other, _) => Err(format!("{other:?}")),
        }
    }

    fn delete(&mut self, partition: &Partition, part: u64) -> Result<(), String> {
        let keeps_keys = self.rules.age.is_none() && self.rules.bytes.is_none();
        let refused = self.rules.compacted.is_some() && keeps_keys;
        let before = self.start + (self.end - self.start) * part / 1000;
        match partition.delete_before(Offset::new(before)) {
            Ok(()) if !refused => {
                self.deleted = self.deleted.max(before);
                if partition.offsets().start.get() < before {
                    return Err(format!(
                        "{:?} after deleting before {before}",
                        partition.offsets()
                    ));
                }
                Ok(())
            }
            Err(Error::InvalidSetting { .. }) if refused => Ok(()),
            other => Err(format!("{other:?}")),
        }
    }

    /// A consumer sees every record that is there, once and in order; and is told what it was too late for.
    fn poll(&mut self, partition: &Partition, most: usize) -> Result<(), String> {
        let mut reader = if let Some(reader) = self.reader.take() {
            reader
        } else {
            self.readers += 1;
            self.polled = partition.offsets().start.get();
            let group = self.log().map_err(said)?;
            let group = group.group(&format!("reader-{}", self.readers));
            let reader = group
                .subscribe(["t"])
                .max_poll_records(most)
                .max_poll_interval(Duration::from_secs(1 << 40));
            reader.join().map_err(said)?
        };
        let at = partition.topic_partition();
        let batch = reader.poll(Duration::ZERO).map_err(said)?;
        let overtaken = match batch.resets() {
            [] => None,
            [reset] => Some((reset.from.offset().get(), reset.to.get())),
            other => return Err(format!("{other:?}")),
        };
        let returned: Vec<u64> = batch.iter().map(|entry| entry.offset().get()).collect();
        for entry in &batch {
            self.check(&entry.to_entry())?;
        }
        let next = reader.position(&at).map_or(0, Offset::get);
        self.judge_polled(partition, overtaken, &returned, next)?;
        self.reader = Some(reader);
        Ok(())
    }

    /// Is this what was written there?
    pub(crate) fn check(&self, entry: &thalweg::Entry) -> Result<u64, String> {
        let (offset, rec) = seen(entry);
        match self.written.get(&offset) {
            Some(was) if was.rec == rec && was.shown() == entry.timestamp().as_millis() => {
                Ok(offset)
            }
            was => Err(format!("{offset} is {rec:?}, and was {was:?}")),
        }
    }

    /// Bytes of the partition's segments, the first one first.
    pub(crate) fn segments(&self) -> Vec<u64> {
        let files = self.disk.files().into_iter();
        let ours = files.filter(|(path, _)| {
            let path = path.to_string_lossy();
            path.starts_with("/log/topics/t-") && path.ends_with(".log")
        });
        let mut ours: Vec<_> = ours.collect();
        ours.sort();
        ours.into_iter().map(|(_, len)| len).collect()
    }

    fn begin(&mut self) {
        self.before = Before {
            point: self.disk.points(),
            start: self.start,
            end: self.end,
            synced: self.synced,
        };
    }

    /// Within the last event the process or the machine dies.
    fn crash(&mut self, part: u64, model: CrashModel, seed: u64) -> Result<(), String> {
        let before = self.before;
        let now = self.disk.points();
        let at = before.point + (now - before.point) * part as usize / 1000;
        let whole = at == now;
        let disk = self.disk.crash(at, model, seed);
        let old = (self.log.take(), self.reader.take());
        self.disk = disk;
        let log = self.log().map_err(said)?;
        let gaps = log.recovery().findings().iter();
        let gaps: Vec<_> = gaps
            .filter(|finding| finding.kind == FindingKind::Gap)
            .filter_map(|finding| finding.offsets.clone())
            .collect();
        let partition = self.partition().map_err(said)?;
        let there = partition.offsets();
        let certain = match model {
            CrashModel::ProcessKill if whole => self.end,
            CrashModel::ProcessKill => before.end,
            _ if whole => self.synced,
            _ => before.synced,
        };
        let is_lost = |offset: u64| {
            let offset = Offset::new(offset);
            offset >= there.end || gaps.iter().any(|gap| gap.contains(&offset))
        };
        for offset in self.written.range(..certain).map(|(offset, _)| *offset) {
            if is_lost(offset) {
                return Err(format!(
                    "{offset} is lost: {there:?}, gaps {gaps:?}, certain {certain}"
                ));
            }
        }
        self.written.retain(|offset, _| !is_lost(*offset));
        self.end = there.end.get();
        if !whole {
            self.start = before.start;
        }
        self.synced = match model {
            CrashModel::ProcessKill => before.synced,
            _ => self.end,
        };
        self.begin();
        drop(old);
        Ok(())
    }
}

/// A record of any shape: six keys, tombstones, empty values, times of every kind.
fn record(dice: &mut Dice, now: i64, keyless: bool) -> Rec {
    let key = match dice.below(8) {
        0 if keyless => None,
        0 => Some(Vec::new()),
        n => Some(vec![b'a' + n as u8 % 6]),
    };
    let value = match dice.below(8) {
        0 | 1 => None,
        2 => Some(Vec::new()),
        _ => Some(vec![b'v'; 1 + dice.below(120) as usize]),
    };
    let event_time = match dice.below(10) {
        0 => Some(now - dice.below(100_000) as i64),
        1 => Some(now + dice.below(100_000) as i64),
        2 => Some(now + 10 * 365 * 86_400_000),
        3 => Some(-(dice.below(1000) as i64)),
        _ => None,
    };
    Rec {
        key,
        value,
        event_time,
        ..Rec::default()
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` calls")]
pub(crate) fn said(e: Error) -> String {
    format!("{e:?}")
}
