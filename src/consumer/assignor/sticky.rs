//! As even as it can be, and as little moved as that allows.

use super::plan::Plan;
use super::{Assignor, Member, TopicSize, claims, even, uneven};
use crate::offset::TopicPartition;

/// The target of [`CooperativeSticky`], under the name that goes with eager groups: there each member gives up all it
/// has when anything changes, and gets most of it back.
///
/// The rule is that of Kafka's `StickyAssignor`.
#[derive(Clone, Copy, Debug)]
pub struct Sticky;

/// As even as it can be, and what need not move stays where it is.
///
/// While all members read the same topics, their shares differ by at most one, and as many partitions stay as that allows. Otherwise
/// no member has two more than another that could have one of them instead.
///
/// Members are visited in the order of their ids, with an instance id or without. The rule is that of Kafka's
/// `CooperativeStickyAssignor`, and the answer is what Kafka comes to in its second generation: the group itself sees
/// to it that a partition is given up before another member takes it.
///
/// ```
/// use thalweg::TopicPartition;
/// use thalweg::assignor::{Assignor, CooperativeSticky, Member, TopicSize};
///
/// let all = [0, 1, 2].map(|n| TopicPartition::new("orders", n));
/// let old = Member::new("a", &["orders"]).owned(&all, 1);
/// let new = Member::new("b", &["orders"]);
/// let lists = CooperativeSticky.assign(&[old, new], &[TopicSize::new("orders", 3)]);
/// assert_eq!(lists, [all[..2].to_vec(), all[2..].to_vec()]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CooperativeSticky;

impl Assignor for Sticky {
    fn name(&self) -> &'static str {
        "sticky"
    }

    fn assign(&self, members: &[Member<'_>], topics: &[TopicSize<'_>]) -> Vec<Vec<TopicPartition>> {
        assign(members, topics)
    }
}

impl Assignor for CooperativeSticky {
    fn name(&self) -> &'static str {
        "cooperative-sticky"
    }

    fn assign(&self, members: &[Member<'_>], topics: &[TopicSize<'_>]) -> Vec<Vec<TopicPartition>> {
        assign(members, topics)
    }
}

fn assign(members: &[Member<'_>], topics: &[TopicSize<'_>]) -> Vec<Vec<TopicPartition>> {
    let plan = Plan::by_id(members, topics);
    let claims = claims::standing(&plan);
    let owners = match plan.equals() {
        Some(equals) => even::assign(&plan, claims, &equals),
        None => uneven::assign(&plan, claims),
    };
    plan.lists(&owners)
}
