//! Compaction, rows F66 to F71 of the fault catalogue: of each key the latest record stays, whatever happens while the others go.
//!
//! Of F71 that is all until there are transactions. Each random test prints its seed; `THALWEG_LONG=10` tries more.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/forge.rs"]
mod forge;
#[path = "../common/latest.rs"]
mod latest;
#[path = "../common/logs.rs"]
mod logs;

mod chains;
mod crashes;
mod damage;
mod errors;
mod readers;
mod rounds;
mod settings;
mod shapes;
mod skewed;
mod threads;
mod tombstones;
mod world;

use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
