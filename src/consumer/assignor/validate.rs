//! Does an answer keep the rules? Asked of every assignor, since anybody can write one.

use std::collections::HashMap;
use std::fmt;

use super::{Member, TopicSize};
use crate::offset::TopicPartition;

/// The first rule of [`Assignor::assign`](super::Assignor::assign) that an answer breaks, if it breaks any.
pub(in crate::consumer) fn validate(
    members: &[Member<'_>],
    topics: &[TopicSize<'_>],
    lists: &[Vec<TopicPartition>],
) -> Result<(), Fault> {
    if lists.len() != members.len() {
        return Err(Fault::Lists {
            members: members.len(),
            lists: lists.len(),
        });
    }
    let mut sizes = HashMap::new();
    for topic in topics {
        let size = sizes.entry(topic.name).or_insert(0);
        *size = topic.partitions.max(*size);
    }
    let mut given: HashMap<&TopicPartition, &Member<'_>> = HashMap::new();
    for (member, list) in members.iter().zip(lists) {
        let mut reads = member.topics.to_vec();
        reads.sort_unstable();
        for at in list {
            let to = || member.id.to_owned();
            if sizes
                .get(at.topic())
                .is_none_or(|&size| at.partition().get() >= size)
            {
                return Err(Fault::Unknown {
                    at: at.clone(),
                    to: to(),
                });
            }
            if reads.binary_search(&at.topic()).is_err() {
                return Err(Fault::NotSubscribed {
                    at: at.clone(),
                    to: to(),
                });
            }
            if let Some(first) = given.insert(at, member) {
                let to = [first.id.to_owned(), to()];
                return Err(Fault::Twice { at: at.clone(), to });
            }
        }
    }
    Ok(())
}

/// What is wrong with an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::consumer) enum Fault {
    /// Not one list for each member.
    Lists { members: usize, lists: usize },
    /// There is no such partition.
    Unknown { at: TopicPartition, to: String },
    /// The member does not read that topic.
    NotSubscribed { at: TopicPartition, to: String },
    /// To two members, or twice to one.
    Twice { at: TopicPartition, to: [String; 2] },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Lists { members, lists } => write!(f, "{lists} lists for {members} members"),
            Fault::Unknown { at, to } => {
                write!(f, "{at} was given to {to}, and there is no such partition")
            }
            Fault::NotSubscribed { at, to } => write!(
                f,
                "{at} was given to {to}, which did not subscribe to {}",
                at.topic()
            ),
            Fault::Twice {
                at,
                to: [first, second],
            } if first == second => write!(f, "{at} was given to {first} twice"),
            Fault::Twice {
                at,
                to: [first, second],
            } => write!(f, "{at} was given to {first} and to {second}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_broken_rule_is_told() {
        let members = [
            Member::new("a", &["t", "u", "gone"]),
            Member::new("b", &["u"]),
        ];
        let topics = [
            TopicSize::new("u", 2),
            TopicSize::new("t", 1),
            TopicSize::new("x", 1),
        ];
        let said = |lists: &[&[(&str, u32)]]| {
            let list = |of: &&[(&str, u32)]| {
                of.iter()
                    .map(|&(name, n)| TopicPartition::new(name, n))
                    .collect()
            };
            let lists: Vec<Vec<TopicPartition>> = lists.iter().map(list).collect();
            validate(&members, &topics, &lists).map_err(|fault| fault.to_string())
        };
        let told = |lists: &[&[(&str, u32)]]| said(lists).expect_err("it breaks a rule");
        assert_eq!(said(&[&[("u", 1), ("t", 0)], &[("u", 0)]]), Ok(()));
        assert_eq!(said(&[&[], &[]]), Ok(()), "nobody need read anything");
        assert_eq!(told(&[&[]]), "1 lists for 2 members");
        assert_eq!(
            told(&[&[], &[("u", 2)]]),
            "u-2 was given to b, and there is no such partition"
        );
        assert_eq!(
            told(&[&[("gone", 0)], &[]]),
            "gone-0 was given to a, and there is no such partition"
        );
        assert_eq!(
            told(&[&[], &[("t", 0)]]),
            "t-0 was given to b, which did not subscribe to t"
        );
        assert_eq!(
            told(&[&[("u", 0)], &[("u", 0)]]),
            "u-0 was given to a and to b"
        );
        assert_eq!(
            told(&[&[], &[("u", 1), ("u", 1)]]),
            "u-1 was given to b twice"
        );
    }
}
