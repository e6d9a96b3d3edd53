//! F78: compaction after the clock was ahead: lags count from when it was right again, and what is written anew is no younger for it.

use std::time::Duration;

use thalweg::{Compaction, Retention, Timestamp, TopicConfig};

use super::HOUR;
use super::world::{Opening, World};

const TICK: Duration = Duration::from_millis(1);
const TEN_YEARS: i64 = 3650 * 24 * 3_600_000;

/// A topic into which something was put while the clock was ahead, and which is right again.
fn was_ahead(config: TopicConfig, key: &str, value: &str) -> World {
    let mut world = World::with(config, Opening::default());
    let right = world.clock.now();
    let ahead = Timestamp::from_millis(right.as_millis() + TEN_YEARS);
    world.clock.set(ahead);
    world.put(key, Some(value));
    world.clock.set(right);
    world
}

/// What is there. (The times are those of a clock that was ahead.)
fn offsets(world: &World) -> Vec<u64> {
    let partition = world.partition();
    let entries = partition.entries(..);
    entries.map(|entry| entry.unwrap().offset().get()).collect()
}

#[test]
fn f78_one_append_under_a_clock_that_was_ahead_keeps_nothing_from_being_compacted_after_its_lag() {
    let lazy = Compaction::new().min_lag(HOUR).min_dirty_ratio(0.0);
    let mut world = was_ahead(TopicConfig::new().compacted(lazy), "a", "1");
    for value in ["2", "3"] {
        world.put("a", Some(value)); // they get the time of the first
    }
    world.roll();
    world.clock.advance(HOUR);
    world.maintain();
    assert_eq!(offsets(&world), [0, 1, 2], "not before its lag");
    world.clock.advance(TICK);
    world.maintain();
    assert_eq!(offsets(&world), [2]);
}

#[test]
fn f78_one_append_under_a_clock_that_was_ahead_puts_nothing_off_that_is_older_than_the_greatest_lag()
 {
    let soon = Compaction::new().min_dirty_ratio(1.0).max_lag(HOUR);
    let mut world = was_ahead(TopicConfig::new().compacted(soon), "a", "1");
    for value in ["2", "3"] {
        world.put("a", Some(value));
    }
    world.clock.advance(HOUR.saturating_sub(TICK));
    world.maintain();
    assert_eq!(offsets(&world), [0, 1, 2]);
    for _ in 0..2 {
        world.clock.advance(2 * TICK);
        world.maintain();
    }
    assert_eq!(offsets(&world), [2]);
}

/// The segment that says how old the one before it is, is written anew each hour.
#[test]
fn f78_what_is_written_anew_says_when_it_was_first_begun() {
    let eager = Compaction::new().min_dirty_ratio(0.0);
    let config = TopicConfig::new().compacted(eager).segment_bytes(700);
    let config = config.retention(Retention::new().age(10 * HOUR));
    let mut world = was_ahead(config, "large", &"x".repeat(600));
    let keys: Vec<String> = (0..12).map(|n| format!("key-{n}")).collect();
    for key in &keys {
        world.put(key, Some("value"));
    }
    for (hour, key) in keys.iter().enumerate() {
        world.roll();
        world.clock.advance(HOUR);
        let report = world.maintain();
        assert!(hour == 0 || report.segments_compacted > 0, "{report:?}");
        let start = world.partition().offsets().start.get();
        assert_eq!(start > 0, hour >= 10, "{hour}");
        world.put(key, Some("another"));
    }
}

/// The last segment is empty, and was begun while the clock was behind: that says nothing, so it is begun anew.
#[test]
fn f77_what_nobody_knows_the_age_of_is_compacted_in_the_end_though_nothing_is_appended() {
    let lazy = Compaction::new().min_lag(HOUR).min_dirty_ratio(0.0);
    let config = TopicConfig::new().compacted(lazy);
    let mut world = World::with(config, Opening::default());
    world.put("a", Some("1"));
    world.roll();
    let right = world.clock.now();
    let skewed = |by: i64| Timestamp::from_millis(right.as_millis() + by);
    world.clock.set(skewed(TEN_YEARS));
    world.put("a", Some("2"));
    world.clock.set(skewed(-TEN_YEARS / 100));
    world.roll();
    world.clock.set(right);
    for _ in 0..4 {
        world.clock.advance(HOUR);
        world.maintain();
    }
    assert_eq!(offsets(&world), [1]);
}

#[test]
fn f70_a_tombstone_stays_for_its_time_though_the_clock_was_behind_when_it_was_told() {
    let eager = Compaction::new().min_dirty_ratio(0.0); // a day
    let config = TopicConfig::new().compacted(eager);
    let mut world = World::with(config, Opening::default());
    world.put("a", Some("1"));
    world.put("a", None);
    world.put("b", Some("1"));
    world.roll();
    let right = world.clock.now();
    let behind = Timestamp::from_millis(right.as_millis() - TEN_YEARS / 100);
    world.clock.set(behind);
    world.maintain();
    world.clock.set(right);
    world.clock.advance(2 * HOUR);
    world.maintain();
    assert_eq!(offsets(&world), [1, 2], "two hours of a day");
    world.clock.advance(24 * HOUR);
    world.maintain();
    assert_eq!(offsets(&world), [2]);
}
