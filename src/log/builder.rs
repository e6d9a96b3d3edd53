//! How a log should be opened, before it is.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::Log;
use super::maintenance::Maintenance;
use super::open;
use super::root::Access;
use super::routing::CustomPartitioner;
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, Result};
use crate::io::Storage;
use crate::io::memory::Memory;
use crate::partition::settings::OnSuspectTail;
use crate::segment::ReadMode;

/// How often the maintenance thread looks around by itself.
const EVERY: Duration = Duration::from_secs(30);

/// What opening does when it finds damage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnCorruption {
    /// The damaged partition, or topic, refuses appends; what is valid in it is read, and everything else works. The default.
    #[default]
    IsolatePartition,
    /// The log is not opened, and the first damage is the error.
    RefuseLog,
}

/// What compaction takes for keys unless told otherwise.
const COMPACTION_MEMORY: usize = 64 << 20;

/// Called with the bytes that were checked so far, and those there are to check.
pub(super) type RecoveryProgress = Box<dyn FnMut(u64, u64) + Send>;

/// How a log should be opened. Nothing happens before [`open`](Self::open).
///
/// ```
/// use thalweg::{Log, OnCorruption, OnSuspectTail};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path();
/// let log = Log::builder()
///     .on_suspect_tail(OnSuspectTail::Damaged)
///     .on_corruption(OnCorruption::RefuseLog)
///     .open(path)?;
/// assert!(log.recovery().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is opened before `open`"]
#[derive(Default)]
pub struct LogBuilder {
    maintenance: Option<Maintenance>,
    options: Options,
    clock: Option<Arc<dyn Clock>>,
}

/// What the builder passes on.
pub(super) struct Options {
    pub(super) maintenance: Maintenance,
    pub(super) on_corruption: OnCorruption,
    pub(super) on_suspect_tail: OnSuspectTail,
    pub(super) assume_power_loss: bool,
    pub(super) allow_world_writable: bool,
    pub(super) read_mode: ReadMode,
    pub(super) partitioners: Vec<(String, CustomPartitioner)>,
    pub(super) on_recovery_progress: Option<RecoveryProgress>,
    pub(super) initial_rebalance_delay: Duration,
    pub(super) compaction_memory: usize,
    pub(super) offsets_retention: Option<Duration>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            maintenance: Maintenance::Manual,
            on_corruption: OnCorruption::default(),
            on_suspect_tail: OnSuspectTail::default(),
            assume_power_loss: false,
            allow_world_writable: false,
            read_mode: ReadMode::default(),
            partitioners: Vec::new(),
            on_recovery_progress: None,
            initial_rebalance_delay: Duration::ZERO,
            compaction_memory: COMPACTION_MEMORY,
            offsets_retention: None,
        }
    }
}

impl LogBuilder {
    /// Who does what is not part of an append. On disk threads of the log unless set, in memory [`Maintenance::Manual`].
    pub fn maintenance(mut self, who: Maintenance) -> Self {
        self.maintenance = Some(who);
        self
    }

    /// What opening does when it finds damage. [`OnCorruption::IsolatePartition`] unless set.
    pub fn on_corruption(mut self, then: OnCorruption) -> Self {
        self.options.on_corruption = then;
        self
    }

    /// What opening does with a tail that may be more than an interrupted write. [`OnSuspectTail::Cut`] unless set.
    pub fn on_suspect_tail(mut self, then: OnSuspectTail) -> Self {
        self.options.on_suspect_tail = then;
        self
    }

    /// Judges every unclean end by the weaker rule, as after a power loss: for a device that was lost and mounted again
    /// while the machine kept running, which nobody can tell from a process that was killed.
    pub fn assume_power_loss(mut self) -> Self {
        self.options.assume_power_loss = true;
        self
    }

    /// Opens a directory that everybody may write to. It is refused unless this is set.
    pub fn allow_world_writable(mut self) -> Self {
        self.options.allow_world_writable = true;
        self
    }

    /// Called while the partitions are checked: bytes checked so far, bytes to check, as far as is known then (0 of 0 if there
    /// is nothing).
    pub fn on_recovery_progress(mut self, f: impl FnMut(u64, u64) + Send + 'static) -> Self {
        self.options.on_recovery_progress = Some(Box::new(f));
        self
    }

    /// How records are read back from sealed segments. [`ReadMode::Positioned`] unless set.
    pub fn read_mode(mut self, mode: ReadMode) -> Self {
        self.options.read_mode = mode;
        self
    }

    /// The function behind [`Partitioner::Custom`](crate::Partitioner::Custom) of this name: a key and the number of
    /// partitions give the number of a partition. A function cannot be stored with a topic; its name is, and the function is
    /// given at every open. Of two under one name the last counts.
    pub fn partitioner(
        mut self,
        name: &str,
        f: impl Fn(&[u8], u32) -> u32 + Send + Sync + 'static,
    ) -> Self {
        self.options
            .partitioners
            .push((name.to_owned(), Arc::new(f)));
        self
    }

    /// How long the first member of a group waits for others before partitions are shared, so that a service that starts many
    /// shares once. Zero unless set (Kafka: 3 s). Each that joins meanwhile begins it anew, up to the first one's
    /// [`max_poll_interval`](crate::ConsumerBuilder::max_poll_interval). Until it is over polls return nothing.
    pub fn initial_rebalance_delay(mut self, delay: Duration) -> Self {
        self.options.initial_rebalance_delay = delay;
        self
    }

    /// Bytes that the keys of one partition may take while it is compacted: 16 for each key and a third more, whatever its length. 64 MiB
    /// unless set, which is three million keys; where there are more, it takes more rounds and not more memory. Beside this, compaction
    /// takes twice the largest batch and a few MiB. (Kafka: `log.cleaner.dedupe.buffer.size`.) At least 1 KiB.
    pub fn compaction_memory(mut self, bytes: usize) -> Self {
        self.options.compaction_memory = bytes;
        self
    }

    /// How long a committed offset stays that no group uses any more, above zero; then it is forgotten, durably, and who joins that group
    /// begins anew. For ever unless set (Kafka: 7 days), so that an application that was off for two weeks finds its place again. The
    /// rules are Kafka's (KIP-211):
    ///
    /// | The group | Its offset in a topic is forgotten |
    /// | --- | --- |
    /// | has members, and one of them subscribes to the topic | never, however little there is to read |
    /// | has members, and none of them does | so long after its last commit |
    /// | had members | so long after the last one left or was shut out, or after its last commit, if that came later |
    /// | never had any: it commits by hand ([`assign`], [`set_positions`]) | so long after its last commit, of which each renews all its places |
    ///
    /// The time counts while the log is open, and from its opening on at the earliest: nobody knows of a log that was closed when its
    /// groups were left, and whoever was off for longer can join first. (So a program that opens its log anew more often than that
    /// forgets nothing.) It is the time that passes, not the calendar: a clock that is set ahead makes no offset older.
    ///
    /// It is done in maintenance: by the log's thread, or in [`Log::maintain`], which says how many. A commit always wins over it.
    /// A group without members and offsets is no longer in [`Log::groups`]. A member that is silent for its
    /// [`max_poll_interval`](crate::ConsumerBuilder::max_poll_interval) is shut out there too.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::testing::{Disk, ManualClock};
    /// use thalweg::{Log, TopicConfig};
    ///
    /// let (week, clock) = (Duration::from_secs(7 * 24 * 3600), ManualClock::new());
    /// let log = Log::builder().offsets_retention(week).clock(&clock).open_on(&Disk::new())?;
    /// log.create_topic("orders", TopicConfig::new())?.append(("customer-7", "2 x espresso"))?;
    /// let kitchen = log.group("kitchen").subscribe(["orders"]);
    /// // In this example nobody polls for weeks.
    /// let mut kitchen = kitchen.max_poll_interval(Duration::MAX).join()?;
    /// let _ = kitchen.poll(Duration::ZERO)?;
    /// kitchen.commit()?;
    ///
    /// clock.advance(10 * week);
    /// assert_eq!(log.maintain()?.offsets_expired, 0); // it is a member
    /// kitchen.close()?;
    /// clock.advance(week);
    /// assert_eq!(log.maintain()?.offsets_expired, 1);
    /// assert!(log.groups()?.is_empty());
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// [`assign`]: crate::ConsumerGroup::assign
    /// [`set_positions`]: crate::ConsumerGroup::set_positions
    pub fn offsets_retention(mut self, time: Duration) -> Self {
        self.options.offsets_retention = Some(time);
        self
    }

    /// Opens the log in `dir`, or makes one there. The directory is made too; it is locked until the log is closed.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyOpen`] at once if this process or another one has it; [`Error::InvalidSetting`] for a directory that
    /// everybody may write to, or as [`in_memory`](Self::in_memory) has it; [`Error::Corruption`] if `FORMAT` or the catalogue is damaged (damage in a topic or partition
    /// is that one's alone, unless [`on_corruption`](Self::on_corruption) says otherwise); [`Error::Incompatible`] for a log
    /// of a newer version, or one with a topic whose codec (`lz4`, `zstd`) this build lacks; [`Error::NoSpace`],
    /// [`Error::ReadOnly`], [`Error::Io`]; [`Error::Unsupported`] where there is no storage on disk. Nothing is left locked.
    pub fn open(self, dir: impl AsRef<Path>) -> Result<Log> {
        self.open_disk(dir.as_ref(), Access::Write)
    }

    /// A log in memory: the same in every way, until it is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSetting`] for a [`Maintenance::Background`] without a time, too little
    /// [`compaction_memory`](Self::compaction_memory), or an [`offsets_retention`](Self::offsets_retention) of zero.
    pub fn in_memory(self) -> Result<Log> {
        self.open_storage(
            Arc::new(Memory::new()),
            Path::new("/log"),
            Access::Write,
            Maintenance::Manual,
        )
    }

    #[cfg(unix)]
    pub(super) fn open_disk(self, dir: &Path, access: Access) -> Result<Log> {
        let storage = Arc::new(crate::io::disk::Disk);
        self.open_storage(
            storage,
            dir,
            access,
            Maintenance::Background { every: EVERY },
        )
    }

    #[cfg(not(unix))]
    pub(super) fn open_disk(self, _: &Path, _: Access) -> Result<Log> {
        Err(Error::Unsupported {
            engine: "this platform",
            what: "a log on disk",
        })
    }

    pub(super) fn open_storage(
        mut self,
        storage: Arc<dyn Storage>,
        dir: &Path,
        access: Access,
        maintenance: Maintenance,
    ) -> Result<Log> {
        if let Some(Maintenance::Background { every }) = self.maintenance
            && every.is_zero()
        {
            return Err(Error::invalid("maintenance", "`every` must be above zero"));
        }
        if self.options.compaction_memory < 1 << 10 {
            return Err(Error::invalid("compaction_memory", "must be 1 KiB or more"));
        }
        if self.options.offsets_retention == Some(Duration::ZERO) {
            let why = "must be above zero; leave it out to keep offsets for ever";
            return Err(Error::invalid("offsets_retention", why));
        }
        self.options.maintenance = self.maintenance.unwrap_or(maintenance);
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        let inner = open::open(storage, clock, dir, access, self.options)?;
        Ok(Log { inner })
    }
}

/// For tests: simulated storage and a clock that stands still.
#[cfg(feature = "testing")]
impl LogBuilder {
    /// Opens the log in `/log` of a simulated disk.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_on(self, disk: &crate::testing::Disk) -> Result<Log> {
        self.open_storage(
            disk.storage(),
            Path::new("/log"),
            Access::Write,
            Maintenance::Manual,
        )
    }

    /// Runs the log on a clock that only the test moves; nothing waits then. (Leave [`Maintenance::Manual`] as it is: a thread of the
    /// log would look at this clock at times of a real one.)
    pub fn clock(mut self, clock: &crate::testing::ManualClock) -> Self {
        self.clock = Some(clock.shared());
        self
    }
}

impl fmt::Debug for LogBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogBuilder")
            .field("maintenance", &self.maintenance)
            .finish_non_exhaustive()
    }
}
