//! Rows F106 to F118 of the fault catalogue as far as they concern groups: callbacks that panic or call back, members in crowds,
//! logs that close under them, consumers that are slow, tasks that are cancelled.
//!
//! Elsewhere: F105, F109 and F110 (`listeners`, `membership`), F115 (`allocations`, which counts memory), F111b and F114 (no
//! transactions yet; `concurrency`). Whatever might hang is run by [`in_time`].

#[path = "../common/mod.rs"]
mod common;

mod assignors;
mod callbacks;
mod closing;
mod commits;
mod crowds;
mod dropping;
mod entries;
mod own_thread;
mod panics;
mod tasks;
mod wakers;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Wake, Waker};
use std::thread;
use std::time::Duration;

use thalweg::{
    Consumer, Durability, Log, Offset, Positions, Topic, TopicConfig, TopicPartition, assignor,
};

const NOW: Duration = Duration::ZERO;
const SECOND: Duration = Duration::from_secs(1);

/// Runs a story on a thread of its own. If it has not ended after ten seconds it never will, and the test fails instead of hanging.
fn in_time<T: Send + 'static>(what: &str, story: impl FnOnce() -> T + Send + 'static) -> T {
    within(10 * SECOND, what, story)
}

fn within<T: Send + 'static>(
    limit: Duration,
    what: &str,
    story: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (done, ended) = mpsc::channel();
    thread::spawn(move || {
        let _ = done.send(catch_unwind(AssertUnwindSafe(story)));
    });
    match ended.recv_timeout(limit) {
        Ok(Ok(told)) => told,
        Ok(Err(panic)) => {
            eprintln!("in: {what}");
            resume_unwind(panic)
        }
        Err(limit) => panic!("{what}: it never came back: {limit}"),
    }
}

/// A call of ours through which a callback's panic goes.
fn panics<T>(call: impl FnOnce() -> T) {
    let went_through = catch_unwind(AssertUnwindSafe(call)).is_err();
    assert!(went_through, "the panic was swallowed");
}

/// A new topic of so many partitions, with `records` in each.
fn make(log: &Log, name: &str, partitions: u32, records: u64) -> Topic {
    let config = TopicConfig::new()
        .partitions(partitions)
        .durability(Durability::Process);
    let topic = log.create_topic(name, config).unwrap();
    for partition in topic.partitions() {
        for n in 0..records {
            partition.append(("", &n.to_string())).unwrap();
        }
    }
    topic
}

fn log_with(partitions: u32, records: u64) -> Log {
    let log = Log::in_memory();
    make(&log, "t", partitions, records);
    log
}

fn join(log: &Log) -> Consumer {
    log.group("g").subscribe(["t"]).join().unwrap()
}

/// Partition `n` of the topic `t`.
fn t(n: u32) -> TopicPartition {
    TopicPartition::new("t", n)
}

fn next(partition: u32, offset: u64) -> Positions {
    [t(partition).at(Offset::new(offset))].into_iter().collect()
}

/// All poll until nobody gives up or takes anything more. Then each partition of the topic `t` has one owner.
fn settle(members: &mut [&mut Consumer], partitions: u32) {
    for _ in 0..=members.len() {
        for member in &mut *members {
            let _ = member.poll(NOW).unwrap();
        }
    }
    let owned = members.iter().flat_map(|member| member.assignment());
    let owned: Vec<TopicPartition> = owned.collect();
    let all: BTreeSet<TopicPartition> = owned.iter().cloned().collect();
    assert_eq!(owned.len(), all.len(), "two owners: {owned:?}");
    assert_eq!(all, (0..partitions).map(t).collect(), "not all are owned");
}

/// Counts how often a task was woken.
#[derive(Default)]
struct Bell(AtomicU64);

impl Bell {
    fn rings(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The assignor that all of these tests share by, unless they bring their own.
fn usual() -> impl assignor::Assignor {
    assignor::CooperativeSticky
}
