//! Several members of one group: how they share partitions, and how a partition goes from one to the next.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use thalweg::testing::{CrashModel, Disk};
use thalweg::{
    Consumer, Durability, Error, Log, Offset, StartFrom, TopicConfig, TopicPartition, assignor,
};

const NOW: Duration = Duration::ZERO;

fn log_with(topic: &str, partitions: u32, records: u64) -> Log {
    let log = Log::in_memory();
    make(&log, topic, partitions, records);
    log
}

fn make(log: &Log, topic: &str, partitions: u32, records: u64) {
    let config = TopicConfig::new()
        .partitions(partitions)
        .durability(Durability::Process);
    let topic = log.create_topic(topic, config).unwrap();
    for n in 0..records {
        let partition = topic.partition((n % u64::from(partitions)) as u32).unwrap();
        partition
            .append((&format!("key-{n}"), &n.to_string()))
            .unwrap();
    }
}

fn join(log: &Log, topics: &[&str]) -> Consumer {
    log.group("g")
        .subscribe(topics.iter().copied())
        .join()
        .unwrap()
}

/// A member of `g` that begins at the end where nothing is committed.
fn latest(log: &Log) -> Consumer {
    let builder = log.group("g").subscribe(["orders"]);
    builder.start_from(StartFrom::Latest).join().unwrap()
}

fn at(topic: &str, partition: u32) -> TopicPartition {
    TopicPartition::new(topic, partition)
}

/// What a poll returns, as partition and offset.
fn poll(consumer: &mut Consumer) -> Vec<(TopicPartition, u64)> {
    let batch = consumer.poll(NOW).unwrap();
    let seen = batch
        .iter()
        .map(|entry| (entry.topic_partition().clone(), entry.offset().get()));
    seen.collect()
}

fn shown(consumer: &Consumer) -> String {
    let owned = consumer.assignment();
    let owned: Vec<String> = owned.iter().map(ToString::to_string).collect();
    owned.join(" ")
}

/// Polls all until nobody's partitions change.
fn settle(members: &mut [&mut Consumer]) {
    for _ in 0..2 {
        for member in members.iter_mut() {
            let _ = member.poll(NOW).unwrap();
        }
    }
}

#[test]
fn members_share_the_partitions_in_ranges_by_the_order_in_which_they_joined() {
    let log = log_with("orders", 5, 0);
    let ranges = || {
        let builder = log.group("g").subscribe(["orders"]);
        builder.assignor(assignor::Range).join().unwrap()
    };
    let (mut a, mut b, mut c) = (ranges(), ranges(), ranges());
    settle(&mut [&mut c, &mut b, &mut a]);
    assert_eq!(shown(&a), "orders-0 orders-1");
    assert_eq!(shown(&b), "orders-2 orders-3");
    assert_eq!(shown(&c), "orders-4");
    let names: Vec<String> = [&a, &b, &c]
        .map(|member| member.membership().member().to_owned())
        .into();
    assert_eq!(names, ["g-0000000001", "g-0000000002", "g-0000000003"]);
    assert!(
        [&a, &b, &c]
            .iter()
            .all(|member| member.membership().generation() == 1)
    );
}

#[test]
fn a_partition_moves_only_when_its_owner_gave_it_up_in_its_own_poll() {
    let log = log_with("orders", 2, 20);
    let mut a = join(&log, &["orders"]);
    assert_eq!(poll(&mut a).len(), 20);
    a.commit().unwrap();
    let mut b = join(&log, &["orders"]);
    assert!(poll(&mut b).is_empty());
    assert_eq!(
        (shown(&a).as_str(), shown(&b).as_str()),
        ("orders-0 orders-1", "")
    );
    // It still owns both, and may still commit both.
    a.seek(&at("orders", 1).at(Offset::new(4))).unwrap();
    a.commit().unwrap();
    let before = a.membership();
    assert!(poll(&mut a).is_empty());
    assert!(a.membership().generation() > before.generation());
    assert_eq!((shown(&a).as_str(), shown(&b).as_str()), ("orders-0", ""));
    let refused = a.seek(&at("orders", 1).at(Offset::ZERO));
    assert!(matches!(refused, Err(Error::NotAssigned { .. })));
    let seen = poll(&mut b);
    assert_eq!(seen.first(), Some(&(at("orders", 1), 4)));
    assert_eq!(seen.len(), 6);
    assert_eq!(shown(&b), "orders-1");
}

#[test]
fn what_was_not_committed_before_a_hand_over_is_repeated_and_nothing_is_skipped() {
    let log = log_with("orders", 2, 20);
    let mut a = join(&log, &["orders"]);
    assert_eq!(poll(&mut a).len(), 20);
    let mut b = join(&log, &["orders"]);
    settle(&mut [&mut a]);
    let seen = poll(&mut b);
    assert_eq!(seen.len(), 10);
    assert!(
        seen.iter()
            .all(|(partition, _)| *partition == at("orders", 1))
    );
    assert!(poll(&mut a).is_empty());
}

#[test]
fn a_member_that_leaves_or_is_dropped_hands_over() {
    let log = log_with("orders", 3, 30);
    let (mut a, mut b, mut c) = (
        join(&log, &["orders"]),
        join(&log, &["orders"]),
        join(&log, &["orders"]),
    );
    for member in [&mut a, &mut b, &mut c] {
        assert_eq!(poll(member).len(), 10);
        member.commit().unwrap();
    }
    b.close().unwrap();
    settle(&mut [&mut a, &mut c]);
    assert_eq!(
        (shown(&a).as_str(), shown(&c).as_str()),
        ("orders-0 orders-1", "orders-2")
    );
    drop(a);
    assert!(poll(&mut c).is_empty(), "all was committed");
    assert_eq!(shown(&c), "orders-0 orders-1 orders-2");
    log.topic("orders")
        .unwrap()
        .partition(1)
        .unwrap()
        .append(("k", "v"))
        .unwrap();
    assert_eq!(poll(&mut c), [(at("orders", 1), 10)]);
}

#[test]
fn more_members_than_partitions_leave_some_without_any_until_one_goes() {
    let log = log_with("orders", 1, 1);
    let mut a = join(&log, &["orders"]);
    let mut b = join(&log, &["orders"]);
    settle(&mut [&mut a, &mut b]);
    assert_eq!((shown(&a).as_str(), shown(&b).as_str()), ("orders-0", ""));
    drop(a);
    assert_eq!(poll(&mut b), [(at("orders", 0), 0)]);
}

#[test]
fn members_of_different_topics_get_only_their_own() {
    let log = log_with("orders", 2, 0);
    make(&log, "sales", 2, 0);
    let mut a = join(&log, &["orders"]);
    let mut b = join(&log, &["orders", "sales"]);
    settle(&mut [&mut a, &mut b]);
    assert_eq!(shown(&a), "orders-0 orders-1");
    assert_eq!(shown(&b), "sales-0 sales-1");
}

#[test]
fn the_group_begins_where_its_first_member_said_and_keeps_that_until_it_commits() {
    let log = log_with("orders", 2, 10);
    let mut a = latest(&log);
    make_more(&log, 2);
    assert_eq!(
        poll(&mut a).len(),
        2,
        "nothing appended after the join is skipped"
    );
    // Joined later, it begins where the group began, not at the end as it is now.
    let mut b = latest(&log);
    assert!(poll(&mut a).is_empty());
    assert_eq!(poll(&mut b), [(at("orders", 1), 5)]);
    drop((a, b));
    // A group that became empty begins anew.
    let mut again = latest(&log);
    assert!(poll(&mut again).is_empty());
}

fn make_more(log: &Log, records: u32) {
    let topic = log.topic("orders").unwrap();
    for n in 0..records {
        topic.partition(n % 2).unwrap().append(("k", "v")).unwrap();
    }
}

#[test]
fn a_topic_that_appears_is_shared_too() {
    let log = log_with("orders", 1, 1);
    let mut a = join(&log, &["orders", "sales"]);
    let mut b = join(&log, &["orders", "sales"]);
    settle(&mut [&mut a, &mut b]);
    assert_eq!((shown(&a).as_str(), shown(&b).as_str()), ("orders-0", ""));
    make(&log, "sales", 2, 2);
    settle(&mut [&mut a, &mut b]);
    assert_eq!(
        (shown(&a).as_str(), shown(&b).as_str()),
        ("orders-0 sales-1", "sales-0")
    );
    log.delete_topic("orders").unwrap();
    settle(&mut [&mut a, &mut b]);
    assert_eq!(
        (shown(&a).as_str(), shown(&b).as_str()),
        ("sales-1", "sales-0")
    );
}

#[test]
fn generations_and_names_are_never_repeated_in_one_opening() {
    let log = log_with("orders", 1, 1);
    let mut seen = BTreeSet::new();
    for _ in 0..3 {
        let (a, b) = (join(&log, &["orders"]), join(&log, &["orders"]));
        for mut member in [a, b] {
            poll(&mut member);
            let membership = member.membership();
            assert!(seen.insert((membership.member().to_owned(), membership.generation())));
        }
    }
    assert_eq!(seen.len(), 6);
    let generations: BTreeSet<u64> = seen.iter().map(|(_, generation)| *generation).collect();
    assert_eq!(generations.len(), 6);
}

/// On the real clock: a member that waits is woken by what another one gives up, and by its leaving.
#[test]
fn a_waiting_member_takes_over_what_another_one_leaves() {
    let log = log_with("orders", 1, 3);
    let mut a = join(&log, &["orders"]);
    assert_eq!(poll(&mut a).len(), 3);
    let mut b = join(&log, &["orders"]);
    assert!(poll(&mut b).is_empty());
    let waiting = std::thread::spawn(move || {
        let batch = b.next_batch().unwrap().unwrap();
        batch.len()
    });
    a.close().unwrap();
    assert_eq!(waiting.join().unwrap(), 3);
}

/// Threads that join, poll, commit and leave: each record is handled, and order holds within a partition between commits.
#[test]
fn f112_members_that_come_and_go_lose_nothing() {
    const PARTITIONS: u32 = 6;
    const RECORDS: u64 = 3_000;
    let log = log_with("orders", PARTITIONS, RECORDS);
    let members = 4;
    let handled: Vec<BTreeMap<TopicPartition, Vec<u64>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..members)
            .map(|n| {
                let log = log.clone();
                scope.spawn(move || {
                    let mut handled: BTreeMap<TopicPartition, Vec<u64>> = BTreeMap::new();
                    for round in 0..20 {
                        let builder = log.group("g").subscribe(["orders"]);
                        let mut member = builder.max_poll_records(20 + n * 7).join().unwrap();
                        for _ in 0..5 + (round + n) % 3 {
                            for (partition, offset) in poll(&mut member) {
                                handled.entry(partition).or_default().push(offset);
                            }
                            member.commit().unwrap();
                        }
                    }
                    handled
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let mut rest = join(&log, &["orders"]);
    let mut all: BTreeMap<TopicPartition, BTreeSet<u64>> = BTreeMap::new();
    let mut count = 0;
    loop {
        let seen = poll(&mut rest);
        if seen.is_empty() {
            break;
        }
        for (partition, offset) in seen {
            assert!(all.entry(partition).or_default().insert(offset));
            count += 1;
        }
    }
    for (partition, offsets) in handled.into_iter().flatten() {
        count += offsets.len();
        all.entry(partition).or_default().extend(offsets);
    }
    let distinct: usize = all.values().map(BTreeSet::len).sum();
    assert_eq!(distinct as u64, RECORDS);
    assert_eq!(
        count as u64, RECORDS,
        "every poll was committed before its partitions went, so nothing is repeated"
    );
}

#[test]
fn the_lag_of_a_group_counts_partitions_that_it_has_not_committed_yet() {
    let log = log_with("orders", 2, 20);
    let lag = || log.group("g").lag().unwrap();
    assert!(lag().is_empty(), "nobody knows of this group");
    let mut a = join(&log, &["orders"]);
    assert_eq!(lag(), [(at("orders", 0), 10), (at("orders", 1), 10)]);
    let first = a.poll(NOW).unwrap();
    let of_first = first.partition(&at("orders", 0)).last().unwrap();
    a.commit_through(of_first).unwrap();
    assert_eq!(lag(), [(at("orders", 0), 0), (at("orders", 1), 10)]);
    drop(a);
    assert_eq!(lag(), [(at("orders", 0), 0), (at("orders", 1), 10)]);
    // Of who begins at the end, nothing is behind.
    let latest = log
        .group("h")
        .subscribe(["orders"])
        .start_from(StartFrom::Latest);
    let _member = latest.join().unwrap();
    let behind: u64 = log
        .group("h")
        .lag()
        .unwrap()
        .iter()
        .map(|(_, lag)| lag)
        .sum();
    assert_eq!(behind, 0);
}

#[test]
fn gaps_that_recovery_left_are_no_lag() {
    let disk = Disk::new();
    let log = Log::builder().open_on(&disk).unwrap();
    make(&log, "orders", 1, 3);
    log.sync().unwrap();
    let lost = |log: &Log| log.topic("orders").unwrap().append(("k", "lost")).unwrap();
    lost(&log);
    let (mut disk, mut open) = (disk, vec![log]); // dropped, a log is closed in order
    // Each power loss leaves a gap: before the next record of this opening, and recorded once that is written.
    for records in 4..=6 {
        disk = disk.crash(disk.points(), CrashModel::LostSuffix, 0);
        let log = Log::builder().open_on(&disk).unwrap();
        assert_eq!(
            log.recovery().findings().len(),
            1,
            "a gap: {:?}",
            log.recovery()
        );
        let mut member = join(&log, &["orders"]);
        let first = at("orders", 0);
        assert_eq!(
            log.group("g").lag().unwrap(),
            [(first.clone(), records - 1)]
        );
        log.topic("orders").unwrap().append(("k", "v")).unwrap();
        log.sync().unwrap();
        assert_eq!(log.group("g").lag().unwrap(), [(first.clone(), records)]);
        let seen = poll(&mut member);
        assert_eq!(seen.len() as u64, records);
        assert_eq!(member.lag(&first), Some(0));
        member.seek(&first.at(Offset::new(1))).unwrap();
        assert_eq!(member.lag(&first), Some(records - 1));
        lost(&log);
        open.push(log);
    }
}

#[test]
fn a_topic_that_the_group_waits_for_is_read_from_its_first_record_whoever_finds_it() {
    let log = Log::in_memory();
    let mut a = latest(&log);
    assert!(poll(&mut a).is_empty());
    make(&log, "orders", 1, 10);
    let mut b = latest(&log);
    assert_eq!(poll(&mut a).len() + poll(&mut b).len(), 10);
}
