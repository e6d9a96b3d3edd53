//! Scripted work on a simulated log, and what it should have left at every moment.

#![allow(dead_code)] // each test uses a part of it

mod past;
mod trims;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use thalweg::testing::{CrashModel, Disk, ManualClock};
use thalweg::{
    Durability, Error, Log, Maintenance, Offset, Partition, ReadMode, RecoveryReport, Result,
    Retention, Topic, TopicConfig,
};

use crate::common::{self, Dice, Rec};
use crate::tally::{Commits, End, Seen, Tally};

pub(crate) use past::{Life, Made, directories};

/// A partition: the name of its topic, its number.
pub(crate) type Key = (&'static str, u32);

/// The group whose commits are tested.
pub(crate) const GROUP: &str = "readers";

/// Offsets of a segment, so few that gaps stay readable.
pub(crate) const SPAN: u32 = 1000;

/// One thing that a workload does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Makes a topic of two partitions and segments of 4 KiB.
    Topic(&'static str, Durability),
    /// Gives a topic another level.
    Alter(&'static str, Durability),
    /// The same, with a retention.
    Keep(&'static str, Durability, Retention),
    /// Deletes a topic.
    Delete(&'static str),
    /// One record of about so many bytes.
    Append(Key, usize),
    /// One batch: so many records of about so many bytes.
    Batch(Key, u32, usize),
    /// Ends the segment.
    Roll(Key),
    /// `Log::sync`.
    Sync,
    /// `Log::maintain`.
    Maintain,
    /// `delete_before` of all but so many offsets at the end.
    Trim(Key, u64),
    /// So many seconds pass.
    Wait(u64),
    /// The group reads what there is in the topic and commits it.
    Commit(&'static str),
    /// Closes the log in order; the next step that needs it opens it.
    Close,
    /// The process dies.
    Kill,
    /// The machine dies; of the states that the model allows, the number chooses.
    PowerLoss(CrashModel, u64),
    /// `STATE` is lost while the log is closed: all evidence is gone.
    LoseState,
}

/// A disk, the log on it, and what should be there.
pub(crate) struct World {
    pub(crate) disk: Disk,
    pub(crate) clock: ManualClock,
    mode: ReadMode,
    log: Option<Log>,
    pub(crate) tallies: BTreeMap<Key, Tally>,
    pub(crate) topics: BTreeMap<&'static str, Life>,
    pub(crate) commits: BTreeMap<Key, Commits>,
    /// Topics that were deleted, as long as a crash may bring them back.
    pub(crate) past: Vec<Made>,
    /// Every name that a topic had, and its level.
    pub(crate) names: BTreeMap<&'static str, Durability>,
    /// Topics are deleted in this world.
    pub(crate) deletes: bool,
    /// Records go in this world, the oldest first.
    pub(crate) trims: bool,
    /// Points at which the log was closed in order.
    pub(crate) clean: Vec<usize>,
    /// There was a power loss, or damage to the evidence, so that recovery may have to judge by the weaker rule after a kill.
    pub(crate) power_lost: bool,
    number: u64,
}

/// What opening found.
pub(crate) struct Opened {
    pub(crate) log: Log,
    pub(crate) report: RecoveryReport,
    /// From this point on it was open.
    pub(crate) since: usize,
}

impl World {
    pub(crate) fn new(seed: u64) -> World {
        World::on(Disk::seeded(seed))
    }

    pub(crate) fn on(disk: Disk) -> World {
        World {
            disk,
            clock: ManualClock::new(),
            mode: ReadMode::Positioned,
            log: None,
            tallies: BTreeMap::new(),
            topics: BTreeMap::new(),
            commits: BTreeMap::new(),
            past: Vec::new(),
            names: BTreeMap::new(),
            deletes: false,
            trims: false,
            clean: Vec::new(),
            power_lost: false,
            number: 0,
        }
    }

    /// Sealed segments are read through maps from now on.
    pub(crate) fn mapped(mut self) -> World {
        self.mode = ReadMode::Mapped;
        self
    }

    /// A world after these steps, none of which may fail.
    pub(crate) fn after(seed: u64, steps: &[Step]) -> World {
        let mut world = World::new(seed);
        for step in steps {
            let done = world.take(*step);
            done.unwrap_or_else(|why| panic!("{step:?}: {why}"));
        }
        world
    }

    /// The log, opened if it is not.
    pub(crate) fn log(&mut self) -> Result<Log> {
        if let Some(log) = &self.log {
            return Ok(log.clone());
        }
        let log = self.open(&self.disk)?;
        self.log = Some(log.clone());
        Ok(log)
    }

    fn open(&self, disk: &Disk) -> Result<Log> {
        let builder = Log::builder().maintenance(Maintenance::Manual);
        let builder = builder.read_mode(self.mode).clock(&self.clock);
        builder.open_on(disk)
    }

    pub(crate) fn topic(&mut self, name: &str) -> Result<Topic> {
        self.log()?.topic(name)
    }

    pub(crate) fn partition(&mut self, key: Key) -> Result<Partition> {
        self.topic(key.0)?.partition(key.1)
    }

    pub(crate) fn take(&mut self, step: Step) -> Result<(), String> {
        self.clock.advance(Duration::from_millis(7));
        let said = |e: Error| format!("{e:?}");
        match step {
            Step::Topic(name, level) => self.create(name, level, config(level)).map_err(said),
            Step::Alter(name, level) => self.alter(name, level).map_err(said),
            Step::Keep(name, level, keep) => {
                self.trims = true;
                let config = config(level).retention(keep);
                self.create(name, level, config).map_err(said)
            }
            Step::Trim(key, keep) => self.trim(key, keep).map_err(said),
            Step::Wait(seconds) => {
                self.clock.advance(Duration::from_secs(seconds));
                Ok(())
            }
            Step::Delete(name) => self.delete(name).map_err(said),
            Step::Append(key, len) => self.append(key, 1, len).map(drop).map_err(said),
            Step::Batch(key, count, len) => self.append(key, count, len).map(drop).map_err(said),
            Step::Roll(key) => {
                self.partition(key).and_then(|p| p.roll()).map_err(said)?;
                let now = self.disk.points();
                self.tally(key).synced(now);
                Ok(())
            }
            Step::Sync => {
                self.log().and_then(|log| log.sync()).map_err(said)?;
                self.all_synced();
                Ok(())
            }
            Step::Maintain => self.maintain().map_err(said),
            Step::Commit(topic) => self.commit(topic).map_err(said),
            Step::Close => {
                self.log().and_then(Log::close).map_err(said)?;
                self.log = None;
                self.all_synced();
                self.clean.push(self.disk.points());
                Ok(())
            }
            Step::Kill => self.end_life(0, CrashModel::ProcessKill, 0),
            Step::PowerLoss(model, seed) => self.end_life(0, model, seed),
            Step::LoseState => {
                self.power_lost = true;
                self.clean.clear();
                let lost = self.disk.remove("/log/STATE");
                lost.map_err(|e| e.to_string())
            }
        }
    }

    fn create(&mut self, name: &'static str, level: Durability, config: TopicConfig) -> Result<()> {
        let mut life = Life {
            began: Some(self.disk.points()),
            ..Life::default()
        };
        self.log()?.create_topic(name, config)?;
        life.acked = Some(self.disk.points());
        let dirs = directories(&self.disk);
        let (_, tag) = dirs
            .into_iter()
            .find(|(of, _)| of == name)
            .expect("it was made");
        life.tag = tag;
        self.topics.insert(name, life);
        self.names.insert(name, level);
        for partition in 0..2 {
            let tally = Tally::new(level);
            self.tallies.insert((name, partition), tally);
        }
        Ok(())
    }

    fn delete(&mut self, name: &'static str) -> Result<()> {
        let log = self.log()?;
        self.deletes = true;
        let began = self.disk.points();
        log.delete_topic(name)?;
        let acked = self.disk.points();
        let mut made = self.pack(name).expect("a topic that was made");
        made.life.gone = Some((began, Some(acked)));
        self.past.push(made);
        Ok(())
    }

    /// Takes a topic out of what is there.
    fn pack(&mut self, name: &'static str) -> Option<Made> {
        let life = self.topics.remove(name)?;
        Some(Made {
            name,
            life,
            tallies: take_of(&mut self.tallies, name),
            commits: take_of(&mut self.commits, name),
        })
    }

    fn unpack(&mut self, made: Made) {
        self.topics.insert(made.name, made.life);
        self.tallies.extend(made.tallies);
        self.commits.extend(made.commits);
    }

    pub(crate) fn tally(&mut self, key: Key) -> &mut Tally {
        self.tallies.get_mut(&key).expect("a topic that was made")
    }

    /// New records, unlike all before.
    pub(crate) fn records(&mut self, count: u32, len: usize) -> Vec<Rec> {
        let mut make = || {
            self.number += 1;
            let mut dice = Dice::new(self.number);
            Rec::of_any_shape(self.number, len, &mut dice)
        };
        (0..count).map(|_| make()).collect()
    }

    /// Appends a batch and notes it. The offset of its first record.
    pub(crate) fn append(&mut self, key: Key, count: u32, len: usize) -> Result<u64> {
        let partition = self.partition(key)?;
        let records = self.records(count, len);
        let (began, files) = (self.disk.points(), self.segments(key));
        let first = match &records[..] {
            [one] => partition.append(one.record())?.offset(),
            many => partition.append_all(many.iter().map(Rec::record))?.start,
        };
        let acked = self.disk.points();
        self.note(key, first.get(), records, began, Some(acked));
        let life = self.topics.get_mut(key.0).expect("a topic that was made");
        life.acked.get_or_insert(acked);
        if self.segments(key) > files {
            self.tally(key).rolled(acked);
        }
        Ok(first.get())
    }

    /// These records went in, or may have.
    pub(crate) fn note(
        &mut self,
        key: Key,
        first: u64,
        records: Vec<Rec>,
        began: usize,
        acked: Option<usize>,
    ) {
        let now = self.clock.now().as_millis();
        let numbered = (first..).zip(records);
        let seen = numbered.map(|(offset, rec)| {
            let time = rec.event_time.unwrap_or(now);
            (offset, rec, time)
        });
        let seen = seen.collect();
        self.tally(key).add(seen, began, acked);
    }

    fn segments(&self, key: Key) -> usize {
        let (topic, partition) = key;
        let names = self.disk.files().into_iter().map(|(path, _)| path);
        let dir = format!("/log/topics/{topic}-");
        let ours = names.filter(|path| {
            let path = path.to_string_lossy();
            path.starts_with(&dir)
                && path.contains(&format!("/{partition}/"))
                && path.ends_with(".log")
        });
        ours.count()
    }

    fn all_synced(&mut self) {
        let now = self.disk.points();
        self.tallies
            .values_mut()
            .for_each(|tally| tally.synced(now));
        self.commits.values_mut().for_each(|c| c.synced(now));
    }

    fn commit(&mut self, topic: &'static str) -> Result<()> {
        let log = self.log()?;
        let mut reader = log.group(GROUP).subscribe([topic]).join()?;
        while !reader.poll(Duration::ZERO)?.is_empty() {}
        let began = self.disk.points();
        reader.commit()?;
        let acked = self.disk.points();
        reader.close()?;
        for position in log.group(GROUP).committed()?.iter() {
            let key = self.tallies.keys().find(|key| {
                let at = position.topic_partition();
                key.0 == at.topic() && key.1 == at.partition().get()
            });
            let Some(&key) = key else { continue };
            let commits = self.commits.entry(key).or_default();
            commits.add(position.offset().get(), began, acked);
        }
        Ok(())
    }

    /// The process or the machine died so many operations ago, and what is left must be right.
    pub(crate) fn end_life(
        &mut self,
        ago: usize,
        model: CrashModel,
        seed: u64,
    ) -> Result<(), String> {
        let end = End::at(self.disk.points().saturating_sub(ago), model);
        let disk = self.disk.crash(end.point, model, seed);
        let old = self.log.take();
        let found = self.reopen(&disk, end)?;
        self.log = Some(found.log);
        drop(old); // what it writes while it closes goes to the disk that was left
        Ok(())
    }

    /// Goes on with a disk as such an end left it, if what is on it is allowed.
    pub(crate) fn reopen(&mut self, disk: &Disk, end: End) -> Result<Opened, String> {
        let opened = self.open(disk).map_err(|e| format!("open: {e:?}"))?;
        let opened = Opened {
            report: opened.recovery().clone(),
            log: opened,
            since: disk.points(),
        };
        self.become_next_life(disk, &opened, end)?;
        Ok(opened)
    }

    fn become_next_life(&mut self, disk: &Disk, found: &Opened, end: End) -> Result<(), String> {
        let killed = end.model == CrashModel::ProcessKill;
        self.find_topics(disk, found, end)?;
        for (key, tally) in &mut self.tallies {
            let topic = found.log.topic(key.0).map_err(|e| format!("{e:?}"))?;
            let partition = topic.partition(key.1).map_err(|e| format!("{e:?}"))?;
            let (seen, _) = read(&partition).map_err(|e| format!("{key:?}: {e:?}"))?;
            let valid = valid(&partition);
            let there = tally.check(&seen, valid.clone(), end);
            let there = there.map_err(|why| format!("{key:?}: {why}"))?;
            let level = topic.settings().durability;
            tally.check_level(level, end)?;
            let found_so = tally.clone().at(level, end);
            *tally = found_so.survive(there, valid, end, found.since);
        }
        let committed = found.log.group(GROUP).committed();
        let committed = committed.map_err(|e| format!("committed: {e:?}"))?;
        for key in self.tallies.keys() {
            let commits = self.commits.entry(*key).or_default();
            let at = thalweg::TopicPartition::new(key.0, key.1);
            let next = committed.next(&at).map(Offset::get);
            commits
                .check(next, end)
                .map_err(|why| format!("{key:?}: {why}"))?;
            commits.survive(next, end, found.since);
        }
        self.power_lost |= !killed;
        self.clean.retain(|at| killed && *at <= end.point);
        self.disk = disk.clone();
        Ok(())
    }

    /// The same world, as it was remembered so far, to be led on from a crash of its disk.
    pub(crate) fn branch(&self) -> World {
        World {
            disk: self.disk.clone(),
            clock: self.clock.clone(),
            mode: self.mode,
            log: None,
            tallies: self.tallies.clone(),
            topics: self.topics.clone(),
            commits: self.commits.clone(),
            past: self.past.clone(),
            names: self.names.clone(),
            deletes: self.deletes,
            trims: self.trims,
            clean: self.clean.clone(),
            power_lost: self.power_lost,
            number: self.number,
        }
    }

    /// Goes on with this handle of the present disk.
    pub(crate) fn enter(&mut self, log: Log) {
        self.log = Some(log);
    }
}

/// Takes what is known of the partitions of a topic.
fn take_of<V>(known: &mut BTreeMap<Key, V>, name: &str) -> BTreeMap<Key, V> {
    let all = std::mem::take(known).into_iter();
    let (of, others) = all.partition(|(key, _)| key.0 == name);
    *known = others;
    of
}

/// A topic with two partitions, and segments so small that they roll within twenty appends.
pub(crate) fn config(level: Durability) -> TopicConfig {
    TopicConfig::new()
        .partitions(2)
        .durability(level)
        .segment_bytes(4096)
        .index_interval(512)
        .offset_span(SPAN)
}

/// The first readable offset, and the end.
pub(crate) fn valid(partition: &Partition) -> Range<u64> {
    let valid = partition.offsets();
    valid.start.get()..valid.end.get()
}

/// Everything in a partition, and its end.
pub(crate) fn read(partition: &Partition) -> Result<(Vec<Seen>, u64)> {
    let mut seen = Vec::new();
    for entry in partition.entries(..) {
        let entry = entry?;
        let (offset, rec) = common::seen(&entry);
        seen.push((offset, rec, entry.timestamp().as_millis()));
    }
    Ok((seen, partition.offsets().end.get()))
}
