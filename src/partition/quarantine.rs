//! Tails that recovery cuts off, kept aside whole: a cut loses no byte, whatever it was.

use std::io;
use std::ops::Range;
use std::path::PathBuf;

use super::examine::Cut;
use super::home::Home;
use crate::error::{Error, Result};
use crate::format::names;
use crate::io::{File, OpenMode, write_full};
use crate::segment::stream::Stream;

/// Bytes that are compared or copied at once.
const COPY: usize = 1 << 20;

/// The file for these bytes of `file`: `name`, or `name` and a number if an earlier recovery kept another tail under it.
pub(crate) fn place_for(
    home: &Home,
    name: &str,
    file: &dyn File,
    tail: Range<u64>,
) -> io::Result<PathBuf> {
    let dir = home.root.join(names::QUARANTINE);
    let mut path = dir.join(name);
    for number in 1_u64.. {
        match home.ground.storage.open(&path, OpenMode::Read) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => break,
            Err(e) => return Err(e),
            // Left by an earlier try to cut the same: it is written again.
            Ok(copy) if is_begun_copy(&*copy, file, &tail)? => break,
            Ok(_) => path = dir.join(format!("{name}.{number}")),
        }
    }
    Ok(path)
}

/// Does `copy` hold the beginning of these bytes of `file`, or all of them?
fn is_begun_copy(copy: &dyn File, file: &dyn File, tail: &Range<u64>) -> io::Result<bool> {
    let len = copy.len()?;
    let (mut kept, mut bytes) = (Stream::new(copy, len), Stream::new(file, tail.end));
    let mut at = 0;
    while at < len {
        let kept = kept.at(at, COPY)?;
        let bytes = bytes.at(tail.start + at, kept.len())?;
        if kept.is_empty() || !bytes.starts_with(kept) {
            return Ok(false);
        }
        at += kept.len() as u64;
    }
    Ok(true)
}

/// Copies all of the tail; the copy is durable when this returns.
pub(crate) fn keep_aside(home: &Home, cut: &Cut) -> Result<()> {
    let storage = &home.ground.storage;
    let dir = cut.quarantine.parent().expect("a file in the quarantine");
    match storage.create_dir(dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            return Err(Error::io("create", dir, e));
        }
        _ => {}
    }
    let path = &cut.quarantine;
    let copy = match storage.open(path, OpenMode::CreateNew) {
        // An earlier try that did not finish: the tail is still there, so it is copied again.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => storage.open(path, OpenMode::Write),
        made => made,
    };
    let copy = copy.map_err(|e| Error::io("create", path, e))?;
    let from = storage
        .open(&cut.file, OpenMode::Read)
        .map_err(|e| Error::io("open", &cut.file, e))?;
    let mut stream = Stream::new(&*from, cut.to);
    let mut at = cut.from;
    while at < cut.to {
        let bytes = stream
            .at(at, COPY)
            .map_err(|e| Error::io("read", &cut.file, e))?;
        if bytes.is_empty() {
            break; // cut already, by an earlier try
        }
        write_full(&*copy, bytes, at - cut.from).map_err(|e| Error::io("write", path, e))?;
        at += bytes.len() as u64;
    }
    copy.sync_all().map_err(|e| Error::io("sync", path, e))?;
    storage
        .sync_dir(dir)
        .map_err(|e| Error::io("sync", dir, e))?;
    storage
        .sync_dir(&home.root)
        .map_err(|e| Error::io("sync", &home.root, e))
}
