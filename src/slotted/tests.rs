//! What a slotted file promises: the old content or the new, whatever happens in between.

use std::io;

use super::*;
use crate::io::memory::Memory;

const KIND: SlotFile = SlotFile::Manifest;

fn path() -> &'static Path {
    Path::new("/log/MANIFEST")
}

fn with_dir(memory: Memory) -> Memory {
    memory.create_dir(Path::new("/log")).unwrap();
    memory.sync_dir(Path::new("/")).unwrap();
    memory
}

fn read(storage: &Memory) -> Option<Slotted> {
    SlottedFile::read(storage, path(), KIND).unwrap()
}

fn overwrite(storage: &Memory, bytes: &[u8], position: u64) {
    let file = storage.open(path(), OpenMode::Write).unwrap();
    write_full(&*file, bytes, position).unwrap();
}

#[test]
fn no_file_is_none_and_not_an_empty_content() {
    let storage = with_dir(Memory::new());
    assert_eq!(read(&storage), None);
    SlottedFile::create(&storage, path(), KIND, b"").unwrap();
    assert_eq!(read(&storage).unwrap().payload, b"");
}

#[test]
fn each_write_is_one_generation_further_also_when_it_outgrows_its_slot() {
    let storage = with_dir(Memory::new());
    let mut file = SlottedFile::create(&storage, path(), KIND, b"first").unwrap();
    let mut content = b"first".to_vec();
    for generation in 2..9 {
        content = content.repeat(4);
        assert_eq!(file.write(&storage, &content).unwrap(), generation);
        let found = read(&storage).unwrap();
        assert_eq!(
            (found.generation, found.payload, found.bad_other),
            (generation, content.clone(), false)
        );
    }
    let (mut file, _) = SlottedFile::open(&storage, path(), KIND).unwrap().unwrap();
    assert_eq!(file.write(&storage, b"short").unwrap(), 9);
    assert_eq!(read(&storage).unwrap().payload, b"short");
}

#[test]
fn one_bad_slot_is_told_and_two_are_corruption() {
    let storage = with_dir(Memory::new());
    let mut file = SlottedFile::create(&storage, path(), KIND, b"first").unwrap();
    file.write(&storage, b"second").unwrap();
    let size = file.slot_size;
    overwrite(&storage, b"rot", slots::slot_position(2, size) + 14);
    let found = read(&storage).unwrap();
    assert_eq!(
        (found.generation, &found.payload[..], found.bad_other),
        (1, &b"first"[..], true)
    );
    overwrite(&storage, b"rot", slots::slot_position(1, size) + 14);
    assert!(
        SlottedFile::read(&storage, path(), KIND)
            .unwrap_err()
            .is_corruption()
    );
}

#[test]
fn an_empty_file_and_a_directory_in_its_place_are_errors() {
    let storage = with_dir(Memory::new());
    storage.open(path(), OpenMode::CreateNew).unwrap();
    assert!(
        SlottedFile::read(&storage, path(), KIND)
            .unwrap_err()
            .is_corruption()
    );
    storage.remove_file(path()).unwrap();
    storage.create_dir(path()).unwrap();
    assert!(
        SlottedFile::read(&storage, path(), KIND)
            .unwrap_err()
            .is_corruption()
    );
}

#[test]
fn a_leftover_does_not_block_the_next_replacement() {
    let storage = with_dir(Memory::new());
    storage
        .open(&temporary(path()), OpenMode::CreateNew)
        .unwrap();
    SlottedFile::create(&storage, path(), KIND, b"first").unwrap();
    let gone = storage
        .open(&temporary(path()), OpenMode::Read)
        .unwrap_err();
    assert_eq!(gone.kind(), io::ErrorKind::NotFound);
}

/// The content stands at the front of its slot, and padding behind it.
#[cfg(feature = "testing")]
#[test]
fn a_write_that_fails_behind_the_content_leaves_the_old_one() {
    use crate::io::memory::DiskCall;
    use crate::io::memory::errors::{DiskError, Short};
    use crate::io::memory::faults::Fault;

    let storage = with_dir(Memory::simulated(0));
    let mut file = SlottedFile::create(&storage, path(), KIND, b"first").unwrap();
    let cut = Fault::short_write_then(Short::Half, DiskError::NoSpace);
    storage.fail(cut.clone());
    let refused = file.write(&storage, b"second").unwrap_err();
    assert!(matches!(refused, Error::NoSpace { .. }), "{refused:?}");
    assert_eq!(read(&storage).unwrap().payload, b"first");
    // Where it cannot be taken back, that is told.
    storage.fail(cut);
    storage.fail(Fault::error(DiskCall::SyncData, DiskError::Io));
    let unknown = file.write(&storage, b"second").unwrap_err();
    assert!(
        matches!(unknown, Error::Indeterminate { .. }),
        "{unknown:?}"
    );
    assert_eq!(file.write(&storage, b"third").unwrap(), 2);
    assert_eq!(read(&storage).unwrap().payload, b"third");
}

#[cfg(feature = "testing")]
mod crashes {
    use super::*;
    use crate::io::memory::errors::{DiskError, FailedSync};
    use crate::io::memory::faults::Fault;
    use crate::io::memory::models::{CrashModel, Variants};
    use crate::io::memory::{DiskCall, Setting};

    const MODELS: [CrashModel; 4] = [
        CrashModel::ProcessKill,
        CrashModel::LostSuffix,
        CrashModel::LostPages,
        CrashModel::GarbagePages,
    ];

    /// Contents by generation; the fourth outgrows the slot of the first.
    fn contents() -> Vec<Vec<u8>> {
        vec![
            b"one".to_vec(),
            b"two".to_vec(),
            vec![3; 400],
            vec![4; 3000],
            b"five".to_vec(),
        ]
    }

    fn seeds(disk: &Memory, after: usize, model: CrashModel) -> u64 {
        match disk.variants(after, model) {
            Variants::All(count) => count.min(64),
            _ => 64,
        }
    }

    /// Writes the contents and notes after how many operations each write was through.
    fn written(reopen: bool) -> (Memory, Vec<usize>) {
        let storage = with_dir(Memory::simulated(0));
        let disk = storage.clone();
        disk.forget_history();
        let contents = contents();
        let mut file = SlottedFile::create(&storage, path(), KIND, &contents[0]).unwrap();
        let mut through = vec![disk.points()];
        for content in &contents[1..] {
            if reopen {
                file = SlottedFile::open(&storage, path(), KIND)
                    .unwrap()
                    .unwrap()
                    .0;
            }
            file.write(&storage, content).unwrap();
            through.push(disk.points());
        }
        (disk, through)
    }

    #[test]
    fn f14_a_crash_at_any_step_leaves_the_old_content_or_the_new() {
        let contents = contents();
        for reopen in [false, true] {
            let (disk, through) = written(reopen);
            for model in MODELS {
                for after in 0..=disk.points() {
                    let done = through.iter().filter(|&&point| point <= after).count();
                    for seed in 0..seeds(&disk, after, model) {
                        let what = format!("{model:?} after {after} seed {seed} reopen {reopen}");
                        let found = read(&disk.crash(after, model, seed));
                        let generation =
                            found.as_ref().map_or(0, |found| found.generation) as usize;
                        assert!(
                            generation == done || generation == done + 1,
                            "{what}: {generation}, {done} done"
                        );
                        if let Some(found) = found {
                            assert_eq!(found.payload, contents[generation - 1], "{what}");
                        }
                    }
                }
            }
        }
    }

    /// What may be on the disk is what was written last, and after a failed sync what was there before, until a write succeeds.
    #[test]
    fn after_a_failed_sync_the_old_content_or_the_new_survives_and_nothing_else() {
        for (nth, reopen) in (0..5).flat_map(|nth| [(nth, false), (nth, true)]) {
            let disk = with_dir(Memory::simulated(0));
            let mut file = SlottedFile::create(&disk, path(), KIND, b"one").unwrap();
            disk.fail(Fault::sync(DiskCall::SyncData, FailedSync::Keep, DiskError::Io).after(nth));
            let mut possible = vec![b"one".to_vec()];
            for n in 0..6_u8 {
                if reopen {
                    // In the same boot the cache may show what is not on the disk.
                    file = SlottedFile::open(&disk, path(), KIND).unwrap().unwrap().0;
                }
                let content = vec![n; 10];
                match file.write(&disk, &content) {
                    Ok(_) => possible = vec![content],
                    Err(Error::Indeterminate { .. }) => possible.push(content),
                    // The slot that was read is written again first: the content stays as it was.
                    Err(Error::Io { .. }) => assert!(reopen),
                    Err(other) => panic!("{other:?}"),
                }
                for seed in 0..16 {
                    let crashed = disk.crash(disk.points(), CrashModel::LostPages, seed);
                    let survived = read(&crashed).unwrap().payload;
                    assert!(
                        possible.contains(&survived),
                        "{nth} {reopen} {n} {seed}: {survived:?}"
                    );
                }
            }
            assert_eq!(disk.struck(), 1);
        }
    }

    #[test]
    fn no_space_leaves_the_old_content_and_the_next_write_works() {
        let storage = with_dir(Memory::simulated(0));
        let disk = storage.clone();
        let mut file = SlottedFile::create(&storage, path(), KIND, b"one").unwrap();
        disk.set(Setting::Capacity(Some(disk.used() + 100)));
        assert!(matches!(
            file.write(&storage, &[7; 5000]),
            Err(Error::NoSpace { .. })
        ));
        assert_eq!(read(&storage).unwrap().payload, b"one");
        disk.set(Setting::Capacity(None));
        assert_eq!(file.write(&storage, &[7; 5000]).unwrap(), 2);
        assert_eq!(read(&storage).unwrap().payload, [7; 5000]);
    }
}
