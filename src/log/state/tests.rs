//! What `STATE` promises when it is written: entries survive or cost time, a rewrite keeps what counts.

use super::*;
use crate::format::accumulator::Accumulator;
use crate::io::memory::Memory;
use crate::log::root::Access;

fn root(storage: &Memory) -> Root {
    let path = std::path::Path::new("/log");
    Root::open(Arc::new(storage.clone()), path, Access::Write, false).unwrap()
}

fn point(partition: u32, position: u64) -> Point {
    Point {
        topic: 7,
        partition,
        open_number: 2,
        base: 0,
        generation: 0,
        position,
        offset: position,
        accumulator: Accumulator::default(),
        journal_position: 0,
        manifest_generation: 0,
    }
}

fn len(storage: &Memory) -> u64 {
    let file = storage
        .open(std::path::Path::new("/log/STATE"), OpenMode::Read)
        .unwrap();
    file.len().unwrap()
}

#[test]
fn nothing_is_written_before_the_first_opening_number_nor_after_the_close() {
    let storage = Memory::new();
    let root = root(&storage);
    let state = State::read(&root, false).unwrap();
    state.record_point(&point(0, 1));
    state.close().unwrap();
    assert!(!state.has_opened());
    assert!(
        read_whole(&storage, &root.dir.join(names::STATE))
            .unwrap()
            .is_none()
    );
    assert_eq!(state.open_number().unwrap(), 2);
    assert_eq!(state.open_number().unwrap(), 2);
    state.record_point(&point(0, 2));
    state.close().unwrap();
    let closed = len(&storage);
    state.record_point(&point(0, 3));
    assert_eq!(len(&storage), closed);

    let again = State::read(&root, false).unwrap();
    assert!(again.clean() && again.is_sound());
    assert_eq!(again.point(7, 0), Some(point(0, 2)));
    assert_eq!(again.newest_close(), 2);
    assert_eq!(again.open_number().unwrap(), 3);
    assert!(!State::read(&root, false).unwrap().clean());
}

#[test]
fn a_state_that_is_not_sound_is_rewritten_before_the_next_entry() {
    let storage = Memory::new();
    let root = root(&storage);
    let state = State::read(&root, false).unwrap();
    state.open_number().unwrap();
    state.record_point(&point(0, 1));
    let file = storage
        .open(&root.dir.join(names::STATE), OpenMode::Write)
        .unwrap();
    write_full(&*file, &[0xEE; 40], len(&storage)).unwrap();

    let holed = State::read(&root, false).unwrap();
    assert!(!holed.is_sound() && !holed.same_boot_since(2));
    assert_eq!(holed.point(7, 0), Some(point(0, 1)));
    holed.saw(9);
    assert_eq!(holed.open_number().unwrap(), 11);
    let mended = State::read(&root, false).unwrap();
    assert!(mended.is_sound() && !mended.clean());
    assert_eq!(mended.point(7, 0), Some(point(0, 1)));
    // An opening is missing between the two, so nobody who was not written since takes them for consecutive.
    assert!(!mended.same_boot_since(2) && mended.same_boot_since(11));
}

#[cfg(feature = "testing")]
mod crashes {
    use super::*;
    use crate::io::memory::errors::DiskError;
    use crate::io::memory::faults::Fault;
    use crate::io::memory::models::CrashModel;
    use crate::io::memory::{DiskCall, Setting};

    /// Fills `STATE` up to its limit; the next point makes it rewrite itself. Returns the state and how many points there are.
    fn full(storage: &Memory) -> (State, u64) {
        let state = State::read(&root(storage), false).unwrap();
        state.open_number().unwrap();
        let mut points = 0;
        while len(storage) <= REWRITE_ABOVE {
            state.record_point(&point((points % 10) as u32, points));
            points += 1;
        }
        storage.forget_history();
        (state, points)
    }

    #[test]
    fn a_state_that_has_grown_is_rewritten_and_keeps_the_newest_points() {
        let storage = Memory::simulated(0);
        let (state, points) = full(&storage);
        state.record_point(&point(3, points));
        assert!(len(&storage) < 4096);
        state.record_point(&point(4, points + 1));
        drop(state);
        let again = State::read(&root(&reboot(&storage)), false).unwrap();
        assert!(again.is_sound());
        assert_eq!(again.point(7, 3), Some(point(3, points)));
        assert_eq!(again.point(7, 4), Some(point(4, points + 1)));
        assert!(
            again
                .point(7, 5)
                .is_some_and(|point| point.position >= points - 10)
        );
        assert!(again.same_boot_since(2));
        assert_eq!(again.open_number().unwrap(), 3);
    }

    /// The process dies, and with it its locks.
    fn reboot(storage: &Memory) -> Memory {
        storage.crash(storage.points(), CrashModel::ProcessKill, 0)
    }

    #[test]
    fn f14_a_crash_in_a_rewrite_leaves_the_old_state_or_the_new() {
        let storage = Memory::simulated(0);
        let (state, points) = full(&storage);
        state.record_point(&point(3, points));
        for model in [
            CrashModel::ProcessKill,
            CrashModel::LostSuffix,
            CrashModel::LostPages,
            CrashModel::GarbagePages,
        ] {
            for after in 0..=storage.points() {
                for seed in 0..4 {
                    let what = format!("{model:?} after {after} seed {seed}");
                    let again =
                        State::read(&root(&storage.crash(after, model, seed)), false).unwrap();
                    assert!(!again.clean(), "{what}");
                    // The opening was synced; what is above may have been lost, which costs time.
                    assert!(again.open_number().unwrap() >= 3, "{what}");
                    if let Some(found) = again.point(7, 3) {
                        assert!(
                            found.position <= points && found.position % 10 == 3
                                || found.position == points,
                            "{what}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_point_that_finds_no_space_is_left_out_and_the_file_stays_sound() {
        let storage = Memory::simulated(0);
        let state = State::read(&root(&storage), false).unwrap();
        state.open_number().unwrap();
        storage.set(Setting::Capacity(Some(storage.used() + 10)));
        state.record_point(&point(0, 1));
        storage.set(Setting::Capacity(None));
        state.record_point(&point(1, 1));
        let again = State::read(&root(&reboot(&storage)), false).unwrap();
        assert!(again.is_sound());
        assert_eq!(
            (again.point(7, 0), again.point(7, 1)),
            (None, Some(point(1, 1)))
        );
    }

    #[test]
    fn an_opening_that_could_not_be_synced_is_no_opening() {
        let storage = Memory::simulated(0);
        let state = State::read(&root(&storage), false).unwrap();
        for call in [DiskCall::SyncAll, DiskCall::Rename, DiskCall::SyncDir] {
            storage.fail(Fault::error(call, DiskError::Io));
            assert!(state.open_number().is_err(), "{call:?}");
            assert!(!state.has_opened());
        }
        assert_eq!(state.open_number().unwrap(), 2);
        let again = State::read(&root(&reboot(&storage)), false).unwrap();
        storage.heal();
        assert!(again.is_sound() && again.same_boot_since(2));
    }
}
