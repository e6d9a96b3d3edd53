//! Which member of a group reads which partition: the rules to choose from, and the trait for a rule of your own.
//!
//! | | who gets what | when members come and go |
//! | --- | --- | --- |
//! | [`Range`] | of each topic a run of neighbours, so that equal topics are cut at the same places | anything may move |
//! | [`RoundRobin`] | all partitions dealt in turn | anything may move |
//! | [`Sticky`], [`CooperativeSticky`] | as even as it can be | only what has to moves |
//!
//! They are those of Kafka, with its names and its results. Where Kafka follows the order of a hash map, these follow the order of
//! the members' ids: the same members with the same partitions always give the same assignment.
//!
//! [`ConsumerBuilder::assignor`](crate::ConsumerBuilder::assignor) names the rule; all members of a group name the same.

#[cfg(test)]
mod cases;
mod claims;
mod even;
#[cfg(test)]
mod histories;
mod plan;
mod range;
mod round_robin;
mod sticky;
mod uneven;
mod validate;

use crate::offset::TopicPartition;

pub use range::Range;
pub use round_robin::RoundRobin;
pub use sticky::{CooperativeSticky, Sticky};
pub(super) use validate::validate;

/// A rule that says which member of a group reads which partition.
///
/// The group asks it whenever a member joins or leaves or changes its topics, and when one of their topics comes, goes or grows. The
/// answer is a target. Nobody waits for the others to reach it: each member, within its own poll, gives up what the target gives to
/// another and takes what it should read and nobody reads any more. A partition that moves is read by nobody in between, and
/// one that stays is read on. So an answer close to what the members own ([`Member::owned`]) disturbs the least.
///
/// An answer that breaks the rules of [`assign`](Self::assign) is an error, and is not followed.
///
/// ```
/// use thalweg::TopicPartition;
/// use thalweg::assignor::{Assignor, Member, TopicSize};
///
/// /// The first of its members reads all of a topic; the others stand by.
/// struct Standby;
///
/// impl Assignor for Standby {
///     fn name(&self) -> &str {
///         "standby"
///     }
///
///     fn assign(&self, members: &[Member<'_>], topics: &[TopicSize<'_>]) -> Vec<Vec<TopicPartition>> {
///         let mut lists = vec![Vec::new(); members.len()];
///         for topic in topics {
///             let reads = |member: &Member<'_>| member.topics.contains(&topic.name);
///             if let Some(first) = members.iter().position(reads) {
///                 lists[first].extend((0..topic.partitions).map(|n| TopicPartition::new(topic.name, n)));
///             }
///         }
///         lists
///     }
/// }
///
/// let members = [Member::new("kitchen-1", &["orders"]), Member::new("kitchen-2", &["orders"])];
/// let lists = Standby.assign(&members, &[TopicSize::new("orders", 3)]);
/// assert_eq!((lists[0].len(), lists[1].len()), (3, 0));
/// ```
pub trait Assignor: Send + Sync {
    /// What the rule is called. All members of a group name the same.
    fn name(&self) -> &str;

    /// The partitions of each member, one list for each of `members` and in their order.
    ///
    /// No partition may be given twice, and a member is given partitions of its own topics only, and only those that there are.
    /// Some may be left out: nobody reads them. Members and topics come in any order, and a member may name topics that are not
    /// among `topics`.
    ///
    /// It should depend on nothing but what it is given: it is called under no lock, and the same question may be asked again.
    fn assign(&self, members: &[Member<'_>], topics: &[TopicSize<'_>]) -> Vec<Vec<TopicPartition>>;
}

/// A member of a group, as an [`Assignor`] sees it.
///
/// ```
/// use thalweg::TopicPartition;
/// use thalweg::assignor::Member;
///
/// let owned = [TopicPartition::new("orders", 0)];
/// let member = Member::new("kitchen-1", &["orders"]).instance_id("left").owned(&owned, 7);
/// assert_eq!((member.id, member.instance_id, member.generation), ("kitchen-1", Some("left"), 7));
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Member<'a> {
    /// What tells it apart from all other members.
    pub id: &'a str,
    /// The name under which it comes back after a restart, if it was given one.
    pub instance_id: Option<&'a str>,
    /// The topics it subscribed to, those that do not exist included.
    pub topics: &'a [&'a str],
    /// The partitions that it reads now, or will when it has come to the last target. Of two members that claim one partition,
    /// the one with the higher generation is right; with equal ones none is.
    pub owned: &'a [TopicPartition],
    /// Of the target that gave it `owned`.
    pub generation: u64,
}

impl<'a> Member<'a> {
    /// A member without an instance id that owns nothing yet.
    #[must_use = "a member does nothing by itself"]
    pub const fn new(id: &'a str, topics: &'a [&'a str]) -> Self {
        Member {
            id,
            instance_id: None,
            topics,
            owned: &[],
            generation: 0,
        }
    }

    /// The same member with this instance id.
    #[must_use = "it returns the member"]
    pub const fn instance_id(mut self, id: &'a str) -> Self {
        self.instance_id = Some(id);
        self
    }

    /// The same member, owning these partitions since that generation.
    #[must_use = "it returns the member"]
    pub const fn owned(mut self, owned: &'a [TopicPartition], generation: u64) -> Self {
        self.owned = owned;
        self.generation = generation;
        self
    }
}

/// A topic that there is, as an [`Assignor`] sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicSize<'a> {
    /// Its name.
    pub name: &'a str,
    /// How many partitions it has, numbered from 0.
    pub partitions: u32,
}

impl<'a> TopicSize<'a> {
    /// A topic of that many partitions.
    #[must_use = "a size does nothing by itself"]
    pub const fn new(name: &'a str, partitions: u32) -> Self {
        TopicSize { name, partitions }
    }
}
