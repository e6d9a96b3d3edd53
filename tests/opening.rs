//! Opening after the worst: stale and torn evidence, a lost lock, a fork, a directory that is gone.

use std::time::Duration;

use thalweg::testing::{CrashModel, Disk, DiskCall, DiskError, Fault};
use thalweg::{Durability, Error, Log, Offset, TopicConfig};

const MODELS: [CrashModel; 4] = [
    CrashModel::ProcessKill,
    CrashModel::LostSuffix,
    CrashModel::LostPages,
    CrashModel::GarbagePages,
];

fn open(disk: &Disk) -> Log {
    Log::builder()
        .open_on(disk)
        .unwrap_or_else(|e| panic!("{e:?}"))
}

/// Two topics, one at each end of durability.
fn fill(log: &Log, from: u64, to: u64) {
    let levels = [("safe", Durability::Power), ("fast", Durability::Process)];
    for (name, level) in levels {
        let topic = log
            .topic_or_create(name, TopicConfig::new().durability(level))
            .unwrap();
        for n in from..to {
            topic.append((&n.to_string(), &n.to_string())).unwrap();
        }
    }
}

/// How many records a topic has; they must be 0, 1, 2 and so on, whatever their offsets.
fn count(log: &Log, topic: &str, what: &str) -> u64 {
    let mut next = 0;
    for entry in log.topic(topic).unwrap().partition(0).unwrap().entries(..) {
        let entry = entry.unwrap_or_else(|e| panic!("{what}: {e:?}"));
        assert_eq!(entry.value_str().unwrap(), next.to_string(), "{what}");
        next += 1;
    }
    next
}

#[test]
fn f20_a_power_loss_after_a_clean_close_takes_nothing() {
    let disk = Disk::new();
    let log = open(&disk);
    fill(&log, 0, 10);
    log.close().unwrap();
    for model in MODELS {
        for seed in 0..8 {
            let log = open(&disk.crash(disk.points(), model, seed));
            let what = format!("{model:?} {seed}");
            assert!(log.recovery().is_empty(), "{what}: {:?}", log.recovery());
            assert_eq!(
                (count(&log, "safe", &what), count(&log, "fast", &what)),
                (10, 10)
            );
        }
    }
}

/// The close of an opening says nothing of what was written after it.
#[test]
fn f62_a_stale_close_is_not_believed_at_any_point_of_the_next_opening() {
    let disk = Disk::new();
    let log = open(&disk);
    fill(&log, 0, 3);
    log.close().unwrap();
    disk.forget_history();
    let log = open(&disk);
    let mut through = Vec::new();
    for n in 3..8 {
        fill(&log, n, n + 1);
        through.push(disk.points());
    }
    drop(log);
    for model in MODELS {
        for after in 0..=disk.points() {
            for seed in 0..4 {
                let what = format!("{model:?} after {after} seed {seed}");
                let log = open(&disk.crash(after, model, seed));
                let done = 3 + through.iter().filter(|&&point| point <= after).count() as u64;
                let (safe, fast) = (count(&log, "safe", &what), count(&log, "fast", &what));
                assert!(safe >= done, "{what}: {safe} of {done}");
                assert!(fast >= 3, "{what}: {fast}");
                if model == CrashModel::ProcessKill {
                    assert!(fast >= done, "{what}: {fast} of {done}");
                }
                fill(&log, safe, safe + 1);
            }
        }
    }
}

/// Crash, go on, crash again: what was acknowledged at `Power` stays, and no offset is given out twice.
#[test]
fn a_second_crash_in_the_opening_after_the_first_loses_nothing_more() {
    let disk = Disk::new();
    let log = open(&disk);
    fill(&log, 0, 4);
    for (round, model) in MODELS.into_iter().cycle().take(8).enumerate() {
        let crashed = disk.crash(disk.points(), model, round as u64);
        let first = crashed.points(); // a killed process leaves the machine, and what it remembers, running
        let log = open(&crashed);
        let end = log
            .topic("safe")
            .unwrap()
            .partition(0)
            .unwrap()
            .offsets()
            .end;
        assert_eq!(count(&log, "safe", "first"), 4);
        let at = log.topic("safe").unwrap().append(("k", "4")).unwrap();
        assert_eq!(at.offset(), end);
        for after in first..=crashed.points() {
            let log = open(&crashed.crash(after, model, 3));
            let again = log.topic("safe").unwrap().partition(0).unwrap();
            assert!(
                (4..=5).contains(&count(&log, "safe", "second")),
                "{model:?} {after}"
            );
            let next = again.append(("k", "x")).unwrap().offset();
            let kept = again
                .get(at.offset())
                .unwrap()
                .is_some_and(|entry| entry.value_str().unwrap() == "4");
            assert!(!kept || next > at.offset(), "{model:?} {after}");
        }
    }
}

#[test]
fn f62b_a_damaged_state_costs_no_record_and_mends_itself() {
    let disk = Disk::new();
    let log = open(&disk);
    fill(&log, 0, 5);
    log.close().unwrap();
    let len = disk
        .files()
        .into_iter()
        .find(|(path, _)| path.ends_with("STATE"))
        .unwrap()
        .1;
    let spoiled = (0..len)
        .step_by(3)
        .map(|byte| (format!("bit {byte}"), byte, false));
    let cut = (0..len)
        .step_by(3)
        .map(|byte| (format!("cut {byte}"), byte, true));
    for (what, byte, cut) in spoiled.chain(cut) {
        let disk = disk.crash(disk.points(), CrashModel::ProcessKill, 0);
        if cut {
            disk.resize("/log/STATE", byte).unwrap();
        } else {
            disk.flip_bit("/log/STATE", byte * 8 + byte % 8).unwrap();
        }
        let log = open(&disk);
        assert_eq!(
            (count(&log, "safe", &what), count(&log, "fast", &what)),
            (5, 5)
        );
        log.topic("safe").unwrap().append(("k", "5")).unwrap();
        log.close().unwrap();
        let log = open(&disk);
        assert!(log.recovery().is_empty(), "{what}: {:?}", log.recovery());
        assert_eq!(count(&log, "safe", &what), 6);
    }
}

#[test]
fn garbage_behind_the_last_entry_of_state_is_not_a_clean_end() {
    let disk = Disk::new();
    let log = open(&disk);
    fill(&log, 0, 5);
    log.close().unwrap();
    disk.extend("/log/STATE", &[0; 100]).unwrap();
    let log = open(&disk);
    assert_eq!(
        (count(&log, "safe", "zeros"), count(&log, "fast", "zeros")),
        (5, 5)
    );
    drop(log);
    let log = open(&disk);
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
}

#[test]
fn f92_a_lock_file_that_was_removed_stops_every_writer_and_no_reader() {
    let disk = Disk::new();
    let log = open(&disk);
    fill(&log, 0, 3);
    disk.remove("/log/LOCK").unwrap();
    let lost = log.create_topic("more", TopicConfig::new()).unwrap_err();
    assert!(
        matches!(&lost, Error::Poisoned { at: None, cause, .. }
        if matches!(**cause, Error::LockLost { forked: false, .. })),
        "{lost:?}"
    );
    assert!(
        log.topic("safe")
            .unwrap()
            .partition(0)
            .unwrap()
            .roll()
            .is_err()
    );
    assert_eq!(count(&log, "safe", "read"), 3);
    assert!(log.close().is_err());
}

#[test]
fn f93_a_forked_child_writes_nothing_not_even_when_it_drops_the_log() {
    let disk = Disk::new();
    let log = open(&disk);
    fill(&log, 0, 3);
    disk.fork();
    let before = disk.hash();
    let forked = log.create_topic("more", TopicConfig::new()).unwrap_err();
    assert!(
        matches!(&forked, Error::Poisoned { at: None, cause, .. }
        if matches!(**cause, Error::LockLost { forked: true, .. })),
        "{forked:?}"
    );
    drop(log);
    assert_eq!(disk.hash(), before);
}

#[test]
fn f98_a_directory_removed_under_a_running_log_does_not_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let log = Log::open(&path).unwrap();
    fill(&log, 0, 3);
    std::fs::remove_dir_all(&path).unwrap();
    assert!(log.create_topic("more", TopicConfig::new()).is_err());
    assert!(
        log.topic("safe")
            .unwrap()
            .partition(0)
            .unwrap()
            .roll()
            .is_err()
    );
    assert!(log.close().is_err());
    assert!(!path.exists());
}

#[test]
fn f64_an_error_of_the_disk_while_opening_is_returned_as_itself_and_changes_nothing() {
    let disk = Disk::new();
    let log = open(&disk);
    fill(&log, 0, 5);
    log.close().unwrap();
    for call in [
        DiskCall::Read,
        DiskCall::Open,
        DiskCall::ReadDir,
        DiskCall::Metadata,
    ] {
        for nth in 0.. {
            let (before, struck_before) = (disk.hash(), disk.struck());
            disk.fail(Fault::error(call, DiskError::Io).after(nth));
            let opened = Log::builder().open_on(&disk);
            let struck = disk.struck() - struck_before;
            disk.heal();
            match opened {
                Ok(log) => {
                    assert_eq!(count(&log, "safe", "opened"), 5, "{call:?} {nth}");
                    drop(log);
                    if struck == 0 {
                        break;
                    }
                }
                Err(e) => assert!(matches!(e, Error::Io { .. }), "{call:?} {nth}: {e:?}"),
            }
            assert_eq!(disk.hash(), before, "{call:?} {nth}");
        }
    }
    assert_eq!(count(&open(&disk), "safe", "after all"), 5);
}

#[test]
fn a_full_disk_does_not_keep_a_log_from_being_read() {
    let disk = Disk::new();
    let log = open(&disk);
    fill(&log, 0, 5);
    let crashed = disk.crash(disk.points(), CrashModel::LostPages, 1);
    crashed.set_capacity(Some(crashed.used()));
    let log = open(&crashed);
    // The last one is shown when it was made durable once more, which needs room for a note of this opening.
    assert!(count(&log, "safe", "full") >= 4);
    assert!(matches!(
        log.create_topic("more", TopicConfig::new()),
        Err(Error::NoSpace { .. })
    ));
    crashed.set_capacity(None);
    log.create_topic("more", TopicConfig::new()).unwrap();
    fill(&log, 5, 6);
    assert_eq!(count(&log, "safe", "room again"), 6);
}

#[test]
fn background_syncs_do_not_keep_a_log_from_closing() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(dir.path()).unwrap();
    let level = Durability::Interval {
        time: Duration::from_millis(1),
        bytes: 1 << 20,
    };
    let clicks = log
        .create_topic("clicks", TopicConfig::new().durability(level))
        .unwrap();
    for n in 0..200 {
        clicks.append(("k", &n.to_string())).unwrap();
    }
    drop(clicks);
    log.close().unwrap();
    let log = Log::open(dir.path()).unwrap();
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
    assert_eq!(
        log.topic("clicks")
            .unwrap()
            .partition(0)
            .unwrap()
            .offsets()
            .end,
        Offset::new(200)
    );
}

#[test]
fn a_log_that_is_not_there_cannot_be_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path().to_path_buf(), dir.path().join("none")] {
        let error = Log::open_read_only(&path).unwrap_err();
        assert!(
            matches!(error, Error::NotFound { what: "log", .. }),
            "{error:?}"
        );
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            0,
            "nothing was made"
        );
    }
}
