//! F112 and F117: many members, and many who wait.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Barrier};
use std::task::Context;
use std::thread;
use std::time::Duration;

use thalweg::testing::TestLog;
use thalweg::{Consumer, Error, Log, TopicPartition};

use super::common::{Dice, scale, seed};
use super::{Bell, NOW, join, log_with, make, settle, within};

const PARTITIONS: u32 = 5;
const LIMIT: Duration = Duration::from_secs(120);

/// The members that are there, and those of a name that was taken by a newer one: they do not know it yet.
#[derive(Default)]
struct Crowd {
    members: Vec<(Consumer, Option<u64>)>,
    replaced: Vec<Consumer>,
}

impl Crowd {
    fn join(&mut self, log: &Log, name: Option<u64>) {
        let builder = log.group("g").subscribe(["t"]);
        let builder = match name {
            Some(name) => builder.instance_id(format!("static-{name}")),
            None => builder,
        };
        let taken = |(_, of): &(Consumer, Option<u64>)| name.is_some() && *of == name;
        let old = self.members.iter().position(taken);
        let new = builder.join().unwrap();
        if let Some(old) = old {
            self.replaced.push(self.members.swap_remove(old).0);
        }
        self.members.push((new, name));
    }

    fn leave(&mut self, dice: &mut Dice) {
        let (member, _) = self
            .members
            .swap_remove(dice.below(self.members.len() as u64) as usize);
        match dice.below(3) {
            0 => member.close().unwrap(),
            1 => member.leave().unwrap(),
            _ => drop(member),
        }
    }

    fn poll(&mut self, dice: &mut Dice) {
        for (member, _) in &mut self.members {
            if dice.once_in(2) {
                let _ = member.poll(NOW).unwrap();
            }
        }
        for old in &mut self.replaced {
            assert!(matches!(old.poll(NOW), Err(Error::Fenced { .. })));
            assert!(old.assignment().is_empty());
        }
        self.replaced.clear();
        let owned = self
            .members
            .iter()
            .flat_map(|(member, _)| member.assignment());
        let owned: Vec<TopicPartition> = owned.collect();
        let distinct: BTreeSet<&TopicPartition> = owned.iter().collect();
        assert_eq!(distinct.len(), owned.len(), "two owners: {owned:?}");
    }
}

#[test]
fn f112_after_a_thousand_joins_and_leaves_every_partition_has_one_owner() {
    let mut dice = Dice::new(seed());
    let test = TestLog::new();
    let log = test.log();
    make(&log, "t", PARTITIONS, 3);
    let mut crowd = Crowd::default();
    let (mut joins, mut leaves) = (0, 0);
    while joins + leaves < 1000 * scale() {
        let few = crowd.members.len() < 2;
        if few || (crowd.members.len() < 9 && dice.once_in(2)) {
            let name = dice.once_in(2).then(|| dice.below(6));
            crowd.join(&log, name);
            joins += 1;
        } else {
            crowd.leave(&mut dice);
            leaves += 1;
        }
        crowd.poll(&mut dice);
        test.advance(Duration::from_secs(dice.below(10)));
    }
    test.advance(Duration::from_secs(60)); // nobody is kept a place for any more
    let mut members: Vec<&mut Consumer> = crowd.members.iter_mut().map(|(of, _)| of).collect();
    settle(&mut members, PARTITIONS);
    println!("{joins} joins, {leaves} leaves, {} members", members.len());
    for (member, _) in crowd.members {
        member.leave().unwrap();
    }
    assert!(log.groups().unwrap().is_empty());
}

#[test]
fn f112_threads_that_join_and_leave_come_to_an_end_with_every_partition_owned() {
    within(LIMIT, "joins and leaves", || {
        let log = log_with(3, 3);
        let (seed, rounds) = (seed(), 125 * scale());
        let barrier = Barrier::new(8);
        thread::scope(|scope| {
            for n in 0..8 {
                let (log, barrier) = (&log, &barrier);
                scope.spawn(move || {
                    let mut dice = Dice::new(seed + n);
                    barrier.wait();
                    for _ in 0..rounds {
                        come_and_go(log, n, &mut dice);
                    }
                });
            }
        });
        let (mut last, mut other) = (join(&log), join(&log));
        let members = log.group("g").describe().unwrap().members;
        for away in members.iter().filter_map(|of| of.instance_id.as_deref()) {
            log.group("g").remove_member(away).unwrap();
        }
        settle(&mut [&mut last, &mut other], 3);
        drop((last, other));
        assert!(log.groups().unwrap().is_empty());
    });
}

fn come_and_go(log: &Log, n: u64, dice: &mut Dice) {
    let builder = log.group("g").subscribe(["t"]);
    let builder = match n % 2 {
        0 => builder.instance_id(format!("static-{n}")),
        _ => builder,
    };
    let mut member = builder.join().unwrap();
    for _ in 0..dice.below(4) {
        let _ = member.poll(NOW).unwrap();
    }
    match dice.below(3) {
        0 => member.close().unwrap(),
        1 => member.leave().unwrap(),
        _ => drop(member),
    }
}

/// Each waits as a task, registered before the append, and is told; then again before a roll.
#[test]
fn f117_one_append_wakes_ten_thousand_tasks_and_so_it_does_across_a_roll() {
    within(LIMIT, "tasks", || {
        let log = Log::in_memory();
        let topic = make(&log, "t", 1, 0);
        let mut members: Vec<Consumer> = (0..10_000)
            .map(|n| {
                let builder = log.group(&format!("g{n}")).subscribe(["t"]);
                builder.join().unwrap()
            })
            .collect();
        for member in &mut members {
            let _ = member.poll(NOW).unwrap();
        }
        for round in 0..3 {
            let bells: Vec<Arc<Bell>> = members.iter().map(|_| Arc::default()).collect();
            let mut tasks: Vec<_> = members
                .iter_mut()
                .map(|member| Box::pin(member.ready()))
                .collect();
            for (task, bell) in tasks.iter_mut().zip(&bells) {
                let waker = bell.waker();
                let slept = task.as_mut().poll(&mut Context::from_waker(&waker));
                assert!(slept.is_pending());
            }
            if round > 0 {
                topic.partition(0).unwrap().roll().unwrap();
            }
            topic.append(("", "x")).unwrap();
            let asleep = bells.iter().filter(|bell| bell.rings() == 0).count();
            assert_eq!(asleep, 0, "round {round}");
            drop(tasks);
            for member in &mut members {
                assert_eq!(member.poll(NOW).unwrap().len(), 1);
            }
        }
    });
}

/// They may be asleep by the time of the append or not: all get the record.
#[test]
fn f117_one_append_wakes_sixty_four_threads() {
    within(LIMIT, "threads", || {
        for rolls in [false, true] {
            let log = Log::in_memory();
            let topic = make(&log, "t", 1, 0);
            let barrier = Barrier::new(65);
            thread::scope(|scope| {
                for n in 0..64 {
                    let (log, barrier) = (&log, &barrier);
                    scope.spawn(move || {
                        let builder = log.group(&format!("g{n}")).subscribe(["t"]);
                        let mut member = builder.join().unwrap();
                        barrier.wait();
                        let mut next = 0;
                        while next < 20 {
                            let batch = member.next_batch().unwrap().expect("nobody wakes it");
                            for entry in &batch {
                                assert_eq!(entry.offset().get(), next);
                                next += 1;
                            }
                        }
                    });
                }
                barrier.wait();
                for _ in 0..20 {
                    if rolls {
                        topic.partition(0).unwrap().roll().unwrap();
                    }
                    topic.append(("", "x")).unwrap();
                    thread::yield_now();
                }
            });
        }
    });
}

/// The members of one group: the one who goes wakes whoever takes over, among many who get nothing.
#[test]
fn f117_of_many_who_wait_for_one_partition_the_next_owner_is_woken() {
    within(LIMIT, "owners", || {
        let log = log_with(1, 1);
        let mut members: Vec<Consumer> = (0..20).map(|_| join(&log)).collect();
        for _ in 0..2 {
            for member in &mut members {
                let _ = member.poll(NOW).unwrap();
            }
        }
        while members.len() > 1 {
            let owner = members
                .iter()
                .position(|member| !member.assignment().is_empty());
            let owner = members.remove(owner.expect("somebody reads it"));
            let bells: Vec<Arc<Bell>> = members.iter().map(|_| Arc::default()).collect();
            let mut tasks: Vec<_> = members
                .iter_mut()
                .map(|member| Box::pin(member.ready()))
                .collect();
            for (task, bell) in tasks.iter_mut().zip(&bells) {
                let waker = bell.waker();
                let mut task = pin!(task);
                let _ = task.as_mut().poll(&mut Context::from_waker(&waker));
            }
            drop(owner);
            drop(tasks);
            let woken = bells.iter().filter(|bell| bell.rings() > 0).count();
            assert!(woken > 0, "nobody was told");
            // Those who were told poll, and one of them has it.
            for (member, bell) in members.iter_mut().zip(&bells) {
                if bell.rings() > 0 {
                    let _ = member.poll(NOW).unwrap();
                }
            }
        }
        let _ = members[0].poll(NOW).unwrap();
        assert_eq!(members[0].assignment().len(), 1);
    });
}
