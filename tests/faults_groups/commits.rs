//! F111: who may commit while partitions move. What is refused stores nothing, and never undoes what the new owner stored.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use thalweg::testing::TestLog;
use thalweg::{Consumer, Durability, Error, FencedBy, Log, Offset, TopicConfig};

use super::common::scale;
use super::{NOW, in_time, join, make, next, settle, t, within};

fn stored(log: &Log, partition: u32) -> Option<u64> {
    let committed = log.group("g").committed().unwrap();
    committed.next(&t(partition)).map(Offset::get)
}

#[test]
fn f111_who_has_not_noticed_a_new_target_still_commits_what_it_owns() {
    let test = TestLog::new();
    let log = test.log();
    make(&log, "t", 2, 4);
    let mut old = join(&log);
    assert_eq!(old.poll(NOW).unwrap().len(), 8);
    let mut new = join(&log);
    let _ = new.poll(NOW).unwrap(); // makes a target that gives it partition 1
    old.commit_at(&next(1, 3)).unwrap();
    assert_eq!(stored(&log, 1), Some(3));
    // The one that should own it does not yet.
    let early = new.commit_at(&next(1, 4));
    assert!(matches!(early, Err(Error::NotAssigned { .. })), "{early:?}");
    assert_eq!(stored(&log, 1), Some(3));
    // And now it has gone.
    let _ = old.poll(NOW).unwrap();
    let late = old.commit_at(&next(1, 4));
    assert!(matches!(late, Err(Error::NotAssigned { .. })), "{late:?}");
    assert_eq!(new.poll(NOW).unwrap().len(), 1, "from 3 on");
    new.commit().unwrap();
    old.commit().unwrap();
    assert_eq!((stored(&log, 0), stored(&log, 1)), (Some(4), Some(4)));
    let both = [t(0).at(Offset::ZERO), t(1).at(Offset::ZERO)];
    let all_or_none = old.commit_at(&both.into_iter().collect());
    assert!(matches!(all_or_none, Err(Error::NotAssigned { .. })));
    assert_eq!((stored(&log, 0), stored(&log, 1)), (Some(4), Some(4)));
}

/// Every way to commit, by one that is no member any more, for every reason.
#[test]
fn f111_who_was_shut_out_stores_nothing_by_any_way_of_committing() {
    type Way = fn(&mut Consumer) -> thalweg::Result<()>;
    let ways: [Way; 4] = [
        Consumer::commit,
        Consumer::commit_durable,
        |old| old.commit_at(&next(0, 1)),
        |old| old.commit_at(&old.positions()),
    ];
    for reason in ["silent", "fenced", "removed", "replaced", "left"] {
        for (n, way) in ways.into_iter().enumerate() {
            let test = TestLog::new();
            let log = test.log();
            make(&log, "t", 1, 4);
            let builder = log.group("g").subscribe(["t"]).instance_id("i");
            let mut old = builder.join().unwrap();
            assert_eq!(old.poll(NOW).unwrap().len(), 4);
            let id = old.membership().member().to_owned();
            match reason {
                "silent" => test.advance(std::time::Duration::from_secs(400)),
                "fenced" => test.fence(&old),
                "removed" => log.group("g").remove_member(&id).unwrap(),
                "left" => old.unsubscribe().unwrap(),
                _ => {}
            }
            let builder = log.group("g").subscribe(["t"]).instance_id("i");
            let mut new = builder.join().unwrap();
            assert_eq!(new.poll(NOW).unwrap().len(), 4);
            new.commit_at(&next(0, 2)).unwrap();
            let refused = way(&mut old);
            let what = format!("{reason}, way {n}: {refused:?}");
            if reason == "left" && n >= 2 {
                // It owns nothing any more, which is looked at first; and no positions at all are none to refuse.
                assert!(
                    matches!(
                        refused,
                        Ok(()) | Err(Error::NotAssigned { .. } | Error::Fenced { .. })
                    ),
                    "{what}"
                );
            } else {
                assert!(matches!(refused, Err(Error::Fenced { .. })), "{what}");
            }
            if let (Err(Error::Fenced { why, .. }), "replaced") = (&refused, reason) {
                assert_eq!(*why, FencedBy::NewerInstance);
            }
            assert_eq!(stored(&log, 0), Some(2), "{what}");
            new.commit().unwrap();
            assert_eq!(stored(&log, 0), Some(4), "{what}");
        }
    }
}

/// The old owner commits as fast as it can while it is shut out and the new one takes over: from its first commit on, what is
/// stored is the new owner's.
#[test]
fn f111_a_commit_that_races_with_the_hand_over_never_undoes_one_of_the_new_owner() {
    within(std::time::Duration::from_secs(120), "commits", || {
        for round in 0..40 * scale() {
            race(round);
        }
    });
}

fn race(round: u64) {
    let test = TestLog::new();
    let log = test.log();
    make(&log, "t", 1, 200);
    let mut old = join(&log);
    let _ = old.poll(NOW).unwrap();
    let id = old.membership().member().to_owned();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let stale = scope.spawn(|| {
            let mut accepted = 0;
            for n in 0.. {
                match old.commit_at(&next(0, n % 50)) {
                    Ok(()) => accepted += 1,
                    Err(Error::Fenced { .. }) if done.load(Ordering::SeqCst) => return accepted,
                    Err(Error::Fenced { .. }) => {}
                    Err(e) => panic!("round {round}: {e:?}"),
                }
            }
            accepted
        });
        let mut new = join(&log);
        let _ = new.poll(NOW).unwrap();
        log.group("g").remove_member(&id).unwrap();
        for n in 0..50 {
            let batch = new.poll(NOW).unwrap();
            assert_eq!(new.assignment(), [t(0)], "the other was shut out before");
            if n == 0 {
                let first = batch.iter().next().map(|entry| entry.offset().get());
                assert_eq!(
                    first,
                    stored(&log, 0).or(Some(0)),
                    "where the old one stood"
                );
            }
            new.commit_at(&next(0, 100 + n)).unwrap();
            assert_eq!(stored(&log, 0), Some(100 + n), "round {round}");
        }
        done.store(true, Ordering::SeqCst);
        stale.join().unwrap();
    });
    assert_eq!(stored(&log, 0), Some(149));
}

/// By hand, a commit is taken only while the group has no members; it races with a join.
#[test]
fn f111_a_commit_by_hand_is_refused_as_soon_as_somebody_has_joined() {
    in_time("by hand", || {
        for _ in 0..50 {
            let log = super::log_with(1, 10);
            let mut by_hand = log.group("g").assign([t(0)]).join().unwrap();
            let joined = AtomicBool::new(false);
            thread::scope(|scope| {
                let commits = scope.spawn(|| {
                    for n in (1..=10).cycle() {
                        let before = joined.load(Ordering::SeqCst);
                        match by_hand.commit_at(&next(0, n)) {
                            Ok(()) => assert!(!before, "accepted after the join"),
                            Err(Error::Fenced { why, .. }) => {
                                assert_eq!(why, FencedBy::Members);
                                return;
                            }
                            Err(e) => panic!("{e:?}"),
                        }
                    }
                });
                let mut member = join(&log);
                joined.store(true, Ordering::SeqCst);
                let before = stored(&log, 0).unwrap_or(0);
                let batch = member.poll(NOW).unwrap();
                let first = batch.iter().next().map_or(10, |entry| entry.offset().get());
                assert_eq!(first, before, "it goes on from the last that was accepted");
                commits.join().unwrap();
            });
        }
    });
}

/// A commit that fails for the disk's reasons during a hand-over stores nothing and keeps the member.
#[test]
fn f111_a_commit_that_the_disk_refuses_leaves_the_owner_an_owner() {
    let test = TestLog::new();
    let log = test.log();
    let config = TopicConfig::new()
        .partitions(2)
        .durability(Durability::Process);
    let topic = log.create_topic("t", config).unwrap();
    for partition in topic.partitions() {
        partition.append(("", "x")).unwrap();
    }
    let mut old = join(&log);
    assert_eq!(old.poll(NOW).unwrap().len(), 2);
    let mut new = join(&log);
    let _ = new.poll(NOW).unwrap();
    test.fail_next(
        thalweg::testing::Call::Commit,
        std::io::ErrorKind::StorageFull,
    );
    assert!(matches!(old.commit(), Err(Error::NoSpace { .. })));
    assert_eq!((stored(&log, 0), stored(&log, 1)), (None, None));
    old.commit().unwrap();
    settle(&mut [&mut old, &mut new], 2);
    assert_eq!((stored(&log, 0), stored(&log, 1)), (Some(1), Some(1)));
}
