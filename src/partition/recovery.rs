//! What recovery writes, steps 9 to 14 for one partition: at once where the topic is at `Power`, else before its first write.
//!
//! The order, which the crash tests walk through (a crash in between finds the same evidence and computes the same):
//!
//! 1. `OPEN` of this opening, synced; config and manifest, as they were read, made durable
//! 2. the tail to cut goes to `quarantine/`, synced, its directory too
//! 3. the tail is cut
//! 4. what may be in the cache alone is checked, written again in place, and synced (the cut with it); its directory too
//! 5. leftovers are removed, before a manifest says that their generation is in use
//! 6. a gap: the segment is sealed and the next one made behind it; an empty one is replaced through the manifest
//! 7. a recovery point, un-synced

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Inner;
use super::examine::Work;
use super::quarantine;
use super::writer::{Health, Rear, Writer};
use crate::error::{Error, Result};
use crate::format::batch;
use crate::format::footer::FOOTER_LEN;
use crate::format::wire::Seed;
use crate::io::{File, OpenMode, write_full};
use crate::segment::active::ActiveSegment;
use crate::segment::rewrite;
use crate::segment::scan::sound;
use crate::segment::stream::Stream;
use crate::slotted::{remove_if_there, sync_parent};

impl Inner {
    /// Before a write: may this partition be written, and is what recovery left done?
    #[inline]
    pub(crate) fn make_ready(&self, writer: &mut Writer) -> Result<()> {
        let sound = matches!(writer.health, Health::Sound) && writer.work.is_none();
        if sound && matches!(writer.rear, Rear::Active(_)) && self.is_there() {
            return Ok(());
        }
        self.make_ready_first(writer)
    }

    #[cold]
    fn make_ready_first(&self, writer: &mut Writer) -> Result<()> {
        self.check_there()?;
        match &writer.health {
            Health::Sound => {}
            Health::Poisoned(cause) => {
                return Err(Error::poisoned(Some(&self.place.at), Arc::clone(cause)));
            }
            Health::Damaged(why) => return Err(Error::again(&self.place.at, why)),
        }
        self.finish_work(writer)?;
        if let Rear::Resting { .. } = writer.rear {
            self.home.evidence.open_number()?;
            self.wake_rear(writer)?;
        }
        Ok(())
    }

    /// Steps 9 to 14, if they are not done. No space leaves them for later: the partition is read meanwhile.
    #[inline]
    pub(crate) fn finish_work(&self, writer: &mut Writer) -> Result<()> {
        if writer.work.is_some() {
            self.finish(writer)
        } else {
            Ok(())
        }
    }

    #[cold]
    fn finish(&self, writer: &mut Writer) -> Result<()> {
        let Some(mut work) = writer.work.take() else {
            return Ok(());
        };
        match self.do_work(writer, &mut work) {
            Ok(()) => {
                self.made_durable(writer.next);
                self.keep_point(writer);
                Ok(())
            }
            Err(e) => {
                if e.is_corruption() {
                    let why = Arc::new(e);
                    writer.health = Health::Damaged(Arc::clone(&why));
                    return Err(Error::again(&self.place.at, &why));
                }
                writer.work = Some(work);
                Err(e)
            }
        }
    }

    /// What is done is taken out of `work`: a second try must not cut what was written since the first.
    fn do_work(&self, writer: &mut Writer, work: &mut Work) -> Result<()> {
        self.home.evidence.open_number()?; // 1
        self.owner.settle()?;
        super::manifest::settle(&self.home.ground, &mut self.manifest.lock())?;
        if let Some(cut) = &work.cut {
            quarantine::keep_aside(&self.home, cut)?; // 2
            let file = self.open_for_write(&cut.file)?;
            file.set_len(cut.from)
                .map_err(|e| Error::io("truncate", &cut.file, e))?; // 3
            if work.distrust.is_none() {
                file.sync_data()
                    .map_err(|e| Error::io("sync", &cut.file, e))?;
            }
            work.cut = None;
        }
        if let Some((path, range)) = &work.distrust {
            self.write_again(path, range)?; // 4
            work.distrust = None;
        }
        self.remove_leftovers(&work.leftovers)?; // 5
        work.leftovers.clear();
        if let Some(base) = work.gap {
            self.leave_gap(writer, base)?; // 6
        }
        Ok(())
    }

    fn remove_leftovers(&self, leftovers: &[PathBuf]) -> Result<()> {
        let storage = &*self.home.ground.storage;
        for path in leftovers {
            remove_if_there(storage, &rewrite::index_beside(path))?;
            remove_if_there(storage, path)?;
        }
        match leftovers.first() {
            Some(path) => sync_parent(storage, path),
            None => Ok(()),
        }
    }

    fn open_for_write(&self, path: &Path) -> Result<Arc<dyn File>> {
        self.home
            .ground
            .storage
            .open(path, OpenMode::Write)
            .map_err(|e| Error::io("open", path, e))
    }

    /// The cache may hold what a failed write-back took from the medium: every batch is checked, and the same bytes are written
    /// in place and synced, before anything rests on them.
    fn write_again(&self, path: &Path, range: &Range<u64>) -> Result<()> {
        let file = self.open_for_write(path)?;
        let snapshot = self.segments();
        let segment = snapshot
            .slots
            .last()
            .and_then(|slot| slot.opened())
            .expect("the last segment was examined");
        let header_len = segment.header_len;
        let mut stream = Stream::new(&*file, range.end);
        let mut at = range.start;
        let io = |e| Error::io("read", path, e);
        while at < range.end {
            let len = if at < header_len {
                (header_len - at) as usize
            } else {
                let bytes = stream.at(at, 64).map_err(io)?;
                let total = batch::hop(bytes).map_or(u64::MAX, |hop| hop.2);
                usize::try_from(total.min(range.end - at)).unwrap_or(usize::MAX)
            };
            let bytes = stream.at(at, len).map_err(io)?;
            let bytes = &bytes[..len.min(bytes.len())];
            let footer = at + FOOTER_LEN as u64 == range.end && segment.seal().is_some();
            if at >= header_len
                && !footer
                && sound(bytes, Seed::new(segment.header.salt, at)).is_err()
                || bytes.is_empty()
            {
                return Err(Error::corruption(path, at, None));
            }
            write_full(&*file, bytes, at).map_err(|e| Error::io("write", path, e))?;
            at += len as u64;
        }
        file.sync_all().map_err(|e| Error::io("sync", path, e))?;
        self.home
            .ground
            .storage
            .sync_dir(&self.place.dir)
            .map_err(|e| Error::io("sync", &self.place.dir, e))
    }

    fn leave_gap(&self, writer: &mut Writer, base: u64) -> Result<()> {
        let settings = self.settings();
        if matches!(writer.rear, Rear::Resting { .. }) {
            self.wake_rear(writer)?;
        }
        let empty = writer.active().is_some_and(ActiveSegment::is_empty);
        if empty {
            return self.replace_empty(writer, &settings, base);
        }
        self.seal_active(writer, base)?;
        self.begin_segment(writer, &settings)
    }

    /// Opens the last segment for writing.
    #[cold]
    fn wake_rear(&self, writer: &mut Writer) -> Result<()> {
        let Rear::Resting {
            segment,
            len,
            next,
            accumulator,
        } = &writer.rear
        else {
            return Ok(());
        };
        let file = self
            .home
            .ground
            .handles
            .open(&segment.handle, OpenMode::Write);
        let file = file.map_err(|e| Error::io("open", segment.path(), e))?;
        let (segment, len) = (Arc::clone(segment), *len);
        let active = ActiveSegment::resume(segment, file, len, *next, *accumulator);
        writer.synced = len;
        writer.pointed = len;
        writer.checked = len;
        writer.rear = Rear::Active(active);
        Ok(())
    }
}
