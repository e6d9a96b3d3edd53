//! Random histories of a group beside a plain model of it: who owns what, where each reads, what is committed.
//!
//! Up to eight members of three topics join, poll, commit, pause, seek, fall silent, are shut out, leave and die, on a log that
//! crashes. At every step each partition has at most one owner, its records come in order from where the group has committed,
//! and only who still is a member commits; when things have settled, every partition is owned and read to its end. A history that
//! fails is shortened before it is printed, with the seed that made it. 1,000 histories, times `THALWEG_LONG`.

mod book;
#[path = "../common/mod.rs"]
mod common;
mod deeds;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::Dice;
use world::World;

/// Places for members.
const SLOTS: u64 = 8;

/// One thing that happens. A number is the place of a member; what makes no sense there does nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A member of these topics (by bits); `named`: a static one.
    Join {
        slot: u64,
        topics: u64,
        named: bool,
    },
    /// A second one with the same instance id.
    TakeOver(u64),
    Subscribe {
        slot: u64,
        topics: u64,
    },
    Unsubscribe(u64),
    Poll(u64),
    Commit(u64),
    CommitDurably(u64),
    /// Of one partition, some records behind its position.
    CommitAt {
        slot: u64,
        which: u64,
        behind: u64,
    },
    SeekBack {
        slot: u64,
        which: u64,
        by: u64,
    },
    SeekToCommitted(u64),
    SeekToEnd {
        slot: u64,
        which: u64,
    },
    Pause {
        slot: u64,
        which: u64,
    },
    Resume(u64),
    Rebalance(u64),
    Close(u64),
    Leave(u64),
    Drop(u64),
    Remove(u64),
    Fence(u64),
    /// Seconds.
    Wait(u64),
    Append {
        partition: u64,
        count: u64,
    },
    Settle,
    /// The process dies, or the power goes.
    Crash {
        power: bool,
    },
}

/// What a seed makes: how the group shares, and what happens.
struct History {
    assignor: u64,
    eager: bool,
    events: Vec<Event>,
}

impl History {
    fn of(seed: u64) -> History {
        let mut dice = Dice::new(seed);
        let (assignor, eager) = (dice.below(4), dice.once_in(4));
        let count = 10 + dice.below(70);
        let events = (0..count).map(|_| event(&mut dice)).collect();
        History {
            assignor,
            eager,
            events,
        }
    }

    /// Lets it happen. A panic is how the group and the model came to differ.
    fn holds(&self, events: &[Event]) -> Result<(), String> {
        let run = AssertUnwindSafe(|| {
            let mut world = World::new(self.assignor, self.eager);
            for event in events {
                world.take(*event);
            }
            world.take(Event::Settle);
        });
        catch_unwind(run).map_err(|panic| match panic.downcast::<String>() {
            Ok(why) => *why,
            Err(panic) => panic
                .downcast::<&str>()
                .map_or_else(|_| "?".into(), |s| s.to_string()),
        })
    }
}

fn event(dice: &mut Dice) -> Event {
    let (slot, which) = (dice.below(SLOTS), dice.below(8));
    let topics = 1 + dice.below(7);
    match dice.below(60) {
        0..=7 => Event::Join {
            slot,
            topics: if dice.once_in(2) { 7 } else { topics },
            named: dice.once_in(3),
        },
        8 => Event::TakeOver(slot),
        9 => Event::Subscribe { slot, topics },
        10 => Event::Unsubscribe(slot),
        11..=28 => Event::Poll(slot),
        29..=32 => Event::Commit(slot),
        33 => Event::CommitDurably(slot),
        34 => Event::CommitAt {
            slot,
            which,
            behind: dice.below(4),
        },
        35 => Event::SeekBack {
            slot,
            which,
            by: dice.below(5),
        },
        36 => Event::SeekToCommitted(slot),
        37 => Event::SeekToEnd { slot, which },
        38 | 39 => Event::Pause { slot, which },
        40 => Event::Resume(slot),
        41 => Event::Rebalance(slot),
        42 => Event::Close(slot),
        43 => Event::Leave(slot),
        44 => Event::Drop(slot),
        45 => Event::Remove(slot),
        46 | 47 => Event::Fence(slot),
        48..=50 => Event::Wait(10 + dice.below(150)),
        51..=56 => Event::Append {
            partition: which,
            count: 1 + dice.below(9),
        },
        57 | 58 => Event::Settle,
        _ => Event::Crash {
            power: dice.once_in(2),
        },
    }
}

#[test]
fn a_group_and_a_plain_model_never_differ() {
    let first = common::seed();
    let histories = 1000 * common::scale();
    let mut events = 0;
    std::panic::set_hook(Box::new(|_| {})); // what a history says is printed when it is shortened
    for seed in first..first + histories {
        let history = History::of(seed);
        events += history.events.len();
        let Err(why) = history.holds(&history.events) else {
            continue;
        };
        let shortened = common::shortened(&history.events, |few| history.holds(few).is_err());
        let again = history.holds(&shortened).unwrap_err();
        drop(std::panic::take_hook());
        let (assignor, eager) = (history.assignor, history.eager);
        panic!(
            "{why}\n  THALWEG_SEED={seed}, assignor {assignor}, eager: {eager}; shortened: {again}\n  after {shortened:#?}"
        );
    }
    drop(std::panic::take_hook());
    println!("{histories} histories, {events} events");
}
