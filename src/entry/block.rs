//! The bytes that entries view: blocks, and where in them a record's parts are.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::offset::{Offset, TopicPartition};

/// Bytes that entries view, and the partition they came from. Shared by all entries of one read.
pub(crate) struct Block {
    at: TopicPartition,
    backing: Backing,
}

enum Backing {
    /// Read from a file, or made in memory.
    Owned(Vec<u8>),
    /// A part of what somebody else holds: a mapped file, or the newest record batches in memory.
    Shared {
        bytes: Arc<dyn AsRef<[u8]> + Send + Sync>,
        range: Range<usize>,
    },
}

impl Block {
    pub(crate) fn owned(at: TopicPartition, bytes: Vec<u8>) -> Block {
        Block {
            at,
            backing: Backing::Owned(bytes),
        }
    }

    /// The bytes of `range`; of a range that is not wholly in `bytes`, none.
    pub(crate) fn shared(
        at: TopicPartition,
        bytes: Arc<dyn AsRef<[u8]> + Send + Sync>,
        range: Range<usize>,
    ) -> Block {
        Block {
            at,
            backing: Backing::Shared { bytes, range },
        }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.backing {
            Backing::Owned(bytes) => bytes,
            Backing::Shared { bytes, range } => {
                (**bytes).as_ref().get(range.clone()).unwrap_or_default()
            }
        }
    }

    /// The partition.
    pub(crate) fn at(&self) -> &TopicPartition {
        &self.at
    }

    /// To read into the same memory, once nobody else holds the block (`Arc::get_mut`). `None` if it is not owned.
    pub(crate) fn owned_mut(&mut self) -> Option<&mut Vec<u8>> {
        match &mut self.backing {
            Backing::Owned(bytes) => Some(bytes),
            Backing::Shared { .. } => None,
        }
    }

    /// To be read into again, for bytes of this partition; `false` if that cannot be.
    pub(crate) fn reuse(&mut self, at: &TopicPartition) -> bool {
        if self.at != *at {
            self.at = at.clone();
        }
        self.owned_mut().is_some()
    }
}

/// Prints lengths, never contents.
impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block")
            .field("at", &format_args!("{}", self.at))
            .field("len", &self.bytes().len())
            .finish_non_exhaustive()
    }
}

/// Where in a block a part of a record is; or that the record has no such part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    len: u32,
}

impl Span {
    /// There is no such part, which is not the same as an empty one.
    pub(crate) const NONE: Span = Span {
        start: 0,
        len: u32::MAX,
    };

    /// `len` bytes from `start` on. (A `len` of `u32::MAX` would be [`NONE`](Self::NONE); no record comes near it.)
    #[inline]
    pub(crate) const fn new(start: u32, len: u32) -> Span {
        Span { start, len }
    }

    /// The part; `None` if it is absent. Out of bounds is absent too, never a panic.
    #[inline]
    pub(crate) fn of(self, bytes: &[u8]) -> Option<&[u8]> {
        if self.len == u32::MAX {
            return None;
        }
        let start = self.start as usize;
        bytes.get(start..start.checked_add(self.len as usize)?)
    }
}

/// One record of a block: its number and time, and where its parts are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) offset: Offset,
    pub(crate) timestamp: Timestamp,
    pub(crate) timestamp_type: TimestampType,
    pub(crate) key: Span,
    pub(crate) value: Span,
    /// The encoded headers, after their count: what [`Headers`](super::Headers) reads.
    pub(crate) headers: Span,
}

/// What the time of a record means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimestampType {
    /// When it happened, as its writer said. The default of a topic, where a record without such a time shows, and says, its
    /// `AppendTime`.
    EventTime,
    /// When it was appended, whatever its writer said.
    AppendTime,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> TopicPartition {
        TopicPartition::new("orders", 3)
    }

    fn shared(range: Range<usize>) -> Block {
        Block::shared(at(), Arc::new(b"abcdef".to_vec()), range)
    }

    #[test]
    fn a_shared_block_shows_its_range_only() {
        assert_eq!(shared(1..3).bytes(), b"bc");
        assert_eq!(shared(4..9).bytes(), b"");
        let backwards = Range { start: 3, end: 1 };
        assert_eq!(shared(backwards).bytes(), b"");
    }

    #[test]
    fn only_an_owned_block_can_be_read_into_again() {
        let mut block = Block::owned(at(), vec![1]);
        block.owned_mut().unwrap().push(2);
        assert_eq!(block.bytes(), [1, 2]);
        assert!(shared(0..1).owned_mut().is_none());
    }

    #[test]
    fn a_span_out_of_bounds_is_absent() {
        let bytes = b"abc";
        assert_eq!(Span::new(1, 2).of(bytes), Some(&b"bc"[..]));
        assert_eq!(Span::new(3, 0).of(bytes), Some(&b""[..]));
        assert_eq!(Span::new(2, 2).of(bytes), None);
        assert_eq!(Span::new(u32::MAX, u32::MAX - 1).of(bytes), None);
        assert_eq!(Span::NONE.of(bytes), None);
    }

    #[test]
    fn a_block_prints_its_length_and_no_contents() {
        assert_eq!(
            format!("{:?}", shared(0..6)),
            "Block { at: orders-3, len: 6, .. }"
        );
    }
}
