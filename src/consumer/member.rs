//! A member of a group on the embedded log: it reads its partitions in turn, sleeps when there is nothing, and commits.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::Membership;
use super::batch::{Batch, Reset};
use super::builder::ConsumerBuilder;
use super::engine::{ConsumerEngine, Wait};
use super::seats::{Seat, Seats};
use super::source::{Room, Source};
use super::wake::{Parker, WakeHandle};
use crate::error::{Error, Result};
use crate::log::{Commit, Log, Topic};
use crate::offset::{Offset, Position, Positions, StartFrom, TopicPartition};
use crate::partition::Partition;
use crate::partition::progress::Watch;
use crate::segment::chunk::Chunk;

/// One member of a group on the log.
pub(super) struct Member {
    log: Log,
    settings: ConsumerBuilder,
    seat: Option<Seat>,
    sources: Vec<Source>,
    /// Subscribed topics that do not exist yet.
    missing: Vec<String>,
    /// What [`Log::changes`] said when `missing` was last looked for.
    looked_at: Offset,
    /// The last look was an error, and was told.
    told: bool,
    /// The partition that the next poll begins with, so that none starves.
    turn: usize,
    /// Skipped positions that no batch has told yet.
    resets: Vec<Reset>,
    parker: Arc<Parker>,
}

impl Member {
    pub(super) fn join(settings: ConsumerBuilder) -> Result<Member> {
        let log = settings.group.log().clone();
        log.check_open()?;
        let group = settings.group.name();
        super::group::check_name(group)?;
        for topic in &settings.topics {
            crate::log::check_topic_name(topic)?;
        }
        let client = settings.client_id.as_deref().unwrap_or(group);
        log.prepare_commits()?;
        let seat = log.shared::<Seats>().join(group, client)?;
        let mut member = Member {
            missing: settings.topics.clone(),
            log,
            settings,
            seat: Some(seat),
            sources: Vec::new(),
            looked_at: Offset::ZERO,
            told: false,
            turn: 0,
            resets: Vec::new(),
            parker: Arc::default(),
        };
        member.find_topics(member.settings.start_from)?;
        Ok(member)
    }

    /// Takes in the partitions of subscribed topics that exist by now.
    fn find_topics(&mut self, start: StartFrom) -> Result<()> {
        // Before the look: what changes during it is looked at again.
        let changes = self.log.changes().end();
        let (mut still_missing, mut result) = (Vec::new(), Ok(()));
        for name in std::mem::take(&mut self.missing) {
            let taken = self.log.topic(&name);
            match taken.and_then(|topic| self.take_in(&topic, start)) {
                Ok(()) => {}
                Err(Error::NotFound { .. }) => still_missing.push(name),
                // It stays missing, and is met again.
                Err(e) => {
                    still_missing.push(name);
                    result = result.and(Err(e));
                }
            }
        }
        self.missing = still_missing;
        if result.is_ok() {
            self.looked_at = changes;
        }
        result
    }

    fn take_in(&mut self, topic: &Topic, start: StartFrom) -> Result<()> {
        let group = self.settings.group.name();
        let mut sources = Vec::new();
        for partition in topic.partitions() {
            let key = (topic.uuid(), partition.id().get());
            let next = match self.log.ledger().committed(group, key)? {
                Some(next) => Some(next),
                None => self.start(&partition, start)?,
            };
            sources.push(Source::new(partition, topic.uuid(), next));
        }
        self.sources.extend(sources);
        self.sources.sort_by(|a, b| a.at().cmp(b.at()));
        Ok(())
    }

    /// Where to begin without a committed offset; `None` if that must be told.
    fn start(&self, partition: &Partition, start: StartFrom) -> Result<Option<Offset>> {
        let offsets = partition.offsets();
        let at_time = |time| {
            Ok(Some(
                partition.offset_for_time(time)?.unwrap_or(offsets.end),
            ))
        };
        match start {
            StartFrom::Earliest => Ok(Some(offsets.start)),
            StartFrom::Latest => Ok(Some(offsets.end)),
            StartFrom::Time(time) => at_time(time),
            StartFrom::Ago(ago) => at_time(self.log.clock().now().minus(ago)),
            StartFrom::Fail => Ok(None),
        }
    }

    /// What is there now, without waiting.
    fn fetch(&mut self) -> Result<Batch> {
        let mut chunks = Vec::new();
        let mut room = Room {
            records: self.settings.max_poll_records,
            bytes: self.settings.max_poll_bytes,
            untouched: true,
        };
        let first = self.turn;
        self.turn = if self.sources.is_empty() {
            0
        } else {
            (first + 1) % self.sources.len()
        };
        loop {
            let before = chunks.len();
            self.round(first, &mut room, &mut chunks)?;
            if chunks.len() == before || room.is_full() {
                break;
            }
        }
        let resets = if chunks.is_empty() {
            Vec::new()
        } else {
            std::mem::take(&mut self.resets)
        };
        Ok(Batch::new(chunks, resets))
    }

    /// Reads once from each partition. An error takes a poll of its own: it is told if nothing was read yet; else that
    /// partition comes first in the next poll, which meets the error again.
    fn round(&mut self, first: usize, room: &mut Room, chunks: &mut Vec<Chunk>) -> Result<()> {
        let (group, then) = (self.settings.group.name(), self.settings.on_out_of_range);
        for i in 0..self.sources.len() {
            if room.is_full() {
                return Ok(());
            }
            let turn = (first + i) % self.sources.len();
            let source = &mut self.sources[turn];
            match source.read(group, *room, then, &mut self.resets) {
                Ok(Some(chunk)) => {
                    room.take(&chunk);
                    chunks.push(chunk);
                }
                Ok(None) => {}
                Err(error) if chunks.is_empty() => {
                    if error.partition().is_some() {
                        source.halt(&error);
                    }
                    return Err(error);
                }
                Err(_) => {
                    self.turn = turn;
                    *room = Room {
                        records: 0,
                        bytes: 0,
                        untouched: false,
                    };
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Waits until there is something, or the time is over: then the batch is empty.
    fn wait(&mut self, wait: Wait) -> Result<Batch> {
        let clock = Arc::clone(self.log.clock());
        let deadline = match wait {
            Wait::AtMost(limit) => Some(clock.elapsed().saturating_add(limit)),
            Wait::ForEver => None,
        };
        loop {
            // The order matters: armed, registered, looked, and only then asleep. What happens in between rings.
            self.parker.arm();
            let watches = self.watch();
            let watched = self.sources.len();
            let batch = self.look()?;
            if !batch.is_empty() {
                return Ok(batch);
            }
            if self.sources.len() > watched {
                continue; // a topic appeared: its partitions ring too
            }
            let limit = deadline.map(|deadline| deadline.saturating_sub(clock.elapsed()));
            if limit == Some(Duration::ZERO) {
                return Ok(batch);
            }
            self.parker.park(limit);
            drop(watches);
        }
    }

    fn watch(&self) -> Vec<Watch> {
        let waker = Waker::from(Arc::clone(&self.parker));
        let progress = self
            .sources
            .iter()
            .filter(|source| !source.is_halted())
            .map(Source::progress);
        progress
            .chain([self.log.changes()])
            .map(|progress| progress.watch(&waker))
            .collect()
    }

    /// One look at everything, the user's `wake` first: with it no position moves.
    fn look(&mut self) -> Result<Batch> {
        if self.parker.take_woken() {
            return Err(Error::Woken);
        }
        self.log.check_open()?;
        let changed = !self.missing.is_empty() && self.log.changes().end() != self.looked_at;
        // An error takes a poll of its own, and every other poll reads what can be read all the same.
        if std::mem::take(&mut self.told) || !changed {
            return self.fetch();
        }
        // What appeared after the join is read from its first record.
        let found = self.find_topics(StartFrom::Earliest);
        self.told = found.is_err();
        found?;
        self.fetch()
    }

    fn source(&self, at: &TopicPartition) -> Result<&Source> {
        let found = self.sources.binary_search_by(|source| source.at().cmp(at));
        found
            .map(|i| &self.sources[i])
            .map_err(|_| Error::NotAssigned {
                at: Box::new(at.clone()),
            })
    }

    fn source_mut(&mut self, at: &TopicPartition) -> Result<&mut Source> {
        let found = self.sources.binary_search_by(|source| source.at().cmp(at));
        found
            .map(|i| &mut self.sources[i])
            .map_err(|_| Error::NotAssigned {
                at: Box::new(at.clone()),
            })
    }

    fn store(&self, commits: &[Commit]) -> Result<()> {
        self.log
            .ledger()
            .commit(self.settings.group.name(), commits)
    }

    /// Where each partition is read on, of those that moved since the last commit, or did not.
    fn commits(&self, moved: bool) -> Vec<Commit> {
        let sources = self.sources.iter().filter(|source| source.moved == moved);
        let commit = |source: &Source| {
            Some(Commit {
                key: source.key(),
                next: source.position()?,
            })
        };
        sources.filter_map(commit).collect()
    }

    fn all_stored(&mut self) {
        for source in &mut self.sources {
            source.moved = false;
        }
    }
}

impl ConsumerEngine for Member {
    fn poll(&mut self, wait: Wait) -> Result<Batch> {
        let batch = self.look()?;
        // On a clock that a test moves nobody waits: the thread that would is the one that moves it.
        if !batch.is_empty() || wait == Wait::AtMost(Duration::ZERO) || !self.log.clock().waits() {
            return Ok(batch);
        }
        self.wait(wait)
    }

    fn commit(&mut self) -> Result<()> {
        self.log.check_open()?;
        self.store(&self.commits(true))?;
        self.all_stored();
        Ok(())
    }

    fn commit_durable(&mut self) -> Result<()> {
        self.log.check_open()?;
        let (moved, others) = (self.commits(true), self.commits(false));
        let group = self.settings.group.name();
        self.log.ledger().commit_durable(group, &moved, &others)?;
        self.all_stored();
        Ok(())
    }

    fn commit_at(&mut self, next: &Positions) -> Result<()> {
        self.log.check_open()?;
        let mut commits = Vec::new();
        for position in next.iter() {
            let source = self.source(position.topic_partition())?;
            source.check_commit(position.offset())?;
            commits.push(Commit {
                key: source.key(),
                next: position.offset(),
            });
        }
        self.store(&commits)?;
        for position in next.iter() {
            let source = self.source_mut(position.topic_partition())?;
            source.moved = source.position() != Some(position.offset());
        }
        Ok(())
    }

    fn committed(&self, at: &TopicPartition) -> Result<Option<Offset>> {
        self.settings.group.committed_at(at)
    }

    fn seek(&mut self, to: &Position) -> Result<()> {
        self.source_mut(to.topic_partition())?.seek(to.offset())
    }

    fn resume(&mut self, partitions: &[TopicPartition]) -> Result<()> {
        // All of them or none.
        for at in partitions {
            self.source(at)?;
        }
        for at in partitions {
            self.source_mut(at)?.resume();
        }
        Ok(())
    }

    fn position(&self, at: &TopicPartition) -> Option<Offset> {
        self.source(at).ok()?.position()
    }

    fn positions(&self) -> Positions {
        let known = |source: &Source| Some(source.at().at(source.position()?));
        self.sources.iter().filter_map(known).collect()
    }

    fn assignment(&self) -> Vec<TopicPartition> {
        self.sources
            .iter()
            .map(|source| source.at().clone())
            .collect()
    }

    fn subscription(&self) -> Vec<String> {
        self.settings.topics.clone()
    }

    fn halted(&self) -> Vec<TopicPartition> {
        let halted = self.sources.iter().filter(|source| source.is_halted());
        halted.map(|source| source.at().clone()).collect()
    }

    fn lag(&self, at: &TopicPartition) -> Option<u64> {
        self.source(at).ok()?.lag()
    }

    fn membership(&self) -> Membership {
        let seat = self
            .seat
            .as_ref()
            .expect("the seat is given up only when the consumer is gone");
        seat.membership().clone()
    }

    fn wake_handle(&self) -> WakeHandle {
        WakeHandle {
            parker: Arc::clone(&self.parker),
        }
    }

    fn close(&mut self) -> Result<()> {
        self.log.check_open()?;
        self.seat = None;
        Ok(())
    }
}
