//! Every call of a workload fails, once or from then on, with every error: each answer of an append means what it says.
//!
//! `Ok` is there, whatever comes. `Rejected` is not there, now or after any recovery. `Indeterminate` is there whole or not at
//! all. After a failed sync nothing more is acknowledged until the partition is recovered, and then it works again.

#[path = "../common/mod.rs"]
mod common;
mod run;
#[path = "../common/tally.rs"]
mod tally;
#[path = "../common/workload.rs"]
mod workload;

use std::collections::BTreeMap;

use thalweg::Durability::{Power, Process};
use thalweg::testing::{CrashModel, Disk, DiskCall, DiskError, FailedSync, Fault, Short};

use common::Dice;
use run::{After, Attempt, Run, Told};
use workload::{Key, Step, Step::*};

const A: Key = ("a", 0);
const B: Key = ("b", 1);

/// Where the runs of a test begin.
enum Start {
    Empty,
    /// What a crash left, with torn tails to cut, and what is in it.
    Crashed(Box<dyn Fn() -> Disk>, BTreeMap<Key, Vec<Attempt>>),
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
            let as_append = |(offset, rec, _)| Attempt {
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
    steps.extend([Append(A, 300), Batch(B, 3, 100)]);
    steps.extend(topics);
    steps.extend([Append(A, 2000), Append(B, 2500)]);
    steps.extend([Append(A, 1500), Batch(B, 2, 1200)]);
    steps.extend([Sync, Commit(A.0), Roll(B), Append(B, 50)]);
    steps.extend([Batch(A, 3, 40), Close]);
    steps.extend([Append(A, 100), Batch(B, 3, 100), Append(A, 3000)]);
    steps
}

/// A topic is deleted, made again, deleted by another process, and made again; with commits, and beside another topic.
fn deletions() -> Vec<Step> {
    let mut steps = vec![Topic(A.0, Power), Topic(B.0, Process), Append(A, 300)];
    steps.extend([Batch(B, 3, 100), Append(B, 4000), Commit(B.0), Delete(B.0)]);
    steps.extend([
        Append(A, 40),
        Topic(B.0, Process),
        Append(B, 20),
        Commit(B.0),
    ]);
    steps.extend([Sync, Close, Delete(B.0), Append(A, 40), Topic(B.0, Process)]);
    steps.extend([Append(B, 20), Close, Append(A, 40), Append(B, 20)]);
    steps
}

/// A little of everything that writes, after recovery.
fn work_on() -> Vec<Step> {
    vec![
        Append(A, 60),
        Batch(B, 3, 100),
        Append(B, 2000),
        Append(A, 2500),
        Sync,
        Close,
        Append(B, 60),
        Append(A, 2500),
    ]
}

/// Every call fails with every error, once and from then on. In a usual run one in a few, from `THALWEG_LONG=10` on each.
fn every_call(what: &str, start: &Start, steps: &[Step]) {
    one_call_in(3, what, start, steps);
}

/// As [`every_call`]; in a usual run one in so many.
fn one_call_in(stride: u64, what: &str, start: &Start, steps: &[Step]) {
    let mut dice = Dice::new(common::seed());
    let stride = if common::scale() >= 10 { 1 } else { stride };
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
fn f75b_each_answer_means_what_it_says_whichever_call_of_a_deletion_fails() {
    one_call_in(12, "any call of deletions", &Start::Empty, &deletions());
}

/// Closed between the first appends, and after each topic was made: what failed before the close is not made good after it.
#[test]
fn f97b_each_answer_means_what_it_says_whichever_call_between_closes_fails() {
    let mut steps = vec![
        Topic(A.0, Power),
        Close,
        Append(A, 30),
        Close,
        Append(A, 30),
    ];
    steps.extend([
        Topic(B.0, Process),
        Close,
        Append(B, 20),
        Close,
        Append(B, 20),
    ]);
    steps.extend([Close, Delete(B.0), Close, Topic(B.0, Power), Append(A, 20)]);
    one_call_in(12, "any call between closes", &Start::Empty, &steps);
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
                        // A name whose sync failed stays in the cache alone, however often it is synced later.
                        let lies = failed != FailedSync::Keep || call == DiskCall::SyncDir;
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
