//! Stickiness among members who all read the same topics: shares within one of each other, and the most that can stay does.

use std::collections::VecDeque;

use super::plan::Plan;

/// By partition its new owner, among the members `equals`, who all read all there is.
pub(super) fn assign(plan: &Plan<'_>, claims: Vec<Option<usize>>, equals: &[usize]) -> Vec<usize> {
    if equals.is_empty() {
        return Vec::new(); // nobody reads, so no partition is in the row
    }
    let mut owners = claims;
    let mut shares = Shares {
        least: owners.len() / equals.len(),
        larger: owners.len() % equals.len(),
        short: VecDeque::new(),
        full: VecDeque::new(),
    };
    let mut kept = kept_first(plan, &owners);
    for &member in equals {
        let kept = &mut kept[member];
        for &partition in &kept[shares.keep(member, kept.len())..] {
            owners[partition] = None;
        }
    }
    let dealt = |owner: Option<usize>| owner.unwrap_or_else(|| shares.next());
    owners.into_iter().map(dealt).collect()
}

/// By member, what it claims: first what it keeps the longest. Low numbers come first, whatever the topic, so that no topic is given
/// up as a whole.
fn kept_first(plan: &Plan<'_>, claims: &[Option<usize>]) -> Vec<Vec<usize>> {
    let mut kept = vec![Vec::new(); plan.members()];
    for row in plan.rows() {
        for (number, partition) in row.enumerate() {
            if let Some(member) = claims[partition] {
                kept[member].push((number, partition));
            }
        }
    }
    let sorted = |mut kept: Vec<(usize, usize)>| {
        kept.sort_unstable();
        kept.into_iter().map(|(_, partition)| partition).collect()
    };
    kept.into_iter().map(sorted).collect()
}

/// Everybody gets `least`, and `larger` members get one more.
struct Shares {
    least: usize,
    /// How many may still become larger than `least`.
    larger: usize,
    /// Who still lacks some of `least`, and how many, in the order of their turns.
    short: VecDeque<(usize, usize)>,
    /// Who has `least`, in the order in which they may get one more.
    full: VecDeque<usize>,
}

impl Shares {
    /// How many of the `owned` that a member has stay with it.
    fn keep(&mut self, member: usize, owned: usize) -> usize {
        if owned < self.least {
            self.short.push_back((member, self.least - owned));
            owned
        } else if owned > self.least && self.larger > 0 {
            self.larger -= 1;
            self.least + 1
        } else {
            self.full.push_back(member);
            self.least
        }
    }

    /// Who gets the next partition that is nobody's.
    fn next(&mut self) -> usize {
        if let Some((member, lacks)) = self.short.pop_front() {
            match lacks {
                1 => self.full.push_back(member),
                _ => self.short.push_back((member, lacks - 1)),
            }
            return member;
        }
        let next = self.full.pop_front();
        next.expect("the shares add up to all partitions")
    }
}
