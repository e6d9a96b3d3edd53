//! The decoders alone: a record batch, and a whole segment file.

use std::path::Path;
use std::sync::Arc;

use super::golden::{self, Image};
use super::{mend, split};
use crate::entry::{Headers, TimestampType};
use crate::format::accumulator::Accumulator;
use crate::format::batch::{self, BatchHeader, HEADER_LEN};
use crate::format::body::{self, RawRecord};
use crate::format::compress::{self, Codec};
use crate::format::encoder::{Encoder, Place};
use crate::format::extension::{Extension, RecordExtension};
use crate::format::segment::SegmentHeader;
use crate::format::wire::Seed;
use crate::io::memory::Memory;
use crate::io::{File, OpenMode, Storage, write_full};
use crate::offset::{PartitionId, TopicPartition};
use crate::record::Record;
use crate::segment::active::seal_of;
use crate::segment::read::{Want, read};
use crate::segment::scan::{self, Scan, ScanStop, Start};
use crate::segment::{Ground, ReadMode, Segment};

/// Salt and position that a single batch is read at.
const SALT: u64 = 0x5EED;
const POSITION: u64 = 128;
/// No body is unpacked to more than this.
const UNPACKED: u64 = 1 << 20;

/// Seeds of both targets.
pub(super) fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for codec in [Codec::Lz4, Codec::Zstd] {
        let name = format!("{codec:?}").to_lowercase();
        seeds.push(("batch", name, [&[0], &packed(codec)[..]].concat()));
    }
    for (n, (_, file)) in golden::segments(Image::Closed).into_iter().enumerate() {
        let mut at = 128;
        while let Some((_, _, len)) = file.get(at..).and_then(batch::hop) {
            let end = at + len as usize;
            let name = format!("golden-{n}-{at}");
            seeds.push(("batch", name, [&[1], &file[at..end]].concat()));
            at = end;
        }
        seeds.push(("segment", format!("golden-{n}"), [&[1], &file[..]].concat()));
        seeds.push(("segment", format!("raw-{n}"), [&[0], &file[..]].concat()));
    }
    seeds
}

/// A compressed record batch (if the codec was compiled in), as it stands where [`batch`] reads it.
fn packed(codec: Codec) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.start();
    for _ in 0..20 {
        encoder.push(&Record::new("key", "value").header("name", "x"));
    }
    encoder.finish(codec).expect("a few hundred bytes");
    let place = Place {
        salt: SALT,
        position: POSITION,
        base_delta: 0,
        watermark_back: batch::NO_WATERMARK,
        append_ms: 0,
    };
    encoder.place(place).to_vec()
}

/// A record batch: header, extension, body.
///
/// # Panics
///
/// If decoding is not total, or what it says is not so.
pub fn batch(data: &[u8]) {
    let Some((mended, _, bytes)) = split(data) else {
        return;
    };
    let mut bytes = bytes.to_vec();
    if mended {
        let _ = mend::batch(&mut bytes, SALT, POSITION);
    }
    let seed = Seed::new(SALT, POSITION);
    let Ok(header) = BatchHeader::decode(&bytes, seed) else {
        return;
    };
    let ext = &bytes[HEADER_LEN..header.body_start()];
    assert_eq!(
        header.encode(ext, seed),
        bytes[..HEADER_LEN],
        "one encoding"
    );
    let extension = Extension::decode(ext).expect("a header vouches for its extension");
    let Some(stored) = bytes.get(header.body_start()..header.total_len() as usize) else {
        return;
    };
    if !body::check_body_crc(&header, stored) {
        assert!(!mended, "the sum was put right");
        return;
    }
    if header.codec == Codec::None {
        check_body(&header, stored);
        return;
    }
    let len = extension
        .uncompressed_len
        .expect("what is packed says its length");
    if let Ok(plain) = compress::decompress(header.codec, stored, len, UNPACKED) {
        assert_eq!(plain.len(), len as usize, "exactly as declared");
        check_body(&header, &plain);
    }
}

/// Every record that comes out lies in the body; offsets ascend and end where the header says.
fn check_body(header: &BatchHeader, body: &[u8]) {
    let mut last = None;
    let mut count = 0;
    let mut failed = false;
    for record in body::records(header, body) {
        assert!(!failed, "the first error is the last answer");
        let Ok(record) = record else {
            failed = true;
            continue;
        };
        assert!(
            last.is_none_or(|last| last < record.delta),
            "offsets ascend"
        );
        assert!(record.delta <= header.last_delta, "within the batch");
        check_parts(&record, body);
        last = Some(record.delta);
        count += 1;
    }
    assert_eq!(failed, body::validate(header, body).is_err());
    assert!(count <= body.len() as u64, "a record is a byte at least");
    if !failed {
        assert_eq!(last, Some(header.last_delta), "no more and no fewer");
        assert_eq!(body::count(header, body), Ok(count));
        assert!(header.dense_count().is_none_or(|told| told == count));
    }
}

fn check_parts(record: &RawRecord, body: &[u8]) {
    for part in [record.key, record.value, record.headers, record.extension] {
        let there = part != body::Part::NONE;
        assert_eq!(part.of(body).is_some(), there, "a part lies in the body");
    }
    let headers = record.headers.of(body).unwrap_or_default();
    let read: usize = Headers::new(headers).map(|(name, _)| name.len() + 2).sum();
    assert!(headers.is_empty() || read > 0, "headers decode");
    let extension = record.extension.of(body).map(RecordExtension::decode);
    assert!(
        extension.is_none_or(|read| read.is_ok()),
        "extensions decode"
    );
}

/// A segment file: scanned as recovery does it, searched behind the place where that stops, and read as readers do it.
///
/// # Panics
///
/// If one of them panics or gets nowhere, or if reading does not agree with scanning.
pub fn segment(data: &[u8]) {
    let Some((mended, _, bytes)) = split(data) else {
        return;
    };
    let mut bytes = bytes.to_vec();
    if mended {
        let _ = mend::segment(&mut bytes);
    }
    let Ok((header, header_len)) = SegmentHeader::decode(&bytes) else {
        return;
    };
    let again = SegmentHeader::decode(&header.encode()).map(|(again, _)| again);
    assert_eq!(again, Ok(header), "what was read can be written");
    let memory = Memory::new();
    let path = Path::new("/segment.log");
    let file = memory
        .open(path, OpenMode::CreateNew)
        .and_then(|file| write_full(&*file, &bytes, 0).map(|()| file))
        .expect("memory takes everything");
    let scanned = check_scan(&*file, &header, header_len as u64, bytes.len() as u64);
    let ground = Ground::new(Arc::new(memory), 4, ReadMode::Positioned);
    let at = TopicPartition::new("orders", PartitionId::new(header.partition));
    let segment = Segment::new(
        at,
        header,
        header_len as u64,
        path.to_owned(),
        TimestampType::EventTime,
        None,
    );
    if let ScanStop::Sealed(footer) = scanned.stop {
        assert_eq!(footer.position, scanned.end, "a footer follows the batches");
        segment.set_seal(seal_of(footer, header.salt));
    }
    check_read(&ground, &segment, &scanned);
}

fn check_scan(file: &dyn File, header: &SegmentHeader, from: u64, len: u64) -> Scan {
    let start = Start {
        position: from,
        next: header.base,
        accumulator: Accumulator::default(),
    };
    let scanned = scan::scan(file, header, &start, len, 64).expect("memory does not fail");
    assert!(
        scanned.end <= len && scanned.end >= from.min(len),
        "within the file"
    );
    assert!(scanned.next >= header.base, "forwards");
    let mut at = scanned.end + 1;
    while let Some((position, batch)) =
        scan::next_batch(file, header, at, len).expect("memory does not fail")
    {
        assert!(
            position >= at && position + batch.total_len() <= len,
            "forwards"
        );
        at = position + batch.total_len();
    }
    scanned
}

/// Reads everything below the end of the scan, stepping over what is damaged.
fn check_read(ground: &Ground, segment: &Segment, scanned: &Scan) {
    let index = scan::index_below(ground, segment, scanned.end).expect("memory does not fail");
    segment.set_index(index, segment.header_len);
    let (mut offset, mut position) = (segment.base(), segment.header_len);
    let mut records = 0;
    let mut whole = true;
    while offset < scanned.next {
        let want = Want {
            offset,
            position,
            by_index: false,
            end: scanned.next,
            bytes: 512,
        };
        match read(ground, segment, None, &want, None) {
            Ok(None) => break, // nothing is left of a segment that lacks some of its records
            Ok(Some(got)) => {
                let mut next = offset;
                for view in got.chunk.views() {
                    assert!(view.offset.get() >= next, "offsets ascend");
                    next = view.offset.get() + 1;
                    records += 1;
                }
                assert!(got.chunk.next().get() > offset, "forwards");
                (offset, position) = (got.chunk.next().get(), got.position);
            }
            Err(damage) => {
                whole = false;
                assert!(damage.lost.end > offset, "forwards");
                let Some(resume) = damage.resume else { break };
                assert!(resume > position, "forwards");
                (offset, position) = (damage.lost.end, resume);
            }
        }
    }
    if whole {
        assert_eq!(
            records, scanned.accumulator.records,
            "what was scanned is read"
        );
    }
}
