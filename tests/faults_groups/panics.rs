//! F106: code of the user's that panics, wherever ours calls it. Nothing stays locked or half done, and the group works on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::{future::Future, pin::pin};

use thalweg::assignor::{Assignor, Member, TopicSize};
use thalweg::testing::TestLog;
use thalweg::{BoxError, Consumer, Log, Rebalance, RebalanceListener, TopicConfig, TopicPartition};

use super::{NOW, SECOND, in_time, join, log_with, make, panics, settle, t, usual};

/// Panics once for each time that it is armed.
#[derive(Clone, Default)]
struct Mine(Arc<AtomicBool>);

impl Mine {
    fn arm(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn is_armed(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    fn step_on(&self) {
        assert!(!self.0.swap(false, Ordering::SeqCst), "as the test wants");
    }
}

/// Its `assign` or its `name` panics.
struct Panicking {
    assign: Mine,
    name: Mine,
}

impl Assignor for Panicking {
    fn name(&self) -> &'static str {
        self.name.step_on();
        "panicking"
    }

    fn assign(&self, members: &[Member<'_>], topics: &[TopicSize<'_>]) -> Vec<Vec<TopicPartition>> {
        self.assign.step_on();
        usual().assign(members, topics)
    }
}

fn join_with(log: &Log, assign: &Mine, name: &Mine) -> Consumer {
    let builder = log.group("g").subscribe(["t"]);
    let (assign, name) = (assign.clone(), name.clone());
    builder.assignor(Panicking { assign, name }).join().unwrap()
}

#[test]
fn f106_an_assignor_that_panics_is_asked_again_whoever_asked_first() {
    in_time("assign", || {
        let log = log_with(4, 1);
        let (assign, name) = (Mine::default(), Mine::default());
        let mut a = join_with(&log, &assign, &name);
        assign.arm();
        panics(|| a.poll(NOW)); // its first
        assert_eq!(a.poll(NOW).unwrap().len(), 4);
        let mut b = join_with(&log, &assign, &name);
        for by in 0..3 {
            a.rebalance().unwrap();
            assign.arm();
            match by {
                0 => panics(|| a.poll(NOW)),
                1 => panics(|| b.poll(NOW)),
                _ => panics(|| log.group("g").describe()),
            }
            assert!(!assign.is_armed());
            settle(&mut [&mut a, &mut b], 4);
            assert_eq!(log.group("g").describe().unwrap().members.len(), 2);
        }
        drop(a);
        settle(&mut [&mut b], 4);
    });
}

#[test]
fn f106_an_assignor_whose_name_panics_keeps_who_joins_out_and_nobody_else() {
    in_time("name", || {
        let log = log_with(4, 1);
        let (assign, name) = (Mine::default(), Mine::default());
        let mut a = join_with(&log, &assign, &name);
        settle(&mut [&mut a], 4);
        name.arm();
        panics(|| join_with(&log, &assign, &name));
        let before = a.membership();
        settle(&mut [&mut a], 4);
        assert_eq!(a.membership(), before, "nothing has happened");
        let mut b = join_with(&log, &assign, &name);
        settle(&mut [&mut a, &mut b], 4);
        drop((a, b));
        assert!(log.groups().unwrap().is_empty());
    });
}

#[test]
fn f106_a_predicate_that_panics_is_asked_again_at_the_next_join_or_poll() {
    in_time("predicate", || {
        let log = log_with(2, 1);
        let mine = Mine::default();
        let join = || {
            let mine = mine.clone();
            let wanted = move |name: &str| {
                mine.step_on();
                name.starts_with('t')
            };
            log.group("g").subscribe_where(wanted).join().unwrap()
        };
        mine.arm();
        panics(join);
        assert!(log.groups().unwrap().is_empty(), "it is no member");
        let (mut a, mut b) = (join(), join());
        settle(&mut [&mut a, &mut b], 2);
        make(&log, "t2", 1, 1);
        mine.arm();
        panics(|| a.poll(NOW));
        for _ in 0..3 {
            let _ = (a.poll(NOW).unwrap(), b.poll(NOW).unwrap());
        }
        let all = [a.assignment(), b.assignment()].concat();
        assert!(all.contains(&TopicPartition::new("t2", 0)), "{all:?}");
        assert_eq!(all.len(), 3, "{all:?}");
    });
}

/// Panics in the callback of this name.
struct Listener(&'static str, Mine);

impl Listener {
    fn called(&self, callback: &str) {
        if callback == self.0 {
            self.1.step_on();
        }
    }
}

impl RebalanceListener for Listener {
    fn assigned(&mut self, _: &mut Rebalance<'_>, _: &[TopicPartition]) -> Result<(), BoxError> {
        self.called("assigned");
        Ok(())
    }

    fn revoked(&mut self, _: &mut Rebalance<'_>, _: &[TopicPartition]) -> Result<(), BoxError> {
        self.called("revoked");
        Ok(())
    }

    fn lost(&mut self, _: &[TopicPartition]) -> Result<(), BoxError> {
        self.called("lost");
        Ok(())
    }
}

/// Two members that share four partitions; the callback of the first one panics next.
fn about_to_panic(callback: &'static str, eager: bool) -> (TestLog, [Consumer; 2], Mine) {
    let test = TestLog::new();
    make(&test.log(), "t", 4, 1);
    let mine = Mine::default();
    let builder = || test.log().group("g").subscribe(["t"]).eager(eager);
    let listener = Listener(callback, mine.clone());
    let mut a = builder().listener(listener).join().unwrap();
    let mut b = builder().join().unwrap();
    settle(&mut [&mut a, &mut b], 4);
    mine.arm();
    (test, [a, b], mine)
}

#[test]
fn f106_a_listener_that_panics_while_partitions_move_loses_none_of_them() {
    for eager in [false, true] {
        for callback in ["assigned", "revoked", "lost"] {
            in_time(callback, move || {
                let (test, [mut a, mut b], mine) = about_to_panic(callback, eager);
                let log = test.log();
                let other = || log.group("g").subscribe(["t"]).eager(eager).join().unwrap();
                let mut others = Vec::new();
                match callback {
                    "lost" => test.fence(&a),
                    _ => others.extend([other(), other()]), // so that each of the first gives up one
                }
                panics(|| {
                    for _ in 0..4 {
                        let _ = (a.poll(NOW), b.poll(NOW));
                    }
                });
                assert!(!mine.is_armed());
                let mut all = vec![&mut a, &mut b];
                all.extend(&mut others);
                settle(&mut all, 4);
                drop((a, others));
                settle(&mut [&mut b], 4);
                b.commit().unwrap();
            });
        }
    }
}

#[test]
fn f106_a_listener_that_panics_while_its_member_goes_hands_over_all_the_same() {
    for way in ["close", "leave", "unsubscribe", "lost"] {
        in_time(way, move || {
            let callback = if way == "lost" { "lost" } else { "revoked" };
            let (test, [mut a, mut b], mine) = about_to_panic(callback, false);
            match way {
                "close" => panics(|| a.close()),
                "leave" => panics(|| a.leave()),
                "lost" => {
                    test.fence(&a);
                    panics(|| a.close());
                }
                _ => {
                    panics(|| a.unsubscribe());
                    // It is as it was before, and may try again.
                    settle(&mut [&mut a, &mut b], 4);
                    a.unsubscribe().unwrap();
                    assert!(a.assignment().is_empty());
                }
            }
            assert!(!mine.is_armed());
            settle(&mut [&mut b], 4);
        });
    }
}

/// A task whose waker panics.
struct Task(Mine);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.step_on();
    }
}

/// While this consumer sleeps as a task whose waker panics, `meanwhile` is done.
fn asleep(consumer: &mut Consumer, mine: &Mine, meanwhile: impl FnOnce()) {
    let waker = Waker::from(Arc::new(Task(mine.clone())));
    let _ = consumer.poll(NOW).unwrap(); // nothing is left to do
    let mut ready = pin!(consumer.ready());
    let slept = ready.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(slept.is_pending());
    mine.arm();
    meanwhile();
    mine.0.store(false, Ordering::SeqCst);
}

#[test]
fn f106_a_waker_that_panics_undoes_nothing_of_what_woke_it() {
    in_time("waker", || {
        let test = TestLog::new();
        let log = test.log();
        let partitions = make(&log, "t", 2, 0).partitions();
        let mine = Mine::default();
        let (mut a, mut b) = (join(&log), join(&log));
        settle(&mut [&mut a, &mut b], 2);
        // An append: the record is there, and so is the next one.
        asleep(&mut a, &mine, || panics(|| partitions[0].append(("", "x"))));
        partitions[0].append(("", "y")).unwrap();
        assert_eq!(a.poll(NOW).unwrap().len(), 2);
        // A topic is made.
        let config = TopicConfig::new;
        asleep(&mut a, &mine, || {
            panics(|| log.create_topic("u", config()));
        });
        assert!(log.topic("u").is_ok());
        log.create_topic("v", config()).unwrap();
        // Somebody wakes it by hand.
        let wake = a.wake_handle();
        asleep(&mut a, &mine, || panics(|| wake.wake()));
        assert!(a.next_batch().unwrap().is_none());
        // Time passes. (`due` is told by the clock of the test.)
        asleep(&mut a, &mine, || panics(|| test.advance(SECOND)));
        settle(&mut [&mut a, &mut b], 2);
        assert!(!mine.is_armed());
    });
}

#[test]
fn f106_a_waker_that_panics_when_members_come_and_go_leaves_the_group_working() {
    for event in ["join", "leave", "remove", "rebalance", "subscribe", "drop"] {
        in_time(event, move || {
            let log = log_with(2, 0);
            let mine = Mine::default();
            let (mut a, mut b) = (join(&log), join(&log));
            settle(&mut [&mut a, &mut b], 2);
            let id = b.membership().member().to_owned();
            let mut others = vec![b];
            asleep(&mut a, &mine, || match event {
                "join" => panics(|| join(&log)),
                "leave" => panics(|| others.pop().unwrap().leave()),
                "remove" => panics(|| log.group("g").remove_member(&id)),
                "rebalance" => panics(|| others[0].rebalance()),
                "subscribe" => panics(|| others[0].subscribe(["t", "u"])),
                // A drop that panics while nothing else does goes through as any other.
                _ => panics(|| drop(others.pop())),
            });
            // Whatever the call came to, there is a way on: the others poll, and those that nobody has are shut out by name.
            let _ = a.poll(NOW).unwrap();
            let known: Vec<String> = [&a]
                .into_iter()
                .chain(&others)
                .map(|of| of.membership().member().to_owned())
                .collect();
            for member in log.group("g").describe().unwrap().members {
                if !known.contains(&member.id) {
                    println!("{event}: {} was left behind", member.id);
                    log.group("g").remove_member(&member.id).unwrap();
                }
            }
            let mut all = vec![&mut a];
            all.extend(&mut others);
            settle(&mut all, 2);
            assert_eq!(t(0).topic(), "t");
        });
    }
}
