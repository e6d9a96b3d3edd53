//! F116: a task that waits for a consumer and is cancelled, at each place where it may be. No wake-up is lost, nothing is half done.

use std::future::{self, Future};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use thalweg::testing::TestLog;
use thalweg::{Consumer, Log, Offset, TopicConfig};

use super::{Bell, NOW, join, make, settle, t};

/// Polls once, with the waker of this bell.
fn step<F: Future + ?Sized>(task: Pin<&mut F>, bell: &Arc<Bell>) -> Poll<F::Output> {
    task.poll(&mut Context::from_waker(&bell.waker()))
}

fn alone(partitions: u32) -> (TestLog, Log, Consumer) {
    let test = TestLog::new();
    let log = test.log();
    make(&log, "t", partitions, 0);
    let mut consumer = join(&log);
    let _ = consumer.poll(NOW).unwrap();
    (test, log, consumer)
}

/// What a consumer waits for, one after the other.
const EVENTS: [&str; 7] = ["append", "join", "leave", "topic", "wake", "fence", "close"];

/// Makes it happen. What must live on is given back.
fn happen(event: &str, test: &TestLog, consumer: &Handles, other: Consumer) -> Option<Consumer> {
    let log = test.log();
    match event {
        "append" => drop(log.topic("t").unwrap().append(("", "x")).unwrap()),
        "join" => drop(log.group("g").subscribe(["t"]).join().unwrap()),
        "leave" => {
            other.leave().unwrap();
            return None;
        }
        "topic" => drop(log.create_topic("u", TopicConfig::new()).unwrap()),
        "wake" => consumer.wake.wake(),
        "fence" => log.group("g").remove_member(&consumer.id).unwrap(),
        _ => log.close().unwrap(),
    }
    Some(other)
}

struct Handles {
    wake: thalweg::WakeHandle,
    id: String,
}

impl Handles {
    fn of(consumer: &Consumer) -> Handles {
        Handles {
            wake: consumer.wake_handle(),
            id: consumer.membership().member().to_owned(),
        }
    }
}

/// A member that sleeps, beside another one that owns one of the two partitions.
fn two() -> (TestLog, Consumer, Consumer) {
    let (test, log, mut consumer) = alone(2);
    let mut other = join(&log);
    settle(&mut [&mut consumer, &mut other], 2);
    (test, consumer, other)
}

#[test]
fn f116_what_happens_between_two_waits_is_found_by_the_second() {
    for event in EVENTS {
        let (test, mut consumer, other) = two();
        let handles = Handles::of(&consumer);
        let bell = Arc::default();
        assert!(step(pin!(consumer.ready()), &bell).is_pending(), "{event}");
        // It is dropped by now.
        let _other = happen(event, &test, &handles, other);
        assert_eq!(bell.rings(), 0, "{event}: nobody waited");
        assert!(step(pin!(consumer.ready()), &bell).is_ready(), "{event}");
    }
}

#[test]
fn f116_of_two_tasks_that_wait_in_turn_the_last_one_is_woken() {
    for event in EVENTS {
        let (test, mut consumer, other) = two();
        let handles = Handles::of(&consumer);
        let (first, second) = (Arc::<Bell>::default(), Arc::<Bell>::default());
        let mut ready = pin!(consumer.ready());
        assert!(step(ready.as_mut(), &first).is_pending());
        assert!(step(ready.as_mut(), &second).is_pending());
        assert!(step(ready.as_mut(), &first).is_pending());
        assert!(step(ready.as_mut(), &second).is_pending());
        let _other = happen(event, &test, &handles, other);
        assert!(second.rings() > 0, "{event}");
        assert_eq!(first.rings(), 0, "{event}: it gave its place away");
        assert!(step(ready, &second).is_ready(), "{event}");
    }
}

/// Ready means that a poll does something; after it, there is a wait again.
#[test]
fn f116_what_woke_a_task_is_done_by_one_poll() {
    for event in ["append", "join", "leave", "topic", "wake", "fence"] {
        let (test, mut consumer, other) = two();
        let handles = Handles::of(&consumer);
        let bell = Arc::default();
        let mut other = happen(event, &test, &handles, other);
        for _ in 0..6 {
            if step(pin!(consumer.ready()), &bell).is_pending() {
                break;
            }
            let _ = consumer.poll(NOW);
            if let Some(other) = &mut other {
                let _ = other.poll(NOW);
            }
        }
        assert!(step(pin!(consumer.ready()), &bell).is_pending(), "{event}");
    }
}

/// A loop of a service; between any two of its steps there is an await at which it can be cancelled.
async fn serve(consumer: &mut Consumer, handled: &Mutex<Vec<u64>>) {
    consumer.seek_to_committed().unwrap(); // whoever was cancelled before may have dropped what it was given
    loop {
        consumer.ready().await;
        let batch = consumer.poll(NOW).unwrap();
        pause().await;
        for entry in &batch {
            handled.lock().unwrap().push(entry.offset().get());
            pause().await;
        }
        consumer.commit().unwrap();
        pause().await;
    }
}

/// Pending once.
fn pause() -> impl Future<Output = ()> {
    let mut paused = false;
    future::poll_fn(move |task| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        task.waker().wake_by_ref();
        Poll::Pending
    })
}

#[test]
fn f116_a_service_that_is_cancelled_at_any_await_skips_nothing() {
    for steps in 1..40 {
        let (_test, log, mut consumer) = alone(1);
        let topic = log.topic("t").unwrap();
        let handled = Mutex::new(Vec::new());
        for n in 0..6 {
            topic.append(("", "x")).unwrap();
            let mut task = Box::pin(serve(&mut consumer, &handled));
            for _ in 0..steps + n {
                assert!(step(task.as_mut(), &Arc::default()).is_pending());
            }
            drop(task);
            let done = consumer.committed(&t(0)).unwrap().map_or(0, Offset::get);
            let handled = handled.lock().unwrap();
            for offset in 0..done {
                assert!(handled.contains(&offset), "{offset} after {steps} steps");
            }
        }
        // Not cancelled any more, it comes to the end.
        let mut task = Box::pin(serve(&mut consumer, &handled));
        let bell = Arc::<Bell>::default();
        let mut rung = None;
        while rung != Some(bell.rings()) {
            rung = Some(bell.rings());
            assert!(step(task.as_mut(), &bell).is_pending());
        }
        drop(task);
        let done = consumer.committed(&t(0)).unwrap().unwrap().get();
        assert_eq!(done, 6, "after {steps} steps");
    }
}

/// A task that waits and is never polled again does not keep its member from being shut out; one that waits is not silent.
#[test]
fn f116_a_wait_that_is_dropped_counts_as_silence_from_then_on() {
    let (test, _log, mut consumer) = alone(1);
    let bell = Arc::default();
    let minute = std::time::Duration::from_secs(60);
    let mut ready = Box::pin(consumer.ready());
    assert!(step(ready.as_mut(), &bell).is_pending());
    test.advance(20 * minute); // it waits
    drop(ready);
    consumer.commit().unwrap();
    test.advance(4 * minute);
    consumer.commit().unwrap();
    test.advance(minute);
    let late = consumer.commit();
    assert!(
        matches!(late, Err(thalweg::Error::Fenced { .. })),
        "{late:?}"
    );
}
