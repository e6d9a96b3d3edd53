//! A crash after each step of an alteration: all of the old settings or all of the new, and every record that its level promised.
//!
//! (Workloads that change the level, judged by a tally and crashed again in recovery, are in `crash_points`.)

use std::time::Duration;

use thalweg::testing::{CrashModel, Disk, Variants};
use thalweg::{Compaction, Durability, FindingKind, Log, Retention, TopicConfig};

use super::logs::{end, one, open, rows, t0, try_open};
use super::{INTERVAL, MODELS, new};

/// What is so from a point on: the topic is so, and so many records survive everything, and a kill.
#[derive(Clone, Debug)]
struct Told {
    point: usize,
    settings: String,
    safe: u64,
    acked: u64,
}

struct Story {
    disk: Disk,
    log: Log,
    told: Vec<Told>,
}

impl Story {
    fn begin(level: Durability) -> Story {
        let disk = Disk::new();
        let log = open(&disk);
        let config = new().partitions(2).durability(level).offset_span(1000);
        let topic = log.create_topic("t", config).unwrap();
        let told = Told {
            point: disk.points(),
            settings: format!("{:?}", topic.settings()),
            safe: 0,
            acked: 0,
        };
        Story {
            disk,
            log,
            told: vec![told],
        }
    }

    /// From here on it is so.
    fn tell(&mut self, change: impl FnOnce(&mut Told)) {
        let mut told = self.told.last().unwrap().clone();
        told.point = self.disk.points();
        change(&mut told);
        self.told.push(told);
    }

    fn level(&self) -> Durability {
        self.log.topic("t").unwrap().settings().durability
    }

    fn write(&mut self, count: u64) {
        for _ in 0..count {
            let n = self.told.last().unwrap().acked;
            let at = t0(&self.log).append(("k", &value(n))).unwrap();
            assert_eq!(at.offset().get(), n);
            let safe = self.level() == Durability::Power;
            self.tell(|told| {
                told.acked = n + 1;
                told.safe = if safe { n + 1 } else { told.safe };
            });
        }
    }

    fn alter(&mut self, changes: TopicConfig) {
        let topic = self.log.topic("t").unwrap();
        let before = self.level();
        topic.alter(changes).unwrap();
        let settings = format!("{:?}", topic.settings());
        let raised = before != Durability::Power && self.level() == Durability::Power;
        self.tell(|told| {
            told.settings = settings;
            told.safe = if raised { told.acked } else { told.safe };
        });
    }

    fn reopen(&mut self) {
        self.log.clone().close().unwrap();
        self.log = open(&self.disk);
        self.tell(|told| told.safe = told.acked);
    }
}

fn value(n: u64) -> String {
    format!("{n} {}", "x".repeat(n as usize % 7 * 100))
}

/// Settings of all kinds, up and down through the levels, in two lives, with records in between.
fn story(level: Durability) -> Story {
    let mut story = Story::begin(level);
    let kept = Retention::new().age(Duration::from_secs(60)).bytes(1 << 30);
    let much = new()
        .retention(kept)
        .compacted(Compaction::new().max_lag(Duration::from_secs(7)))
        .timestamp_limits(Duration::from_secs(1 << 20), Duration::from_secs(1 << 20))
        .segment_age(Duration::from_secs(1 << 20));
    story.alter(new().segment_bytes(1500));
    story.write(3);
    story.alter(much.durability(Durability::Power));
    story.write(3);
    story.alter(new().not_compacted().durability(Durability::Process));
    story.write(3);
    story.reopen();
    story.alter(new().durability(INTERVAL).max_record_bytes(2000));
    story.write(2);
    t0(&story.log).roll().unwrap();
    story.tell(|told| told.safe = told.acked);
    story.alter(new().durability(Durability::Power).offset_span(2000));
    story.write(2);
    story
}

/// What must hold after a crash at a point, and goes on holding when the log is led on.
fn judge(disk: &Disk, told: &[Told], after: usize, model: CrashModel, state: &str) {
    let log = try_open(disk).unwrap_or_else(|e| panic!("{state}: {e:?}"));
    let found = log.recovery().findings();
    let damaged = |f: &thalweg::Finding| f.kind == FindingKind::Damaged;
    assert!(!found.iter().any(damaged), "{state}: {found:?}");
    let behind = told.iter().rfind(|told| told.point <= after);
    let ahead = told.iter().find(|told| told.point > after);
    let Ok(topic) = log.topic("t") else {
        assert!(behind.is_none(), "{state}: the topic is gone");
        return;
    };
    let settings = format!("{:?}", topic.settings());
    let mut may = [behind, ahead].into_iter().flatten();
    assert!(
        may.any(|told| told.settings == settings),
        "{state}: {settings}"
    );
    let there = rows(&one(&topic));
    let (safe, acked) = behind.map_or((0, 0), |told| (told.safe, told.acked));
    let promised = if model == CrashModel::ProcessKill {
        acked
    } else {
        safe
    };
    assert!(
        there.len() as u64 >= promised,
        "{state}: {} of {promised}",
        there.len()
    );
    let wanted = (0..).map(|n| (n, value(n))).take(there.len());
    assert!(there.iter().cloned().eq(wanted), "{state}: {there:?}");
    assert!(
        end(&one(&topic)) >= acked.min(there.len() as u64),
        "{state}"
    );
    lead_on(disk, log, acked, state);
}

/// It can be altered and written, and no offset that was told is another record's.
fn lead_on(disk: &Disk, log: Log, acked: u64, state: &str) {
    let topic = log.topic("t").unwrap();
    let before = rows(&one(&topic));
    let raised = new().durability(Durability::Power).index_interval(99);
    topic
        .alter(raised)
        .unwrap_or_else(|e| panic!("{state}: {e:?}"));
    let lost = open(&disk.crash(disk.points(), CrashModel::LostPages, 0));
    assert_eq!(rows(&t0(&lost)), before, "{state}: seen at power, and lost");
    let at = one(&topic).append(("k", "last")).unwrap();
    assert!(at.offset().get() >= acked, "{state}: {at} was another's");
    log.close().unwrap_or_else(|e| panic!("{state}: {e:?}"));
    let log = open(disk);
    assert!(log.recovery().is_empty(), "{state}: {:?}", log.recovery());
    assert_eq!(rows(&t0(&log)).len(), before.len() + 1, "{state}");
    let level = log.topic("t").unwrap().settings().durability;
    assert_eq!(level, Durability::Power, "{state}");
}

#[test]
fn a_crash_at_each_step_leaves_the_old_settings_or_the_new_and_what_they_promised() {
    let mut states = 0;
    for level in [Durability::Process, INTERVAL, Durability::Power] {
        let Story { disk, told, .. } = story(level);
        for after in 0..=disk.points() {
            for model in MODELS {
                let seeds = match disk.variants(after, model) {
                    Variants::All(count) => count.min(4),
                    _ => 4,
                };
                for seed in 0..seeds {
                    let state = format!("{level:?}, {model:?} after {after}, seed {seed}");
                    judge(&disk.crash(after, model, seed), &told, after, model, &state);
                    states += 1;
                }
            }
        }
    }
    println!("{states} states");
    assert!(states > 500);
}
