//! What the tests of the ledger share: groups that commit, and what they find again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use thalweg::testing::{Disk, ManualClock};
use thalweg::{
    Consumer, Durability, FindingKind, Log, Offset, Positions, TopicConfig, TopicPartition,
};

use crate::common;

/// Bytes that a segment of the ledger must have to be worth rewriting.
pub(crate) const WORTH: u64 = 1 << 20;
/// The topic that is read.
pub(crate) const TOPIC: &str = "orders";

pub(crate) fn open(disk: &Disk) -> Log {
    common::open(disk, &ManualClock::new()).unwrap()
}

pub(crate) fn at(topic: &str) -> TopicPartition {
    TopicPartition::new(topic, 0)
}

/// A topic with one partition and so many records more.
pub(crate) fn fill(log: &Log, name: &str, level: Durability, records: u64) {
    let config = TopicConfig::new().partitions(1).durability(level);
    let topic = log.topic_or_create(name, config).unwrap();
    let values: Vec<String> = (0..records).map(|n| n.to_string()).collect();
    let records = values.iter().map(|value| ("key", value.as_str()));
    topic.append_all(records).unwrap();
}

pub(crate) fn join(log: &Log, group: &str, topic: &str) -> Consumer {
    log.group(group).subscribe([topic]).join().unwrap()
}

/// A member that has its partitions, and has read as much as one poll gives.
pub(crate) fn assigned(log: &Log, group: &str, topic: &str) -> Consumer {
    let mut consumer = join(log, group, topic);
    let _ = consumer.poll(Duration::ZERO).unwrap();
    consumer
}

/// Commits this next offset.
pub(crate) fn commit(consumer: &mut Consumer, topic: &str, next: u64) {
    let mut positions = Positions::new();
    positions.set(at(topic).at(Offset::new(next)));
    consumer.commit_at(&positions).unwrap();
}

/// The committed next offset of a group in the only partition of a topic.
pub(crate) fn committed(log: &Log, group: &str, topic: &str) -> Option<u64> {
    let positions = log.group(group).committed().unwrap();
    let found = positions.iter().find(|p| *p.topic_partition() == at(topic));
    found.map(|position| position.offset().get())
}

/// The segments of the ledger, with their sizes, in order.
pub(crate) fn segments(disk: &Disk) -> Vec<(PathBuf, u64)> {
    let is_segment = |path: &PathBuf| {
        path.starts_with("/log/ledger/0") && path.extension().is_some_and(|e| e == "log")
    };
    let files = disk.files().into_iter();
    files.filter(|(path, _)| is_segment(path)).collect()
}

pub(crate) fn ledger_bytes(disk: &Disk) -> u64 {
    segments(disk).iter().map(|(_, len)| len).sum()
}

/// Groups with names so long that few commits of them are worth a pass.
pub(crate) struct Groups {
    names: Vec<String>,
    /// What each has committed since it was last known to be durable, which is the first.
    pub(crate) committed: BTreeMap<String, Vec<u64>>,
    next: u64,
}

/// Records of the topic that is read: no commit lies behind them.
pub(crate) const RECORDS: u64 = 4_000;

impl Groups {
    pub(crate) fn new(count: usize) -> Groups {
        let name = |n| format!("{}{n}", "g".repeat(30_000));
        Groups {
            names: (0..count).map(name).collect(),
            committed: BTreeMap::new(),
            next: 0,
        }
    }

    /// Commits once for each group.
    pub(crate) fn commit_all(&mut self, log: &Log) {
        for name in self.names.clone() {
            self.commit(log, &name);
        }
    }

    pub(crate) fn commit_one(&mut self, log: &Log) {
        let name = self.names[0].clone();
        self.commit(log, &name);
    }

    fn commit(&mut self, log: &Log, name: &str) {
        self.next = (self.next + 1) % RECORDS;
        commit(&mut assigned(log, name, TOPIC), TOPIC, self.next);
        let known = self.committed.entry(name.to_owned()).or_default();
        known.push(self.next);
    }

    /// Commits until the last segment of the ledger is worth rewriting.
    pub(crate) fn fill_segment(&mut self, log: &Log, disk: &Disk) {
        while segments(disk).last().is_none_or(|(_, len)| *len < WORTH) {
            let turn = self.next as usize % self.names.len();
            let name = self.names[turn].clone();
            self.commit(log, &name);
        }
    }

    /// Everything so far is durable.
    pub(crate) fn synced(&mut self) {
        for known in self.committed.values_mut() {
            known.drain(..known.len() - 1);
        }
    }

    /// As [`check`](Self::check), where the first group has committed something else since.
    pub(crate) fn check_but_first(&self, log: &Log, power: bool) -> Result<(), String> {
        let others = self
            .committed
            .iter()
            .filter(|(name, _)| **name != self.names[0]);
        let others = others.map(|(name, known)| (name.clone(), known.clone()));
        Groups {
            names: self.names.clone(),
            committed: others.collect(),
            next: self.next,
        }
        .check(log, power)
    }

    /// Each group has committed what it did last, or, where `power` may have gone, something since the last sync.
    pub(crate) fn check(&self, log: &Log, power: bool) -> Result<(), String> {
        let findings = log.recovery().findings().iter();
        let damage = findings.filter(|f| f.kind == FindingKind::Damaged);
        if let Some(damage) = damage.into_iter().next() {
            return Err(format!("{damage:?}"));
        }
        for (name, known) in &self.committed {
            let found = committed(log, name, TOPIC);
            let newest = known.last().copied();
            let good = found == newest || power && found.is_some_and(|f| known.contains(&f));
            if !good {
                let name = &name[name.len() - 3..];
                return Err(format!("group {name} has {found:?}, not of {known:?}"));
            }
        }
        Ok(())
    }
}
