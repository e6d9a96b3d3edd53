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

use std::time::Duration;

use super::manifest;
use super::pass::Pass;
use super::segments::Slot;
use super::settings::Settings;
use super::writer::Health;
use super::{Inner, Partition};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::format::accumulator::Accumulator;
use crate::format::root::Manifest;
use crate::offset::Offset;
use crate::segment::Seal;

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
        let age = inner.settings().roll_age();
        if age.is_some_and(|age| is_old(&writer.last().1, age, now)) {
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
        if going.last {
            inner.roll_unwoken()?; // 1
        }
        let going = inner.going(&settings, now)?; // what was appended meanwhile counts
        let allowed = going.by_age.min(most.by_age).max(going.by_size);
        let count = allowed.min(most.in_all);
        let mut trimmed = pass.remove_first(count)?;
        let held_back = going.by_age > most.by_age; // for a while, and not for the next pass
        trimmed.more = count < allowed || going.last && !held_back;
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

/// Is a segment as old as it may become? Its age counts from its first append.
pub(super) fn is_old(totals: &Accumulator, age: Duration, now: Timestamp) -> bool {
    totals.records > 0 && Timestamp::from_millis(totals.first_append).plus(age) <= now
}

/// How many of the oldest segments have to go, for either reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Going {
    by_age: u64,
    by_size: u64,
    /// The last segment has to go too, once it is not the last any more.
    last: bool,
}

impl Inner {
    /// Is nothing wrong here, as far as is known?
    pub(super) fn is_sound(&self) -> bool {
        matches!(self.writer.lock().health, Health::Sound) && self.is_there()
    }

    /// What has to go now.
    fn going(&self, settings: &Settings, now: Timestamp) -> Result<Going> {
        let writer = self.writer.lock(); // a roll between the two would count the last segment twice
        let (last_len, last_totals) = writer.last();
        let segments = self.segments();
        drop(writer);
        let sealed = segments.slots.split_last().map_or(&[][..], |last| last.1);
        let mut going = Going::default();
        if let Some(age) = settings.retention.age {
            let oldest = now.minus(age);
            let by = settings.retention_time;
            let mut totals = sealed.iter().map(|slot| self.seal_of(slot)).enumerate();
            let young = loop {
                let Some((at, seal)) = totals.next() else {
                    break false;
                };
                match by.newest(&seal?.footer.accumulator) {
                    Some(newest) if newest >= oldest => break true,
                    Some(_) => going.by_age = at as u64 + 1,
                    None => {} // without a record, it goes with those behind it
                }
            };
            going.last = !young
                && by
                    .newest(&last_totals)
                    .is_some_and(|newest| newest < oldest);
        }
        if let Some(limit) = settings.retention.bytes {
            let lens = || {
                sealed
                    .iter()
                    .map(|slot| Ok(self.seal_of(slot)?.footer.file_len()))
            };
            let mut total = last_len + lens().sum::<Result<u64>>()?;
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

    fn seal_of(&self, slot: &Slot) -> Result<Seal> {
        let (home, times) = (&self.home, self.settings().timestamps);
        let segment = slot.open_sealed(&home.ground, &self.place, home.log, times)?;
        let seal = segment.seal().expect("it was opened as sealed");
        Ok(seal.clone())
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
            trimmed.bytes += self
                .inner
                .seal_of(slot)
                .map_or(0, |seal| seal.footer.file_len());
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
