//! What is new in each version, told as what you would see, and what the format on disk promises.
//!
//! # The format
//!
//! The major version of the format stands in the file `FORMAT`. It is 0, and **version 0 promises nothing**: a log that
//! was written today may not be readable tomorrow. Keep nothing in it that you cannot make again. From version 1 on, what was
//! written stays readable.
//!
//! At any version, a log that a build cannot read is refused with [`Error::Incompatible`](crate::Error::Incompatible) and left
//! as it is: it is never taken for damage, and nothing of it is changed.
//!
//! # 0.1.0, not released
//!
//! The first version. There is
//!
//! * a log on disk or in memory, with recovery after a crash and a report of what was found;
//! * three levels of durability, chosen per topic, with syncs shared by all who wait;
//! * topics of many partitions, made and deleted, with records routed by key; partitions can be added, by a call that says in its name
//!   that keys move then ([`add_partitions_breaking_key_order`](crate::Topic::add_partitions_breaking_key_order)), and the other
//!   settings [altered](crate::Topic::alter) while records are written, the level of durability among them;
//! * records with keys, headers, event times and tombstones, read forwards and backwards, by offset and by time;
//! * appends on condition that nobody else appended;
//! * consumer groups whose members share the partitions, with committed offsets that survive, of which only the latest are kept;
//! * the rules by which Kafka's groups share partitions, with its results, and a trait for a rule of your own; one by one, or all at
//!   once as in Kafka's older protocol;
//! * listeners that are told when partitions come and go; members that are shut out when they do not poll, and come back; static members;
//! * [retention](super::keeping) by age and by size, with a time that a wrong clock or a wrong record does not break; compaction to the latest
//!   record of each key, in bounded memory; both beside appends and reads, by a thread of the log or by the host;
//! * seeks, pauses, automatic commits; groups described, moved and deleted from outside; committed offsets that stay, or
//!   [expire](super::keeping#committed-offsets) by Kafka's rules if that is asked for;
//! * compression with `lz4` and `zstd`;
//! * a log for unit tests, and the storage and clock that it is made of.
//!
//! [Not there yet](crate#not-there-yet) is on the front page.
