//! Many threads on one log, without a sleep: order per producer, every acknowledged record once, syncs that are shared, groups too.

#[path = "../common/logs.rs"]
mod logs;

mod appending;
mod sharing;
mod syncing;
