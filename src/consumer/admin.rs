//! Groups from outside: what there are, how far they are, who reads what; and moving them while nobody reads.

use std::collections::BTreeSet;

use super::coordinator::{Coordinator, SeenMember};
use super::group::{ConsumerGroup, check_name};
use super::source::check_next;
use super::starts;
use crate::error::{Error, Result};
use crate::log::{Commit, Log};
use crate::offset::{Offset, Position, Positions, StartFrom, TopicPartition};
use crate::partition::Partition;

/// A group as it is now: what `kafka-consumer-groups --describe` prints, as data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupDescription {
    /// The name of the group.
    pub name: String,
    /// Of the distribution of its partitions; 0 if it has no members.
    pub generation: u64,
    /// Sorted by id, which is the order in which they joined where their names are the same.
    pub members: Vec<MemberDescription>,
    /// The partitions that it has committed for or that its members read, sorted.
    pub partitions: Vec<PartitionProgress>,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberDescription {
    /// As [`Membership::member`](super::Membership::member) has it.
    pub id: String,
    /// Of a static member.
    pub instance_id: Option<String>,
    /// What it reads, sorted. Nothing of a static member that is closed or silent, and whose place is kept.
    pub owned: Vec<TopicPartition>,
    /// What it should read, sorted: it gives up and takes partitions in its own polls.
    pub target: Vec<TopicPartition>,
    /// A static member whose consumer is closed or was silent for too long: it reads nothing, and its place is kept for a while.
    pub away: bool,
}

/// How far a group is in one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionProgress {
    /// The partition.
    pub at: TopicPartition,
    /// The committed next offset; `None` if nothing is committed.
    pub committed: Option<Offset>,
    /// The end of the partition: the offset of the next record.
    pub end: Offset,
    /// As [`ConsumerGroup::lag`] counts.
    pub lag: u64,
    /// The id of the member that reads it; `None` if nobody does, or not yet.
    pub owner: Option<String>,
    /// It rests after an error, and its owner was told, until that one seeks or resumes.
    pub halted: bool,
}

impl Log {
    /// The groups that have committed something or have members, sorted by name.
    ///
    /// # Errors
    ///
    /// [`Error::Corruption`] where damage may hide a group; [`Error::Closed`].
    pub fn groups(&self) -> Result<Vec<ConsumerGroup>> {
        self.check_open()?;
        let committed = self.ledger().groups()?;
        let live = self.shared::<Coordinator>().names(self.clock().elapsed());
        let live = live.iter().map(ToString::to_string);
        let names: BTreeSet<String> = committed.into_iter().chain(live).collect();
        Ok(names.iter().map(|name| self.group(name)).collect())
    }

    /// Forgets what a group has committed, durably. Who joins it later begins anew.
    ///
    /// # Errors
    ///
    /// [`Error::GroupNotEmpty`] while it has members; [`Error::NotFound`] if it has committed nothing; those of
    /// [`Consumer::commit`](super::Consumer::commit), and then call again.
    pub fn delete_group(&self, name: &str) -> Result<()> {
        self.check_open()?;
        let coordinator = self.shared::<Coordinator>();
        let held = without_members(self, &coordinator, name)?;
        if !self.ledger().forget_group(name)? {
            return Err(Error::not_found("group", name));
        }
        drop(held); // not over the sync
        self.ledger().sync()
    }
}

fn without_members<'c>(
    log: &Log,
    coordinator: &'c Coordinator,
    group: &str,
) -> Result<impl Sized + use<'c>> {
    let held = coordinator.without_members(group, log.clock().elapsed());
    held.map_err(|members| Error::GroupNotEmpty {
        group: group.into(),
        members,
    })
}

impl ConsumerGroup {
    /// The group as it is now. A target that is due is made, as by a poll.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::TopicConfig;
    /// use thalweg::testing::TestLog;
    ///
    /// let test = TestLog::new();
    /// test.log().create_topic("orders", TopicConfig::new().partitions(2))?;
    /// let group = test.log().group("kitchen");
    /// let mut first = group.subscribe(["orders"]).join()?;
    /// let _ = first.poll(Duration::ZERO)?;
    /// let _second = group.subscribe(["orders"]).join()?;
    ///
    /// let now = group.describe()?;
    /// assert_eq!(now.members[0].owned.len(), 2); // until its next poll
    /// assert_eq!(now.members[0].target.len(), 1);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`committed`](Self::committed); [`Error::InvalidSetting`] if its assignor gives what cannot be; [`Error::Reentrant`] if
    /// it is the assignor that asks.
    pub fn describe(&self) -> Result<GroupDescription> {
        let log = self.log();
        log.check_open()?;
        let seen = log
            .shared::<Coordinator>()
            .describe(self.name(), log.clock().elapsed())?;
        let committed = self.committed()?;
        let owners = seen.as_ref().map(|seen| &seen.owners);
        let mut partitions = Vec::new();
        for (partition, lag) in self.lags(&committed)? {
            let at = partition.topic_partition();
            let owner = owners.and_then(|owners| owners.get(&partition.key()));
            partitions.push(PartitionProgress {
                committed: committed.next(&at),
                at,
                end: partition.offsets().end,
                lag,
                owner: owner.map(|(id, _)| id.to_string()),
                halted: owner.is_some_and(|(_, halted)| *halted),
            });
        }
        let (generation, members) = match seen {
            Some(seen) => (seen.generation, seen.members),
            None => Default::default(),
        };
        let member = |of: SeenMember| MemberDescription {
            id: of.id.to_string(),
            instance_id: of.instance.map(|id| id.to_string()),
            owned: of.owned,
            target: of.target,
            away: of.away,
        };
        Ok(GroupDescription {
            name: self.name().to_owned(),
            generation,
            members: members.into_iter().map(member).collect(),
            partitions,
        })
    }

    /// Shuts a member out, named by its id or, a static one, by its `instance_id`: its partitions go to the others at once. Its
    /// next commit is [`Error::Fenced`]. If it lives, its next poll tells its listener of what was `lost` and joins again: close
    /// the consumer to be rid of it.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if there is none of that name.
    pub fn remove_member(&self, member: &str) -> Result<()> {
        let log = self.log();
        log.check_open()?;
        let coordinator = log.shared::<Coordinator>();
        coordinator.remove(self.name(), member, log.clock().elapsed())
    }

    /// Stores these next offsets, as given, for whoever joins next: all of them or, with an error, none. Those of other
    /// partitions stay. A group that has none begins to exist.
    ///
    /// # Errors
    ///
    /// [`Error::GroupNotEmpty`] while it has members; [`Error::NotFound`] for an unknown partition; [`Error::OutOfRange`] for an
    /// offset below the first readable one or above the end; those of [`Consumer::commit`](super::Consumer::commit).
    pub fn set_positions(&self, next: &Positions) -> Result<()> {
        let log = self.log();
        log.check_open()?;
        check_name(self.name())?;
        let mut partitions = Vec::new();
        for position in next.iter() {
            let partition = log
                .topic(position.topic())?
                .partition(position.partition())?;
            check_next(&partition, position.offset())?;
            partitions.push((partition, position.offset()));
        }
        self.store(&partitions)
    }

    fn store(&self, next: &[(Partition, Offset)]) -> Result<()> {
        let log = self.log();
        log.prepare_commits()?;
        let coordinator = log.shared::<Coordinator>();
        let commits = next
            .iter()
            .map(|&(ref partition, next)| Commit { partition, next });
        let under = || without_members(log, &coordinator, self.name());
        log.ledger().commit(self.name(), commits, under)
    }

    /// Moves the group in all partitions of the topics that it has committed for, and says where to; a group without commits is not
    /// moved. As `kafka-consumer-groups --reset-offsets` does.
    ///
    /// ```
    /// # let log = thalweg::Log::in_memory();
    /// # log.create_topic("orders", thalweg::TopicConfig::new())?;
    /// # let group = log.group("kitchen");
    /// use thalweg::StartFrom;
    /// group.reset(StartFrom::Earliest)?; // whoever joins next reads everything again
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`set_positions`](Self::set_positions); [`Error::InvalidSetting`] for [`StartFrom::Fail`], which is no place.
    pub fn reset(&self, to: StartFrom) -> Result<Positions> {
        if to == StartFrom::Fail {
            return Err(Error::invalid(
                "reset",
                "`StartFrom::Fail` is no place to begin",
            ));
        }
        let committed = self.committed()?;
        let topics: BTreeSet<&str> = committed.iter().map(Position::topic).collect();
        let mut next = Vec::new();
        for name in topics {
            for partition in self.log().topic(name)?.partitions() {
                let start = starts::start(self.log(), &partition, to)?;
                let start = start.unwrap_or(partition.offsets().start);
                next.push((partition, start));
            }
        }
        self.store(&next)?;
        let positions = next.iter();
        let positions = positions.map(|(partition, next)| partition.topic_partition().at(*next));
        Ok(positions.collect())
    }
}
