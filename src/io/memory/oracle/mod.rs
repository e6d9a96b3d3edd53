//! Tests of the simulation. Everything else is tested against the states that it yields, so it is tested hardest.

mod bytes;
mod death;
mod faults;
mod lives;
mod names;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::Memory;
use super::models::{CrashModel, Variants};
use crate::io::{File, OpenMode, Storage, write_full};

use CrashModel::{GarbagePages, LostPages, LostSuffix, LyingDevice, ProcessKill};

const PAGE: u64 = 4096;
const MODELS: [CrashModel; 5] = [
    ProcessKill,
    LostSuffix,
    LostPages,
    GarbagePages,
    LyingDevice,
];

fn path(name: &str) -> &Path {
    Path::new(name)
}

fn create(disk: &Memory, name: &str) -> Arc<dyn File> {
    disk.open(path(name), OpenMode::CreateNew).unwrap()
}

/// A file whose name and `bytes` are durable.
fn durable(disk: &Memory, name: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = create(disk, name);
    write_full(&*file, bytes, 0).unwrap();
    file.sync_all().unwrap();
    disk.sync_dir(path("/")).unwrap();
    file
}

/// Every state, or a good sample, that a crash now may leave.
fn crashes(disk: &Memory, model: CrashModel) -> Vec<Memory> {
    let count = match disk.variants(disk.points(), model) {
        Variants::All(count) => count,
        Variants::Sampled => 200,
    };
    (0..count)
        .map(|seed| disk.crash(disk.points(), model, seed))
        .collect()
}

/// What a file holds in each of those states; `None` where it is missing.
fn outcomes(disk: &Memory, model: CrashModel, name: &str) -> BTreeSet<Option<Vec<u8>>> {
    crashes(disk, model)
        .iter()
        .map(|crashed| crashed.read_file(path(name)).ok())
        .collect()
}

fn some(bytes: &[u8]) -> Option<Vec<u8>> {
    bytes.to_vec().into()
}
