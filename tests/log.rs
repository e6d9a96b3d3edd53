//! What a user sees of a log and its topics: opening, creating, appending, closing, and opening again.

use thalweg::testing::{CrashModel, Disk};
use thalweg::{
    Durability, Error, FindingKind, Log, Offset, OnCorruption, Partitioner, TopicConfig,
};

fn values(log: &Log, topic: &str) -> Vec<String> {
    let topic = log.topic(topic).unwrap();
    let mut values = Vec::new();
    for partition in topic.partitions() {
        for entry in partition.entries(..) {
            values.push(entry.unwrap().value_str().unwrap().to_owned());
        }
    }
    values
}

#[test]
fn a_log_on_disk_is_the_same_when_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(dir.path()).unwrap();
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
    let config = TopicConfig::new()
        .partitions(3)
        .durability(Durability::Process);
    let orders = log.create_topic("orders", config).unwrap();
    let at = orders.append(("customer-7", "2 x espresso")).unwrap();
    assert_eq!(at.partition(), orders.partition_for(b"customer-7"));
    log.close().unwrap();

    let log = Log::open(dir.path()).unwrap();
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
    let orders = log.topic("orders").unwrap();
    assert_eq!(orders.settings().partitions, 3);
    assert_eq!(orders.settings().durability, Durability::Process);
    let entry = orders
        .partition(at.partition())
        .unwrap()
        .get(at.offset())
        .unwrap()
        .unwrap();
    assert_eq!(entry.position(), at);
    assert_eq!(entry.value_str().unwrap(), "2 x espresso");
    assert_eq!(
        orders.append(("customer-7", "tea")).unwrap().offset(),
        at.offset().next()
    );
}

#[test]
fn a_log_that_was_only_opened_and_closed_opens_again_without_a_finding() {
    let disk = Disk::new();
    Log::builder().open_on(&disk).unwrap().close().unwrap();
    let log = Log::builder().open_on(&disk).unwrap();
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
    assert!(log.topics().is_empty());
}

#[test]
fn opening_after_a_clean_close_writes_nothing() {
    let disk = Disk::new();
    let log = Log::builder().open_on(&disk).unwrap();
    log.create_topic("orders", TopicConfig::new())
        .unwrap()
        .append(("a", "1"))
        .unwrap();
    log.close().unwrap();
    let before = disk.hash();
    let log = Log::builder().open_on(&disk).unwrap();
    assert_eq!(values(&log, "orders"), ["1"]);
    assert_eq!(disk.hash(), before);
    log.close().unwrap();
    assert_eq!(disk.hash(), before);
}

#[test]
fn f90_the_same_process_cannot_open_a_log_twice() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(dir.path()).unwrap();
    assert!(matches!(
        Log::open(dir.path()),
        Err(Error::AlreadyOpen { .. })
    ));
    let link = dir.path().with_extension("link");
    std::os::unix::fs::symlink(dir.path(), &link).unwrap();
    let through_link = Log::open(&link);
    std::fs::remove_file(&link).unwrap();
    assert!(matches!(through_link, Err(Error::AlreadyOpen { .. })));
    drop(log);
    Log::open(dir.path()).unwrap();
}

#[test]
fn an_error_while_opening_leaves_nothing_locked() {
    let disk = Disk::new();
    let log = Log::builder().open_on(&disk).unwrap();
    log.create_topic("orders", TopicConfig::new()).unwrap();
    log.close().unwrap();
    let catalogue = disk.read_file("/log/CATALOGUE").unwrap();
    disk.zero("/log/CATALOGUE", 0..catalogue.len() as u64)
        .unwrap();
    for _ in 0..2 {
        assert!(Log::builder().open_on(&disk).unwrap_err().is_corruption());
    }
    disk.write_file("/log/CATALOGUE", &catalogue).unwrap();
    assert_eq!(Log::builder().open_on(&disk).unwrap().topics().len(), 1);
}

#[test]
fn f96_a_link_to_a_log_is_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().join("real");
    let link = dir.path().join("link");
    Log::open(&real).unwrap().close().unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let log = Log::open(&link).unwrap();
    std::fs::remove_file(&link).unwrap();
    log.create_topic("orders", TopicConfig::new())
        .unwrap()
        .append(("a", "1"))
        .unwrap();
    log.close().unwrap();
    assert_eq!(values(&Log::open(&real).unwrap(), "orders"), ["1"]);
}

#[test]
fn f97_a_used_partition_that_is_gone_is_damage_and_the_others_work() {
    let disk = Disk::new();
    let log = Log::builder().open_on(&disk).unwrap();
    let orders = log
        .create_topic("orders", TopicConfig::new().partitions(2))
        .unwrap();
    for partition in orders.partitions() {
        partition.append(("a", "1")).unwrap();
    }
    log.close().unwrap();
    let lost: Vec<_> = disk
        .files()
        .into_iter()
        .filter(|(path, _)| path.to_string_lossy().contains("/0/"))
        .collect();
    let topic_files = lost
        .iter()
        .filter(|(path, _)| path.starts_with("/log/topics"));
    for (path, _) in topic_files {
        disk.remove(path).unwrap();
    }

    let log = Log::builder().open_on(&disk).unwrap();
    let damaged: Vec<_> = log
        .recovery()
        .findings()
        .iter()
        .filter(|f| f.kind == FindingKind::Damaged)
        .collect();
    assert_eq!(damaged.len(), 1, "{damaged:?}");
    let orders = log.topic("orders").unwrap();
    assert!(
        orders
            .partition(0)
            .unwrap()
            .append(("a", "2"))
            .unwrap_err()
            .is_corruption()
    );
    assert_eq!(
        orders
            .partition(1)
            .unwrap()
            .append(("a", "2"))
            .unwrap()
            .offset(),
        Offset::new(1)
    );
    drop(orders);
    drop(log);

    let refused = Log::builder()
        .on_corruption(OnCorruption::RefuseLog)
        .open_on(&disk);
    assert!(refused.unwrap_err().is_corruption());
}

#[test]
fn other_handles_answer_closed_after_a_close() {
    let log = Log::in_memory();
    let orders = log.create_topic("orders", TopicConfig::new()).unwrap();
    let partition = orders.partition(0).unwrap();
    let other = log.clone();
    log.close().unwrap();
    assert!(matches!(orders.append(("a", "1")), Err(Error::Closed)));
    assert!(matches!(partition.append(("a", "1")), Err(Error::Closed)));
    assert!(matches!(other.topic("orders"), Err(Error::Closed)));
    assert!(matches!(other.sync(), Err(Error::Closed)));
    assert!(matches!(other.close(), Err(Error::Closed)));
}

#[test]
fn a_topic_keeps_its_log_open() {
    let disk = Disk::new();
    let log = Log::builder().open_on(&disk).unwrap();
    let orders = log.create_topic("orders", TopicConfig::new()).unwrap();
    drop(log);
    orders.append(("a", "1")).unwrap();
    assert!(matches!(
        Log::builder().open_on(&disk),
        Err(Error::AlreadyOpen { .. })
    ));
    drop(orders);
    assert_eq!(
        values(&Log::builder().open_on(&disk).unwrap(), "orders"),
        ["1"]
    );
}

#[test]
fn a_read_only_view_writes_nothing_beside_the_process_that_writes() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(dir.path()).unwrap();
    log.create_topic("orders", TopicConfig::new())
        .unwrap()
        .append(("a", "1"))
        .unwrap();

    let view = Log::open_read_only(dir.path()).unwrap();
    assert!(
        view.recovery()
            .findings()
            .iter()
            .any(|f| f.kind == FindingKind::MayBeBehind)
    );
    assert!(matches!(
        view.create_topic("x", TopicConfig::new()),
        Err(Error::ReadOnly { .. })
    ));
    assert!(matches!(
        view.topic("orders").unwrap().append(("a", "2")),
        Err(Error::ReadOnly { .. })
    ));
    view.close().unwrap();
    log.topic("orders").unwrap().append(("a", "2")).unwrap();
    log.close().unwrap();
    assert_eq!(
        values(&Log::open_read_only(dir.path()).unwrap(), "orders"),
        ["1", "2"]
    );
}

#[test]
fn f15_leftovers_are_removed_and_block_nothing() {
    let disk = Disk::new();
    let log = Log::builder().open_on(&disk).unwrap();
    log.create_topic("orders", TopicConfig::new())
        .unwrap()
        .append(("a", "1"))
        .unwrap();
    log.close().unwrap();
    for name in [
        "CATALOGUE.tmp",
        "STATE.tmp",
        "FORMAT.tmp",
        "topics/x-00000001.tmp/config",
    ] {
        disk.write_file(format!("/log/{name}"), b"half a file")
            .unwrap();
    }
    let log = Log::builder().open_on(&disk).unwrap();
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
    assert!(
        disk.files()
            .iter()
            .all(|(path, _)| !path.to_string_lossy().contains(".tmp")),
        "{:?}",
        disk.files()
    );
    log.create_topic("sales", TopicConfig::new()).unwrap();
    log.close().unwrap();
    assert_eq!(Log::builder().open_on(&disk).unwrap().topics().len(), 2);
}

#[test]
fn files_that_are_none_of_ours_are_left_alone_and_told_once() {
    let disk = Disk::new();
    Log::builder().open_on(&disk).unwrap().close().unwrap();
    disk.write_file("/log/notes.txt", b"mine").unwrap();
    disk.write_file("/log/topics/notes.txt", b"mine").unwrap();
    let log = Log::builder().open_on(&disk).unwrap();
    let findings = log.recovery().findings();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(
        (findings[0].kind, findings[0].bytes),
        (FindingKind::UnknownFiles, 2)
    );
    assert_eq!(disk.read_file("/log/notes.txt").unwrap(), b"mine");
}

#[test]
fn f61_losing_state_costs_no_record() {
    let disk = Disk::new();
    let log = Log::builder().open_on(&disk).unwrap();
    log.create_topic("orders", TopicConfig::new())
        .unwrap()
        .append(("a", "1"))
        .unwrap();
    log.close().unwrap();
    disk.remove("/log/STATE").unwrap();
    let log = Log::builder().open_on(&disk).unwrap();
    assert_eq!(values(&log, "orders"), ["1"]);
    log.topic("orders").unwrap().append(("a", "2")).unwrap();
    assert_eq!(values(&log, "orders"), ["1", "2"]);
}

#[test]
fn b19_a_drop_while_panicking_does_not_mark_the_log_clean() {
    let disk = Disk::new();
    let on = disk.clone();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let config = TopicConfig::new()
            .durability(Durability::Process)
            .partitioner(Partitioner::Custom("bad".into()));
        let builder =
            Log::builder().partitioner(
                "bad",
                |key, _| if key == b"5" { panic!("a bug") } else { 0 },
            );
        let log = builder.open_on(&on).unwrap();
        let orders = log.create_topic("orders", config).unwrap();
        for n in 0..6 {
            orders.append((&n.to_string(), "v")).unwrap();
        }
    }));
    assert!(panicked.is_err());
    let (segment, len) = disk
        .files()
        .into_iter()
        .find(|(path, _)| {
            path.to_string_lossy().ends_with(".log") && path.starts_with("/log/topics")
        })
        .unwrap();
    disk.resize(&segment, len - 3).unwrap();

    let log = Log::builder().open_on(&disk).unwrap();
    assert!(!log.recovery().is_empty());
    let partition = log.topic("orders").unwrap().partition(0).unwrap();
    let kept = partition.offsets();
    assert_eq!(kept.end, Offset::new(4));
    partition.append(("6", "v")).unwrap();
}

/// Every crash point of making a log and a topic: the old state or the new, and the log opens.
#[test]
fn f14_a_crash_while_a_topic_is_made_leaves_it_whole_or_not_there() {
    let disk = Disk::new();
    let log = Log::builder().open_on(&disk).unwrap();
    log.create_topic("orders", TopicConfig::new().partitions(2))
        .unwrap();
    let made = disk.points();
    log.topic("orders").unwrap().append(("a", "1")).unwrap();
    drop(log);
    for model in [
        CrashModel::ProcessKill,
        CrashModel::LostSuffix,
        CrashModel::LostPages,
        CrashModel::GarbagePages,
    ] {
        for after in 0..=disk.points() {
            for seed in 0..6 {
                let crashed = disk.crash(after, model, seed);
                let what = format!("{model:?} after {after} seed {seed}");
                let log = Log::builder()
                    .open_on(&crashed)
                    .unwrap_or_else(|e| panic!("{what}: {e:?}"));
                match log.topic("orders") {
                    Ok(orders) => assert_eq!(orders.settings().partitions, 2, "{what}"),
                    Err(Error::NotFound { .. }) => assert!(after < made, "{what}"),
                    Err(e) => panic!("{what}: {e:?}"),
                }
                let orders = log
                    .topic_or_create("orders", TopicConfig::new().partitions(2))
                    .unwrap();
                orders
                    .append(("b", "2"))
                    .unwrap_or_else(|e| panic!("{what}: {e:?}"));
            }
        }
    }
}
