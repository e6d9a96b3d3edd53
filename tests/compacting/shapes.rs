//! F69: compaction up to the last record, of records of every shape: log end and offsets stay, gaps are legal and read in every way.

use std::time::Duration;

use thalweg::{Compression, Durability, ReadMode, Record, TimestampType, TopicConfig};

use super::common::{Dice, Rec, scale, seed};
use super::world::{End, Opening, World, eager};

fn codecs() -> Vec<Compression> {
    vec![
        Compression::None,
        #[cfg(feature = "lz4")]
        Compression::Lz4,
        #[cfg(feature = "zstd")]
        Compression::Zstd,
    ]
}

const LEVELS: [Durability; 3] = [
    Durability::Power,
    Durability::Interval {
        time: Duration::from_secs(1),
        bytes: 2000,
    },
    Durability::Process,
];

/// Everything new is sealed and compacted; exactly what may be there is.
fn compact_all(world: &World, state: &str) {
    world.roll();
    let end = world.partition().offsets().end;
    let before: u64 = lens(world);
    let report = world.compact();
    let after: u64 = lens(world);
    // Where there is little memory, a round may make files larger, by what tombstones are told, and the next one smaller.
    let (freed, net) = (report.bytes_freed, before.saturating_sub(after));
    let slack = if world.opening.memory > 1024 { 0 } else { 200 };
    assert!(
        (net..=net + slack).contains(&freed),
        "{state}: {freed} {net}"
    );
    assert_eq!(world.partition().offsets().end, end, "{state}");
    let left = world.book.judge(&world.partition());
    assert_eq!(left, Ok(world.book.left(world.book.end)), "{state}");
}

fn lens(world: &World) -> u64 {
    let segments = world.segments().into_iter();
    segments
        .map(|path| world.disk.read_file(path).unwrap().len() as u64)
        .sum()
}

fn shape(codec: Compression, times: TimestampType, level: Durability, dice: &mut Dice) {
    let config = TopicConfig::new()
        .segment_bytes(1000 + dice.below(4000))
        .index_interval(100 + dice.below(400) as u32)
        .offset_span(2000)
        .compression(codec)
        .timestamps(times)
        .durability(level);
    let modes = [ReadMode::Positioned, ReadMode::Mapped];
    let opening = Opening {
        memory: [1024, 1 << 20][dice.below(2) as usize],
        mode: modes[dice.below(2) as usize],
    };
    let state = format!("{config:?} {opening:?}");
    let mut world = World::with(config.compacted(eager()), opening);
    world.book.append_times = times == TimestampType::AppendTime;
    for round in 0..4 {
        let keys = [2, 40, 7, 300][round];
        world.fill(12, keys, dice);
        if round == 2 {
            world.batch(1000, keys, dice);
        }
        compact_all(&world, &state);
        if round % 2 == 1 {
            world.reopen(End::Close);
        }
    }
    world.fill(4, 7, dice); // not sealed
    world.offsets_every_way();
}

#[test]
fn f69_records_of_every_shape_keep_their_offsets_times_headers_and_the_end() {
    let mut dice = Dice::new(seed());
    for _ in 0..scale() {
        for codec in codecs() {
            for times in [TimestampType::EventTime, TimestampType::AppendTime] {
                for level in LEVELS {
                    shape(codec, times, level, &mut dice);
                }
            }
        }
    }
}

/// Keys are told apart to the last byte, and however long they are.
#[test]
fn f69_keys_of_any_length_are_equal_byte_for_byte() {
    let long = |last: u8| {
        let mut key = vec![7; 70_000];
        key.push(last);
        key
    };
    let keys = [
        vec![],
        vec![0],
        vec![0, 0],
        long(0),
        long(1),
        b"k".to_vec(),
        b"K".to_vec(),
    ];
    for opening in [Opening::default(), Opening::forgetful()] {
        let mut world = World::with(TopicConfig::new().compacted(eager()), opening);
        for turn in 0..3 {
            let records = keys.iter().map(|key| Rec {
                key: Some(key.clone()),
                value: Some(format!("{turn}").into()),
                ..Rec::default()
            });
            let records: Vec<Rec> = records.collect();
            world.append(&records[..3]);
            world.append(&records[3..]);
            compact_all(&world, "long keys");
            assert_eq!(world.offsets_every_way().len(), keys.len());
        }
    }
}

/// What is filled anew at every round stays of one size, whatever went through it.
#[test]
fn f69_a_topic_of_few_keys_takes_no_more_room_and_no_more_files_as_it_goes_on() {
    let mut dice = Dice::new(seed());
    let config = TopicConfig::new().segment_bytes(4000);
    let mut world = World::new(config.durability(Durability::Process));
    let mut sizes = Vec::new();
    for _ in 0..30 {
        for _ in 0..20 {
            world.batch(5, 10, &mut dice);
        }
        compact_all(&world, "few keys");
        sizes.push((world.segments().len(), lens(&world)));
    }
    let (files, bytes) = *sizes.last().unwrap();
    assert!(files <= 3 && bytes < 3 * sizes[0].1, "{sizes:?}");
    let record = Record::new("key-1", "the next");
    let at = world.partition().append(record).unwrap();
    assert_eq!(at.offset().get(), world.book.end);
}
