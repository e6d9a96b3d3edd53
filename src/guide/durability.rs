//! What is still there after a crash, a power cut, a full disk or a flipped bit, and what a program should do about it.
//!
//! # The levels
//!
//! A topic is made with a [`Durability`], which says what `Ok` from an append means; its table says what survives what. The
//! default, `Power`, is the strongest, and the slowest: every append waits for the disk. `Process` is right for what can be made
//! again, or for what must survive the program and not the machine. `Interval` bounds what a power cut may cost.
//! [`Topic::alter`](crate::Topic::alter) changes the level while records are written: an import can run at `Process`, and be raised to `Power` when it is done,
//! which makes all of it durable.
//!
//! [`Log::sync`] lifts everything that was written before it to `Power`, whatever the level of its topic; [`Log::close`] does
//! too. Reading is never ahead of safety: a record is seen once it is as safe as its level promises, so at `Power` nothing that
//! somebody saw can be undone by a power cut.
//!
//! Offset commits are handed to the operating system at once and synced within about a second, by the thread of the log; without it
//! ([`Maintenance::Manual`](crate::Maintenance::Manual)) by the next [`Log::maintain`](crate::Log::maintain). A power cut may take
//! the latest ones with it, unless they were made by [`Consumer::commit_durable`](crate::Consumer::commit_durable); then work is [repeated](super::concepts#at-least-once-and-where-repeats-come-from).
//!
//! # What a sync costs, and how it is shared
//!
//! At `Power` the time of an append is the time of a sync. Two things make many appends share one:
//!
//! * [`Topic::append_all`] and [`Partition::append_all`] write many records with one sync per partition.
//! * *Group commit*: threads that append to the same partition while a sync is under way wait for the next one, which one of
//!   them makes for all. So sixteen threads are several times faster than one. Nothing has to be set for it.
//!
//! `cargo bench --bench append` measures all of it on your disk.
//!
//! # Three answers
//!
//! An append that fails is not simply "not there". [`Error::outcome`] has the answer:
//!
//! | Answer | The record | What to do |
//! | --- | --- | --- |
//! | `Ok` | is there, as safe as the level says | go on |
//! | [`Outcome::Rejected`] | is not there, and never will be | mend the cause, try again if you like; [`Error::is_retriable`] says whether that can help |
//! | [`Outcome::Indeterminate`] | may be there or not | do not repeat it blindly: recover the partition or open the log again, then look |
//!
//! A full disk is `Rejected`, and the next append is tried as if nothing had happened. `Indeterminate` comes above all from
//! a sync that failed, and from an `append_all` over several partitions that failed after it had written to some of them.
//!
//! ```
//! use thalweg::testing::{Disk, DiskCall, DiskError, FailedSync, Fault};
//! use thalweg::{Error, Log, Outcome, TopicConfig};
//!
//! let disk = Disk::new();
//! let log = Log::builder().open_on(&disk)?;
//! let orders = log.create_topic("orders", TopicConfig::new())?.partition(0)?;
//! orders.append(("customer-7", "2 x espresso"))?;
//!
//! disk.fail(Fault::error(DiskCall::Write, DiskError::NoSpace).on(".log"));
//! let error = orders.append(("customer-7", "1 x tea")).unwrap_err();
//! assert!(matches!(error, Error::NoSpace { .. }));
//! assert_eq!(error.outcome(), Outcome::Rejected);
//! orders.append(("customer-7", "1 x tea"))?;          // there is room again
//!
//! disk.fail(Fault::sync(DiskCall::SyncData, FailedSync::Keep, DiskError::Io).on(".log"));
//! let error = orders.append(("customer-7", "1 x flat white")).unwrap_err();
//! assert_eq!(error.outcome(), Outcome::Indeterminate);
//!
//! let error = orders.append(("customer-7", "1 x water")).unwrap_err();
//! assert!(matches!(error, Error::Poisoned { .. }));   // nothing more before it is known what is there
//! assert_eq!(orders.entries(..).count(), 2);          // reading goes on
//!
//! orders.recover()?;
//! let newest = orders.entries(..).next_back().unwrap()?;
//! if newest.value_str()? != "1 x flat white" {        // now it is certain
//!     orders.append(("customer-7", "1 x flat white"))?;
//! }
//! assert_eq!(orders.entries(..).count(), 3);
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! # Fail-stop
//!
//! When a sync fails, the operating system may have forgotten the data and marked it as written; a second sync that succeeds would
//! prove nothing. So the partition refuses appends with [`Error::Poisoned`]; the others work on, and reading goes on everywhere.
//! [`Partition::recover`] finds out what is on the disk and makes the partition work again; so does opening the log again. The
//! library never ends the process, but for one case: with [`ReadMode::Mapped`], which is not the default, a disk error while
//! reading does.
//!
//! # Opening after a crash
//!
//! Opening decides by evidence on the disk whether a partition ends in a write that was interrupted, or is damaged.
//!
//! * A *torn tail* is cut off and kept whole in the directory `quarantine`. At `Power` it was never acknowledged.
//! * After a power loss below `Power` nobody can know which offsets had been given out beyond what is left. So the partition goes on
//!   at an offset that none of them can have reached: a gap, see [`TopicConfig::offset_span`]. Positions that are kept
//!   elsewhere, in a database say, never come to mean another record.
//! * *Damage* is never cut and never taken for an end. The partition is read around it, and refuses appends with
//!   [`Error::Corruption`], which names the file and the byte; all others work. [`OnCorruption::RefuseLog`] opens nothing instead.
//!
//! [`Log::recovery`] says what was found, each as a [`Finding`] with file, byte, offsets, and where the cut bytes are kept. After a
//! clean open it is empty. A service should log it; [`FindingKind::Damaged`] is the one that needs a person.
//!
//! ```
//! use thalweg::testing::{CrashModel, Disk};
//! use thalweg::{Durability, Log, TopicConfig};
//!
//! let disk = Disk::new();
//! let log = Log::builder().open_on(&disk)?;
//! let config = TopicConfig::new().durability(Durability::Process);
//! let clicks = log.create_topic("clicks", config)?.partition(0)?;
//! clicks.append(("page-1", "a click"))?;
//! log.sync()?;
//! clicks.append(("page-2", "a click"))?;              // handed to the operating system, and no further
//!
//! let after = disk.crash(disk.points(), CrashModel::LostPages, 0); // the power goes, with all that was not synced
//! let log = Log::builder().open_on(&after)?;
//! let clicks = log.topic("clicks")?.partition(0)?;
//! assert_eq!(clicks.entries(..).count(), 1);
//! let next = clicks.append(("page-3", "a click"))?;
//! assert!(next.offset().get() > 1);                   // offset 1 may have been told to somebody: it stays unused
//! for finding in log.recovery().findings() {
//!     println!("{finding:?}");
//! }
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! There is no repair yet: a damaged partition stays as it is, to be read. What it still holds can be copied to a new topic. Where it is
//! the file of committed offsets, groups whose offsets are not known for certain cannot join: copy the records to a new log.
//!
//! # Copies and backups
//!
//! * Copy the directory of a *closed* log with any tool. The copy is the log.
//! * A *snapshot* of the file system at one instant is to a log what a power cut is: at `Power` it holds every record that was
//!   acknowledged before. Below `Power` call [`Log::sync`] first; the copy goes on behind a gap, since it cannot know what the
//!   original has given out.
//! * A tool that copies *file after file* of a log that is being written makes no backup: opening the copy gives what was
//!   written, or an error, but nobody can say how much.
//!
//! ```
//! use thalweg::testing::{CrashModel, Disk};
//! use thalweg::{Log, TopicConfig};
//!
//! let disk = Disk::new();
//! let log = Log::builder().open_on(&disk)?;
//! log.create_topic("orders", TopicConfig::new())?.append(("customer-7", "2 x espresso"))?;
//! log.close()?;
//!
//! let copy = disk.crash_copy(disk.points(), CrashModel::ProcessKill, 0);
//! let log = Log::builder().open_on(&copy)?;
//! assert!(log.recovery().is_empty());
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! # The directory
//!
//! One process has a log open, and holds a lock on the file `LOCK`; a second one gets [`Error::AlreadyOpen`] at once. The lock goes
//! with the process, so it never has to be removed by hand. A forked child may not write. [`Log::open_read_only`] looks at a log
//! beside the process that writes it. Nothing else may change the files while the log is open.
//!
//! # Limits
//!
//! * **File systems**: local ones, on Linux and macOS. Network file systems are not supported: neither their locks nor their syncs
//!   can be relied on. A disk that lies about syncs can lose what was acknowledged.
//! * **What was tried**: crashes are simulated, at every write and sync, with pages lost, torn and out of order; processes
//!   are really killed, on Linux on x86-64. Real power cuts, XFS and Btrfs under disk errors, and other hardware count as untried.
//! * **The newest records after a power loss**: damage to what was synced last, in the one or two syncs that nothing later speaks for
//!   yet, cannot be told from an interrupted write. It is cut, kept aside and reported as [`FindingKind::SuspectTail`] where whole
//!   batches go, and no offset is used again. [`LogBuilder::on_suspect_tail`] can refuse instead.
//! * **A device that was lost and came back** while the machine ran on looks like a process that was killed:
//!   [`LogBuilder::assume_power_loss`] is for that.
//! * **macOS** tells no boot from another, so every end that was not in order is judged as a power loss: below `Power` offsets then
//!   have a gap after each `kill -9`.
//! * **Checksums** are CRC-32: an accident passes with a chance of one in four billion, and a forger always. What is changed in
//!   memory before it is summed is not found.
//! * **A log that is only looked at** ([`Log::open_read_only`](crate::Log::open_read_only)) while another process makes its committed
//!   offsets smaller may meet a file that has just been removed, and call that damage: look again.
//!
//! [`Durability`]: crate::Durability
//! [`Error::AlreadyOpen`]: crate::Error::AlreadyOpen
//! [`Error::Corruption`]: crate::Error::Corruption
//! [`Error::Poisoned`]: crate::Error::Poisoned
//! [`Error::is_retriable`]: crate::Error::is_retriable
//! [`Error::outcome`]: crate::Error::outcome
//! [`Finding`]: crate::Finding
//! [`FindingKind::Damaged`]: crate::FindingKind::Damaged
//! [`FindingKind::SuspectTail`]: crate::FindingKind::SuspectTail
//! [`Log::close`]: crate::Log::close
//! [`Log::open_read_only`]: crate::Log::open_read_only
//! [`Log::recovery`]: crate::Log::recovery
//! [`Log::sync`]: crate::Log::sync
//! [`LogBuilder::assume_power_loss`]: crate::LogBuilder::assume_power_loss
//! [`LogBuilder::on_suspect_tail`]: crate::LogBuilder::on_suspect_tail
//! [`OnCorruption::RefuseLog`]: crate::OnCorruption::RefuseLog
//! [`Outcome::Indeterminate`]: crate::Outcome::Indeterminate
//! [`Outcome::Rejected`]: crate::Outcome::Rejected
//! [`Partition::append_all`]: crate::Partition::append_all
//! [`Partition::recover`]: crate::Partition::recover
//! [`ReadMode::Mapped`]: crate::ReadMode::Mapped
//! [`Topic::append_all`]: crate::Topic::append_all
//! [`TopicConfig::offset_span`]: crate::TopicConfig::offset_span
