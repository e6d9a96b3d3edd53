//! Deletions, and topics in the making, whose outcome is not known, or that are refused.

use thalweg::testing::{Disk, DiskCall, DiskError, FailedSync, Fault};
use thalweg::{Durability, Log, Outcome, TopicConfig};

use super::{NOW, commit, dirs, is_not_found, kill, open, power_loss, topic_of, values};

/// The sync of the catalogue fails, and the old one is on the medium: the topic may stay, and in fact does.
fn undecided(disk: &Disk, log: &Log, name: &str) {
    let fault = Fault::sync(DiskCall::SyncData, FailedSync::Revert, DiskError::Io);
    disk.fail(fault.on("CATALOGUE"));
    let unknown = log.delete_topic(name).unwrap_err();
    assert_eq!(unknown.outcome(), Outcome::Indeterminate, "{unknown:?}");
    assert_eq!(disk.struck(), 1);
}

/// `sync` said that everything was durable, and left out a topic of which it was not known whether it is deleted.
#[test]
fn f75_a_sync_is_of_topics_too_that_may_stay() {
    for by_close in [false, true] {
        let disk = Disk::new();
        let log = open(&disk);
        topic_of(&log, "orders", Durability::Process, &["a", "b"]);
        undecided(&disk, &log, "orders");
        if by_close {
            log.close().unwrap();
        } else {
            log.sync().unwrap();
        }
        let log = open(&power_loss(&disk));
        assert_eq!(values(&log, "orders"), ["a", "b"], "{:?}", log.recovery());
    }
}

/// A commit for such a topic was acknowledged, and stored nowhere.
#[test]
fn f75_a_commit_for_a_topic_that_may_stay_is_kept() {
    let disk = Disk::new();
    let log = open(&disk);
    topic_of(&log, "orders", Durability::Power, &["a", "b"]);
    let mut consumer = log.group("g").subscribe(["orders"]).join().unwrap();
    assert_eq!(consumer.poll(NOW).unwrap().len(), 2);
    undecided(&disk, &log, "orders");
    consumer.commit().unwrap();
    let log = open(&kill(&disk));
    let committed = log.group("g").committed().unwrap();
    let next: Vec<String> = committed.iter().map(ToString::to_string).collect();
    assert_eq!(next, ["orders-0@2"]);
    log.delete_topic("orders").unwrap();
    assert!(log.group("g").committed().unwrap().is_empty());
}

/// Appends that wait for their sync while the topic is deleted, or is not after all: none is acknowledged and gone.
#[test]
fn f75_a_deletion_that_is_refused_leaves_the_topic_as_it_was_and_its_commits() {
    let disk = Disk::new();
    let log = open(&disk);
    let orders = topic_of(&log, "orders", Durability::Power, &["a"]);
    commit(&log, "orders");
    let before = disk.files();
    for error in [DiskError::NoSpace, DiskError::Io, DiskError::AccessDenied] {
        disk.fail(Fault::error(DiskCall::Write, error).on("CATALOGUE"));
        let refused = log.delete_topic("orders").unwrap_err();
        assert_eq!(refused.outcome(), Outcome::Rejected, "{refused:?}");
    }
    assert_eq!(disk.files(), before);
    orders.append(("k", "b")).unwrap();
    assert_eq!(log.group("g").committed().unwrap().iter().count(), 1);
    log.close().unwrap();
    let log = open(&disk);
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
    assert_eq!(values(&log, "orders"), ["a", "b"]);
}

/// One directory that could not be removed kept those of all topics after it.
#[test]
fn f75_a_directory_that_cannot_be_removed_holds_up_no_other_deletion() {
    let disk = Disk::new();
    let log = open(&disk);
    for name in ["a", "b", "c"] {
        topic_of(&log, name, Durability::Power, &["v"]);
        commit(&log, name);
    }
    let stuck = dirs(&disk).remove(0);
    assert!(stuck.starts_with("a-"));
    let fault = Fault::error(DiskCall::Remove, DiskError::AccessDenied);
    disk.fail(fault.on(format!("/{stuck}/")).lasting());
    for name in ["a", "b", "c"] {
        log.delete_topic(name).unwrap();
    }
    assert_eq!(dirs(&disk), [stuck.as_str()]);
    assert!(log.group("g").committed().unwrap().is_empty());
    topic_of(&log, "a", Durability::Power, &["new"]);
    log.close().unwrap();
    let log = open(&disk);
    assert_eq!(values(&log, "a"), ["new"]);
    assert_eq!(dirs(&disk).len(), 2, "it still cannot be");
    disk.heal();
    log.close().unwrap();
    let log = open(&disk);
    assert_eq!(dirs(&disk).len(), 1);
    assert_eq!(values(&log, "a"), ["new"]);
}

/// A failed sync left a new topic in the cache alone, and the log was closed in order. The next opening told `STATE` of that
/// catalogue, let records be acknowledged there, and lost both with the power: then the log could not be opened at all.
#[test]
fn f14_a_catalogue_that_a_failed_sync_left_is_durable_before_the_next_opening_rests_on_it() {
    let disk = Disk::new();
    let log = open(&disk);
    topic_of(&log, "keep", Durability::Power, &["k"]);
    disk.fail(Fault::sync(DiskCall::SyncData, FailedSync::Keep, DiskError::Io).on("CATALOGUE"));
    let unknown = log.create_topic("orders", TopicConfig::new()).unwrap_err();
    assert_eq!(unknown.outcome(), Outcome::Indeterminate, "{unknown:?}");
    log.close().unwrap();
    let log = open(&disk);
    let orders = log.topic_or_create("orders", TopicConfig::new()).unwrap();
    orders.append(("k", "a")).unwrap();
    let log = open(&power_loss(&disk));
    assert_eq!(values(&log, "orders"), ["a"]);
    assert_eq!(values(&log, "keep"), ["k"]);
}

#[test]
fn f75b_a_create_that_was_refused_leaves_nothing_and_its_name_free() {
    let disk = Disk::new();
    let log = open(&disk);
    topic_of(&log, "keep", Durability::Power, &["k"]);
    for (call, on) in [
        (DiskCall::Write, "CATALOGUE"),
        (DiskCall::Open, "orders-"),
        (DiskCall::Write, "orders-"),
        (DiskCall::SyncAll, "orders-"),
        (DiskCall::Rename, "orders-"),
        (DiskCall::SyncDir, "topics"),
    ] {
        let before = disk.struck();
        disk.fail(Fault::error(call, DiskError::Io).on(on));
        let refused = log.create_topic("orders", TopicConfig::new()).unwrap_err();
        assert_eq!(
            refused.outcome(),
            Outcome::Rejected,
            "{call:?} {on}: {refused:?}"
        );
        assert_eq!(disk.struck(), before + 1);
        disk.heal();
        assert!(is_not_found(&log.topic("orders")));
        let killed = open(&kill(&disk));
        assert!(is_not_found(&killed.topic("orders")), "{call:?} {on}");
    }
    topic_of(&log, "orders", Durability::Power, &["a"]);
    log.close().unwrap();
    let log = open(&disk);
    assert_eq!(values(&log, "orders"), ["a"]);
    assert_eq!(dirs(&disk).len(), 2, "{:?}", dirs(&disk));
}
