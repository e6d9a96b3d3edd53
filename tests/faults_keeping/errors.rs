//! Whatever call fails while records go: what is told is what is so, nothing else is lost, and the next try is sound.

use std::time::Duration;

use thalweg::testing::{
    CrashModel, Disk, DiskCall, DiskError, FailedSync, Fault, ManualClock, Short,
};
use thalweg::{
    Durability, Error, FindingKind, Log, Offset, Outcome, Partition, Result, Retention, TopicConfig,
};

use super::logs::{end, fill, len, numbered, one, open_with, rows, t0};
use super::{SECOND, by_fours, segments, start};

/// Who wants records to go, and which.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    /// All of them, the last segment too.
    Age,
    /// Some whole segments.
    Size,
    /// All below an offset within a segment.
    Within,
    /// All of them, by hand.
    All,
}

const HOWS: [How; 4] = [How::Age, How::Size, How::Within, How::All];

/// Records that there are, the last two of them in a segment that is not ended.
const RECORDS: u64 = 22;

impl How {
    fn config(self) -> TopicConfig {
        let config = TopicConfig::new();
        match self {
            How::Age => config.retention(Retention::new().age(60 * SECOND)),
            How::Size => config.retention(Retention::new().bytes(1200)),
            How::Within | How::All => config,
        }
    }

    fn act(self, log: &Log, partition: &Partition) -> Result<()> {
        match self {
            How::Age | How::Size => log.maintain().map(drop),
            How::Within => partition.delete_before(Offset::new(10)),
            How::All => partition.delete_before(Offset::new(RECORDS)),
        }
    }
}

/// What a trial begins with.
#[derive(Clone, Copy, Debug)]
struct Case {
    how: How,
    level: Durability,
    /// Made by an opening of the log before this one.
    reopened: bool,
}

impl Case {
    fn all() -> impl Iterator<Item = Case> {
        let levels = [Durability::Power, Durability::Process];
        HOWS.into_iter().flat_map(move |how| {
            let cases = [(levels[0], false), (levels[1], false), (levels[0], true)];
            cases.map(|(level, reopened)| Case {
                how,
                level,
                reopened,
            })
        })
    }

    fn begin(self) -> (Disk, ManualClock, Log, Partition) {
        let (disk, clock) = (Disk::new(), ManualClock::new());
        let log = open_with(&disk, &clock);
        let topic = log.create_topic("t", self.how.config().durability(self.level));
        let partition = one(&topic.unwrap());
        by_fours(&partition, 5);
        fill(&partition, 20..RECORDS);
        clock.advance(61 * SECOND);
        if !self.reopened {
            return (disk, clock, log, partition);
        }
        drop(partition);
        log.close().unwrap();
        let log = open_with(&disk, &clock);
        let partition = t0(&log);
        (disk, clock, log, partition)
    }

    /// Where it begins when nothing fails.
    fn wanted(self) -> u64 {
        let (_disk, _clock, log, partition) = self.begin();
        self.how.act(&log, &partition).unwrap();
        start(&partition)
    }
}

/// A fault, and whether what it takes was told to be safe.
struct Trial {
    fault: Fault,
    lies: bool,
}

/// What may be found after a crash: it begins where it may, and behind that nothing is missing that was promised.
fn judge(disk: &Disk, clock: &ManualClock, model: CrashModel, told: &[u64], case: Case) -> u64 {
    let log = open_with(&disk.crash(disk.points(), model, 0), clock);
    let damaged = |f: &&thalweg::Finding| f.kind == FindingKind::Damaged;
    let damaged = log.recovery().findings().iter().find(damaged);
    assert!(damaged.is_none(), "{model:?}: {damaged:?}");
    let partition = t0(&log);
    let begins = start(&partition);
    assert!(told.contains(&begins), "{model:?}: {begins}, told {told:?}");
    let found = rows(&partition);
    let all = model == CrashModel::ProcessKill || case.level == Durability::Power;
    let safe = if all { RECORDS } else { 20.max(begins) };
    assert!(
        found.len() as u64 >= safe.saturating_sub(begins),
        "{model:?}: {found:?}"
    );
    assert_eq!(
        found,
        numbered(begins..begins + found.len() as u64),
        "{model:?}"
    );
    assert!(end(&partition) >= safe, "{model:?}");
    begins
}

/// One try under a fault. `false`: the fault was not met.
fn go_against(trial: Trial, case: Case, wanted: u64) -> bool {
    let (disk, clock, log, partition) = case.begin();
    let struck = disk.struck();
    disk.fail(trial.fault);
    let done = case.how.act(&log, &partition);
    let struck = disk.struck() > struck;
    disk.heal();
    let by_hand = matches!(case.how, How::Within | How::All);
    let told = match &done {
        Ok(()) => vec![wanted],
        Err(e) if by_hand && e.outcome() == Outcome::Rejected => vec![0],
        Err(_) => vec![0, wanted],
    };
    let seen = start(&partition);
    assert!(told.contains(&seen), "{done:?}, and it begins at {seen}");
    assert_eq!(rows(&partition), numbered(seen..RECORDS), "{done:?}");
    judge(&disk, &clock, CrashModel::ProcessKill, &told, case);
    if !trial.lies {
        judge(&disk, &clock, CrashModel::LostSuffix, &told, case);
    }
    go_on(&disk, log, partition, case, (seen, wanted));
    struck
}

/// The fault is gone: the partition takes records, at once or once it was recovered, and the next try does what this one could not.
fn go_on(disk: &Disk, log: Log, partition: Partition, case: Case, (seen, wanted): (u64, u64)) {
    let append = || partition.append(("key", "on"));
    let at = append().or_else(|refused| {
        assert!(matches!(refused, Error::Poisoned { .. }), "{refused:?}");
        partition.recover().expect("it recovers");
        assert!(start(&partition) >= seen, "it never goes back");
        append()
    });
    assert!(at.expect("it takes records").offset().get() >= RECORDS);
    for _ in 0..2 {
        case.how.act(&log, &partition).expect("the next try");
    }
    log.maintain().expect("and nothing is left to be done");
    let begins = start(&partition);
    let wanted = match case.how {
        How::Age => wanted.min(20), // the new record keeps the last segment, if it came into that
        _ => wanted,
    };
    assert!(begins >= wanted, "{begins} < {wanted}");
    let left = segments(disk);
    let bases = left.iter().map(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.split('-').next().unwrap().parse::<u64>().unwrap()
    });
    assert!(
        bases.skip(1).all(|base| base > begins),
        "{begins}: {left:?}"
    );
    let there = rows(&partition);
    drop(partition);
    log.close().expect("it closes");
    let log = super::logs::open(disk);
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
    assert_eq!((start(&t0(&log)), rows(&t0(&log))), (begins, there));
}

/// Tries each fault after 0, 1, 2… calls that it could have met; how many were met.
fn each(case: Case, faults: &dyn Fn() -> Vec<(Fault, bool)>) -> u32 {
    let wanted = case.wanted();
    let mut met = 0;
    for which in 0..faults().len() {
        if faults()[which].1 && case.level != Durability::Power {
            continue; // it takes what was acknowledged below that
        }
        for nth in 0.. {
            let (fault, lies) = faults().swap_remove(which);
            let what = format!("{case:?}, {fault:?} after {nth}");
            let fault = fault.after(nth);
            let trial = Trial { fault, lies };
            let tried = std::panic::AssertUnwindSafe(|| go_against(trial, case, wanted));
            match std::panic::catch_unwind(tried) {
                Ok(true) => met += 1,
                Ok(false) => break,
                Err(panic) => {
                    eprintln!("in: {what}");
                    std::panic::resume_unwind(panic)
                }
            }
        }
    }
    met
}

#[test]
fn each_call_fails_once_or_from_then_on_and_the_answer_says_what_is_so() {
    let errors = [DiskError::Io, DiskError::NoSpace, DiskError::TooManyFiles];
    let faults = || {
        let once = errors.map(Fault::any);
        let lasting = errors.map(|error| Fault::any(error).lasting());
        once.into_iter()
            .chain(lasting)
            .map(|fault| (fault, false))
            .collect()
    };
    let met: u32 = Case::all().map(|case| each(case, &faults)).sum();
    println!("{met} faults");
    assert!(met > 500, "{met}");
}

#[test]
fn each_write_is_cut_short_and_each_sync_fails_with_and_without_its_data() {
    let faults = || {
        let shorts = [Short::Bytes(1), Short::Half, Short::PageEdge];
        let shorts =
            shorts.map(|short| (Fault::short_write_then(short, DiskError::NoSpace), false));
        let syncs = [DiskCall::SyncData, DiskCall::SyncAll, DiskCall::SyncDir];
        let syncs = syncs.into_iter().flat_map(|call| {
            let hows = [FailedSync::Keep, FailedSync::Revert];
            hows.map(|how| {
                (
                    Fault::sync(call, how, DiskError::Io),
                    how == FailedSync::Revert,
                )
            })
        });
        shorts.into_iter().chain(syncs).collect()
    };
    let met: u32 = Case::all().map(|case| each(case, &faults)).sum();
    println!("{met} faults");
    assert!(met > 100, "{met}");
}

/// Nothing is told before the manifest is durable, and what was not told is not believed; recovery finds out which it is.
#[test]
fn a_manifest_whose_sync_failed_stops_the_partition_and_recovery_finds_out_what_is_so() {
    for (failed, by_hand) in [
        (FailedSync::Keep, true),
        (FailedSync::Revert, true),
        (FailedSync::Keep, false),
    ] {
        let how = if by_hand { How::Within } else { How::Size };
        let case = Case {
            how,
            level: Durability::Power,
            reopened: false,
        };
        let (disk, clock, log, partition) = case.begin();
        partition.delete_before(Offset::new(1)).unwrap(); // the first one is made another way
        disk.fail(Fault::sync(DiskCall::SyncData, failed, DiskError::Io).on("MANIFEST"));
        let unknown = how.act(&log, &partition).unwrap_err();
        assert_eq!(disk.struck(), 1);
        assert_eq!(unknown.outcome(), Outcome::Indeterminate, "{unknown:?}");
        assert_eq!(start(&partition), 1, "not told, not seen");
        assert_eq!(rows(&partition), numbered(1..RECORDS), "reads go on");
        assert_eq!(segments(&disk).len(), 6, "and nothing was removed");
        let refused = partition.append(("key", "v")).unwrap_err();
        assert!(matches!(refused, Error::Poisoned { .. }), "{refused:?}");
        let refused = partition.delete_before(Offset::new(12)).unwrap_err();
        assert!(matches!(refused, Error::Poisoned { .. }), "{refused:?}");
        log.maintain().expect("it keeps everything until then");
        assert_eq!(start(&partition), 1);
        partition.recover().unwrap();
        let found = start(&partition);
        let written = failed == FailedSync::Keep;
        assert_eq!(found > 1, written, "{failed:?}");
        assert_eq!(rows(&partition), numbered(found..RECORDS));
        for model in [CrashModel::ProcessKill, CrashModel::LostSuffix] {
            judge(&disk, &clock, model, &[found], case);
        }
        partition.append(("key", "v")).unwrap();
        how.act(&log, &partition).unwrap();
        assert!(start(&partition) > 1);
    }
}

#[test]
fn a_file_that_cannot_be_removed_is_told_and_tried_again_and_keeps_no_other() {
    let case = Case {
        how: How::Age,
        level: Durability::Process,
        reopened: false,
    };
    let (disk, clock, log, partition) = case.begin();
    let stuck = segments(&disk)[1].clone();
    let name = stuck.file_name().unwrap().to_string_lossy().into_owned();
    disk.fail(
        Fault::error(DiskCall::Remove, DiskError::AccessDenied)
            .on(name)
            .lasting(),
    );
    partition
        .delete_before(Offset::new(9))
        .expect("it is decided, whatever becomes of the files");
    assert_eq!(start(&partition), 9);
    for _ in 0..3 {
        let told = log.maintain().unwrap_err();
        assert!(
            matches!(&told, Error::Io { call: "remove", file, .. } if **file == *stuck),
            "{told:?}"
        );
    }
    assert_eq!(start(&partition), RECORDS, "the others went");
    let left = segments(&disk);
    assert_eq!((left.len(), &left[0]), (2, &stuck));
    partition.append(("key", "on")).unwrap();
    let killed = super::logs::killed(&disk);
    let again = open_with(&killed, &clock);
    again.maintain().unwrap();
    assert_eq!(segments(&killed).len(), 1, "the next opening removes it");
    assert_eq!(start(&t0(&again)), RECORDS);
    let before = disk.used();
    disk.heal();
    log.maintain().unwrap();
    assert_eq!(segments(&disk).len(), 1);
    assert!(disk.used() < before);
}

/// What crashed before the files were removed is finished by the next maintenance, though nobody writes.
#[test]
fn f65_what_a_crash_left_is_removed_by_maintenance_too() {
    for level in [Durability::Process, Durability::Power] {
        let case = Case {
            how: How::Within,
            level,
            reopened: false,
        };
        let (disk, clock, _log, partition) = case.begin();
        disk.fail(
            Fault::error(DiskCall::Remove, DiskError::Io)
                .on(".log")
                .lasting(),
        );
        partition.delete_before(Offset::new(10)).unwrap();
        let killed = super::logs::killed(&disk);
        assert_eq!(segments(&killed).len(), 6);
        let log = open_with(&killed, &clock);
        assert_eq!(rows(&t0(&log)), numbered(10..RECORDS));
        log.maintain().unwrap();
        assert_eq!(segments(&killed).len(), 4, "{level:?}");
        assert_eq!(rows(&t0(&log)), numbered(10..RECORDS));
    }
}

/// Space comes back when a file goes, though somebody has read it and its handle is kept.
#[test]
fn what_went_takes_no_room() {
    let (disk, _clock, log, partition) = super::made(TopicConfig::new());
    for n in 0..8 {
        partition.append(("key", "x".repeat(10_000))).unwrap();
        partition.roll().unwrap();
        assert!(partition.get(Offset::new(n)).unwrap().is_some());
    }
    assert_eq!(partition.entries(..).count(), 8);
    let (before, files) = (disk.used(), segments(&disk));
    let going: u64 = files[..8].iter().map(|path| len(&disk, path)).sum();
    partition.delete_before(Offset::new(8)).unwrap();
    assert!(
        disk.used() <= before - going + 1024,
        "{before} - {going}, {}",
        disk.used()
    );
    drop(log);
}

/// A disk without room for a manifest refuses the first delete; with room for what an earlier one has made, it makes room.
#[test]
fn a_full_disk_refuses_or_makes_room() {
    let case = Case {
        how: How::Within,
        level: Durability::Power,
        reopened: false,
    };
    let (disk, _clock, _log, partition) = case.begin();
    disk.set_capacity(Some(disk.used()));
    let full = partition.delete_before(Offset::new(10)).unwrap_err();
    assert!(matches!(full, Error::NoSpace { .. }), "{full:?}");
    assert_eq!((start(&partition), full.outcome()), (0, Outcome::Rejected));
    disk.set_capacity(None);
    partition.delete_before(Offset::new(1)).unwrap();
    disk.set_capacity(Some(disk.used()));
    assert!(partition.append(("key", "x".repeat(600))).is_err());
    partition.delete_before(Offset::new(16)).unwrap();
    partition.append(("key", "x".repeat(600))).unwrap();
    assert_eq!(
        partition.offsets(),
        Offset::new(16)..Offset::new(RECORDS + 1)
    );
}

/// Passes are tried for ever, so none of them may take long where nothing can be done.
#[test]
fn a_partition_that_refuses_appends_keeps_everything() {
    let case = Case {
        how: How::Size,
        level: Durability::Power,
        reopened: false,
    };
    let (disk, clock, log, partition) = case.begin();
    disk.fail(Fault::sync(DiskCall::SyncData, FailedSync::Keep, DiskError::Io).on(".log"));
    partition.append(("key", "v")).unwrap_err();
    clock.advance(Duration::from_secs(3600));
    log.maintain().unwrap();
    assert_eq!((start(&partition), segments(&disk).len()), (0, 6));
    partition.recover().unwrap();
    log.maintain().unwrap();
    assert!(start(&partition) > 0);
}
