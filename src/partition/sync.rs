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

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread;

use parking_lot::{Condvar, Mutex};

use super::agenda::Chore;
use super::settings::Durability;
use super::writer::{Health, Mark, POINT_EVERY, Rear, Writer};
use super::{Inner, Partition};
use crate::error::{Error, Result};
use crate::format::state::Point;
use crate::io::File;
use crate::segment::Segment;

/// A sync lets others run before it begins, until nobody came in so many times for each of those who are expected.
const GATHER_PATIENCE: usize = 32;

/// Who syncs, and who waits for it.
#[derive(Default)]
pub(crate) struct Gate {
    /// With a condition variable of the standard library, which wakes all sleepers in one call: woken one by the other, the last
    /// of them would come too late for the sync that begins.
    syncing: std::sync::Mutex<bool>,
    turn: std::sync::Condvar,
    /// How many came to see whether they have to wait, ever, and how many of them are here.
    came: AtomicUsize,
    inside: AtomicUsize,
    /// How many will have come when those are back whom the last sync sent away: who writes again and again is soon here again.
    expected: AtomicUsize,
    call: Mutex<Call>,
    returned: Condvar,
}

/// The call of the one whose turn it is, made without the writer's lock. Who syncs the same file under that lock, to seal it,
/// waits for it first: the kernel reports a failure to one of them only, and the success of the other proves nothing.
#[derive(Default)]
struct Call {
    running: bool,
    failed: Option<Arc<Error>>,
}

impl Gate {
    /// The turn to sync. `None`: somebody else has synced meanwhile, or it is `done` as it is.
    fn turn_unless(&self, done: impl Fn() -> bool) -> Option<Turn<'_>> {
        let mut syncing = self.lock_syncing();
        if *syncing {
            drop(self.turn.wait(syncing));
            return None;
        }
        if done() {
            return None;
        }
        *syncing = true;
        Some(Turn(self))
    }

    fn lock_syncing(&self) -> MutexGuard<'_, bool> {
        self.syncing.lock().unwrap_or_else(PoisonError::into_inner) // nothing is half done where it is held
    }

    /// Somebody comes to see whether to wait, and stays until this is dropped.
    fn enter(&self) -> Inside<'_> {
        self.came.fetch_add(1, Ordering::Relaxed); // only how many matters, here and below
        self.inside.fetch_add(1, Ordering::Relaxed);
        Inside(self)
    }

    /// Lets those who are about to write join the sync that begins: it takes as long for all as for one. Tells how many it takes.
    fn gather(&self) -> usize {
        let expected = self.expected.load(Ordering::Relaxed);
        let (mut came, mut in_vain) = (self.came.load(Ordering::Relaxed), 0);
        while in_vain < GATHER_PATIENCE * missing(expected, came) {
            thread::yield_now();
            let now = self.came.load(Ordering::Relaxed);
            in_vain = if now == came { in_vain + 1 } else { 0 };
            came = now;
        }
        self.inside.load(Ordering::Relaxed)
    }

    /// A sync that took so many has ended.
    fn send_away(&self, group: usize) {
        let came = self.came.load(Ordering::Relaxed);
        self.expected
            .store(came.wrapping_add(group), Ordering::Relaxed);
    }

    /// Now, or not at all.
    fn try_turn(&self) -> Option<Turn<'_>> {
        let mut syncing = self.lock_syncing();
        let free = !std::mem::replace(&mut *syncing, true);
        free.then(|| Turn(self))
    }

    /// Waits for the call that is running; the error, if one has failed. The writer's lock may be held.
    pub(crate) fn settled(&self) -> std::result::Result<(), Arc<Error>> {
        let mut call = self.call.lock();
        while call.running {
            self.returned.wait(&mut call);
        }
        call.failed.clone().map_or(Ok(()), Err)
    }

    fn call_returned(&self, failed: Option<Arc<Error>>) {
        let mut call = self.call.lock();
        call.running = false;
        call.failed = failed.or(call.failed.take());
        self.returned.notify_all();
    }

    /// Recovery has seen to what a failed call may have left.
    pub(crate) fn forget_failure(&self) {
        self.call.lock().failed = None;
    }
}

/// How many are still to come. (Both numbers go round.)
fn missing(expected: usize, came: usize) -> usize {
    let missing = expected.wrapping_sub(came).cast_signed();
    missing.max(0).cast_unsigned()
}

/// One of those who wait.
struct Inside<'g>(&'g Gate);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Clears the flags whatever happens, or the others would sleep for ever.
struct Turn<'g>(&'g Gate);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.call_returned(None);
        *self.0.lock_syncing() = false;
        self.0.turn.notify_all();
    }
}

/// What a sync makes durable: the end as it was when the sync began.
struct Pending {
    file: Arc<dyn File>,
    segment: Arc<Segment>,
    mark: Mark,
    point: Option<Point>,
}

impl Inner {
    /// Returns when every record below the mark is synced.
    ///
    /// # Errors
    ///
    /// `Poisoned` too if recovery was run meanwhile: what stands there now may be something else.
    pub(crate) fn wait_durable(&self, mark: Mark) -> Result<()> {
        let _inside = self.gate.enter();
        loop {
            let durable = self.progress.durable() >= mark.end; // before the life: what it is now, it was then
            self.check_life(mark)?;
            if durable {
                return Ok(());
            }
            let done = || self.progress.durable() >= mark.end || !self.is_alive(mark);
            if let Some(turn) = self.gate.turn_unless(done) {
                let woken = self.progress.waking();
                let group = self.gate.gather();
                let synced = self.sync_once();
                self.gate.send_away(group);
                drop(turn);
                drop(woken); // who is woken may write here, and wait for its turn
                synced?;
            }
        }
    }

    /// Returns when less than `limit` is un-synced. A sync that is under way is enough, if it takes that much: what was
    /// written meanwhile is left to the next one, or the writer would stand still for two of them.
    fn wait_below(&self, limit: u64, mark: Mark) -> Result<()> {
        let below = || self.writer.lock().unsynced() < limit;
        loop {
            let enough = below();
            self.check_life(mark)?;
            if enough {
                return Ok(());
            }
            if let Some(turn) = self.gate.turn_unless(below) {
                let woken = self.progress.waking();
                let synced = self.sync_once();
                drop(turn);
                drop(woken);
                synced?;
            }
        }
    }

    fn is_alive(&self, mark: Mark) -> bool {
        self.life.load(Ordering::Acquire) == mark.life // pairs with `end_life`
    }

    fn check_life(&self, mark: Mark) -> Result<()> {
        if self.is_alive(mark) {
            return Ok(());
        }
        let before = self.writer.lock().before.clone();
        let at = Some(&self.place.at);
        Err(before.map_or(Error::Closed, |cause| Error::poisoned(at, cause)))
    }

    /// Recovery begins: nobody is told any more that what was written before is synced. The next life, and what ended this one.
    pub(crate) fn end_life(&self, writer: &mut Writer) -> (u64, Option<Arc<Error>>) {
        if let Health::Poisoned(cause) | Health::Damaged(cause) = &writer.health {
            writer.before = Some(Arc::clone(cause));
        }
        writer.life += 1;
        self.life.store(writer.life, Ordering::Release);
        (writer.life, writer.before.clone())
    }

    /// One sync of the active segment, for everything written before it began.
    fn sync_once(&self) -> Result<()> {
        let Some(pending) = self.begin_sync()? else {
            return Ok(());
        };
        self.home.evidence.held()?;
        self.home.ground.syncs.begin();
        let mut result = pending.file.sync_data();
        if result.is_err() && planted!(FAILED_SYNC_RETRIED) {
            result = pending.file.sync_data();
        }
        self.end_sync(&pending, result)
    }

    /// The call has returned: said before the writer's lock is asked for, since its holder may be waiting to hear it.
    fn end_sync(&self, pending: &Pending, result: std::io::Result<()>) -> Result<()> {
        let failed = result.err().map(|source| {
            let path = pending.segment.path();
            Arc::new(Error::failed_sync(path, source))
        });
        self.gate.call_returned(failed.clone());
        self.home.ground.syncs.end();
        if let Some(cause) = failed {
            let mut writer = self.writer.lock();
            if writer.life == pending.mark.life {
                return Err(self.stop(&mut writer, cause));
            }
            return Err(Error::poisoned(Some(&self.place.at), cause)); // recovery has seen to what it may have left
        }
        self.finish_sync(pending);
        Ok(())
    }

    fn begin_sync(&self) -> Result<Option<Pending>> {
        let mut writer = self.writer.lock();
        if self.is_deleted() {
            return Err(self.not_found());
        }
        match &writer.health {
            Health::Sound => {}
            Health::Poisoned(cause) => {
                return Err(Error::poisoned(Some(&self.place.at), Arc::clone(cause)));
            }
            Health::Damaged(why) => return Err(Error::again(&self.place.at, why)),
        }
        self.finish_work(&mut writer)?; // of a recovery that could not be finished: until then nothing here is synced
        writer.sync_asked = false;
        let point = writer.point(self);
        let mark = writer.mark();
        match &writer.rear {
            Rear::Active(active) => {
                self.gate.call.lock().running = true;
                Ok(Some(Pending {
                    file: Arc::clone(&active.file),
                    segment: Arc::clone(&active.segment),
                    mark,
                    point,
                }))
            }
            Rear::Closed(_) | Rear::Resting { .. } => {
                self.made_durable(mark.end);
                Ok(None)
            }
        }
    }

    fn finish_sync(&self, pending: &Pending) {
        let mut writer = self.writer.lock();
        if matches!(writer.health, Health::Poisoned(_)) || writer.life != pending.mark.life {
            return; // another sync of the same file failed meanwhile: this one proves nothing
        }
        self.made_durable(pending.mark.end);
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
    pub(crate) fn stop(&self, writer: &mut Writer, cause: Arc<Error>) -> Error {
        writer.health = Health::Poisoned(Arc::clone(&cause));
        self.home.evidence.doubt();
        self.progress.failed();
        Error::poisoned(Some(&self.place.at), cause)
    }

    /// Waits for the level of an append that was written: whatever stops it, the record may be there after recovery.
    pub(crate) fn acknowledge(&self, mark: Mark) -> Result<()> {
        self.wait_durable(mark)
            .map_err(|e| Error::indeterminate(Some(&self.place.at), e))
    }

    /// Waits until few enough bytes are un-synced, after a write that made them too many.
    pub(crate) fn keep_below(&self, limit: u64, mark: Mark) -> Result<()> {
        self.wait_below(limit, mark)
            .map_err(|e| Error::indeterminate(Some(&self.place.at), e))
    }

    /// Everything written so far.
    pub(crate) fn sync_all(&self) -> Result<()> {
        self.unless_deleted(self.sync_written())
    }

    /// What is deleted needs no sync, and one that failed is nobody's loss.
    fn unless_deleted(&self, synced: Result<()>) -> Result<()> {
        if self.is_deleted() { Ok(()) } else { synced }
    }

    fn sync_written(&self) -> Result<()> {
        let woken = self.progress.waking();
        let mut writer = self.writer.lock();
        match &writer.health {
            Health::Damaged(_) => return Ok(()), // nothing was written to it
            Health::Poisoned(cause) => {
                return Err(Error::poisoned(Some(&self.place.at), Arc::clone(cause)));
            }
            Health::Sound => self.finish_work(&mut writer)?,
        }
        let mark = writer.mark();
        drop((writer, woken));
        self.wait_durable(mark)
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

    /// Leaves a sync to others: to the thread, which does it soon, or after `within` to whoever then looks after what is due.
    pub(crate) fn ask(&self, within: Option<std::time::Duration>) -> bool {
        let chore: std::sync::Weak<dyn Chore> = self.this.clone();
        match within {
            Some(within) => self.home.agenda.ask(&chore, within),
            None => return self.home.agenda.ask_thread(&chore),
        }
        true
    }
}

/// A sync in the background. A failed one has poisoned the partition, which tells whoever writes next.
impl Chore for Inner {
    fn run(&self) -> Result<()> {
        self.sync_all().inspect_err(|_| {
            self.writer.lock().sync_asked = false; // it may be asked for again
        })
    }

    fn whose(&self) -> String {
        format!("the sync of {}", self.place.at)
    }
}

impl Partition {
    /// One pass: everything that was appended to any of these is durable when this returns. The first error is returned, after
    /// all of them were tried.
    pub(crate) fn sync_many(partitions: &[Partition]) -> Result<()> {
        let mut result = Ok(());
        // Dropped last: who is woken may write to any of them, and wait for a turn.
        let woken: Vec<_> = partitions
            .iter()
            .map(|of| of.inner.progress.waking())
            .collect();
        let (mut begun, mut busy) = (Vec::new(), Vec::new());
        for Partition { inner, .. } in partitions {
            let Some(turn) = inner.gate.try_turn() else {
                busy.push(inner);
                continue;
            };
            match inner.begin_sync_all() {
                Ok(Some(pending)) => begun.push((inner, turn, pending)),
                Ok(None) => {}
                Err(e) => result = result.and(inner.unless_deleted(Err(e))),
            }
        }
        if let Some((first, ..)) = begun.first() {
            first.home.evidence.held()?;
            let ground = &first.home.ground;
            let files: Vec<_> = begun
                .iter()
                .map(|(.., pending)| Arc::clone(&pending.file))
                .inspect(|_| ground.syncs.begin())
                .collect();
            let synced = ground.storage.sync_many(&files);
            for ((inner, turn, pending), synced) in begun.into_iter().zip(synced) {
                let synced = inner.end_sync(&pending, synced);
                result = result.and(inner.unless_deleted(synced));
                drop(turn);
            }
        }
        // Somebody else is syncing these, from an end that may be an earlier one.
        for inner in busy {
            result = result.and(inner.sync_all());
        }
        drop(woken);
        result
    }
}
