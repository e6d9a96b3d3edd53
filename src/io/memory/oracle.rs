//! Tests of the crash models. Everything else is tested against these states, so they are tested hardest.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::Memory;
use super::models::{CrashModel, Variants};
use crate::io::{File, OpenMode, Storage, write_full};

use CrashModel::{GarbagePages, LostPages, LostSuffix, LyingDevice, ProcessKill};

const PAGE: u64 = 4096;
const MODELS: [CrashModel; 5] = [
    ProcessKill,
    LostSuffix,
    LostPages,
    GarbagePages,
    LyingDevice,
];

fn path(name: &str) -> &Path {
    Path::new(name)
}

fn create(disk: &Memory, name: &str) -> Arc<dyn File> {
    disk.open(path(name), OpenMode::CreateNew).unwrap()
}

/// A file whose name and `bytes` are durable.
fn durable(disk: &Memory, name: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = create(disk, name);
    write_full(&*file, bytes, 0).unwrap();
    file.sync_all().unwrap();
    disk.sync_dir(path("/")).unwrap();
    file
}

/// Every state, or a good sample, that a crash now may leave.
fn crashes(disk: &Memory, model: CrashModel) -> Vec<Memory> {
    let count = match disk.variants(disk.points(), model) {
        Variants::All(count) => count,
        Variants::Sampled => 200,
    };
    (0..count)
        .map(|seed| disk.crash(disk.points(), model, seed))
        .collect()
}

/// What a file holds in each of those states; `None` where it is missing.
fn outcomes(disk: &Memory, model: CrashModel, name: &str) -> BTreeSet<Option<Vec<u8>>> {
    crashes(disk, model)
        .iter()
        .map(|crashed| crashed.read_file(path(name)).ok())
        .collect()
}

fn some(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(bytes.to_vec())
}

#[test]
fn what_is_synced_survives_every_honest_crash() {
    let disk = Memory::simulated(0);
    let file = durable(&disk, "/f", &[1; 10_000]);
    write_full(&*file, &[2; 5000], 10_000).unwrap();
    create(&disk, "/g");
    for model in [ProcessKill, LostSuffix, LostPages, GarbagePages] {
        for bytes in outcomes(&disk, model, "/f") {
            assert_eq!(
                bytes.expect("the name is durable")[..10_000],
                [1; 10_000],
                "{model:?}"
            );
        }
    }
}

#[test]
fn a_killed_process_loses_nothing_and_the_machine_runs_on() {
    let disk = Memory::simulated(0);
    let file = create(&disk, "/f");
    write_full(&*file, b"here", 0).unwrap();
    let crashed = disk.crash(disk.points(), ProcessKill, 0);
    assert_eq!(crashed.read_file(path("/f")).unwrap(), b"here");
    assert_eq!(crashed.boot_id(), disk.boot_id());
    // What it had not synced is still at risk.
    let again = crashed.crash(crashed.points(), LostSuffix, 0);
    assert!(again.read_file(path("/f")).is_err());
}

#[test]
fn a_power_loss_changes_the_boot_and_keeps_the_identity() {
    let disk = Memory::simulated(0);
    durable(&disk, "/f", b"x");
    for model in [LostSuffix, LostPages, GarbagePages] {
        let crashed = disk.crash(disk.points(), model, 0);
        assert_ne!(crashed.boot_id(), disk.boot_id());
        assert_eq!(
            crashed.identity(path("/f")).unwrap(),
            disk.identity(path("/f")).unwrap()
        );
    }
}

#[test]
fn a_lost_suffix_leaves_each_prefix_of_what_no_sync_covers() {
    let disk = Memory::simulated(0);
    let file = durable(&disk, "/f", b"0");
    for (position, bytes) in [(1, b"1"), (2, b"2")] {
        write_full(&*file, bytes, position).unwrap();
    }
    let other = create(&disk, "/g");
    write_full(&*other, b"g", 0).unwrap();
    let found: Vec<_> = crashes(&disk, LostSuffix)
        .iter()
        .map(|crashed| {
            (
                crashed.read_file(path("/f")).ok(),
                crashed.read_file(path("/g")).ok(),
            )
        })
        .collect();
    let expected = [
        (some(b"0"), None),
        (some(b"01"), None),
        (some(b"012"), None),
        (some(b"012"), some(b"")),
        (some(b"012"), some(b"g")),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_synced_file_keeps_its_place_in_a_lost_suffix() {
    let disk = Memory::simulated(0);
    let (a, b) = (durable(&disk, "/a", b""), durable(&disk, "/b", b""));
    write_full(&*a, b"lost?", 0).unwrap();
    write_full(&*b, b"kept", 0).unwrap();
    b.sync_data().unwrap();
    assert_eq!(
        outcomes(&disk, LostSuffix, "/b"),
        BTreeSet::from([some(b"kept")])
    );
    assert_eq!(
        outcomes(&disk, LostSuffix, "/a"),
        BTreeSet::from([some(b""), some(b"lost?")])
    );
}

#[test]
fn each_unsynced_page_and_the_size_are_lost_or_kept_independently() {
    let disk = Memory::simulated(0);
    let file = durable(&disk, "/f", b"");
    for page in 0..3 {
        write_full(&*file, &[page + 1; 4096], u64::from(page) * PAGE).unwrap();
    }
    assert_eq!(disk.variants(disk.points(), LostPages), Variants::All(16));
    let found = outcomes(&disk, LostPages, "/f");
    let mut expected = BTreeSet::from([some(b"")]);
    for kept in 0..8_u8 {
        let page = |n: u8| [if kept & (1 << n) > 0 { n + 1 } else { 0 }; 4096];
        expected.insert(Some([page(0), page(1), page(2)].concat()));
    }
    assert_eq!(found, expected);
}

#[test]
fn a_rewritten_page_is_old_or_new() {
    let disk = Memory::simulated(0);
    let file = durable(&disk, "/f", &[1; 8192]);
    write_full(&*file, &[2; 4096], 2048).unwrap();
    write_full(&*file, &[3; 1], 0).unwrap();
    let (mut one, two) = (
        [[1; 2048], [2; 2048]].concat(),
        [[2; 2048], [1; 2048]].concat(),
    );
    one[0] = 3;
    let (old, mut expected) = (vec![1; 4096], BTreeSet::new());
    for first in [&old, &one] {
        for second in [&old, &two] {
            expected.insert(Some([first.clone(), second.clone()].concat()));
        }
    }
    assert_eq!(outcomes(&disk, LostPages, "/f"), expected);
}

#[test]
fn a_page_can_be_torn_into_sectors() {
    let disk = Memory::simulated(0);
    disk.set(super::Setting::Unit(512));
    let file = durable(&disk, "/f", &[1; 4096]);
    write_full(&*file, &[2; 1024], 512).unwrap();
    let found = outcomes(&disk, LostPages, "/f");
    assert_eq!(found.len(), 4);
    for bytes in found.iter().flatten() {
        assert_eq!(
            (&bytes[..512], &bytes[1536..]),
            (&[1; 512][..], &[1; 2560][..])
        );
        assert!(bytes[512..1024] == [bytes[512]; 512] && bytes[1024..1536] == [bytes[1024]; 512]);
    }
}

#[test]
fn an_unsynced_cut_happened_or_not() {
    let disk = Memory::simulated(0);
    let file = durable(&disk, "/f", &[1; 6000]);
    file.set_len(100).unwrap();
    let found = outcomes(&disk, LostPages, "/f");
    assert!(found.contains(&some(&[1; 100])) && found.contains(&some(&[1; 6000])));
    assert!(found.iter().flatten().all(|bytes| bytes[..100] == [1; 100]));
    file.sync_data().unwrap();
    assert_eq!(
        outcomes(&disk, LostPages, "/f"),
        BTreeSet::from([some(&[1; 100])])
    );
}

#[test]
fn a_name_is_durable_only_when_its_directory_is_synced() {
    let disk = Memory::simulated(0);
    let file = create(&disk, "/f");
    write_full(&*file, b"x", 0).unwrap();
    file.sync_all().unwrap();
    assert_eq!(
        outcomes(&disk, LostPages, "/f"),
        BTreeSet::from([None, some(b"x")])
    );
    disk.sync_dir(path("/")).unwrap();
    assert_eq!(
        outcomes(&disk, LostPages, "/f"),
        BTreeSet::from([some(b"x")])
    );
}

#[test]
fn a_file_is_lost_with_the_directory_above_it() {
    let disk = Memory::simulated(0);
    disk.create_dir(path("/d")).unwrap();
    create(&disk, "/d/f").sync_all().unwrap();
    disk.sync_dir(path("/d")).unwrap();
    assert_eq!(
        outcomes(&disk, LostPages, "/d/f"),
        BTreeSet::from([None, some(b"")])
    );
    disk.sync_dir(path("/")).unwrap();
    assert_eq!(
        outcomes(&disk, LostPages, "/d/f"),
        BTreeSet::from([some(b"")])
    );
}

#[test]
fn a_replaced_file_is_the_old_one_or_the_new_one_and_never_missing() {
    let disk = Memory::simulated(0);
    durable(&disk, "/f", b"old");
    let file = create(&disk, "/f.tmp");
    write_full(&*file, b"new", 0).unwrap();
    file.sync_all().unwrap();
    disk.rename(path("/f.tmp"), path("/f")).unwrap();
    for model in [LostSuffix, LostPages, GarbagePages] {
        assert_eq!(
            outcomes(&disk, model, "/f"),
            BTreeSet::from([some(b"old"), some(b"new")]),
            "{model:?}"
        );
    }
    for crashed in crashes(&disk, LostPages) {
        let new = crashed.read_file(path("/f")).unwrap() == b"new";
        assert!(
            !(new && crashed.read_file(path("/f.tmp")).is_ok()),
            "one file, two names"
        );
    }
    disk.sync_dir(path("/")).unwrap();
    assert_eq!(
        outcomes(&disk, LostPages, "/f"),
        BTreeSet::from([some(b"new")])
    );
}

#[test]
fn renamed_before_it_was_synced_a_file_may_be_empty() {
    let disk = Memory::simulated(0);
    durable(&disk, "/f", b"old");
    let file = create(&disk, "/f.tmp");
    write_full(&*file, b"new", 0).unwrap();
    disk.rename(path("/f.tmp"), path("/f")).unwrap();
    let found = outcomes(&disk, LostPages, "/f");
    assert_eq!(
        found,
        BTreeSet::from([some(b"old"), some(b"new"), some(b""), some(b"\0\0\0")])
    );
}

#[test]
fn an_unsynced_removal_happened_or_not() {
    let disk = Memory::simulated(0);
    let file = durable(&disk, "/f", b"x");
    write_full(&*file, b"yz", 0).unwrap();
    drop(file);
    disk.remove_file(path("/f")).unwrap();
    let expected = BTreeSet::from([None, some(b"x"), some(b"y"), some(b"x\0"), some(b"yz")]);
    assert_eq!(outcomes(&disk, LostPages, "/f"), expected);
    disk.sync_dir(path("/")).unwrap();
    assert_eq!(outcomes(&disk, LostPages, "/f"), BTreeSet::from([None]));
}

#[test]
fn a_move_to_another_directory_never_makes_two_files_of_one() {
    let disk = Memory::simulated(0);
    disk.create_dir(path("/a")).unwrap();
    disk.create_dir(path("/b")).unwrap();
    disk.sync_dir(path("/")).unwrap();
    create(&disk, "/a/f").sync_all().unwrap();
    disk.sync_dir(path("/a")).unwrap();
    disk.rename(path("/a/f"), path("/b/f")).unwrap();
    disk.sync_dir(path("/b")).unwrap();
    for crashed in crashes(&disk, LostPages) {
        assert!(
            crashed.read_file(path("/b/f")).is_ok() && crashed.read_file(path("/a/f")).is_err()
        );
    }
}

#[test]
fn pages_that_never_were_on_the_disk_may_hold_garbage_or_a_removed_file() {
    let disk = Memory::simulated(0);
    drop(durable(&disk, "/dead", &[7; 12_288]));
    disk.remove_file(path("/dead")).unwrap();
    let file = durable(&disk, "/f", &[1; 4096]);
    write_full(&*file, &[2; 12_288], 4096).unwrap();
    let (mut stale, mut garbage) = (0, 0);
    for bytes in outcomes(&disk, GarbagePages, "/f").into_iter().flatten() {
        assert_eq!(bytes[..4096], [1; 4096]);
        for page in bytes[4096..].chunks(4096) {
            assert_ne!(page, [0; 4096]);
            stale += usize::from(page == [7; 4096]);
            garbage += usize::from(page != [7; 4096] && page != [2; 4096]);
        }
    }
    assert!(
        stale > 10 && garbage > 10,
        "{stale} stale, {garbage} garbage"
    );
}

#[test]
fn durable_pages_and_durable_holes_never_hold_garbage() {
    let disk = Memory::simulated(0);
    let file = durable(&disk, "/f", &[1; 4096]);
    write_full(&*file, &[1; 4096], 8192).unwrap();
    file.sync_data().unwrap();
    write_full(&*file, &[2; 12_288], 0).unwrap();
    for bytes in outcomes(&disk, GarbagePages, "/f").into_iter().flatten() {
        for (page, old) in bytes.chunks(4096).zip([1, 0, 1]) {
            assert!(page == [2; 4096] || page == [old; 4096]);
        }
    }
}

#[test]
fn a_lying_device_loses_what_was_synced_last() {
    let disk = Memory::simulated(0);
    let file = durable(&disk, "/f", b"first");
    write_full(&*file, b"again", 0).unwrap();
    file.sync_data().unwrap();
    let found = outcomes(&disk, LyingDevice, "/f");
    assert!(
        [None, some(b"first"), some(b"again")]
            .iter()
            .all(|outcome| found.contains(outcome))
    );
    assert!(
        found
            .iter()
            .flatten()
            .all(|bytes| [&b"first"[..], b"again", b"", b"\0\0\0\0\0"].contains(&&**bytes))
    );
}

#[test]
fn many_unsynced_pages_are_sampled_from_nothing_to_everything() {
    let disk = Memory::simulated(0);
    let file = durable(&disk, "/f", b"");
    write_full(&*file, &[1; 40 * 4096], 0).unwrap();
    assert_eq!(disk.variants(disk.points(), LostPages), Variants::Sampled);
    let held = |seed| {
        disk.crash(disk.points(), LostPages, seed)
            .read_file(path("/f"))
            .unwrap()
    };
    assert_eq!((held(0), held(1)), (Vec::new(), vec![1; 40 * 4096]));
    assert!(outcomes(&disk, LostPages, "/f").len() > 50);
}

#[test]
fn a_crash_can_be_asked_for_at_any_point_in_any_order() {
    let disk = Memory::simulated(0);
    let file = durable(&disk, "/f", b"");
    for n in 1..=20_u8 {
        write_full(&*file, &[n; 100], 0).unwrap();
    }
    let first = disk.points() - 20;
    for step in [20, 3, 17, 0, 17] {
        let crashed = disk.crash(first + step, ProcessKill, 0);
        let expected = if step == 0 {
            Vec::new()
        } else {
            vec![step as u8; 100]
        };
        assert_eq!(crashed.read_file(path("/f")).unwrap(), expected);
    }
}

#[test]
fn the_same_seed_gives_the_same_disk_and_crashes_nest() {
    let build = || {
        let disk = Memory::simulated(9);
        let file = durable(&disk, "/f", b"");
        write_full(&*file, &[1; 100_000], 0).unwrap();
        let second = disk.crash(disk.points(), GarbagePages, 77);
        let file = second.open(path("/f"), OpenMode::Write).unwrap();
        write_full(&*file, &[2; 50_000], 4096).unwrap();
        let third = second.crash(second.points(), LostPages, 78);
        (
            third.read_file(path("/f")).unwrap(),
            third.boot_id(),
            third.random(),
            second.random(),
        )
    };
    assert_eq!(build(), build());
    let (_, _, third, second) = build();
    assert_ne!(third, second);
}

#[test]
fn a_new_history_begins_with_the_same_risks() {
    for model in MODELS {
        let disk = Memory::simulated(0);
        let file = durable(&disk, "/f", b"old");
        write_full(&*file, b"new", 0).unwrap();
        let before = if model == LyingDevice {
            BTreeSet::new()
        } else {
            outcomes(&disk, model, "/f")
        };
        disk.forget_history();
        assert_eq!(disk.points(), 0);
        if model != LyingDevice {
            assert_eq!(outcomes(&disk, model, "/f"), before, "{model:?}");
        }
    }
}
