//! Making records durable: one waiter syncs for all who wait, and no lock is held meanwhile.
//!
//! ```text
//!   write a ─┐                       ┌─ published, acknowledged
//!   write b ─┼─ wait ─▶ one of them: │  sync ──▶ durable end
//!   write c ─┘                       └─ the next sync takes all who came meanwhile
//! ```
//!
//! After a failed sync nothing more is acknowledged from that file: the kernel may have dropped the pages and marked them
//! clean, so that a second sync that succeeds proves nothing.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::home::Job;
use super::settings::Durability;
use super::writer::{Health, POINT_EVERY, Rear};
use super::{Inner, Partition};
use crate::error::{Error, Result};
use crate::format::state::Point;
use crate::io::File;

/// Who syncs, and who waits for it.
#[derive(Default)]
pub(crate) struct Gate {
    syncing: Mutex<bool>,
    turn: Condvar,
}

impl Gate {
    /// The turn to sync. `None`: somebody else has synced meanwhile, or it is `done` as it is.
    fn turn_unless(&self, done: impl Fn() -> bool) -> Option<Turn<'_>> {
        let mut syncing = self.syncing.lock();
        if *syncing {
            self.turn.wait(&mut syncing);
            return None;
        }
        if done() {
            return None;
        }
        *syncing = true;
        Some(Turn(self))
    }
}

/// Clears the flag whatever happens, or the others would sleep for ever.
struct Turn<'g>(&'g Gate);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.syncing.lock() = false;
        self.0.turn.notify_all();
    }
}

/// What a sync makes durable: the end as it was when the sync began.
struct Pending {
    file: Arc<dyn File>,
    end: u64,
    point: Option<Point>,
}

impl Inner {
    /// Returns when every record below `end` is synced.
    pub(crate) fn wait_durable(&self, end: u64) -> Result<()> {
        loop {
            if self.progress.durable() >= end {
                return Ok(());
            }
            let done = || self.progress.durable() >= end;
            if let Some(turn) = self.gate.turn_unless(done) {
                std::thread::yield_now(); // let those who are about to write join this sync
                let synced = self.sync_once();
                drop(turn);
                synced?;
            }
        }
    }

    /// Returns when less than `limit` is un-synced. A sync that is under way is enough, if it takes that much: what was
    /// written meanwhile is left to the next one, or the writer would stand still for two of them.
    fn wait_below(&self, limit: u64) -> Result<()> {
        let below = || self.writer.lock().unsynced() < limit;
        while !below() {
            if let Some(turn) = self.gate.turn_unless(below) {
                let synced = self.sync_once();
                drop(turn);
                synced?;
            }
        }
        Ok(())
    }

    /// One sync of the active segment, for everything written before it began.
    fn sync_once(&self) -> Result<()> {
        let Some(pending) = self.begin_sync()? else {
            return Ok(());
        };
        self.home.evidence.held()?;
        let mut result = pending.file.sync_data();
        if result.is_err() && planted!(FAILED_SYNC_RETRIED) {
            result = pending.file.sync_data();
        }
        match result {
            Ok(()) => {
                self.finish_sync(&pending);
                Ok(())
            }
            Err(source) => Err(self.sync_failed(source)),
        }
    }

    fn begin_sync(&self) -> Result<Option<Pending>> {
        let mut writer = self.writer.lock();
        if let Health::Poisoned(cause) = &writer.health {
            return Err(Error::poisoned(Some(&self.place.at), Arc::clone(cause)));
        }
        writer.sync_asked = false;
        let point = writer.point(self);
        let end = writer.next;
        match &writer.rear {
            Rear::Active(active) => Ok(Some(Pending {
                file: Arc::clone(&active.file),
                end,
                point,
            })),
            Rear::Closed(_) | Rear::Resting { .. } => {
                if matches!(writer.health, Health::Sound) {
                    self.made_durable(end);
                }
                Ok(None)
            }
        }
    }

    fn finish_sync(&self, pending: &Pending) {
        let mut writer = self.writer.lock();
        if matches!(writer.health, Health::Poisoned(_)) {
            return; // another sync of the same file failed meanwhile: this one proves nothing
        }
        self.made_durable(pending.end);
        let Some(point) = &pending.point else { return };
        let here = writer
            .active()
            .is_some_and(|active| active.segment.base() == point.base);
        if here {
            writer.synced = writer.synced.max(point.position);
            let all = writer.unsynced() == 0;
            if point.position > writer.pointed
                && (all || point.position - writer.pointed >= POINT_EVERY)
            {
                writer.pointed = point.position;
                self.home.evidence.record_point(point);
            }
        }
    }

    /// Everything below `end` is synced. Visible first where that is the level, so that who is told finds its own records.
    pub(crate) fn made_durable(&self, end: u64) {
        if self.settings().durability == Durability::Power {
            self.progress.publish(end);
        }
        self.progress.set_durable(end);
    }

    /// Fail-stop: nothing more is acknowledged here.
    fn sync_failed(&self, source: std::io::Error) -> Error {
        let mut writer = self.writer.lock();
        let path = writer.active().map_or(self.place.dir.clone(), |active| {
            active.segment.path().to_path_buf()
        });
        let cause = Arc::new(Error::Io {
            call: "sync",
            file: path.into(),
            source,
            unread: None,
        });
        writer.health = Health::Poisoned(Arc::clone(&cause));
        drop(writer);
        self.progress.wake_all();
        Error::poisoned(Some(&self.place.at), cause)
    }

    /// Waits for the level of an append that was written: whatever stops it, the record may be there after recovery.
    pub(crate) fn acknowledge(&self, end: u64) -> Result<()> {
        self.wait_durable(end)
            .map_err(|e| Error::indeterminate(Some(&self.place.at), e))
    }

    /// Waits until few enough bytes are un-synced, after a write that made them too many.
    pub(crate) fn keep_below(&self, limit: u64) -> Result<()> {
        self.wait_below(limit)
            .map_err(|e| Error::indeterminate(Some(&self.place.at), e))
    }

    /// Everything written so far.
    pub(crate) fn sync_all(&self) -> Result<()> {
        let mut writer = self.writer.lock();
        match &writer.health {
            Health::Damaged(_) => return Ok(()), // nothing was written to it
            Health::Poisoned(cause) => {
                return Err(Error::poisoned(Some(&self.place.at), Arc::clone(cause)));
            }
            Health::Sound => self.finish_work(&mut writer)?,
        }
        let end = writer.next;
        drop(writer);
        self.wait_durable(end)
    }

    /// As [`Inner::sync_all`], as far as the sync itself; `None` if there is nothing to be synced.
    fn begin_sync_all(&self) -> Result<Option<Pending>> {
        let mut writer = self.writer.lock();
        match &writer.health {
            Health::Damaged(_) => return Ok(None),
            Health::Poisoned(_) => {}
            Health::Sound => self.finish_work(&mut writer)?,
        }
        let dirty = writer.unsynced() > 0 || self.progress.durable() < writer.next;
        drop(writer);
        if dirty { self.begin_sync() } else { Ok(None) }
    }

    /// Hands a sync to the maintenance thread.
    pub(crate) fn ask(&self, within: Option<std::time::Duration>) -> bool {
        let Some(inner) = self.this.upgrade() else {
            return false;
        };
        let partition = Partition { inner };
        self.home.hand_over(match within {
            Some(within) => Job::SyncWithin(partition, within),
            None => Job::SyncNow(partition),
        })
    }
}

impl Partition {
    /// One pass: everything that was appended to any of these is durable when this returns. The first error is returned, after
    /// all of them were tried.
    pub(crate) fn sync_many(partitions: &[Partition]) -> Result<()> {
        let mut result = Ok(());
        let mut begun = Vec::new();
        for Partition { inner } in partitions {
            match inner.begin_sync_all() {
                Ok(Some(pending)) => begun.push((inner, pending)),
                Ok(None) => {}
                Err(e) => result = result.and(Err(e)),
            }
        }
        let Some((first, _)) = begun.first() else {
            return result;
        };
        first.home.evidence.held()?;
        let files: Vec<_> = begun
            .iter()
            .map(|(_, pending)| Arc::clone(&pending.file))
            .collect();
        let synced = first.home.ground.storage.sync_many(&files);
        for ((inner, pending), synced) in begun.iter().zip(synced) {
            match synced {
                Ok(()) => inner.finish_sync(pending),
                Err(source) => result = result.and(Err(inner.sync_failed(source))),
            }
        }
        result
    }
}
