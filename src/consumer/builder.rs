//! How a consumer should read, before it joins its group.

use super::Consumer;
use super::engine::Engine;
use super::group::ConsumerGroup;
use super::member::Member;
use crate::error::{Error, Result};
use crate::offset::StartFrom;

/// How a consumer should read. It joins at [`join`](Self::join), which checks everything at once.
#[must_use = "a consumer joins its group at `join`"]
#[derive(Clone, Debug)]
pub struct ConsumerBuilder {
    pub(super) group: ConsumerGroup,
    /// Sorted, each once.
    pub(super) topics: Vec<String>,
    pub(super) start_from: StartFrom,
    pub(super) on_out_of_range: OnOutOfRange,
    pub(super) client_id: Option<String>,
    pub(super) max_poll_records: usize,
    pub(super) max_poll_bytes: usize,
}

/// What happens when the next record to be read is not there any more, since retention overtook the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnOutOfRange {
    /// Reading goes on at the first record that is there; `Batch::resets` tells what was skipped. The default.
    #[default]
    LogStart,
    /// The partition halts with [`Error::OutOfRange`].
    Fail,
}

impl ConsumerBuilder {
    pub(super) fn new(group: ConsumerGroup, mut topics: Vec<String>) -> ConsumerBuilder {
        topics.sort();
        topics.dedup();
        ConsumerBuilder {
            group,
            topics,
            start_from: StartFrom::Earliest,
            on_out_of_range: OnOutOfRange::default(),
            client_id: None,
            max_poll_records: 500,
            max_poll_bytes: 50 << 20,
        }
    }

    /// Where to begin without a committed offset: [`StartFrom::Earliest`] unless set. Resolved at `join`, so nothing appended
    /// after it is skipped, and kept for the group as long as it has members; a topic that appears later is read from its first
    /// record.
    pub fn start_from(mut self, start: StartFrom) -> Self {
        self.start_from = start;
        self
    }

    /// What happens when retention overtook the group. [`OnOutOfRange::LogStart`] unless set.
    pub fn on_out_of_range(mut self, then: OnOutOfRange) -> Self {
        self.on_out_of_range = then;
        self
    }

    /// The first part of the member's name; the group's name unless set.
    pub fn client_id(mut self, id: impl Into<String>) -> Self {
        self.client_id = Some(id.into());
        self
    }

    /// Most records that one poll returns. 500 unless set.
    pub fn max_poll_records(mut self, n: usize) -> Self {
        self.max_poll_records = n;
        self
    }

    /// Bytes after which a poll returns what it has; the first read is returned whole even if it is larger. 50 MiB unless
    /// set.
    pub fn max_poll_bytes(mut self, n: usize) -> Self {
        self.max_poll_bytes = n;
        self
    }

    /// Takes a place in the group, and finds where the group begins in partitions for which it has committed nothing. Topics that
    /// do not exist are waited for. The members of a group share the partitions of its topics: which are this one's is known
    /// after its first `poll`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSetting`] names the setting; [`Error::InvalidName`] for a name that no topic or group can have;
    /// [`Error::Corruption`] where damage may hide a committed offset.
    pub fn join(self) -> Result<Consumer> {
        if self.topics.is_empty() {
            return Err(Error::invalid("subscribe", "needs at least one topic"));
        }
        if self.max_poll_records == 0 {
            return Err(Error::invalid("max_poll_records", "must be 1 or more"));
        }
        if self.max_poll_bytes == 0 {
            return Err(Error::invalid("max_poll_bytes", "must be 1 or more"));
        }
        Ok(Consumer::new(Engine::Log(Box::new(Member::join(self)?))))
    }
}
