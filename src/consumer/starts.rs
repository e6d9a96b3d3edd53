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

/// The topics of a consumer that joins, and where it wants to begin: resolved now, so that nothing that is appended from now on
/// is skipped. `begun`: where it began before, when it was a member already.
pub(super) fn look(
    log: &Log,
    settings: &ConsumerBuilder,
    topics: &[String],
    begun: &HashMap<PartitionKey, Option<Offset>>,
) -> Result<Look> {
    let at = log.changes().end(); // before the look: what changes during it is looked at again
    let group = settings.group.name();
    let topics = topics.iter().map(|name| {
        look_at(log, name, |topic| {
            let mut starts = Vec::new();
            for partition in topic.partitions() {
                let key = partition.key();
                if log.ledger().committed(group, key)?.is_none() {
                    let wanted = match begun.get(&key) {
                        Some(&begun) => begun,
                        None => start(log, &partition, settings.start_from)?,
                    };
                    starts.push(Start {
                        key,
                        wanted,
                        first: partition.offsets().start,
                    });
                }
            }
            Ok(starts)
        })
    });
    let topics = topics.collect::<Result<_>>()?;
    Ok(Look { at, topics })
}

/// A topic that is looked at later. If it has appeared since, it is read from its first record.
pub(super) fn look_later(log: &Log, name: &str) -> Result<Looked> {
    look_at(log, name, |topic| {
        let starts = topic.partitions().into_iter().map(|partition| {
            let first = partition.offsets().start;
            Start {
                key: partition.key(),
                wanted: Some(first),
                first,
            }
        });
        Ok(starts.collect())
    })
}

fn look_at(
    log: &Log,
    name: &str,
    starts: impl FnOnce(&Topic) -> Result<Vec<Start>>,
) -> Result<Looked> {
    let (info, starts) = match log.topic(name) {
        Ok(topic) => match starts(&topic) {
            Err(Error::NotFound { .. }) => (None, Vec::new()), // deleted meanwhile
            starts => (Some(info(&topic)), starts?),
        },
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
