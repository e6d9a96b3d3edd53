//! Reading a sealed segment from end to end, batch by batch, where every one of them must be right: for who rewrites it.

use std::borrow::Cow;

use super::read::{Flaw, check};
use super::{Damage, Ground, Segment, Why, scan};
use crate::error::{Error, Result};
use crate::format::Bad;
use crate::format::batch::{self, BatchHeader, HEADER_LEN, MAX_BATCH_BYTES};
use crate::format::body;
use crate::format::compress::{self, Codec};
use crate::format::extension::Extension;
use crate::format::wire::Seed;

/// A record that may be kept or left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate<'b> {
    pub(crate) offset: u64,
    pub(crate) key: Option<&'b [u8]>,
    /// It has no value.
    pub(crate) tombstone: bool,
}

/// Calls `each` for every record of a sealed segment.
///
/// # Errors
///
/// `Corruption`, `Incompatible` or `Io` at the first batch that cannot be read, with the offsets that cannot: what it holds is
/// not known, so nothing may be left out on the strength of the others.
pub(crate) fn each_record(
    ground: &Ground,
    segment: &Segment,
    mut each: impl FnMut(Candidate<'_>),
) -> Result<()> {
    each_batch(ground, segment, |batch| {
        let body = batch.body().map_err(|bad| batch.lost(segment, bad))?;
        for record in body::records(&batch.header, &body) {
            let record = record.map_err(|bad| batch.lost(segment, bad))?;
            each(batch.candidate(&record, &body));
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

    pub(super) fn candidate<'r>(&self, record: &body::RawRecord, body: &'r [u8]) -> Candidate<'r> {
        Candidate {
            offset: self.first + u64::from(record.delta),
            key: record.key.of(body),
            tombstone: record.value.of(body).is_none(),
        }
    }

    pub(super) fn lost(&self, segment: &Segment, bad: Bad) -> Error {
        segment.damage_error(Damage {
            why: why(bad),
            byte: self.position,
            lost: self.first..self.first + u64::from(self.header.last_delta) + 1,
            resume: None,
        })
    }
}

fn why(bad: Bad) -> Why {
    match bad {
        Bad::Newer { found, supported } => Why::Newer { found, supported },
        Bad::Short { .. } | Bad::Corrupt => Why::Corrupt,
    }
}

/// Calls `each` for every batch of a sealed segment, all of which must be sound and in order, up to its footer.
pub(super) fn each_batch(
    ground: &Ground,
    segment: &Segment,
    mut each: impl FnMut(&Sound<'_>) -> Result<()>,
) -> Result<()> {
    let seal = segment.seal().expect("only sealed segments are rewritten");
    let io = |e| Error::io("read", segment.path(), e);
    let file = ground.handles.file(&segment.handle).map_err(io)?;
    let mut stream = scan::Stream::new(&*file, seal.data_end);
    let (mut at, mut next) = (segment.header_len, segment.base());
    let end = seal.footer.last.map_or(segment.base(), |last| last + 1);
    let damage = |byte, lost, why| {
        segment.damage_error(Damage {
            why,
            byte,
            lost,
            resume: None,
        })
    };
    while at < seal.data_end {
        let left = seal.data_end - at;
        let fixed = stream.at(at, HEADER_LEN).map_err(io)?;
        let total = batch::hop(fixed).map_or(HEADER_LEN as u64, |(_, _, total)| total);
        let bytes = stream.at(at, total.min(left) as usize).map_err(io)?;
        let (header, newer) = match checked(bytes, Seed::new(segment.header.salt, at)) {
            Ok(checked) => checked,
            Err(Flaw::Body(_, why) | Flaw::Header(why)) => {
                return Err(damage(at, next..end.max(next + 1), why));
            }
            Err(Flaw::Short(_)) => {
                return Err(damage(at, next..end.max(next + 1), Why::Corrupt));
            }
        };
        let first = segment.base() + u64::from(header.base_delta);
        let behind = first + u64::from(header.last_delta) + 1;
        let in_order = first == next || seal.footer.sparse && first > next;
        if !in_order || behind > end {
            return Err(damage(at, next..end.max(next + 1), Why::Corrupt));
        }
        each(&Sound {
            header,
            first,
            position: at,
            bytes: bytes.get(..total as usize).unwrap_or_default(),
            newer,
        })?;
        next = behind;
        at += total;
    }
    if at != seal.data_end || !seal.footer.sparse && next != end {
        return Err(damage(at, next..end.max(next + 1), Why::Corrupt));
    }
    Ok(())
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
