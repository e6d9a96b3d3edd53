//! Sealed segments written anew, without the records that nobody wants any more: several files become one.
//!
//! A record batch that is kept whole is copied as it is, for its new place; one that is kept in part becomes a sparse batch with
//! the same time and extension, whose records keep their offsets. What cannot be looked into because a newer version wrote it
//! is kept whole. A batch with tombstones is told when they may go. Anything that is not right ends the work with an error, and changes nothing: the files that are read stay as
//! they are until somebody swaps them for the new one.

use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::active::seal_of;
use super::pace::Pace;
use super::whole::{Candidate, Sound, each_batch, is_more};
use super::{Ground, Segment, scan};
use crate::entry::TimestampType;
use crate::error::{Error, Result};
use crate::format::Bad;
use crate::format::accumulator::{Accumulator, Running};
use crate::format::batch::{self, BatchHeader, NO_WATERMARK};
use crate::format::body;
use crate::format::compress::Codec;
use crate::format::encoder::{Encoder, Place};
use crate::format::extension::Extension;
use crate::format::footer::Footer;
use crate::format::names;
use crate::format::segment::{SEGMENT_HEADER_LEN, SegmentHeader};
use crate::format::wire::Seed;
use crate::io::{File, OpenMode, Syncing, write_full};
use crate::offset::TopicPartition;

/// Who knows which records are wanted any more.
pub(crate) trait Keeper {
    /// Is this one? Asked in order of their offsets, once for each.
    fn wants(&mut self, record: Candidate<'_>) -> bool;

    /// The first offset from this one on that may be wanted: what stands before it need not be read.
    fn next_wanted(&mut self, from: u64) -> u64 {
        from
    }

    /// When tombstones of a batch that ends with this offset may go, in milliseconds since the epoch. Told to those that have not been told
    /// before.
    fn horizon(&self, _last: u64) -> Option<i64> {
        None
    }
}

impl<F: FnMut(Candidate<'_>) -> bool> Keeper for F {
    fn wants(&mut self, record: Candidate<'_>) -> bool {
        self(record)
    }
}

/// How the records that are kept are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// Each in the batch that it was in, so that append times stay as they are.
    AsTheyWere,
    /// Small neighbours share a batch, with the append time of the last: where nobody asks for append times.
    Together,
}

/// Packed batches are closed when they hold so much.
const PACK_BYTES: usize = 64 << 10;
/// The new file is written in pieces of about this size.
const PIECE: usize = 256 << 10;

/// What is the same for every file that a partition's segments are rewritten to.
pub(crate) struct Making<'a> {
    pub(crate) ground: &'a Ground,
    pub(crate) dir: &'a Path,
    pub(crate) at: &'a TopicPartition,
    pub(crate) timestamps: TimestampType,
    pub(crate) index_interval: u32,
    pub(crate) packing: Packing,
    /// Does somebody wait for the end?
    pub(crate) hurry: &'a dyn Fn() -> bool,
}

/// What is new in the header of a rewritten file.
pub(crate) struct Birth {
    pub(crate) generation: u32,
    pub(crate) open_number: u64,
    pub(crate) salt: u64,
}

/// The header of the file that takes the place of `run`: it begins as the first of them, and began when that did, and is followed as
/// the last.
pub(crate) fn header_for(run: &[Arc<Segment>], birth: &Birth) -> SegmentHeader {
    let (Some(first), Some(last)) = (run.first(), run.last()) else {
        unreachable!("a run has at least one segment");
    };
    let own = last.seal().map(|seal| seal.link).unwrap_or_default();
    let end = last
        .seal()
        .map_or(last.base(), |seal| seal.footer.next_base);
    let span = u32::try_from(end - first.base()).unwrap_or(u32::MAX);
    SegmentHeader {
        generation: birth.generation,
        open_number: birth.open_number,
        salt: birth.salt,
        offset_span: span.max(first.header.offset_span),
        held_up: run.iter().any(|segment| segment.header.held_up),
        below_power: run.iter().any(|segment| segment.header.below_power),
        out_link: if planted!(OUT_LINK_NOT_COPIED) {
            own
        } else {
            last.successor().1
        },
        ..first.header
    }
}

/// A file in the making.
pub(crate) struct Rewrite<'a> {
    making: &'a Making<'a>,
    segment: Segment,
    file: Arc<dyn File>,
    /// Bytes that are not written yet; they begin at `written`.
    piece: Vec<u8>,
    written: u64,
    /// It is synced step by step, so that who syncs something else meanwhile does not wait for all of it at once.
    pace: Pace<'a>,
    /// The last of these syncs, which may not have ended.
    syncing: Option<Syncing>,
    accumulator: Running,
    indexed_at: Option<u64>,
    encoder: Encoder,
    pack: Option<Pack>,
    /// Which records of the batch at hand are kept.
    kept: Vec<bool>,
}

/// Records of several batches that will share one: its first offset, and its append time.
struct Pack {
    first: u64,
    append_ms: u64,
}

impl<'a> Rewrite<'a> {
    /// Makes the file. Nothing is synced before [`finish`](Self::finish).
    pub(crate) fn create(making: &'a Making<'a>, header: SegmentHeader) -> Result<Rewrite<'a>> {
        let path = making
            .dir
            .join(names::segment_name(header.base, header.generation));
        let handle = super::handle::Handle::new(path.clone());
        let file = making.ground.handles.open(&handle, OpenMode::CreateNew);
        let file = file.map_err(|e| Error::io("create", &path, e))?;
        let piece = header.encode().to_vec();
        let (at, times) = (making.at.clone(), making.timestamps);
        let segment = Segment::new(at, header, SEGMENT_HEADER_LEN as u64, path, times, None);
        Ok(Rewrite {
            making,
            segment,
            file,
            piece,
            written: 0,
            pace: Pace::new(making.ground, making.hurry),
            syncing: None,
            accumulator: Running::from(Accumulator::default()),
            indexed_at: None,
            encoder: Encoder::default(),
            pack: None,
            kept: Vec::new(),
        })
    }

    fn len(&self) -> u64 {
        self.written + self.piece.len() as u64
    }

    /// Copies what is to be kept of one of the segments, in their order.
    pub(crate) fn copy(&mut self, from: &Segment, keep: &mut dyn Keeper) -> Result<()> {
        let keep = RefCell::new(keep);
        each_batch(
            self.making.ground,
            from,
            |from| keep.borrow_mut().next_wanted(from),
            |batch| self.copy_batch(from, batch, &mut **keep.borrow_mut()),
        )
    }

    fn copy_batch(
        &mut self,
        from: &Segment,
        batch: &Sound<'_>,
        keep: &mut dyn Keeper,
    ) -> Result<()> {
        let body = match batch.body() {
            Ok(body) => body,
            Err(Bad::Newer { .. }) => return self.copy_newer(batch),
            Err(bad) => return Err(batch.lost(from, bad)),
        };
        let mut extension = batch.extension().map_err(|bad| batch.lost(from, bad))?;
        let mut kept = std::mem::take(&mut self.kept);
        kept.clear();
        let of_all = batch.of_all(&extension);
        let mut deletes = false;
        for record in body::records(&batch.header, &body) {
            match record {
                Ok(record) => {
                    let candidate = batch.candidate(&record, &body, of_all);
                    kept.push(keep.wants(candidate));
                    deletes |= candidate.tombstone && kept.last() == Some(&true);
                }
                Err(Bad::Newer { .. }) => return self.copy_newer(batch),
                Err(bad) => return Err(batch.lost(from, bad)),
            }
        }
        let wanted = kept.iter().filter(|&&kept| kept).count();
        let is_more = of_all.fixed;
        let told = extension.delete_horizon;
        if deletes {
            extension.delete_horizon = told.or_else(|| keep.horizon(batch.last()));
        }
        let whole = is_more || wanted == kept.len() && extension.delete_horizon == told;
        let packs = self.making.packing == Packing::Together
            && is_plain(&extension, &batch.header)
            && body.len() < PACK_BYTES;
        let copied = match wanted {
            0 => Ok(()),
            _ if packs => self.pack(batch, &body, &kept),
            _ if whole => self.copy_whole(batch, &extension, kept.len() as u64),
            _ => self.copy_part(batch, &extension, &body, &kept),
        };
        self.kept = kept;
        copied
    }

    /// What cannot be looked into stays as it is.
    fn copy_newer(&mut self, batch: &Sound<'_>) -> Result<()> {
        let extension = batch.extension().unwrap_or_default();
        let records = batch.header.dense_count().unwrap_or(0);
        self.copy_whole(batch, &extension, records)
    }

    /// The batch as it is, in its new place.
    fn copy_whole(&mut self, batch: &Sound<'_>, ext: &Extension, records: u64) -> Result<()> {
        self.end_pack()?;
        let at = self.len();
        let base_delta = self.delta(batch.first)?;
        let from = self.piece.len();
        self.piece.extend_from_slice(batch.bytes);
        let seed = Seed::new(self.segment.header.salt, at);
        let header_crc = batch::move_to(&mut self.piece[from..], base_delta, seed)
            .expect("a sound batch has a whole header");
        let header = BatchHeader {
            base_delta,
            ..batch.header
        };
        self.accumulator.add(
            records,
            header.body_crc,
            header_crc,
            header.append_ms as i64,
            ext.max_event_time,
            header.has_append_times(),
        );
        self.note(&header, at)
    }

    /// Those of its records that are kept, under its time and extension, each at its offset.
    fn copy_part(
        &mut self,
        batch: &Sound<'_>,
        extension: &Extension,
        body: &[u8],
        kept: &[bool],
    ) -> Result<()> {
        self.end_pack()?;
        self.encoder.start_sparse();
        self.encoder.extend(|copy| {
            *copy = Extension {
                uncompressed_len: None, // of what is kept, as its times are
                max_event_time: None,
                ..*extension
            };
        });
        push_kept(&mut self.encoder, &batch.header, body, kept, 0);
        self.put(batch.first, batch.header.append_ms, batch.header.codec)
    }

    /// Those of its records that are kept, in the batch that is being packed.
    fn pack(&mut self, batch: &Sound<'_>, body: &[u8], kept: &[bool]) -> Result<()> {
        if self.encoder.body_len() + body.len() > PACK_BYTES {
            self.end_pack()?;
        }
        let first = match &mut self.pack {
            Some(pack) => {
                pack.append_ms = batch.header.append_ms;
                pack.first
            }
            none => {
                self.encoder.start_sparse();
                none.insert(Pack {
                    first: batch.first,
                    append_ms: batch.header.append_ms,
                })
                .first
            }
        };
        let shift = u32::try_from(batch.first - first).map_err(|_| too_far())?;
        push_kept(&mut self.encoder, &batch.header, body, kept, shift);
        Ok(())
    }

    fn end_pack(&mut self) -> Result<()> {
        match self.pack.take() {
            Some(Pack { first, append_ms }) => self.put(first, append_ms, Codec::None),
            None => Ok(()),
        }
    }

    /// The batch in the encoder.
    fn put(&mut self, first: u64, append_ms: u64, codec: Codec) -> Result<()> {
        let at = self.len();
        let finished = self.encoder.finish(codec);
        finished.map_err(|large| Error::LimitExceeded {
            setting: "max_batch_bytes",
            limit: large.limit,
        })?;
        let place = Place {
            salt: self.segment.header.salt,
            position: at,
            base_delta: self.delta(first)?,
            watermark_back: NO_WATERMARK,
            append_ms,
        };
        self.piece.extend_from_slice(self.encoder.place(place));
        let header = *self.encoder.placed();
        self.accumulator.add(
            u64::from(self.encoder.count()),
            header.body_crc,
            self.encoder.header_crc(),
            append_ms as i64,
            self.encoder.max_event_time(),
            self.encoder.has_append_times(),
        );
        self.encoder.start(); // what it holds is not counted twice
        self.note(&header, at)
    }

    fn note(&mut self, header: &BatchHeader, at: u64) -> Result<()> {
        let every = u64::from(self.making.index_interval);
        if self.indexed_at.is_none_or(|last| at - last >= every) {
            self.indexed_at = Some(at);
            let place = scan::place(header, at, self.accumulator.times());
            self.segment.note_place(place);
        }
        if self.piece.len() >= PIECE {
            self.write()?;
        }
        Ok(())
    }

    fn delta(&self, first: u64) -> Result<u32> {
        u32::try_from(first - self.segment.base()).map_err(|_| too_far())
    }

    fn write(&mut self) -> Result<()> {
        write_full(&*self.file, &self.piece, self.written)
            .map_err(|e| Error::io("write", self.segment.path(), e))?;
        let wrote = self.piece.len() as u64;
        self.written += wrote;
        self.piece.clear();
        if self.pace.wrote(wrote) {
            self.end_sync()?;
            self.pace.pause();
            self.syncing = Some(self.making.ground.storage.sync_behind(&self.file));
        }
        Ok(())
    }

    fn end_sync(&mut self) -> Result<()> {
        let synced = self.syncing.take().map_or(Ok(()), Syncing::wait);
        synced.map_err(|e| Error::failed_sync(self.segment.path(), e))
    }

    /// Ends the file, which takes the place of `run`, and syncs it. (Its name is not durable before its directory is synced.)
    pub(crate) fn finish(mut self, run: &[Arc<Segment>]) -> Result<Segment> {
        self.end_pack()?;
        let mut seals = run.iter().filter_map(|segment| segment.seal());
        let footer = Footer {
            last: seals.clone().rev().find_map(|seal| seal.footer.last),
            next_base: seals
                .next_back()
                .map_or(self.segment.base(), |seal| seal.footer.next_base),
            sparse: true,
            accumulator: self.accumulator.sum(),
            position: self.len(),
        };
        let salt = self.segment.header.salt;
        self.piece.extend_from_slice(&footer.encode(salt));
        self.write()?;
        self.end_sync()?;
        let path = self.segment.path();
        self.file
            .sync_all()
            .map_err(|e| Error::failed_sync(path, e))?;
        let data_end = footer.position;
        self.segment.set_seal(seal_of(footer, salt));
        self.segment.save_index(self.making.ground, data_end);
        Ok(self.segment)
    }
}

fn push_kept(encoder: &mut Encoder, header: &BatchHeader, body: &[u8], kept: &[bool], shift: u32) {
    let records = body::records(header, body).filter_map(std::result::Result::ok);
    for (record, _) in records.zip(kept).filter(|(_, kept)| **kept) {
        encoder.push_copy(shift + record.delta, &record, body);
    }
}

/// Does the batch say nothing that its records do not say?
fn is_plain(extension: &Extension, header: &BatchHeader) -> bool {
    !is_more(extension, header)
        && extension.producer.is_none()
        && extension.transaction.is_none()
        && extension.delete_horizon.is_none()
}

fn too_far() -> Error {
    Error::LimitExceeded {
        setting: "offset_span",
        limit: u64::from(u32::MAX),
    }
}

/// Removes a file and its index; that they are not there is fine.
pub(crate) fn remove(ground: &Ground, path: &Path) -> io::Result<()> {
    for path in [index_beside(path), path.to_path_buf()] {
        match ground.storage.remove_file(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

/// The path of the index of the segment file at `path`.
pub(crate) fn index_beside(path: &Path) -> PathBuf {
    path.with_extension("idx")
}
