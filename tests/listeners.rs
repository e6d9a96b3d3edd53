//! What a listener is told when partitions come and go, and what it may do then.

#[path = "common/groups.rs"]
mod groups;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use thalweg::testing::TestLog;
use thalweg::{
    BoxError, Consumer, Error, FencedBy, Offset, Rebalance, RebalanceListener, TopicPartition,
};

use groups::{NOW, at, group, log_with, make, next, poll};

/// Writes down what it is told, and does what a test wants.
#[derive(Clone, Default)]
struct Told {
    lines: Arc<Mutex<Vec<String>>>,
    /// In `revoked`.
    commits: bool,
    /// In `assigned`.
    seeks_to: Option<u64>,
    /// This callback returns an error.
    fails: Option<&'static str>,
    /// This callback panics, once.
    panics: Arc<Mutex<Option<&'static str>>>,
}

impl Told {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }

    fn note(&self, callback: &'static str, partitions: &[TopicPartition]) -> Result<(), BoxError> {
        let names: Vec<String> = partitions.iter().map(ToString::to_string).collect();
        let line = format!("{callback} {}", names.join(" "));
        self.lines.lock().unwrap().push(line.trim_end().to_owned());
        if self
            .panics
            .lock()
            .unwrap()
            .take_if(|of| *of == callback)
            .is_some()
        {
            panic!("as the test wants");
        }
        match self.fails {
            Some(which) if which == callback => Err(format!("no {callback} today").into()),
            _ => Ok(()),
        }
    }
}

impl RebalanceListener for Told {
    fn assigned(
        &mut self,
        rebalance: &mut Rebalance<'_>,
        added: &[TopicPartition],
    ) -> Result<(), BoxError> {
        for at in added {
            if let Some(to) = self.seeks_to {
                rebalance.seek(&at.at(Offset::new(to)))?;
            }
        }
        self.note("assigned", added)
    }

    fn revoked(
        &mut self,
        rebalance: &mut Rebalance<'_>,
        going: &[TopicPartition],
    ) -> Result<(), BoxError> {
        for at in going {
            assert!(rebalance.assignment().contains(at), "still its own");
        }
        if self.commits {
            rebalance.commit()?;
        }
        self.note("revoked", going)
    }

    fn lost(&mut self, gone: &[TopicPartition]) -> Result<(), BoxError> {
        self.note("lost", gone)
    }
}

fn join(test: &TestLog, told: &Told) -> Consumer {
    let builder = group(test).subscribe(["orders"]);
    builder.listener(told.clone()).join().unwrap()
}

#[test]
fn each_is_told_what_it_gets_and_what_it_gives_up_within_its_own_poll() {
    let test = log_with(4, 0);
    let (of_a, of_b) = (Told::default(), Told::default());
    let mut a = join(&test, &of_a);
    assert!(of_a.take().is_empty(), "nothing is told at the join");
    poll(&mut a);
    assert_eq!(
        of_a.take(),
        ["assigned orders-0 orders-1 orders-2 orders-3"]
    );
    poll(&mut a);
    assert!(of_a.take().is_empty(), "nothing has changed");

    let mut b = join(&test, &of_b);
    poll(&mut b);
    assert_eq!(
        of_b.take(),
        ["assigned"],
        "the others still have everything"
    );
    poll(&mut a);
    assert_eq!(of_a.take(), ["revoked orders-2 orders-3", "assigned"]);
    poll(&mut b);
    assert_eq!(of_b.take(), ["assigned orders-2 orders-3"]);
    poll(&mut a);
    assert!(of_a.take().is_empty());

    a.close().unwrap();
    assert_eq!(of_a.take(), ["revoked orders-0 orders-1"]);
    drop(b);
    assert!(
        of_b.take().is_empty(),
        "a drop could report no error, so it tells nothing"
    );
}

/// B45.
#[test]
fn b45_what_is_committed_in_revoked_is_where_the_next_owner_begins() {
    let test = log_with(2, 20);
    let told = Told {
        commits: true,
        ..Told::default()
    };
    let mut a = join(&test, &told);
    assert_eq!(poll(&mut a).len(), 20);
    let mut b = join(&test, &Told::default());
    assert!(poll(&mut b).is_empty());
    let before = a.membership();
    assert!(poll(&mut a).is_empty());
    assert!(a.membership().generation() > before.generation());
    assert_eq!(a.committed(&at(1)).unwrap(), Some(Offset::new(10)));
    assert_eq!(a.committed(&at(0)).unwrap(), None, "only what goes");
    test.log()
        .topic("orders")
        .unwrap()
        .partition(0)
        .unwrap()
        .append(("", "x"))
        .unwrap();
    test.log()
        .topic("orders")
        .unwrap()
        .partition(1)
        .unwrap()
        .append(("", "y"))
        .unwrap();
    assert_eq!(poll(&mut b), [(1, 10)]);
    assert_eq!(poll(&mut a), [(0, 10)]);
}

/// B28.
#[test]
fn b28_a_seek_in_assigned_decides_where_reading_begins() {
    for (to, first) in [(2, Some((0, 2))), (0, Some((0, 0))), (10, None)] {
        let test = log_with(1, 10);
        let mut before = join(&test, &Told::default());
        let _ = poll(&mut before);
        before.commit_at(&next(&[(0, 5)])).unwrap();
        before.close().unwrap();
        let told = Told {
            seeks_to: Some(to),
            ..Told::default()
        };
        let mut consumer = join(&test, &told);
        assert_eq!(poll(&mut consumer).first().copied(), first);
        assert_eq!(consumer.position(&at(0)), Some(Offset::new(10)));
        assert_eq!(consumer.committed(&at(0)).unwrap(), Some(Offset::new(5)));
    }
}

/// B39, F110.
#[test]
fn b39_f110_who_was_silent_for_too_long_has_lost_its_partitions_and_cannot_commit() {
    let test = log_with(1, 30);
    let (of_a, of_b) = (Told::default(), Told::default());
    let builder = group(&test).subscribe(["orders"]).max_poll_records(10);
    let builder = builder.max_poll_interval(Duration::from_secs(1));
    let mut a = builder.listener(of_a.clone()).join().unwrap();
    assert_eq!(poll(&mut a).len(), 10);
    of_a.take();
    let mut b = join(&test, &of_b);
    test.advance(Duration::from_secs(2));
    assert_eq!(poll(&mut b).len(), 30);
    b.commit_at(&next(&[(0, 20)])).unwrap();
    match a.commit() {
        Err(Error::Fenced { who, why, .. }) => {
            assert_eq!(&*who, "g-0000000001");
            let (limit, silent_for) = (Duration::from_secs(1), Duration::from_secs(2));
            assert_eq!(why, FencedBy::PollInterval { limit, silent_for });
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        a.commit_at(&next(&[(0, 10)])),
        Err(Error::Fenced { .. })
    ));
    assert_eq!(b.committed(&at(0)).unwrap(), Some(Offset::new(20)));
    assert!(poll(&mut a).is_empty());
    assert_eq!(of_a.take(), ["lost orders-0", "assigned"]);
    assert_eq!(a.membership().member(), "g-0000000003");
    assert!(a.assignment().is_empty());
    a.commit().unwrap(); // a member again, of nothing
}

#[test]
fn an_error_of_a_callback_vetoes_nothing() {
    let test = log_with(2, 4);
    let told = Told {
        fails: Some("revoked"),
        ..Told::default()
    };
    let mut a = join(&test, &told);
    assert_eq!(poll(&mut a).len(), 4);
    let mut b = join(&test, &Told::default());
    poll(&mut b);
    match a.poll(NOW) {
        Err(Error::Listener {
            callback, source, ..
        }) => assert_eq!(
            (callback, source.to_string().as_str()),
            ("revoked", "no revoked today")
        ),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        told.take().last().unwrap(),
        "assigned",
        "the other callback was called"
    );
    assert_eq!(a.assignment(), [at(0)]);
    assert_eq!(poll(&mut b).len(), 2);
    assert!(poll(&mut a).is_empty());
    assert!(matches!(
        a.close(),
        Err(Error::Listener {
            callback: "revoked",
            ..
        })
    ));
    poll(&mut b);
    assert_eq!(b.assignment().len(), 2, "and it has left");
}

/// F105.
#[test]
fn f105_a_panic_in_a_callback_leaves_the_group_working() {
    for callback in ["assigned", "revoked"] {
        let test = log_with(2, 4);
        let told = Told::default();
        let mut a = join(&test, &told);
        poll(&mut a);
        let mut b = join(&test, &Told::default());
        poll(&mut b);
        *told.panics.lock().unwrap() = Some(callback);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = a.poll(NOW);
        }));
        assert!(panicked.is_err());
        poll(&mut a);
        poll(&mut b);
        assert_eq!((a.assignment(), b.assignment()), (vec![at(0)], vec![at(1)]));
        drop(a);
        poll(&mut b);
        assert_eq!(b.assignment().len(), 2);
    }
}

/// B40.
#[test]
fn b40_partitions_of_a_deleted_topic_are_told_as_going_once() {
    let test = log_with(1, 0);
    make(&test, "bills", 1, 3);
    let told = Told::default();
    let builder = group(&test).subscribe(["orders", "bills"]);
    let mut consumer = builder.listener(told.clone()).join().unwrap();
    assert_eq!(poll(&mut consumer).len(), 3);
    assert_eq!(told.take(), ["assigned bills-0 orders-0"]);
    test.log().delete_topic("bills").unwrap();
    poll(&mut consumer);
    assert_eq!(told.take(), ["revoked bills-0", "assigned"]);
    assert_eq!(consumer.assignment(), [at(0)]);
    consumer.close().unwrap();
    assert_eq!(told.take(), ["revoked orders-0"]);
}

#[test]
fn where_all_give_up_everything_nobody_gets_any_before_all_have() {
    let test = log_with(4, 0);
    let (of_a, of_b) = (Told::default(), Told::default());
    let eager = |told: &Told| {
        let builder = group(&test).subscribe(["orders"]).eager(true);
        builder.listener(told.clone()).join().unwrap()
    };
    let mut a = eager(&of_a);
    poll(&mut a);
    assert_eq!(
        of_a.take(),
        ["revoked", "assigned orders-0 orders-1 orders-2 orders-3"]
    );
    a.pause(&[at(0)]).unwrap();
    let mut b = eager(&of_b);
    poll(&mut b);
    assert_eq!(of_b.take(), ["revoked"], "the other has not given up");
    poll(&mut a);
    assert_eq!(
        of_a.take(),
        [
            "revoked orders-0 orders-1 orders-2 orders-3",
            "assigned orders-0 orders-1"
        ]
    );
    assert!(a.paused().is_empty());
    poll(&mut b);
    assert_eq!(of_b.take(), ["assigned orders-2 orders-3"]);
}

#[test]
fn a_listener_may_borrow_from_the_stack() {
    let test = log_with(1, 1);
    let mut consumer = group(&test).subscribe(["orders"]).join().unwrap();
    let mut told = Told::default();
    assert_eq!(consumer.poll_with(NOW, &mut told).unwrap().len(), 1);
    assert_eq!(told.take(), ["assigned orders-0"]);
    consumer.close_with(&mut told).unwrap();
    assert_eq!(told.take(), ["revoked orders-0"]);
}
