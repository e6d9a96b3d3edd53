//! Failure reports of others about compacted topics, as scenarios of this crate: B58, B59, B61 to B63, B65 to B67.
//!
//! B64 is about aborted transactions, which do not exist yet. What a topic keeps of records without a key that are older than its
//! compaction (the other half of B67) cannot be asked from outside: that is beside the code.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/latest.rs"]
mod latest;
#[path = "../common/logs.rs"]
mod logs;

mod piles;
mod reading;
mod tombstones;

use std::time::Duration;

use thalweg::testing::{Disk, ManualClock};
use thalweg::{Compaction, Log, MaintenanceReport, Partition, TopicConfig};

use common::Rec;
use latest::Book;
use logs::{files, open_with, t0};

const HOUR: Duration = Duration::from_secs(3600);

/// A log with a compacted topic `t` of one partition, and what was written to that.
struct Scene {
    disk: Disk,
    clock: ManualClock,
    log: Log,
    book: Book,
}

impl Scene {
    /// Tombstones stay for an hour.
    fn new(config: TopicConfig) -> Scene {
        let (disk, clock) = (Disk::new(), ManualClock::new());
        let log = open_with(&disk, &clock);
        let how = Compaction::new().tombstone_retention(HOUR);
        log.create_topic("t", config.compacted(how)).unwrap();
        let book = Book::default();
        Scene {
            disk,
            clock,
            log,
            book,
        }
    }

    fn partition(&self) -> Partition {
        t0(&self.log)
    }

    fn put(&mut self, key: &str, value: Option<&str>) {
        let partition = self.partition();
        self.book.put(&partition, &self.clock, key, value);
    }

    fn batch(&mut self, records: &[Rec]) {
        let partition = self.partition();
        self.book
            .append(&partition, &self.clock, records)
            .expect("an append");
    }

    fn roll(&self) {
        self.partition().roll().unwrap();
    }

    fn compact(&self) -> MaintenanceReport {
        self.log.topic("t").unwrap().compact().unwrap()
    }

    fn reopen(&mut self) {
        self.log.clone().close().unwrap();
        self.log = open_with(&self.disk, &self.clock);
        assert!(self.log.recovery().is_empty(), "{:?}", self.log.recovery());
    }

    /// The offsets that can be read, in every way.
    fn offsets(&self) -> Vec<u64> {
        let partition = self.partition();
        self.book.judge_every_way(&partition).unwrap()
    }

    fn segments(&self) -> usize {
        files(&self.disk, "t", ".log").len()
    }
}

fn rec(key: &str, value: Option<&str>) -> Rec {
    Rec {
        key: Some(key.into()),
        value: value.map(Into::into),
        ..Rec::default()
    }
}
