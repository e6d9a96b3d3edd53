//! Groups and rebalancing: who reads which partition, what happens when members come and go, and what a service does about it.
//!
//! [`concepts`](super::concepts#groups) says what a group is for. This page is for whoever has several members, keeps state per
//! partition, or comes from Kafka.
//!
//! # What a group is
//!
//! A name, and what was committed under it: for each partition the next offset to read. That is stored, and survives. Its *members*
//! are the [`Consumer`]s of that name that were made in this process and are not closed. They are not stored: when a log is opened, no
//! group has any.
//!
//! The members share the partitions of the topics that they subscribed to. Each partition is read by one member at a time. There is no
//! leader, no heartbeat and no thread: whatever a member does for its group, it does within its own poll.
//!
//! ```text
//!   a member joins, leaves, falls silent; a topic comes, goes
//!        │
//!        ▼
//!   the next poll of any member ──▶ a new target: who should read what       one generation more
//!        │
//!        ▼
//!   each member, in its own polls ──▶ gives up what it should not read ──▶ takes what it should, and nobody reads
//! ```
//!
//! Whoever wants certain partitions, and no group's opinion on it, takes them by hand with [`ConsumerGroup::assign`]: no member, no
//! rebalance, no listener. It commits for the group only while that has no members.
//!
//! # Who gets what
//!
//! An assignor decides. All members name the same, at [`ConsumerBuilder::assignor`]; a member that names another is refused when it
//! joins.
//!
//! | [`assignor`](crate::assignor) | Two members, `orders` and `bills` with 3 partitions each | When a third one joins |
//! | --- | --- | --- |
//! | [`CooperativeSticky`], the default | A `bills-0,2 orders-1`, B `bills-1 orders-0,2` | each gives up one |
//! | [`Sticky`] | the same | the same, but all give up everything first: it implies [`eager`] |
//! | [`Range`](crate::assignor::Range), Kafka's default | A `bills-0,1 orders-0,1`, B `bills-2 orders-2`: equal topics are cut alike | anything may move |
//! | [`RoundRobin`](crate::assignor::RoundRobin) | A `bills-0,2 orders-1`, B `bills-1 orders-0,2`: dealt in turn | anything may move |
//!
//! An [`Assignor`] of your own is a function from members and topics to lists. Members are ordered by their ids, which are their
//! [`client_id`](crate::ConsumerBuilder::client_id) (or `instance_id`, or the name of the group) and the number of their join: the same joins
//! in the same order give the same shares, in every run.
//!
//! # A hand-over, poll by poll
//!
//! Four partitions. Each line is one poll of one member, and shows who reads what after it (`·`: nobody) and what its listener was
//! told. On the right the same with [`eager`], which is how Kafka's older protocol goes.
//!
//! ```text
//!             cooperative, the default                eager
//!             0 1 2 3                                 0 1 2 3
//! A polls     A A A A   assigned 0 1 2 3              A A A A   revoked –, assigned 0 1 2 3
//!                             B joins
//! B polls     A A A A   assigned –                    A A A A   revoked –
//! A polls     A A · ·   revoked 2 3, assigned –       A A · ·   revoked 0 1 2 3, assigned 0 1
//! B polls     A A B B   assigned 2 3                  A A B B   assigned 2 3
//!                             C joins
//! C polls     A A B B   assigned –                    A A B B   revoked –
//! A polls     A A B B   assigned –                    · · B B   revoked 0 1
//! B polls     A A B ·   revoked 3, assigned –         · · B ·   revoked 2 3, assigned 2
//! C polls     A A B C   assigned 3                    · · B C   assigned 3
//! A polls     A A B C                                 A A B C   assigned 0 1
//! ```
//!
//! On the left a partition that stays is read on in every poll. On the right each member gives up all it has, and gets its new share
//! once no member has anything of before. Choose that to test code that will run so, and only then.
//!
//! Partitions move in polls and nowhere else. Until A polls, it owns all four, may go on with them, and commit them; B waits. (If it
//! waits within a poll, A's poll wakes it.) This draws the left half, up to C:
//!
//! ```
//! use std::time::Duration;
//! use thalweg::testing::TestLog;
//! use thalweg::{ConsumerGroup, Result, TopicConfig};
//!
//! fn owners(group: &ConsumerGroup) -> Result<String> {
//!     let partitions = group.describe()?.partitions;
//!     Ok(partitions.iter().map(|of| of.owner.as_deref().map_or("·", |id| &id[..1])).collect())
//! }
//!
//! let test = TestLog::new();
//! test.log().create_topic("orders", TopicConfig::new().partitions(4))?;
//! let group = test.log().group("kitchen");
//! let member = |name: &str| group.subscribe(["orders"]).client_id(name).join();
//! let mut drawn = Vec::new();
//!
//! let mut a = member("A")?;
//! let _ = a.poll(Duration::ZERO)?;
//! drawn.push(owners(&group)?);
//! let mut b = member("B")?;
//! for _ in 0..2 {
//!     for member in [&mut b, &mut a] {
//!         let _ = member.poll(Duration::ZERO)?;
//!         drawn.push(owners(&group)?);
//!     }
//! }
//! assert_eq!(drawn, ["AAAA", "AAAA", "AA··", "AABB", "AABB"]);
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! The example `rebalance` goes on from here: three members with state per partition, one that hangs, one that restarts.
//!
//! # What a listener is told
//!
//! A [`RebalanceListener`] is for whoever keeps something per partition: counts, files, caches. It is given at
//! [`ConsumerBuilder::listener`], or call by call at [`Consumer::poll_with`] and [`Consumer::close_with`], where it may borrow.
//!
//! | Callback | When | With what | What to do | Commit there? |
//! | --- | --- | --- | --- | --- |
//! | [`assigned`](crate::RebalanceListener::assigned) | in `poll`, after each new target, and when something that was to come has come; before any record of it | the new ones alone, possibly none | fetch state, [`seek`](crate::Rebalance::seek) | yes |
//! | [`revoked`](crate::RebalanceListener::revoked) | in `poll`, before partitions go; in `close`, `leave`, `unsubscribe`, if it owns any | those that go; with [`eager`] all, possibly none | commit, hand state over | yes: [`Rebalance::commit`](crate::Rebalance::commit) |
//! | [`lost`](crate::RebalanceListener::lost) | in the next `poll`, `close`, `leave` or `unsubscribe` after it was shut out, if it had any | all it had | drop state: another may be ahead of it | no, there is no handle |
//!
//! * Nothing is told at `join`, and nothing when a consumer is dropped, which could report no error.
//! * They run on the thread that called, under no lock. The time they take counts as time between polls.
//! * An error vetoes nothing: the partitions move, the other callbacks are called, and then the call returns [`Error::Listener`]. A
//!   batch does not come with it; the next poll has it.
//! * The partitions of a deleted topic are `revoked` too, in the next poll.
//! * For one partition, the old owner's `revoked` is over before the new owner's `assigned` begins. After `lost` that cannot be: the
//!   new owner may have begun before the old one knows.
//!
//! # What is committed when
//!
//! | Call | Stores | Of which partitions |
//! | --- | --- | --- |
//! | [`commit`](crate::Consumer::commit) | the position: everything returned so far is done | all that it owns, where the position has moved |
//! | [`commit_durable`](crate::Consumer::commit_durable) | the same, and returns when it survives a power loss | the same |
//! | [`commit_through`](crate::Consumer::commit_through)`(&entry)` | the offset of the entry + 1 | that of the entry |
//! | [`commit_at`](crate::Consumer::commit_at)`(&positions)` | the offsets as given: they are the *next* ones; backwards too | those given; all of them must be its own |
//! | [`Rebalance::commit`](crate::Rebalance::commit) | the position | those that the callback is about |
//! | [`auto_commit`](crate::ConsumerBuilder::auto_commit)`(every)` | what *earlier* polls returned, never backwards | all that it owns; in a `poll` when `every` has passed, before partitions go, and in `close`, `leave`, `unsubscribe` |
//! | [`poll`](crate::Consumer::poll), [`seek`](crate::Consumer::seek), [`close`](crate::Consumer::close), a drop | nothing by themselves | |
//! | [`ConsumerGroup::set_positions`], [`ConsumerGroup::reset`] | the offsets given, or those of a [`StartFrom`] | any, while the group has no members |
//!
//! No member touches what another one reads: who was shut out gets [`Error::Fenced`], and who names a partition that it does not own
//! [`Error::NotAssigned`]. Nothing is stored then.
//!
//! # Who does not poll
//!
//! * A member that does not poll for [`max_poll_interval`](crate::ConsumerBuilder::max_poll_interval) (five minutes unless set, by the
//!   clock of the log) is shut out: when another member polls or joins, or with its own next poll or commit, if it is alone too (and in
//!   maintenance, where [offsets expire](super::keeping#committed-offsets)). Its
//!   commits are [`Error::Fenced`]; its next poll tells its listener of what was `lost`, and joins again as a new member. So a handler
//!   that takes long takes less per poll ([`max_poll_records`](crate::ConsumerBuilder::max_poll_records)) or sets a longer interval.
//! * Waiting is polling: in `poll`, in `next_batch`, and in [`ready`](crate::Consumer::ready) while it is awaited, a member may wait for ever.
//!   Handling is not, and neither is a callback. A consumer that has [paused](crate::Consumer::pause) everything must still poll.
//! * A *static* member has an [`instance_id`](crate::ConsumerBuilder::instance_id). Closed, dropped or silent, it keeps its place for
//!   [`session_timeout`](crate::ConsumerBuilder::session_timeout), 45 s unless set: its partitions rest. Whoever joins under the
//!   same name in that time gets them, nobody else is told anything, and the generation stays (if it names the same topics). Of a silent
//!   one the time counts from when it was shut out. Two live consumers of one name: the newer has the place, and the older is
//!   fenced for good, in `poll` too ([`FencedBy::NewerInstance`]).
//! * [`leave`](crate::Consumer::leave) gives such a place up at once, [`ConsumerGroup::remove_member`] takes it from outside.
//!
//! # What a hand-over does to positions
//!
//! | | A partition that stays | One that goes to another member | Under [`eager`], of the same member |
//! | --- | --- | --- | --- |
//! | where it is read | goes on at its position | where the group has committed | where the group has committed |
//! | returned and not committed | stays returned | is returned again | is returned again |
//! | [paused](crate::Consumer::pause) | stays so | is not | is not |
//! | [halted](crate::Consumer::halted) after an error | stays so | is read, and the error told again | is read, and the error told again |
//!
//! Where nothing is committed, the group begins as [`start_from`](crate::ConsumerBuilder::start_from) says. That is found out once, when the
//! first member joins, and kept while the group has members: so under [`StartFrom::Latest`] too a hand-over before the first
//! commit repeats records and skips none. When the group has no members, it is forgotten. A topic that appears later is read
//! from its first record.
//!
//! # The loop of a service
//!
//! ```
//! # use thalweg::testing::TestLog;
//! # use thalweg::{Batch, TopicConfig};
//! use thalweg::{ConsumerGroup, Error, Result};
//!
//! fn serve(group: &ConsumerGroup, mut handle: impl FnMut(&Batch)) -> Result<()> {
//!     let mut consumer = group.subscribe(["orders"]).join()?;
//!     while let Some(batch) = consumer.next_batch()? { // `None` once somebody called `wake`
//!         handle(&batch);
//!         match consumer.commit() {
//!             Err(Error::Fenced { .. }) => {}          // took too long: others do this batch again, the next poll joins again
//!             done => done?,
//!         }
//!     }
//!     consumer.close()
//! }
//! # let test = TestLog::new();
//! # test.log().create_topic("orders", TopicConfig::new())?.append(("customer-7", "2 x espresso"))?;
//! # let mut seen = 0;
//! # serve(&test.log().group("kitchen"), |batch| {
//! #     if seen == 0 { test.advance(std::time::Duration::from_secs(300)); }
//! #     seen += batch.len();
//! # })?;
//! # assert_eq!(seen, 2);
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! * Start one such loop per thread; each joins for itself. A group uses as many members as there are partitions.
//! * It commits before it polls again, so a hand-over repeats nothing: partitions move in polls.
//! * [`wake`](crate::WakeHandle::wake), from any thread, ends it in order. `?` in the middle drops the consumer: its partitions are free at
//!   once, and nothing more is committed.
//! * `?` also ends it at the first damaged partition. To go on with the others, match on `next_batch` and continue where
//!   [`Error::partition`] names one: that partition is halted, and was told.
//!
//! # How to test it
//!
//! On a [`TestLog`] nothing waits and time stands still, so a rebalance is stepped by choosing who polls next, and a time-out is one
//! call. Code under test takes a [`ConsumerGroup`] or a [`Consumer`], as in production.
//!
//! | To see… | |
//! | --- | --- |
//! | a member that took too long | [`TestLog::fence`], or [`TestLog::advance`] by its `max_poll_interval` while the others poll |
//! | a static member that comes back in time, or too late | close it, [`advance`](crate::testing::TestLog::advance), join again |
//! | who owns what, and who should | [`ConsumerGroup::describe`] |
//! | a rebalance without a cause | [`Consumer::rebalance`] |
//! | a commit that fails | [`TestLog::fail_next`]`(Call::Commit, …)` |
//! | a process that dies | [`TestLog::crash`]: members are gone, commits are there |
//!
//! ```
//! use std::time::Duration;
//! use thalweg::testing::TestLog;
//! use thalweg::{Error, FencedBy, TopicConfig};
//!
//! let test = TestLog::new();
//! test.log().create_topic("orders", TopicConfig::new())?.append(("customer-7", "2 x espresso"))?;
//! let group = test.log().group("kitchen");
//! let join = || group.subscribe(["orders"]).max_poll_interval(Duration::from_secs(60)).join();
//!
//! let mut ann = join()?;
//! assert_eq!(ann.next_batch()?.unwrap().len(), 1);   // she brews, and it takes her two minutes
//! test.advance(Duration::from_secs(120));
//! let mut ben = join()?;
//! assert_eq!(ben.next_batch()?.unwrap().len(), 1);   // he has what was hers
//! ben.commit()?;
//! match ann.commit() {
//!     Err(Error::Fenced { why: FencedBy::PollInterval { limit, .. }, .. }) => assert_eq!(limit.as_secs(), 60),
//!     other => panic!("{other:?}"),
//! }
//! assert!(ann.next_batch()?.is_none());              // a member again, with nothing to do
//!
//! let now = group.describe()?;
//! assert_eq!(now.partitions[0].lag, 0);
//! assert_eq!(now.partitions[0].owner.as_deref(), Some(ben.membership().member()));
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! `next_batch` is `None` there when nothing is left for *this member, now*: what another one still owns may come to it later. A test of
//! several members polls them in turn: after one change, twice around is enough, under [`eager`] too.
//!
//! # What differs from Kafka
//!
//! | | Kafka | Here |
//! | --- | --- | --- |
//! | heartbeats | a thread sends them; without them a member is out after `session.timeout.ms` | none: a member lives as long as its `Consumer`, if it polls |
//! | a rebalance | a barrier; in the newest protocol (KIP-848) none | none; a new target is made at the next poll of any member |
//! | first records | after several polls | in the first poll, if the partitions are free |
//! | assignor | `range` | [`CooperativeSticky`] |
//! | automatic commits | on, every 5 s | off |
//! | begins without a commit | at the end | at the first record |
//! | commit of a partition that is another's | stored, over the other's progress | [`Error::NotAssigned`] |
//! | a commit's metadata string | there is one | there is none |
//! | members | known to the broker | not stored: gone when the log is closed |
//! | committed offsets | expire after 7 days without members | stay until the group or the topic is deleted, or, by the same rules, as long as [`offsets_retention`] says |
//! | that time | goes on while the broker is down | begins anew when the log is opened |
//! | a commit from outside to a group that was left long ago | expires with those before it | has its own time |
//! | two live members with one `instance_id` | the newer wins (classic), or is refused (KIP-848) | the newer wins |
//!
//! Code that is to run on Kafka too sets `assignor` and `start_from`, and does not count on records in its first poll.
//!
//! [`Assignor`]: crate::assignor::Assignor
//! [`Consumer`]: crate::Consumer
//! [`Consumer::close_with`]: crate::Consumer::close_with
//! [`Consumer::poll_with`]: crate::Consumer::poll_with
//! [`Consumer::rebalance`]: crate::Consumer::rebalance
//! [`ConsumerBuilder::assignor`]: crate::ConsumerBuilder::assignor
//! [`ConsumerBuilder::listener`]: crate::ConsumerBuilder::listener
//! [`ConsumerGroup`]: crate::ConsumerGroup
//! [`ConsumerGroup::assign`]: crate::ConsumerGroup::assign
//! [`ConsumerGroup::describe`]: crate::ConsumerGroup::describe
//! [`ConsumerGroup::remove_member`]: crate::ConsumerGroup::remove_member
//! [`ConsumerGroup::reset`]: crate::ConsumerGroup::reset
//! [`ConsumerGroup::set_positions`]: crate::ConsumerGroup::set_positions
//! [`CooperativeSticky`]: crate::assignor::CooperativeSticky
//! [`Error::Fenced`]: crate::Error::Fenced
//! [`Error::Listener`]: crate::Error::Listener
//! [`Error::NotAssigned`]: crate::Error::NotAssigned
//! [`Error::partition`]: crate::Error::partition
//! [`FencedBy::NewerInstance`]: crate::FencedBy::NewerInstance
//! [`RebalanceListener`]: crate::RebalanceListener
//! [`StartFrom`]: crate::StartFrom
//! [`StartFrom::Latest`]: crate::StartFrom::Latest
//! [`Sticky`]: crate::assignor::Sticky
//! [`TestLog`]: crate::testing::TestLog
//! [`TestLog::advance`]: crate::testing::TestLog::advance
//! [`TestLog::crash`]: crate::testing::TestLog::crash
//! [`TestLog::fail_next`]: crate::testing::TestLog::fail_next
//! [`TestLog::fence`]: crate::testing::TestLog::fence
//! [`eager`]: crate::ConsumerBuilder::eager
//! [`offsets_retention`]: crate::LogBuilder::offsets_retention

// Without the feature there is no `testing` to link to; the page is there all the same.
#![cfg_attr(
    not(feature = "testing"),
    allow(rustdoc::broken_intra_doc_links, rustdoc::private_intra_doc_links)
)]
