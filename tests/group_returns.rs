//! Members that come back into a group that has changed meanwhile, and consumers whose topics do.

#[path = "common/groups.rs"]
mod groups;

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Waker};
use std::time::Duration;

use groups::{NOW, append, at, group, log_with, make, owned, poll, settle};
use thalweg::assignor::{Assignor, CooperativeSticky, Member, TopicSize};
use thalweg::testing::{Call, Disk, DiskCall, DiskError, FailedSync, Fault, ManualClock, TestLog};
use thalweg::{
    Consumer, ConsumerBuilder, ConsumerGroup, Error, Log, Offset, StartFrom, TopicConfig,
    TopicPartition,
};

const SECOND: Duration = Duration::from_secs(1);

fn named(test: &TestLog) -> ConsumerBuilder {
    let builder = group(test).subscribe(["orders", "bills"]);
    builder.instance_id("a")
}

fn is_ready(consumer: &mut Consumer) -> bool {
    let ready = pin!(consumer.ready());
    ready
        .poll(&mut Context::from_waker(Waker::noop()))
        .is_ready()
}

// ── a static member and its place

#[test]
fn a_static_member_that_comes_back_finds_topics_that_grew_and_topics_that_came() {
    let test = log_with(2, 0);
    let mut member = named(&test).join().unwrap();
    poll(&mut member);
    member.close().unwrap();
    let orders = test.log().topic("orders").unwrap();
    orders.add_partitions_breaking_key_order(2).unwrap();
    append(&test, "orders", 4);
    make(&test, "bills", 1, 1);
    let mut member = named(&test).join().unwrap();
    assert_eq!(poll(&mut member).len(), 5);
    assert_eq!(member.assignment().len(), 5);
}

#[test]
fn a_static_member_that_comes_back_finds_a_topic_that_was_made_again() {
    let test = log_with(1, 3);
    let mut member = named(&test).join().unwrap();
    poll(&mut member);
    member.close().unwrap();
    test.log().delete_topic("orders").unwrap();
    make(&test, "orders", 1, 1);
    let mut member = named(&test).join().unwrap();
    assert_eq!(poll(&mut member), [(0, 0)]);
}

type Doing = Box<dyn FnMut() + Send>;

/// Does something, once, while it is asked who reads what.
#[derive(Clone, Default)]
struct Busy {
    now: Arc<AtomicBool>,
    doing: Arc<Mutex<Option<Doing>>>,
}

impl Assignor for Busy {
    fn name(&self) -> &'static str {
        "busy"
    }

    fn assign(&self, members: &[Member<'_>], topics: &[TopicSize<'_>]) -> Vec<Vec<TopicPartition>> {
        if self.now.swap(false, Ordering::SeqCst) {
            let doing = self.doing.lock().unwrap().take();
            if let Some(mut what) = doing {
                what();
            }
        }
        CooperativeSticky.assign(members, topics)
    }
}

#[test]
fn a_static_member_that_comes_back_while_the_assignor_is_asked_gets_all_that_is_free() {
    let test = log_with(4, 4);
    let busy = Busy::default();
    let group = group(&test);
    let join = |group: &ConsumerGroup, busy: &Busy, name: Option<&str>| {
        let builder = group.subscribe(["orders"]).assignor(busy.clone());
        let builder = match name {
            Some(name) => builder.instance_id(name),
            None => builder,
        };
        builder.join().unwrap()
    };
    let mut old = join(&group, &busy, Some("a"));
    let mut other = join(&group, &busy, None);
    settle(&mut [&mut old, &mut other]);
    let new: Arc<Mutex<Option<Consumer>>> = Arc::default();
    let rejoin = {
        let (new, busy) = (Arc::clone(&new), busy.clone());
        move || *new.lock().unwrap() = Some(join(&group, &busy, Some("a")))
    };
    *busy.doing.lock().unwrap() = Some(Box::new(rejoin));
    drop(other);
    busy.now.store(true, Ordering::SeqCst);
    old.poll(NOW).unwrap_err();
    let mut new = new.lock().unwrap().take().expect("it joined");
    poll(&mut new);
    assert_eq!(owned(&new), [0, 1, 2, 3]);
}

/// Looks at all groups when it is dropped.
struct Curious(Log, mpsc::Sender<()>);

impl Assignor for Curious {
    fn name(&self) -> &'static str {
        "curious"
    }

    fn assign(&self, members: &[Member<'_>], topics: &[TopicSize<'_>]) -> Vec<Vec<TopicPartition>> {
        CooperativeSticky.assign(members, topics)
    }
}

impl Drop for Curious {
    fn drop(&mut self) {
        self.0.groups().unwrap();
        self.1.send(()).unwrap();
    }
}

#[test]
fn an_assignor_is_dropped_when_nothing_is_locked() {
    let test = log_with(1, 0);
    let (dropped, seen) = mpsc::channel();
    let builder = named(&test).assignor(Curious(test.log(), dropped));
    builder.join().unwrap().close().unwrap();
    test.advance(45 * SECOND);
    let log = test.log();
    std::thread::spawn(move || log.groups());
    seen.recv_timeout(10 * SECOND).expect("it never came back");
}

// ── shut out between two looks

#[test]
fn who_is_shut_out_while_it_looks_at_topics_brings_none_into_the_group() {
    let test = log_with(1, 5);
    let group = group(&test);
    let _keeps_the_group = group.subscribe(["later"]).join().unwrap();
    let victim: Arc<Mutex<Option<String>>> = Arc::default();
    let (of, who) = (group.clone(), Arc::clone(&victim));
    let builder = group.subscribe_where(move |name| {
        if let Some(id) = who.lock().unwrap().take() {
            of.remove_member(&id).unwrap();
        }
        name == "orders"
    });
    let mut member = builder.start_from(StartFrom::Latest).join().unwrap();
    assert!(poll(&mut member).is_empty());
    *victim.lock().unwrap() = Some(member.membership().member().to_owned());
    make(&test, "other", 1, 0);
    for _ in 0..5 {
        assert!(poll(&mut member).is_empty(), "nothing came after it joined");
    }
}

// ── ready, or not

#[test]
fn who_waits_for_a_target_that_is_due_is_ready_whoever_looked_first() {
    let clock = ManualClock::new();
    let builder = Log::builder().clock(&clock).initial_rebalance_delay(SECOND);
    let log = builder.in_memory().unwrap();
    log.create_topic("orders", TopicConfig::new()).unwrap();
    let mut member = log.group("g").subscribe(["orders"]).join().unwrap();
    poll(&mut member);
    assert!(!is_ready(&mut member));
    clock.advance(SECOND);
    log.groups().unwrap();
    assert!(is_ready(&mut member));
}

#[test]
fn nobody_is_ready_for_a_topic_of_which_it_is_not_known_whether_it_is_deleted() {
    let disk = Disk::new();
    let log = Log::builder().open_on(&disk).unwrap();
    let orders = log.create_topic("orders", TopicConfig::new()).unwrap();
    let mut member = log.group("g").subscribe(["orders"]).join().unwrap();
    poll(&mut member);
    orders.append(("", "x")).unwrap();
    let undecided = Fault::sync(DiskCall::SyncData, FailedSync::Keep, DiskError::Io);
    disk.fail(undecided.on("CATALOGUE"));
    let deleted = log.delete_topic("orders");
    assert!(matches!(deleted, Err(Error::Indeterminate { .. })));
    poll(&mut member);
    assert!(!is_ready(&mut member));
}

// ── commits by themselves

#[test]
fn an_automatic_commit_follows_a_seek_in_what_was_not_read_yet() {
    let test = log_with(1, 10);
    let builder = group(&test).subscribe(["orders"]).auto_commit(SECOND);
    let mut member = builder.start_from(StartFrom::Latest).join().unwrap();
    assert!(poll(&mut member).is_empty());
    member.seek(&at(0).at(Offset::new(3))).unwrap();
    member.close().unwrap();
    assert_eq!(
        group(&test).committed().unwrap().next(&at(0)),
        Some(Offset::new(3))
    );
}

#[test]
fn an_automatic_commit_that_failed_is_tried_again_an_interval_later() {
    let test = log_with(1, 4);
    let builder = group(&test).subscribe(["orders"]).auto_commit(SECOND);
    let mut member = builder.join().unwrap();
    assert_eq!(poll(&mut member).len(), 4);
    test.advance(SECOND);
    test.fail_next(Call::Commit, std::io::ErrorKind::StorageFull);
    assert!(matches!(member.poll(NOW), Err(Error::NoSpace { .. })));
    assert!(poll(&mut member).is_empty());
    assert!(!is_ready(&mut member), "not yet");
    test.advance(SECOND);
    assert!(is_ready(&mut member), "it is due again");
    poll(&mut member);
    assert_eq!(member.committed(&at(0)).unwrap(), Some(Offset::new(4)));
    assert!(!is_ready(&mut member));
}

#[test]
fn what_was_finished_after_an_automatic_commit_is_due_all_the_same() {
    let test = log_with(1, 4);
    let builder = group(&test).subscribe(["orders"]).auto_commit(SECOND);
    let mut member = builder.join().unwrap();
    let mut taken = member.poll(NOW).unwrap().into_iter();
    taken.next();
    test.advance(SECOND);
    assert!(poll(&mut member).is_empty());
    taken.for_each(drop);
    test.advance(SECOND);
    assert!(is_ready(&mut member));
    poll(&mut member);
    assert_eq!(member.committed(&at(0)).unwrap(), Some(Offset::new(4)));
}
