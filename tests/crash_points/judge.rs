//! One state that a crash left: opened by the real code, judged, led on for another life, crashed and judged again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use thalweg::testing::{CrashModel, Disk};
use thalweg::{Finding, FindingKind, RecoveryReport};

use crate::common::{self, Dice};
use crate::tally::{End, Seen, Tally};
use crate::workload::{self, Key, Step, World};

/// Bytes of a segment's header: a file of no more holds no record.
const HEADER: usize = 128;

/// One of the states that a crash may leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shot {
    pub(crate) point: usize,
    pub(crate) model: CrashModel,
    pub(crate) seed: u64,
    /// A copy of the files is opened, by the same machine, instead of the files.
    pub(crate) copy: bool,
}

impl Shot {
    pub(crate) fn of(self, disk: &Disk) -> Disk {
        if self.copy {
            disk.crash_copy(self.point, self.model, self.seed)
        } else {
            disk.crash(self.point, self.model, self.seed)
        }
    }

    /// Some end of the life that began with this one, perhaps within its recovery.
    pub(crate) fn later(self, disk: &Disk, dice: &mut Dice) -> Shot {
        let first = if self.model == CrashModel::ProcessKill {
            self.point
        } else {
            0
        };
        let models = [
            CrashModel::ProcessKill,
            CrashModel::LostSuffix,
            CrashModel::LostPages,
            CrashModel::GarbagePages,
        ];
        Shot {
            point: first + dice.below((disk.points() - first) as u64 + 1) as usize,
            model: models[dice.below(4) as usize],
            seed: dice.roll(),
            copy: dice.once_in(8),
        }
    }

    fn end(self) -> End {
        End::at(self.point, self.model)
    }
}

/// Judges one state. `Ok`: how many lives it was followed through.
pub(crate) fn judge(world: &World, shot: Shot) -> Result<u64, String> {
    let disk = shot.of(&world.disk);
    if shot.model == CrashModel::LyingDevice {
        return judge_lie(world, &disk, shot.end()).map(|()| 1);
    }
    let mut dice = Dice::new(shot.seed ^ (shot.point as u64) << 20 ^ (shot.model as u64) << 60);
    let clean = world.clean.contains(&shot.point);
    let mut next = world.branch();
    let lives = if clean { 1 } else { 1 + dice.below(2) };
    live(&mut next, &disk, shot, &mut dice)?;
    if lives == 1 {
        close_and_look(next)?;
        return Ok(1);
    }
    let later = shot.later(&disk, &mut dice);
    let mut third = next.branch();
    let crashed = later.of(&disk);
    live(&mut third, &crashed, later, &mut dice)
        .and_then(|_| close_and_look(third))
        .map_err(|why| format!("{why}, after {later:?}"))?;
    Ok(2)
}

/// A partition, and the tag of its topic.
pub(crate) type Named = (Key, String);
/// What recovery found in each partition: where it begins, and its records.
pub(crate) type Recovered = BTreeMap<Named, (u64, Vec<Seen>)>;

/// Opens what a crash left, judges it, and appends to every partition. What there was before that.
pub(crate) fn live(
    world: &mut World,
    disk: &Disk,
    shot: Shot,
    dice: &mut Dice,
) -> Result<Recovered, String> {
    let clean = world.clean.contains(&shot.point);
    let told = ends_told(world, shot.point);
    let before = segment_files(disk);
    let hash = disk.hash();
    let power_lost = world.power_lost;
    let opened = world.reopen(disk, shot.end())?;
    judge_report(power_lost || shot.copy, shot, &opened.report)?;
    if clean {
        if !opened.report.is_empty() {
            return Err(format!("a clean end is reported: {:?}", opened.report));
        }
        if disk.hash() != hash {
            return Err("opening after a clean end changed files".to_owned());
        }
    }
    world.power_lost |= shot.copy;
    world.enter(opened.log);
    judge_cuts(world, &before, disk, &opened.report)?;
    let records = |tally: &Tally| (tally.start(), tally.records().cloned().collect());
    let recovered = world
        .tallies
        .iter()
        .map(|(key, tally)| (named(world, *key), records(tally)))
        .collect();
    let keys: Vec<Key> = world.tallies.keys().copied().collect();
    for key in keys {
        judge_gap(world, key, told[&named(world, key)], &opened.report)?;
        go_on(world, key, dice)?;
    }
    judge_commits(world)?;
    judge_cuts(world, &before, disk, &opened.report)?;
    if world.trims {
        trim_on(world, dice)?;
    }
    if world.deletes {
        come_and_go(world, dice)?;
    }
    Ok(recovered)
}

/// A partition of the topic that is there now, and of no other of its name.
fn named(world: &World, key: Key) -> Named {
    (key, world.topics[key.0].tag.clone())
}

/// The greatest end that somebody was told by then, for each partition that may be there.
fn ends_told(world: &World, point: usize) -> BTreeMap<Named, u64> {
    let present = world
        .tallies
        .iter()
        .map(|(key, tally)| (named(world, *key), tally));
    let past = world.past.iter().flat_map(|made| {
        let tallies = made.tallies.iter();
        tallies.map(|(key, tally)| ((*key, made.life.tag.clone()), tally))
    });
    let told = |(of, tally): (Named, &Tally)| (of, tally.end_told(point));
    present.chain(past).map(told).collect()
}

/// What a crash left of what went is gone by now; more goes, and it all can be read from where it begins.
fn trim_on(world: &mut World, dice: &mut Dice) -> Result<(), String> {
    if let Some(left) = world.leftovers().first() {
        return Err(format!("{} was left over", left.display()));
    }
    let keys: Vec<Key> = world.tallies.keys().copied().collect();
    let mut steps = vec![Step::Wait(dice.below(100)), Step::Maintain];
    for key in keys {
        if dice.once_in(2) {
            steps.extend([Step::Trim(key, dice.below(5)), Step::Append(key, 20)]);
        }
    }
    for step in steps {
        world.take(step).map_err(|why| format!("{step:?}: {why}"))?;
    }
    match world.leftovers().first() {
        Some(left) => Err(format!("{} was not removed", left.display())),
        None => Ok(()),
    }
}

/// Topics are deleted, made, or made anew: their names can be used at once.
fn come_and_go(world: &mut World, dice: &mut Dice) -> Result<(), String> {
    let names: Vec<_> = world
        .names
        .iter()
        .map(|(name, level)| (*name, *level))
        .collect();
    for (name, level) in names {
        let there = world.topics.contains_key(name);
        let mut steps = Vec::new();
        match dice.below(4) {
            0 if there => steps.push(Step::Delete(name)),
            1 if there => steps.extend([Step::Delete(name), Step::Topic(name, level)]),
            2 if there => steps.push(Step::Commit(name)),
            0..3 if !there => steps.extend([
                Step::Topic(name, level),
                Step::Append((name, 0), 30),
                Step::Commit(name),
            ]),
            _ => {}
        }
        for step in steps {
            world.take(step).map_err(|why| format!("{step:?}: {why}"))?;
        }
    }
    Ok(())
}

/// Only what such an end may call for is reported.
fn judge_report(power_lost: bool, shot: Shot, report: &RecoveryReport) -> Result<(), String> {
    let killed = shot.model == CrashModel::ProcessKill && !power_lost;
    for finding in report.findings() {
        let allowed = match finding.kind {
            FindingKind::TornTail | FindingKind::LostSlot => true,
            FindingKind::Gap | FindingKind::SuspectTail => !killed,
            _ => false,
        };
        if !allowed {
            return Err(format!("reported without a reason: {finding:?}"));
        }
    }
    Ok(())
}

/// Offsets that are skipped, so that none is used twice, are reported.
fn judge_gap(
    world: &mut World,
    key: Key,
    told: u64,
    report: &RecoveryReport,
) -> Result<(), String> {
    let partition = world.partition(key).map_err(|e| format!("{e:?}"))?;
    let (seen, next) = workload::read(&partition).map_err(|e| format!("{e:?}"))?;
    let start = workload::valid(&partition).start;
    let after = seen.last().map_or(start, |last| last.0 + 1);
    let gap = |finding: &&Finding| {
        let here = finding.at.as_ref() == Some(&partition.topic_partition());
        let to = finding.offsets.as_ref().map(|offsets| offsets.end.get());
        finding.kind == FindingKind::Gap && here && to == Some(next)
    };
    // Once the next segment is there, its header records the gap.
    let recorded = segment_files(&world.disk).into_iter().any(|(path, _)| {
        let name = path.to_string_lossy();
        let dir = format!("/{}-", key.0);
        name.contains(&dir) && name.contains(&format!("/{}/{next:020}-", key.1))
    });
    if next != after && next != told && !recorded && report.findings().iter().find(gap).is_none() {
        return Err(format!(
            "{key:?} goes on at {next} after {after}, unreported"
        ));
    }
    Ok(())
}

/// Appends work, at the end that was shown, and everything before stays as it was.
fn go_on(world: &mut World, key: Key, dice: &mut Dice) -> Result<(), String> {
    let said = |e: thalweg::Error| format!("{key:?} cannot go on: {e:?}");
    let end = world.partition(key).map_err(said)?.offsets().end.get();
    let count = if dice.once_in(2) { 1 } else { 3 };
    let first = world.append(key, count, 40).map_err(said)?;
    if first != end {
        return Err(format!("{key:?} ended at {end} and goes on at {first}"));
    }
    let partition = world.partition(key).map_err(said)?;
    let (seen, _) = workload::read(&partition).map_err(said)?;
    if !seen.iter().eq(world.tallies[&key].records()) {
        return Err(format!("{key:?} reads otherwise after an append"));
    }
    if dice.once_in(4) {
        let back: Result<Vec<_>, _> = partition.entries(..).rev().collect();
        let back = back.map_err(said)?;
        let offsets = back.iter().rev().map(|entry| entry.offset().get());
        if !offsets.eq(seen.iter().map(|one| one.0)) {
            return Err(format!("{key:?} reads otherwise backwards"));
        }
        let one = &seen[dice.below(seen.len() as u64) as usize];
        let got = partition.get(thalweg::Offset::new(one.0)).map_err(said)?;
        if got.map(|entry| common::seen(&entry)) != Some((one.0, one.1.clone())) {
            return Err(format!("{key:?} has something else at {}", one.0));
        }
    }
    Ok(())
}

/// No group is ahead of its partition.
fn judge_commits(world: &mut World) -> Result<(), String> {
    let log = world.log().map_err(|e| format!("{e:?}"))?;
    let committed = log.group(workload::GROUP).committed();
    for next in committed.map_err(|e| format!("{e:?}"))?.iter() {
        let topic = log.topic(next.topic()).map_err(|e| format!("{e:?}"))?;
        let partition = topic.partition(next.partition());
        let end = partition.map_err(|e| format!("{e:?}"))?.offsets().end;
        if next.offset() > end {
            return Err(format!(
                "{next} is committed, and the partition ends at {end:?}"
            ));
        }
    }
    Ok(())
}

/// What was cut is kept aside, all of it, and said; nothing else of a segment is ever changed.
fn judge_cuts(
    world: &World,
    before: &[(PathBuf, Vec<u8>)],
    disk: &Disk,
    report: &RecoveryReport,
) -> Result<(), String> {
    let dirs = workload::directories(disk);
    let files = disk.files();
    let now = || files.iter().map(|(path, _)| path);
    let beside = || now().chain(before.iter().map(|(path, _)| path));
    for (path, bytes) in before.iter().filter(|(_, bytes)| bytes.len() > HEADER) {
        if is_of_deleted(path, &dirs) || world.is_forgotten(path, beside()) {
            continue;
        }
        // A segment of which nothing was left is replaced by one that begins elsewhere.
        let now = disk.read_file(path);
        let now = now.unwrap_or_else(|_| bytes[..HEADER].to_vec());
        if now.starts_with(bytes) {
            continue;
        }
        let here = |finding: &&Finding| {
            finding.file.as_ref() == Some(path) && finding.quarantine.is_some()
        };
        let Some(cut) = report.findings().iter().find(here) else {
            return Err(format!("{} was changed, unreported", path.display()));
        };
        let from = cut.byte.unwrap_or(0) as usize;
        let aside = disk.read_file(cut.quarantine.as_ref().expect("looked for"));
        let aside = aside.map_err(|e| format!("what was cut is not kept: {e}"))?;
        if !now.starts_with(&bytes[..from])
            || aside != bytes[from..]
            || cut.bytes != aside.len() as u64
        {
            return Err(format!(
                "{} was not cut as reported: {cut:?}",
                path.display()
            ));
        }
    }
    Ok(())
}

/// Is this a file of a topic that is not there any more? (Whether that may be is judged elsewhere.)
fn is_of_deleted(path: &Path, dirs: &[(String, String)]) -> bool {
    let Ok(below) = path.strip_prefix("/log/topics") else {
        return false;
    };
    let dir = below.iter().next().and_then(|dir| dir.to_str());
    !dirs
        .iter()
        .any(|(name, tag)| dir == Some(&format!("{name}-{tag}")))
}

fn segment_files(disk: &Disk) -> Vec<(PathBuf, Vec<u8>)> {
    let files = disk.files().into_iter().map(|(path, _)| path);
    let segments = files.filter(|path| path.extension().is_some_and(|ext| ext == "log"));
    let read = segments.map(|path| {
        let bytes = disk.read_file(&path).expect("a file that is listed");
        (path, bytes)
    });
    read.collect()
}

/// Closed in order, opened again: everything is there, nothing is reported, and nothing is written.
fn close_and_look(mut world: World) -> Result<(), String> {
    world.take(Step::Close)?;
    let (disk, hash) = (world.disk.clone(), world.disk.hash());
    let end = End::at(disk.points(), CrashModel::ProcessKill);
    let opened = world.reopen(&disk, end)?;
    if !opened.report.is_empty() {
        return Err(format!("after a close: {:?}", opened.report));
    }
    drop(opened.log);
    if disk.hash() != hash {
        return Err("looking at a closed log changed it".to_owned());
    }
    Ok(())
}

/// A device that lied about syncs may have lost anything, and what is read is right all the same.
fn judge_lie(world: &World, disk: &Disk, end: End) -> Result<(), String> {
    let Ok(log) = common::open(disk, &world.clock) else {
        return Ok(()); // a typed error
    };
    let partitions = world.names.keys().flat_map(|name| [(*name, 0), (*name, 1)]);
    for key in partitions {
        let Ok(partition) = log.topic(key.0).and_then(|topic| topic.partition(key.1)) else {
            continue;
        };
        let entries: Vec<_> = partition.entries(..).collect();
        let whole = entries.iter().all(Result::is_ok);
        let right = entries.into_iter().filter_map(Result::ok);
        let seen: Vec<_> = right
            .map(|entry| {
                let (offset, rec) = common::seen(&entry);
                (offset, rec, entry.timestamp().as_millis())
            })
            .collect();
        let at = partition.topic_partition();
        let damaged = |finding: &Finding| {
            finding.kind == FindingKind::Damaged && finding.at.as_ref() == Some(&at)
        };
        let whole = whole && !log.recovery().findings().iter().any(damaged);
        let valid = workload::valid(&partition);
        // Such a device may have forgotten that a topic was deleted: it may be any of those that had the name.
        let past = world.past.iter().filter_map(|made| made.tallies.get(&key));
        let judged = world
            .tallies
            .get(&key)
            .into_iter()
            .chain(past)
            .map(|tally| {
                if whole {
                    tally.check(&seen, valid.clone(), end).map(drop)
                } else {
                    tally.check_readable(&seen, end)
                }
            });
        let judged = judged.reduce(Result::or).unwrap_or(Ok(()));
        judged.map_err(|why| format!("{key:?}: {why}"))?;
    }
    Ok(())
}
