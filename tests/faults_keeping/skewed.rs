//! Rows F77 and F78 over a long time: histories of a clock that is ahead, behind and right again, of which a plain model knows the true
//! times. By a clock that is right nothing goes before its time, whatever it said before; and everything goes not long after it.

use std::time::Duration;

use thalweg::testing::{Disk, DiskError, Fault, ManualClock};
use thalweg::{Compaction, Log, Partition, Retention, RetentionTime, Timestamp, TopicConfig};

use super::logs::{Dice, end, killed, open_with, rows, scale, seed, t0};
use super::{HOUR, segments, start};

const AGE: Duration = Duration::from_secs(10 * 3600);
const MINUTE: i64 = 60_000;
const HOURS: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOURS;
const YEARS: i64 = 20 * 365 * DAY;

/// How the clock may be wrong, and by how much at most what it did so may go too early.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    Ahead,
    /// After a first append at the right time.
    Behind,
    /// A little, either way, for which nobody looks.
    Little,
    Any,
}

/// A log, and the true times of what was appended.
struct World {
    disk: Disk,
    clock: ManualClock,
    log: Log,
    /// The clock less the truth, in milliseconds.
    skew: i64,
    truth: i64,
    appended: Vec<i64>,
    tolerance: i64,
    state: String,
}

impl World {
    fn new(config: TopicConfig, tolerance: i64, state: String) -> World {
        let (disk, clock) = (Disk::new(), ManualClock::new());
        let log = open_with(&disk, &clock);
        log.create_topic("t", config).unwrap();
        World {
            truth: clock.now().as_millis(),
            disk,
            clock,
            log,
            skew: 0,
            appended: Vec::new(),
            tolerance,
            state,
        }
    }

    fn partition(&self) -> Partition {
        t0(&self.log)
    }

    fn append(&mut self) {
        let n = self.appended.len();
        let at = self.partition().append((format!("key-{n}"), "value"));
        assert_eq!(at.unwrap().offset().get(), n as u64);
        self.appended.push(self.truth);
    }

    fn wait(&mut self, ms: i64) {
        self.truth += ms;
        self.clock.advance(Duration::from_millis(ms.unsigned_abs()));
    }

    fn set(&mut self, skew: i64) {
        self.skew = skew;
        self.clock.set(Timestamp::from_millis(self.truth + skew));
    }

    /// From ahead to behind by way of a time that is right: else nobody could tell, once what was right before is gone.
    fn go_wrong(&mut self, wrong: Wrong, skew: i64) {
        if matches!(wrong, Wrong::Any) && self.skew > 0 && skew <= 0 {
            self.set(0);
            self.append();
            self.partition().roll().unwrap();
            self.append();
        }
        self.set(skew);
    }

    fn reopen(&mut self, closed: bool) {
        if closed {
            self.log.clone().close().unwrap();
        } else {
            self.disk = killed(&self.disk);
        }
        self.log = open_with(&self.disk, &self.clock);
    }

    /// One pass: what it takes is old enough.
    fn maintain(&mut self) {
        let before = start(&self.partition());
        self.log.maintain().unwrap();
        let after = start(&self.partition());
        for offset in before..after {
            let age = self.truth - self.appended[offset as usize];
            let least = AGE.as_millis() as i64 - self.tolerance;
            let state = &self.state;
            assert!(
                age >= least,
                "{state}: {offset} went {age} ms old, of {before}..{after}"
            );
        }
    }

    /// From now on the clock is right, and a pass is done now and then.
    fn judge_end(&mut self, appends: bool, within: i64) {
        self.set(0);
        let last = self.truth + 72 * HOURS;
        while self.truth < last {
            self.wait(30 * MINUTE);
            if appends {
                self.append();
            }
            for _ in 0..4 {
                self.maintain();
            }
        }
        let old = |time: &&i64| **time < self.truth - within;
        let old = self.appended.iter().filter(old).count() as u64;
        let partition = self.partition();
        let state = &self.state;
        assert!(
            start(&partition) >= old,
            "{state}: {:?}, {old} are old",
            partition.offsets()
        );
        assert_eq!(end(&partition), self.appended.len() as u64);
    }
}

/// What the clock says from now on, less the truth; the truth itself, now and then.
fn skew(wrong: Wrong, dice: &mut Dice) -> i64 {
    let ahead = [YEARS, DAY, 5 * HOURS];
    let behind = [20, 35, 40].map(|years| (years - 50) * 365 * DAY);
    let little = [20 * MINUTE, -20 * MINUTE, -5 * HOURS];
    let pick = dice.below(3) as usize;
    match wrong {
        _ if dice.below(2) == 0 => 0,
        Wrong::Ahead => ahead[pick],
        Wrong::Behind => behind[pick],
        Wrong::Little => little[pick],
        Wrong::Any => [ahead, behind][dice.below(2) as usize][pick],
    }
}

/// How the records of a history are kept.
#[derive(Clone, Copy, Debug)]
struct Keep {
    by: RetentionTime,
    segment_hours: u32,
    compacted: bool,
}

impl Keep {
    fn config(self) -> TopicConfig {
        let config = TopicConfig::new()
            .retention(Retention::new().age(AGE))
            .retention_time(self.by)
            .segment_bytes(1000)
            .segment_age(self.segment_hours * HOUR);
        if self.compacted {
            config.compacted(Compaction::new().min_dirty_ratio(0.3))
        } else {
            config
        }
    }

    /// Everything is gone that is so old, if appends go on; or if they do not.
    fn most(self, wrong: Wrong, idle: bool) -> i64 {
        let hours = if idle {
            22
        } else {
            10 + 3 * i64::from(self.segment_hours)
        };
        let merged = if self.compacted { 12 } else { 0 };
        // A time that was ahead counts when it has come.
        let ahead = if matches!(wrong, Wrong::Ahead | Wrong::Any) {
            24
        } else {
            0
        };
        (hours + merged + ahead + 2) * HOURS
    }
}

fn history(wrong: Wrong, seed: u64) {
    let mut dice = Dice(seed);
    let bys = [
        RetentionTime::Smaller,
        RetentionTime::AppendTime,
        RetentionTime::RecordTime,
    ];
    let keep = Keep {
        by: bys[dice.below(3) as usize],
        segment_hours: [1, 4, 7 * 24][dice.below(3) as usize],
        compacted: dice.below(3) == 0,
    };
    let tolerance = match wrong {
        Wrong::Little => 7 * HOURS,
        _ => 0,
    };
    let state = format!("{wrong:?}, seed {seed}, {keep:?}");
    let mut world = World::new(keep.config(), tolerance, state);
    world.append();
    for _ in 0..10 + dice.below(50) {
        match dice.below(10) {
            3..5 => world.wait(dice.below(120) as i64 * MINUTE),
            5 => world.go_wrong(wrong, skew(wrong, &mut dice)),
            6 if world.skew == 0 => world.maintain(),
            7 => world.partition().roll().unwrap(),
            8 => world.reopen(dice.below(2) == 0),
            9 if keep.compacted => drop(world.log.topic("t").unwrap().compact().unwrap()),
            _ => world.append(),
        }
    }
    let idle = keep.segment_hours > 10 || dice.below(2) == 0;
    world.judge_end(!idle, keep.most(wrong, idle));
}

fn histories(wrong: Wrong) {
    let seed = seed();
    for n in 0..150 * scale() {
        history(wrong, seed.wrapping_add(n));
    }
}

#[test]
fn f78_whatever_a_clock_did_that_was_ahead_nothing_goes_too_early_or_stays_for_long() {
    histories(Wrong::Ahead);
}

#[test]
fn f77_whatever_a_clock_did_that_was_behind_nothing_goes_too_early_or_stays_for_long() {
    histories(Wrong::Behind);
}

#[test]
fn f77_a_clock_that_is_a_little_wrong_costs_no_more_than_that() {
    histories(Wrong::Little);
}

#[test]
fn f77_a_clock_that_was_ahead_and_behind_pins_nothing_and_costs_nothing() {
    histories(Wrong::Any);
}

/// A pass that begins an empty last segment anew, so that it says when that was, and of which any call fails.
#[test]
fn f77_whichever_call_fails_while_the_next_segment_is_begun_anew_nothing_is_lost() {
    let mut met = 0;
    for lasting in [false, true] {
        for nth in 0.. {
            let config = TopicConfig::new().retention(Retention::new().age(AGE));
            let mut world = World::new(config, 0, format!("call {nth}, lasting: {lasting}"));
            world.append();
            world.set(-20 * 365 * DAY);
            world.append();
            world.partition().roll().unwrap();
            world.set(0);
            world.wait(11 * HOURS); // the first is old by now; how old the second is, is not known
            let fault = Fault::any(DiskError::Io).after(nth);
            world
                .disk
                .fail(if lasting { fault.lasting() } else { fault });
            let struck = world.disk.struck();
            let done = world.log.maintain();
            let struck = world.disk.struck() > struck;
            world.disk.heal();
            assert!(struck || done.is_ok(), "{done:?}");
            assert!(start(&world.partition()) < 2, "{}: {done:?}", world.state);
            assert!(!rows(&world.partition()).is_empty());
            world.partition().recover().unwrap();
            world.reopen(nth % 2 == 0);
            assert_eq!(end(&world.partition()), 2);
            world.append();
            world.judge_end(false, 22 * HOURS);
            assert_eq!(start(&world.partition()), 3);
            if !struck {
                assert_eq!((segments(&world.disk).len(), nth > 3), (1, true), "{nth}");
                break;
            }
            met += 1;
        }
    }
    println!("{met} faults");
}
