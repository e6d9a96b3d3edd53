//! Sixteen producers, readers at the tail and a thread that rolls, at each level, in both ways of reading.

use std::collections::HashMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use thalweg::testing::Disk;
use thalweg::{Durability, Entry, Log, Maintenance, Offset, Partition, ReadMode, TopicConfig};

use super::logs::{killed, one, open, scale, t0};

const PRODUCERS: u64 = 16;
const LEVELS: [Durability; 3] = [
    Durability::Process,
    Durability::Interval {
        time: Duration::from_secs(3600),
        bytes: 4000,
    },
    Durability::Power,
];

/// Value of the n-th record of a producer.
fn value(producer: u64, n: u64) -> String {
    format!("{producer}:{n}")
}

fn parse(entry: &Entry) -> (u64, u64) {
    let (producer, n) = entry.value_str().unwrap().split_once(':').unwrap();
    (producer.parse().unwrap(), n.parse().unwrap())
}

/// Appends `count` records, alone and in batches; the offsets it was told, in order.
fn produce(partition: &Partition, producer: u64, count: u64) -> Vec<u64> {
    let mut offsets = Vec::new();
    while (offsets.len() as u64) < count {
        let from = offsets.len() as u64;
        let size = (1 + (from + producer) % 4).min(count - from);
        let values: Vec<String> = (from..from + size).map(|n| value(producer, n)).collect();
        if let [alone] = &values[..] {
            offsets.push(partition.append(("k", alone)).unwrap().offset().get());
        } else {
            let range = partition
                .append_all(values.iter().map(|v| ("k", v)))
                .unwrap();
            offsets.extend(range.start.get()..range.end.get());
        }
    }
    offsets
}

/// Reads at the tail until everything was seen; each offset follows the one before.
fn tail(partition: &Partition, total: u64) -> Vec<(u64, u64)> {
    let mut seen = Vec::new();
    while (seen.len() as u64) < total {
        let from = Offset::new(seen.len() as u64);
        for entry in partition.entries(from..) {
            let entry = entry.unwrap();
            assert_eq!(
                entry.offset().get(),
                seen.len() as u64,
                "no hole, no repeat"
            );
            seen.push(parse(&entry));
        }
        thread::yield_now();
    }
    seen
}

/// As a member of a group, which sleeps between records.
fn consume(log: &Log, group: &str, total: u64) -> Vec<(u64, u64)> {
    let mut member = log
        .group(group)
        .subscribe(["t"])
        .max_poll_records(37)
        .join()
        .unwrap();
    let mut seen = Vec::new();
    while (seen.len() as u64) < total {
        let batch = member.poll(Duration::from_secs(600)).unwrap();
        for entry in &batch {
            assert_eq!(entry.offset().get(), seen.len() as u64);
            seen.push(parse(&entry.to_entry()));
        }
        member.commit().unwrap();
    }
    seen
}

fn in_order(seen: &[(u64, u64)], each: u64) {
    let mut next: HashMap<u64, u64> = HashMap::new();
    for (producer, n) in seen {
        let wanted = next.entry(*producer).or_default();
        assert_eq!(n, wanted, "of producer {producer}");
        *wanted += 1;
    }
    assert!(next.len() as u64 == PRODUCERS && next.values().all(|n| *n == each));
}

fn all_at_once(level: Durability, mode: ReadMode) {
    let each = 150 * scale();
    let total = PRODUCERS * each;
    let disk = Disk::new();
    let log = Log::builder()
        .maintenance(Maintenance::Manual)
        .read_mode(mode)
        .open_on(&disk)
        .unwrap();
    let config = TopicConfig::new()
        .durability(level)
        .segment_bytes(6000)
        .index_interval(256);
    let partition = one(&log.create_topic("t", config).unwrap());
    let done = AtomicBool::new(false);
    let told = thread::scope(|scope| {
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|p| {
                scope.spawn({
                    let partition = &partition;
                    move || produce(partition, p, each)
                })
            })
            .collect();
        let readers = [
            scope.spawn(|| tail(&partition, total)),
            scope.spawn(|| consume(&log, "a", total)),
            scope.spawn(|| consume(&log, "b", total)),
        ];
        let looker = scope.spawn(|| look_around(&partition, &done));
        let roller = scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                partition.roll().unwrap();
                thread::yield_now();
            }
        });
        let told: Vec<Vec<u64>> = producers
            .into_iter()
            .map(|producer| producer.join().unwrap())
            .collect();
        for reader in readers {
            in_order(&reader.join().unwrap(), each);
        }
        done.store(true, Ordering::Release);
        roller.join().unwrap();
        assert!(looker.join().unwrap() > 0);
        told
    });
    let what = check(&partition, &told, total);
    assert_eq!(check(&t0(&open(&killed(&disk))), &told, total), what);
    log.close().unwrap();
    let log = open(&disk);
    assert!(log.recovery().is_empty());
    assert_eq!(check(&t0(&log), &told, total), what);
}

/// Random look-ups while everything moves; each is of a visible record.
fn look_around(partition: &Partition, done: &AtomicBool) -> u64 {
    let (mut dice, mut looked) = (super::logs::Dice(3), 0);
    loop {
        let over = done.load(Ordering::Acquire); // once more after that, so that one look is certain
        let end = partition.offsets().end.get();
        if end > 0 {
            let offset = Offset::new(dice.below(end));
            let entry = partition
                .get(offset)
                .unwrap()
                .expect("below the visible end");
            assert_eq!(entry.offset(), offset);
            let newest = partition.entries(..).next_back().unwrap().unwrap();
            assert!(newest.offset().get() >= end - 1);
            looked += 1;
        }
        if over {
            return looked;
        }
        thread::yield_now();
    }
}

/// Every record is where its producer was told, and there is nothing else.
fn check(partition: &Partition, told: &[Vec<u64>], total: u64) -> Vec<(u64, u64)> {
    let held: Vec<_> = partition
        .entries(..)
        .map(|entry| parse(&entry.unwrap()))
        .collect();
    assert_eq!(held.len() as u64, total);
    for (producer, offsets) in (0..).zip(told) {
        assert!(offsets.is_sorted());
        for (n, offset) in (0..).zip(offsets) {
            assert_eq!(held[*offset as usize], (producer, n));
        }
    }
    held
}

#[test]
fn sixteen_producers_and_tailing_readers_lose_and_repeat_nothing_at_any_level() {
    for level in LEVELS {
        all_at_once(level, ReadMode::Positioned);
    }
}

#[test]
fn sixteen_producers_and_tailing_readers_lose_and_repeat_nothing_over_maps() {
    all_at_once(Durability::Process, ReadMode::Mapped);
}

/// Of all who expect the same end one wins; the ends that the others are told only grow.
#[test]
fn one_of_many_conditional_appends_wins_each_offset() {
    for level in LEVELS {
        let disk = Disk::new();
        let log = open(&disk);
        let partition = one(&log
            .create_topic(
                "t",
                TopicConfig::new().durability(level).segment_bytes(3000),
            )
            .unwrap());
        let total = 400 * scale();
        let conflicts = AtomicU64::new(0);
        thread::scope(|scope| {
            for producer in 0..8 {
                let (partition, conflicts) = (&partition, &conflicts);
                scope.spawn(move || {
                    let mut expected = Offset::ZERO;
                    while expected.get() < total {
                        match partition
                            .append_at(expected, [("k", value(producer, expected.get()))])
                        {
                            Ok(range) => {
                                assert_eq!(range, expected..expected.next());
                                expected = range.end;
                            }
                            Err(thalweg::Error::Conflict { actual_end, .. }) => {
                                assert!(actual_end > expected);
                                let seen =
                                    partition.get(Offset::new(actual_end.get() - 1)).unwrap();
                                assert!(seen.is_some(), "a loser is told of what is there");
                                conflicts.fetch_add(1, Ordering::Relaxed);
                                expected = actual_end;
                            }
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                });
            }
        });
        let held: Vec<u64> = partition
            .entries(..)
            .map(|entry| parse(&entry.unwrap()).1)
            .collect();
        assert!(held.iter().copied().eq(0..held.len() as u64));
        println!(
            "{level:?}: {} records, {} conflicts",
            held.len(),
            conflicts.into_inner()
        );
    }
}

/// Closing in the middle: every answer is `Ok`, and then the record is there, or `Closed`, and then it is not.
#[test]
fn closing_under_load_leaves_what_was_acknowledged() {
    for level in LEVELS {
        let disk = Disk::new();
        let log = open(&disk);
        let topic = log
            .create_topic("t", TopicConfig::new().durability(level))
            .unwrap();
        let partition = one(&topic);
        let started = AtomicU64::new(0);
        let told: Vec<Vec<u64>> = thread::scope(|scope| {
            let producers: Vec<_> = (0..8)
                .map(|producer| {
                    let (partition, started) = (&partition, &started);
                    scope.spawn(move || {
                        let mut offsets = Vec::new();
                        loop {
                            match partition.append(("k", value(producer, offsets.len() as u64))) {
                                Ok(at) => offsets.push(at.offset().get()),
                                Err(thalweg::Error::Closed) => return offsets,
                                Err(other) => assert_eq!(
                                    other.outcome(),
                                    thalweg::Outcome::Indeterminate,
                                    "{other:?}"
                                ),
                            }
                            started.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            while started.load(Ordering::Relaxed) < 200 {
                thread::yield_now();
            }
            log.close().unwrap();
            producers
                .into_iter()
                .map(|producer| producer.join().unwrap())
                .collect()
        });
        drop(topic);
        let log = open(&disk);
        assert!(log.recovery().is_empty(), "{level:?}: {:?}", log.recovery());
        let total = told.iter().map(Vec::len).sum::<usize>() as u64;
        check(&t0(&log), &told, total);
    }
}

/// A topic is acknowledged only while the directory is this log's: whoever opens it next finds it.
#[test]
fn a_topic_that_is_made_while_the_log_is_closed_is_there_or_was_refused() {
    for round in 0..200 {
        let disk = Disk::seeded(round);
        let log = open(&disk);
        let start = Barrier::new(2);
        let made = thread::scope(|scope| {
            let maker = scope.spawn(|| {
                start.wait();
                let names = (0..20).map(|n| format!("old-{n}"));
                names
                    .take_while(|name| log.create_topic(name, TopicConfig::new()).is_ok())
                    .count()
            });
            start.wait();
            log.clone().close().unwrap();
            let next = open(&disk);
            next.create_topic("new", TopicConfig::new()).unwrap();
            next.close().unwrap();
            maker.join().unwrap()
        });
        let log = open(&disk);
        let names: Vec<String> = (0..made).map(|n| format!("old-{n}")).collect();
        for name in names.iter().map(String::as_str).chain(["new"]) {
            log.topic(name)
                .unwrap_or_else(|e| panic!("round {round}: {e}"));
        }
    }
}
