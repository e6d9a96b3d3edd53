//! Which places are damaged, how the work is shared by the cores, and what is counted.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;

use crate::common::Dice;

/// How many of `all` places are tried: `usual`, more by the factor in `THALWEG_LONG`, all of them if that says `full`.
pub(crate) fn how_many(all: u64, usual: u64) -> u64 {
    match std::env::var("THALWEG_LONG").as_deref() {
        Ok("full") => all,
        Ok(factor) => {
            let factor: u64 = factor.parse().expect("THALWEG_LONG is a factor, or full");
            all.min(usual.saturating_mul(factor.max(1)))
        }
        Err(_) => all.min(usual),
    }
}

/// `count` of the numbers below `all`, each at most once, in ascending order.
pub(crate) fn sample(all: u64, count: u64, dice: &mut Dice) -> Vec<u64> {
    let mut chosen = Vec::new();
    let mut wanted = count.min(all);
    // Each number is taken with the chance that makes every choice equally likely.
    for number in 0..all {
        if wanted > 0 && dice.below(all - number) < wanted {
            chosen.push(number);
            wanted -= 1;
        }
    }
    chosen
}

/// How often each outcome came.
pub(crate) type Counts = BTreeMap<&'static str, u64>;

/// Runs `one` for every place, on all cores; a panic or an `Err` in it fails the test and names the place.
pub(crate) fn run(
    what: &str,
    places: &[u64],
    one: impl Fn(u64) -> Result<&'static str, String> + Sync,
) -> Counts {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let counts = Mutex::new(Counts::new());
    let share = places.len().div_ceil(cores).max(1);
    let (one, tally) = (&one, &counts);
    thread::scope(|scope| {
        for share in places.chunks(share) {
            scope.spawn(move || {
                let mut mine = Counts::new();
                for &place in share {
                    let outcome = catch_unwind(AssertUnwindSafe(|| one(place)));
                    let outcome = outcome.unwrap_or_else(|_| panic!("{what} {place}: it panicked"));
                    let outcome = outcome.unwrap_or_else(|wrong| panic!("{what} {place}: {wrong}"));
                    *mine.entry(outcome).or_default() += 1;
                }
                let mut counts = tally.lock().expect("no other share failed");
                for (outcome, count) in mine {
                    *counts.entry(outcome).or_default() += count;
                }
            });
        }
    });
    let counts = counts.into_inner().expect("no share failed");
    println!("{what}: {} runs, wrong data 0, {counts:?}", places.len());
    counts
}
