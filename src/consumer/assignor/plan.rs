//! Members, topics and partitions as numbers, so that the rules compare and copy no names.
//!
//! A member's number is its *rank*, its place in the order in which the rule visits members. Topics are numbered by name, and the
//! partitions of all topics in one row, by topic and number. An answer is then a list of ranks, the owner of each partition in
//! the row, and [`Plan::lists`] puts the names back.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use super::{Member, TopicSize};
use crate::offset::{PartitionId, TopicPartition};

/// What an assignor was asked.
pub(super) struct Plan<'a> {
    members: &'a [Member<'a>],
    /// By rank: the place among `members`.
    places: Vec<usize>,
    /// Sorted by name.
    topics: Vec<Topic<'a>>,
    numbers: Numbers<'a>,
    /// The different subscriptions, as sorted numbers of topics.
    subscriptions: Vec<Vec<usize>>,
    /// By rank: which of `subscriptions`.
    subscribed: Vec<usize>,
}

struct Topic<'a> {
    name: &'a str,
    /// Where in the row its partitions are; empty for a topic that nobody reads.
    row: Range<usize>,
}

impl<'a> Plan<'a> {
    /// Members in the order of their ids.
    pub(super) fn by_id(members: &'a [Member<'a>], topics: &[TopicSize<'a>]) -> Self {
        let mut places: Vec<usize> = (0..members.len()).collect();
        places.sort_by_key(|&place| members[place].id); // stable: equal ids stay in the order given
        Self::new(members, topics, places)
    }

    /// Those with an instance id first, in the order of these; then the others by their ids.
    pub(super) fn static_first(members: &'a [Member<'a>], topics: &[TopicSize<'a>]) -> Self {
        let mut places: Vec<usize> = (0..members.len()).collect();
        places.sort_by_key(|&place| {
            let Member {
                id, instance_id, ..
            } = members[place];
            (instance_id.is_none(), instance_id, id)
        });
        Self::new(members, topics, places)
    }

    fn new(members: &'a [Member<'a>], topics: &[TopicSize<'a>], places: Vec<usize>) -> Self {
        let mut sizes = BTreeMap::new();
        for topic in topics {
            let size = sizes.entry(topic.name).or_insert(0);
            *size = topic.partitions.max(*size); // said twice: one that there may be is not lost
        }
        let mut plan = Plan {
            members,
            places,
            topics: Vec::new(),
            numbers: Numbers {
                names: sizes.keys().copied().collect(),
                by_name: sizes.keys().copied().zip(0..).collect(),
            },
            subscriptions: Vec::new(),
            subscribed: Vec::with_capacity(members.len()),
        };
        plan.take_subscriptions();
        plan.lay_out(sizes);
        plan
    }

    /// Most groups have one subscription, or few, so each is worked out and kept once.
    fn take_subscriptions(&mut self) {
        let mut known = BTreeMap::new();
        let mut last: Option<&[&str]> = None;
        for &place in &self.places {
            let names = self.members[place].topics;
            if let (Some(of), Some(last)) = (self.subscribed.last().copied(), last)
                && same(names, last)
            {
                self.subscribed.push(of);
                continue;
            }
            last = Some(names);
            let mut numbers = self.numbers.all(names);
            numbers.sort_unstable();
            numbers.dedup();
            let next = known.len();
            let of = *known.entry(numbers).or_insert(next);
            self.subscribed.push(of);
        }
        self.subscriptions = vec![Vec::new(); known.len()];
        for (numbers, of) in known {
            self.subscriptions[of] = numbers;
        }
    }

    fn lay_out(&mut self, sizes: BTreeMap<&'a str, u32>) {
        let mut read = vec![false; sizes.len()];
        for &topic in self.subscriptions.iter().flatten() {
            read[topic] = true;
        }
        let mut next = 0;
        for ((name, partitions), read) in sizes.into_iter().zip(read) {
            let start = next;
            next += if read { partitions as usize } else { 0 };
            let row = start..next;
            self.topics.push(Topic { name, row });
        }
    }

    /// How many members there are: ranks lie below it.
    pub(super) fn members(&self) -> usize {
        self.places.len()
    }

    /// How many partitions there are to be given.
    pub(super) fn partitions(&self) -> usize {
        self.topics.last().map_or(0, |topic| topic.row.end)
    }

    /// The partitions of each topic.
    pub(super) fn rows(&self) -> impl Iterator<Item = Range<usize>> {
        self.topics.iter().map(|topic| topic.row.clone())
    }

    /// By topic: the ranks that read it, ascending; for a topic without a row, anything.
    pub(super) fn subscribers(&self) -> Vec<Rc<Vec<usize>>> {
        if let Some(equals) = self.equals() {
            let all = Rc::new(equals);
            return vec![all; self.topics.len()];
        }
        let mut counts = vec![0; self.topics.len()];
        let mut members = vec![0; self.subscriptions.len()];
        for &of in &self.subscribed {
            members[of] += 1;
        }
        for (topics, members) in self.subscriptions.iter().zip(members) {
            for &topic in topics {
                counts[topic] += members;
            }
        }
        let mut subscribers: Vec<Vec<_>> = counts.into_iter().map(Vec::with_capacity).collect();
        for (rank, &of) in self.subscribed.iter().enumerate() {
            for &topic in &self.subscriptions[of] {
                subscribers[topic].push(rank);
            }
        }
        subscribers.into_iter().map(Rc::new).collect()
    }

    /// The ranks that read anything, if all of them read the same.
    pub(super) fn equals(&self) -> Option<Vec<usize>> {
        let reads = |rank: &usize| !self.subscriptions[self.subscribed[*rank]].is_empty();
        let different = self.subscriptions.iter().filter(|of| !of.is_empty());
        (different.count() <= 1).then(|| (0..self.members()).filter(reads).collect())
    }

    /// What a member says it owns, as far as it reads that and there is such a partition.
    pub(super) fn owned(&self, rank: usize) -> impl Iterator<Item = usize> {
        let mine = &self.subscriptions[self.subscribed[rank]];
        let owned = self.members[self.places[rank]].owned.iter();
        owned.filter_map(|at| {
            let topic = *self.numbers.by_name.get(at.topic())?;
            mine.binary_search(&topic).ok()?;
            let Range { start, end } = self.topics[topic].row;
            let partition = start + at.partition().get() as usize;
            (partition < end).then_some(partition)
        })
    }

    pub(super) fn generation(&self, rank: usize) -> u64 {
        self.members[self.places[rank]].generation
    }

    /// One sorted list for each member, in the order in which they were given, from the owner of each partition.
    pub(super) fn lists(&self, owners: &[usize]) -> Vec<Vec<TopicPartition>> {
        let mut sizes = vec![0; self.members()];
        for &owner in owners {
            sizes[self.places[owner]] += 1;
        }
        let mut lists: Vec<Vec<_>> = sizes.into_iter().map(Vec::with_capacity).collect();
        for topic in &self.topics {
            let owners = &owners[topic.row.clone()];
            if owners.is_empty() {
                continue;
            }
            let name: Arc<str> = topic.name.into();
            for (&owner, number) in owners.iter().zip(0..) {
                let at = TopicPartition::shared(Arc::clone(&name), PartitionId::new(number));
                lists[self.places[owner]].push(at);
            }
        }
        lists
    }
}

/// The numbers of topics.
struct Numbers<'a> {
    /// Sorted.
    names: Vec<&'a str>,
    by_name: HashMap<&'a str, usize>,
}

impl Numbers<'_> {
    /// Of those that there are, in the order given. Subscriptions are mostly sorted, so each name is first looked for right behind
    /// the one before.
    fn all(&self, names: &[&str]) -> Vec<usize> {
        let mut numbers = Vec::with_capacity(names.len());
        let mut next = 0;
        for name in names {
            let behind = self.names[next..].iter().take(NEAR);
            let near = behind.zip(next..).find(|(of, _)| *of == name);
            let number = near.map(|(_, number)| number);
            if let Some(number) = number.or_else(|| self.by_name.get(name).copied()) {
                numbers.push(number);
                next = number + 1;
            }
        }
        numbers
    }
}

const NEAR: usize = 4;

fn same(a: &[&str], b: &[&str]) -> bool {
    std::ptr::eq(a, b) || a == b
}
