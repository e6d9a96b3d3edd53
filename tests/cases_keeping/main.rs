//! Reported cases of others as scenarios of this crate: what retention keeps and what it takes (B48 to B53), who reads and who writes
//! meanwhile (B55 to B57), and a group that it overtakes (B30).
//!
//! Not here: the second half of B52, a retention that is altered while the log is open.

#[path = "../common/logs.rs"]
mod logs;

mod ages;
mod groups;
mod readers;
mod sizes;
mod trims;

use std::time::Duration;

use thalweg::{Log, MaintenanceReport, Partition};

use logs::{files, fresh};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Passes until there is nothing more to do; what all of them did.
fn maintain(log: &Log) -> MaintenanceReport {
    let mut sum = MaintenanceReport::default();
    loop {
        let report = log.maintain().expect("a pass");
        sum.segments_deleted += report.segments_deleted;
        sum.bytes_freed += report.bytes_freed;
        if !report.more {
            return sum;
        }
    }
}

/// Segments whose only record has so many bytes; the last one is not ended.
fn segments(partition: &Partition, sizes: &[usize]) {
    for (n, size) in sizes.iter().enumerate() {
        if n > 0 {
            partition.roll().expect("a roll");
        }
        partition
            .append(("key", "x".repeat(*size)))
            .expect("an append");
    }
}

/// The first readable offset.
fn start(partition: &Partition) -> u64 {
    partition.offsets().start.get()
}

/// Ten segments of ten records each, at their numbers, and an empty one behind them.
fn ten_by_ten(partition: &Partition) {
    for n in 0..10 {
        logs::fill(partition, 10 * n..10 * n + 10);
        partition.roll().expect("a roll");
    }
}

/// How long the files of such [`segments`] are.
fn lens(sizes: &[usize]) -> Vec<u64> {
    let (disk, _log, partition) = fresh(thalweg::TopicConfig::new());
    segments(&partition, sizes);
    let files = files(&disk, "t", ".log").into_iter();
    files.map(|path| logs::len(&disk, &path)).collect()
}
