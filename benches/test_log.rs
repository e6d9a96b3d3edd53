//! How long does a unit test of consumer logic take that runs on a [`TestLog`]?
//!
//! * `test_log`: a whole test: a log and a topic are made, three orders appended, a group joins, polls and commits; the log crashes,
//!   and the group resumes where it was. The aim is less than 1 ms for one, and less than 10 s for 10,000 one after another, which
//!   is measured too.
//! * `test_log_parts`: the same, by its parts, in microseconds.
//! * `test_log_long`: 100,000 appends, polls and commits in one test: does its last tenth take longer than its first?

mod common;

use std::time::{Duration, Instant};

use common::{Line, Run, Spread, float, millis, seconds};
use thalweg::testing::{Survives, TestLog};
use thalweg::{Consumer, Topic, TopicConfig};

const TESTS: u64 = 10_000;
const LONG: u64 = 100_000;
/// What 10,000 tests may take at most.
const LIMIT_S: f64 = 10.0;
const PARTS: [&str; 7] = [
    "new", "topic", "append_3", "join", "poll", "commit", "crash",
];

fn main() {
    let run = Run::from_args();
    test_log(&run);
    test_log_parts(&run);
    test_log_long(&run);
}

fn test_log(run: &Run) {
    if !run.wants("test_log") {
        return;
    }
    let tests = run.size(TESTS);
    let mut each = Vec::new();
    let total_s = seconds(|| {
        for seed in 0..tests {
            each.push(millis(timed(|| a_test(seed)).0));
        }
    });
    Line::new("test_log")
        .count("tests", tests)
        .number("total_s", total_s)
        .spread("test_ms", Spread::of(each))
        .number("per_s", float(tests) / total_s)
        .number("limit_s", LIMIT_S * float(tests) / float(TESTS))
        .print();
}

/// What a user's test does.
fn a_test(seed: u64) {
    let test = TestLog::seeded(seed);
    let orders = topic(&test);
    append(&orders);
    let mut kitchen = join(&test);
    assert_eq!(kitchen.poll(Duration::ZERO).unwrap().len(), 3);
    kitchen.commit().unwrap();
    test.crash(Survives::Everything).unwrap();
    test.log()
        .topic("orders")
        .unwrap()
        .append(("customer-9", "tea"))
        .unwrap();
    let mut kitchen = join(&test);
    assert_eq!(kitchen.poll(Duration::ZERO).unwrap().len(), 1);
    kitchen.commit().unwrap();
}

fn topic(test: &TestLog) -> Topic {
    test.log()
        .create_topic("orders", TopicConfig::new())
        .unwrap()
}

fn append(orders: &Topic) {
    for value in ["2 x espresso", "1 x flat white", "1 x water"] {
        orders.append(("customer-7", value)).unwrap();
    }
}

fn join(test: &TestLog) -> Consumer {
    test.log()
        .group("kitchen")
        .subscribe(["orders"])
        .join()
        .unwrap()
}

fn test_log_parts(run: &Run) {
    if !run.wants("test_log_parts") {
        return;
    }
    let mut parts: [Vec<f64>; 7] = Default::default();
    for seed in 0..run.size(2_000) {
        let (new, test) = timed(|| TestLog::seeded(seed));
        let (made, orders) = timed(|| topic(&test));
        let (appended, ()) = timed(|| append(&orders));
        let (joined, mut kitchen) = timed(|| join(&test));
        let (polled, batch) = timed(|| kitchen.poll(Duration::ZERO).unwrap());
        let (committed, ()) = timed(|| kitchen.commit().unwrap());
        let (crashed, _) = timed(|| test.crash(Survives::RandomPages).unwrap());
        assert_eq!(batch.len(), 3);
        let times = [new, made, appended, joined, polled, committed, crashed];
        for (part, time) in parts.iter_mut().zip(times) {
            part.push(millis(time) * 1e3);
        }
    }
    let mut line = Line::new("test_log_parts").text("unit", "us");
    for (name, part) in PARTS.into_iter().zip(parts) {
        line = line.number(name, Spread::of(part).median);
    }
    line.print();
}

fn test_log_long(run: &Run) {
    if !run.wants("test_log_long") {
        return;
    }
    let tenth = run.size(LONG) / 10;
    let test = TestLog::new();
    let orders = topic(&test);
    let mut kitchen = join(&test);
    let tenths: Vec<f64> = (0..10)
        .map(|_| {
            seconds(|| {
                for _ in 0..tenth {
                    orders.append(("customer-7", "2 x espresso")).unwrap();
                    assert_eq!(kitchen.poll(Duration::ZERO).unwrap().len(), 1);
                    kitchen.commit().unwrap();
                }
            })
        })
        .collect();
    let (crashed, _) = timed(|| test.crash(Survives::RandomPages).unwrap());
    Line::new("test_log_long")
        .count("rounds", 10 * tenth)
        .number("first_tenth_s", tenths[0])
        .number("last_tenth_s", tenths[9])
        .number("crash_ms", millis(crashed))
        .print();
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let began = Instant::now();
    let result = work();
    (began.elapsed(), result)
}
