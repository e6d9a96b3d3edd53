//! What the hot paths ask of the disk, call by call: one write for an append, nothing at all for a read at the tail.

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::open;
use thalweg::testing::{Disk, DiskCall, ManualClock};
use thalweg::{Durability, Log, Offset, Partition, Record, TopicConfig};

struct Bed {
    disk: Disk,
    clock: ManualClock,
    log: Log,
}

impl Bed {
    fn new() -> Bed {
        let (disk, clock) = (Disk::new(), ManualClock::default());
        let log = open(&disk, &clock).unwrap();
        Bed { disk, clock, log }
    }

    fn partition(&self, config: TopicConfig) -> Partition {
        let topic = self.log.topic_or_create("orders", config.partitions(1));
        topic.unwrap().partition(0).unwrap()
    }

    fn reopened(self) -> Bed {
        let Bed { disk, clock, log } = self;
        log.close().unwrap();
        let log = open(&disk, &clock).unwrap();
        Bed { disk, clock, log }
    }

    /// The calls that the disk sees meanwhile.
    fn calls(&self, work: impl FnOnce()) -> BTreeMap<DiskCall, u64> {
        self.disk.mark();
        work();
        self.disk.calls()
    }
}

fn process() -> TopicConfig {
    TopicConfig::new().durability(Durability::Process)
}

fn calls<const N: usize>(expected: [(DiskCall, u64); N]) -> BTreeMap<DiskCall, u64> {
    BTreeMap::from(expected)
}

#[test]
fn an_append_at_process_is_one_write_and_no_other_call() {
    let bed = Bed::new();
    let partition = bed.partition(process());
    partition
        .append(("k", "the first one makes the files"))
        .unwrap();
    for _ in 0..1000 {
        let seen = bed.calls(|| {
            partition.append(("customer-7", "2 x espresso")).unwrap();
        });
        assert_eq!(seen, calls([(DiskCall::Write, 1)]));
    }
}

#[test]
fn a_batch_at_process_is_one_write_however_many_records_it_has() {
    let bed = Bed::new();
    let partition = bed.partition(process());
    partition
        .append(("k", "the first one makes the files"))
        .unwrap();
    for records in [1, 10, 1000, 10_000] {
        let seen = bed.calls(|| {
            let batch = (0..records).map(|_| ("customer-7", "2 x espresso"));
            partition.append_all(batch).unwrap();
        });
        assert_eq!(seen, calls([(DiskCall::Write, 1)]), "{records}");
    }
}

#[test]
fn an_append_at_power_is_a_write_a_look_at_the_lock_a_sync_and_a_recovery_point() {
    let bed = Bed::new();
    let partition = bed.partition(TopicConfig::new().durability(Durability::Power));
    partition
        .append(("k", "the first one makes the files"))
        .unwrap();
    for _ in 0..100 {
        let seen = bed.calls(|| {
            partition.append(("customer-7", "2 x espresso")).unwrap();
        });
        let look = (DiskCall::Metadata, 1);
        let expected = [(DiskCall::Write, 2), look, (DiskCall::SyncData, 1)];
        assert_eq!(seen, calls(expected));
    }
}

#[test]
fn reading_at_the_tail_makes_no_call() {
    let bed = Bed::new();
    let partition = bed.partition(process());
    let mut consumer = bed
        .log
        .group("kitchen")
        .subscribe(["orders"])
        .join()
        .unwrap();
    for n in 0..200 {
        let at = partition.append(("customer-7", "2 x espresso")).unwrap();
        let seen = bed.calls(|| {
            assert_eq!(consumer.poll(Duration::ZERO).unwrap().len(), 1);
            assert!(consumer.poll(Duration::ZERO).unwrap().is_empty());
            let entry = partition.get(at.offset()).unwrap().unwrap();
            assert_eq!(entry.value_str().unwrap(), "2 x espresso");
            assert_eq!(partition.entries(at.offset()..).count(), 1);
            let newest = partition.entries(..).next_back().unwrap().unwrap();
            assert_eq!(newest.offset(), at.offset());
        });
        // The first reader at the end reads the file, and from then on the newest bytes are kept for it.
        if n > 0 {
            assert_eq!(seen, calls([]), "record {n}");
        }
    }
    let unread = 5 << 20;
    for _ in 0..unread >> 10 {
        partition.append(Record::keyless(vec![0; 1024])).unwrap();
    }
    let seen = bed.calls(|| assert!(!consumer.poll(Duration::ZERO).unwrap().is_empty()));
    assert_ne!(seen, calls([]), "what nobody reads is not kept");
}

#[test]
fn one_record_of_a_sealed_segment_is_one_read() {
    let bed = Bed::new();
    let partition = bed.partition(process().segment_bytes(64 << 10));
    let records = 4000;
    for n in 0..records {
        let value = format!("value-{n:050}");
        partition.append(Record::keyless(value)).unwrap();
    }
    partition.roll().unwrap(); // the last one is sealed too
    drop(partition);
    let bed = bed.reopened();
    let partition = bed.partition(TopicConfig::new());
    for round in 0..2 {
        for n in (0..records).step_by(7) {
            let seen = bed.calls(|| {
                let entry = partition.get(Offset::new(n)).unwrap().unwrap();
                assert_eq!(entry.value_str().unwrap(), format!("value-{n:050}"));
            });
            // At first the files are opened, and header, footer and index are read.
            if round > 0 {
                assert_eq!(seen, calls([(DiskCall::Read, 1)]), "offset {n}");
            }
        }
    }
}

#[test]
fn a_record_far_from_every_place_of_the_index_is_reached_in_a_few_reads() {
    let bed = Bed::new();
    let config = process().index_interval(1 << 30).segment_bytes(4 << 20);
    let partition = bed.partition(config);
    for n in 0..20_000 {
        let value = format!("value-{n:050}");
        partition.append(Record::keyless(value)).unwrap();
    }
    partition.roll().unwrap();
    let last = Offset::new(19_999);
    assert!(partition.get(last).unwrap().is_some());
    let seen = bed.calls(|| {
        assert!(partition.get(last).unwrap().is_some());
    });
    // Two megabytes lie before it: no byte of them is read twice, and no batch takes a read of its own.
    assert!(seen[&DiskCall::Read] <= 600, "{seen:?}");
}
