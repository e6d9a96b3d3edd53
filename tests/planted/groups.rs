//! Scenarios about members of groups: who still is one, and what it may do.

use std::sync::mpsc;
use std::time::Duration;

use thalweg::assignor::{Assignor, CooperativeSticky, Member, TopicSize};
use thalweg::testing::{Disk, ManualClock, TestLog};
use thalweg::{Consumer, ConsumerGroup, Error, Log, Offset, TopicConfig, TopicPartition};

const NOW: Duration = Duration::ZERO;

fn begin() -> (TestLog, ConsumerGroup) {
    let test = TestLog::new();
    let orders = test.log().create_topic("orders", TopicConfig::new());
    let orders = orders.expect("a topic");
    for n in 0..4 {
        orders.append(("", &n.to_string())).expect("an append");
    }
    let group = test.log().group("kitchen");
    (test, group)
}

fn join(group: &ConsumerGroup) -> Consumer {
    group.subscribe(["orders"]).join().expect("a member")
}

/// Asks about its own group while it is asked.
struct Curious(ConsumerGroup);

impl Assignor for Curious {
    fn name(&self) -> &'static str {
        "curious"
    }

    fn assign(&self, members: &[Member<'_>], topics: &[TopicSize<'_>]) -> Vec<Vec<TopicPartition>> {
        let refused = self.0.describe();
        assert!(
            matches!(refused, Err(Error::Reentrant { .. })),
            "{refused:?}"
        );
        self.0.lag().expect("nothing is locked");
        CooperativeSticky.assign(members, topics)
    }
}

pub(crate) fn a_callback_may_ask_about_its_group() {
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let (_test, group) = begin();
        let builder = group.subscribe(["orders"]).assignor(Curious(group.clone()));
        let mut kitchen = builder.join().expect("a member");
        let read = kitchen.poll(NOW).map(|batch| batch.len());
        let _ = done.send(read);
    });
    let read = ended.recv_timeout(Duration::from_secs(10));
    assert!(matches!(read, Ok(Ok(4))), "it never came back: {read:?}");
}

pub(crate) fn who_falls_silent_is_shut_out() {
    let (test, group) = begin();
    let mut silent = join(&group);
    assert_eq!(silent.poll(NOW).expect("a poll").len(), 4);
    let mut other = join(&group);
    test.advance(Duration::from_secs(300));
    assert_eq!(
        other.poll(NOW).expect("a poll").len(),
        4,
        "its partition moves on"
    );
}

pub(crate) fn who_was_shut_out_commits_nothing() {
    let (test, group) = begin();
    let mut slow = join(&group);
    assert_eq!(slow.poll(NOW).expect("a poll").len(), 4);
    test.fence(&slow);
    let mut other = join(&group);
    assert_eq!(other.poll(NOW).expect("a poll").len(), 4);
    let at = TopicPartition::new("orders", 0);
    let next = [at.at(Offset::new(2))].into_iter().collect();
    other.commit_at(&next).expect("a commit");
    let refused = slow.commit();
    let committed = other.committed(&at).expect("an answer");
    assert_eq!(
        committed,
        Some(Offset::new(2)),
        "not overwritten: {refused:?}"
    );
    assert!(matches!(refused, Err(Error::Fenced { .. })), "{refused:?}");
}

pub(crate) fn what_an_idle_member_has_committed_stays() {
    let (minute, clock) = (Duration::from_secs(60), ManualClock::new());
    let builder = Log::builder().offsets_retention(minute).clock(&clock);
    let log = builder.open_on(&Disk::new()).expect("a log");
    let orders = log.create_topic("orders", TopicConfig::new());
    orders
        .expect("a topic")
        .append(("", "1"))
        .expect("an append");
    let mut idle = join(&log.group("kitchen"));
    assert_eq!(idle.poll(NOW).expect("a poll").len(), 1);
    idle.commit().expect("a commit");
    clock.advance(4 * minute); // less than it may be silent
    let _ = log.maintain().expect("a pass");
    let committed = idle.committed(&TopicPartition::new("orders", 0));
    assert_eq!(committed.expect("an answer"), Some(Offset::new(1)));
}
