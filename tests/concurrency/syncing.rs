//! Syncs on the simulated disk, counted: one for many at `Power`, none or few below it.

use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use thalweg::testing::{CrashModel, Disk, DiskCall, DiskError, FailedSync, Fault};
use thalweg::{Durability, Error, Offset, Outcome, TopicConfig};

use super::logs::{end, fresh, open, rows, t0, unplugged};

const THREADS: usize = 16;
const EACH: usize = 100;

fn syncs(disk: &Disk) -> u64 {
    disk.calls().get(&DiskCall::SyncData).copied().unwrap_or(0)
}

fn append_from_all(partition: &thalweg::Partition) {
    let barrier = Barrier::new(THREADS);
    thread::scope(|scope| {
        for n in 0..THREADS {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                for i in 0..EACH {
                    partition.append(("k", format!("{n}/{i}"))).unwrap();
                }
            });
        }
    });
}

#[test]
fn appends_at_power_share_their_syncs() {
    let (disk, _log, partition) = fresh(TopicConfig::new());
    partition.append(("k", "first")).unwrap();
    disk.mark();
    append_from_all(&partition);
    let (syncs, appends) = (syncs(&disk), (THREADS * EACH) as u64);
    println!("{syncs} syncs for {appends} appends");
    assert!(
        syncs > 0 && syncs < appends,
        "{syncs} syncs for {appends} appends"
    );
    assert_eq!(end(&partition), appends + 1);
    assert_eq!(
        rows(&t0(&open(&unplugged(&disk)))).len() as u64,
        appends + 1,
        "all of them are durable"
    );
}

#[test]
fn one_thread_at_power_syncs_once_for_each_append_and_writes_once() {
    let (disk, _log, partition) = fresh(TopicConfig::new());
    partition.append(("k", "first")).unwrap();
    disk.mark();
    for _ in 0..50 {
        partition.append_all([("k", "a"), ("k", "b")]).unwrap();
    }
    assert_eq!(syncs(&disk), 50);
    assert_eq!(disk.calls().get(&DiskCall::SyncAll), None);
}

#[test]
fn appends_at_process_do_not_sync() {
    let (disk, _log, partition) = fresh(TopicConfig::new().durability(Durability::Process));
    partition.append(("k", "first")).unwrap();
    disk.mark();
    append_from_all(&partition);
    let calls = disk.calls();
    assert_eq!(
        calls.get(&DiskCall::Write),
        Some(&((THREADS * EACH) as u64)),
        "{calls:?}"
    );
    assert_eq!(calls.len(), 1, "nothing but writes: {calls:?}");
}

/// `bytes` of an interval is kept by the append itself, without a thread.
#[test]
fn an_interval_of_bytes_bounds_what_a_power_loss_takes() {
    let bytes = 2000;
    let level = Durability::Interval {
        time: Duration::from_secs(3600),
        bytes,
    };
    let (disk, _log, partition) = fresh(TopicConfig::new().durability(level).offset_span(10_000));
    let mut written = 0;
    for n in 0..200_u64 {
        let value = format!("value-{n:04}");
        partition.append(("k", &value)).unwrap();
        written += 1;
        let held = rows(&t0(&open(&unplugged(&disk))));
        let lost = written - held.len() as u64;
        // A batch of this kind has less than 60 bytes and more than 40.
        assert!(
            lost * 40 <= bytes + 60,
            "{lost} of {written} records are lost"
        );
    }
    assert!(disk.points() > 0);
}

/// The sync that many wait for fails: none of them is told `Ok`, none is told that nothing was done, and it stays so.
#[test]
fn a_shared_sync_that_fails_is_told_to_all_who_wait() {
    for failed in [FailedSync::Keep, FailedSync::Revert] {
        let (disk, _log, partition) = fresh(TopicConfig::new());
        partition.append(("k", "first")).unwrap();
        disk.fail(
            Fault::sync(DiskCall::SyncData, failed, DiskError::Io)
                .on(".log")
                .after(3),
        );
        let acknowledged = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for n in 0..THREADS {
                let (partition, acknowledged) = (&partition, &acknowledged);
                scope.spawn(move || {
                    loop {
                        match partition.append(("k", format!("{n}"))) {
                            Ok(at) => acknowledged.lock().unwrap().push(at.offset().get()),
                            Err(Error::Poisoned { .. }) => return,
                            Err(error) => {
                                assert_eq!(error.outcome(), Outcome::Indeterminate, "{error:?}");
                            }
                        }
                    }
                });
            }
        });
        let visible = end(&partition);
        let mut acknowledged = acknowledged.into_inner().unwrap();
        acknowledged.sort_unstable();
        assert!(
            acknowledged
                .iter()
                .copied()
                .eq(1..=acknowledged.len() as u64)
        );
        assert_eq!(
            visible,
            acknowledged.len() as u64 + 1,
            "readers see what was acknowledged"
        );
        let held = rows(&t0(&open(&unplugged(&disk))));
        assert!(
            held.len() as u64 >= visible,
            "{} of {visible} are durable",
            held.len()
        );
        let report = partition.recover().unwrap();
        println!(
            "{failed:?}: {} acknowledged, {:?}",
            acknowledged.len(),
            super::logs::kinds(&report)
        );
        let seen: thalweg::Result<Vec<_>> = partition.entries(..Offset::new(visible)).collect();
        assert_eq!(seen.unwrap().len() as u64, visible);
        match partition.append(("k", "after")) {
            Ok(at) => assert!(at.offset().get() >= visible),
            // Somebody wrote behind the pages that went back, before it was known that the sync had failed.
            Err(error) => assert!(
                failed == FailedSync::Revert && error.is_corruption(),
                "{error:?}"
            ),
        }
    }
}

fn with_one_record(seed: u64) -> (Disk, thalweg::Log, thalweg::Partition) {
    let disk = Disk::seeded(seed);
    let log = open(&disk);
    let config = TopicConfig::new().durability(Durability::Power);
    let topic = log.create_topic("t", config).unwrap();
    let partition = topic.partition(0).unwrap();
    partition.append(("k", "first")).unwrap();
    (disk, log, partition)
}

/// Some wait for a sync that fails; one of them runs recovery, which cuts what the others wrote, before they have seen it.
#[test]
fn who_waits_while_recovery_runs_is_not_told_that_its_record_is_safe() {
    for round in 0..60 {
        let (disk, _log, partition) = with_one_record(round);
        let failing = Fault::sync(DiskCall::SyncData, FailedSync::Revert, DiskError::Io);
        disk.fail(failing.on(".log"));
        let start = Barrier::new(4);
        let append = |value: String| {
            let appended = partition.append(("k", value.clone()));
            if let Err(e) = &appended {
                assert!(e.outcome() == Outcome::Indeterminate || e.outcome() == Outcome::Rejected);
                partition.recover().unwrap();
            }
            appended.ok().map(|at| (at.offset(), value))
        };
        let acknowledged: Vec<(Offset, String)> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|thread| {
                    let (start, append) = (&start, &append);
                    scope.spawn(move || {
                        start.wait();
                        let records = (0..4).map(|n| append(format!("{thread}/{n}")));
                        records.flatten().collect::<Vec<_>>()
                    })
                })
                .collect();
            threads
                .into_iter()
                .flat_map(|t| t.join().unwrap())
                .collect()
        });
        assert!(acknowledged.len() >= 8, "round {round}: {acknowledged:?}");
        for (offset, value) in acknowledged {
            let entry = partition.get(offset).unwrap().expect("it was acknowledged");
            assert_eq!(entry.value_str().unwrap(), value, "round {round}, {offset}");
        }
    }
}

/// Recovery that could not be finished makes nothing durable, however many still wait for the sync that failed.
#[test]
fn what_an_unfinished_recovery_found_is_not_shown_before_it_is_safe() {
    for round in 0..100 {
        let (disk, _log, partition) = with_one_record(round);
        let once = Fault::sync(DiskCall::SyncData, FailedSync::Keep, DiskError::Io);
        disk.fail(once.on(".log"));
        let always = Fault::sync(DiskCall::SyncAll, FailedSync::Keep, DiskError::Io);
        disk.fail(always.on(".log").lasting());
        let start = Barrier::new(5);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    while partition.append(("k", "v")).is_ok() {}
                });
            }
            start.wait();
            for _ in 0..20 {
                let _ = partition.recover();
            }
        });
        let seen = partition.offsets().end;
        let after = disk.crash(disk.points(), CrashModel::LostSuffix, round);
        let log = open(&after);
        let partition = log.topic("t").unwrap().partition(0).unwrap();
        assert!(
            partition.offsets().end >= seen,
            "round {round}: {seen} was seen"
        );
    }
}
