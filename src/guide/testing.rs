//! How to test code that uses a log: against crashes, failing disks and time, in memory and without waiting.
//!
//! Storage that fails and a clock that is moved come with the feature `testing`. Enable it for your tests alone:
//!
//! ```toml
//! [dev-dependencies]
//! thalweg = { path = "…", features = ["testing"] }
//! ```
//!
//! # Which one do I take?
//!
//! | To test… | take |
//! | --- | --- |
//! | the logic of a consumer, over crashes, full disks and time | [`TestLog`]: nearly always it is all that is needed |
//! | what code does with records | [`Log::in_memory`](crate::Log::in_memory), without the feature; its clock is the real one |
//! | every crash that a call may meet, files that rot | [`Disk`], and [`LogBuilder::open_on`](crate::LogBuilder::open_on) |
//! | what depends on time | [`ManualClock`], and [`LogBuilder::clock`](crate::LogBuilder::clock) |
//! | against the real thing | a temporary directory, and [`Log::open`](crate::Log::open) |
//!
//! All of them are the log itself: the same code writes the same bytes. Only storage and clock are others. So code
//! under test takes a [`Log`](crate::Log) or a [`ConsumerGroup`](crate::ConsumerGroup), as in production, and no trait of its own is
//! needed to put something else in its place.
//!
//! # The usual way: `TestLog`
//!
//! A [`TestLog`] is a log in memory that outlives its crashes, and the clock that it runs on. The service under test ends by itself
//! when nothing is left to read; then the test looks at what it did, lets the process die, and runs it again.
//!
//! ```
//! use thalweg::testing::{Survives, TestLog};
//! use thalweg::{ConsumerGroup, Result, TopicConfig};
//!
//! /// What is to be tested: it writes down every order, and then says that it is done with it.
//! fn serve(group: &ConsumerGroup, ledger: &mut Vec<String>, dies: bool) -> Result<()> {
//!     let mut consumer = group.subscribe(["orders"]).join()?;
//!     while let Some(batch) = consumer.next_batch()? {
//!         ledger.extend(batch.iter().map(|order| order.position().to_string()));
//!         if dies {
//!             return Ok(()); // before the commit
//!         }
//!         consumer.commit()?;
//!     }
//!     consumer.close()
//! }
//!
//! let test = TestLog::new();
//! let orders = test.log().create_topic("orders", TopicConfig::new())?;
//! orders.append(("customer-7", "2 x espresso"))?;
//!
//! let mut ledger = Vec::new();
//! serve(&test.log().group("accounting"), &mut ledger, true)?;
//! test.crash(Survives::Everything)?;
//! serve(&test.log().group("accounting"), &mut ledger, false)?;
//! assert_eq!(ledger, ["orders-0@0", "orders-0@0"]); // at least once: what was not committed comes again
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! [`Survives`] says what the crash leaves, [`TestLog::advance`] moves the time, [`TestLog::fail_next`] lets a call fail, and a log
//! that is [`blocking`](crate::testing::TestLog::blocking) is for tests of threads that wait for one another. The example
//! `testing_a_consumer` shows all of it. A group of several members is stepped by choosing who polls next, see
//! [`groups`](super::groups#how-to-test-it) and the example `rebalance`.
//!
//! # Nothing waits
//!
//! On a [`TestLog`], and on any log with a [`ManualClock`], [`Consumer::poll`](crate::Consumer::poll) returns at once whatever its timeout (unless the `TestLog`
//! was made blocking), and
//! [`Consumer::next_batch`](crate::Consumer::next_batch) is `None` as soon as nothing is left to read. So the loop of a service ends by
//! itself, on the thread of the test, and the test goes on with what it wants to check. Time passes when the test says so.
//!
//! ```
//! use std::time::Duration;
//! use thalweg::testing::{Disk, ManualClock};
//! use thalweg::{ConsumerGroup, Log, Result, StartFrom, TopicConfig};
//!
//! /// What is to be tested: how many orders came in the last hour?
//! fn recent(group: &ConsumerGroup) -> Result<usize> {
//!     let hour = Duration::from_secs(3600);
//!     let mut consumer = group.subscribe(["orders"]).start_from(StartFrom::Ago(hour)).join()?;
//!     let mut count = 0;
//!     while let Some(batch) = consumer.next_batch()? {
//!         count += batch.len();
//!     }
//!     consumer.close()?;
//!     Ok(count)
//! }
//!
//! let clock = ManualClock::new();
//! let log = Log::builder().clock(&clock).open_on(&Disk::new())?;
//! let orders = log.create_topic("orders", TopicConfig::new())?;
//! orders.append(("customer-7", "2 x espresso"))?;
//! clock.advance(Duration::from_secs(3000));
//! orders.append(("customer-9", "1 x flat white"))?;
//!
//! assert_eq!(recent(&log.group("report"))?, 2);
//! clock.advance(Duration::from_secs(3000));
//! assert_eq!(recent(&log.group("report"))?, 1);
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! # Crashes
//!
//! A [`Disk`] remembers what was synced, and every call before and after. [`Disk::crash`] gives the disk as a crash after any of
//! these calls leaves it; the first disk stays as it is, so one run can be followed by many crashes. A [`CrashModel`] says what goes:
//!
//! | [`CrashModel`] | What happened | What is left |
//! | --- | --- | --- |
//! | `ProcessKill` | panic, abort, `kill -9` | everything that was handed to the operating system |
//! | `LostSuffix` | power cut | what was synced, and the first of the calls since |
//! | `LostPages` | power cut | what was synced, and any pages, sizes and names of what was not |
//! | `GarbagePages` | power cut | the same, with garbage in pages that were never written |
//! | `LyingDevice` | power cut, and the disk had lied about syncs | less than was promised |
//!
//! Here a service appends to one topic what it read from another, and then commits. Whenever it dies, every order is invoiced, and
//! at most the one that it was about is invoiced twice:
//!
//! ```
//! use thalweg::testing::{CrashModel, Disk, ManualClock};
//! use thalweg::{Log, Result, TopicConfig};
//!
//! fn open(disk: &Disk) -> Result<Log> {
//!     Log::builder().clock(&ManualClock::new()).open_on(disk)
//! }
//!
//! /// What is to be tested.
//! fn invoice(log: &Log) -> Result<()> {
//!     let invoices = log.topic("invoices")?;
//!     let group = log.group("accounting");
//!     let mut accounting = group.subscribe(["orders"]).max_poll_records(1).join()?;
//!     while let Some(batch) = accounting.next_batch()? {
//!         for order in &batch {
//!             invoices.append((order.key_str()?, order.value_str()?))?;
//!         }
//!         accounting.commit()?;
//!     }
//!     accounting.close()
//! }
//!
//! let disk = Disk::new();
//! let log = open(&disk)?;
//! log.create_topic("invoices", TopicConfig::new())?;
//! let orders = log.create_topic("orders", TopicConfig::new())?;
//! orders.append_all([("customer-7", "2 x espresso"), ("customer-9", "1 x flat white")])?;
//! let begun = disk.points();
//! invoice(&log)?;
//!
//! for after in begun..=disk.points() {
//!     let crashed = disk.crash(after, CrashModel::ProcessKill, 0);
//!     let log = open(&crashed)?;
//!     invoice(&log)?;
//!     let invoices = log.topic("invoices")?.partition(0)?.entries(..).count();
//!     assert!((2..=3).contains(&invoices), "{invoices} after {after} calls");
//! }
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! [`Disk::variants`] says how many states a crash may leave, so that a test can try all of them, or as many as it likes: each is
//! chosen by a seed. The same calls, crash, model and seed give the same bytes, always.
//!
//! # Failing disks
//!
//! [`Disk::fail`] takes a [`Fault`]: which call fails, on which file, when, how often, and how. [`Disk::set_capacity`] makes the disk
//! small. [`Disk::flip_bit`], [`Disk::zero`] and others damage files behind the log's back. What a log does then is told in
//! [`durability`](super::durability), with an example. A test of a fault that never struck has tested nothing: ask
//! [`Disk::struck`].
//!
//! [`CrashModel`]: crate::testing::CrashModel
//! [`Disk`]: crate::testing::Disk
//! [`Disk::crash`]: crate::testing::Disk::crash
//! [`Disk::fail`]: crate::testing::Disk::fail
//! [`Disk::flip_bit`]: crate::testing::Disk::flip_bit
//! [`Disk::set_capacity`]: crate::testing::Disk::set_capacity
//! [`Disk::struck`]: crate::testing::Disk::struck
//! [`Disk::variants`]: crate::testing::Disk::variants
//! [`Disk::zero`]: crate::testing::Disk::zero
//! [`Fault`]: crate::testing::Fault
//! [`ManualClock`]: crate::testing::ManualClock
//! [`Survives`]: crate::testing::Survives
//! [`TestLog`]: crate::testing::TestLog
//! [`TestLog::advance`]: crate::testing::TestLog::advance
//! [`TestLog::fail_next`]: crate::testing::TestLog::fail_next

// Without the feature there is no `testing` to link to; the page is there all the same.
#![cfg_attr(
    not(feature = "testing"),
    allow(rustdoc::broken_intra_doc_links, rustdoc::private_intra_doc_links)
)]
