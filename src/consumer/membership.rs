//! Being a member: the topics, the group's work, and the end of it.

use std::sync::Arc;

use super::Consumer;
#[cfg(feature = "testing")]
use super::coordinator::Coordinator;
use super::engine::{Caller, Going};
use super::group::ConsumerGroup;
use super::listener::RebalanceListener;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
#[cfg(feature = "testing")]
use crate::log::Log;
use crate::offset::TopicPartition;

impl Consumer {
    /// The owned partitions, sorted. They change within `poll` and `unsubscribe` only, and before the first poll there are none (but
    /// for those given by hand). Who was shut out learns of it in its next poll.
    pub fn assignment(&self) -> Vec<TopicPartition> {
        self.engine.any().assignment()
    }

    /// The topics it subscribed to, sorted, those that do not exist yet included; of
    /// [`subscribe_where`](ConsumerGroup::subscribe_where), those that exist.
    pub fn subscription(&self) -> Vec<String> {
        self.engine.any().subscription()
    }

    /// Reads these topics from now on, and no others: the next poll gives up and takes partitions. Where to begin without a
    /// commit is resolved now. After [`unsubscribe`](Self::unsubscribe) it joins the group again, as a new member. No topics at all
    /// is `unsubscribe`.
    ///
    /// # Errors
    ///
    /// As [`ConsumerBuilder::join`](super::ConsumerBuilder::join), and it reads what it read; [`Error::InvalidSetting`] for a
    /// consumer that was given its partitions by hand, until it has unsubscribed.
    pub fn subscribe<T: Into<String>>(
        &mut self,
        topics: impl IntoIterator<Item = T>,
    ) -> Result<()> {
        let topics: Vec<String> = topics.into_iter().map(Into::into).collect();
        if topics.is_empty() {
            return self.unsubscribe();
        }
        self.engine.any_mut().subscribe(topics)
    }

    /// Leaves the group, in order: an automatic commit if that was asked for, `revoked`; if it was shut out before, `lost` instead of
    /// both. (A static member keeps its place for its `session_timeout`.) A consumer by hand lets go of its partitions.
    /// Until [`subscribe`](Self::subscribe), polls and commits are [`Error::Fenced`].
    ///
    /// # Errors
    ///
    /// It has left all the same: those of a commit; [`Error::Listener`].
    pub fn unsubscribe(&mut self) -> Result<()> {
        let mut caller = Caller::new(&mut *self.listener, &self.left);
        self.engine.any_mut().unsubscribe(&mut caller)
    }

    /// Group, member and generation.
    pub fn membership(&self) -> Membership {
        self.engine.any().membership()
    }

    /// Has the partitions of the group shared anew, though nothing has changed: for an [`Assignor`](crate::assignor::Assignor)
    /// whose answer depends on more than it is told, and for tests. The next polls of the members act on it. Of a consumer that is
    /// no member it does nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`].
    pub fn rebalance(&mut self) -> Result<()> {
        self.engine.any_mut().rebalance()
    }

    /// For tests: it is shut out, as if its poll interval had run out.
    #[cfg(feature = "testing")]
    pub(crate) fn fence(&self, log: &Log) {
        let membership = self.membership();
        let coordinator = log.shared::<Coordinator>();
        let now = log.clock().elapsed();
        coordinator.silence(membership.group(), membership.member(), now);
    }

    /// Leaves the group: an automatic commit if that was asked for, `revoked`, and out; a static member keeps its place for its
    /// `session_timeout`. If it was shut out before, `lost` is told instead, and that is no error. What was returned and not
    /// committed will be returned again.
    ///
    /// # Errors
    ///
    /// It has left all the same: those of a commit; [`Error::Listener`]; [`Error::Closed`].
    pub fn close(mut self) -> Result<()> {
        let mut caller = Caller::new(&mut *self.listener, &self.left);
        self.engine.close(Going::KeepingPlace, &mut caller)
    }

    /// As [`close`](Self::close), with a listener that may borrow from the caller's stack; it replaces the builder's for this call.
    ///
    /// # Errors
    ///
    /// As [`close`](Self::close).
    pub fn close_with(self, listener: &mut dyn RebalanceListener) -> Result<()> {
        let mut caller = Caller::new(listener, &self.left);
        self.engine.close(Going::KeepingPlace, &mut caller)
    }

    /// As [`close`](Self::close), and a static member's place is given up too: others get its partitions at once.
    ///
    /// # Errors
    ///
    /// As [`close`](Self::close).
    pub fn leave(mut self) -> Result<()> {
        let mut caller = Caller::new(&mut *self.listener, &self.left);
        self.engine.close(Going::ForGood, &mut caller)
    }
}

/// A member of a group at one generation. A cheap clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    pub(super) group: Arc<str>,
    pub(super) member: Arc<str>,
    pub(super) generation: u64,
}

impl Membership {
    /// Of a consumer that is no member.
    pub(super) fn none(group: &ConsumerGroup) -> Membership {
        Membership {
            group: group.name().into(),
            member: "".into(),
            generation: 0,
        }
    }

    /// The name of the group.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// The member: its `instance_id` or `client_id`, and the number of its join, such as `kitchen-0000000001`. Empty for one that
    /// was given its partitions by hand.
    pub fn member(&self) -> &str {
        &self.member
    }

    /// Of the distribution of partitions that the member has come to in its polls; 0 before the first. Grows each time that the
    /// partitions are shared anew, from 1 at each opening of the log.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}
