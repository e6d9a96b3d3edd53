//! Groups whose topic grows: members find the new partitions in their next poll, and read them from the first record.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use thalweg::testing::Disk;
use thalweg::{Consumer, Log, Offset, StartFrom, Topic, TopicPartition};

use super::{NOW, config, open};

const STARTS: [StartFrom; 3] = [
    StartFrom::Earliest,
    StartFrom::Latest,
    StartFrom::Ago(Duration::ZERO),
];

fn topic(log: &Log) -> Topic {
    let orders = log.create_topic("orders", config(2)).unwrap();
    write(&orders, 0..2, "old");
    orders
}

/// A record in each of these partitions.
fn write(topic: &Topic, partitions: std::ops::Range<u32>, what: &str) {
    for id in partitions {
        let value = format!("{what} {id}");
        topic.partition(id).unwrap().append(("k", &value)).unwrap();
    }
}

fn join(log: &Log, start: StartFrom) -> Consumer {
    let builder = log.group("g").subscribe(["orders"]);
    builder.start_from(start).join().unwrap()
}

/// Everything there is for these members, who poll in turn until nothing comes.
fn drain(members: &mut [&mut Consumer]) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut idle = 0;
    while idle < 3 {
        idle += 1;
        for member in members.iter_mut() {
            for entry in &member.poll(NOW).unwrap() {
                assert!(seen.insert(entry.value_str().unwrap().to_owned()), "twice");
                idle = 0;
            }
        }
    }
    seen
}

fn texts<const N: usize>(texts: [&str; N]) -> BTreeSet<String> {
    texts.map(str::to_owned).into()
}

#[test]
fn a_member_reads_the_new_partitions_from_their_first_record_wherever_it_began() {
    for start in STARTS {
        let log = Log::in_memory();
        let orders = topic(&log);
        let mut consumer = join(&log, start);
        let _ = drain(&mut [&mut consumer]);
        orders.add_partitions_breaking_key_order(2).unwrap();
        write(&orders, 0..4, "new");
        let all = texts(["new 0", "new 1", "new 2", "new 3"]);
        assert_eq!(drain(&mut [&mut consumer]), all, "{start:?}");
        assert_eq!(consumer.assignment().len(), 4);
        // Once more: another growth is another discovery.
        orders.add_partitions_breaking_key_order(1).unwrap();
        write(&orders, 4..5, "newer");
        assert_eq!(drain(&mut [&mut consumer]), texts(["newer 4"]), "{start:?}");
    }
}

#[test]
fn who_joins_a_group_whose_topic_has_grown_skips_nothing_that_was_written_since() {
    let log = Log::in_memory();
    let orders = topic(&log);
    let mut first = join(&log, StartFrom::Latest);
    assert!(drain(&mut [&mut first]).is_empty());
    orders.add_partitions_breaking_key_order(2).unwrap();
    write(&orders, 2..4, "new");
    // It finds the new partitions before the one who was there looks.
    let mut second = join(&log, StartFrom::Latest);
    let seen = drain(&mut [&mut second, &mut first]);
    assert_eq!(seen, texts(["new 2", "new 3"]));
    let both = [first.assignment(), second.assignment()];
    assert_eq!(both.map(|of| of.len()), [2, 2]);
}

#[test]
fn the_new_partitions_are_shared_and_what_is_committed_for_them_survives() {
    let disk = Disk::new();
    let log = open(&disk);
    let orders = topic(&log);
    let (mut a, mut b) = (
        join(&log, StartFrom::Earliest),
        join(&log, StartFrom::Earliest),
    );
    assert_eq!(drain(&mut [&mut a, &mut b]).len(), 2);
    a.commit().unwrap();
    b.commit().unwrap(); // its partition goes to the other one
    orders.add_partitions_breaking_key_order(4).unwrap();
    write(&orders, 0..6, "new");
    assert_eq!(drain(&mut [&mut a, &mut b]).len(), 6);
    assert_eq!((a.assignment().len(), b.assignment().len()), (3, 3));
    for member in [&mut a, &mut b] {
        member.commit().unwrap();
    }
    let lag = log.group("g").lag().unwrap();
    assert_eq!(lag.len(), 6);
    assert!(lag.iter().all(|(_, lag)| *lag == 0), "{lag:?}");
    drop((a, b));
    log.close().unwrap();
    let log = open(&disk);
    let committed = log.group("g").committed().unwrap();
    let at = committed.next(&TopicPartition::new("orders", 5));
    assert_eq!(at, Some(Offset::new(1)));
    assert!(drain(&mut [&mut join(&log, StartFrom::Earliest)]).is_empty());
}

/// On the real clock: a poll that waits is woken by the growth, and then by what comes into a new partition.
#[test]
fn a_member_that_waits_learns_of_it() {
    let log = Log::in_memory();
    let orders = topic(&log);
    let mut consumer = join(&log, StartFrom::Latest);
    assert!(consumer.poll(NOW).unwrap().is_empty());
    let waiting = thread::spawn(move || {
        let batch = consumer.poll(Duration::from_secs(60)).unwrap();
        batch
            .iter()
            .next()
            .map(|entry| entry.value_str().unwrap().to_owned())
    });
    orders.add_partitions_breaking_key_order(1).unwrap();
    write(&orders, 2..3, "new");
    assert_eq!(waiting.join().unwrap().as_deref(), Some("new 2"));
}
