//! What a user sees of topics: their names and settings, and how records find their partitions.

use std::time::Duration;

use thalweg::testing::Disk;
use thalweg::{Compaction, Durability, Error, FindingKind, Log, Partitioner, Record, TopicConfig};

fn values(log: &Log, topic: &str) -> Vec<String> {
    let topic = log.topic(topic).unwrap();
    let entries = topic
        .partitions()
        .into_iter()
        .flat_map(|partition| partition.entries(..));
    entries
        .map(|entry| entry.unwrap().value_str().unwrap().to_owned())
        .collect()
}

#[test]
fn what_was_set_and_cannot_change_must_agree() {
    let log = Log::in_memory();
    let config = TopicConfig::new()
        .partitions(4)
        .partitioner(Partitioner::Kafka);
    log.topic_or_create("orders", config.clone()).unwrap();
    log.topic_or_create("orders", config).unwrap();
    log.topic_or_create("orders", TopicConfig::new()).unwrap();
    let five = log.topic_or_create("orders", TopicConfig::new().partitions(5));
    assert!(matches!(
        five,
        Err(Error::ConfigMismatch {
            setting: "partitions",
            ..
        })
    ));
    let round = log.topic_or_create(
        "orders",
        TopicConfig::new().partitioner(Partitioner::RoundRobin),
    );
    assert!(matches!(
        round,
        Err(Error::ConfigMismatch {
            setting: "partitioner",
            ..
        })
    ));
    let again = log.create_topic("orders", TopicConfig::new());
    assert!(matches!(again, Err(Error::AlreadyExists { .. })));
    // A program that asks for more safety than the topic has must not run without it.
    let fast = TopicConfig::new().durability(Durability::Process);
    log.create_topic("clicks", fast.clone()).unwrap();
    log.topic_or_create("clicks", fast.clone()).unwrap();
    let safer = TopicConfig::new().durability(Durability::Power);
    assert!(matches!(
        log.topic_or_create("clicks", safer),
        Err(Error::ConfigMismatch { setting: "durability", stored, .. }) if &*stored == "Process"
    ));
    let safe = log.topic_or_create("orders", fast).unwrap();
    assert_eq!(safe.settings().durability, Durability::Power);
    assert!(matches!(log.topic("sales"), Err(Error::NotFound { .. })));
}

#[test]
fn f87_nonsense_is_refused_with_the_name_of_the_setting() {
    let log = Log::in_memory();
    for (setting, config) in [
        ("partitions", TopicConfig::new().partitions(0)),
        ("partitions", TopicConfig::new().partitions(u32::MAX)),
        ("segment_bytes", TopicConfig::new().segment_bytes(0)),
        (
            "segment_age",
            TopicConfig::new().segment_age(Duration::ZERO),
        ),
        ("offset_span", TopicConfig::new().offset_span(0)),
    ] {
        match log.create_topic("orders", config) {
            Err(Error::InvalidSetting { setting: named, .. }) => assert_eq!(named, setting),
            other => panic!("{setting}: {other:?}"),
        }
    }
    assert!(log.topics().is_empty());
}

#[test]
fn f88_names_that_no_topic_can_have_are_refused_and_odd_ones_are_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(dir.path().join("log")).unwrap();
    let long = "x".repeat(250);
    for name in ["", ".", "..", "../x", "a/b", "a\0b", "größe", "a b", &long] {
        let refused = log.create_topic(name, TopicConfig::new());
        assert!(
            matches!(refused, Err(Error::InvalidName { .. })),
            "{name:?}"
        );
    }
    let odd = ["con", ".hidden", "a", "A", "__x", "a.tmp", &long[..249]];
    for name in odd {
        log.create_topic(name, TopicConfig::new())
            .unwrap()
            .append(("k", name))
            .unwrap();
    }
    log.close().unwrap();
    let log = Log::open(dir.path().join("log")).unwrap();
    for name in odd {
        assert_eq!(values(&log, name), [name]);
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_topic_without_its_description_does_not_stop_the_others() {
    let disk = Disk::new();
    let log = Log::builder().open_on(&disk).unwrap();
    for name in ["orders", "sales"] {
        log.create_topic(name, TopicConfig::new())
            .unwrap()
            .append(("a", name))
            .unwrap();
    }
    log.close().unwrap();
    let (config, len) = disk
        .files()
        .into_iter()
        .find(|(path, _)| path.to_string_lossy().contains("orders-") && path.ends_with("config"))
        .unwrap();
    disk.zero(&config, 0..len).unwrap();

    let log = Log::builder().open_on(&disk).unwrap();
    assert!(log.topic("orders").unwrap_err().is_corruption());
    assert!(
        log.topic_or_create("orders", TopicConfig::new())
            .unwrap_err()
            .is_corruption()
    );
    assert_eq!(values(&log, "sales"), ["sales"]);
    assert_eq!(log.recovery().findings()[0].kind, FindingKind::Damaged);
}

#[test]
fn a_batch_over_several_partitions_keeps_the_order_of_its_positions() {
    let log = Log::in_memory();
    let orders = log
        .create_topic("orders", TopicConfig::new().partitions(4))
        .unwrap();
    let keys: Vec<String> = (0..50).map(|n| format!("customer-{n}")).collect();
    let positions = orders
        .append_all(keys.iter().map(|key| (key, key)))
        .unwrap();
    assert_eq!(positions.len(), 50);
    for (key, at) in keys.iter().zip(&positions) {
        assert_eq!(at.partition(), orders.partition_for(key.as_bytes()));
        let entry = orders
            .partition(at.partition())
            .unwrap()
            .get(at.offset())
            .unwrap()
            .unwrap();
        assert_eq!(entry.value_str().unwrap(), key);
    }
    assert!(
        orders
            .append_all(Vec::<(&str, &str)>::new())
            .unwrap()
            .is_empty()
    );
}

#[test]
fn records_without_a_key_spread_one_by_one_and_stay_together_in_a_batch() {
    let log = Log::in_memory();
    let clicks = log
        .create_topic("clicks", TopicConfig::new().partitions(3))
        .unwrap();
    let one_by_one: Vec<u32> = (0..3)
        .map(|_| {
            clicks
                .append(Record::keyless("x"))
                .unwrap()
                .partition()
                .get()
        })
        .collect();
    assert_eq!(one_by_one, [0, 1, 2]);
    let batch = clicks
        .append_all((0..5).map(|_| Record::keyless("x")))
        .unwrap();
    assert!(
        batch
            .iter()
            .all(|at| at.partition() == batch[0].partition())
    );
    let next = clicks.append(Record::keyless("x")).unwrap();
    assert_ne!(next.partition(), batch[0].partition());
}

#[test]
fn a_compacted_topic_refuses_records_without_a_key() {
    let log = Log::in_memory();
    let state = log
        .create_topic("state", TopicConfig::new().compacted(Compaction::new()))
        .unwrap();
    assert!(matches!(
        state.append(Record::keyless("x")),
        Err(Error::KeyRequired { .. })
    ));
    state.append(("k", "x")).unwrap();
}
