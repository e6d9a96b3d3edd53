//! Rows F21 to F38 of the fault catalogue: system calls that fail.
//!
//! On the simulated disk, call by call; the real limits of a process (F31, F32, F33) and a really full file system are in the
//! suite `process`. F36 (one write of more than 2 GiB) is shown by writes that are done in pieces: no batch can be so large.
//! F38 needs no test: closing a file has no result here, since nothing rests on it: what was acknowledged was synced before.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/story.rs"]
mod story;

mod names;
mod reads;
mod space;
mod standing;
mod syncs;
