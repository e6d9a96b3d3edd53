//! B23 for every way to commit, by itself and in callbacks too: what is stored is the next offset, and nothing comes again.

use std::time::Duration;

use thalweg::testing::{Disk, TestLog};
use thalweg::{BoxError, Consumer, Entry, Log, Offset, Positions, Rebalance, RebalanceListener};

use super::{NOW, append, join, poll, t, topic};

/// Commits in `revoked`, in one way or the other.
struct Commits {
    all: bool,
}

impl RebalanceListener for Commits {
    fn revoked(
        &mut self,
        rebalance: &mut Rebalance<'_>,
        going: &[thalweg::TopicPartition],
    ) -> Result<(), BoxError> {
        if self.all {
            return Ok(rebalance.commit()?);
        }
        let position = |at: &thalweg::TopicPartition| Some(at.at(rebalance.position(at)?));
        let next: Positions = going.iter().filter_map(position).collect();
        Ok(rebalance.commit_at(&next)?)
    }

    fn lost(&mut self, _: &[thalweg::TopicPartition]) -> Result<(), BoxError> {
        Ok(())
    }
}

/// What was read of a partition, in order.
type Records = [Vec<Entry>; 2];

fn read(mut consumer: Consumer) -> (Consumer, Records) {
    let mut records = Records::default();
    for entry in &consumer.poll(NOW).unwrap() {
        records[entry.partition().get() as usize].push(entry.to_entry());
    }
    assert_eq!(records.each_ref().map(Vec::len), [3, 3]);
    (consumer, records)
}

fn by_hand(log: &Log, commit: impl FnOnce(&mut Consumer, &Records)) {
    let (mut consumer, records) = read(join(log, "g"));
    commit(&mut consumer, &records);
    drop(consumer); // which commits nothing
}

fn automatic(log: &Log) -> Consumer {
    let builder = log.group("g").subscribe(["t"]);
    builder.auto_commit(Duration::from_secs(5)).join().unwrap()
}

fn listening(log: &Log, all: bool) -> Consumer {
    let builder = log.group("g").subscribe(["t"]);
    builder.listener(Commits { all }).join().unwrap()
}

/// A member reads all three records of both partitions, is done with them in this way, and ends.
type Way = (&'static str, fn(&Log));

const WAYS: [Way; 13] = [
    ("commit", |log| by_hand(log, |of, _| of.commit().unwrap())),
    ("commit_durable", |log| {
        by_hand(log, |of, _| of.commit_durable().unwrap());
    }),
    ("commit_through each", |log| {
        by_hand(log, |of, records| {
            let mut all = records.iter().flatten();
            all.try_for_each(|entry| of.commit_through(entry)).unwrap();
        });
    }),
    ("commit_through the last", |log| {
        by_hand(log, |of, records| {
            for records in records {
                of.commit_through(&records[2]).unwrap();
            }
        });
    }),
    ("commit_at numbers", |log| {
        by_hand(log, |of, _| {
            let next = [0, 1].map(|n| t(n).at(Offset::new(3)));
            of.commit_at(&next.into_iter().collect()).unwrap();
        });
    }),
    ("commit_at positions", |log| {
        by_hand(log, |of, _| of.commit_at(&of.positions()).unwrap());
    }),
    ("commit_at what is done", |log| {
        by_hand(log, |of, records| {
            let mut done = Positions::new();
            for entry in records.iter().flatten().rev() {
                done.done(entry);
            }
            of.commit_at(&done).unwrap();
        });
    }),
    ("automatic, at close", |log| {
        read(automatic(log)).0.close().unwrap();
    }),
    ("automatic, at leave", |log| {
        read(automatic(log)).0.leave().unwrap();
    }),
    ("automatic, at unsubscribe", |log| {
        read(automatic(log)).0.unsubscribe().unwrap();
    }),
    ("Rebalance::commit, at close", |log| {
        read(listening(log, true)).0.close().unwrap();
    }),
    ("Rebalance::commit_at, at close", |log| {
        read(listening(log, false)).0.close().unwrap();
    }),
    ("Rebalance::commit, at unsubscribe", |log| {
        read(listening(log, true)).0.unsubscribe().unwrap();
    }),
];

fn all_is_done(log: &Log, way: &str) {
    let group = log.group("g");
    let committed = group.committed().unwrap();
    for n in 0..2 {
        assert_eq!(committed.next(&t(n)), Some(Offset::new(3)), "{way}");
    }
    assert_eq!(group.lag().unwrap(), [(t(0), 0), (t(1), 0)], "{way}");
    let mut again = join(log, "g");
    assert_eq!(poll(&mut again), [0; 0], "{way}");
    assert_eq!(again.lag(&t(0)), Some(0), "{way}");
}

#[test]
fn b23_whatever_the_way_to_commit_nothing_comes_again_after_a_restart() {
    for (name, way) in WAYS {
        let disk = Disk::new();
        let log = super::open(&disk);
        for partition in topic(&log, 2) {
            append(&partition, 0..3);
        }
        way(&log);
        all_is_done(&log, name);
        log.close().unwrap();
        all_is_done(&super::open(&disk), name);
    }
}

/// Those that a poll makes: when their time has come, and before partitions go.
#[test]
fn b23_what_a_poll_commits_by_itself_is_the_next_offset_too() {
    let test = TestLog::new();
    let log = test.log();
    for partition in topic(&log, 2) {
        append(&partition, 0..3);
    }
    let (mut consumer, _) = read(automatic(&log));
    test.advance(Duration::from_secs(5));
    let _ = consumer.poll(NOW).unwrap();
    drop(consumer);
    all_is_done(&log, "automatic, in time");

    for partition in log.topic("t").unwrap().partitions() {
        append(&partition, 3..6);
    }
    for by_listener in [false, true] {
        let group = if by_listener { "l" } else { "a" };
        let builder = log.group(group).subscribe(["t"]);
        let builder = if by_listener {
            builder.listener(Commits { all: true })
        } else {
            builder.auto_commit(Duration::from_secs(5))
        };
        let mut first = builder.join().unwrap();
        assert_eq!(first.poll(NOW).unwrap().len(), 12);
        let mut second = join(&log, group);
        let _ = (second.poll(NOW).unwrap(), first.poll(NOW).unwrap());
        assert_eq!(poll(&mut second), [0; 0], "{group}");
        assert_eq!(second.assignment(), [t(1)]);
        assert_eq!(second.position(&t(1)), Some(Offset::new(6)), "{group}");
        let committed = log.group(group).committed().unwrap();
        assert_eq!(committed.next(&t(1)), Some(Offset::new(6)), "{group}");
    }
}
