//! Checked record batches of one segment, in one block of memory, and the records in them.

use std::ops::Range;
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::entry::{Block, TimestampType, View};
use crate::format::batch::BatchHeader;
use crate::format::body::{self, RawRecord, Records};
use crate::offset::{Offset, TopicPartition};

/// What one read gave: batches that passed every check, all in one block. A clone is one counter.
///
/// It may begin and end inside a record batch: only the offsets `first .. end` belong to it.
#[derive(Clone)]
pub(crate) struct Chunk {
    block: Arc<Block>,
    /// Base offset of the segment.
    base: u64,
    timestamps: TimestampType,
    shape: Shape,
    first: u64,
    end: u64,
    records: usize,
}

/// How the batches lie in the block.
#[derive(Clone)]
enum Shape {
    /// As in the file, headers included.
    Stored(Range<u32>),
    /// The block is the uncompressed body of one batch.
    Unpacked(BatchHeader),
}

impl Chunk {
    pub(crate) fn stored(block: Arc<Block>, bytes: Range<u32>, of: &ChunkOf) -> Chunk {
        Chunk::new(block, Shape::Stored(bytes), of)
    }

    pub(crate) fn unpacked(block: Arc<Block>, header: BatchHeader, of: &ChunkOf) -> Chunk {
        Chunk::new(block, Shape::Unpacked(header), of)
    }

    fn new(block: Arc<Block>, shape: Shape, of: &ChunkOf) -> Chunk {
        let mut chunk = Chunk {
            block,
            base: of.base,
            timestamps: of.timestamps,
            shape,
            first: of.offsets.start,
            end: of.offsets.end,
            records: 0,
        };
        chunk.records = chunk.count();
        chunk
    }

    fn count(&self) -> usize {
        let mut records = 0;
        for (header, body) in self.batches() {
            let first = self.base + u64::from(header.base_delta);
            let last = first + u64::from(header.last_delta);
            records += if header.sparse {
                self.views_of(header, body).count()
            } else {
                (last + 1)
                    .min(self.end)
                    .saturating_sub(first.max(self.first)) as usize
            };
        }
        records
    }

    /// Number of records.
    pub(crate) fn len(&self) -> usize {
        self.records
    }

    /// The offset to go on at, past all gaps.
    pub(crate) fn next(&self) -> Offset {
        Offset::new(self.end)
    }

    #[inline]
    pub(crate) fn block(&self) -> &Arc<Block> {
        &self.block
    }

    pub(crate) fn at(&self) -> &TopicPartition {
        self.block.at()
    }

    /// Bytes of memory or mapped file that this chunk keeps alive.
    pub(crate) fn pinned_bytes(&self) -> u64 {
        self.block.bytes().len() as u64
    }

    /// Bytes of the record batches in it, so far as it knows: those that a `split` cut off count too.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.shape {
            Shape::Stored(bytes) => u64::from(bytes.end - bytes.start),
            Shape::Unpacked(_) => self.pinned_bytes(),
        }
    }

    /// The first `records` of it; the rest stays in `self`. (Both share the block.)
    pub(crate) fn split(&mut self, records: usize) -> Chunk {
        let mut head = self.clone();
        if records >= self.records {
            self.first = self.end;
            self.records = 0;
            return head;
        }
        let cut = self.offset_of(records);
        head.end = cut;
        head.records = records;
        self.first = cut;
        self.records -= records;
        head
    }

    /// The offset of the record of this rank, from 0; the end if there are not so many. Only a sparse batch is looked into.
    fn offset_of(&self, mut rank: usize) -> u64 {
        for (header, body) in self.batches() {
            if header.sparse {
                for view in self.views_of(header, body) {
                    if rank == 0 {
                        return view.offset.get();
                    }
                    rank -= 1;
                }
                continue;
            }
            let base = self.base + u64::from(header.base_delta);
            let first = base.max(self.first);
            let end = (base + u64::from(header.last_delta) + 1).min(self.end);
            let here = end.saturating_sub(first);
            if (rank as u64) < here {
                return first + rank as u64;
            }
            rank -= here as usize;
        }
        self.end
    }

    /// Where each record is, in offset order.
    pub(crate) fn views(&self) -> Views<'_> {
        Views {
            chunk: self,
            batches: self.batches(),
            records: None,
        }
    }

    fn batches(&self) -> Batches<'_> {
        match &self.shape {
            Shape::Stored(bytes) => Batches {
                block: &self.block,
                stored: bytes.clone(),
                unpacked: None,
            },
            Shape::Unpacked(header) => Batches {
                block: &self.block,
                stored: 0..0,
                unpacked: Some(*header),
            },
        }
    }

    fn views_of(&self, header: BatchHeader, body: Range<u32>) -> BatchViews<'_> {
        let bytes = self.block.bytes().get(..body.end as usize);
        BatchViews {
            records: body::records_from(&header, bytes.unwrap_or(&[]), body.start as usize),
            base: self.base + u64::from(header.base_delta),
            append: Timestamp::from_millis(header.append_ms as i64),
            timestamps: self.timestamps,
            wanted: self.first..self.end,
        }
    }
}

/// What a chunk is part of: the base offset of its segment, and the offsets that belong to it.
pub(crate) struct ChunkOf {
    pub(crate) base: u64,
    pub(crate) timestamps: TimestampType,
    pub(crate) offsets: Range<u64>,
}

/// The record batches of a chunk: header, and where its body lies in the block.
struct Batches<'c> {
    block: &'c Block,
    stored: Range<u32>,
    unpacked: Option<BatchHeader>,
}

impl Iterator for Batches<'_> {
    type Item = (BatchHeader, Range<u32>);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(header) = self.unpacked.take() {
            return Some((header, 0..self.block.bytes().len() as u32));
        }
        let bytes = self
            .block
            .bytes()
            .get(self.stored.start as usize..self.stored.end as usize)?;
        let header = BatchHeader::fields(bytes)?; // the checks were made when the chunk was read
        let at = self.stored.start;
        let body = at + header.body_start() as u32;
        let end = body + header.body_len;
        self.stored.start = end;
        Some((header, body..end))
    }
}

/// The records of a chunk.
pub(crate) struct Views<'c> {
    chunk: &'c Chunk,
    batches: Batches<'c>,
    records: Option<BatchViews<'c>>,
}

impl<'c> Views<'c> {
    /// The bytes of the block, as far as the parts of the record that came last reach.
    #[inline]
    pub(crate) fn bytes(&self) -> &'c [u8] {
        let records = self.records.as_ref();
        records.map_or(&[], |batch| batch.records.bytes())
    }

    /// The next record if it is of the kind that nearly all are, in few steps. `None` says nothing.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as `Records::next_plain`")]
    pub(crate) fn next_plain(&mut self) -> Option<View> {
        self.records.as_mut()?.next_plain()
    }

    /// All that [`next_plain`](Self::next_plain) gives, with the bytes that the parts are places in. Where it stands is nobody
    /// else's meanwhile, so that it stays in registers.
    #[inline]
    pub(crate) fn fold_plain<B>(
        &mut self,
        init: B,
        mut each: impl FnMut(B, View, &'c [u8]) -> B,
    ) -> B {
        let Some(mut batch) = self.records.take() else {
            return init;
        };
        let mut all = init;
        while let Some(view) = batch.next_plain() {
            all = each(all, view, batch.records.bytes());
        }
        self.records = Some(batch);
        all
    }
}

impl Iterator for Views<'_> {
    type Item = View;

    fn next(&mut self) -> Option<View> {
        loop {
            if let Some(view) = self.records.as_mut().and_then(Iterator::next) {
                return Some(view);
            }
            let (header, body) = self.batches.next()?;
            let base = self.chunk.base + u64::from(header.base_delta);
            self.records = if base + u64::from(header.last_delta) < self.chunk.first
                || base >= self.chunk.end
            {
                None
            } else {
                Some(self.chunk.views_of(header, body))
            };
        }
    }
}

/// The records of one batch that are wanted.
struct BatchViews<'c> {
    records: Records<'c>,
    base: u64,
    append: Timestamp,
    timestamps: TimestampType,
    wanted: Range<u64>,
}

impl Iterator for BatchViews<'_> {
    type Item = View;

    fn next(&mut self) -> Option<View> {
        loop {
            let record = self.records.next()?.ok()?; // validated when it was read
            let offset = self.base + u64::from(record.delta);
            if offset >= self.wanted.end {
                return None;
            }
            if offset >= self.wanted.start {
                return Some(self.view(offset, &record));
            }
        }
    }
}

impl BatchViews<'_> {
    /// See [`Views::next_plain`]. A record that is read and not wanted is passed over: who asks on gets the next one.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as `Records::next_plain`")]
    fn next_plain(&mut self) -> Option<View> {
        let record = self.records.next_plain()?;
        let offset = self.base + u64::from(record.delta);
        let wanted = self.wanted.contains(&offset);
        wanted.then(|| self.view(offset, &record))
    }

    #[inline]
    fn view(&self, offset: u64, record: &RawRecord) -> View {
        let (timestamp, timestamp_type) = match (self.timestamps, record.event_time) {
            (TimestampType::EventTime, Some(time)) => {
                (Timestamp::from_millis(time), TimestampType::EventTime)
            }
            _ => (self.append, TimestampType::AppendTime),
        };
        View {
            offset: Offset::new(offset),
            timestamp,
            timestamp_type,
            key: record.key.span(),
            value: record.value.span(),
            headers: record.headers.span(),
        }
    }
}
