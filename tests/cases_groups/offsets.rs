//! B23 to B37: what is committed, and where a group goes on.

use std::time::Duration;

use thalweg::testing::{CrashModel, Disk, ManualClock};
use thalweg::{Consumer, Durability, Entry, Error, Log, Offset, Positions, StartFrom, TopicConfig};

use super::{append, at, drain, join, open, poll, t, topic};

#[test]
fn b23_every_way_to_commit_stores_the_next_offset() {
    type Way = fn(&mut Consumer, &[Entry]) -> thalweg::Result<()>;
    let ways: [Way; 4] = [
        |consumer, _| consumer.commit(),
        |consumer, entries| consumer.commit_through(&entries[2]),
        |consumer, _| consumer.commit_at(&Positions::from_iter([at(3)])),
        |consumer, entries| {
            let mut done = Positions::new();
            for entry in entries {
                done.done(entry);
            }
            consumer.commit_at(&done)
        },
    ];
    for (n, commit) in ways.into_iter().enumerate() {
        let disk = Disk::new();
        let log = open(&disk);
        append(&topic(&log, 1)[0], 0..3);
        let mut consumer = join(&log, "g");
        let entries: Vec<Entry> = consumer.poll(super::NOW).unwrap().into_iter().collect();
        commit(&mut consumer, &entries).unwrap();
        consumer.close().unwrap();
        log.close().unwrap();
        let log = open(&disk);
        let committed = log.group("g").committed().unwrap();
        assert_eq!(committed.next(&t(0)), Some(Offset::new(3)), "way {n}");
        assert_eq!(log.group("g").lag().unwrap(), [(t(0), 0)], "way {n}");
        let mut again = join(&log, "g");
        assert_eq!(poll(&mut again), [0; 0], "way {n}");
        assert_eq!(again.lag(&t(0)), Some(0), "way {n}");
    }
}

#[test]
fn b25_records_that_failed_before_the_first_commit_come_again() {
    let log = Log::in_memory();
    let partition = &topic(&log, 1)[0];
    let latest = || {
        let builder = log.group("g").subscribe(["t"]);
        builder.start_from(StartFrom::Latest).join().unwrap()
    };
    let mut first = latest();
    assert_eq!(poll(&mut first), [0; 0]);
    let begin = first.positions();
    append(partition, 0..1);
    assert_eq!(poll(&mut first), [0]);
    // The handler fails, and asks for it again.
    for position in begin.iter() {
        first.seek(position).unwrap();
    }
    assert_eq!(poll(&mut first), [0]);
    // Another member takes over before anything was committed: it begins where the group began.
    let mut second = latest();
    drop(first);
    assert_eq!(poll(&mut second), [0]);
    // What nobody reads any more is resolved anew, as the next one says.
    drop(second);
    assert_eq!(poll(&mut latest()), [0; 0]);
}

#[test]
fn b26_a_seek_commits_nothing() {
    let disk = Disk::new();
    let log = open(&disk);
    append(&topic(&log, 1)[0], 0..10);
    let mut consumer = log
        .group("g")
        .subscribe(["t"])
        .max_poll_records(1)
        .join()
        .unwrap();
    assert_eq!(poll(&mut consumer), [0]);
    consumer.commit_at(&Positions::from_iter([at(5)])).unwrap();
    consumer.seek(&at(2)).unwrap();
    assert_eq!(poll(&mut consumer), [2]);
    assert_eq!(consumer.committed(&t(0)).unwrap(), Some(Offset::new(5)));
    let killed = open(&disk.crash(disk.points(), CrashModel::ProcessKill, 0));
    let mut again = join(&killed, "g");
    assert_eq!(poll(&mut again), [5, 6, 7, 8, 9]);
}

#[test]
fn b27_a_seek_drops_what_was_fetched_and_not_taken() {
    let log = Log::in_memory();
    append(&topic(&log, 1)[0], 0..5);
    // Taken one by one out of one batch, and left in the middle of it.
    let offsets =
        |taken: &[Entry]| -> Vec<u64> { taken.iter().map(|e| e.offset().get()).collect() };
    let mut consumer = join(&log, "back");
    let taken: Vec<Entry> = consumer
        .poll(super::NOW)
        .unwrap()
        .into_iter()
        .take(3)
        .collect();
    assert_eq!(offsets(&taken), [0, 1, 2]);
    consumer.seek(&at(2)).unwrap();
    assert_eq!(poll(&mut consumer), [2, 3, 4]);
    consumer.commit().unwrap();
    assert_eq!(consumer.committed(&t(0)).unwrap(), Some(Offset::new(5)));

    let mut consumer = join(&log, "on");
    let taken: Vec<Entry> = consumer
        .poll(super::NOW)
        .unwrap()
        .into_iter()
        .take(2)
        .collect();
    assert_eq!(offsets(&taken), [0, 1]);
    consumer.seek(&at(4)).unwrap();
    assert_eq!(poll(&mut consumer), [4]);
    assert_eq!(poll(&mut consumer), [0; 0]);
    consumer.commit().unwrap();
    assert_eq!(consumer.committed(&t(0)).unwrap(), Some(Offset::new(5)));
}

#[test]
fn b29_a_topic_that_was_made_again_is_read_and_committed_from_its_beginning() {
    let disk = Disk::new();
    let log = open(&disk);
    append(&topic(&log, 1)[0], 0..20);
    let mut before = join(&log, "g");
    assert_eq!(drain(&mut before).len(), 20);
    before.commit().unwrap();
    drop(before);
    log.delete_topic("t").unwrap();
    append(&topic(&log, 1)[0], 100..103);
    assert!(log.group("g").lag().unwrap().is_empty());

    let mut after = join(&log, "g");
    assert_eq!(drain(&mut after), ["0@0 100", "0@1 101", "0@2 102"]);
    after.commit().unwrap();
    assert_eq!(after.committed(&t(0)).unwrap(), Some(Offset::new(3)));
    assert_eq!(log.group("g").lag().unwrap(), [(t(0), 0)]);
    // Back, by hand.
    after.commit_at(&Positions::from_iter([at(1)])).unwrap();
    drop(after);
    log.close().unwrap();
    let log = open(&disk);
    assert_eq!(drain(&mut join(&log, "g")), ["0@1 101", "0@2 102"]);
}

#[test]
fn b31_a_seek_outside_the_log_is_refused_at_once_and_moves_nothing() {
    let log = Log::in_memory();
    let partition = &topic(&log, 1)[0];
    append(partition, 0..10);
    let mut consumer = join(&log, "g");
    assert_eq!(poll(&mut consumer).len(), 10);
    for beyond in [11, 1_000_000, i64::MAX as u64, u64::MAX] {
        consumer.seek(&at(3)).unwrap();
        let refused = consumer.seek(&at(beyond)).unwrap_err();
        let Error::OutOfRange {
            requested, valid, ..
        } = &refused
        else {
            panic!("{beyond}: {refused:?}");
        };
        assert_eq!(**requested, at(beyond));
        assert_eq!(*valid, Offset::ZERO..Offset::new(10));
        assert_eq!(consumer.position(&t(0)), Some(Offset::new(3)), "{beyond}");
        assert_eq!(poll(&mut consumer).first(), Some(&3), "{beyond}");
    }
    consumer.seek(&at(10)).unwrap();
    assert_eq!(poll(&mut consumer), [0; 0]);
    append(partition, 10..11);
    assert_eq!(poll(&mut consumer), [10]);
}

/// There are no relative starts here: counting from either end of a scan is what stands in for them.
#[test]
fn b33_counting_further_than_the_log_reaches_ends_at_its_ends() {
    let log = Log::in_memory();
    let partition = &topic(&log, 1)[0];
    append(partition, 0..5);
    let last = partition.entries(..).rev().take(10).last().unwrap();
    assert_eq!(last.unwrap().offset(), Offset::ZERO);
    assert!(partition.entries(Offset::new(10)..).next().is_none());
    assert!(partition.entries(..).nth(10).is_none());
    let time = thalweg::Timestamp::MIN;
    let early = log
        .group("g")
        .subscribe(["t"])
        .start_from(StartFrom::Time(time));
    assert_eq!(poll(&mut early.join().unwrap()).len(), 5);
    let ago = StartFrom::Ago(std::time::Duration::MAX);
    let early = log.group("ago").subscribe(["t"]).start_from(ago);
    assert_eq!(poll(&mut early.join().unwrap()).len(), 5);
}

/// Offsets stay for a minute, and a member is idle for ten.
#[test]
fn b36_an_idle_member_keeps_its_offsets_and_they_expire_after_the_last_one_left() {
    let (disk, clock) = (Disk::new(), ManualClock::new());
    let minute = Duration::from_secs(60);
    let open = || {
        let builder = Log::builder().offsets_retention(minute).clock(&clock);
        builder.open_on(&disk).unwrap()
    };
    let no_traffic = |log: &Log, minutes| {
        for _ in 0..minutes {
            clock.advance(minute);
            assert_eq!(log.maintain().unwrap().offsets_expired, 0);
        }
    };
    for polls in [true, false] {
        let log = open();
        let topic = log.topic_or_create("t", TopicConfig::new()).unwrap();
        append(&topic.partition(0).unwrap(), 0..20);
        let builder = log.group("g").subscribe(["t"]);
        let mut idle = builder.max_poll_interval(11 * minute).join().unwrap();
        let _ = idle.poll(super::NOW).unwrap();
        idle.commit_at(&Positions::from_iter([at(10)])).unwrap();
        for _ in 0..2 {
            no_traffic(&log, 5);
            if polls {
                let _ = idle.poll(super::NOW).unwrap();
            }
        }
        assert_eq!(idle.committed(&t(0)).unwrap(), Some(Offset::new(10)));
        // The restart, in order or not.
        if polls {
            idle.close().unwrap();
        } else {
            drop(idle);
        }
        log.close().unwrap();
        clock.advance(10 * minute);
        let log = open();
        assert_eq!(log.maintain().unwrap().offsets_expired, 0);
        let mut again = join(&log, "g");
        assert_eq!(poll(&mut again).first(), Some(&10));
        again.close().unwrap();
        clock.advance(minute);
        assert_eq!(log.maintain().unwrap().offsets_expired, 1);
        assert!(log.groups().unwrap().is_empty());
        log.close().unwrap();
    }
}

/// Of what makes offsets and records differ in number: a recovery.
#[test]
fn b37_the_end_is_no_count_of_records() {
    let disk = Disk::new();
    let log = open(&disk);
    let config = TopicConfig::new()
        .durability(Durability::Process)
        .offset_span(1000);
    let partition = log.create_topic("t", config).unwrap().partition(0).unwrap();
    append(&partition, 0..20);
    let mut consumer = join(&log, "g");
    assert_eq!(poll(&mut consumer).len(), 20);
    consumer.commit().unwrap();
    log.sync().unwrap();
    append(&partition, 20..25);
    let lost = disk.crash(disk.points(), CrashModel::LostSuffix, 0);
    let log = open(&lost);
    let partition = log.topic("t").unwrap().partition(0).unwrap();
    let offsets = partition.offsets();
    assert_eq!(offsets, Offset::ZERO..Offset::new(1000));
    assert_eq!(partition.entries(..).count(), 20);
    assert_eq!(
        log.group("g").lag().unwrap(),
        [(t(0), 0)],
        "a gap is no lag"
    );
    let next = partition.append(("key", "x")).unwrap();
    assert_eq!(next.offset(), offsets.end);
    assert_eq!(partition.offsets().end, Offset::new(1001));
    assert_eq!(partition.entries(..).count(), 21);
    assert_eq!(log.group("g").lag().unwrap(), [(t(0), 1)]);
    let mut consumer = join(&log, "g");
    assert_eq!(poll(&mut consumer), [1000]);
    assert_eq!(consumer.position(&t(0)), Some(Offset::new(1001)));
    assert_eq!(consumer.lag(&t(0)), Some(0));
}
