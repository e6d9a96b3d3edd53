//! Work in the background gives way to those who wait for the disk.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::Ground;

/// The syncs of appended records, by which it is seen whether anybody waits for the disk. All of it is a hint.
#[derive(Default)]
pub(crate) struct Syncs {
    begun: AtomicU64,
    ended: AtomicU64,
    /// Who pauses waits here.
    pauses: Mutex<()>,
    over: Condvar,
}

impl Syncs {
    pub(crate) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends the pauses of those who are in a hurry now.
    pub(crate) fn hurry(&self) {
        drop(self.pauses.lock()); // who has just looked waits by now
        self.over.notify_all();
    }

    pub(super) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    /// Has one ended since, or is one under way?
    pub(super) fn went_on(&self, since: u64) -> bool {
        let ended = self.ended();
        ended != since || self.begun.load(Ordering::Relaxed) != ended
    }
}

/// How fast somebody may write who is in no hurry.
pub(crate) struct Pace<'g> {
    ground: &'g Ground,
    /// Does somebody wait for it to end? Then there are no pauses.
    hurry: &'g dyn Fn() -> bool,
    /// Bytes since the last pause.
    spent: u64,
    /// How many syncs of others there had been then.
    others: u64,
}

/// Bytes from one pause to the next. A sync of so many takes about ten milliseconds on a fast disk.
const STEP: u64 = 4 << 20;
/// How long a pause is. Of the appends that are synced meanwhile one or two in a hundred wait for a step, so that the rest do not notice.
const PAUSE: Duration = Duration::from_millis(75);
/// Removing a file is so many times cheaper than writing it: its blocks are given back, in the journal and to the device.
const REMOVED: u64 = 8;

impl<'g> Pace<'g> {
    pub(crate) fn new(ground: &'g Ground, hurry: &'g dyn Fn() -> bool) -> Pace<'g> {
        Pace {
            ground,
            hurry,
            spent: 0,
            others: ground.syncs.ended(),
        }
    }

    /// So many bytes were written. Is it time for a step?
    pub(crate) fn wrote(&mut self, bytes: u64) -> bool {
        self.spent += bytes;
        self.spent >= STEP
    }

    /// A file of so many bytes was removed.
    pub(crate) fn removed(&mut self, bytes: u64) {
        if self.wrote(bytes / REMOVED) {
            self.pause();
        }
    }

    /// Ends a step: leaves the disk alone for a moment, if somebody synced what was appended during it.
    pub(crate) fn pause(&mut self) {
        self.spent = 0;
        let syncs = &self.ground.syncs;
        if syncs.went_on(self.others) {
            let mut pauses = syncs.pauses.lock();
            if !(self.hurry)() {
                syncs.over.wait_for(&mut pauses, PAUSE);
            }
            self.others = syncs.ended();
        }
    }
}
