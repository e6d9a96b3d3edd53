//! Topic by topic, a run of neighbours for each member.

use std::iter::repeat_n;

use super::plan::Plan;
use super::{Assignor, Member, TopicSize};
use crate::offset::TopicPartition;

/// Of each topic, a run of neighbouring partitions for each of its members; the first members get one more where it does not
/// come out even. Topics of one size are cut at the same places, so whoever reads the partition of a key in one has it in the
/// other too. Each topic's rest goes to the same members, so with many small topics they have more to do.
///
/// Members with an instance id come first, in the order of these, then the others in the order of their ids. The rule is that of
/// Kafka's `RangeAssignor`.
///
/// ```
/// use thalweg::assignor::{Assignor, Member, Range, TopicSize};
///
/// let members = ["a", "b"].map(|id| Member::new(id, &["orders"]));
/// let lists = Range.assign(&members, &[TopicSize::new("orders", 3)]);
/// assert_eq!(format!("{} {} | {}", lists[0][0], lists[0][1], lists[1][0]), "orders-0 orders-1 | orders-2");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Range;

impl Assignor for Range {
    fn name(&self) -> &'static str {
        "range"
    }

    fn assign(&self, members: &[Member<'_>], topics: &[TopicSize<'_>]) -> Vec<Vec<TopicPartition>> {
        let plan = Plan::static_first(members, topics);
        let mut owners = Vec::with_capacity(plan.partitions());
        for (row, subscribers) in plan.rows().zip(plan.subscribers()) {
            if row.is_empty() {
                continue;
            }
            let (each, more) = (row.len() / subscribers.len(), row.len() % subscribers.len());
            for (at, &member) in subscribers.iter().enumerate() {
                owners.extend(repeat_n(member, each + usize::from(at < more)));
            }
        }
        plan.lists(&owners)
    }
}
