//! The ledger: an internal partition that keeps what is small and must survive; so far, where each group reads on.
//!
//! Every commit is a record, keyed by group and partition; the newest one of a key counts. Opening replays them into a map.
//! What cannot be read is never taken for "no commit": a commit may have been there, so whatever the map does not know for
//! certain is an error then.
//!
//! [`live`] is that map, [`upkeep`] makes commits durable and removes superseded ones, and [`expiry`] forgets those that nobody uses.

mod expiry;
mod live;
mod upkeep;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::config;
use super::inner::Topics;
use super::settings::{Description, TopicConfig};
use super::topic::{Opening, TopicCore};
use super::{description, evidence};
use crate::clock::Clock;
use crate::entry::EntryRef;
use crate::error::{Error, Result};
use crate::format::batch::MAX_BATCH_BYTES;
use crate::format::names;
use crate::format::topic::TopicDescription;
use crate::offset::{Offset, PartitionId};
use crate::partition::Partition;
use crate::partition::home::Home;
use crate::partition::report::{Finding, FindingKind, RecoveryReport};
use crate::partition::settings::Durability;
use crate::record::Record;
use expiry::Expiry;
pub(crate) use expiry::{Readers, Reading};
use live::Live;

/// What findings and errors call it. (No user can open it by this or any name: it is in no catalogue. A topic of the user's that
/// is called so is another one.)
const NAME: &str = "__ledger";
/// Fixed, and the same in every log: no random UUID is as small.
pub(super) const TOPIC: u128 = 1;
/// A segment is rolled by maintenance when it is worth rewriting, long before it is so large.
const SEGMENT_BYTES: u64 = 64 << 20;
/// Losing a commit only repeats work, so a commit does not wait for the disk; it is synced soon after, behind the records that it
/// speaks of: see [`upkeep`].
const LEVEL: Durability = Durability::Process;
/// Bytes of keys that are forgotten with one write.
const TOMBSTONE_BYTES: usize = 256 << 10;

/// A partition as the ledger names it: UUID of the topic, number.
pub(crate) type PartitionKey = evidence::Key;

/// That a group is done with everything below `next`.
#[derive(Clone, Copy)]
pub(crate) struct Commit<'p> {
    pub(crate) partition: &'p Partition,
    pub(crate) next: Offset,
}

impl Commit<'_> {
    fn key(&self) -> PartitionKey {
        self.partition.key()
    }
}

/// What is stored for a new ledger: what the first version stored. What counts is [`settings`], for every ledger.
pub(super) fn description() -> TopicDescription {
    let level = Durability::Interval {
        time: Duration::from_secs(1),
        bytes: 1 << 20,
    };
    description::stored(NAME, TOPIC, &described(level, 1 << 20))
}

fn settings() -> Description {
    let mut described = described(LEVEL, SEGMENT_BYTES);
    described.settings.max_batch_bytes = MAX_BATCH_BYTES; // many partitions times a long name of a group
    described
}

fn described(level: Durability, segment_bytes: u64) -> Description {
    let config = TopicConfig::new()
        .durability(level)
        .segment_bytes(segment_bytes);
    config
        .resolve()
        .expect("the ledger's own settings are in bounds")
}

/// The ledger of an open log.
pub(crate) struct Ledger {
    this: Weak<Ledger>,
    core: TopicCore,
    home: Arc<Home>,
    clock: Arc<dyn Clock>,
    /// Where the records are that commits speak of.
    topics: Topics,
    live: Mutex<Live>,
    /// `None`: what is committed stays.
    expiry: Option<Expiry>,
    /// Bytes that the table of keys may take when it is compacted.
    compaction_memory: usize,
    compacting: Arc<upkeep::Compacting>,
    /// Held by who rewrites, one at a time.
    upkeep: Mutex<upkeep::Done>,
    failures: Mutex<upkeep::Failures>,
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
        topics: &Topics,
        compaction_memory: usize,
        retention: Option<Duration>,
        report: &mut RecoveryReport,
    ) -> Result<Arc<Ledger>> {
        let dir = root.join(names::LEDGER);
        let mut read = config::read(&*home.ground.storage, &dir)?;
        read.description = settings();
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
        Ok(Arc::new_cyclic(|this| Ledger {
            this: Weak::clone(this),
            core,
            home: Arc::clone(home),
            clock: Arc::clone(&home.clock),
            topics: Arc::clone(topics),
            live: Mutex::default(),
            expiry: retention.map(Expiry::new),
            compaction_memory,
            compacting: upkeep::Compacting::of(this),
            upkeep: Mutex::default(),
            failures: Mutex::default(),
        }))
    }

    pub(super) fn partition(&self) -> &Partition {
        self.core
            .partitions
            .get(PartitionId::new(0))
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
        live.opened = self.moment(); // from now on somebody may join
        *self.live.lock() = live;
        Ok(())
    }

    /// Stores these commits of one group, all of them or none; those for topics that are deleted are left out. `under` says whether
    /// they are allowed; what it returns is held while they are stored.
    pub(crate) fn commit<'p, H>(
        &self,
        group: &str,
        commits: impl Iterator<Item = Commit<'p>>,
        under: impl FnOnce() -> Result<H>,
    ) -> Result<()> {
        let time = self.clock.now().as_millis();
        let held = under()?;
        let mut live = self.live.lock();
        let at = self.moment(); // behind the lock: what decides there that a commit is old is not older than this one
        live.store(self.partition(), group, commits, time, at)?;
        let inline = self.ask_for_sync(&mut live);
        drop((live, held));
        if inline {
            // The commit is stored, at its level. What cannot be synced tells whoever writes to it next.
            let _ = self.sync();
        }
        Ok(())
    }

    /// As [`commit`](Self::commit), and it survives a power loss when this returns:
    ///
    /// 1. the records below the offsets that this member has committed, now and `before`, are made durable
    /// 2. the commits are stored
    /// 3. the ledger is synced
    pub(crate) fn commit_durable<H>(
        &self,
        group: &str,
        commits: &[Commit<'_>],
        before: &[Commit<'_>],
        under: impl FnOnce() -> Result<H>,
    ) -> Result<()> {
        if !planted!(COMMIT_DURABLE_BEFORE_DATA) {
            Ledger::make_durable(commits.iter().chain(before))?; // 1
        }
        self.commit(group, commits.iter().copied(), under)?; // 2
        let ledger = self.partition();
        ledger
            .sync() // 3
            .map_err(|e| Error::indeterminate(Some(&ledger.topic_partition()), e))
    }

    /// Every record below these offsets survives a power loss when this returns.
    fn make_durable<'c>(commits: impl Iterator<Item = &'c Commit<'c>>) -> Result<()> {
        let durable =
            |commit: &&Commit<'_>| commit.partition.progress().durable() >= commit.next.get();
        let of = |commit: &Commit<'_>| commit.partition.clone();
        let partitions: Vec<Partition> = commits.filter(|of| !durable(of)).map(of).collect();
        Partition::sync_many(&partitions)
    }

    /// A partition with records, if it is still there.
    fn data(&self, (topic, number): PartitionKey) -> Option<Partition> {
        let topics = self.topics.read();
        let mut cores = topics.values().filter_map(|known| known.core().ok());
        let core = cores.find(|core| core.uuid() == topic)?;
        core.partitions.get(PartitionId::new(number)).cloned()
    }

    /// The next offset of a group in one partition; `None` only if it is certain that there is no commit.
    pub(crate) fn committed(&self, group: &str, key: PartitionKey) -> Result<Option<Offset>> {
        let live = self.live.lock();
        let known = live.committed(group, key);
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
        let mut commits = live.committed_by(group);
        commits.sort_unstable();
        Ok(commits)
    }

    /// The groups that have committed something.
    pub(crate) fn groups(&self) -> Result<Vec<String>> {
        let live = self.live.lock();
        match &live.damage {
            Some(damage) => Err(damage.error()),
            None => Ok(live.groups()),
        }
    }

    /// Forgets what a group has committed. `false`: that was nothing. Durable with the next sync.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit): some of it may be forgotten on the disk then, and all of it is still known; call again.
    pub(crate) fn forget_group(&self, group: &str) -> Result<bool> {
        let mut live = self.live.lock();
        if let Some(damage) = &live.damage {
            return Err(damage.error());
        }
        let keys = live.keys_of_group(group);
        for keys in chunks(&keys) {
            let tombstones = keys.iter().map(|key| Record::tombstone(key.as_slice()));
            self.partition().append_all(tombstones)?;
        }
        live.forget_group(group);
        Ok(!keys.is_empty())
    }

    /// Forgets what groups have committed for these topics, which are no more. It is durable when this returns.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit): some of it may be forgotten then; call again.
    pub(super) fn forget_topics(&self, topics: &[u128]) -> Result<()> {
        for &topic in topics {
            let keys = self.live.lock().keys_of_topic(topic);
            for keys in chunks(&keys) {
                let tombstones = keys.iter().map(|key| Record::tombstone(key.as_slice()));
                let _live = self.live.lock(); // no commit comes in between; nor later, since the topic is deleted
                self.partition().append_all(tombstones)?;
            }
            self.live.lock().forget_topic(topic);
        }
        self.sync()
    }
}

/// As many keys at once as make a batch of a sensible size.
fn chunks(keys: &[Vec<u8>]) -> impl Iterator<Item = &[Vec<u8>]> {
    let mut rest = keys;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let many = rest.iter().take_while(|key| {
            bytes += key.len();
            bytes <= TOMBSTONE_BYTES
        });
        let count = many.count().max(1).min(rest.len());
        let (now, later) = rest.split_at(count);
        rest = later;
        (!now.is_empty()).then_some(now)
    })
}

#[cfg(test)]
mod tests;
