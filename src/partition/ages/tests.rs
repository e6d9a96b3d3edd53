//! What is believed of times that contradict each other.

use super::*;
use RetentionTime::{AppendTime, RecordTime, Smaller};

const HOUR: i64 = 3_600_000;
/// By the clock as it is now.
const NOW: i64 = 1 << 40;
/// What it said when it was ahead.
const AHEAD: i64 = 1 << 41;
const UNTOLD: i64 = i64::MAX;

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

/// Of a segment that was begun then.
fn begin(created: i64, held_up: bool) -> Begin {
    Begin {
        created: at(created),
        held_up,
    }
}

fn appended(first: i64, last: i64) -> Accumulator {
    let mut totals = Accumulator::default();
    totals.add(1, 0, 0, first, None, true);
    totals.add(1, 0, 0, last, None, true);
    totals
}

/// When it was begun, whether times are held up, first and last append.
type Seg = (i64, bool, i64, i64);

/// The newest times of these segments, in order.
fn told(by: RetentionTime, segments: &[Seg]) -> Vec<i64> {
    let mut ages = Ages::new(by, at(NOW));
    let tell = |(n, &(created, held_up, first, last)): (usize, &Seg)| {
        let behind = segments[n + 1..].iter();
        let behind = behind.map(|&(created, held_up, ..)| Ok(begin(created, held_up)));
        let newest = ages.newest(begin(created, held_up), &appended(first, last), behind);
        match newest.unwrap().expect("it has records") {
            Newest::At(time) => time.as_millis(),
            Newest::Unknown => UNTOLD,
        }
    };
    segments.iter().enumerate().map(tell).collect()
}

#[test]
fn a_time_that_has_come_and_was_not_held_up_counts_whatever_the_next_segment_says() {
    for next in [0, NOW - HOUR, NOW, AHEAD] {
        let segments = [(0, false, 0, NOW - 1), (next, false, NOW, NOW)];
        for by in [Smaller, AppendTime, RecordTime] {
            assert_eq!(told(by, &segments), [NOW - 1, NOW]);
        }
    }
}

#[test]
fn a_time_that_is_to_come_gives_way_to_that_of_the_next_segment_that_is_believed() {
    for by in [Smaller, AppendTime, RecordTime] {
        let next = (NOW - HOUR, true, AHEAD, AHEAD);
        let found = told(by, &[(5, false, 5, AHEAD), next]);
        assert_eq!(found, [NOW - HOUR, UNTOLD]);
        let ahead = (AHEAD, false, AHEAD, AHEAD);
        let found = told(by, &[ahead, ahead, next]);
        assert_eq!(found, [NOW - HOUR, NOW - HOUR, UNTOLD], "{by:?}");
    }
}

/// What came while the clock was behind got the time of what came before.
#[test]
fn a_time_that_was_held_up_gives_way_to_that_of_the_next_segment() {
    let right = (NOW - 9 * HOUR, false, NOW - 9 * HOUR, NOW - 8 * HOUR);
    let behind = (7, true, NOW - 8 * HOUR, NOW - 8 * HOUR);
    let found = told(Smaller, &[right, behind]);
    assert_eq!(found, [NOW - 8 * HOUR, UNTOLD]);
    let again = (NOW - HOUR, false, NOW - HOUR, NOW);
    let found = told(Smaller, &[right, behind, behind, again]);
    assert_eq!(found, [NOW - 8 * HOUR, NOW - HOUR, NOW - HOUR, NOW]);
}

/// It was ahead; then behind; and now it is right.
#[test]
fn a_clock_that_was_behind_proves_nothing() {
    let right = (NOW - HOUR, true, AHEAD, AHEAD);
    let behind = (7, true, AHEAD, AHEAD);
    for before in [
        (NOW - 9 * HOUR, false, NOW - 8 * HOUR, AHEAD),
        (AHEAD, false, NOW - 8 * HOUR, AHEAD),
        (NOW - 9 * HOUR, false, AHEAD, AHEAD),
    ] {
        let found = told(Smaller, &[before, behind, right]);
        assert_eq!(found, [NOW - HOUR, NOW - HOUR, UNTOLD], "{before:?}");
    }
    let found = told(Smaller, &[(9, false, 9, AHEAD), behind]);
    assert_eq!(found[0], UNTOLD);
}

#[test]
fn an_event_time_that_is_to_count_for_itself_does_and_an_empty_segment_has_no_age() {
    let mut totals = appended(5, AHEAD);
    totals.add(1, 0, 0, AHEAD, Some(2 * AHEAD), false);
    let newest = |by, totals: &Accumulator| {
        let next = [Ok(begin(NOW - HOUR, true))];
        let newest = Ages::new(by, at(NOW)).newest(begin(5, false), totals, next);
        newest.unwrap()
    };
    assert_eq!(newest(RecordTime, &totals), Some(Newest::At(at(2 * AHEAD))));
    assert_eq!(newest(Smaller, &totals), Some(Newest::At(at(NOW - HOUR))));
    assert_eq!(newest(Smaller, &Accumulator::default()), None);
}

#[test]
fn a_segment_ends_at_its_age_and_at_once_if_it_was_begun_much_later_than_now() {
    for hours in [1, 5] {
        let age = Duration::from_millis(hours * HOUR.unsigned_abs());
        let span = HOUR * hours.cast_signed();
        let ends = |created, first| {
            let ends = over_at(begin(created, false), &appended(first, AHEAD), age, at(NOW));
            ends.as_millis()
        };
        assert_eq!(ends(0, NOW - 1), NOW - 1 + span, "its first append counts");
        assert_eq!(ends(0, NOW + span), NOW + 2 * span, "a little ahead");
        assert_eq!(ends(NOW - 1, NOW + span + 1), NOW - 1 + span, "it does not");
        assert_eq!(ends(AHEAD, AHEAD), i64::MIN, "nothing is known");
    }
    let moment = Duration::from_millis(1);
    let ends = over_at(
        begin(NOW + 9, false),
        &appended(NOW + 9, NOW + 9),
        moment,
        at(NOW),
    );
    assert_eq!(ends.as_millis(), NOW + 10, "less than an hour is no jump");
}

#[test]
fn an_append_looks_when_the_segment_ends_when_half_an_hour_is_over_and_when_the_clock_goes_back() {
    let young = Young::from(at(NOW), Timestamp::MAX);
    let holds = |young: Young, ms: i64| young.holds(ms.unsigned_abs());
    for ms in [NOW - HOUR / 2, NOW, NOW + HOUR / 2 - 1] {
        assert!(holds(young, ms));
    }
    for ms in [0, NOW - HOUR / 2 - 1, NOW + HOUR / 2, AHEAD] {
        assert!(!holds(young, ms));
    }
    let young = Young::from(at(NOW), at(NOW + 5));
    assert!(holds(young, NOW + 4) && !holds(young, NOW + 5));
    assert!(!holds(Young::default(), 0));
    assert!(!holds(Young::from(at(NOW), Timestamp::MIN), NOW));
}
