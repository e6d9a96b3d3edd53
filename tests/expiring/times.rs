//! F77, F78: the time that passes counts, whatever the calendar says.

use std::time::Duration;

use thalweg::Timestamp;
use thalweg::testing::ManualClock;

use super::{DAY, TICK, WEEK, begin, committed, expired, just_under, member, next, open};

const TEN_YEARS: Duration = Duration::from_secs(3650 * 24 * 3600);

fn set_ahead(clock: &ManualClock, by: Duration) {
    let by = i64::try_from(by.as_millis()).unwrap();
    clock.set(Timestamp::from_millis(clock.now().as_millis() + by));
}

#[test]
fn f78_a_clock_that_is_ten_years_ahead_makes_no_offset_older() {
    let (_disk, clock, log) = begin();
    let (left, by_hand) = (log.group("left"), log.group("by hand"));
    let mut of = member(&left, &["orders"]);
    of.commit().unwrap();
    drop(of);
    by_hand.set_positions(&next(&[("orders", 0, 5)])).unwrap();
    for step in [Duration::from_secs(60), 2 * WEEK, TEN_YEARS] {
        set_ahead(&clock, step);
        for _ in 0..3 {
            assert_eq!(expired(&log), 0, "{step:?}");
        }
        clock.advance(DAY); // wary no longer
        assert_eq!(expired(&log), 0, "{step:?}");
    }
    clock.advance(just_under(4 * DAY));
    assert_eq!(expired(&log), 0);
    assert_eq!(committed(&left).len(), 2);
    clock.advance(TICK);
    assert_eq!(expired(&log), 3, "a week has passed");
}

#[test]
fn f77_a_clock_that_is_set_back_keeps_nothing_longer() {
    let (_disk, clock, log) = begin();
    let group = log.group("g");
    set_ahead(&clock, TEN_YEARS);
    group.set_positions(&next(&[("orders", 0, 5)])).unwrap();
    clock.set(Timestamp::from_millis(0));
    clock.advance(just_under(WEEK));
    assert_eq!(expired(&log), 0);
    clock.advance(TICK);
    assert_eq!(expired(&log), 1);
}

/// The clock was wrong when something was committed, or is when the log is opened: nobody looks at either.
#[test]
fn f78_a_clock_that_was_wrong_before_the_log_was_opened_changes_nothing() {
    for wrong_first in [true, false] {
        let (disk, clock, log) = begin();
        let right = clock.now();
        if wrong_first {
            clock.set(Timestamp::from_millis(0));
        }
        let group = log.group("g");
        group.set_positions(&next(&[("orders", 0, 5)])).unwrap();
        log.close().unwrap();
        clock.set(right);
        if !wrong_first {
            set_ahead(&clock, TEN_YEARS);
        }
        let log = open(&disk, &clock);
        assert_eq!(expired(&log), 0);
        clock.advance(just_under(WEEK));
        assert_eq!(expired(&log), 0);
        clock.advance(TICK);
        assert_eq!(expired(&log), 1);
    }
}
