//! Every call of a workload fails, once or from then on, with every error: each answer of an append means what it says.
//!
//! `Ok` is there, whatever comes. `Rejected` is not there, now or after any recovery. `Indeterminate` is there whole or not at
//! all. After a failed sync nothing more is acknowledged until the partition is recovered, and then it works again.

#[path = "common/mod.rs"]
mod common;
#[path = "common/tally.rs"]
mod tally;
#[path = "common/workload.rs"]
mod workload;

use std::collections::BTreeMap;
use std::time::Duration;

use thalweg::Durability::{Power, Process};
use thalweg::testing::{
    CrashModel, Disk, DiskCall, DiskError, FailedSync, Fault, ManualClock, Short,
};
use thalweg::{Durability, Error, Log, Outcome, Partition, Result};

use common::{Dice, Rec};
use workload::{Key, Step, Step::*};

const A: Key = ("a", 0);
const B: Key = ("b", 1);

/// What the caller of an append was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    There,
    NotThere,
    Unknown,
}

/// One append: what was told, and what was to be written.
#[derive(Clone, Debug)]
struct Append {
    told: Told,
    first: Option<u64>,
    records: Vec<Rec>,
}

/// A run of a workload on a disk that fails.
struct Run {
    disk: Disk,
    clock: ManualClock,
    log: Option<Log>,
    history: BTreeMap<Key, Vec<Append>>,
    topics: BTreeMap<&'static str, Told>,
    /// Partitions that may not acknowledge anything until they are recovered.
    stopped: Vec<Key>,
    /// Errors, and answers that should not have been given.
    errors: Vec<String>,
    wrong: Vec<String>,
    number: u64,
}

impl Run {
    fn on(disk: Disk) -> Run {
        Run {
            disk,
            clock: ManualClock::new(),
            log: None,
            history: BTreeMap::new(),
            topics: BTreeMap::new(),
            stopped: Vec::new(),
            errors: Vec::new(),
            wrong: Vec::new(),
            number: 0,
        }
    }

    /// Does these steps, whatever fails.
    fn all(&mut self, steps: &[Step]) {
        for step in steps {
            self.clock.advance(Duration::from_millis(3));
            if let Err(e) = self.take(*step) {
                self.errors.push(format!("{step:?}: {e:?}"));
            }
        }
    }

    fn log(&mut self) -> Result<Log> {
        if let Some(log) = &self.log {
            return Ok(log.clone());
        }
        let log = common::open(&self.disk, &self.clock)?;
        self.log = Some(log.clone());
        self.stopped.clear();
        Ok(log)
    }

    fn partition(&mut self, key: Key) -> Result<Partition> {
        self.log()?.topic(key.0)?.partition(key.1)
    }

    fn take(&mut self, step: Step) -> Result<()> {
        match step {
            Topic(name, level) => self.make(name, level),
            Step::Append(key, len) => self.append(key, 1, len),
            Batch(key, count, len) => self.append(key, count, len),
            Roll(key) => self.partition(key)?.roll(),
            Sync => self.log()?.sync(),
            Commit(topic) => self.commit(topic),
            Close => {
                let log = self.log()?;
                self.log = None;
                log.close()
            }
            Kill | PowerLoss(..) | LoseState => unreachable!("no step of these workloads"),
        }
    }

    fn make(&mut self, name: &'static str, level: Durability) -> Result<()> {
        let made = self.log()?.topic_or_create(name, workload::config(level));
        let told = told(made.as_ref().err());
        let known = self.topics.entry(name).or_insert(told);
        // A second try that is refused says nothing about what the first one did.
        if told == Told::There || *known == Told::NotThere {
            *known = told;
        }
        made.map(drop)
    }

    fn append(&mut self, key: Key, count: u32, len: usize) -> Result<()> {
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
        history.push(Append {
            told,
            first,
            records,
        });
        done.map(drop)
    }

    fn commit(&mut self, topic: &'static str) -> Result<()> {
        let group = self.log()?.group(workload::GROUP);
        let mut reader = group.subscribe([topic]).join()?;
        let batch = reader.poll(Duration::ZERO)?;
        drop(batch);
        reader.commit()?;
        reader.close()
    }

    /// The faults are gone. Whatever stopped is recovered, everything works again, and the log closes in order.
    fn mend(&mut self) -> Result<()> {
        self.disk.heal();
        self.log()?;
        let keys: Vec<Key> = self.history.keys().copied().collect();
        for key in keys {
            match self.partition(key) {
                Err(Error::NotFound { .. }) => continue,
                other => drop(other?.recover()?),
            }
            self.stopped.clear();
            self.append(key, 1, 10)?;
        }
        self.take(Close)
    }

    /// Is what is on this disk what was told? After a power loss the topics below `Power` may have lost their newest records.
    fn judge(&self, disk: &Disk, after: After) -> Result<(), String> {
        let log = common::open(disk, &self.clock).map_err(|e| format!("open: {e:?}"))?;
        for (name, told) in &self.topics {
            match (log.topic(name), told) {
                (Ok(_), Told::There | Told::Unknown) => {}
                (Err(Error::NotFound { .. }), Told::NotThere | Told::Unknown) => {}
                (found, told) => return Err(format!("topic {name}: {told:?}, and {found:?}")),
            }
        }
        for (key, history) in &self.history {
            let partition = log.topic(key.0).and_then(|topic| topic.partition(key.1));
            let nothing = history.iter().all(|append| append.told == Told::NotThere);
            match partition {
                Err(Error::NotFound { .. }) if nothing => {}
                Err(e) => return Err(format!("{key:?}: {e:?}")),
                // A write-back that failed took what was acknowledged below `Power`, without a trace.
                Ok(partition) if after == After::Lies && key.0 != A.0 => drop(partition),
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
    fn judge_kept(&self, disk: &Disk) -> Result<(), String> {
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
enum After {
    Kill,
    PowerLoss,
    /// A write-back took what was in the cache, or a sync that did nothing succeeded.
    Lies,
}

/// Does this error say that the partition takes no more appends?
fn has_stopped(error: &Error) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(Error::Poisoned { .. }) = error.downcast_ref() {
            return true;
        }
        next = error.source();
    }
    false
}

fn told(error: Option<&Error>) -> Told {
    match error.map(Error::outcome) {
        None => Told::There,
        Some(Outcome::Rejected) => Told::NotThere,
        Some(_) => Told::Unknown,
    }
}

/// Exactly what may be there is there, in order, and an append goes on behind it.
fn judge_partition(partition: &Partition, history: &[Append], lossy: bool) -> Result<(), String> {
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

/// Where the runs of a test begin.
enum Start {
    Empty,
    /// What a crash left, with torn tails to cut, and what is in it.
    Crashed(Box<dyn Fn() -> Disk>, BTreeMap<Key, Vec<Append>>),
}

impl Start {
    fn run(&self) -> Run {
        let Start::Crashed(disk, history) = self else {
            return Run::on(Disk::new());
        };
        let mut run = Run::on(disk());
        run.history.clone_from(history);
        run.topics = [(A.0, Told::There), (B.0, Told::There)].into();
        run.number = 1000;
        run
    }

    /// The power fails behind these steps; `seed` chooses what of the newest pages is left.
    fn crashed(steps: &[Step], model: CrashModel, seed: u64) -> Start {
        let mut run = Run::on(Disk::new());
        run.all(steps);
        assert!(run.errors.is_empty(), "{:?}", run.errors);
        let (disk, point) = (run.disk.clone(), run.disk.points());
        let crash = move || disk.crash(point, model, seed);
        let log = common::open(&crash(), &run.clock).expect("what a crash left opens");
        let there = |key: &Key| {
            let partition = log.topic(key.0).and_then(|topic| topic.partition(key.1));
            let read = partition.and_then(|partition| workload::read(&partition));
            let (seen, _) = read.expect("what a crash left is readable");
            let as_append = |(offset, rec, _)| Append {
                told: Told::There,
                first: Some(offset),
                records: vec![rec],
            };
            (*key, seen.into_iter().map(as_append).collect())
        };
        let history = [A, B].iter().map(there).collect();
        Start::Crashed(Box::new(crash), history)
    }
}

/// How many runs were judged, and how many calls failed in them.
#[derive(Default)]
struct Tried {
    runs: u64,
    struck: u64,
}

impl Tried {
    /// One run under a fault. `false`: the fault found nothing to strike.
    fn run(&mut self, start: &Start, steps: &[Step], fault: &Fault, lies: bool) -> bool {
        let mut run = start.run();
        run.disk.fail(fault.clone());
        run.all(steps);
        let struck = run.disk.struck();
        if struck == 0 {
            return false;
        }
        self.runs += 1;
        self.struck += struck;
        let result = judge_run(&mut run, lies);
        let Err(why) = result else { return true };
        panic!("{why}\n  under {fault:?}\n  errors: {:#?}", run.errors);
    }

    fn print(&self, what: &str) {
        let (runs, struck) = (self.runs, self.struck);
        println!("{what}: {runs} runs, {struck} calls failed");
    }
}

fn judge_run(run: &mut Run, lies: bool) -> Result<(), String> {
    if let Some(wrong) = run.wrong.first() {
        return Err(wrong.clone());
    }
    let (disk, now) = (run.disk.clone(), run.disk.points());
    let killed = disk.crash(now, CrashModel::ProcessKill, 0);
    let after = if lies { After::Lies } else { After::Kill };
    run.judge(&killed, after)
        .map_err(|why| format!("killed: {why}"))?;
    // After a sync that lied, a power loss may take anything, as long as that is said.
    let lost = disk.crash(now, CrashModel::LostSuffix, 0);
    if !lies {
        let judged = run.judge(&lost, After::PowerLoss);
        judged.map_err(|why| format!("power lost: {why}"))?;
    } else if let Ok(log) = common::open(&lost, &run.clock) {
        drop(log);
    }
    // What the kill left was opened, cut and written again: that is on the medium now.
    let later = killed.crash(killed.points(), CrashModel::LostSuffix, 0);
    if !lies {
        run.judge_kept(&later)
            .map_err(|why| format!("later: {why}"))?;
    }
    // An error that was held back may come only now.
    let mended = run.mend();
    let mended = if lies {
        mended.or_else(|_| run.mend())
    } else {
        mended
    };
    mended.map_err(|e| format!("mended: {e:?}"))?;
    run.judge(&disk, if lies { After::Lies } else { After::Kill })
        .map_err(|why| format!("closed: {why}"))
}

/// Appends, batches, rolls, syncs, a commit and a close, on a topic at `Power` and one at `Process`.
fn work() -> Vec<Step> {
    let topics = [Topic(A.0, Power), Topic(B.0, Process)];
    let mut steps = topics.to_vec();
    steps.extend([Step::Append(A, 300), Batch(B, 3, 100)]);
    steps.extend(topics);
    steps.extend([Step::Append(A, 2000), Step::Append(B, 2500)]);
    steps.extend([Step::Append(A, 1500), Batch(B, 2, 1200)]);
    steps.extend([Sync, Commit(A.0), Roll(B), Step::Append(B, 50)]);
    steps.extend([Batch(A, 3, 40), Close]);
    steps.extend([
        Step::Append(A, 100),
        Batch(B, 3, 100),
        Step::Append(A, 3000),
    ]);
    steps
}

/// A little of everything that writes, after recovery.
fn work_on() -> Vec<Step> {
    vec![
        Step::Append(A, 60),
        Batch(B, 3, 100),
        Step::Append(B, 2000),
        Step::Append(A, 2500),
        Sync,
        Close,
        Step::Append(B, 60),
        Step::Append(A, 2500),
    ]
}

/// Every call fails with every error, once and from then on. In a usual run one in a few, from `THALWEG_LONG=10` on each.
fn every_call(what: &str, start: &Start, steps: &[Step]) {
    let mut dice = Dice::new(common::seed());
    let stride = if common::scale() >= 10 { 1 } else { 3 };
    let mut tried = Tried::default();
    for error in DiskError::ALL {
        for lasting in [false, true] {
            let mut call = dice.below(stride);
            loop {
                let fault = Fault::any(error).after(call);
                let fault = if lasting { fault.lasting() } else { fault };
                if !tried.run(start, steps, &fault, false) {
                    break;
                }
                call += 1 + dice.below(2 * stride - 1);
            }
        }
    }
    tried.print(what);
}

#[test]
fn f21_each_answer_means_what_it_says_whichever_call_fails() {
    every_call("any call", &Start::Empty, &work());
}

#[test]
fn f28_each_answer_means_what_it_says_whichever_call_of_recovery_fails() {
    for (model, seed) in [
        (CrashModel::LostPages, 2),
        (CrashModel::GarbagePages, 5),
        (CrashModel::ProcessKill, 0),
    ] {
        let start = Start::crashed(&work(), model, seed);
        every_call(&format!("any call after {model:?}"), &start, &work_on());
    }
}

#[test]
fn f29_an_interrupted_call_is_made_again_unseen() {
    let mut calls = 0;
    loop {
        let mut run = Run::on(Disk::new());
        let fault = Fault::any(DiskError::Interrupted).after(calls).lasting();
        run.disk.fail(fault);
        run.all(&work());
        assert!(run.errors.is_empty(), "{:?}", run.errors);
        if run.disk.struck() == 0 {
            break;
        }
        calls += 1 + calls / 8;
    }
}

#[test]
fn f22_after_a_failed_sync_nothing_is_acknowledged_until_recovery() {
    let mut tried = Tried::default();
    let starts = [
        (Start::Empty, work()),
        (Start::crashed(&work(), CrashModel::LostPages, 3), work_on()),
    ];
    for (start, steps) in &starts {
        for call in [DiskCall::SyncData, DiskCall::SyncAll, DiskCall::SyncDir] {
            for failed in [FailedSync::Keep, FailedSync::Revert, FailedSync::Late] {
                for error in [DiskError::Io, DiskError::NoSpace] {
                    for skip in 0.. {
                        let fault = Fault::sync(call, failed, error).after(skip);
                        let lies = failed != FailedSync::Keep;
                        if !tried.run(start, steps, &fault, lies) {
                            break;
                        }
                    }
                }
            }
        }
    }
    tried.print("failed syncs");
}

#[test]
fn f26_a_short_write_is_finished_or_leaves_nothing() {
    let mut tried = Tried::default();
    let shorts = [
        Short::Bytes(1),
        Short::Bytes(40),
        Short::Half,
        Short::PageEdge,
    ];
    for short in shorts {
        for skip in 0.. {
            let faults = [
                Fault::short(DiskCall::Write, short).after(skip),
                Fault::short_write_then(short, DiskError::NoSpace).after(skip),
                Fault::short_write_then(short, DiskError::Io).after(skip),
            ];
            let (start, steps) = (&Start::Empty, work());
            let struck = faults.map(|fault| tried.run(start, &steps, &fault, false));
            if !struck.contains(&true) {
                break;
            }
        }
    }
    tried.print("short writes");
}
