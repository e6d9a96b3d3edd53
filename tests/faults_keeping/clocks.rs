//! Rows F77 to F79 where records grow old: a calendar that jumps, and times of records that are what they like.

use std::time::Duration;

use thalweg::testing::ManualClock;
use thalweg::{
    Durability, Log, MaintenanceReport, Partition, Record, Retention, RetentionTime, Timestamp,
    TopicConfig,
};

use super::logs::{fill, numbered, open_with, rows, t0};
use super::{DAY, HOUR, by_fours, earlier, just_under, later, made, segments, start};

const TEN_YEARS: Duration = Duration::from_secs(3650 * 24 * 3600);

fn jump(clock: &ManualClock, by: Duration) {
    clock.set(later(clock.now(), by));
}

fn with_age(age: Duration) -> TopicConfig {
    TopicConfig::new().retention(Retention::new().age(age))
}

/// As a host calls it: again as long as there is more.
fn passes(log: &Log) -> (u64, MaintenanceReport) {
    let mut deleted = 0;
    for _ in 0..100 {
        let report = log.maintain().unwrap();
        deleted += report.segments_deleted;
        if !report.more {
            return (deleted, report);
        }
    }
    panic!("more and more");
}

#[test]
fn f78_ten_years_ahead_take_one_segment_a_pass_for_an_hour_and_that_is_told() {
    let (disk, clock, log, _) = made(with_age(HOUR).partitions(3));
    let partitions = log.topic("t").unwrap().partitions();
    for partition in &partitions {
        by_fours(partition, 5);
    }
    assert_eq!(passes(&log), (0, MaintenanceReport::default()));
    let before = segments(&disk).len();
    jump(&clock, TEN_YEARS);
    for pass in 1..=3 {
        let (deleted, report) = passes(&log);
        assert_eq!(deleted, 3, "one of each partition, pass {pass}");
        assert!(
            report.clock_jump.is_some_and(|ahead| ahead >= TEN_YEARS),
            "{report:?}"
        );
        for partition in &partitions {
            assert_eq!(start(partition), 4 * pass);
            assert_eq!(rows(partition), numbered(4 * pass..20));
        }
    }
    clock.advance(just_under(HOUR));
    let (deleted, report) = passes(&log);
    assert_eq!((deleted, report.clock_jump.is_some()), (3, true));
    clock.advance(Duration::from_millis(1));
    let (deleted, report) = passes(&log);
    assert_eq!((deleted, report.clock_jump), (3, None));
    assert_eq!(segments(&disk).len(), before - 15);
}

/// Time to see to the clock: what was not removed by then stays.
#[test]
fn f78_a_clock_that_is_put_right_in_time_has_cost_one_segment() {
    let (_disk, clock, log, partition) = made(with_age(HOUR));
    by_fours(&partition, 5);
    let right = clock.now();
    jump(&clock, TEN_YEARS);
    assert_eq!(passes(&log).0, 1);
    clock.set(right);
    clock.advance(HOUR);
    assert_eq!(passes(&log).0, 0);
    assert_eq!(rows(&partition), numbered(4..20));
    clock.advance(HOUR);
    assert_eq!(passes(&log).0, 4);
}

/// With the last segment wanted, too: it is that one segment.
#[test]
fn f78_a_jump_takes_no_more_than_the_last_segment_if_there_is_no_other() {
    let (disk, clock, log, partition) = made(with_age(HOUR));
    super::logs::fill(&partition, 0..4);
    jump(&clock, TEN_YEARS);
    assert_eq!(passes(&log).0, 1);
    assert_eq!((start(&partition), segments(&disk).len()), (4, 1));
    super::logs::fill(&partition, 4..6);
    assert_eq!(passes(&log).0, 0);
}

#[test]
fn f78_time_that_passed_and_small_corrections_are_no_jump() {
    let (_disk, clock, log, partition) = made(with_age(HOUR));
    by_fours(&partition, 5);
    jump(&clock, just_under(HOUR));
    assert_eq!(passes(&log), (0, MaintenanceReport::default()));
    clock.advance(TEN_YEARS);
    let (deleted, report) = passes(&log);
    assert_eq!(
        (deleted, report.clock_jump),
        (5, None),
        "ten years have passed"
    );
}

/// A limit of size is not a matter of time.
#[test]
fn f78_a_jump_does_not_hold_back_what_goes_by_its_size() {
    let keep = Retention::new().age(HOUR).bytes(1200);
    let (_disk, clock, log, partition) = made(TopicConfig::new().retention(keep));
    by_fours(&partition, 9);
    jump(&clock, TEN_YEARS);
    assert!(passes(&log).0 >= 4);
    let left = start(&partition);
    assert_eq!(passes(&log).0, 1, "and one more for its age");
    assert_eq!(start(&partition), left + 4);
}

#[test]
fn f77_a_calendar_that_goes_back_makes_nothing_old_and_nothing_young() {
    for level in [Durability::Power, Durability::Process] {
        let (disk, clock, log, partition) = made(with_age(HOUR).durability(level));
        by_fours(&partition, 2);
        let right = clock.now();
        for back in [Duration::from_secs(1), DAY, TEN_YEARS] {
            clock.set(earlier(right, back));
            assert_eq!(passes(&log).0, 0, "no age is below zero");
            by_fours(&partition, 1);
        }
        clock.set(Timestamp::from_millis(0));
        assert_eq!(passes(&log).0, 0);
        log.close().unwrap();
        clock.set(right);
        let log = open_with(&disk, &clock);
        assert_eq!(rows(&t0(&log)), numbered(0..20));
        clock.advance(HOUR + Duration::from_millis(1));
        assert_eq!(passes(&log).0, 3, "append times did not go back");
        // How old the others are, of a time when it was behind, is known from now on.
        clock.advance(HOUR);
        assert_eq!(passes(&log).0, 0);
        clock.advance(Duration::from_millis(1));
        assert_eq!(passes(&log).0, 2);
    }
}

/// Whatever the times say, nothing overflows, nothing goes that is young, and nothing is pinned but where that was chosen.
#[test]
fn f79_times_of_records_are_weighed_as_they_are() {
    let strange = [
        i64::MIN,
        i64::MIN + 1,
        -1,
        0,
        1 << 48,
        i64::MAX - 1,
        i64::MAX,
    ];
    let hour = HOUR.as_millis() as i64;
    for by in [
        RetentionTime::Smaller,
        RetentionTime::RecordTime,
        RetentionTime::AppendTime,
    ] {
        for ms in strange {
            for age in [HOUR, TEN_YEARS, Duration::MAX] {
                let (_disk, clock, log, partition) = made(with_age(age).retention_time(by));
                let record = Record::new("key", "v").at(Timestamp::from_millis(ms));
                partition.append(record).unwrap();
                partition.roll().unwrap();
                let now = clock.now().as_millis();
                let time = match by {
                    RetentionTime::Smaller => ms.min(now),
                    RetentionTime::AppendTime => now,
                    _ => ms,
                };
                for later in [0, hour] {
                    clock.set(Timestamp::from_millis(now + later));
                    clock.advance(Duration::from_millis(1)); // an hour at once would be a jump
                    let _ = passes(&log);
                    let limit = i128::from(clock.now().as_millis())
                        - i128::try_from(age.as_millis()).unwrap_or(i128::MAX / 2);
                    // (Times end at the bounds of 64 bits.)
                    let old = i128::from(time) < limit.max(i128::from(i64::MIN));
                    let found = start(&partition) == 1;
                    assert_eq!(found, old, "{ms} by {by:?}, {age:?}, {later} later");
                }
            }
        }
    }
}

fn newest(partition: &Partition) -> u64 {
    partition.offsets().end.get()
}

/// Time goes on by itself between two passes, however long that is.
#[test]
fn f77_an_old_log_that_is_opened_much_later_loses_what_is_old_and_goes_on() {
    let (disk, clock, log, partition) = made(with_age(HOUR));
    by_fours(&partition, 3);
    drop(partition);
    log.close().unwrap();
    jump(&clock, 30 * DAY); // nobody counted
    let log = open_with(&disk, &clock);
    let partition = t0(&log);
    partition.append(("key", "value-0012")).unwrap();
    let (deleted, report) = passes(&log);
    assert_eq!((deleted, report.clock_jump), (3, None));
    assert_eq!((start(&partition), newest(&partition)), (12, 13));
}

/// All later ones carry its time, so that append times never go back; by the clock that is right again they grow old all the same.
#[test]
fn f78_one_append_under_a_clock_that_was_ahead_pins_nothing() {
    for (reopened, rolled) in [(false, false), (true, false), (false, true), (true, true)] {
        let config = with_age(HOUR).segment_age(HOUR / 2);
        let (disk, clock, mut log, mut partition) = made(config);
        fill(&partition, 0..2);
        let right = clock.now();
        jump(&clock, TEN_YEARS);
        fill(&partition, 2..3);
        if rolled {
            partition.roll().unwrap();
        }
        if reopened {
            drop(partition);
            log.close().unwrap();
            log = open_with(&disk, &clock);
            partition = t0(&log);
        }
        clock.set(right);
        fill(&partition, 3..5);
        clock.advance(HOUR);
        assert_eq!(passes(&log).0, 0);
        fill(&partition, 5..7);
        let shown = partition.get(thalweg::Offset::new(6)).unwrap().unwrap();
        assert!(shown.timestamp() >= later(right, TEN_YEARS));
        clock.advance(HOUR / 2);
        assert!(passes(&log).0 > 0);
        assert_eq!(
            rows(&partition),
            numbered(3..7),
            "they wait for the next segment"
        );
        clock.advance(HOUR / 2 + Duration::from_millis(1));
        passes(&log);
        assert_eq!(rows(&partition), numbered(5..7));
        clock.advance(2 * HOUR);
        passes(&log);
        assert_eq!(rows(&partition), []);
    }
}

/// A host without a battery: everything is gone, and the last segment is empty; its header alone says what time it was.
#[test]
fn f77_what_is_appended_to_an_emptied_log_that_is_reopened_while_the_clock_is_behind_stays() {
    let (disk, clock, log, partition) = made(with_age(DAY));
    fill(&partition, 0..1);
    clock.advance(3 * DAY);
    passes(&log);
    assert_eq!(rows(&partition), []);
    drop(partition);
    log.close().unwrap();
    let right = clock.now();
    clock.set(earlier(right, 30 * DAY));
    let log = open_with(&disk, &clock);
    fill(&t0(&log), 1..2);
    clock.set(right);
    clock.advance(HOUR);
    passes(&log);
    assert_eq!(rows(&t0(&log)), numbered(1..2), "an hour old, of a day");
}
