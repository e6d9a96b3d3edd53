//! A topic that grows while others append: every acknowledged record is there, once and in order, and each call went by one count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use thalweg::testing::Disk;
use thalweg::{Durability, Error, Log, Maintenance, Partitioner, Position, Topic, TopicConfig};

use super::{config, count, open};

const APPENDERS: u64 = 4;
const GROWTHS: [u32; 12] = [1, 2, 1, 7, 30, 1, 1, 100, 3, 1, 400, 2];

/// The n-th record of an appender, of some of its keys.
fn record(appender: u64, n: u64) -> (String, String) {
    (
        format!("key-{appender}-{}", n % 5),
        format!("{appender} {n}"),
    )
}

/// Ends what the others do, also when this thread panics.
struct Ends<'d>(&'d AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Appends alone and in batches until it is done; what it was told.
fn append(topic: &Topic, appender: u64, done: &AtomicBool, appended: &AtomicU64) -> Vec<Position> {
    let mut told = Vec::new();
    while !done.load(Ordering::Acquire) {
        let from = told.len() as u64;
        if from.is_multiple_of(3) {
            let (key, value) = record(appender, from);
            told.push(topic.append((&key, &value)).unwrap());
        } else {
            let records = (from..from + 8).map(|n| record(appender, n));
            let positions = topic.append_all(records).unwrap();
            let of = |n: usize| positions[n].partition();
            assert!((5..8).all(|n| of(n) == of(n - 5)), "a key is torn apart");
            told.extend(positions);
        }
        appended.fetch_add(1, Ordering::Relaxed);
    }
    told
}

/// Appends from all threads while the topic grows; what each was told.
fn storm(topic: &Topic) -> Vec<Vec<Position>> {
    let (done, appended) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let (done, appended) = (&done, &appended);
        let appenders: Vec<_> = (0..APPENDERS)
            .map(|appender| scope.spawn(move || append(topic, appender, done, appended)))
            .collect();
        let ends = Ends(done);
        for more in GROWTHS {
            let enough = appended.load(Ordering::Relaxed) + 20;
            while appended.load(Ordering::Relaxed) < enough {
                assert!(!appenders.iter().any(thread::ScopedJoinHandle::is_finished));
                thread::yield_now();
            }
            topic.add_partitions_breaking_key_order(more).unwrap();
        }
        drop(ends);
        let told = appenders
            .into_iter()
            .map(|appender| appender.join().unwrap());
        told.collect()
    })
}

fn check(topic: &Topic, told: &[Vec<Position>]) {
    let mut wanted = BTreeMap::new();
    for (appender, positions) in (0..).zip(told) {
        for (n, at) in (0..).zip(positions) {
            let before = wanted.insert(
                (at.partition().get(), at.offset().get()),
                record(appender, n),
            );
            assert!(before.is_none(), "{at} was told twice");
        }
    }
    let mut found = BTreeMap::new();
    for partition in topic.partitions() {
        let mut last = BTreeMap::new();
        for entry in partition.entries(..) {
            let entry = entry.unwrap();
            let (key, value) = (entry.key_str().unwrap(), entry.value_str().unwrap());
            let (appender, n) = value.split_once(' ').unwrap();
            let n: u64 = n.parse().unwrap();
            let before = last.insert(appender.to_owned(), n);
            assert!(
                before < Some(n),
                "{value} behind {before:?} in {}",
                partition.id()
            );
            let at = (partition.id().get(), entry.offset().get());
            found.insert(at, (key.to_owned(), value.to_owned()));
        }
    }
    assert!(
        found == wanted,
        "{} found, {} told",
        found.len(),
        wanted.len()
    );
}

#[test]
fn what_is_appended_while_a_topic_grows_is_there_once_and_in_order() {
    for level in [Durability::Process, Durability::Power] {
        let disk = Disk::new();
        let log = open(&disk);
        let config = TopicConfig::new().partitions(1).durability(level);
        let topic = log.create_topic("orders", config).unwrap();
        let told = storm(&topic);
        let of = 1 + GROWTHS.iter().sum::<u32>();
        assert_eq!(count(&topic), of);
        let used: BTreeSet<_> = told.iter().flatten().map(Position::partition).collect();
        assert!(used.len() > 5, "{used:?}");
        check(&topic, &told);
        log.close().unwrap();
        let log = open(&disk);
        assert!(log.recovery().is_empty(), "{:?}", log.recovery());
        let topic = log.topic("orders").unwrap();
        assert_eq!(count(&topic), of);
        check(&topic, &told);
    }
}

/// The function chooses the last partition that it is told of, so the partition tells the count.
#[test]
fn a_call_goes_by_one_count_that_there_was() {
    let last = |_: &[u8], count: u32| count - 1;
    let builder = Log::builder().maintenance(Maintenance::Manual);
    let log = builder.partitioner("last", last).in_memory().unwrap();
    let how = config(1).partitioner(Partitioner::Custom("last".into()));
    let topic = log.create_topic("orders", how).unwrap();
    let counts: BTreeSet<u32> = (0..=GROWTHS.len())
        .map(|n| GROWTHS[..n].iter().sum())
        .collect();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (topic, counts, done) = (&topic, &counts, &done);
        for _ in 0..APPENDERS {
            scope.spawn(move || {
                let mut before = 0;
                while !done.load(Ordering::Acquire) {
                    let batch = (0..6).map(|n| (n.to_string(), "v"));
                    let positions = topic.append_all(batch).unwrap();
                    let chosen = positions[0].partition();
                    assert!(positions.iter().all(|at| at.partition() == chosen));
                    assert!(counts.contains(&chosen.get()), "{chosen}");
                    assert!(chosen.get() >= before, "{chosen} after {before}");
                    before = topic.partition_for(b"k").get();
                }
            });
        }
        let _ends = Ends(done);
        for more in GROWTHS {
            thread::yield_now();
            topic.add_partitions_breaking_key_order(more).unwrap();
            let at = topic.append(("k", "v")).unwrap();
            assert_eq!(at.partition().get() + 1, count(topic));
        }
    });
}

#[test]
fn two_who_add_at_once_add_both() {
    let log = Log::in_memory();
    let topic = log.create_topic("orders", config(1)).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                (0..25).for_each(|_| topic.add_partitions_breaking_key_order(1).unwrap());
            });
        }
    });
    assert_eq!(count(&topic), 101);
}

/// Somebody deletes it, or closes the log, meanwhile: whoever adds is told so, and nothing is left over.
#[test]
fn a_topic_that_is_deleted_or_closed_while_it_grows_is_gone_or_whole() {
    for close in [false, true] {
        let disk = Disk::new();
        let log = open(&disk);
        let topic = log.create_topic("orders", config(1)).unwrap();
        let added = AtomicU64::new(0);
        thread::scope(|scope| {
            let (topic, added) = (&topic, &added);
            scope.spawn(move || {
                loop {
                    match topic.add_partitions_breaking_key_order(1) {
                        Ok(()) => added.fetch_add(1, Ordering::Release),
                        Err(Error::Closed) if close => break,
                        Err(Error::NotFound { what: "topic", .. }) if !close => break,
                        Err(e) => panic!("{e:?}"),
                    };
                }
            });
            while added.load(Ordering::Acquire) < 5 {
                thread::yield_now();
            }
            if close {
                log.clone().close().unwrap();
            } else {
                log.delete_topic("orders").unwrap();
            }
        });
        drop((topic, log));
        let log = open(&disk);
        assert!(log.recovery().is_empty(), "{:?}", log.recovery());
        let left = log.topic("orders").map(|topic| u64::from(count(&topic)));
        match left {
            Ok(left) => assert_eq!((close, left), (true, 1 + added.into_inner())),
            Err(e) => assert!(!close, "{e:?}"),
        }
    }
}
