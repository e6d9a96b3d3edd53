//! Crash after crash: points, seeds, boots, histories.

use super::*;

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
fn many_unsynced_pages_are_sampled_from_nothing_to_everything() {
    let disk = Memory::simulated(0);
    let file = durable(&disk, "/f", b"");
    write_full(&*file, &vec![1; 40 * 4096], 0).unwrap();
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
        write_full(&*file, &vec![1; 100_000], 0).unwrap();
        let second = disk.crash(disk.points(), GarbagePages, 77);
        let file = second.open(path("/f"), OpenMode::Write).unwrap();
        write_full(&*file, &vec![2; 50_000], 4096).unwrap();
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
