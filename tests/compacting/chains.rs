//! F66b: compactions one after the other, with rolls, retention, deletions and openings between: the chain of segments holds, and
//! no name that was live comes back.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use thalweg::{Durability, Offset, Retention, TopicConfig};

use super::common::{Dice, scale, seed};
use super::world::{End, Opening, World, eager};

/// Names of segments, those that are there and those that were.
#[derive(Default)]
struct Names {
    there: BTreeSet<PathBuf>,
    gone: BTreeSet<PathBuf>,
    /// A power loss undid their removal. They are not live, and go before the next segment is made or at the close.
    undone: BTreeSet<PathBuf>,
}

impl Names {
    fn look(&mut self, world: &World, power_lost: bool, state: &str) {
        let now: BTreeSet<PathBuf> = world.segments().into_iter().collect();
        let back: BTreeSet<PathBuf> = now.intersection(&self.gone).cloned().collect();
        if power_lost {
            self.undone.clone_from(&back);
        }
        let new = back.difference(&self.undone).next();
        assert!(new.is_none(), "{state}: {new:?} came back");
        self.undone.retain(|name| now.contains(name));
        self.gone.extend(self.there.difference(&now).cloned());
        self.there = now;
    }
}

/// One thing that happens to a partition.
fn step(world: &mut World, dice: &mut Dice, power: bool) -> &'static str {
    match dice.below(12) {
        0..4 => {
            world.fill(1 + dice.below(6), 8, dice);
            "append"
        }
        4 => {
            world.roll();
            "roll"
        }
        5 | 6 => {
            world.compact();
            "compact"
        }
        7 => {
            world.clock.advance(Duration::from_secs(dice.below(3000)));
            world.maintain();
            "maintain"
        }
        8 => {
            let offsets = world.partition().offsets();
            let (start, end) = (offsets.start.get(), offsets.end.get());
            let before = start + dice.below((end - start) / 3 + 1);
            world
                .partition()
                .delete_before(Offset::new(before))
                .unwrap();
            world.book.start = before;
            "delete"
        }
        9 => {
            world.reopen(End::Close);
            "close"
        }
        10 => {
            world.reopen(End::Kill);
            "kill"
        }
        _ if power => {
            world.reopen(End::PowerLoss);
            "power loss"
        }
        _ => {
            world.log.sync().unwrap();
            world.reopen(End::PowerLoss);
            "power loss after a sync"
        }
    }
}

fn live(seed: u64, level: Durability, opening: Opening) {
    let mut dice = Dice::new(seed);
    let config = TopicConfig::new()
        .segment_bytes(700 + 200 * dice.below(8))
        .offset_span(1000)
        .durability(level)
        .retention(Retention::new().bytes(20_000))
        .compacted(eager());
    let mut world = World::with(config, opening);
    let (mut names, mut story) = (Names::default(), Vec::new());
    for _ in 0..60 {
        story.push(step(&mut world, &mut dice, level == Durability::Power));
        let state = format!("{level:?}, seed {seed}: {story:?}");
        // Retention may have taken more.
        let start = world.partition().offsets().start.get();
        world.book.start = world.book.start.max(start);
        let judged = world.book.judge(&world.partition());
        judged.unwrap_or_else(|why| panic!("{state}: {why}"));
        let power_lost = story.last().is_some_and(|step| step.starts_with("power"));
        names.look(&world, power_lost, &state);
    }
    world.reopen(End::Close);
    world.offsets_every_way();
    names.look(&world, false, "at the end");
    assert!(names.undone.is_empty(), "{:?}", names.undone);
}

#[test]
fn f66b_lives_of_compactions_rolls_deletions_and_openings_keep_the_chain_whole() {
    let seed = seed();
    for n in 0..12 * scale() {
        for level in [Durability::Power, Durability::Process] {
            for opening in [Opening::default(), Opening::forgetful()] {
                live(seed + n, level, opening);
            }
        }
    }
}

/// What a power loss took leaves a gap, which stands in the header of the segment behind it.
#[test]
fn f66b_no_merge_crosses_a_gap_that_recovery_left() {
    let mut dice = Dice::new(seed());
    let config = TopicConfig::new()
        .durability(Durability::Process)
        .offset_span(1000);
    let mut world = World::new(config);
    let mut bases = vec![0];
    for _ in 0..3 {
        world.fill(5, 3, &mut dice);
        world.roll();
        world.fill(5, 3, &mut dice);
        world.log.sync().unwrap();
        world.fill(2, 3, &mut dice); // lost
        let lost = world.book.end;
        world.reopen(End::PowerLoss);
        assert!(world.book.end > lost + 100, "{lost} {}", world.book.end);
        bases.push(world.book.end);
        world.fill(5, 3, &mut dice);
        world.roll();
        world.compact();
        let left = world.offsets_every_way();
        assert_eq!(left, world.book.left(world.book.end));
        let names = world.segments();
        let there = |base: &u64| {
            let base = format!("{base:020}-");
            names
                .iter()
                .any(|name| name.to_string_lossy().contains(&base))
        };
        assert!(bases.iter().all(there), "{bases:?} {names:?}");
    }
    let at = |offset: &u64| world.partition().get(Offset::new(*offset)).unwrap();
    assert!(bases[1..].iter().all(|base| at(&(base - 1)).is_none()));
}
