//! Reading as a group: join, poll, commit. What was committed is where the group goes on, after a crash too.
//!
//! [`Consumer`] is what a user holds. Behind it, [`engine`] is the seam between the embedded log and anything else that can
//! do the same; [`member`] is the log's side, [`source`] one partition as a member reads it, and [`batch`] what a poll
//! returned. Which member reads what is the [`coordinator`]'s business, by [`assignor`]; where a group begins, that of [`starts`].

mod admin;
pub mod assignor;
mod batch;
mod builder;
mod coordinator;
mod engine;
mod group;
mod listener;
mod member;
mod membership;
mod source;
mod starts;
mod steer;
mod wake;

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use batch::Left;
use engine::{Caller, ConsumerEngine, Engine, Wait};

use crate::entry::EntryRef;
use crate::error::{Error, Result};
use crate::offset::{Offset, Positions, TopicPartition};

pub use admin::{GroupDescription, MemberDescription, PartitionProgress};
pub use batch::{Batch, BatchIntoIter, BatchIter, Reset};
pub use builder::{ConsumerBuilder, OnOutOfRange};
pub use group::ConsumerGroup;
pub use listener::{Rebalance, RebalanceListener};
pub use membership::Membership;
pub use wake::WakeHandle;

/// One member of a group. `Send`; `&mut self` polls.
///
/// The members of a group share the partitions of their topics: each partition is read by one member at a time. When a member joins
/// or leaves, the others give up and take over partitions, each within its own `poll`, and a partition goes to its new member
/// only after the old one gave it up. The new one reads on where the group has committed, so what was not committed is repeated.
/// The guide's page on [`groups`](crate::guide::groups) shows it step by step.
///
/// Dropped, it leaves its group at once and commits nothing; [`close`](Self::close) is the orderly way.
///
/// ```
/// use thalweg::{Log, TopicConfig};
///
/// # let log = Log::in_memory();
/// let orders = log.topic_or_create("orders", TopicConfig::new())?;
/// orders.append(("customer-7", "2 x espresso"))?;
///
/// let mut kitchen = log.group("kitchen").subscribe(["orders"]).join()?;
/// # kitchen.wake_handle().wake(); let _ = kitchen.next_batch();
/// # let handle = kitchen.wake_handle();
/// while let Some(batch) = kitchen.next_batch()? {
///     for order in &batch {
///         println!("{} {}", order.position(), order.value_str()?);
///     }
///     kitchen.commit()?; // next time, begin after these
/// #   handle.wake();
/// }
/// kitchen.close()?;
/// # Ok::<(), thalweg::Error>(())
/// ```
pub struct Consumer {
    engine: Engine,
    listener: Box<dyn RebalanceListener + Send>,
    /// Of the last batch.
    left: Left,
}

impl Consumer {
    fn new(engine: Engine, listener: Box<dyn RebalanceListener + Send>) -> Consumer {
        Consumer {
            engine,
            listener,
            left: Left::default(),
        }
    }

    /// What is there, after at most `timeout`; empty if nothing came. It returns as soon as there is one record, and at most
    /// [`max_poll_records`](ConsumerBuilder::max_poll_records). On a clock that a test moves it never waits.
    ///
    /// Here alone partitions come and go: those that go are given up first, those that have come are read in the same poll.
    ///
    /// # Errors
    ///
    /// One with [`Error::partition`] halts that partition only: poll again and the others go on. [`Error::Woken`] after
    /// [`WakeHandle::wake`]. [`Error::Listener`] if a callback failed; partitions have moved all the same. [`Error::Fenced`]
    /// after [`unsubscribe`](Self::unsubscribe), and if another member came with its `instance_id`: for good. (Who was too slow
    /// joins again within `poll`, which tells its listener what was `lost`.) Those of a commit, if that is automatic.
    /// [`Error::InvalidSetting`] if the group's assignor gives what cannot be: partitions stay where they are, and every other
    /// poll reads them. No position moves with an error.
    pub fn poll(&mut self, timeout: Duration) -> Result<Batch> {
        self.poll_for(Wait::AtMost(timeout))
    }

    /// Waits for records without limit; `None` once [`WakeHandle::wake`] was called, even if there are records to be read. On a clock
    /// that a test moves it does not wait, and is `None` when nothing is left to read for this member: partitions that another
    /// one has still to give up may come to it later. A batch may have no records, and only [`resets`](Batch::resets).
    ///
    /// # Errors
    ///
    /// As [`poll`](Self::poll), without `Woken`.
    pub fn next_batch(&mut self) -> Result<Option<Batch>> {
        match self.poll_for(Wait::ForEver) {
            Ok(batch) => Ok(Some(batch).filter(Batch::says_something)),
            Err(Error::Woken) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// As [`poll`](Self::poll), with a listener that may borrow from the caller's stack; it replaces the builder's for this call.
    ///
    /// # Errors
    ///
    /// As [`poll`](Self::poll).
    pub fn poll_with(
        &mut self,
        timeout: Duration,
        listener: &mut dyn RebalanceListener,
    ) -> Result<Batch> {
        let mut caller = Caller::new(listener, &self.left);
        self.left = Left::default();
        let batch = self.engine.poll(Wait::AtMost(timeout), &mut caller)?;
        self.left = batch.left();
        Ok(batch)
    }

    fn poll_for(&mut self, wait: Wait) -> Result<Batch> {
        let mut caller = Caller::new(&mut *self.listener, &self.left);
        self.left = Left::default();
        let polled = self.engine.poll(wait, &mut caller);
        if let Ok(batch) = &polled {
            self.left = batch.left();
        }
        polled // as it is: to take it apart and put it together again moves it
    }

    /// Ready when a [`poll`](Self::poll) of no time would do something: return records or an error, or take part in the group's
    /// work. For any runtime; dropping it before it is ready loses nothing. Time alone does not make it ready: who waits for
    /// long, and whose `auto_commit` should not wait with it, polls now and then.
    ///
    /// ```
    /// # use std::future::Future;
    /// # use std::task::{Context, Poll, Waker};
    /// use std::time::Duration;
    /// use thalweg::{Consumer, Log, Result, TopicConfig};
    ///
    /// async fn serve(kitchen: &mut Consumer) -> Result<()> {
    ///     loop {
    ///         kitchen.ready().await;
    ///         for order in &kitchen.poll(Duration::ZERO)? {
    ///             println!("{}", order.value_str()?);
    ///         }
    ///         kitchen.commit()?;
    /// #       return Ok(());
    ///     }
    /// }
    /// # let log = Log::in_memory();
    /// # log.create_topic("orders", TopicConfig::new())?.append(("customer-7", "2 x espresso"))?;
    /// # let mut kitchen = log.group("kitchen").subscribe(["orders"]).join()?;
    /// # let served = std::pin::pin!(serve(&mut kitchen)).poll(&mut Context::from_waker(Waker::noop()));
    /// # assert!(matches!(served, Poll::Ready(Ok(()))));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn ready(&mut self) -> impl Future<Output = ()> + Send + '_ {
        Ready {
            engine: self.engine.any_mut(),
        }
    }

    /// Everything that was returned is done: a later member of the group begins after it. The operating system has it when this
    /// returns, so that it survives this process; it is synced soon after, by the thread of the log or the next
    /// [`Log::maintain`](crate::Log::maintain).
    ///
    /// # Errors
    ///
    /// [`Error::Fenced`], and nothing is done, if it is no member any more, for the reason named there: what it had, others handle
    /// again. If it did not poll in time, or was removed, its next `poll` joins again. [`Error::BatchUnfinished`], and nothing is done,
    /// while a loop takes the records of the last batch by value and some are left: they were returned, and were not handled.
    /// [`seek`](Self::seek) back to have them again: the next `poll` counts them as done. [`Error::NoSpace`], [`Error::Io`] for the disk: nothing was stored. [`Error::Poisoned`] if an earlier sync of
    /// committed offsets failed: no commit is taken until the log is opened again. (It names a partition `__ledger-0`, which is the
    /// log's own.) [`Error::Indeterminate`].
    pub fn commit(&mut self) -> Result<()> {
        match self.left.count() {
            0 => self.engine.any_mut().commit(),
            left => Err(Error::BatchUnfinished { left }),
        }
    }

    /// As [`commit`](Self::commit), and it survives a power loss when this returns. So do the records that were returned: a group
    /// never goes on behind records that are not there.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit). After [`Error::Indeterminate`] it is stored for this process, and may or may not survive a
    /// power loss.
    pub fn commit_durable(&mut self) -> Result<()> {
        match self.left.count() {
            0 => self.engine.any_mut().commit_durable(),
            left => Err(Error::BatchUnfinished { left }),
        }
    }

    /// This record and all before it in its partition are done (stores its offset + 1).
    ///
    /// # Errors
    ///
    /// As [`commit_at`](Self::commit_at).
    pub fn commit_through<'e>(&mut self, entry: impl Into<EntryRef<'e>>) -> Result<()> {
        let entry = entry.into();
        let mut next = Positions::new();
        next.set(entry.topic_partition().at(entry.offset().next()));
        self.commit_at(&next)
    }

    /// These are the next offsets, stored as given, backwards too. All of them or, with an error, none. Only of partitions that it
    /// owns, which come to it with its first `poll`.
    ///
    /// # Errors
    ///
    /// [`Error::NotAssigned`] for a partition that this consumer does not own, [`Error::OutOfRange`] for an offset below
    /// the first readable one or above the end. (The end itself is fine.) Else as [`commit`](Self::commit), but never
    /// `BatchUnfinished`.
    pub fn commit_at(&mut self, next: &Positions) -> Result<()> {
        self.engine.any_mut().commit_at(next)
    }

    /// The committed next offset of the group, of any partition, its own or not; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] for an unknown partition; [`Error::Corruption`] where damage may hide a commit: never "no
    /// commit" then.
    pub fn committed(&self, at: &TopicPartition) -> Result<Option<Offset>> {
        self.engine.any().committed(at)
    }

    /// To end a wait from another thread.
    pub fn wake_handle(&self) -> WakeHandle {
        self.engine.any().wake_handle()
    }
}

/// See [`Consumer::ready`].
struct Ready<'c> {
    engine: &'c mut dyn ConsumerEngine,
}

impl Future for Ready<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<()> {
        self.engine.poll_ready(task)
    }
}

impl Drop for Ready<'_> {
    fn drop(&mut self) {
        self.engine.rest();
    }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("membership", &self.membership())
            .finish_non_exhaustive()
    }
}

const _: () = {
    const fn shared<T: Send + Sync + 'static>() {}
    const fn moves<T: Send + 'static>() {}
    shared::<ConsumerGroup>();
    shared::<WakeHandle>();
    shared::<Membership>();
    moves::<Consumer>();
    moves::<Batch>();
    moves::<BatchIntoIter>();
};
