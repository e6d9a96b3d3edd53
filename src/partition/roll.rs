//! New segments: the first of a partition, and the next when one is full.
//!
//! First append: (1) partition directory, (2) first segment with its header, synced, (3) its directory, synced, (4) the topic
//! directory, synced, (5) the `USED` bit, synced, (6) the first batch.
//!
//! Roll: (1) footer, (2) sync of the old file, (3) new file with its header, (4) sync of it, (5) sync of the directory, (6) the
//! first batch. No byte of a segment is written before the one before it is synced, at every level.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Inner;
use super::ages::{Begin, Young, holds_up, over_at};
use super::segments::Slot;
use super::settings::Settings;
use super::writer::{Rear, Writer};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::format::batch::HEADER_LEN;
use crate::format::encoder::Encoder;
use crate::format::extension::MAX_EXTENSION_LEN;
use crate::format::footer::FOOTER_LEN;
use crate::format::segment::{GapReason, Link, SEGMENT_HEADER_LEN, SegmentHeader};
use crate::format::state::Point;
use crate::offset::Offset;
use crate::segment::active::{ActiveSegment, SealFailed};

impl Inner {
    /// An active segment with room for the batch in the encoder: the present one, or a new one.
    #[inline]
    pub(crate) fn make_room(
        &self,
        writer: &mut Writer,
        settings: &Settings,
        encoder: &Encoder,
        now: u64,
    ) -> Result<()> {
        if writer.young.holds(now) && has_clearly_room(writer, settings, encoder) {
            return Ok(());
        }
        let now = Timestamp::from_millis(now as i64); // which a batch can hold
        self.find_room(writer, settings, encoder, now)
    }

    #[cold]
    fn find_room(
        &self,
        writer: &mut Writer,
        settings: &Settings,
        encoder: &Encoder,
        now: Timestamp,
    ) -> Result<()> {
        let records = u64::from(encoder.count());
        if records > u64::from(settings.offset_span) {
            let limit = u64::from(settings.offset_span);
            return Err(Error::LimitExceeded {
                setting: "offset_span",
                limit,
            });
        }
        let last = writer
            .next
            .checked_add(records)
            .and_then(|end| end.checked_add(u64::from(settings.offset_span)));
        if last.is_none_or(|last| last > Offset::MAX.get()) {
            return Err(Error::LimitExceeded {
                setting: "offset",
                limit: Offset::MAX.get(),
            });
        }
        let age = settings.roll_age();
        let of_now = age.map_or(Timestamp::MAX, |age| now.plus(age)); // when one ends that begins now
        if let Some(active) = writer.active() {
            let full =
                active.len + encoder.total_len() + FOOTER_LEN as u64 > settings.segment_bytes;
            let spanned = writer.next + records > active.segment.span_end();
            let header = &active.segment.header;
            // Of another level, or it says that no times in it are held up.
            let unfit = settings.below_power() != header.below_power
                || !header.held_up && holds_up(writer.last_append, now);
            if active.is_empty() {
                if unfit || spanned {
                    // The span was smaller when it was made.
                    self.replace_empty(writer, settings, writer.next)?;
                }
                writer.young = Young::from(now, of_now);
                return Ok(());
            }
            let ends = |age| over_at(Begin::of(header), &active.accumulator(), age, now);
            let ends = age.map_or(Timestamp::MAX, ends);
            if !(full || spanned || unfit || ends <= now) {
                writer.young = Young::from(now, ends);
                return Ok(());
            }
            self.home.evidence.held()?;
            self.seal_active(writer, writer.next)?;
        }
        self.begin_segment(writer, settings)?;
        writer.young = Young::from(now, of_now);
        Ok(())
    }

    /// Ends the present segment and begins the next one, unless the present one is empty.
    pub(crate) fn roll_now(&self) -> Result<()> {
        let _woken = self.progress.waking();
        self.roll_unwoken()
    }

    /// As [`roll_now`](Inner::roll_now); who sleeps here is to be woken when nothing is locked.
    pub(crate) fn roll_unwoken(&self) -> Result<()> {
        let mut writer = self.writer.lock();
        self.make_ready(&mut writer)?;
        self.roll_here(&mut writer)
    }

    /// As [`roll_unwoken`](Inner::roll_unwoken); and an empty one is replaced, so that the present one says that it was begun now.
    pub(crate) fn renew_last(&self) -> Result<()> {
        let mut writer = self.writer.lock();
        self.make_ready(&mut writer)?;
        match &writer.rear {
            Rear::Active(active) if active.is_empty() => {
                let end = writer.next;
                self.replace_empty(&mut writer, &self.settings(), end)
            }
            _ => self.roll_here(&mut writer),
        }
    }

    /// As [`roll_now`](Inner::roll_now), for a writer that is ready.
    pub(crate) fn roll_here(&self, writer: &mut Writer) -> Result<()> {
        match &writer.rear {
            Rear::Active(active) if active.is_empty() => return Ok(()),
            Rear::Closed(None) => return Ok(()), // never written
            _ => {}
        }
        self.home.evidence.held()?;
        let next = writer.next;
        self.seal_active(writer, next)?;
        self.begin_segment(writer, &self.settings())
    }

    /// Seals the active segment (steps 1 and 2); the next one begins at `next_base`.
    #[cold]
    pub(crate) fn seal_active(&self, writer: &mut Writer, next_base: u64) -> Result<()> {
        if let Err(cause) = self.gate.settled() {
            return Err(self.stop(writer, cause));
        }
        let Rear::Active(active) = &writer.rear else {
            return Ok(());
        };
        let path = active.segment.path();
        let seal = match active.seal(next_base) {
            Ok(seal) => seal,
            Err(SealFailed::Write(failed)) => {
                let error = Error::io("write", path, failed.source);
                return Err(self.roll_failed(writer, error, failed.stuck));
            }
            Err(SealFailed::Sync(source)) => {
                let error = Error::io("sync", path, source);
                return Err(self.roll_failed(writer, error, true));
            }
        };
        active.segment.set_seal(seal);
        active.segment.save_index(&self.home.ground, active.len);
        self.home.ground.handles.admit(&active.segment.handle);
        self.made_durable(writer.next);
        writer.rear = Rear::Closed(Some(Arc::clone(&active.segment)));
        writer.next = next_base;
        Ok(())
    }

    /// The batch was not written, so it is rejected; but the partition may have to stop.
    fn roll_failed(&self, writer: &mut Writer, error: Error, stop: bool) -> Error {
        if !stop {
            return error;
        }
        self.stop(writer, Arc::new(error))
    }

    /// The next segment, or the first (steps 3 to 5).
    #[cold]
    pub(crate) fn begin_segment(&self, writer: &mut Writer, settings: &Settings) -> Result<()> {
        let Rear::Closed(last) = &writer.rear else {
            return Ok(());
        };
        let (expected, link) = last
            .as_ref()
            .map_or((0, Link::default()), |last| last.successor());
        let stream = last.as_ref().and_then(|last| last.stream_end());
        let stream = stream.unwrap_or_else(|| writer.stream_of_life());
        let gap = if expected == writer.next {
            GapReason::None
        } else {
            GapReason::Recovery
        };
        let header = self.header(writer, settings, expected, link, gap)?;
        if !writer.used {
            self.make_directory()?;
        }
        let made = ActiveSegment::create(
            &self.home.ground,
            &self.place.dir,
            &self.place.at,
            header,
            settings.timestamps,
            stream,
        );
        let active = match made {
            Ok(active) => active,
            // A sync that failed, even for want of space, may have left the name un-synced for ever; other calls are tried again.
            Err(e @ Error::Io { call: "sync", .. }) => {
                return Err(self.roll_failed(writer, e, true));
            }
            Err(e) => return Err(e),
        };
        if !writer.used {
            self.mark_used(writer)?;
        }
        self.install(writer, active);
        Ok(())
    }

    fn header(
        &self,
        writer: &Writer,
        settings: &Settings,
        expected: u64,
        prev_link: Link,
        gap: GapReason,
    ) -> Result<SegmentHeader> {
        let created = self.home.clock.now();
        Ok(SegmentHeader {
            log: self.home.log,
            topic: self.place.topic,
            partition: self.place.at.partition().get(),
            generation: 0,
            base: writer.next,
            expected,
            gap,
            offset_span: settings.offset_span,
            below_power: settings.below_power(),
            held_up: holds_up(writer.last_append, created),
            open_number: self.home.evidence.open_number()?,
            created_ms: created.as_millis(),
            salt: self.home.ground.storage.random() as u64,
            prev_link,
            out_link: Link::default(),
        })
    }

    fn make_directory(&self) -> Result<()> {
        let dir = &self.place.dir;
        match self.home.ground.storage.create_dir(dir) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(Error::io("create", dir, e)),
            _ => Ok(()),
        }
    }

    /// Steps 4 and 5 of a first append.
    fn mark_used(&self, writer: &mut Writer) -> Result<()> {
        let parent = self
            .place
            .dir
            .parent()
            .expect("a partition lies in a topic");
        if !planted!(DIRECTORY_SYNC_SKIPPED)
            && let Err(e) = self.home.ground.storage.sync_dir(parent)
        {
            return Err(self.roll_failed(writer, Error::io("sync", parent, e), true));
        }
        self.owner.mark_used(self.place.at.partition())?;
        writer.used = true;
        Ok(())
    }

    fn install(&self, writer: &mut Writer, active: ActiveSegment) {
        writer.synced = active.len;
        writer.pointed = active.len;
        writer.checked = active.len;
        writer.sync_asked = false;
        writer.young = Young::default(); // the next append looks
        let slot = Arc::new(Slot::of(Arc::clone(&active.segment)));
        self.change_segments(|segments| {
            segments.slots.push(slot);
            segments.gap_from = None;
        });
        writer.rear = Rear::Active(active);
        self.keep_point(writer);
    }

    /// Writes a recovery point for the end as it is, unless the newest says so: everything below is synced. `false`: it could
    /// not be written.
    pub(crate) fn keep_point(&self, writer: &mut Writer) -> bool {
        let Some(point) = writer.point(self) else {
            return true;
        };
        writer.pointed = point.position;
        let evidence = &self.home.evidence;
        let is_newest = || {
            let known = evidence.point(point.topic, point.partition);
            known.is_some_and(|known| {
                Point {
                    open_number: point.open_number,
                    ..known
                } == point
            })
        };
        if !is_newest() {
            evidence.record_point(&point);
        }
        is_newest()
    }

    /// An empty active segment is never sealed: one that cannot serve is replaced by one that begins at `base`. New file,
    /// synced, then the manifest (the commit point), then the old one is removed.
    #[cold]
    pub(crate) fn replace_empty(
        &self,
        writer: &mut Writer,
        settings: &Settings,
        base: u64,
    ) -> Result<()> {
        let old = match &writer.rear {
            Rear::Active(active) => Arc::clone(&active.segment),
            Rear::Resting { segment, .. } => Arc::clone(segment),
            Rear::Closed(_) => return self.begin_segment(writer, settings),
        };
        writer.next = base;
        let gap = if old.header.expected == base {
            GapReason::None
        } else {
            GapReason::Recovery
        };
        let mut header = self.header(
            writer,
            settings,
            old.header.expected,
            old.header.prev_link,
            gap,
        )?;
        let ground = &self.home.ground;
        let mut manifest = self.manifest.lock();
        header.generation = manifest.next_generation(ground, &self.place)?;
        let live = (header.base, header.generation);
        let stream = old.stream_start.unwrap_or_else(|| writer.stream_of_life());
        let stream = stream + SEGMENT_HEADER_LEN as u64;
        let (dir, at) = (&self.place.dir, &self.place.at);
        let made = ActiveSegment::create(ground, dir, at, header, settings.timestamps, stream);
        let replaced = [(old.base(), old.header.generation)];
        let swapped = made.and_then(|active| {
            super::manifest::swap(ground, &self.place, &mut manifest, &replaced, live)?;
            Ok(active)
        });
        let unknown = matches!(swapped, Err(Error::Indeterminate { .. }));
        if swapped.is_err() && !unknown {
            manifest.debris.push(live); // it may be there, and the next swap must not make it live
        }
        self.manifest_generation
            .store(manifest.generation, Ordering::Release);
        drop(manifest);
        let active = match swapped {
            Ok(active) => active,
            // Either may be live: nothing is appended or removed before recovery knows which.
            Err(e) if unknown => return Err(self.stop(writer, Arc::new(e))),
            Err(e) => return Err(e),
        };
        let _ = ground.storage.remove_file(old.path()); // left over otherwise, and removed by a later swap or opening
        self.change_segments(|segments| {
            segments
                .slots
                .retain(|slot| slot.base != old.base() || slot.generation == live.1);
        });
        self.install(writer, active);
        Ok(())
    }
}

/// Is there room for the batch in the present segment, so clearly that nothing more need be asked? `false` says nothing.
#[inline]
fn has_clearly_room(writer: &Writer, settings: &Settings, encoder: &Encoder) -> bool {
    /// Beside its body, a batch takes less.
    const BESIDE: u64 = (HEADER_LEN + MAX_EXTENSION_LEN + FOOTER_LEN) as u64;
    let Rear::Active(active) = &writer.rear else {
        return false;
    };
    let end = writer.next + u64::from(encoder.count());
    active.len + encoder.body_len() as u64 + BESIDE <= settings.segment_bytes
        && end <= active.segment.span_end()
        && end <= Offset::MAX.get() - u64::from(u32::MAX)
        && encoder.count() <= settings.offset_span
        && settings.below_power() == active.segment.header.below_power
}
