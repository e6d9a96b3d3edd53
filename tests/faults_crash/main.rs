//! Rows F1 to F20 of the fault catalogue: a crash, or a loss of power, on the write path.
//!
//! Each test runs a short workload on a simulated disk, takes the states that a crash may leave, and opens them with the real
//! code. The oracle is in `common/story.rs`. (F10's topics are here as far as they are created; F18 with threads.)

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/story.rs"]
mod story;

mod append;
mod files;
mod offsets;
mod tails;
mod twice;
