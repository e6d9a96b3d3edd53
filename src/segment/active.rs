//! The writer's side of the last segment: one positioned write per record batch, at a tracked end, rolled back on error.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::handle::{Handle, too_many_files};
use super::{Ground, Seal, Segment, scan};
use crate::entry::TimestampType;
use crate::error::{Error, Result};
use crate::format::accumulator::{Accumulator, Running};
use crate::format::batch::BatchHeader;
use crate::format::encoder::Encoder;
use crate::format::footer::Footer;
use crate::format::names;
use crate::format::segment::{SEGMENT_HEADER_LEN, SegmentHeader};
use crate::io::{File, OpenMode, write_full};
use crate::offset::TopicPartition;

/// The segment that is appended to. Lives under the partition's writer lock.
pub(crate) struct ActiveSegment {
    pub(crate) segment: Arc<Segment>,
    pub(crate) file: Arc<dyn File>,
    /// End of the last whole batch: where the next one goes.
    pub(crate) len: u64,
    /// Offset after the last record in it.
    pub(crate) next: u64,
    accumulator: Running,
    /// Where the last index entry points.
    indexed_at: Option<u64>,
}

/// A write that failed.
#[derive(Debug)]
pub(crate) struct WriteFailed {
    pub(crate) source: io::Error,
    /// The bytes that got through could not be cut off again: nothing may be written here until recovery.
    pub(crate) stuck: bool,
}

impl ActiveSegment {
    /// Makes the file, header included, and makes it durable: (1) create, (2) header, (3) sync the file, (4) sync the directory.
    ///
    /// A file that is there already and no longer than a header holds nothing: an earlier try ended between 1 and 4.
    pub(crate) fn create(
        ground: &Ground,
        dir: &Path,
        at: &TopicPartition,
        header: SegmentHeader,
        timestamps: TimestampType,
        stream_start: u64,
    ) -> Result<ActiveSegment> {
        let path = dir.join(names::segment_name(header.base, header.generation));
        let file = create_empty(ground, &path)?;
        let io = |call| {
            let path = path.clone();
            move |e| Error::io(call, &path, e)
        };
        write_full(&*file, &header.encode(), 0).map_err(io("write"))?;
        file.sync_all().map_err(|e| Error::failed_sync(&path, e))?;
        if !planted!(DIRECTORY_SYNC_SKIPPED) {
            let synced = ground.handles.sync_dir(dir);
            synced.map_err(|e| {
                if too_many_files(&e) {
                    Error::io("open", dir, e) // it was not even begun, so it can be tried again
                } else {
                    Error::failed_sync(dir, e)
                }
            })?;
        }
        let next = header.base;
        let segment = Segment::new(
            at.clone(),
            header,
            SEGMENT_HEADER_LEN as u64,
            path,
            timestamps,
            Some(stream_start),
        );
        segment.handle.pin(Arc::clone(&file));
        Ok(ActiveSegment {
            segment: Arc::new(segment),
            file,
            len: SEGMENT_HEADER_LEN as u64,
            next,
            accumulator: Running::from(Accumulator::default()),
            indexed_at: None,
        })
    }

    /// Goes on in a segment that a scan found right up to `len`.
    pub(crate) fn resume(
        segment: Arc<Segment>,
        file: Arc<dyn File>,
        len: u64,
        next: u64,
        accumulator: Accumulator,
    ) -> Self {
        segment.handle.pin(Arc::clone(&file));
        ActiveSegment {
            segment,
            file,
            len,
            next,
            accumulator: Running::from(accumulator),
            indexed_at: None,
        }
    }

    /// What its batches add up to.
    pub(crate) fn accumulator(&self) -> Accumulator {
        self.accumulator.sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len <= self.segment.header_len
    }

    /// Writes one record batch at the end. On an error nothing of it is left, or it is `stuck`.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> std::result::Result<(), WriteFailed> {
        write_full(&*self.file, bytes, self.len).map_err(|source| self.roll_back(source))
    }

    #[cold]
    fn roll_back(&self, source: io::Error) -> WriteFailed {
        if planted!(NO_ROLLBACK) {
            return WriteFailed {
                source,
                stuck: false,
            };
        }
        let stuck = self.file.set_len(self.len).is_err();
        WriteFailed { source, stuck }
    }

    /// The batch that was placed and written is part of the segment.
    pub(crate) fn take(&mut self, written: &Encoder, index_every: u32) {
        let batch = written.placed();
        self.accumulator.add(
            u64::from(written.count()),
            batch.body_crc,
            written.header_crc(),
            batch.append_ms as i64,
            written.max_event_time(),
            written.has_append_times(),
        );
        if self
            .indexed_at
            .is_none_or(|at| self.len - at >= u64::from(index_every))
        {
            self.note_place(batch);
        }
        self.len += batch.total_len();
        self.next =
            self.segment.base() + u64::from(batch.base_delta) + u64::from(batch.last_delta) + 1;
    }

    /// An index entry for the batch that begins at the end.
    #[inline(never)]
    fn note_place(&mut self, batch: &BatchHeader) {
        self.indexed_at = Some(self.len);
        let place = scan::place(batch, self.len, self.accumulator.times());
        self.segment.note_place(place);
    }

    /// Ends the segment: (1) footer, (2) sync. The next one begins at `next_base`.
    ///
    /// On an error the footer is cut off again, so that appending can go on; if that fails too it is `stuck`. A failed *sync*
    /// is told apart: it poisons.
    pub(crate) fn seal(&self, next_base: u64) -> std::result::Result<Seal, SealFailed> {
        let footer = Footer {
            last: self.next.checked_sub(1).filter(|_| !self.is_empty()),
            next_base,
            sparse: false,
            accumulator: self.accumulator.sum(),
            position: self.len,
        };
        let bytes = footer.encode(self.segment.header.salt);
        write_full(&*self.file, &bytes, self.len)
            .map_err(|e| SealFailed::Write(self.roll_back(e)))?;
        if !planted!(BARRIER_SKIPPED) {
            self.file.sync_data().map_err(SealFailed::Sync)?;
        }
        Ok(seal_of(footer, self.segment.header.salt))
    }
}

/// Where sealing failed.
#[derive(Debug)]
pub(crate) enum SealFailed {
    Write(WriteFailed),
    Sync(io::Error),
}

/// What a footer says, with the link that its successor carries.
pub(crate) fn seal_of(footer: Footer, salt: u64) -> Seal {
    Seal {
        data_end: footer.position,
        link: footer.link(salt),
        footer,
    }
}

fn create_empty(ground: &Ground, path: &Path) -> Result<Arc<dyn File>> {
    let made = ground
        .handles
        .open(&Handle::new(path.to_path_buf()), OpenMode::CreateNew);
    match made {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            let file = ground
                .storage
                .open(path, OpenMode::Write)
                .map_err(|e| Error::io("open", path, e))?;
            let len = file.len().map_err(|e| Error::io("open", path, e))?;
            if len > SEGMENT_HEADER_LEN as u64 {
                return Err(Error::corruption(path, SEGMENT_HEADER_LEN as u64, None));
            }
            file.set_len(0).map_err(|e| Error::io("write", path, e))?;
            Ok(file)
        }
        made => made.map_err(|e| Error::io("create", path, e)),
    }
}
