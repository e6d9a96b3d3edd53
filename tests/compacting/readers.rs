//! Readers beside compaction: each sees every offset at most once and in order, and in the end the latest value of every key.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use thalweg::testing::Disk;
use thalweg::{
    Durability, EntryRef, Log, LogBuilder, Maintenance, Offset, Partition, ReadMode, Topic,
    TopicConfig,
};

use super::common::{Dice, scale, seed};
use super::world::eager;

/// Record `n` is at offset `n`, and has key `n` modulo this.
const KEYS: u64 = 13;

fn check(entry: EntryRef<'_>) -> u64 {
    let offset = entry.offset().get();
    assert_eq!(entry.key_str().unwrap(), (offset % KEYS).to_string());
    assert_eq!(entry.value_str().unwrap(), offset.to_string());
    offset
}

/// Ends what the others do, also when this thread panics.
struct Ends<'d>(&'d AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Appends, rolls and compacts.
fn write(topic: &Topic, turns: u64, done: &AtomicBool) {
    let _ends = Ends(done);
    let (partition, mut next) = (topic.partition(0).unwrap(), 0);
    for turn in 0..turns {
        let records = next..next + 1 + turn % 40;
        let batch = records
            .clone()
            .map(|n| ((n % KEYS).to_string(), n.to_string()));
        let offsets = partition.append_all(batch).unwrap();
        assert_eq!(offsets.start.get(), next);
        next = records.end;
        if turn % 2 == 0 {
            partition.roll().unwrap();
        }
        topic.compact().unwrap();
    }
}

/// Has everything been read, once nothing more is written? Looked at before the last read.
fn is_done(done: &AtomicBool) -> bool {
    done.load(Ordering::Acquire) // pairs with `Ends`
}

/// Each key's latest value is the last that was seen of it.
fn check_latest(latest: &BTreeMap<u64, u64>, end: u64, who: &str) {
    for key in 0..KEYS {
        let last = (0..end).rev().find(|n| n % KEYS == key);
        assert_eq!(
            latest.get(&key).copied(),
            last,
            "{who}: key {key} below {end}"
        );
    }
}

fn consume(log: &Log, name: &str, done: &AtomicBool) {
    let group = log.group(name).subscribe(["t"]);
    let mut consumer = group.max_poll_records(7).join().unwrap();
    let (mut next, mut latest) = (0, BTreeMap::new());
    loop {
        let last = is_done(done);
        let batch = consumer.poll(Duration::ZERO).unwrap();
        assert!(batch.resets().is_empty());
        for entry in &batch {
            let offset = check(entry);
            assert!(offset >= next, "{offset} behind {next}");
            next = offset + 1;
            latest.insert(offset % KEYS, offset);
        }
        if last && batch.is_empty() && next > 0 {
            break;
        }
        thread::yield_now();
    }
    let end = log.topic("t").unwrap().partition(0).unwrap().offsets().end;
    check_latest(&latest, end.get(), "consumer");
}

fn scan(partition: &Partition, done: &AtomicBool) {
    loop {
        let last = is_done(done);
        let end = partition.offsets().end.get();
        let (mut next, mut latest) = (0, BTreeMap::new());
        for entry in partition.entries(..) {
            let offset = check((&entry.unwrap()).into());
            assert!(offset >= next && offset < partition.offsets().end.get());
            next = offset + 1;
            latest.insert(offset % KEYS, offset);
        }
        if last {
            return check_latest(&latest, end, "scan");
        }
    }
}

fn scan_back(partition: &Partition, done: &AtomicBool) {
    loop {
        let last = is_done(done);
        let end = partition.offsets().end.get();
        let (mut before, mut latest) = (u64::MAX, BTreeMap::new());
        for entry in partition.entries(..).rev() {
            let offset = check((&entry.unwrap()).into());
            assert!(offset < before, "{offset} before {before}");
            before = offset;
            latest.entry(offset % KEYS).or_insert(offset);
        }
        if last {
            return check_latest(&latest, end, "backwards");
        }
    }
}

fn get(partition: &Partition, seed: u64, done: &AtomicBool) {
    let mut dice = Dice::new(seed);
    while !is_done(done) {
        let end = partition.offsets().end.get();
        if end == 0 {
            continue;
        }
        let offset = dice.below(end);
        if let Some(entry) = partition.get(Offset::new(offset)).unwrap() {
            assert_eq!(check((&entry).into()), offset);
        } else {
            let end = partition.offsets().end.get();
            assert!(offset + KEYS < end, "{offset} of {end} is the latest");
        }
        let time = entry_time(partition, offset);
        assert!(time.is_none_or(|at| at >= Offset::new(0)));
    }
}

/// Looking for a time walks over segments that go meanwhile.
fn entry_time(partition: &Partition, offset: u64) -> Option<Offset> {
    let entry = partition.entries(Offset::new(offset)..).next()?.unwrap();
    partition.offset_for_time(entry.timestamp()).unwrap()
}

fn storm(open: impl FnOnce(LogBuilder) -> Log, mode: ReadMode, turns: u64) {
    let builder = Log::builder().maintenance(Maintenance::Manual);
    let log = open(builder.read_mode(mode).compaction_memory(1024));
    let config = TopicConfig::new().segment_bytes(400).index_interval(64);
    let config = config.durability(Durability::Process).compacted(eager());
    let topic = log.create_topic("t", config).unwrap();
    let (done, seed) = (AtomicBool::new(false), seed());
    thread::scope(|scope| {
        let (done, log) = (&done, &log);
        let partition = topic.partition(0).unwrap();
        let of = |n: u64| (partition.clone(), seed + n);
        scope.spawn(move || consume(log, "first", done));
        scope.spawn(move || consume(log, "second", done));
        let (partition, _) = of(0);
        scope.spawn(move || scan(&partition, done));
        let (partition, _) = of(1);
        scope.spawn(move || scan_back(&partition, done));
        let (partition, seed) = of(2);
        scope.spawn(move || get(&partition, seed, done));
        write(&topic, turns, done);
    });
    topic.partition(0).unwrap().roll().unwrap();
    topic.compact().unwrap();
    let left = topic.partition(0).unwrap().entries(..).count() as u64;
    assert_eq!(left, KEYS);
    log.close().unwrap();
}

#[test]
fn f69_readers_of_a_simulated_disk_see_each_offset_once_and_the_latest_of_each_key() {
    for mode in [ReadMode::Positioned, ReadMode::Mapped] {
        let disk = Disk::new();
        storm(
            |builder| builder.open_on(&disk).unwrap(),
            mode,
            60 * scale(),
        );
    }
}

#[test]
fn f69_readers_of_a_real_directory_see_each_offset_once_and_the_latest_of_each_key() {
    for mode in [ReadMode::Positioned, ReadMode::Mapped] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        storm(|builder| builder.open(path).unwrap(), mode, 60 * scale());
    }
}
