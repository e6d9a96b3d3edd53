//! Rows F53 to F64 of the fault catalogue: index, recovery points, `STATE`, and opening under limits.
//!
//! What is a cache may be lost without a trace. What is evidence may be lost too, and costs time, or offsets, never a record.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/forge.rs"]
mod forge;
#[path = "../common/media.rs"]
mod media;

mod index;
mod limits;
mod points;
mod state;
