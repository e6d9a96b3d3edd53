//! Readers that stand in a segment while recovery runs over the partition.

use std::time::Duration;

use thalweg::testing::{Disk, DiskCall, DiskError, FailedSync, Fault};
use thalweg::{Durability, Log, Maintenance, Offset, Record, TopicConfig};

/// Recovery begins a new stream of newest bytes; a reader that still holds a segment of the old one must not be given any of it.
#[test]
fn a_reader_in_a_sealed_segment_reads_on_over_a_recovery() {
    let disk = Disk::new();
    let builder = Log::builder().maintenance(Maintenance::Manual);
    let log = builder.open_on(&disk).unwrap();
    let config = TopicConfig::new()
        .durability(Durability::Power)
        .segment_bytes(400 << 10);
    let partition = log.create_topic("t", config).unwrap().partition(0).unwrap();
    let value = [7; 10_000];
    let append = |records| {
        for _ in 0..records {
            partition.append(Record::keyless(&value)).unwrap();
        }
    };
    append(60);
    let mut consumer = log.group("g").subscribe(["t"]).join().unwrap();
    let there = partition.topic_partition().at(Offset::new(41));
    let _ = consumer.poll(Duration::ZERO).unwrap(); // it has its partitions from then on
    consumer.seek(&there).unwrap();
    let mut polled = consumer.poll(Duration::ZERO).unwrap().len();
    append(40); // seals the segment that the consumer stands in
    let mut scan = partition.entries(Offset::new(41)..);
    scan.next().unwrap().unwrap();
    for recovery in 1..4 {
        let failing = Fault::sync(DiskCall::SyncData, FailedSync::Keep, DiskError::Io);
        disk.fail(failing.on(".log"));
        partition.append(Record::keyless("x")).unwrap_err();
        partition.recover().unwrap();
        for _ in 0..45 {
            append(1);
            // A reader at the end, so that the newest bytes are kept.
            let last = partition.offsets().end.get() - 1;
            assert_eq!(partition.entries(Offset::new(last)..).count(), 1);
        }
        polled += consumer.poll(Duration::ZERO).unwrap().len();
        scan.next()
            .unwrap_or_else(|| panic!("recovery {recovery}"))
            .unwrap();
    }
    let end = partition.offsets().end.get();
    while let batch = consumer.poll(Duration::ZERO).unwrap()
        && !batch.is_empty()
    {
        polled += batch.len();
    }
    assert_eq!(polled as u64, end - 41);
    // A scan ends where the partition ended when it began.
    let rest = scan.inspect(|entry| assert!(entry.is_ok())).count();
    assert_eq!(rest, 100 - 41 - 4);
}
