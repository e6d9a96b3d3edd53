//! Alterations that meet errors: what is told is what is so, and the next try is sound.

use thalweg::testing::{CrashModel, Disk, DiskCall, DiskError, FailedSync, Fault, Short};
use thalweg::{Durability, FindingKind, Log, Outcome, Topic, TopicConfig};

use super::logs::{fill, numbered, one, open, rows, t0, unplugged};
use super::new;

const CONFIG: &str = "config";

/// A level before, and what is changed.
type Change = (Durability, fn() -> TopicConfig);

const CHANGES: [Change; 4] = [
    (Durability::Process, || new().max_record_bytes(5000)),
    (Durability::Process, || {
        new().durability(Durability::Power).max_record_bytes(5000)
    }),
    (Durability::Power, || {
        new().durability(Durability::Process).max_record_bytes(5000)
    }),
    (Durability::Power, || new().max_record_bytes(5000)),
];

const RECORDS: u64 = 10;

/// A topic with records, made by this opening of the log or by one before.
fn begin(disk: &Disk, level: Durability, reopened: bool) -> Log {
    let mut log = open(disk);
    let config = new().durability(level).offset_span(1000);
    let topic = log.create_topic("t", config).unwrap();
    fill(&one(&topic), 0..5);
    if reopened {
        log.close().unwrap();
        log = open(disk);
    }
    fill(&t0(&log), 5..RECORDS);
    log
}

fn shown(topic: &Topic) -> String {
    format!("{:?}", topic.settings())
}

/// The settings that another process finds.
fn found(disk: &Disk, crash: CrashModel) -> String {
    let log = open(&disk.crash(disk.points(), crash, 0));
    let findings = log.recovery().findings();
    let damaged = findings.iter().find(|f| f.kind == FindingKind::Damaged);
    assert!(damaged.is_none(), "{damaged:?}");
    shown(&log.topic("t").unwrap())
}

/// Alters while the disk fails so; `false`: the fault was not met.
fn alter_against(fault: Fault, change: Change, reopened: bool, what: &str) -> bool {
    let disk = Disk::new();
    let (level, changes) = change;
    let log = begin(&disk, level, reopened);
    let topic = log.topic("t").unwrap();
    let old = shown(&topic);
    disk.fail(fault);
    let struck = disk.struck();
    let altered = topic.alter(changes());
    let struck = disk.struck() > struck;
    disk.heal();
    let partition = one(&topic);
    assert_eq!(
        rows(&partition),
        numbered(0..RECORDS),
        "{what}: what was seen is seen"
    );
    let now = shown(&topic);
    assert_eq!(now != old, altered.is_ok(), "{what}: {altered:?}");
    let may = match &altered {
        Ok(()) => vec![now.clone()],
        Err(e) if e.outcome() == Outcome::Rejected => vec![old.clone()],
        Err(_) => vec![old.clone(), shown(&made(changes(), level))],
    };
    for crash in [CrashModel::ProcessKill, CrashModel::LostSuffix] {
        let found = found(&disk, crash);
        assert!(may.contains(&found), "{what}: {altered:?}, then {found}");
    }
    if altered.is_ok() && topic.settings().durability == Durability::Power {
        assert_eq!(
            rows(&t0(&open(&unplugged(&disk)))),
            numbered(0..RECORDS),
            "{what}"
        );
    }
    // It is written as before, if need be when it was recovered, and a second try decides it.
    partition
        .recover()
        .unwrap_or_else(|e| panic!("{what}: {e:?}"));
    let at = partition.append(("k", "v")).unwrap().offset().get();
    assert!(at >= RECORDS, "{what}: {at} was another record's");
    if altered
        .as_ref()
        .is_err_and(|e| e.outcome() != Outcome::Rejected)
    {
        topic
            .alter(new())
            .unwrap_or_else(|e| panic!("{what}: {e:?}"));
        assert_eq!(found(&disk, CrashModel::LostSuffix), now, "{what}");
    }
    topic
        .alter(changes())
        .unwrap_or_else(|e| panic!("{what}: {e:?}"));
    let now = shown(&topic);
    assert_eq!(found(&disk, CrashModel::LostSuffix), now, "{what}");
    let last = partition.append(("k", "last")).unwrap();
    drop((topic, partition));
    log.close().unwrap_or_else(|e| panic!("{what}: {e:?}"));
    let log = open(&disk);
    assert_eq!(shown(&log.topic("t").unwrap()), now, "{what}");
    let there = rows(&t0(&log)).pop().unwrap();
    assert_eq!(there, (last.offset().get(), "last".to_owned()), "{what}");
    struck
}

/// The topic as it is when all goes well.
fn made(changes: TopicConfig, level: Durability) -> Topic {
    let log = Log::in_memory();
    let config = new().durability(level).offset_span(1000);
    let topic = log.create_topic("t", config).unwrap();
    topic.alter(changes).unwrap();
    topic
}

fn cases() -> impl Iterator<Item = (usize, bool)> {
    (0..CHANGES.len()).flat_map(|n| [(n, false), (n, true)])
}

#[test]
fn each_call_fails_once_and_the_answer_says_what_is_so() {
    let mut met = 0;
    for (n, reopened) in cases() {
        for error in [DiskError::NoSpace, DiskError::Io] {
            for nth in 0.. {
                let what = format!("change {n}, reopened: {reopened}, {error:?} at call {nth}");
                let fault = Fault::any(error).after(nth);
                if !alter_against(fault, CHANGES[n], reopened, &what) {
                    break;
                }
                met += 1;
            }
        }
    }
    println!("{met} faults");
    assert!(met > 40, "{met}");
}

#[test]
fn each_write_is_cut_short_and_each_sync_fails_with_and_without_its_data() {
    let mut met = 0;
    let cut = |short| Fault::short_write_then(short, DiskError::NoSpace);
    let sync = |call, how| Fault::sync(call, how, DiskError::Io).on(CONFIG);
    let hows = [FailedSync::Keep, FailedSync::Revert];
    for (n, reopened) in cases() {
        for nth in 0..4 {
            let writes = [Short::Bytes(1), Short::Half, Short::PageEdge].map(cut);
            let syncs = hows.map(|how| sync(DiskCall::SyncData, how));
            for (number, fault) in writes.into_iter().chain(syncs).enumerate() {
                let what = format!("change {n}, reopened: {reopened}, fault {number} at {nth}");
                met += u32::from(alter_against(fault.after(nth), CHANGES[n], reopened, &what));
            }
        }
    }
    println!("{met} faults");
    assert!(met > 40, "{met}");
}

#[test]
fn an_alteration_that_may_have_been_written_is_decided_by_what_is_written_next() {
    for decide in [false, true] {
        let disk = Disk::new();
        let log = begin(&disk, Durability::Power, false);
        let topic = log.topic("t").unwrap();
        let old = shown(&topic);
        let change = || new().max_record_bytes(5000);
        let fail = || {
            disk.fail(Fault::sync(DiskCall::SyncData, FailedSync::Keep, DiskError::Io).on(CONFIG));
        };
        fail();
        let unknown = topic.alter(change()).unwrap_err();
        assert_eq!(unknown.outcome(), Outcome::Indeterminate);
        assert_eq!(shown(&topic), old);
        let new_one = shown(&made(change(), Durability::Power));
        assert_eq!(found(&disk, CrashModel::ProcessKill), new_one);
        // A try that writes nothing does not take it back.
        disk.fail(Fault::error(DiskCall::Open, DiskError::NoSpace).on(CONFIG));
        let again = topic.alter(change()).unwrap_err();
        assert_eq!(again.outcome(), Outcome::Indeterminate, "{again:?}");
        // Asked for what it is, it is made sure that it is.
        topic.alter(if decide { change() } else { new() }).unwrap();
        let now = if decide { &new_one } else { &old };
        assert_eq!(shown(&topic), *now);
        for crash in [CrashModel::ProcessKill, CrashModel::LostSuffix] {
            assert_eq!(found(&disk, crash), *now);
        }
    }
}
