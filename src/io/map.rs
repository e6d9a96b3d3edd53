//! Reads a file through a memory map: the one place in this crate that uses `unsafe`.
//!
//! A map is faster to replay from than positioned reads, and riskier: the bytes are the file's, so whoever cuts the file or
//! pulls the disk takes them away from under the reader (SIGBUS). It is therefore a setting of the host, it is only ever made
//! for reading, and only of files that this crate has sealed.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::sync::Arc;

use memmap2::MmapOptions;

use super::Mapping;

/// Maps the first `len` bytes of `file` for reading.
///
/// `InvalidInput` if the file is shorter than `len` now: bytes of a map behind the end of its file are a SIGBUS, or read as
/// zeros within the last page. Any other error is the kernel's (no memory, too many maps): read by position instead.
pub(crate) fn map(file: &File, len: u64) -> io::Result<Mapping> {
    let present = file.metadata()?.len();
    if len > present {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("cannot map {len} bytes of a file of {present}"),
        ));
    }
    if len == 0 {
        return Ok(Arc::new([0_u8; 0]));
    }
    let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
    // SAFETY: the mapped bytes must neither change nor go away while a `&[u8]` to them lives.
    // (1) This crate maps sealed segment files only, and a sealed file is immutable: nothing in this crate writes to it, cuts
    //     it, or renames over it; compaction writes a new file under a new name, and a map stays valid after `unlink`.
    // (2) The map is private to reading (`map`, not `map_mut`), so nothing is stored through it.
    // (3) `len` does not exceed the file's length, checked above; by (1) it does not shrink afterwards.
    // (4) Other processes are kept out by the directory's lock and its mode 0700. One that ignores both can break this
    //     contract; the documentation of the mapped read mode states that boundary, and positioned reads are the default.
    let map = unsafe { MmapOptions::new().len(len).map(file)? };
    Ok(Arc::new(map))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn a_map_shows_the_first_bytes_of_the_file() {
        let map = map(&file_of(b"thalweg"), 4).unwrap();
        assert_eq!((*map).as_ref(), b"thal");
    }

    #[test]
    fn a_map_of_nothing_is_empty() {
        let map = map(&file_of(b""), 0).unwrap();
        assert!((*map).as_ref().is_empty());
    }

    #[test]
    fn more_than_the_file_holds_is_refused() {
        let error = map(&file_of(b"abc"), 4).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_map_outlives_its_handle() {
        let file = file_of(&[7; 10_000]);
        let map = map(&file, 10_000).unwrap();
        drop(file);
        assert!((*map).as_ref().iter().all(|&b| b == 7));
    }
}
