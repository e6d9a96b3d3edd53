//! Row F73, and segments that end by their age: by an append, by maintenance where nobody appends, and never before their time.

use std::time::Duration;

use thalweg::testing::{CrashModel, Disk};
use thalweg::{Compaction, Durability, FindingKind, Offset, Retention, TopicConfig};

use super::logs::{end, fill, numbered, open_with, rows, t0};
use super::{DAY, HOUR, SECOND, earlier, just_under, later, made, segments, start};

const MOMENT: Duration = Duration::from_millis(1);

const LEVELS: [Durability; 3] = [
    Durability::Power,
    Durability::Process,
    Durability::Interval {
        time: SECOND,
        bytes: 4096,
    },
];

#[test]
fn a_segment_ends_seven_days_after_its_first_append_with_or_without_another() {
    for level in LEVELS {
        for by_append in [true, false] {
            let (disk, clock, log, partition) = made(TopicConfig::new().durability(level));
            partition.roll().unwrap();
            fill(&partition, 0..1);
            partition.roll().unwrap(); // from here on there is an empty one
            clock.advance(30 * DAY);
            log.maintain().unwrap();
            assert_eq!(segments(&disk).len(), 2, "an empty one has no age");
            fill(&partition, 1..2);
            clock.advance(just_under(7 * DAY));
            log.maintain().unwrap();
            fill(&partition, 2..3);
            assert_eq!(segments(&disk).len(), 2, "not before its time");
            clock.advance(MOMENT);
            if by_append {
                fill(&partition, 3..4);
            } else {
                log.maintain().unwrap();
            }
            assert_eq!(segments(&disk).len(), 3, "{level:?} by append: {by_append}");
            log.maintain().unwrap();
            assert_eq!(segments(&disk).len(), 3, "once");
            let end = end(&partition);
            assert_eq!(rows(&partition), numbered(0..end));
        }
    }
}

/// Killed, closed: the age goes on.
#[test]
fn the_age_of_a_segment_counts_from_its_first_append_in_whichever_life_that_was() {
    for level in LEVELS {
        for closed in [true, false] {
            let config = TopicConfig::new().durability(level).segment_age(HOUR);
            let (disk, clock, log, partition) = made(config);
            fill(&partition, 0..2);
            clock.advance(HOUR / 2);
            let disk = if closed {
                drop(partition);
                log.close().unwrap();
                disk
            } else {
                super::logs::killed(&disk)
            };
            let log = open_with(&disk, &clock);
            clock.advance(just_under(HOUR / 2));
            log.maintain().unwrap();
            assert_eq!(segments(&disk).len(), 1);
            clock.advance(MOMENT);
            log.maintain().unwrap();
            assert_eq!(segments(&disk).len(), 2, "{level:?} closed: {closed}");
            fill(&t0(&log), 2..3);
            assert_eq!(rows(&t0(&log)), numbered(0..3));
        }
    }
}

#[test]
fn the_greatest_lag_of_a_compacted_topic_bounds_the_age_of_a_segment() {
    for (age, lag, at) in [(DAY, HOUR, HOUR), (HOUR, DAY, HOUR)] {
        let how = Compaction::new().max_lag(lag).min_dirty_ratio(1.0);
        let (disk, clock, log, partition) =
            made(TopicConfig::new().segment_age(age).compacted(how));
        fill(&partition, 0..2);
        clock.advance(just_under(at));
        log.maintain().unwrap();
        assert_eq!(segments(&disk).len(), 1);
        clock.advance(MOMENT);
        log.maintain().unwrap();
        assert_eq!(segments(&disk).len(), 2, "{age:?}, {lag:?}");
    }
}

#[test]
fn f77_a_calendar_that_goes_back_a_little_ends_no_segment() {
    let (disk, clock, log, partition) = made(TopicConfig::new().segment_age(HOUR));
    fill(&partition, 0..1);
    let right = clock.now();
    for back in [SECOND, HOUR] {
        clock.set(earlier(right, back));
        log.maintain().unwrap();
    }
    clock.set(earlier(later(right, HOUR), MOMENT));
    log.maintain().unwrap();
    assert_eq!(segments(&disk).len(), 1);
    clock.set(later(right, HOUR));
    log.maintain().unwrap();
    assert_eq!(segments(&disk).len(), 2);
}

/// The next one says when that was: else nobody could tell how old they are.
#[test]
fn f77_a_calendar_that_goes_back_by_more_ends_a_segment_once_with_or_without_an_append() {
    for back in [HOUR + MOMENT, DAY, 3650 * DAY] {
        for by_append in [true, false] {
            let (disk, clock, log, partition) = made(TopicConfig::new().segment_age(HOUR));
            fill(&partition, 0..2);
            let right = clock.now();
            clock.set(earlier(right, back));
            for n in 2..5 {
                if by_append {
                    fill(&partition, n..n + 1);
                } else {
                    log.maintain().unwrap();
                }
                assert_eq!(segments(&disk).len(), 2, "{back:?} by append: {by_append}");
            }
            // It is as any other from then on.
            clock.advance(3 * HOUR);
            let end = end(&partition);
            fill(&partition, end..end + 1);
            let more = u64::from(by_append);
            assert_eq!(segments(&disk).len() as u64, 2 + more);
            assert_eq!(rows(&partition), numbered(0..end + 1));
        }
    }
}

/// Emptied by age, by hand, and by hand when it is empty: in each life it goes on where it ended, and no offset comes twice.
#[test]
fn f73_an_emptied_partition_remembers_its_end() {
    for level in LEVELS {
        let keep = Retention::new().age(HOUR);
        let (mut disk, clock, mut log, partition) =
            made(TopicConfig::new().durability(level).retention(keep));
        drop(partition);
        let mut next = 0;
        for turn in 0..12 {
            let partition = t0(&log);
            assert_eq!(end(&partition), next, "{level:?}, turn {turn}");
            if turn % 4 != 3 {
                fill(&partition, next..next + 3); // else it is emptied though it is empty
                next += 3;
            }
            if turn % 2 == 0 {
                clock.advance(HOUR + MOMENT);
                log.maintain().unwrap();
            } else {
                partition.delete_before(Offset::new(next)).unwrap();
            }
            assert_eq!((start(&partition), end(&partition)), (next, next));
            assert_eq!(segments(&disk).len(), 1);
            drop(partition);
            match turn % 3 {
                0 => log.close().unwrap(),
                1 => disk = super::logs::killed(&disk),
                _ => {
                    log.sync().unwrap();
                    disk = disk.crash(disk.points(), CrashModel::LostPages, 0);
                }
            }
            log = open_with(&disk, &clock);
            let damaged = |f: &thalweg::Finding| f.kind == FindingKind::Damaged;
            assert!(!log.recovery().findings().iter().any(damaged));
            // Below `Power` a power loss leaves a gap, since more may have been told.
            let found = end(&t0(&log));
            assert!(found == next || turn % 3 == 2 && level != Durability::Power && found > next);
            next = found;
        }
    }
}

/// The only file holds nothing but a header, so nothing else says where the partition ends: a bad one is made anew there, or told.
#[test]
fn f73_the_header_of_an_empty_last_segment_cannot_take_the_end_with_it() {
    for closed in [true, false] {
        for bit in [0, 100, 300, 600, 900, 1023] {
            let (disk, clock, log, partition) = made(TopicConfig::new());
            fill(&partition, 0..8);
            partition.delete_before(Offset::new(8)).unwrap();
            drop(partition);
            let disk: Disk = if closed {
                log.close().unwrap();
                disk
            } else {
                super::logs::killed(&disk)
            };
            let [only] = &segments(&disk)[..] else {
                panic!("one file");
            };
            disk.flip_bit(only, bit).unwrap();
            let log = open_with(&disk, &clock);
            let partition = t0(&log);
            match partition.append(("key", "x")) {
                Ok(at) => {
                    assert_eq!(at.offset().get(), 8, "closed {closed}, bit {bit}");
                    assert_eq!(rows(&partition), [(8, "x".to_owned())]);
                }
                Err(e) => assert!(e.is_corruption(), "closed {closed}, bit {bit}: {e:?}"),
            }
        }
    }
}
