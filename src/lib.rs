//! Kafka's model as an embeddable library.

pub(crate) mod varint;

mod clock;
mod error;
mod offset;
mod record;

mod format;
mod io;

mod segment;
mod slotted;

mod partition;

mod log;

mod consumer;

#[cfg(feature = "testing")]
pub mod testing;

pub use clock::Timestamp;
