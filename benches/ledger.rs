//! What do a million commits cost, and how long does a log take to open that has them behind it?
//!
//! A hundred groups commit in turn, in a log without a thread, so that nothing is made smaller meanwhile. Then the log is opened
//! as it is (`reopen_full_ms`), one pass of maintenance is made, and it is opened again (`reopen_ms`). Beside it, as the raw
//! limit, the time to read the ledger's bytes from their files.

mod common;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Line, Run, bytes_below, float, millis};
use thalweg::{Consumer, Durability, Log, Maintenance, Offset, Positions, TopicConfig};

const GROUPS: u64 = 100;

fn main() {
    let run = Run::from_args();
    if run.wants("commits") {
        commits(run.size(1_000_000));
    }
}

fn open(dir: &Path) -> Log {
    let builder = Log::builder().maintenance(Maintenance::Manual);
    builder.open(dir).expect("a log")
}

fn join(log: &Log, n: u64) -> Consumer {
    let group = log.group(&format!("group-{n}"));
    let mut consumer = group.subscribe(["orders"]).join().expect("a member");
    let _ = consumer
        .poll(Duration::ZERO)
        .expect("its partitions come to it"); // before it commits
    consumer
}

fn commits(count: u64) {
    let scratch = tempfile::tempdir().expect("a directory");
    let dir = scratch.path().join("log");
    let ledger = dir.join("ledger");
    let log = open(&dir);
    let config = TopicConfig::new()
        .partitions(1)
        .durability(Durability::Process);
    let orders = log.create_topic("orders", config).expect("a topic");
    let records = (0..10_000_u64).map(|n| ("key", n.to_string()));
    orders.append_all(records).expect("records");
    let at = orders.partition(0).expect("a partition").topic_partition();
    let mut groups: Vec<Consumer> = (0..GROUPS).map(|n| join(&log, n)).collect();
    let began = Instant::now();
    for n in 0..count {
        let mut next = Positions::new();
        next.set(at.at(Offset::new(n / GROUPS % 10_000)));
        let group = &mut groups[(n % GROUPS) as usize];
        group.commit_at(&next).expect("a commit");
    }
    let rate = float(count) / began.elapsed().as_secs_f64();
    drop(groups);
    drop(orders);
    log.close().expect("closed");
    let full_bytes = bytes_below(&ledger);
    let read_full_ms = raw(&ledger);
    let (log, reopen_full_ms) = reopened(&dir);
    let began = Instant::now();
    let report = log.maintain().expect("a pass");
    let pass_ms = millis(began.elapsed());
    log.close().expect("closed");
    let bytes = bytes_below(&ledger);
    let (log, reopen_ms) = reopened(&dir);
    let last = (count - 1) / GROUPS % 10_000;
    let mut found = (0..GROUPS).map(|n| join(&log, n).committed(&at).expect("a commit"));
    let right =
        count < GROUPS || found.all(|next| next.is_some_and(|n| n.get().abs_diff(last) <= 1));
    assert!(right, "the newest commit of each group is there");
    Line::new("ledger")
        .text("name", "commits")
        .count("groups", GROUPS)
        .count("commits", count)
        .number("commits_per_s", rate)
        .count("full_bytes", full_bytes)
        .number("reopen_full_ms", reopen_full_ms)
        .number("read_full_ms", read_full_ms)
        .count("compacted", report.segments_compacted)
        .number("pass_ms", pass_ms)
        .count("bytes", bytes)
        .number("reopen_ms", reopen_ms)
        .print();
}

fn reopened(dir: &Path) -> (Log, f64) {
    let began = Instant::now();
    let log = open(dir);
    (log, millis(began.elapsed()))
}

/// Reads the files below a directory.
fn raw(dir: &Path) -> f64 {
    let began = Instant::now();
    let files = fs::read_dir(dir.join("0")).expect("a directory");
    let bytes = files.map(|file| fs::read(file.expect("a file").path()).map_or(0, |b| b.len()));
    assert!(bytes.sum::<usize>() > 0);
    millis(began.elapsed())
}
