//! A crash after each step of a growth: the old count or the new, every record that was acknowledged, and none beyond the count.

use thalweg::testing::{CrashModel, Disk, Variants};
use thalweg::{Durability, Log, TopicConfig};

use super::{count, open, try_open, values};

const MODELS: [CrashModel; 4] = [
    CrashModel::ProcessKill,
    CrashModel::LostSuffix,
    CrashModel::LostPages,
    CrashModel::GarbagePages,
];

/// What is so from a point on: the topic has so many partitions, and these have a record.
#[derive(Clone, Debug)]
struct Told {
    point: usize,
    partitions: u32,
    written: Vec<u32>,
}

/// A topic that grows by a few partitions, by so many that its description outgrows its file, and in another process, and is
/// written in between; what is so from which point on.
fn workload(disk: &Disk, level: Durability) -> Vec<Told> {
    let log = open(disk);
    let config = TopicConfig::new().partitions(2).durability(level);
    log.create_topic("orders", config).unwrap();
    let mut told = vec![Told {
        point: disk.points(),
        partitions: 2,
        written: Vec::new(),
    }];
    write(&log, disk, &mut told, 1);
    for (more, to) in [(3, 4), (200, 204)] {
        grow(&log, disk, &mut told, more);
        write(&log, disk, &mut told, to);
    }
    log.close().unwrap();
    let log = open(disk);
    grow(&log, disk, &mut told, 1);
    grow(&log, disk, &mut told, 2);
    write(&log, disk, &mut told, 207);
    drop(log);
    told
}

fn grow(log: &Log, disk: &Disk, told: &mut Vec<Told>, more: u32) {
    let orders = log.topic("orders").unwrap();
    orders.add_partitions_breaking_key_order(more).unwrap();
    let last = told.last().unwrap().clone();
    told.push(Told {
        point: disk.points(),
        partitions: last.partitions + more,
        ..last
    });
}

fn write(log: &Log, disk: &Disk, told: &mut Vec<Told>, to: u32) {
    let partition = log.topic("orders").unwrap().partition(to).unwrap();
    partition.append(("k", &to.to_string())).unwrap();
    let mut last = told.last().unwrap().clone();
    last.point = disk.points();
    last.written.push(to);
    told.push(last);
}

/// What must hold after a crash at a point, and goes on holding when the log is led on.
fn judge(disk: &Disk, told: &[Told], after: usize, safe: bool, state: &str) {
    let log = try_open(disk).unwrap_or_else(|e| panic!("{state}: {e:?}"));
    let damaged = |f: &thalweg::Finding| f.kind == thalweg::FindingKind::Damaged;
    let found = log.recovery().findings();
    assert!(!found.iter().any(damaged), "{state}: {found:?}");
    let behind = told.iter().rfind(|told| told.point <= after);
    let ahead = told.iter().find(|told| told.point > after);
    let Ok(orders) = log.topic("orders") else {
        assert!(behind.is_none(), "{state}: the topic is gone");
        return;
    };
    let of = count(&orders);
    let may = [behind, ahead].into_iter().flatten();
    let may: Vec<u32> = may.map(|told| told.partitions).collect();
    assert!(may.contains(&of), "{state}: {of} of {may:?}");
    assert!(dirs(disk).all(|number| number < of), "{state}: beyond {of}");
    for number in 0..of {
        let there = values(&orders, number);
        let acknowledged = behind.is_some_and(|told| told.written.contains(&number));
        assert!(
            !(safe && acknowledged) || there.len() == 1,
            "{state}: {number}"
        );
        assert!(
            there.iter().all(|value| *value == number.to_string()),
            "{state}"
        );
    }
    // It can be led on.
    orders.add_partitions_breaking_key_order(1).unwrap();
    let last = orders.partition(of).unwrap();
    last.append(("k", "last")).unwrap();
    log.close().unwrap_or_else(|e| panic!("{state}: {e:?}"));
    let log = open(disk);
    assert!(log.recovery().is_empty(), "{state}: {:?}", log.recovery());
    let orders = log.topic("orders").unwrap();
    assert_eq!(count(&orders), of + 1, "{state}");
    assert_eq!(values(&orders, of), ["last"], "{state}");
}

/// The numbers of the partitions that have a directory.
fn dirs(disk: &Disk) -> impl Iterator<Item = u32> {
    let files = disk.files().into_iter();
    files.filter_map(|(path, _)| {
        let below = path.strip_prefix("/log/topics").ok()?;
        below.iter().nth(1)?.to_str()?.parse().ok()
    })
}

#[test]
fn a_crash_at_each_step_leaves_the_old_count_or_the_new() {
    let mut states = 0;
    for level in [Durability::Process, Durability::Power] {
        let disk = Disk::new();
        let told = workload(&disk, level);
        for after in 0..=disk.points() {
            for model in MODELS {
                let safe = level == Durability::Power || model == CrashModel::ProcessKill;
                let seeds = match disk.variants(after, model) {
                    Variants::All(count) => count.min(4),
                    _ => 4,
                };
                for seed in 0..seeds {
                    let state = format!("{level:?}, {model:?} after {after}, seed {seed}");
                    judge(&disk.crash(after, model, seed), &told, after, safe, &state);
                    states += 1;
                }
            }
        }
    }
    println!("{states} states");
    assert!(states > 500);
}
