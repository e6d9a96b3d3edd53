//! The ledger's upkeep: commits made durable behind the records that they speak of, and superseded ones removed.
//!
//! Within a second of a commit, and when it is asked for:
//!
//! 1. the partitions that were committed since the last time are synced
//! 2. then the ledger is: a commit that reaches the disk speaks of records that did
//! 3. the last segment is rolled if it is worth rewriting
//! 4. if enough was sealed since the last pass, all sealed segments are rewritten with the newest record of each key alone

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::super::maintenance::MaintenanceReport;
use super::live::Live;
use super::{Ledger, PartitionKey};
use crate::error::{Error, Result};
use crate::partition::Partition;
use crate::partition::agenda::Chore;
use crate::partition::compaction::Plan;
use crate::partition::settings::MAX_SEGMENT_BYTES;
use crate::segment::rewrite::Packing;

/// From a commit to the sync that covers it.
const SYNC_WITHIN: Duration = Duration::from_secs(1);
/// So much is un-synced at most, about: then who commits syncs, or the thread does it at once.
const UNSYNCED_LIMIT: u64 = 4 << 20;
/// The last segment is rolled when it is so large; and so much must have been sealed, at least, before it is rewritten.
const WORTH_REWRITING: u64 = 1 << 20;

/// What the upkeep remembers.
#[derive(Default)]
pub(super) struct Done {
    /// Bytes that were sealed and not rewritten when a pass failed: the thread does not try again before there are more.
    failed_at: Option<u64>,
}

/// What the threads met last, which have nobody to tell.
#[derive(Default)]
pub(super) struct Failures {
    /// Steps 1 to 3.
    sync: Option<Arc<Error>>,
    /// Step 4.
    compaction: Option<Arc<Error>>,
}

/// Step 4 as work for a thread: it may take long, and no sync waits behind it.
pub(super) struct Compacting(Weak<Ledger>);

impl Compacting {
    pub(super) fn of(ledger: &Weak<Ledger>) -> Arc<Compacting> {
        Arc::new(Compacting(Weak::clone(ledger)))
    }
}

impl Ledger {
    /// After a commit was stored. `true`: so much is un-synced that the caller syncs, when it has released the lock.
    pub(super) fn ask_for_sync(&self, live: &mut Live) -> bool {
        if !live.asked {
            live.asked = true;
            self.home.agenda.ask(&self.chore(), SYNC_WITHIN);
        }
        if live.unsynced < UNSYNCED_LIMIT || live.hurried {
            return false;
        }
        live.hurried = self.home.agenda.ask_thread(&self.chore());
        !live.hurried
    }

    fn chore(&self) -> Weak<dyn Chore> {
        self.this.clone()
    }

    /// Steps 1 and 2, for every commit that was stored before. A partition that cannot be synced does not keep the commits of the
    /// others from it: one of its own may then be ahead of it, and lies in the gap that recovery leaves behind what is lost.
    pub(crate) fn sync(&self) -> Result<()> {
        let mut live = self.live.lock();
        let dirty: Vec<PartitionKey> = live.dirty.drain().collect();
        (live.unsynced, live.asked, live.hurried) = (0, false, false);
        drop(live);
        let mut partitions: Vec<Partition> =
            dirty.iter().filter_map(|&key| self.data(key)).collect();
        partitions.sort_by_key(Partition::topic_partition); // so that a simulation does the same each time
        let mut synced = Ok(());
        if !planted!(COMMIT_DURABLE_BEFORE_DATA) {
            synced = Partition::sync_many(&partitions); // 1
        }
        if synced.is_err() {
            self.live.lock().dirty.extend(&dirty);
        }
        synced.and(self.partition().sync()) // 2
    }

    /// All there is to do now, whether it is due or not.
    pub(crate) fn maintain(&self, report: &mut MaintenanceReport) -> Result<()> {
        let synced = self.sync_and_roll();
        synced.and(self.compact_if_due(true, report))
    }

    /// Steps 1 to 3.
    fn sync_and_roll(&self) -> Result<()> {
        let done = self.sync().and_then(|()| self.roll_if_large());
        if done.is_ok() {
            self.failures.lock().sync = None;
        }
        done
    }

    /// Step 4, if it is worth it.
    fn compact_if_due(&self, asked_for: bool, report: &mut MaintenanceReport) -> Result<()> {
        let mut done = self.upkeep.lock();
        let fresh = self.fresh_bytes()?;
        let again = asked_for
            || done
                .failed_at
                .is_none_or(|at| fresh >= at + WORTH_REWRITING);
        if fresh > WORTH_REWRITING && again {
            let compacted = self.compact(report);
            done.failed_at = compacted.is_err().then_some(fresh);
            compacted?;
        }
        if done.failed_at.is_none() {
            self.failures.lock().compaction = None;
        }
        Ok(())
    }

    /// What the threads met, if all is not well since.
    pub(crate) fn failure(&self) -> Option<Arc<Error>> {
        let failures = self.failures.lock();
        failures
            .sync
            .clone()
            .or_else(|| failures.compaction.clone())
    }

    /// Step 3.
    fn roll_if_large(&self) -> Result<()> {
        let partition = self.partition();
        if partition.last_segment_len() >= WORTH_REWRITING {
            partition.roll()?;
        }
        Ok(())
    }

    /// Bytes of sealed segments that no pass has seen, unless there are too few of them beside those that one has: then 0.
    fn fresh_bytes(&self) -> Result<u64> {
        let dirt = self.partition().dirt_by(&self.plan(), None)?;
        let fresh = dirt.filter(|dirt| dirt.dirty > dirt.clean);
        Ok(fresh.map_or(0, |dirt| dirt.dirty))
    }

    /// Step 4: the newest record of each key is kept, of every kind. Of a key whose newest record is a tombstone nothing is left: who
    /// replays this begins with nothing.
    fn compact(&self, report: &mut MaintenanceReport) -> Result<()> {
        loop {
            let done = self.partition().compact_as(&self.plan())?;
            report.segments_compacted += done.segments;
            report.bytes_freed += done.freed;
            if !done.more {
                return Ok(());
            }
        }
    }

    fn plan(&self) -> Plan {
        Plan {
            now: self.clock.now(),
            memory: self.compaction_memory,
            packing: Packing::Together,
            tombstones: None,
            settled: None,
            run_bytes: MAX_SEGMENT_BYTES,
        }
    }
}

impl Chore for Ledger {
    fn run(&self) -> Result<()> {
        if let Some(failure) = untold(self.sync_and_roll()) {
            self.failures.lock().sync = Some(failure);
        }
        let compacting = Arc::downgrade(&self.compacting) as Weak<dyn Chore>;
        let is_worth_it = !matches!(self.fresh_bytes(), Ok(0..=WORTH_REWRITING));
        if is_worth_it && !self.home.upkeep.ask_thread(&compacting) {
            return self.compacting.run();
        }
        Ok(())
    }

    fn whose(&self) -> String {
        "the upkeep of committed offsets".to_owned()
    }
}

impl Chore for Compacting {
    fn run(&self) -> Result<()> {
        let Some(ledger) = self.0.upgrade() else {
            return Ok(());
        };
        let compacted = ledger.compact_if_due(false, &mut MaintenanceReport::default());
        if let Some(failure) = untold(compacted) {
            ledger.failures.lock().compaction = Some(failure);
        }
        Ok(())
    }

    fn whose(&self) -> String {
        "the compaction of committed offsets".to_owned()
    }
}

/// What a thread has nobody to tell.
fn untold(done: Result<()>) -> Option<Arc<Error>> {
    let failure = done.err().filter(|e| !matches!(e, Error::Closed));
    failure.map(Arc::new)
}
