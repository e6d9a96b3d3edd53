//! Every crash point of a workload under every model, and how many states that makes.

use std::fmt;
use std::sync::Mutex;

use thalweg::testing::{CrashModel, Disk, Variants};

use crate::common::{self, Dice};
use crate::judge::{self, Shot};
use crate::workload::{Step, World};

/// How many states were judged, by model.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    kills: u64,
    prefixes: u64,
    pages: u64,
    garbage: u64,
    lies: u64,
    copies: u64,
    /// States of later lives, which began as one of the others.
    later: u64,
}

/// Over all tests of this file, which run beside one another.
static TOTAL: Mutex<u64> = Mutex::new(0);

impl Counts {
    pub(crate) fn count(&mut self, shot: Shot, lives: u64) {
        let counter = match shot.model {
            _ if shot.copy => &mut self.copies,
            CrashModel::ProcessKill => &mut self.kills,
            CrashModel::LostSuffix => &mut self.prefixes,
            CrashModel::LostPages => &mut self.pages,
            CrashModel::GarbagePages => &mut self.garbage,
            _ => &mut self.lies,
        };
        *counter += 1;
        self.later += lives - 1;
    }

    fn sum(&self) -> u64 {
        let single = [
            self.kills,
            self.prefixes,
            self.pages,
            self.garbage,
            self.lies,
        ];
        single.iter().sum::<u64>() + self.copies + self.later
    }

    /// Adds them to the total and prints both.
    pub(crate) fn print(&self, what: &str) {
        let mut total = TOTAL
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        *total += self.sum();
        println!("{what}: {self}; {} in all so far", *total);
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} states: M0 {}, M1 {}, M2 {}, M3 {}, M4 {}, copies {}, later lives {}",
            self.sum(),
            self.kills,
            self.prefixes,
            self.pages,
            self.garbage,
            self.lies,
            self.copies,
            self.later
        )
    }
}

/// How many states are tried at each point.
#[derive(Clone, Copy, Debug)]
struct Effort {
    prefixes: u64,
    pages: u64,
    sampled_pages: u64,
    garbage: u64,
    lies: u64,
    copies: u64,
    /// One point in so many.
    points: u64,
}

impl Effort {
    /// Everything the plan asks for from `THALWEG_LONG=10` on; a slice of it otherwise, at one point in so many.
    fn chosen(points: u64) -> Effort {
        let scale = common::scale();
        if scale >= 10 {
            return Effort {
                prefixes: u64::MAX,
                pages: 1 << 10,
                sampled_pages: 64,
                garbage: 8,
                lies: 4,
                copies: 4,
                points: 1,
            };
        }
        Effort {
            prefixes: 4 * scale,
            pages: 6 * scale,
            sampled_pages: 6 * scale,
            garbage: 2,
            lies: 1,
            copies: 1,
            points,
        }
    }
}

/// Judges what crashes of these steps may leave.
pub(crate) fn every_crash_of(what: &str, steps: &[Step]) {
    some_crashes_of(what, steps, 1);
}

/// As [`every_crash_of`]; in a usual run at one point in so many.
pub(crate) fn some_crashes_of(what: &str, steps: &[Step], points: u64) {
    let seed = common::seed();
    let world = World::after(seed, steps);
    let counts = every_crash(&world, seed, what, Effort::chosen(points));
    counts.print(what);
}

/// Judges what crashes of this world's disk may leave.
fn every_crash(world: &World, seed: u64, what: &str, effort: Effort) -> Counts {
    let mut counts = Counts::default();
    let mut dice = Dice::new(seed);
    for point in 0..=world.disk.points() {
        let wanted = point == world.disk.points() || world.clean.contains(&point);
        if !wanted && !dice.once_in(effort.points) {
            continue;
        }
        for shot in shots(&world.disk, point, effort, &mut dice) {
            match judge::judge(world, shot) {
                Ok(lives) => counts.count(shot, lives),
                Err(why) => panic!("{what}: {why}\n  after {shot:?}, THALWEG_SEED={seed}"),
            }
        }
    }
    counts
}

fn shots(disk: &Disk, point: usize, effort: Effort, dice: &mut Dice) -> Vec<Shot> {
    let of = |model, seed| Shot {
        point,
        model,
        seed,
        copy: false,
    };
    let mut shots = vec![of(CrashModel::ProcessKill, 0)];
    for (model, all, sampled) in [
        (CrashModel::LostSuffix, effort.prefixes, effort.prefixes),
        (CrashModel::LostPages, effort.pages, effort.sampled_pages),
        (CrashModel::GarbagePages, 0, effort.garbage),
        (CrashModel::LyingDevice, 0, effort.lies),
    ] {
        let seeds = chosen(disk.variants(point, model), all, sampled, dice);
        shots.extend(seeds.into_iter().map(|seed| of(model, seed)));
    }
    for _ in 0..effort.copies {
        let models = [
            CrashModel::ProcessKill,
            CrashModel::LostSuffix,
            CrashModel::LostPages,
        ];
        let model = models[dice.below(3) as usize];
        shots.push(Shot {
            copy: true,
            ..of(model, dice.roll())
        });
    }
    shots
}

/// Seeds for these variants: all of them if they are no more than `all`.
fn chosen(variants: Variants, all: u64, sampled: u64, dice: &mut Dice) -> Vec<u64> {
    match variants {
        Variants::All(count) if count <= all => (0..count).collect(),
        Variants::All(count) => (0..all).map(|_| dice.below(count)).collect(),
        // The first two keep nothing and everything that was not synced.
        _ => (0..sampled)
            .map(|n| if n < 2 { n } else { dice.roll() })
            .collect(),
    }
}
