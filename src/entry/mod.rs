//! What comes out of the log: entries, which view the block that they were read with.
//!
//! Nothing is copied: an entry is a few numbers beside a counted reference to its block. [`EntryRef`] borrows that reference
//! from a batch, so looping over a batch touches no counter; [`Entry`] has one of its own and keeps the whole block in memory
//! until it is dropped or [detached](Entry::detached).

mod block;
mod headers;

pub(crate) use block::{Block, Span, View};

pub use block::TimestampType;
pub use headers::Headers;

use std::fmt;
use std::str;
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::offset::{Offset, PartitionId, Position, TopicPartition};

/// What comes out: a record at its position, borrowed from a batch or an [`Entry`].
///
/// `Copy`, no counter touched; its bytes live as long as what it borrows from. `Debug` prints lengths, never contents.
#[derive(Clone, Copy)]
pub struct EntryRef<'b> {
    block: &'b Arc<Block>,
    /// Of the block. Beside it, since a loop over a batch need not look them up again for each entry.
    bytes: &'b [u8],
    view: View,
}

impl<'b> EntryRef<'b> {
    #[inline]
    pub(crate) fn new(block: &'b Arc<Block>, view: View) -> Self {
        Self::among(block, block.bytes(), view)
    }

    /// As [`new`](Self::new), for who has the bytes of the block at hand, at least as far as the parts of this entry reach.
    #[inline]
    pub(crate) fn among(block: &'b Arc<Block>, bytes: &'b [u8], view: View) -> Self {
        EntryRef { block, bytes, view }
    }

    /// The name of the topic.
    pub fn topic(&self) -> &'b str {
        self.block.at().topic()
    }

    /// The number of the partition.
    pub fn partition(&self) -> PartitionId {
        self.block.at().partition()
    }

    /// Both at once, borrowed from the block: a map key without an allocation.
    pub fn topic_partition(&self) -> &'b TopicPartition {
        self.block.at()
    }

    /// The offset in the partition.
    #[inline]
    pub fn offset(&self) -> Offset {
        self.view.offset
    }

    /// Topic, partition and offset in one value that outlives the entry (one counter is touched).
    pub fn position(&self) -> Position {
        self.block.at().at(self.view.offset)
    }

    /// `None` is a record without a key; an empty key is a key.
    #[inline]
    pub fn key(&self) -> Option<&'b [u8]> {
        self.view.key.of(self.bytes)
    }

    /// `None` is a tombstone; an empty value is a value.
    #[inline]
    pub fn value(&self) -> Option<&'b [u8]> {
        self.view.value.of(self.bytes)
    }

    /// The key as text.
    ///
    /// # Errors
    ///
    /// [`Error::Decode`] if there is none or it is not UTF-8.
    pub fn key_str(&self) -> Result<&'b str> {
        self.text(self.key(), "it has no key")
    }

    /// The value as text.
    ///
    /// # Errors
    ///
    /// [`Error::Decode`] if there is none or it is not UTF-8.
    pub fn value_str(&self) -> Result<&'b str> {
        self.text(self.value(), "it has no value: it is a tombstone")
    }

    /// In the order they were written; a name may occur twice; a value may be missing.
    pub fn headers(&self) -> Headers<'b> {
        Headers::new(self.view.headers.of(self.bytes).unwrap_or_default())
    }

    /// The value of the last header of that name; `None` if there is no such header, or it has no value.
    pub fn header(&self, name: &str) -> Option<&'b [u8]> {
        self.headers()
            .filter(|(n, _)| *n == name)
            .last()
            .and_then(|(_, value)| value)
    }

    /// The event time or the append time: see [`timestamp_type`](Self::timestamp_type).
    #[inline]
    pub fn timestamp(&self) -> Timestamp {
        self.view.timestamp
    }

    /// What [`timestamp`](Self::timestamp) means.
    pub fn timestamp_type(&self) -> TimestampType {
        self.view.timestamp_type
    }

    /// The same, owned: one counter is touched, and the block stays in memory as long as the entry does.
    pub fn to_entry(&self) -> Entry {
        Entry::new(Arc::clone(self.block), self.view)
    }

    fn text(&self, bytes: Option<&'b [u8]>, missing: &'static str) -> Result<&'b str> {
        let bytes = bytes.ok_or_else(|| Error::decode(self.position(), missing))?;
        str::from_utf8(bytes).map_err(|e| Error::decode(self.position(), e))
    }
}

impl fmt::Debug for EntryRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe("EntryRef", f)
    }
}

impl EntryRef<'_> {
    fn describe(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("position", &format_args!("{}", self.position()))
            .field("timestamp", &self.timestamp())
            .field("key_len", &self.key().map(<[u8]>::len))
            .field("value_len", &self.value().map(<[u8]>::len))
            .field("headers", &self.headers().count())
            .finish()
    }
}

impl<'b> From<&'b Entry> for EntryRef<'b> {
    fn from(entry: &'b Entry) -> Self {
        EntryRef::new(&entry.block, entry.view)
    }
}

/// What comes out: a record at its position, owned. `Send + Sync + 'static`; a clone is one counter; it pins its block.
///
/// `Debug` prints lengths, never contents. Its methods are those of [`EntryRef`], which say more.
#[derive(Clone)]
pub struct Entry {
    block: Arc<Block>,
    view: View,
}

impl Entry {
    #[inline]
    pub(crate) fn new(block: Arc<Block>, view: View) -> Self {
        Entry { block, view }
    }

    /// The same, borrowed.
    pub fn as_ref(&self) -> EntryRef<'_> {
        self.into()
    }

    /// Copies the bytes into a block of its own, so that nothing else stays pinned. For entries kept long.
    #[must_use = "the entry that is returned has the bytes of its own"]
    pub fn detached(self) -> Entry {
        let Entry { block, mut view } = self;
        let parts = [&mut view.key, &mut view.value, &mut view.headers];
        let len = parts
            .iter()
            .filter_map(|part| part.of(block.bytes()))
            .map(<[u8]>::len)
            .sum();
        let mut own = Vec::with_capacity(len);
        for part in parts {
            *part = part
                .of(block.bytes())
                .map_or(Span::NONE, |bytes| append(&mut own, bytes));
        }
        Entry::new(Arc::new(Block::owned(block.at().clone(), own)), view)
    }

    /// The name of the topic.
    pub fn topic(&self) -> &str {
        self.as_ref().topic()
    }

    /// The number of the partition.
    pub fn partition(&self) -> PartitionId {
        self.as_ref().partition()
    }

    /// Topic and partition, borrowed from the block.
    pub fn topic_partition(&self) -> &TopicPartition {
        self.as_ref().topic_partition()
    }

    /// The offset in the partition.
    pub fn offset(&self) -> Offset {
        self.as_ref().offset()
    }

    /// Topic, partition and offset in one value.
    pub fn position(&self) -> Position {
        self.as_ref().position()
    }

    /// `None` is a record without a key.
    pub fn key(&self) -> Option<&[u8]> {
        self.as_ref().key()
    }

    /// `None` is a tombstone.
    pub fn value(&self) -> Option<&[u8]> {
        self.as_ref().value()
    }

    /// The key as text.
    ///
    /// # Errors
    ///
    /// [`Error::Decode`] if there is none or it is not UTF-8.
    pub fn key_str(&self) -> Result<&str> {
        self.as_ref().key_str()
    }

    /// The value as text.
    ///
    /// # Errors
    ///
    /// [`Error::Decode`] if there is none or it is not UTF-8.
    pub fn value_str(&self) -> Result<&str> {
        self.as_ref().value_str()
    }

    /// In the order they were written.
    pub fn headers(&self) -> Headers<'_> {
        self.as_ref().headers()
    }

    /// The value of the last header of that name.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.as_ref().header(name)
    }

    /// The event time or the append time.
    pub fn timestamp(&self) -> Timestamp {
        self.as_ref().timestamp()
    }

    /// What [`timestamp`](Self::timestamp) means.
    pub fn timestamp_type(&self) -> TimestampType {
        self.as_ref().timestamp_type()
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().describe("Entry", f)
    }
}

const _: () = {
    const fn shared<T: Send + Sync + 'static>() {}
    shared::<Entry>();
    shared::<EntryRef<'static>>();
    shared::<Headers<'static>>();
};

/// Copies a part to the end of `own`, and says where it is there.
fn append(own: &mut Vec<u8>, part: &[u8]) -> Span {
    let number = |n| {
        u32::try_from(n).expect("the parts of one record, below 1 GiB by format, fit into 32 bits")
    };
    let span = Span::new(number(own.len()), number(part.len()));
    own.extend_from_slice(part);
    span
}

#[cfg(test)]
pub(crate) mod tests;
