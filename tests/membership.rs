//! Being a member and not being one any more: silence, static members, removal, leaving and coming back.

#[path = "common/groups.rs"]
mod groups;

use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use thalweg::testing::TestLog;
use thalweg::{
    Consumer, ConsumerBuilder, Error, FencedBy, Offset, Position, StartFrom, TopicConfig,
    TopicPartition, assignor,
};

use groups::{NOW, append, at, group, log_with, next, owned, poll, settle};

const SECOND: Duration = Duration::from_secs(1);

fn orders(test: &TestLog) -> ConsumerBuilder {
    group(test).subscribe(["orders"])
}

fn named(test: &TestLog, id: &str) -> Consumer {
    orders(test).instance_id(id).join().unwrap()
}

fn why<T: std::fmt::Debug>(result: Result<T, Error>) -> FencedBy {
    match result {
        Err(Error::Fenced { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

/// F109.
#[test]
fn f109_a_member_that_is_never_polled_again_is_shut_out_in_time_and_the_others_go_on() {
    let test = log_with(2, 4);
    let mut leaked = orders(&test).join().unwrap();
    assert_eq!(poll(&mut leaked).len(), 4);
    std::mem::forget(leaked);
    let mut other = orders(&test).join().unwrap();
    assert!(poll(&mut other).is_empty());
    test.advance(Duration::from_secs(299));
    assert!(poll(&mut other).is_empty());
    test.advance(SECOND);
    assert_eq!(poll(&mut other).len(), 4);
}

#[test]
fn a_lone_member_that_was_silent_is_shut_out_too_and_comes_back_where_it_committed() {
    let test = log_with(1, 10);
    let mut lone = orders(&test).max_poll_records(5).join().unwrap();
    assert_eq!(poll(&mut lone).len(), 5);
    lone.commit().unwrap();
    assert_eq!(poll(&mut lone).len(), 5);
    test.advance(Duration::from_secs(300));
    let limit = Duration::from_secs(300);
    let silent_for = limit;
    assert_eq!(
        why(lone.commit()),
        FencedBy::PollInterval { limit, silent_for }
    );
    assert_eq!(poll(&mut lone).first(), Some(&(0, 5)), "a new member");
    lone.commit().unwrap();

    let mut patient = orders(&test)
        .max_poll_interval(Duration::MAX)
        .join()
        .unwrap();
    lone.close().unwrap();
    poll(&mut patient);
    test.advance(Duration::from_secs(1_000_000_000));
    patient.commit().unwrap();
}

/// Where nothing was committed, it begins where it had begun, not at what is the end by now.
#[test]
fn a_lone_member_that_was_shut_out_skips_nothing() {
    let test = log_with(1, 3);
    let mut lone = orders(&test).start_from(StartFrom::Latest).join().unwrap();
    append(&test, "orders", 2);
    assert_eq!(poll(&mut lone), [(0, 3), (0, 4)]);
    test.fence(&lone);
    assert!(lone.commit().is_err());
    assert_eq!(poll(&mut lone), [(0, 3), (0, 4)]);
}

#[test]
fn waiting_for_a_poll_is_no_silence() {
    let test = log_with(1, 0);
    let mut waiter = orders(&test).join().unwrap();
    poll(&mut waiter);
    let mut other = orders(&test).join().unwrap();
    {
        let mut ready = pin!(waiter.ready());
        let mut task = Context::from_waker(Waker::noop());
        assert!(
            ready.as_mut().poll(&mut task).is_ready(),
            "there is a new member"
        );
    }
    poll(&mut waiter);
    {
        let mut ready = pin!(waiter.ready());
        let mut task = Context::from_waker(Waker::noop());
        assert!(ready.as_mut().poll(&mut task).is_pending());
        test.advance(299 * SECOND);
        poll(&mut other);
        test.advance(299 * SECOND);
        poll(&mut other);
        assert!(owned(&other).is_empty());
        append(&test, "orders", 1);
        assert!(ready.as_mut().poll(&mut task).is_ready());
    }
    assert_eq!(poll(&mut waiter), [(0, 0)]);
    test.advance(299 * SECOND);
    waiter.commit().unwrap();
    assert_eq!(waiter.membership().member(), "g-0000000001");
}

#[test]
fn a_static_member_that_comes_back_in_time_gets_its_partitions_and_nobody_else_is_disturbed() {
    let test = log_with(4, 8);
    let mut a = named(&test, "a");
    let mut b = named(&test, "b");
    settle(&mut [&mut a, &mut b]);
    let (of_a, of_b) = (owned(&a), owned(&b));
    let generation = b.membership().generation();
    a.commit().unwrap();
    a.close().unwrap();
    test.advance(44 * SECOND);
    poll(&mut b);
    assert_eq!(owned(&b), of_b);
    let mut a = named(&test, "a");
    assert_eq!(a.membership().member(), "a-0000000003", "a new member id");
    poll(&mut a);
    poll(&mut b);
    assert_eq!((owned(&a), owned(&b)), (of_a, of_b));
    assert_eq!(a.membership().generation(), generation);
    assert_eq!(b.membership().generation(), generation);

    drop(a); // a drop keeps the place too
    test.advance(45 * SECOND);
    poll(&mut b);
    assert_eq!(owned(&b).len(), 4, "but not for ever");
    let mut a = named(&test, "a");
    settle(&mut [&mut a, &mut b]);
    assert_eq!((owned(&a).len(), owned(&b).len()), (2, 2));
    a.leave().unwrap();
    poll(&mut b);
    assert_eq!(owned(&b).len(), 4, "who leaves gives its place up");
}

#[test]
fn of_two_live_members_of_one_name_the_newer_wins_for_good() {
    let test = log_with(2, 4);
    let mut old = named(&test, "a");
    assert_eq!(poll(&mut old).len(), 4);
    let mut new = named(&test, "a");
    assert_eq!(why(old.commit()), FencedBy::NewerInstance);
    assert_eq!(poll(&mut new).len(), 4);
    for _ in 0..3 {
        assert_eq!(why(old.poll(NOW)), FencedBy::NewerInstance);
        assert!(old.assignment().is_empty());
    }
    new.commit().unwrap();
    drop(old);
    poll(&mut new);
    assert_eq!(owned(&new).len(), 2, "the old one had no place to give up");
}

/// A worker hangs, its supervisor starts another one, and the first wakes up: it must not throw the second out.
#[test]
fn a_static_member_that_was_silent_does_not_take_its_place_back_from_its_successor() {
    let test = log_with(2, 4);
    let mut old = named(&test, "a");
    assert_eq!(poll(&mut old).len(), 4);
    let mut other = named(&test, "b");
    test.advance(300 * SECOND);
    poll(&mut other);
    assert!(
        owned(&other).len() < 2,
        "the place is kept, its partitions rest"
    );
    let mut new = named(&test, "a");
    poll(&mut new);
    assert_eq!(why(old.poll(NOW)), FencedBy::NewerInstance);
    assert_eq!(why(old.poll(NOW)), FencedBy::NewerInstance);
    settle(&mut [&mut new, &mut other]);
    assert_eq!((owned(&new).len(), owned(&other).len()), (1, 1));
}

#[test]
fn a_static_member_that_was_silent_comes_back_to_its_place() {
    let test = log_with(2, 4);
    let mut a = named(&test, "a");
    let mut b = named(&test, "b");
    settle(&mut [&mut a, &mut b]);
    let (of_a, generation) = (owned(&a), b.membership().generation());
    test.advance(299 * SECOND);
    poll(&mut b);
    test.advance(2 * SECOND);
    poll(&mut b);
    assert!(matches!(why(a.commit()), FencedBy::PollInterval { .. }));
    test.advance(40 * SECOND);
    poll(&mut a);
    poll(&mut b);
    assert_eq!(owned(&a), of_a);
    assert_eq!(b.membership().generation(), generation);
}

#[test]
fn a_member_can_be_removed_by_either_name() {
    let test = log_with(2, 4);
    let mut a = named(&test, "a");
    let mut b = orders(&test).client_id("b").join().unwrap();
    settle(&mut [&mut a, &mut b]);
    group(&test).remove_member("a").unwrap();
    poll(&mut b);
    assert_eq!(owned(&b).len(), 2);
    assert_eq!(why(a.commit()), FencedBy::Removed);
    group(&test).remove_member("b-0000000002").unwrap();
    assert_eq!(why(b.commit()), FencedBy::Removed);
    for missing in ["b-0000000002", "a", ""] {
        let refused = group(&test).remove_member(missing);
        assert!(matches!(
            refused,
            Err(Error::NotFound { what: "member", .. })
        ));
    }
    settle(&mut [&mut a, &mut b]); // they live, so they join again
    assert_eq!((owned(&a).len(), owned(&b).len()), (1, 1));
}

#[test]
fn who_unsubscribed_is_no_member_until_it_subscribes_again() {
    let test = log_with(2, 4);
    let mut a = orders(&test).join().unwrap();
    let mut b = orders(&test).join().unwrap();
    settle(&mut [&mut a, &mut b]);
    a.unsubscribe().unwrap();
    assert_eq!((a.assignment().len(), a.subscription().len()), (0, 0));
    assert_eq!(why(a.commit()), FencedBy::Left);
    assert_eq!(why(a.poll(NOW)), FencedBy::Left);
    assert!(matches!(
        a.commit_at(&next(&[(0, 1)])),
        Err(Error::NotAssigned { .. })
    ));
    poll(&mut b);
    assert_eq!(owned(&b).len(), 2);
    a.unsubscribe().unwrap();
    a.subscribe(["orders"]).unwrap();
    settle(&mut [&mut a, &mut b]);
    assert_eq!((owned(&a).len(), owned(&b).len()), (1, 1));
    a.subscribe(Vec::<String>::new()).unwrap();
    assert_eq!(why(a.poll(NOW)), FencedBy::Left);
}

#[test]
fn a_new_list_of_topics_replaces_the_old_one_at_the_next_poll() {
    let test = log_with(1, 2);
    test.log()
        .create_topic("bills", TopicConfig::new())
        .unwrap();
    let mut a = orders(&test).join().unwrap();
    assert_eq!(poll(&mut a).len(), 2);
    a.subscribe(["bills"]).unwrap();
    assert_eq!(a.subscription(), ["bills"]);
    assert_eq!(owned(&a), [0], "until then it has what it had");
    poll(&mut a);
    assert_eq!(a.assignment(), [TopicPartition::new("bills", 0)]);
    assert!(matches!(
        a.subscribe(["no/name"]),
        Err(Error::InvalidName { .. })
    ));
    assert_eq!(a.subscription(), ["bills"]);
}

#[test]
fn topics_by_a_predicate_come_and_go() {
    let test = log_with(1, 2);
    let builder = group(&test).subscribe_where(|name| name.starts_with("orders"));
    let mut a = builder.start_from(StartFrom::Latest).join().unwrap();
    assert!(poll(&mut a).is_empty());
    assert_eq!(a.subscription(), ["orders"]);
    for name in ["orders-eu", "bills"] {
        let topic = test.log().create_topic(name, TopicConfig::new()).unwrap();
        topic.append(("", "x")).unwrap();
    }
    assert_eq!(poll(&mut a), [(0, 0)], "from its first record");
    assert_eq!(a.subscription(), ["orders", "orders-eu"]);
    test.log().delete_topic("orders").unwrap();
    poll(&mut a);
    assert_eq!(a.assignment(), [TopicPartition::new("orders-eu", 0)]);
}

#[test]
fn partitions_given_by_hand_are_its_own_and_it_commits_while_nobody_is_a_member() {
    let test = log_with(3, 9);
    let mut hand = group(&test).assign([at(2), at(0), at(2)]).join().unwrap();
    assert_eq!(owned(&hand), [0, 2]);
    assert_eq!(poll(&mut hand).len(), 6);
    hand.commit().unwrap();
    assert!(hand.subscription().is_empty());
    let mut member = orders(&test).join().unwrap();
    assert_eq!(why(hand.commit_at(&next(&[(0, 1)]))), FencedBy::Members);
    assert_eq!(
        poll(&mut member).len(),
        3,
        "it goes on behind what was committed"
    );
    member.close().unwrap();
    hand.seek_to_start(&[at(0)]).unwrap();
    assert_eq!(poll(&mut hand).len(), 3);
    hand.commit().unwrap();
    assert!(matches!(
        hand.subscribe(["orders"]),
        Err(Error::InvalidSetting { .. })
    ));
    let missing = group(&test).assign([at(3)]).join();
    assert!(matches!(missing, Err(Error::NotFound { .. })));
    let none = group(&test).assign([]).join();
    assert!(matches!(
        none,
        Err(Error::InvalidSetting {
            setting: "assign",
            ..
        })
    ));
    test.log().delete_topic("orders").unwrap();
    assert!(poll(&mut hand).is_empty());
    assert!(hand.assignment().is_empty());
    hand.close().unwrap();
}

#[test]
fn members_of_one_group_share_in_one_way() {
    let test = log_with(2, 0);
    let first = orders(&test).join().unwrap();
    let refused = orders(&test).assignor(assignor::Range).join();
    assert!(matches!(
        refused,
        Err(Error::InvalidSetting {
            setting: "assignor",
            ..
        })
    ));
    let refused = orders(&test).eager(true).join();
    assert!(matches!(
        refused,
        Err(Error::InvalidSetting {
            setting: "assignor",
            ..
        })
    ));
    drop(first);
    let _sticky = orders(&test).assignor(assignor::Sticky).join().unwrap();
    let refused = orders(&test).assignor(assignor::Sticky).eager(false).join();
    assert!(refused.is_err(), "`Sticky` implies eager");
}

/// B44.
#[test]
fn b44_a_pause_lasts_as_long_as_the_partition_is_owned() {
    let test = log_with(2, 4);
    let mut a = orders(&test).join().unwrap();
    assert_eq!(poll(&mut a).len(), 4);
    a.pause(&[at(0), at(1)]).unwrap();
    let mut b = orders(&test).join().unwrap();
    settle(&mut [&mut b, &mut a]);
    assert_eq!(a.paused(), [at(0)]);
    assert!(b.paused().is_empty());
    append(&test, "orders", 2);
    assert_eq!(poll(&mut a), []);
    assert_eq!(poll(&mut b).len(), 1);
    assert!(matches!(
        a.pause(&[at(0), at(1)]),
        Err(Error::NotAssigned { .. })
    ));
    assert!(matches!(a.resume(&[at(1)]), Err(Error::NotAssigned { .. })));
    assert_eq!(a.position(&at(0)), Some(Offset::new(2)));
    b.close().unwrap();
    poll(&mut a);
    assert_eq!(a.paused(), [at(0)], "what came back is not paused");
    a.resume(&[at(0)]).unwrap();
    assert_eq!(poll(&mut a), [(0, 2)]);
}

/// B24.
#[test]
fn b24_automatic_commits_never_run_ahead_of_the_last_poll() {
    for how in ["dropped", "by panic", "by rebalance"] {
        let test = log_with(1, 5);
        let builder = orders(&test).auto_commit(NOW).max_poll_records(1);
        let mut first = builder.join().unwrap();
        for offset in 0..3 {
            assert_eq!(poll(&mut first), [(0, offset)]);
        } // and the third could not be handled
        let mut second;
        match how {
            "dropped" => {
                drop(first);
                second = orders(&test).join().unwrap();
            }
            "by panic" => {
                let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    let _consumer = first;
                    std::panic::resume_unwind(Box::new("the handler"));
                }));
                assert!(unwound.is_err());
                second = orders(&test).join().unwrap();
            }
            _ => {
                second = orders(&test).join().unwrap();
                test.fence(&first);
            }
        }
        assert_eq!(
            second.committed(&at(0)).unwrap(),
            Some(Offset::new(2)),
            "{how}"
        );
        assert_eq!(poll(&mut second).first(), Some(&(0, 2)), "{how}");
    }
}

#[test]
fn automatic_commits_have_their_time_and_stop_before_a_batch_that_was_not_finished() {
    let test = log_with(1, 6);
    let builder = orders(&test).auto_commit(5 * SECOND).max_poll_records(2);
    let mut a = builder.join().unwrap();
    let committed = |a: &Consumer| a.committed(&at(0)).unwrap().map(Offset::get);
    poll(&mut a);
    test.advance(4 * SECOND);
    poll(&mut a);
    assert_eq!(committed(&a), None);
    test.advance(SECOND);
    let batch = a.poll(NOW).unwrap();
    assert_eq!(committed(&a), Some(4), "what earlier polls returned");
    let mut taken = batch.into_iter();
    taken.next();
    drop(taken); // 4 was taken, 5 was not
    test.advance(5 * SECOND);
    poll(&mut a);
    assert_eq!(committed(&a), Some(4));
    a.seek(&at(0).at(Offset::ZERO)).unwrap();
    assert_eq!(poll(&mut a).len(), 2);
    test.advance(5 * SECOND);
    poll(&mut a);
    assert_eq!(committed(&a), Some(4), "never backwards");
    while !poll(&mut a).is_empty() {}
    a.close().unwrap();
    let group = group(&test).committed().unwrap();
    assert_eq!(
        group.iter().map(Position::offset).collect::<Vec<_>>(),
        [Offset::new(6)]
    );
}

#[test]
fn a_group_waits_for_its_first_members_if_it_is_told_to() {
    use thalweg::testing::ManualClock;
    let clock = ManualClock::new();
    let builder = thalweg::Log::builder().clock(&clock);
    let log = builder
        .initial_rebalance_delay(3 * SECOND)
        .in_memory()
        .unwrap();
    log.create_topic("orders", TopicConfig::new().partitions(2))
        .unwrap();
    let mut a = log.group("g").subscribe(["orders"]).join().unwrap();
    poll(&mut a);
    assert!(owned(&a).is_empty());
    clock.advance(2 * SECOND);
    let mut b = log.group("g").subscribe(["orders"]).join().unwrap();
    clock.advance(2 * SECOND);
    poll(&mut a);
    assert!(owned(&a).is_empty(), "the second one began it anew");
    clock.advance(SECOND);
    poll(&mut a);
    poll(&mut b);
    assert_eq!((owned(&a), owned(&b)), (vec![0], vec![1]));
    assert_eq!(a.membership().generation(), 1);
}
