//! The hot paths ask for no memory: not for an appended record, and not for a record that is read by reference.
//!
//! What grows with the bytes and not with the calls (an index entry every few KiB, a block for each read) may allocate now and
//! then. So calls are counted that allocate at all, and nearly none may.

#![allow(unsafe_code)] // a counting allocator cannot be written without it

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use thalweg::{Durability, EntryRef, Error, Log, Partition, Record, Topic, TopicConfig};

/// The system's allocator, counting for each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    ALLOCATIONS.with(|n| n.set(n.get() + 1));
}

// SAFETY: every call is passed on unchanged to the system's allocator; counting touches a plain cell and allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are those that are asked for here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, len) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
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
