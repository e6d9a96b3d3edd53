//! The fuzzers' corpora, replayed on a stable toolchain: every input is answered as the fuzz target demands, and so are
//! mutations of it that a seed chooses.
//!
//! `fuzz/corpus/<target>` holds sound inputs and those that once found something. To look for more:
//! `cargo +nightly fuzz run --fuzz-dir tests/fuzz batch`

mod common;
#[path = "common/forge.rs"]
mod forge;

use std::fs;
use std::path::{Path, PathBuf};

use common::Dice;
use thalweg::testing::fuzzing::{self, TARGETS};
use thalweg::testing::{Disk, ManualClock};
use thalweg::{Error, TopicConfig};

fn corpus_dir(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fuzz/corpus")
        .join(target)
}

/// The inputs of a target, by name.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let dir = fs::read_dir(corpus_dir(target)).expect("every target has a corpus");
    let mut inputs: Vec<_> = dir
        .map(|entry| {
            let path = entry.expect("the corpus can be listed").path();
            let bytes = fs::read(&path).expect("an input can be read");
            (path.to_string_lossy().into_owned(), bytes)
        })
        .collect();
    inputs.sort();
    assert!(inputs.len() >= 5, "{target} has {} inputs", inputs.len());
    inputs
}

/// Runs one input; if it panics, says how to run it again.
fn run(target: fn(&[u8]), name: &str, input: &[u8]) {
    struct Told<'a>(&'a str, &'a [u8]);
    impl Drop for Told<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                println!("input {}: {:02x?}", self.0, self.1);
            }
        }
    }
    let _told = Told(name, input);
    target(input);
}

#[test]
fn every_input_of_the_corpora_is_answered() {
    for (name, target) in TARGETS {
        let inputs = corpus(name);
        println!("{name}: {} inputs", inputs.len());
        for (path, input) in inputs {
            println!("{path}"); // the last one, if it hangs
            run(target, &path, &input);
        }
    }
}

/// About four seconds; the targets that open a log take fewer.
#[test]
fn mutations_of_the_corpora_are_answered() {
    let mut dice = Dice::new(common::seed());
    for (name, target) in TARGETS {
        let inputs = corpus(name);
        let runs = match name {
            "batch" => 30_000,
            "segment" => 6_000,
            _ => 600,
        } * common::scale();
        for n in 0..runs {
            let (path, input) = &inputs[dice.below(inputs.len() as u64) as usize];
            let (_, other) = &inputs[dice.below(inputs.len() as u64) as usize];
            let mutated = mutated(input, other, &mut dice);
            run(target, &format!("{path}, mutation {n}"), &mutated);
        }
        println!("{name}: {runs} mutations");
    }
}

/// A few changes of the kinds that fuzzers make.
fn mutated(input: &[u8], other: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=dice.below(4) {
        let at = dice.below(bytes.len() as u64 + 1) as usize;
        let size = dice.below(16) as usize;
        let end = (at + size).min(bytes.len());
        match dice.below(8) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => drop(bytes.splice(at..at, vec![dice.roll() as u8; size])),
            3 => {
                let from = dice.below(other.len() as u64 + 1) as usize;
                let upto = (from + size * 4).min(other.len());
                drop(bytes.splice(at..end, other[from..upto].iter().copied()));
            }
            4 => bytes[at..end].fill([0, 0xFF, 0x7F, 0x80][dice.below(4) as usize]),
            5 => bytes[at..end]
                .iter_mut()
                .for_each(|byte| *byte = byte.wrapping_add(1)),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << dice.below(8);
                }
            }
        }
    }
    bytes
}

/// Found by `directory`: whoever read the batch waited for ever for the bytes that its extension seemed to have.
#[test]
fn an_extension_that_reaches_beyond_a_sealed_segment_is_damage_like_any_other() {
    let (disk, clock) = (Disk::new(), ManualClock::new());
    let log = common::open(&disk, &clock).expect("an empty disk takes a log");
    let orders = log
        .create_topic("orders", TopicConfig::new().partitions(1))
        .and_then(|topic| topic.partition(0))
        .expect("a new topic");
    for n in 0..3 {
        orders
            .append_all([("key", format!("value {n}"))])
            .expect("a sound disk takes records");
    }
    orders.roll().expect("a sound disk");
    drop(orders);
    log.close().expect("a sound disk");
    let (path, _) = disk
        .files()
        .into_iter()
        .find(|(path, len)| path.ends_with("00000000000000000000-00000000.log") && *len > 300)
        .expect("the sealed segment");
    let mut segment = disk.read_file(&path).expect("it is listed");
    let last = forge::batches(&segment)[2].position;
    forge::put(&mut segment, last + 34, &[0xFF, 0xFF]);
    disk.write_file(&path, &segment).expect("it is listed");
    let log = common::open(&disk, &clock).expect("the log opens");
    let orders = log
        .topic("orders")
        .and_then(|topic| topic.partition(0))
        .expect("the topic is there");
    let read: Vec<_> = orders.entries(..).take(4).collect();
    assert!(read[..2].iter().all(Result::is_ok));
    assert!(
        matches!(read[2], Err(Error::Corruption { .. })),
        "{:?}",
        read[2]
    );
}

#[test]
#[ignore = "writes the seeds into the corpora: only when the format changes"]
fn write_the_seeds() {
    for (target, name, bytes) in fuzzing::seeds() {
        let dir = corpus_dir(target);
        fs::create_dir_all(&dir).expect("a place for it");
        fs::write(dir.join(name), bytes).expect("it is written");
    }
}
