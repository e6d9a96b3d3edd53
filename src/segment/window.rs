//! One read: bytes of a segment in a block of memory, from its map, from the newest batches or bytes in memory, or from its file.

use std::sync::Arc;

use super::spare::Spares;
use super::tail::Tail;
use super::{Ground, Segment, Why};
use crate::entry::Block;
use crate::io;

/// Bytes of a segment, from a place on.
pub(super) struct Window {
    pub(super) block: Arc<Block>,
    /// Where in the block they begin.
    pub(super) start: usize,
    /// There may be more behind them.
    pub(super) full: bool,
    pub(super) origin: Origin,
}

/// Who says what the bytes are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// Nobody: they were stored, and may have changed.
    File,
    /// The writer of this process, which encoded and summed them a moment ago. A sum over them again would check the memory.
    Writer,
}

impl Window {
    /// Up to `bytes` from a position on, in one of these blocks if one is free.
    pub(super) fn take(
        ground: &Ground,
        segment: &Segment,
        tail: Option<&Tail>,
        position: u64,
        bytes: usize,
        spares: Option<&Spares>,
    ) -> Result<Window, Why> {
        if let Some(window) = Window::mapped(ground, segment, position) {
            return Ok(window);
        }
        let stream = segment.stream_start.map(|start| start + position);
        let newest = tail.zip(stream);
        if let Some((bytes, range)) = newest.and_then(|(tail, stream)| tail.whole(stream)) {
            return Ok(Window {
                block: Arc::new(Block::shared(segment.at.clone(), bytes, range)),
                start: 0,
                full: true, // the file may hold more
                origin: Origin::Writer,
            });
        }
        let asked = bytes;
        let bytes = asked.min(segment.left_after(position));
        let mut block = match spares {
            Some(spares) => spares.take(&segment.at),
            None => Arc::new(Block::owned(segment.at.clone(), Vec::new())),
        };
        let into = Arc::get_mut(&mut block)
            .and_then(Block::owned_mut)
            .expect("a fresh block has one owner");
        let newest = newest.and_then(|(tail, stream)| {
            let start = tail.copy_held(stream, bytes, into)?;
            Some((start, tail.is_own(stream)))
        });
        if newest.is_none() {
            into.resize(bytes, 0);
            let file = ground.handles.file(&segment.handle).map_err(Why::Io)?;
            let read = io::read_full(&*file, into, position).map_err(Why::Io)?;
            into.truncate(read);
        }
        let (start, own) = newest.unwrap_or((0, false));
        let full = into.len() - start == asked;
        if let Some(spares) = spares {
            spares.keep(&block);
        }
        Ok(Window {
            block,
            start,
            full,
            origin: if own { Origin::Writer } else { Origin::File },
        })
    }

    /// All that is mapped from a position on; `None` if the segment is not.
    fn mapped(ground: &Ground, segment: &Segment, position: u64) -> Option<Window> {
        let map = segment.mapped(ground)?;
        let end = (*map).as_ref().len();
        let from = (position as usize).min(end);
        let block = Block::shared(segment.at.clone(), map, from..end);
        Some(Window {
            block: Arc::new(block),
            start: 0,
            full: false,
            origin: Origin::File,
        })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.block.bytes().get(self.start..).unwrap_or_default()
    }
}
