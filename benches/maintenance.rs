//! What does it cost to keep a log small, and what do appends notice of it?
//!
//! * `compaction`: bytes a second of a partition of 1 GiB, records of 1 KiB, of which a tenth have the latest value of their key; over
//!   a plain read of the same bytes and a write of what stays, synced. `peak_mib` is what the process grew by meanwhile, beside
//!   `ceiling_mib`: the setting, twice the largest batch, and 8 MiB.
//! * `append_while_compacting`: the 99th percentile of the time of an append, over that of the same appends when nothing is compacted; on
//!   the same partition, at both ends of durability.
//! * `delete_segments`: milliseconds to remove a thousand segments by size, beside removing as many plain files.
//! * `retention_idle`: milliseconds of a pass over ten thousand partitions with an age, a size and nothing to do; beside locking as
//!   many mutexes once.

mod common;

use std::cell::Cell;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::raw::{Plain, files_below};
use common::{Dice, Line, Run, Spread, Values, duel, float, millis, seconds};
use thalweg::{Compaction, Durability, Log, Maintenance, Retention, Topic, TopicConfig};

const MIB: u64 = 1 << 20;
const VALUE_BYTES: usize = 1024;
const MEMORY: usize = 64 << 20;

fn main() {
    let run = Run::from_args();
    let values = Values::new();
    for batch in [100, 1] {
        compaction(&run, &values, batch);
    }
    for level in [Durability::Process, Durability::Power] {
        append_while_compacting(&run, &values, level);
    }
    delete_segments(&run, &values);
    retention_idle(&run);
}

fn open(dir: &Path) -> Log {
    let builder = Log::builder().maintenance(Maintenance::Manual);
    let builder = builder.compaction_memory(MEMORY);
    builder.open(dir).expect("a directory for the bench")
}

fn compacted(log: &Log, level: Durability) -> Topic {
    let config = TopicConfig::new()
        .durability(level)
        .compacted(Compaction::new());
    log.create_topic("bench", config).expect("a new topic")
}

/// Fills a topic with so many records, of which about a tenth stay.
fn fill(topic: &Topic, values: &Values, records: u64, batch: u64) {
    let keys = (records / 10).max(1);
    let mut dice = Dice(7);
    for first in (0..records).step_by(batch as usize) {
        let batch = (first..records.min(first + batch)).map(|n| {
            let key = format!("{:08}", dice.roll() % keys);
            (key, values.get(n, VALUE_BYTES))
        });
        topic.append_all(batch).expect("room");
    }
    let partition = topic.partition(0).expect("the only one");
    partition.roll().expect("room");
}

fn compaction(run: &Run, values: &Values, batch: u64) {
    if !run.wants("compaction") {
        return;
    }
    let records = run.size(1024 * MIB / VALUE_BYTES as u64);
    let dir = tempfile::tempdir().expect("a directory for the bench");
    let place = |name: &str| dir.path().join(name);
    let log = open(&place("full"));
    fill(
        &compacted(&log, Durability::Process),
        values,
        records,
        batch,
    );
    log.close().expect("a disk that works");
    let bytes = segment_bytes(&place("full"));
    let (stays, peak) = (Cell::new(0), Cell::new(0.0_f64));
    let ours = || {
        twin(&place("full"), &place("ours"));
        let log = open(&place("ours"));
        let topic = log.topic("bench").expect("it is there");
        let before = reset_peak();
        let took = seconds(|| {
            topic.compact().expect("room");
        });
        peak.set(peak.get().max(high_water() - before));
        stays.set(segment_bytes(&place("ours")));
        drop((topic, log));
        fs::remove_dir_all(place("ours")).expect("it is ours");
        float(bytes) / took
    };
    ours(); // how much stays is known then
    let block = values.block(MIB as usize);
    let files = files_below(&place("full"), ".log");
    let raw = || {
        let took = seconds(|| {
            read_all(&files);
            let mut out = Plain::create(&place("out"));
            while out.len() < stays.get() {
                out.write(&block);
            }
            out.sync();
        });
        float(bytes) / took
    };
    let duel = duel(run.rounds(5), ours, raw);
    Line::new("compaction")
        .count("value_bytes", VALUE_BYTES as u64)
        .count("batch", batch)
        .count("records", records)
        .count("bytes", bytes)
        .count("bytes_left", stays.get())
        .number("peak_mib", peak.get() / float(MIB))
        .number(
            "ceiling_mib",
            float(MEMORY as u64) / float(MIB) + 16.0 + 8.0,
        )
        .duel("read_and_write_bytes", &duel, Some(0.6))
        .print();
}

/// A copy of a closed log, whose segments are links: they are never written to, only removed.
fn twin(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory for the bench");
    for entry in fs::read_dir(from).expect("a directory of ours").flatten() {
        let (path, twin) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            self::twin(&path, &twin);
        } else if path.metadata().is_ok_and(|meta| meta.len() > MIB) {
            fs::hard_link(&path, &twin).expect("one disk");
        } else {
            fs::copy(&path, &twin).expect("room");
        }
    }
}

fn segment_bytes(dir: &Path) -> u64 {
    let files = files_below(dir, ".log");
    let len = |file: &std::path::PathBuf| file.metadata().map_or(0, |meta| meta.len());
    files.iter().map(len).sum()
}

fn read_all(files: &[std::path::PathBuf]) {
    let mut buffer = vec![0; MIB as usize];
    for file in files {
        let mut file = File::open(file).expect("a segment");
        while file.read(&mut buffer).expect("a disk that works") > 0 {}
    }
}

fn append_while_compacting(run: &Run, values: &Values, level: Durability) {
    if !run.wants("append_while_compacting") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory for the bench");
    let log = open(dir.path());
    let topic = compacted(&log, level);
    let records = run.size(256 * MIB / VALUE_BYTES as u64);
    // Appends as long as somebody says, and tells how long the slowest of a hundred takes.
    let p99 = |go_on: &dyn Fn(usize) -> bool| {
        let mut took: Vec<Duration> = Vec::new();
        while go_on(took.len()) {
            let value = values.get(took.len() as u64, 100);
            let began = Instant::now();
            topic.append(("00000000", value)).expect("room");
            took.push(began.elapsed());
        }
        took.sort_unstable();
        let p99 = took.get(took.len() * 99 / 100).copied().unwrap_or_default();
        (1.0 / p99.as_secs_f64(), took.len())
    };
    let appended = Cell::new(0);
    let duel = duel(
        run.rounds(7),
        || {
            fill(&topic, values, records, 1000); // there is something to do
            log.sync().expect("a disk that works");
            let done = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    topic.compact().expect("room");
                    done.store(true, Ordering::Relaxed);
                });
                let (p99, count) = p99(&|_| !done.load(Ordering::Relaxed));
                appended.set(count);
                p99
            })
        },
        || p99(&|count| count < appended.get().max(100)).0,
    );
    let micros = |spread: Spread| 1e6 / spread.median;
    Line::new("append_while_compacting")
        .text("durability", &format!("{level:?}"))
        .count("appends", appended.get() as u64)
        .number("p99_us", micros(duel.ours()))
        .text("raw", "append_alone")
        .number("raw_p99_us", micros(duel.raw()))
        .spread("ratio", Spread::of(duel.inverse()))
        .number("ceiling", 2.0)
        .print();
}

fn delete_segments(run: &Run, values: &Values) {
    if !run.wants("delete_segments") {
        return;
    }
    let segments = run.size(1000);
    let dir = tempfile::tempdir().expect("a directory for the bench");
    let ours = || {
        let place = dir.path().join("ours");
        let log = open(&place);
        let config = TopicConfig::new()
            .durability(Durability::Process)
            .segment_bytes(4096)
            .retention(Retention::new().bytes(1));
        let topic = log.create_topic("bench", config).expect("a new topic");
        while files_below(&place.join("topics"), ".log").len() as u64 <= segments {
            for n in 0..64 {
                topic.append(("key", values.get(n, 1000))).expect("room");
            }
        }
        let mut deleted = 0;
        let took = seconds(|| {
            loop {
                let report = log.maintain().expect("a disk that works");
                deleted += report.segments_deleted;
                if !report.more {
                    break;
                }
            }
        });
        assert!(deleted >= segments, "{deleted} of {segments}");
        drop((topic, log));
        fs::remove_dir_all(&place).expect("it is ours");
        float(deleted) / took
    };
    let raw = || {
        let place = dir.path().join("raw");
        fs::create_dir_all(&place).expect("a directory for the bench");
        let files: Vec<_> = (0..2 * segments)
            .map(|n| place.join(n.to_string()))
            .collect();
        for file in &files {
            Plain::create(file).write(values.get(0, 4096));
        }
        let took = seconds(|| {
            for file in &files {
                fs::remove_file(file).expect("it is ours");
            }
            File::open(&place)
                .and_then(|dir| dir.sync_all())
                .expect("a disk that works");
        });
        float(segments) / took
    };
    let duel = duel(run.rounds(3), ours, raw);
    Line::new("delete_segments")
        .count("segments", segments)
        .number("ms", 1e3 * float(segments) / duel.ours().median)
        .number("ceiling_ms", float(segments))
        .duel("remove_two_files_each", &duel, None)
        .print();
}

fn retention_idle(run: &Run) {
    if !run.wants("retention_idle") {
        return;
    }
    let partitions = run.size(10_000);
    let dir = tempfile::tempdir().expect("a directory for the bench");
    let log = open(dir.path());
    let keep = Retention::new()
        .age(Duration::from_secs(3600))
        .bytes(1 << 30);
    let config = TopicConfig::new()
        .partitions(partitions as u32)
        .durability(Durability::Process)
        .retention(keep);
    let topic = log.create_topic("bench", config).expect("a new topic");
    for partition in topic.partitions() {
        partition.append(("key", "value")).expect("room");
    }
    log.maintain().expect("a disk that works");
    let mutexes: Vec<Mutex<u64>> = (0..partitions).map(Mutex::new).collect();
    let pass = |work: &dyn Fn()| {
        let began = Instant::now();
        work();
        1e3 / millis(began.elapsed())
    };
    let duel = duel(
        run.rounds(20),
        || {
            pass(&|| {
                let report = log.maintain().expect("a disk that works");
                assert_eq!(report.segments_deleted, 0);
            })
        },
        || {
            pass(&|| {
                let sum: u64 = mutexes.iter().map(|mutex| *mutex.lock().unwrap()).sum();
                assert!(sum < u64::MAX);
            })
        },
    );
    Line::new("retention_idle")
        .count("partitions", partitions)
        .number("ms", 1e3 / duel.ours().median)
        .number("ceiling_ms", 50.0)
        .duel("lock_a_mutex_each", &duel, None)
        .print();
}

/// Bytes of memory that this process has, after which its greatest is counted anew.
fn reset_peak() -> f64 {
    let _ = fs::write("/proc/self/clear_refs", "5");
    status("VmRSS:")
}

fn high_water() -> f64 {
    status("VmHWM:")
}

fn status(name: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib * 1024.0)
}
