//! Rows F89 to F96, F98, F100, F102 and F103 of the fault catalogue, and F21, F25, F31 to F33 with real processes: locks,
//! directories, limits and ends.
//!
//! A child process is this test's own executable with a role (see `common/child.rs`). Where a row needs a program that is not
//! on the machine (`prlimit`, `strace`, `unshare`), its test says so and does nothing. (F93 with the simulated disk, since a
//! test of this crate has no `unsafe` and so no `fork`. F100's network file systems are documented, not tested.)
#![cfg(unix)]

#[path = "../common/mod.rs"]
mod common;

#[path = "../common/child.rs"]
mod child;

mod directories;
mod ends;
mod limits;
mod locks;
mod roles;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use thalweg::{Durability, Log, Maintenance, Partition, Record, Result, TopicConfig};

#[test]
fn the_child_process() {
    if let Some(role) = child::role() {
        roles::play(&role);
    }
}

/// Opens the log without a thread of its own.
fn open(dir: &Path) -> Result<Log> {
    Log::builder().maintenance(Maintenance::Manual).open(dir)
}

fn small(level: Durability) -> TopicConfig {
    TopicConfig::new().durability(level).segment_bytes(2048)
}

/// Partition 0 of the topic `t`, which is made if there is none.
fn partition(log: &Log, level: Durability) -> Partition {
    let topic = log.topic_or_create("t", small(level)).unwrap();
    topic.partition(0).unwrap()
}

/// Appends `record 3` and so on.
fn append(partition: &Partition, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let at = partition
            .append(Record::keyless(format!("record {number}")))
            .unwrap();
        assert_eq!(at.offset().get(), number);
    }
}

/// All of them are there, from 0, and no others.
fn check(partition: &Partition, count: u64) {
    let mut next = 0;
    for entry in partition.entries(..) {
        let entry = entry.unwrap();
        assert_eq!(entry.offset().get(), next);
        assert_eq!(entry.value_str().unwrap(), format!("record {next}"));
        next += 1;
    }
    assert_eq!(next, count);
}

/// Every name below a directory, with what the file holds.
fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.insert(path.clone(), Vec::new());
                dirs.push(path);
            } else {
                let bytes = fs::read(&path).unwrap();
                found.insert(path, bytes);
            }
        }
    }
    found
}
