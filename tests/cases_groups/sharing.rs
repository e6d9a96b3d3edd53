//! B41, B43 and B46 once more: who gets how many by each assignor, and drops in every situation.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use thalweg::assignor::{CooperativeSticky, Range, RoundRobin, Sticky};
use thalweg::testing::TestLog;
use thalweg::{Consumer, ConsumerBuilder, Log, TopicConfig};

use super::{NOW, append, at, join, poll, t, topic};

type Way = fn(ConsumerBuilder) -> ConsumerBuilder;

const WAYS: [(&str, Way); 4] = [
    ("range", |builder| builder.assignor(Range)),
    ("round robin", |builder| builder.assignor(RoundRobin)),
    ("sticky", |builder| builder.assignor(Sticky)),
    ("cooperative", |builder| builder.assignor(CooperativeSticky)),
];

fn settle(members: &mut [Consumer]) {
    for _ in 0..=members.len() {
        for member in &mut *members {
            let _ = member.poll(NOW).unwrap();
        }
    }
}

fn sizes(members: &[Consumer]) -> Vec<usize> {
    let sizes = members.iter().map(|member| member.assignment().len());
    sizes.collect()
}

#[test]
fn b41_groups_that_share_in_different_ways_do_not_disturb_each_other() {
    let log = Log::in_memory();
    topic(&log, 6);
    let join = |n: usize| {
        let builder = log.group(WAYS[n].0).subscribe(["t"]);
        (WAYS[n].1)(builder).join().unwrap()
    };
    let mut groups: [Vec<Consumer>; 4] = Default::default();
    for expected in [&[6][..], &[3, 3], &[2, 2, 2], &[3, 3]] {
        for n in 0..4 {
            let others = |groups: &[Vec<Consumer>; 4]| {
                let others = (0..4).filter(|&of| of != n);
                let members = others.flat_map(|of| groups[of].iter());
                let seen = members.map(|member| (member.assignment(), member.membership()));
                seen.collect::<Vec<_>>()
            };
            let before = others(&groups);
            let kept: Vec<_> = groups[n].iter().map(Consumer::assignment).collect();
            if groups[n].len() == 3 {
                groups[n].remove(1).leave().unwrap();
            } else {
                groups[n].push(join(n));
            }
            for members in &mut groups {
                settle(members);
            }
            assert_eq!(sizes(&groups[n]), expected, "{}", WAYS[n].0);
            let mut all: Vec<_> = groups[n].iter().flat_map(Consumer::assignment).collect();
            all.sort();
            assert_eq!(all, (0..6).map(t).collect::<Vec<_>>(), "{}", WAYS[n].0);
            assert_eq!(others(&groups), before, "{}", WAYS[n].0);
            let sticks = WAYS[n].0 == "sticky" || WAYS[n].0 == "cooperative";
            if sticks && kept.len() == 3 {
                for (member, kept) in groups[n].iter().zip([&kept[0], &kept[2]]) {
                    let now = member.assignment();
                    assert!(kept.iter().all(|at| now.contains(at)), "{kept:?}, {now:?}");
                }
            }
        }
    }
}

#[test]
fn b43_partitions_of_several_topics_are_spread_as_each_assignor_says() {
    let expected = [[6, 3], [5, 4], [5, 4], [5, 4]];
    for ((name, way), expected) in WAYS.into_iter().zip(expected) {
        let log = Log::in_memory();
        for topic in ["a", "b", "c"] {
            let config = TopicConfig::new().partitions(3);
            log.create_topic(topic, config).unwrap();
        }
        let join = || {
            let builder = log.group("g").subscribe(["a", "b", "c"]);
            way(builder).join().unwrap()
        };
        let mut members = [join(), join()];
        settle(&mut members);
        assert_eq!(sizes(&members), expected, "{name}, together");
        if name != "range" {
            // One after the other comes to the same sizes, in whatever order.
            drop(members);
            let mut members = vec![join()];
            settle(&mut members);
            members.push(join());
            settle(&mut members);
            let mut sizes = sizes(&members);
            sizes.sort_unstable();
            assert_eq!(sizes, [4, 5], "{name}, one by one");
        }
    }
}

#[test]
fn b43_a_member_too_many_is_idle_until_another_one_leaves() {
    for (name, way) in WAYS {
        let log = Log::in_memory();
        let partitions = topic(&log, 3);
        for partition in &partitions {
            append(partition, 0..1);
        }
        let join = || way(log.group("g").subscribe(["t"])).join().unwrap();
        let mut members: Vec<Consumer> = (0..4).map(|_| join()).collect();
        settle(&mut members);
        assert_eq!(sizes(&members), [1, 1, 1, 0], "{name}");
        for member in &mut members {
            member.commit().unwrap();
        }
        for partition in &partitions {
            append(partition, 1..2);
        }
        assert_eq!(poll(&mut members[3]), [0; 0], "{name}");
        members.remove(0).leave().unwrap();
        // (By range and round robin everybody may move. What was not handled yet comes to whoever has it now.)
        let mut read = 0;
        for _ in 0..4 {
            for member in &mut members {
                read += member.poll(NOW).unwrap().len();
                member.commit().unwrap();
            }
        }
        assert_eq!(read, 3, "{name}");
        assert_eq!(sizes(&members), [1, 1, 1], "{name}");
    }
}

/// Each drop comes back at once, and whoever is left has everything at its next poll. (Kept in a list: what was dropped last, and
/// in what situation.)
#[test]
fn b46_a_drop_in_any_situation_frees_what_it_had() {
    let situations = [
        "a: never polled",
        "b: returned and not committed",
        "b: with automatic commits",
        "c: another one sleeps",
        "d: about to take",
        "d: about to give up",
    ];
    for situation in situations {
        let log = Log::in_memory();
        let partitions = topic(&log, 2);
        for partition in &partitions {
            append(partition, 0..4);
        }
        let mut other = join(&log, "g");
        let _ = other.poll(NOW).unwrap();
        let automatic = situation.contains("automatic");
        let builder = log.group("g").subscribe(["t"]);
        let builder = if automatic {
            builder.auto_commit(Duration::ZERO)
        } else {
            builder
        };
        let mut member = builder.join().unwrap();
        let letter = situation.as_bytes()[0];
        if matches!(letter, b'b' | b'c') {
            let _ = other.poll(NOW).unwrap();
            assert_eq!(member.poll(NOW).unwrap().len(), 4, "{situation}");
        }
        if situation == "d: about to take" {
            let _ = member.poll(NOW).unwrap();
            let _ = other.poll(NOW).unwrap();
        }
        if situation == "d: about to give up" {
            std::mem::swap(&mut member, &mut other);
            let _ = other.poll(NOW).unwrap();
        }
        if letter == b'c' {
            std::thread::scope(|scope| {
                let asleep = scope.spawn(|| other.next_batch().unwrap().unwrap().len());
                drop(member);
                // Woken by the hand-over: what the other had read and not committed.
                assert_eq!(asleep.join().unwrap(), 4, "{situation}");
            });
        } else {
            drop(member);
            let _ = other.poll(NOW).unwrap();
        }
        assert_eq!(other.assignment(), [t(0), t(1)], "{situation}");
        let committed = log.group("g").committed().unwrap();
        assert!(committed.is_empty(), "{situation}: a drop commits nothing");
    }
}

#[test]
fn b46_e_a_drop_within_a_task_frees_what_it_had() {
    let log = Log::in_memory();
    let partitions = topic(&log, 2);
    let mut other = join(&log, "g");
    let mut inside = join(&log, "g");
    for _ in 0..2 {
        let _ = (other.poll(NOW).unwrap(), inside.poll(NOW).unwrap());
    }
    let mut waker = Context::from_waker(Waker::noop());
    {
        // Given up while it sleeps, with the task.
        let mut task = pin!(async {
            inside.ready().await;
            drop(inside);
        });
        assert!(task.as_mut().poll(&mut waker).is_pending());
        append(&partitions[1], 0..1);
        assert!(task.as_mut().poll(&mut waker).is_ready());
    }
    assert_eq!(poll(&mut other), [0]);
    assert_eq!(other.assignment(), [t(0), t(1)]);
    let mut inside = join(&log, "g");
    let mut task = Box::pin(async move { inside.ready().await });
    while task.as_mut().poll(&mut waker).is_pending() {
        append(&partitions[0], 0..1);
    }
    drop(task);
    let _ = other.poll(NOW).unwrap();
    assert_eq!(other.assignment(), [t(0), t(1)]);
}

#[test]
fn b46_f_a_drop_after_every_handle_of_the_log_closes_it() {
    let disk = thalweg::testing::Disk::new();
    let log = super::open(&disk);
    append(&topic(&log, 1)[0], 0..3);
    let (mut first, second) = (join(&log, "g"), join(&log, "g"));
    drop(log);
    assert_eq!(poll(&mut first), [0, 1, 2]);
    drop(second);
    first.commit().unwrap();
    drop(first);
    let log = super::open(&disk);
    assert!(log.recovery().is_empty());
    assert_eq!(
        log.group("g").committed().unwrap().next(&t(0)),
        Some(at(3).offset())
    );
}

/// B92: an entry goes to a thread of its own, and where it came from is told to the consumer, or the consumer goes there too.
#[test]
fn b92_a_record_is_handled_elsewhere_and_committed_by_its_position() {
    let test = TestLog::new();
    let log = test.log();
    append(&topic(&log, 1)[0], 0..4);
    let mut consumer = join(&log, "g");
    let mut entries = consumer.poll(NOW).unwrap().into_iter();
    let mut handle = move || entries.next().expect("an entry");
    // The entry moves, and so does its position, or a number.
    let entry = handle();
    let worker = std::thread::spawn(move || {
        assert_eq!(entry.value_str().unwrap(), "0");
        entry.position()
    });
    let done = worker.join().unwrap();
    let mut next = thalweg::Positions::new();
    next.set(done.topic_partition().at(done.offset().next()));
    consumer.commit_at(&next).unwrap();
    assert_eq!(consumer.committed(&t(0)).unwrap(), Some(at(1).offset()));
    // The entry comes back.
    let entry = Arc::new(handle());
    let there = Arc::clone(&entry);
    std::thread::spawn(move || assert_eq!(there.offset().get(), 1))
        .join()
        .unwrap();
    consumer.commit_through(&*entry).unwrap();
    // Both go.
    let entry = handle();
    let consumer = std::thread::spawn(move || {
        consumer.commit_through(&entry).unwrap();
        consumer
    });
    let mut consumer = consumer.join().unwrap();
    assert_eq!(consumer.committed(&t(0)).unwrap(), Some(at(3).offset()));
    // As a task that may go from thread to thread.
    let entry = handle();
    let task = async move {
        consumer.ready().await;
        consumer.commit_through(&entry).unwrap();
    };
    goes_anywhere(&task);
    let mut task = Box::pin(task);
    let done = std::thread::spawn(move || {
        let mut context = Context::from_waker(Waker::noop());
        let _ = log.topic("t").unwrap().append(("", "x")).unwrap();
        assert!(task.as_mut().poll(&mut context).is_ready());
        log.group("g").committed().unwrap()
    });
    assert_eq!(done.join().unwrap().next(&t(0)), Some(at(4).offset()));
}

fn goes_anywhere<T: Send + 'static>(_: &T) {}
