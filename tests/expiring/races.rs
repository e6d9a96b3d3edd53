//! Offsets that expire while others commit, join and leave, on real threads and at chosen moments: a commit always wins, and so does a
//! member.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use thalweg::assignor::{Assignor, CooperativeSticky, Member, TopicSize};
use thalweg::testing::{CrashModel, Disk, ManualClock};
use thalweg::{
    BoxError, Error, Log, Offset, Rebalance, RebalanceListener, StartFrom, TopicPartition,
};

use super::common::scale;
use super::{NOW, TICK, WEEK, begin, committed, expired, groups, member, next, open, open_for};

/// As [`begin`], and offsets stay for no more than a tick.
fn begin_short() -> (Disk, ManualClock, Log) {
    let (disk, clock, log) = begin();
    log.close().unwrap();
    let log = open_for(&disk, &clock, TICK);
    (disk, clock, log)
}

/// Lets a tick pass and does a pass, again and again, until it is told to stop.
fn ticks(log: &Log, clock: &ManualClock, stop: &AtomicBool) -> u64 {
    let mut sum = 0;
    while !stop.load(Ordering::SeqCst) {
        clock.advance(TICK);
        sum += expired(log);
    }
    sum
}

#[test]
fn a_commit_by_hand_is_never_forgotten_before_its_time() {
    let (disk, clock, log) = begin_short();
    let group = log.group("g");
    let at = TopicPartition::new("orders", 0);
    let (stop, committing) = (AtomicBool::new(false), Barrier::new(2));
    let (gone, forgotten) = thread::scope(|threads| {
        let passes = threads.spawn(|| {
            committing.wait();
            ticks(&log, &clock, &stop)
        });
        committing.wait();
        let mut gone = 0;
        for n in 0..3000 * scale() {
            let before = clock.now().as_millis();
            let at_next = n % 10;
            group
                .set_positions(&next(&[("orders", 0, at_next)]))
                .unwrap();
            if let Some(found) = group.committed().unwrap().next(&at) {
                assert_eq!(found, Offset::new(at_next));
            } else {
                let passed = clock.now().as_millis() - before;
                assert!(passed >= TICK.as_millis() as i64, "after {passed} ms");
                gone += 1;
            }
        }
        stop.store(true, Ordering::SeqCst);
        (gone, passes.join().unwrap())
    });
    assert!(forgotten >= gone);
    // The order of the ledger is that of the map: who reads it again finds the same.
    let now = committed(&group);
    let killed = disk.crash(disk.points(), CrashModel::ProcessKill, 0);
    assert_eq!(committed(&open(&killed, &clock).group("g")), now);
}

#[test]
fn what_a_member_has_committed_is_there_as_long_as_it_is_one() {
    let (disk, clock, log) = begin_short();
    let (stop, begun) = (AtomicBool::new(false), Barrier::new(4));
    thread::scope(|threads| {
        let passes = threads.spawn(|| {
            begun.wait();
            ticks(&log, &clock, &stop)
        });
        let members = [0, 1, 2].map(|n: u64| {
            let (log, begun) = (&log, &begun);
            threads.spawn(move || {
                let group = log.group(&format!("g{}", n / 2)); // two share a group
                let topic = ["orders", "bills", "orders"][n as usize];
                begun.wait();
                for round in 0..150 * scale() {
                    let mut of = member(&group, &[topic]);
                    let owned = of.assignment();
                    for at in &owned {
                        let position = at.at(Offset::new(round % 10));
                        of.commit_at(&[position].into_iter().collect()).unwrap();
                    }
                    for _ in 0..3 {
                        for at in &owned {
                            let found = of.committed(at).unwrap();
                            assert_eq!(found, Some(Offset::new(round % 10)), "{at} in {round}");
                        }
                        thread::yield_now();
                    }
                    if round % 2 == 0 {
                        of.close().unwrap();
                    }
                }
            })
        });
        for member in members {
            member.join().unwrap();
        }
        stop.store(true, Ordering::SeqCst);
        passes.join().unwrap();
    });
    let now = groups(&log);
    let killed = disk.crash(disk.points(), CrashModel::ProcessKill, 0);
    assert_eq!(groups(&open(&killed, &clock)), now);
    clock.advance(TICK);
    expired(&log);
    assert!(groups(&log).is_empty());
}

/// Does something at the only moment at which somebody who joins has looked at what is committed, and is no member yet.
struct While(Box<dyn Fn() + Send + Sync>);

impl While {
    fn new(what: impl Fn() + Send + Sync + 'static) -> While {
        While(Box::new(what))
    }
}

impl Assignor for While {
    fn name(&self) -> &'static str {
        (self.0)();
        "while"
    }

    fn assign(&self, members: &[Member<'_>], topics: &[TopicSize<'_>]) -> Vec<Vec<TopicPartition>> {
        CooperativeSticky.assign(members, topics)
    }
}

#[test]
fn who_joins_while_its_offset_expires_begins_as_it_says_and_a_hand_over_skips_nothing() {
    let (_disk, clock, log) = begin();
    let group = log.group("g");
    group
        .set_positions(&next(&[("orders", 0, 5), ("orders", 1, 5)]))
        .unwrap();
    clock.advance(WEEK);
    let join = || {
        let of = log.clone();
        let at_this_moment = While::new(move || pass(&of).unwrap());
        let builder = group.subscribe(["orders"]).start_from(StartFrom::Latest);
        builder.assignor(at_this_moment).join().unwrap()
    };
    let mut first = join();
    assert!(groups(&log).contains(&"g".to_owned()));
    assert!(committed(&group).is_empty());
    assert_eq!(first.poll(NOW).unwrap().len(), 0, "at the end, as it says");
    for partition in log.topic("orders").unwrap().partitions() {
        partition.append(("k", "new")).unwrap();
    }
    // Handed over before the first commit.
    let mut second = join();
    let _ = (second.poll(NOW).unwrap(), first.poll(NOW).unwrap());
    assert_eq!(
        second.poll(NOW).unwrap().len(),
        1,
        "what came after the first join"
    );
}

#[test]
fn who_joins_a_moment_earlier_keeps_its_place() {
    let (_disk, clock, log) = begin();
    let group = log.group("g");
    group.set_positions(&next(&[("orders", 0, 5)])).unwrap();
    clock.advance(WEEK);
    let builder = group.subscribe(["orders"]).max_poll_interval(Duration::MAX);
    let mut of = builder.assignor(While::new(|| ())).join().unwrap();
    assert_eq!(expired(&log), 0, "it is a member before it has polled");
    assert_eq!(of.poll(NOW).unwrap().len(), 5 + 10);
}

fn pass(log: &Log) -> Result<(), BoxError> {
    log.maintain()?;
    Ok(())
}

/// Asks for a pass in every callback.
struct Maintains(Log);

impl RebalanceListener for Maintains {
    fn assigned(&mut self, _: &mut Rebalance<'_>, _: &[TopicPartition]) -> Result<(), BoxError> {
        pass(&self.0)
    }

    fn revoked(
        &mut self,
        rebalance: &mut Rebalance<'_>,
        _: &[TopicPartition],
    ) -> Result<(), BoxError> {
        pass(&self.0)?;
        rebalance.commit()?;
        pass(&self.0)
    }

    fn lost(&mut self, _: &[TopicPartition]) -> Result<(), BoxError> {
        pass(&self.0)
    }
}

/// Rung when a member is shut out: asks for a pass, from within one.
struct Rings {
    log: Log,
    rung: AtomicU64,
}

impl Wake for Rings {
    fn wake(self: Arc<Self>) {
        self.rung.fetch_add(1, Ordering::SeqCst);
        self.log.maintain().unwrap();
        self.log.groups().unwrap();
    }
}

#[test]
fn a_pass_may_be_asked_for_in_a_callback_by_an_assignor_and_by_a_waker_that_a_pass_rings() {
    let (_disk, clock, log) = begin();
    let group = log.group("g");
    let join = || {
        let of = log.clone();
        let assignor = While::new(move || pass(&of).unwrap());
        let builder = group.subscribe(["orders"]).listener(Maintains(log.clone()));
        builder.assignor(assignor).join().unwrap()
    };
    let (mut first, mut second) = (join(), join());
    for _ in 0..3 {
        let _ = (first.poll(NOW).unwrap(), second.poll(NOW).unwrap());
    }
    let rings = Arc::new(Rings {
        log: log.clone(),
        rung: AtomicU64::new(0),
    });
    let waker = Waker::from(Arc::clone(&rings));
    let mut ready = Box::pin(second.ready());
    let waits = ready.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(matches!(waits, Poll::Pending));
    clock.advance(Duration::from_secs(300)); // the first is silent, the second waits
    log.maintain().unwrap();
    assert!(rings.rung.load(Ordering::SeqCst) > 0);
    drop(ready);
    let fenced = first.commit();
    assert!(matches!(fenced, Err(Error::Fenced { .. })), "{fenced:?}");
    assert_eq!(second.poll(NOW).unwrap().len(), 10, "what was the first's");
    second.close().unwrap();
    assert!(first.poll(NOW).unwrap().is_empty(), "a member again, alone");
}
