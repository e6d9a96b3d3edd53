//! What things are called, and how they hang together: from the log down to the record, and back up to groups that read it.
//!
//! # A log, its topics, their partitions
//!
//! ```text
//! log  (a directory, open in one process)
//!  ├─ topic "orders"
//!  │    orders-0 │ 0 │ 1 │ 2 │ 3 │ 4 │─▶ appended here
//!  │    orders-1 │ 0 │ 1 │ 2 │─▶
//!  │    orders-2 │ 0 │ 1 │ 2 │ 3 │─▶
//!  └─ topic "payments"
//!       payments-0 │ 0 │ 1 │─▶
//! ```
//!
//! A [`Log`] is a directory that one process has open. It holds [`Topic`]s, named streams of records. A topic is split into
//! [`Partition`]s, as many as it was made with (and [more](#a-topic-that-grows), if you like). A partition is one sequence: records are appended at its end, stay as they are, and
//! are read in the order in which they were appended. Between partitions there is no order.
//!
//! Partitions are what work is divided by. Records with the same key go to the same partition, so all that is about one
//! customer stays in order, and different customers can be served side by side. A record without a key goes to each partition in
//! turn. How keys are mapped is the topic's [`Partitioner`].
//!
//! ```
//! use thalweg::{Log, Record, TopicConfig};
//!
//! let log = Log::in_memory();
//! let orders = log.create_topic("orders", TopicConfig::new().partitions(3))?;
//! let first = orders.append(("customer-7", "2 x espresso"))?;
//! let second = orders.append(("customer-7", "1 x flat white"))?;
//! assert_eq!(first.topic_partition(), second.topic_partition());
//! assert!(first.offset() < second.offset());
//! orders.append(Record::keyless("we close at six"))?;
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! # A topic that grows
//!
//! [`Topic::add_partitions_breaking_key_order`] adds partitions. The partition of a key is computed from the key and the count, so
//! with another count *many keys move*: of 4 partitions that become 8, about every second key. What moves is where the
//! **next** records of a key go. What was written stays where it is, under the positions it has; so the records of a key that
//! moved are in two partitions, which two members may read side by side, the later record before the earlier one. Keys that
//! did not move keep their order, records without a key never had one.
//!
//! Members find the new partitions in their next poll and read them from their first record. Whoever needs the order lets
//! the groups read to the end before partitions are added, while nothing is appended; or begins with more partitions than members
//! are in sight, which costs little: one that is not used has no file.
//!
//! # Records
//!
//! What goes in is a [`Record`]: a value, and if you like a key, headers, an event time. A record without a value,
//! [`Record::tombstone`], says that its key is deleted; an empty value is a value, and an empty key is a key. What comes out is an
//! [`EntryRef`], which borrows from what was read, or an [`Entry`], which is owned: the record, and its position.
//!
//! # Offsets, and the gaps between them
//!
//! Each record has an [`Offset`] in its partition. It is a name and not a count. Offsets ascend and are never used again, but
//! some are never used at all:
//!
//! ```text
//! orders-2 │ 0 │ 1 │ 2 │ 3 │      nothing      │ 16777216 │ 16777217 │─▶
//! ```
//!
//! Recovery leaves such a gap where it cannot know which offsets had been given out before the power failed, see
//! [`durability`](super::durability). So never compute with offsets: the record after one is the next that is read, and
//! the number of records is found by counting them. A reader passes over a gap without noticing. [`Offset::next`] is the offset
//! *to read from* after a record, whatever is there.
//!
//! Topic, partition and offset together are a [`Position`], written `orders-2@17`. [`Positions`] hold for many partitions the
//! *next* offset to read: everything below is done.
//!
//! # Batches, of two kinds
//!
//! A *record batch* is what one call of [`Topic::append_all`] or [`Partition::append_all`] writes to one partition. After any crash
//! all of it is there, or nothing, and readers see all of it at once. Over several partitions a call of `append_all` is one record
//! batch for each: they may be there in part.
//!
//! A [`Batch`] is what one poll returned: records of any record batches, partition after partition.
//!
//! # Groups
//!
//! Reading removes nothing: any number of readers read the same records, each at its own pace. A [`ConsumerGroup`] is a
//! reader with a name and a memory. Its [`Consumer`] polls, handles what it got, and *commits*: that stores, for the next process too, the next
//! offset of each partition. Whoever joins the group later, in this process or in a later one, goes on there.
//!
//! ```text
//!              committed      position       end
//!                  ▼              ▼           ▼
//! orders-0 │ 0 │ 1 │ 2 │ 3 │ 4 │ 5 │ 6 │ 7 │─▶
//!            done    │  handled,   │ not read
//!                    │ not sure    │ yet
//!                  └──── lag of the group ────┘
//! ```
//!
//! The *position* is where the next poll reads on ([`Consumer::position`]); it moves with each poll. What was *committed*
//! ([`ConsumerGroup::committed`]) moves with [commits](super::groups) alone. The *lag* ([`ConsumerGroup::lag`]) is how far the group is
//! behind, from what it has committed to the end of the partition, in offsets. Gaps that recovery left do not count; those that
//! compaction left do, until they are passed.
//!
//! ```
//! use std::time::Duration;
//! use thalweg::{Log, TopicConfig};
//!
//! let log = Log::in_memory();
//! let orders = log.create_topic("orders", TopicConfig::new())?;
//! orders.append_all((0..10).map(|n| ("customer-7", n.to_string())))?;
//!
//! let group = log.group("kitchen");
//! let mut kitchen = group.subscribe(["orders"]).max_poll_records(6).join()?;
//! assert_eq!(kitchen.poll(Duration::ZERO)?.len(), 6);
//! assert_eq!(group.lag()?[0].1, 10);                   // nothing is committed: all of it is to be read
//! kitchen.commit()?;
//! assert_eq!(group.lag()?[0].1, 4);
//! kitchen.close()?;
//!
//! let mut kitchen = group.subscribe(["orders"]).join()?;
//! assert_eq!(kitchen.poll(Duration::ZERO)?.len(), 4);  // goes on where it had committed
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! A group that has committed nothing begins at the first record there is, unless
//! [`start_from`](crate::ConsumerBuilder::start_from) says otherwise. (Kafka begins at the end.) To look at records without a group,
//! there is [`Partition::entries`].
//!
//! # Members share the partitions
//!
//! Several consumers of one group are its members, usually one per thread. Each partition is read by one member at a time, so
//! a group can use as many members as there are partitions. Each has about the same share:
//!
//! ```text
//!             A alone     B has joined     B has left
//!  orders-0      A             A               A
//!  orders-1      A             A               A
//!  orders-2      A             B               A
//!  orders-3      A             B               A
//! ```
//!
//! (Who gets which is up to an [`assignor`](crate::assignor); unless another is chosen, shares are even and as little moves as can be.)
//!
//! When a member joins or leaves, the shares are settled anew at once, and nobody stops for it. A member learns of it *in its own
//! poll*, and nowhere else: there it gives up what is no longer its own, and takes what it should have and nobody reads any more.
//! So a partition goes to its new owner once the old one has polled again, is closed or dropped, or has not polled for
//! [`max_poll_interval`](crate::ConsumerBuilder::max_poll_interval) and was shut out. Until then the old one may go on with it, and
//! commit it. (One that waits in a poll learns of it at once.) The page on [`groups`](super::groups) has all of it, step by step.
//!
//! The new owner begins where the group has committed. What the old one had handled and not committed is handled again:
//!
//! ```
//! use std::time::Duration;
//! use thalweg::{Log, TopicConfig};
//!
//! const NOW: Duration = Duration::ZERO;
//!
//! let log = Log::in_memory();
//! let orders = log.create_topic("orders", TopicConfig::new().partitions(2))?;
//! for partition in orders.partitions() {
//!     partition.append_all((0..10).map(|n| ("key", n.to_string())))?;
//! }
//! let kitchen = log.group("kitchen");
//!
//! let mut ann = kitchen.subscribe(["orders"]).join()?;
//! assert_eq!(ann.poll(NOW)?.len(), 20);              // alone, she has both partitions
//!
//! let mut ben = kitchen.subscribe(["orders"]).join()?;
//! assert!(ben.poll(NOW)?.is_empty());                // orders-1 is to be his, and she still has it
//! assert!(ann.poll(NOW)?.is_empty());                // here she gives it up, without a commit
//! assert_eq!(ben.poll(NOW)?.len(), 10);              // he handles again what she had handled
//! ben.commit()?;
//!
//! ben.close()?;
//! assert!(ann.poll(NOW)?.is_empty());                // she has it back, and it is done
//! assert_eq!(ann.assignment().len(), 2);
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! # At least once, and where repeats come from
//!
//! Handle first, then commit: then every record is handled at least once. That is the loop of a service:
//!
//! ```
//! # use thalweg::{Consumer, Entry, EntryRef, Log, Result, TopicConfig};
//! # fn handle(_: EntryRef<'_>) -> Result<()> { Ok(()) }
//! fn serve(mut consumer: Consumer) -> Result<()> {
//!     while let Some(batch) = consumer.next_batch()? { // `None` once a wake handle was used
//!         for entry in &batch {
//!             handle(entry)?;
//!         }
//!         consumer.commit()?;
//!     }
//!     consumer.close()
//! }
//! # let log = Log::in_memory();
//! # log.create_topic("orders", TopicConfig::new())?.append(("k", "v"))?;
//! # let consumer = log.group("kitchen").subscribe(["orders"]).join()?;
//! # consumer.wake_handle().wake();
//! # serve(consumer)?;
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! A record is handled again after
//!
//! * a crash, an error or a `close` between handling and commit;
//! * a hand-over of its partition before the commit, or when its member did not poll in time and was shut out. A loop that commits each batch before it polls again, as this one
//!   does, repeats nothing when other members come and go: partitions move within polls only;
//! * a power cut within about a second after the commit: the operating system has a commit when the call returns, and the thread
//!   of the log syncs it in the background (under [`Maintenance::Manual`](crate::Maintenance::Manual) the next
//!   [`Log::maintain`](crate::Log::maintain) does; [`Consumer::commit_durable`](crate::Consumer::commit_durable) waits for it);
//! * [`Consumer::seek`] back, or a commit of an earlier offset by [`Consumer::commit_at`].
//!
//! So a handler does well to be *idempotent*: done twice, it has the effect of once. A position is the name of a record for ever, and
//! a good key for "have I done this?". Commit first and handle then, and each record is handled at most once: some not at all.
//!
//! [`WakeHandle::wake`](crate::WakeHandle::wake) ends `next_batch` at once, also if there are records left: they are for the next
//! one who joins. Whoever wants to have them before it ends polls on until a batch is empty, as the example `tail` does.
//!
//! An empty poll says that nothing more is there for *this* member. That the group is done is said by [`ConsumerGroup::lag`], 0 in
//! every partition: another member may hold records, and leave before it has handled them. The example `flights` does that.
//!
//! # Topics come and go
//!
//! A consumer may subscribe to a topic that does not exist: it waits for it. [`Log::delete_topic`] deletes a topic with its records
//! and with what groups have committed for it. Handles of it then answer [`Error::NotFound`], members let go of it, and its name can be
//! used again at once, for a topic that is another one: it begins at offset 0, and the group reads it from there.
//!
//! ```
//! use std::time::Duration;
//! use thalweg::{Error, Log, TopicConfig};
//!
//! let log = Log::in_memory();
//! let orders = log.create_topic("orders", TopicConfig::new())?;
//! orders.append(("customer-7", "2 x espresso"))?;
//! let mut kitchen = log.group("kitchen").subscribe(["orders"]).join()?;
//! assert_eq!(kitchen.poll(Duration::ZERO)?.len(), 1);
//! kitchen.commit()?;
//!
//! log.delete_topic("orders")?;
//! assert!(matches!(orders.append(("customer-9", "1 x tea")), Err(Error::NotFound { .. })));
//! assert!(kitchen.poll(Duration::ZERO)?.is_empty());
//!
//! log.create_topic("orders", TopicConfig::new())?.append(("customer-9", "1 x tea"))?;
//! assert_eq!(kitchen.poll(Duration::ZERO)?.iter().next().unwrap().offset().get(), 0);
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! [`Batch`]: crate::Batch
//! [`Consumer`]: crate::Consumer
//! [`Consumer::commit`]: crate::Consumer::commit
//! [`Consumer::commit_at`]: crate::Consumer::commit_at
//! [`Consumer::position`]: crate::Consumer::position
//! [`Consumer::seek`]: crate::Consumer::seek
//! [`ConsumerGroup`]: crate::ConsumerGroup
//! [`ConsumerGroup::committed`]: crate::ConsumerGroup::committed
//! [`ConsumerGroup::lag`]: crate::ConsumerGroup::lag
//! [`Entry`]: crate::Entry
//! [`EntryRef`]: crate::EntryRef
//! [`Error::NotFound`]: crate::Error::NotFound
//! [`Log`]: crate::Log
//! [`Log::delete_topic`]: crate::Log::delete_topic
//! [`Offset`]: crate::Offset
//! [`Offset::next`]: crate::Offset::next
//! [`Partition`]: crate::Partition
//! [`Partition::append_all`]: crate::Partition::append_all
//! [`Partition::entries`]: crate::Partition::entries
//! [`Partitioner`]: crate::Partitioner
//! [`Position`]: crate::Position
//! [`Positions`]: crate::Positions
//! [`Record`]: crate::Record
//! [`Record::tombstone`]: crate::Record::tombstone
//! [`Topic`]: crate::Topic
//! [`Topic::add_partitions_breaking_key_order`]: crate::Topic::add_partitions_breaking_key_order
//! [`Topic::append_all`]: crate::Topic::append_all
