//! What is kept, and how the rest goes: retention, compaction, and who does it.
//!
//! A topic keeps everything, unless it is told otherwise: the log may be somebody's only copy. There are two ways to tell it, and they
//! may be had together. Both are set in [`TopicConfig`] when a topic is made. A topic that is there stays as it is stored:
//! [`topic_or_create`] with another retention changes nothing, and is no error. [`Topic::alter`] does change it, for old segments too.
//!
//! | | [`Retention`] | [`Compaction`] |
//! | --- | --- | --- |
//! | for | what happened: clicks, orders, measurements | what is: prices, settings, the state of each customer |
//! | keeps | the newest, by age or by bytes | the latest record of each key, however old |
//! | lets go of | whole segments, the oldest first | records that a later one of the same key took the place of |
//! | log start | moves on | stays |
//! | offsets | stay as they are | stay as they are, with gaps between them |
//!
//! Compaction never touches the *last segment* of a partition, the one that is appended to; retention does only when everything in it is too
//! old. It ends, and the next one begins, when it has
//! [`segment_bytes`] (64 MiB), or when [`segment_age`] (7 days) has passed since its first append; [`Partition::roll`] ends it now.
//!
//! # Retention
//!
//! A partition with an age of one hour, at ten o'clock. Above each segment, the time of its newest record.
//!
//! ```text
//!  before     8:10        8:50        9:30        9:59
//!           ┌───────────┬───────────┬───────────┬──────────┐
//!           │ 0 …… 99   │ 100 … 199 │ 200 … 299 │ 300 … 341│
//!           └───────────┴───────────┴───────────┴──────────┘
//!           ▲ log start                                    ▲ end
//!
//!  after                            9:30        9:59
//!                                 ┌───────────┬──────────┐
//!                                 │ 200 … 299 │ 300 … 341│
//!                                 └───────────┴──────────┘
//!                                 ▲ log start            ▲ end: the next record still gets 342
//! ```
//!
//! * A segment goes when its newest record is older than the age. So a record may outlive its age by what its segment spans, and by
//!   the time to the next pass of maintenance.
//! * By size, the oldest go as long as the partition keeps at least so many bytes without them: the limit is what you have for certain, and up to
//!   a segment more is what it takes. Each partition has the limit for itself.
//! * So an age wants a `segment_age` that is a part of it, and a size a `segment_bytes` that is. With the defaults a topic that gets a record now
//!   and then keeps an hour for a week and an hour, and a limit of 1 MiB takes up to 65.
//! * The last segment goes too, once everything in it is too old: the next one is begun first. The partition is then empty, begins where it
//!   ends, and no offset is ever given again.
//! * It is a prefix that goes, always. A segment that stays keeps those behind it.
//!
//! Which time counts? A record's event time may lie in the future by mistake, and would then keep its segment, and those behind it, for as
//! long. So by default it is the smaller of event time and append time ([`RetentionTime::Smaller`]). Whoever imports old records wants
//! [`RetentionTime::AppendTime`], or they go as soon as they come.
//!
//! And the clock itself may be wrong. Append times never go back within a partition; so after one append under a clock that was years ahead,
//! all later ones carry its time, and so does what is appended while the clock is behind. Such times are not believed: where the append times of
//! a segment lie in the future, or may be held up like that, it is as old as the segment behind it, which knows when it was begun (and the last segment ends so
//! that there is one). So once the clock is right again, nothing that was appended meanwhile goes before its time, and everything goes in the end; it may take twice
//! the age. It needs one time that was right before: who makes a new log while the clock says 1970 has records of 1970. Less than an hour is not
//! looked at.
//!
//! A clock that jumps ahead by an hour or more empties nothing at once: for an hour, each pass lets go of one segment of each
//! partition and compacts nothing, and [`MaintenanceReport::clock_jump`] says so. (Of a clock that was ahead already when the log was opened, nobody can
//! tell.)
//!
//! [`Partition::delete_before`] forgets what stands before an offset, now.
//!
//! ## Who reads there
//!
//! A reader that has read a block finishes it; the file is there for as long as it is open. Then it learns that it was overtaken:
//! [`Error::OutOfRange`] from [`entries`] and [`get`], with what there is. A consumer goes on at the log start, and its batch has in
//! [`resets`] what it did not see; with [`OnOutOfRange::Fail`] it gets the error instead, and that partition is halted. Nothing is passed over in
//! silence. The same holds for a group that comes back after a long time.
//!
//! ```
//! use std::time::Duration;
//! use thalweg::testing::TestLog;
//! use thalweg::{Result, Retention, TopicConfig};
//!
//! # fn main() -> Result<()> {
//! let test = TestLog::new();
//! let log = test.log();
//! let hour = Duration::from_secs(3600);
//! let clicks = log.create_topic("clicks", TopicConfig::new().retention(Retention::new().age(hour)))?;
//! clicks.append(("somebody", "early"))?;
//! let mut slow = log.group("slow").subscribe(["clicks"]).join()?;
//!
//! test.advance(2 * hour);
//! log.maintain()?; // a log on disk does this by itself
//! clicks.append(("somebody", "late"))?;
//!
//! let batch = slow.poll(Duration::ZERO)?;
//! let reset = &batch.resets()[0];
//! assert_eq!((reset.from.offset().get(), reset.to.get()), (0, 1));
//! assert_eq!(batch.iter().next().unwrap().value_str()?, "late");
//! # Ok(()) }
//! ```
//!
//! # Compaction
//!
//! Prices by item. `·` is a record that a later one of the same key takes the place of, `†` a tombstone: a key without a value.
//!
//! ```text
//!  before    0       1        2       3       4      5        6       7
//!         ┌───────┬────────┬───────┬───────┬──────┬────────┬───────┬───────┐
//!         │ tea 3 │ milk 1 │ tea 4 │ rum 9 │ rum †│ milk 2 │ tea 5 │ jam 4 │   two segments, and the last
//!         │   ·   │   ·    │   ·   │   ·   │      │        ┃       ┃       │
//!         └───────┴────────┴───────┴───────┴──────┴────────┸───────┸───────┘
//!                                                   the last segment is from 7 on
//!
//!  after                                      4      5        6       7
//!                                         ┌──────┬────────┬───────┬───────┐
//!                                         │ rum †│ milk 2 │ tea 5 │ jam 4 │
//!                                         └──────┴────────┴───────┴───────┘
//!
//!  a day later                                       5        6       7
//!                                                ┌────────┬───────┬───────┐
//!                                                │ milk 2 │ tea 5 │ jam 4 │
//!                                                └────────┴───────┴───────┘
//! ```
//!
//! * Offsets, order, times and headers of what stays are as they were. So offsets have gaps, and a reader passes them; never count records by
//!   subtracting offsets.
//! * Every key needs one: a record without a key is [`Error::KeyRequired`]. (Those from before a topic was compacted stay.) An empty key is a key, and an
//!   empty value is a value.
//! * A *tombstone* first deletes what it stands for, and stays itself for [`tombstone_retention`] (a day) from then on, so that whoever reads from
//!   the beginning within that time learns of it. Then it goes too. Whoever takes longer from the beginning to the end may keep keys that were deleted.
//! * At every moment the latest record of each key is there, and so after a crash at any step: the new file takes the place of the
//!   old ones in one step. A reader sees each offset once at most, and goes on in the new file where it stood in the old one.
//! * "Latest" is at the end of the log, not where a reader is told to stop: of a key that is appended again while you read, what you had not reached
//!   yet may go. A table is complete when you have read on to the end.
//! * [`min_lag`] keeps what is young as it is, for readers who want every change for so long (by the time that counts for retention). [`max_lag`] compacts what is older, however little
//!   there is.
//!
//! A partition is compacted when more than half of its bytes (before the last segment) are new since the last time, or what
//! [`min_dirty_ratio`] says; those with most to do come first. The keys that are new are held in memory, some 22 bytes each and 64 MiB at most
//! ([`compaction_memory`]): where there are more, it takes more rounds, not more memory. With the default segments a small table shrinks once
//! a week: [`max_lag`], or a smaller [`segment_age`] or [`segment_bytes`], makes it sooner.
//!
//! With a retention too, segments go by age and size whatever they hold: the latest values that nobody has renewed go with them.
//!
//! # Committed offsets
//!
//! What a group has committed stays, too, until the group or the topic is deleted. A log whose groups come and go under ever new names
//! can let go of it: with [`offsets_retention`] an offset is forgotten when nobody has used it for so long.
//!
//! ```text
//!    joins        leaves                  joins      leaves                         forgotten
//!      ├── member ──┤                       ├─ member ─┤                                 │
//!  ────┴──────●─────┴───────────────────────┴──────────┴─────────────────────────────────┴──▶
//!           commit  ╰─ counts, to no end ───╯          ╰──────── offsets_retention ──────╯
//! ```
//!
//! * While a member subscribes to a topic, the offsets of its group there stay, however little it reads, as long as it polls. When the last member has left, or was
//!   shut out, the time begins to count.
//! * Of topics that no member of a group subscribes to any more, and of groups that commit by hand, it counts from the last commit.
//! * It counts while the log is open, from its opening on at the earliest. Whoever was off for two weeks finds its place, if it joins
//!   before that time is up again; and a log that is opened anew every day lets go of nothing in a week.
//! * It is the time that passes: a calendar that jumps changes nothing.
//! * A commit at the last moment wins. Who comes later begins as [`start_from`] says, or is told [`Error::NoPosition`] under
//!   [`StartFrom::Fail`].
//!
//! # Who does it, and when
//!
//! On disk a thread of the log (beside the one that syncs), when it is opened and every 30 s from then on; it is there only if some topic needs it, offsets expire, or
//! somebody has joined a group. Or the host: with
//! [`Maintenance::Manual`], which is how a log in memory and a [`TestLog`] are, [`Log::maintain`] does one pass, and says what it did and whether there
//! is more. Appends and polls wait for neither. [`Topic::compact`] compacts one topic now.
//!
//! A disk that writes for compaction has no time for others. So a pass writes and removes in steps (of 4 MiB, or of a large segment), and pauses
//! after each, 75 ms, as long as somebody appends to the log and waits for the sync: about one in a hundred of these appends meets a step, and waits
//! for it. While nobody does, there are no pauses.
//!
//! What cannot be read is never taken for "not there": a pass that meets damage leaves that partition as it is, says so, and goes on with the
//! others. What the thread met can be asked for: [`Log::maintenance_failure`].
//!
//! # For whoever comes from Kafka
//!
//! | Kafka | Here |
//! | --- | --- |
//! | `retention.ms` 7 days | nothing goes unless you say so |
//! | a time in the future keeps its segment | the smaller of event time and append time counts, and none that is to come |
//! | an idle partition is rolled by its next append | by maintenance too, so that it expires and is compacted |
//! | `segment.ms` counts in record times | in the time of the log, from the first append |
//! | `segment.bytes` 1 GiB | 64 MiB |
//! | records without a key are dropped when a topic becomes compacted | they stay: nothing takes their place |
//! | `cleanup.policy=compact,delete` | [`compacted`] and [`retention`] together |
//! | `log.retention.check.interval.ms` 5 min, `log.cleaner.backoff.ms` 15 s | [`Maintenance::Background`], 30 s |
//! | `deleteRecords` | [`Partition::delete_before`] |
//! | `offsets.retention.minutes` 7 days | offsets stay unless you set [`offsets_retention`] |
//!
//! [`Error::KeyRequired`]: crate::Error::KeyRequired
//! [`Error::NoPosition`]: crate::Error::NoPosition
//! [`Error::OutOfRange`]: crate::Error::OutOfRange
//! [`Compaction`]: crate::Compaction
//! [`Log::maintain`]: crate::Log::maintain
//! [`Log::maintenance_failure`]: crate::Log::maintenance_failure
//! [`Maintenance::Background`]: crate::Maintenance::Background
//! [`Maintenance::Manual`]: crate::Maintenance::Manual
//! [`MaintenanceReport::clock_jump`]: crate::MaintenanceReport::clock_jump
//! [`OnOutOfRange::Fail`]: crate::OnOutOfRange::Fail
//! [`Partition::delete_before`]: crate::Partition::delete_before
//! [`Partition::roll`]: crate::Partition::roll
//! [`RetentionTime::AppendTime`]: crate::RetentionTime::AppendTime
//! [`RetentionTime::Smaller`]: crate::RetentionTime::Smaller
//! [`Retention`]: crate::Retention
//! [`TestLog`]: crate::testing::TestLog
//! [`TopicConfig`]: crate::TopicConfig
//! [`Topic::alter`]: crate::Topic::alter
//! [`Topic::compact`]: crate::Topic::compact
//! [`compacted`]: crate::TopicConfig::compacted
//! [`compaction_memory`]: crate::LogBuilder::compaction_memory
//! [`StartFrom::Fail`]: crate::StartFrom::Fail
//! [`entries`]: crate::Partition::entries
//! [`get`]: crate::Partition::get
//! [`max_lag`]: crate::Compaction::max_lag
//! [`min_dirty_ratio`]: crate::Compaction::min_dirty_ratio
//! [`min_lag`]: crate::Compaction::min_lag
//! [`offsets_retention`]: crate::LogBuilder::offsets_retention
//! [`resets`]: crate::Batch::resets
//! [`retention`]: crate::TopicConfig::retention
//! [`segment_age`]: crate::TopicConfig::segment_age
//! [`segment_bytes`]: crate::TopicConfig::segment_bytes
//! [`start_from`]: crate::ConsumerBuilder::start_from
//! [`tombstone_retention`]: crate::Compaction::tombstone_retention
//! [`topic_or_create`]: crate::Log::topic_or_create

// Without the feature there is no `testing` to link to; the page is there all the same.
#![cfg_attr(
    not(feature = "testing"),
    allow(rustdoc::broken_intra_doc_links, rustdoc::private_intra_doc_links)
)]
