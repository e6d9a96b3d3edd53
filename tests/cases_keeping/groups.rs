//! B30: a group whose committed offset is below the log start goes on at the log start and is told so, or fails, as it was set.

use std::time::Duration;

use thalweg::{
    Consumer, Error, Log, Offset, OnOutOfRange, Partition, Position, Positions, StartFrom,
    TopicConfig, TopicPartition,
};

use super::logs::{fresh, killed, open};
use super::ten_by_ten;

const NOW: Duration = Duration::ZERO;

fn t() -> TopicPartition {
    TopicPartition::new("t", 0)
}

fn at(offset: u64) -> Position {
    t().at(Offset::new(offset))
}

fn committed(log: &Log) -> Option<u64> {
    log.group("g")
        .committed()
        .unwrap()
        .next(&t())
        .map(Offset::get)
}

/// 50 to 99 are left, and 10 is committed.
fn overtaken() -> (thalweg::testing::Disk, Log, Partition) {
    let (disk, log, partition) = fresh(TopicConfig::new());
    ten_by_ten(&partition);
    log.group("g")
        .set_positions(&Positions::from_iter([at(10)]))
        .unwrap();
    partition.delete_before(Offset::new(50)).unwrap();
    assert_eq!(committed(&log), Some(10));
    assert_eq!(
        log.group("g").lag().unwrap(),
        [(t(), 50)],
        "what is left to read"
    );
    (disk, log, partition)
}

fn join(log: &Log, start: StartFrom, then: OnOutOfRange) -> Consumer {
    let builder = log.group("g").subscribe(["t"]).start_from(start);
    builder
        .on_out_of_range(then)
        .max_poll_records(10)
        .join()
        .unwrap()
}

#[test]
fn b30_a_group_that_was_overtaken_goes_on_at_the_log_start_wherever_it_would_have_begun() {
    for start in [StartFrom::Earliest, StartFrom::Latest, StartFrom::Fail] {
        let (disk, log, _partition) = overtaken();
        let mut consumer = join(&log, start, OnOutOfRange::LogStart);
        let batch = consumer.poll(NOW).unwrap();
        let offsets: Vec<u64> = batch.iter().map(|entry| entry.offset().get()).collect();
        assert_eq!(offsets, (50..60).collect::<Vec<_>>());
        let [reset] = batch.resets() else {
            panic!("{:?}", batch.resets());
        };
        assert_eq!((reset.from.clone(), reset.to.get()), (at(10), 50));
        assert_eq!(committed(&log), Some(10), "a reset commits nothing");
        assert_eq!(consumer.lag(&t()), Some(40));
        drop(batch);
        consumer.commit().unwrap();
        assert_eq!(committed(&log), Some(60));
        let batch = consumer.poll(NOW).unwrap();
        assert_eq!((batch.len(), batch.resets().len()), (10, 0));
        // Another process sees it so, too.
        assert_eq!(committed(&open(&killed(&disk))), Some(60));
    }
}

#[test]
fn b30_who_wants_to_fail_is_told_once_in_a_poll_and_again_when_it_asks_again() {
    let (_disk, log, partition) = overtaken();
    let mut consumer = join(&log, StartFrom::Earliest, OnOutOfRange::Fail);
    for _ in 0..3 {
        let refused = consumer.poll(NOW).unwrap_err();
        let Error::OutOfRange {
            requested, valid, ..
        } = &refused
        else {
            panic!("{refused:?}");
        };
        assert_eq!(**requested, at(10));
        assert_eq!(*valid, Offset::new(50)..Offset::new(100));
        assert_eq!(refused.resume_at(), Some(at(50)));
        assert!(consumer.poll(NOW).unwrap().is_empty(), "it rests");
        assert_eq!(committed(&log), Some(10));
        consumer.resume(&[t()]).unwrap();
    }
    let refused = consumer.poll(NOW).unwrap_err();
    consumer.seek(&refused.resume_at().unwrap()).unwrap();
    let batch = consumer.poll(NOW).unwrap();
    assert_eq!(batch.iter().next().unwrap().offset().get(), 50);
    drop(batch);
    assert_eq!(partition.offsets().start.get(), 50);
}

/// Nothing is left to read: it is told all the same, once and at once.
#[test]
fn b30_a_group_of_an_emptied_partition_is_told_though_there_is_no_record() {
    let (_disk, log, partition) = overtaken();
    partition.delete_before(Offset::new(100)).unwrap();
    let mut consumer = join(&log, StartFrom::Earliest, OnOutOfRange::LogStart);
    let batch = consumer.poll(NOW).unwrap();
    assert!(batch.is_empty());
    let [reset] = batch.resets() else {
        panic!("{:?}", batch.resets());
    };
    assert_eq!((reset.from.clone(), reset.to.get()), (at(10), 100));
    assert_eq!(consumer.lag(&t()), Some(0));
    consumer.commit().unwrap();
    partition.append(("key", "x")).unwrap();
    let batch = consumer.poll(NOW).unwrap();
    assert_eq!(batch.iter().next().unwrap().offset().get(), 100);
    assert!(batch.resets().is_empty(), "{:?}", batch.resets());
    drop(batch);
    consumer.commit().unwrap();
    assert_eq!(committed(&log), Some(101));
}

/// What was handled is committed, though retention has taken it meanwhile; and a start that is resolved is the log start.
#[test]
fn b30_retention_between_a_poll_and_its_commit_disturbs_neither() {
    let (_disk, log, partition) = fresh(TopicConfig::new());
    ten_by_ten(&partition);
    let mut consumer = join(&log, StartFrom::Earliest, OnOutOfRange::LogStart);
    assert_eq!(consumer.poll(NOW).unwrap().len(), 10);
    partition.delete_before(Offset::new(50)).unwrap();
    consumer.commit().unwrap();
    assert_eq!(committed(&log), Some(10));
    let below = Positions::from_iter([at(20)]);
    let refused = consumer.commit_at(&below).unwrap_err();
    assert!(matches!(refused, Error::OutOfRange { .. }), "{refused:?}");
    assert_eq!(committed(&log), Some(10));
    assert_eq!(consumer.poll(NOW).unwrap().resets().len(), 1);
    let builder = log.group("new").subscribe(["t"]);
    let mut new = builder.join().unwrap();
    let batch = new.poll(NOW).unwrap();
    let first = batch.iter().next().unwrap().offset().get();
    assert_eq!(
        (first, batch.resets().len()),
        (50, 0),
        "nothing was skipped"
    );
}
