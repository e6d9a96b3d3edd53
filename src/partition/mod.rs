//! One ordered sequence of records: appended by one writer at a time, read by anybody, without a lock between them.
//!
//! * [`append`], [`writer`], [`roll`] and [`sync`] are the way in; [`reader`] and [`entries`] the way out; [`progress`] joins them.
//! * [`examine`], [`classify`], [`torn`] and [`damage`] say what is on disk at opening, [`recovery`] does what has to be done about it, and
//!   [`quarantine`] keeps what it cuts off.
//! * [`retention`] lets go of the oldest segments, as [`policy`] has it; [`compaction`] keeps the latest record of each key, which it
//!   knows by [`newest`]; [`pass`] puts one segment in the place of several.
//! * [`home`] is what the partitions of a log share, [`agenda`] what is done beside appends and reads, [`segments`] the list of
//!   files, [`manifest`] what was removed from it.
//! * [`alter`] gives it other settings; [`retire`] is the end, when the topic is deleted.

pub(crate) mod agenda;
pub(crate) mod ages;
mod alter;
mod append;
mod classify;
pub(crate) mod compaction;
mod damage;
pub(crate) mod entries;
mod examine;
pub(crate) mod home;
mod manifest;
mod newest;
pub(crate) mod pass;
pub(crate) mod place;
pub(crate) mod policy;
pub(crate) mod progress;
mod quarantine;
pub(crate) mod reader;
mod recovery;
pub(crate) mod report;
pub(crate) mod retention;
pub(crate) mod retire;
mod roll;
mod segments;
pub(crate) mod settings;
mod sync;
mod torn;
mod writer;

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};

use crate::error::{Error, Result};
use crate::format::encoder::Encoder;
use crate::io::read_full;
use crate::offset::{Offset, PartitionId, TopicPartition};
use crate::segment::active::ActiveSegment;
use crate::segment::tail::Tail;
#[cfg(test)]
mod tests;

use ages::Young;
use examine::Found;
use home::{Home, Owner};
use manifest::Stored;
use place::Place;
use progress::Progress;
use report::RecoveryReport;
use segments::Segments;
use settings::Settings;
use writer::{Health, Office, Writer};

/// One ordered sequence of records. A cheap clone, `Send + Sync`; it keeps its log open.
///
/// Offsets begin at 0 and ascend; they may have gaps. Any number of threads may append and read.
///
/// # Examples
///
/// ```
/// # fn main() -> thalweg::Result<()> {
/// let log = thalweg::Log::in_memory();
/// let orders = log.create_topic("orders", thalweg::TopicConfig::new().partitions(1))?;
/// let partition = orders.partition(0)?;
/// partition.append(("customer-7", "2 x espresso"))?;
/// for entry in partition.entries(..) {
///     assert_eq!(entry?.value_str()?, "2 x espresso");
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Partition {
    pub(crate) inner: Arc<Inner>,
    /// Keeps the log open, in a handle that a user holds.
    _open: Option<Arc<dyn Any + Send + Sync>>,
}

pub(crate) struct Inner {
    this: Weak<Inner>,
    pub(crate) place: Place,
    pub(crate) home: Arc<Home>,
    owner: Arc<dyn Owner>,
    settings: RwLock<Arc<Settings>>,
    segments: RwLock<Arc<Segments>>,
    pub(crate) progress: Progress,
    /// Held for a whole pass over the sealed segments, before any other lock: nothing else removes or replaces them meanwhile.
    pass: Mutex<()>,
    /// How many wait for that.
    pass_wanted: AtomicUsize,
    writer: Mutex<Office>,
    /// Locked after the writer, if both are.
    manifest: Mutex<Stored>,
    /// Of the manifest that is known to be durable, 0 if there is none.
    manifest_generation: AtomicU64,
    gate: sync::Gate,
    /// As the writer's, to be looked at without its lock.
    life: AtomicU64,
    /// Some reader has come to the end, and there was no ring of newest bytes.
    tail_wanted: AtomicBool,
    /// Its topic is being deleted: set, and taken back, under the writer's lock.
    gone: AtomicBool,
    /// Its topic is deleted.
    deleted: AtomicBool,
}

/// Bytes of a partition's ring of newest bytes.
const TAIL_BYTES: usize = 256 << 10;

impl Inner {
    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read())
    }

    /// The segments as they are now. Take the visible end first: what it covers is in the snapshot then.
    pub(crate) fn segments(&self) -> Arc<Segments> {
        Arc::clone(&self.segments.read())
    }

    fn change_manifest(&self, stored: Stored) {
        self.manifest_generation
            .store(stored.generation, Ordering::Release);
        *self.manifest.lock() = stored;
    }

    fn change_segments(&self, change: impl FnOnce(&mut Segments)) {
        let mut segments = self.segments.write();
        change(Arc::make_mut(&mut segments));
    }

    /// Puts what was just written among the newest bytes, as long as somebody reads there.
    #[inline(never)]
    fn keep_newest(
        &self,
        tail: &mut Option<Arc<Tail>>,
        active: &ActiveSegment,
        written: &mut Encoder,
    ) {
        if tail.as_ref().is_none_or(|tail| !tail.is_read()) {
            self.change_tail(tail, active);
        }
        if let Some(tail) = tail {
            let at = active.segment.stream_start.unwrap_or(0) + active.len;
            tail.add(at, written);
        }
    }

    /// Gives up the ring that nobody reads, or begins one with what stands at the end; in the list of segments too.
    #[cold]
    fn change_tail(&self, tail: &mut Option<Arc<Tail>>, active: &ActiveSegment) {
        self.tail_wanted.store(false, Ordering::Relaxed);
        *tail = match tail.take() {
            Some(_) => None,
            None => self.new_tail(active).map(Arc::new),
        };
        self.change_segments(|segments| segments.tail.clone_from(tail));
    }

    fn new_tail(&self, active: &ActiveSegment) -> Option<Tail> {
        let from = active.len.saturating_sub(TAIL_BYTES as u64);
        let stream = active.segment.stream_start.unwrap_or(0);
        let own = stream + active.len;
        let tail = Tail::new(&self.home.tails, TAIL_BYTES, stream + from, own)?;
        let mut bytes = vec![0; (active.len - from) as usize];
        match read_full(&*active.file, &mut bytes, from) {
            Ok(read) if read == bytes.len() => tail.push(stream + from, &bytes),
            _ => {} // then it begins with what comes next
        }
        Some(tail)
    }
}

impl Partition {
    /// Opens a partition: reads, and changes nothing. Damage is a finding, and the partition then refuses appends.
    pub(crate) fn open(
        place: Place,
        home: Arc<Home>,
        owner: Arc<dyn Owner>,
        settings: Settings,
        report: &mut RecoveryReport,
    ) -> Result<Partition> {
        let mut found = examine::examine(&place, &home, &settings, None, report)?;
        // Below `Power` everything found is visible; at `Power` what is durable, until recovery has made the rest so.
        let end = if settings.below_power() || found.work.is_none() || home.read_only {
            found.next
        } else {
            found.durable
        };
        let manifest = std::mem::take(&mut found.manifest);
        let used = place.used;
        let settings = Arc::new(settings);
        let inner = Arc::new_cyclic(|this| Inner {
            this: Weak::clone(this),
            progress: Progress::new(end, found.durable),
            segments: RwLock::new(Arc::new(found.segments.clone())),
            pass: Mutex::default(),
            pass_wanted: AtomicUsize::new(0),
            manifest_generation: AtomicU64::new(manifest.generation),
            manifest: Mutex::new(manifest),
            writer: Mutex::new(Office {
                writer: Writer::of(found, used),
                encoder: Encoder::default(),
                settings: Arc::clone(&settings),
            }),
            place,
            home,
            owner,
            tail_wanted: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            deleted: AtomicBool::new(false),
            settings: RwLock::new(settings),
            gate: sync::Gate::default(),
            life: AtomicU64::new(0),
        });
        Ok(Partition { inner, _open: None })
    }

    /// The same partition, as a handle that keeps `open` with it.
    pub(crate) fn keeping(&self, open: Arc<dyn Any + Send + Sync>) -> Partition {
        Partition {
            inner: Arc::clone(&self.inner),
            _open: Some(open),
        }
    }

    /// Does what opening left to do: steps 9 to 14. A damaged partition stays as it is.
    pub(crate) fn finish_recovery(&self) -> Result<()> {
        let _woken = self.inner.progress.waking();
        let mut writer = self.inner.writer.lock();
        if matches!(writer.health, Health::Sound) {
            self.inner.finish_work(&mut writer)
        } else {
            Ok(())
        }
    }

    /// Everything appended so far survives a power loss when this returns.
    pub(crate) fn sync(&self) -> Result<()> {
        self.inner.sync_all()
    }

    /// Syncs and leaves a recovery point. `true`: nothing speaks against marking the log as closed in order.
    pub(crate) fn close(&self) -> Result<bool> {
        let inner = &*self.inner;
        loop {
            if let Some(clean) = self.closed_as_it_is()? {
                return Ok(clean);
            }
            inner.sync_all()?; // before the pass: it wakes readers, whose code may want one
            let _woken = inner.progress.waking();
            let _alone = inner.lock_pass();
            let mut writer = inner.writer.lock();
            if writer.unsynced() > 0 {
                continue; // of an append that was under way
            }
            if let Some(active) = writer.active() {
                active.segment.save_index(&inner.home.ground, active.len);
            }
            // A clean close says that everything ends at its newest point: not where that point found no room.
            let pointed = inner.keep_point(&mut writer);
            // Nor where it is not known whether the topic is deleted. (If it were, this would not be asked.)
            return Ok(pointed && matches!(writer.health, Health::Sound) && !self.is_gone());
        }
    }

    /// Is there nothing to be done to close it? Then whether nothing speaks against marking the log as closed in order.
    fn closed_as_it_is(&self) -> Result<Option<bool>> {
        let _woken = self.inner.progress.waking();
        let mut writer = self.inner.writer.lock();
        match &writer.health {
            Health::Sound => {}
            Health::Poisoned(cause) => {
                let at = Some(&self.inner.place.at);
                return Err(Error::poisoned(at, Arc::clone(cause))); // not everything is synced, and never will be
            }
            Health::Damaged(_) => return Ok(Some(false)), // nothing was written to it
        }
        if !writer.used {
            return Ok(Some(true));
        }
        self.inner.finish_work(&mut writer)?;
        Ok(None)
    }

    pub(crate) fn progress(&self) -> &Progress {
        &self.inner.progress
    }

    /// As the ledger names it: UUID of the topic, number.
    pub(crate) fn key(&self) -> (u128, u32) {
        (self.inner.place.topic, self.id().get())
    }

    /// Its number within the topic.
    pub fn id(&self) -> PartitionId {
        self.inner.place.at.partition()
    }

    /// Its topic and number.
    pub fn topic_partition(&self) -> TopicPartition {
        self.inner.place.at.clone()
    }

    /// From the log start to the offset of the next record. Every record in between is visible; not every offset has one.
    pub fn offsets(&self) -> Range<Offset> {
        let end = self.inner.progress.end();
        Offset::new(self.inner.segments().log_start).min(end)..end
    }

    /// How many offsets are to be read from `next` on: up to the end, less the gaps that recovery has left. (One that cannot be
    /// read about counts.)
    pub(crate) fn lag_from(&self, next: Offset) -> u64 {
        let inner = &*self.inner;
        let segments = inner.segments();
        let (next, end) = (
            next.get().max(segments.log_start),
            inner.progress.end().get(),
        );
        let gap = |from: u64, to: u64| to.min(end).saturating_sub(from.max(next));
        let behind = segments
            .slots
            .iter()
            .rev()
            .take_while(|slot| slot.base > next);
        let recorded = behind.map(|slot| {
            let expected = slot.expected(&inner.home.ground, &inner.place, inner.home.log);
            expected.map_or(0, |expected| gap(expected, slot.base))
        });
        let at_the_end = segments.gap_from.map_or(0, |from| gap(from, end));
        end.saturating_sub(next)
            .saturating_sub(recorded.sum::<u64>() + at_the_end)
    }

    /// Ends the present segment and begins the next one, so that the present one can be removed or compacted. Nothing is done
    /// if it is empty, or was never written.
    ///
    /// # Errors
    ///
    /// As [`append`](Partition::append).
    pub fn roll(&self) -> Result<()> {
        self.inner.roll_now()
    }

    /// Bytes of the last segment.
    pub(crate) fn last_segment_len(&self) -> u64 {
        let last = self.inner.writer.lock().last();
        last.map_or(0, |last| last.len)
    }

    /// Runs recovery for this partition alone, after [`Error::Poisoned`]; the rest of the log goes on. The report says what
    /// was cut, or that the partition is damaged and refuses appends; it is empty if nothing had to be done. Records whose append
    /// was [`Error::Indeterminate`] are there afterwards, and seen, or not there.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] or [`Error::NoSpace`] if it cannot be done now: what is left is tried again before the next append;
    /// [`Error::Poisoned`] if the directory was taken from this log.
    pub fn recover(&self) -> Result<RecoveryReport> {
        let inner = &*self.inner;
        let mut report = RecoveryReport::default();
        let _woken = inner.progress.waking();
        let _alone = inner.lock_pass();
        let mut writer = inner.writer.lock();
        inner.check_there()?; // under the lock: who closes the log, or deletes the topic, takes it too
        inner.home.evidence.held()?;
        if matches!(writer.health, Health::Sound) && writer.work.is_none() {
            return Ok(report);
        }
        let _ = inner.gate.settled(); // its answer comes too late to count: see `Mark`
        let (life, before) = inner.end_life(&mut writer);
        let place = Place {
            used: writer.used,
            ..inner.place.clone()
        };
        let (home, settings) = (&inner.home, inner.settings());
        let again = examine::Again {
            synced: inner.progress.durable(),
            stream: writer.stream_of_life(),
        };
        let mut found = examine::examine(&place, home, &settings, Some(again), &mut report)?;
        found.spare_below(inner.progress.end().get(), &place, &mut report);
        inner.gate.forget_failure();
        let end = found.next;
        inner.change_manifest(std::mem::take(&mut found.manifest));
        inner.change_segments(|segments| {
            let changes = segments.changes + 1;
            *segments = found.segments.clone();
            segments.changes = changes;
        });
        **writer = Writer {
            life,
            before,
            ..Writer::of(found, place.used)
        };
        if matches!(writer.health, Health::Sound) {
            inner.finish_work(&mut writer)?;
            inner.progress.publish(end);
        }
        Ok(report)
    }
}

impl Writer {
    fn of(found: Found, used: bool) -> Writer {
        Writer {
            rear: found.rear,
            next: found.next,
            last_append: found.last_append,
            health: found.health,
            work: found.work,
            used,
            tail: None,
            synced: 0,
            pointed: 0,
            checked: 0,
            sync_asked: false,
            young: Young::default(),
            life: 0,
            before: None,
        }
    }
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partition")
            .field("at", &self.inner.place.at)
            .field("offsets", &self.offsets())
            .finish_non_exhaustive()
    }
}
