//! Bounded memory: where the keys find no room there are more rounds, and what is left is the same.

use std::ops::Range;

use thalweg::TopicConfig;

use super::common::{Dice, scale, seed};
use super::world::{End, Opening, World, eager};

/// The same life with this memory; the offsets that are left, and what the passes did.
fn live(seed: u64, opening: Opening, sizes: Range<u64>) -> (Vec<u64>, u64) {
    let mut dice = Dice::new(seed);
    let config = TopicConfig::new().segment_bytes(500 + 500 * dice.below(20));
    let mut world = World::with(config.compacted(eager()), opening);
    let mut rounds = 0;
    for _ in 0..3 {
        for _ in 0..20 {
            let size = sizes.start + dice.below(sizes.end - sizes.start);
            world.batch(size, 200, &mut dice);
        }
        world.roll();
        loop {
            rounds += 1;
            assert!(rounds < 1000, "seed {seed}: it does not end");
            let report = world.maintain();
            world.offsets();
            if !report.more {
                break;
            }
            if rounds % 3 == 0 {
                world.reopen(if rounds % 2 == 0 {
                    End::Close
                } else {
                    End::Kill
                });
            }
        }
        world.compact(); // where too little was new for a pass
    }
    let left = world.offsets_every_way();
    assert_eq!(left, world.book.left(world.book.end), "seed {seed}");
    (left, rounds)
}

#[test]
fn f124_little_memory_makes_more_rounds_and_leaves_the_same() {
    let seed = seed();
    for n in 0..3 * scale() {
        for sizes in [1..2, 1..6, 25..70] {
            let (much, few_rounds) = live(seed + n, Opening::default(), sizes.clone());
            let (little, rounds) = live(seed + n, Opening::forgetful(), sizes.clone());
            assert_eq!(much, little, "seed {seed} + {n}, {sizes:?}");
            let many = sizes.start == 1 || rounds > few_rounds + 3;
            assert!(many, "{rounds} rounds, {few_rounds}");
        }
    }
}

/// Every record has a key of its own: each round takes as many as there is room for.
#[test]
fn f124_keys_that_are_all_different_are_all_kept_and_the_rounds_end() {
    let mut world = World::with(TopicConfig::new().compacted(eager()), Opening::forgetful());
    for n in 0..500 {
        world.put(&format!("key-{n}"), Some("v"));
        if n % 90 == 89 {
            world.roll();
        }
    }
    world.roll();
    let mut rounds = 0;
    while world.maintain().more {
        rounds += 1;
    }
    assert!((10..60).contains(&rounds), "{rounds}");
    assert_eq!(world.offsets().len(), 500);
    world.disk.mark();
    world.maintain();
    assert_eq!(
        world.disk.calls().get(&thalweg::testing::DiskCall::Write),
        None
    );
}
