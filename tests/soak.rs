//! Producers, fast and slow groups, retention and compaction together, on a real directory with the log's own thread: what a service does
//! for months, for 15 seconds; `THALWEG_LONG` times as long.
//!
//! Nothing is lost, skipped in silence or out of order; the latest state of each key is there; memory, open files and maps stay flat; and the
//! disk holds what is asked for and a segment more for each partition.

#[path = "common/mod.rs"]
mod common;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use common::Dice;
use thalweg::{
    Compaction, Consumer, Durability, Log, Maintenance, Offset, ReadMode, Retention, Topic,
    TopicConfig, TopicPartition,
};

const PARTITIONS: u32 = 4;
const KEPT: u64 = 4 << 20;
const SEGMENT: u64 = 1 << 20;
const KEYS: u64 = 2000;
const EVENT_BYTES: usize = 400;
const BATCH: u64 = 50;
/// Records of a poll of the slow group, which commits each of them to the disk.
const SLOW: usize = 10;

/// What the threads share.
struct Run {
    log: Log,
    events: Topic,
    state: Topic,
    stop: AtomicBool,
    /// The newest version of each key.
    versions: Vec<AtomicU64>,
    read: AtomicU64,
    skipped: AtomicU64,
}

#[test]
fn nothing_grows_and_nothing_is_lost() {
    let seed = common::seed();
    let time = Duration::from_secs(15) * u32::try_from(common::scale()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let every = Duration::from_millis(50);
    let log = Log::builder()
        .maintenance(Maintenance::Background { every })
        .read_mode(ReadMode::Mapped)
        .compaction_memory(1 << 20)
        .open(dir.path())
        .unwrap();
    let config = TopicConfig::new()
        .partitions(PARTITIONS)
        .durability(Durability::Process);
    let kept = Retention::new().bytes(KEPT);
    let events = config.clone().segment_bytes(SEGMENT).retention(kept);
    let state = config
        .segment_bytes(SEGMENT / 4)
        .compacted(Compaction::new());
    let run = Run {
        events: log.create_topic("events", events).unwrap(),
        state: log.create_topic("state", state).unwrap(),
        log,
        stop: AtomicBool::new(false),
        versions: (0..KEYS).map(|_| AtomicU64::new(0)).collect(),
        read: AtomicU64::new(0),
        skipped: AtomicU64::new(0),
    };
    let (done, wake) = channel::<()>();
    thread::scope(|scope| {
        let run = &run;
        scope.spawn(move || produce(run, seed));
        for writer in 0..2 {
            scope.spawn(move || change(run, Dice::new(seed + writer), writer));
        }
        for most in [5000, 5000, SLOW] {
            let group = if most == SLOW { "slow" } else { "fast" };
            let reader = run.log.group(group).subscribe(["events"]);
            let reader = reader.max_poll_records(most).join().unwrap();
            scope.spawn(move || follow(run, reader, most == SLOW));
        }
        scope.spawn(move || look_up(run));
        watch(run, time, &wake);
    });
    drop(done);
    finish(&run, dir.path());
    let (read, skipped) = (run.read.into_inner(), run.skipped.into_inner());
    println!("{read} events read, {skipped} skipped by retention, which said so");
    run.log.close().unwrap();
}

fn produce(run: &Run, seed: u64) {
    let mut dice = Dice::new(seed);
    let value = vec![b'e'; EVENT_BYTES];
    while !run.stop.load(Ordering::Relaxed) {
        let batch = (0..BATCH).map(|_| (dice.roll().to_le_bytes().to_vec(), value.as_slice()));
        run.events.append_all(batch).unwrap();
    }
}

/// Half of the keys are one writer's, half the other's, so that versions ascend in the log.
fn change(run: &Run, mut dice: Dice, writer: u64) {
    while !run.stop.load(Ordering::Relaxed) {
        let key = dice.below(KEYS / 2) * 2 + writer;
        let version = run.versions[key as usize].load(Ordering::Relaxed) + 1;
        let value = format!("{version:0>200}");
        run.state.append((key.to_string(), value)).unwrap();
        run.versions[key as usize].store(version, Ordering::Relaxed);
    }
}

/// Reads on, and misses no offset that it is not told of.
fn follow(run: &Run, mut reader: Consumer, slow: bool) {
    let mut next: HashMap<TopicPartition, u64> = HashMap::new();
    while !run.stop.load(Ordering::Relaxed) {
        let owned = reader.assignment();
        let batch = reader.poll(Duration::from_millis(20)).unwrap();
        if reader.assignment() != owned {
            next.clear(); // it may begin elsewhere with what is new to it
        }
        for entry in &batch {
            let offset = entry.offset().get();
            let expected = next.insert(entry.topic_partition().clone(), offset + 1);
            let Some(expected) = expected.filter(|expected| *expected != offset) else {
                continue;
            };
            let at = entry.topic_partition();
            let resets = batch.resets().iter();
            // One after the other, if the log start has moved on meanwhile.
            let told = resets.filter(|reset| reset.from.topic_partition() == at);
            let reached = told.fold(expected, |reached, reset| {
                let from = reset.from.offset().get();
                if from == reached {
                    reset.to.get()
                } else {
                    reached
                }
            });
            assert_eq!(reached, offset, "{at}: behind {expected}");
        }
        for reset in batch.resets() {
            let skipped = reset.to.get() - reset.from.offset().get();
            run.skipped.fetch_add(skipped, Ordering::Relaxed);
            let at = reset.from.topic_partition().clone();
            next.entry(at).or_insert_with(|| reset.to.get());
        }
        run.read.fetch_add(batch.len() as u64, Ordering::Relaxed);
        if slow {
            reader.commit_durable().unwrap();
        } else {
            reader.commit().unwrap();
        }
    }
    reader.close().unwrap();
}

/// Reads the state from the beginning, again and again: what was there when it began is there, or newer, and no version comes back.
fn look_up(run: &Run) {
    while !run.stop.load(Ordering::Relaxed) {
        let at_least = read_all(&run.versions);
        let mut table = Table::default();
        // What is newer than the end of one reading may have made a record go that the reading had not reached: the next one finds it, or what
        // is newer still.
        for reading in 0.. {
            table.read_on(&run.state);
            let Some((key, found)) = table.lacks(&at_least) else {
                break;
            };
            let known = at_least[key];
            assert!(reading < 100, "{key}: {found}, and {known} was there");
        }
    }
}

fn read_all(versions: &[AtomicU64]) -> Vec<u64> {
    let loads = versions.iter().map(|of| of.load(Ordering::Relaxed));
    loads.collect()
}

/// The latest version of each key.
#[derive(Default)]
struct Table {
    versions: HashMap<u64, u64>,
    /// What comes next, by partition.
    next: HashMap<TopicPartition, Offset>,
}

impl Table {
    fn read_on(&mut self, state: &Topic) {
        for partition in state.partitions() {
            let at = partition.topic_partition().clone();
            let next = self.next.entry(at).or_insert(Offset::ZERO);
            for entry in partition.entries(*next..) {
                let entry = entry.unwrap();
                assert!(entry.offset() >= *next, "{next}, {}", entry.offset());
                *next = entry.offset().next();
                let key: u64 = entry.key_str().unwrap().parse().unwrap();
                let version: u64 = entry.value_str().unwrap().parse().unwrap();
                let before = self.versions.insert(key, version);
                assert!(before < Some(version), "{key}: {version} behind {before:?}");
            }
        }
    }

    /// The first key of which it has none of these versions or newer ones, and the one that it has.
    fn lacks(&self, at_least: &[u64]) -> Option<(usize, u64)> {
        let found = |key: usize| self.versions.get(&(key as u64)).copied().unwrap_or(0);
        let lacking = (0..at_least.len()).find(|&key| found(key) < at_least[key]);
        lacking.map(|key| (key, found(key)))
    }
}

/// What the process has: KiB of memory of its own, open files, maps.
fn taken() -> Option<[u64; 3]> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let own = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    let own = own.split_whitespace().next()?.parse().ok()?;
    let files = std::fs::read_dir("/proc/self/fd").ok()?.count() as u64;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let maps = maps.lines().filter(|line| line.contains(".log"));
    Some([own, files, maps.count() as u64])
}

/// Lets it run, and sees what it takes: in the second half no more than in the first.
fn watch(run: &Run, time: Duration, wake: &Receiver<()>) {
    let began = Instant::now();
    let mut most = [[0_u64; 3]; 2];
    while began.elapsed() < time {
        let _ = wake.recv_timeout(Duration::from_millis(100)); // a look now and then is enough
        let half = usize::from(began.elapsed() > time / 2);
        for (most, now) in most[half].iter_mut().zip(taken().unwrap_or_default()) {
            *most = now.max(*most);
        }
    }
    run.stop.store(true, Ordering::Relaxed);
    println!(
        "KiB, files and maps in the first half {:?}, in the second {:?}",
        most[0], most[1]
    );
    for (at, slack) in [16 << 10, 40, 40].into_iter().enumerate() {
        let grown = most[1][at].saturating_sub(most[0][at]);
        assert!(grown <= slack, "{most:?} grew by {grown}");
    }
}

/// Everything that has to go is gone, and nothing else.
fn finish(run: &Run, dir: &Path) {
    let versions = read_all(&run.versions);
    while run.log.maintain().unwrap().more {}
    run.state.compact().unwrap();
    let mut table = Table::default();
    table.read_on(&run.state);
    for (key, version) in versions.into_iter().enumerate() {
        let found = table.versions.get(&(key as u64)).copied().unwrap_or(0);
        assert_eq!(found, version, "{key}");
    }
    for (path, bytes) in partitions_below(dir) {
        let events = path.contains("/events-");
        let limit = if events { KEPT + SEGMENT } else { 2 * SEGMENT };
        assert!(bytes <= limit + SEGMENT / 4, "{path}: {bytes}");
        assert!(!events || bytes >= KEPT, "{path}: {bytes}");
    }
}

/// The directories of partitions of topics, and the bytes of their segments.
fn partitions_below(dir: &Path) -> Vec<(String, u64)> {
    let list = |dir: &Path| std::fs::read_dir(dir).unwrap().flatten();
    let mut partitions = Vec::new();
    for topic in list(&dir.join("topics")) {
        for partition in list(&topic.path()).filter(|entry| entry.path().is_dir()) {
            let files = list(&partition.path());
            let logs = files.filter(|file| file.path().extension().is_some_and(|of| of == "log"));
            let bytes = logs.map(|file| file.metadata().unwrap().len()).sum();
            partitions.push((partition.path().display().to_string(), bytes));
        }
    }
    partitions
}
