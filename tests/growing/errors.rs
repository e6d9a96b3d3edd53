//! Growths that meet errors and damage: what is told is what is so, and the next try is sound.

use std::path::PathBuf;

use thalweg::testing::{CrashModel, Disk, DiskCall, DiskError, FailedSync, Fault, Short};
use thalweg::{Error, FindingKind, Log, Outcome};

use super::{config, count, open, values};

const CONFIG: &str = "config";

/// Partitions that are added: a few, and so many that the description outgrows its file.
const MORE: [u32; 2] = [3, 300];

/// A topic of two partitions, one of them written, made by this opening of the log or by one before.
fn begin(disk: &Disk, reopened: bool) -> Log {
    let log = open(disk);
    let orders = log.create_topic("orders", config(2)).unwrap();
    orders.partition(1).unwrap().append(("k", "v")).unwrap();
    log.sync().unwrap();
    if !reopened {
        return log;
    }
    log.close().unwrap();
    open(disk)
}

/// The count that another process finds.
fn found(disk: &Disk, crash: CrashModel) -> u32 {
    let log = open(&disk.crash(disk.points(), crash, 0));
    let findings = log.recovery().findings();
    let damaged = findings.iter().find(|f| f.kind == FindingKind::Damaged);
    assert!(damaged.is_none(), "{damaged:?}");
    let orders = log.topic("orders").unwrap();
    assert_eq!(values(&orders, 1), ["v"]);
    count(&orders)
}

/// Grows while the disk fails so; `false`: the fault was not met.
fn grow_against(fault: Fault, reopened: bool, more: u32, what: &str) -> bool {
    let disk = Disk::new();
    let log = begin(&disk, reopened);
    let orders = log.topic("orders").unwrap();
    disk.fail(fault);
    let struck = disk.struck();
    let grown = orders.add_partitions_breaking_key_order(more);
    let struck = disk.struck() > struck;
    disk.heal();
    let told = match &grown {
        Ok(()) => vec![2 + more],
        Err(e) if e.outcome() == Outcome::Rejected => vec![2],
        Err(_) => vec![2, 2 + more],
    };
    // Until then it is what it was, unless it has grown.
    assert_eq!(count(&orders), told[0], "{what}: {grown:?}");
    for crash in [CrashModel::ProcessKill, CrashModel::LostSuffix] {
        let found = found(&disk, crash);
        assert!(told.contains(&found), "{what}: {grown:?}, then {found}");
    }
    // An old partition takes records as before; who tries again, adds to what there is now.
    let end = orders.partition(0).unwrap().append(("k", "v"));
    assert_eq!(
        end.unwrap_or_else(|e| panic!("{what}: {e:?}"))
            .offset()
            .get(),
        0
    );
    assert_eq!(found(&disk, CrashModel::ProcessKill), told[0], "{what}");
    let again = orders.add_partitions_breaking_key_order(1);
    again.unwrap_or_else(|e| panic!("{what}: {e:?}"));
    let last = orders.partition(told[0]).unwrap();
    last.append(("k", "last")).unwrap();
    drop((orders, last, log));
    let log = open(&disk);
    let orders = log.topic("orders").unwrap();
    assert_eq!(count(&orders), told[0] + 1, "{what}");
    assert_eq!(values(&orders, told[0]), ["last"], "{what}");
    struck
}

#[test]
fn each_call_fails_once_and_the_answer_says_what_is_so() {
    let mut met = 0;
    for (more, reopened) in MORE
        .into_iter()
        .flat_map(|more| [(more, false), (more, true)])
    {
        for error in [DiskError::NoSpace, DiskError::Io] {
            for nth in 0.. {
                let what = format!("{more} more, reopened: {reopened}, {error:?} at call {nth}");
                if !grow_against(Fault::any(error).after(nth), reopened, more, &what) {
                    break;
                }
                met += 1;
            }
        }
    }
    println!("{met} faults");
    assert!(met > 30, "{met}");
}

#[test]
fn each_write_is_cut_short_and_each_sync_fails_with_and_without_its_data() {
    let mut met = 0;
    let cut = |short| Fault::short_write_then(short, DiskError::NoSpace);
    let sync = |call, how| Fault::sync(call, how, DiskError::Io);
    let syncs = [DiskCall::SyncData, DiskCall::SyncAll, DiskCall::SyncDir];
    let hows = [FailedSync::Keep, FailedSync::Revert];
    for (more, reopened) in MORE
        .into_iter()
        .flat_map(|more| [(more, false), (more, true)])
    {
        for nth in 0..4 {
            let writes = [Short::Bytes(1), Short::Half, Short::PageEdge].map(cut);
            let syncs = syncs
                .into_iter()
                .flat_map(|call| hows.map(|how| sync(call, how)));
            for (number, fault) in writes.into_iter().chain(syncs).enumerate() {
                let what = format!("{more} more, reopened: {reopened}, fault {number} at {nth}");
                met += u32::from(grow_against(fault.after(nth), reopened, more, &what));
            }
        }
    }
    println!("{met} faults");
    assert!(met > 30, "{met}");
}

#[test]
fn a_sync_that_fails_is_indeterminate_and_the_topic_goes_on_as_it_was() {
    let disk = Disk::new();
    let log = open(&disk);
    let orders = log.create_topic("orders", config(2)).unwrap();
    orders.add_partitions_breaking_key_order(1).unwrap();
    disk.fail(Fault::sync(DiskCall::SyncData, FailedSync::Keep, DiskError::Io).on(CONFIG));
    let unknown = orders.add_partitions_breaking_key_order(4).unwrap_err();
    assert_eq!(unknown.outcome(), Outcome::Indeterminate, "{unknown:?}");
    assert_eq!(count(&orders), 3);
    let found = |disk: &Disk| count(&open(disk).topic("orders").unwrap());
    let kill = |disk: &Disk| disk.crash(disk.points(), CrashModel::ProcessKill, 0);
    assert_eq!(found(&kill(&disk)), 7, "it was written, and is found");
    // What is written next decides it.
    for partition in orders.partitions() {
        partition.append(("k", "v")).unwrap();
    }
    assert_eq!(found(&kill(&disk)), 3);
    orders.add_partitions_breaking_key_order(1).unwrap();
    assert_eq!(found(&kill(&disk)), 4);
}

#[test]
fn a_growth_that_may_have_been_written_is_not_taken_back_by_a_later_try() {
    let disk = Disk::new();
    let log = begin(&disk, false);
    let orders = log.topic("orders").unwrap();
    disk.fail(Fault::sync(DiskCall::SyncData, FailedSync::Keep, DiskError::Io).on(CONFIG));
    let unknown = orders.add_partitions_breaking_key_order(3).unwrap_err();
    assert_eq!(unknown.outcome(), Outcome::Indeterminate);
    disk.fail(Fault::error(DiskCall::Open, DiskError::NoSpace).on(CONFIG));
    let again = orders.add_partitions_breaking_key_order(3).unwrap_err();
    assert_eq!(again.outcome(), Outcome::Indeterminate, "{again:?}");
    assert_eq!(
        (count(&orders), found(&disk, CrashModel::ProcessKill)),
        (2, 5)
    );
    orders.add_partitions_breaking_key_order(1).unwrap();
    assert_eq!(found(&disk, CrashModel::LostSuffix), 3);
}

#[test]
fn a_disk_without_room_leaves_the_old_count_and_takes_the_new_one_later() {
    let disk = Disk::new();
    let log = begin(&disk, false);
    let orders = log.topic("orders").unwrap();
    disk.set_capacity(Some(disk.used()));
    let full = orders.add_partitions_breaking_key_order(1000).unwrap_err();
    assert!(matches!(full, Error::NoSpace { .. }), "{full:?}");
    assert_eq!(full.outcome(), Outcome::Rejected);
    assert_eq!(count(&orders), 2);
    disk.set_capacity(None);
    orders.add_partitions_breaking_key_order(1000).unwrap();
    assert_eq!(found(&disk, CrashModel::LostSuffix), 1002);
}

#[test]
fn a_description_that_cannot_be_read_is_corruption() {
    let disk = Disk::new();
    begin(&disk, false).close().unwrap();
    let path = file(&disk, CONFIG);
    let len = disk.read_file(&path).unwrap().len() as u64;
    disk.zero(&path, 0..len).unwrap();
    let refused = open(&disk).topic("orders").unwrap_err();
    assert!(refused.is_corruption(), "{refused:?}");
}

/// An older description was put in place of the newer one: what it does not know of is neither read as a new partition nor written.
#[test]
fn records_where_a_new_partition_would_be_are_kept_and_told() {
    let disk = Disk::new();
    let log = begin(&disk, false);
    let orders = log.topic("orders").unwrap();
    let path = file(&disk, CONFIG);
    let older = disk.read_file(&path).unwrap();
    orders.add_partitions_breaking_key_order(1).unwrap();
    let added = orders.partition(2).unwrap();
    added.append(("k", "kept")).unwrap();
    let segment = file(&disk, "/2/");
    log.close().unwrap();
    disk.write_file(&path, &older).unwrap();
    let kept = disk.read_file(&segment).unwrap();

    let log = open(&disk);
    let unknown = |f: &thalweg::Finding| f.kind == FindingKind::UnknownFiles;
    assert!(
        log.recovery().findings().iter().any(unknown),
        "{:?}",
        log.recovery()
    );
    let orders = log.topic("orders").unwrap();
    for more in [1, 5] {
        let refused = orders.add_partitions_breaking_key_order(more).unwrap_err();
        assert!(
            matches!(&refused, Error::Corruption { file, .. } if **file == *segment),
            "{refused:?}"
        );
    }
    assert_eq!(count(&orders), 2);
    assert_eq!(disk.read_file(&segment).unwrap(), kept);
}

/// The one file whose path contains `part`.
fn file(disk: &Disk, part: &str) -> PathBuf {
    let ours =
        |path: &PathBuf| path.starts_with("/log/topics") && path.to_string_lossy().contains(part);
    let mut files = disk.files().into_iter().map(|(path, _)| path);
    files
        .find(ours)
        .unwrap_or_else(|| panic!("no {part} in {:?}", disk.files()))
}
