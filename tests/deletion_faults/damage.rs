//! Topics that are damaged, poisoned or lost: what may be deleted, and what may never be.

use thalweg::testing::{Disk, DiskCall, DiskError, FailedSync, Fault};
use thalweg::{Durability, Error, FindingKind, Log, OnCorruption, TopicConfig};

use super::{
    commit, dirs, files_of, is_corruption, is_not_found, open, topic_of, try_open, values,
};

/// The name of the deleted topic is used again, and nothing is left of the old one.
fn made_anew(log: Log, disk: &Disk) -> Log {
    topic_of(&log, "orders", Durability::Power, &["n"]);
    log.close().unwrap();
    let log = open(disk);
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
    assert_eq!(values(&log, "orders"), ["n"]);
    log
}

#[test]
fn f75_a_topic_with_a_poisoned_partition_is_deleted_as_any_other() {
    for failed in [FailedSync::Keep, FailedSync::Revert] {
        let disk = Disk::new();
        let log = open(&disk);
        let orders = topic_of(&log, "orders", Durability::Power, &["a"]);
        disk.fail(Fault::sync(DiskCall::SyncData, failed, DiskError::Io).on(".log"));
        assert!(orders.append(("k", "b")).is_err());
        assert!(matches!(
            orders.append(("k", "c")),
            Err(Error::Poisoned { .. })
        ));
        // Refused, it is poisoned as before; deleted, nobody is told of it any more.
        disk.fail(Fault::error(DiskCall::Write, DiskError::NoSpace).on("CATALOGUE"));
        log.delete_topic("orders").unwrap_err();
        assert!(matches!(
            orders.append(("k", "c")),
            Err(Error::Poisoned { .. })
        ));
        assert!(log.sync().is_err());
        log.delete_topic("orders").unwrap();
        log.sync().unwrap();
        made_anew(log, &disk);
        assert_eq!(dirs(&disk).len(), 1);
    }
}

#[test]
fn f75_a_topic_with_a_damaged_partition_is_deleted_as_any_other() {
    let disk = Disk::new();
    let log = open(&disk);
    topic_of(&log, "orders", Durability::Power, &["a", "b", "c"]);
    topic_of(&log, "keep", Durability::Power, &["k"]);
    commit(&log, "orders");
    log.close().unwrap();
    let (segment, bytes) = files_of(&disk, "orders")
        .into_iter()
        .find(|(path, _)| path.extension().is_some_and(|end| end == "log"))
        .unwrap();
    disk.resize(&segment, bytes.len() as u64 - 1).unwrap();
    let log = open(&disk);
    let damaged = |f: &&thalweg::Finding| f.kind == FindingKind::Damaged;
    assert_eq!(log.recovery().findings().iter().filter(damaged).count(), 1);
    log.delete_topic("orders").unwrap();
    assert!(log.group("g").committed().unwrap().is_empty());
    let log = made_anew(log, &disk);
    assert_eq!(values(&log, "keep"), ["k"]);
}

/// Its description cannot be read, so that neither can it: it can be deleted all the same, and its name used.
#[test]
fn f75_a_topic_whose_description_is_damaged_can_be_deleted() {
    for lost in [false, true] {
        let disk = Disk::new();
        let log = open(&disk);
        topic_of(&log, "orders", Durability::Power, &["a"]);
        topic_of(&log, "keep", Durability::Power, &["k"]);
        commit(&log, "orders");
        log.close().unwrap();
        let files = files_of(&disk, "orders");
        let (config, bytes) = files
            .iter()
            .find(|(path, _)| path.ends_with("config"))
            .unwrap();
        if lost {
            disk.remove(config).unwrap();
        } else {
            disk.zero(config, 0..bytes.len() as u64).unwrap(); // both slots
        }
        let log = open(&disk);
        assert!(is_corruption(&log.topic("orders")));
        assert!(is_corruption(
            &log.create_topic("orders", TopicConfig::new())
        ));
        assert!(is_corruption(
            &log.topic_or_create("orders", TopicConfig::new())
        ));
        log.delete_topic("orders").unwrap();
        assert!(is_not_found(&log.topic("orders")));
        assert!(log.group("g").committed().unwrap().is_empty());
        made_anew(log, &disk);
        assert_eq!(dirs(&disk).len(), 2);
    }
}

#[test]
fn f75b_a_directory_that_is_lost_without_a_deletion_is_corruption_until_it_is_deleted() {
    let disk = Disk::new();
    let log = open(&disk);
    topic_of(&log, "orders", Durability::Power, &["a"]);
    topic_of(&log, "keep", Durability::Power, &["k"]);
    commit(&log, "orders");
    log.close().unwrap();
    for (path, _) in files_of(&disk, "orders") {
        disk.remove(path).unwrap();
    }
    for opening in 0..3 {
        let log = open(&disk);
        let findings = log.recovery().findings();
        assert!(
            findings.iter().any(|f| f.kind == FindingKind::Damaged),
            "{opening}"
        );
        assert!(is_corruption(&log.topic("orders")), "{opening}");
        assert!(is_corruption(
            &log.create_topic("orders", TopicConfig::new())
        ));
        assert_eq!(values(&log, "keep")[0], "k");
        log.topic("keep").unwrap().append(("k", "more")).unwrap();
        log.close().unwrap();
    }
    let strict = Log::builder().on_corruption(OnCorruption::RefuseLog);
    assert!(is_corruption(&strict.open_on(&disk)));
    let log = open(&disk);
    log.delete_topic("orders").unwrap();
    topic_of(&log, "orders", Durability::Power, &["n"]);
    assert!(log.group("g").committed().unwrap().is_empty());
    log.close().unwrap();
    let log = open(&disk);
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
    assert_eq!(values(&log, "orders"), ["n"]);
}

/// The catalogue has lost a topic that was written: it is kept, whatever comes and goes beside it.
#[test]
fn f75b_a_topic_with_records_that_no_catalogue_names_is_never_removed() {
    let disk = Disk::new();
    let log = open(&disk);
    topic_of(&log, "keep", Durability::Power, &["k"]);
    log.close().unwrap();
    let catalogue = disk.read_file("/log/CATALOGUE").unwrap();
    let log = open(&disk);
    topic_of(&log, "orders", Durability::Power, &["a"]);
    let unused = log.create_topic("unused", TopicConfig::new()).unwrap();
    drop(unused);
    log.close().unwrap();
    disk.write_file("/log/CATALOGUE", &catalogue).unwrap();
    // Its generation was seen: that it is an old one is told, and nothing is touched.
    let hash = disk.hash();
    assert!(is_corruption(&try_open(&disk)));
    assert_eq!(disk.hash(), hash);
    // Without that evidence it is believed, and what it does not name is kept where it holds anything.
    disk.remove("/log/STATE").unwrap();
    let kept = files_of(&disk, "orders");
    assert!(kept.len() > 1, "{kept:?}");
    for opening in 0..3 {
        let log = open(&disk);
        assert!(is_corruption(&log.topic("orders")), "{opening}");
        assert!(is_corruption(
            &log.create_topic("orders", TopicConfig::new())
        ));
        assert!(is_corruption(&log.delete_topic("orders")), "{opening}");
        assert!(is_not_found(&log.topic("unused")), "it held nothing");
        assert!(files_of(&disk, "unused").is_empty());
        topic_of(&log, "passing", Durability::Process, &["p"]);
        log.delete_topic("passing").unwrap();
        log.close().unwrap();
        assert_eq!(files_of(&disk, "orders"), kept, "{opening}");
    }
}

#[test]
fn f14_a_catalogue_without_a_sound_slot_opens_no_log_and_costs_no_topic() {
    let disk = Disk::new();
    let log = open(&disk);
    topic_of(&log, "orders", Durability::Power, &["a"]);
    topic_of(&log, "sales", Durability::Power, &["s"]);
    log.delete_topic("sales").unwrap();
    log.close().unwrap();
    let sound = disk.read_file("/log/CATALOGUE").unwrap();
    let bad: [Vec<u8>; 5] = [
        vec![0; sound.len()],
        vec![0xff; sound.len()],
        Vec::new(),
        sound[..sound.len() / 2 - 1]
            .iter()
            .map(|byte| byte ^ 1)
            .collect(),
        sound.iter().map(|byte| byte ^ 0x10).collect(),
    ];
    for bytes in bad {
        disk.write_file("/log/CATALOGUE", &bytes).unwrap();
        let hash = disk.hash();
        for _ in 0..2 {
            let refused = try_open(&disk);
            assert!(is_corruption(&refused), "{refused:?}");
        }
        assert_eq!(disk.hash(), hash);
    }
    disk.write_file("/log/CATALOGUE", &sound).unwrap();
    let log = open(&disk);
    assert_eq!(values(&log, "orders"), ["a"]);
    assert!(is_not_found(&log.topic("sales")));
}
