//! The public surface does what its documentation says: each method in its plain case, at its edges, and in its errors.

#[path = "../common/logs.rs"]
mod logs;

mod compression;
mod handles;
mod partitions;
mod times;
mod topics;
mod vocabulary;
