//! A member of a group on the embedded log: it reads its partitions in turn, sleeps when there is nothing, and commits.

use std::collections::HashSet;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::Membership;
use super::batch::{Batch, Reset};
use super::builder::ConsumerBuilder;
use super::coordinator::{Coordinator, Look, Owned, Place};
use super::engine::{ConsumerEngine, Wait};
use super::source::{Room, Source};
use super::starts;
use super::wake::{Parker, WakeHandle};
use crate::error::{Error, Result};
use crate::log::{Commit, Log, PartitionKey};
use crate::offset::{Offset, Position, Positions, TopicPartition};
use crate::partition::progress::Watch;
use crate::segment::chunk::Chunk;
use crate::segment::spare::Spares;

/// One member of a group on the log.
pub(super) struct Member {
    log: Log,
    settings: ConsumerBuilder,
    place: Place,
    /// As of the last reconciliation.
    membership: Membership,
    /// What it reads, sorted.
    sources: Vec<Source>,
    /// What [`Log::changes`] said when the topics were last looked at.
    looked_at: Offset,
    /// The version of the group's state that it has reconciled to; `None`: to none yet.
    seen: Option<u64>,
    /// The last look at the group was an error, and was told.
    told: bool,
    /// The partition that the next poll begins with, so that none starves.
    turn: usize,
    /// Skipped positions that no batch has told yet.
    resets: Vec<Reset>,
    parker: Arc<Parker>,
    spares: Arc<Spares>,
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
        let coordinator = log.shared::<Coordinator>();
        let parker = Arc::default();
        let (place, looked_at) = loop {
            let look = starts::look(&log, &settings)?;
            let at = look.at;
            if let Some(place) = coordinator.join(group, client, &settings.topics, look, &parker) {
                break (place, at);
            }
        };
        Ok(Member {
            membership: place.target().membership,
            log,
            settings,
            place,
            sources: Vec::new(),
            looked_at,
            seen: None,
            told: false,
            turn: 0,
            resets: Vec::new(),
            parker,
            spares: Arc::default(),
        })
    }

    /// Brings what it reads in line with what it should read. Two comparisons if nothing has changed.
    fn reconcile(&mut self) -> Result<()> {
        let changes = self.log.changes().end(); // before the look: what changes during it is looked at again
        let mut looked = Ok(());
        if changes != self.looked_at {
            looked = self.look_at_topics(changes);
            if looked.is_ok() {
                self.looked_at = changes;
            }
        }
        if self.seen != Some(self.place.version()) {
            looked = looked.and(self.move_partitions());
        }
        looked
    }

    /// Topics may have come or gone: tells the group. One that cannot be looked at is left as it was known.
    fn look_at_topics(&self, at: Offset) -> Result<()> {
        let mut result = Ok(());
        let mut topics = Vec::new();
        for name in &self.settings.topics {
            match starts::look_later(&self.log, name) {
                Ok(looked) => topics.push(looked),
                Err(e) => result = result.and(Err(e)),
            }
        }
        self.place.changed(Look { at, topics });
        result
    }

    /// Gives up what it should not read, then takes what it should and nobody does.
    fn move_partitions(&mut self) -> Result<()> {
        let target = self.place.target();
        let wanted: HashSet<PartitionKey> = target.owned.iter().map(|of| of.key).collect();
        let going = |source: &mut Source| !wanted.contains(&source.partition().key());
        let gone = self.sources.extract_if(.., going);
        let gone: Vec<PartitionKey> = gone.map(|source| source.partition().key()).collect();
        self.place.release(&gone);
        self.membership = target.membership;
        let mut result = Ok(());
        let mut failed = Vec::new();
        for (of, start) in self.place.take() {
            match self.open(&of, start) {
                Ok(source) => self.sources.push(source),
                // Deleted meanwhile: the next look at the topics tells the group.
                Err(Error::NotFound { .. }) => failed.push(of.key),
                Err(e) => {
                    failed.push(of.key);
                    result = result.and(Err(e));
                }
            }
        }
        self.place.release(&failed);
        self.sources.sort_by(|a, b| a.at().cmp(b.at()));
        if result.is_ok() {
            self.seen = Some(target.version);
        }
        result
    }

    /// Where the group goes on in a partition that this member has taken.
    fn open(&self, of: &Owned, start: Option<Offset>) -> Result<Source> {
        let topic = self.log.topic(of.at.topic())?;
        let partition = topic.partition(of.at.partition())?;
        if partition.key() != of.key {
            return Err(Error::not_found("topic", of.at.topic())); // another one of its name, which the next look finds
        }
        let group = self.settings.group.name();
        let committed = self.log.ledger().committed(group, of.key)?;
        Ok(Source::new(partition, committed.or(start), &self.spares))
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
                Err(_) if source.partition().is_gone() => {} // the next look at the topics lets go of it
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
            let moves = clock.watch(&self.waker());
            let seen = self.seen;
            let batch = self.look()?;
            if !batch.is_empty() {
                return Ok(batch);
            }
            if self.seen != seen {
                continue; // partitions came or went: those that it reads now ring
            }
            let limit = deadline.map(|deadline| deadline.saturating_sub(clock.elapsed()));
            if limit == Some(Duration::ZERO) {
                return Ok(batch);
            }
            // On a clock that a test moves, its moves ring, and no real time counts.
            self.parker.park(if moves.is_some() { None } else { limit });
            drop((watches, moves));
        }
    }

    fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.parker))
    }

    fn watch(&self) -> Vec<Watch> {
        let waker = self.waker();
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
        // An error takes a poll of its own, and every other poll reads what can be read all the same.
        if !std::mem::take(&mut self.told) {
            let reconciled = self.reconcile();
            self.told = reconciled.is_err();
            reconciled?;
        }
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

    fn store<'s>(&'s self, commits: impl Iterator<Item = Commit<'s>>) -> Result<()> {
        self.log
            .ledger()
            .commit(self.settings.group.name(), commits)
    }

    /// Where each partition is read on, of those that moved since the last commit, or did not.
    fn commits(&self, moved: bool) -> impl Iterator<Item = Commit<'_>> {
        let sources = self.sources.iter();
        let sources = sources.filter(move |source| source.moved == moved);
        sources.filter_map(|source| {
            Some(Commit {
                partition: source.partition(),
                next: source.position()?,
            })
        })
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
        self.store(self.commits(true))?;
        self.all_stored();
        Ok(())
    }

    fn commit_durable(&mut self) -> Result<()> {
        self.log.check_open()?;
        let moved: Vec<_> = self.commits(true).collect();
        let others: Vec<_> = self.commits(false).collect();
        let group = self.settings.group.name();
        self.log.ledger().commit_durable(group, &moved, &others)?;
        self.all_stored();
        Ok(())
    }

    fn commit_at(&mut self, next: &Positions) -> Result<()> {
        self.log.check_open()?;
        // All of them or none.
        for position in next.iter() {
            let source = self.source(position.topic_partition())?;
            source.check_commit(position.offset())?;
        }
        let commit = |position: &Position| {
            Some(Commit {
                partition: self.source(position.topic_partition()).ok()?.partition(),
                next: position.offset(),
            })
        };
        self.store(next.iter().filter_map(commit))?;
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
        self.log.check_open()?;
        self.source_mut(to.topic_partition())?.seek(to.offset())
    }

    fn resume(&mut self, partitions: &[TopicPartition]) -> Result<()> {
        self.log.check_open()?;
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
        self.membership.clone()
    }

    fn wake_handle(&self) -> WakeHandle {
        WakeHandle {
            parker: Arc::clone(&self.parker),
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.log.check_open() // dropped, it leaves
    }
}
