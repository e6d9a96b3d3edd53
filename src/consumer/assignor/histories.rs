//! Random histories of groups: members come, go and change their minds, topics grow, some claim what is not theirs, and what the
//! rules promise holds after each step.
//!
//! A history that fails is shortened before it is printed.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

use super::*;

const TOPICS: [&str; 6] = ["t0", "t1", "t2", "t3", "t4", "t5"];
const ASSIGNORS: [&dyn Assignor; 4] = [&Range, &RoundRobin, &Sticky, &CooperativeSticky];

/// One thing that happens. Members are named by their place among those there are, topics by the bits of a number.
#[derive(Clone, Debug)]
enum Step {
    Join {
        topics: u8,
        instance: bool,
    },
    Leave(usize),
    Subscribe {
        member: usize,
        topics: u8,
    },
    Grow {
        topic: usize,
        by: u32,
    },
    Delete {
        topic: usize,
    },
    /// It says that it owns a partition, in its own generation or an older one.
    Claim {
        member: usize,
        topic: usize,
        partition: u32,
        old: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let topics = 0..1_u8 << TOPICS.len();
    let topic = 0..TOPICS.len();
    prop_oneof![
        4 => (topics.clone(), any::<bool>()).prop_map(|(topics, instance)| Step::Join { topics, instance }),
        3 => (0..20_usize).prop_map(Step::Leave),
        2 => (0..20_usize, topics).prop_map(|(member, topics)| Step::Subscribe { member, topics }),
        2 => (topic.clone(), 1..9_u32).prop_map(|(topic, by)| Step::Grow { topic, by }),
        1 => topic.clone().prop_map(|topic| Step::Delete { topic }),
        2 => (0..20_usize, topic, 0..9_u32, any::<bool>())
            .prop_map(|(member, topic, partition, old)| Step::Claim { member, topic, partition, old }),
    ]
}

fn history() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..40)
}

/// A group as it is.
struct Group {
    members: Vec<Reader>,
    sizes: [u32; TOPICS.len()],
    joined: usize,
    generation: u64,
    /// Everybody reads everything.
    equal: bool,
}

struct Reader {
    id: String,
    instance: Option<String>,
    topics: Vec<&'static str>,
    owned: Vec<TopicPartition>,
    generation: u64,
}

impl Reader {
    fn member(&self) -> Member<'_> {
        let member = Member::new(&self.id, &self.topics).owned(&self.owned, self.generation);
        match &self.instance {
            Some(id) => member.instance_id(id),
            None => member,
        }
    }
}

impl Group {
    fn new(equal: bool) -> Self {
        Group {
            members: Vec::new(),
            sizes: [0, 1, 2, 3, 5, 8],
            joined: 0,
            generation: 1,
            equal,
        }
    }

    fn topics(&self, bits: u8) -> Vec<&'static str> {
        let wanted = |at: &usize| self.equal || bits >> at & 1 == 1;
        (0..TOPICS.len())
            .filter(wanted)
            .map(|at| TOPICS[at])
            .collect()
    }

    fn apply(&mut self, step: &Step) {
        let count = self.members.len();
        let place = |member: usize| member % count.max(1);
        match *step {
            Step::Join { topics, instance } => {
                self.joined += 1;
                let name = (self.joined * 7) % 20; // not in the order of joining, and now and then twice
                let reader = Reader {
                    id: format!("m{name:02}"),
                    instance: instance.then(|| format!("i{:02}", 20 - name)),
                    topics: self.topics(topics),
                    owned: Vec::new(),
                    generation: self.generation,
                };
                self.members.push(reader);
            }
            Step::Leave(_) if count == 0 => {}
            Step::Leave(member) => {
                self.members.remove(place(member));
            }
            Step::Subscribe { member, topics } => {
                let (topics, place) = (self.topics(topics), place(member));
                if let Some(reader) = self.members.get_mut(place) {
                    reader.topics = topics;
                }
            }
            Step::Grow { topic, by } => self.sizes[topic] += by,
            Step::Delete { topic } => self.sizes[topic] = 0,
            Step::Claim {
                member,
                topic,
                partition,
                old,
            } => {
                let place = place(member);
                if let Some(reader) = self.members.get_mut(place) {
                    reader
                        .owned
                        .push(TopicPartition::new(TOPICS[topic], partition));
                    reader.generation = reader.generation.saturating_sub(u64::from(old));
                }
            }
        }
    }

    fn with<T>(&self, ask: impl FnOnce(&[Member<'_>], &[TopicSize<'_>]) -> T) -> T {
        let members: Vec<Member<'_>> = self.members.iter().map(Reader::member).collect();
        let sizes = TOPICS
            .into_iter()
            .zip(self.sizes)
            .filter(|(_, size)| *size > 0);
        let sizes: Vec<TopicSize<'_>> = sizes
            .map(|(name, size)| TopicSize::new(name, size))
            .collect();
        ask(&members, &sizes)
    }

    /// What anybody reads, with those who could read it.
    fn wanted(&self) -> BTreeMap<TopicPartition, Vec<usize>> {
        let mut wanted: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (place, reader) in self.members.iter().enumerate() {
            for (topic, size) in TOPICS.into_iter().zip(self.sizes) {
                let reads = reader.topics.contains(&topic);
                for partition in (0..size).filter(|_| reads) {
                    wanted
                        .entry(TopicPartition::new(topic, partition))
                        .or_default()
                        .push(place);
                }
            }
        }
        wanted
    }

    /// What may stay, by member, as the rule about claims says it.
    fn claimed(&self) -> Vec<BTreeSet<TopicPartition>> {
        let mut claimed = vec![BTreeSet::new(); self.members.len()];
        for (at, readers) in self.wanted() {
            let claims = readers
                .into_iter()
                .filter(|&place| self.members[place].owned.contains(&at));
            let claims: Vec<usize> = claims.collect();
            let newest = claims
                .iter()
                .map(|&place| self.members[place].generation)
                .max();
            let mut right = claims
                .iter()
                .filter(|&&place| Some(self.members[place].generation) == newest);
            if let (Some(&owner), None) = (right.next(), right.next()) {
                claimed[owner].insert(at);
            }
        }
        claimed
    }

    /// All come to the target.
    fn settle(&mut self, lists: Vec<Vec<TopicPartition>>) {
        self.generation += 1;
        for (reader, list) in self.members.iter_mut().zip(lists) {
            reader.owned = list;
            reader.generation = self.generation;
        }
    }
}

/// Every partition that anybody reads has one owner who reads it, and the order of what was given makes no difference.
fn check_any(group: &Group, assignor: &dyn Assignor) {
    group.with(|members, sizes| {
        let lists = assignor.assign(members, sizes);
        assert_eq!(validate(members, sizes, &lists), Ok(()));
        assert!(lists.iter().all(|list| list.is_sorted()));
        let given: usize = lists.iter().map(Vec::len).sum();
        assert_eq!(given, group.wanted().len(), "all of them");
        let ids: BTreeSet<&str> = members.iter().map(|member| member.id).collect();
        if ids.len() == members.len() {
            let turned: Vec<Member<'_>> = members.iter().rev().copied().collect();
            let turned_sizes: Vec<TopicSize<'_>> = sizes.iter().rev().copied().collect();
            let mut again = assignor.assign(&turned, &turned_sizes);
            again.reverse();
            assert_eq!(again, lists, "in any order");
        }
    });
}

fn kept(claimed: &[BTreeSet<TopicPartition>], lists: &[Vec<TopicPartition>]) -> usize {
    let pairs = claimed.iter().zip(lists);
    pairs
        .map(|(claimed, list)| list.iter().filter(|at| claimed.contains(at)).count())
        .sum()
}

/// Sizes within one, and as many kept as these sizes allow.
fn check_even(group: &Group, lists: &[Vec<TopicPartition>]) {
    let total = group.wanted().len();
    let (least, larger) = (total / lists.len(), total % lists.len());
    let sizes = || lists.iter().map(Vec::len);
    assert!(sizes().all(|size| size == least || size == least + 1));
    assert_eq!(sizes().filter(|size| *size > least).count(), larger);
    let claimed = group.claimed();
    let stay: usize = claimed.iter().map(|claimed| claimed.len().min(least)).sum();
    let stay_more = claimed
        .iter()
        .filter(|claimed| claimed.len() > least)
        .count();
    assert_eq!(kept(&claimed, lists), stay + stay_more.min(larger));
}

/// No partition can go to a member with two or more fewer.
fn check_uneven(group: &Group, lists: &[Vec<TopicPartition>]) {
    let wanted = group.wanted();
    for list in lists {
        for at in list {
            let smallest = wanted[at].iter().map(|&reader| lists[reader].len()).min();
            assert!(
                smallest.is_some_and(|size| size + 1 >= list.len()),
                "{at} can move"
            );
        }
    }
}

/// With one member more or fewer nothing moves but what has to.
fn balanced(members: usize, partitions: u32) -> Group {
    let mut group = Group::new(true);
    group.sizes = [partitions, 0, 0, 0, 0, 0];
    for _ in 0..members {
        group.apply(&Step::Join {
            topics: 0,
            instance: false,
        });
    }
    let lists = group.with(|members, sizes| Sticky.assign(members, sizes));
    group.settle(lists);
    group
}

#[test]
fn a_join_moves_the_share_of_the_new_member_and_a_leave_moves_nothing_that_has_an_owner() {
    for members in 1..8 {
        for partitions in 0..40 {
            let mut group = balanced(members, partitions);
            group.apply(&Step::Join {
                topics: 0,
                instance: false,
            });
            let lists = group.with(|members, sizes| Sticky.assign(members, sizes));
            let moved = partitions as usize - kept(&group.claimed(), &lists);
            assert_eq!(
                moved,
                partitions as usize / (members + 1),
                "{members} members, {partitions}"
            );

            let mut group = balanced(members + 1, partitions);
            group.apply(&Step::Leave(members / 2));
            let claimed = group.claimed();
            let lists = group.with(|members, sizes| Sticky.assign(members, sizes));
            let had: usize = claimed.iter().map(BTreeSet::len).sum();
            assert_eq!(
                kept(&claimed, &lists),
                had,
                "{members} members, {partitions}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn all_is_given_once_by_every_rule_through_any_history(steps in history(), equal: bool, rule in 0..4_usize) {
        let mut group = Group::new(equal);
        for step in &steps {
            group.apply(step);
            for assignor in ASSIGNORS {
                check_any(&group, assignor);
            }
            let lists = group.with(|members, sizes| ASSIGNORS[rule].assign(members, sizes));
            if !matches!(step, Step::Claim { .. }) {
                group.settle(lists); // or else the claim would never be seen beside a later step
            }
        }
    }

    #[test]
    fn the_sticky_rules_are_even_and_move_the_least(steps in history()) {
        let mut group = Group::new(true);
        for step in &steps {
            group.apply(step);
            let lists = group.with(|members, sizes| Sticky.assign(members, sizes));
            if !lists.is_empty() {
                check_even(&group, &lists);
            }
            if !matches!(step, Step::Claim { .. }) {
                group.settle(lists.clone());
                let again = group.with(|members, sizes| Sticky.assign(members, sizes));
                prop_assert_eq!(again, lists);
            }
        }
    }

    #[test]
    fn the_sticky_rules_level_what_can_be_levelled(steps in history()) {
        let mut group = Group::new(false);
        for step in &steps {
            group.apply(step);
            let lists = group.with(|members, sizes| Sticky.assign(members, sizes));
            check_uneven(&group, &lists);
            if !matches!(step, Step::Claim { .. }) {
                group.settle(lists.clone());
                let again = group.with(|members, sizes| Sticky.assign(members, sizes));
                prop_assert_eq!(again, lists);
            }
        }
    }
}

#[test]
fn thousands_of_everything_and_nothing_at_all() {
    let names: Vec<String> = (0..3_000).map(|n| format!("t{n:04}")).collect();
    let ids: Vec<String> = (0..2_000).map(|n| format!("m{:04}", n / 2)).collect(); // each twice
    let all: Vec<&str> = names
        .iter()
        .chain(&names[..10])
        .map(String::as_str)
        .collect(); // some twice
    let sizes: Vec<TopicSize<'_>> = all
        .iter()
        .zip(0..)
        .map(|(name, n)| TopicSize::new(name, n % 7))
        .collect();
    let members: Vec<Member<'_>> = ids
        .iter()
        .zip(0..)
        .map(|(id, n)| Member::new(id, &all[n % 3..][..300 + n % 2]))
        .collect();
    for assignor in ASSIGNORS {
        let lists = assignor.assign(&members, &sizes);
        assert_eq!(validate(&members, &sizes, &lists), Ok(()));
        assert!(assignor.assign(&[], &sizes).is_empty());
        assert!(assignor.assign(&members, &[]).iter().all(Vec::is_empty));
    }
}

#[test]
fn what_is_said_twice_counts_once_and_of_two_sizes_the_larger() {
    let member = Member::new("a", &["t", "u", "t"]);
    let sizes = [("t", 1), ("t", 3), ("u", 0), ("t", 2)];
    let sizes = sizes.map(|(name, partitions)| TopicSize::new(name, partitions));
    let all = [0, 1, 2].map(|n| TopicPartition::new("t", n));
    for assignor in ASSIGNORS {
        assert_eq!(assignor.assign(&[member], &sizes), [all.to_vec()]);
    }
}
