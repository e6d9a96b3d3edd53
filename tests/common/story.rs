//! What a test appended, what was said about it, and what of it must be there after a crash.
//!
//! The oracle of the fault suites: a recovered partition holds a prefix, by append order, of the record batches that were
//! sent: each whole, at its offset, byte for byte; at least those that the level promises; nothing that was refused.
#![allow(dead_code, reason = "each suite uses a part of it")]

use std::collections::BTreeMap;
use std::time::Duration;

use thalweg::testing::{CrashModel, Disk, Variants};
use thalweg::{
    Durability, Error, FindingKind, Log, Maintenance, Offset, Outcome, Partition, RecoveryReport,
    Result, Topic, TopicConfig,
};

use crate::common::Dice;

/// An interval that comes by bytes within the workloads of these suites; its time is the host's business here.
pub(crate) const INTERVAL: Durability = Durability::Interval {
    time: Duration::from_secs(3600),
    bytes: 700,
};
pub(crate) const LEVELS: [Durability; 3] = [Durability::Process, INTERVAL, Durability::Power];
pub(crate) const POWER_LOSSES: [CrashModel; 3] = [
    CrashModel::LostSuffix,
    CrashModel::LostPages,
    CrashModel::GarbagePages,
];

pub(crate) fn open(disk: &Disk) -> Result<Log> {
    Log::builder()
        .maintenance(Maintenance::Manual)
        .open_on(disk)
}

/// A topic of one partition whose segments hold a handful of records.
pub(crate) fn small(level: Durability) -> TopicConfig {
    TopicConfig::new()
        .partitions(1)
        .durability(level)
        .segment_bytes(1024)
        .index_interval(200)
}

pub(crate) fn create(log: &Log, level: Durability) -> Partition {
    first(&log.create_topic("t", small(level)).unwrap())
}

pub(crate) fn first(topic: &Topic) -> Partition {
    topic.partition(0).unwrap()
}

/// The partition that [`create`] made.
pub(crate) fn again(log: &Log) -> Result<Partition> {
    log.topic("t")?.partition(0)
}

/// The log of a disk, which must open, and the partition that [`create`] made. (The partition alone does not keep it open.)
pub(crate) fn reopened(disk: &Disk) -> (Log, Partition) {
    let log = open(disk).unwrap_or_else(|e| panic!("{e:?}"));
    let partition = again(&log).unwrap();
    (log, partition)
}

/// What a power loss leaves if everything reached the medium in time.
pub(crate) fn unplugged(disk: &Disk) -> Disk {
    let (after, model) = (disk.points(), CrashModel::LostPages);
    let all = match disk.variants(after, model) {
        Variants::All(count) => count - 1,
        _ => 1,
    };
    disk.crash(after, model, all)
}

/// What a kill of the process leaves.
pub(crate) fn killed(disk: &Disk) -> Disk {
    disk.crash(disk.points(), CrashModel::ProcessKill, 0)
}

/// The segment files of partition 0, in order.
pub(crate) fn segments(disk: &Disk) -> Vec<(String, u64)> {
    segments_of(disk, 0)
}

pub(crate) fn segments_of(disk: &Disk, partition: u32) -> Vec<(String, u64)> {
    let inside = format!("/{partition}/");
    let all = disk
        .files()
        .into_iter()
        .map(|(path, len)| (path.to_string_lossy().into_owned(), len));
    all.filter(|(path, _)| {
        path.starts_with("/log/topics/") && path.contains(&inside) && is_segment(path)
    })
    .collect()
}

fn is_segment(path: &str) -> bool {
    let ending = std::path::Path::new(path).extension();
    ending.is_some_and(|ending| ending == "log")
}

/// All records, or the first error.
pub(crate) fn read(partition: &Partition) -> Result<Vec<(u64, String)>> {
    partition
        .entries(..)
        .map(|entry| {
            let entry = entry?;
            Ok((entry.offset().get(), entry.value_str()?.to_owned()))
        })
        .collect()
}

/// The states that crashes leave: after each operation from `from` on, at most `most` of them for each.
pub(crate) fn every_crash(
    disk: &Disk,
    from: usize,
    model: CrashModel,
    most: u64,
    dice: &mut Dice,
    mut visit: impl FnMut(usize, &Disk, &str),
) -> u64 {
    let mut states = 0;
    for after in from..=disk.points() {
        let seeds: Vec<u64> = match disk.variants(after, model) {
            Variants::All(count) if count <= most => (0..count).collect(),
            _ => (0..2).chain((2..most).map(|_| dice.roll())).collect(),
        };
        for seed in seeds {
            let crashed = disk.crash(after, model, seed);
            visit(
                after,
                &crashed,
                &format!("{model:?} after {after}, seed {seed}"),
            );
            states += 1;
        }
    }
    states
}

/// One call of append.
#[derive(Clone, Debug)]
struct Sent {
    values: Vec<String>,
    /// Operations of the disk before the call.
    begun: usize,
    /// Operations when it returned `Ok`.
    acked: Option<usize>,
    /// Offset of its first record.
    first: u64,
}

/// One partition's history, as the appending side knows it.
#[derive(Clone, Debug)]
pub(crate) struct Story {
    level: Durability,
    sent: Vec<Sent>,
    /// Operations when a sync returned, and how many calls came before.
    synced: Vec<(usize, usize)>,
    refused: Vec<String>,
    /// Offsets that earlier lives acknowledged, and those of this one: taken, for ever.
    taken: BTreeMap<u64, String>,
    given: BTreeMap<u64, String>,
    calls: usize,
}

impl Story {
    pub(crate) fn new(level: Durability) -> Story {
        Story {
            level,
            sent: Vec::new(),
            synced: Vec::new(),
            refused: Vec::new(),
            taken: BTreeMap::new(),
            given: BTreeMap::new(),
            calls: 0,
        }
    }

    /// Appends `count` records of about `bytes` bytes each, and writes down what became of it.
    pub(crate) fn append(
        &mut self,
        disk: &Disk,
        partition: &Partition,
        count: usize,
        bytes: usize,
    ) -> Result<u64> {
        self.calls += 1;
        let call = self.calls;
        let values: Vec<String> = (0..count)
            .map(|n| {
                format!(
                    "{:x<bytes$}",
                    format!("call {call}, record {n} of {count} ")
                )
            })
            .collect();
        let begun = disk.points();
        let result = partition.append_all(values.iter().map(|value| ("key", value.as_str())));
        match &result {
            Ok(offsets) => {
                let first = offsets.start.get();
                assert_eq!(offsets.end.get() - first, count as u64);
                for (offset, value) in (first..).zip(&values) {
                    let before = self.given.insert(offset, value.clone());
                    let before = before.or(self.taken.get(&offset).cloned());
                    assert_eq!(before, None, "offset {offset} was given out twice");
                }
                self.sent.push(Sent {
                    values,
                    begun,
                    acked: Some(disk.points()),
                    first,
                });
            }
            Err(e) if e.outcome() == Outcome::Indeterminate => {
                let first = self.end().max(partition.offsets().end.get());
                self.sent.push(Sent {
                    values,
                    begun,
                    acked: None,
                    first,
                });
            }
            Err(_) => self.refused.extend(values),
        }
        Ok(result?.start.get())
    }

    /// The offset after the last record that was sent.
    pub(crate) fn end(&self) -> u64 {
        self.sent
            .last()
            .map_or(0, |sent| sent.first + sent.values.len() as u64)
    }

    /// The offset after the last record that was acknowledged, at any time.
    pub(crate) fn given_end(&self) -> u64 {
        let last = |offsets: &BTreeMap<u64, String>| offsets.last_key_value().map(|(&at, _)| at);
        last(&self.given)
            .max(last(&self.taken))
            .map_or(0, |last| last + 1)
    }

    pub(crate) fn batches(&self) -> usize {
        self.sent.len()
    }

    /// What was sent for this offset.
    pub(crate) fn value_at(&self, offset: u64) -> Option<&String> {
        let of =
            |sent: &&Sent| (sent.first..sent.first + sent.values.len() as u64).contains(&offset);
        let sent = self.sent.iter().find(of)?;
        sent.values.get((offset - sent.first) as usize)
    }

    /// How many calls were acknowledged before the first `after` operations were through.
    pub(crate) fn acked_by(&self, after: usize) -> usize {
        let acked = self
            .sent
            .iter()
            .filter(|sent| sent.acked.is_some_and(|at| at <= after));
        acked.count()
    }

    /// A sync of the whole log has returned.
    pub(crate) fn synced(&mut self, disk: &Disk) {
        self.synced.push((disk.points(), self.sent.len()));
    }

    /// How many batches must have survived a crash after the first `after` operations.
    fn required(&self, after: usize, model: CrashModel) -> usize {
        let acked = self
            .sent
            .iter()
            .rposition(|sent| sent.acked.is_some_and(|at| at <= after));
        let acked = acked.map_or(0, |last| last + 1);
        match model {
            CrashModel::LyingDevice => 0,
            CrashModel::ProcessKill => acked,
            _ if self.level == Durability::Power => acked,
            _ => {
                let synced = self.synced.iter().filter(|(at, _)| *at <= after);
                synced.map(|(_, count)| *count).max().unwrap_or(0)
            }
        }
    }

    /// After a crash after the first `after` operations: what is there is a prefix, and long enough. How many batches it is.
    pub(crate) fn check_crash(
        &self,
        partition: &Partition,
        after: usize,
        model: CrashModel,
        state: &str,
    ) -> usize {
        let survived = self.check(partition, state);
        let required = self.required(after, model);
        assert!(
            survived >= required,
            "{state}: {survived} of {required} acknowledged batches are there"
        );
        let begun = |sent: &&Sent| sent.begun < after || sent.acked == Some(0);
        let begun = self.sent.iter().filter(begun).count();
        assert!(survived <= begun, "{state}: a record from the future");
        survived
    }

    /// What is there is a prefix of what was sent. How many batches.
    pub(crate) fn check(&self, partition: &Partition, state: &str) -> usize {
        let found = read(partition).unwrap_or_else(|e| panic!("{state}: {e:?}"));
        self.check_records(&found, state)
    }

    pub(crate) fn check_records(&self, found: &[(u64, String)], state: &str) -> usize {
        let mut rest = found;
        for (survived, sent) in self.sent.iter().enumerate() {
            if rest.is_empty() {
                return survived;
            }
            let expected: Vec<(u64, String)> =
                (sent.first..).zip(sent.values.iter().cloned()).collect();
            let Some((batch, others)) = rest.split_at_checked(expected.len()) else {
                panic!("{state}: {rest:?} is a part of a batch only: {expected:?}");
            };
            assert_eq!(batch, expected, "{state}");
            rest = others;
        }
        assert!(rest.is_empty(), "{state}: nobody acknowledged {rest:?}");
        self.sent.len()
    }

    /// The next life begins with what survived. What is lost stays lost, and its offsets stay taken.
    pub(crate) fn go_on_with(&mut self, survived: usize) {
        self.sent.truncate(survived);
        self.synced.clear();
        self.taken.append(&mut self.given);
        for sent in &mut self.sent {
            sent.begun = 0;
            sent.acked = Some(0);
        }
        self.synced.push((0, survived));
    }

    /// As [`go_on_with`](Story::go_on_with), after a kill: of what survived, below `Power` only the first `synced` calls are durable.
    pub(crate) fn go_on_after_kill(&mut self, survived: usize, synced: usize) {
        self.go_on_with(survived);
        self.synced = vec![(0, synced.min(survived))];
    }

    /// Offsets as far as this life knew them at a crash after the first `after` operations.
    pub(crate) fn as_of(&self, after: usize) -> Story {
        let mut story = self.clone();
        let acked = |sent: &Sent| sent.acked.is_some_and(|at| at <= after);
        let given = self.sent.iter().filter(|sent| acked(sent));
        story.given = given
            .flat_map(|sent| (sent.first..).zip(sent.values.iter().cloned()))
            .collect();
        story
    }

    /// One more life: appends, closes, opens, and finds all of it, with nothing to report.
    pub(crate) fn live_on(&mut self, disk: &Disk, log: Log, partition: &Partition, state: &str) {
        let taken = self.given_end();
        let first = self
            .append(disk, partition, 2, 30)
            .unwrap_or_else(|e| panic!("{state}: {e:?}"));
        assert!(first >= taken, "{state}: {first} was given out before");
        log.close().unwrap_or_else(|e| panic!("{state}: {e:?}"));
        let log = open(disk).unwrap_or_else(|e| panic!("{state}: {e:?}"));
        assert!(log.recovery().is_empty(), "{state}: {:?}", log.recovery());
        let partition = again(&log).unwrap();
        assert_eq!(self.check(&partition, state), self.sent.len(), "{state}");
        assert_eq!(partition.offsets().end, Offset::new(self.end()), "{state}");
    }
}

/// What kinds of things opening found.
pub(crate) fn kinds(report: &RecoveryReport) -> Vec<FindingKind> {
    let findings = report.findings().iter();
    findings.map(|finding| finding.kind).collect()
}

/// The error of a call that must fail.
pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T>) -> Error {
    result.expect_err("this call must fail")
}
