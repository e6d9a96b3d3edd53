//! What can go wrong: what happened, to which file or partition, and what the caller can do.
//!
//! One enum for the whole crate, flat: a variant is a situation with its facts, and its documentation says what to do about it.
//! What callers ask of every error (may it be tried again? which partition is it about?) are methods, in `error/answers.rs`, so
//! that nobody needs to parse a message. `error/make.rs` has the short ways in which this crate makes them.

mod answers;
mod facts;
mod make;

pub use facts::{FencedBy, Outcome};

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::offset::{Offset, Position, TopicPartition};

/// `Result` with this crate's error; the second parameter keeps `Result<T, MyError>` working after an import.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What user callbacks may fail with; `?` turns any error into it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// One variant is one situation with its facts; its documentation says what to do. At most 64 bytes.
///
/// `Display` is the message alone. `Debug` adds the sources, a line each, because that is what `main` prints when it returns
/// an error.
///
/// ```
/// use thalweg::{Error, Outcome, Position};
///
/// let error = "orders/3/17".parse::<Position>().unwrap_err();
/// assert!(matches!(error, Error::InvalidName { .. }));
/// assert_eq!(error.outcome(), Outcome::Rejected);
/// assert!(!error.is_retriable());
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // ── the call was wrong, or too big
    /// A setting has a value that cannot be, alone or beside the others. Correct it.
    #[error("`{setting}` cannot be so: {why}")]
    #[non_exhaustive]
    InvalidSetting {
        /// The setting, as the method that sets it is called.
        setting: &'static str,
        /// What is wrong with its value, and what would be right.
        why: Box<str>,
    },
    /// A name or a position that cannot be. Correct it.
    #[error("{name:?} cannot be used: {why}")]
    #[non_exhaustive]
    InvalidName {
        /// The name as it was given.
        name: Box<str>,
        /// The rule that it breaks.
        why: &'static str,
    },
    /// There is none of that name. Create it, or correct the name.
    #[error("there is no {what} {name:?}")]
    #[non_exhaustive]
    NotFound {
        /// What was looked for, such as `topic`.
        what: &'static str,
        /// The name as it was given.
        name: Box<str>,
    },
    /// There is one of that name already. Open it instead, or choose another name.
    #[error("there is a {what} {name:?} already: open that one or choose another name")]
    #[non_exhaustive]
    AlreadyExists {
        /// What was to be made, such as `topic`.
        what: &'static str,
        /// The name as it was given.
        name: Box<str>,
    },
    /// The stored and the wanted setting differ, and the call does not change this one. Ask for the stored one, or for none.
    /// ([`Topic::alter`](crate::Topic::alter) changes the durability,
    /// [`add_partitions_breaking_key_order`](crate::Topic::add_partitions_breaking_key_order) the number of partitions, and nothing the rest.)
    #[error(
        "topic {topic:?} is stored with `{setting}` {stored}, which this call does not change: ask for that or leave it unset"
    )]
    #[non_exhaustive]
    ConfigMismatch {
        /// The name of the topic.
        topic: Box<str>,
        /// The setting that differs.
        setting: &'static str,
        /// Its stored value.
        stored: Box<str>,
    },
    /// A record, or the records that must go into one record batch, are over a limit. Nothing was written.
    #[error("{size} bytes are over the limit of {limit}: write less at once or raise `{setting}`")]
    #[non_exhaustive]
    RecordTooLarge {
        /// Bytes that were to be written, counted as the limit counts them.
        size: u64,
        /// Bytes that are allowed.
        limit: u64,
        /// The setting that allows more.
        setting: &'static str,
    },
    /// The topic takes records with a key only. Give one.
    #[error("topic {topic:?} takes no record without a key: give it one")]
    #[non_exhaustive]
    KeyRequired {
        /// The name of the topic.
        topic: Box<str>,
    },
    /// A time outside of what the topic allows, or the format can hold. The whole batch was refused.
    #[error(
        "the time {} is outside of {}..{} (milliseconds since 1970): correct it, or widen the limits of the topic",
        at.as_millis(), allowed.start.as_millis(), allowed.end.as_millis()
    )]
    #[non_exhaustive]
    InvalidTimestamp {
        /// The time that was given, or that the clock told.
        at: Timestamp,
        /// The times that are allowed; the end is not.
        allowed: Box<Range<Timestamp>>,
    },
    /// A bound that is no error of any single record: the last offset, the records of one batch. Nothing was written.
    #[error("no more than {limit} {setting}")]
    #[non_exhaustive]
    LimitExceeded {
        /// What is bounded.
        setting: &'static str,
        /// The bound.
        limit: u64,
    },
    /// The buffer stayed full for as long as the call may wait. Try again later, and slow down meanwhile.
    #[error(
        "the buffer of {limit} bytes was still full after {waited:?}: slow down, or raise `{setting}`"
    )]
    #[non_exhaustive]
    BufferFull {
        /// The setting that makes the buffer larger.
        setting: &'static str,
        /// Bytes that the buffer holds.
        limit: u64,
        /// How long the call waited.
        waited: Duration,
    },
    /// What stands behind this handle cannot do it. Do without, or use the other engine.
    #[error("{what} is not supported by {engine}")]
    #[non_exhaustive]
    Unsupported {
        /// What stands behind the handle, such as `kafka`.
        engine: &'static str,
        /// What was asked for.
        what: &'static str,
    },

    // ── conditional writes
    /// Somebody else appended first. Read what is new, decide again, try with the new end.
    #[error(
        "{at} ends at {actual_end} and not at {expected_end}: read what is new and decide again"
    )]
    #[non_exhaustive]
    Conflict {
        /// The partition.
        at: Box<TopicPartition>,
        /// The end that the caller expected.
        expected_end: Offset,
        /// The end as it is.
        actual_end: Offset,
    },

    // ── groups
    /// The consumer does not own this partition: not yet, since its partitions come to it in a poll, or not any more. Poll, and ask
    /// for its assignment.
    #[error("{at} is not assigned to this consumer: its partitions come and go within its polls")]
    #[non_exhaustive]
    NotAssigned {
        /// The partition.
        at: Box<TopicPartition>,
    },
    /// The group was rebalanced since the records were polled. Poll again; what was not committed may come to another member.
    #[error("group {group:?} is at generation {current} and this call at {held}: poll again")]
    #[non_exhaustive]
    StaleGeneration {
        /// The name of the group.
        group: Box<str>,
        /// The generation that the call was made under.
        held: u64,
        /// The generation of the group.
        current: u64,
    },
    /// This member or producer was shut out, and nothing was done. A member joins its group again in its next poll, which tells
    /// its listener what was lost; unless another one took its place ([`FencedBy::NewerInstance`]): drop it then. After
    /// [`FencedBy::Left`] subscribe again.
    #[error("{who} was shut out: {why}")]
    #[non_exhaustive]
    Fenced {
        /// The member or producer.
        who: Box<str>,
        /// How it came to be.
        why: FencedBy,
    },
    /// `commit()` within a loop that takes the records of the last batch out of it: it would commit what was not handled yet.
    /// Use `commit_through` there, or commit after the loop. (The next `poll` counts them as returned: whoever leaves the loop
    /// early and wants them again seeks back first.)
    #[error(
        "{left} records of the last batch were not taken: use `commit_through` for those that were, or seek back to the others"
    )]
    #[non_exhaustive]
    BatchUnfinished {
        /// How many were not taken.
        left: usize,
    },
    /// The group has members, and what was asked for works only while it has none. Close them, or wait until they are gone (a
    /// static member keeps its place for its `session_timeout`; `remove_member` ends that).
    #[error("group {group:?} has {members} members: close them first")]
    #[non_exhaustive]
    GroupNotEmpty {
        /// The name of the group.
        group: Box<str>,
        /// How many.
        members: usize,
    },
    /// A function of yours that this crate has called, called back into what it is called for. Do it from outside.
    #[error("called from within a function that decides about it: {call}")]
    #[non_exhaustive]
    Reentrant {
        /// The function of yours: `assign` of an [`Assignor`](crate::assignor::Assignor).
        call: &'static str,
    },
    /// A callback of the listener returned an error, which is the source. It vetoed nothing: partitions have moved, and this member
    /// goes on. (Where several did, the first.)
    #[error("the listener's `{callback}` failed")]
    #[non_exhaustive]
    Listener {
        /// `assigned`, `revoked` or `lost`.
        callback: &'static str,
        /// What it returned.
        source: BoxError,
    },
    /// `wake` was called. No position has moved: poll again, or close.
    #[error("the wait was ended by `wake`")]
    Woken,

    // ── one partition cannot be read; the others go on
    /// No record can be there. Seek to somewhere in the valid range; its end, where the next record will be, included.
    #[error("{requested} is out of range: the partition holds {}..{}", valid.start, valid.end)]
    #[non_exhaustive]
    OutOfRange {
        /// The position that was to be read.
        requested: Box<Position>,
        /// The first offset that can be read, and the next to be written.
        valid: Range<Offset>,
    },
    /// The group has no committed offset here, and is told to fail then. Seek to where it should begin, or join with another
    /// `start_from`.
    #[error(
        "group {group:?} has no committed offset for {at}: seek to where it should begin or choose another `start_from`"
    )]
    #[non_exhaustive]
    NoPosition {
        /// The partition.
        at: Box<TopicPartition>,
        /// The name of the group.
        group: Box<str>,
    },
    /// Stored bytes are not those that were written. Other partitions, and the valid ranges of this one, can be read;
    /// the error names what cannot.
    #[error("{} is damaged at byte {byte}{}: the rest can be read, and writing here waits for a repair", file.display(), facts::Lost(lost))]
    #[non_exhaustive]
    Corruption {
        /// The damaged file.
        file: Box<Path>,
        /// The first bad position in it, in bytes.
        byte: u64,
        /// The records that cannot be read, where that is known.
        lost: Option<Box<(TopicPartition, Range<Offset>)>>,
    },
    /// A repair removed damaged records here. Told once to each reader that crosses the place; `resume` goes on behind it.
    #[error("records {}..{} of {at} were damaged and removed by a repair: resume to go on behind them", lost.start, lost.end)]
    #[non_exhaustive]
    DataLoss {
        /// The partition.
        at: Box<TopicPartition>,
        /// The first record that was removed, and the first behind them.
        lost: Range<Offset>,
    },

    // ── bytes that are not what the caller wants
    /// A record is sound, but not of the form that was asked for: no value, no UTF-8. Skip it or set it aside.
    #[error("the record at {at} is not of the form that was asked for")]
    #[non_exhaustive]
    Decode {
        /// The record.
        at: Box<Position>,
        /// What is wrong with it.
        source: BoxError,
    },

    // ── disk and process
    /// Another handle or process writes this log. Close it there, or open read-only.
    #[error("{} is open already: close it there or open it read-only", dir.display())]
    #[non_exhaustive]
    AlreadyOpen {
        /// The directory of the log.
        dir: Box<Path>,
    },
    /// No space, quota or file size is left. Nothing was written, and reading goes on; make room and try again.
    #[error("no space is left to write {}: make room and try again", file.display())]
    #[non_exhaustive]
    NoSpace {
        /// The file that could not grow.
        file: Box<Path>,
    },
    /// The log was opened for reading only, or its file system is. Nothing was written.
    #[error("{} can only be read", dir.display())]
    #[non_exhaustive]
    ReadOnly {
        /// The directory.
        dir: Box<Path>,
    },
    /// Written by a newer version of this crate, or with a feature that this build lacks. Nothing is damaged: use that version.
    #[error(
        "{} is of format {found} and this build reads up to {supported}{}: use the version that wrote it",
        file.display(), facts::Lost(unread)
    )]
    #[non_exhaustive]
    Incompatible {
        /// The file.
        file: Box<Path>,
        /// The format, feature bit or codec that was found.
        found: u32,
        /// The highest that this build knows.
        supported: u32,
        /// When one record batch is meant: what it holds. The rest of the partition can be read.
        unread: Option<Box<(TopicPartition, Range<Offset>)>>,
    },
    /// An earlier sync or rollback failed, so that nothing more can be promised: appends are refused until
    /// `Partition::recover` or reopening. Reads go on.
    #[error(
        "{} takes no appends after an earlier failure: {}",
        facts::Whose(at),
        facts::cure(at.as_deref(), cause)
    )]
    #[non_exhaustive]
    Poisoned {
        /// The partition; `None` for the journal of transactions, and for the whole log (with the cause `LockLost`).
        at: Option<Box<TopicPartition>>,
        /// What failed.
        #[source]
        cause: Arc<Error>,
    },
    /// This process does not hold the lock any more. Only opening again helps. Shown as the cause of `Poisoned`.
    #[error("the lock of {} {}: open the log again", dir.display(), if *forked { "belongs to the parent process" } else { "was removed or replaced" })]
    #[non_exhaustive]
    LockLost {
        /// The directory of the log.
        dir: Box<Path>,
        /// Is this a forked child of the process that holds it? Otherwise the lock file was removed or replaced.
        forked: bool,
    },
    /// The write may or may not be there after reopening; if `decided`, it will be. Do not repeat it blindly.
    #[error("what was written to {} {}: reopen the log to see", facts::Whose(at), if *decided { "will be there" } else { "may or may not be there" })]
    #[non_exhaustive]
    Indeterminate {
        /// The partition; `None` if it is several, as in a transaction or a [`Topic::append_all`](crate::Topic::append_all).
        at: Option<Box<TopicPartition>>,
        /// Is it certain that the write will be there?
        decided: bool,
        /// What failed.
        source: BoxError,
    },
    /// The operating system refused a call, for none of the reasons that have a variant of their own.
    #[error("{call} failed on {}{}", file.display(), facts::Lost(unread))]
    #[non_exhaustive]
    Io {
        /// The call, such as `read`.
        call: &'static str,
        /// The file or directory.
        file: Box<Path>,
        /// What the operating system said.
        source: io::Error,
        /// What a failed read should have given. The rest of the partition can be read.
        unread: Option<Box<(TopicPartition, Range<Offset>)>>,
    },
    /// Background work of the log panicked, which is a bug of this crate. Told once; appends and reads go on, and the work is
    /// tried again: by the log itself after a while, by [`Log::maintain`](crate::Log::maintain) and
    /// [`Log::sync`](crate::Log::sync) at once. `sync` has then done nothing, `maintain` perhaps a part: call again.
    /// [`Log::close`](crate::Log::close) has done everything.
    #[error("{what} panicked in the background: {message}")]
    #[non_exhaustive]
    Panicked {
        /// What was being done.
        what: Box<str>,
        /// What the panic said.
        message: Box<str>,
    },
    /// The log behind this handle was closed. Open it again. (A deleted topic is [`NotFound`](Error::NotFound).)
    #[error("this handle is closed: open it again")]
    Closed,
}
