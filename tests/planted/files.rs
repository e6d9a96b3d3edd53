//! Scenarios about whole files: those that are left over, those that are not, and the lock.

use std::path::PathBuf;
use std::time::Duration;

use thalweg::testing::{CrashModel, Disk};
use thalweg::{Durability, Error, FindingKind, Log, Offset, Positions, TopicPartition};

use crate::forge;
use crate::ground::{
    assert_whole, begin, files, fill, found, killed, open, partition, powerless, read_from,
};

/// Generation 1 of a segment file, by the name of generation 0.
fn next_generation(path: &std::path::Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(name.replace("-00000000", "-00000001"))
}

/// A rewrite of a segment that did not finish: its file is there, the manifest does not know it, and the old one is whole.
pub(crate) fn an_unfinished_file_is_not_live() {
    let disk = Disk::new();
    let (_log, orders) = begin(&disk, Durability::Process);
    fill(&orders, 0, 30);
    let disk = killed(&disk);
    let path = &files(&disk, "log")[0];
    let leftover = next_generation(path);
    let mut bytes = disk.read_file(path).expect("it is there");
    forge::put(&mut bytes, forge::header::GENERATION, &1_u32.to_le_bytes());
    forge::sum_head(&mut bytes);
    bytes.truncate(400);
    disk.write_file(&leftover, &bytes)
        .expect("the directory is there");
    let log = open(&disk).expect("the log opens");
    assert!(!found(&log, FindingKind::Damaged), "{:?}", log.recovery());
    let orders = partition(&log, 0);
    assert_whole(&orders, 30);
    fill(&orders, 30, 31);
    assert!(disk.read_file(&leftover).is_err(), "it is removed");
}

/// A crash at any step of a delete: what is there is whole from its start on, and nothing is called damaged.
pub(crate) fn what_goes_is_forgotten_before_it_is_removed() {
    let disk = Disk::new();
    let (_log, orders) = begin(&disk, Durability::Power);
    fill(&orders, 0, 60);
    let before = disk.points();
    orders.delete_before(Offset::new(40)).expect("a delete");
    for after in before..=disk.points() {
        let crashed = disk.crash(after, CrashModel::ProcessKill, 0);
        let log = open(&crashed).expect("the log opens");
        assert!(!found(&log, FindingKind::Damaged), "{:?}", log.recovery());
        let orders = partition(&log, 0);
        let start = orders.offsets().start.get();
        let (offsets, error) = read_from(&orders, start);
        assert!(error.is_none(), "{error:?}");
        assert!([0, 40].contains(&start), "{start}");
        assert_eq!(offsets, (start..60).collect::<Vec<_>>());
    }
}

/// A segment that was live by a manifest which is lost: nothing else has its records, so it stays.
pub(crate) fn a_file_that_nothing_covers_is_kept() {
    let disk = Disk::new();
    let (_log, orders) = begin(&disk, Durability::Process);
    fill(&orders, 0, 60);
    let disk = killed(&disk);
    let path = &files(&disk, "log")[1];
    assert!(files(&disk, "log").len() > 4, "one of many");
    let rewritten = next_generation(path);
    let mut bytes = disk.read_file(path).expect("it is there");
    forge::put(&mut bytes, forge::header::GENERATION, &1_u32.to_le_bytes());
    forge::sum_head(&mut bytes);
    disk.write_file(&rewritten, &bytes)
        .expect("the directory is there");
    disk.remove(path).expect("it is there");
    let log = open(&disk).expect("the log opens");
    let orders = partition(&log, 0);
    let refused = orders.append(("key", "x"));
    assert!(
        disk.read_file(&rewritten).is_ok(),
        "the only copy was removed"
    );
    assert!(
        matches!(refused, Err(Error::Corruption { .. })),
        "{refused:?}"
    );
}

/// The second opening finds work to do, and must not do any of it.
pub(crate) fn a_second_opening_is_refused_before_it_writes() {
    let disk = Disk::new();
    let (_log, orders) = begin(&disk, Durability::Power);
    fill(&orders, 0, 3);
    disk.write_file("/log/CATALOGUE.tmp", b"left over")
        .expect("the root is there");
    let before = disk.hash();
    let second = open(&disk);
    assert_eq!(disk.hash(), before, "the second opening wrote something");
    assert!(
        matches!(second, Err(Error::AlreadyOpen { .. })),
        "{:?}",
        second.map(drop)
    );
    fill(&orders, 3, 4);
}

/// Commits of forty groups with long names, which are worth a pass.
fn commit_all(log: &Log, at: &TopicPartition, next: u64) {
    for n in 0..40 {
        let group = log.group(&format!("{}{n}", "g".repeat(30_000)));
        let mut group = group.subscribe([at.topic()]).join().expect("a member");
        let _ = group.poll(Duration::ZERO).expect("nothing fails"); // it has its partitions then
        let next = Positions::from_iter([at.at(Offset::new(next))]);
        group.commit_at(&next).expect("nothing fails");
    }
}

/// Committed offsets before a gap are rewritten, and rewritten again when they are superseded: what follows the gap still follows.
pub(crate) fn what_was_rewritten_twice_is_followed_as_before() {
    let disk = Disk::new();
    let (log, orders) = begin(&disk, Durability::Process);
    fill(&orders, 0, 5);
    let at = orders.topic_partition();
    for next in [0, 1] {
        commit_all(&log, &at, next); // twice, so that something is superseded
    }
    log.maintain().expect("nothing fails");
    commit_all(&log, &at, 2); // lost
    let disk = powerless(&disk);
    let log = open(&disk).expect("the log opens");
    for next in [3, 4, 5] {
        commit_all(&log, &at, next);
        log.maintain().expect("nothing fails");
    }
    let log = open(&killed(&disk)).expect("the log opens");
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
    let group = log.group(&format!("{}7", "g".repeat(30_000)));
    let committed = group.committed().expect("the ledger is sound");
    assert_eq!(committed.next(&at), Some(Offset::new(5)));
}
