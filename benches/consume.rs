//! What does a group cost: to poll, to commit, to be woken?
//!
//! * `poll`: 100-byte records through a consumer, by reference and by value (`…_owned`), over a CRC pass over the same bytes.
//!   `poll_tail`: batches of 500 that were just appended, over the CRC of as many bytes in memory. `poll_disk`: a log that was opened
//!   again, over the CRC of its files through a fresh map, as in the bench `read`.
//! * `commit`: one offset at `Process`, over one plain `write` of as many bytes.
//! * `hand_over`: from the append of a record to the thread that was parked in `next_batch`, and back by a condition variable;
//!   over a condition variable both ways.
//! * `empty_poll`: a poll that finds nothing, in nanoseconds.

mod common;

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use common::raw::{Plain, crc_of, files_below};
use common::{Line, Run, Spread, Values, bytes_below, duel, float, rate, seconds};
use thalweg::{
    Batch, Consumer, Durability, Log, Offset, Partition, Positions, Record, Topic, TopicConfig,
};

const MIB: u64 = 1 << 20;
const VALUE: usize = 100;
const BATCH: u64 = 500;

fn main() {
    let run = Run::from_args();
    let values = Values::new();
    for (name, owned) in [("poll_tail", false), ("poll_tail_owned", true)] {
        if run.wants(name) {
            poll_tail(&run, &values, name, owned);
        }
    }
    if run.wants("poll_disk") || run.wants("poll_disk_owned") {
        poll_disk(&run, &values);
    }
    if run.wants("commit") {
        commit(&run, &values);
    }
    if run.wants("hand_over") {
        hand_over(&run, &values);
    }
    if run.wants("empty_poll") {
        for partitions in [1, 12] {
            empty_poll(&run, partitions);
        }
    }
}

fn open(dir: &Path, partitions: u32) -> (Log, Topic) {
    let log = Log::open(dir).expect("a directory for the bench");
    let config = TopicConfig::new()
        .partitions(partitions)
        .durability(Durability::Process);
    let topic = log.topic_or_create("bench", config).expect("a topic");
    (log, topic)
}

fn join(log: &Log) -> Consumer {
    log.group("bench").subscribe(["bench"]).join().unwrap()
}

fn append(partition: &Partition, values: &Values, from: u64) {
    let records = (from..from + BATCH).map(|i| Record::keyless(values.get(i, VALUE)));
    partition.append_all(records).unwrap();
}

/// Bytes of all values of a batch, taken by reference or by value.
fn bytes_of(batch: Batch, owned: bool) -> u64 {
    let len = |value: Option<&[u8]>| value.map_or(0, <[u8]>::len) as u64;
    if owned {
        batch.into_iter().map(|entry| len(entry.value())).sum()
    } else {
        batch.iter().map(|entry| len(entry.value())).sum()
    }
}

fn poll_tail(run: &Run, values: &Values, name: &str, owned: bool) {
    let dir = tempfile::tempdir().expect("a directory for the bench");
    let (log, topic) = open(dir.path(), 1);
    let partition = topic.partition(0).unwrap();
    let mut consumer = join(&log);
    // As many bytes as a batch has in the file.
    append(&partition, values, 0);
    assert_eq!(consumer.poll(Duration::ZERO).unwrap().len() as u64, BATCH);
    let before = segment_bytes(dir.path());
    append(&partition, values, 0);
    assert_eq!(consumer.poll(Duration::ZERO).unwrap().len() as u64, BATCH);
    let block = values.block((segment_bytes(dir.path()) - before) as usize);
    let mut next = 0;
    let result = duel(
        run.rounds(4001),
        || {
            append(&partition, values, next);
            next += BATCH;
            let mut seen = 0;
            let rate = rate(BATCH, || {
                seen = bytes_of(consumer.poll(Duration::ZERO).unwrap(), owned);
            });
            assert_eq!(seen, BATCH * VALUE as u64);
            rate
        },
        || {
            rate(BATCH, || {
                std::hint::black_box(crc32fast::hash(&block));
            })
        },
    );
    Line::new(name)
        .count("value_bytes", VALUE as u64)
        .count("batch", BATCH)
        .duel("crc", &result, (!owned).then_some(0.35))
        .print();
}

fn segment_bytes(dir: &Path) -> u64 {
    let files = files_below(&dir.join("topics"), ".log").into_iter();
    files
        .map(|path| path.metadata().expect("a segment").len())
        .sum()
}

fn poll_disk(run: &Run, values: &Values) {
    let dir = tempfile::tempdir().expect("a directory for the bench");
    let (log, topic) = open(dir.path(), 1);
    let records = (run.size(96 * MIB) / VALUE as u64).next_multiple_of(BATCH);
    for from in (0..records).step_by(BATCH as usize) {
        append(&topic.partition(0).unwrap(), values, from);
    }
    drop(topic);
    log.close().unwrap();
    let (log, topic) = open(dir.path(), 1);
    let bytes = segment_bytes(dir.path()) * BATCH / records;
    let path = files_below(&dir.path().join("topics"), ".log")[0].clone();
    let whole = path.metadata().expect("a segment").len();
    for (name, owned) in [("poll_disk", false), ("poll_disk_owned", true)] {
        if !run.wants(name) {
            continue;
        }
        let mut consumer = join(&log);
        let start = topic
            .partition(0)
            .unwrap()
            .topic_partition()
            .at(Offset::ZERO);
        let (mut left, mut at) = (records, 0);
        // Half a megabyte at a time, as a program would read on.
        let polls = 8.min(records / BATCH);
        let _ = consumer.poll(Duration::ZERO).unwrap();
        let result = duel(
            run.rounds(1501),
            || {
                if left < polls * BATCH {
                    left = records;
                    consumer.seek(&start).unwrap();
                }
                let mut count = 0;
                let began = Instant::now();
                for _ in 0..polls {
                    let batch = consumer.poll(Duration::ZERO).unwrap();
                    count += batch.len() as u64;
                    std::hint::black_box(bytes_of(batch, owned));
                }
                left -= count.min(left);
                float(count) / began.elapsed().as_secs_f64()
            },
            || {
                let len = polls * bytes;
                at = if at + 2 * len > whole { 0 } else { at + len };
                let end = (at + len).min(whole);
                rate(polls * BATCH, || {
                    std::hint::black_box(crc_of(&path, at..end));
                })
            },
        );
        Line::new(name)
            .count("value_bytes", VALUE as u64)
            .count("batch", BATCH)
            .count("log_mib", segment_bytes(dir.path()) / MIB)
            .duel("crc_of_mapped_file", &result, (!owned).then_some(0.35))
            .print();
        consumer.close().unwrap();
    }
}

fn commit(run: &Run, values: &Values) {
    let dir = tempfile::tempdir().expect("a directory for the bench");
    let (log, topic) = open(dir.path(), 1);
    let partition = topic.partition(0).unwrap();
    append(&partition, values, 0);
    let mut consumer = join(&log);
    let _ = consumer.poll(Duration::ZERO).unwrap();
    let at = partition.topic_partition();
    let positions: Vec<Positions> = (0..BATCH)
        .map(|n| [at.at(Offset::new(n))].into_iter().collect())
        .collect();
    let ledger = dir.path().join("ledger");
    let before = bytes_below(&ledger);
    for next in &positions {
        consumer.commit_at(next).unwrap();
    }
    let each = (bytes_below(&ledger) - before) / BATCH;
    let block = values.block(each as usize);
    let mut raw = Plain::create(&dir.path().join("raw"));
    let commits = run.size(256).min(BATCH);
    let result = duel(
        run.rounds(1001),
        || {
            rate(commits, || {
                for next in &positions[..commits as usize] {
                    consumer.commit_at(next).unwrap();
                }
            })
        },
        || {
            rate(commits, || {
                for _ in 0..commits {
                    raw.write(&block);
                }
            })
        },
    );
    Line::new("commit")
        .text("durability", "process")
        .count("bytes", each)
        .duel("write", &result, Some(0.5))
        .print();
}

/// A number that one thread sets and another waits for.
#[derive(Default)]
struct Flag {
    value: Mutex<u64>,
    bell: Condvar,
}

impl Flag {
    fn set(&self, value: u64) {
        *self.value.lock().unwrap() = value;
        self.bell.notify_all();
    }

    fn wait_for(&self, value: u64) {
        let mut now = self.value.lock().unwrap();
        while *now < value {
            now = self.bell.wait(now).unwrap();
        }
    }
}

fn hand_over(run: &Run, values: &Values) {
    let dir = tempfile::tempdir().expect("a directory for the bench");
    let (log, topic) = open(dir.path(), 1);
    let partition = topic.partition(0).unwrap();
    let mut consumer = join(&log);
    let wake = consumer.wake_handle();
    let (back, there) = (Arc::new(Flag::default()), Arc::new(Flag::default()));
    let reader = {
        let back = Arc::clone(&back);
        std::thread::spawn(move || {
            let mut seen = 0;
            while let Some(batch) = consumer.next_batch().unwrap() {
                seen += batch.len() as u64;
                back.set(seen);
            }
        })
    };
    let (echo, done) = (Arc::new(Flag::default()), u64::MAX);
    let other = {
        let (there, echo) = (Arc::clone(&there), Arc::clone(&echo));
        std::thread::spawn(move || {
            for n in 1.. {
                there.wait_for(n);
                if *there.value.lock().unwrap() == done {
                    return;
                }
                echo.set(n);
            }
        })
    };
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for n in 1..=run.rounds(20_001) as u64 {
        let record = Record::keyless(values.get(n, VALUE));
        ours.push(
            1e6 * seconds(|| {
                partition.append(record).unwrap();
                back.wait_for(n);
            }),
        );
        raw.push(
            1e6 * seconds(|| {
                there.set(n);
                echo.wait_for(n);
            }),
        );
    }
    wake.wake();
    there.set(done);
    reader.join().unwrap();
    other.join().unwrap();
    let (ours, raw) = (Spread::of(ours), Spread::of(raw));
    Line::new("hand_over")
        .number("round_trip_us_p50", ours.median)
        .text("raw", "condition_variable_round_trip")
        .number("raw_us_p50", raw.median)
        .number("ratio", ours.median / raw.median)
        .print();
}

fn empty_poll(run: &Run, partitions: u32) {
    let dir = tempfile::tempdir().expect("a directory for the bench");
    let (log, topic) = open(dir.path(), partitions);
    for partition in topic.partitions() {
        partition.append(("k", "v")).unwrap();
    }
    let mut consumer = join(&log);
    while !consumer.poll(Duration::ZERO).unwrap().is_empty() {}
    let polls = run.size(1000);
    let ns = (0..run.rounds(501)).map(|_| {
        let time = seconds(|| {
            for _ in 0..polls {
                assert!(consumer.poll(Duration::ZERO).unwrap().is_empty());
            }
        });
        time * 1e9 / float(polls)
    });
    Line::new("empty_poll")
        .count("partitions", u64::from(partitions))
        .spread("ns", Spread::of(ns))
        .number("ceiling_ns", 200.0)
        .print();
}
