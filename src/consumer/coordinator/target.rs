//! Who should read what: the question to the assignor, asked under no lock, and its answer.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::Group;
use super::state::{Owned, State, TopicInfo};
use crate::consumer::assignor::{Assignor, Member, TopicSize, validate};
use crate::error::{Error, Result};
use crate::log::PartitionKey;
use crate::offset::{PartitionId, TopicPartition};
use crate::sync::thread;

/// What an assignor needs to know, as it was at one moment.
struct Question {
    epoch: u64,
    assignor: Arc<dyn Assignor>,
    name: Arc<str>,
    members: Vec<Candidate>,
    topics: Vec<(Arc<str>, TopicInfo)>,
}

/// One member of a question.
struct Candidate {
    id: Arc<str>,
    instance: Option<Arc<str>>,
    topics: Arc<[String]>,
    /// What it reads, and what it should and nobody does.
    owned: Vec<TopicPartition>,
    generation: u64,
}

impl Group {
    /// Makes the target, if something has changed since the last. `false`: it is put off.
    ///
    /// # Errors
    ///
    /// `InvalidSetting` if the assignor's answer cannot be; `Reentrant` if it is the assignor that asks.
    pub(super) fn settle(&self, now: Duration) -> Result<bool> {
        loop {
            let mut state = self.state.lock();
            if state.epoch == state.settled {
                return Ok(true);
            }
            if state.not_before.is_some_and(|(at, _)| now < at) {
                return Ok(false);
            }
            let Some(question) = state.question() else {
                return Ok(true); // nobody is left
            };
            let asking = Asking::begin(self, &mut state)?;
            let held = planted!(CALLBACK_UNDER_LOCK).then_some(state);
            let answer = question.answer();
            drop((held, asking));
            let answer = answer?;
            let installed = self.change(|state| {
                let is_new = state.epoch == question.epoch && state.settled != question.epoch;
                if is_new {
                    state.install(&question, answer);
                }
                state.epoch == state.settled
            });
            if installed {
                return Ok(true);
            } // else it is an answer to what is no more
        }
    }
}

/// As long as it lives, this thread asks the assignor, which must not have it asked again.
struct Asking<'g> {
    group: &'g Group,
}

impl<'g> Asking<'g> {
    fn begin(group: &'g Group, state: &mut State) -> Result<Asking<'g>> {
        let this = thread::current().id();
        if state.asking.contains(&this) {
            return Err(Error::Reentrant { call: "assign" });
        }
        state.asking.push(this);
        Ok(Asking { group })
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let this = thread::current().id();
        self.group.state.lock().asking.retain(|of| *of != this);
    }
}

impl Question {
    fn answer(&self) -> Result<Vec<Vec<TopicPartition>>> {
        let topics: Vec<Vec<&str>> = self
            .members
            .iter()
            .map(|member| member.topics.iter().map(String::as_str).collect())
            .collect();
        let mut members = Vec::with_capacity(self.members.len());
        for (member, topics) in self.members.iter().zip(&topics) {
            let mut seen = Member::new(&member.id, topics).owned(&member.owned, member.generation);
            if let Some(instance) = &member.instance {
                seen = seen.instance_id(instance);
            }
            members.push(seen);
        }
        let sizes: Vec<TopicSize<'_>> = self
            .topics
            .iter()
            .map(|(name, info)| TopicSize::new(name, info.partitions))
            .collect();
        let answer = self.assignor.assign(&members, &sizes);
        validate(&members, &sizes, &answer).map_err(|fault| {
            let name = &self.name;
            Error::invalid("assignor", format!("{name:?} gave what cannot be: {fault}"))
        })?;
        Ok(answer)
    }
}

impl State {
    fn question(&self) -> Option<Question> {
        let protocol = self
            .protocol
            .as_ref()
            .filter(|_| !self.members.is_empty())?;
        let names: HashMap<u128, &Arc<str>> = self
            .topics
            .iter()
            .map(|(name, info)| (info.uuid, name))
            .collect();
        // Who reads a partition holds it, or else who should: what moves is then as little as can be.
        let mut held: HashMap<&str, Vec<TopicPartition>> = HashMap::new();
        let free = |key: &PartitionKey| !self.owners.contains_key(key);
        let should = self.targets.iter().filter(|(key, _)| free(key));
        let owners = self.owners.iter().map(|(key, owner)| (key, &owner.member));
        for ((uuid, number), id) in owners.chain(should) {
            if let Some(&name) = names.get(uuid) {
                let at = TopicPartition::shared(Arc::clone(name), PartitionId::new(*number));
                held.entry(id).or_default().push(at);
            }
        }
        let candidate = |(id, seat): (&Arc<str>, &super::Seat)| {
            let mut owned = held.remove(&**id).unwrap_or_default();
            owned.sort(); // maps have no order, and an assignor must see the same in every run
            Candidate {
                id: Arc::clone(id),
                instance: seat.instance.clone(),
                topics: Arc::clone(&seat.topics),
                owned,
                generation: seat.generation,
            }
        };
        Some(Question {
            epoch: self.epoch,
            assignor: Arc::clone(&protocol.assignor),
            name: Arc::clone(&protocol.name),
            members: self.members.iter().map(candidate).collect(),
            topics: self
                .topics
                .iter()
                .map(|(name, info)| (Arc::clone(name), *info))
                .collect(),
        })
    }

    fn install(&mut self, question: &Question, answer: Vec<Vec<TopicPartition>>) {
        let infos: BTreeMap<&str, TopicInfo> = question
            .topics
            .iter()
            .map(|(name, info)| (&**name, *info))
            .collect();
        self.generation += 1;
        self.settled = question.epoch;
        self.not_before = None;
        self.targets.clear();
        for (member, assigned) in question.members.iter().zip(answer) {
            let owned = assigned.into_iter().filter_map(|at| {
                let key = (infos.get(at.topic())?.uuid, at.partition().get());
                Some(Owned { at, key })
            });
            let target: Vec<Owned> = owned.collect();
            for of in &target {
                self.targets.insert(of.key, Arc::clone(&member.id));
            }
            if let Some(seat) = self.members.get_mut(&member.id) {
                seat.target = target;
            }
        }
        self.tell_all();
    }
}
