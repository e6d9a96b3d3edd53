//! What the files of a log are, for people who look into its directory.
//!
//! ```text
//! data/
//! ├── LOCK                         locked while a process has the log open
//! ├── FORMAT                       what this directory is: version, identity, features in use
//! ├── STATE                        openings, closes, and up to where everything is known to be synced
//! ├── CATALOGUE                    the topics that there are
//! ├── ledger/                      what groups have committed; inside it is as a topic
//! ├── quarantine/                  bytes that recovery cut off, once there are any
//! └── topics/
//!     └── orders-5d2f0c1a/         name of the topic, and eight digits of its identity
//!         ├── config               how the topic is set up
//!         ├── 0/                   a partition, once it was written to
//!         │   ├── MANIFEST         once a segment was removed or replaced
//!         │   ├── 00000000000000000000-00000000.log
//!         │   ├── 00000000000000000000-00000000.idx
//!         │   └── 00000000000000512000-00000000.log
//!         └── 1/ …
//! ```
//!
//! In the name of a topic's directory capital letters are written small, with a `%` before them. A file whose name is none of these is
//! not the log's: it is reported at opening, as [`FindingKind::UnknownFiles`](crate::FindingKind::UnknownFiles), and left alone.
//!
//! # Segments
//!
//! A partition is a row of *segments*, the `.log` files. The first number in the name is the offset that it begins at, the
//! second tells files apart that begin at the same one. Records are appended to the last segment only; when it is full
//! ([`segment_bytes`](crate::TopicConfig::segment_bytes)) it is sealed with a footer, synced, and never changed again.
//!
//! ```text
//!  …512000-….log
//!  ┌────────┬───────┬───────┬───────┬─────────────
//!  │ head   │ batch │ batch │ batch │ appended here      the last segment
//!  └────────┴───────┴───────┴───────┴─────────────
//!  ┌────────┬───────┬───────┬───────┬────────┐
//!  │ head   │ batch │ batch │ batch │ footer │           a sealed one
//!  └────────┴───────┴───────┴───────┴────────┘
//! ```
//!
//! * The *head* says which log, topic and partition the file belongs to, so that a file in a wrong place is found out, and how
//!   it follows on the segment before.
//! * A *batch* is what one append wrote: a header of 36 bytes, and a body with the records, compressed if the topic says so.
//!   Header and body have checksums of their own. That of the header covers the place of the batch in its file, and all lengths
//!   and offsets: with a sound header the next batch is found although the body is damaged.
//! * The header also says up to where the partition was known to be synced when the batch was made. That is how recovery tells
//!   damage from a write that was interrupted: what is synced cannot be interrupted.
//!
//! A single record without a key takes at most 40 bytes more than its value, in batches of a hundred at most 4 each.
//!
//! # What may be removed
//!
//! Of a log that is closed: `.idx` files, which are made again when they are needed, and what is in `quarantine`. Nothing else: a
//! missing segment or topic is damage, and is reported as such. Losing `STATE` costs no record, only certainty about how the
//! log was left. To be rid of a topic, call [`Log::delete_topic`](crate::Log::delete_topic).
//!
//! # Every byte
//!
//! The specification stands in the sources, in `src/format/mod.rs`: every field, what each checksum covers, what is reserved,
//! and an example byte by byte that a test writes and compares. What the format promises is in [`changes`](super::changes).
