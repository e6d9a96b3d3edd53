//! The log that a unit test of consumer logic runs on: the real one, with storage and time in the test's hand.

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{CrashModel, Disk, DiskCall, DiskError, FailedSync, Fault, ManualClock};
use crate::clock::Timestamp;
use crate::consumer::Consumer;
use crate::error::Result;
use crate::format::names;
use crate::log::Log;
use crate::partition::report::RecoveryReport;

/// A log for unit tests: the real one, on storage in memory and a clock that the test moves.
///
/// Nothing is imitated. What is produced is consumed, groups and their committed offsets are those of a log on disk, a crash
/// goes through the same recovery, and all of it takes a fraction of a millisecond: no broker, no container, no port, no sleep.
///
/// ```
/// use std::time::Duration;
/// use thalweg::testing::{Survives, TestLog};
/// use thalweg::{ConsumerGroup, Result, TopicConfig};
///
/// /// What is to be tested: it runs on `TestLog` as it runs on any other log.
/// fn brew(group: &ConsumerGroup, brewed: &mut Vec<String>) -> Result<()> {
///     let mut kitchen = group.subscribe(["orders"]).join()?;
///     while let Some(batch) = kitchen.next_batch()? { // on a `TestLog`, `None` when nothing is left to read
///         for order in &batch {
///             brewed.push(order.value_str()?.to_owned());
///         }
///         kitchen.commit()?;
///     }
///     kitchen.close()
/// }
///
/// let test = TestLog::new();
/// let orders = test.log().create_topic("orders", TopicConfig::new().partitions(4))?;
/// orders.append(("customer-7", "2 x espresso"))?;
///
/// let mut brewed = Vec::new();
/// brew(&test.log().group("kitchen"), &mut brewed)?;
/// assert_eq!(brewed, ["2 x espresso"]);
///
/// // The process dies. The log is opened again; handles of the old one, such as `orders`, answer `Closed`.
/// let report = test.crash(Survives::Everything)?;
/// assert!(report.is_empty());                                    // nothing had to be repaired
/// test.log().topic("orders")?.append(("customer-7", "1 x flat white"))?;
/// test.advance(Duration::from_secs(3600));                       // an hour later, at once
///
/// brew(&test.log().group("kitchen"), &mut brewed)?;              // resumes where it had committed
/// assert_eq!(brewed, ["2 x espresso", "1 x flat white"]);
/// # Ok::<(), thalweg::Error>(())
/// ```
///
/// # I want to test…
///
/// | | |
/// | --- | --- |
/// | what my handler does with records | append them to [`log`](Self::log), run the service: it ends when nothing is left |
/// | that what was not committed comes again | end before the commit, [`crash`](Self::crash)`(Survives::Everything)`, run it again |
/// | that a lost commit does no harm | [`crash`](Self::crash)`(Survives::SyncedOnly)`: the power is gone before it was synced |
/// | whatever else a power cut may leave | [`Survives::Prefix`], [`Survives::RandomPages`], over many [seeds](Self::seeded) |
/// | that a time-out, a delay, an interval has passed | [`advance`](Self::advance) |
/// | what I do when the disk is full, or fails | [`fail_next`](Self::fail_next) |
/// | what a second instance of my service does to the first | join the group twice, and poll the two in turn: each takes its part of a rebalance in its own poll |
/// | who owns what, and who should | [`ConsumerGroup::describe`](crate::ConsumerGroup::describe) |
/// | what happens when my handler takes too long | [`fence`](Self::fence), or [`advance`](Self::advance) by `max_poll_interval` |
/// | threads that wait for each other | [`blocking`](Self::blocking) |
///
/// # What is different from a log on disk
///
/// * Nothing ever waits, unless the log was made [`blocking`](Self::blocking): `poll` does what is due and returns, whatever its
///   timeout, and `next_batch` is `None` when nothing is left to read.
/// * Time stands still between calls of [`advance`](Self::advance).
/// * There is no thread: the syncs that one would do at some time are done inside `advance`. Removing, compacting and expiring are not: that
///   is a call of [`Log::maintain`](crate::Log::maintain).
/// * The same calls give the same bytes, identities and crashes, in every run and on every machine; another
///   [seed](Self::seeded) gives others. (Several threads at once make what they always make.)
///
/// A `TestLog` is `Send + Sync`: threads share it by reference or in an `Arc`. It has the default settings of
/// [`LogBuilder`](crate::LogBuilder); whoever needs others, wants to corrupt a file, or to crash after each of many calls, takes
/// [`Disk`] and [`ManualClock`], which it is made of, and opens the log with
/// [`LogBuilder::open_on`](crate::LogBuilder::open_on).
pub struct TestLog {
    seed: u64,
    clock: ManualClock,
    life: Mutex<Life>,
}

/// From one crash to the next.
struct Life {
    disk: Disk,
    log: Log,
    crashes: u64,
}

/// What is still there after [`TestLog::crash`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Survives {
    /// Everything that was handed to the operating system: the process died (panic, abort, `kill -9`) and the machine runs on.
    /// Every acknowledged record is there, at each level of durability, and every commit.
    Everything,
    /// What was synced and nothing else: the power is gone, and all that could be lost is. Records acknowledged at
    /// [`Durability::Power`](crate::Durability::Power) are there, and whatever [`Log::sync`] or an interval that has passed made
    /// durable. Commits are there if they were made by `commit_durable`, or if `Log::sync`, `Log::maintain` or an
    /// [`advance`](TestLog::advance) of a second came after them.
    SyncedOnly,
    /// What was synced, and of the calls after that the first few: the power is gone while the disk was writing in order.
    Prefix,
    /// What was synced, and beyond that any pages of 4 KiB, sizes and names of files, each by itself: the power is gone while the
    /// disk was writing in no order. Records may be torn; recovery cuts them, and its report says so.
    RandomPages,
}

/// The calls that [`TestLog::fail_next`] lets fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Call {
    /// The next write of records: an append, or a commit. Nothing of it is done, the error's `outcome` is `Rejected`, and the next one
    /// is tried as if nothing had been. A full disk, quota or file is [`Error::NoSpace`], a file system that takes no writes
    /// [`Error::ReadOnly`], everything else [`Error::Io`].
    ///
    /// [`Error::NoSpace`]: crate::Error::NoSpace
    /// [`Error::ReadOnly`]: crate::Error::ReadOnly
    /// [`Error::Io`]: crate::Error::Io
    Write,
    /// The next time that records are made durable: by an append at [`Durability::Power`](crate::Durability::Power), which is then
    /// [`Error::Indeterminate`]; by [`Log::sync`]; or when it is due, inside [`TestLog::advance`], which says nothing. The partition
    /// refuses appends from then on, with [`Error::Poisoned`], until [`Partition::recover`](crate::Partition::recover), or
    /// until the log is opened again; where it was the sync of committed offsets, commits are refused until then. The records are
    /// still in the memory of the machine, and not on the disk: a crash shows them
    /// after [`Survives::Everything`] and never after [`Survives::SyncedOnly`].
    ///
    /// [`Error::Indeterminate`]: crate::Error::Indeterminate
    /// [`Error::Poisoned`]: crate::Error::Poisoned
    Sync,
    /// The next time that a file or directory gets another name: when a topic is made, which is then not there and can be made
    /// again. The error is [`Error::Io`](crate::Error::Io).
    Rename,
    /// The next write of a commit, whatever is appended before it. As with [`Write`](Self::Write): nothing was committed, and the
    /// next commit is tried as if nothing had been.
    Commit,
}

impl TestLog {
    /// As [`seeded`](Self::seeded), with seed 0.
    ///
    /// ```
    /// use thalweg::TopicConfig;
    /// use thalweg::testing::TestLog;
    ///
    /// let test = TestLog::new();
    /// let orders = test.log().create_topic("orders", TopicConfig::new())?;
    /// orders.append(("customer-7", "2 x espresso"))?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn new() -> Self {
        TestLog::seeded(0)
    }

    /// A new, empty log. What is left to chance follows from `seed`: identities, and which of the possible states a crash leaves.
    /// So a loop over seeds tries many crashes, and a seed that failed fails again. Its clock says midnight before
    /// 1 January 2020, UTC.
    ///
    /// ```
    /// use thalweg::testing::{Survives, TestLog};
    /// use thalweg::{Durability, TopicConfig};
    ///
    /// for seed in 0..20 {
    ///     let test = TestLog::seeded(seed);
    ///     let config = TopicConfig::new().durability(Durability::Process);
    ///     let topic = test.log().create_topic("orders", config)?;
    ///     for n in 0..10 {
    ///         topic.append(("customer-7", &format!("{n} x espresso")))?;
    ///     }
    ///     test.crash(Survives::RandomPages)?;
    ///     let orders = test.log().topic("orders")?.partition(0)?;
    ///     for (n, order) in orders.entries(..).enumerate() { // a prefix: some are lost, none is missing in between
    ///         assert_eq!(order?.value_str()?, format!("{n} x espresso"), "seed {seed}");
    ///     }
    /// }
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn seeded(seed: u64) -> Self {
        let clock = ManualClock::new();
        let disk = Disk::seeded(seed);
        disk.memory.remember_nothing();
        let log = open(&disk, &clock).expect("an empty disk that does not fail can hold a log");
        TestLog {
            seed,
            clock,
            life: Mutex::new(Life {
                disk,
                log,
                crashes: 0,
            }),
        }
    }

    /// For tests with threads: `poll(t)` waits for a record, a wake, [`crash`](Self::crash), or until [`advance`](Self::advance) has
    /// moved the clock by `t`; `next_batch` waits likewise, without limit. No real time counts: where nobody does any of this,
    /// they wait for ever.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::TopicConfig;
    /// use thalweg::testing::TestLog;
    ///
    /// let test = TestLog::new().blocking();
    /// let orders = test.log().create_topic("orders", TopicConfig::new())?;
    /// let mut kitchen = test.log().group("kitchen").subscribe(["orders"]).join()?;
    /// let stop = kitchen.wake_handle();
    /// std::thread::scope(|threads| {
    ///     let cook = threads.spawn(move || kitchen.next_batch());
    ///     orders.append(("customer-7", "2 x espresso"))?;
    ///     assert_eq!(cook.join().unwrap()?.unwrap().len(), 1);
    ///     thalweg::Result::Ok(())
    /// })?;
    /// # drop(stop);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[must_use = "it is this log that waits, and it is returned"]
    pub fn blocking(self) -> Self {
        self.clock.set_waits(true);
        self
    }

    /// The open log; after a crash, the one that was opened again. After [`Log::close`] it stays the closed one:
    /// [`crash`](Self::crash)`(Survives::Everything)` opens it again, and finds that it ended in order.
    pub fn log(&self) -> Log {
        self.life.lock().log.clone()
    }

    /// What the clock says: append times are taken from it.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Time passes: clock and time-outs move on by `by`, the syncs that are due then are done, and in [`blocking`](Self::blocking) mode those
    /// who wait look again. It takes no time. What fails of that which is due, such as a sync, is told as on disk: to whoever writes
    /// to the partition next.
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.do_what_is_due();
    }

    /// What a thread of the log does on disk when its time has come. No error is told, as that thread tells none.
    fn do_what_is_due(&self) {
        let _ = self.log().do_what_is_due();
    }

    /// The member is shut out, as if its poll interval had run out: its partitions go to the others in their polls (those of a static
    /// member rest until its `session_timeout` has passed), its next commit is [`Error::Fenced`](crate::Error::Fenced), and its next
    /// poll tells its listener what was `lost` and joins again.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::testing::TestLog;
    /// use thalweg::{Error, TopicConfig};
    ///
    /// let test = TestLog::new();
    /// test.log().create_topic("orders", TopicConfig::new())?.append(("customer-7", "2 x espresso"))?;
    /// let mut kitchen = test.log().group("kitchen").subscribe(["orders"]).join()?;
    /// assert_eq!(kitchen.poll(Duration::ZERO)?.len(), 1);
    /// test.fence(&kitchen);
    /// assert!(matches!(kitchen.commit(), Err(Error::Fenced { .. })));
    /// assert_eq!(kitchen.poll(Duration::ZERO)?.len(), 1); // a member again, and nothing was committed
    /// kitchen.commit()?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn fence(&self, consumer: &Consumer) {
        consumer.fence(&self.log());
    }

    /// The process or the machine dies, here and now, and the log is opened again; the report says what opening found, as
    /// [`Log::recovery`] does.
    ///
    /// Every handle of the old log answers [`Error::Closed`](crate::Error::Closed) from then on, a consumer that waits in another
    /// thread too, and nothing that they had not written yet is written any more, when they are dropped either. (A call that is
    /// under way in another thread may fail as if the disk had: then its outcome is what a crash makes of it, unknown.) Take new handles from [`log`](Self::log). The clock goes on.
    /// What [`fail_next`](Self::fail_next) asked for and nothing has met is forgotten.
    ///
    /// ```
    /// use thalweg::testing::{Survives, TestLog};
    /// use thalweg::{Error, TopicConfig};
    ///
    /// let test = TestLog::new();
    /// let orders = test.log().create_topic("orders", TopicConfig::new())?;
    /// orders.append(("customer-7", "2 x espresso"))?;
    ///
    /// test.crash(Survives::SyncedOnly)?;
    /// assert!(matches!(orders.append(("customer-7", "tea")), Err(Error::Closed)));
    /// let orders = test.log().topic("orders")?;
    /// assert_eq!(orders.partition(0)?.entries(..).count(), 1); // acknowledged at `Power`, the default
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`LogBuilder::open`](crate::LogBuilder::open). [`log`](Self::log) is then the old one, which is closed.
    pub fn crash(&self, survives: Survives) -> Result<RecoveryReport> {
        let mut life = self.life.lock();
        life.log.abandon();
        life.crashes += 1;
        let chance = xxh3_64_with_seed(&life.crashes.to_le_bytes(), self.seed);
        let (model, state) = match survives {
            Survives::Everything => (CrashModel::ProcessKill, chance),
            Survives::SyncedOnly => (CrashModel::LostSuffix, 0), // of what was not synced, the first 0 calls
            Survives::Prefix => (CrashModel::LostSuffix, chance),
            Survives::RandomPages => (CrashModel::LostPages, chance),
        };
        life.disk = Disk {
            memory: life.disk.memory.die(model, state),
        };
        let opened = open(&life.disk, &self.clock)?;
        let report = opened.recovery().clone();
        let old = std::mem::replace(&mut life.log, opened);
        drop(life);
        drop(old); // what it lets go of may be the user's, and call us
        Ok(report)
    }

    /// The next call of this kind fails, once, with an error of the operating system of kind `error`: `StorageFull`,
    /// `QuotaExceeded`, `FileTooLarge`, `OutOfMemory`, `PermissionDenied`, `ReadOnlyFilesystem`, `ResourceBusy` or
    /// `StaleNetworkFileHandle`; any other kind, such as `Other`, is an `EIO`: the disk is broken there. (`Interrupted` is what the
    /// library tries again, so that nobody sees it.) Which calls are meant, and what becomes of them, is said at [`Call`]. Asked
    /// for twice, it happens twice.
    ///
    /// ```
    /// use std::io::ErrorKind;
    /// use thalweg::testing::{Call, TestLog};
    /// use thalweg::{Error, TopicConfig};
    ///
    /// let test = TestLog::new();
    /// let orders = test.log().create_topic("orders", TopicConfig::new())?;
    /// test.fail_next(Call::Write, ErrorKind::StorageFull);
    /// assert!(matches!(orders.append(("customer-7", "2 x espresso")), Err(Error::NoSpace { .. })));
    /// orders.append(("customer-7", "2 x espresso"))?; // there is room again
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn fail_next(&self, call: Call, error: ErrorKind) {
        let error = disk_error(error);
        self.life.lock().disk.fail(match call {
            Call::Write => Fault::error(DiskCall::Write, error).at(is_segment),
            Call::Sync => Fault::sync(DiskCall::SyncData, FailedSync::Keep, error).at(is_segment),
            Call::Rename => Fault::error(DiskCall::Rename, error),
            Call::Commit => Fault::error(DiskCall::Write, error).at(is_of_ledger),
        });
    }
}

impl Default for TestLog {
    fn default() -> Self {
        TestLog::new()
    }
}

impl fmt::Debug for TestLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestLog")
            .field("seed", &self.seed)
            .field("now", &self.now())
            .finish_non_exhaustive()
    }
}

fn open(disk: &Disk, clock: &ManualClock) -> Result<Log> {
    Log::builder().clock(clock).open_on(disk)
}

/// Records are written to segments, and to nothing else.
fn is_segment(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| names::parse_segment_name(name).is_some())
}

/// Offsets that groups commit are records of the ledger.
fn is_of_ledger(path: &Path) -> bool {
    let topic = path.ancestors().nth(2).and_then(Path::file_name); // above the partition
    is_segment(path) && topic.is_some_and(|name| name == names::LEDGER)
}

/// The error of the operating system that has this kind.
fn disk_error(kind: ErrorKind) -> DiskError {
    match kind {
        ErrorKind::StorageFull => DiskError::NoSpace,
        ErrorKind::QuotaExceeded => DiskError::Quota,
        ErrorKind::FileTooLarge => DiskError::FileTooLarge,
        ErrorKind::Interrupted => DiskError::Interrupted,
        ErrorKind::OutOfMemory => DiskError::NoMemory,
        ErrorKind::PermissionDenied => DiskError::AccessDenied,
        ErrorKind::ReadOnlyFilesystem => DiskError::ReadOnly,
        ErrorKind::ResourceBusy => DiskError::Busy,
        ErrorKind::StaleNetworkFileHandle => DiskError::Stale,
        _ => DiskError::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::TopicConfig;
    use crate::partition::settings::Durability;

    #[test]
    fn old_handles_write_nothing_to_the_old_disk_and_the_new_one_is_left_alone_too() {
        let test = TestLog::new();
        let log = test.log();
        let config = TopicConfig::new().durability(Durability::Process);
        let orders = log.create_topic("orders", config).unwrap();
        orders.append(("customer-7", "tea")).unwrap();
        let mut kitchen = log.group("kitchen").subscribe(["orders"]).join().unwrap();
        let batch = kitchen.next_batch().unwrap();

        let old = test.life.lock().disk.clone();
        let before = old.hash();
        test.crash(Survives::Everything).unwrap();
        let new = test.life.lock().disk.clone();
        let begun = new.hash();

        orders.append(("customer-7", "more tea")).unwrap_err();
        kitchen.commit().unwrap_err();
        log.sync().unwrap_err();
        drop((kitchen, batch, orders, log));
        assert_eq!((old.hash(), new.hash()), (before, begun));
    }

    #[test]
    fn it_keeps_no_history_in_any_of_its_lives() {
        let test = TestLog::new();
        for n in 0..3 {
            let orders = test.log().topic_or_create("orders", TopicConfig::new());
            orders.unwrap().append(("customer-7", "tea")).unwrap();
            assert_eq!(test.life.lock().disk.points(), 0, "life {n}");
            test.crash(Survives::RandomPages).unwrap();
        }
    }
}
