//! Failure reports of others, as scenarios of this crate: storage and recovery (B1–B22), open files (B100), large records (B102).
//!
//! B58 and B99 are told with rows F84 and F88 of the fault catalogue, in the suite `faults_input`.

#[path = "../common/logs.rs"]
mod logs;

mod damage;
mod generations;
mod handles;
mod indexes;
mod tails;
mod writes;
