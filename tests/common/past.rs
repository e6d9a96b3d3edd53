//! Topics that were made, the deleted ones included, and the judgement whether a crash may leave them, or must.
//!
//! Of several topics that had one name the directories tell which is there: each ends with a part of its topic's UUID.

use std::collections::BTreeMap;

use thalweg::Error;
use thalweg::testing::{CrashModel, Disk};
use thalweg::{Durability, Result, TopicConfig};

use super::{Key, Opened, World};
use crate::tally::{Commits, End, Tally};

/// When a topic was made, and when it went.
#[derive(Clone, Debug, Default)]
pub(crate) struct Life {
    /// The end of its directory's name.
    pub(crate) tag: String,
    /// A crash after so many operations or fewer cannot have it. `None`: it was there before the first.
    pub(crate) began: Option<usize>,
    /// From here on it was acknowledged.
    pub(crate) acked: Option<usize>,
    /// When its deletion began, and when that was acknowledged.
    pub(crate) gone: Option<(usize, Option<usize>)>,
}

/// A topic, and all that was in it.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) name: &'static str,
    pub(crate) life: Life,
    pub(crate) tallies: BTreeMap<Key, Tally>,
    pub(crate) commits: BTreeMap<Key, Commits>,
}

impl World {
    /// Gives a topic another level, and another interval of indexes, and notes it.
    pub(super) fn alter(&mut self, name: &'static str, level: Durability) -> Result<()> {
        let began = self.disk.points();
        let interval = 400 + began as u32 % 200;
        let changes = TopicConfig::new()
            .durability(level)
            .index_interval(interval);
        self.topic(name)?.alter(changes)?;
        let acked = self.disk.points();
        let of = self.tallies.iter_mut().filter(|(key, _)| key.0 == name);
        of.for_each(|(_, tally)| tally.altered(level, began, acked));
        Ok(())
    }
}

impl Life {
    /// May a crash after so many operations leave it?
    fn may_be_there(&self, point: usize) -> bool {
        let deleted = |(_, acked): (usize, Option<usize>)| acked.is_some_and(|at| at <= point);
        self.began.is_none_or(|began| began < point) && !self.gone.is_some_and(deleted)
    }

    /// Must it?
    fn must_be_there(&self, point: usize) -> bool {
        let going = |(began, _): (usize, _)| began < point;
        self.acked.is_some_and(|acked| acked <= point) && !self.gone.is_some_and(going)
    }
}

impl Made {
    /// May a crash after so many operations find it gone?
    pub(crate) fn deletion_began(&self, point: usize) -> bool {
        self.life.gone.is_some_and(|(began, _)| began < point)
    }

    /// It is there, or it is not. May that be?
    pub(crate) fn judge(&self, there: bool, end: End) -> Result<(), String> {
        let (name, life) = (self.name, &self.life);
        if there && !life.may_be_there(end.point) {
            return Err(format!("topic {name} is there and must not be: {life:?}"));
        }
        if !there && life.must_be_there(end.point) {
            return Err(format!("topic {name} is gone: {life:?}"));
        }
        Ok(())
    }

    /// It was found there by who opened the log: as the next life knows it. Of one that a killed process was making, and that
    /// nobody was told of, the catalogue may be in the cache alone: it is durable once something is built on it.
    pub(crate) fn found(&mut self, end: End) {
        let killed = end.model == CrashModel::ProcessKill;
        let life = &mut self.life;
        let told = life.acked.filter(|at| killed && *at <= end.point);
        life.acked = told.or((!killed).then_some(0));
        life.began = life.began.filter(|_| killed);
        life.gone = None; // it was not decided
    }

    /// It was not found: from `since` on, that was told. `None`: it is forgotten. The files of a process that was killed are as it
    /// left them, and what they hold by then may be in the cache alone: until `since` a power loss may bring it back.
    pub(crate) fn missing(mut self, end: End, since: usize) -> Option<Made> {
        if end.model != CrashModel::ProcessKill || !self.deletion_began(end.point) {
            return None;
        }
        let life = &mut self.life;
        let (began, told) = life.gone?;
        life.acked = life.acked.filter(|at| *at <= end.point);
        life.gone = Some((
            began,
            Some(told.filter(|at| *at <= end.point).unwrap_or(since)),
        ));
        self.tallies
            .values_mut()
            .for_each(|tally| tally.unseen(end));
        self.commits
            .values_mut()
            .for_each(|commits| commits.unseen(end));
        Some(self)
    }
}

impl World {
    /// Which topics are there: as many as have a directory, each of them one that may be there, and all that must.
    pub(super) fn find_topics(
        &mut self,
        disk: &Disk,
        found: &Opened,
        end: End,
    ) -> Result<(), String> {
        let mut dirs = directories(disk);
        let live = found.log.topics().len();
        if dirs.len() != live {
            return Err(format!("{live} topics are there, and directories {dirs:?}"));
        }
        let names: Vec<&'static str> = self.topics.keys().copied().collect();
        let mut all = std::mem::take(&mut self.past);
        all.extend(names.into_iter().filter_map(|name| self.pack(name)));
        for mut made in all {
            let here = |(name, tag): &(String, String)| name == made.name && *tag == made.life.tag;
            let place = dirs.iter().position(here);
            made.judge(place.is_some(), end)?;
            if let Some(place) = place {
                dirs.remove(place);
                let opened = found.log.topic(made.name);
                opened.map_err(|e| format!("topic {}: {e:?}", made.name))?;
                made.found(end);
                self.unpack(made);
            } else {
                self.past.extend(made.missing(end, found.since));
            }
        }
        if !dirs.is_empty() {
            return Err(format!("nobody made {dirs:?}"));
        }
        for name in self
            .names
            .keys()
            .filter(|name| !self.topics.contains_key(*name))
        {
            match found.log.topic(name) {
                Err(Error::NotFound { .. }) => {}
                other => return Err(format!("topic {name}: {other:?}")),
            }
        }
        Ok(())
    }
}

/// Name and tag of each topic's directory, those of unfinished ones included.
pub(crate) fn directories(disk: &Disk) -> Vec<(String, String)> {
    let files = disk.files().into_iter();
    let names = files.filter_map(|(path, _)| {
        let below = path.strip_prefix("/log/topics").ok()?;
        let dir = below.iter().next()?.to_str()?;
        let (name, tag) = dir.split_once('-')?;
        Some((name.to_owned(), tag.to_owned()))
    });
    let mut names: Vec<_> = names.collect();
    names.sort();
    names.dedup();
    names
}
