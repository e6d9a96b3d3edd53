//! The ways in for fuzzers: any bytes give an answer, never a panic, and what is read of known records are those records.
//!
//! The first byte of an input chooses: with bit 0 set the checksums in the rest are mended before it is used, so that a fuzzer
//! gets past them to what they protect. Not a part of the public surface: it may change with any version.

mod decoders;
mod golden;
mod lives;
mod logs;
mod mend;
mod mutation;

pub use decoders::{batch, segment};
pub use logs::{directory, index, state};

/// A name, and what is done with an input.
pub type Target = (&'static str, fn(&[u8]));

/// The kinds of inputs: each has a function of this module by its name, and a corpus.
pub const TARGETS: [Target; 5] = [
    ("batch", batch),
    ("segment", segment),
    ("index", index),
    ("state", state),
    ("directory", directory),
];

/// Inputs to begin with, by target and name: sound ones, made of the golden logs.
pub fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let mut seeds = decoders::seeds();
    seeds.extend(logs::seeds());
    seeds
}

/// Bit 0 of the first byte, the byte itself, and the rest.
fn split(data: &[u8]) -> Option<(bool, u8, &[u8])> {
    let (&flags, rest) = data.split_first()?;
    Some((flags & 1 == 1, flags, rest))
}
