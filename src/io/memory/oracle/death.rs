//! The disk that keeps no history: it dies as a crash at that moment leaves it, and does not grow.

use super::super::models::Dice;
use super::*;

fn forgetful(seed: u64) -> Memory {
    let disk = Memory::simulated(seed);
    disk.remember_nothing();
    disk
}

/// Some calls, chosen by `seed`, on files `a` to `e`. Whether one fails does not matter: it does on each disk.
fn live(disk: &Memory, seed: u64, removes: bool) {
    let mut dice = Dice::seeded(&[seed]);
    for _ in 0..60 {
        let name = |roll: u64| format!("/{}", char::from(b'a' + (roll % 5) as u8));
        let (one, other) = (name(dice.roll()), name(dice.roll()));
        let (one, other) = (path(&one), path(&other));
        let (position, len) = (dice.roll() % 9000, dice.roll() % 6000);
        let file = disk.open(one, OpenMode::Write);
        let file = file
            .or_else(|_| disk.open(one, OpenMode::CreateNew))
            .unwrap();
        let _ = match dice.roll() % if removes { 8 } else { 6 } {
            0..3 => file
                .write_at(&vec![seed as u8 + 1; len as usize], position)
                .map(drop),
            3 => file.set_len(position),
            4 => file.sync_data(),
            5 => disk.sync_dir(path("/")),
            6 => disk.rename(one, other),
            _ => disk.remove_file(one),
        };
    }
}

/// All names, and sums of what files hold.
fn contents(disk: &Memory) -> Vec<(std::path::PathBuf, Option<u32>)> {
    let files = disk.list().into_iter();
    files
        .map(|(path, len)| {
            let sum = len.map(|_| crc32fast::hash(&disk.read_file(&path).unwrap()));
            (path, sum)
        })
        .collect()
}

/// With removed files the models of lost pages have other choices: what was never synced of a file that is gone in the cache is
/// gone for a disk without a history.
#[test]
fn a_disk_that_dies_leaves_what_a_crash_at_that_moment_leaves_life_after_life() {
    let models = [
        (ProcessKill, true),
        (LostSuffix, true),
        (LostPages, false),
        (GarbagePages, false),
    ];
    for seed in 0..100 {
        for (model, removes) in models {
            let (mut whole, mut present) = (Memory::simulated(seed), forgetful(seed));
            for life in 0..4 {
                live(&whole, seed + life, removes);
                live(&present, seed + life, removes);
                let (boot, chance) = (present.boot_id(), seed * 31 + life);
                whole = whole.crash(whole.points(), model, chance);
                present = present.die(model, chance);
                let same = contents(&present) == contents(&whole);
                assert!(same, "{model:?}, seed {seed}, life {life}");
                assert_eq!(present.boot_id() == boot, model == ProcessKill);
                assert_eq!(present.remembered().0, 0);
            }
        }
    }
}

#[test]
fn a_dead_disk_is_read_and_not_changed() {
    let disk = forgetful(0);
    let file = durable(&disk, "/f", b"before");
    let next = disk.die(ProcessKill, 0);
    assert!(file.write_at(b"after", 0).is_err());
    assert!(file.set_len(0).is_err());
    assert!(file.sync_data().is_err());
    assert!(disk.sync_dir(path("/")).is_err());
    assert!(disk.rename(path("/f"), path("/g")).is_err());
    assert!(disk.remove_file(path("/f")).is_err());
    assert!(disk.create_dir(path("/d")).is_err());
    assert!(disk.lock(path("/LOCK")).is_err());
    let _ = disk.open(path("/new"), OpenMode::CreateNew);
    let mut bytes = [0; 6];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 6);
    assert_eq!(&bytes, b"before");
    for disk in [&disk, &next] {
        let files: Vec<_> = contents(disk).into_iter().skip(1).collect(); // after the root
        assert_eq!(files, [("/f".into(), Some(crc32fast::hash(b"before")))]);
    }
}

#[test]
fn a_disk_without_a_history_does_not_grow_with_the_files_that_are_gone() {
    let disk = forgetful(0);
    durable(&disk, "/kept", b"kept");
    for n in 0..2000 {
        let name = format!("/{n}");
        durable(&disk, &name, b"gone");
        disk.remove_file(path(&name)).unwrap();
        if n % 3 == 0 {
            disk.sync_dir(path("/")).unwrap();
        }
    }
    let (operations, files) = disk.remembered();
    assert_eq!(operations, 0);
    assert!(files < 200, "{files}");
    let crashed = disk.die(LostSuffix, 0);
    assert_eq!(crashed.read_file(path("/kept")).unwrap(), b"kept");
}
