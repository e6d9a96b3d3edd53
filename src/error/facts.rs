//! The small facts that errors carry, and how messages word them.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use super::Error;
use crate::offset::{Offset, TopicPartition};

/// What became of a write that ended in an error. (`Ok` is the third meaning: it is there.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing was done: the write is not there now, nor after any recovery.
    Rejected,
    /// It may or may not be there once the log was opened again.
    Indeterminate,
}

/// How a member or a producer came to be [shut out](Error::Fenced).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FencedBy {
    /// It did not poll in time, so its partitions went to others.
    #[error("it did not poll for {silent_for:?}, `max_poll_interval` is {limit:?}")]
    PollInterval {
        /// The longest time that may lie between two polls.
        limit: Duration,
        /// How long it did not poll.
        silent_for: Duration,
    },
    /// Another member came with the same `instance_id`.
    #[error("another member joined with its instance id")]
    NewerInstance,
    /// It was removed by `remove_member`.
    #[error("it was removed")]
    Removed,
    /// Another producer of the same name was built.
    #[error("another producer of its name was built")]
    NewerProducer,
    /// It left the group.
    #[error("it left")]
    Left,
    /// It was given its partitions by hand, and the group has members, who commit for it.
    #[error("its partitions were given by hand, and the group has members")]
    Members,
}

/// Records of one partition that could not be given: the partition, and the first of them up to the first behind them.
pub(super) type Missing = Option<Box<(TopicPartition, Range<Offset>)>>;

/// In a message: `, records 5 to 9 of orders-3`, or nothing where it is not known.
pub(super) struct Lost<'e>(pub(super) &'e Missing);

impl fmt::Display for Lost<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_deref() {
            Some((at, Range { start, end })) => write!(f, ", records {start}..{end} of {at}"),
            None => Ok(()),
        }
    }
}

/// In a message: the partition, or what has none.
pub(super) struct Whose<'e>(pub(super) &'e Option<Box<TopicPartition>>);

impl fmt::Display for Whose<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(at) => at.fmt(f),
            None => f.write_str("the log"),
        }
    }
}

/// How to get out of [`Error::Poisoned`]: a lock that is lost, and what is no partition, are not recovered in place.
pub(super) fn cure(at: Option<&TopicPartition>, cause: &Error) -> &'static str {
    match (at, cause) {
        (Some(_), cause) if !matches!(cause, Error::LockLost { .. }) => {
            "recover the partition or reopen the log"
        }
        _ => "reopen the log",
    }
}
