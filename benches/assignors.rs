//! How long does it take to decide who reads what, in a group of a thousand members and ten thousand partitions?
//!
//! Each rule is asked in six situations: everybody reads everything, or each a random half of the topics; and nobody owns anything
//! yet, or everything is owned and a member joins, or leaves. `per_s` are partitions. Beside it, as the raw limit, what it takes to
//! clone the lists that came out.

mod common;

use std::hint::black_box;

use common::{Dice, Line, Run, duel, float, rate};
use thalweg::TopicPartition;
use thalweg::assignor::{
    Assignor, CooperativeSticky, Member, Range, RoundRobin, Sticky, TopicSize,
};

/// Topics, and partitions of each.
const SHAPES: [(u64, u32); 2] = [(100, 100), (1_000, 10)];

fn main() {
    let run = Run::from_args();
    let rules: [&dyn Assignor; 4] = [&Range, &RoundRobin, &Sticky, &CooperativeSticky];
    for shape in SHAPES {
        for halves in [false, true] {
            let group = Group::new(run.size(1_000), run.size(shape.0), shape.1, halves);
            for rule in rules.into_iter().filter(|rule| run.wants(rule.name())) {
                for change in [Change::Fresh, Change::Join, Change::Leave] {
                    measure(&run, &group, rule, change);
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Fresh,
    Join,
    Leave,
}

struct Group {
    ids: Vec<String>,
    topics: Vec<String>,
    /// By member: which of `topics`.
    subscribed: Vec<Vec<usize>>,
    partitions: u32,
    halves: bool,
}

impl Group {
    fn new(members: u64, topics: u64, partitions: u32, halves: bool) -> Group {
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
        let mut subscribe = || {
            (0..topics as usize)
                .filter(|_| !halves || dice.roll().is_multiple_of(2))
                .collect()
        };
        Group {
            ids: (0..=members).map(|n| format!("member-{n:010}")).collect(),
            topics: (0..topics).map(|n| format!("topic-{n:04}")).collect(),
            subscribed: (0..=members).map(|_| subscribe()).collect(),
            partitions,
            halves,
        }
    }
}

fn measure(run: &Run, group: &Group, rule: &dyn Assignor, change: Change) {
    let of = |topic: &usize| group.topics[*topic].as_str();
    let subscribed = group.subscribed.iter();
    let subscribed: Vec<Vec<&str>> = subscribed
        .map(|of_member| of_member.iter().map(of).collect())
        .collect();
    let topics = group.topics.iter();
    let topics: Vec<TopicSize<'_>> = topics
        .map(|name| TopicSize::new(name, group.partitions))
        .collect();
    let all = group.ids.iter().zip(&subscribed);
    let all: Vec<Member<'_>> = all.map(|(id, of)| Member::new(id, of)).collect();
    let (_, but_one) = all.split_last().expect("members");
    let before = match change {
        Change::Fresh => Vec::new(),
        Change::Join => rule.assign(but_one, &topics),
        Change::Leave => rule.assign(&all, &topics),
    };
    let mut now = match change {
        Change::Join => all.clone(),
        Change::Fresh | Change::Leave => but_one.to_vec(),
    };
    for (member, owned) in now.iter_mut().zip(&before) {
        *member = member.owned(owned, 1);
    }
    let lists = rule.assign(&now, &topics);
    let count = lists.iter().map(Vec::len).sum::<usize>() as u64;
    let stayed = |(list, owned): (&Vec<TopicPartition>, &Vec<TopicPartition>)| {
        list.iter().filter(|at| owned.contains(at)).count() as u64
    };
    let ask = || {
        black_box(rule.assign(black_box(&now), &topics));
    };
    let clone = || {
        black_box(black_box(&lists).clone());
    };
    let duel = duel(run.rounds(30), || rate(count, ask), || rate(count, clone));
    let millis = |per_s: f64| 1e3 * float(count) / per_s;
    Line::new("assignors")
        .text("name", rule.name())
        .text("change", &format!("{change:?}").to_lowercase())
        .text("topics", if group.halves { "half" } else { "all" })
        .count("topic_count", topics.len() as u64)
        .count("members", now.len() as u64)
        .count("partitions", count)
        .count("stayed", lists.iter().zip(&before).map(stayed).sum())
        .number("ms", millis(duel.ours().median))
        .number("ms_max", millis(duel.ours().min))
        .number("raw_ms", millis(duel.raw().median))
        .duel("clone", &duel, None)
        .print();
}
