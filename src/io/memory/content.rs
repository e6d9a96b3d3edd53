//! The bytes of one file in memory, in shared pages: a copy of a file costs a counter per page, and two copies that share a
//! page are known to be equal there.

use std::ops::Range;
use std::sync::Arc;

use super::pages::{PAGE, Pages};

/// A file's bytes. Pages that are missing are holes and read as zeros; nothing is kept behind the length.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    len: u64,
    pages: Pages,
}

impl Content {
    /// A file of `len` bytes; what the pages hold behind it is dropped.
    #[cfg(feature = "testing")]
    pub(super) fn from_pages(pages: Pages, len: u64) -> Content {
        let mut content = Content { len, pages };
        content.trim();
        content
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    #[cfg(feature = "testing")]
    pub(super) fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Fills `into` from `position`; returns how many bytes there were.
    pub(super) fn read(&self, into: &mut [u8], position: u64) -> usize {
        let there = usize::try_from(self.len.saturating_sub(position)).unwrap_or(usize::MAX);
        let count = into.len().min(there);
        for piece in pieces(position, count) {
            let target = &mut into[piece.buffer];
            match self.pages.get(piece.page) {
                Some(page) => target.copy_from_slice(&page[piece.within]),
                None => target.fill(0),
            }
        }
        count
    }

    /// The first `len` bytes, or fewer if the file is shorter.
    pub(super) fn prefix(&self, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(len.min(self.len)).unwrap_or(usize::MAX)];
        self.read(&mut bytes, 0);
        bytes
    }

    /// Writes `bytes` at `position`. A gap between the old end and `position` becomes a hole.
    pub(super) fn write(&mut self, bytes: &[u8], position: u64) {
        if bytes.is_empty() {
            return;
        }
        for piece in pieces(position, bytes.len()) {
            let page = self.pages.get_or_make(piece.page);
            // Shared with an older image of this file: that one keeps what it has, and the pages differ from now on.
            Arc::make_mut(page)[piece.within].copy_from_slice(&bytes[piece.buffer]);
        }
        self.len = self.len.max(position + bytes.len() as u64);
    }

    pub(super) fn set_len(&mut self, len: u64) {
        let shorter = len < self.len;
        self.len = len;
        if shorter {
            self.trim();
        }
    }

    fn trim(&mut self) {
        self.pages.cut(self.len.div_ceil(PAGE as u64));
        let (last, within) = (self.len / PAGE as u64, (self.len % PAGE as u64) as usize);
        let leaves_bytes = |page: &Arc<[u8; PAGE]>| page[within..].iter().any(|&b| b != 0);
        if within > 0
            && self.pages.get(last).is_some_and(leaves_bytes)
            && let Some(page) = self.pages.get_mut(last)
        {
            Arc::make_mut(page)[within..].fill(0);
        }
    }
}

/// The part of a buffer that falls into one page.
struct Piece {
    page: u64,
    within: Range<usize>,
    buffer: Range<usize>,
}

fn pieces(position: u64, len: usize) -> impl Iterator<Item = Piece> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = position + done as u64;
        let start = (at % PAGE as u64) as usize;
        let count = (PAGE - start).min(len - done);
        (count > 0).then(|| {
            let buffer = done..done + count;
            done += count;
            Piece {
                page: at / PAGE as u64,
                within: start..start + count,
                buffer,
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_across_page_edges() {
        let bytes: Vec<u8> = (0..10_000_u32).map(|n| n as u8).collect();
        let mut content = Content::default();
        content.write(&bytes, 4000);
        let mut back = vec![0; 10_000];
        assert_eq!(content.read(&mut back, 4000), 10_000);
        assert_eq!(back, bytes);
        assert_eq!(content.prefix(4000), vec![0; 4000]);
    }

    #[test]
    fn a_read_stops_at_the_end() {
        let mut content = Content::default();
        content.write(b"abc", 0);
        let mut into = [9; 5];
        assert_eq!(content.read(&mut into, 1), 2);
        assert_eq!(into, [b'b', b'c', 9, 9, 9]);
        assert_eq!(content.read(&mut into, 3), 0);
        assert_eq!(content.read(&mut into, u64::MAX), 0);
    }

    #[test]
    fn what_was_cut_off_reads_as_zeros_when_the_file_grows_again() {
        let mut content = Content::default();
        content.write(&[1; 9000], 0);
        content.set_len(5000);
        content.set_len(9000);
        assert_eq!(
            content.prefix(9000),
            [vec![1; 5000], vec![0; 4000]].concat()
        );
    }

    #[test]
    fn a_copy_keeps_its_bytes() {
        let mut content = Content::default();
        content.write(b"old", 0);
        let copy = content.clone();
        content.write(b"new", 0);
        assert_eq!(
            (copy.prefix(3), content.prefix(3)),
            (b"old".to_vec(), b"new".to_vec())
        );
    }

    #[test]
    fn a_file_may_be_as_sparse_as_it_likes() {
        let mut content = Content::default();
        content.write(b"x", 1 << 50);
        assert_eq!(
            (content.len(), content.pages.iter().count()),
            ((1 << 50) + 1, 1)
        );
    }
}
