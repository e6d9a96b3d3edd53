//! Every bit of a log flipped, and every length it may be cut to: the same data or a typed error, never other data.
//!
//! A log of two segments and 64 KiB is built once for each way it may have ended; each run damages a copy in one place, opens
//! it, reads everything and compares. `cargo test` draws a sample by a printed seed; `THALWEG_LONG=full` does all of it:
//!
//! ```text
//! THALWEG_LONG=full cargo test --release --test bit_flips -- --nocapture
//! ```

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/forge.rs"]
mod forge;
#[path = "../common/media.rs"]
mod media;

mod sampling;
mod segments;
mod small_files;
