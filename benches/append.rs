//! How fast are records taken, next to writing the same bytes with plain calls?
//!
//! * `append_one`: one record a call to one partition at `Process`, over one `write` of the same value a call;
//!   `append_one_keyed` routed by key to twelve.
//! * `append_batch`: 500 records a call at `Process`, over plain `write`s of 1 MiB. Both write into the page cache, and the disk
//!   catches up between the slices; `append_batch_sustained` leaves it no time, and holds both to at most 16 MiB that are not
//!   synced, which is what a topic at `Process` keeps to.
//! * `append_power_16`: 16 threads, one record a call at `Power`, over one thread that writes and syncs; `append_power_1` with
//!   one thread.
//! * `stall`: the longest append over 1 GiB at `Process`, over writing and syncing 16 MiB.
//! * `overhead`: bytes on disk for each record beyond its value, all files counted.

mod common;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::raw::Plain;
use common::{Every, Line, Run, Spread, Values, bytes_below, duel, float, millis, rate};
use thalweg::{Durability, Log, Record, Topic, TopicConfig};

const MIB: u64 = 1 << 20;
const BATCH: u64 = 500;
/// Records of a slice where each is a call: a fraction of a millisecond, so that few slices see another process run.
const SLICE: u64 = 100;

fn main() {
    let run = Run::from_args();
    let values = Values::new();
    for value_bytes in [100, 1024] {
        append_one(&run, &values, value_bytes);
    }
    append_one_keyed(&run, &values);
    for value_bytes in [100, 1024] {
        append_batch(&run, &values, value_bytes);
    }
    append_batch_sustained(&run, &values, 100);
    append_power(&run, &values, 1);
    append_power(&run, &values, 16);
    stall(&run, &values, 1);
    stall(&run, &values, BATCH);
    overhead(&run, &values, 1, 40.0);
    overhead(&run, &values, 100, 4.0);
}

/// A log of one topic in a directory that is gone afterwards, and a plain file on the same disk.
struct Bed {
    log: Log,
    topic: Topic,
    raw: Plain,
    dir: tempfile::TempDir,
}

impl Bed {
    fn new(durability: Durability, partitions: u32) -> Bed {
        let dir = tempfile::tempdir().expect("a directory for the bench");
        let log = Log::open(dir.path().join("log")).expect("a new log");
        let config = TopicConfig::new()
            .partitions(partitions)
            .durability(durability);
        let topic = log.create_topic("bench", config).expect("a new topic");
        let raw = Plain::create(&dir.path().join("raw"));
        Bed {
            log,
            topic,
            raw,
            dir,
        }
    }

    fn log_dir(&self) -> std::path::PathBuf {
        Path::join(self.dir.path(), "log")
    }
}

fn append_one(run: &Run, values: &Values, value_bytes: usize) {
    if !run.wants("append_one") {
        return;
    }
    let Bed {
        log,
        topic,
        mut raw,
        dir,
    } = Bed::new(Durability::Process, 1);
    let partition = topic.partition(0).unwrap();
    let records = run.size(SLICE);
    let (mut ours_pause, mut raw_pause) = (Every::new(128), Every::new(128));
    let result = duel(
        run.rounds(3001),
        || {
            if ours_pause.due() {
                log.sync().unwrap();
            }
            rate(records, || {
                for i in 0..records {
                    let value = values.get(i, value_bytes);
                    partition.append(Record::keyless(value)).unwrap();
                }
            })
        },
        || {
            if raw_pause.due() {
                raw.sync();
            }
            rate(records, || {
                for i in 0..records {
                    raw.write(values.get(i, value_bytes));
                }
            })
        },
    );
    drop(dir);
    Line::new("append_one")
        .count("value_bytes", value_bytes as u64)
        .text("durability", "process")
        .duel("write_per_record", &result, Some(0.8))
        .print();
}

/// As the quickstart does it: routed by key to one of twelve partitions.
fn append_one_keyed(run: &Run, values: &Values) {
    const KEY: usize = 16;
    const VALUE: usize = 100;
    if !run.wants("append_one_keyed") {
        return;
    }
    let Bed {
        log,
        topic,
        mut raw,
        dir,
    } = Bed::new(Durability::Process, 12);
    let records = run.size(SLICE);
    let (mut ours_pause, mut raw_pause) = (Every::new(128), Every::new(128));
    let result = duel(
        run.rounds(3001),
        || {
            if ours_pause.due() {
                log.sync().unwrap();
            }
            rate(records, || {
                for i in 0..records {
                    let (key, value) = values.get(i, KEY + VALUE).split_at(KEY);
                    topic.append((key, value)).unwrap();
                }
            })
        },
        || {
            if raw_pause.due() {
                raw.sync();
            }
            rate(records, || {
                for i in 0..records {
                    raw.write(values.get(i, KEY + VALUE));
                }
            })
        },
    );
    drop(dir);
    Line::new("append_one_keyed")
        .count("value_bytes", VALUE as u64)
        .count("key_bytes", KEY as u64)
        .count("partitions", 12)
        .text("durability", "process")
        .duel("write_per_record", &result, None)
        .print();
}

/// `bytes` of values in batches of 500.
fn append_batches(topic: &Topic, values: &Values, value_bytes: usize, bytes: u64) {
    let partition = topic.partition(0).unwrap();
    let batches = bytes.div_ceil(BATCH * value_bytes as u64);
    for batch in 0..batches {
        let from = batch * BATCH;
        let records = (from..from + BATCH).map(|i| Record::keyless(values.get(i, value_bytes)));
        partition.append_all(records).unwrap();
    }
}

/// How many values of a size the batches for so many bytes hold.
fn records_in(value_bytes: usize, bytes: u64) -> u64 {
    bytes.div_ceil(BATCH * value_bytes as u64) * BATCH
}

fn append_batch(run: &Run, values: &Values, value_bytes: usize) {
    if !run.wants("append_batch") {
        return;
    }
    let Bed {
        log,
        topic,
        mut raw,
        dir,
    } = Bed::new(Durability::Process, 1);
    let block = values.block(MIB as usize);
    let bytes = run.size(MIB).max(MIB);
    let (mut ours_pause, mut raw_pause) = (Every::new(4), Every::new(4));
    let result = duel(
        run.rounds(301),
        || {
            if ours_pause.due() {
                log.sync().unwrap();
            }
            rate(records_in(value_bytes, bytes), || {
                append_batches(&topic, values, value_bytes, bytes);
            })
        },
        || {
            if raw_pause.due() {
                raw.sync();
            }
            rate(bytes / value_bytes as u64, || {
                for _ in 0..bytes / MIB {
                    raw.write(&block);
                }
            })
        },
    );
    drop(dir);
    Line::new("append_batch")
        .count("value_bytes", value_bytes as u64)
        .count("batch", BATCH)
        .text("durability", "process")
        .duel("write_1_mib", &result, (value_bytes == 100).then_some(0.4))
        .print();
}

fn append_batch_sustained(run: &Run, values: &Values, value_bytes: usize) {
    const UNSYNCED: u64 = 16;
    if !run.wants("append_batch_sustained") {
        return;
    }
    let Bed {
        log,
        topic,
        mut raw,
        dir,
    } = Bed::new(Durability::Process, 1);
    let block = values.block(MIB as usize);
    let bytes = run.size(128 * MIB).max(MIB);
    let result = duel(
        run.rounds(7),
        || {
            rate(records_in(value_bytes, bytes), || {
                append_batches(&topic, values, value_bytes, bytes);
                log.sync().unwrap();
            })
        },
        || {
            rate(bytes / value_bytes as u64, || {
                for i in 1..=bytes / MIB {
                    raw.write(&block);
                    if i % UNSYNCED == 0 {
                        raw.sync();
                    }
                }
                raw.sync();
            })
        },
    );
    drop(dir);
    Line::new("append_batch_sustained")
        .count("value_bytes", value_bytes as u64)
        .count("batch", BATCH)
        .text("durability", "process")
        .duel("write_1_mib_sync_16_mib", &result, None)
        .print();
}

fn append_power(run: &Run, values: &Values, threads: u64) {
    const VALUE: usize = 100;
    let name = format!("append_power_{threads}");
    if !run.wants(&name) {
        return;
    }
    let Bed {
        topic,
        mut raw,
        dir,
        ..
    } = Bed::new(Durability::Power, 1);
    let slice = Duration::from_millis(run.size(300).max(10));
    let result = duel(
        run.rounds(11),
        || append_side_by_side(&topic, values, threads, slice),
        || {
            let (began, mut count) = (Instant::now(), 0);
            while began.elapsed() < slice {
                raw.write(values.get(count, VALUE));
                raw.sync();
                count += 1;
            }
            float(count) / began.elapsed().as_secs_f64()
        },
    );
    drop(dir);
    Line::new(&name)
        .count("value_bytes", VALUE as u64)
        .count("threads", threads)
        .text("durability", "power")
        .duel(
            "write_and_fdatasync_1_thread",
            &result,
            (threads == 16).then_some(6.0),
        )
        .print();
}

/// Acknowledged records a second, all threads together.
fn append_side_by_side(topic: &Topic, values: &Values, threads: u64, slice: Duration) -> f64 {
    let total = AtomicU64::new(0);
    let began = Instant::now();
    thread::scope(|scope| {
        for thread in 0..threads {
            let total = &total;
            scope.spawn(move || {
                let mut count = 0;
                while began.elapsed() < slice {
                    let value = values.get(thread + count, 100);
                    topic.append(Record::keyless(value)).unwrap();
                    count += 1;
                }
                total.fetch_add(count, Ordering::Relaxed);
            });
        }
    });
    float(total.into_inner()) / began.elapsed().as_secs_f64()
}

fn stall(run: &Run, values: &Values, batch: u64) {
    let value_bytes = if batch == 1 { 1024 } else { 100 };
    if !run.wants("stall") {
        return;
    }
    let total = run.size(1024 * MIB).max(4 * MIB);
    let block = values.block(MIB as usize);
    let mut raws = Vec::new();
    let mut longest = Vec::new();
    for _ in 0..run.rounds(3) {
        let mut bed = Bed::new(Durability::Process, 1);
        let mut raw_round = || {
            let began = Instant::now();
            for _ in 0..16 {
                bed.raw.write(&block);
            }
            bed.raw.sync();
            raws.push(millis(began.elapsed()));
        };
        raw_round();
        raw_round();
        longest.push(millis(longest_append(
            &bed.topic,
            values,
            value_bytes,
            batch,
            total,
        )));
        bed.log.sync().unwrap();
        raw_round();
        raw_round();
    }
    let (ms, raw_ms) = (Spread::of(longest), Spread::of(raws));
    Line::new("stall")
        .count("value_bytes", value_bytes as u64)
        .count("batch", batch)
        .count("log_mib", total / MIB)
        .text("durability", "process")
        .spread("ms", ms)
        .text("raw", "write_and_sync_16_mib")
        .spread("raw_ms", raw_ms)
        .number("ratio", ms.median / raw_ms.median)
        .number("ceiling", 2.0)
        .print();
}

fn longest_append(
    topic: &Topic,
    values: &Values,
    value_bytes: usize,
    batch: u64,
    total: u64,
) -> Duration {
    let partition = topic.partition(0).unwrap();
    let mut longest = Duration::ZERO;
    for i in 0..total / (batch * value_bytes as u64) {
        let from = i * batch;
        let began = Instant::now();
        let records = (from..from + batch).map(|i| Record::keyless(values.get(i, value_bytes)));
        partition.append_all(records).unwrap();
        longest = longest.max(began.elapsed());
    }
    longest
}

fn overhead(run: &Run, values: &Values, batch: u64, ceiling: f64) {
    const VALUE: usize = 100;
    if !run.wants("overhead") {
        return;
    }
    let bed = Bed::new(Durability::Process, 1);
    let partition = bed.topic.partition(0).unwrap();
    let batches = run.size(40 * MIB).max(4 * MIB) / (VALUE as u64 * batch);
    for i in 0..batches {
        let from = i * batch;
        let records = (from..from + batch).map(|i| Record::keyless(values.get(i, VALUE)));
        partition.append_all(records).unwrap();
    }
    let dir = bed.log_dir();
    bed.log.close().unwrap();
    let records = batches * batch;
    let bytes = float(bytes_below(&dir) - records * VALUE as u64) / float(records);
    Line::new("overhead")
        .count("value_bytes", VALUE as u64)
        .count("batch", batch)
        .count("records", records)
        .number("bytes", bytes)
        .text("raw", "the_values_alone")
        .number("ceiling", ceiling)
        .print();
}
