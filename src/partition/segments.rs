//! The segments of a partition in order: a list that readers take as a snapshot and the writer replaces.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::place::Place;
use crate::entry::TimestampType;
use crate::error::{Error, Result};
use crate::format::Bad;
use crate::format::footer::{FOOTER_LEN, Footer};
use crate::format::names;
use crate::format::segment::{SEGMENT_HEADER_LEN, SegmentHeader};
use crate::io::{File, OpenMode, read_full};
use crate::segment::active::seal_of;
use crate::segment::handle::Handle;
use crate::segment::tail::Tail;
use crate::segment::{Ground, Segment};

/// One segment of the list: its name, and the file once somebody needed it.
pub(crate) struct Slot {
    pub(crate) base: u64,
    pub(crate) generation: u32,
    pub(crate) path: PathBuf,
    segment: OnceLock<Arc<Segment>>,
    linked: OnceLock<()>,
    /// As its header says, once somebody asked for that alone.
    expected: OnceLock<u64>,
}

/// A snapshot: never changed, replaced whole.
#[derive(Clone, Default)]
pub(crate) struct Segments {
    pub(crate) slots: Vec<Arc<Slot>>,
    /// First readable offset.
    pub(crate) log_start: u64,
    /// Offset after the last record, where recovery left a gap behind it that no segment records yet.
    pub(crate) gap_from: Option<u64>,
    pub(crate) tail: Option<Arc<Tail>>,
    /// How often segments of this list were replaced by others with the same records, or removed.
    pub(crate) changes: u64,
}

impl Slot {
    pub(crate) fn named(place: &Place, base: u64, generation: u32) -> Slot {
        let path = place.dir.join(names::segment_name(base, generation));
        Slot {
            base,
            generation,
            path,
            segment: OnceLock::new(),
            linked: OnceLock::new(),
            expected: OnceLock::new(),
        }
    }

    pub(crate) fn of(segment: Arc<Segment>) -> Slot {
        let slot = Slot::replacing(segment);
        let _ = slot.linked.set(());
        slot
    }

    /// Of a segment that took the place of others. Whether it follows the one before it is looked at as it was for them.
    pub(crate) fn replacing(segment: Arc<Segment>) -> Slot {
        let slot = Slot {
            base: segment.base(),
            generation: segment.header.generation,
            path: segment.path().to_path_buf(),
            segment: OnceLock::new(),
            linked: OnceLock::new(),
            expected: OnceLock::new(),
        };
        let _ = slot.segment.set(segment);
        slot
    }

    /// What opening found of the last segment.
    pub(crate) fn install(&self, segment: Arc<Segment>) {
        let _ = self.segment.set(segment);
        let _ = self.linked.set(());
    }

    /// A segment of a damaged partition: whether it follows the one before is not known yet.
    pub(crate) fn show(&self, segment: Arc<Segment>) {
        let _ = self.segment.set(segment);
    }

    /// The segment, if it was opened before.
    pub(crate) fn opened(&self) -> Option<&Arc<Segment>> {
        self.segment.get()
    }

    /// Opens a sealed segment: header, identity, footer.
    pub(crate) fn open_sealed(
        &self,
        ground: &Ground,
        place: &Place,
        log: u128,
        times: TimestampType,
    ) -> Result<Arc<Segment>> {
        if let Some(segment) = self.segment.get() {
            return Ok(Arc::clone(segment));
        }
        let file = open(ground, &self.path)?;
        let header = read_header(&*file, self, place, log)?;
        let len = file.len().map_err(|e| Error::io("read", &self.path, e))?;
        let segment = Segment::new(
            place.at.clone(),
            header,
            SEGMENT_HEADER_LEN as u64,
            self.path.clone(),
            times,
            None,
        );
        let footer = read_footer(&*file, &segment, len)?;
        segment.set_seal(seal_of(footer, segment.header.salt));
        Ok(Arc::clone(self.segment.get_or_init(|| Arc::new(segment))))
    }

    /// The offset after the last one of the segment before; lower than the base where recovery left a gap.
    pub(crate) fn expected(&self, ground: &Ground, place: &Place, log: u128) -> Result<u64> {
        if let Some(segment) = self.segment.get() {
            return Ok(segment.header.expected);
        }
        if let Some(&expected) = self.expected.get() {
            return Ok(expected);
        }
        let header = read_header(&*open(ground, &self.path)?, self, place, log)?;
        Ok(*self.expected.get_or_init(|| header.expected))
    }

    pub(crate) fn is_linked(&self) -> bool {
        self.linked.get().is_some()
    }

    /// How this segment, now open, follows `before`, which is sealed. That it does is remembered.
    pub(crate) fn joint(&self, segment: &Segment, before: &Segment) -> Joint {
        if follows(segment, before) {
            let _ = self.linked.set(());
            return Joint::Whole;
        }
        match before.seal() {
            Some(seal) if segment.header.expected > seal.footer.next_base => {
                Joint::Missing(segment.header.expected)
            }
            _ => Joint::Broken,
        }
    }
}

/// How a segment hangs together with the one before it in the list.
pub(crate) enum Joint {
    Whole,
    /// Segments between them are missing, up to this offset.
    Missing(u64),
    /// They overlap, or one of them is not the one it was.
    Broken,
}

/// Does the chain of links and offsets hold from `before` to `segment`?
pub(crate) fn follows(segment: &Segment, before: &Segment) -> bool {
    let Some(seal) = before.seal() else {
        return false;
    };
    let (after_last, out) = before.successor();
    segment.header.prev_link == out
        && segment.header.base >= seal.footer.next_base
        && (segment.header.expected == after_last
            || segment.header.expected == seal.footer.next_base)
}

/// `None` for an empty range.
pub(crate) fn lost(
    at: &crate::offset::TopicPartition,
    from: u64,
    to: u64,
) -> Option<(
    crate::offset::TopicPartition,
    std::ops::Range<crate::offset::Offset>,
)> {
    use crate::offset::Offset;
    (from < to).then(|| (at.clone(), Offset::new(from)..Offset::new(to)))
}

fn open(ground: &Ground, path: &Path) -> Result<Arc<dyn File>> {
    match ground
        .handles
        .open(&Handle::new(path.to_path_buf()), OpenMode::Read)
    {
        Ok(file) => Ok(file),
        // Somebody put a directory, a link or a pipe in its place, or took it away: that is damage, not a wrong call.
        Err(e)
            if matches!(
                e.kind(),
                std::io::ErrorKind::InvalidInput | std::io::ErrorKind::NotFound
            ) =>
        {
            Err(Error::corruption(path, 0, None))
        }
        Err(e) => Err(Error::io("open", path, e)),
    }
}

/// The header, if it says what the name and the place say.
pub(crate) fn read_header(
    file: &dyn File,
    slot: &Slot,
    place: &Place,
    log: u128,
) -> Result<SegmentHeader> {
    let mut bytes = vec![0; SEGMENT_HEADER_LEN];
    let read = read_full(file, &mut bytes, 0).map_err(|e| Error::io("read", &slot.path, e))?;
    bytes.truncate(read);
    let (header, _) = SegmentHeader::decode(&bytes).map_err(|bad| match bad {
        Bad::Newer { found, supported } => Error::Incompatible {
            file: slot.path.as_path().into(),
            found,
            supported,
            unread: None,
        },
        Bad::Short { .. } | Bad::Corrupt => Error::corruption(&slot.path, 0, None),
    })?;
    let same = header.log == log
        && header.topic == place.topic
        && header.partition == place.at.partition().get()
        && header.base == slot.base
        && header.generation == slot.generation;
    if same {
        Ok(header)
    } else {
        Err(Error::corruption(&slot.path, 0, None))
    }
}

/// The footer at the end of a file that must be sealed.
pub(crate) fn read_footer(file: &dyn File, segment: &Segment, len: u64) -> Result<Footer> {
    let at = len
        .saturating_sub(FOOTER_LEN as u64)
        .max(segment.header_len);
    let mut bytes = vec![0; FOOTER_LEN];
    let read = read_full(file, &mut bytes, at).map_err(|e| Error::io("read", segment.path(), e))?;
    bytes.truncate(read);
    match Footer::decode(&bytes, segment.header.salt, at) {
        Ok(footer) if footer.position == at && at + FOOTER_LEN as u64 == len => Ok(footer),
        _ => Err(Error::corruption(segment.path(), at, None)),
    }
}

impl Segments {
    /// Is this the last segment?
    pub(crate) fn ends_with(&self, segment: &Arc<Segment>) -> bool {
        let last = self.slots.last().and_then(|slot| slot.opened());
        last.is_some_and(|last| Arc::ptr_eq(last, segment))
    }

    /// Where the segment that holds `offset`, or the next one behind it, stands in the list.
    pub(crate) fn holding(&self, offset: u64) -> Option<usize> {
        let after = self.slots.partition_point(|slot| slot.base <= offset);
        if self.slots.is_empty() {
            None
        } else {
            Some(after.saturating_sub(1))
        }
    }
}
