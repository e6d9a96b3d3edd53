//! Rounds that others come between: who deletes, recovers, compacts too, closes, or takes the topic away.

use std::sync::Barrier;
use std::thread;

use thalweg::{Error, Offset, Result, Retention, TopicConfig};

use super::common::{Dice, scale, seed};
use super::logs::{files, open_with};
use super::world::{Opening, World, assert_tidy, eager};

/// A partition of many small segments, which take many rounds of many swaps.
fn long() -> World {
    let mut dice = Dice::new(seed());
    let config = TopicConfig::new()
        .segment_bytes(500)
        .retention(Retention::new().bytes(u64::MAX))
        .compacted(eager());
    let mut world = World::with(config, Opening::forgetful());
    world.fill(120, 60, &mut dice);
    world.roll();
    world
}

/// Compacts until there is nothing to do, beside `others`.
fn beside(world: &World, others: &[&(dyn Fn() + Sync)]) -> Result<()> {
    let (topic, barrier) = (world.topic(), Barrier::new(others.len() + 1));
    thread::scope(|scope| {
        for other in others {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                other();
            });
        }
        barrier.wait();
        topic.compact().map(drop)
    })
}

/// They wait for each other, and each comes to its end.
#[test]
fn several_who_compact_one_partition_come_to_an_end() {
    for _ in 0..3 * scale() {
        let world = long();
        let compact = || {
            world.topic().compact().unwrap();
        };
        let maintain = || while world.log.maintain().unwrap().more {};
        beside(&world, &[&compact, &compact, &maintain]).unwrap();
        world.compact();
        let left = world.offsets_every_way();
        assert_eq!(left, world.book.left(world.book.end));
        assert_tidy(&world.disk, world.segments().len(), "together");
    }
}

#[test]
fn deletions_recoveries_and_appends_come_between_and_nothing_is_lost() {
    for _ in 0..2 * scale() {
        let mut world = long();
        let half = world.book.end / 2;
        let delete = || {
            for before in 0..half {
                world
                    .partition()
                    .delete_before(Offset::new(before))
                    .unwrap();
            }
        };
        let recover = || {
            for _ in 0..100 {
                assert!(world.partition().recover().unwrap().is_empty());
            }
        };
        let read = || {
            for _ in 0..20 {
                let mut offsets = Vec::new();
                for entry in world.partition().entries(..) {
                    match entry {
                        Ok(entry) => offsets.push(entry.offset().get()),
                        Err(Error::OutOfRange { .. }) => break,
                        Err(e) => panic!("{e:?}"),
                    }
                }
                assert!(offsets.is_sorted());
            }
        };
        beside(&world, &[&delete, &recover, &read]).unwrap();
        world.compact();
        world.book.start = half - 1;
        let left = world.offsets_every_way();
        assert_eq!(left, world.book.left(world.book.end));
        world.reopen(super::world::End::Close);
        assert_eq!(world.offsets(), left);
    }
}

/// After each swap, in turn, the topic is deleted or the log is closed.
#[test]
fn f75_a_topic_that_is_deleted_while_it_is_compacted_leaves_no_file() {
    for round in 0..8 * scale() {
        let world = long();
        let delete = || {
            wait_for(&world, round);
            world.log.delete_topic("t").unwrap();
        };
        match beside(&world, &[&delete]) {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(e) => panic!("{round}: {e:?}"),
        }
        let left = files(&world.disk, "t", "");
        assert!(left.is_empty(), "{round}: {left:?}");
        world.log.clone().close().unwrap();
        let log = open_with(&world.disk, &world.clock);
        assert!(log.recovery().is_empty(), "{:?}", log.recovery());
        assert!(log.topics().is_empty());
    }
}

#[test]
fn a_log_that_is_closed_while_it_is_compacted_is_whole() {
    for round in 0..8 * scale() {
        let mut world = long();
        let close = || {
            wait_for(&world, round);
            world.log.clone().close().unwrap();
        };
        match beside(&world, &[&close]) {
            Ok(()) | Err(Error::Closed) => {}
            Err(e) => panic!("{round}: {e:?}"),
        }
        let points = world.disk.points();
        world.log = world.opening.open(&world.disk, &world.clock);
        assert!(
            world.log.recovery().is_empty(),
            "{:?}",
            world.log.recovery()
        );
        assert_eq!(world.disk.points(), points, "opening wrote something");
        world.offsets();
        world.compact();
        assert_eq!(world.offsets(), world.book.left(world.book.end));
        assert_tidy(&world.disk, world.segments().len(), "closed");
    }
}

/// Waits until so many swaps were made, about; not for ever, since there may be fewer.
fn wait_for(world: &World, swaps: u64) {
    let begun = world.disk.points();
    for _ in 0..10_000 {
        if world.disk.points() >= begun + 12 * swaps as usize {
            return;
        }
        thread::yield_now();
    }
}
