//! Stickiness among members who read different topics: step by step, until no partition can go to a member with two or more fewer.
//!
//! 1. What is nobody's goes to the smallest member that reads it, beginning with the topics that the fewest read.
//! 2. Partitions move from a member to the smallest other one that reads them, if that has two or more fewer. Those that their owner
//!    did not have before move first: that costs nobody anything.
//! 3. Where one went from a member to a second and another from the second to the first, both go back.
//!
//! Each move of step 2 makes the sum of the squares of the sizes smaller, and each of step 3 keeps it and brings partitions home. So it
//! ends, and asked again with its own answer it moves nothing.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::binary_heap::{BinaryHeap, PeekMut};
use std::ops::Range;
use std::rc::Rc;

use super::plan::Plan;

/// By partition its new owner.
pub(super) fn assign(plan: &Plan<'_>, claims: Vec<Option<usize>>) -> Vec<usize> {
    let subscribers = plan.subscribers();
    let rows = plan.rows().zip(subscribers);
    let mut topics: Vec<Topic> = rows
        .filter(|(row, _)| !row.is_empty())
        .map(|(row, members)| Topic { row, members })
        .collect();
    topics.sort_by_key(|topic| topic.members.len()); // stable: then by name
    let mut shares = Shares::new(plan.members(), claims);
    for topic in &topics {
        shares.deal(topic);
    }
    topics.retain(|topic| topic.members.len() > 1);
    loop {
        while shares.level(&topics, Movable::New) {}
        if !shares.level(&topics, Movable::All) && !shares.swap_back() {
            return shares.owners;
        }
    }
}

struct Topic {
    row: Range<usize>,
    /// Who reads it, ascending.
    members: Rc<Vec<usize>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Movable {
    /// What its owner did not have before.
    New,
    All,
}

struct Shares {
    claims: Vec<Option<usize>>,
    /// Of a partition not dealt yet: anything.
    owners: Vec<usize>,
    /// By member: how many it owns.
    sizes: Vec<usize>,
}

impl Shares {
    fn new(members: usize, claims: Vec<Option<usize>>) -> Self {
        let mut sizes = vec![0; members];
        for &member in claims.iter().flatten() {
            sizes[member] += 1;
        }
        let owners = claims.iter().map(|claim| claim.unwrap_or(0)).collect();
        Shares {
            claims,
            owners,
            sizes,
        }
    }

    /// Step 1 for one topic.
    fn deal(&mut self, topic: &Topic) {
        if topic
            .row
            .clone()
            .all(|partition| self.claims[partition].is_some())
        {
            return;
        }
        let mut smallest = self.smallest_first(topic);
        for partition in topic.row.clone() {
            if self.claims[partition].is_none()
                && let Some(mut top) = smallest.peek_mut()
            {
                let Reverse((size, member)) = &mut *top;
                *size += 1;
                self.sizes[*member] += 1;
                self.owners[partition] = *member;
            }
        }
    }

    /// Step 2, once through all topics. `false`: nothing moved.
    fn level(&mut self, topics: &[Topic], movable: Movable) -> bool {
        let mut moved = false;
        for topic in topics {
            moved |= self.level_topic(topic, movable);
        }
        moved
    }

    fn level_topic(&mut self, topic: &Topic, movable: Movable) -> bool {
        let size = |&member: &usize| self.sizes[member];
        let most = self.owners[topic.row.clone()].iter().map(size).max();
        let least = topic.members.iter().map(size).min();
        if most < least.map(|least| least + 2) {
            return false;
        }
        let mut smallest = self.smallest_first(topic);
        let mut moved = false;
        for partition in topic.row.clone() {
            let from = self.owners[partition];
            if movable == Movable::New && self.claims[partition] == Some(from) {
                continue;
            }
            if let Some(to) = self.take_one(&mut smallest, self.sizes[from]) {
                self.sizes[from] -= 1;
                smallest.push(Reverse((self.sizes[from], from)));
                self.owners[partition] = to;
                moved = true;
            }
        }
        moved
    }

    /// The smallest member, grown by one, if it has two or more fewer than `size`. What was noted of a member that has another
    /// size by now is thrown away: it was noted again when it changed.
    fn take_one(&mut self, smallest: &mut SmallestFirst, size: usize) -> Option<usize> {
        while let Some(mut top) = smallest.peek_mut() {
            let Reverse((noted, member)) = *top;
            if self.sizes[member] != noted {
                PeekMut::pop(top);
            } else if noted + 2 <= size {
                *top = Reverse((noted + 1, member));
                self.sizes[member] += 1;
                return Some(member);
            } else {
                return None;
            }
        }
        None
    }

    fn smallest_first(&self, topic: &Topic) -> SmallestFirst {
        let note = |&member: &usize| Reverse((self.sizes[member], member));
        topic.members.iter().map(note).collect()
    }

    /// Step 3, for pairs of members; longer rounds are left as they are. `false`: there was none.
    fn swap_back(&mut self) -> bool {
        let mut away: HashMap<(usize, usize), Vec<usize>> = HashMap::new();
        let mut swapped = false;
        for (partition, &claim) in self.claims.iter().enumerate() {
            let owner = self.owners[partition];
            let Some(home) = claim.filter(|&home| home != owner) else {
                continue;
            };
            match away.get_mut(&(owner, home)).and_then(Vec::pop) {
                Some(other) => {
                    self.owners[partition] = home;
                    self.owners[other] = owner;
                    swapped = true;
                }
                None => away.entry((home, owner)).or_default().push(partition),
            }
        }
        swapped
    }
}

/// Sizes and members.
type SmallestFirst = BinaryHeap<Reverse<(usize, usize)>>;

#[cfg(test)]
mod tests {
    use super::super::cases::check;

    #[test]
    fn what_its_owner_did_not_have_before_moves_first() {
        // X is dealt t1-1, t1-2 and t1-3 while Y is larger; then half of Y goes to Z, and Y takes one of X.
        check(
            "new. t1:4 t2:4; X{t1}[t1-0] Y{t1,t2}[t2-0,1,2,3] Z{t2}; \
             S X[t1-0,2,3] Y[t1-1 t2-2,3] Z[t2-0,1]",
        );
    }

    #[test]
    fn what_two_members_would_swap_stays() {
        // A gives t0-0 to B, which grows by those of C, and then gives t2-0 to A.
        check(
            "swap. t0:3 t1:7 t2:1; A{t0,t2}[t0-0,1,2] B{t0,t1,t2}[t2-0] C{t1}[t1-0,1,2,3,4,5,6]; \
             S A[t0-0,1,2] B[t1-0,1,2 t2-0] C[t1-3,4,5,6]",
        );
    }
}
