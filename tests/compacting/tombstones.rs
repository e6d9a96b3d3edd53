//! F70: a tombstone goes in two phases, so that nobody who was reading when it was told misses it.

use std::collections::BTreeMap;
use std::time::Duration;

use thalweg::{Offset, Partition, Timestamp, TopicConfig};

use super::HOUR;
use super::common::{Dice, scale, seed};
use super::world::{End, Opening, World, eager};

/// Values by key.
type View = BTreeMap<Vec<u8>, Vec<u8>>;

/// Somebody who builds a view of the topic, from its beginning on.
struct Reader {
    began: Timestamp,
    next: u64,
    view: View,
}

impl Reader {
    /// Reads so many records on. `true`: it has come to the end.
    fn read(&mut self, partition: &Partition, records: u64) -> bool {
        let mut entries = partition.entries(Offset::new(self.next)..);
        for _ in 0..records {
            let Some(entry) = entries.next() else {
                return true;
            };
            let entry = entry.unwrap();
            self.next = entry.offset().get() + 1;
            let key = entry.key().unwrap().to_vec();
            match entry.value() {
                Some(value) => self.view.insert(key, value.to_vec()),
                None => self.view.remove(&key),
            };
        }
        false
    }
}

/// What a view of everything that was written holds.
fn truth(world: &World) -> View {
    let mut view = View::new();
    for (rec, _) in world.book.written.values() {
        let key = rec.key.clone().unwrap();
        match &rec.value {
            Some(value) => view.insert(key, value.clone()),
            None => view.remove(&key),
        };
    }
    view
}

struct Told {
    /// When each tombstone may go that a round has reached.
    horizons: BTreeMap<u64, i64>,
    gone: Vec<u64>,
}

impl Told {
    /// Compacts, and looks that exactly those went whose time was up.
    fn compact(&mut self, world: &World, clean: u64, retention: Duration, state: &str) {
        let now = world.clock.now().as_millis();
        world.compact();
        let left = world.book.left(clean);
        let (horizons, gone) = (&mut self.horizons, &mut self.gone);
        for offset in left.iter().filter(|offset| **offset < clean) {
            if world.book.written[offset].0.value.is_some() || gone.contains(offset) {
                continue;
            }
            let horizon = horizons
                .entry(*offset)
                .or_insert(now + i64::try_from(retention.as_millis()).unwrap());
            if *horizon < now {
                gone.push(*offset);
            }
        }
        let expected: Vec<u64> = left.into_iter().filter(|o| !gone.contains(o)).collect();
        let there = world.book.judge(&world.partition());
        assert_eq!(there, Ok(expected), "{state}");
    }
}

fn live(seed: u64, opening: Opening, retention: Duration) {
    let mut dice = Dice::new(seed);
    let how = eager().tombstone_retention(retention);
    let config = TopicConfig::new().segment_bytes(500 + 300 * dice.below(8));
    let mut world = World::with(config.compacted(how), opening);
    let (mut clean, mut readers) = (0, Vec::<Reader>::new());
    let mut told = Told {
        horizons: BTreeMap::new(),
        gone: Vec::new(),
    };
    let mut finished = 0;
    for step in 0..80 {
        let state = format!("seed {seed}, {opening:?}, step {step}");
        match dice.below(8) {
            0..3 => world.fill(1 + dice.below(8), 45, &mut dice),
            3 | 4 => {
                world.roll();
                clean = world.book.end;
                told.compact(&world, clean, retention, &state);
            }
            5 => world.clock.advance(retention / (1 + dice.below(6) as u32)),
            6 => {
                // The same again finds the same.
                world.roll();
                clean = world.book.end;
                told.compact(&world, clean, retention, &state);
                told.compact(&world, clean, retention, &state);
            }
            _ => world.reopen(if dice.once_in(2) {
                End::Close
            } else {
                End::Kill
            }),
        }
        readers.push(Reader {
            began: world.clock.now(),
            next: 0,
            view: View::new(),
        });
        let (partition, now) = (world.partition(), world.clock.now().as_millis());
        let in_time = |reader: &Reader| {
            let took = u64::try_from(now - reader.began.as_millis()).unwrap();
            Duration::from_millis(took) <= retention
        };
        let truth = truth(&world);
        readers.retain_mut(|reader| {
            let at_end = reader.read(&partition, 1 + dice.below(25));
            if at_end && in_time(reader) {
                assert!(reader.view == truth, "{state}: began {:?}", reader.began);
                finished += 1;
            }
            !at_end && in_time(reader)
        });
    }
    assert!(finished > 10 && clean > 0, "{finished} readers");
}

#[test]
fn f70_no_key_comes_back_for_who_reads_to_the_end_in_time() {
    let seed = seed();
    for n in 0..15 * scale() {
        for opening in [Opening::default(), Opening::forgetful()] {
            live(seed + n, opening, HOUR);
        }
    }
}

/// A round ends within a batch, and within a segment: its tombstones are told when all of the batch was reached, and then all alike.
#[test]
fn f70_tombstones_of_a_batch_that_two_rounds_share_are_told_once_and_go_together() {
    for len in [20, 31, 32, 33, 40, 62, 63, 100] {
        let mut world = World::with(TopicConfig::new().compacted(eager()), Opening::forgetful());
        let rec = |n: u64, value| super::common::Rec {
            key: Some(format!("key-{n}").into()),
            value,
            ..Default::default()
        };
        let values: Vec<_> = (0..len).map(|n| rec(n, Some(b"v".to_vec()))).collect();
        let deleted: Vec<_> = (0..len).map(|n| rec(n, None)).collect();
        world.append(&values);
        world.append(&deleted);
        world.roll();
        world.compact();
        let all: Vec<u64> = (len..2 * len).collect();
        assert_eq!(world.offsets(), all);
        world.clock.advance(HOUR);
        world.reopen(End::Close);
        world.compact();
        assert_eq!(world.offsets(), all, "their time is not up yet");
        world.clock.advance(Duration::from_millis(1));
        world.compact();
        assert_eq!(world.offsets(), []);
    }
}

#[test]
fn f70_a_retention_of_zero_keeps_a_tombstone_until_the_next_round_and_no_longer() {
    let how = eager().tombstone_retention(Duration::ZERO);
    let mut world = World::with(TopicConfig::new().compacted(how), Opening::default());
    world.put("k", Some("v"));
    world.roll();
    world.compact();
    world.put("k", None);
    world.roll();
    world.compact();
    assert_eq!(world.offsets(), [1]);
    world.clock.advance(Duration::from_millis(1));
    world.maintain();
    assert_eq!(world.offsets(), []);
    world.put("k", Some("again"));
    assert_eq!(world.offsets_every_way(), [2]);
}

/// Merged with others, rewritten again and again, over openings: each tombstone goes at its own time.
#[test]
fn f70_the_time_of_a_tombstone_stays_with_it_whatever_its_file_becomes() {
    for end in [End::Close, End::Kill, End::PowerLoss] {
        let mut world = World::new(TopicConfig::new());
        for n in 0..5 {
            world.put(&format!("key-{n}"), Some("v"));
            world.put(&format!("key-{n}"), None);
            world.put("other", Some("v"));
            world.roll();
            world.compact();
            assert_eq!(world.segments().len(), 2, "merged");
            world.reopen(end);
            world.clock.advance(HOUR / 5);
        }
        // The first was told an hour ago, and the others later, an interval each.
        for n in 0..5 {
            world.compact();
            let tombstones = world.offsets().len() - 1;
            assert_eq!(tombstones, 5 - n, "not before its time");
            world.clock.advance(Duration::from_millis(1));
            world.maintain();
            assert_eq!(world.offsets().len() - 1, 4 - n);
            world
                .clock
                .advance((HOUR / 5).saturating_sub(Duration::from_millis(1)));
        }
        assert_eq!(world.offsets_every_way(), [14]);
    }
}

/// A pass after the clock jumped ahead neither lets tombstones go nor tells them when they may, until it had time to be put right.
#[test]
fn f78_a_jump_of_the_clock_takes_no_tombstone_and_pins_none() {
    let day = 24 * HOUR;
    for put_right in [true, false] {
        let mut world = World::new(TopicConfig::new());
        world.put("told", Some("value"));
        world.put("told", None);
        world.roll();
        assert!(world.maintain().segments_compacted > 0);
        world.put("new", Some("value"));
        world.put("new", None);
        world.roll();
        let right = world.clock.now();
        let (tombstones, segments) = (vec![1, 2, 3], world.segments());
        world.clock.set(Timestamp::from_millis(
            right.as_millis() + 3650 * day.as_millis() as i64,
        ));
        for _ in 0..2 {
            let report = world.maintain();
            assert!(report.clock_jump.is_some() && report.segments_compacted == 0);
            assert_eq!(world.offsets(), tombstones);
            world
                .clock
                .advance(HOUR.saturating_sub(Duration::from_millis(1)));
        }
        assert_eq!(world.segments(), segments);
        if !put_right {
            // Nobody has: it is believed.
            world.clock.advance(HOUR);
            world.maintain();
            assert_eq!(world.offsets(), [3], "the one whose time is up by now went");
            continue;
        }
        world.clock.set(right);
        world.clock.advance(HOUR + Duration::from_millis(2));
        world.maintain();
        assert_eq!(world.offsets(), [3], "told now");
        world.clock.advance(HOUR + Duration::from_millis(2));
        world.maintain();
        assert_eq!(world.offsets(), [], "and not in ten years");
    }
}
