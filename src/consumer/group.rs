//! A group by name: join it, and see how far it is.

use std::sync::Arc;

use super::builder::ConsumerBuilder;
use crate::error::{Error, Result};
use crate::log::Log;
use crate::offset::{Offset, Positions, TopicPartition};

/// Kafka's bound on the name of a group, in bytes.
const MAX_NAME: usize = 32_767;

/// A group by name: join it, see how far it is. A cheap clone, `Send + Sync`. It begins to exist with its first commit.
#[derive(Clone, Debug)]
pub struct ConsumerGroup {
    log: Log,
    name: Arc<str>,
}

impl Log {
    /// The group of that name. Nothing is looked up or made here: a name that cannot be is refused at `join`.
    pub fn group(&self, name: &str) -> ConsumerGroup {
        ConsumerGroup {
            log: self.clone(),
            name: name.into(),
        }
    }
}

impl ConsumerGroup {
    /// The name of the group.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A consumer of these topics: alone of all their partitions, else of its share. Topics that do not exist are waited for.
    pub fn subscribe<T: Into<String>>(
        &self,
        topics: impl IntoIterator<Item = T>,
    ) -> ConsumerBuilder {
        ConsumerBuilder::new(self.clone(), topics.into_iter().map(Into::into).collect())
    }

    /// The committed next offsets, of topics that exist.
    ///
    /// # Errors
    ///
    /// [`Error::Corruption`] where damage may hide a commit: never "no commit" then.
    pub fn committed(&self) -> Result<Positions> {
        self.log.check_open()?;
        let mut positions = Positions::new();
        for ((topic, partition), next) in self.log.ledger().committed_by(&self.name)? {
            if let Some(topic) = self.log.topic_by_uuid(topic) {
                positions.set(TopicPartition::new(topic.name(), partition).at(next));
            }
        }
        Ok(positions)
    }

    /// How far the group is behind, for each partition that it has committed: the end less what was committed, in offsets.
    ///
    /// # Errors
    ///
    /// As [`committed`](Self::committed).
    pub fn lag(&self) -> Result<Vec<(TopicPartition, u64)>> {
        let mut lags = Vec::new();
        for position in self.committed()?.iter() {
            let topic = self.log.topic(position.topic())?;
            let end = topic.partition(position.partition())?.offsets().end;
            let lag = end.get().saturating_sub(position.offset().get());
            lags.push((position.topic_partition().clone(), lag));
        }
        Ok(lags)
    }

    pub(super) fn log(&self) -> &Log {
        &self.log
    }

    /// What the group has committed for one partition, whether somebody owns it or not.
    pub(super) fn committed_at(&self, at: &TopicPartition) -> Result<Option<Offset>> {
        let topic = self.log.topic(at.topic())?;
        topic.partition(at.partition())?;
        self.log
            .ledger()
            .committed(&self.name, (topic.uuid(), at.partition().get()))
    }
}

pub(super) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > MAX_NAME {
        return Err(Error::invalid_name(
            name,
            "the name of a group has from 1 to 32767 bytes",
        ));
    }
    Ok(())
}
