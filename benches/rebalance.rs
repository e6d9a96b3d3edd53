//! How long does a whole cooperative rebalance take, from the change to the poll after which everybody has what it should?
//!
//! * `rebalance_join`: to 99 members that share 1,000 partitions comes one more; all poll in turn until nothing moves. The aim is
//!   20 ms in total. Beside it, as the raw limit, as many polls of members that have nothing to do.
//! * `rebalance_leave`: and it leaves again.
//! * `rebalance_storm`: 100 members join an empty group, and all poll.

mod common;

use std::time::Duration;

use common::{Line, Run, Spread, float, millis, seconds};
use thalweg::{Consumer, Durability, Log, TopicConfig};

const MEMBERS: u64 = 100;
const PARTITIONS: u64 = 1_000;
/// What one rebalance may take at most.
const LIMIT_MS: f64 = 20.0;
const ROUNDS: usize = 30;

fn main() {
    let run = Run::from_args();
    let names = ["rebalance_join", "rebalance_leave", "rebalance_storm"];
    if !names.iter().any(|name| run.wants(name)) {
        return;
    }
    let members = run.size(MEMBERS).max(3); // one leaves, one joins
    let partitions = run.size(PARTITIONS) as u32;
    let log = Log::in_memory();
    let config = TopicConfig::new()
        .partitions(partitions)
        .durability(Durability::Process);
    log.create_topic("orders", config).unwrap();

    let mut group = Vec::new();
    let storm = seconds(|| {
        group = (0..members).map(|_| join(&log)).collect();
        settle(&mut group);
    });
    check(&group, partitions);
    group.pop();
    settle(&mut group);

    let (mut joins, mut leaves, mut idle) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..run.rounds(ROUNDS) {
        let mut rounds = 0;
        joins.push(seconds(|| {
            group.push(join(&log));
            rounds = settle(&mut group);
        }));
        check(&group, partitions);
        idle.push(seconds(|| (0..rounds).for_each(|_| poll_all(&mut group))));
        leaves.push(seconds(|| {
            group.pop().unwrap().close().unwrap();
            settle(&mut group);
        }));
        check(&group, partitions);
    }
    let idle = Spread::of(idle.into_iter().map(in_millis));
    for (name, took) in [
        ("rebalance_join", joins),
        ("rebalance_leave", leaves),
        ("rebalance_storm", vec![storm]),
    ] {
        if run.wants(name) {
            Line::new(name)
                .count("members", members)
                .count("partitions", u64::from(partitions))
                .spread("total_ms", Spread::of(took.into_iter().map(in_millis)))
                .spread("idle_polls_ms", idle)
                .number("limit_ms", LIMIT_MS)
                .print();
        }
    }
}

fn in_millis(seconds: f64) -> f64 {
    millis(Duration::from_secs_f64(seconds))
}

fn join(log: &Log) -> Consumer {
    log.group("g").subscribe(["orders"]).join().unwrap()
}

fn poll_all(group: &mut [Consumer]) {
    for member in group {
        let batch = member.poll(Duration::ZERO).unwrap();
        assert!(batch.is_empty());
    }
}

/// Polls all in turn until nothing moves; how many rounds that took.
fn settle(group: &mut [Consumer]) -> u64 {
    let mut rounds = 0;
    let mut before = Vec::new();
    loop {
        poll_all(group);
        rounds += 1;
        let state =
            |member: &Consumer| (member.membership().generation(), member.assignment().len());
        let now: Vec<(u64, usize)> = group.iter().map(state).collect();
        if now == before {
            return rounds;
        }
        before = now;
    }
}

/// Every partition is owned, and as evenly as can be.
fn check(group: &[Consumer], partitions: u32) {
    let sizes = group.iter().map(|member| member.assignment().len());
    let sizes: Vec<usize> = sizes.collect();
    assert_eq!(sizes.iter().sum::<usize>(), partitions as usize);
    let even = float(u64::from(partitions)) / float(group.len() as u64);
    assert!(
        sizes
            .iter()
            .all(|&size| (float(size as u64) - even).abs() < 1.0)
    );
}
