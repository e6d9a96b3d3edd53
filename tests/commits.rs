//! What a group has committed: where it is stored, who may store it, and that a crash or damage never turns it into another.

use std::time::Duration;

use thalweg::testing::{CrashModel, Disk};
use thalweg::{
    Consumer, Durability, Error, Log, Offset, Position, Positions, TopicConfig, TopicPartition,
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
fn groups_do_not_know_of_each_other() {
    let log = log_with("orders", 1, 5);
    let mut first = join(&log, "first", "orders");
    assert_eq!(drain(&mut first).len(), 5);
    first.commit().unwrap();
    let mut second = join(&log, "second", "orders");
    assert_eq!(drain(&mut second).len(), 5);
    assert_eq!(log.group("first").lag().unwrap(), [(at("orders", 0), 0)]);
    assert!(log.group("second").committed().unwrap().is_empty());
}

#[test]
fn what_was_not_committed_is_returned_again() {
    let log = log_with("orders", 1, 10);
    let mut consumer = log
        .group("g")
        .subscribe(["orders"])
        .max_poll_records(4)
        .join()
        .unwrap();
    let _ = consumer.poll(NOW).unwrap();
    consumer.commit().unwrap();
    let _ = consumer.poll(NOW).unwrap();
    drop(consumer);
    let mut again = join(&log, "g", "orders");
    assert_eq!(drain(&mut again)[0], "orders-0@4 4");
}

#[test]
fn committing_through_an_entry_stores_the_offset_after_it() {
    let log = log_with("orders", 1, 5);
    let mut consumer = join(&log, "g", "orders");
    for entry in consumer.poll(NOW).unwrap() {
        if entry.offset() == Offset::new(2) {
            consumer.commit_through(&entry).unwrap();
            break;
        }
    }
    assert_eq!(
        consumer.committed(&at("orders", 0)).unwrap(),
        Some(Offset::new(3))
    );
    drop(consumer);
    assert_eq!(drain(&mut join(&log, "g", "orders"))[0], "orders-0@3 3");
}

#[test]
fn a_commit_inside_a_loop_by_value_is_refused_until_the_next_poll_or_a_seek() {
    let log = log_with("orders", 1, 5);
    let mut consumer = join(&log, "g", "orders");
    let mut entries = consumer.poll(NOW).unwrap().into_iter();
    entries.next();
    assert!(matches!(
        consumer.commit(),
        Err(Error::BatchUnfinished { left: 4, .. })
    ));
    drop(entries);
    assert!(matches!(
        consumer.commit(),
        Err(Error::BatchUnfinished { left: 4, .. })
    ));
    assert_eq!(consumer.committed(&at("orders", 0)).unwrap(), None);
    consumer.seek(&at("orders", 0).at(Offset::new(1))).unwrap();
    consumer.commit().unwrap();
    assert_eq!(
        consumer.committed(&at("orders", 0)).unwrap(),
        Some(Offset::new(1))
    );

    for entry in &consumer.poll(NOW).unwrap() {
        entry.value().unwrap();
    }
    consumer.commit().unwrap();
    assert_eq!(
        consumer.committed(&at("orders", 0)).unwrap(),
        Some(Offset::new(5))
    );
}

#[test]
fn f119_commits_out_of_range_store_nothing() {
    let log = log_with("orders", 2, 20);
    let mut consumer = join(&log, "g", "orders");
    assert_eq!(consumer.poll(NOW).unwrap().len(), 20);
    let end = log
        .topic("orders")
        .unwrap()
        .partition(0)
        .unwrap()
        .offsets()
        .end;
    let commit = |consumer: &mut Consumer, positions: &[Position]| {
        consumer.commit_at(&positions.iter().cloned().collect::<Positions>())
    };
    let good = at("orders", 1).at(Offset::new(1));
    let above = commit(
        &mut consumer,
        &[good.clone(), at("orders", 0).at(end.next())],
    );
    assert!(matches!(above, Err(Error::OutOfRange { ref valid, .. }) if valid.end == end));
    let unknown = commit(&mut consumer, &[good, at("orders", 2).at(Offset::ZERO)]);
    assert!(matches!(unknown, Err(Error::NotAssigned { .. })));
    assert!(log.group("g").committed().unwrap().is_empty());
    commit(&mut consumer, &[at("orders", 0).at(end)]).unwrap();
    assert_eq!(consumer.committed(&at("orders", 0)).unwrap(), Some(end));
    assert!(matches!(
        consumer.committed(&at("orders", 9)),
        Err(Error::NotFound { .. })
    ));
    assert!(matches!(
        consumer.committed(&at("sales", 0)),
        Err(Error::NotFound { .. })
    ));
}

#[test]
fn a_group_goes_on_from_its_commit_after_a_crash() {
    let disk = Disk::new();
    let log = Log::builder().open_on(&disk).unwrap();
    let config = TopicConfig::new()
        .partitions(2)
        .durability(Durability::Process);
    let orders = log.create_topic("orders", config).unwrap();
    for n in 0..20 {
        orders.append((&format!("k{n}"), &n.to_string())).unwrap();
    }
    let mut consumer = log
        .group("g")
        .subscribe(["orders"])
        .max_poll_records(5)
        .join()
        .unwrap();
    let _ = consumer.poll(NOW).unwrap();
    consumer.commit().unwrap();
    let committed = log.group("g").committed().unwrap();
    let _ = consumer.poll(NOW).unwrap();

    let crashed = disk.crash(disk.points(), CrashModel::ProcessKill, 0);
    let log = Log::builder().open_on(&crashed).unwrap();
    assert_eq!(log.group("g").committed().unwrap(), committed);
    assert_eq!(drain(&mut join(&log, "g", "orders")).len(), 15);
}

/// The position at every crash point is one that was committed, or none where none was yet.
#[test]
fn f121_a_crash_during_commits_leaves_the_old_position_or_the_new() {
    let disk = Disk::new();
    let log = Log::builder().open_on(&disk).unwrap();
    fill(&log, "orders", 1, 8);
    let mut consumer = log
        .group("g")
        .subscribe(["orders"])
        .max_poll_records(2)
        .join()
        .unwrap();
    let mut points = vec![disk.points()];
    for _ in 0..4 {
        let _ = consumer.poll(NOW).unwrap();
        consumer.commit().unwrap();
        points.push(disk.points());
    }
    let orders = at("orders", 0);
    for model in [
        CrashModel::ProcessKill,
        CrashModel::LostSuffix,
        CrashModel::LostPages,
        CrashModel::GarbagePages,
    ] {
        for after in points[0]..=disk.points() {
            let begun = points.iter().filter(|&&point| point < after).count() as u64;
            let done = points[1..].iter().filter(|&&point| point <= after).count() as u64;
            for seed in 0..6 {
                let what = format!("{model:?} after {after} seed {seed}");
                let crashed = Log::builder()
                    .open_on(&disk.crash(after, model, seed))
                    .unwrap();
                let group = crashed.group("g");
                let next = group
                    .committed()
                    .unwrap_or_else(|e| panic!("{what}: {e:?}"))
                    .next(&orders);
                let commits = next.map_or(0, |next| next.get() / 2);
                assert!(
                    next.is_none_or(|next| next.get() % 2 == 0),
                    "{what}: {next:?}"
                );
                assert!(commits <= begun, "{what}: {next:?}");
                if model == CrashModel::ProcessKill {
                    assert!(commits >= done, "{what}: {next:?}");
                }
            }
        }
    }
}

#[test]
fn f123_damage_in_the_ledger_is_never_taken_for_no_commit() {
    let disk = Disk::new();
    let log = Log::builder().open_on(&disk).unwrap();
    fill(&log, "orders", 1, 8);
    let mut consumer = log
        .group("g")
        .subscribe(["orders"])
        .max_poll_records(2)
        .join()
        .unwrap();
    for _ in 0..3 {
        let _ = consumer.poll(NOW).unwrap();
        consumer.commit().unwrap();
    }
    drop(consumer);
    log.close().unwrap();
    let (ledger, len) = disk
        .files()
        .into_iter()
        .find(|(path, _)| path.starts_with("/log/ledger/0"))
        .unwrap();
    for bit in (8 * 130..8 * len).step_by(37) {
        let crashed = disk.crash(disk.points(), CrashModel::ProcessKill, 0);
        crashed.flip_bit(&ledger, bit).unwrap();
        let log = Log::builder().open_on(&crashed).unwrap();
        match log.group("g").committed() {
            Ok(positions) => assert_eq!(
                positions.next(&at("orders", 0)),
                Some(Offset::new(6)),
                "bit {bit}"
            ),
            Err(e) => assert!(e.is_corruption(), "bit {bit}: {e:?}"),
        }
        match log.group("g").subscribe(["orders"]).join() {
            Ok(consumer) => assert_eq!(
                consumer.position(&at("orders", 0)),
                Some(Offset::new(6)),
                "bit {bit}"
            ),
            Err(e) => assert!(e.is_corruption(), "bit {bit}: {e:?}"),
        }
    }
}
