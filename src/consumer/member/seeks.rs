//! Where a member reads on, if not where it is.

use super::Member;
use crate::consumer::engine::Spot;
use crate::consumer::starts;
use crate::error::{Error, Result};
use crate::offset::{Position, TopicPartition};

impl Member {
    pub(super) fn seek_there(&mut self, to: &Position) -> Result<()> {
        self.log.check_open()?;
        let i = self.index(to.topic_partition())?;
        self.sources[i].seek(to.offset())?;
        self.tell_halted(i);
        Ok(())
    }

    /// All of them or none.
    pub(super) fn seek_each(&mut self, spot: Spot, partitions: &[TopicPartition]) -> Result<()> {
        self.log.check_open()?;
        let mut found = Vec::with_capacity(partitions.len());
        for i in self.indexes(partitions)? {
            found.push((i, self.sources[i].spot(spot)?));
        }
        for (i, to) in found {
            self.sources[i].seek(to)?;
            self.tell_halted(i);
        }
        Ok(())
    }

    /// To where the group goes on after a restart: what it has committed, or else where it began. All or none.
    pub(super) fn seek_back(&mut self) -> Result<()> {
        self.log.check_open()?;
        let mut found = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            let key = source.partition().key();
            let committed = self.log.ledger().committed(self.group(), key)?;
            let began = || self.begun.get(&key).copied().flatten();
            found.push(committed.or_else(began));
        }
        for (i, next) in found.into_iter().enumerate() {
            match next {
                Some(next) => self.sources[i].seek_back(next),
                None => self.sources[i].forget_position(),
            }
            self.tell_halted(i);
        }
        Ok(())
    }

    /// By hand: opens what it was given, where the group has committed or it wants to begin.
    pub(super) fn take_by_hand(&mut self) -> Result<()> {
        let super::Wanted::ByHand(wanted) = self.settings.wanted.clone() else {
            return Ok(());
        };
        for at in wanted {
            let partition = self.log.topic(at.topic())?.partition(at.partition())?;
            let key = partition.key();
            let committed = self.log.ledger().committed(self.group(), key)?;
            let next = if committed.is_some() {
                committed
            } else {
                let start = starts::start(&self.log, &partition, self.settings.start_from)?;
                self.begun.insert(key, start);
                start
            };
            let source = super::Source::new(partition, next, &self.spares);
            self.sources.push(source);
        }
        self.sources.sort_by(|a, b| a.at().cmp(b.at()));
        Ok(())
    }

    /// By hand: lets go of what was deleted.
    pub(super) fn let_go_of_deleted(&mut self) {
        self.sources
            .retain(|source| !source.partition().is_deleted());
        self.turn = 0;
    }
}

/// There is no group to share with.
pub(super) fn by_hand() -> Error {
    Error::invalid(
        "subscribe",
        "this consumer was given its partitions by hand: make another one, which subscribes",
    )
}
