//! F113: a log is closed while everything goes on: each call is done or `Closed`, those who sleep are woken, nothing hangs.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use thalweg::testing::Disk;
use thalweg::{Error, Log, Maintenance, Offset, Partition};

use super::common::scale;
use super::{NOW, make, t, within};

/// Done, or refused because the log is closed. `false`: it is.
fn done<T: Debug>(what: &str, result: Result<T, Error>) -> bool {
    match result {
        Ok(_) => true,
        Err(Error::Closed) => false,
        Err(e) => panic!("{what}: {e:?}"),
    }
}

/// One round of everything that a group does. `false`: the log is closed.
fn work(log: &Log, n: usize) -> bool {
    let group = log.group("g");
    let member = match group.subscribe(["t"]).join() {
        Ok(member) => member,
        other => return done("join", other),
    };
    let mut member = member;
    for _ in 0..3 {
        let going_on = done("poll", member.poll(NOW))
            && done("commit", member.commit())
            && done("committed", member.committed(&t(0)))
            && done("describe", group.describe())
            && done("lag", group.lag());
        if !going_on {
            return false;
        }
    }
    match n % 3 {
        0 => done("close", member.close()),
        1 => done("leave", member.leave()),
        _ => {
            drop(member);
            true
        }
    }
}

/// Appends until the log is closed, and says where what was acknowledged ends.
fn write(partition: &Partition, begun: &AtomicU64) -> u64 {
    let mut told = 1;
    loop {
        match partition.append(("", "x")) {
            Ok(at) => told = at.offset().get() + 1,
            Err(Error::Closed) => return told,
            Err(e) => panic!("append: {e:?}"),
        }
        begun.fetch_add(1, Ordering::Relaxed);
    }
}

fn close_under_load(disk: &Disk) {
    let log = Log::builder()
        .maintenance(Maintenance::Manual)
        .open_on(disk)
        .unwrap();
    let topic = make(&log, "t", 3, 1);
    let begun = AtomicU64::new(0);
    let told = thread::scope(|scope| {
        let writers = [0, 1, 2].map(|n| {
            let (topic, begun) = (&topic, &begun);
            scope.spawn(move || write(&topic.partition(n).unwrap(), begun))
        });
        for n in 0..3 {
            let (log, begun) = (&log, &begun);
            scope.spawn(move || {
                while work(log, n) {
                    begun.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // One that sleeps, since it is at the end of a topic to which nobody writes.
        let quiet = log.group("h").subscribe(["quiet"]).join().unwrap();
        scope.spawn(move || {
            let mut quiet = quiet;
            while done("next_batch", quiet.next_batch()) {}
        });
        while begun.load(Ordering::Relaxed) < 100 {
            thread::yield_now();
        }
        let second = log.clone();
        log.clone().close().unwrap();
        assert!(matches!(second.close(), Err(Error::Closed)), "told again");
        writers.map(|writer| writer.join().unwrap())
    });
    drop((topic, log));
    let log = Log::builder()
        .maintenance(Maintenance::Manual)
        .open_on(disk)
        .unwrap();
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
    let committed = log.group("g").committed().unwrap();
    for (n, told) in (0..).zip(told) {
        let end = log.topic("t").unwrap().partition(n).unwrap().offsets().end;
        assert_eq!(end, Offset::new(told), "what was acknowledged is there");
        assert!(committed.next(&t(n)).is_none_or(|next| next <= end));
    }
    let mut next = log.group("g").subscribe(["t"]).join().unwrap();
    let _ = next.poll(NOW).unwrap();
    assert_eq!(next.assignment().len(), 3, "the old members are no more");
}

#[test]
fn f113_a_log_that_is_closed_under_a_busy_group_answers_everybody() {
    within(Duration::from_secs(120), "close", || {
        for round in 0..15 * scale() {
            close_under_load(&Disk::seeded(round));
        }
    });
}
