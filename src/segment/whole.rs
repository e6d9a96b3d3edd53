//! Reading a sealed segment from end to end, batch by batch, where every one of them must be right: for who rewrites it.

use std::borrow::Cow;

use super::read::{Flaw, check};
use super::stream::Stream;
use super::{Damage, Ground, Seal, Segment, Why, scan};
use crate::error::{Error, Result};
use crate::format::Bad;
use crate::format::batch::{self, BatchHeader, HEADER_LEN, MAX_BATCH_BYTES};
use crate::format::body;
use crate::format::compress::{self, Codec};
use crate::format::extension::{Extension, MAX_EXTENSION_LEN};
use crate::format::wire::Seed;

/// A record that may be kept or left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate<'b> {
    pub(crate) offset: u64,
    pub(crate) key: Option<&'b [u8]>,
    /// It has no value.
    pub(crate) tombstone: bool,
    /// When the tombstones of its batch may go, in milliseconds since the epoch, if that was told.
    pub(crate) horizon: Option<i64>,
    /// Its batch says something that a new one would not: it stays whole, as long as any of it is wanted.
    pub(crate) fixed: bool,
}

/// Calls `each` for every record of a sealed segment, but for batches that end before the next offset that is `wanted`: it is asked for the
/// first one from an offset on.
///
/// # Errors
///
/// `Corruption`, `Incompatible` or `Io` at the first batch that cannot be read, with the offsets that cannot: what it holds is
/// not known, so nothing may be left out on the strength of the others.
pub(crate) fn each_record(
    ground: &Ground,
    segment: &Segment,
    wanted: impl FnMut(u64) -> u64,
    mut each: impl FnMut(Candidate<'_>),
) -> Result<()> {
    each_batch(ground, segment, wanted, |batch| {
        let body = batch.body().map_err(|bad| batch.lost(segment, bad))?;
        let extension = batch.extension().map_err(|bad| batch.lost(segment, bad))?;
        let of_batch = batch.of_all(&extension);
        for record in body::records(&batch.header, &body) {
            let record = record.map_err(|bad| batch.lost(segment, bad))?;
            each(batch.candidate(&record, &body, of_batch));
        }
        Ok(())
    })
}

/// A record batch that passed its checksums.
pub(super) struct Sound<'b> {
    pub(super) header: BatchHeader,
    /// First offset.
    pub(super) first: u64,
    /// Of the file.
    position: u64,
    pub(super) bytes: &'b [u8],
    /// A newer version wrote it: its boundary is known, and no more.
    newer: Option<Bad>,
}

impl Sound<'_> {
    pub(super) fn extension(&self) -> Result<Extension, Bad> {
        let ext = self.bytes.get(HEADER_LEN..self.header.body_start());
        Extension::decode(ext.unwrap_or_default())
    }

    /// The body without its compression; `Newer` if it cannot be looked into.
    pub(super) fn body(&self) -> Result<Cow<'_, [u8]>, Bad> {
        if let Some(newer) = self.newer {
            return Err(newer);
        }
        let stored = self
            .bytes
            .get(self.header.body_start()..)
            .unwrap_or_default();
        if self.header.codec == Codec::None {
            return Ok(Cow::Borrowed(stored));
        }
        let len = self.extension()?.uncompressed_len.ok_or(Bad::Corrupt)?;
        compress::decompress(self.header.codec, stored, len, u64::from(MAX_BATCH_BYTES))
            .map(Cow::Owned)
    }

    /// Last offset.
    pub(super) fn last(&self) -> u64 {
        self.first + u64::from(self.header.last_delta)
    }

    /// What is the same for all of its records.
    pub(super) fn of_all(&self, extension: &Extension) -> Candidate<'static> {
        Candidate {
            offset: self.first,
            key: None,
            tombstone: false,
            horizon: extension.delete_horizon,
            fixed: is_more(extension, &self.header),
        }
    }

    pub(super) fn candidate<'r>(
        &self,
        record: &body::RawRecord,
        body: &'r [u8],
        of_all: Candidate<'static>,
    ) -> Candidate<'r> {
        Candidate {
            offset: self.first + u64::from(record.delta),
            key: record.key.of(body),
            tombstone: record.value.of(body).is_none(),
            ..of_all
        }
    }

    pub(super) fn lost(&self, segment: &Segment, bad: Bad) -> Error {
        segment.damage_error(Damage {
            why: why(bad),
            byte: self.position,
            lost: self.first..self.last() + 1,
            resume: None,
        })
    }
}

/// Does the batch say something that a new header would not?
pub(super) fn is_more(extension: &Extension, header: &BatchHeader) -> bool {
    extension.encoded_len() != usize::from(header.ext_len)
        || header.optional & !batch::MIXED_TIMES != 0
}

fn why(bad: Bad) -> Why {
    match bad {
        Bad::Newer { found, supported } => Why::Newer { found, supported },
        Bad::Short { .. } | Bad::Corrupt => Why::Corrupt,
    }
}

/// Calls `each` for every batch of a sealed segment, all of which must be sound and in order, up to its footer; but for those that end
/// before the next offset that is `wanted`. Of these at most the header is read.
pub(super) fn each_batch(
    ground: &Ground,
    segment: &Segment,
    mut wanted: impl FnMut(u64) -> u64,
    mut each: impl FnMut(&Sound<'_>) -> Result<()>,
) -> Result<()> {
    let seal = segment.seal().expect("only sealed segments are rewritten");
    let io = |e| Error::io("read", segment.path(), e);
    let file = ground.handles.file(&segment.handle).map_err(io)?;
    let mut stream = Stream::reading_on(ground, &file, seal.data_end);
    let mut way = Way {
        segment,
        seal,
        at: segment.header_len,
        next: segment.base(),
        end: seal.footer.last.map_or(segment.base(), |last| last + 1),
    };
    while way.at < seal.data_end {
        let wanted = wanted(way.next);
        if wanted >= way.end && wanted > way.next {
            return Ok(());
        }
        if wanted > way.next && way.pass_over(ground, &mut stream, wanted)? {
            continue;
        }
        let seed = Seed::new(segment.header.salt, way.at);
        let front = stream.at(way.at, HEADER_LEN).map_err(io)?;
        let total = batch::hop(front).map_or(HEADER_LEN as u64, |(_, _, total)| total);
        let total = total.min(seal.data_end - way.at) as usize;
        let bytes = stream.at(way.at, total).map_err(io)?;
        let (header, newer) = checked(bytes, seed).map_err(|flaw| match flaw {
            Flaw::Body(_, why) | Flaw::Header(why) => way.damaged(why),
            Flaw::Short(_) => way.damaged(Why::Corrupt),
        })?;
        let behind = way.behind(&header);
        let behind = behind.ok_or_else(|| way.damaged(Why::Corrupt))?;
        each(&Sound {
            header,
            first: behind - 1 - u64::from(header.last_delta),
            position: way.at,
            bytes: bytes.get(..total).unwrap_or_default(),
            newer,
        })?;
        way.go_on(&header, behind);
    }
    if way.at != seal.data_end || !seal.footer.sparse && way.next != way.end {
        return Err(way.damaged(Why::Corrupt));
    }
    Ok(())
}

/// Bytes of a batch that its header is in.
const FRONT: usize = HEADER_LEN + MAX_EXTENSION_LEN;

/// How far a segment was read.
struct Way<'s> {
    segment: &'s Segment,
    seal: &'s Seal,
    at: u64,
    /// The offset that comes next, or where a later one may come, the least.
    next: u64,
    /// The offset after the last.
    end: u64,
}

impl Way<'_> {
    /// The offset behind this batch, if it may come next.
    fn behind(&self, header: &BatchHeader) -> Option<u64> {
        let first = self.segment.base() + u64::from(header.base_delta);
        let behind = first + u64::from(header.last_delta) + 1;
        let in_order = first == self.next || self.seal.footer.sparse && first > self.next;
        let fits = header.total_len() <= self.seal.data_end - self.at;
        (in_order && fits && behind <= self.end).then_some(behind)
    }

    /// Goes on towards an offset, as far as nothing of it need be looked into. `false`: the next batch must be.
    fn pass_over(&mut self, ground: &Ground, stream: &mut Stream<'_>, wanted: u64) -> Result<bool> {
        let io = |e| Error::io("read", self.segment.path(), e);
        let place = self.segment.floor_place(ground, wanted)?;
        if let Some((first, position)) = place.filter(|&(_, position)| position > self.at) {
            stream.leap();
            let header = self.header(stream.at(position, FRONT).map_err(io)?, position);
            let delta = header.map(|header| u64::from(header.base_delta));
            if delta.is_some_and(|delta| self.segment.base() + delta == first) {
                (self.next, self.at) = (first, position);
                return Ok(true);
            }
            self.segment.forget_index(); // a cache that is wrong
        }
        let header = self.header(stream.at(self.at, FRONT).map_err(io)?, self.at);
        let behind = header.and_then(|header| Some((header, self.behind(&header)?)));
        let Some((header, behind)) = behind.filter(|&(_, behind)| behind <= wanted) else {
            return Ok(false);
        };
        self.go_on(&header, behind);
        Ok(true)
    }

    /// The header of a batch at this position.
    fn header(&self, front: &[u8], position: u64) -> Option<BatchHeader> {
        BatchHeader::decode(front, Seed::new(self.segment.header.salt, position)).ok()
    }

    fn go_on(&mut self, header: &BatchHeader, behind: u64) {
        self.next = behind;
        self.at += header.total_len();
    }

    fn damaged(&self, why: Why) -> Error {
        self.segment.damage_error(Damage {
            why,
            byte: self.at,
            lost: self.next..self.end.max(self.next + 1),
            resume: None,
        })
    }
}

/// The header of a sound batch, and whether a newer version wrote it.
fn checked(bytes: &[u8], seed: Seed) -> std::result::Result<(BatchHeader, Option<Bad>), Flaw> {
    match check(bytes, seed) {
        Err(Flaw::Body(_, Why::Newer { found, supported })) => {
            let header = scan::sound(bytes, seed)?;
            Ok((header, Some(Bad::Newer { found, supported })))
        }
        other => other.map(|header| (header, None)),
    }
}
