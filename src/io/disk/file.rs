//! One open file on the disk, and the syncs of many.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::io::{File, Mapping, Syncing, map, retried};

/// One `write` of Linux moves at most this much; asking for more only hides that a write is never one.
const MOST_PER_WRITE: usize = 0x7fff_f000;

/// Syncs in flight at once: enough to fill a disk's queue, few enough to be started for one call.
const SYNC_THREADS: usize = 8;

/// An open regular file.
#[derive(Debug)]
pub(super) struct DiskFile(pub(super) fs::File);

impl File for DiskFile {
    fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize> {
        self.0.read_at(into, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        self.0
            .write_at(bytes.get(..MOST_PER_WRITE).unwrap_or(bytes), position)
    }

    fn sync_data(&self) -> io::Result<()> {
        retried(|| self.0.sync_data())
    }

    fn sync_all(&self) -> io::Result<()> {
        retried(|| self.0.sync_all())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        retried(|| self.0.set_len(len))
    }

    fn len(&self) -> io::Result<u64> {
        Ok(retried(|| self.0.metadata())?.len())
    }

    fn map(&self, len: u64) -> io::Result<Mapping> {
        map::map(&self.0, len)
    }
}

/// Syncs a file on a thread of its own. Where none can be had, it is done when this returns.
pub(super) fn sync_behind(file: &Arc<dyn File>) -> Syncing {
    let theirs = Arc::clone(file);
    let thread = std::thread::Builder::new().name("thalweg-sync".into());
    match thread.spawn(move || theirs.sync_data()) {
        Ok(thread) => Syncing::by(thread),
        Err(_) => Syncing::done(file.sync_data()),
    }
}

/// Syncs several files on a few threads. Where no thread can be had, the caller's does the work.
pub(super) fn sync_side_by_side(files: &[Arc<dyn File>]) -> Vec<io::Result<()>> {
    fn sync_each(files: &[Arc<dyn File>]) -> Vec<io::Result<()>> {
        files.iter().map(|file| file.sync_data()).collect()
    }
    let share = files.len().div_ceil(SYNC_THREADS).max(1);
    let mut shares = files.chunks(share);
    let ours = shares.next().unwrap_or_default();
    std::thread::scope(|scope| {
        let others: Vec<_> = shares
            .map(|share| {
                (
                    share,
                    std::thread::Builder::new().spawn_scoped(scope, || sync_each(share)),
                )
            })
            .collect();
        let mut results = sync_each(ours);
        for (share, thread) in others {
            results.extend(match thread {
                Ok(thread) => thread.join().expect("syncing a file does not panic"),
                Err(_) => sync_each(share),
            });
        }
        results
    })
}
