//! Corners of groups: who was shut out and comes back, wakers that do what they should not, two who ask at once, topics that nearly go.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use thalweg::assignor::{Assignor, CooperativeSticky, Member, TopicSize};
use thalweg::testing::{Disk, DiskCall, DiskError, Fault, ManualClock, TestLog};
use thalweg::{
    BoxError, Consumer, ConsumerGroup, Log, Offset, Rebalance, RebalanceListener, StartFrom,
    TopicConfig, TopicPartition,
};

const NOW: Duration = Duration::ZERO;
const TOO_LONG: Duration = Duration::from_secs(301);

fn log_with(partitions: u32) -> TestLog {
    let test = TestLog::new();
    make(&test.log(), "orders", partitions);
    test
}

fn make(log: &Log, topic: &str, partitions: u32) {
    let config = TopicConfig::new().partitions(partitions);
    log.create_topic(topic, config).unwrap();
}

fn append(log: &Log, topic: &str, partition: u32) {
    let topic = log.topic(topic).unwrap();
    let partition = topic.partition(partition).unwrap();
    partition.append(("", "x")).unwrap();
}

fn poll(consumer: &mut Consumer) -> usize {
    consumer.poll(NOW).unwrap().len()
}

fn join(group: &ConsumerGroup) -> Consumer {
    group.subscribe(["orders"]).join().unwrap()
}

/// Polls all until nobody's partitions change.
fn settle(members: &mut [&mut Consumer]) {
    for _ in 0..3 {
        for member in members.iter_mut() {
            poll(member);
        }
    }
}

/// Names what it is told.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<&'static str>>>);

impl Told {
    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl RebalanceListener for Told {
    fn assigned(&mut self, _: &mut Rebalance<'_>, _: &[TopicPartition]) -> Result<(), BoxError> {
        self.0.lock().unwrap().push("assigned");
        Ok(())
    }

    fn revoked(&mut self, _: &mut Rebalance<'_>, _: &[TopicPartition]) -> Result<(), BoxError> {
        self.0.lock().unwrap().push("revoked");
        Ok(())
    }

    fn lost(&mut self, _: &[TopicPartition]) -> Result<(), BoxError> {
        self.0.lock().unwrap().push("lost");
        Ok(())
    }
}

// ── shut out, and back

#[test]
fn who_comes_back_asks_its_predicate_again() {
    let test = log_with(1);
    let builder = test
        .log()
        .group("g")
        .subscribe_where(|name| name.starts_with("orders"));
    let mut member = builder.join().unwrap();
    poll(&mut member);
    test.advance(TOO_LONG);
    make(&test.log(), "orders-eu", 1);
    append(&test.log(), "orders-eu", 0);
    assert_eq!(poll(&mut member), 1);
    assert_eq!(member.subscription(), ["orders", "orders-eu"]);
}

#[test]
fn who_was_shut_out_before_it_owned_anything_begins_where_it_joined() {
    let test = log_with(1);
    let group = test.log().group("g");
    let builder = group.subscribe(["orders", "later"]);
    let mut member = builder.start_from(StartFrom::Latest).join().unwrap();
    append(&test.log(), "orders", 0);
    test.advance(TOO_LONG);
    make(&test.log(), "later", 1);
    append(&test.log(), "later", 0); // it has waited for this topic: from the first record
    assert_eq!(poll(&mut member), 2);
}

/// Shuts out the first member, once, while it is asked who reads what.
struct Removing(ConsumerGroup, Arc<AtomicBool>);

impl Assignor for Removing {
    fn name(&self) -> &'static str {
        "removing"
    }

    fn assign(&self, members: &[Member<'_>], topics: &[TopicSize<'_>]) -> Vec<Vec<TopicPartition>> {
        if self.1.swap(false, Ordering::SeqCst) {
            self.0.remove_member(members[0].id).unwrap();
        }
        CooperativeSticky.assign(members, topics)
    }
}

#[test]
fn who_is_shut_out_within_its_own_poll_has_lost_and_does_not_give_up() {
    let test = log_with(2);
    let group = test.log().group("g");
    let (now, told) = (Arc::new(AtomicBool::new(false)), Told::default());
    let removing = || Removing(group.clone(), Arc::clone(&now));
    let builder = group.subscribe(["orders"]).assignor(removing());
    let mut first = builder.listener(told.clone()).join().unwrap();
    let mut second = group
        .subscribe(["orders"])
        .assignor(removing())
        .join()
        .unwrap();
    settle(&mut [&mut first, &mut second]);
    told.take();
    first.rebalance().unwrap();
    now.store(true, Ordering::SeqCst);
    poll(&mut first);
    poll(&mut first);
    assert_eq!(told.take(), ["lost", "assigned"]);
}

#[test]
fn places_of_the_gone_are_given_up_though_nobody_looks_at_their_groups() {
    let test = log_with(1);
    for n in 0..100 {
        let group = test.log().group(&format!("g{n}"));
        let member = group.subscribe(["orders"]).instance_id("a").join().unwrap();
        member.close().unwrap();
    }
    assert_eq!(test.log().groups().unwrap().len(), 100);
    test.advance(Duration::from_secs(45));
    assert!(test.log().groups().unwrap().is_empty());
}

#[test]
fn topics_that_only_a_replaced_member_wanted_are_forgotten() {
    let test = log_with(1);
    make(&test.log(), "bills", 1);
    let group = test.log().group("g");
    let of = |topic: &str| group.subscribe([topic]).instance_id("a").join().unwrap();
    let mut old = of("bills");
    poll(&mut old);
    let mut new = of("orders");
    poll(&mut new);
    let lags = group.lag().unwrap();
    assert_eq!(lags, [(TopicPartition::new("orders", 0), 0)]);
}

// ── wakers

fn sleeping(
    member: &mut Consumer,
    waker: Arc<impl Wake + Send + Sync + 'static>,
) -> impl Future<Output = ()> + '_ {
    let mut ready = Box::pin(member.ready());
    let waker = Waker::from(waker);
    let asleep = ready.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(asleep.is_pending());
    ready
}

/// Looks at the group where it is woken.
struct Looks(ConsumerGroup, AtomicUsize);

impl Wake for Looks {
    fn wake(self: Arc<Self>) {
        self.0.describe().unwrap();
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        std::panic::resume_unwind(Box::new("the waker"));
    }
}

/// F106.
#[test]
fn f106_a_waker_is_called_when_nothing_is_locked() {
    let test = log_with(2);
    let group = test.log().group("g");
    let mut first = join(&group);
    poll(&mut first);
    let looks = Arc::new(Looks(group.clone(), AtomicUsize::new(0)));
    let ready = sleeping(&mut first, Arc::clone(&looks));
    let mut second = join(&group);
    assert_eq!(looks.1.load(Ordering::SeqCst), 1);
    drop(ready);
    settle(&mut [&mut first, &mut second]);

    let id = first.membership().member().to_owned();
    let ready = sleeping(&mut first, Arc::new(Panics));
    let removed = catch_unwind(AssertUnwindSafe(|| group.remove_member(&id)));
    assert!(removed.is_err());
    drop(ready);
    drop(first);
    settle(&mut [&mut second]);
    assert_eq!(
        second.assignment().len(),
        2,
        "what the removed one read is read"
    );
}

#[test]
fn who_sleeps_is_woken_when_the_time_of_another_runs_out_earlier() {
    let test = log_with(2);
    let group = test.log().group("g");
    let mut sleeper = join(&group);
    let builder = group.subscribe(["orders"]).instance_id("a");
    let mut short = builder
        .session_timeout(Duration::from_secs(1))
        .join()
        .unwrap();
    settle(&mut [&mut sleeper, &mut short]);
    let looks = Arc::new(Looks(group.clone(), AtomicUsize::new(0)));
    let ready = sleeping(&mut sleeper, Arc::clone(&looks));
    drop(short);
    assert_eq!(looks.1.load(Ordering::SeqCst), 1);
    drop(ready);
}

#[test]
fn nobody_is_ready_while_the_group_waits_for_its_first_members() {
    let clock = ManualClock::new();
    let delay = Duration::from_secs(3);
    let builder = Log::builder().clock(&clock).initial_rebalance_delay(delay);
    let log = builder.in_memory().unwrap();
    make(&log, "orders", 1);
    let mut member = join(&log.group("g"));
    poll(&mut member);
    let mut task = Context::from_waker(Waker::noop());
    assert!(pin!(member.ready()).poll(&mut task).is_pending());
    clock.advance(delay);
    assert!(pin!(member.ready()).poll(&mut task).is_ready());
    poll(&mut member);
    assert_eq!(member.assignment().len(), 1);
}

// ── two at once

/// Answers only when two are asking.
struct Together(Arc<Barrier>, Arc<AtomicBool>);

impl Assignor for Together {
    fn name(&self) -> &'static str {
        "together"
    }

    fn assign(&self, members: &[Member<'_>], topics: &[TopicSize<'_>]) -> Vec<Vec<TopicPartition>> {
        if self.1.load(Ordering::SeqCst) {
            self.0.wait();
        }
        CooperativeSticky.assign(members, topics)
    }
}

#[test]
fn one_change_is_one_generation_however_many_ask_at_once() {
    let test = log_with(2);
    let group = test.log().group("g");
    let (both, slow) = (Arc::new(Barrier::new(2)), Arc::new(AtomicBool::new(false)));
    let member = || {
        let assignor = Together(Arc::clone(&both), Arc::clone(&slow));
        group
            .subscribe(["orders"])
            .assignor(assignor)
            .join()
            .unwrap()
    };
    let (mut first, mut second) = (member(), member());
    settle(&mut [&mut first, &mut second]);
    let before = first.membership().generation();
    first.rebalance().unwrap();
    slow.store(true, Ordering::SeqCst);
    std::thread::scope(|threads| {
        threads.spawn(|| poll(&mut first));
        threads.spawn(|| poll(&mut second));
    });
    slow.store(false, Ordering::SeqCst);
    settle(&mut [&mut first, &mut second]);
    assert_eq!(first.membership().generation(), before + 1);
    assert_eq!(second.membership().generation(), before + 1);
}

// ── commits by themselves

#[test]
fn an_unfinished_batch_is_not_committed_while_the_next_poll_waits() {
    let log = Log::in_memory();
    make(&log, "orders", 1);
    (0..5).for_each(|_| append(&log, "orders", 0));
    let builder = log.group("g").subscribe(["orders"]);
    let mut member = builder
        .auto_commit(Duration::from_millis(1))
        .join()
        .unwrap();
    let mut taken = member.poll(NOW).unwrap().into_iter();
    taken.next();
    let _ = member.poll(Duration::from_millis(20)).unwrap();
    let at = TopicPartition::new("orders", 0);
    let before = member.committed(&at).unwrap();
    assert_eq!(
        before,
        Some(Offset::ZERO),
        "what was returned before the batch"
    );
    let _ = member.poll(Duration::from_millis(20)).unwrap();
    assert_eq!(
        member.committed(&at).unwrap(),
        Some(Offset::new(5)),
        "that one counts it as returned"
    );
}

#[test]
fn what_was_not_committed_since_it_would_go_backwards_still_can_be() {
    let test = log_with(1);
    (0..5).for_each(|_| append(&test.log(), "orders", 0));
    let builder = test.log().group("g").subscribe(["orders"]).auto_commit(NOW);
    let mut member = builder.join().unwrap();
    let at = TopicPartition::new("orders", 0);
    poll(&mut member);
    poll(&mut member);
    assert_eq!(member.committed(&at).unwrap(), Some(Offset::new(5)));
    member.pause(std::slice::from_ref(&at)).unwrap();
    member.seek(&at.at(Offset::new(2))).unwrap();
    poll(&mut member);
    assert_eq!(member.committed(&at).unwrap(), Some(Offset::new(5)));
    member.commit().unwrap();
    assert_eq!(member.committed(&at).unwrap(), Some(Offset::new(2)));
}

// ── a topic that nearly goes

/// Joins while the topic's deletion is under way.
struct Joins(ConsumerGroup, Mutex<Option<Consumer>>);

impl Wake for Joins {
    fn wake(self: Arc<Self>) {
        let mut joined = self.1.lock().unwrap();
        joined.get_or_insert_with(|| {
            let builder = self.0.subscribe(["orders"]);
            builder.start_from(StartFrom::Ago(TOO_LONG)).join().unwrap()
        });
    }
}

#[test]
fn a_topic_whose_deletion_fails_keeps_its_readers_one_for_each_partition() {
    let disk = Disk::new();
    let log = Log::builder().open_on(&disk).unwrap();
    make(&log, "orders", 6);
    let group = log.group("g");
    let mut first = join(&group);
    poll(&mut first);
    let joins = Arc::new(Joins(group.clone(), Mutex::default()));
    let ready = sleeping(&mut first, Arc::clone(&joins));
    disk.fail(Fault::error(DiskCall::Write, DiskError::NoSpace).on("CATALOGUE"));
    log.delete_topic("orders").unwrap_err();
    drop(ready);
    let mut second = joins.1.lock().unwrap().take().expect("it joined meanwhile");
    poll(&mut second);
    assert_eq!(
        (first.assignment().len(), second.assignment().len()),
        (6, 0)
    );
    settle(&mut [&mut first, &mut second]);
    assert_eq!(
        (first.assignment().len(), second.assignment().len()),
        (3, 3)
    );
    append(&log, "orders", 0);
    append(&log, "orders", 5);
    assert_eq!(poll(&mut first) + poll(&mut second), 2);
}
