//! What a user sees of a consumer group: join, poll, commit, and going on where it was, after a crash too.

use std::collections::BTreeMap;
use std::time::Duration;

use thalweg::testing::{Disk, ManualClock};
use thalweg::{
    Consumer, EntryRef, Error, FindingKind, Log, Offset, OnCorruption, Position, Record, Result,
    StartFrom, Timestamp, TopicConfig, TopicPartition,
};

const NOW: Duration = Duration::ZERO;

fn log_with(topic: &str, partitions: u32, records: u64) -> Log {
    let log = Log::in_memory();
    fill(&log, topic, partitions, records);
    log
}

fn fill(log: &Log, topic: &str, partitions: u32, records: u64) {
    let topic = log
        .topic_or_create(topic, TopicConfig::new().partitions(partitions))
        .unwrap();
    for n in 0..records {
        topic.append((&format!("key-{n}"), &n.to_string())).unwrap();
    }
}

fn join(log: &Log, group: &str, topic: &str) -> Consumer {
    log.group(group).subscribe([topic]).join().unwrap()
}

/// Everything that is there now, as `position value`.
fn drain(consumer: &mut Consumer) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        let batch = consumer.poll(NOW).unwrap();
        if batch.is_empty() {
            return seen;
        }
        seen.extend(
            batch
                .iter()
                .map(|entry| format!("{} {}", entry.position(), entry.value_str().unwrap())),
        );
    }
}

fn at(topic: &str, partition: u32) -> TopicPartition {
    TopicPartition::new(topic, partition)
}

#[test]
fn the_quickstart_runs_on_disk_and_goes_on_where_it_was() {
    fn run(dir: &std::path::Path) -> Result<Vec<String>> {
        let log = Log::open(dir)?;
        let orders = log.topic_or_create("orders", TopicConfig::new().partitions(4))?;
        orders.append(("customer-7", "2 x espresso"))?;
        orders.append(("customer-9", "1 x flat white"))?;

        let mut kitchen = log.group("kitchen").subscribe(["orders"]).join()?;
        let mut seen = Vec::new();
        for order in &kitchen.poll(Duration::from_secs(1))? {
            seen.push(order.value_str()?.to_owned());
        }
        kitchen.commit()?;
        kitchen.close()?;
        Ok(seen)
    }
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let mut seen = run(dir.path()).unwrap();
        seen.sort();
        assert_eq!(seen, ["1 x flat white", "2 x espresso"]);
    }
}

#[test]
fn each_partition_is_read_in_order_and_completely() {
    let log = log_with("orders", 4, 2_000);
    let mut consumer = join(&log, "kitchen", "orders");
    let mut last: BTreeMap<TopicPartition, Offset> = BTreeMap::new();
    let mut count = 0;
    loop {
        let batch = consumer.poll(NOW).unwrap();
        if batch.is_empty() {
            break;
        }
        assert!(batch.len() <= 500);
        for entry in &batch {
            let before = last.insert(entry.topic_partition().clone(), entry.offset());
            assert_eq!(entry.offset(), before.map_or(Offset::ZERO, Offset::next));
            count += 1;
        }
    }
    assert_eq!(count, 2_000);
    for at in consumer.assignment() {
        assert_eq!(consumer.lag(&at), Some(0));
        assert_eq!(consumer.position(&at), Some(last[&at].next()));
    }
}

#[test]
fn partitions_take_turns() {
    let log = log_with("orders", 2, 400);
    let mut consumer = log
        .group("g")
        .subscribe(["orders"])
        .max_poll_records(10)
        .join()
        .unwrap();
    let first = consumer.poll(NOW).unwrap();
    let second = consumer.poll(NOW).unwrap();
    assert_eq!((first.len(), second.len()), (10, 10));
    assert_ne!(first.partitions(), second.partitions());
}

#[test]
fn join_refuses_what_cannot_be() {
    let log = log_with("orders", 1, 1);
    let group = log.group("g");
    assert!(matches!(
        group.subscribe([""; 0]).join(),
        Err(Error::InvalidSetting {
            setting: "subscribe",
            ..
        })
    ));
    let zero = group.subscribe(["orders"]).max_poll_records(0).join();
    assert!(matches!(
        zero,
        Err(Error::InvalidSetting {
            setting: "max_poll_records",
            ..
        })
    ));
    assert!(matches!(
        group.subscribe(["../x"]).join(),
        Err(Error::InvalidName { .. })
    ));
    assert!(matches!(
        log.group("").subscribe(["orders"]).join(),
        Err(Error::InvalidName { .. })
    ));
    group.subscribe(["orders"]).join().unwrap();
}

#[test]
fn a_start_is_resolved_at_the_join_so_nothing_appended_after_it_is_skipped() {
    let log = log_with("orders", 1, 3);
    let mut latest = log
        .group("latest")
        .subscribe(["orders"])
        .start_from(StartFrom::Latest)
        .join()
        .unwrap();
    fill(&log, "orders", 1, 2);
    assert_eq!(drain(&mut latest), ["orders-0@3 0", "orders-0@4 1"]);
}

#[test]
fn a_start_by_time_finds_the_first_record_that_is_not_older() {
    let clock = ManualClock::new();
    let log = Log::builder().clock(&clock).in_memory().unwrap();
    fill(&log, "orders", 1, 3);
    clock.advance(Duration::from_secs(60));
    let between = clock.now();
    fill(&log, "orders", 1, 2);
    let mut time = log
        .group("t")
        .subscribe(["orders"])
        .start_from(StartFrom::Time(between))
        .join()
        .unwrap();
    assert_eq!(drain(&mut time)[0], "orders-0@3 0");
    clock.advance(Duration::from_secs(60));
    let ago = StartFrom::Ago(Duration::from_secs(90));
    let mut ago = log
        .group("a")
        .subscribe(["orders"])
        .start_from(ago)
        .join()
        .unwrap();
    assert_eq!(drain(&mut ago).len(), 2);
}

#[test]
fn a_group_told_to_fail_without_a_commit_halts_until_it_is_told_where_to_begin() {
    let log = log_with("orders", 1, 3);
    let mut consumer = log
        .group("g")
        .subscribe(["orders"])
        .start_from(StartFrom::Fail)
        .join()
        .unwrap();
    let orders = at("orders", 0);
    assert_eq!(consumer.position(&orders), None);
    let error = consumer.poll(NOW).unwrap_err();
    assert!(matches!(error, Error::NoPosition { .. }));
    assert_eq!(error.partition(), Some(&orders));
    assert_eq!(consumer.halted(), std::slice::from_ref(&orders));
    assert!(consumer.poll(NOW).unwrap().is_empty());
    consumer.resume(std::slice::from_ref(&orders)).unwrap();
    assert!(matches!(consumer.poll(NOW), Err(Error::NoPosition { .. })));
    consumer.seek(&orders.at(Offset::new(1))).unwrap();
    assert_eq!(drain(&mut consumer), ["orders-0@1 1", "orders-0@2 2"]);
    assert!(consumer.halted().is_empty());
}

#[test]
fn a_topic_that_appears_later_is_read_from_its_first_record() {
    let log = log_with("orders", 1, 1);
    let latest = StartFrom::Latest;
    let mut consumer = log
        .group("g")
        .subscribe(["orders", "sales"])
        .start_from(latest)
        .join()
        .unwrap();
    assert!(
        consumer.assignment().is_empty(),
        "it takes its partitions in a poll"
    );
    assert!(consumer.poll(NOW).unwrap().is_empty());
    assert_eq!(consumer.assignment(), [at("orders", 0)]);
    assert_eq!(consumer.subscription(), ["orders", "sales"]);
    fill(&log, "sales", 2, 2);
    assert_eq!(drain(&mut consumer).len(), 2);
    assert_eq!(
        consumer.assignment(),
        [at("orders", 0), at("sales", 0), at("sales", 1)]
    );
}

#[test]
fn seeking_goes_back_and_forth_and_not_above_the_end() {
    let log = log_with("orders", 1, 5);
    let mut consumer = join(&log, "g", "orders");
    drain(&mut consumer);
    consumer.seek(&at("orders", 0).at(Offset::new(3))).unwrap();
    assert_eq!(consumer.lag(&at("orders", 0)), Some(2));
    assert_eq!(drain(&mut consumer).len(), 2);
    let above = consumer.seek(&at("orders", 0).at(Offset::new(6)));
    assert!(
        matches!(above, Err(Error::OutOfRange { ref valid, .. }) if valid.end == Offset::new(5))
    );
    let foreign = consumer.seek(&at("sales", 0).at(Offset::ZERO));
    assert!(matches!(foreign, Err(Error::NotAssigned { .. })));
}

#[test]
fn a_batch_shows_its_partitions_and_where_to_go_on() {
    let log = log_with("orders", 3, 30);
    let mut consumer = join(&log, "g", "orders");
    let batch = consumer.poll(NOW).unwrap();
    assert_eq!(batch.len(), 30);
    assert_eq!(batch.partitions(), consumer.assignment());
    let by_partition: usize = batch
        .partitions()
        .iter()
        .map(|at| batch.partition(at).count())
        .sum();
    assert_eq!(by_partition, 30);
    assert_eq!(batch.topic("orders").count(), 30);
    assert_eq!(batch.topic("sales").count(), 0);
    assert_eq!(batch.next_positions(), &consumer.positions());
    assert!(batch.pinned_bytes() > 0);
    let borrowed: Vec<Position> = batch.iter().map(|entry| entry.position()).collect();
    let owned: Vec<Position> = batch.into_iter().map(|entry| entry.position()).collect();
    assert_eq!(borrowed, owned);
}

#[test]
fn every_way_over_a_batch_gives_the_same_entries() {
    let log = log_with("orders", 2, 0);
    let topic = log.topic("orders").unwrap();
    let long = "x".repeat(20_000);
    for (partition, rounds) in [(0, 3), (1, 5)] {
        let records = (0..rounds).flat_map(|_| {
            [
                Record::new("key", "value"),
                Record::keyless(&long[..200]),
                Record::tombstone(&long[..127]),
                Record::new("", "").header("name", "of a header"),
                Record::keyless(&long),
                Record::new("key", "value").at(Timestamp::from_millis(7)),
                Record::keyless("last"),
            ]
        });
        topic
            .partition(partition)
            .unwrap()
            .append_all(records)
            .unwrap();
    }
    // Polls begin and end within the batches that were appended.
    let builder = log.group("g").subscribe(["orders"]).max_poll_records(5);
    let mut consumer = builder.join().unwrap();
    let shown = |entry: EntryRef<'_>| (format!("{entry:?}"), entry.value().map(<[u8]>::to_vec));
    let mut seen = 0;
    loop {
        let batch = consumer.poll(NOW).unwrap();
        if batch.is_empty() {
            break;
        }
        let mut by_loop = Vec::new();
        for entry in &batch {
            by_loop.push(shown(entry));
        }
        assert_eq!(by_loop.len(), batch.len());
        for skipped in 0..batch.len() {
            let mut by_fold = Vec::new();
            let mut rest = batch.iter();
            assert_eq!(rest.by_ref().take(skipped).count(), skipped);
            rest.for_each(|entry| by_fold.push(shown(entry)));
            assert_eq!(by_fold, by_loop[skipped..]);
        }
        seen += by_loop.len();
        let by_value: Vec<_> = batch
            .into_iter()
            .map(|entry| shown(entry.as_ref()))
            .collect();
        assert_eq!(by_value, by_loop);
    }
    assert_eq!(seen, 7 * (3 + 5));
}

#[test]
fn a_wake_is_sticky_and_moves_nothing() {
    let log = log_with("orders", 1, 5);
    let mut consumer = join(&log, "g", "orders");
    assert_eq!(consumer.poll(NOW).unwrap().len(), 5);
    consumer.seek(&at("orders", 0).at(Offset::ZERO)).unwrap();
    consumer.wake_handle().wake();
    assert!(matches!(consumer.poll(NOW), Err(Error::Woken)));
    assert_eq!(consumer.position(&at("orders", 0)), Some(Offset::ZERO));
    assert_eq!(consumer.poll(NOW).unwrap().len(), 5);
    consumer.wake_handle().wake();
    assert!(consumer.next_batch().unwrap().is_none());
}

#[test]
fn a_waiting_poll_ends_when_a_record_comes() {
    let log = log_with("orders", 2, 0);
    let mut consumer = join(&log, "g", "orders");
    let orders = log.topic("orders").unwrap();
    let writer = std::thread::spawn(move || orders.append(("k", "v")).unwrap());
    let batch = consumer.next_batch().unwrap().unwrap();
    assert_eq!(batch.len(), 1);
    writer.join().unwrap();
}

#[test]
fn a_waiting_poll_ends_when_its_topic_appears_or_its_log_is_closed() {
    let log = Log::in_memory();
    let mut consumer = join(&log, "g", "orders");
    let other = log.clone();
    let writer = std::thread::spawn(move || {
        fill(&other, "orders", 1, 1);
        other
    });
    assert_eq!(consumer.next_batch().unwrap().unwrap().len(), 1);
    let other = writer.join().unwrap();
    let closer = std::thread::spawn(move || other.close().unwrap());
    assert!(matches!(consumer.next_batch(), Err(Error::Closed)));
    closer.join().unwrap();
}

#[test]
fn nothing_waits_on_a_clock_that_a_test_moves() {
    let clock = ManualClock::new();
    let log = Log::builder().clock(&clock).open_on(&Disk::new()).unwrap();
    fill(&log, "orders", 1, 3);
    let mut consumer = join(&log, "g", "orders");
    let mut handled = 0;
    while let Some(batch) = consumer.next_batch().unwrap() {
        handled += batch.len();
        consumer.commit().unwrap();
    }
    assert_eq!(handled, 3);
    assert!(consumer.poll(Duration::from_secs(3600)).unwrap().is_empty());
}

#[test]
fn damage_in_one_partition_halts_that_one_only() {
    let disk = Disk::new();
    let log = Log::builder().open_on(&disk).unwrap();
    let config = TopicConfig::new().partitions(2).segment_bytes(1024);
    let orders = log.create_topic("orders", config).unwrap();
    for n in 0..40 {
        for partition in orders.partitions() {
            partition.append(("k", &format!("{n:0>80}"))).unwrap();
        }
    }
    drop(orders);
    log.close().unwrap();
    let first = disk.files().into_iter().find(|(path, _)| {
        let path = path.to_string_lossy().into_owned();
        path.contains("orders")
            && path.contains("/0/")
            && path.ends_with("00000000000000000000-00000000.log")
    });
    disk.flip_bit(first.unwrap().0, 8 * 400).unwrap();

    let log = Log::builder().open_on(&disk).unwrap();
    let mut consumer = join(&log, "g", "orders");
    let mut seen: BTreeMap<u32, usize> = BTreeMap::new();
    let mut errors = Vec::new();
    for _ in 0..20 {
        match consumer.poll(NOW) {
            Ok(batch) => batch
                .iter()
                .for_each(|entry| *seen.entry(entry.partition().get()).or_default() += 1),
            Err(error) => {
                assert!(error.is_corruption(), "{error:?}");
                assert_eq!(error.partition(), Some(&at("orders", 0)));
                assert_eq!(consumer.halted(), [at("orders", 0)]);
                consumer.seek(&error.resume_at().unwrap()).unwrap();
                errors.push(error);
            }
        }
    }
    assert_eq!(errors.len(), 1);
    assert_eq!(seen[&1], 40);
    assert!(seen[&0] < 40 && seen[&0] > 30, "{seen:?}");
}

#[test]
fn damage_in_a_topic_that_is_called_like_the_ledger_hides_no_commit() {
    let disk = Disk::new();
    let log = Log::builder().open_on(&disk).unwrap();
    fill(&log, "orders", 1, 3);
    fill(&log, "__ledger", 1, 3);
    let mut consumer = join(&log, "g", "orders");
    drain(&mut consumer);
    consumer.commit().unwrap();
    consumer.close().unwrap();
    log.close().unwrap();
    let mut segments = disk.files().into_iter().map(|(path, _)| path);
    let theirs = segments
        .find(|path| {
            path.to_string_lossy().contains("topics/__ledger")
                && path.extension().is_some_and(|e| e == "log")
        })
        .unwrap();
    disk.flip_bit(&theirs, 8 * 20).unwrap();
    disk.flip_bit("/log/STATE", 8 * 20).unwrap(); // so that opening looks
    let log = Log::builder().open_on(&disk).unwrap();
    assert!(!log.recovery().is_empty());
    assert_eq!(drain(&mut join(&log, "g", "orders")), [""; 0]);
}

#[test]
fn a_topic_whose_commits_cannot_be_read_is_not_taken_for_one_that_is_missing() {
    let disk = Disk::new();
    let log = Log::builder().open_on(&disk).unwrap();
    fill(&log, "a", 1, 1);
    let mut consumer = join(&log, "g", "a");
    drain(&mut consumer);
    consumer.commit().unwrap();
    consumer.close().unwrap();
    log.close().unwrap();
    let files = disk.files().into_iter();
    let (ledger, len) = files
        .filter(|(path, _)| path.extension().is_some_and(|e| e == "log"))
        .find(|(path, _)| path.to_string_lossy().contains("ledger"))
        .unwrap();
    disk.flip_bit(&ledger, 8 * (len - 5)).unwrap();
    let log = Log::builder().open_on(&disk).unwrap();
    let mut consumer = join(&log, "g", "b");
    assert!(
        consumer.poll(Duration::ZERO).unwrap().is_empty(),
        "there is no such topic"
    );
    fill(&log, "b", 2, 2);
    // Every other poll tells it, and the ones between read what can be read.
    for poll in 0..6 {
        match consumer.poll(Duration::ZERO) {
            Err(error) if poll % 2 == 0 => {
                assert!(matches!(error, Error::Corruption { .. }), "{error:?}");
            }
            polled => assert!(polled.unwrap().is_empty() && poll % 2 == 1),
        }
        assert!(consumer.assignment().is_empty());
    }
    drop(consumer);
    log.close().unwrap();
    let strict = Log::builder().on_corruption(OnCorruption::RefuseLog);
    let refused = strict.open_on(&disk).unwrap_err();
    assert!(matches!(refused, Error::Corruption { .. }), "{refused:?}");
    let log = Log::builder().open_on(&disk).unwrap();
    assert_eq!(log.recovery().findings()[0].kind, FindingKind::Damaged);
}
