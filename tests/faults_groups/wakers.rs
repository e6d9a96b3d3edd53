//! F107 for wakers: an executor may run a task at once, on the thread that wakes it. Whatever woke it holds no lock over it.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use thalweg::testing::{Call, TestLog};
use thalweg::{
    Consumer, Durability, Error, Log, Offset, Record, Retention, Timestamp, TopicConfig,
};

use super::{NOW, SECOND, in_time, join, make, settle};

/// Does something when it is woken, once.
struct Task {
    log: Log,
    deed: &'static str,
    other: Mutex<Option<Consumer>>,
    done: AtomicBool,
}

const DEEDS: [&str; 10] = [
    "append", "roll", "read", "join", "commit", "topic", "describe", "delete", "recover",
    "maintain",
];

impl Task {
    fn act(&self) -> Result<(), Error> {
        let topic = self.log.topic("t")?;
        match self.deed {
            "append" => match topic.append(("", "from the waker")) {
                Err(Error::Poisoned { .. }) => Ok(()), // it is what it was woken for
                appended => appended.map(drop),
            },
            "roll" => match topic.partition(0)?.roll() {
                Err(Error::Poisoned { .. }) => Ok(()),
                rolled => rolled,
            },
            "read" => topic
                .partition(0)?
                .entries(..)
                .try_for_each(|of| of.map(drop)),
            "join" => {
                let mut member = self.log.group("g").subscribe(["t"]).join()?;
                member.poll(NOW).map(drop)
            }
            "commit" => self.other.lock().unwrap().as_mut().unwrap().commit(),
            "topic" => self.log.create_topic("new", TopicConfig::new()).map(drop),
            "delete" => match topic.partition(0)?.delete_before(Offset::new(1)) {
                Err(Error::Poisoned { .. }) => Ok(()),
                deleted => deleted,
            },
            "recover" => topic.partition(0)?.recover().map(drop),
            "maintain" => match self.log.maintain() {
                Err(Error::Poisoned { .. }) => Ok(()),
                maintained => maintained.map(drop),
            },
            _ => self.log.group("g").describe().map(drop),
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if !self.done.swap(true, Ordering::SeqCst) {
            self.act().unwrap();
        }
    }
}

/// A member sleeps as a task that does this deed when it is woken; then it is woken so.
fn story(level: Durability, wakes: &str, deed: &'static str) {
    let test = TestLog::new();
    let log = test.log();
    let config = TopicConfig::new()
        .partitions(1)
        .durability(level)
        .retention(Retention::new().age(3600 * SECOND));
    let topic = log.create_topic("t", config).unwrap();
    let first = Record::new("", "x");
    let first = match wakes {
        "failed pass" => first.at(Timestamp::from_millis(0)), // too old: the last segment is to end, and go
        _ => first,
    };
    topic.append(first).unwrap();
    let mut stranger = log.group("h").subscribe(["t"]).join().unwrap();
    let _ = stranger.poll(NOW).unwrap();
    let (mut consumer, mut second) = (join(&log), join(&log));
    settle(&mut [&mut consumer, &mut second], 1);
    let id = second.membership().member().to_owned();
    let handle = consumer.wake_handle();
    let task = Arc::new(Task {
        log: log.clone(),
        deed,
        other: Mutex::new(Some(stranger)),
        done: AtomicBool::new(false),
    });
    let waker = Waker::from(Arc::clone(&task));
    let mut ready = pin!(consumer.ready());
    let slept = ready.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(slept.is_pending());
    match wakes {
        "append" => drop(topic.append(("", "y")).unwrap()),
        "failed sync" => {
            test.fail_next(Call::Sync, std::io::ErrorKind::Other);
            let _ = topic.append(("", "y"));
            let _ = log.sync();
        }
        "failed delete" => {
            test.fail_next(Call::Sync, std::io::ErrorKind::Other);
            let deleted = topic.partition(0).unwrap().delete_before(Offset::new(1));
            assert!(deleted.is_err());
        }
        "failed pass" => {
            test.fail_next(Call::Sync, std::io::ErrorKind::Other);
            assert!(log.maintain().is_err());
        }
        "topic" => drop(make(&log, "u", 1, 0)),
        "join" => drop(join(&log)),
        "rebalance" => second.rebalance().unwrap(),
        "remove" => log.group("g").remove_member(&id).unwrap(),
        "clock" => test.advance(SECOND),
        "leave" => second.leave().unwrap(),
        _ => handle.wake(),
    }
    assert!(task.done.load(Ordering::SeqCst), "it was not woken");
}

#[test]
fn f107_a_task_that_members_wake_may_run_at_once() {
    let wakers = ["join", "leave", "rebalance", "remove", "handle", "clock"];
    for wakes in wakers {
        for deed in DEEDS {
            let what = format!("{deed} when woken by {wakes}");
            in_time(&what, move || story(Durability::Process, wakes, deed));
        }
    }
}

#[test]
fn f107_a_task_that_a_new_topic_wakes_may_run_at_once() {
    for deed in DEEDS {
        let what = format!("{deed} when woken by a new topic");
        in_time(&what, move || story(Durability::Process, "topic", deed));
    }
}

const LEVELS: [Durability; 2] = [Durability::Process, Durability::Power];

#[test]
fn f107_a_task_that_an_append_wakes_may_run_at_once() {
    for level in LEVELS {
        for deed in DEEDS {
            let what = format!("{deed} when woken by an append at {level:?}");
            in_time(&what, move || story(level, "append", deed));
        }
    }
}

/// Nothing is locked when it is told: neither the partition's pass over its segments nor the upkeep.
#[test]
fn f107_a_task_that_a_failed_delete_or_pass_wakes_may_run_at_once() {
    for level in LEVELS {
        for wakes in ["failed delete", "failed pass"] {
            for deed in DEEDS {
                let what = format!("{deed} when woken by a {wakes} at {level:?}");
                in_time(&what, move || story(level, wakes, deed));
            }
        }
    }
}

#[test]
fn f107_a_task_that_a_failed_sync_wakes_may_run_at_once() {
    for level in LEVELS {
        for deed in DEEDS {
            let what = format!("{deed} when woken by a failed sync at {level:?}");
            in_time(&what, move || story(level, "failed sync", deed));
        }
    }
}
