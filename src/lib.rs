//! Kafka's model as an embeddable library.

pub(crate) mod varint;

#[macro_use]
mod planted;

mod clock;
mod entry;
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
pub use consumer::{
    Batch, BatchIntoIter, BatchIter, Consumer, ConsumerBuilder, ConsumerGroup, Membership,
    OnOutOfRange, Reset, WakeHandle,
};
pub use entry::{Entry, EntryRef, Headers, TimestampType};
pub use error::{BoxError, Error, FencedBy, Outcome, Result};
pub use log::{
    Compaction, Log, LogBuilder, Maintenance, OnCorruption, Partitioner, Retention, RetentionTime,
    Topic, TopicConfig, TopicSettings,
};
pub use offset::{Offset, PartitionId, Position, Positions, StartFrom, TopicPartition};
pub use partition::Partition;
pub use partition::entries::Scan;
pub use partition::report::{Finding, FindingKind, RecoveryReport};
pub use partition::settings::{Compression, Durability, OnSuspectTail};
pub use record::{IntoBytes, Record};
pub use segment::ReadMode;
