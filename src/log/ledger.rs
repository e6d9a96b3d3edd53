//! The ledger: an internal partition that keeps what is small and must survive; so far, where each group reads on.
//!
//! Every commit is a record, keyed by group and partition; the newest one of a key counts. Opening replays them into a map.
//! What cannot be read is never taken for "no commit": a commit may have been there, so whatever the map does not know for
//! certain is an error then.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::config;
use super::settings::TopicConfig;
use super::topic::{Opening, TopicCore};
use super::{description, evidence};
use crate::clock::Clock;
use crate::entry::EntryRef;
use crate::error::{Error, Result};
use crate::format::ledger::{
    GroupPosition, decode_group_position, encode_group_position, kind, split_key,
};
use crate::format::names;
use crate::format::topic::TopicDescription;
use crate::offset::Offset;
use crate::partition::Partition;
use crate::partition::home::Home;
use crate::partition::report::{Finding, FindingKind, RecoveryReport};
use crate::partition::settings::Durability;
use crate::record::Record;

/// What findings and errors call it. (No user can open it by this or any name: it is in no catalogue. A topic of the user's that
/// is called so is another one.)
const NAME: &str = "__ledger";
/// Fixed, and the same in every log: no random UUID is as small.
pub(super) const TOPIC: u128 = 1;
const SEGMENT_BYTES: u64 = 1 << 20;
/// Losing a commit only repeats work, so a commit does not wait for the disk; it is synced soon after.
const LEVEL: Durability = Durability::Interval {
    time: Duration::from_secs(1),
    bytes: 1 << 20,
};

/// A partition as the ledger names it: UUID of the topic, number.
pub(crate) type PartitionKey = evidence::Key;

/// That a group is done with everything below `next`.
pub(crate) struct Commit<'p> {
    pub(crate) partition: &'p Partition,
    pub(crate) next: Offset,
}

impl Commit<'_> {
    fn key(&self) -> PartitionKey {
        self.partition.key()
    }
}

/// What is stored for a new ledger.
pub(super) fn description() -> TopicDescription {
    let config = TopicConfig::new()
        .durability(LEVEL)
        .segment_bytes(SEGMENT_BYTES);
    let resolved = config
        .resolve()
        .expect("the ledger's own settings are in bounds");
    description::stored(NAME, TOPIC, &resolved)
}

/// The ledger of an open log.
pub(crate) struct Ledger {
    core: TopicCore,
    clock: Arc<dyn Clock>,
    live: Mutex<Live>,
}

/// The newest commit of each group and partition. Locked while a commit is written (one write, no sync), so that the map has
/// the order of the log.
#[derive(Default)]
struct Live {
    groups: HashMap<String, HashMap<PartitionKey, Offset>>,
    /// Something before the oldest entry of `groups` could not be read.
    damage: Option<Damage>,
}

#[derive(Clone)]
struct Damage {
    file: PathBuf,
    byte: u64,
}

impl Ledger {
    /// Opens the ledger in `root`: reads, and changes nothing.
    pub(super) fn open(
        root: &Path,
        home: &Arc<Home>,
        report: &mut RecoveryReport,
    ) -> Result<Ledger> {
        let dir = root.join(names::LEDGER);
        let read = config::read(&*home.ground.storage, &dir)?;
        if read.lost_slot {
            let mut finding = Finding::new(FindingKind::LostSlot);
            finding.file = Some(read.path.clone());
            report.add(finding);
        }
        let core = TopicCore::open(
            Opening {
                dir,
                read,
                custom: None,
                first_offset: 0,
            },
            home,
            report,
        )?;
        let clock = Arc::clone(&home.clock);
        Ok(Ledger {
            core,
            clock,
            live: Mutex::default(),
        })
    }

    pub(super) fn partition(&self) -> &Partition {
        self.core
            .partitions
            .first()
            .expect("the ledger has one partition, which its description says")
    }

    /// Builds the map from the records that there are. Called when recovery has said which they are.
    pub(super) fn replay(&self, report: &mut RecoveryReport) -> Result<()> {
        let mut live = Live::default();
        let mut cursor = self.partition().cursor(self.partition().offsets().start);
        loop {
            match cursor.read(usize::MAX, usize::MAX) {
                Ok(Some(chunk)) => {
                    for view in chunk.views() {
                        live.take(EntryRef::new(chunk.block(), view));
                    }
                }
                Ok(None) => break,
                Err(error) => match (error.resume_at(), error) {
                    (Some(behind), Error::Corruption { file, byte, .. })
                        if behind.offset() > cursor.next_offset() =>
                    {
                        live.damaged(Damage {
                            file: file.into(),
                            byte,
                        });
                        cursor.seek(behind.offset());
                    }
                    (_, Error::Corruption { file, byte, .. }) => {
                        live.damaged(Damage {
                            file: file.into(),
                            byte,
                        });
                        break;
                    }
                    (_, other) => return Err(other),
                },
            }
        }
        // A damaged end is not read at all: what it held may supersede everything.
        let dir = &self.partition().inner.place.dir;
        let ours = |file: &Option<PathBuf>| file.as_ref().is_some_and(|file| file.starts_with(dir));
        let end = report
            .findings()
            .iter()
            .find(|f| f.kind == FindingKind::Damaged && ours(&f.file));
        if let Some(end) = end {
            live.damaged(Damage {
                file: end.file.clone().unwrap_or_default(),
                byte: end.byte.unwrap_or(0),
            });
        } else if let Some(Damage { file, byte }) = live.damage.clone() {
            let mut finding = Finding::new(FindingKind::Damaged);
            finding.at = Some(self.partition().topic_partition());
            finding.file = Some(file);
            finding.byte = Some(byte);
            report.add(finding);
        }
        *self.live.lock() = live;
        Ok(())
    }

    /// Stores these commits of one group, all of them or none; those for topics that are deleted are left out.
    pub(crate) fn commit(&self, group: &str, commits: &[Commit<'_>]) -> Result<()> {
        let time = self.clock.now().as_millis();
        let mut live = self.live.lock();
        // Under the lock: a topic whose deletion is decided from now on finds them in the map, and forgets them.
        let there = || {
            commits
                .iter()
                .filter(|commit| !commit.partition.is_deleted())
        };
        let rows = there().map(|commit| {
            let (topic, partition) = commit.key();
            let key = GroupPosition {
                group: group.to_owned(),
                topic,
                partition,
            }
            .encode();
            Record::new(key, encode_group_position(commit.next.get(), time))
        });
        let rows: Vec<Record<'_>> = rows.collect();
        if rows.is_empty() {
            return Ok(());
        }
        self.partition().append_all(rows)?;
        let of_group = live.group(group);
        of_group.extend(there().map(|commit| (commit.key(), commit.next)));
        Ok(())
    }

    /// Forgets what groups have committed for these topics, which are deleted. It is durable when this returns.
    pub(super) fn forget_topics(&self, topics: &[u128]) -> Result<()> {
        let mut live = self.live.lock();
        let mut gone = Vec::new();
        for (group, positions) in &live.groups {
            for &(topic, partition) in positions.keys() {
                if topics.contains(&topic) {
                    let key = GroupPosition {
                        group: group.clone(),
                        topic,
                        partition,
                    };
                    gone.push(Record::tombstone(key.encode()));
                }
            }
        }
        if gone.is_empty() {
            return Ok(());
        }
        self.partition().append_all(gone)?;
        for positions in live.groups.values_mut() {
            positions.retain(|(topic, _), _| !topics.contains(topic));
        }
        live.groups.retain(|_, positions| !positions.is_empty());
        drop(live);
        self.partition().sync()
    }

    /// The next offset of a group in one partition; `None` only if it is certain that there is no commit.
    pub(crate) fn committed(&self, group: &str, key: PartitionKey) -> Result<Option<Offset>> {
        let live = self.live.lock();
        let known = live
            .groups
            .get(group)
            .and_then(|of_group| of_group.get(&key))
            .copied();
        match &live.damage {
            Some(damage) if known.is_none() => Err(damage.error()),
            _ => Ok(known),
        }
    }

    /// Everything a group has committed, sorted.
    pub(crate) fn committed_by(&self, group: &str) -> Result<Vec<(PartitionKey, Offset)>> {
        let live = self.live.lock();
        if let Some(damage) = &live.damage {
            return Err(damage.error());
        }
        let of_group = live.groups.get(group).into_iter().flatten();
        let mut commits: Vec<_> = of_group.map(|(&key, &next)| (key, next)).collect();
        commits.sort_unstable();
        Ok(commits)
    }
}

impl Live {
    fn group(&mut self, name: &str) -> &mut HashMap<PartitionKey, Offset> {
        if !self.groups.contains_key(name) {
            self.groups.insert(name.to_owned(), HashMap::new());
        }
        self.groups.get_mut(name).expect("it was just put there")
    }

    /// Takes in one record. Kinds that this version does not know are somebody else's.
    fn take(&mut self, entry: EntryRef<'_>) {
        let key = entry.key().unwrap_or_default();
        if split_key(key).is_some_and(|(of_kind, ..)| of_kind != kind::GROUP_POSITION) {
            return;
        }
        let decoded = GroupPosition::decode(key).ok().zip(match entry.value() {
            Some(value) => decode_group_position(value)
                .map(|(next, _)| Some(next))
                .ok(),
            None => Some(None),
        });
        let Some((
            GroupPosition {
                group,
                topic,
                partition,
            },
            next,
        )) = decoded
        else {
            // The batch is sound, so this is not rot, but it is not what a commit looks like either.
            self.damaged(Damage {
                file: PathBuf::from(entry.position().to_string()),
                byte: 0,
            });
            return;
        };
        let of_group = self.group(&group);
        match next {
            Some(next) => of_group.insert((topic, partition), Offset::new(next)),
            None => of_group.remove(&(topic, partition)),
        };
    }

    /// Forgets what may have been superseded by something that cannot be read. What comes later is certain again.
    fn damaged(&mut self, damage: Damage) {
        self.groups.clear();
        self.damage.get_or_insert(damage);
    }
}

impl Damage {
    fn error(&self) -> Error {
        Error::corruption(&self.file, self.byte, None)
    }
}
