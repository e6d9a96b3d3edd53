//! A log with a compacted topic `t`, and the book of what was written to its only partition.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use thalweg::testing::{CrashModel, Disk, ManualClock};
use thalweg::{
    Compaction, FindingKind, Log, Maintenance, MaintenanceReport, Partition, ReadMode, Topic,
    TopicConfig,
};

use crate::HOUR;
use crate::common::{Dice, Rec};
use crate::latest::Book;
use crate::logs::{files, t0};

/// How a life of the log ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Close,
    Kill,
    /// Everything that was not synced is lost.
    PowerLoss,
}

/// How the log is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) memory: usize,
    pub(crate) mode: ReadMode,
}

impl Default for Opening {
    fn default() -> Opening {
        Opening {
            memory: 1 << 20,
            mode: ReadMode::Positioned,
        }
    }
}

impl Opening {
    /// The keys of few records find room.
    pub(crate) fn forgetful() -> Opening {
        Opening {
            memory: 1024,
            ..Opening::default()
        }
    }

    pub(crate) fn open(self, disk: &Disk, clock: &ManualClock) -> Log {
        let builder = Log::builder().maintenance(Maintenance::Manual);
        let builder = builder
            .compaction_memory(self.memory)
            .read_mode(self.mode)
            .clock(clock);
        builder.open_on(disk).expect("the log opens")
    }
}

pub(crate) struct World {
    pub(crate) disk: Disk,
    pub(crate) clock: ManualClock,
    pub(crate) opening: Opening,
    pub(crate) log: Log,
    pub(crate) book: Book,
    number: u64,
}

/// Compacted as soon as anything is new; tombstones stay for an hour.
pub(crate) fn eager() -> Compaction {
    let how = Compaction::new().min_dirty_ratio(0.0);
    how.tombstone_retention(HOUR)
}

impl World {
    /// With a topic of this kind, [`eager`]ly compacted.
    pub(crate) fn new(config: TopicConfig) -> World {
        World::with(config.compacted(eager()), Opening::default())
    }

    pub(crate) fn with(config: TopicConfig, opening: Opening) -> World {
        let (disk, clock) = (Disk::new(), ManualClock::new());
        let log = opening.open(&disk, &clock);
        log.create_topic("t", config).expect("a new topic");
        World {
            disk,
            clock,
            opening,
            log,
            book: Book::default(),
            number: 0,
        }
    }

    pub(crate) fn topic(&self) -> Topic {
        self.log.topic("t").expect("the topic is there")
    }

    pub(crate) fn partition(&self) -> Partition {
        t0(&self.log)
    }

    pub(crate) fn put(&mut self, key: &str, value: Option<&str>) {
        let partition = self.partition();
        self.book.put(&partition, &self.clock, key, value);
    }

    pub(crate) fn append(&mut self, records: &[Rec]) {
        let partition = self.partition();
        let done = self.book.append(&partition, &self.clock, records);
        done.expect("an append");
    }

    /// A batch of so many records of any shape, each of one of so many keys, a millisecond later.
    pub(crate) fn batch(&mut self, records: u64, keys: u64, dice: &mut Dice) {
        self.clock.advance(Duration::from_millis(1));
        let numbers = self.number..self.number + records;
        self.number = numbers.end;
        let records: Vec<Rec> = numbers.map(|n| keyed(n, keys, dice)).collect();
        self.append(&records);
    }

    /// So many batches of 1 to 5 records.
    pub(crate) fn fill(&mut self, batches: u64, keys: u64, dice: &mut Dice) {
        for _ in 0..batches {
            self.batch(1 + dice.below(5), keys, dice);
        }
    }

    pub(crate) fn roll(&self) {
        self.partition().roll().expect("a roll");
    }

    pub(crate) fn compact(&self) -> MaintenanceReport {
        self.topic().compact().expect("a compaction")
    }

    pub(crate) fn maintain(&self) -> MaintenanceReport {
        self.log.maintain().expect("a pass")
    }

    /// The process ends and another one begins. What a power loss took is struck from the book.
    pub(crate) fn reopen(&mut self, end: End) {
        match end {
            End::Close => self.log.clone().close().expect("an orderly end"),
            End::Kill => self.disk = crashed(&self.disk, CrashModel::ProcessKill),
            End::PowerLoss => self.disk = crashed(&self.disk, CrashModel::LostPages),
        }
        self.log = self.opening.open(&self.disk, &self.clock);
        let findings = self.log.recovery().findings();
        let damaged = findings.iter().any(|f| f.kind == FindingKind::Damaged);
        assert!(!damaged, "{findings:?}");
        if matches!(end, End::Close) {
            assert!(findings.is_empty(), "{findings:?}");
        }
        if matches!(end, End::PowerLoss) {
            let partition = self.partition();
            let left = self.book.judge_certain(&partition, 0);
            let last = left.unwrap_or_else(|why| panic!("{end:?}: {why}")).pop();
            drop(
                self.book
                    .written
                    .split_off(&last.map_or(0, |last| last + 1)),
            );
            self.book.end = partition.offsets().end.get();
        }
    }

    /// The offsets that can be read, if they may be what is left.
    pub(crate) fn offsets(&self) -> Vec<u64> {
        let judged = self.book.judge(&self.partition());
        judged.unwrap_or_else(|why| panic!("{why}"))
    }

    /// As [`offsets`](Self::offsets), read in every way.
    pub(crate) fn offsets_every_way(&self) -> Vec<u64> {
        let judged = self.book.judge_every_way(&self.partition());
        judged.unwrap_or_else(|why| panic!("{why}"))
    }

    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        files(&self.disk, "t", ".log")
    }
}

fn crashed(disk: &Disk, model: CrashModel) -> Disk {
    disk.crash(disk.points(), model, 0)
}

/// A record of any shape that has one of so many keys, or the empty one.
fn keyed(number: u64, keys: u64, dice: &mut Dice) -> Rec {
    let len = 10 + dice.below(60) as usize;
    let mut rec = Rec::of_any_shape(number, len, dice);
    if rec.key.as_ref().is_none_or(|key| !key.is_empty()) {
        rec.key = Some(format!("key-{}", dice.below(keys)).into_bytes());
    }
    rec
}

/// Nothing is left of what was replaced: so many segments, and an index for none but them.
pub(crate) fn assert_tidy(disk: &Disk, segments: usize, state: &str) {
    let stems = |ending| -> BTreeSet<PathBuf> {
        let files = files(disk, "t", ending).into_iter();
        files.map(|path| path.with_extension("")).collect()
    };
    let (logs, indexes) = (stems(".log"), stems(".idx"));
    assert!(logs.len() <= segments, "{state}: {logs:?}");
    assert!(indexes.is_subset(&logs), "{state}: {indexes:?} of {logs:?}");
}
