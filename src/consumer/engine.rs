//! What stands behind a consumer: the embedded log, or something far away that can do the same.
//!
//! [`Consumer`](super::Consumer) is one concrete type for both, so that a service written against it runs on either. The log
//! is called directly; another engine costs one indirect call per poll.

use std::task::{Context, Poll};
use std::time::Duration;

use super::Membership;
use super::batch::{Batch, Left};
use super::listener::RebalanceListener;
use super::member::Member;
use super::wake::WakeHandle;
use crate::clock::Timestamp;
use crate::error::Result;
use crate::offset::{Offset, Position, Positions, TopicPartition};

/// How long a poll may wait for records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    AtMost(Duration),
    /// Until there are records, or `wake`.
    ForEver,
}

/// What the caller's side brings to a call in which partitions may come or go.
pub(crate) struct Caller<'c> {
    pub(crate) listener: &'c mut dyn RebalanceListener,
    /// So many records of the last batch, which was taken by value, were not taken: automatic commits stop before it.
    pub(crate) left: usize,
}

impl<'c> Caller<'c> {
    pub(super) fn new(listener: &'c mut dyn RebalanceListener, left: &Left) -> Caller<'c> {
        Caller {
            listener,
            left: left.count(),
        }
    }
}

/// Where to read on, without a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spot {
    Start,
    End,
    Time(Timestamp),
}

/// How a consumer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Going {
    /// A static member keeps its place for a while.
    KeepingPlace,
    ForGood,
}

/// One member of a group, wherever its group is.
///
/// An error with [`Error::partition`](crate::Error::partition) halts that partition for this member; no position moves with
/// an error.
pub(crate) trait ConsumerEngine: Send {
    /// What is there; waits only if nothing is. `Woken` after `wake`, at most once for each.
    fn poll(&mut self, wait: Wait, caller: &mut Caller<'_>) -> Result<Batch>;
    /// Would a poll do something? If not, the task is woken once that may have changed, until [`rest`](Self::rest).
    fn poll_ready(&mut self, task: &mut Context<'_>) -> Poll<()>;
    /// Nobody awaits `poll_ready` any more.
    fn rest(&mut self);
    /// Stores everything returned so far as done.
    fn commit(&mut self) -> Result<()>;
    /// As `commit`, of these partitions alone, which are sorted.
    fn commit_of(&mut self, partitions: &[TopicPartition]) -> Result<()>;
    /// As `commit`, and it survives a power loss.
    fn commit_durable(&mut self) -> Result<()>;
    /// Stores these next offsets: all of them, or none with an error.
    fn commit_at(&mut self, next: &Positions) -> Result<()>;
    fn committed(&self, at: &TopicPartition) -> Result<Option<Offset>>;
    fn seek(&mut self, to: &Position) -> Result<()>;
    /// All of these partitions, or none with an error.
    fn seek_to(&mut self, spot: Spot, partitions: &[TopicPartition]) -> Result<()>;
    fn seek_to_committed(&mut self) -> Result<()>;
    fn offsets_for_time(&self, time: Timestamp) -> Result<Positions>;
    fn pause(&mut self, partitions: &[TopicPartition]) -> Result<()>;
    fn resume(&mut self, partitions: &[TopicPartition]) -> Result<()>;
    fn paused(&self) -> Vec<TopicPartition>;
    /// The next offset to be returned; `None` if it is not owned, or not known.
    fn position(&self, at: &TopicPartition) -> Option<Offset>;
    /// Those of [`assignment`](Self::assignment) that are known.
    fn positions(&self) -> Positions;
    fn assignment(&self) -> Vec<TopicPartition>;
    fn subscription(&self) -> Vec<String>;
    /// These topics from now on; partitions come and go in the next poll.
    fn subscribe(&mut self, topics: Vec<String>) -> Result<()>;
    /// Leaves the group; `subscribe` joins it again.
    fn unsubscribe(&mut self, caller: &mut Caller<'_>) -> Result<()>;
    fn halted(&self) -> Vec<TopicPartition>;
    fn lag(&self, at: &TopicPartition) -> Option<u64>;
    fn membership(&self) -> Membership;
    /// Has the group's partitions shared anew.
    fn rebalance(&mut self) -> Result<()>;
    fn wake_handle(&self) -> WakeHandle;
    /// Leaves in order.
    fn close(self: Box<Self>, going: Going, caller: &mut Caller<'_>) -> Result<()>;
}

/// The engine of one consumer.
pub(super) enum Engine {
    Log(Box<Member>),
    #[cfg_attr(
        not(test),
        expect(
            dead_code,
            reason = "made by engines that are not in this version; a test runs one through it"
        )
    )]
    Remote(Box<dyn ConsumerEngine>),
}

impl Engine {
    /// For everything that is not polled: the difference between the two is of no interest.
    pub(super) fn any(&self) -> &dyn ConsumerEngine {
        match self {
            Engine::Log(member) => &**member,
            Engine::Remote(engine) => &**engine,
        }
    }

    pub(super) fn any_mut(&mut self) -> &mut dyn ConsumerEngine {
        match self {
            Engine::Log(member) => &mut **member,
            Engine::Remote(engine) => &mut **engine,
        }
    }

    pub(super) fn close(self, going: Going, caller: &mut Caller<'_>) -> Result<()> {
        match self {
            Engine::Log(member) => member.close(going, caller),
            Engine::Remote(engine) => engine.close(going, caller),
        }
    }

    pub(super) fn poll(&mut self, wait: Wait, caller: &mut Caller<'_>) -> Result<Batch> {
        match self {
            Engine::Log(member) => member.poll(wait, caller),
            Engine::Remote(engine) => engine.poll(wait, caller),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::Consumer;
    use super::super::listener::Nobody;
    use super::*;
    use crate::error::Error;

    /// An engine that has nothing and remembers what was committed.
    #[derive(Default)]
    struct Dummy {
        committed: Positions,
        polls: usize,
    }

    impl ConsumerEngine for Dummy {
        fn poll(&mut self, wait: Wait, _: &mut Caller<'_>) -> Result<Batch> {
            self.polls += 1;
            match wait {
                Wait::AtMost(_) => Ok(Batch::default()),
                Wait::ForEver => Err(Error::Woken),
            }
        }
        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<()> {
            Poll::Ready(())
        }
        fn rest(&mut self) {}
        fn commit(&mut self) -> Result<()> {
            Ok(())
        }
        fn commit_of(&mut self, _: &[TopicPartition]) -> Result<()> {
            Ok(())
        }
        fn commit_durable(&mut self) -> Result<()> {
            self.commit()
        }
        fn commit_at(&mut self, next: &Positions) -> Result<()> {
            self.committed = next.clone();
            Ok(())
        }
        fn committed(&self, at: &TopicPartition) -> Result<Option<Offset>> {
            Ok(self.committed.next(at))
        }
        fn seek(&mut self, _: &Position) -> Result<()> {
            Err(Error::Unsupported {
                engine: "dummy",
                what: "seek",
            })
        }
        fn seek_to(&mut self, _: Spot, _: &[TopicPartition]) -> Result<()> {
            Ok(())
        }
        fn seek_to_committed(&mut self) -> Result<()> {
            Ok(())
        }
        fn offsets_for_time(&self, _: Timestamp) -> Result<Positions> {
            Ok(Positions::new())
        }
        fn pause(&mut self, _: &[TopicPartition]) -> Result<()> {
            Ok(())
        }
        fn resume(&mut self, _: &[TopicPartition]) -> Result<()> {
            Ok(())
        }
        fn paused(&self) -> Vec<TopicPartition> {
            Vec::new()
        }
        fn position(&self, _: &TopicPartition) -> Option<Offset> {
            None
        }
        fn positions(&self) -> Positions {
            Positions::new()
        }
        fn assignment(&self) -> Vec<TopicPartition> {
            Vec::new()
        }
        fn subscription(&self) -> Vec<String> {
            Vec::new()
        }
        fn subscribe(&mut self, _: Vec<String>) -> Result<()> {
            Ok(())
        }
        fn unsubscribe(&mut self, _: &mut Caller<'_>) -> Result<()> {
            Ok(())
        }
        fn halted(&self) -> Vec<TopicPartition> {
            Vec::new()
        }
        fn lag(&self, _: &TopicPartition) -> Option<u64> {
            None
        }
        fn membership(&self) -> Membership {
            Membership {
                group: "group".into(),
                member: "dummy-1".into(),
                generation: 1,
            }
        }
        fn rebalance(&mut self) -> Result<()> {
            Ok(())
        }
        fn wake_handle(&self) -> WakeHandle {
            WakeHandle {
                parker: Arc::default(),
            }
        }
        fn close(self: Box<Self>, _: Going, _: &mut Caller<'_>) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_consumer_runs_on_a_second_engine() {
        let mut consumer = Consumer::new(Engine::Remote(Box::<Dummy>::default()), Box::new(Nobody));
        assert!(consumer.poll(Duration::ZERO).unwrap().is_empty());
        assert!(consumer.next_batch().unwrap().is_none());
        let at = TopicPartition::new("orders", 0);
        let mut next = Positions::new();
        next.set(at.at(Offset::new(7)));
        consumer.commit_at(&next).unwrap();
        assert_eq!(consumer.committed(&at).unwrap(), Some(Offset::new(7)));
        let refused = consumer.seek(&at.at(Offset::ZERO));
        assert!(matches!(
            refused,
            Err(Error::Unsupported {
                engine: "dummy",
                ..
            })
        ));
        consumer.close().unwrap();
    }
}
