//! Rows F77 to F79: the clock jumps back, jumps ahead, and event times are what they like.

use std::time::Duration;

use thalweg::testing::{Disk, ManualClock};
use thalweg::{
    Durability, Error, Offset, Outcome, Partition, Record, Timestamp, TimestampType, TopicConfig,
};

use super::logs::{end, files, fresh, killed, numbered, one, open, open_with, rows, t0};

const SECOND: Duration = Duration::from_secs(1);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

fn append_times() -> TopicConfig {
    TopicConfig::new().timestamps(TimestampType::AppendTime)
}

fn back(clock: &ManualClock, by: Duration) {
    let by = i64::try_from(by.as_millis()).expect("some years");
    clock.set(Timestamp::from_millis(clock.now().as_millis() - by));
}

fn append_one(partition: &Partition) {
    let n = end(partition);
    partition
        .append(("key", format!("value-{n:04}")))
        .expect("an append");
}

fn times(partition: &Partition) -> Vec<i64> {
    let entries = partition.entries(..).map(|entry| entry.expect("readable"));
    entries.map(|entry| entry.timestamp().as_millis()).collect()
}

#[test]
fn f77_append_times_never_go_back_when_the_clock_does() {
    let (disk, clock) = (Disk::new(), ManualClock::new());
    let log = open_with(&disk, &clock);
    let partition = one(&log.create_topic("t", append_times()).unwrap());
    append_one(&partition);
    let start = clock.now().as_millis();
    for jump in [SECOND, YEAR] {
        back(&clock, jump);
        append_one(&partition);
    }
    clock.set(Timestamp::from_millis(0));
    append_one(&partition);
    assert_eq!(times(&partition), [start; 4]);
    clock.set(Timestamp::from_millis(start + 5));
    append_one(&partition);
    assert_eq!(times(&partition)[4], start + 5);
    assert_eq!(rows(&partition), numbered(0..5));
}

/// The clock goes back while the log is closed, or its process dead; with and without an empty segment at the end.
#[test]
fn f77_append_times_do_not_go_back_over_a_reopening() {
    for level in [Durability::Power, Durability::Process] {
        for (clean, rolled) in [(true, true), (true, false), (false, true), (false, false)] {
            let (disk, clock) = (Disk::new(), ManualClock::new());
            let log = open_with(&disk, &clock);
            let topic = log
                .create_topic("t", append_times().durability(level))
                .unwrap();
            let partition = one(&topic);
            append_one(&partition);
            append_one(&partition);
            if rolled {
                partition.roll().unwrap();
            }
            let start = clock.now().as_millis();
            let disk = if clean {
                log.close().unwrap();
                disk
            } else {
                killed(&disk)
            };
            back(&clock, YEAR);
            let log = open_with(&disk, &clock);
            let partition = t0(&log);
            append_one(&partition);
            assert_eq!(
                times(&partition),
                [start; 3],
                "{level:?} clean {clean} rolled {rolled}"
            );
            let first = partition
                .offset_for_time(Timestamp::from_millis(start))
                .unwrap();
            assert_eq!(first, Some(Offset::ZERO));
        }
    }
}

#[test]
fn f77_a_clock_that_goes_back_neither_rolls_nor_stops_segments_by_age() {
    let (disk, clock) = (Disk::new(), ManualClock::new());
    let log = open_with(&disk, &clock);
    let config = append_times().segment_age(Duration::from_secs(60));
    let partition = one(&log.create_topic("t", config).unwrap());
    append_one(&partition);
    back(&clock, Duration::from_secs(600));
    for _ in 0..10 {
        append_one(&partition);
    }
    assert_eq!(
        files(&disk, "t", ".log").len(),
        1,
        "an age below zero is no age"
    );
    clock.advance(Duration::from_secs(660));
    append_one(&partition);
    append_one(&partition);
    assert_eq!(
        files(&disk, "t", ".log").len(),
        2,
        "60 s after the first append, once"
    );
    assert_eq!(rows(&partition), numbered(0..13));
}

#[test]
fn f77_the_longest_age_never_rolls() {
    let (disk, clock) = (Disk::new(), ManualClock::new());
    let log = open_with(&disk, &clock);
    for (name, age) in [
        ("most", Duration::MAX),
        ("i64", Duration::from_millis(u64::MAX)),
    ] {
        let Ok(topic) = log.create_topic(name, append_times().segment_age(age)) else {
            continue; // refused by name of the setting is right too; F87 looks at that
        };
        for _ in 0..5 {
            clock.advance(YEAR);
            append_one(&one(&topic));
        }
        assert_eq!(files(&disk, name, ".log").len(), 1, "{age:?}");
    }
}

/// 48 bits of milliseconds after 1970 is what a batch can hold.
#[test]
fn f77_a_clock_before_1970_or_after_the_year_10889_refuses_appends_and_nothing_else() {
    let (disk, clock) = (Disk::new(), ManualClock::new());
    let log = open_with(&disk, &clock);
    let partition = one(&log.create_topic("t", append_times()).unwrap());
    append_one(&partition);
    let good = clock.now();
    for wrong in [-1, i64::MIN, 1 << 48, i64::MAX] {
        clock.set(Timestamp::from_millis(wrong));
        disk.mark();
        let error = partition.append(("k", "v")).unwrap_err();
        assert!(
            matches!(&error, Error::InvalidTimestamp { at, .. } if at.as_millis() == wrong),
            "{error:?}"
        );
        assert_eq!(error.outcome(), Outcome::Rejected);
        assert!(disk.calls().is_empty(), "before any I/O");
        assert_eq!(rows(&partition), numbered(0..1));
    }
    clock.set(Timestamp::from_millis((1 << 48) - 1));
    append_one(&partition);
    clock.set(good);
    append_one(&partition);
    assert_eq!(times(&partition)[1..], [(1 << 48) - 1; 2]);
}

#[test]
fn f78_ten_years_ahead_and_back_lose_nothing() {
    let (disk, clock) = (Disk::new(), ManualClock::new());
    let log = open_with(&disk, &clock);
    let keep = thalweg::Retention::new().age(Duration::from_secs(3600));
    let config = append_times()
        .retention(keep)
        .segment_age(Duration::from_secs(60));
    let partition = one(&log.create_topic("t", config).unwrap());
    for _ in 0..5 {
        append_one(&partition);
    }
    clock.advance(10 * YEAR);
    for _ in 0..5 {
        append_one(&partition);
    }
    assert_eq!(files(&disk, "t", ".log").len(), 2, "the jump rolls once");
    back(&clock, 10 * YEAR);
    for _ in 0..5 {
        append_one(&partition);
    }
    log.close().unwrap();
    let log = open_with(&disk, &clock);
    assert_eq!(rows(&t0(&log)), numbered(0..15));
    let seen = times(&t0(&log));
    assert!(seen.is_sorted(), "{seen:?}");
}

const STRANGE: [i64; 8] = [
    i64::MIN,
    i64::MIN + 1,
    -1,
    0,
    1,
    1 << 48,
    i64::MAX - 1,
    i64::MAX,
];

#[test]
fn f79_any_event_time_comes_back_as_it_was() {
    let (disk, log, partition) = fresh(TopicConfig::new());
    let record = |ms| Record::new("k", "v").at(Timestamp::from_millis(ms));
    for ms in STRANGE {
        partition.append(record(ms)).unwrap();
    }
    partition.append_all(STRANGE.map(record)).unwrap();
    partition
        .append_all(STRANGE.map(record).into_iter().rev())
        .unwrap();
    let mut wanted: Vec<i64> = [STRANGE, STRANGE].concat();
    wanted.extend(STRANGE.iter().rev());
    assert_eq!(times(&partition), wanted);
    partition.roll().unwrap();
    assert_eq!(times(&partition), wanted);
    let found = |ms| {
        partition
            .offset_for_time(Timestamp::from_millis(ms))
            .unwrap()
            .map(Offset::get)
    };
    for (n, ms) in (0..).zip(STRANGE) {
        assert_eq!(found(ms), Some(n), "{ms}");
    }
    log.close().unwrap();
    assert_eq!(times(&t0(&open(&disk))), wanted);
}

#[test]
fn f79_event_times_beyond_the_limits_are_refused_and_name_them() {
    let (disk, clock) = (Disk::new(), ManualClock::new());
    let log = open_with(&disk, &clock);
    let config =
        TopicConfig::new().timestamp_limits(Duration::from_secs(3600), Duration::from_secs(60));
    let partition = one(&log.create_topic("t", config).unwrap());
    let now = clock.now().as_millis();
    let record = |ms| Record::new("k", "v").at(Timestamp::from_millis(ms));
    for ms in [now - 3_600_000, now, now + 60_000] {
        partition.append(record(ms)).unwrap();
    }
    let outside = [now - 3_600_001, now + 60_001, i64::MIN, -1, 0, i64::MAX];
    for ms in outside {
        disk.mark();
        for error in [
            partition.append(record(ms)).unwrap_err(),
            partition
                .append_all([record(now), record(ms), record(now)])
                .unwrap_err(),
        ] {
            let Error::InvalidTimestamp { at, allowed, .. } = &error else {
                panic!("{error:?}");
            };
            assert_eq!(at.as_millis(), ms);
            assert!(!allowed.contains(at) && allowed.contains(&clock.now()));
            assert_eq!(error.outcome(), Outcome::Rejected);
        }
        assert!(disk.calls().is_empty());
    }
    assert_eq!(end(&partition), 3);
    partition.append(("k", "no event time, no limit")).unwrap();
}

#[test]
fn f79_limits_as_wide_as_can_be_do_not_overflow() {
    let (_, clock) = (Disk::new(), ManualClock::new());
    let log = open_with(&Disk::new(), &clock);
    let config = TopicConfig::new().timestamp_limits(Duration::MAX, Duration::MAX);
    let Ok(topic) = log.create_topic("t", config) else {
        return; // refused by name of the setting is right too
    };
    let partition = one(&topic);
    for ms in [i64::MIN, 0, i64::MAX - 1] {
        partition
            .append(Record::keyless("v").at(Timestamp::from_millis(ms)))
            .unwrap();
    }
}
