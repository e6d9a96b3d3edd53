//! The upkeep from within: a pass that panics.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::*;
use crate::clock::{Clock, SystemClock};
use crate::io::memory::Memory;
use crate::log::builder::Options;
use crate::log::root::Access;
use crate::log::{Log, Maintenance, TopicConfig, open};
use crate::partition::policy::Retention;

/// Panics when the thread for upkeep asks it, if it is told to, and counts how often that has asked.
#[derive(Debug)]
struct Trap {
    real: SystemClock,
    set: AtomicBool,
    asked: AtomicU64,
}

impl Clock for Trap {
    fn now(&self) -> Timestamp {
        if thread::current().name() == Some("thalweg-upkeep") {
            self.asked.fetch_add(1, Ordering::SeqCst);
            assert!(!self.set.load(Ordering::SeqCst), "planted");
        }
        self.real.now()
    }

    fn elapsed(&self) -> Duration {
        self.real.elapsed()
    }

    fn waits(&self) -> bool {
        false
    }
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let began = SystemClock::new();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        thread::park_timeout(Duration::from_millis(1));
    }
}

#[test]
fn f76_a_pass_that_panics_is_told_appends_go_on_and_a_later_one_does_its_work() {
    let trap = Arc::new(Trap {
        real: SystemClock::new(),
        set: AtomicBool::new(true),
        asked: AtomicU64::new(0),
    });
    let clock: Arc<dyn Clock> = Arc::clone(&trap) as Arc<dyn Clock>;
    let options = Options {
        maintenance: Maintenance::Background {
            every: Duration::from_secs(3600),
        },
        ..Options::default()
    };
    let storage = Arc::new(Memory::new());
    let inner = open::open(storage, clock, Path::new("/log"), Access::Write, options).unwrap();
    let log = Log { inner };
    let config = TopicConfig::new()
        .segment_bytes(400)
        .retention(Retention::new().bytes(1000));
    let topic = log.create_topic("t", config.clone()).unwrap(); // asks for a pass
    let asked = || trap.asked.load(Ordering::SeqCst);
    wait_for("the thread does a pass", || asked() > 0);
    for _ in 0..50 {
        topic.append(("k", "appends go on")).unwrap();
    }
    let mut told = Ok(());
    let began = SystemClock::new();
    while told.is_ok() && began.elapsed() < Duration::from_secs(60) {
        told = log.sync();
    }
    assert!(
        matches!(&told, Err(Error::Panicked { what, .. }) if what.contains("upkeep")),
        "{told:?}"
    );
    log.sync().expect("it is told once");
    assert_eq!(asked(), 1, "and not tried again at once");
    trap.set.store(false, Ordering::SeqCst);
    log.create_topic("u", config).unwrap(); // asks for a pass
    let start = || topic.partition(0).unwrap().offsets().start.get();
    wait_for("a later pass does its work", || start() > 0);
    log.close().unwrap();
}
