//! From a place in a segment to a chunk of checked record batches: one read, one checksum per batch, no copy.
//!
//! Nothing leaves this file before its batch passed header checksum, body checksum and structure on this very read. Of bytes that
//! the writer has put into memory itself ([`Origin::Writer`]) the header alone is checked: that they belong here. A place that is
//! not right is a [`Damage`] with the offsets that it takes away and the place where reading can go on.

use std::ops::Range;
use std::sync::Arc;

use super::chunk::{Chunk, ChunkOf};
use super::guess::Guess;
use super::scan;
use super::spare::Spares;
use super::tail::Tail;
use super::window::{Origin, Window};
use super::{Damage, Ground, Segment, Why};
use crate::entry::Block;
use crate::format::Bad;
use crate::format::batch::{self, BatchHeader, MAX_BATCH_BYTES};
use crate::format::body;
use crate::format::compress::{self, Codec};
use crate::format::extension::Extension;
use crate::format::wire::Seed;

/// Bytes that one read takes from a file at once: large enough to make the call cheap, small enough to stay in the cache.
pub(crate) const WINDOW: usize = 128 * 1024;

/// What to read.
#[derive(Clone, Copy)]
pub(crate) struct Want {
    /// First offset that is wanted.
    pub(crate) offset: u64,
    /// Where a batch begins that holds it, or one before that.
    pub(crate) position: u64,
    /// An index says so. Where offsets are missing this must be seen to be true, or a wrong index would skip records.
    pub(crate) by_index: bool,
    /// First offset that is not wanted: the visible end, or the end of a range.
    pub(crate) end: u64,
    /// How many bytes to take at once, if the first batch is not larger.
    pub(crate) bytes: usize,
}

/// What a read gave.
pub(crate) struct Got {
    pub(crate) chunk: Chunk,
    /// Where the batch behind the chunk begins.
    pub(crate) position: u64,
}

/// Why a record batch cannot be used.
#[derive(Debug)]
pub(crate) enum Flaw {
    /// At least so many bytes are needed from its beginning on.
    Short(usize),
    Header(Why),
    /// The header is sound, so that the boundary is known.
    Body(BatchHeader, Why),
}

/// Checks the record batch at the start of `bytes`: header, bounds and body sum. (Not the structure of the body.)
pub(crate) fn check(bytes: &[u8], seed: Seed) -> Result<BatchHeader, Flaw> {
    check_as(Origin::File, bytes, seed).map(|(header, _)| header)
}

/// As [`check`], for bytes that come from there; gives the body as stored too.
fn check_as(origin: Origin, bytes: &[u8], seed: Seed) -> Result<(BatchHeader, &[u8]), Flaw> {
    let header = BatchHeader::decode(bytes, seed).map_err(|bad| match bad {
        Bad::Short { needed } => Flaw::Short(needed),
        Bad::Corrupt => Flaw::Header(Why::Corrupt),
        Bad::Newer { found, supported } => match BatchHeader::fields(bytes) {
            Some(header) => Flaw::Body(header, Why::Newer { found, supported }),
            None => Flaw::Header(Why::Newer { found, supported }),
        },
    })?;
    let total = header.total_len() as usize;
    let Some(body) = bytes.get(header.body_start()..total) else {
        return Err(Flaw::Short(total));
    };
    let sum_holds = origin == Origin::Writer
        || planted!(CRC_NOT_CHECKED)
        || body::check_body_crc(&header, body);
    if !sum_holds {
        return Err(Flaw::Body(header, Why::Corrupt));
    }
    Ok((header, body))
}

/// Reads what is wanted, into one of these blocks if one is free; `None` if nothing from there on is left in a segment without
/// some of its records.
pub(crate) fn read(
    ground: &Ground,
    segment: &Segment,
    tail: Option<&Tail>,
    want: &Want,
    spares: Option<&Spares>,
) -> Result<Option<Got>, Damage> {
    let ask = want.bytes.max(batch::HEADER_LEN);
    let by_index = want.by_index;
    let mut bytes = ask;
    let mut want = *want;
    let mut hop = true;
    // Where the way begins, and whether any of it was taken on trust.
    let first = want.position;
    let (mut start, mut trusted) = (first, false);
    loop {
        let want = &mut want;
        let window = Window::take(ground, segment, tail, want.position, bytes, spares)
            .map_err(|why| lost_window(segment, want, bytes, why))?;
        let walk = walk(segment, want, window.bytes(), window.origin, hop);
        match walk.stop {
            _ if !walk.whole.is_empty() => return Ok(Some(got(segment, want, window, &walk))),
            Stop::Unpack(header) => {
                return unpacked(segment, want, window.bytes(), walk.whole.end, header).map(Some);
            }
            // It lies further on: what was passed over is not read again.
            Stop::Flaw(Flaw::Short(needed)) if window.full && needed <= MAX_NEED => {
                trusted |= walk.hopped;
                want.by_index &= walk.whole.end == 0;
                want.position += walk.whole.end as u64;
                bytes = needed.max(ask);
            }
            // The way there was taken on trust: take it again, step by step, before anything is called damaged.
            Stop::Flaw(_) if walk.hopped || trusted => {
                (hop, trusted) = (false, false);
                (want.position, bytes) = (start, ask);
                want.by_index = by_index && start == first;
            }
            Stop::Flaw(Flaw::Short(_)) if is_end(segment, want, walk.whole.end) => return Ok(None),
            Stop::Flaw(Flaw::Body(header, why)) => {
                return Err(lost_batch(segment, want, walk.whole.end, header, why));
            }
            Stop::Flaw(flaw) => match lost_way(ground, segment, want, walk.whole.end, flaw) {
                // What is wanted lies behind the place that is not right.
                Damage {
                    resume: Some(behind),
                    lost,
                    ..
                } if lost.is_empty() => {
                    (want.position, want.by_index) = (behind, false);
                    (start, bytes, hop) = (behind, ask, true);
                }
                damage => return Err(damage),
            },
            Stop::Enough => {
                let flaw = Flaw::Header(Why::Corrupt);
                return Err(lost_way(ground, segment, want, walk.whole.end, flaw));
            }
        }
    }
}

/// Do the batches of a segment without some of its records end here?
fn is_end(segment: &Segment, want: &Want, at: usize) -> bool {
    let end = want.position + at as u64;
    segment
        .seal()
        .is_some_and(|seal| seal.footer.sparse && seal.data_end == end)
}

/// Looks for one offset at a place that was guessed. `None` says nothing but that it was not found there.
pub(crate) fn read_guessed(
    ground: &Ground,
    segment: &Segment,
    tail: Option<&Tail>,
    (guess, offset): (Guess, u64),
    spares: Option<&Spares>,
) -> Option<Got> {
    if segment.seal().is_some_and(|seal| seal.footer.sparse) {
        return None; // there, a batch behind the wanted record may be taken for one that holds it
    }
    let mut want = Want {
        offset,
        position: guess.position,
        by_index: false,
        end: offset + 1,
        bytes: guess.bytes,
    };
    let window = Window::take(ground, segment, tail, want.position, want.bytes, spares).ok()?;
    let at = first_batch(segment, &want, window.bytes())?;
    want.position += at as u64;
    let bytes = window.bytes().get(at..)?;
    let mut walk = walk(segment, &want, bytes, Origin::File, true); // a place that was guessed is no evidence
    if walk.whole.is_empty() {
        return None;
    }
    want.position -= at as u64;
    walk.whole = walk.whole.start + at..walk.whole.end + at;
    Some(got(segment, &want, window, &walk))
}

/// Where the first header begins, if its batch can hold the offset or lie before it.
fn first_batch(segment: &Segment, want: &Want, bytes: &[u8]) -> Option<usize> {
    let sync = batch::SYNC.to_le_bytes();
    if bytes.starts_with(&sync) {
        return Some(0); // guessed to the byte: it is checked where it is read
    }
    let mut at = 0;
    loop {
        let rest = bytes.get(at..)?;
        at += rest.windows(sync.len()).position(|pair| pair == sync)?;
        let seed = Seed::new(segment.header.salt, want.position + at as u64);
        if let Ok(header) = BatchHeader::decode(&bytes[at..], seed) {
            return (offsets(segment, &header).0 <= want.offset).then_some(at);
        }
        at += 1;
    }
}

/// More than any sound batch needs.
const MAX_NEED: usize = MAX_BATCH_BYTES as usize + (1 << 17);

/// How far a window was understood.
struct Walk {
    /// The batches that can be given out; the batch that stopped the walk begins at its end.
    whole: Range<usize>,
    /// The offset after `whole`.
    next: u64,
    stop: Stop,
    /// Batches before the wanted one were passed over by their lengths alone.
    hopped: bool,
}

enum Stop {
    /// The wanted end, or a batch that must be given out alone.
    Enough,
    /// The next batch is compressed.
    Unpack(BatchHeader),
    Flaw(Flaw),
}

fn walk(segment: &Segment, want: &Want, bytes: &[u8], origin: Origin, hop: bool) -> Walk {
    let sparse = segment.seal().is_some_and(|seal| seal.footer.sparse);
    // Where offsets are missing, a header that lies about them would be passed over unseen, and its records with it.
    let (mut at, hopped) = if hop && !sparse {
        pass_over(segment, want, bytes)
    } else {
        (0, false)
    };
    let mut start = at;
    let mut next = want.offset;
    let mut found = false;
    loop {
        let stop = |stop| Walk {
            whole: start..at,
            next,
            stop,
            hopped,
        };
        if found && (next >= want.end || at - start >= want.bytes) {
            return stop(Stop::Enough);
        }
        let seed = Seed::new(segment.header.salt, want.position + at as u64);
        let (header, body) = match check_as(origin, &bytes[at..], seed) {
            Ok(checked) => checked,
            // A body that nobody wants, between here and what is wanted, or the end of a segment whose last records are gone.
            Err(Flaw::Body(header, _))
                if offsets(segment, &header).1 < want.offset
                    && at + (header.total_len() as usize) <= bytes.len() =>
            {
                at += header.total_len() as usize;
                start = at;
                continue;
            }
            Err(flaw) => return stop(Stop::Flaw(flaw)),
        };
        let (first, last) = offsets(segment, &header);
        if last < want.offset {
            at += header.total_len() as usize;
            start = at;
            continue;
        }
        let by_index = want.by_index && at == 0;
        let follows = if found {
            first == next || sparse && first > next
        } else {
            first <= next || sparse && !by_index
        };
        if !follows {
            return stop(Stop::Flaw(Flaw::Header(Why::Corrupt)));
        }
        match header.codec {
            Codec::None => {}
            _ if found => return stop(Stop::Enough),
            _ => return stop(Stop::Unpack(header)),
        }
        if origin == Origin::File
            && let Err(bad) = body::validate(&header, body)
        {
            return stop(Stop::Flaw(Flaw::Body(header, why(bad))));
        }
        found = true;
        at += header.total_len() as usize;
        next = last + 1;
    }
}

/// Finds the wanted batch by lengths alone: each step is a few loads. It is checked where it is found, so a wrong way
/// cannot give wrong data.
fn pass_over(segment: &Segment, want: &Want, bytes: &[u8]) -> (usize, bool) {
    let mut at = 0;
    while let Some((base_delta, last_delta, len)) = bytes.get(at..).and_then(batch::hop) {
        let last = segment.base() + u64::from(base_delta) + u64::from(last_delta);
        let after = usize::try_from(len)
            .ok()
            .and_then(|len| at.checked_add(len));
        match after {
            Some(after) if last < want.offset && after < bytes.len() => at = after,
            _ => break,
        }
    }
    (at, at > 0)
}

fn offsets(segment: &Segment, header: &BatchHeader) -> (u64, u64) {
    let first = segment.base() + u64::from(header.base_delta);
    (first, first + u64::from(header.last_delta))
}

fn why(bad: Bad) -> Why {
    match bad {
        Bad::Newer { found, supported } => Why::Newer { found, supported },
        Bad::Short { .. } | Bad::Corrupt => Why::Corrupt,
    }
}

fn got(segment: &Segment, want: &Want, window: Window, walk: &Walk) -> Got {
    let of = ChunkOf {
        base: segment.base(),
        timestamps: segment.timestamps,
        offsets: want.offset..walk.next.min(want.end),
    };
    let in_block = |at: usize| (window.start + at) as u32;
    let range = in_block(walk.whole.start)..in_block(walk.whole.end);
    Got {
        chunk: Chunk::stored(window.block, range, &of),
        position: want.position + walk.whole.end as u64,
    }
}

/// The body of a compressed batch in a block of its own, checked.
fn unpack(segment: &Segment, bytes: &[u8], at: usize, header: &BatchHeader) -> Result<Block, Why> {
    let bytes = &bytes[at..];
    let stored = &bytes[header.body_start()..header.total_len() as usize];
    let extension =
        Extension::decode(&bytes[batch::HEADER_LEN..header.body_start()]).map_err(why)?;
    let len = extension.uncompressed_len.ok_or(Why::Corrupt)?;
    let body =
        compress::decompress(header.codec, stored, len, u64::from(MAX_BATCH_BYTES)).map_err(why)?;
    body::validate(header, &body).map_err(why)?;
    Ok(Block::owned(segment.at.clone(), body))
}

/// A compressed batch, given out alone.
fn unpacked(
    segment: &Segment,
    want: &Want,
    stored: &[u8],
    at: usize,
    header: BatchHeader,
) -> Result<Got, Damage> {
    let block = unpack(segment, stored, at, &header)
        .map_err(|why| lost_batch(segment, want, at, header, why))?;
    let (_, last) = offsets(segment, &header);
    let of = ChunkOf {
        base: segment.base(),
        timestamps: segment.timestamps,
        offsets: want.offset..(last + 1).min(want.end),
    };
    let position = want.position + at as u64 + header.total_len();
    Ok(Got {
        chunk: Chunk::unpacked(Arc::new(block), header, &of),
        position,
    })
}

/// One batch is bad, and its boundary is known.
fn lost_batch(segment: &Segment, want: &Want, at: usize, header: BatchHeader, why: Why) -> Damage {
    let (first, last) = offsets(segment, &header);
    let byte = want.position + at as u64;
    Damage {
        why,
        byte,
        lost: first.max(want.offset)..last + 1,
        resume: Some(byte + header.total_len()),
    }
}

/// A header is bad: the next sound one behind it tells what is lost. Nothing, if the wanted offset is there or behind it.
fn lost_way(ground: &Ground, segment: &Segment, want: &Want, at: usize, flaw: Flaw) -> Damage {
    let byte = want.position + at as u64;
    let end = segment
        .seal()
        .map_or(want.end, |seal| seal.footer.next_base.min(want.end));
    let why = match flaw {
        Flaw::Header(why) | Flaw::Body(_, why) => why,
        Flaw::Short(_) => Why::Corrupt,
    };
    match scan::next_header(ground, segment, byte + 1) {
        Ok(Some((position, header))) => {
            let (first, _) = offsets(segment, &header);
            let resume = (first < end).then_some(position);
            let least = want.offset + u64::from(resume.is_none());
            Damage {
                why,
                byte,
                lost: want.offset..first.clamp(least, end.max(least)),
                resume,
            }
        }
        Ok(None) => Damage {
            why,
            byte,
            lost: want.offset..end.max(want.offset + 1),
            resume: None,
        },
        Err(e) => lost_window(segment, want, WINDOW, Why::Io(e)),
    }
}

/// The bytes could not be had at all: what lies in that stretch of the file, as the index knows it.
fn lost_window(segment: &Segment, want: &Want, bytes: usize, why: Why) -> Damage {
    let end = segment
        .seal()
        .map_or(want.end, |seal| seal.footer.next_base.min(want.end));
    let behind = segment.known_place_from(want.position + bytes as u64);
    let (offset, resume) = match behind {
        Some((offset, position)) if offset > want.offset && offset < end => {
            (offset, Some(position))
        }
        _ => (end.max(want.offset + 1), None),
    };
    Damage {
        why,
        byte: want.position,
        lost: want.offset..offset,
        resume,
    }
}
