//! A pass over the sealed segments: one takes the place of several, without the records that nobody wants any more.
//!
//! The order, which the crash tests walk through. Before step 2 the old files are the partition, after it the new one is; in
//! between there is nothing:
//!
//! 1. the new file under its final name, synced; its directory, synced
//! 2. the manifest with the swap, synced: the commit point
//! 3. readers get the new list; who stands in an old file goes on in the new one
//! 4. the old files are removed
//! 5. the directory is synced; the swap stays in the manifest until the next one takes its place
//!
//! An error before step 2 changes nothing: the old files stay, and what was made is removed, now or at the next opening. The last
//! segment is never touched, and no lock that appends or reads take is held while files are written or synced.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;

use super::manifest::{self, SegmentName, Stored};
use super::place::Place;
use super::progress::Waking;
use super::segments::{Joint, Segments, Slot};
use super::settings::MAX_SEGMENT_BYTES;
use super::{Inner, Partition};
use crate::error::{Error, Result};
use crate::format::footer::FOOTER_LEN;
use crate::format::segment::SEGMENT_HEADER_LEN;
use crate::segment::handle::Handles;
use crate::segment::pace::Pace;
use crate::segment::rewrite::{self, Birth, Keeper, Making, Packing, Rewrite};
use crate::segment::{Ground, Segment};

/// A pass that is under way: the only one in this partition.
pub(crate) struct Pass<'p> {
    pub(super) inner: &'p Inner,
    _alone: MutexGuard<'p, ()>,
    /// Dropped after the lock: who is woken runs code of its own, which may want a pass.
    _woken: Waking<'p>,
}

/// What a swap did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Swapped {
    /// Segments that are there no more.
    pub(crate) segments: u64,
    /// Bytes that their files had, and that the new one has.
    pub(crate) before: u64,
    pub(crate) after: u64,
}

impl Partition {
    /// Begins a pass, after one that is under way.
    ///
    /// # Errors
    ///
    /// As an append: a partition that refuses those is not rewritten.
    pub(crate) fn begin_pass(&self) -> Result<Pass<'_>> {
        self.ready_pass(self.inner.lock_pass())
    }

    /// As [`begin_pass`](Self::begin_pass), for who has time: the one that is under way is not asked to make room. (Two that ask
    /// each other would both begin again and again.)
    pub(super) fn next_pass(&self) -> Result<Pass<'_>> {
        self.ready_pass(self.inner.pass.lock())
    }

    fn ready_pass<'p>(&'p self, alone: MutexGuard<'p, ()>) -> Result<Pass<'p>> {
        let pass = Pass {
            inner: &self.inner,
            _alone: alone,
            _woken: self.inner.progress.waking(),
        };
        pass.make_ready()?;
        Ok(pass)
    }

    /// To look at the segments while nothing replaces or removes them; `None` while somebody else is at it. Before a change,
    /// [`make_ready`](Pass::make_ready).
    pub(super) fn try_pass(&self) -> Option<Pass<'_>> {
        let alone = self.inner.pass.try_lock()?;
        Some(Pass {
            inner: &self.inner,
            _alone: alone,
            _woken: self.inner.progress.waking(),
        })
    }

    /// All segments but the last, in order, as they are now.
    #[cfg(test)]
    pub(crate) fn sealed(&self) -> Result<Vec<Arc<Segment>>> {
        let _alone = self.inner.lock_pass();
        self.inner.sealed()
    }
}

impl Inner {
    pub(super) fn lock_pass(&self) -> MutexGuard<'_, ()> {
        self.pass_wanted.fetch_add(1, Ordering::Relaxed); // a hint to who has it, no more
        self.home.ground.syncs.hurry();
        let alone = self.pass.lock();
        self.pass_wanted.fetch_sub(1, Ordering::Relaxed);
        alone
    }

    fn sealed(&self) -> Result<Vec<Arc<Segment>>> {
        let snapshot = self.segments();
        let slots = snapshot
            .slots
            .split_last()
            .map_or(&[][..], |(_, rest)| rest);
        let mut sealed: Vec<Arc<Segment>> = Vec::with_capacity(slots.len());
        let (home, times) = (&self.home, self.settings().timestamps);
        for slot in slots {
            let segment = slot.open_sealed(&home.ground, &self.place, home.log, times)?;
            if let Some(before) = sealed.last()
                && !matches!(slot.joint(&segment, before), Joint::Whole)
            {
                return Err(Error::corruption(&slot.path, 0, None));
            }
            sealed.push(segment);
        }
        Ok(sealed)
    }
}

impl Pass<'_> {
    pub(super) fn make_ready(&self) -> Result<()> {
        self.inner.make_ready(&mut self.inner.writer.lock())
    }

    /// Does somebody wait for it to end?
    pub(super) fn is_wanted(&self) -> bool {
        self.inner.pass_wanted.load(Ordering::Relaxed) > 0
    }

    /// All segments but the last, in order: those that can be rewritten.
    ///
    /// # Errors
    ///
    /// `Corruption` if one cannot be opened, or does not follow the one before.
    pub(crate) fn sealed(&self) -> Result<Vec<Arc<Segment>>> {
        self.inner.sealed()
    }

    /// Rewrites a run of segments that [`sealed`](Self::sealed) gave to one.
    pub(crate) fn swap(
        &self,
        run: &[Arc<Segment>],
        packing: Packing,
        keep: &mut dyn Keeper,
    ) -> Result<Swapped> {
        let inner = self.inner;
        self.go_on()?;
        let made = self
            .make(run, packing, keep)
            .and_then(|new| self.go_on().map(|()| new));
        let new = match made {
            Ok(new) => new,
            Err(e) => {
                self.clear_making();
                return Err(e);
            }
        };
        let live = name_of(&new);
        let replaced: Vec<SegmentName> = run.iter().map(|segment| name_of(segment)).collect();
        self.commit(&replaced, live)?; // 2
        let (before, after) = (run.iter().map(|of| file_len(of)).sum(), file_len(&new));
        inner.change_segments(|segments| put_in_place(segments, &replaced, new)); // 3
        for old in run {
            Handles::close(&old.handle);
        }
        self.clear_up(before)?; // 4, 5
        Ok(Swapped {
            segments: replaced.len() as u64,
            before,
            after,
        })
    }

    /// May this pass go on? Between the steps a log is closed, its topic deleted, or its directory taken away.
    pub(super) fn go_on(&self) -> Result<()> {
        self.inner.check_there()?;
        self.inner.home.evidence.held()
    }

    /// Step 1.
    fn make(
        &self,
        run: &[Arc<Segment>],
        packing: Packing,
        keep: &mut dyn Keeper,
    ) -> Result<Arc<Segment>> {
        let inner = self.inner;
        let (ground, place) = (&inner.home.ground, &inner.place);
        let birth = Birth {
            generation: self.next_generation(run)?,
            open_number: inner.home.evidence.open_number()?,
            salt: ground.storage.random() as u64,
        };
        let settings = inner.settings();
        let making = Making {
            ground,
            dir: &place.dir,
            at: &place.at,
            timestamps: settings.timestamps,
            index_interval: settings.index_interval,
            packing,
            hurry: &|| self.is_wanted(),
        };
        let mut new = Rewrite::create(&making, rewrite::header_for(run, &birth))?;
        for segment in run {
            self.go_on()?;
            new.copy(segment, keep)?;
        }
        let new = new.finish(run)?;
        ground
            .handles
            .sync_dir(&place.dir)
            .map_err(|e| self.stop(Error::failed_sync(&place.dir, e)))?;
        Ok(Arc::new(new))
    }

    /// Of the new file, which is known to be in the making from here on.
    fn next_generation(&self, run: &[Arc<Segment>]) -> Result<u32> {
        let inner = self.inner;
        let base = run.first().map_or(0, |segment| segment.base());
        let mut stored = inner.manifest.lock();
        let generation = stored.next_generation(&inner.home.ground, &inner.place)?;
        let unfinished = stored.making.replace((base, generation));
        stored.debris.extend(unfinished); // of a pass that panicked
        Ok(generation)
    }

    /// Step 2.
    fn commit(&self, replaced: &[SegmentName], live: SegmentName) -> Result<()> {
        let swapped = self.change_manifest(|stored, ground, place| {
            manifest::swap(ground, place, stored, replaced, live)
        });
        swapped.inspect_err(|e| {
            if !matches!(e, Error::Indeterminate { .. } | Error::Poisoned { .. }) {
                self.clear_making();
            }
        })
    }

    /// Writes the manifest, which is durable when this returns.
    ///
    /// # Errors
    ///
    /// `Indeterminate`: it may be there or not. Recovery finds out which, and until then this partition is stopped and nothing is
    /// removed. Any other: it is as it was.
    pub(super) fn change_manifest(
        &self,
        change: impl FnOnce(&mut Stored, &Ground, &Place) -> Result<()>,
    ) -> Result<()> {
        let inner = self.inner;
        let mut stored = inner.manifest.lock();
        let changed = change(&mut stored, &inner.home.ground, &inner.place);
        inner
            .manifest_generation
            .store(stored.generation, Ordering::Release);
        drop(stored);
        match changed {
            Err(e @ Error::Indeterminate { .. }) => {
                let stopped = self.stop(e);
                Err(Error::indeterminate(Some(&inner.place.at), stopped))
            }
            changed => changed,
        }
    }

    /// What has failed may be on the medium or not, so nothing more is promised here until recovery.
    fn stop(&self, cause: Error) -> Error {
        let mut writer = self.inner.writer.lock();
        self.inner.stop(&mut writer, Arc::new(cause))
    }

    /// The file in the making will not be used.
    fn clear_making(&self) {
        let mut stored = self.inner.manifest.lock();
        let making = stored.making.take();
        stored.debris.extend(making);
        drop(stored);
        let _ = self.remove_debris(0); // the next swap names what is left, and removes it
    }

    /// Steps 4 and 5 of what is decided, about so many bytes. What cannot be removed now is so later: by maintenance, the next pass, or the next opening.
    pub(super) fn clear_up(&self, bytes: u64) -> Result<()> {
        match self.remove_debris(bytes) {
            Err(e @ Error::Poisoned { .. }) => Err(e),
            _ => Ok(()),
        }
    }

    /// Steps 4 and 5, of about so many bytes.
    ///
    /// # Errors
    ///
    /// The first file that could not be removed.
    pub(super) fn remove_debris(&self, bytes: u64) -> Result<()> {
        let inner = self.inner;
        let (ground, place) = (&inner.home.ground, &inner.place);
        inner.home.evidence.held()?;
        let debris = inner.manifest.lock().debris.clone();
        let (mut gone, mut result) = (Vec::<SegmentName>::new(), Ok(()));
        let each = bytes / (debris.len() as u64).max(1);
        let hurry = || self.is_wanted();
        let mut pace = Pace::new(ground, &hurry);
        for (base, generation) in debris {
            let path = Slot::named(place, base, generation).path;
            match rewrite::remove(ground, &path) {
                Ok(()) => gone.push((base, generation)),
                Err(e) => result = result.and(Err(Error::io("remove", &path, e))),
            }
            pace.removed(each);
        }
        ground
            .handles
            .sync_dir(&place.dir)
            .map_err(|e| self.stop(Error::failed_sync(&place.dir, e)))?;
        let mut stored = inner.manifest.lock();
        stored.debris.retain(|name| !gone.contains(name));
        result
    }
}

/// The runs that can be rewritten to one file each: no gap that recovery left lies within, no offset is too far from the first, and
/// the file has about `most` bytes if so many stay of the batches of each segment, or takes the place of one alone. (Header and footer it
/// has once: any number of segments of which nothing stays are one run.) Should all stay, it is not too large. And none was begun before
/// the one in front of it: by clocks that disagree, of which [`ages`](super::ages) needs the one that was right, and the new file says one
/// time.
pub(crate) fn runs(
    sealed: &[Arc<Segment>],
    most: u64,
    stays: impl Fn(usize) -> u64,
) -> Vec<Range<usize>> {
    const FRAME: u64 = (SEGMENT_HEADER_LEN + FOOTER_LEN) as u64;
    let mut runs: Vec<Range<usize>> = Vec::new();
    let (mut bytes, mut all) = (0, 0);
    for (at, segment) in sealed.iter().enumerate() {
        let len = stays(at);
        let joins = runs.last().is_some_and(|run| {
            let (first, before) = (&sealed[run.start], &sealed[at - 1]);
            let next_base = |of: &Segment| of.seal().map(|seal| seal.footer.next_base);
            let end = next_base(segment).unwrap_or(u64::MAX);
            segment.header.expected == segment.base()
                && segment.header.created_ms >= before.header.created_ms
                && next_base(before) == Some(segment.base())
                && u32::try_from(end - first.base()).is_ok()
                && bytes + len <= most
                && all + file_len(segment) <= MAX_SEGMENT_BYTES
        });
        if let Some(run) = runs.last_mut().filter(|_| joins) {
            run.end = at + 1;
        } else {
            runs.push(at..at + 1);
            (bytes, all) = (FRAME, 0);
        }
        bytes += len;
        all += file_len(segment);
    }
    runs
}

pub(crate) fn file_len(segment: &Segment) -> u64 {
    segment.seal().map_or(0, |seal| seal.footer.file_len())
}

fn name_of(segment: &Segment) -> SegmentName {
    (segment.base(), segment.header.generation)
}

/// One change of the list: no reader sees both, or neither. Those that are replaced stand there one behind the other.
fn put_in_place(segments: &mut Segments, replaced: &[SegmentName], new: Arc<Segment>) {
    let first = |slot: &Arc<Slot>| Some(&(slot.base, slot.generation)) == replaced.first();
    let at = segments.slots.iter().position(first).unwrap_or(0);
    let new = Arc::new(Slot::replacing(new));
    segments.slots.splice(at..at + replaced.len(), [new]);
    segments.changes += 1;
}

#[cfg(test)]
mod tests;
