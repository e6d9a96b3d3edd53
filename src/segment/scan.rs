//! Reading a segment file that nobody vouches for: how far it is right, and whether anything valid lies behind that.
//!
//! Three results are kept apart: bytes that are not right stop a scan, the end of the file ends it, and an I/O error is
//! returned as itself (it says nothing about the bytes).

use std::io;

use super::index::{Index, Place};
use super::read::{Flaw, check};
use super::stream::Stream;
use super::{Ground, Segment, Why};
use crate::format::accumulator::Accumulator;
use crate::format::batch::{self, BatchHeader, HEADER_LEN, SYNC};
use crate::format::body;
use crate::format::extension::Extension;
use crate::format::footer::{FOOTER_LEN, FOOTER_SYNC, Footer};
use crate::format::segment::SegmentHeader;
use crate::format::wire::Seed;
use crate::io::File;

/// Where a scan begins, and what is known of the bytes before.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) position: u64,
    pub(crate) next: u64,
    pub(crate) accumulator: Accumulator,
}

/// How far a segment file is right.
pub(crate) struct Scan {
    /// The first position that is not a valid batch, and the offset expected there.
    pub(crate) end: u64,
    pub(crate) next: u64,
    pub(crate) accumulator: Accumulator,
    /// Everything below this offset was synced before one of the batches was built (E2).
    pub(crate) durable: u64,
    pub(crate) places: Index,
    pub(crate) stop: ScanStop,
}

#[derive(Debug)]
pub(crate) enum ScanStop {
    /// The file ends here.
    End,
    /// A valid footer ends here, and the file with it.
    Sealed(Footer),
    /// What stands here needs more bytes than the file has.
    CutShort,
    /// What stands here is not a batch of this place.
    Invalid,
}

/// Reads batches from `start` on, up to the first that is not right, or `len`.
pub(crate) fn scan(
    file: &dyn File,
    header: &SegmentHeader,
    start: &Start,
    len: u64,
    every: u32,
) -> io::Result<Scan> {
    let mut stream = Stream::new(file, len);
    let mut scan = Scan {
        end: start.position,
        next: start.next,
        accumulator: start.accumulator,
        durable: 0,
        places: Index::default(),
        stop: ScanStop::End,
    };
    let mut indexed_at = None;
    while scan.end < len {
        let bytes = stream.at(scan.end, HEADER_LEN)?;
        let need = batch::hop(bytes).map_or(HEADER_LEN as u64, |(_, _, total)| total);
        let need = need.min(len - scan.end) as usize; // an unchecked length never asks for more than the file has
        let bytes = stream.at(scan.end, need)?;
        let batch = match sound(bytes, Seed::new(header.salt, scan.end)) {
            Ok(batch) if header.base + u64::from(batch.base_delta) == scan.next => batch,
            Ok(_) => return Ok(stopped(scan, ScanStop::Invalid)),
            Err(flaw) => {
                let stop = stop_at(&mut stream, header, scan.end, len, &flaw)?;
                return Ok(stopped(scan, stop));
            }
        };
        let at = scan.end;
        scan.take(header, &batch, bytes);
        if indexed_at.is_none_or(|last| at - last >= u64::from(every)) {
            indexed_at = Some(at);
            scan.places.push(place(&batch, at, &scan.accumulator));
        }
    }
    Ok(scan)
}

fn stopped(mut scan: Scan, stop: ScanStop) -> Scan {
    scan.stop = stop;
    scan
}

impl Scan {
    fn take(&mut self, header: &SegmentHeader, batch: &BatchHeader, bytes: &[u8]) {
        let first = header.base + u64::from(batch.base_delta);
        if batch.watermark_back != batch::NO_WATERMARK {
            self.durable = self
                .durable
                .max(first.saturating_sub(u64::from(batch.watermark_back)));
        }
        count_in(&mut self.accumulator, batch, bytes);
        self.next = first + u64::from(batch.last_delta) + 1;
        self.end += batch.total_len();
    }
}

/// An index entry for the batch at `position`; `through` counts it in.
pub(crate) fn place(batch: &BatchHeader, position: u64, through: &Accumulator) -> Place {
    Place {
        delta: batch.base_delta,
        position: u32::try_from(position).unwrap_or(u32::MAX),
        append_ms: through.last_append,
        max_time: through.last_append.max(through.max_event),
    }
}

/// Counts in the batch at the start of `bytes`.
fn count_in(accumulator: &mut Accumulator, batch: &BatchHeader, bytes: &[u8]) {
    let ext = bytes
        .get(HEADER_LEN..batch.body_start())
        .and_then(|ext| Extension::decode(ext).ok());
    let body = bytes.get(batch.body_start()..).unwrap_or_default();
    let records = batch
        .dense_count()
        .or_else(|| body::count(batch, body).ok())
        .unwrap_or(0);
    accumulator.add(
        records,
        batch.body_crc,
        batch::stored_header_crc(bytes).unwrap_or(0),
        batch.append_ms as i64,
        ext.and_then(|ext| ext.max_event_time),
        batch.has_append_times(),
    );
}

/// A batch that is sound, though perhaps too new to be read.
pub(crate) fn sound(bytes: &[u8], seed: Seed) -> Result<BatchHeader, Flaw> {
    match check(bytes, seed) {
        Err(Flaw::Body(header, Why::Newer { .. })) => {
            let total = header.total_len() as usize;
            let body = bytes
                .get(header.body_start()..total)
                .ok_or(Flaw::Short(total))?;
            let sound = body::check_body_crc(&header, body);
            if sound {
                Ok(header)
            } else {
                Err(Flaw::Body(header, Why::Corrupt))
            }
        }
        checked => checked,
    }
}

/// What stands at a place that is not a valid batch.
fn stop_at(
    stream: &mut Stream<'_>,
    header: &SegmentHeader,
    at: u64,
    len: u64,
    flaw: &Flaw,
) -> io::Result<ScanStop> {
    let bytes = stream.at(at, FOOTER_LEN)?;
    let footer = Footer::decode(bytes, header.salt, at);
    Ok(match footer {
        Ok(footer) if at + FOOTER_LEN as u64 == len => ScanStop::Sealed(footer),
        Err(_) if matches!(flaw, Flaw::Short(_)) || footer_cut_short(bytes) => ScanStop::CutShort,
        Ok(_) | Err(_) => ScanStop::Invalid,
    })
}

/// The beginning of a footer, ended by the end of the file.
fn footer_cut_short(bytes: &[u8]) -> bool {
    bytes.len() < FOOTER_LEN && bytes.starts_with(&FOOTER_SYNC.to_le_bytes())
}

/// The next valid batch (body included) of this segment at or behind `from`, and the first offset in it.
pub(crate) fn next_batch(
    file: &dyn File,
    header: &SegmentHeader,
    from: u64,
    len: u64,
) -> io::Result<Option<(u64, BatchHeader)>> {
    let mut from = from;
    while let Some((position, batch)) = search(file, header, from, len)? {
        let mut stream = Stream::new(file, len);
        let total = usize::try_from(batch.total_len()).unwrap_or(usize::MAX);
        let bytes = stream.at(position, total)?;
        if sound(bytes, Seed::new(header.salt, position)).is_ok() {
            return Ok(Some((position, batch)));
        }
        from = position + 1;
    }
    Ok(None)
}

/// As [`next_batch`], but the header alone must be sound: where a damaged stretch ends for a reader.
pub(crate) fn next_header(
    ground: &Ground,
    segment: &Segment,
    from: u64,
) -> io::Result<Option<(u64, BatchHeader)>> {
    let file = ground.handles.file(&segment.handle)?;
    let len = match segment.seal() {
        Some(seal) => seal.data_end,
        None => file.len()?,
    };
    search(&*file, &segment.header, from, len)
}

/// Tries every byte that looks like the beginning of a batch.
fn search(
    file: &dyn File,
    header: &SegmentHeader,
    from: u64,
    len: u64,
) -> io::Result<Option<(u64, BatchHeader)>> {
    let mut stream = Stream::new(file, len);
    let sync = SYNC.to_le_bytes();
    let mut at = from;
    while at + HEADER_LEN as u64 <= len {
        let bytes = stream.at(at, HEADER_LEN + 255)?;
        if bytes.len() < HEADER_LEN {
            break; // somebody has cut the file
        }
        match bytes.windows(2).position(|pair| pair == sync) {
            Some(0) => {}
            Some(skip) => {
                at += skip as u64;
                continue;
            }
            None => {
                at += bytes.len().saturating_sub(1).max(1) as u64;
                continue;
            }
        }
        let need = HEADER_LEN
            + bytes
                .get(HEADER_LEN - 2..HEADER_LEN)
                .map_or(0, |len| usize::from(len[0]) | usize::from(len[1]) << 8);
        let bytes = stream.at(at, need)?;
        if let Some(batch) = sound_header(bytes, Seed::new(header.salt, at)) {
            return Ok(Some((at, batch)));
        }
        at += 1;
    }
    Ok(None)
}

fn sound_header(bytes: &[u8], seed: Seed) -> Option<BatchHeader> {
    match BatchHeader::decode(bytes, seed) {
        Ok(header) => Some(header),
        Err(crate::format::Bad::Newer { .. }) => BatchHeader::fields(bytes),
        Err(_) => None,
    }
}

/// The index of everything below byte `stop`, from the batches themselves. It ends early at a place that is not right.
pub(crate) fn index_below(ground: &Ground, segment: &Segment, stop: u64) -> io::Result<Index> {
    let file = ground.handles.file(&segment.handle)?;
    let start = Start {
        position: segment.header_len,
        next: segment.base(),
        accumulator: Accumulator::default(),
    };
    let mut stream = Stream::new(&*file, stop);
    let mut index = Index::default();
    let mut accumulator = start.accumulator;
    let mut at = start.position;
    let mut indexed_at = None;
    while at < stop {
        let bytes = stream.at(at, HEADER_LEN + usize::from(u16::MAX))?;
        let Some(batch) = sound_header(bytes, Seed::new(segment.header.salt, at)) else {
            match search(&*file, &segment.header, at + 1, stop)? {
                Some((position, _)) => at = position,
                None => break,
            }
            continue;
        };
        count_in(&mut accumulator, &batch, bytes);
        if indexed_at.is_none_or(|last| at - last >= INDEX_EVERY) {
            indexed_at = Some(at);
            index.push(place(&batch, at, &accumulator));
        }
        at += batch.total_len();
    }
    Ok(index)
}

/// Distance of the entries of an index that is made again.
const INDEX_EVERY: u64 = 4096;
