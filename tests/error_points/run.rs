//! A run of a workload on a disk that fails: what each call was told, and whether what is there later agrees.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use thalweg::testing::{Disk, ManualClock};
use thalweg::{Durability, Error, Log, Outcome, Partition, Result};

use crate::A;
use crate::common::{self, Dice, Rec};
use crate::workload::{self, Key, Step, Step::*};

/// What the caller of an append was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    There,
    NotThere,
    Unknown,
}

/// One append: what was told, and what was to be written.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) told: Told,
    pub(crate) first: Option<u64>,
    pub(crate) records: Vec<Rec>,
}

/// A run of a workload on a disk that fails.
pub(crate) struct Run {
    pub(crate) disk: Disk,
    pub(crate) clock: ManualClock,
    pub(crate) log: Option<Log>,
    pub(crate) history: BTreeMap<Key, Vec<Attempt>>,
    pub(crate) topics: BTreeMap<&'static str, Told>,
    /// Topics that may be deleted.
    pub(crate) undecided: BTreeSet<&'static str>,
    /// Partitions that may not acknowledge anything until they are recovered.
    pub(crate) stopped: Vec<Key>,
    /// Errors, and answers that should not have been given.
    pub(crate) errors: Vec<String>,
    pub(crate) wrong: Vec<String>,
    pub(crate) number: u64,
}

impl Run {
    pub(crate) fn on(disk: Disk) -> Run {
        Run {
            disk,
            clock: ManualClock::new(),
            log: None,
            history: BTreeMap::new(),
            topics: BTreeMap::new(),
            undecided: BTreeSet::new(),
            stopped: Vec::new(),
            errors: Vec::new(),
            wrong: Vec::new(),
            number: 0,
        }
    }

    /// Does these steps, whatever fails.
    pub(crate) fn all(&mut self, steps: &[Step]) {
        for step in steps {
            self.clock.advance(Duration::from_millis(3));
            if let Err(e) = self.take(*step) {
                self.errors.push(format!("{step:?}: {e:?}"));
            }
        }
    }

    pub(crate) fn log(&mut self) -> Result<Log> {
        if let Some(log) = &self.log {
            return Ok(log.clone());
        }
        let log = common::open(&self.disk, &self.clock)?;
        self.log = Some(log.clone());
        self.stopped.clear();
        Ok(log)
    }

    pub(crate) fn partition(&mut self, key: Key) -> Result<Partition> {
        self.log()?.topic(key.0)?.partition(key.1)
    }

    pub(crate) fn take(&mut self, step: Step) -> Result<()> {
        match step {
            Topic(name, level) => self.make(name, level),
            Delete(name) => self.delete(name),
            Maintain => Ok(()),
            Append(key, len) => self.append(key, 1, len),
            Batch(key, count, len) => self.append(key, count, len),
            Roll(key) => self.partition(key)?.roll(),
            Sync => self.log()?.sync(),
            Commit(topic) => self.commit(topic),
            Close => {
                let log = self.log()?;
                self.log = None;
                log.close()
            }
            Alter(..) | Kill | PowerLoss(..) | LoseState | Keep(..) | Trim(..) | Wait(_) => {
                unreachable!("no step of these workloads")
            }
        }
    }

    pub(crate) fn make(&mut self, name: &'static str, level: Durability) -> Result<()> {
        if self.undecided.contains(name) {
            return Ok(()); // it would not be known which of the two is there
        }
        let made = self.log()?.topic_or_create(name, workload::config(level));
        let told = told(made.as_ref().err());
        let known = self.topics.entry(name).or_insert(told);
        // A second try that is refused says nothing about what the first one did.
        if told == Told::There || *known == Told::NotThere {
            *known = told;
        }
        made.map(drop)
    }

    /// What is deleted is gone, with all that was in it. What may be may be there whole.
    fn delete(&mut self, name: &'static str) -> Result<()> {
        let deleted = self.log()?.delete_topic(name);
        match told(deleted.as_ref().err()) {
            Told::There => {
                self.topics.insert(name, Told::NotThere);
                self.history.retain(|key, _| key.0 != name);
                self.stopped.retain(|key| key.0 != name);
                self.undecided.remove(name);
            }
            Told::Unknown => {
                self.topics.insert(name, Told::Unknown);
                self.undecided.insert(name);
            }
            Told::NotThere => {}
        }
        deleted
    }

    pub(crate) fn append(&mut self, key: Key, count: u32, len: usize) -> Result<()> {
        let partition = self.partition(key)?;
        let numbers = self.number..self.number + u64::from(count);
        self.number = numbers.end;
        let make = |n| Rec::of_any_shape(n, len, &mut Dice::new(n));
        let records: Vec<Rec> = numbers.map(make).collect();
        let done = match &records[..] {
            [one] => partition.append(one.record()).map(|at| at.offset()),
            many => partition
                .append_all(many.iter().map(Rec::record))
                .map(|offsets| offsets.start),
        };
        let told = told(done.as_ref().err());
        if self.stopped.contains(&key) && told != Told::NotThere {
            let answer = format!("{key:?} had stopped, and answers {done:?}");
            self.wrong.push(answer);
        }
        if done.as_ref().is_err_and(has_stopped) {
            self.stopped.push(key);
        }
        let first = done.as_ref().ok().map(|offset| offset.get());
        let history = self.history.entry(key).or_default();
        history.push(Attempt {
            told,
            first,
            records,
        });
        done.map(drop)
    }

    pub(crate) fn commit(&mut self, topic: &'static str) -> Result<()> {
        let group = self.log()?.group(workload::GROUP);
        let mut reader = group.subscribe([topic]).join()?;
        let batch = reader.poll(Duration::ZERO)?;
        drop(batch);
        reader.commit()?;
        reader.close()
    }

    /// The faults are gone. Whatever stopped is recovered, everything works again, and the log closes in order.
    pub(crate) fn mend(&mut self) -> Result<()> {
        self.disk.heal();
        self.log()?;
        let keys: Vec<Key> = self.history.keys().copied().collect();
        for key in keys {
            match self
                .partition(key)
                .and_then(|partition| partition.recover())
            {
                Err(Error::NotFound { .. }) => continue,
                other => drop(other?),
            }
            self.stopped.clear();
            self.append(key, 1, 10)?;
        }
        self.take(Close)
    }

    /// Is what is on this disk what was told? After a power loss the topics below `Power` may have lost their newest records.
    pub(crate) fn judge(&self, disk: &Disk, after: After) -> Result<(), String> {
        let log = common::open(disk, &self.clock).map_err(|e| format!("open: {e:?}"))?;
        for (name, told) in &self.topics {
            let found = log.topic(name);
            let right = match &found {
                Ok(_) => *told != Told::NotThere,
                Err(Error::NotFound { .. }) => *told != Told::There,
                Err(_) => false,
            };
            if !right {
                return Err(format!("topic {name}: {told:?}, and {found:?}"));
            }
        }
        for (key, history) in &self.history {
            let partition = log.topic(key.0).and_then(|topic| topic.partition(key.1));
            let nothing = history.iter().all(|append| append.told == Told::NotThere);
            match partition {
                Err(Error::NotFound { .. }) if nothing || self.undecided.contains(key.0) => {}
                Err(e) => return Err(format!("{key:?}: {e:?}")),
                // A write-back that failed took what was acknowledged below `Power`: what is there is no other record's.
                Ok(partition) if after == After::Lies && key.0 != A.0 => {
                    let judged = judge_offsets(&partition, history);
                    judged.map_err(|why| format!("{key:?}: {why}"))?;
                }
                Ok(partition) => {
                    let lossy = after == After::PowerLoss && key.0 != A.0 || after == After::Lies;
                    let judged = judge_partition(&partition, history, lossy);
                    judged.map_err(|why| format!("{key:?}: {why}"))?;
                }
            }
        }
        log.close().map_err(|e| format!("close: {e:?}"))
    }
}

impl Run {
    /// After another crash of a disk that was judged: what was acknowledged at `Power` is there.
    pub(crate) fn judge_kept(&self, disk: &Disk) -> Result<(), String> {
        let log = common::open(disk, &self.clock).map_err(|e| format!("open: {e:?}"))?;
        let Some(history) = self.history.get(&A) else {
            return Ok(());
        };
        let told = history.iter().filter(|append| append.told == Told::There);
        let mut told = told.flat_map(|append| &append.records).peekable();
        if told.peek().is_none() {
            return Ok(());
        }
        let partition = log.topic(A.0).and_then(|topic| topic.partition(A.1));
        let read = partition.and_then(|partition| workload::read(&partition));
        let (seen, _) = read.map_err(|e| format!("{e:?}"))?;
        let mut seen = seen.iter();
        match told.find(|rec| !seen.any(|one| one.1 == **rec)) {
            Some(rec) => Err(format!("{rec:?} is lost")),
            None => Ok(()),
        }
    }
}

/// What the disk has been through since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    Kill,
    PowerLoss,
    /// A write-back took what was in the cache, or a sync that did nothing succeeded.
    Lies,
}

/// Does this error say that the partition takes no more appends?
pub(crate) fn has_stopped(error: &Error) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(Error::Poisoned { .. }) = error.downcast_ref() {
            return true;
        }
        next = error.source();
    }
    false
}

pub(crate) fn told(error: Option<&Error>) -> Told {
    match error.map(Error::outcome) {
        None => Told::There,
        Some(Outcome::Rejected) => Told::NotThere,
        Some(_) => Told::Unknown,
    }
}

/// Whatever was lost, no offset that was told is another record's, now or later.
fn judge_offsets(partition: &Partition, history: &[Attempt]) -> Result<(), String> {
    let (seen, _) = workload::read(partition).map_err(|e| format!("{e:?}"))?;
    let told = history
        .iter()
        .filter_map(|append| Some((append.first?, &append.records)));
    let told: BTreeMap<u64, &Rec> = told
        .flat_map(|(first, records)| (first..).zip(records))
        .collect();
    for (offset, rec, _) in &seen {
        if told.get(offset).is_some_and(|of| *of != rec) {
            return Err(format!("{offset} was told of another record than {rec:?}"));
        }
    }
    let next = partition.append(("after", "all"));
    match next.map(|at| at.offset().get()) {
        Ok(at) if told.keys().all(|told| *told < at) => Ok(()),
        other => Err(format!("goes on at {other:?}, told: {:?}", told.keys())),
    }
}

/// Exactly what may be there is there, in order, and an append goes on behind it.
pub(crate) fn judge_partition(
    partition: &Partition,
    history: &[Attempt],
    lossy: bool,
) -> Result<(), String> {
    let (seen, end) = workload::read(partition).map_err(|e| format!("{e:?}"))?;
    let mut rest = &seen[..];
    let mut lost = None;
    for append in history {
        let here = rest.len() >= append.records.len()
            && rest
                .iter()
                .zip(&append.records)
                .all(|(one, rec)| one.1 == *rec)
            && append.first.is_none_or(|first| rest[0].0 == first);
        match (append.told, &lost) {
            (Told::There | Told::Unknown, None) if here => rest = &rest[append.records.len()..],
            (Told::There, _) if lossy => lost = lost.or(Some(append)),
            (Told::There, _) => return Err(format!("{append:?} is lost: {:?}", rest.first())),
            (Told::Unknown | Told::NotThere, _) => {}
        }
    }
    if let Some(foreign) = rest.first() {
        return Err(format!("{foreign:?} should not be there, {lost:?} is lost"));
    }
    let told = history.iter().rfind(|append| append.told == Told::There);
    let told = told.map_or(0, |last| {
        last.first.unwrap_or(0) + last.records.len() as u64
    });
    let next = partition.append(("after", "all"));
    match next.map(|at| at.offset().get()) {
        Ok(at) if at == end && at >= told => Ok(()),
        other => Err(format!(
            "ended at {end} (told {told}), goes on at {other:?}"
        )),
    }
}
