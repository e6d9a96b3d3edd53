//! Event times and append times, and looking up an offset by time, against the plain definition.

use std::time::Duration;

use thalweg::testing::{Disk, ManualClock};
use thalweg::{Offset, Partition, Record, Timestamp, TimestampType, TopicConfig};

use super::logs::{Dice, files, one, open, open_with, scale, seed, t0};

/// The first offset whose record has this time or a later one.
fn plainly(times: &[i64], time: i64) -> Option<Offset> {
    times
        .iter()
        .position(|t| *t >= time)
        .map(|n| Offset::new(n as u64))
}

fn agrees(partition: &Partition, times: &[i64], context: &str) {
    let around = times.iter().flat_map(|t| [t - 1, *t, t + 1]);
    for time in around.chain([i64::MIN, 0, i64::MAX]) {
        let found = partition
            .offset_for_time(Timestamp::from_millis(time))
            .unwrap();
        assert_eq!(
            found,
            plainly(times, time),
            "{context}, time {time} in {times:?}"
        );
    }
}

#[test]
fn a_record_shows_its_event_time_or_else_the_append_time() {
    let clock = ManualClock::new();
    let log = open_with(&Disk::new(), &clock);
    for (kind, shown) in [
        (TimestampType::EventTime, 42),
        (TimestampType::AppendTime, clock.now().as_millis()),
    ] {
        let topic = log
            .create_topic(&format!("{kind:?}"), TopicConfig::new().timestamps(kind))
            .unwrap();
        let partition = one(&topic);
        let event = || Record::keyless("with").at(Timestamp::from_millis(42));
        partition
            .append_all([event(), Record::keyless("without"), event()])
            .unwrap();
        partition.append(event()).unwrap();
        let all: Vec<_> = partition
            .entries(..)
            .map(|e| e.unwrap().timestamp().as_millis())
            .collect();
        assert_eq!(all, [shown, clock.now().as_millis(), shown, shown]);
        let types: Vec<_> = partition
            .entries(..)
            .map(|e| e.unwrap().timestamp_type())
            .collect();
        if kind == TimestampType::AppendTime {
            assert_eq!(types, [TimestampType::AppendTime; 4]);
        } else {
            assert_eq!(
                (types[0], types[3]),
                (TimestampType::EventTime, TimestampType::EventTime)
            );
        }
    }
}

/// Event times in any order, single records and batches, over segments, reopenings and indexes of every spacing.
#[test]
fn the_offset_for_a_time_is_the_first_one_however_the_times_lie() {
    let mut dice = Dice(seed());
    for round in 0..12 * scale() {
        let clock = ManualClock::new();
        let disk = Disk::new();
        let log = open_with(&disk, &clock);
        let interval = [1, 64, 4096][round as usize % 3];
        let config = TopicConfig::new()
            .index_interval(interval)
            .segment_bytes(600 + dice.below(2000));
        let partition = one(&log.create_topic("t", config).unwrap());
        let now = clock.now().as_millis();
        let mut times = Vec::new();
        while times.len() < 60 {
            let batch: Vec<Option<i64>> = (0..=dice.below(4))
                .map(|_| match dice.below(6) {
                    0 => None,
                    1 => Some(now + 1_000_000 - dice.below(2_000_000) as i64),
                    _ => Some(now + 1000 * times.len() as i64 - dice.below(5000) as i64),
                })
                .collect();
            clock.advance(Duration::from_millis(dice.below(2000)));
            let record = |time: &Option<i64>| match time {
                Some(ms) => Record::keyless("v").at(Timestamp::from_millis(*ms)),
                None => Record::keyless("v"),
            };
            partition.append_all(batch.iter().map(record)).unwrap();
            let append = clock.now().as_millis();
            times.extend(batch.iter().map(|time| time.unwrap_or(append)));
        }
        agrees(&partition, &times, "as written");
        log.close().unwrap();
        let log = open(&disk);
        agrees(&t0(&log), &times, "reopened");
        drop(log);
        for index in files(&disk, "t", ".idx") {
            disk.remove(index).unwrap();
        }
        agrees(&t0(&open(&disk)), &times, "without indexes");
    }
}

#[test]
fn there_is_no_offset_for_a_time_in_an_empty_partition_or_behind_its_last() {
    let clock = ManualClock::new();
    let log = open_with(&Disk::new(), &clock);
    let partition = one(&log.create_topic("t", TopicConfig::new()).unwrap());
    assert_eq!(partition.offset_for_time(Timestamp::MIN).unwrap(), None);
    partition.append(("k", "v")).unwrap();
    partition.roll().unwrap();
    let at = |ms| {
        partition
            .offset_for_time(Timestamp::from_millis(ms))
            .unwrap()
    };
    assert_eq!(at(clock.now().as_millis()), Some(Offset::ZERO));
    assert_eq!(at(clock.now().as_millis() + 1), None);
    assert_eq!(partition.offset_for_time(Timestamp::MAX).unwrap(), None);
}
