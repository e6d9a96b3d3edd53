//! Retention: whole segments go, the oldest first: by their age, by the size of the partition, or because somebody says so.
//!
//! The order, which the crash tests walk through:
//!
//! 1. what stands below the new log start is synced; where the last segment goes too, the next one is begun
//! 2. the manifest with the new log start, synced: the commit point
//! 3. readers get the new list; who has read a block goes on with that, and then learns where the log begins
//! 4. the files are removed
//! 5. the directory is synced
//!
//! After a crash before step 2 everything is there; after it, what is still there is removed at the next opening.

use std::sync::Arc;
use std::time::Duration;

use super::ages::{Ages, Begin, Newest, over_at};
use super::manifest;
use super::pass::{Pass, file_len};
use super::segments::Slot;
use super::settings::Settings;
use super::writer::{Health, Last};
use super::{Inner, Partition};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::format::root::Manifest;
use crate::offset::Offset;
use crate::segment::Segment;

/// What went, and whether more has to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trimmed {
    pub(crate) segments: u64,
    pub(crate) bytes: u64,
    /// More has to go, and another pass would remove it.
    pub(crate) more: bool,
}

/// How many segments may go at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    pub(crate) in_all: u64,
    /// For their age alone.
    pub(crate) by_age: u64,
}

impl Partition {
    /// Does what recovery has left to do, and ends the last segment if it is as old as it may become. (An append does so too; this is for
    /// a partition that gets none.)
    pub(crate) fn tend(&self, now: Timestamp) -> Result<()> {
        let inner = &*self.inner;
        let _woken = inner.progress.waking();
        let mut writer = inner.writer.lock();
        if !matches!(writer.health, Health::Sound) || !inner.is_there() {
            return Ok(());
        }
        inner.finish_work(&mut writer)?;
        let last = writer.last().filter(|last| last.totals.records > 0);
        let ends = last.zip(inner.settings().roll_age());
        let ends = ends.map(|(last, age)| over_at(last.begin, &last.totals, age, now));
        if ends.is_some_and(|ends| ends <= now) {
            inner.make_ready(&mut writer)?;
            inner.roll_here(&mut writer)?;
        }
        Ok(())
    }

    /// Removes the files that an earlier pass could not. A partition that refuses appends keeps them.
    ///
    /// # Errors
    ///
    /// The first file that cannot be removed now.
    pub(crate) fn clear_debris(&self) -> Result<()> {
        let inner = &*self.inner;
        let Some(pass) = self.try_pass().filter(|_| inner.is_sound()) else {
            return Ok(());
        };
        if inner.manifest.lock().debris.is_empty() {
            return Ok(());
        }
        pass.remove_debris(0)
    }

    /// Lets go of what the topic's [`Retention`](crate::Retention) does not ask to keep. A partition that refuses appends keeps
    /// everything; so does one, this time, of which segments are being removed or compacted.
    ///
    /// # Errors
    ///
    /// Of the disk. `Corruption` if a segment that would be weighed cannot be: nothing goes because something cannot be read.
    pub(crate) fn trim(&self, now: Timestamp, most: Most) -> Result<Trimmed> {
        let inner = &*self.inner;
        let settings = inner.settings();
        let Some(pass) = self.try_pass().filter(|_| inner.is_sound()) else {
            return Ok(Trimmed::default());
        };
        if settings.retention.is_unlimited() {
            return Ok(Trimmed::default());
        }
        let going = inner.going(&settings, now)?;
        if going == Going::default() {
            return Ok(Trimmed::default());
        }
        pass.make_ready()?;
        if going.renew {
            inner.renew_last()?; // 1
        }
        let going = inner.going(&settings, now)?; // what was appended meanwhile counts
        let allowed = going.by_age.min(most.by_age).max(going.by_size);
        let count = allowed.min(most.in_all);
        let mut trimmed = pass.remove_first(count)?;
        let held_back = going.by_age > most.by_age; // for a while, and not for the next pass
        trimmed.more = count < allowed || going.renew && !held_back;
        Ok(trimmed)
    }

    /// Forgets every record below `offset`. From now on the partition begins there; segments that hold nothing else are removed.
    /// Below the first readable offset nothing is done. It is durable when this returns. (Kafka's `deleteRecords`.)
    ///
    /// Who reads below `offset` finishes the block it has, and then gets [`Error::OutOfRange`]; a consumer goes on at `offset`, and
    /// its batch says so, see [`Batch::resets`](crate::Batch::resets).
    ///
    /// ```
    /// use thalweg::{Log, Offset, TopicConfig};
    ///
    /// let log = Log::in_memory();
    /// let orders = log.create_topic("orders", TopicConfig::new())?.partition(0)?;
    /// orders.append_all([("k", "a"), ("k", "b"), ("k", "c")])?;
    ///
    /// orders.delete_before(Offset::new(2))?;
    ///
    /// assert_eq!(orders.offsets(), Offset::new(2)..Offset::new(3));
    /// assert_eq!(orders.entries(..).count(), 1);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] above the end; [`Error::InvalidSetting`] for a topic that is compacted and has no
    /// [`Retention`](crate::Retention): of that, only what a later record of the same key takes the place of may go;
    /// [`Error::Poisoned`], [`Error::NoSpace`], [`Error::Io`] and the like: nothing was done. After [`Error::Indeterminate`] it may be
    /// done when the log is opened again.
    pub fn delete_before(&self, offset: Offset) -> Result<()> {
        let inner = &*self.inner;
        inner.check_there()?;
        inner.home.evidence.held()?;
        let settings = inner.settings();
        if settings.compaction.is_some() && settings.retention.is_unlimited() {
            return Err(Error::invalid(
                "retention",
                "a compacted topic keeps the latest record of each key, unless it has a retention too",
            ));
        }
        let valid = self.offsets();
        if offset > valid.end {
            let requested = Box::new(self.topic_partition().at(offset));
            return Err(Error::OutOfRange { requested, valid });
        }
        if offset <= valid.start {
            return Ok(());
        }
        // Before the pass: a sync wakes readers, whose code may want one.
        inner.sync_all()?; // 1
        if offset == valid.end {
            inner.roll_now()?;
        }
        self.begin_pass()?.begin_at(offset.get()).map(|_| ())
    }
}

/// How many of the oldest segments have to go, for either reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Going {
    by_age: u64,
    by_size: u64,
    /// The next segment has to be begun: the last one goes too, once it is that no more, or the next one says how old it is.
    renew: bool,
}

impl Inner {
    /// Is nothing wrong here, as far as is known?
    pub(super) fn is_sound(&self) -> bool {
        matches!(self.writer.lock().health, Health::Sound) && self.is_there()
    }

    /// What has to go now.
    fn going(&self, settings: &Settings, now: Timestamp) -> Result<Going> {
        let writer = self.writer.lock(); // a roll between the two would count the last segment twice
        let Some(last) = writer.last() else {
            return Ok(Going::default());
        };
        let segments = self.segments();
        drop(writer);
        let sealed = segments.slots.split_last().map_or(&[][..], |last| last.1);
        let mut going = Going::default();
        if let Some(age) = settings.retention.age {
            let ages = Ages::new(settings.retention_time, now);
            (going.by_age, going.renew) = self.too_old(sealed, &last, ages, age)?;
        }
        if let Some(limit) = settings.retention.bytes {
            let lens = || {
                sealed
                    .iter()
                    .map(|slot| self.sealed_segment(slot).map(|of| file_len(&of)))
            };
            let mut total = last.len + lens().sum::<Result<u64>>()?;
            for len in lens() {
                total -= len?;
                if total < limit {
                    break;
                }
                going.by_size += 1;
            }
        }
        Ok(going)
    }

    /// How many of the oldest segments are older than that, and whether the next one has to be begun: because of the age of the last, or to
    /// say how old those before it are.
    fn too_old(
        &self,
        sealed: &[Arc<Slot>],
        last: &Last,
        mut ages: Ages,
        age: Duration,
    ) -> Result<(u64, bool)> {
        let (now, mut old) = (ages.now, 0);
        let oldest = now.minus(age);
        let renew =
            || last.totals.records == 0 || over_at(last.begin, &last.totals, age, now) <= now;
        for (slot, next) in sealed.iter().zip(1..) {
            let segment = self.sealed_segment(slot)?;
            let seal = segment.seal().expect("it was opened as sealed");
            let totals = &seal.footer.accumulator;
            let begin = |slot: &Arc<Slot>| Ok(Begin::of(&self.sealed_segment(slot)?.header));
            let behind = sealed[next..].iter().map(begin).chain([Ok(last.begin)]);
            match ages.newest(Begin::of(&segment.header), totals, behind)? {
                Some(Newest::Unknown) => return Ok((old, renew())),
                Some(newest) if !newest.is_before(oldest) => return Ok((old, false)),
                Some(_) => old = next as u64,
                None => {} // without a record, it goes with those behind it
            }
        }
        let renew = match ages.newest(last.begin, &last.totals, [])? {
            Some(Newest::Unknown) => renew(),
            Some(newest) => newest.is_before(oldest),
            None => false,
        };
        Ok((old, renew))
    }

    fn sealed_segment(&self, slot: &Slot) -> Result<Arc<Segment>> {
        let (home, times) = (&self.home, self.settings().timestamps);
        slot.open_sealed(&home.ground, &self.place, home.log, times)
    }
}

impl Pass<'_> {
    /// Lets go of so many of the oldest segments. The last one always stays.
    fn remove_first(&self, count: u64) -> Result<Trimmed> {
        let segments = self.inner.segments();
        let first = segments
            .slots
            .get(usize::try_from(count).unwrap_or(usize::MAX));
        match first.or(segments.slots.last()) {
            Some(first) if count > 0 => self.begin_at(first.base),
            _ => Ok(Trimmed::default()),
        }
    }

    /// Steps 2 to 5: from now on the partition begins at `start`.
    fn begin_at(&self, start: u64) -> Result<Trimmed> {
        let inner = self.inner;
        self.go_on()?;
        let segments = inner.segments();
        let first = segments.holding(start).unwrap_or(0);
        let gone = &segments.slots[..first];
        let mut trimmed = Trimmed::default();
        for slot in gone {
            trimmed.segments += 1;
            trimmed.bytes += inner.sealed_segment(slot).map_or(0, |of| file_len(&of));
        }
        let names: Vec<_> = gone
            .iter()
            .map(|slot| (slot.base, slot.generation))
            .collect();
        if planted!(UNLINKED_BEFORE_MANIFEST) {
            inner.manifest.lock().debris.extend(&names);
            let _ = self.clear_up(0);
        }
        self.change_manifest(|stored, ground, place| {
            let log_start = start.max(stored.manifest.log_start);
            let manifest = Manifest {
                log_start,
                ..stored.manifest.clone()
            };
            manifest::write(ground, place, stored, manifest)?; // 2
            stored.debris.extend(&names);
            Ok(())
        })?;
        inner.change_segments(|segments| {
            segments.log_start = start.max(segments.log_start); // 3
            segments.slots.drain(..names.len()); // nobody else removes or replaces them
            segments.changes += 1;
        });
        drop(segments); // and with it their files, unless somebody reads them
        let _ = self.clear_up(trimmed.bytes); // 4, 5; it is done, whatever becomes of the files: a sync that failed has stopped the partition
        Ok(trimmed)
    }
}
