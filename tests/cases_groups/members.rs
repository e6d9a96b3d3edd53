//! B41, B46, B47 and B101: several members in one process.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::thread;

use thalweg::{Consumer, Log, StartFrom, TopicPartition};

use super::{NOW, append, at, join, poll, t, topic};

/// Every member polls until none of them gives up or takes anything more.
fn settle(members: &mut [Consumer]) {
    for _ in 0..=members.len() {
        for member in &mut *members {
            let _ = member.poll(NOW).unwrap();
        }
    }
}

/// How many partitions each has. Nobody has what another one has, and together they have all six.
fn sizes(members: &[Consumer]) -> Vec<usize> {
    let owned: Vec<Vec<TopicPartition>> = members.iter().map(Consumer::assignment).collect();
    let all: BTreeSet<&TopicPartition> = owned.iter().flatten().collect();
    assert_eq!(all.len(), 6, "{owned:?}");
    assert_eq!(owned.iter().map(Vec::len).sum::<usize>(), 6, "{owned:?}");
    owned.iter().map(Vec::len).collect()
}

#[test]
fn b41_groups_in_one_process_do_not_disturb_each_other() {
    let log = Log::in_memory();
    topic(&log, 6);
    let mut other = vec![join(&log, "g2")];
    settle(&mut other);
    let still = |other: &[Consumer]| {
        let seen = other
            .iter()
            .map(|m| (m.assignment(), m.membership().generation()));
        seen.collect::<Vec<_>>()
    };
    let mut before = still(&other);
    let mut members: Vec<Consumer> = Vec::new();
    for expected in [&[6][..], &[3, 3], &[2, 2, 2]] {
        members.push(join(&log, "g1"));
        settle(&mut members);
        assert_eq!(sizes(&members), expected);
        settle(&mut other);
        assert_eq!(still(&other), before);
        // The other group changes too, and this one does not.
        let here = still(&members);
        other.push(join(&log, "g2"));
        settle(&mut other);
        sizes(&other);
        before = still(&other);
        settle(&mut members);
        assert_eq!(still(&members), here);
    }
    let kept: Vec<_> = [0, 2].map(|n: usize| members[n].assignment()).into();
    drop(members.remove(1));
    settle(&mut members);
    assert_eq!(sizes(&members), [3, 3]);
    for (member, kept) in members.iter().zip(kept) {
        let now = member.assignment();
        assert!(
            kept.iter().all(|at| now.contains(at)),
            "{kept:?}, then {now:?}"
        );
    }
    assert_eq!(still(&other), before);
}

#[test]
fn b46_a_dropped_member_hands_over_whatever_it_was_about() {
    let log = Log::in_memory();
    let partitions = topic(&log, 2);
    append(&partitions[0], 0..4);
    append(&partitions[1], 0..4);
    let mut other = join(&log, "g");
    // Without a poll.
    drop(join(&log, "g"));
    assert_eq!(poll(&mut other).len(), 8);
    // With records that were returned and not committed: they come again.
    let mut member = join(&log, "g");
    let _ = other.poll(NOW).unwrap();
    assert_eq!(poll(&mut member).len(), 4);
    assert_eq!(member.assignment(), [t(1)]);
    drop(member);
    let again = other.poll(NOW).unwrap();
    assert_eq!(again.partition(&t(1)).count(), 4);
    assert_eq!(other.assignment(), [t(0), t(1)]);
    // While a partition is on its way to it, or from it.
    let mut joining = join(&log, "g");
    let _ = joining.poll(NOW).unwrap();
    assert!(joining.assignment().is_empty());
    drop(joining);
    let _ = other.poll(NOW).unwrap();
    assert_eq!(other.assignment(), [t(0), t(1)]);
    let taking = join(&log, "g");
    let _ = other.poll(NOW).unwrap();
    assert_eq!(other.assignment(), [t(0)]);
    drop(taking);
    let _ = other.poll(NOW).unwrap();
    assert_eq!(other.assignment(), [t(0), t(1)]);
    // Last of all.
    drop((partitions, log));
    drop(other);
}

#[test]
fn b46_a_drop_does_not_wait_for_members_that_sleep_in_a_poll() {
    let log = Log::in_memory();
    let partitions = topic(&log, 2);
    let mut members = vec![join(&log, "g"), join(&log, "g")];
    settle(&mut members);
    let gone = members.pop().unwrap();
    let mut sleeper = members.pop().unwrap();
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        let asleep = scope.spawn(|| {
            barrier.wait();
            let batch = sleeper.next_batch().unwrap().unwrap();
            batch
                .iter()
                .map(|e| e.topic_partition().clone())
                .collect::<Vec<_>>()
        });
        barrier.wait();
        drop(gone);
        append(&partitions[1], 0..1);
        assert_eq!(asleep.join().unwrap(), [t(1)]);
    });
}

#[test]
fn b47_nothing_that_is_appended_after_the_join_is_skipped() {
    let log = Log::in_memory();
    let partition = &topic(&log, 1)[0];
    append(partition, 0..3);
    let builder = log.group("g").subscribe(["t"]);
    let mut consumer = builder.start_from(StartFrom::Latest).join().unwrap();
    append(partition, 3..4);
    assert_eq!(poll(&mut consumer), [3]);
    assert_eq!(consumer.position(&t(0)), Some(at(4).offset()));
}

#[test]
fn b101_a_backlog_in_one_partition_starves_no_other() {
    let log = Log::in_memory();
    let partitions = topic(&log, 3);
    for _ in 0..20 {
        append(&partitions[0], 0..5_000);
    }
    append(&partitions[1], 0..10);
    append(&partitions[2], 0..10);
    let builder = log.group("g").subscribe(["t"]);
    let mut consumer = builder.max_poll_records(100).join().unwrap();
    let mut next = [0; 3];
    let mut polls = 0;
    while next[1] < 10 || next[2] < 10 {
        let batch = consumer.poll(NOW).unwrap();
        assert!(batch.len() <= 100);
        for entry in &batch {
            let next = &mut next[entry.partition().get() as usize];
            assert_eq!(entry.offset().get(), *next, "in order");
            *next += 1;
        }
        append(&partitions[0], 0..100);
        polls += 1;
        assert!(polls <= 6, "{next:?}");
    }
    println!("{polls} polls");
}
