//! Crashes within recovery, and within the recovery from those: what comes out is what one undisturbed recovery gives.

use thalweg::testing::CrashModel;

use crate::common::{self, Dice};
use crate::enumerate::Counts;
use crate::judge::{self, Recovered, Shot};
use crate::tally::Seen;
use crate::workload::{Made, Step, World};

/// How often a recovery is crashed, and each of the recoveries from that.
const TRIES: [u64; 2] = [6, 3];

/// Crashes recoveries from crashes of these steps, two deep.
pub(crate) fn recoveries_of(what: &str, steps: &[Step]) {
    let seed = common::seed();
    let world = World::after(seed, steps);
    let mut nest = Nest {
        dice: Dice::new(seed),
        counts: Counts::default(),
    };
    for _ in 0..12 * common::scale() {
        let begin = Shot {
            point: nest.dice.below(world.disk.points() as u64 + 1) as usize,
            model: [
                CrashModel::ProcessKill,
                CrashModel::LostPages,
                CrashModel::GarbagePages,
            ][nest.dice.below(3) as usize],
            seed: nest.dice.roll(),
            copy: false,
        };
        let done = nest.descend(&world, begin, None, &TRIES);
        done.unwrap_or_else(|why| panic!("{what}: {why}\n  THALWEG_SEED={seed}"));
    }
    nest.counts.print(what);
}

struct Nest {
    dice: Dice,
    counts: Counts,
}

impl Nest {
    /// Recovers from `shot`, compares with what a single recovery gave where that is certain, and crashes the recovery in turn.
    fn descend(
        &mut self,
        world: &World,
        shot: Shot,
        single: Option<&Recovered>,
        tries: &[u64],
    ) -> Result<(), String> {
        let say = |why| format!("{why}\n  after {shot:?}");
        let disk = shot.of(&world.disk);
        let mut next = world.branch();
        let recovered = judge::live(&mut next, &disk, shot, &mut self.dice).map_err(say)?;
        self.counts.count(shot, 1);
        if let Some(single) = single {
            same(world, shot, single, &recovered).map_err(say)?;
        }
        let Some((&count, deeper)) = tries.split_first() else {
            return Ok(());
        };
        for _ in 0..count {
            let inner = Shot {
                copy: false,
                ..shot.later(&disk, &mut self.dice)
            };
            // A power loss may still take what only a killed process had written; all else is decided.
            let killed = |shot: Shot| shot.model == CrashModel::ProcessKill;
            let decided = !killed(shot) || killed(inner);
            let single = single.unwrap_or(&recovered);
            let single = decided.then_some(single);
            self.descend(&next, inner, single, deeper).map_err(say)?;
        }
        Ok(())
    }
}

/// What a single recovery found is there, and behind it only what was appended since. `world` is as it was before this crash: it
/// knows what was deleted by then.
fn same(world: &World, shot: Shot, single: &Recovered, again: &Recovered) -> Result<(), String> {
    for (named, (start, records)) in single {
        let (key, tag) = named;
        let there = world.topics.get(key.0).is_some_and(|life| life.tag == *tag);
        let kept = |made: &Made| made.life.tag == *tag && !made.deletion_began(shot.point);
        if !there && !world.past.iter().any(kept) {
            continue;
        }
        let nothing = (*start, Vec::new());
        let (from, again) = again.get(named).unwrap_or(&nothing);
        let kept = records.iter().filter(|record| record.0 >= *from);
        let kept: Vec<Seen> = kept.cloned().collect();
        if from < start || !again.starts_with(&kept) {
            let (before, after) = (kept.len(), again.len());
            return Err(format!(
                "{key:?} had {before} records after one recovery, {after} after two"
            ));
        }
    }
    Ok(())
}
