//! What the bytes on disk mean: the specification, and the code that writes and reads them.
//!
//! Bytes only: nothing here opens a file. Decoding is *total*: any bytes give a value or a [`Bad`], never a panic, and no
//! length that was read is trusted before it was checked against what is there.
//!
//! # Files
//!
//! ```text
//! LOCK FORMAT STATE CATALOGUE ledger/ journal/ quarantine/
//! topics/<escaped name>-<8 hex digits of the UUID>/
//!     config
//!     <partition>/
//!         MANIFEST
//!         <20 digits: base offset>-<8 hex digits: generation>.log   a segment
//!         <20 digits: base offset>-<8 hex digits: generation>.idx   its index
//! ```
//!
//! [`names`] has the rules; a name that is not exactly of these forms is unknown, and left alone.
//!
//! # Numbers and checksums
//!
//! Numbers are little-endian and unsigned unless said otherwise; times are `i64` milliseconds since the epoch. *Varint* is
//! LEB128 in its shortest form, *text* is a varint length and that many bytes of UTF-8. No padding, no alignment.
//!
//! The only checksum is CRC-32 (IEEE, as in zlib). It finds accidents; against forgery it is no help. It is *plain*, or
//! *seeded*: then it runs over the file's salt (u64), the item's position in the file (u64), and then the item, so that bytes
//! in a wrong file or a wrong place do not pass although they are unchanged. A checksum covers its whole item but itself.
//!
//! Zeros never decode, and neither do bytes of 0xFF: magics, sync words, kinds and generations are never all zero or all one.
//!
//! # Head of a file
//!
//! Every file but `LOCK` begins with ([`wire`]):
//!
//! | At | Field | Meaning |
//! |---|---|---|
//! | 0 | `magic` 8 bytes | `TWGform` `TWGstat` `TWGcata` `TWGtopi` `TWGmani` `TWGsegm` `TWGindx`, and a line feed |
//! | 8 | `version` u16 | 0; a greater one is [`Bad::Newer`] |
//! | 10 | `head_len` u16 | of the whole head, 16 to 4096: what a newer version appends is skipped |
//! | 12 | `crc` u32 | plain, over 0–11 and 16–`head_len` |
//! | 16 | fields | of that kind of file |
//!
//! # Segment
//!
//! A head, then record batches one behind the other, then, once sealed, a footer. Fields of the head ([`segment`]):
//!
//! | At | Field | Meaning |
//! |---|---|---|
//! | 16 | `log` u128, `topic` u128 | UUIDs |
//! | 48 | `partition` u32, `generation` u32 | as in the path |
//! | 56 | `base` u64, `expected` u64 | first offset; offset after the predecessor's last: equal, or lower and `gap` says why |
//! | 72 | `offset_span` u32 | no batch reaches `base` + this |
//! | 76 | `flags` u16 | bit 0 `BELOW_POWER`; 1–7 required, zero; 8 `HELD_UP`; 9–15 optional, zero, ignored |
//! | 78 | `gap` u8, zero u8 | 0 none, 1 recovery, 2 repair |
//! | 80 | `open_number` u64, `created_ms` i64 | which opening made it; when its base was reached, by the clock (one that takes the place of others: as the first of them) |
//! | 96 | `salt` u64 | random; the seed of every other checksum in the file |
//! | 104 | `prev_link`, `out_link` | each `len` u64, `crc` u32: length and footer checksum of a sealed file |
//!
//! Footer ([`footer`]), 76 bytes:
//!
//! | At | Field | Meaning |
//! |---|---|---|
//! | 0 | `sync` u16 | 5A C3 |
//! | 2 | `required` u8, `optional` u8 | required: bit 0 sparse, others zero. Optional: zero, ignored |
//! | 4 | `crc` u32 | seeded, over 0–3 and 8–75 |
//! | 8 | `last` u64, `next_base` u64 | last offset, all ones if it never held a record; where the partition goes on |
//! | 24 | `position` u64 | of this footer; file length − 76 |
//! | 32 | accumulator 44 | `records` u64, `crc` u32, `first_append`, `last_append`, `max_event`, `max_smaller` i64 |
//!
//! The accumulator's `crc` goes on, from 0, over header checksum and body checksum of each batch. A record without an event
//! time counts in `max_event` with its append time; `max_smaller` is the greatest of min(record time, append time).
//!
//! # Record batch
//!
//! The unit of atomicity, checksum, compression and index: a header of 36 bytes ([`batch`]), an extension, a body ([`body`]).
//!
//! | At | Field | Meaning |
//! |---|---|---|
//! | 0 | `sync` u16 | B5 4C |
//! | 2 | `required` u8 | bits 0–2 codec (0 none, 1 lz4 block, 2 zstd frame) · 3 sparse · 4 some record has an event time · 5–7 zero |
//! | 3 | `optional` u8 | bit 0: beside bit 4 above, some record has none · others zero, ignored |
//! | 4 | `header_crc` u32 | seeded, over 0–3, 8–35 and the extension |
//! | 8 | `body_len` u32, `body_crc` u32 | of the body as stored; plain |
//! | 16 | `base_delta` u32, `last_delta` u32 | first offset − segment base; last − first. Dense: count − 1 |
//! | 24 | `watermark_back` u32 | durable end when built = first offset − this; all ones: no claim |
//! | 28 | `append_ms` u48 | never falls within a partition |
//! | 34 | `ext_len` u16 | |
//! | 36 | extension | fields `type` u8, `len` u8, bytes: types ascend, each once |
//!
//! The header's checksum covers lengths, offsets, watermark and the body's checksum, so a sound header keeps the boundary to
//! the next batch trustworthy when the body is bad. The body's is plain, so a body is summed before its place is known, and
//! is copied unchanged between producer, journal, partition and compacted file.
//!
//! Fields of the extension: 1 `UNCOMPRESSED_LEN` u32 (exactly if there is a codec) · 2 `PRODUCER` id u64, epoch u32, first
//! sequence u32 · 3 `TRANSACTION` journal position u64 · 4 `DELETE_HORIZON` i64 · 5 `MAX_EVENT_TIME` i64.
//!
//! The body, uncompressed: a sparse batch begins with the count of its records (u32); then, with bit 4, the base event time
//! (i64); then the records and nothing else. A record:
//!
//! | Part | If | Meaning |
//! |---|---|---|
//! | attributes u8 | | bit 0 key, 1 value, 2 headers, 3 event time, 4 extension; 5–7 zero, required |
//! | offset varint | sparse | its offset − the first one; dense batches count on |
//! | event time | bit 3 | zigzag varint: its difference to the base event time, modulo 2⁶⁴ |
//! | key, value | bits 0, 1 | varint length, bytes |
//! | headers | bit 2 | varint length of all, then for each: name as text, value length + 1 as varint (0: none), value |
//! | extension | bit 4 | varint length of all, then fields as above |
//!
//! Fields of a record's extension: 1 `VERSION` varint · 2 `PREVIOUS_OF_KEY` varint, a distance back · 3 `EVENT_ID` 16 bytes ·
//! 4 internal kind, varint. Headers and extensions are never empty. At most 40 bytes stand around a single keyless record without event time.
//!
//! ## Example
//!
//! Two records, `k` → `hello` and the tombstone of `k`, appended at 1,700,000,000,000 ms as the first batch of a segment with
//! the salt 0x0123456789ABCDEF (so at position 128), with no claim of a watermark:
//!
//! ```text example
//! b5 4c                    sync
//! 00 00                    required, optional: dense, no codec, no event times
//! 20 6d 61 7c              header_crc
//! 0c 00 00 00 45 f8 dd f6  body_len 12, body_crc
//! 00 00 00 00 01 00 00 00  base_delta, last_delta: two records
//! ff ff ff ff              watermark_back: no claim
//! 00 68 e5 cf 8b 01        append_ms
//! 00 00                    ext_len
//! 03 01 6b                 key and value; one byte: k
//! 05 68 65 6c 6c 6f        five bytes: hello
//! 01 01 6b                 key alone; one byte: k
//! ```
//!
//! # What may come
//!
//! An unknown version, codec, required bit, record attribute, or field type below 128 is [`Bad::Newer`], and is said only
//! behind a sound checksum: such a batch can be stepped over and copied. An unknown optional bit, field type from 128 on,
//! index block or ledger kind is skipped, and kept where bytes are copied. Reserved and never to be used for anything else:
//! field type 0, kind 0, and every number named on this page. Values that were on disk are never changed, only added to.
//!
//! Required feature bits of `FORMAT` ([`root::feature`]), set durably before their first use: 1 `JOURNAL`, 2 `EPOCHS`, 4
//! `KEY_INDEX`.
//!
//! # The other files
//!
//! * `STATE` ([`state`]): a head with a salt, then entries: `sync` u16 9E 37, kind u8 (1 open, 2 close, 3 point, 4 checked),
//!   zero u8, `crc` u32 (seeded), `len` u32, payload. What does not decode is stepped over.
//! * `FORMAT`, `CATALOGUE`, `config`, `MANIFEST` ([`slots`], [`root`], [`topic`], [`epoch`]): a head with the slots' size (u32)
//!   and the first generation (u64); at 64 two slots, generation *g* in slot *g* mod 2: generation u64, `len` u32, `crc` u32
//!   (seeded by the magic and position 0, so that a slot cannot stray into another kind of file), payload.
//! * `.idx` ([`index`]): a head with the segment's salt, the bytes covered and the count of blocks; then blocks: kind u16
//!   (1 offsets, 2 times, 3 keys and 4 bloom filter reserved), zero u16, `len` u32, `crc` u32 (seeded), payload. A cache.
//! * The ledger is a partition; its records' keys are in [`ledger`].
//!
//! Payloads are the fields of their types, in the order in which those declare them.

#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation
    )
)]

pub(crate) mod accumulator;
pub(crate) mod batch;
pub(crate) mod body;
pub(crate) mod compress;
pub(crate) mod encoder;
pub(crate) mod epoch;
pub(crate) mod extension;
pub(crate) mod footer;
pub(crate) mod index;
pub(crate) mod ledger;
pub(crate) mod names;
pub(crate) mod record;
pub(crate) mod root;
pub(crate) mod segment;
pub(crate) mod slots;
pub(crate) mod state;
mod tlv;
pub(crate) mod topic;
pub(crate) mod wire;

/// Why some bytes did not decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// The item needs at least this many bytes, counted from its start.
    Short { needed: usize },
    /// It fails its checksum, a bound, or a reserved value.
    Corrupt,
    /// It is sound, but was written by a newer version: an unknown codec, required bit, TLV below 128, or version.
    Newer { found: u32, supported: u32 },
}

/// The major version of the format that this crate writes. Version 0 promises nothing.
pub(crate) const MAJOR: u16 = 0;

#[cfg(test)]
mod golden;
