//! A group by name: join it, and see how far it is.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::builder::{ConsumerBuilder, Wanted};
use super::coordinator::Coordinator;
use crate::error::{Error, Result};
use crate::log::{Log, Topic};
use crate::offset::{Offset, Position, Positions, TopicPartition};
use crate::partition::Partition;

/// Kafka's bound on the name of a group, in bytes.
const MAX_NAME: usize = 32_767;

/// A group by name: join it, see how far it is, move it. A cheap clone, `Send + Sync`. It is there as long as it has committed offsets
/// or members, see [`Log::groups`]; the guide's page is [`groups`](crate::guide::groups).
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
        let topics = topics.into_iter().map(Into::into).collect();
        ConsumerBuilder::new(self.clone(), Wanted::topics(topics))
    }

    /// A consumer of all topics whose names are `wanted`, those that appear later too (from their first record on). `wanted` is
    /// asked at `join` and in polls after topics came or went, under no lock.
    ///
    /// ```
    /// # let log = thalweg::Log::in_memory();
    /// let audit = log.group("audit").subscribe_where(|name| name.starts_with("orders-")).join()?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn subscribe_where(
        &self,
        wanted: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> ConsumerBuilder {
        ConsumerBuilder::new(self.clone(), Wanted::Where(Arc::new(wanted)))
    }

    /// A consumer of these partitions and no others: it is no member, shares with nobody, and no listener is called. It reads on
    /// where the group has committed, and commits for the group while that has no members ([`Error::Fenced`] otherwise). A partition
    /// whose topic is deleted is let go of. Nobody sees it: [`describe`](Self::describe) knows members only.
    pub fn assign(&self, partitions: impl IntoIterator<Item = TopicPartition>) -> ConsumerBuilder {
        ConsumerBuilder::new(
            self.clone(),
            Wanted::by_hand(partitions.into_iter().collect()),
        )
    }

    /// The committed next offsets, of topics that exist.
    ///
    /// # Errors
    ///
    /// [`Error::Corruption`] where damage may hide a commit: never "no commit" then.
    pub fn committed(&self) -> Result<Positions> {
        self.log.check_open()?;
        let mut positions = Positions::new();
        let topics = self.log.topics();
        let topics: HashMap<u128, &Topic> = topics.iter().map(|of| (of.uuid(), of)).collect();
        for ((topic, partition), next) in self.log.ledger().committed_by(&self.name)? {
            if let Some(topic) = topics.get(&topic) {
                positions.set(TopicPartition::new(topic.name(), partition).at(next));
            }
        }
        Ok(positions)
    }

    /// How far the group is behind, for each partition of the topics that it has committed for or that its members read: what is
    /// to be read from its committed offset to the end, in offsets, less the gaps that recovery has left (those of compaction count). Without a committed
    /// offset it is counted from where the group begins to read, or from the first record if nobody has joined it. Empty if the group
    /// has committed nothing and nobody has joined it.
    ///
    /// # Errors
    ///
    /// As [`committed`](Self::committed).
    pub fn lag(&self) -> Result<Vec<(TopicPartition, u64)>> {
        let lags = self.lags(&self.committed()?)?.into_iter();
        Ok(lags
            .map(|(partition, lag)| (partition.topic_partition(), lag))
            .collect())
    }

    pub(super) fn lags(&self, committed: &Positions) -> Result<Vec<(Partition, u64)>> {
        let (read, starts) = self.log.shared::<Coordinator>().progress(&self.name);
        let names: BTreeSet<&str> = committed.iter().map(Position::topic).collect();
        let names = names.into_iter().chain(read.iter().map(|name| &**name));
        let mut lags = Vec::new();
        for name in names.collect::<BTreeSet<&str>>() {
            let topic = match self.log.topic(name) {
                Err(Error::NotFound { .. }) => continue, // deleted meanwhile
                topic => topic?,
            };
            for partition in topic.partitions() {
                let at = partition.topic_partition();
                let start = || starts.get(&partition.key()).copied().flatten();
                let next = committed.next(&at).or_else(start);
                let next = next.unwrap_or_else(|| partition.offsets().start);
                let lag = partition.lag_from(next);
                lags.push((partition, lag));
            }
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
