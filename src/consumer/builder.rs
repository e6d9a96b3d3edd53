//! How a consumer should read, before it joins its group.

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Consumer;
use super::assignor::{Assignor, CooperativeSticky, Sticky};
use super::coordinator::{Limits, Protocol};
use super::engine::Engine;
use super::group::ConsumerGroup;
use super::listener::{Nobody, RebalanceListener};
use super::member::Member;
use crate::error::{Error, Result};
use crate::log::Log;
use crate::offset::{StartFrom, TopicPartition};

/// Kafka's `max.poll.interval.ms`.
const POLL_INTERVAL: Duration = Duration::from_secs(300);
/// Kafka's `session.timeout.ms`.
const SESSION_TIMEOUT: Duration = Duration::from_secs(45);

/// How a consumer should read. It joins at [`join`](Self::join), which checks everything at once.
///
/// ```
/// use std::time::Duration;
/// use thalweg::{Log, StartFrom, TopicConfig, assignor};
///
/// # let log = Log::in_memory();
/// # log.create_topic("orders", TopicConfig::new())?;
/// let kitchen = log
///     .group("kitchen")
///     .subscribe(["orders"])
///     .start_from(StartFrom::Latest)
///     .assignor(assignor::Range)
///     .instance_id("stove-2")
///     .max_poll_interval(Duration::from_secs(30))
///     .join()?;
/// # Ok::<(), thalweg::Error>(())
/// ```
#[must_use = "a consumer joins its group at `join`"]
pub struct ConsumerBuilder {
    pub(super) group: ConsumerGroup,
    pub(super) wanted: Wanted,
    pub(super) start_from: StartFrom,
    pub(super) on_out_of_range: OnOutOfRange,
    listener: Box<dyn RebalanceListener + Send>,
    assignor: Arc<dyn Assignor>,
    /// As set, or as the assignor has it.
    eager: Option<bool>,
    implied_eager: bool,
    pub(super) auto_commit: Option<Duration>,
    pub(super) instance_id: Option<String>,
    pub(super) client_id: Option<String>,
    pub(super) max_poll_records: usize,
    pub(super) max_poll_bytes: usize,
    pub(super) max_poll_interval: Duration,
    session_timeout: Duration,
}

/// What a consumer wants to read.
#[derive(Clone)]
pub(super) enum Wanted {
    /// Sorted, each once.
    Topics(Vec<String>),
    Where(Arc<dyn Fn(&str) -> bool + Send + Sync>),
    /// Sorted, each once.
    ByHand(Vec<TopicPartition>),
}

impl Wanted {
    pub(super) fn topics(mut names: Vec<String>) -> Wanted {
        names.sort();
        names.dedup();
        Wanted::Topics(names)
    }

    pub(super) fn by_hand(mut partitions: Vec<TopicPartition>) -> Wanted {
        partitions.sort();
        partitions.dedup();
        Wanted::ByHand(partitions)
    }
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
    pub(super) fn new(group: ConsumerGroup, wanted: Wanted) -> ConsumerBuilder {
        ConsumerBuilder {
            group,
            wanted,
            start_from: StartFrom::Earliest,
            on_out_of_range: OnOutOfRange::default(),
            listener: Box::new(Nobody),
            assignor: Arc::new(CooperativeSticky),
            eager: None,
            implied_eager: false,
            auto_commit: None,
            instance_id: None,
            client_id: None,
            max_poll_records: 500,
            max_poll_bytes: 50 << 20,
            max_poll_interval: POLL_INTERVAL,
            session_timeout: SESSION_TIMEOUT,
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

    /// Told when partitions come and go. Nobody unless set. One that borrows from the caller's stack goes to
    /// [`Consumer::poll_with`] instead.
    pub fn listener(mut self, listener: impl RebalanceListener + Send + 'static) -> Self {
        self.listener = Box::new(listener);
        self
    }

    /// How the group's partitions are shared: [`assignor::CooperativeSticky`](crate::assignor::CooperativeSticky) unless set
    /// (Kafka's default is `range`). All members of a group name the same; [`assignor::Sticky`](crate::assignor::Sticky) implies
    /// [`eager`](Self::eager).
    pub fn assignor<A: Assignor + 'static>(mut self, assignor: A) -> Self {
        self.implied_eager = TypeId::of::<A>() == TypeId::of::<Sticky>();
        self.assignor = Arc::new(assignor);
        self
    }

    /// Kafka's older protocol, for code that will run under it: whenever partitions are shared anew, each member first gives up
    /// all it has, in its next poll, and nobody gets any before all did so. `false` unless set: partitions that stay are read on
    /// meanwhile. All members of a group name the same.
    pub fn eager(mut self, on: bool) -> Self {
        self.eager = Some(on);
        self
    }

    /// Commits by itself, in a `poll`, what earlier polls returned, when the last such commit is this long ago; before partitions
    /// are given up too, and in `close`, `leave` and `unsubscribe`. Off unless set (Kafka's is on, every 5 s): whoever fails after
    /// the next poll has lost what it did not handle. It never commits backwards. An error of it is that of the poll: no position
    /// has moved, and the next try is an interval away.
    pub fn auto_commit(mut self, every: Duration) -> Self {
        self.auto_commit = Some(every);
        self
    }

    /// Makes it a static member, known by this name over restarts: closed, dropped or silent for
    /// [`max_poll_interval`](Self::max_poll_interval) it keeps its place for [`session_timeout`](Self::session_timeout), and who joins
    /// with the same name gets the same partitions, while the others read on undisturbed. Nobody reads its partitions meanwhile. If
    /// one of that name lives, the newer wins and the older is [`Error::Fenced`], in polls too. [`Consumer::leave`] and [`ConsumerGroup::remove_member`] give a place up.
    pub fn instance_id(mut self, id: impl Into<String>) -> Self {
        self.instance_id = Some(id.into());
        self
    }

    /// The first part of the member's name; the group's name unless set. (Of a static member its `instance_id` is.)
    pub fn client_id(mut self, id: impl Into<String>) -> Self {
        self.client_id = Some(id.into());
        self
    }

    /// Most records that one poll returns, at least 1. 500 unless set, as in Kafka.
    pub fn max_poll_records(mut self, n: usize) -> Self {
        self.max_poll_records = n;
        self
    }

    /// Bytes after which a poll returns what it has, at least 1; the first read is returned whole even if it is larger. 50 MiB unless
    /// set.
    pub fn max_poll_bytes(mut self, n: usize) -> Self {
        self.max_poll_bytes = n;
        self
    }

    /// Longest time between two polls: who takes longer is shut out, so that others go on with its partitions. Its next commit
    /// is [`Error::Fenced`], and its next poll tells its listener of what was `lost` and joins again. Five minutes unless set, by
    /// the clock of the log; [`Duration::MAX`] is for ever. Waiting in a poll counts as polling. (Of a static member the others get
    /// its partitions a [`session_timeout`](Self::session_timeout) later.)
    pub fn max_poll_interval(mut self, limit: Duration) -> Self {
        self.max_poll_interval = limit;
        self
    }

    /// How long a static member keeps its place, from its close or drop on, or from when it was shut out for silence. 45 s unless
    /// set, by the clock of the log. Nothing to any other member: there are no heartbeats.
    pub fn session_timeout(mut self, limit: Duration) -> Self {
        self.session_timeout = limit;
        self
    }

    /// Takes a place in the group, and finds where the group begins in partitions for which it has committed nothing. Topics that
    /// do not exist are waited for. The members of a group share the partitions of its topics: which are this one's is known
    /// after its first `poll`. (Partitions given by hand are its own at once.)
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSetting`] names the setting, `assignor` too if the members of the group share in another way;
    /// [`Error::InvalidName`] for a name that no topic or group can have; [`Error::NotFound`] for a partition given by hand that
    /// does not exist; [`Error::Corruption`] where damage may hide a committed offset.
    pub fn join(mut self) -> Result<Consumer> {
        self.check()?;
        let listener = std::mem::replace(&mut self.listener, Box::new(Nobody));
        Ok(Consumer::new(
            Engine::Log(Box::new(Member::join(self)?)),
            listener,
        ))
    }

    fn check(&self) -> Result<()> {
        let positive = |setting, is| {
            if is {
                Ok(())
            } else {
                Err(Error::invalid(setting, "must be more than zero"))
            }
        };
        match &self.wanted {
            Wanted::Topics(names) if names.is_empty() => {
                return Err(Error::invalid("subscribe", "needs at least one topic"));
            }
            Wanted::ByHand(partitions) if partitions.is_empty() => {
                return Err(Error::invalid("assign", "needs at least one partition"));
            }
            _ => {}
        }
        if self.instance_id.as_ref().is_some_and(String::is_empty) {
            return Err(Error::invalid("instance_id", "must not be empty"));
        }
        positive("max_poll_records", self.max_poll_records > 0)?;
        positive("max_poll_bytes", self.max_poll_bytes > 0)?;
        positive("max_poll_interval", self.max_poll_interval > Duration::ZERO)
    }

    pub(super) fn protocol(&self) -> Protocol {
        Protocol {
            name: self.assignor.name().into(),
            assignor: Arc::clone(&self.assignor),
            eager: self.eager.unwrap_or(self.implied_eager),
        }
    }

    pub(super) fn limits(&self, log: &Log) -> Limits {
        Limits {
            poll_interval: self.max_poll_interval,
            session_timeout: self.session_timeout,
            rebalance_delay: log.initial_rebalance_delay(),
        }
    }
}

impl fmt::Debug for ConsumerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumerBuilder")
            .field("group", &self.group.name())
            .field("start_from", &self.start_from)
            .field("assignor", &self.assignor.name())
            .finish_non_exhaustive()
    }
}
