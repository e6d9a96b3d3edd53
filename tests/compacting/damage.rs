//! F67, F68: files that a compaction left unfinished or that the manifest forgot, and bytes that cannot be read.

use std::time::Duration;

use thalweg::testing::DiskCall;
use thalweg::{FindingKind, Offset, Retention, TopicConfig};

use super::HOUR;
use super::common::{Dice, Rec, seed};
use super::forge;
use super::latest::Book;
use super::logs::{files, len, open_with, t0};
use super::world::{End, World, eager};

/// Bytes of a segment before its first batch, and behind its last.
const HEADER: u64 = 128;
const FOOTER: u64 = 76;

/// A topic of two partitions: of the first, one segment is clean and two are new; of the other, two are new.
fn begin(dice: &mut Dice, config: TopicConfig) -> (World, Book) {
    let mut world = World::with(
        config.partitions(2).segment_bytes(600),
        super::world::Opening::default(),
    );
    world.fill(3, 6, dice);
    world.roll();
    world.compact();
    for _ in 0..2 {
        world.fill(3, 6, dice);
        world.roll();
    }
    let other = world.topic().partition(1).unwrap();
    let mut book = Book::default();
    for n in 0..8 {
        book.put(&other, &world.clock, &format!("key-{}", n % 2), Some("v"));
        if n % 4 == 3 {
            other.roll().unwrap();
        }
    }
    (world, book)
}

#[test]
fn f68_a_corrupt_batch_anywhere_stops_compaction_which_keeps_what_it_has_and_says_so() {
    let mut dice = Dice::new(seed());
    let mut flips = 0;
    for round in 0.. {
        let (mut world, other) = begin(&mut dice, TopicConfig::new().compacted(eager()));
        let places: Vec<_> = files(&world.disk, "t", ".log")
            .into_iter()
            .filter(|path| path.parent().is_some_and(|dir| dir.ends_with("0")))
            .flat_map(|path| {
                let end = len(&world.disk, &path).saturating_sub(FOOTER);
                (HEADER..end.max(HEADER)).map(move |byte| (path.clone(), byte))
            })
            .collect();
        let at = round * 7 + dice.below(7);
        let Some((path, byte)) = places.get(at as usize) else {
            break;
        };
        let bit = 8 * byte + dice.below(8);
        world.disk.flip_bit(path, bit).unwrap();
        let damaged = world.disk.read_file(path).unwrap();
        let state = format!("bit {bit} of {}", path.display());

        let failed = world.topic().compact().expect_err(&state);
        assert!(failed.is_corruption(), "{state}: {failed:?}");
        let kept = world.disk.read_file(path).unwrap_or_default();
        assert!(kept == damaged, "{state}: it was changed");
        let healthy = world.topic().partition(1).unwrap();
        assert_eq!(other.judge(&healthy), Ok(other.left(8)), "{state}");
        passes(&mut world, &state);
        readable(&world, &state);
        world.reopen(End::Kill);
        readable(&world, &state);
        assert!(world.topic().compact().is_err(), "{state}, reopened");
        flips += 1;
    }
    println!("{flips} flips");
    assert!(flips > 40, "{flips}");
}

/// A pass tells of it once, and again when there is more.
fn passes(world: &mut World, state: &str) {
    let failed = world.log.maintain().expect_err(state);
    assert!(failed.is_corruption(), "{state}: {failed:?}");
    world.disk.mark();
    for _ in 0..3 {
        world.maintain();
    }
    let reads = world.disk.calls().get(&DiskCall::Read).copied();
    assert_eq!(reads, None, "{state}: it was tried again");
    world.put("key-0", Some("more"));
    world.roll();
    let failed = world.log.maintain().expect_err(state);
    assert!(failed.is_corruption(), "{state}: {failed:?}");
}

/// Everything that was there is there, or an error names it.
fn readable(world: &World, state: &str) {
    let (mut seen, mut lost) = (Vec::new(), Vec::new());
    for entry in world.partition().entries(..) {
        match entry {
            Ok(entry) => {
                world.book.check(&entry).unwrap();
                seen.push(entry.offset().get());
            }
            Err(thalweg::Error::Corruption { lost: Some(of), .. }) => lost.push(of.1.clone()),
            Err(e) => panic!("{state}: {e:?}"),
        }
    }
    let told = |offset: u64| lost.iter().any(|of| of.contains(&Offset::new(offset)));
    for offset in world.book.left(world.book.end) {
        let there = seen.binary_search(&offset).is_ok();
        assert!(
            there || told(offset),
            "{state}: {offset} of {seen:?}, {lost:?}"
        );
    }
}

#[test]
fn f68_where_retention_has_taken_the_damage_compaction_goes_on() {
    let mut dice = Dice::new(seed());
    let config = TopicConfig::new().retention(Retention::new().age(HOUR));
    let (mut world, _) = begin(&mut dice, config.compacted(eager()));
    let first = world.segments()[0].clone();
    world.clock.advance(HOUR / 2);
    for _ in 0..2 {
        world.fill(3, 6, &mut dice);
        world.roll();
    }
    world.disk.flip_bit(&first, 8 * 150).unwrap();
    assert!(world.log.maintain().unwrap_err().is_corruption());
    assert_eq!(world.maintain().segments_compacted, 0);
    world.clock.advance(HOUR / 2 + Duration::from_secs(1));
    let report = world.maintain();
    assert!(
        report.segments_deleted > 0 && report.segments_compacted > 0,
        "{report:?}"
    );
    world.book.start = world.partition().offsets().start.get();
    assert_eq!(world.offsets(), world.book.left(world.book.end));
}

#[test]
fn f67_a_manifest_that_has_forgotten_the_live_file_is_damage_and_nothing_is_removed() {
    let mut dice = Dice::new(seed());
    let mut world = World::new(TopicConfig::new());
    for round in 0..3 {
        world.fill(6, 4, &mut dice);
        world.roll();
        let manifest = files(&world.disk, "t", "MANIFEST").pop();
        let older = manifest.map(|path| world.disk.read_file(&path).map(|bytes| (path, bytes)));
        world.compact();
        world.log.clone().close().unwrap();
        let (path, older) = match older {
            Some(older) => older.unwrap(),
            None => (files(&world.disk, "t", "MANIFEST")[0].clone(), Vec::new()),
        };
        let now = world.disk.read_file(&path).unwrap();
        if older.is_empty() {
            world.disk.remove(&path).unwrap();
        } else {
            world.disk.write_file(&path, &older).unwrap();
        }
        let before = world.disk.files();
        let log = open_with(&world.disk, &world.clock);
        let findings = log.recovery().findings();
        let damaged = findings.iter().any(|f| f.kind == FindingKind::Damaged);
        assert!(damaged, "{round}: {findings:?}");
        let refused = t0(&log).append(("key-0", "v")).unwrap_err();
        assert!(refused.is_corruption(), "{refused:?}");
        assert!(
            log.topic("t")
                .unwrap()
                .compact()
                .unwrap_err()
                .is_corruption()
        );
        log.close().unwrap();
        let there = world.disk.files();
        assert!(
            before
                .iter()
                .all(|(path, _)| there.iter().any(|(p, _)| p == path))
        );
        // With its manifest it is what it was.
        world.disk.write_file(&path, &now).unwrap();
        world.log = open_with(&world.disk, &world.clock);
        assert_eq!(world.offsets(), world.book.left(world.book.end), "{round}");
    }
}

/// A newer version said something of a batch that this one does not know. It stays whole, and what deletes a part of it stays too.
#[test]
fn f70_a_value_that_cannot_be_left_out_does_not_come_back() {
    let mut world = World::new(TopicConfig::new());
    let records = [("k", 1), ("other", 2)].map(|(key, n)| {
        let mut rec = Rec::numbered(n, 10);
        rec.key = Some(key.into());
        rec
    });
    world.append(&records);
    world.roll();
    world.log.clone().close().unwrap();
    let path = world.segments()[0].clone();
    let mut bytes = world.disk.read_file(&path).unwrap();
    let batch = forge::batches(&bytes)[0].position;
    bytes[batch + 3] |= 0x80;
    forge::sum_batch_header(&mut bytes, batch);
    world.disk.write_file(&path, &bytes).unwrap();
    world.log = world.opening.open(&world.disk, &world.clock);
    world.put("k", None);
    for _ in 0..3 {
        world.roll();
        world.compact();
        assert_eq!(world.offsets_every_way(), [0, 1, 2]);
        world.clock.advance(2 * HOUR);
        world.maintain();
        world.reopen(End::Close);
    }
    // When all of the batch is superseded it goes.
    world.append(&records);
    world.roll();
    world.compact();
    assert_eq!(world.offsets(), [3, 4]);
}
