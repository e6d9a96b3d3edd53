//! What a user's code is told when partitions come and go, and what it may do then.

use super::Membership;
use super::engine::{ConsumerEngine, Spot};
use crate::error::{BoxError, Error, Result};
use crate::offset::{Offset, Position, Positions, TopicPartition};

/// Told when partitions come and go. Called inside `poll`, `unsubscribe`, `close` and `leave`, on their thread, never under a
/// lock.
///
/// An error of a callback vetoes nothing: the other callbacks are called, partitions move, and then the call in which they did so
/// returns [`Error::Listener`]. A panic goes through that call; the group goes on, and so does this consumer if it is polled again.
///
/// ```
/// use std::collections::HashMap;
/// use std::time::Duration;
/// use thalweg::testing::TestLog;
/// use thalweg::{BoxError, Rebalance, RebalanceListener, TopicConfig, TopicPartition};
///
/// /// What was counted so far, per partition.
/// #[derive(Default)]
/// struct Counts(HashMap<TopicPartition, u64>);
///
/// impl RebalanceListener for Counts {
///     fn assigned(&mut self, _: &mut Rebalance<'_>, added: &[TopicPartition]) -> Result<(), BoxError> {
///         self.0.extend(added.iter().map(|at| (at.clone(), 0)));
///         Ok(())
///     }
///     fn revoked(&mut self, rebalance: &mut Rebalance<'_>, going: &[TopicPartition]) -> Result<(), BoxError> {
///         rebalance.commit()?; // the next owner goes on behind what was counted here
///         self.lost(going)
///     }
///     fn lost(&mut self, gone: &[TopicPartition]) -> Result<(), BoxError> {
///         self.0.retain(|at, _| !gone.contains(at));
///         Ok(())
///     }
/// }
///
/// let test = TestLog::new();
/// test.log().create_topic("orders", TopicConfig::new().partitions(4))?;
/// let group = test.log().group("kitchen");
/// let mut counts = Counts::default();
/// let mut first = group.subscribe(["orders"]).join()?;
/// let _ = first.poll_with(Duration::ZERO, &mut counts)?;
/// assert_eq!(counts.0.len(), 4);
///
/// let _second = group.subscribe(["orders"]).join()?;
/// let _ = first.poll_with(Duration::ZERO, &mut counts)?; // gives up two of them
/// assert_eq!(counts.0.len(), 2);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub trait RebalanceListener {
    /// These are new, possibly none: called in a poll each time that the group's partitions were shared anew, and when one that was to
    /// come has come. No record of them was returned yet; [`Rebalance::seek`] decides where they are read. Does nothing unless
    /// implemented.
    fn assigned(
        &mut self,
        rebalance: &mut Rebalance<'_>,
        added: &[TopicPartition],
    ) -> Result<(), BoxError> {
        let _ = (rebalance, added);
        Ok(())
    }

    /// These are about to go and still owned: commit, hand over state. No record of them is returned after it. With an
    /// empty list only where the group is [`eager`](super::ConsumerBuilder::eager).
    fn revoked(
        &mut self,
        rebalance: &mut Rebalance<'_>,
        going: &[TopicPartition],
    ) -> Result<(), BoxError>;

    /// These are gone already, perhaps to a new owner, since this member was shut out: drop their state. Called in its next `poll`, or
    /// as it closes or leaves, with all that it had. Nothing can be committed, so there is no handle.
    fn lost(&mut self, gone: &[TopicPartition]) -> Result<(), BoxError>;
}

/// Of a consumer without a listener.
pub(super) struct Nobody;

impl RebalanceListener for Nobody {
    fn revoked(&mut self, _: &mut Rebalance<'_>, _: &[TopicPartition]) -> Result<(), BoxError> {
        Ok(())
    }

    fn lost(&mut self, _: &[TopicPartition]) -> Result<(), BoxError> {
        Ok(())
    }
}

/// The consumer as a [`RebalanceListener`] sees it: what must not happen within a callback (poll, close, subscribe) is not
/// here.
pub struct Rebalance<'c> {
    engine: &'c mut dyn ConsumerEngine,
    /// The partitions that the callback is about.
    about: &'c [TopicPartition],
    /// Of the last batch, if nothing has said that it is done.
    left: usize,
}

impl<'c> Rebalance<'c> {
    pub(super) fn new(
        engine: &'c mut dyn ConsumerEngine,
        about: &'c [TopicPartition],
        left: usize,
    ) -> Rebalance<'c> {
        Rebalance {
            engine,
            about,
            left,
        }
    }

    /// The owned partitions, sorted: those that are about to go are among them, and those that have come.
    pub fn assignment(&self) -> Vec<TopicPartition> {
        self.engine.assignment()
    }

    /// Everything returned so far of the partitions that this callback is about is done.
    ///
    /// # Errors
    ///
    /// As [`Consumer::commit`](super::Consumer::commit): [`Error::BatchUnfinished`] in `close`, `leave` and `unsubscribe` after a
    /// loop by value that was not finished, not in a `poll`, for which what the last one returned counts as handled.
    pub fn commit(&mut self) -> Result<()> {
        match self.left {
            0 => self.engine.commit_of(self.about),
            left => Err(Error::BatchUnfinished { left }),
        }
    }

    /// As [`Consumer::commit_at`](super::Consumer::commit_at), of any owned partition.
    pub fn commit_at(&mut self, next: &Positions) -> Result<()> {
        self.engine.commit_at(next)
    }

    /// As [`Consumer::committed`](super::Consumer::committed).
    pub fn committed(&self, at: &TopicPartition) -> Result<Option<Offset>> {
        self.engine.committed(at)
    }

    /// As [`Consumer::position`](super::Consumer::position).
    pub fn position(&self, at: &TopicPartition) -> Option<Offset> {
        self.engine.position(at)
    }

    /// As [`Consumer::seek`](super::Consumer::seek): the poll that this callback is part of reads there.
    pub fn seek(&mut self, to: &Position) -> Result<()> {
        self.engine.seek(to)
    }

    /// As [`Consumer::seek_to_start`](super::Consumer::seek_to_start).
    pub fn seek_to_start(&mut self, partitions: &[TopicPartition]) -> Result<()> {
        self.engine.seek_to(Spot::Start, partitions)
    }

    /// As [`Consumer::seek_to_end`](super::Consumer::seek_to_end).
    pub fn seek_to_end(&mut self, partitions: &[TopicPartition]) -> Result<()> {
        self.engine.seek_to(Spot::End, partitions)
    }

    /// As [`Consumer::pause`](super::Consumer::pause).
    pub fn pause(&mut self, partitions: &[TopicPartition]) -> Result<()> {
        self.engine.pause(partitions)
    }

    /// As [`Consumer::resume`](super::Consumer::resume).
    pub fn resume(&mut self, partitions: &[TopicPartition]) -> Result<()> {
        self.engine.resume(partitions)
    }

    /// As [`Consumer::lag`](super::Consumer::lag).
    pub fn lag(&self, at: &TopicPartition) -> Option<u64> {
        self.engine.lag(at)
    }

    /// Group, member and generation: in `revoked` the one that ends.
    pub fn membership(&self) -> Membership {
        self.engine.membership()
    }
}

impl std::fmt::Debug for Rebalance<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rebalance")
            .field("membership", &self.membership())
            .field("about", &self.about)
            .finish_non_exhaustive()
    }
}

/// What a callback's error becomes.
pub(super) fn failed(callback: &'static str) -> impl FnOnce(BoxError) -> Error {
    move |source| Error::Listener { callback, source }
}
