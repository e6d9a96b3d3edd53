//! A log of this version, byte for byte: what it must be written as, and what must be read from it for ever.
//!
//! The files are kept in `tests/golden/v0`. After a change of the format on purpose, `BLESS=1 cargo test golden` writes them.

mod make;

use super::accumulator::Accumulator;
use super::batch::{BatchHeader, HEADER_LEN, Seed};
use super::body::{check_body_crc, validate};
use super::compress::{Codec, decompress};
use super::extension::Extension;
use super::index::Index;
use super::names;
use super::root::{Catalogue, FormatFile, Manifest, feature};
use super::segment::{Footer, SegmentHeader};
use super::slots::{SlotFile, decode_slots};
use super::state::{self, Entry};
use super::topic::TopicDescription;
use make::{SALT, catalogue, example, files, format_file, manifest, state_entries, topic};
use std::path::{Path, PathBuf};

#[test]
fn the_example_in_the_specification_is_true() {
    let page = include_str!("mod.rs");
    let (_, behind) = page.split_once("```text example\n").unwrap();
    let (lines, _) = behind.split_once("//! ```").unwrap();
    // What stands behind two spaces is a remark.
    let hex = lines.lines().map(|line| {
        let bytes = line.trim_start_matches("//! ");
        bytes.split("  ").next().unwrap_or_default()
    });
    let hex: Vec<&str> = hex.flat_map(str::split_whitespace).collect();
    let written: Vec<String> = example().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, written);
}

fn golden(path: &Path) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/v0")
        .join(path)
}

fn kept(path: impl AsRef<Path>) -> Vec<u8> {
    let path = golden(path.as_ref());
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn what_is_written_are_the_golden_bytes() {
    for (path, bytes) in files() {
        if std::env::var_os("BLESS").is_some() {
            let path = golden(&path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, &bytes).unwrap();
        }
        assert_eq!(kept(&path), bytes, "{}", path.display());
    }
}

#[test]
fn the_golden_segments_are_read() {
    let paths = files();
    let segments = paths
        .iter()
        .filter(|(path, _)| path.extension().is_some_and(|e| e == "log"));
    for (path, _) in segments {
        let bytes = kept(path);
        let (header, _) = SegmentHeader::decode(&bytes).unwrap();
        let name = path.file_name().unwrap();
        assert_eq!(
            names::parse_segment_name(name),
            Some((header.base, header.generation))
        );
        let (batches, end) = batches(&bytes);
        for (header, _, _, body) in &batches {
            assert_eq!(validate(header, body), Ok(()), "{}", path.display());
        }
        if end < bytes.len() {
            let footer = Footer::decode(&bytes[end..], SALT, end as u64).unwrap();
            assert_eq!(footer.accumulator, accumulator(&bytes));
            assert_eq!(footer.file_len(), bytes.len() as u64);
        }
    }
}

#[test]
fn the_other_golden_files_are_read() {
    let payload = |path: &Path, kind| {
        let bytes = kept(path);
        let slots = decode_slots(kind, &bytes).unwrap();
        assert!(!slots.bad_other);
        bytes[slots.newest.unwrap().2].to_vec()
    };
    let paths: Vec<PathBuf> = files().into_iter().map(|(path, _)| path).collect();
    let format = payload(&paths[0], SlotFile::Format);
    assert_eq!(
        FormatFile::decode(&format, feature::RESERVED),
        Ok(format_file())
    );
    let state = state::decode_all(&kept(&paths[1])).unwrap();
    let entries: Vec<Entry> = state.entries.iter().map(|(_, entry)| *entry).collect();
    assert!(state.sound);
    assert_eq!(entries, state_entries());
    let found = payload(&paths[2], SlotFile::Catalogue);
    assert_eq!(Catalogue::decode(&found), Ok(catalogue()));
    let found = payload(&paths[3], SlotFile::TopicConfig);
    assert_eq!(TopicDescription::decode(&found), Ok(topic()));
    let found = payload(&paths[4], SlotFile::Manifest);
    assert_eq!(Manifest::decode(&found), Ok(manifest()));
    assert_eq!(
        Index::decode(&kept(&paths[6]), SALT).unwrap().times.len(),
        1
    );
    assert_eq!(Index::decode(&kept(&paths[8]), SALT).unwrap().covers, 500);
}

fn accumulator(segment: &[u8]) -> Accumulator {
    let mut sum = Accumulator::default();
    for (header, header_crc, ext, body) in batches(segment).0 {
        let times = (ext.max_event_time, header.has_append_times());
        let records = super::body::count(&header, &body).unwrap();
        let append_ms = i64::try_from(header.append_ms).unwrap();
        sum.add(
            records,
            header.body_crc,
            header_crc,
            append_ms,
            times.0,
            times.1,
        );
    }
    sum
}

type Batch = (BatchHeader, u32, Extension, Vec<u8>);

/// The sound batches of a segment, and the position behind the last.
fn batches(segment: &[u8]) -> (Vec<Batch>, usize) {
    let (_, mut at) = SegmentHeader::decode(segment).unwrap();
    let mut batches = Vec::new();
    while let Ok(header) = BatchHeader::decode(&segment[at..], Seed::new(SALT, at as u64)) {
        let total = usize::try_from(header.total_len()).unwrap();
        let batch = &segment[at..at + total];
        let ext = Extension::decode(&batch[HEADER_LEN..header.body_start()]).unwrap();
        let stored = &batch[header.body_start()..];
        assert!(check_body_crc(&header, stored));
        let header_crc = super::batch::stored_header_crc(batch).unwrap();
        batches.push((header, header_crc, ext, plain(&header, &ext, stored)));
        at += total;
    }
    (batches, at)
}

/// The golden bodies are stored uncompressed within their frames, so they are read whatever was compiled in.
fn plain(header: &BatchHeader, ext: &Extension, stored: &[u8]) -> Vec<u8> {
    let Some(len) = ext.uncompressed_len else {
        return stored.to_vec();
    };
    let plain = stored[stored.len() - len as usize..].to_vec();
    let compiled = match header.codec {
        Codec::None => true,
        Codec::Lz4 => cfg!(feature = "lz4"),
        Codec::Zstd => cfg!(feature = "zstd"),
    };
    if compiled {
        assert_eq!(
            decompress(header.codec, stored, len, 100).as_ref(),
            Ok(&plain)
        );
    }
    plain
}
