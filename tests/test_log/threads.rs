//! Threads that wait, on a log that was made `blocking`.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use thalweg::testing::TestLog;
use thalweg::{Consumer, Durability, Error, Offset, Result};

use crate::{EVERY_WAY, SECOND, append, at, join, poll, topic, values};

/// A consumer that polls in a thread of its own until it is told to stop, and tells what each poll gave.
fn polling<'s>(
    threads: &'s thread::Scope<'s, '_>,
    mut kitchen: Consumer,
    timeout: Duration,
) -> mpsc::Receiver<Result<usize>> {
    let (told, polls) = mpsc::channel();
    threads.spawn(move || {
        loop {
            let polled = kitchen.poll(timeout).map(|batch| batch.len());
            let goes_on = polled.is_ok();
            if told.send(polled).is_err() || !goes_on {
                return;
            }
        }
    });
    polls
}

#[test]
fn a_blocked_poll_ends_with_a_record_with_a_wake_and_with_a_crash() {
    let test = TestLog::new().blocking();
    let topic = topic(&test, Durability::Power);
    for survives in EVERY_WAY {
        let kitchen = join(&test);
        let wake = kitchen.wake_handle();
        thread::scope(|threads| {
            let polls = polling(threads, kitchen, Duration::MAX);
            append(&test.log().topic("orders").unwrap(), 0..1);
            assert!(polls.recv().unwrap().unwrap() > 0);
            wake.wake();
            let ended = polls.iter().find(Result::is_err).unwrap();
            assert!(matches!(ended, Err(Error::Woken)));
        });
        let kitchen = join(&test);
        thread::scope(|threads| {
            let polls = polling(threads, kitchen, Duration::MAX);
            assert!(polls.recv().unwrap().unwrap() > 0); // what was read is not committed
            test.crash(survives).unwrap();
            let ended = polls.iter().find(Result::is_err).unwrap();
            assert!(matches!(ended, Err(Error::Closed)));
        });
    }
    drop(topic);
}

#[test]
fn a_blocked_poll_ends_when_the_clock_has_moved_by_its_timeout_and_not_before() {
    let test = TestLog::new().blocking();
    topic(&test, Durability::Power);
    let kitchen = join(&test);
    let wake = kitchen.wake_handle();
    thread::scope(|threads| {
        let polls = polling(threads, kitchen, 5 * SECOND);
        // When the other thread's poll begins cannot be known, so time is moved until one has ended: at most 5 s had passed in it.
        let mut moved = Duration::ZERO;
        for _ in 0..3 {
            let mut ended = None;
            while ended.is_none() {
                test.advance(SECOND);
                moved += SECOND;
                ended = polls.try_recv().ok();
            }
            assert_eq!(ended.unwrap().unwrap(), 0);
        }
        assert!(moved >= 15 * SECOND);
        wake.wake();
        while polls.recv().unwrap().is_ok() {}
    });
}

#[test]
fn a_blocked_poll_of_no_time_does_not_wait() {
    let test = TestLog::new().blocking();
    topic(&test, Durability::Power);
    assert_eq!(poll(&mut join(&test)), [0; 0]);
}

#[test]
fn a_blocked_service_loop_serves_what_other_threads_write_and_ends_when_it_is_woken() {
    let test = TestLog::new().blocking();
    let topic = topic(&test, Durability::Power);
    let mut kitchen = join(&test);
    let wake = kitchen.wake_handle();
    let (served, tally) = mpsc::channel();
    thread::scope(|threads| {
        threads.spawn(move || {
            while let Some(batch) = kitchen.next_batch().unwrap() {
                for order in &batch {
                    served.send(order.offset().get()).unwrap();
                }
                kitchen.commit().unwrap();
            }
            kitchen.close().unwrap();
        });
        for writer in 0..2 {
            let topic = &topic;
            threads.spawn(move || append(topic, writer * 50..writer * 50 + 50));
        }
        let offsets: Vec<u64> = tally.iter().take(100).collect();
        assert_eq!(offsets, (0..100).collect::<Vec<_>>());
        wake.wake();
    });
    let committed = test.log().group("kitchen").committed().unwrap();
    assert_eq!(committed.next(&at()), Some(Offset::new(100)));
}

#[test]
fn an_append_that_was_acknowledged_to_a_thread_before_the_crash_is_there_after_it() {
    for seed in 0..10 {
        let test = TestLog::seeded(seed);
        let topic = topic(&test, Durability::Power);
        let (told, acknowledged) = mpsc::channel();
        let last = thread::scope(|threads| {
            threads.spawn(move || {
                for n in 0.. {
                    match topic.append(("customer-7", &u32::to_string(&n))) {
                        Ok(position) => told.send(position.offset().get()).unwrap(),
                        Err(_) => return,
                    }
                }
            });
            acknowledged.recv().unwrap();
            test.crash(EVERY_WAY[seed as usize % 4]).unwrap();
            acknowledged.iter().last().unwrap_or(0)
        });
        let found = values(&test);
        assert_eq!(found, (0..found.len() as u32).collect::<Vec<_>>());
        assert!(found.len() as u64 > last, "seed {seed}: {last} is missing");
    }
}
