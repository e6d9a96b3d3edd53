//! Topics that get more partitions: what moves and what stays, who finds the new ones, and what a crash or an error leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use thalweg::testing::Disk;
use thalweg::{
    Durability, Error, Log, Maintenance, Outcome, PartitionId, Partitioner, Position, Record,
    Result, Topic, TopicConfig,
};

mod crashes;
mod errors;
mod members;
mod threads;

const NOW: Duration = Duration::ZERO;

fn open(disk: &Disk) -> Log {
    try_open(disk).unwrap()
}

fn try_open(disk: &Disk) -> Result<Log> {
    let builder = Log::builder().maintenance(Maintenance::Manual);
    builder.open_on(disk)
}

fn config(partitions: u32) -> TopicConfig {
    let config = TopicConfig::new().durability(Durability::Process);
    config.partitions(partitions)
}

/// As many as every way of asking tells.
fn count(topic: &Topic) -> u32 {
    let count = topic.settings().partitions;
    let all = topic.partitions();
    let numbers: Vec<u32> = all.iter().map(|p| p.id().get()).collect();
    assert_eq!(numbers, (0..count).collect::<Vec<_>>());
    for id in 0..count {
        assert_eq!(topic.partition(id).unwrap().id(), PartitionId::new(id));
    }
    let none = topic.partition(count).unwrap_err();
    assert!(matches!(
        none,
        Error::NotFound {
            what: "partition",
            ..
        }
    ));
    count
}

/// The values of one partition, in order.
fn values(topic: &Topic, partition: u32) -> Vec<String> {
    let entries = topic.partition(partition).unwrap().entries(..);
    entries
        .map(|entry| entry.unwrap().value_str().unwrap().to_owned())
        .collect()
}

/// The partitions of many records without a key, one after the other.
fn keyless(topic: &Topic, records: usize) -> BTreeSet<u32> {
    let append = |_| topic.append(Record::keyless("v")).unwrap();
    (0..records)
        .map(append)
        .map(|at| at.partition().get())
        .collect()
}

fn users() -> impl Iterator<Item = String> {
    (1..=20).map(|n| format!("user-{n}"))
}

#[test]
fn every_handle_has_the_new_partitions_at_once_and_all_of_them_take_records() {
    let log = Log::in_memory();
    let orders = log.create_topic("orders", config(3)).unwrap();
    let (clone, asked) = (orders.clone(), log.topic("orders").unwrap());
    orders.add_partitions_breaking_key_order(2).unwrap();
    clone.add_partitions_breaking_key_order(1).unwrap();
    for topic in [&orders, &clone, &asked, &log.topic("orders").unwrap()] {
        assert_eq!(count(topic), 6);
    }
    assert_eq!(keyless(&asked, 12), (0..6).collect());
    for partition in asked.partitions() {
        let end = partition.offsets().end.get();
        let at = partition.append(("k", "v")).unwrap();
        assert_eq!(at.offset().get(), end);
    }
}

/// Case B84.
#[test]
fn b84_only_the_call_that_says_so_moves_keys_and_what_was_written_stays() {
    let disk = Disk::new();
    let log = open(&disk);
    let orders = log.create_topic("orders", config(3)).unwrap();
    let append = |topic: &Topic, turn: &str| -> BTreeMap<String, Position> {
        let append = |user: String| {
            let at = topic.append((&user, &format!("{user} {turn}"))).unwrap();
            (user, at)
        };
        users().map(append).collect()
    };
    let before = append(&orders, "before");
    // Opening with another count, more or fewer, changes nothing.
    for wanted in [5, 2] {
        let refused = log.topic_or_create("orders", config(wanted)).unwrap_err();
        assert!(
            matches!(&refused, Error::ConfigMismatch { setting: "partitions", stored, .. } if &**stored == "3"),
            "{refused:?}"
        );
    }
    assert_eq!(count(&orders), 3);

    orders.add_partitions_breaking_key_order(2).unwrap();
    let after = append(&orders, "after");
    let moved = |user: &String| before[user].partition() != after[user].partition();
    let (moved, stayed): (Vec<String>, Vec<String>) = users().partition(moved);
    assert!(
        !moved.is_empty() && !stayed.is_empty(),
        "{moved:?} {stayed:?}"
    );
    for user in &stayed {
        assert!(before[user].offset() < after[user].offset());
    }
    for log in [log.clone(), {
        log.close().unwrap();
        open(&disk)
    }] {
        let Ok(orders) = log.topic("orders") else {
            continue; // the one that is closed
        };
        assert_eq!(count(&orders), 5);
        for (user, at) in before.iter().chain(&after) {
            let partition = orders.partition(at.partition()).unwrap();
            let entry = partition.get(at.offset()).unwrap().unwrap();
            assert_eq!(entry.key_str().unwrap(), user);
        }
        // From now on it is a topic of five partitions.
        let refused = log.topic_or_create("orders", config(3)).unwrap_err();
        assert!(matches!(&refused, Error::ConfigMismatch { stored, .. } if &**stored == "5"));
        log.topic_or_create("orders", config(5)).unwrap();
        for user in users() {
            assert_eq!(
                orders.partition_for(user.as_bytes()),
                after[&user].partition()
            );
        }
    }
}

/// A grown topic routes as one that was made with so many partitions.
#[test]
fn every_partitioner_goes_by_the_new_count() {
    let by_length = |key: &[u8], count: u32| {
        assert!(count == 2 || count == 7, "{count}");
        key.len() as u32 % count
    };
    let disk = Disk::new();
    let builder = Log::builder().partitioner("length", by_length);
    let log = builder.open_on(&disk).unwrap();
    let hows = [
        Partitioner::Xxh3,
        Partitioner::Kafka,
        Partitioner::RoundRobin,
        Partitioner::Custom("length".into()),
    ];
    for (n, how) in hows.into_iter().enumerate() {
        let of = |count| config(count).partitioner(how.clone());
        let grown = log.create_topic(&format!("grown-{n}"), of(2)).unwrap();
        let made = log.create_topic(&format!("made-{n}"), of(7)).unwrap();
        grown.add_partitions_breaking_key_order(5).unwrap();
        let mut used = BTreeSet::new();
        for len in 0..100 {
            let key = "k".repeat(len);
            let (to, like) = (grown.append((&key, "v")), made.append((&key, "v")));
            let (to, like) = (to.unwrap(), like.unwrap());
            assert_eq!(to.partition(), like.partition(), "{how:?} {key}");
            let for_key = grown.partition_for(key.as_bytes());
            assert_eq!(for_key, made.partition_for(key.as_bytes()));
            used.insert(to.partition().get());
        }
        assert_eq!(used, (0..7).collect(), "{how:?}");
        assert_eq!(keyless(&grown, 14), (0..7).collect(), "{how:?}");
    }
}

#[test]
fn a_batch_without_keys_stays_together_and_takes_the_new_partitions_in_turn() {
    let log = Log::in_memory();
    let orders = log.create_topic("orders", config(1)).unwrap();
    orders.add_partitions_breaking_key_order(3).unwrap();
    let mut used = BTreeSet::new();
    for _ in 0..8 {
        let positions = orders
            .append_all(["a", "b", "c"].map(Record::keyless))
            .unwrap();
        assert!(
            positions
                .iter()
                .all(|at| at.partition() == positions[0].partition())
        );
        used.insert(positions[0].partition().get());
    }
    assert_eq!(used, (0..4).collect());
}

/// What a call hands over while it runs does not change by what it counts.
#[test]
fn a_topic_that_grows_within_an_append_keeps_a_key_together() {
    let log = Log::in_memory();
    let orders = log.create_topic("orders", config(3)).unwrap();
    let grows = |n: u32| {
        if n == 50 {
            orders.add_partitions_breaking_key_order(60).unwrap();
        }
        (format!("user-{}", n % 20), n.to_string())
    };
    let positions = orders.append_all((0..100).map(grows)).unwrap();
    assert!(positions.iter().all(|at| at.partition().get() < 3));
    assert_eq!(count(&orders), 63);
}

#[test]
fn it_grows_again_and_again_in_every_life_and_keeps_what_was_written() {
    let disk = Disk::new();
    let mut log = open(&disk);
    let mut orders = log.create_topic("orders", config(1)).unwrap();
    let mut of = 1;
    for (turn, more) in [1, 1, 2, 30, 1, 100, 7].into_iter().enumerate() {
        orders.add_partitions_breaking_key_order(more).unwrap();
        of += more;
        assert_eq!(count(&orders), of);
        let last = orders.partition(of - 1).unwrap();
        last.append(("k", &turn.to_string())).unwrap();
        match turn % 3 {
            0 => log.close().unwrap(),
            1 => drop((log, orders, last)),
            _ => continue,
        }
        log = open(&disk);
        assert!(log.recovery().is_empty(), "{:?}", log.recovery());
        orders = log.topic("orders").unwrap();
        assert_eq!(count(&orders), of);
        assert_eq!(values(&orders, of - 1), [turn.to_string()]);
    }
}

/// Unused partitions have no file.
#[test]
fn a_thousand_partitions_are_added_without_a_file_and_cost_one_write() {
    let disk = Disk::new();
    let log = open(&disk);
    let orders = log.create_topic("orders", config(1)).unwrap();
    orders.append(("k", "v")).unwrap();
    let (files, points) = (disk.files().len(), disk.points());
    orders.add_partitions_breaking_key_order(1000).unwrap();
    assert_eq!(disk.files().len(), files);
    assert!(disk.points() - points < 12, "{}", disk.points() - points);
    assert_eq!(count(&orders), 1001);
    orders
        .partition(1000)
        .unwrap()
        .append(("k", "last"))
        .unwrap();
    log.close().unwrap();
    let log = open(&disk);
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
    let orders = log.topic("orders").unwrap();
    assert_eq!(count(&orders), 1001);
    assert_eq!(values(&orders, 1000), ["last"]);
}

#[test]
fn what_cannot_be_is_refused_and_nothing_is_written() {
    let disk = Disk::new();
    let log = open(&disk);
    let orders = log.create_topic("orders", config(3)).unwrap();
    log.close().unwrap();
    let log = open(&disk);
    let reopened = log.topic("orders").unwrap();
    let points = disk.points();
    for more in [0, 99_998, 100_000, u32::MAX] {
        let refused = reopened
            .add_partitions_breaking_key_order(more)
            .unwrap_err();
        assert!(
            matches!(
                refused,
                Error::InvalidSetting {
                    setting: "partitions",
                    ..
                }
            ),
            "{refused:?}"
        );
        assert_eq!(refused.outcome(), Outcome::Rejected);
    }
    assert_eq!((count(&reopened), disk.points()), (3, points));
    let closed = orders.add_partitions_breaking_key_order(1);
    assert!(matches!(closed, Err(Error::Closed)), "{closed:?}");
    reopened.add_partitions_breaking_key_order(1).unwrap();
    log.delete_topic("orders").unwrap();
    let gone = reopened.add_partitions_breaking_key_order(1).unwrap_err();
    assert!(
        matches!(gone, Error::NotFound { what: "topic", .. }),
        "{gone:?}"
    );
    // Its name is another topic's now.
    let new = log.create_topic("orders", config(1)).unwrap();
    assert!(reopened.add_partitions_breaking_key_order(1).is_err());
    assert_eq!(count(&new), 1);
}

#[test]
fn as_many_as_a_topic_can_be_made_with_and_no_more() {
    let log = Log::in_memory();
    let orders = log.create_topic("orders", config(1)).unwrap();
    orders.add_partitions_breaking_key_order(99_999).unwrap();
    assert_eq!(orders.partitions().len(), 100_000);
    orders
        .partition(99_999)
        .unwrap()
        .append(("k", "v"))
        .unwrap();
    assert!(orders.add_partitions_breaking_key_order(1).is_err());
}

#[test]
fn a_log_that_is_only_read_grows_nothing_and_sees_what_grew_when_it_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let log = Log::open(&path).unwrap();
    let orders = log.create_topic("orders", config(2)).unwrap();
    let reader = Log::open_read_only(&path).unwrap();
    let refused = reader
        .topic("orders")
        .unwrap()
        .add_partitions_breaking_key_order(1);
    assert!(
        matches!(refused, Err(Error::ReadOnly { .. })),
        "{refused:?}"
    );
    orders.add_partitions_breaking_key_order(2).unwrap();
    assert_eq!(count(&reader.topic("orders").unwrap()), 2);
    let later = Log::open_read_only(&path).unwrap();
    assert_eq!(count(&later.topic("orders").unwrap()), 4);
}

#[test]
fn a_deleted_topic_takes_its_new_partitions_with_it() {
    let disk = Disk::new();
    let log = open(&disk);
    let orders = log.create_topic("orders", config(1)).unwrap();
    let files = disk.files().len();
    orders.add_partitions_breaking_key_order(2).unwrap();
    let added = orders.partition(2).unwrap();
    added.append(("k", "v")).unwrap();
    let mut consumer = log.group("g").subscribe(["orders"]).join().unwrap();
    assert_eq!(consumer.poll(NOW).unwrap().len(), 1);
    consumer.commit().unwrap();
    log.delete_topic("orders").unwrap();
    let refused = added.append(("k", "v")).unwrap_err();
    assert!(matches!(refused, Error::NotFound { what: "topic", .. }));
    assert!(log.group("g").committed().unwrap().is_empty());
    log.create_topic("orders", config(1)).unwrap();
    let there = |files: Vec<(std::path::PathBuf, u64)>| {
        let ours = |path: &std::path::Path| path.starts_with("/log/topics");
        files.into_iter().filter(|(path, _)| ours(path)).count()
    };
    assert_eq!(there(disk.files()), 1, "{:?} {files}", disk.files());
}
