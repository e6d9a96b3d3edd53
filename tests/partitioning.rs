//! Which partition a record goes to: Kafka's choice bit for bit, the default over reopenings, turns, functions of the host, and
//! the reported cases B81 to B85.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use thalweg::testing::Disk;
use thalweg::{
    Error, Log, LogBuilder, Maintenance, Offset, Partitioner, Record, Result, Topic, TopicConfig,
};

fn builder() -> LogBuilder {
    Log::builder().maintenance(Maintenance::Manual)
}

fn open(disk: &Disk) -> Log {
    builder().open_on(disk).unwrap()
}

fn of(partitioner: Partitioner, partitions: u32) -> TopicConfig {
    TopicConfig::new()
        .partitions(partitions)
        .partitioner(partitioner)
}

fn custom() -> Partitioner {
    Partitioner::Custom("ours".into())
}

/// How many records each partition has.
fn counts(topic: &Topic) -> Vec<usize> {
    let partitions = topic.partitions();
    partitions.iter().map(|p| p.entries(..).count()).collect()
}

fn is_partitioner<T>(result: &Result<T>) -> bool {
    matches!(
        result,
        Err(Error::InvalidSetting {
            setting: "partitioner",
            ..
        })
    )
}

#[test]
fn b81_the_same_key_goes_where_the_java_client_sends_it() {
    let log = Log::in_memory();
    let cases: [(&[u8], u32, u32); 6] = [
        (b"100:48069", 12, 9),
        (b"wu", 10, 0),
        (b"order-1", 6, 4),
        (b"k1", 3, 2),
        (b"k2", 3, 0),
        (b"\xc3\xa9", 6, 3),
    ];
    for (n, (key, count, partition)) in cases.into_iter().enumerate() {
        let topic = log.create_topic(&format!("t{n}"), of(Partitioner::Kafka, count));
        let topic = topic.unwrap();
        assert_eq!(topic.partition_for(key).get(), partition, "{key:?}");
        let at = topic.append((key, "v")).unwrap();
        assert_eq!(at.partition().get(), partition, "{key:?}");
        let at = topic.append_all([(key, "v"), (key, "w")]).unwrap();
        assert!(at.iter().all(|at| at.partition().get() == partition));
    }
}

#[test]
fn b83_an_empty_key_is_a_key_and_only_a_missing_one_is_spread() {
    let log = Log::in_memory();
    let topic = log.create_topic("t", of(Partitioner::Kafka, 4)).unwrap();
    for _ in 0..1000 {
        topic.append(("", "with")).unwrap();
    }
    assert_eq!(counts(&topic), [0, 1000, 0, 0]);
    for _ in 0..1000 {
        topic.append(Record::keyless("without")).unwrap();
    }
    assert_eq!(counts(&topic), [250, 1250, 250, 250]);
    // A batch stays together, and the next one is elsewhere.
    for _ in 0..4 {
        let at = topic
            .append_all((0..10).map(|_| Record::keyless("together")))
            .unwrap();
        assert!(at.iter().all(|one| one.partition() == at[0].partition()));
    }
    assert_eq!(counts(&topic), [260, 1260, 260, 260]);
    let keys = topic.partition(1).unwrap();
    let empty = keys
        .entries(..)
        .filter(|e| e.as_ref().unwrap().key() == Some(b""));
    assert_eq!(empty.count(), 1000);
}

#[test]
fn b84_another_number_of_partitions_is_refused_and_moves_no_key() {
    let disk = Disk::new();
    let log = open(&disk);
    let three = || TopicConfig::new().partitions(3);
    let topic = log.create_topic("t", three()).unwrap();
    let users: Vec<String> = (1..=20).map(|n| format!("user-{n}")).collect();
    let append = |topic: &Topic| -> Vec<u32> {
        let at = users.iter().map(|user| topic.append((user, "v")).unwrap());
        at.map(|at| at.partition().get()).collect()
    };
    let first = append(&topic);
    log.close().unwrap();
    let log = open(&disk);
    for other in [5, 2] {
        let refused = log.topic_or_create("t", TopicConfig::new().partitions(other));
        let Err(Error::ConfigMismatch {
            setting, stored, ..
        }) = refused
        else {
            panic!("{other}: {refused:?}");
        };
        assert_eq!((setting, &*stored), ("partitions", "3"));
    }
    for same in [TopicConfig::new(), three()] {
        let topic = log.topic_or_create("t", same).unwrap();
        assert_eq!(topic.settings().partitions, 3);
        assert_eq!(append(&topic), first);
    }
    assert_eq!(counts(&log.topic("t").unwrap()).iter().sum::<usize>(), 60);
}

#[test]
fn b85_a_layout_that_is_asked_for_anew_is_not_taken_for_the_stored_one() {
    let disk = Disk::new();
    let log = open(&disk);
    let stored = TopicConfig::new()
        .partitions(2)
        .segment_bytes(4096)
        .timestamps(thalweg::TimestampType::AppendTime)
        .durability(thalweg::Durability::Process);
    let topic = log.create_topic("t", stored).unwrap();
    for n in 0..200 {
        topic
            .append((&format!("key-{n}"), "some value of some bytes"))
            .unwrap();
    }
    log.close().unwrap();
    let log = open(&disk);
    let other = TopicConfig::new()
        .segment_bytes(64 << 10)
        .timestamps(thalweg::TimestampType::EventTime);
    let topic = log.topic_or_create("t", other).unwrap();
    let settings = topic.settings();
    assert_eq!((settings.partitions, settings.segment_bytes), (2, 4096));
    assert_eq!(counts(&topic).iter().sum::<usize>(), 200);
    let at = topic.append(("key", "v")).unwrap();
    let entry = topic
        .partition(at.partition())
        .unwrap()
        .get(at.offset())
        .unwrap();
    let time = entry.unwrap().timestamp_type();
    assert_eq!(time, thalweg::TimestampType::AppendTime);
    let refused = log.topic_or_create("t", of(Partitioner::Kafka, 2));
    assert!(matches!(
        refused,
        Err(Error::ConfigMismatch {
            setting: "partitioner",
            ..
        })
    ));
    let stronger = TopicConfig::new().durability(thalweg::Durability::Power);
    let refused = log.topic_or_create("t", stronger);
    assert!(matches!(
        refused,
        Err(Error::ConfigMismatch {
            setting: "durability",
            ..
        })
    ));
}

/// By the reference implementation of xxHash: a key that was stored is found where it is, for ever.
#[test]
fn the_default_is_xxh3_as_others_have_it_and_stays_so_over_reopenings() {
    let (x, y, z) = ("x".repeat(17), "y".repeat(129), "z".repeat(300));
    let golden: [(&[u8], [u32; 4]); 9] = [
        (b"", [1, 4, 10, 138]),
        (b"a", [1, 1, 7, 719]),
        (b"customer-7", [2, 0, 8, 432]),
        (b"order-1", [2, 6, 2, 894]),
        (b"\0", [0, 2, 3, 883]),
        (x.as_bytes(), [0, 0, 9, 153]),
        (y.as_bytes(), [2, 3, 5, 329]),
        (z.as_bytes(), [1, 6, 1, 5]),
        ("Käse".as_bytes(), [0, 4, 6, 650]),
    ];
    let disk = Disk::new();
    let sizes = [3, 7, 12, 1000];
    for opening in 0..3 {
        let log = open(&disk);
        for (column, count) in sizes.into_iter().enumerate() {
            let config = TopicConfig::new().partitions(count);
            let topic = log.topic_or_create(&format!("t{count}"), config).unwrap();
            for (key, partitions) in golden {
                let chosen = topic.partition_for(key).get();
                assert_eq!(chosen, partitions[column], "{key:?} of {count}");
                if count < 100 {
                    let at = topic.append((key, "v")).unwrap();
                    assert_eq!(at.partition().get(), chosen);
                }
            }
        }
        assert_eq!(log.topics().len(), sizes.len(), "opening {opening}");
        log.close().unwrap();
    }
}

#[test]
fn round_robin_takes_turns_with_keys_and_without_record_by_record() {
    let log = Log::in_memory();
    let topic = log
        .create_topic("t", of(Partitioner::RoundRobin, 4))
        .unwrap();
    for n in 0..6 {
        let at = topic.append(("same", "v")).unwrap();
        assert_eq!(at.partition().get(), n % 4);
    }
    let at = topic.append_all((0..6).map(|_| ("same", "v"))).unwrap();
    let turns: Vec<u32> = at.iter().map(|at| at.partition().get()).collect();
    assert_eq!(turns, [2, 3, 0, 1, 2, 3]);
    for _ in 0..4 {
        topic.append(Record::keyless("v")).unwrap();
    }
    assert_eq!(counts(&topic), [4; 4]);
}

#[test]
fn a_partition_that_is_named_is_taken_whatever_the_key_says() {
    let log = Log::in_memory();
    let topic = log.create_topic("t", of(Partitioner::Kafka, 3)).unwrap();
    for id in 0..3 {
        let partition = topic.partition(id).unwrap();
        let at = partition.append(("k1", "v")).unwrap();
        assert_eq!((at.partition().get(), at.offset()), (id, Offset::ZERO));
    }
    for none in [3, 4, u32::MAX] {
        let refused = topic.partition(none);
        assert!(matches!(
            refused,
            Err(Error::NotFound {
                what: "partition",
                ..
            })
        ));
    }
    assert_eq!(counts(&topic), [1, 1, 1]);
}

/// The first byte, as a number, says which.
fn first_byte(key: &[u8], _: u32) -> u32 {
    u32::from(key.first().copied().unwrap_or(0))
}

#[test]
fn a_function_of_the_host_is_stored_by_its_name_and_given_at_every_opening() {
    let disk = Disk::new();
    let given = || {
        builder()
            .partitioner("ours", first_byte)
            .open_on(&disk)
            .unwrap()
    };
    let log = given();
    let topic = log.create_topic("t", of(custom(), 4)).unwrap();
    for n in 0..4 {
        let at = topic.append(([n].as_slice(), "v")).unwrap();
        assert_eq!(at.partition().get(), u32::from(n));
    }
    assert_eq!(topic.append(("", "v")).unwrap().partition().get(), 0);
    log.close().unwrap();

    // Without it: looked at, read, written by partition, and without a key; a key is refused, and the name is told.
    let log = open(&disk);
    let topic = log.topic("t").unwrap();
    assert_eq!(topic.settings().partitioner, custom());
    assert_eq!(counts(&topic), [2, 1, 1, 1]);
    for refused in [
        topic.append(("k", "v")).map(drop),
        topic.append_all([("k", "v")]).map(drop),
        topic
            .append_all([Record::keyless("v"), Record::new("k", "v")])
            .map(drop),
    ] {
        assert!(is_partitioner(&refused), "{refused:?}");
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("ours"), "{text}");
    }
    assert_eq!(counts(&topic), [2, 1, 1, 1]);
    topic.partition(3).unwrap().append(("k", "v")).unwrap();
    topic.append(Record::keyless("v")).unwrap();
    assert_eq!(counts(&topic).iter().sum::<usize>(), 7);
    log.close().unwrap();

    // Under another name it is another one; of two under one name the last counts.
    let other = builder()
        .partitioner("theirs", first_byte)
        .open_on(&disk)
        .unwrap();
    assert!(is_partitioner(
        &other.topic("t").unwrap().append(("k", "v"))
    ));
    other.close().unwrap();
    let twice = builder().partitioner("ours", |_, _| 9);
    let log = twice
        .partitioner("ours", first_byte)
        .open_on(&disk)
        .unwrap();
    let at = log.topic("t").unwrap().append((b"\x02", "v")).unwrap();
    assert_eq!(at.partition().get(), 2);
}

#[test]
fn a_function_that_names_no_partition_is_refused_and_nothing_is_written() {
    let disk = Disk::new();
    let log = builder()
        .partitioner("ours", first_byte)
        .open_on(&disk)
        .unwrap();
    let topic = log.create_topic("t", of(custom(), 4)).unwrap();
    topic.append((b"\x01", "v")).unwrap();
    let before = disk.points();
    for out in [4, 5, 255] {
        let key = [out];
        assert!(is_partitioner(&topic.append((key.as_slice(), "v"))));
        let records = [(&b"\0"[..], "v"), (b"\x01", "v"), (key.as_slice(), "v")];
        assert!(is_partitioner(&topic.append_all(records)));
    }
    assert_eq!(disk.points(), before, "nothing was written");
    let max = builder()
        .partitioner("ours", |_, _| u32::MAX)
        .in_memory()
        .unwrap();
    let wild = max.create_topic("t", of(custom(), 1)).unwrap();
    assert!(is_partitioner(&wild.append(("k", "v"))));
    assert_eq!(
        topic.append((b"\x01", "v")).unwrap().offset(),
        Offset::new(1)
    );
    assert_eq!(counts(&topic), [0, 2, 0, 0]);
}

/// Row F105 for partitioners: the panic is the caller's, no lock is held, and nothing was written.
#[test]
fn f105_a_function_that_panics_leaves_the_log_as_it_was() {
    let disk = Disk::new();
    let log = builder()
        .partitioner("ours", |key, count| {
            assert!(key != b"bad", "a bug of the host");
            first_byte(key, count) % count
        })
        .open_on(&disk)
        .unwrap();
    let topic = log.create_topic("t", of(custom(), 2)).unwrap();
    topic.append((b"\0", "v")).unwrap();
    let before = disk.points();
    let panics = |f: &dyn Fn()| catch_unwind(AssertUnwindSafe(f)).is_err();
    assert!(panics(&|| drop(topic.append(("bad", "v")))));
    assert!(panics(&|| drop(
        topic.append_all([("a", "v"), ("bad", "v")])
    )));
    assert!(panics(&|| {
        let _ = topic.partition_for(b"bad");
    }));
    assert_eq!(disk.points(), before, "nothing was written");
    // Handles that the panicking thread drops, and other threads, go on.
    let handle = topic.clone();
    let thread = std::thread::spawn(move || drop(handle.append(("bad", "v"))));
    assert!(thread.join().is_err());
    topic.append((b"\x01", "v")).unwrap();
    let other = topic.clone();
    let at = std::thread::spawn(move || other.append((b"\x01", "v")).unwrap());
    assert_eq!(at.join().unwrap().offset(), Offset::new(1));
    assert_eq!(counts(&topic), [1, 2]);
    drop(topic);
    log.close().unwrap();
    let log = open(&disk);
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
    assert_eq!(counts(&log.topic("t").unwrap()), [1, 2]);
}

/// A function that itself appends, and makes and deletes topics, meets no lock of the append it is asked for.
#[test]
fn f105_a_function_of_the_host_runs_under_no_lock() {
    static TOPIC: OnceLock<(Log, Topic)> = OnceLock::new();
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let log = builder()
        .partitioner("ours", move |_, _| {
            count.fetch_add(1, Ordering::Relaxed);
            let (log, topic) = TOPIC.get().expect("set before the first append");
            topic.partition(1).unwrap().append(("k", "inner")).unwrap();
            log.create_topic("other", TopicConfig::new()).unwrap();
            log.delete_topic("other").unwrap();
            log.sync().unwrap();
            0
        })
        .in_memory()
        .unwrap();
    let topic = log.create_topic("t", of(custom(), 2)).unwrap();
    TOPIC.set((log, topic.clone())).expect("set once");
    topic.append(("k", "outer")).unwrap();
    topic.append_all([("k", "outer"), ("k", "outer")]).unwrap();
    assert_eq!(counts(&topic), [3, asked.load(Ordering::Relaxed) as usize]);
}

#[test]
fn keys_are_spread_over_all_partitions_by_each_hash() {
    let log = Log::in_memory();
    for (name, how) in [("x", Partitioner::Xxh3), ("k", Partitioner::Kafka)] {
        let topic = log.create_topic(name, of(how, 10)).unwrap();
        let mut spread = BTreeMap::new();
        for n in 0..10_000 {
            let key = format!("customer-{n}");
            *spread
                .entry(topic.partition_for(key.as_bytes()))
                .or_insert(0) += 1;
        }
        assert_eq!(spread.len(), 10);
        assert!(
            spread.values().all(|n| (850..1150).contains(n)),
            "{spread:?}"
        );
    }
}
