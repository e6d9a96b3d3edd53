//! All partitions of all topics, dealt in turn.

use super::plan::Plan;
use super::{Assignor, Member, TopicSize};
use crate::offset::TopicPartition;

/// All partitions, by topic and number, dealt in turn; who does not read a topic is skipped. As even as it can be while all members
/// read the same topics, and not always otherwise.
///
/// Members with an instance id come first, in the order of these, then the others in the order of their ids. The rule is that of
/// Kafka's `RoundRobinAssignor`.
///
/// ```
/// use thalweg::assignor::{Assignor, Member, RoundRobin, TopicSize};
///
/// let members = ["a", "b"].map(|id| Member::new(id, &["orders"]));
/// let lists = RoundRobin.assign(&members, &[TopicSize::new("orders", 3)]);
/// assert_eq!(format!("{} {} | {}", lists[0][0], lists[0][1], lists[1][0]), "orders-0 orders-2 | orders-1");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RoundRobin;

impl Assignor for RoundRobin {
    fn name(&self) -> &'static str {
        "roundrobin"
    }

    fn assign(&self, members: &[Member<'_>], topics: &[TopicSize<'_>]) -> Vec<Vec<TopicPartition>> {
        let plan = Plan::static_first(members, topics);
        let mut owners = Vec::with_capacity(plan.partitions());
        let mut turn = 0;
        for (row, subscribers) in plan.rows().zip(plan.subscribers()) {
            // From the first subscriber whose turn has not passed, once around and on; nobody else has a turn within a topic.
            let first = subscribers.partition_point(|&member| member < turn);
            let dealt = subscribers.iter().copied().cycle().skip(first);
            owners.extend(dealt.take(row.len()));
            turn = match owners.last() {
                Some(last) if !row.is_empty() => last + 1,
                _ => turn,
            };
        }
        plan.lists(&owners)
    }
}
