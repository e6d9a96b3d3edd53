//! Rows F72 to F74 and F76 to F79 of the fault catalogue as far as they concern what is kept: readers of what goes, the last segment,
//! groups, clocks; and errors, damage, levels and threads while it goes.
//!
//! Elsewhere: F65 and the crashes of F73 and F74 (`crash_points`), F76 (beside the upkeep), F77 to F79 of appends (`faults_input`).

#[path = "../common/logs.rs"]
mod logs;

mod active;
mod background;
mod clocks;
mod errors;
mod groups;
mod limits;
mod readers;
mod skewed;
mod times;

use std::path::PathBuf;
use std::time::Duration;

use thalweg::testing::{Disk, ManualClock};
use thalweg::{Log, Partition, Timestamp, TopicConfig};

use logs::{files, one, open_with};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A topic `t` of one partition on a clock that the test moves.
fn made(config: TopicConfig) -> (Disk, ManualClock, Log, Partition) {
    let (disk, clock) = (Disk::new(), ManualClock::new());
    let log = open_with(&disk, &clock);
    let partition = one(&log.create_topic("t", config).expect("a new topic"));
    (disk, clock, log, partition)
}

fn later(than: Timestamp, by: Duration) -> Timestamp {
    let by = i64::try_from(by.as_millis()).expect("some years");
    Timestamp::from_millis(than.as_millis() + by)
}

fn earlier(than: Timestamp, by: Duration) -> Timestamp {
    let by = i64::try_from(by.as_millis()).expect("some years");
    Timestamp::from_millis(than.as_millis() - by)
}

fn just_under(time: Duration) -> Duration {
    time.saturating_sub(Duration::from_millis(1))
}

/// The first readable offset.
fn start(partition: &Partition) -> u64 {
    partition.offsets().start.get()
}

/// So many segments of four records each, at their numbers, and an empty one behind them.
fn by_fours(partition: &Partition, segments: u64) {
    let from = logs::end(partition);
    for n in 0..segments {
        logs::fill(partition, from + 4 * n..from + 4 * n + 4);
        partition.roll().expect("a roll");
    }
}

/// The segment files of the topic `t`, which has one partition.
fn segments(disk: &Disk) -> Vec<PathBuf> {
    files(disk, "t", ".log")
}
