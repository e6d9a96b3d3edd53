//! B50 to B53: whose age counts, for which segments, and what becomes of the last one.

use thalweg::testing::{Disk, ManualClock};
use thalweg::{Log, Partition, Record, Retention, RetentionTime, Timestamp, TopicConfig};

use super::logs::{end, files, one, open_with, rows, t0};
use super::{HOUR, SECOND, maintain, start};

fn with_age(age: std::time::Duration) -> TopicConfig {
    TopicConfig::new().retention(Retention::new().age(age))
}

fn made(config: TopicConfig) -> (Disk, ManualClock, Log, Partition) {
    let (disk, clock) = (Disk::new(), ManualClock::new());
    let log = open_with(&disk, &clock);
    let partition = one(&log.create_topic("t", config).unwrap());
    (disk, clock, log, partition)
}

fn at(ms: i64) -> Record<'static> {
    Record::new("key", "value").at(Timestamp::from_millis(ms))
}

#[test]
fn b50_one_record_from_the_future_pins_nothing_unless_its_own_time_is_to_count() {
    let ten_years = 10 * 365 * 24 * HOUR.as_millis() as i64;
    let (smaller, append) = (RetentionTime::Smaller, RetentionTime::AppendTime);
    for (by, left) in [(smaller, 4), (append, 4), (RetentionTime::RecordTime, 0)] {
        let (disk, clock, log, partition) = made(with_age(HOUR).retention_time(by));
        let now = clock.now().as_millis();
        partition
            .append_all([at(now), at(now + ten_years)])
            .unwrap();
        for _ in 0..2 {
            partition.roll().unwrap();
            partition.append(at(now)).unwrap();
        }
        partition.roll().unwrap();
        clock.advance(2 * HOUR);
        partition.append(("key", "young")).unwrap();
        maintain(&log);
        assert_eq!(start(&partition), left, "{by:?}: no hole");
        let files = files(&disk, "t", ".log").len();
        assert_eq!(files, if left == 0 { 4 } else { 1 }, "{by:?}");
        assert_eq!(partition.entries(..).count() as u64, 5 - left);
    }
}

#[test]
fn b51_a_time_that_was_given_in_seconds_is_as_old_as_it_says() {
    for odd in [1_500_000_000, 0, -1, i64::MIN] {
        for (by, left) in [
            (RetentionTime::Smaller, 3),
            (RetentionTime::RecordTime, 3),
            (RetentionTime::AppendTime, 0),
        ] {
            let config = with_age(7 * 24 * HOUR).retention_time(by);
            let (_disk, clock, log, partition) = made(config);
            partition.append_all([at(odd), at(odd), at(odd)]).unwrap();
            partition.roll().unwrap();
            partition.append(at(clock.now().as_millis())).unwrap();
            maintain(&log);
            assert_eq!(start(&partition), left, "{odd} by {by:?}");
            assert_eq!(end(&partition), 4);
        }
    }
}

#[test]
fn b52_segments_that_came_later_expire_as_those_of_the_start_did() {
    let (disk, clock, log, partition) = made(with_age(60 * SECOND));
    let write = |partition: &Partition, clock: &ManualClock| {
        for _ in 0..5 {
            partition.append(("key", "value")).unwrap();
            partition.roll().unwrap();
            clock.advance(SECOND);
        }
    };
    write(&partition, &clock);
    clock.advance(65 * SECOND);
    partition.append(("key", "young")).unwrap();
    assert_eq!(maintain(&log).segments_deleted, 5, "without a restart");
    assert_eq!(start(&partition), 5);
    drop((partition, log));
    let log = open_with(&disk, &clock);
    let partition = t0(&log);
    write(&partition, &clock);
    clock.advance(55 * SECOND);
    assert_eq!(maintain(&log).segments_deleted, 0, "as old as it may be");
    clock.advance(SECOND / 1000);
    assert_eq!(maintain(&log).segments_deleted, 1, "of the life before");
    assert_eq!(start(&partition), 7);
    clock.advance(65 * SECOND);
    assert_eq!(maintain(&log).segments_deleted, 4);
    assert_eq!(partition.offsets().start, partition.offsets().end);
}

/// What is altered while the log is open counts in the next pass, for segments from before as for those after.
#[test]
fn b52_an_age_that_is_altered_counts_at_once_for_old_segments_and_new_ones() {
    let (disk, clock, log, partition) = made(with_age(60 * SECOND));
    let topic = log.topic("t").unwrap();
    let write = |count: u64| {
        for _ in 0..count {
            partition.append(("key", "value")).unwrap();
            partition.roll().unwrap();
            clock.advance(SECOND);
        }
    };
    write(5);
    clock.advance(15 * SECOND);
    assert_eq!(maintain(&log).segments_deleted, 0);
    let to = |age: u32| TopicConfig::new().retention(Retention::new().age(age * SECOND));
    topic.alter(to(10)).unwrap();
    assert_eq!(maintain(&log).segments_deleted, 5);
    write(3);
    clock.advance(9 * SECOND);
    assert_eq!(maintain(&log).segments_deleted, 2);
    topic.alter(to(3600)).unwrap();
    clock.advance(60 * SECOND);
    assert_eq!(maintain(&log).segments_deleted, 0, "kept for longer");
    topic
        .alter(TopicConfig::new().retention(Retention::new()))
        .unwrap();
    clock.advance(86_400 * SECOND);
    assert_eq!(maintain(&log).segments_deleted, 0, "kept for ever");
    drop((topic, partition, log));
    let log = open_with(&disk, &clock);
    assert_eq!(maintain(&log).segments_deleted, 0);
    log.topic("t").unwrap().alter(to(10)).unwrap();
    assert_eq!(maintain(&log).segments_deleted, 1);
    assert_eq!(start(&t0(&log)), 8);
}

/// The strict limit: a record that is as old as it may be stays.
#[test]
fn b53_the_last_records_of_an_idle_topic_expire_too() {
    let (disk, clock, log, partition) = made(with_age(60 * SECOND));
    for _ in 0..3 {
        partition.append(("key", "value")).unwrap();
    }
    clock.advance(60 * SECOND);
    assert_eq!(maintain(&log).segments_deleted, 0);
    clock.advance(540 * SECOND);
    assert_eq!(maintain(&log).segments_deleted, 1);
    assert_eq!((start(&partition), end(&partition)), (3, 3));
    assert_eq!(rows(&partition), []);
    assert_eq!(
        maintain(&log).segments_deleted,
        0,
        "an empty one never goes"
    );
    drop((partition, log));
    let log = open_with(&disk, &clock);
    let partition = t0(&log);
    assert_eq!((start(&partition), end(&partition)), (3, 3));
    let x = partition.append(("key", "x")).unwrap();
    assert_eq!(x.offset().get(), 3);
    log.close().unwrap();
    let log = open_with(&disk, &clock);
    assert_eq!(rows(&t0(&log)), [(3, "x".to_owned())]);
}
