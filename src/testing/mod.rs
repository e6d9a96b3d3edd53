//! For tests: the real log, on storage that crashes and fails where a test says, and on a clock that it moves.
//!
//! * **[`TestLog`]** is for whoever tests code that uses a log: handlers, services, groups. Begin with its page.
//! * [`Disk`] and [`ManualClock`], which it is made of, are for tests of what lies lower: a log with settings of its own
//!   ([`LogBuilder::open_on`](crate::LogBuilder::open_on), [`LogBuilder::clock`](crate::LogBuilder::clock)), a crash after each of many
//!   calls, files that rot, faults that strike the third write to one file.
//!
//! A [`Disk`] is a file system in memory that remembers what was synced. Run your code on it, then ask for the state that a
//! crash after any of its calls may leave, and run your code on that. All of it is deterministic: the same calls, crash point,
//! model and seed give the same bytes.
//!
//! ```
//! use thalweg::testing::{CrashModel, Disk, Variants};
//!
//! let disk = Disk::new();
//! disk.write_file("/log/notes", b"durable at once")?;
//! for after in 0..=disk.points() {
//!     if let Variants::All(count) = disk.variants(after, CrashModel::LostPages) {
//!         for seed in 0..count {
//!             let crashed = disk.crash(after, CrashModel::LostPages, seed);
//!             let _ = crashed.read_file("/log/notes");
//!         }
//!     }
//! }
//! # std::io::Result::Ok(())
//! ```

mod clock;
mod disk;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod test_log;

pub use crate::io::memory::DiskCall;
pub use crate::io::memory::errors::{DiskError, FailedSync, Short};
pub use crate::io::memory::faults::Fault;
pub use crate::io::memory::models::{CrashModel, Variants};

pub use self::clock::ManualClock;
pub use self::disk::Disk;
pub use self::test_log::{Call, Survives, TestLog};

#[cfg(planted)]
#[doc(hidden)]
pub use crate::planted::{Bug, plant};
