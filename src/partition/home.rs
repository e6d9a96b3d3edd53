//! What the partitions of one open log share, and what they ask of the log above them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::agenda::Agenda;
use super::settings::OnSuspectTail;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::format::encoder::Encoder;
use crate::format::state::Point;
use crate::offset::PartitionId;
use crate::segment::Ground;
use crate::segment::tail::TailBudget;

/// Shared by every partition of one open log.
pub(crate) struct Home {
    pub(crate) ground: Ground,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) evidence: Arc<dyn Evidence>,
    /// The log's identity.
    pub(crate) log: u128,
    pub(crate) root: PathBuf,
    pub(crate) on_suspect_tail: OnSuspectTail,
    /// Nothing is repaired, so what stands up to the last valid batch is shown as it is.
    pub(crate) read_only: bool,
    pub(crate) tails: Arc<TailBudget>,
    encoders: Mutex<Vec<Encoder>>,
    /// What is short, and must be done in time: syncs.
    pub(crate) agenda: Agenda,
    /// What may take long: removing and compacting. Kept apart, so that no sync waits behind it.
    pub(crate) upkeep: Agenda,
    closed: AtomicBool,
}

/// What opening found of earlier openings, and where recovery points go. (The log's `STATE` file.)
pub(crate) trait Evidence: Send + Sync {
    /// Has the machine run since opening `era`, in this very directory, without a restart in between?
    fn same_boot_since(&self, era: u64) -> bool;
    /// Was the log closed in order, and nothing written since?
    fn clean(&self) -> bool;
    /// Number of the newest opening that was closed in order, 0 if none.
    fn newest_close(&self) -> u64;
    /// The newest recovery point, of this opening too: everything below it was synced.
    fn point(&self, topic: u128, partition: u32) -> Option<Point>;
    /// Everything below it was written.
    fn checked(&self, topic: u128, partition: u32) -> Option<Point>;
    /// Number of this opening. The first call makes it durable: it comes before the first write of an opening.
    fn open_number(&self) -> Result<u64>;
    /// Is the log's lock still ours?
    fn held(&self) -> Result<()>;
    /// A sync failed: the cache may hold less than was written to it, so that this boot proves nothing to a later opening. Kept
    /// as [`record_point`](Evidence::record_point) keeps its points: by what is still written after it.
    fn doubt(&self);
    /// Keeps a recovery point. Leaving one out costs time at the next opening, so a failure is no error.
    fn record_point(&self, point: &Point);
    fn record_checked(&self, point: &Point);
}

/// The topic that a partition belongs to.
pub(crate) trait Owner: Send + Sync {
    /// Makes it durable that this partition has a directory with a first segment, before its first record batch.
    fn mark_used(&self, partition: PartitionId) -> Result<()>;
    /// Makes durable what an earlier process may have left in the cache alone: which partitions are in use.
    fn settle(&self) -> Result<()>;
}

/// What a [`Home`] is made of.
pub(crate) struct HomeParts {
    pub(crate) ground: Ground,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) evidence: Arc<dyn Evidence>,
    pub(crate) log: u128,
    pub(crate) root: PathBuf,
    pub(crate) on_suspect_tail: OnSuspectTail,
    pub(crate) read_only: bool,
}

/// Memory that the newest bytes of all partitions may take.
const TAIL_BYTES: usize = 64 << 20;
/// Encoders that are kept for the next append, and the largest buffer that is.
const KEPT_ENCODERS: usize = 64;
const KEPT_ENCODER_BYTES: usize = 1 << 20;

impl Home {
    pub(crate) fn new(parts: HomeParts) -> Arc<Home> {
        Arc::new(Home {
            ground: parts.ground,
            agenda: Agenda::new(Arc::clone(&parts.clock)),
            upkeep: Agenda::new(Arc::clone(&parts.clock)),
            clock: parts.clock,
            evidence: parts.evidence,
            log: parts.log,
            root: parts.root,
            on_suspect_tail: parts.on_suspect_tail,
            read_only: parts.read_only,
            tails: TailBudget::new(TAIL_BYTES),
            encoders: Mutex::new(Vec::with_capacity(KEPT_ENCODERS)),
            closed: AtomicBool::new(false),
        })
    }

    /// Does all that is due now. The first error is returned.
    pub(crate) fn run_due(&self) -> Result<()> {
        let short = self.agenda.run_due();
        short.and(self.upkeep.run_due())
    }

    /// Has something that was done in the background panicked since this was last asked?
    ///
    /// # Errors
    ///
    /// `Panicked`, once.
    pub(crate) fn healthy(&self) -> Result<()> {
        self.agenda.healthy()?;
        self.upkeep.healthy()
    }

    /// From now on every handle answers [`Error::Closed`].
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Acquire) // pairs with `close`
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_open() {
            Ok(())
        } else {
            Err(Error::Closed)
        }
    }

    /// An encoder, with the memory it had.
    pub(crate) fn encoder(&self) -> Encoder {
        let mut encoder = self.encoders.lock().pop().unwrap_or_default();
        encoder.start();
        encoder
    }

    pub(crate) fn give_back(&self, encoder: Encoder) {
        if encoder.capacity() > KEPT_ENCODER_BYTES {
            return;
        }
        let mut encoders = self.encoders.lock();
        if encoders.len() < KEPT_ENCODERS {
            encoders.push(encoder);
        }
    }
}
