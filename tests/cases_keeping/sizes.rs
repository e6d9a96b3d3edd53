//! B48 and B49: a limit of size is a lower bound of what is kept, to the byte.

use thalweg::testing::Disk;
use thalweg::{Durability, Retention, TopicConfig};

use super::logs::{files, fresh, numbered, one, open, rows};
use super::{lens, maintain, segments, start};

/// Segments of these sizes under a limit; how many go, and how many are left.
fn kept(sizes: &[usize], limit: u64) -> (u64, usize) {
    let config = TopicConfig::new().retention(Retention::new().bytes(limit));
    let (disk, log, partition) = fresh(config);
    segments(&partition, sizes);
    let before = files(&disk, "t", ".log");
    let report = maintain(&log);
    let (gone, after) = (report.segments_deleted, files(&disk, "t", ".log"));
    assert_eq!(after, before[gone as usize..], "the oldest, and no others");
    assert_eq!(start(&partition), gone, "one record each");
    let freed: u64 = lens(sizes)[..gone as usize].iter().sum();
    assert_eq!(report.bytes_freed, freed);
    assert_eq!(maintain(&log).segments_deleted, 0, "a second pass");
    (gone, after.len())
}

#[test]
fn b48_a_limit_of_size_is_what_is_kept_at_least() {
    let mixed = [10_000, 20_000, 10_000];
    assert_eq!(kept(&mixed, 20_000), (1, 2), "3 of 4 stay under 2");
    let even = [10_000; 4];
    let of_three: u64 = lens(&even)[1..].iter().sum();
    assert_eq!(kept(&even, of_three), (1, 3));
    assert_eq!(kept(&even, of_three + 1), (0, 4), "not one byte less");
    assert_eq!(kept(&even, of_three - 1), (1, 3));
    assert_eq!(kept(&even, 1), (3, 1), "the last segment is not touched");
    assert_eq!(kept(&even, u64::MAX), (0, 4));
}

#[test]
fn b49_half_of_ten_segments_stay_and_a_second_pass_takes_nothing() {
    let mut sizes = vec![10_000; 10];
    sizes.push(0);
    let len = lens(&sizes)[0];
    let config = TopicConfig::new().retention(Retention::new().bytes(5 * len));
    let (disk, log, partition) = fresh(config);
    segments(&partition, &sizes[..10]);
    partition.roll().unwrap();
    for removed in [5, 0, 0] {
        assert_eq!(log.maintain().unwrap().segments_deleted, removed);
        assert_eq!(files(&disk, "t", ".log").len(), 6);
        assert_eq!(start(&partition), 5);
    }
}

/// A limit is one of each partition, at every level; batches that are larger than a segment count as what they are.
#[test]
fn b48_each_partition_keeps_its_own_share() {
    for level in [Durability::Power, Durability::Process] {
        let disk = Disk::new();
        let log = open(&disk);
        let config = TopicConfig::new()
            .partitions(3)
            .segment_bytes(400)
            .durability(level)
            .retention(Retention::new().bytes(2000));
        let topic = log.create_topic("t", config).unwrap();
        let [small, large, unused] = &topic.partitions()[..] else {
            panic!("three partitions");
        };
        super::logs::fill(small, 0..40);
        for _ in 0..5 {
            let batch = ["a", "b", "c"].map(|key| (key, "x".repeat(700)));
            large.append_all(batch).unwrap();
        }
        maintain(&log);
        assert_eq!(start(large), 12, "one batch alone is above the limit");
        let left = start(small);
        assert!(left > 0 && left < 30, "{left}");
        assert_eq!(rows(small), numbered(left..40));
        assert_eq!(unused.offsets().end.get(), 0);
        log.close().unwrap();
        let log = open(&disk);
        assert!(log.recovery().is_empty(), "{:?}", log.recovery());
        let topic = log.topic("t").unwrap();
        assert_eq!(rows(&one(&topic)), numbered(left..40));
    }
}
