//! Time that stands still until the test moves it.

use std::time::Duration;

use thalweg::Durability;
use thalweg::testing::{Survives, TestLog};

use crate::{append, join, orders, topic};

#[test]
fn time_stands_still_until_it_is_moved_and_goes_on_over_a_crash() {
    let test = TestLog::new();
    let begin = test.now();
    assert_eq!(begin.as_millis(), 1_577_836_800_000);
    append(&topic(&test, Durability::Power), 0..1);
    test.advance(Duration::from_secs(60));
    test.crash(Survives::Everything).unwrap();
    append(&test.log().topic("orders").unwrap(), 1..2);
    let times: Vec<i64> = orders(&test)
        .entries(..)
        .map(|entry| entry.unwrap().timestamp().as_millis() - begin.as_millis())
        .collect();
    assert_eq!(times, [0, 60_000]);
    assert_eq!(test.now().as_millis() - begin.as_millis(), 60_000);
}

#[test]
fn nothing_waits_unless_it_is_said() {
    let test = TestLog::new();
    topic(&test, Durability::Power);
    let mut kitchen = join(&test);
    assert!(kitchen.poll(Duration::MAX).unwrap().is_empty());
    assert!(kitchen.next_batch().unwrap().is_none());
}
