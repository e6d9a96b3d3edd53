//! Random histories of a partition that is trimmed and compacted, beside a plain model of what was written to it: what must be there is,
//! and what is gone is only what the rules let go.
//!
//! A history appends keys, tombstones and times of every kind, ends segments, waits, maintains, compacts, deletes, closes, is killed and
//! loses its power in the middle of any of it. One that fails is shortened before it is printed, with the seed that made it. 1,000
//! histories, times `THALWEG_LONG`.

#[path = "../common/mod.rs"]
mod common;
mod judge;
mod rules;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use thalweg::testing::CrashModel;

use common::Dice;
use rules::Rules;
use world::World;

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A batch of so many records, which the number shapes.
    Append(u64, u64),
    Roll,
    /// So many milliseconds pass.
    Wait(u64),
    /// Passes of maintenance until one does nothing.
    Maintain,
    /// `Topic::compact`, after a roll or not.
    Compact(bool),
    /// `Partition::delete_before`, at so many thousandths of what there is.
    DeleteBefore(u64),
    Sync,
    Close,
    /// A consumer goes on reading, so many records.
    Poll(usize),
    /// The process or the machine dies: so many thousandths through what was done last.
    Crash(u64, CrashModel, u64),
}

/// What a seed makes.
struct History {
    rules: Rules,
    events: Vec<Event>,
}

impl History {
    fn of(seed: u64) -> History {
        let mut dice = Dice::new(seed);
        let rules = Rules::roll(&mut dice);
        let count = 15 + dice.below(60);
        let events = (0..count).map(|_| event(&mut dice)).collect();
        History { rules, events }
    }

    fn run(&self, events: &[Event]) -> Result<(), String> {
        let mut world = World::new(self.rules);
        for event in events {
            let happened = world.take(*event).and_then(|()| world.judge());
            happened.map_err(|why| format!("{event:?}: {why}"))?;
        }
        Ok(())
    }

    /// As [`run`](History::run); a panic is a failure like any other.
    fn holds(&self, events: &[Event]) -> Result<(), String> {
        let run = AssertUnwindSafe(|| self.run(events));
        catch_unwind(run).unwrap_or_else(|_| Err("it panicked".to_owned()))
    }
}

fn event(dice: &mut Dice) -> Event {
    const MODELS: [CrashModel; 4] = [
        CrashModel::ProcessKill,
        CrashModel::LostSuffix,
        CrashModel::LostPages,
        CrashModel::GarbagePages,
    ];
    match dice.below(30) {
        0..=11 => Event::Append(1 + dice.below(7), dice.roll()),
        12 | 13 => Event::Roll,
        14 => Event::Wait(dice.below(3 * 86_400_000)),
        15..=17 => Event::Wait(dice.below(20_000)),
        18..=20 => Event::Maintain,
        21 | 22 => Event::Compact(dice.once_in(2)),
        23 => Event::DeleteBefore(dice.below(1001)),
        24 => Event::Sync,
        25 => Event::Close,
        26 | 27 => Event::Poll(1 + dice.below(20) as usize),
        _ => {
            let model = MODELS[dice.below(4) as usize];
            Event::Crash(dice.below(1001), model, dice.roll())
        }
    }
}

#[test]
fn what_must_be_there_is_and_what_is_gone_may_be() {
    let first = common::seed();
    let histories = 1000 * common::scale();
    let mut events = 0;
    for seed in first..first + histories {
        let history = History::of(seed);
        events += history.events.len();
        let Err(why) = history.holds(&history.events) else {
            continue;
        };
        let shortened = common::shortened(&history.events, |few| history.holds(few).is_err());
        let again = history.holds(&shortened).expect_err("it failed just now");
        let rules = history.rules;
        panic!(
            "{why}\n  THALWEG_SEED={seed}, {rules:#?}; shortened: {again}\n  after {shortened:#?}"
        );
    }
    println!("{histories} histories, {events} events");
}
