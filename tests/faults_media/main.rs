//! Rows F39 to F52 of the fault catalogue: the medium gives back other bytes than it was given.
//!
//! Everywhere the same judge: each record is there bit for bit, or an error or the report names it. Never other data, never
//! silence, and nothing is deleted.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/forge.rs"]
mod forge;
#[path = "../common/media.rs"]
mod media;

mod batches;
mod chain;
mod names;
mod outside;
