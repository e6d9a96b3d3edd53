//! One ordered sequence of records: appended by one writer at a time, read by anybody, without a lock between them.
//!
//! * [`writer`], [`roll`] and [`sync`] are the way in; [`reader`] and [`entries`] the way out; [`progress`] joins them.
//! * [`examine`], [`classify`], [`torn`] and [`damage`] say what is on disk at opening, [`recovery`] does what has to be done about it, and
//!   [`quarantine`] keeps what it cuts off.
//! * [`home`] is what the partitions of a log share, [`segments`] the list of files, [`manifest`] what was removed from it.

mod classify;
mod damage;
pub(crate) mod entries;
mod examine;
pub(crate) mod home;
mod manifest;
pub(crate) mod place;
pub(crate) mod progress;
mod quarantine;
pub(crate) mod reader;
mod recovery;
pub(crate) mod report;
mod roll;
mod segments;
pub(crate) mod settings;
mod sync;
mod torn;
mod writer;

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};

use crate::error::{Error, Result};
use crate::format::encoder::Encoder;
use crate::io::read_full;
use crate::offset::{Offset, PartitionId, Position, TopicPartition};
use crate::record::Record;
use crate::segment::active::ActiveSegment;
use crate::segment::tail::Tail;
#[cfg(test)]
mod tests;

use examine::Found;
use home::{Home, Owner};
use place::Place;
use progress::Progress;
use report::RecoveryReport;
use segments::Segments;
use settings::Settings;
use writer::{After, Desk, Health, Writer};

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
    writer: Mutex<Writer>,
    gate: sync::Gate,
    /// Some reader has come to the end, and there was no ring of newest bytes.
    tail_wanted: AtomicBool,
}

/// Bytes of key and value up to which a record is small: the desk of an idle partition keeps little more than that.
const SMALL_BYTES: usize = 1024;

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

    fn change_segments(&self, change: impl FnOnce(&mut Segments)) {
        let mut segments = self.segments.write();
        change(Arc::make_mut(&mut segments));
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
        let tail = Tail::new(&self.home.tails, TAIL_BYTES, stream + from)?;
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
        let found = examine::examine(&place, &home, &settings, None, report)?;
        // Below `Power` everything found is visible; at `Power` what is durable, until recovery has made the rest so.
        let end = if settings.below_power() || found.work.is_none() || home.read_only {
            found.next
        } else {
            found.durable
        };
        let used = place.used;
        let settings = Arc::new(settings);
        let inner = Arc::new_cyclic(|this| Inner {
            this: Weak::clone(this),
            progress: Progress::new(end, found.durable),
            segments: RwLock::new(Arc::new(found.segments.clone())),
            writer: Mutex::new(Writer::of(found, used, Arc::clone(&settings))),
            place,
            home,
            owner,
            tail_wanted: AtomicBool::new(false),
            settings: RwLock::new(settings),
            gate: sync::Gate::default(),
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
        let mut writer = self.inner.writer.lock();
        match &writer.health {
            Health::Sound => {}
            Health::Poisoned(cause) => {
                let at = Some(&self.inner.place.at);
                return Err(Error::poisoned(at, Arc::clone(cause))); // not everything is synced, and never will be
            }
            Health::Damaged(_) => return Ok(false), // nothing was written to it
        }
        if !writer.used {
            return Ok(true);
        }
        self.inner.finish_work(&mut writer)?;
        drop(writer);
        self.inner.sync_all()?;
        let mut writer = self.inner.writer.lock();
        if let Some(active) = writer.active() {
            active
                .segment
                .save_index(&self.inner.home.ground, active.len);
        }
        // A clean close says that everything ends at its newest point: not where that point found no room.
        let pointed = self.inner.keep_point(&mut writer);
        Ok(pointed && matches!(writer.health, Health::Sound))
    }

    pub(crate) fn progress(&self) -> &Progress {
        &self.inner.progress
    }

    /// Its number within the topic.
    pub fn id(&self) -> PartitionId {
        self.inner.place.at.partition()
    }

    /// Its topic and number.
    pub fn topic_partition(&self) -> TopicPartition {
        self.inner.place.at.clone()
    }

    /// Appends one record and tells where it is. What `Ok` means is set by the topic's [`Durability`](settings::Durability).
    ///
    /// # Errors
    ///
    /// [`Error::RecordTooLarge`], [`Error::KeyRequired`], [`Error::InvalidTimestamp`] for the record; [`Error::NoSpace`],
    /// [`Error::Io`], [`Error::Poisoned`], [`Error::Corruption`] for the disk: nothing was done. After
    /// [`Error::Indeterminate`] the record may or may not be there when the log is opened again.
    pub fn append<'a>(&self, record: impl Into<Record<'a>>) -> Result<Position> {
        let record = record.into();
        let offsets = match self.append_small(&record)? {
            Some(offsets) => offsets,
            None => self.append_records(None, |encoder, settings| {
                self.push(encoder, settings, &record)
            })?,
        };
        Ok(self.inner.place.at.at(offsets.start))
    }

    /// Encodes it under the lock, at the writer's own desk: it is soon done, and nothing that is shared with others is touched.
    /// `None`: it is not small.
    fn append_small(&self, record: &Record<'_>) -> Result<Option<Range<Offset>>> {
        let len = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len);
        if len(record.key()) + len(record.value()) > SMALL_BYTES || !record.headers().is_empty() {
            return Ok(None);
        }
        let mut writer = self.inner.writer.lock();
        self.inner.make_ready(&mut writer)?;
        let Some(mut desk) = writer.desk.take() else {
            return Ok(None);
        };
        desk.encoder.start();
        let written = self.write_small(&mut writer, &mut desk, record);
        writer.desk = Some(desk);
        drop(writer); // the next one may write while this one waits for its level
        self.acknowledged(written?).map(Some)
    }

    fn write_small(
        &self,
        writer: &mut Writer,
        Desk { encoder, settings }: &mut Desk,
        record: &Record<'_>,
    ) -> Result<(Range<Offset>, After)> {
        self.push(encoder, settings, record)?;
        finish(encoder, settings)?;
        let (first, after) = self.inner.append_here(writer, encoder, settings)?;
        Ok((Offset::new(first)..Offset::new(first + 1), after))
    }

    /// Appends records as one atomic batch: after any crash all of them are there, or none. No records: an empty range at the
    /// end, and nothing is written.
    ///
    /// # Errors
    ///
    /// As [`append`](Partition::append); `RecordTooLarge` too if the batch is larger than the topic's `max_batch_bytes`.
    pub fn append_all<'a, R: Into<Record<'a>>>(
        &self,
        records: impl IntoIterator<Item = R>,
    ) -> Result<Range<Offset>> {
        self.append_records(None, |encoder, settings| {
            self.push_all(encoder, settings, records)
        })
    }

    /// As [`append_all`](Partition::append_all), if the partition still ends at `end`.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`], with the actual end, if it does not: nothing was done. The answer is given only when what it rests
    /// on is durable at the topic's level.
    pub fn append_at<'a, R: Into<Record<'a>>>(
        &self,
        end: Offset,
        records: impl IntoIterator<Item = R>,
    ) -> Result<Range<Offset>> {
        self.append_records(Some(end), |encoder, settings| {
            self.push_all(encoder, settings, records)
        })
    }

    fn push_all<'a, R: Into<Record<'a>>>(
        &self,
        encoder: &mut Encoder,
        settings: &Settings,
        records: impl IntoIterator<Item = R>,
    ) -> Result<()> {
        for record in records {
            self.push(encoder, settings, &record.into())?;
        }
        Ok(())
    }

    #[expect(
        clippy::inline_always,
        reason = "measured: a batch of small records is a tenth faster, and it is not done by itself"
    )]
    #[inline(always)]
    fn push(&self, encoder: &mut Encoder, settings: &Settings, record: &Record<'_>) -> Result<()> {
        settings.check_record(record, self.inner.place.at.topic())?;
        encoder.push(record);
        if encoder.is_surely_within(settings.max_batch_bytes) {
            return Ok(());
        }
        settings.check_batch(encoder.body_len() as u64)
    }

    /// The whole way in: encode outside the lock, append under it, wait for the level outside it again.
    fn append_records(
        &self,
        expected: Option<Offset>,
        fill: impl FnOnce(&mut Encoder, &Settings) -> Result<()>,
    ) -> Result<Range<Offset>> {
        let inner = &*self.inner;
        inner.home.check_open()?;
        let settings = inner.settings();
        let mut encoder = inner.home.encoder();
        let written = self.write_batch(&mut encoder, &settings, expected, fill);
        inner.home.give_back(encoder);
        self.acknowledged(written?)
    }

    /// Encodes and writes: the offsets, and what is still to be done for the level.
    fn write_batch(
        &self,
        encoder: &mut Encoder,
        settings: &Settings,
        expected: Option<Offset>,
        fill: impl FnOnce(&mut Encoder, &Settings) -> Result<()>,
    ) -> Result<(Range<Offset>, After)> {
        fill(encoder, settings)?;
        let records = u64::from(encoder.count());
        if records == 0 {
            return Ok((self.append_nothing(expected)?, After::Nothing));
        }
        finish(encoder, settings)?;
        let (first, after) = self
            .inner
            .append(encoder, settings, expected.map(Offset::get))?;
        let offsets = Offset::new(first)..Offset::new(first + records);
        Ok((offsets, after))
    }

    /// Waits for the level of what was written.
    fn acknowledged(&self, (offsets, after): (Range<Offset>, After)) -> Result<Range<Offset>> {
        match after {
            After::Nothing => {}
            After::Wait(end) => self.inner.acknowledge(end)?,
            After::Bound(limit) => self.inner.keep_below(limit)?,
        }
        Ok(offsets)
    }

    fn append_nothing(&self, expected: Option<Offset>) -> Result<Range<Offset>> {
        let end = Offset::new(self.inner.writer.lock().next);
        match expected {
            Some(expected) if expected != end => {
                Err(Error::conflict(&self.inner.place.at, expected, end))
            }
            _ => Ok(end..end),
        }
    }

    /// First readable offset .. offset of the next record. Every offset below the end is visible.
    pub fn offsets(&self) -> Range<Offset> {
        let end = self.inner.progress.end();
        Offset::new(self.inner.segments().log_start).min(end)..end
    }

    /// Ends the present segment and begins the next one, so that the present one can be removed or compacted. Nothing is done
    /// if it is empty.
    ///
    /// # Errors
    ///
    /// As [`append`](Partition::append).
    pub fn roll(&self) -> Result<()> {
        let inner = &*self.inner;
        let mut writer = inner.writer.lock();
        inner.make_ready(&mut writer)?;
        if writer.active().is_none_or(ActiveSegment::is_empty) {
            return Ok(());
        }
        inner.home.evidence.held()?;
        let next = writer.next;
        inner.seal_active(&mut writer, next)?;
        inner.begin_segment(&mut writer, &inner.settings())
    }

    /// Runs recovery for this partition alone, after [`Error::Poisoned`]; the rest of the log goes on. The report says what
    /// was cut; it is empty if nothing had to be.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] or [`Error::NoSpace`] if it cannot be done now: the partition stays as it is.
    pub fn recover(&self) -> Result<RecoveryReport> {
        let inner = &*self.inner;
        inner.home.check_open()?;
        inner.home.evidence.held()?;
        let mut report = RecoveryReport::default();
        let mut writer = inner.writer.lock();
        if matches!(writer.health, Health::Sound) && writer.work.is_none() {
            return Ok(report);
        }
        let place = Place {
            used: writer.used,
            ..inner.place.clone()
        };
        let (home, settings) = (&inner.home, inner.settings());
        let synced = Some(inner.progress.durable());
        let mut found = examine::examine(&place, home, &settings, synced, &mut report)?;
        found.spare_below(inner.progress.end().get(), &place, &mut report);
        inner.gate.forget_failure();
        let end = found.next;
        inner.change_segments(|segments| *segments = found.segments.clone());
        *writer = Writer::of(found, place.used, settings);
        if matches!(writer.health, Health::Sound) {
            inner.finish_work(&mut writer)?;
            inner.progress.publish(end);
        }
        Ok(report)
    }
}

fn finish(encoder: &mut Encoder, settings: &Settings) -> Result<()> {
    let finished = encoder.finish(settings.compression.codec());
    finished.map_err(|large| Error::RecordTooLarge {
        size: large.bytes,
        limit: large.limit,
        setting: "max_batch_bytes",
    })
}

impl Writer {
    fn of(found: Found, used: bool, settings: Arc<Settings>) -> Writer {
        Writer {
            rear: found.rear,
            next: found.next,
            last_append: found.last_append,
            health: found.health,
            work: found.work,
            manifest: found.manifest,
            used,
            tail: None,
            synced: 0,
            pointed: 0,
            checked: 0,
            sync_asked: false,
            desk: Some(Box::new(Desk {
                encoder: Encoder::default(),
                settings,
            })),
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
