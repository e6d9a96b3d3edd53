//! The ledger over a long life: commits without end, passes over them, and crashes at every step of a pass.

#[path = "../common/mod.rs"]
mod common;
mod crashes;
mod durable;
mod group;
mod passes;
