//! What cannot be changed, or not now: it is said, and nothing is done.

use std::time::Duration;

use thalweg::testing::Disk;
use thalweg::{
    Compaction, Durability, Error, Log, Outcome, Partitioner, Retention, TimestampType, TopicConfig,
};

use super::logs::open;
use super::new;

fn refuse(log: &Log, disk: &Disk, changes: TopicConfig) -> Error {
    let topic = log.topic("t").unwrap();
    let (before, points) = (format!("{:?}", topic.settings()), disk.points());
    let refused = topic.alter(changes).unwrap_err();
    assert_eq!(refused.outcome(), Outcome::Rejected);
    assert_eq!(disk.points(), points, "{refused:?}");
    assert_eq!(format!("{:?}", topic.settings()), before, "{refused:?}");
    refused
}

#[test]
fn what_cannot_be_changed_is_named_with_what_is_stored() {
    let disk = Disk::new();
    let log = open(&disk);
    log.create_topic("t", new().partitions(4)).unwrap();
    let fixed = [
        (new().partitions(5), "partitions", "4"),
        (new().partitioner(Partitioner::Kafka), "partitioner", "Xxh3"),
        (
            new().timestamps(TimestampType::AppendTime),
            "timestamps",
            "EventTime",
        ),
    ];
    for (changes, wanted, value) in fixed {
        let refused = refuse(&log, &disk, changes.max_record_bytes(9));
        match &refused {
            Error::ConfigMismatch {
                setting, stored, ..
            } => assert_eq!((*setting, &**stored), (wanted, value)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_topic_that_could_not_be_made_so_is_not_made_so() {
    let disk = Disk::new();
    let log = open(&disk);
    let config = new().max_record_bytes(1000).max_batch_bytes(5000);
    log.create_topic("t", config).unwrap();
    let never = Durability::Interval {
        time: Duration::ZERO,
        bytes: 1,
    };
    let nonsense = [
        (new().max_batch_bytes(999), "max_batch_bytes"),
        // It is too much for what is stored beside it.
        (new().max_record_bytes(5001), "max_batch_bytes"),
        (new().segment_bytes(1), "segment_bytes"),
        (new().segment_age(Duration::ZERO), "segment_age"),
        (new().offset_span(0), "offset_span"),
        (new().index_interval(0), "index_interval"),
        (new().retention(Retention::new().bytes(0)), "retention"),
        (
            new().compacted(Compaction::new().min_dirty_ratio(2.0)),
            "min_dirty_ratio",
        ),
        (new().durability(never), "durability"),
    ];
    for (changes, wanted) in nonsense {
        match refuse(&log, &disk, changes) {
            Error::InvalidSetting { setting, .. } => assert_eq!(setting, wanted),
            other => panic!("{other:?}"),
        }
    }
    // Both together can be.
    let both = new().max_record_bytes(5001).max_batch_bytes(6000);
    log.topic("t").unwrap().alter(both).unwrap();
}

#[test]
fn a_topic_that_is_closed_deleted_or_only_read_is_not_altered() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let log = Log::open(&path).unwrap();
    let topic = log
        .create_topic("t", new().durability(Durability::Process))
        .unwrap();
    topic.append(("k", "v")).unwrap();
    let reader = Log::open_read_only(&path).unwrap();
    for changes in [
        new().max_record_bytes(9),
        new().durability(Durability::Power),
    ] {
        let refused = reader.topic("t").unwrap().alter(changes);
        assert!(
            matches!(refused, Err(Error::ReadOnly { .. })),
            "{refused:?}"
        );
    }
    topic.alter(new().durability(Durability::Power)).unwrap();
    let seen = |log: &Log| log.topic("t").unwrap().settings().durability;
    assert_eq!(seen(&reader), Durability::Process);
    let later = Log::open_read_only(&path).unwrap();
    assert_eq!(seen(&later), Durability::Power);

    log.delete_topic("t").unwrap();
    let gone = topic.alter(new().max_record_bytes(9)).unwrap_err();
    assert!(
        matches!(gone, Error::NotFound { what: "topic", .. }),
        "{gone:?}"
    );
    // Its name is another topic's now.
    let other = log.create_topic("t", new()).unwrap();
    assert!(topic.alter(new().max_record_bytes(9)).is_err());
    assert_eq!(other.settings().max_record_bytes, 1 << 20);
    log.close().unwrap();
    let closed = other.alter(new().max_record_bytes(9));
    assert!(matches!(closed, Err(Error::Closed)), "{closed:?}");
    let nothing = other.alter(new());
    assert!(matches!(nothing, Err(Error::Closed)), "{nothing:?}");
}
