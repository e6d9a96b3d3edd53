//! What the bytes on disk mean: the specification, and the code that writes and reads them.

#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation
    )
)]

pub(crate) mod batch;
pub(crate) mod body;
pub(crate) mod compress;
pub(crate) mod encoder;
pub(crate) mod epoch;
pub(crate) mod extension;
pub(crate) mod footer;
pub(crate) mod index;
pub(crate) mod ledger;
pub(crate) mod names;
pub(crate) mod root;
pub(crate) mod segment;
pub(crate) mod slots;
pub(crate) mod state;
mod tlv;
pub(crate) mod topic;
pub(crate) mod wire;

/// Why some bytes did not decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// The item needs at least this many bytes, counted from its start.
    Short { needed: usize },
    /// It fails its checksum, a bound, or a reserved value.
    Corrupt,
    /// It is sound, but was written by a newer version: an unknown codec, required bit, TLV below 128, or version.
    Newer { found: u32, supported: u32 },
}

/// The major version of the format that this crate writes. Version 0 promises nothing.
pub(crate) const MAJOR: u16 = 0;
