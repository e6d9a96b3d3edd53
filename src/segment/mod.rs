//! One file of record batches: a header, batches whose offsets follow one another, and a footer once it is sealed.
//!
//! ```text
//!  <base>-<generation>.log   header │ batch │ batch │ batch … │ footer
//!                                    └ base   └ contiguous offsets   └ only when sealed: never written again
//! ```
//!
//! * [`Segment`] is the file as readers see it; [`active::ActiveSegment`] is the writer's side of the last one.
//! * [`read`] turns a place in a segment into a checked [`chunk::Chunk`] of record batches.
//! * [`scan`] is what recovery reads with: it stops at the first byte that is not right, and can look behind it.
//! * [`rewrite`], which reads with [`whole`], makes one sealed file of several, without the records that nobody wants any more.
//! * [`spare`] keeps blocks to read into again, [`tail`] the newest bytes in memory, [`index`] knows the way, [`guess`] a shorter
//!   one, [`handle`] keeps the number of
//!   open files low.

pub(crate) mod active;
pub(crate) mod chunk;
pub(crate) mod guess;
pub(crate) mod handle;
pub(crate) mod index;
mod latest;
mod locate;
pub(crate) mod pace;
pub(crate) mod read;
pub(crate) mod rewrite;
pub(crate) mod scan;
pub(crate) mod spare;
pub(crate) mod stream;
pub(crate) mod tail;
pub(crate) mod whole;
mod window;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};

use crate::entry::TimestampType;
use crate::error::Error;
use crate::format::footer::Footer;
use crate::format::segment::{Link, SegmentHeader};
use crate::io::{Mapping, Storage};
use crate::offset::TopicPartition;
use guess::Luck;
use handle::{Handle, Handles};
use index::Index;
use pace::Syncs;

/// How records are read back from sealed segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadMode {
    /// By positioned reads into blocks of memory that the entries own. The default.
    #[default]
    Positioned,
    /// Through memory maps: no copy, so replay is faster. A medium error, or a file cut short from outside while it is mapped,
    /// then ends the process with SIGBUS instead of giving an error.
    Mapped,
}

/// What all segments of a log share: where files come from and how they are read.
pub(crate) struct Ground {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) handles: Handles,
    pub(crate) read_mode: ReadMode,
    pub(crate) syncs: Syncs,
}

impl Ground {
    pub(crate) fn new(storage: Arc<dyn Storage>, open_files: usize, read_mode: ReadMode) -> Ground {
        Ground {
            handles: Handles::new(Arc::clone(&storage), open_files),
            storage,
            read_mode,
            syncs: Syncs::default(),
        }
    }
}

/// The end of a segment that is never written again.
#[derive(Clone, Debug)]
pub(crate) struct Seal {
    pub(crate) footer: Footer,
    /// Where the batches end and the footer begins.
    pub(crate) data_end: u64,
    /// What the successor's header says about this file.
    pub(crate) link: Link,
}

/// One segment file as readers see it.
pub(crate) struct Segment {
    pub(crate) at: TopicPartition,
    pub(crate) header: SegmentHeader,
    pub(crate) header_len: u64,
    pub(crate) timestamps: TimestampType,
    /// Stream position of byte 0 of this file in the partition's [`tail::Tail`]; `None` if it is not written in this opening.
    pub(crate) stream_start: Option<u64>,
    pub(crate) handle: Arc<Handle>,
    seal: OnceLock<Seal>,
    index: RwLock<Indexed>,
    pub(crate) luck: Luck,
    map: Mutex<Option<Mapping>>,
}

/// What is known of the way through a segment: `index` is complete from byte `from` on.
struct Indexed {
    index: Index,
    from: u64,
}

/// Bytes of a segment that cannot be given out, and why.
#[derive(Debug)]
pub(crate) struct Damage {
    pub(crate) why: Why,
    /// First bad byte of the file.
    pub(crate) byte: u64,
    /// The offsets that cannot be read.
    pub(crate) lost: Range<u64>,
    /// Where reading can go on: position of the batch that begins at `lost.end`, if it is in this segment.
    pub(crate) resume: Option<u64>,
}

/// Three results that are never folded into one another, nor into "end of log".
#[derive(Debug)]
pub(crate) enum Why {
    Corrupt,
    Newer { found: u32, supported: u32 },
    Io(io::Error),
}

impl Segment {
    pub(crate) fn new(
        at: TopicPartition,
        header: SegmentHeader,
        header_len: u64,
        path: PathBuf,
        timestamps: TimestampType,
        stream_start: Option<u64>,
    ) -> Segment {
        Segment {
            at,
            header,
            header_len,
            timestamps,
            stream_start,
            handle: Handle::new(path),
            seal: OnceLock::new(),
            index: RwLock::new(Indexed {
                index: Index::default(),
                from: header_len,
            }),
            luck: Luck::default(),
            map: Mutex::new(None),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.handle.path()
    }

    pub(crate) fn base(&self) -> u64 {
        self.header.base
    }

    /// One past the greatest offset that this segment may ever hold.
    pub(crate) fn span_end(&self) -> u64 {
        self.header
            .base
            .saturating_add(u64::from(self.header.offset_span))
    }

    pub(crate) fn seal(&self) -> Option<&Seal> {
        self.seal.get()
    }

    /// Of a sealed segment: the offset that its successor expects, and the link that it carries.
    pub(crate) fn successor(&self) -> (u64, Link) {
        let seal = self.seal().expect("only a sealed segment has a successor");
        let after = seal.footer.last.map_or(self.base(), |last| last + 1);
        let own = self.header.out_link == Link::default();
        let link = if own { seal.link } else { self.header.out_link };
        (after, link)
    }

    /// The stream position behind a sealed segment, if it was appended to by this process.
    pub(crate) fn stream_end(&self) -> Option<u64> {
        Some(self.stream_start? + self.seal()?.footer.file_len())
    }

    /// From now on the file is as the footer says and never changes.
    pub(crate) fn set_seal(&self, seal: Seal) {
        assert!(self.seal.set(seal).is_ok(), "a segment is sealed once");
    }

    /// The whole sealed file as a map, if this log reads that way and the system gives one.
    fn mapped(&self, ground: &Ground) -> Option<Mapping> {
        let seal = self
            .seal()
            .filter(|_| ground.read_mode == ReadMode::Mapped)?;
        let mut map = self.map.lock();
        if map.is_none() {
            let file = ground.handles.file(&self.handle).ok()?;
            *map = file.map(seal.data_end).ok();
        }
        map.clone()
    }

    pub(crate) fn damage_error(&self, damage: Damage) -> Error {
        let lost = crate::offset::Offset::new(damage.lost.start)
            ..crate::offset::Offset::new(damage.lost.end);
        let unread = Some(Box::new((self.at.clone(), lost)));
        let file: Box<Path> = self.path().into();
        match damage.why {
            Why::Corrupt => Error::Corruption {
                file,
                byte: damage.byte,
                lost: unread,
            },
            Why::Newer { found, supported } => Error::Incompatible {
                file,
                found,
                supported,
                unread,
            },
            Why::Io(source) => Error::Io {
                call: "read",
                file,
                source,
                unread,
            },
        }
    }
}
