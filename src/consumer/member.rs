//! A member of a group on the embedded log: it reads its partitions in turn, sleeps when there is nothing, and commits.

mod commits;
mod reconcile;
mod seeks;
mod wait;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::Membership;
use super::batch::{Batch, Reset};
use super::builder::{ConsumerBuilder, Wanted};
use super::coordinator::{Coordinator, Joining, Place, Waiting};
use super::engine::{Caller, ConsumerEngine, Going, Spot, Wait};
use super::source::{Reading, Room, Source};
use super::starts::{self, Before, Begun};
use super::wake::{Parker, WakeHandle};
use crate::clock::Timestamp;
use crate::error::{Error, FencedBy, Result};
use crate::log::Log;
use crate::offset::{Offset, Position, Positions, TopicPartition};
use crate::partition::progress::Watch;
use crate::segment::chunk::Chunk;
use crate::segment::spare::Spares;
use commits::Automatic;

/// One member of a group on the log, or one that reads what it was given by hand.
pub(super) struct Member {
    log: Log,
    coordinator: Arc<Coordinator>,
    settings: ConsumerBuilder,
    role: Role,
    /// As of the last reconciliation.
    membership: Membership,
    /// The topics that it reads, sorted, each once.
    topics: Vec<String>,
    /// What it reads, sorted.
    sources: Vec<Source>,
    /// Where it began in partitions without a commit, should it have to join again.
    begun: Begun,
    /// What [`Log::changes`] said when the topics were last looked at.
    looked_at: Offset,
    /// The version of the group's state that it has reconciled to; `None`: to none yet.
    seen: Option<u64>,
    /// The version at which the group put off its target.
    put_off: Option<u64>,
    /// The last look at the group was an error, and was told.
    told: bool,
    /// Looks at partitions so far, and the last that returned records.
    polls: u64,
    last_batch: u64,
    /// The partition that the next poll begins with, so that none starves.
    turn: usize,
    /// Skipped positions that no batch has told yet.
    resets: Vec<Reset>,
    automatic: Option<Automatic>,
    /// While a task sleeps.
    watches: Vec<Watch>,
    asleep: Option<Waiting>,
    parker: Arc<Parker>,
    spares: Arc<Spares>,
}

/// What it is to its group.
enum Role {
    Member(Place),
    /// It reads what it was given, and the group knows nothing of it.
    ByHand,
    /// It left, and may join again.
    Out,
}

impl Member {
    pub(super) fn join(settings: ConsumerBuilder) -> Result<Member> {
        let log = settings.group.log().clone();
        log.check_open()?;
        super::group::check_name(settings.group.name())?;
        log.prepare_commits()?;
        let parker = Arc::default();
        let entered = if let Wanted::ByHand(_) = &settings.wanted {
            None
        } else {
            Some(enter(&log, &settings, &settings.wanted, None, &parker)?)
        };
        let clock = log.clock();
        let automatic = settings.auto_commit;
        let automatic = automatic.map(|every| Automatic::new(every, clock.elapsed()));
        let mut member = Member {
            coordinator: log.shared(),
            membership: Membership::none(&settings.group),
            log,
            settings,
            role: Role::ByHand,
            topics: Vec::new(),
            sources: Vec::new(),
            begun: Begun::new(),
            looked_at: Offset::ZERO,
            seen: None,
            put_off: None,
            told: false,
            polls: 0,
            last_batch: 0,
            turn: 0,
            resets: Vec::new(),
            automatic,
            watches: Vec::new(),
            asleep: None,
            parker,
            spares: Arc::default(),
        };
        match entered {
            Some(entered) => member.become_member(entered),
            None => member.take_by_hand()?,
        }
        Ok(member)
    }

    fn become_member(&mut self, entered: Entered) {
        self.membership = entered.place.membership(0);
        self.role = Role::Member(entered.place);
        self.topics = entered.topics;
        self.begun = entered.begun;
        (self.looked_at, self.seen, self.put_off) = (entered.looked_at, None, None);
    }

    fn group(&self) -> &str {
        self.settings.group.name()
    }

    fn now(&self) -> Duration {
        self.log.clock().elapsed()
    }

    fn fenced(&self, why: FencedBy) -> Error {
        let who = match &self.role {
            Role::ByHand => self.group(), // it has no name of its own
            Role::Member(_) | Role::Out => self.membership.member(),
        };
        Error::Fenced {
            who: who.into(),
            why,
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
        let after = |turn| if turn < self.sources.len() { turn } else { 0 };
        let first = after(self.turn);
        self.turn = after(first + 1);
        loop {
            let before = chunks.len();
            self.round(first, &mut room, &mut chunks)?;
            if chunks.len() == before || room.is_full() {
                break;
            }
        }
        Ok(Batch::new(chunks, std::mem::take(&mut self.resets)))
    }

    /// Reads once from each partition. An error takes a poll of its own: it is told if nothing was read yet; else that
    /// partition comes first in the next poll, which meets the error again.
    fn round(&mut self, first: usize, room: &mut Room, chunks: &mut Vec<Chunk>) -> Result<()> {
        let reading = Reading {
            group: self.settings.group.name(),
            then: self.settings.on_out_of_range,
            poll: self.polls,
        };
        for turn in (first..self.sources.len()).chain(0..first) {
            let source = &mut self.sources[turn];
            if source.is_idle() {
                continue;
            }
            if room.is_full() {
                return Ok(());
            }
            match source.read(reading, *room, &mut self.resets) {
                Ok(Some(chunk)) => {
                    room.take(&chunk);
                    chunks.push(chunk);
                }
                Ok(None) => {}
                Err(_) if source.partition().is_gone() => {} // the next look at the topics lets go of it
                Err(error) if chunks.is_empty() => {
                    if error.partition().is_some() {
                        source.halt(&error);
                        self.tell_halted(turn);
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

    /// The group knows which partitions rest, so that `describe` can say so.
    fn tell_halted(&self, source: usize) {
        if let (Role::Member(place), Some(source)) = (&self.role, self.sources.get(source)) {
            place.halted(source.partition().key(), source.is_halted());
        }
    }

    /// One look at everything, the user's `wake` first: with it no position moves.
    fn look(&mut self, caller: &mut Caller<'_>) -> Result<Batch> {
        if self.parker.take_woken() {
            return Err(Error::Woken);
        }
        self.log.check_open()?;
        // An error takes a poll of its own, and every other poll reads what can be read all the same.
        if std::mem::take(&mut self.told) {
            self.beat(caller)?;
        } else {
            let reconciled = self.reconcile(caller);
            self.told = reconciled.is_err();
            reconciled?;
        }
        self.polls += 1;
        let fetched = self.fetch();
        if fetched.as_ref().is_ok_and(|batch| !batch.is_empty()) {
            self.last_batch = self.polls;
        }
        fetched
    }

    fn index(&self, at: &TopicPartition) -> Result<usize> {
        let found = self.sources.binary_search_by(|source| source.at().cmp(at));
        found.map_err(|_| Error::NotAssigned {
            at: Box::new(at.clone()),
        })
    }

    fn source(&self, at: &TopicPartition) -> Result<&Source> {
        self.index(at).map(|i| &self.sources[i])
    }

    fn source_mut(&mut self, at: &TopicPartition) -> Result<&mut Source> {
        self.index(at).map(|i| &mut self.sources[i])
    }

    /// All of them or none.
    fn indexes(&self, partitions: &[TopicPartition]) -> Result<Vec<usize>> {
        partitions.iter().map(|at| self.index(at)).collect()
    }

    fn those(&self, which: impl Fn(&Source) -> bool) -> Vec<TopicPartition> {
        let those = self.sources.iter().filter(|source| which(source));
        those.map(|source| source.at().clone()).collect()
    }
}

/// A new place in the group.
struct Entered {
    place: Place,
    topics: Vec<String>,
    begun: Begun,
    looked_at: Offset,
}

/// Joins the group for the topics that are `wanted`. `before`: the member that it was until it was shut out.
fn enter(
    log: &Log,
    settings: &ConsumerBuilder,
    wanted: &Wanted,
    before: Option<(&str, Before<'_>)>,
    parker: &Arc<Parker>,
) -> Result<Entered> {
    let coordinator = log.shared::<Coordinator>();
    coordinator.be_known_to(log.ledger());
    let group = settings.group.name();
    let (instead_of, before) = before.unzip();
    loop {
        let (look, topics) = starts::look(log, settings, wanted, before)?;
        let looked_at = look.at;
        let begun = look.starts().collect();
        let joining = Joining {
            group,
            client: settings.client_id.as_deref().unwrap_or(group),
            instance: settings.instance_id.as_deref(),
            instead_of,
            topics: &topics,
            protocol: &settings.protocol(),
            limits: settings.limits(log),
            parker,
        };
        if let Some(place) = coordinator.join(&joining, look, log.clock().elapsed())? {
            return Ok(Entered {
                place,
                topics,
                begun,
                looked_at,
            });
        }
    }
}

impl ConsumerEngine for Member {
    fn poll(&mut self, wait: Wait, caller: &mut Caller<'_>) -> Result<Batch> {
        let looked = self.look(caller);
        let nothing = looked.as_ref().is_ok_and(Batch::is_empty);
        // On a clock that a test moves nobody waits: the thread that would is the one that moves it.
        if nothing && wait != Wait::AtMost(Duration::ZERO) && self.log.clock().waits() {
            return self.wait(wait, caller);
        }
        looked
    }

    fn poll_ready(&mut self, task: &mut Context<'_>) -> Poll<()> {
        self.sleep_as(task)
    }

    fn rest(&mut self) {
        self.wake_up();
    }

    fn commit(&mut self) -> Result<()> {
        self.commit_moved(|_| true)
    }

    fn commit_of(&mut self, partitions: &[TopicPartition]) -> Result<()> {
        self.indexes(partitions)?;
        self.commit_moved(|source| partitions.binary_search(source.at()).is_ok())
    }

    fn commit_durable(&mut self) -> Result<()> {
        self.commit_moved_durably()
    }

    fn commit_at(&mut self, next: &Positions) -> Result<()> {
        self.commit_these(next)
    }

    fn committed(&self, at: &TopicPartition) -> Result<Option<Offset>> {
        self.settings.group.committed_at(at)
    }

    fn seek(&mut self, to: &Position) -> Result<()> {
        self.seek_there(to)
    }

    fn seek_to(&mut self, spot: Spot, partitions: &[TopicPartition]) -> Result<()> {
        self.seek_each(spot, partitions)
    }

    fn seek_to_committed(&mut self) -> Result<()> {
        self.seek_back()
    }

    fn offsets_for_time(&self, time: Timestamp) -> Result<Positions> {
        self.log.check_open()?;
        let mut found = Positions::new();
        for source in &self.sources {
            found.set(source.at().at(source.spot(Spot::Time(time))?));
        }
        Ok(found)
    }

    fn pause(&mut self, partitions: &[TopicPartition]) -> Result<()> {
        self.log.check_open()?;
        for i in self.indexes(partitions)? {
            self.sources[i].paused = true;
        }
        Ok(())
    }

    fn resume(&mut self, partitions: &[TopicPartition]) -> Result<()> {
        self.log.check_open()?;
        for i in self.indexes(partitions)? {
            self.sources[i].resume();
            self.tell_halted(i);
        }
        Ok(())
    }

    fn paused(&self) -> Vec<TopicPartition> {
        self.those(|source| source.paused)
    }

    fn position(&self, at: &TopicPartition) -> Option<Offset> {
        self.source(at).ok()?.position()
    }

    fn positions(&self) -> Positions {
        let known = |source: &Source| Some(source.at().at(source.position()?));
        self.sources.iter().filter_map(known).collect()
    }

    fn assignment(&self) -> Vec<TopicPartition> {
        self.those(|_| true)
    }

    fn subscription(&self) -> Vec<String> {
        self.topics.clone()
    }

    fn subscribe(&mut self, topics: Vec<String>) -> Result<()> {
        self.subscribe_anew(topics)
    }

    fn unsubscribe(&mut self, caller: &mut Caller<'_>) -> Result<()> {
        self.go(Going::KeepingPlace, caller)
    }

    fn halted(&self) -> Vec<TopicPartition> {
        self.those(Source::is_halted)
    }

    fn lag(&self, at: &TopicPartition) -> Option<u64> {
        self.source(at).ok()?.lag()
    }

    fn membership(&self) -> Membership {
        self.membership.clone()
    }

    fn rebalance(&mut self) -> Result<()> {
        self.log.check_open()?;
        if let Role::Member(place) = &self.role {
            place.rebalance();
        }
        Ok(())
    }

    fn wake_handle(&self) -> WakeHandle {
        WakeHandle {
            parker: Arc::clone(&self.parker),
        }
    }

    fn close(mut self: Box<Self>, going: Going, caller: &mut Caller<'_>) -> Result<()> {
        let open = self.log.check_open();
        open.and(self.go(going, caller))
    }
}

/// Dropped, it leaves at once, and nobody is told; a static member keeps its place.
impl Drop for Member {
    fn drop(&mut self) {
        if let Role::Member(place) = &self.role {
            place.step_out(self.now());
        }
    }
}
