//! Row F101: copies of a log in use. A snapshot taken at one instant is a power loss; a skewed one gives the same data or an error.

use std::collections::BTreeMap;
use std::path::PathBuf;

use thalweg::testing::{CrashModel, Disk};
use thalweg::{Durability, FindingKind, Offset, TopicConfig};

use super::logs::{Dice, end, fill, kinds, numbered, open, rows, scale, seed, t0, try_open};

const LEVELS: [Durability; 2] = [Durability::Power, Durability::Process];

/// A log with some rolls, and how much was acknowledged after each disk operation.
fn history(level: Durability) -> (Disk, Vec<(usize, u64)>) {
    let disk = Disk::new();
    let log = open(&disk);
    let config = TopicConfig::new()
        .durability(level)
        .segment_bytes(700)
        .offset_span(1000);
    let topic = log.create_topic("t", config).unwrap();
    let partition = topic.partition(0).unwrap();
    let mut acknowledged = vec![(disk.points(), 0)];
    for n in 0..30 {
        fill(&partition, n..n + 1);
        acknowledged.push((disk.points(), n + 1));
        if n % 10 == 9 {
            log.sync().unwrap();
        }
    }
    (disk, acknowledged)
}

#[test]
fn f101_a_snapshot_in_the_same_boot_is_judged_as_a_power_loss() {
    for level in LEVELS {
        let (disk, acknowledged) = history(level);
        for (point, promised) in acknowledged {
            for seed in 0..3 {
                let copy = disk.crash_copy(point, CrashModel::LostPages, seed);
                let log = open(&copy);
                assert!(
                    !kinds(log.recovery()).contains(&FindingKind::Damaged),
                    "{level:?} {point} {seed}"
                );
                let partition = t0(&log);
                let held = rows(&partition);
                assert_eq!(
                    held,
                    numbered(0..held.len() as u64),
                    "{level:?} {point} {seed}"
                );
                if level == Durability::Power {
                    assert!(
                        held.len() as u64 >= promised,
                        "{point} {seed}: {} of {promised}",
                        held.len()
                    );
                }
                let at = partition.append(("k", "after")).unwrap().offset().get();
                assert!(
                    at >= promised,
                    "{level:?} {point} {seed}: offset {at} was given out"
                );
            }
        }
    }
}

/// Nothing was lost, but the copy cannot know: below `Power` the offsets go on behind the span.
#[test]
fn f101_a_copy_below_power_skips_the_span_and_the_original_does_not() {
    let (disk, acknowledged) = history(Durability::Process);
    let (at, _) = *acknowledged.last().unwrap(); // the log is closed in order after that
    let original = open(&disk.crash(at, CrashModel::ProcessKill, 0));
    assert!(original.recovery().is_empty(), "{:?}", original.recovery());
    assert_eq!(end(&t0(&original)), 30);
    let copy = open(&disk.crash_copy(at, CrashModel::ProcessKill, 0));
    assert_eq!(rows(&t0(&copy)), numbered(0..30));
    assert!(
        kinds(copy.recovery()).contains(&FindingKind::Gap),
        "{:?}",
        copy.recovery()
    );
    let at = t0(&copy).append(("k", "v")).unwrap().offset();
    assert!(
        at >= Offset::new(1000 - 30),
        "{at} is within the span that was open"
    );
}

/// The bytes of all files after so many operations.
type Files = BTreeMap<PathBuf, Vec<u8>>;

fn files_at(disk: &Disk, point: usize) -> Files {
    let then = disk.crash(point, CrashModel::ProcessKill, 0);
    let read = |path: PathBuf| {
        let bytes = then.read_file(&path).expect("a listed file");
        (path, bytes)
    };
    then.files()
        .into_iter()
        .map(|(path, _)| read(path))
        .collect()
}

/// A tool copies file after file while the log is written: each file is of another moment.
#[test]
fn f101_a_skewed_copy_gives_the_data_or_an_error_and_never_other_data() {
    let mut dice = Dice(seed());
    let (mut opened, mut refused, mut damaged) = (0, 0, 0);
    for level in LEVELS {
        let (disk, acknowledged) = history(level);
        let moments: Vec<Files> = acknowledged
            .iter()
            .map(|(point, _)| files_at(&disk, *point))
            .collect();
        for _ in 0..150 * scale() {
            let from = dice.below(moments.len() as u64) as usize;
            let width = 1 + dice.below((moments.len() - from) as u64) as usize;
            let copy = Disk::seeded(dice.roll());
            let names: Vec<&PathBuf> = moments[from + width - 1].keys().collect();
            for name in names {
                let moment = &moments[from + dice.below(width as u64) as usize];
                if let Some(bytes) = moment.get(name) {
                    copy.write_file(name, bytes).unwrap();
                }
            }
            if dice.below(2) == 0 {
                copy.set_boot_id(disk.boot_id());
            }
            copy.set_identity(7);
            match look(&copy, level) {
                Some(0) => opened += 1,
                Some(_) => damaged += 1,
                None => refused += 1,
            }
        }
    }
    println!("opened {opened}, with damage {damaged}, refused {refused}");
    assert!(
        opened > 0 && damaged + refused > 0,
        "the skew was never, or always, without effect"
    );
}

/// How many partitions are damaged; `None` if the copy is not opened.
fn look(copy: &Disk, level: Durability) -> Option<usize> {
    let log = match try_open(copy) {
        Ok(log) => log,
        Err(error) => {
            assert!(error.is_corruption(), "{level:?}: {error:?}");
            return None;
        }
    };
    let damaged = kinds(log.recovery())
        .iter()
        .filter(|kind| **kind == FindingKind::Damaged)
        .count();
    let partition = match log.topic("t") {
        Ok(topic) => topic.partition(0).unwrap(),
        Err(error) => {
            assert!(
                error.is_corruption() || matches!(error, thalweg::Error::NotFound { .. }),
                "{error:?}"
            );
            return Some(damaged);
        }
    };
    let mut last = None;
    for entry in partition.entries(..) {
        match entry {
            Ok(entry) => {
                let (offset, value) = super::logs::row(&entry);
                assert_eq!(value, format!("value-{offset:04}"));
                assert!(last.is_none_or(|last| last < offset));
                last = Some(offset);
            }
            Err(error) => assert!(error.is_corruption(), "{error:?}"),
        }
    }
    match partition.append(("k", "after")) {
        Ok(at) => assert!(last.is_none_or(|last| last < at.offset().get())),
        Err(error) => assert!(error.is_corruption(), "{error:?}"),
    }
    Some(damaged)
}
