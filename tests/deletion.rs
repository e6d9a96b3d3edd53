//! Deleting topics: what goes, what stays, who is told, and what a crash in the middle leaves.

use std::time::Duration;

use thalweg::testing::{CrashModel, Disk, DiskCall, DiskError, FailedSync, Fault, Variants};
use thalweg::{Durability, Error, Log, Offset, Outcome, Topic, TopicConfig, TopicPartition};

const NOW: Duration = Duration::ZERO;

fn open(disk: &Disk) -> Log {
    Log::builder().open_on(disk).unwrap()
}

fn topic_of(log: &Log, name: &str, level: Durability, values: &[&str]) -> Topic {
    let config = TopicConfig::new().partitions(2).durability(level);
    let topic = log.create_topic(name, config).unwrap();
    for value in values {
        topic.append((*value, *value)).unwrap();
    }
    topic
}

fn values(log: &Log, name: &str) -> Vec<String> {
    let partitions = log.topic(name).unwrap().partitions();
    let entries = partitions
        .iter()
        .flat_map(|partition| partition.entries(..));
    let mut values: Vec<String> = entries
        .map(|entry| entry.unwrap().value_str().unwrap().to_owned())
        .collect();
    values.sort();
    values
}

fn commit_all(log: &Log, group: &str, topic: &str) {
    let mut consumer = log.group(group).subscribe([topic]).join().unwrap();
    while !consumer.poll(NOW).unwrap().is_empty() {}
    consumer.commit().unwrap();
}

/// Directories below `topics`, and nothing else of them.
fn topic_dirs(disk: &Disk) -> Vec<String> {
    let names = disk.files().into_iter().filter_map(|(path, _)| {
        let below = path.strip_prefix("/log/topics").ok()?;
        Some(below.iter().next()?.to_string_lossy().into_owned())
    });
    let mut names: Vec<String> = names.collect();
    names.dedup();
    names
}

fn is_not_found<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::NotFound { what: "topic", .. }))
}

#[test]
fn f75_a_deleted_topic_is_gone_for_everybody_who_held_it() {
    let disk = Disk::new();
    let log = open(&disk);
    let orders = topic_of(&log, "orders", Durability::Power, &["a", "b", "c"]);
    topic_of(&log, "sales", Durability::Process, &["s"]);
    let partition = orders.partition(0).unwrap();
    let mut scan = partition.entries(..);
    let kept = orders
        .partitions()
        .iter()
        .find_map(|p| p.get(Offset::ZERO).unwrap());
    log.delete_topic("orders").unwrap();

    assert!(is_not_found(&log.topic("orders")));
    assert!(is_not_found(&log.delete_topic("orders")));
    assert!(is_not_found(&orders.append(("k", "v"))));
    assert!(is_not_found(&orders.append_all([("k", "v")])));
    assert!(is_not_found(&partition.append(("k", "v"))));
    assert!(is_not_found(
        &partition.append_at(Offset::ZERO, [("k", "v")])
    ));
    assert!(is_not_found(&partition.get(Offset::ZERO)));
    assert!(is_not_found(&partition.roll()));
    assert!(is_not_found(&partition.recover()));
    assert!(scan.next().is_none_or(|entry| is_not_found(&entry)));
    assert!(
        kept.unwrap().value_str().is_ok(),
        "what was read stays readable"
    );
    assert_eq!(topic_dirs(&disk).len(), 1, "{:?}", topic_dirs(&disk));
    assert_eq!(values(&log, "sales"), ["s"]);
    log.close().unwrap();
    let log = open(&disk);
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
    assert_eq!(log.topics().len(), 1);
}

#[test]
fn f75_the_name_can_be_used_again_at_once_and_is_another_topic() {
    let disk = Disk::new();
    let log = open(&disk);
    let old = topic_of(&log, "orders", Durability::Power, &["a", "b"]);
    commit_all(&log, "g", "orders");
    log.delete_topic("orders").unwrap();
    let new = topic_of(&log, "orders", Durability::Power, &["c"]);
    assert!(log.group("g").committed().unwrap().is_empty());
    assert!(is_not_found(&old.append(("k", "v"))));
    new.append(("d", "d")).unwrap();
    assert_eq!(values(&log, "orders"), ["c", "d"]);
    let crashed = disk.crash(disk.points(), CrashModel::ProcessKill, 0);
    let log = open(&crashed);
    assert_eq!(values(&log, "orders"), ["c", "d"]);
    assert!(log.group("g").committed().unwrap().is_empty());
}

#[test]
fn f75_commits_of_old_handles_do_not_touch_a_deleted_topic_or_its_successor() {
    let log = Log::in_memory();
    topic_of(&log, "orders", Durability::Process, &["a", "b", "c"]);
    let mut consumer = log.group("g").subscribe(["orders"]).join().unwrap();
    while !consumer.poll(NOW).unwrap().is_empty() {}
    let read = consumer.positions();
    log.delete_topic("orders").unwrap();
    topic_of(&log, "orders", Durability::Process, &["x"]);
    consumer.commit().unwrap();
    assert!(log.group("g").committed().unwrap().is_empty());
    assert!(consumer.commit_at(&read).is_err());
    assert!(log.group("g").committed().unwrap().is_empty());
    // It was waiting for a topic of that name, and reads the new one from its first record.
    let batch = consumer.poll(NOW).unwrap();
    let seen: Vec<_> = batch
        .iter()
        .map(|entry| entry.value_str().unwrap())
        .collect();
    assert_eq!(seen, ["x"]);
    consumer.commit().unwrap();
    let ends: u64 = log
        .group("g")
        .committed()
        .unwrap()
        .iter()
        .map(|at| at.offset().get())
        .sum();
    assert_eq!(ends, 1);
}

#[test]
fn a_member_of_a_deleted_topic_reads_its_others_on() {
    let log = Log::in_memory();
    topic_of(&log, "orders", Durability::Process, &["a"]);
    let sales = topic_of(&log, "sales", Durability::Process, &["s"]);
    let mut consumer = log
        .group("g")
        .subscribe(["orders", "sales"])
        .join()
        .unwrap();
    assert_eq!(consumer.poll(NOW).unwrap().len(), 2);
    log.delete_topic("orders").unwrap();
    sales.append(("t", "t")).unwrap();
    let batch = consumer.poll(NOW).unwrap();
    assert_eq!(batch.iter().next().unwrap().value_str().unwrap(), "t");
    assert!(consumer.assignment().iter().all(|at| at.topic() == "sales"));
    assert_eq!(consumer.subscription(), ["orders", "sales"]);
    let at = TopicPartition::new("orders", 0);
    assert!(matches!(
        consumer.seek(&at.at(Offset::ZERO)),
        Err(Error::NotAssigned { .. })
    ));
}

/// A topic at every level, with commits, deleted; another one made; and the same name again.
fn workload(disk: &Disk) -> (usize, usize) {
    let log = open(disk);
    let keep = topic_of(&log, "keep", Durability::Power, &["k1", "k2"]);
    topic_of(&log, "orders", Durability::Process, &["a", "b", "c"]);
    commit_all(&log, "g", "orders");
    commit_all(&log, "g", "keep");
    log.sync().unwrap();
    let begun = disk.points();
    log.delete_topic("orders").unwrap();
    let done = disk.points();
    topic_of(&log, "orders", Durability::Power, &["n"]);
    keep.append(("k3", "k3")).unwrap();
    log.close().unwrap();
    (begun, done)
}

/// What must hold in every state, and goes on holding when it is led on.
fn judge(disk: &Disk, after: usize, (begun, done): (usize, usize), state: &str) {
    let log = Log::builder()
        .open_on(disk)
        .unwrap_or_else(|e| panic!("{state}: {e:?}"));
    let damaged = |f: &thalweg::Finding| f.kind == thalweg::FindingKind::Damaged;
    assert!(
        !log.recovery().findings().iter().any(damaged),
        "{state}: {:?}",
        log.recovery()
    );
    if after >= begun {
        assert!(
            values(&log, "keep").starts_with(&["k1".into(), "k2".into()]),
            "{state}"
        );
        let old = log.topic("orders").is_ok() && values(&log, "orders").contains(&"a".to_owned());
        if after >= done {
            assert!(!old, "{state}: a deleted topic is there");
        }
        let committed = log
            .group("g")
            .committed()
            .unwrap_or_else(|e| panic!("{state}: {e:?}"));
        let of = |name: &str| committed.iter().filter(|at| at.topic() == name).count();
        assert!(of("keep") > 0, "{state}");
        if old {
            assert_eq!(values(&log, "orders"), ["a", "b", "c"], "{state}");
            assert!(
                of("orders") > 0,
                "{state}: the topic is there and its commits are not"
            );
        } else {
            assert_eq!(of("orders"), 0, "{state}");
        }
    }
    assert!(topic_dirs(disk).len() <= 3, "{state}");
    // It can be led on: deleted if it is there, and made again.
    let _ = log.delete_topic("orders");
    assert!(is_not_found(&log.topic("orders")), "{state}");
    topic_of(&log, "orders", Durability::Power, &["z"]);
    log.close().unwrap_or_else(|e| panic!("{state}: {e:?}"));
    let log = open(disk);
    assert!(log.recovery().is_empty(), "{state}: {:?}", log.recovery());
    assert_eq!(values(&log, "orders"), ["z"], "{state}");
    let live: Vec<String> = log.topics().iter().map(|t| t.name().to_owned()).collect();
    assert_eq!(
        topic_dirs(disk).len(),
        live.len(),
        "{state}: left over: {:?}",
        topic_dirs(disk)
    );
}

#[test]
fn f75b_a_crash_at_each_step_leaves_the_topic_or_nothing_of_it() {
    let disk = Disk::new();
    let points = workload(&disk);
    let mut states = 0;
    for after in 0..=disk.points() {
        for model in [
            CrashModel::ProcessKill,
            CrashModel::LostSuffix,
            CrashModel::LostPages,
            CrashModel::GarbagePages,
        ] {
            let seeds = match disk.variants(after, model) {
                Variants::All(count) => count.min(6),
                _ => 6,
            };
            for seed in 0..seeds {
                let state = format!("{model:?} after {after}, seed {seed}");
                judge(&disk.crash(after, model, seed), after, points, &state);
                states += 1;
            }
        }
    }
    println!("{states} states");
}

#[test]
fn f75b_a_crash_while_the_deletion_is_finished_is_finished_by_the_next_opening() {
    let disk = Disk::new();
    let (begun, done) = workload(&disk);
    for after in begun..=done {
        let first = disk.crash(after, CrashModel::ProcessKill, 0);
        first.forget_history();
        drop(open(&first));
        for again in 0..=first.points() {
            for model in [CrashModel::ProcessKill, CrashModel::LostPages] {
                let state = format!("{after}, then {model:?} after {again}");
                judge(&first.crash(again, model, 1), after, (begun, done), &state);
            }
        }
    }
}

#[test]
fn a_catalogue_that_cannot_be_written_leaves_the_topic_as_it_was() {
    let disk = Disk::new();
    let log = open(&disk);
    let orders = topic_of(&log, "orders", Durability::Power, &["a"]);
    for call in [DiskCall::Write, DiskCall::Open] {
        disk.fail(Fault::error(call, DiskError::NoSpace).on("CATALOGUE"));
        let refused = log.delete_topic("orders").unwrap_err();
        assert_eq!(refused.outcome(), Outcome::Rejected, "{refused:?}");
        orders.append(("b", "b")).unwrap();
    }
    assert_eq!(values(&log, "orders"), ["a", "b", "b"]);
}

#[test]
fn a_catalogue_whose_sync_fails_leaves_a_topic_that_refuses_everything() {
    let disk = Disk::new();
    let log = open(&disk);
    let orders = topic_of(&log, "orders", Durability::Power, &["a"]);
    disk.fail(Fault::sync(DiskCall::SyncData, FailedSync::Revert, DiskError::Io).on("CATALOGUE"));
    let unknown = log.delete_topic("orders").unwrap_err();
    assert_eq!(unknown.outcome(), Outcome::Indeterminate, "{unknown:?}");
    assert!(is_not_found(&orders.append(("b", "b"))));
    let again = log.create_topic("orders", TopicConfig::new());
    assert!(matches!(again, Err(Error::AlreadyExists { .. })));
    log.close().unwrap();
    let log = open(&disk);
    assert_eq!(values(&log, "orders"), ["a"], "{:?}", log.recovery());
    log.delete_topic("orders").unwrap();
}

#[test]
fn files_that_cannot_be_removed_now_go_at_the_next_opening() {
    let disk = Disk::new();
    let log = open(&disk);
    topic_of(&log, "orders", Durability::Power, &["a"]);
    commit_all(&log, "g", "orders");
    disk.fail(Fault::error(DiskCall::Remove, DiskError::Io).on("orders"));
    log.delete_topic("orders").unwrap();
    assert_eq!(topic_dirs(&disk).len(), 1);
    topic_of(&log, "orders", Durability::Power, &["b"]);
    log.close().unwrap();
    let log = open(&disk);
    assert_eq!(topic_dirs(&disk).len(), 1);
    assert_eq!(values(&log, "orders"), ["b"]);
    assert!(log.group("g").committed().unwrap().is_empty());
}

#[test]
fn a_log_that_is_only_read_deletes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let log = Log::open(&path).unwrap();
    topic_of(&log, "orders", Durability::Power, &["a"]);
    let reader = Log::open_read_only(&path).unwrap();
    assert!(matches!(
        reader.delete_topic("orders"),
        Err(Error::ReadOnly { .. })
    ));
    assert_eq!(values(&reader, "orders"), ["a"]);
    log.delete_topic("orders").unwrap();
    assert!(is_not_found(
        &Log::open_read_only(&path).unwrap().topic("orders")
    ));
}

#[test]
fn a_deletion_that_may_have_been_written_is_not_taken_back_by_a_later_try() {
    let disk = Disk::new();
    let log = open(&disk);
    let orders = topic_of(&log, "orders", Durability::Power, &["a"]);
    disk.fail(Fault::sync(DiskCall::SyncData, FailedSync::Keep, DiskError::Io).on("CATALOGUE"));
    let unknown = log.delete_topic("orders").unwrap_err();
    assert_eq!(unknown.outcome(), Outcome::Indeterminate);
    disk.fail(Fault::error(DiskCall::Open, DiskError::NoSpace).on("CATALOGUE"));
    let again = log.delete_topic("orders").unwrap_err();
    assert_eq!(again.outcome(), Outcome::Indeterminate, "{again:?}");
    assert!(is_not_found(&orders.append(("b", "b"))));
    log.delete_topic("orders").unwrap();
    assert!(is_not_found(&log.topic("orders")));
}

/// What groups with the longest names have committed for many partitions is more than one batch holds.
#[test]
fn a_topic_with_commits_of_long_names_is_deleted_and_the_log_opens() {
    let disk = Disk::new();
    let log = open(&disk);
    let config = TopicConfig::new()
        .partitions(300)
        .durability(Durability::Process);
    let orders = log.create_topic("orders", config).unwrap();
    for partition in orders.partitions() {
        partition.append(("k", "v")).unwrap();
    }
    let group = "g".repeat(32_767);
    commit_all(&log, &group, "orders");
    log.delete_topic("orders").unwrap();
    assert!(log.group(&group).committed().unwrap().is_empty());
    log.close().unwrap();
    let log = open(&disk);
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
    assert!(log.group(&group).committed().unwrap().is_empty());
}
