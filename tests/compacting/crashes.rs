//! F66: a crash at each step of a swap and of a whole round, and of the recovery from that: the old files or the new one.

use thalweg::testing::{CrashModel, Disk};
use thalweg::{Durability, TopicConfig};

use super::common::{Dice, scale, seed};
use super::logs::t0;
use super::world::{Opening, World, assert_tidy, eager};

const MODELS: [CrashModel; 4] = [
    CrashModel::ProcessKill,
    CrashModel::LostSuffix,
    CrashModel::LostPages,
    CrashModel::GarbagePages,
];

/// What holds after every crash: what was written below `certain` is durable.
struct Every {
    certain: u64,
    /// One point in so many is tried.
    stride: u64,
    /// Segments there are at most when all is compacted again.
    segments: usize,
    dice: Dice,
}

impl Every {
    /// Crashes what happens in `work`.
    fn crash_of(mut self, what: &str, world: &World, work: impl FnOnce()) {
        world.disk.forget_history();
        let begun = world.disk.points();
        work();
        let (mut states, mut after) = (0, begun);
        while after <= world.disk.points() {
            for model in MODELS {
                for n in 0..2 + scale() {
                    let variant = if n < 2 { n } else { self.dice.roll() };
                    let state = format!("{what}, {model:?} after {after}, {variant}");
                    let crashed = world.disk.crash(after, model, variant);
                    self.lead_on(world, &crashed, &state);
                    states += 1;
                    if model == CrashModel::ProcessKill {
                        break;
                    }
                }
            }
            lie(
                world,
                &world
                    .disk
                    .crash(after, CrashModel::LyingDevice, self.dice.roll()),
            );
            after += 1 + self.dice.below(2 * self.stride - 1) as usize;
        }
        println!(
            "{what}: {states} states of {} points",
            world.disk.points() - begun
        );
    }

    /// Judges what a crash left, compacts it again, closes it, and judges that; then crashes all of this.
    fn lead_on(&mut self, world: &World, disk: &Disk, state: &str) {
        let begun = disk.points();
        let log = world.opening.open(disk, &world.clock);
        let mut book = world.book.clone();
        let partition = t0(&log);
        let judged = book.judge_certain(&partition, self.certain);
        let there = judged.unwrap_or_else(|why| panic!("{state}: {why}"));
        let survived = there.last().map_or(0, |last| last + 1).max(self.certain);
        drop(book.written.split_off(&survived));
        book.put(&partition, &world.clock, "one more", Some("v"));
        assert!(book.end > world.book.end.min(survived), "{state}");
        let compacted = log.topic("t").unwrap().compact();
        compacted.unwrap_or_else(|e| panic!("{state}: {e:?}"));
        let there = book.judge_every_way(&partition);
        let there = there.unwrap_or_else(|why| panic!("{state}, compacted: {why}"));
        drop((log, partition));
        let log = world.opening.open(disk, &world.clock);
        assert!(log.recovery().is_empty(), "{state}: {:?}", log.recovery());
        assert_eq!(book.judge(&t0(&log)), Ok(there), "{state}");
        log.close().unwrap();
        assert_tidy(disk, self.segments, state);
        for _ in 0..scale() {
            let after = begun + self.dice.below((disk.points() - begun) as u64 + 1) as usize;
            let model = MODELS[self.dice.below(4) as usize];
            let again = disk.crash(after, model, self.dice.roll());
            let log = world.opening.open(&again, &world.clock);
            let state = format!("{state}, then {model:?} after {after}");
            let certain = self.certain;
            for what in ["found", "compacted"] {
                let judged = book.judge_certain(&t0(&log), certain);
                judged.unwrap_or_else(|why| panic!("{state}, {what}: {why}"));
                let compacted = log.topic("t").unwrap().compact();
                compacted.unwrap_or_else(|e| panic!("{state}: {e:?}"));
            }
        }
    }
}

/// Syncs had done nothing: what was written, or an error that says so.
fn lie(world: &World, disk: &Disk) {
    let builder = thalweg::Log::builder().maintenance(thalweg::Maintenance::Manual);
    let Ok(log) = builder.clock(&world.clock).open_on(disk) else {
        return;
    };
    let Ok(topic) = log.topic("t") else {
        return;
    };
    for entry in topic.partition(0).unwrap().entries(..) {
        match entry {
            Ok(entry) => world.book.check(&entry).unwrap(),
            Err(e) => assert!(e.is_corruption(), "{e:?}"),
        }
    }
}

/// A topic with so many sealed segments, which fit into one, and a record in the last.
fn sealed(segments: u64, level: Durability, dice: &mut Dice) -> (World, u64) {
    let mut world = World::new(TopicConfig::new().durability(level).offset_span(500));
    for _ in 0..segments {
        world.fill(6, 4, dice);
        world.roll();
    }
    let certain = world.book.end;
    world.fill(2, 4, dice);
    (world, certain)
}

#[test]
fn f66_a_crash_at_each_step_of_a_swap_leaves_the_old_files_or_the_new_one() {
    let mut dice = Dice::new(seed());
    for segments in 1..=3 {
        for level in [Durability::Power, Durability::Process] {
            let (world, synced) = sealed(segments, level, &mut dice);
            let all = level == Durability::Power;
            let every = Every {
                certain: if all { world.book.end } else { synced },
                stride: 1,
                segments: 3,
                dice: dice.clone(),
            };
            let what = format!("{segments} to 1 at {level:?}");
            every.crash_of(&what, &world, || {
                assert_eq!(world.compact().segments_compacted, segments);
            });
        }
    }
}

/// The second swap names files of the first, and its tombstones are told already.
#[test]
fn f66_a_crash_at_each_step_of_a_swap_of_what_was_swapped_before() {
    let mut dice = Dice::new(seed());
    let (mut world, _) = sealed(2, Durability::Power, &mut dice);
    world.compact();
    world.roll();
    world.fill(4, 4, &mut dice);
    world.roll();
    world.clock.advance(2 * super::HOUR);
    let every = Every {
        certain: world.book.end,
        stride: 1,
        segments: 3,
        dice,
    };
    every.crash_of("again", &world, || {
        assert_eq!(world.compact().segments_compacted, 3);
    });
}

#[test]
fn f66_a_crash_at_each_step_of_rounds_of_several_swaps() {
    let mut dice = Dice::new(seed());
    let config = TopicConfig::new().segment_bytes(1500).compacted(eager());
    let mut world = World::with(config, Opening::forgetful());
    for keys in [60, 5] {
        world.fill(25, keys, &mut dice);
    }
    world.roll();
    let every = Every {
        certain: world.book.end,
        stride: if scale() >= 10 { 1 } else { 4 },
        segments: world.segments().len(),
        dice,
    };
    every.crash_of("rounds", &world, || {
        let report = world.compact();
        assert!(report.segments_compacted > 6, "{report:?}");
    });
}
