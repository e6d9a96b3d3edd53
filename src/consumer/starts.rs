//! Where a group begins to read a partition for which it has committed nothing.

use std::collections::HashMap;

use super::builder::{ConsumerBuilder, Wanted};
use super::coordinator::{Look, Looked, Start, TopicInfo};
use crate::error::{Error, Result};
use crate::log::{Log, PartitionKey, Topic};
use crate::offset::{Offset, StartFrom};
use crate::partition::Partition;

/// The topics that somebody wants, sorted, each once: as named, whether they exist or not, or of those that exist.
pub(super) fn topics(log: &Log, wanted: &Wanted) -> Result<Vec<String>> {
    match wanted {
        Wanted::Topics(names) => {
            for name in names {
                crate::log::check_topic_name(name)?;
            }
            Ok(names.clone())
        }
        Wanted::Where(wanted) => {
            let all = log.topics().into_iter();
            let mut names: Vec<String> = all.map(|topic| topic.name().to_owned()).collect();
            names.retain(|name| wanted(name));
            names.sort();
            Ok(names)
        }
        Wanted::ByHand(_) => Ok(Vec::new()), // it subscribed to none
    }
}

/// What a consumer that joins has been to the group before.
#[derive(Clone, Copy)]
pub(super) struct Before<'m> {
    /// It wanted these.
    pub(super) wanted: &'m Wanted,
    /// Where it began in partitions without a commit.
    pub(super) begun: &'m Begun,
}

pub(super) type Begun = HashMap<PartitionKey, Option<Offset>>;

impl Before<'_> {
    /// Did it wait for the topic, should it not have been there?
    fn waited_for(&self, topic: &str) -> bool {
        match self.wanted {
            Wanted::Topics(names) => names.iter().any(|name| name == topic),
            Wanted::Where(_) => true,
            Wanted::ByHand(_) => false,
        }
    }
}

/// The topics of a consumer that joins, and where it wants to begin: resolved now, so that nothing that is appended from now on
/// is skipped. If it is a member that was shut out, it begins where it did before, and topics that it has waited for at their
/// first record.
pub(super) fn look(
    log: &Log,
    settings: &ConsumerBuilder,
    wanted: &Wanted,
    before: Option<Before<'_>>,
) -> Result<(Look, Vec<String>)> {
    let at = log.changes().end(); // before the look: what changes during it is looked at again
    let names = topics(log, wanted)?;
    let group = settings.group.name();
    let looked = names.iter().map(|name| {
        let waited_for = before.filter(|before| before.waited_for(name));
        look_at(log, name, |topic| {
            let mut starts = Vec::new();
            for partition in topic.partitions() {
                let key = partition.key();
                if log.ledger().committed(group, key)?.is_none() {
                    let first = partition.offsets().start;
                    let wanted = match waited_for {
                        Some(before) => before.begun.get(&key).copied().unwrap_or(Some(first)),
                        None => start(log, &partition, settings.start_from)?,
                    };
                    starts.push(Start { key, wanted, first });
                }
            }
            Ok(starts)
        })
    });
    let topics = looked.collect::<Result<_>>()?;
    Ok((Look { at, topics }, names))
}

/// A topic that is looked at later. If it has appeared since, it is read from its first record.
pub(super) fn look_later(log: &Log, name: &str) -> Result<Looked> {
    look_at(log, name, |topic| Ok(firsts(topic)))
}

fn firsts(topic: &Topic) -> Vec<Start> {
    let starts = topic.partitions().into_iter().map(|partition| {
        let first = partition.offsets().start;
        Start {
            key: partition.key(),
            wanted: Some(first),
            first,
        }
    });
    starts.collect()
}

fn look_at(
    log: &Log,
    name: &str,
    starts: impl FnOnce(&Topic) -> Result<Vec<Start>>,
) -> Result<Looked> {
    let (info, starts) = match log.topic(name) {
        Ok(topic) => {
            let info = info(&topic); // before the starts: of a partition that comes in between there is one too many, not too few
            match starts(&topic) {
                Err(Error::NotFound { .. }) => match log.topic(name) {
                    // Its deletion has begun, and may yet fail: as long as it is in the catalogue, it is a topic.
                    Ok(now) if now.uuid() == info.uuid => (Some(info), firsts(&topic)),
                    _ => (None, Vec::new()), // deleted meanwhile
                },
                starts => (Some(info), starts?),
            }
        }
        Err(Error::NotFound { .. }) => (None, Vec::new()),
        Err(e) => return Err(e),
    };
    Ok(Looked {
        name: name.to_owned(),
        info,
        starts,
    })
}

fn info(topic: &Topic) -> TopicInfo {
    TopicInfo {
        uuid: topic.uuid(),
        partitions: topic.settings().partitions,
    }
}

/// `None` if that must be told.
pub(super) fn start(log: &Log, partition: &Partition, start: StartFrom) -> Result<Option<Offset>> {
    let offsets = partition.offsets();
    let at_time = |time| {
        let found = partition.offset_for_time(time)?;
        Ok(Some(found.unwrap_or(offsets.end)))
    };
    match start {
        StartFrom::Earliest => Ok(Some(offsets.start)),
        StartFrom::Latest => Ok(Some(offsets.end)),
        StartFrom::Time(time) => at_time(time),
        StartFrom::Ago(ago) => at_time(log.clock().now().minus(ago)),
        StartFrom::Fail => Ok(None),
    }
}
