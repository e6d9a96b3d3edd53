//! The rule by which offsets expire, as a table; and expiry from within: who is asked, what is written, and what is left of it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::clock::{ManualClock, Timestamp};
use crate::io::memory::Memory;
use crate::log::ledger::live::{OfGroup, Row};
use crate::log::ledger::{Commit, TOMBSTONE_BYTES};
use crate::log::root::Access;
use crate::log::{Log, TopicConfig, open};
use crate::offset::Offset;
use crate::partition::Partition;
use crate::partition::report::RecoveryReport;

const HOUR: Duration = Duration::from_secs(3600);
const GROUP: &str = "kitchen";

fn moment(hours: u32) -> Moment {
    Moment::of(hours * HOUR)
}

#[test]
fn an_offset_expires_by_who_uses_it_and_never_from_before_the_log_was_opened() {
    use Use::{NoMembers, Subscribed, Unsubscribed};
    // Use; opened, committed and emptied at the hour; with ten hours' time, expired from which hour on.
    let table = [
        (Subscribed, 0, 0, 0, None),
        (Subscribed, 0, 5, 7, None),
        (Unsubscribed, 3, 0, 0, Some(13)),
        (Unsubscribed, 3, 5, 0, Some(15)),
        (Unsubscribed, 3, 5, 8, Some(15)),
        (NoMembers, 3, 0, 0, Some(13)),
        (NoMembers, 3, 5, 0, Some(15)),
        (NoMembers, 3, 5, 8, Some(18)),
        (NoMembers, 3, 8, 5, Some(18)),
        (NoMembers, 3, 0, 8, Some(18)),
    ];
    for (in_use, opened, committed, emptied, from) in table {
        let facts = Facts {
            opened: moment(opened),
            committed: moment(committed),
            emptied: moment(emptied),
            in_use,
        };
        for hour in 0..100 {
            let expired = facts.is_expired(moment(hour), 10 * HOUR);
            assert_eq!(
                expired,
                from.is_some_and(|from| hour >= from),
                "{facts:?}, {hour}"
            );
            assert!(!facts.is_expired(moment(hour), Duration::MAX), "{facts:?}");
        }
    }
}

#[test]
fn a_time_that_is_too_short_by_a_nanosecond_is_too_short_and_none_is_negative() {
    let facts = |committed| Facts {
        opened: Moment::default(),
        committed,
        emptied: Moment::default(),
        in_use: Use::NoMembers,
    };
    let since = Moment::of(HOUR);
    assert!(!facts(since).is_expired(Moment(2 * since.0 - 1), HOUR));
    assert!(facts(since).is_expired(Moment(2 * since.0), HOUR));
    assert!(!facts(since).is_expired(Moment::default(), Duration::from_nanos(1)));
    assert!(!facts(Moment::of(Duration::MAX)).is_expired(Moment::of(Duration::MAX), HOUR));
}

#[test]
fn a_commit_takes_no_more_memory_for_the_time_it_has() {
    assert_eq!(size_of::<(PartitionKey, Row)>(), 48);
    assert!(size_of::<OfGroup>() <= 56 + 8);
}

/// A log in memory whose offsets stay for an hour, and a topic of so many partitions.
fn begin(partitions: u32) -> (Log, Arc<ManualClock>, Vec<Partition>) {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(0)));
    let options = crate::log::builder::Options {
        offsets_retention: Some(HOUR),
        ..Default::default()
    };
    let (of, path) = (Arc::clone(&clock), std::path::Path::new("/log"));
    let inner = open::open(Arc::new(Memory::new()), of, path, Access::Write, options);
    let log = Log {
        inner: inner.unwrap(),
    };
    let config = TopicConfig::new().partitions(partitions);
    let topic = log.create_topic("orders", config).unwrap();
    (log, clock, topic.partitions())
}

fn commit(log: &Log, group: &str, partitions: &[Partition]) {
    let commits = partitions.iter().map(|partition| Commit {
        partition,
        next: Offset::ZERO,
    });
    log.ledger().commit(group, commits, || Ok(())).unwrap();
}

fn expired(log: &Log) -> u64 {
    log.maintain().unwrap().offsets_expired
}

fn committed(log: &Log, group: &str) -> usize {
    log.ledger().committed_by(group).unwrap().len()
}

/// Tombstones among the records of the ledger, and all of them.
fn stored(log: &Log) -> (usize, usize) {
    let entries = log.ledger().partition().entries(..);
    let values: Vec<bool> = entries
        .map(|entry| entry.unwrap().value().is_some())
        .collect();
    (values.iter().filter(|is| !**is).count(), values.len())
}

/// What a layer above might do.
struct Above<F: Fn(&str, &mut dyn FnMut(Reading<'_>)) + Send + Sync> {
    hold: F,
    sweeps: AtomicU64,
}

impl<F: Fn(&str, &mut dyn FnMut(Reading<'_>)) + Send + Sync> Readers for Above<F> {
    fn sweep(&self, _: Duration) {
        self.sweeps.fetch_add(1, Ordering::SeqCst);
    }

    fn hold(&self, group: &str, then: &mut dyn FnMut(Reading<'_>)) {
        (self.hold)(group, then);
    }
}

fn above<F>(log: &Log, hold: F) -> Arc<Above<F>>
where
    F: Fn(&str, &mut dyn FnMut(Reading<'_>)) + Send + Sync + 'static,
{
    let sweeps = AtomicU64::new(0);
    let above = Arc::new(Above { hold, sweeps });
    let readers: Arc<dyn Readers> = Arc::clone(&above) as Arc<dyn Readers>;
    assert!(log.ledger().ask(Arc::downgrade(&readers)).is_some());
    above
}

#[test]
fn a_commit_that_comes_after_an_offset_was_found_old_and_before_it_is_forgotten_wins() {
    let (log, clock, partitions) = begin(2);
    commit(&log, GROUP, &partitions);
    clock.advance(HOUR);
    let (of, first) = (log.clone(), partitions[..1].to_vec());
    let above = above(&log, move |group, then| {
        commit(&of, group, &first); // found old, and this comes first
        then(Reading::Nobody);
        commit(&of, group, &first);
    });
    assert_eq!(expired(&log), 1);
    assert_eq!(above.sweeps.load(Ordering::SeqCst), 1);
    assert_eq!(committed(&log, GROUP), 1);
    log.ledger().replay(&mut RecoveryReport::default()).unwrap();
    assert_eq!(committed(&log, GROUP), 1, "in the order of the log, too");
}

#[test]
fn who_joins_before_it_is_decided_keeps_what_it_subscribes_to() {
    let (log, clock, partitions) = begin(2);
    let bills = log.create_topic("bills", TopicConfig::new()).unwrap();
    commit(&log, GROUP, &partitions);
    commit(&log, GROUP, &bills.partitions());
    clock.advance(HOUR);
    let _above = above(&log, |_, then| {
        then(Reading::Members(&|topic| topic == "orders"));
    });
    assert_eq!(expired(&log), 1);
    assert_eq!(committed(&log, GROUP), 2);
}

#[test]
fn a_topic_that_nobody_can_name_is_taken_for_one_that_is_wanted() {
    let (log, clock, partitions) = begin(1);
    commit(&log, GROUP, &partitions);
    clock.advance(HOUR);
    let _above = above(&log, |_, then| then(Reading::Members(&|_| false)));
    let known = log.ledger().topics.write().remove("orders"); // as one whose description cannot be read
    assert_eq!(expired(&log), 0);
    log.ledger()
        .topics
        .write()
        .insert("orders".into(), known.unwrap());
    assert_eq!(expired(&log), 1);
}

#[test]
fn nobody_is_asked_about_a_group_that_has_nothing_old() {
    let (log, clock, partitions) = begin(1);
    commit(&log, GROUP, &partitions);
    clock.advance(HOUR.saturating_sub(Duration::from_nanos(1)));
    let _above = above(&log, |group, _| panic!("about {group}"));
    assert_eq!(expired(&log), 0);
}

#[test]
fn more_than_one_write_takes_is_forgotten_in_several() {
    let (log, clock, partitions) = begin(20);
    let long = "g".repeat(30_000);
    commit(&log, &long, &partitions);
    commit(&log, GROUP, &partitions);
    assert!(20 * long.len() > 2 * TOMBSTONE_BYTES);
    clock.advance(HOUR);
    let mut report = MaintenanceReport::default();
    log.ledger().expire(&mut report).unwrap();
    assert_eq!(report.offsets_expired, 40);
    assert_eq!(stored(&log), (40, 80));
    assert_eq!(expired(&log), 0);
    assert!(log.ledger().groups().unwrap().is_empty());
}

/// F124: of groups that come, commit and are left nothing is left, on the disk or in memory.
#[test]
fn what_expired_is_gone_from_memory_and_after_a_pass_from_the_files_too() {
    let (log, clock, partitions) = begin(1);
    let stays = "s".repeat(5000);
    commit(&log, &stays, &partitions);
    for round in 0..40 {
        for n in 0..10 {
            commit(
                &log,
                &format!("{round}-{n}-{}", "x".repeat(5000)),
                &partitions,
            );
        }
        clock.advance(HOUR / 2);
        commit(&log, &stays, &partitions);
        log.maintain().unwrap();
        assert!(log.ledger().groups().unwrap().len() <= 21, "{round}");
        assert!(stored(&log).1 < 600, "{round}: {:?}", stored(&log));
    }
    clock.advance(HOUR / 2);
    commit(&log, &stays, &partitions);
    assert_eq!(expired(&log), 10);
    while log.ledger().partition().last_segment_len() <= 1 << 20 {
        commit(&log, &stays, &partitions); // so that it is worth a pass
    }
    println!(
        "{:?} {}",
        stored(&log),
        log.ledger().partition().last_segment_len()
    );
    println!("{:?}", log.maintain());
    println!("{:?}", log.ledger().groups().unwrap().len());
    assert_eq!(stored(&log), (0, 1));
    log.ledger().replay(&mut RecoveryReport::default()).unwrap();
    assert_eq!(log.ledger().groups().unwrap(), [stays]);
}

#[test]
fn after_damage_nothing_expires() {
    let (log, clock, partitions) = begin(1);
    let damage = crate::log::ledger::Damage {
        file: "/log/ledger/0".into(),
        byte: 7,
    };
    log.ledger().live.lock().damaged(damage);
    commit(&log, GROUP, &partitions);
    clock.advance(2 * HOUR);
    assert_eq!(expired(&log), 0);
    let key = partitions[0].key();
    let known = log.ledger().committed(GROUP, key).unwrap();
    assert_eq!(known, Some(Offset::ZERO));
}

#[test]
fn where_nothing_expires_nobody_is_asked_and_no_time_is_kept() {
    let log = Log::in_memory();
    let topic = log.create_topic("orders", TopicConfig::new()).unwrap();
    let readers: Arc<dyn Readers> = Arc::new(Above {
        hold: |_: &str, _: &mut dyn FnMut(Reading<'_>)| panic!("asked"),
        sweeps: AtomicU64::new(0),
    });
    assert!(log.ledger().ask(Arc::downgrade(&readers)).is_none());
    commit(&log, GROUP, &topic.partitions());
    let live = log.ledger().live.lock();
    let rows = &live.of(GROUP).unwrap().rows;
    assert!(rows.values().all(|row| row.at == Moment::default()));
}
