//! The hot paths ask for no memory: not for an appended record, and not for a record that is read by reference.
//!
//! What grows with the bytes and not with the calls (an index entry every few KiB, a block for each read) may allocate now and
//! then. So calls are counted that allocate at all, and nearly none may.

#![allow(unsafe_code)] // a counting allocator cannot be written without it

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use thalweg::{
    Batch, Durability, EntryRef, Error, Log, Maintenance, Offset, Partition, Positions, Record,
    Topic, TopicConfig,
};

/// The system's allocator, counting for each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// What this thread asked for, less what it gave back.
    static HELD: Cell<i64> = const { Cell::new(0) };
}

fn count(bytes: usize) {
    ALLOCATIONS.with(|n| n.set(n.get() + 1));
    hold(bytes as i64);
}

fn hold(bytes: i64) {
    let _ = HELD.try_with(|n| n.set(n.get() + bytes)); // a thread that ends gives back more than it counts
}

// SAFETY: every call is passed on unchanged to the system's allocator; counting touches a plain cell and allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises are those that are asked for here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        count(len);
        hold(-(layout.size() as i64));
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, len) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        hold(-(layout.size() as i64));
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often this thread asks for memory meanwhile.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

const CALLS: usize = 2000;
/// So many of these calls may allocate: one for each few KiB that they write.
const ALLOWED: usize = CALLS / 20;

/// How many of many calls allocate.
fn calls_that_allocate(mut call: impl FnMut(usize)) -> usize {
    for warm_up in 0..CALLS {
        call(warm_up);
    }
    (0..CALLS).filter(|&i| allocations(|| call(i)) > 0).count()
}

fn topic(partitions: u32) -> Topic {
    let config = TopicConfig::new()
        .partitions(partitions)
        .durability(Durability::Process);
    let log = Log::in_memory();
    log.create_topic("orders", config).unwrap()
}

/// A topic, which keeps its log open, and its one partition.
fn partition() -> (Topic, Partition) {
    let topic = topic(1);
    let partition = topic.partition(0).unwrap();
    (topic, partition)
}

fn filled(records: u64) -> (Topic, Partition) {
    let (topic, partition) = partition();
    for batch in 0..records / 100 {
        let values = (batch * 100..(batch + 1) * 100).map(|n| format!("value-{n:094}"));
        partition.append_all(values.map(Record::keyless)).unwrap();
    }
    (topic, partition)
}

#[test]
fn the_allocator_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(7)))), 1);
    assert_eq!(
        calls_that_allocate(|i| drop(std::hint::black_box(vec![i]))),
        CALLS
    );
}

#[test]
fn an_append_to_a_partition_allocates_nothing() {
    let (_open, partition) = partition();
    let value = [7; 100];
    let found = calls_that_allocate(|_| {
        partition.append(("customer-7", &value)).unwrap();
    });
    assert!(found <= ALLOWED, "{found} of {CALLS}");
}

#[test]
fn an_append_that_is_routed_by_its_key_allocates_nothing() {
    let topic = topic(12);
    let keys: Vec<String> = (0..100).map(|n| format!("customer-{n}")).collect();
    let value = [7; 100];
    let found = calls_that_allocate(|i| {
        topic.append((&keys[i % 100], &value)).unwrap();
    });
    assert!(found <= ALLOWED, "{found} of {CALLS}");
}

#[test]
fn a_batch_allocates_nothing_for_its_records() {
    let (_open, partition) = partition();
    let value = [7; 100];
    let records = || (0..100).map(|_| ("customer-7", &value));
    partition.append_all(records()).unwrap();
    let per_batch = allocations(|| {
        for _ in 0..10 {
            partition.append_all(records()).unwrap();
        }
    });
    // Ten batches of 11 KiB: each has index entries and pages of the simulated disk, and no part in any of its records.
    assert!(per_batch <= 100, "{per_batch} for 1000 records");
}

#[test]
fn records_that_are_read_by_reference_allocate_nothing() {
    let (_open, partition) = filled(20_000);
    let (mut records, mut bytes) = (0, 0);
    let found = allocations(|| {
        let add = |entry: EntryRef<'_>| {
            records += 1;
            bytes += entry.value().map_or(0, <[u8]>::len);
            Ok::<_, Error>(())
        };
        partition.entries(..).try_for_each_ref(add).unwrap();
    });
    assert_eq!((records, bytes), (20_000, 2_000_000));
    // Two megabytes are some twenty blocks, and a block is used again.
    assert!(found <= 60, "{found} for 20000 records");
}

#[test]
fn owned_entries_share_the_block_they_were_read_with() {
    let (_open, partition) = filled(20_000);
    let mut bytes = 0;
    let found = allocations(|| {
        for entry in partition.entries(..) {
            bytes += entry.unwrap().value().map_or(0, <[u8]>::len);
        }
    });
    assert_eq!(bytes, 2_000_000);
    assert!(found <= 120, "{found} for 20000 records");
}

fn topic_and_log(records: u64) -> (Log, Topic) {
    let log = Log::in_memory();
    let config = TopicConfig::new()
        .partitions(1)
        .durability(Durability::Process);
    let topic = log.create_topic("orders", config).unwrap();
    for batch in 0..records / 100 {
        let values = (batch * 100..(batch + 1) * 100).map(|n| format!("value-{n:094}"));
        topic.append_all(values.map(Record::keyless)).unwrap();
    }
    (log, topic)
}

#[test]
fn records_that_are_polled_allocate_nothing_each() {
    let (log, _topic) = topic_and_log(20_000);
    let mut consumer = log.group("g").subscribe(["orders"]).join().unwrap();
    let (mut records, mut polls) = (0, 0);
    let found = allocations(|| {
        loop {
            let batch = consumer.poll(Duration::ZERO).unwrap();
            if batch.is_empty() {
                break;
            }
            polls += 1;
            records += batch.iter().filter(|entry| entry.value().is_some()).count();
        }
    });
    assert_eq!((records, polls), (20_000, 40));
    // A batch is a value of its own: what it holds together takes a few allocations, however many records it has.
    assert!(found <= 12 * polls, "{found} for {polls} polls");
}

/// A reader at the tail is given the memory that the writer made the batch in, and the writer goes on in that of an earlier batch.
#[test]
fn batches_that_are_polled_as_they_come_stay_as_they_are_and_take_no_new_memory() {
    let (log, topic) = topic_and_log(100);
    let partition = topic.partition(0).unwrap();
    let mut consumer = log.group("g").subscribe(["orders"]).join().unwrap();
    while !consumer.poll(Duration::ZERO).unwrap().is_empty() {}
    let mut append_and_poll = |n: u32| {
        let value = [n.to_le_bytes(); 25];
        let records = (0..500).map(|_| Record::keyless(value.as_flattened()));
        let found = allocations(|| {
            partition.append_all(records).unwrap();
        });
        (found, consumer.poll(Duration::ZERO).unwrap())
    };
    let holds = |batch: &Batch, n: u32| {
        let value = [n.to_le_bytes(); 25];
        let same = |entry: EntryRef<'_>| entry.value() == Some(value.as_flattened());
        batch.len() == 500 && batch.iter().all(same)
    };
    // Each is held while the next ones are made.
    let held: Vec<Batch> = (0..20).map(|n| append_and_poll(n).1).collect();
    assert!((0..20).zip(&held).all(|(n, batch)| holds(batch, n)));
    drop(held);
    let mut before = append_and_poll(20).1;
    let mut of_appends = 0;
    for n in 21..121 {
        let (found, batch) = append_and_poll(n);
        assert!(holds(&before, n - 1) && holds(&batch, n));
        of_appends += found;
        before = batch;
    }
    // (The pages of the simulated disk, and entries of the index.)
    assert!(
        of_appends <= 100 * 20,
        "{of_appends} in 100 appends of 51 KB"
    );
}

#[test]
fn a_poll_that_finds_nothing_allocates_nothing() {
    let (log, _topic) = topic_and_log(100);
    let mut consumer = log.group("g").subscribe(["orders"]).join().unwrap();
    while !consumer.poll(Duration::ZERO).unwrap().is_empty() {}
    let found = calls_that_allocate(|_| {
        assert!(consumer.poll(Duration::ZERO).unwrap().is_empty());
    });
    assert_eq!(found, 0);
}

#[test]
fn a_commit_allocates_nothing() {
    let (log, topic) = topic_and_log(2_000);
    let mut consumer = log.group("g").subscribe(["orders"]).join().unwrap();
    assert_eq!(consumer.poll(Duration::ZERO).unwrap().len(), 500);
    let at = topic.partition(0).unwrap().topic_partition();
    let positions: Vec<Positions> = (0..100)
        .map(|n| [at.at(Offset::new(n))].into_iter().collect())
        .collect();
    let found = calls_that_allocate(|n| consumer.commit_at(&positions[n % 100]).unwrap());
    assert!(found <= ALLOWED, "{found} of {CALLS}");
}

/// Many segments on a real disk, and a member that reads one batch for every two hundred that are written: what it holds does not
/// grow with what it has not read, and nobody waits for it.
#[test]
fn f115_a_consumer_that_falls_behind_without_end_holds_no_more_memory_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let builder = Log::builder().maintenance(Maintenance::Manual);
    let log = builder.open(dir.path().join("log")).unwrap();
    let config = TopicConfig::new()
        .partitions(2)
        .durability(Durability::Process)
        .segment_bytes(256 << 10);
    let topic = log.create_topic("orders", config).unwrap();
    let mut slow = log.group("g").subscribe(["orders"]).join().unwrap();
    let value = "x".repeat(1000);
    let write = |batches: u32| {
        for n in 0..batches {
            let partition = topic.partition(n % 2).unwrap();
            partition
                .append_all((0..10).map(|_| Record::keyless(&value)))
                .unwrap();
        }
    };
    let mut read = 0;
    let mut held = Vec::new();
    for _ in 0..20 {
        write(200); // 2 MB
        let batch = slow.poll(Duration::ZERO).unwrap();
        read += batch.len();
        slow.commit().unwrap();
        drop(batch);
        held.push(HELD.with(Cell::get));
    }
    let behind: u64 = slow.assignment().iter().filter_map(|at| slow.lag(at)).sum();
    assert!(
        behind > 25_000 && read == 20 * 500,
        "{behind} behind {read}"
    );
    // 40 MB were written, and 30 MB not read. Per segment there is a little to know: its name, its size, its index.
    let (early, late) = (held[4], held[19]);
    println!("held {early} bytes after 10 MB, {late} after 40 MB");
    assert!(late - early < 300_000, "{held:?}");
    // Stopped altogether it holds nothing more either, and those who write do not wait.
    write(1000);
    assert!(HELD.with(Cell::get) - late < 300_000);
}
