//! Random histories of a log beside a plain list of what should be in it: the two never differ.
//!
//! A history appends, rolls, syncs, reads in every way, closes, is killed, loses its power, at a random level of durability. One
//! that fails is shortened before it is printed, with the seed that made it. 1,000 histories, times `THALWEG_LONG`.

#[path = "common/mod.rs"]
mod common;
#[path = "common/tally.rs"]
mod tally;
#[path = "common/workload.rs"]
mod workload;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use thalweg::testing::CrashModel;
use thalweg::{Durability, Error, Offset, Partition, Timestamp};

use common::Dice;
use tally::Seen;
use workload::{Key, Step, World};

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
enum Event {
    Step(Step),
    /// So many milliseconds pass.
    Wait(u64),
    /// The last operations of the disk never happened, then the process or the machine died.
    Crash(usize, CrashModel, u64),
    /// Reads in ways that the number chooses.
    Read(Key, u64),
}

/// What a seed makes: a way to begin, and what happens then.
struct History {
    level: Durability,
    mapped: bool,
    events: Vec<Event>,
}

const KEYS: [Key; 2] = [("a", 0), ("a", 1)];

impl History {
    fn of(seed: u64) -> History {
        let mut dice = Dice::new(seed);
        let time = Duration::from_secs(1);
        let bytes = 1 + dice.below(4000);
        let levels = [
            Durability::Power,
            Durability::Process,
            Durability::Interval { time, bytes },
        ];
        let level = levels[dice.below(3) as usize];
        let mapped = dice.once_in(3);
        let count = 10 + dice.below(50);
        let events = (0..count).map(|_| event(&mut dice)).collect();
        History {
            level,
            mapped,
            events,
        }
    }

    /// Lets it happen. `Err`: how the log and the list came to differ.
    fn run(&self, events: &[Event]) -> Result<(), String> {
        let mut world = World::new(7);
        if self.mapped {
            world = world.mapped();
        }
        world.take(Step::Topic("a", self.level))?;
        for event in events {
            if !world.topics.contains_key("a") {
                // Lost with the power, before it was promised.
                world.take(Step::Topic("a", self.level))?;
            }
            happen(&mut world, *event).map_err(|why| format!("{event:?}: {why}"))?;
        }
        for key in KEYS {
            read(&mut world, key, 1).map_err(|why| format!("at last: {why}"))?;
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
    let key = KEYS[usize::from(dice.once_in(4))];
    let len = match dice.below(10) {
        0 => dice.below(6000),
        1..=3 => dice.below(1500),
        _ => dice.below(200),
    } as usize;
    match dice.below(24) {
        0..=6 => Event::Step(Step::Append(key, len)),
        7..=10 => {
            let count = 1 + dice.below(12) as u32;
            Event::Step(Step::Batch(key, count, len / 3))
        }
        11 => Event::Step(Step::Roll(key)),
        12 => Event::Step(Step::Sync),
        13 => Event::Step(Step::Close),
        14 => Event::Wait(dice.below(5000)),
        15 | 16 => Event::Crash(dice.below(12) as usize, CrashModel::ProcessKill, 0),
        17 => {
            let models = [
                CrashModel::LostSuffix,
                CrashModel::LostPages,
                CrashModel::GarbagePages,
            ];
            let model = models[dice.below(3) as usize];
            Event::Crash(dice.below(12) as usize, model, dice.roll())
        }
        18 => Event::Step(Step::Commit("a")),
        _ => Event::Read(key, dice.roll()),
    }
}

fn happen(world: &mut World, event: Event) -> Result<(), String> {
    match event {
        Event::Step(step) => world.take(step),
        Event::Wait(ms) => {
            world.clock.advance(Duration::from_millis(ms));
            Ok(())
        }
        Event::Crash(ago, model, seed) => world.end_life(ago, model, seed),
        Event::Read(key, seed) => read(world, key, seed),
    }
}

/// Reads a partition in every way and compares with the list.
fn read(world: &mut World, key: Key, seed: u64) -> Result<(), String> {
    let Some(tally) = world.tallies.get(&key) else {
        return Ok(());
    };
    let list: Vec<Seen> = tally.records().cloned().collect();
    let partition = world.partition(key).map_err(|e| format!("{e:?}"))?;
    let mut dice = Dice::new(seed);
    let end = partition.offsets().end.get();
    if list.last().is_some_and(|last| last.0 >= end) {
        return Err(format!("the end {end} is not behind {:?}", list.last()));
    }
    read_range(&partition, &list, 0..end, &mut dice).map_err(|why| format!("all: {why}"))?;
    let from = dice.below(end + 2);
    let range = from..from + dice.below(end + 2);
    let some = read_range(&partition, &list, range.clone(), &mut dice);
    some.map_err(|why| format!("{range:?}: {why}"))?;
    for _ in 0..4 {
        let offset = match list.len() as u64 {
            count if count > 0 && !dice.once_in(4) => list[dice.below(count) as usize].0,
            _ => dice.below(end + 3),
        };
        let got = partition.get(Offset::new(offset));
        let got = got.map_err(|e| format!("get {offset}: {e:?}"))?;
        let got = got.map(|entry| seen(&entry));
        let expected = list.iter().find(|one| one.0 == offset);
        differ(&format!("get {offset}"), expected, got.as_ref())?;
        read_time(&partition, &list, &mut dice)?;
    }
    Ok(())
}

fn seen(entry: &thalweg::Entry) -> Seen {
    let (offset, rec) = common::seen(entry);
    (offset, rec, entry.timestamp().as_millis())
}

fn differ(what: &str, expected: Option<&Seen>, got: Option<&Seen>) -> Result<(), String> {
    if expected == got {
        return Ok(());
    }
    Err(format!("{what}: {got:?} instead of {expected:?}"))
}

/// Forwards, backwards, by reference, and from both ends at once.
fn read_range(
    partition: &Partition,
    list: &[Seen],
    range: std::ops::Range<u64>,
    dice: &mut Dice,
) -> Result<(), String> {
    let within = list.iter().filter(|one| range.contains(&one.0));
    let expected: Vec<&Seen> = within.collect();
    let scan = || partition.entries(Offset::new(range.start)..Offset::new(range.end));
    let all = |entries: Vec<thalweg::Result<thalweg::Entry>>| -> Result<Vec<Seen>, String> {
        let all = entries.into_iter().map(|entry| entry.map(|e| seen(&e)));
        all.collect::<Result<_, _>>().map_err(|e| format!("{e:?}"))
    };
    let forward = all(scan().collect())?;
    let mut backward = all(scan().rev().collect())?;
    backward.reverse();
    let mut by_reference = Vec::new();
    let done = scan().try_for_each_ref(|entry| {
        by_reference.push(seen(&entry.to_entry()));
        Ok::<_, Error>(())
    });
    done.map_err(|e| format!("by reference: {e:?}"))?;
    let (mut front, mut back) = (Vec::new(), Vec::new());
    let mut both = scan();
    loop {
        let from_back = dice.once_in(2);
        let next = if from_back {
            both.next_back()
        } else {
            both.next()
        };
        let Some(entry) = next else { break };
        let entry = seen(&entry.map_err(|e| format!("from both ends: {e:?}"))?);
        if from_back { &mut back } else { &mut front }.push(entry);
    }
    front.extend(back.into_iter().rev());
    for (way, found) in [
        ("forwards", forward),
        ("backwards", backward),
        ("by reference", by_reference),
        ("from both ends", front),
    ] {
        let at = (0..expected.len().max(found.len()))
            .find(|&at| expected.get(at).copied() != found.get(at));
        if let Some(at) = at {
            differ(
                &format!("{way}, at {at}"),
                expected.get(at).copied(),
                found.get(at),
            )?;
        }
    }
    Ok(())
}

/// The first record of a time or later, in the order of offsets.
fn read_time(partition: &Partition, list: &[Seen], dice: &mut Dice) -> Result<(), String> {
    let time = match list.len() as u64 {
        0 => 0,
        count => list[dice.below(count) as usize].2 + dice.below(3).cast_signed() - 1,
    };
    let found = partition.offset_for_time(Timestamp::from_millis(time));
    let found = found.map_err(|e| format!("time {time}: {e:?}"))?;
    let expected = list.iter().find(|one| one.2 >= time).map(|one| one.0);
    if found.map(Offset::get) == expected {
        return Ok(());
    }
    Err(format!("time {time}: {found:?} instead of {expected:?}"))
}

#[test]
fn a_log_and_a_plain_list_never_differ() {
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
        let (level, mapped) = (history.level, history.mapped);
        panic!(
            "{why}\n  THALWEG_SEED={seed}, {level:?}, mapped: {mapped}; shortened: {again}\n  after {shortened:#?}"
        );
    }
    println!("{histories} histories, {events} events");
}
