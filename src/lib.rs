//! **Kafka's model as an embeddable library**: partitioned, replayable, durable logs with consumer groups, as plain function
//! calls on local segment files.
//!
//! A program links it and needs no server. Records go into *topics*, each split into *partitions* by the key of the record; a
//! partition keeps its records in order, under *offsets* that are never given out twice. *Consumer groups* read them, each at
//! its own pace, and say how far they are done; what they have said survives a crash, and so does what was acknowledged.
//!
//! ```
//! use std::time::Duration;
//! use thalweg::{Log, TopicConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path();
//! let log = Log::open(path)?;
//! let orders = log.topic_or_create("orders", TopicConfig::new().partitions(4))?;
//! orders.append(("customer-7", "2 x espresso"))?;        // same key, same partition, same order
//! orders.append(("customer-9", "1 x flat white"))?;
//!
//! let mut kitchen = log.group("kitchen").subscribe(["orders"]).join()?;
//! for order in &kitchen.poll(Duration::from_secs(1))? {
//!     println!("{} {}", order.position(), order.value_str()?);
//! }
//! kitchen.commit()?;                                     // next time, begin after these
//! kitchen.close()?;
//! # Ok(()) }
//! ```
//!
//! # I want to…
//!
//! | | |
//! | --- | --- |
//! | open a log, or make one | [`Log::open`], [`Log::builder`]; in memory, for tests: [`Log::in_memory`] |
//! | look at a log that another process writes | [`Log::open_read_only`] |
//! | know what a crash has cost | [`Log::recovery`] |
//! | make a topic, or open it if it is there | [`Log::topic_or_create`], [`TopicConfig`]; all there are: [`Log::topics`] |
//! | change the settings of a topic, its level of durability too | [`Topic::alter`] |
//! | delete a topic | [`Log::delete_topic`] |
//! | give a topic more partitions, though keys move then | [`Topic::add_partitions_breaking_key_order`] |
//! | write | [`Topic::append`], [`Topic::append_all`]; to one partition, [`Partition::append`] |
//! | write only if nobody else did | [`Partition::append_at`] |
//! | keep the last week, or the last gigabyte | [`TopicConfig::retention`], [`Retention`]: [`keeping`](guide::keeping) |
//! | keep the latest record of each key | [`TopicConfig::compacted`], [`Compaction`]; now: [`Topic::compact`] |
//! | delete what a key stood for | [`Record::tombstone`] |
//! | delete what is older than a certain record | [`Partition::delete_before`] |
//! | choose how safe an append is | [`TopicConfig::durability`] |
//! | be sure of everything that was written so far | [`Log::sync`] |
//! | read as a group, and go on there next time | [`Log::group`], [`ConsumerGroup::subscribe`], [`Consumer`] |
//! | share the work among threads | [join](ConsumerBuilder::join) the group once in each: [`groups`](guide::groups) |
//! | choose who gets which partition | [`ConsumerBuilder::assignor`], [`assignor`] |
//! | be told when partitions come and go, and keep state for each | [`RebalanceListener`], [`ConsumerBuilder::listener`] |
//! | restart a member without disturbing the others | [`ConsumerBuilder::instance_id`] |
//! | handle records that take long | [`ConsumerBuilder::max_poll_interval`], [`ConsumerBuilder::max_poll_records`] |
//! | read certain partitions, and share with nobody | [`ConsumerGroup::assign`] |
//! | wait for records until I am told to stop | [`Consumer::next_batch`], [`Consumer::wake_handle`] |
//! | commit in the middle of a batch | [`Consumer::commit_through`], [`Consumer::commit_at`] |
//! | know how far a group is behind | [`ConsumerGroup::lag`], [`ConsumerGroup::committed`] |
//! | read once more | [`Consumer::seek`] back after a poll, [`Consumer::seek_to_committed`]; a group that nobody reads: [`ConsumerGroup::reset`] |
//! | read nothing of a partition for a while | [`Consumer::pause`] |
//! | list, describe, move and delete groups | [`Log::groups`], [`ConsumerGroup::describe`], [`ConsumerGroup::set_positions`], [`Log::delete_group`]; let go of those that nobody uses: [`LogBuilder::offsets_retention`] |
//! | be done with records for good, whatever happens to the machine | [`Consumer::commit_durable`] |
//! | do without the log's thread | [`Maintenance::Manual`], [`Log::maintain`] |
//! | look at records without a group | [`Partition::entries`], [`Partition::get`], [`Partition::offset_for_time`] |
//! | keep a record longer than its batch | [`EntryRef::to_entry`], [`Entry::detached`] |
//! | have the partitions that a Kafka cluster would choose | [`Partitioner::Kafka`] |
//! | test a consumer without a broker, a sleep or a disk | `testing::TestLog`, feature `testing` |
//! | know what to do about an error | [`Error`], [`Error::outcome`], [`Error::partition`] |
//! | make a partition work again after a failed sync | [`Partition::recover`] |
//! | copy a log | [`durability`](guide::durability#copies-and-backups) |
//! | test my code, with crashes, failing disks and a clock that I move | [`guide::testing`] |
//!
//! The [`guide`] is the book: concepts, groups, what is kept, durability, testing, files, changes.
//!
//! # Durability, named by what it survives
//!
//! | Level | `Ok` from append means | survives panic, abort, `kill -9` | survives power loss |
//! | --- | --- | --- | --- |
//! | [`Process`](Durability::Process) | the operating system has the bytes | every acknowledged record | a prefix; no bound on the lost tail |
//! | [`Interval`](Durability::Interval) | as `Process`; a sync follows within `time` or `bytes` | every acknowledged record | a prefix; the lost tail is at most the last `time` (and one pass of syncs) or `bytes` |
//! | [`Power`](Durability::Power) (default) | data synced, and every new directory entry up to the root | every acknowledged record | every acknowledged record |
//!
//! At every level a record is seen only when it is as safe as its level promises, a batch is there as a whole or not at all, and
//! damage is an error that names the file and the byte. Committed offsets are handed to the operating system at once and synced
//! soon after, behind the records that they speak of, by the log's thread or by [`Log::maintain`]: losing one to a power cut
//! repeats work, it loses none (unless the group begins at [`StartFrom::Latest`] or [`StartFrom::Ago`] where it has no commit). [`Consumer::commit_durable`] waits until that cannot happen.
//!
//! # Errors that any call can give
//!
//! Every call on a closed log is [`Error::Closed`], every write to one that was opened to be read is [`Error::ReadOnly`], and a log
//! whose directory was taken from it writes no more ([`Error::Poisoned`]). Every call on a deleted topic is [`Error::NotFound`]. Where a list of errors below names the disk, that is
//! [`Error::Io`], [`Error::NoSpace`], [`Error::Corruption`], [`Error::Poisoned`].
//!
//! # Not there yet
//!
//! A damaged partition can be read and not be repaired. There are no producers with batching and no transactions.
//!
//! # Features
//!
//! `lz4` and `zstd` compress record batches; a log with a topic that is compressed so cannot be opened by a build without it.
//! `testing` adds `testing::TestLog`, a log whose crashes, faults and time a unit test chooses, and what it is made of. (The crate is
//! then a dev-dependency with that feature, beside the dependency without it.)

pub(crate) mod varint;

#[macro_use]
mod planted;

mod clock;
mod entry;
mod error;
mod offset;
mod record;
mod sleepers;
mod sync;

mod format;
mod io;

mod segment;
mod slotted;

mod partition;

mod log;

mod consumer;

pub mod guide;
#[cfg(feature = "testing")]
pub mod testing;

pub use clock::Timestamp;
pub use consumer::assignor;
pub use consumer::{
    Batch, BatchIntoIter, BatchIter, Consumer, ConsumerBuilder, ConsumerGroup, GroupDescription,
    MemberDescription, Membership, OnOutOfRange, PartitionProgress, Rebalance, RebalanceListener,
    Reset, WakeHandle,
};
pub use entry::{Entry, EntryRef, Headers, TimestampType};
pub use error::{BoxError, Error, FencedBy, Outcome, Result};
pub use log::{
    Log, LogBuilder, Maintenance, MaintenanceReport, OnCorruption, Partitioner, Topic, TopicConfig,
    TopicSettings,
};
pub use offset::{Offset, PartitionId, Position, Positions, StartFrom, TopicPartition};
pub use partition::Partition;
pub use partition::entries::Scan;
pub use partition::policy::{Compaction, Retention, RetentionTime};
pub use partition::report::{Finding, FindingKind, RecoveryReport};
pub use partition::settings::{Compression, Durability, OnSuspectTail};
pub use record::{IntoBytes, Record};
pub use segment::ReadMode;

/// The programs in the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
