//! Members that sleep until there is something to look at. A ring that gets lost leaves somebody asleep, which is a deadlock here.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use super::*;
use crate::consumer::wake::WakeHandle;

#[test]
fn a_ring_at_any_moment_ends_a_park() {
    in_every_order(|| {
        let parker: Arc<Parker> = Arc::default();
        let news = Arc::new(Plain::new(false));
        let (bell, told) = (Arc::clone(&parker), Arc::clone(&news));
        let ringing = thread::spawn(move || {
            *told.lock().unwrap() = true;
            bell.ring();
        });
        loop {
            parker.arm();
            if *news.lock().unwrap() {
                break;
            }
            parker.park(None);
        }
        ringing.join().unwrap();
    });
}

#[test]
fn a_wake_at_any_moment_ends_a_park_and_is_told_once() {
    in_many_orders(|| {
        let parker: Arc<Parker> = Arc::default();
        let handle = WakeHandle {
            parker: Arc::clone(&parker),
        };
        let other = Arc::clone(&parker);
        let waking = thread::spawn(move || handle.wake());
        let ringing = thread::spawn(move || other.ring());
        loop {
            parker.arm();
            if parker.take_woken() {
                break;
            }
            parker.park(None);
        }
        waking.join().unwrap();
        ringing.join().unwrap();
        assert!(!parker.take_woken());
    });
}

/// Counts, and is no scheduler's business.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_task_sees_what_it_waits_for_or_is_woken_and_never_twice() {
    in_every_order(|| {
        let parker: Arc<Parker> = Arc::default();
        let news = Arc::new(AtomicBool::new(false));
        let (bell, told) = (Arc::clone(&parker), Arc::clone(&news));
        let ringing = thread::spawn(move || {
            told.store(true, Ordering::SeqCst);
            bell.ring();
            bell.ring();
        });
        let (first, second) = (Arc::<Count>::default(), Arc::<Count>::default());
        parker.arm_task(Some(Waker::from(Arc::clone(&first))));
        thread::yield_now();
        parker.arm_task(Some(Waker::from(Arc::clone(&second))));
        let saw = news.load(Ordering::SeqCst);
        ringing.join().unwrap();
        let (first, second) = (&first.0, &second.0);
        assert!(saw || second.load(Ordering::SeqCst) == 1, "it sleeps on");
        assert!(first.load(Ordering::SeqCst) <= 1 && second.load(Ordering::SeqCst) <= 1);
    });
}

#[test]
fn two_that_sleep_until_they_share_are_both_woken() {
    in_many_orders(|| {
        let ground = Ground::new(2);
        let mut a = ground.join(How::default());
        a.wait_for(2);
        let mut b = ground.join(How::default());
        let sleeping = thread::spawn(move || {
            b.wait_for(1);
            b
        });
        a.wait_for(1);
        let mut b = sleeping.join().unwrap();
        ground.is_settled_by(&mut [&mut a, &mut b]);
    });
}

#[test]
fn one_that_sleeps_is_woken_by_who_leaves() {
    in_many_orders(|| {
        let ground = Ground::new(2);
        let (mut a, mut b) = (ground.join(How::default()), ground.join(How::default()));
        ground.is_settled_by(&mut [&mut a, &mut b]);
        let leaving = thread::spawn(move || b.leave());
        a.wait_for(2);
        leaving.join().unwrap();
    });
}

/// Where all give up everything first, the last one to do so wakes those who wait to take.
#[test]
fn who_waits_for_all_to_give_up_is_woken_by_the_last() {
    in_many_orders(|| {
        let ground = Ground::new(3);
        let mut a = ground.join(EAGER);
        a.wait_for(3);
        let all = [a, ground.join(EAGER), ground.join(EAGER)];
        let sleeping = all.map(|mut reader| {
            thread::spawn(move || {
                reader.wait_for(1);
                reader
            })
        });
        let [mut a, mut b, mut c] = sleeping.map(|thread| thread.join().unwrap());
        ground.is_settled_by(&mut [&mut a, &mut b, &mut c]);
    });
}

#[test]
fn of_three_that_wait_to_give_up_and_take_one_may_leave() {
    in_many_orders(|| {
        let ground = Ground::new(2);
        let (mut a, mut b) = (ground.join(EAGER), ground.join(EAGER));
        ground.is_settled_by(&mut [&mut a, &mut b]);
        a.place.rebalance();
        // It never gives up: it goes instead, while the other waits for it.
        let leaving = thread::spawn(move || b.leave());
        a.wait_for(2);
        leaving.join().unwrap();
    });
}

/// Two threads wait for the same partition of a member that is shut out from outside.
#[test]
fn one_that_sleeps_is_woken_when_another_is_shut_out() {
    in_many_orders(|| {
        let ground = Ground::new(2);
        let (mut a, mut b) = (ground.join(How::default()), ground.join(How::default()));
        ground.is_settled_by(&mut [&mut a, &mut b]);
        ground.readers.lock().unwrap().retain(|_, id| *id != b.id); // it loses them at a time of its own
        let (coordinator, id) = (Arc::clone(&ground.coordinator), Arc::clone(&b.id));
        let removing = thread::spawn(move || coordinator.remove("g", &id, NOW).unwrap());
        a.wait_for(2);
        removing.join().unwrap();
        assert_eq!(b.fenced(), Some(FencedBy::Removed));
    });
}
