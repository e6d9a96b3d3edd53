//! A topic: routing by key, batches over several partitions, and what cannot be found.

use std::collections::BTreeMap;
use std::error::Error as _;

use thalweg::testing::{Disk, DiskCall, DiskError, Fault};
use thalweg::{Error, Log, Outcome, Partitioner, Record, TopicConfig};

use super::logs::{end, open, rows};

#[test]
fn a_key_always_finds_the_same_partition() {
    let disk = Disk::new();
    let log = open(&disk);
    let mut chosen = BTreeMap::new();
    for how in [Partitioner::Xxh3, Partitioner::Kafka] {
        let topic = log
            .create_topic(
                &format!("{how:?}"),
                TopicConfig::new().partitions(7).partitioner(how),
            )
            .unwrap();
        for n in 0..100 {
            let key = format!("key-{n}");
            let at = topic.append((&key, "v")).unwrap();
            assert_eq!(at.partition(), topic.partition_for(key.as_bytes()));
            chosen.insert((topic.name().to_owned(), key), at.partition());
        }
        assert!(
            topic
                .partitions()
                .iter()
                .all(|partition| end(partition) > 0),
            "all are used"
        );
    }
    log.close().unwrap();
    let log = open(&disk);
    for ((topic, key), partition) in chosen {
        assert_eq!(
            log.topic(&topic).unwrap().partition_for(key.as_bytes()),
            partition
        );
    }
}

#[test]
fn positions_of_a_batch_come_in_the_order_given() {
    let log = Log::in_memory();
    let topic = log
        .create_topic("t", TopicConfig::new().partitions(5))
        .unwrap();
    let keys: Vec<String> = (0..50).map(|n| format!("key-{}", n % 13)).collect();
    for turn in 0..3 {
        let positions = topic
            .append_all(keys.iter().map(|key| (key, format!("{key}/{turn}"))))
            .unwrap();
        assert_eq!(positions.len(), keys.len());
        for (key, at) in keys.iter().zip(&positions) {
            let partition = topic.partition(at.partition()).unwrap();
            let entry = partition.get(at.offset()).unwrap().unwrap();
            assert_eq!(entry.key_str().unwrap(), key);
            assert_eq!(entry.value_str().unwrap(), format!("{key}/{turn}"));
        }
    }
    for partition in topic.partitions() {
        let entries: Vec<_> = partition.entries(..).map(Result::unwrap).collect();
        assert!(
            entries
                .iter()
                .all(|entry| entry.partition() == partition.id())
        );
    }
}

/// Records without a key stay together in a call and go round from call to call, so that no partition is left out.
#[test]
fn records_without_a_key_are_spread() {
    let log = Log::in_memory();
    let topic = log
        .create_topic("t", TopicConfig::new().partitions(4))
        .unwrap();
    for _ in 0..8 {
        let positions = topic
            .append_all((0..5).map(|_| Record::keyless("v")))
            .unwrap();
        assert!(
            positions
                .iter()
                .all(|at| at.partition() == positions[0].partition())
        );
    }
    for _ in 0..8 {
        topic.append(Record::keyless("v")).unwrap();
    }
    let ends: Vec<u64> = topic.partitions().iter().map(end).collect();
    assert_eq!(ends, [12; 4]);
}

#[test]
fn a_partitioner_of_the_host_is_asked_and_needed() {
    let disk = Disk::new();
    let config = || {
        TopicConfig::new()
            .partitions(3)
            .partitioner(Partitioner::Custom("last-byte".into()))
    };
    let log = Log::builder()
        .partitioner("last-byte", |key, count| {
            u32::from(*key.last().unwrap_or(&0)) % count
        })
        .open_on(&disk)
        .unwrap();
    let topic = log.create_topic("t", config()).unwrap();
    for key in ["a", "b", "c"] {
        let at = topic.append((key, key)).unwrap();
        assert_eq!(at.partition().get(), u32::from(key.as_bytes()[0]) % 3);
    }
    log.close().unwrap();
    let log = open(&disk);
    let topic = log.topic("t").unwrap();
    let error = topic.append(("a", "v")).unwrap_err();
    assert!(
        matches!(
            &error,
            Error::InvalidSetting {
                setting: "partitioner",
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(
        topic.partitions().iter().map(end).sum::<u64>(),
        3,
        "reading needs no partitioner"
    );
    let topic = topic.partition(0).unwrap();
    topic
        .append(("a", "a partition chosen by hand needs none either"))
        .unwrap();
}

/// A function that answers with a partition that is not there is the host's mistake, told as an error.
#[test]
fn a_partitioner_that_points_outside_is_an_error() {
    let wild = Log::builder()
        .partitioner("wild", |_, count| count)
        .open_on(&Disk::new())
        .unwrap();
    let config = TopicConfig::new()
        .partitions(3)
        .partitioner(Partitioner::Custom("wild".into()));
    let topic = wild.create_topic("t", config).unwrap();
    let error = topic.append(("k", "v")).unwrap_err();
    assert_eq!(error.outcome(), Outcome::Rejected, "{error:?}");
    assert_eq!(topic.partitions().iter().map(end).sum::<u64>(), 0);
}

#[test]
fn what_is_not_there_is_not_found_by_name() {
    let log = Log::in_memory();
    let topic = log
        .create_topic("t", TopicConfig::new().partitions(2))
        .unwrap();
    for number in [2, 3, u32::MAX] {
        let error = topic.partition(number).unwrap_err();
        assert!(
            matches!(
                error,
                Error::NotFound {
                    what: "partition",
                    ..
                }
            ),
            "{error:?}"
        );
    }
    let error = log.topic("u").unwrap_err();
    assert!(
        matches!(&error, Error::NotFound { what: "topic", name, .. } if &**name == "u"),
        "{error:?}"
    );
    assert_eq!(
        log.topics()
            .iter()
            .map(thalweg::Topic::name)
            .collect::<Vec<_>>(),
        ["t"]
    );
}

#[test]
fn a_compacted_topic_wants_keys_and_says_so() {
    let log = Log::in_memory();
    let config = TopicConfig::new()
        .partitions(2)
        .compacted(thalweg::Compaction::new());
    let topic = log.create_topic("t", config).unwrap();
    for error in [
        topic.append(Record::keyless("v")).unwrap_err(),
        topic
            .append_all([Record::new("k", "v"), Record::keyless("v")])
            .unwrap_err(),
        topic
            .partition(1)
            .unwrap()
            .append(Record::keyless("v"))
            .unwrap_err(),
    ] {
        assert!(
            matches!(&error, Error::KeyRequired { topic, .. } if &**topic == "t"),
            "{error:?}"
        );
        assert_eq!(error.outcome(), Outcome::Rejected);
    }
    assert_eq!(topic.partitions().iter().map(end).sum::<u64>(), 0);
    topic.append(Record::tombstone("k")).unwrap();
    topic.append(("", "an empty key is a key")).unwrap();
}

/// The first partition took its part, the second could not: the answer does not say that nothing was done.
#[test]
fn a_batch_that_failed_half_way_is_indeterminate() {
    let (disk, log) = (Disk::new(), ());
    let () = log;
    let log = open(&disk);
    let topic = log
        .create_topic("t", TopicConfig::new().partitions(2))
        .unwrap();
    let by_partition = |number: u32| {
        (0..1000)
            .map(|n| format!("k{n}"))
            .find(|key| topic.partition_for(key.as_bytes()).get() == number)
            .unwrap()
    };
    let (first, second) = (by_partition(0), by_partition(1));
    topic.append_all([(&first, "a"), (&second, "b")]).unwrap();
    disk.fail(Fault::error(DiskCall::Write, DiskError::Io).on("/1/"));
    let error = topic
        .append_all([(&second, "d"), (&first, "c")])
        .unwrap_err();
    assert_eq!(
        (disk.struck(), error.outcome()),
        (1, Outcome::Indeterminate),
        "{error:?}"
    );
    assert_eq!(
        error.partition(),
        None,
        "the records that are there are not in the one that failed"
    );
    let why = error.source().unwrap().to_string();
    let expected = "the records for 1 of 2 partitions were written, and then those for t-1 failed";
    assert_eq!(why, expected);
    let held: Vec<_> = topic
        .partitions()
        .iter()
        .flat_map(rows)
        .map(|(_, value)| value)
        .collect();
    assert_eq!(held, ["a", "c", "b"]);
}
