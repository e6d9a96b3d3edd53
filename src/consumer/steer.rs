//! Where a consumer reads, and whether: seeks, pauses, and what it may be asked about both.

use super::Consumer;
use super::batch::Left;
use super::engine::Spot;
use crate::clock::Timestamp;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::offset::{Offset, Position, Positions, TopicPartition};

impl Consumer {
    /// Reads on there. Ends the rest of a halted partition. Only in what it owns: its partitions come to it with its first `poll`, and
    /// what that poll returned comes again after a seek back. Nothing is committed.
    ///
    /// # Errors
    ///
    /// [`Error::NotAssigned`]; [`Error::OutOfRange`], with the valid range, above the end.
    pub fn seek(&mut self, to: &Position) -> Result<()> {
        self.engine.any_mut().seek(to)?;
        self.left = Left::default();
        Ok(())
    }

    /// Reads these on from their first record, all of them or, with an error, none. (An empty list is none, not all as in
    /// Kafka: pass [`assignment`](Self::assignment).)
    ///
    /// # Errors
    ///
    /// [`Error::NotAssigned`].
    pub fn seek_to_start(&mut self, partitions: &[TopicPartition]) -> Result<()> {
        self.seek_each(Spot::Start, partitions)
    }

    /// Reads these on from what will be appended next.
    ///
    /// # Errors
    ///
    /// [`Error::NotAssigned`].
    pub fn seek_to_end(&mut self, partitions: &[TopicPartition]) -> Result<()> {
        self.seek_each(Spot::End, partitions)
    }

    /// Reads these on from the first record that is not older, or the end if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::NotAssigned`]; as [`Partition::offset_for_time`](crate::Partition::offset_for_time).
    pub fn seek_to_time(&mut self, partitions: &[TopicPartition], time: Timestamp) -> Result<()> {
        self.seek_each(Spot::Time(time), partitions)
    }

    fn seek_each(&mut self, spot: Spot, partitions: &[TopicPartition]) -> Result<()> {
        self.engine.any_mut().seek_to(spot, partitions)?;
        self.left = Left::default();
        Ok(())
    }

    /// Reads all owned partitions on from where the group would go on: what it has committed, or where it began. What was returned
    /// and not committed is returned again: for whoever wants to try a failed batch once more.
    ///
    /// # Errors
    ///
    /// [`Error::Corruption`] where damage may hide a commit.
    pub fn seek_to_committed(&mut self) -> Result<()> {
        self.engine.any_mut().seek_to_committed()?;
        self.left = Left::default();
        Ok(())
    }

    /// For each owned partition the first record that is not older, or the end if there is none.
    ///
    /// # Errors
    ///
    /// As [`Partition::offset_for_time`](crate::Partition::offset_for_time).
    pub fn offsets_for_time(&self, time: Timestamp) -> Result<Positions> {
        self.engine.any().offsets_for_time(time)
    }

    /// Polls return nothing of these until [`resume`](Self::resume). They stay its own, where they are: others do not get them.
    /// It lasts as long as it owns them; a partition that goes and comes back is read. (Under
    /// [`eager`](super::ConsumerBuilder::eager) all go with each rebalance.) A pausing consumer must still poll.
    ///
    /// # Errors
    ///
    /// [`Error::NotAssigned`], and then none is paused.
    pub fn pause(&mut self, partitions: &[TopicPartition]) -> Result<()> {
        self.engine.any_mut().pause(partitions)
    }

    /// Reads paused and halted partitions on, where they were; after [`Error::DataLoss`], behind what was lost.
    ///
    /// # Errors
    ///
    /// [`Error::NotAssigned`], and then none is resumed.
    pub fn resume(&mut self, partitions: &[TopicPartition]) -> Result<()> {
        self.engine.any_mut().resume(partitions)
    }

    /// The paused partitions, sorted.
    pub fn paused(&self) -> Vec<TopicPartition> {
        self.engine.any().paused()
    }

    /// Partitions that returned an error and rest until [`seek`](Self::seek) or [`resume`](Self::resume).
    pub fn halted(&self) -> Vec<TopicPartition> {
        self.engine.any().halted()
    }

    /// The next offset that a poll will return of this partition; `None` if it is not owned, or has no position.
    pub fn position(&self, at: &TopicPartition) -> Option<Offset> {
        self.engine.any().position(at)
    }

    /// The next offsets of all owned partitions.
    pub fn positions(&self) -> Positions {
        self.engine.any().positions()
    }

    /// How far the position is behind the end of the partition, in offsets, less the gaps that recovery has left (those of compaction count
    /// until they are passed); `None` if it is
    /// not owned, or has no position.
    pub fn lag(&self, at: &TopicPartition) -> Option<u64> {
        self.engine.any().lag(at)
    }
}
