//! Makes the files of the golden log.

use crate::clock::Timestamp;
use crate::format::accumulator::Accumulator;
use crate::format::batch::{BatchHeader, MIXED_TIMES, NO_WATERMARK, Seed};
use crate::format::body::records;
use crate::format::compress::Codec;
use crate::format::encoder::{Encoder, Place};
use crate::format::epoch::{Epoch, EpochPartition, Routing, WriteState};
use crate::format::extension::{Extension, ProducerTag, RecordExtension};
use crate::format::index::{BLOOM, Index, KEYS, OffsetEntry, TimeEntry, encode_blocks};
use crate::format::ledger::{self, GroupPosition, kind, put_group_position};
use crate::format::root::{
    Catalogue, CatalogueEntry, Clean, FormatFile, Manifest, Swap, TopicState, feature,
};
use crate::format::segment::{Footer, GapReason, Link, SEGMENT_HEADER_LEN, SegmentHeader};
use crate::format::slots::{SlotFile, encode_file, encode_slot, slot_position};
use crate::format::state::{self, Entry, Point};
use crate::format::topic::{AgeBy, CompactionFields, Level, TopicDescription};
use crate::format::wire::crc;
use crate::format::{MAJOR, names};
use crate::record::Record;
use std::path::{Path, PathBuf};
use std::time::Duration;

const LOG: u128 = 0x1111_1111_2222_4333_8444_5555_5555_5555;
const TOPIC: u128 = 0x0123_4567_89AB_4CDE_8F01_2345_6789_ABCD;
pub(super) const SALT: u64 = 0x0123_4567_89AB_CDEF;
const NOW: u64 = 1_700_000_000_000;

fn place(position: usize, base_delta: u32) -> Place {
    Place {
        salt: SALT,
        position: position as u64,
        base_delta,
        watermark_back: NO_WATERMARK,
        append_ms: NOW,
    }
}

/// The batch of the example in the specification.
pub(super) fn example() -> Vec<u8> {
    let mut encoder = Encoder::new();
    encoder.start();
    encoder.push(&Record::new("k", "hello"));
    encoder.push(&Record::tombstone("k"));
    encoder.finish(Codec::None).unwrap();
    encoder.place(place(SEGMENT_HEADER_LEN, 0)).to_vec()
}

fn header(base: u64, generation: u32) -> SegmentHeader {
    SegmentHeader {
        log: LOG,
        topic: TOPIC,
        partition: 0,
        generation,
        base,
        expected: base,
        gap: GapReason::None,
        offset_span: 1 << 24,
        below_power: false,
        held_up: false,
        open_number: 1,
        created_ms: NOW.cast_signed(),
        salt: SALT,
        prev_link: Link::default(),
        out_link: Link::default(),
    }
}

/// Every field of both extensions, every attribute, an event time beside none.
fn reserved_batch(position: usize, base_delta: u32) -> Vec<u8> {
    let mut fields = Vec::new();
    let extension = RecordExtension {
        version: Some(300),
        previous_of_key: Some(2),
        event_id: Some(TOPIC),
        internal_kind: Some(1),
    };
    extension.encode(&mut fields);
    let mut encoder = Encoder::new();
    encoder.start();
    let event = Record::new("k", "v")
        .header("trace", "00f067aa")
        .header("trace", "");
    let event = event.at(Timestamp::from_millis(-1));
    encoder.push_extended(&event, &fields);
    encoder.push(&Record::new("", "").at(Timestamp::from_millis(i64::MAX)));
    encoder.push(&Record::keyless("no event time"));
    encoder.finish(Codec::None).unwrap();
    encoder.extend(|extension| {
        extension.producer = Some(ProducerTag {
            id: 1,
            epoch: 2,
            first_seq: 3,
        });
        extension.transaction = Some(4);
        extension.delete_horizon = Some(5);
    });
    encoder.place(place(position, base_delta)).to_vec()
}

/// A body in the plainest form of each codec, since what a compressor makes changes with its version.
fn compressed_batch(codec: Codec, position: usize, base_delta: u32) -> Vec<u8> {
    let body = [0b10, 5, b'p', b'l', b'a', b'i', b'n'];
    let len = u8::try_from(body.len()).unwrap();
    let mut stored = match codec {
        Codec::None => Vec::new(),
        // Only literals.
        Codec::Lz4 => vec![len << 4],
        // Magic, one segment of that length, one last raw block of that length.
        Codec::Zstd => vec![0x28, 0xB5, 0x2F, 0xFD, 0x20, len, (len << 3) | 1, 0, 0],
    };
    stored.extend(body);
    // A field that may be skipped.
    let mut ext = Vec::new();
    let extension = Extension {
        uncompressed_len: Some(len.into()),
        ..Extension::default()
    };
    extension.encode(&mut ext);
    ext.extend([200, 1, 0]);
    let header = BatchHeader {
        codec,
        sparse: false,
        event_times: false,
        optional: !MIXED_TIMES,
        body_len: u32::try_from(stored.len()).unwrap(),
        body_crc: crc(&stored),
        base_delta,
        last_delta: 0,
        watermark_back: 1,
        append_ms: NOW + 1,
        ext_len: u16::try_from(ext.len()).unwrap(),
    };
    let seed = Seed::new(SALT, position as u64);
    let mut batch = header.encode(&ext, seed).to_vec();
    batch.extend(ext);
    batch.extend(stored);
    batch
}

/// The even records of the example and of the batch with all reservations.
fn sparse_batch(position: usize) -> Vec<u8> {
    let batch = reserved_batch(0, 0);
    let found = BatchHeader::decode(&batch, Seed::new(SALT, 0)).unwrap();
    let body = &batch[found.body_start()..];
    let mut encoder = Encoder::new();
    encoder.start_sparse();
    for record in records(&found, body).map(Result::unwrap).step_by(2) {
        encoder.push_copy(record.delta, &record, body);
    }
    encoder.finish(Codec::None).unwrap();
    encoder.place(place(position, 2)).to_vec()
}

/// Offsets 0 to 6, sealed; then, behind a gap, compacted ones, not sealed.
fn segments() -> [Vec<u8>; 2] {
    let mut first = header(0, 0).encode().to_vec();
    first.extend(example());
    first.extend(reserved_batch(first.len(), 2));
    first.extend(compressed_batch(Codec::Lz4, first.len(), 5));
    first.extend(compressed_batch(Codec::Zstd, first.len(), 6));
    let footer = Footer {
        last: Some(6),
        next_base: 1 << 24,
        sparse: false,
        accumulator: super::accumulator(&first),
        position: first.len() as u64,
    };
    first.extend(footer.encode(SALT));
    let second = SegmentHeader {
        expected: 7,
        gap: GapReason::Recovery,
        below_power: true,
        prev_link: footer.link(SALT),
        out_link: Link { len: 1, crc: 2 },
        ..header(1 << 24, 1)
    };
    let mut second = second.encode().to_vec();
    second.extend(sparse_batch(second.len()));
    [first, second]
}

fn indexes() -> [Vec<u8>; 2] {
    let offsets = OffsetEntry {
        delta: 0,
        position: 128,
    };
    let times = TimeEntry {
        append_ms: NOW.cast_signed(),
        max_time: NOW.cast_signed(),
        delta: 0,
    };
    let index = Index {
        covers: 500,
        offsets: vec![offsets],
        times: vec![times],
    };
    let reserved = [(KEYS, b"keys".to_vec()), (BLOOM, b"bloom".to_vec())];
    [index.encode(SALT), encode_blocks(SALT, 500, &reserved)]
}

pub(super) fn state_entries() -> [Entry; 4] {
    let point = Point {
        topic: TOPIC,
        partition: 0,
        open_number: 1,
        base: 0,
        generation: 0,
        position: 128,
        offset: 0,
        accumulator: Accumulator::default(),
        journal_position: 0,
        manifest_generation: 1,
    };
    let open = Entry::Open {
        number: 1,
        boot_id: Some(LOG),
        identity: (1, 2, 3),
        catalogue_generation: 2,
        journal_position: 0,
    };
    let close = Entry::Close {
        number: 1,
        catalogue_generation: 2,
    };
    [open, Entry::Checked(point), Entry::Point(point), close]
}

fn state_file() -> Vec<u8> {
    let mut bytes = state::encode_header(SALT);
    for entry in state_entries() {
        let position = bytes.len() as u64;
        state::encode_entry(&entry, SALT, position, &mut bytes);
    }
    bytes
}

pub(super) fn format_file() -> FormatFile {
    FormatFile {
        major: MAJOR,
        required: feature::RESERVED,
        optional: 0,
        log: LOG,
    }
}

pub(super) fn catalogue() -> Catalogue {
    let orders = CatalogueEntry {
        topic: TOPIC,
        name: "Orders".into(),
        state: TopicState::Live,
    };
    let gone = CatalogueEntry {
        topic: LOG,
        name: "gone".into(),
        state: TopicState::Deleting { journal_end: 3 },
    };
    Catalogue {
        entries: vec![orders, gone],
    }
}

pub(super) fn manifest() -> Manifest {
    Manifest {
        log_start: 0,
        highest_generation: 1,
        swap: Some(Swap {
            replaced: vec![(1 << 24, 0)],
            live: (1 << 24, 1),
        }),
        clean: Some(Clean {
            below: 1 << 24,
            horizon: Some(1_700_086_400_000),
        }),
    }
}

pub(super) fn topic() -> TopicDescription {
    let mut first = Epoch::first(1, Routing::Xxh3);
    first.partitions[0].state = WriteState::Sealed { end: 7 };
    let grown = |id| EpochPartition {
        id,
        parents: vec![(0, 7)],
        state: WriteState::Open,
    };
    let second = Epoch {
        id: 1,
        routing: Routing::Custom("by country".into()),
        partitions: vec![grown(1), grown(2)],
    };
    TopicDescription {
        name: "Orders".into(),
        topic: TOPIC,
        partitions: 3,
        partitioner: Routing::Kafka,
        durability: Level::Interval {
            time: Duration::from_millis(100),
            bytes: 1 << 20,
        },
        retention_age: Some(Duration::from_secs(3600)),
        retention_bytes: Some(1 << 30),
        compaction: Some(CompactionFields {
            min_dirty_ratio: Some(0.5),
            tombstone_retention: Some(Duration::from_secs(1)),
            min_lag: Some(Duration::from_secs(2)),
            max_lag: Some(Duration::from_secs(3)),
        }),
        append_time: false,
        retention_time: AgeBy::RecordTime,
        timestamp_limits: Some((Duration::from_secs(4), Duration::from_secs(5))),
        compression: Codec::Lz4,
        index_interval_bytes: 4096,
        segment_bytes: 64 << 20,
        segment_age: Some(Duration::from_secs(6)),
        offset_span: 1 << 24,
        max_record_bytes: 1 << 20,
        max_batch_bytes: 8 << 20,
        key_index: true,
        keyed: true,
        used: vec![true, false, true],
        epochs: vec![first, second],
    }
}

/// A file of two slots, both written.
fn two_slots(kind: SlotFile, payload: &[u8]) -> Vec<u8> {
    const SIZE: u32 = 512;
    let mut file = encode_file(kind, 1, b"before", SIZE).unwrap();
    let slot = encode_slot(kind, 2, payload, SIZE).unwrap();
    let at = usize::try_from(slot_position(2, SIZE)).unwrap();
    file[at..at + slot.len()].copy_from_slice(&slot);
    file
}

/// A segment of the ledger with a record of every kind, and of one to come.
fn ledger_segment() -> Vec<u8> {
    let mut encoder = Encoder::new();
    encoder.start();
    let position = GroupPosition {
        group: "kitchen",
        topic: TOPIC,
        partition: 0,
    };
    let (mut key, mut value) = (Vec::new(), Vec::new());
    position.put(&mut key);
    put_group_position(&mut value, 7, NOW.cast_signed());
    encoder.push(&Record::new(key, value));
    for kind in kind::PRODUCER..=kind::LAST + 1 {
        let mut key = Vec::new();
        ledger::put_key(&mut key, kind, 0, b"key");
        encoder.push(&Record::new(key, "value"));
    }
    encoder.finish(Codec::None).unwrap();
    let header = SegmentHeader {
        topic: 0,
        ..header(0, 0)
    };
    let mut bytes = header.encode().to_vec();
    bytes.extend(encoder.place(place(bytes.len(), 0)));
    bytes
}

/// Every file of the golden log, with its path.
pub(super) fn files() -> Vec<(PathBuf, Vec<u8>)> {
    let topic_dir = Path::new(names::TOPICS).join(names::topic_dir("Orders", TOPIC));
    let partition = topic_dir.join(names::partition_dir(0));
    let [first, second] = segments();
    let [first_index, second_index] = indexes();
    vec![
        (
            names::FORMAT.into(),
            two_slots(SlotFile::Format, &format_file().encode()),
        ),
        (names::STATE.into(), state_file()),
        (
            names::CATALOGUE.into(),
            two_slots(SlotFile::Catalogue, &catalogue().encode()),
        ),
        (
            topic_dir.join(names::CONFIG),
            two_slots(SlotFile::TopicConfig, &topic().encode()),
        ),
        (
            partition.join(names::MANIFEST),
            two_slots(SlotFile::Manifest, &manifest().encode()),
        ),
        (partition.join(names::segment_name(0, 0)), first),
        (partition.join(names::index_name(0, 0)), first_index),
        (partition.join(names::segment_name(1 << 24, 1)), second),
        (partition.join(names::index_name(1 << 24, 1)), second_index),
        (
            Path::new(names::LEDGER).join(names::segment_name(0, 0)),
            ledger_segment(),
        ),
    ]
}
