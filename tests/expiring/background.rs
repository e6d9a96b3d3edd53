//! The log's own thread lets offsets expire, without being asked, in a directory and in real time.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use thalweg::{Log, Maintenance};

use super::{NOW, committed, groups, make, next};

/// Long enough for the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn open(path: &Path, stay: Duration) -> Log {
    let every = Duration::from_millis(5);
    let builder = Log::builder().maintenance(Maintenance::Background { every });
    builder.offsets_retention(stay).open(path).unwrap()
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        thread::park_timeout(Duration::from_millis(1));
    }
}

#[test]
fn the_thread_forgets_what_is_left_and_keeps_what_is_read_whoever_started_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let for_ever = Duration::MAX;
    let log = open(&path, for_ever);
    make(&log, "orders"); // at `Power`, without retention: nothing else needs the thread
    for name in ["a", "b"] {
        let group = log.group(name);
        group.set_positions(&next(&[("orders", 0, 5)])).unwrap();
    }
    log.close().unwrap();

    let stay = Duration::from_secs(2);
    let began = Instant::now();
    let log = open(&path, stay);
    let mut a = log.group("a").subscribe(["orders"]).join().unwrap();
    assert_eq!(a.poll(NOW).unwrap().len(), 15);
    wait_for("b is forgotten", || groups(&log) == ["a"]);
    assert!(began.elapsed() >= stay);
    assert_eq!(committed(&log.group("a")), ["orders-0@5"]);
    a.close().unwrap();
    wait_for("a is forgotten", || groups(&log).is_empty());
    log.close().unwrap();
    let log = open(&path, for_ever);
    assert!(log.recovery().is_empty());
    assert!(groups(&log).is_empty());
}
