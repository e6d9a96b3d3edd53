//! The raw limits: what the machine does when nothing is asked of it but the plain calls.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A new file that is written and read with plain calls.
pub(crate) struct Plain {
    file: File,
    len: u64,
}

impl Plain {
    pub(crate) fn create(path: &Path) -> Plain {
        let file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(path)
            .expect("a new file in our directory");
        Plain { file, len: 0 }
    }

    /// One `write` at the end.
    #[inline]
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.file.write_all(bytes).expect("room for our bytes");
        self.len += bytes.len() as u64;
    }

    /// One `fdatasync`.
    pub(crate) fn sync(&self) {
        self.file.sync_data().expect("a disk that works");
    }

    /// One `pread`.
    #[inline]
    pub(crate) fn read(&self, into: &mut [u8], position: u64) {
        self.file
            .read_exact_at(into, position)
            .expect("bytes that were written");
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }
}

/// The CRC of bytes of a file, through a fresh map of them: the least that checking what they hold can take.
///
/// A map begins at a page, so `range` is taken to begin at the one before.
pub(crate) fn crc_of(path: &Path, range: Range<u64>) -> u32 {
    let start = range.start / PAGE * PAGE;
    let file = File::open(path).expect("a segment");
    let mut options = memmap2::MmapOptions::new();
    options.offset(start).len((range.end - start) as usize);
    // SAFETY: the bytes are only summed, and nobody writes to or cuts these files while the bench holds the map.
    #[allow(
        unsafe_code,
        reason = "the raw limit is a map; no code of the library is involved"
    )]
    let map = unsafe { options.map(&file) }.expect("a file that can be mapped");
    crc32fast::hash(&map)
}

/// Enough for every machine that this runs on.
const PAGE: u64 = 64 << 10;

/// The files below a directory whose names end so, in order.
pub(crate) fn files_below(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir)
        .expect("a directory of ours")
        .flatten()
    {
        let path = entry.path();
        if path.is_dir() {
            files.extend(files_below(&path, ending));
        } else if path.to_string_lossy().ends_with(ending) {
            files.push(path);
        }
    }
    files.sort();
    files
}
