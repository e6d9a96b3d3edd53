//! What every [`Storage`] must do alike: one list of tests, run on the disk, in memory, and on a simulated disk.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::memory::Memory;
use super::{
    BLOCK, Block, File, Kind, LockState, OpenMode, Reading, Storage, read_full, write_full,
};

/// A storage and a directory of its own in it.
struct Stage {
    storage: Arc<dyn Storage>,
    root: PathBuf,
    _dir: Option<tempfile::TempDir>,
}

impl Stage {
    #[cfg(unix)]
    fn disk() -> Stage {
        let dir = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(dir.path()).unwrap();
        Stage {
            storage: Arc::new(super::disk::Disk),
            root,
            _dir: Some(dir),
        }
    }

    fn memory(memory: Memory) -> Stage {
        let root = memory.resolve(Path::new("some/dir"), true).unwrap();
        Stage {
            storage: Arc::new(memory),
            root,
            _dir: None,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn make(&self, name: &str, bytes: &[u8]) -> Arc<dyn File> {
        let file = self
            .storage
            .open(&self.path(name), OpenMode::CreateNew)
            .unwrap();
        write_full(&*file, bytes, 0).unwrap();
        file
    }

    fn open(&self, name: &str) -> Arc<dyn File> {
        self.storage
            .open(&self.path(name), OpenMode::Write)
            .unwrap()
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        all_of(&*self.open(name))
    }

    fn refusal(&self, name: &str, mode: OpenMode) -> ErrorKind {
        self.storage
            .open(&self.path(name), mode)
            .expect_err("it opened")
            .kind()
    }
}

fn all_of(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize + 1];
    let count = read_full(file, &mut bytes, 0).unwrap();
    bytes.truncate(count);
    bytes
}

macro_rules! on_every_storage {
    ($($name:ident),* $(,)?) => {
        #[cfg(unix)]
        mod on_disk {
            $(#[test] fn $name() { super::$name(&super::Stage::disk()); })*
        }
        mod in_memory {
            $(#[test] fn $name() { super::$name(&super::Stage::memory(super::Memory::new())); })*
        }
        #[cfg(feature = "testing")]
        mod simulated {
            $(#[test] fn $name() { super::$name(&super::Stage::memory(super::Memory::simulated(0))); })*
        }
    };
}

on_every_storage![
    bytes_are_read_where_they_were_written,
    a_hole_reads_as_zeros,
    a_file_is_cut_and_grown,
    a_new_file_must_not_exist,
    what_is_missing_is_not_found,
    a_directory_is_not_a_file,
    a_rename_replaces,
    a_removed_name_is_gone,
    a_removed_file_is_readable_through_its_handle,
    a_directory_lists_names_and_kinds,
    a_directory_is_removed_only_when_empty,
    a_lock_is_taken_once,
    a_dropped_lock_can_be_taken_again,
    a_lock_whose_file_is_gone_or_replaced_is_lost,
    syncs_succeed,
    a_sync_behind_ends_when_it_is_waited_for_or_dropped,
    what_is_read_ahead_comes_in_order_and_ends,
    many_files_are_synced_in_one_call,
    identity_stays_with_the_file_and_a_copy_has_another,
    a_map_shows_what_a_read_does,
    a_map_beyond_the_end_is_refused,
    resolving_makes_the_directories_above_and_takes_dots_out,
    a_path_that_does_not_exist_is_resolved_only_to_be_made,
    the_boot_stays_the_same,
];

fn bytes_are_read_where_they_were_written(stage: &Stage) {
    let file = stage.make("f", &[1; 6000]);
    write_full(&*file, &[2; 100], 4050).unwrap();
    assert_eq!(file.len().unwrap(), 6000);
    let mut part = [0; 102];
    assert_eq!(read_full(&*file, &mut part, 4049).unwrap(), 102);
    assert_eq!((part[0], part[1], part[100], part[101]), (1, 2, 2, 1));
    assert_eq!(read_full(&*file, &mut part, 5950).unwrap(), 50);
    assert_eq!(file.read_at(&mut part, 6000).unwrap(), 0);
    assert_eq!(file.read_at(&mut [], 0).unwrap(), 0);
}

fn a_hole_reads_as_zeros(stage: &Stage) {
    let file = stage.make("f", b"a");
    write_full(&*file, b"z", 20_000).unwrap();
    let bytes = stage.bytes("f");
    assert_eq!((bytes.len(), bytes[0], bytes[20_000]), (20_001, b'a', b'z'));
    assert!(bytes[1..20_000].iter().all(|&b| b == 0));
}

fn a_file_is_cut_and_grown(stage: &Stage) {
    let file = stage.make("f", b"abcdef");
    file.set_len(2).unwrap();
    assert_eq!(stage.bytes("f"), b"ab");
    file.set_len(4).unwrap();
    assert_eq!(stage.bytes("f"), b"ab\0\0");
}

fn a_new_file_must_not_exist(stage: &Stage) {
    stage.make("f", b"kept");
    assert_eq!(
        stage.refusal("f", OpenMode::CreateNew),
        ErrorKind::AlreadyExists
    );
    assert_eq!(
        stage
            .storage
            .create_dir(&stage.path("f"))
            .unwrap_err()
            .kind(),
        ErrorKind::AlreadyExists
    );
    assert_eq!(stage.bytes("f"), b"kept");
}

fn what_is_missing_is_not_found(stage: &Stage) {
    let missing = stage.path("missing");
    assert_eq!(
        stage.refusal("missing", OpenMode::Read),
        ErrorKind::NotFound
    );
    assert_eq!(
        stage.refusal("missing", OpenMode::Write),
        ErrorKind::NotFound
    );
    assert_eq!(
        stage.refusal("missing/f", OpenMode::CreateNew),
        ErrorKind::NotFound
    );
    let kinds = [
        stage.storage.remove_file(&missing).unwrap_err().kind(),
        stage.storage.remove_dir(&missing).unwrap_err().kind(),
        stage
            .storage
            .rename(&missing, &stage.path("f"))
            .unwrap_err()
            .kind(),
        stage.storage.read_dir(&missing).unwrap_err().kind(),
        stage.storage.sync_dir(&missing).unwrap_err().kind(),
        stage.storage.identity(&missing).unwrap_err().kind(),
        stage.storage.world_writable(&missing).unwrap_err().kind(),
    ];
    assert_eq!(kinds, [ErrorKind::NotFound; 7]);
}

fn a_directory_is_not_a_file(stage: &Stage) {
    stage.storage.create_dir(&stage.path("d")).unwrap();
    assert_eq!(stage.refusal("d", OpenMode::Read), ErrorKind::InvalidInput);
    assert_eq!(stage.refusal("d", OpenMode::Write), ErrorKind::InvalidInput);
    assert_eq!(
        stage.refusal("d", OpenMode::CreateNew),
        ErrorKind::AlreadyExists
    );
    assert_eq!(
        stage.storage.lock(&stage.path("d")).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    assert!(stage.storage.remove_file(&stage.path("d")).is_err());
    stage.make("f", b"");
    assert_eq!(
        stage.storage.read_dir(&stage.path("f")).unwrap_err().kind(),
        ErrorKind::NotADirectory
    );
    assert_eq!(
        stage
            .storage
            .remove_dir(&stage.path("f"))
            .unwrap_err()
            .kind(),
        ErrorKind::NotADirectory
    );
    assert_eq!(
        stage.refusal("f/g", OpenMode::Read),
        ErrorKind::NotADirectory
    );
}

fn a_rename_replaces(stage: &Stage) {
    stage.make("old", b"old");
    let new = stage.make("new", b"new");
    stage
        .storage
        .rename(&stage.path("new"), &stage.path("old"))
        .unwrap();
    assert_eq!(stage.bytes("old"), b"new");
    assert_eq!(stage.refusal("new", OpenMode::Read), ErrorKind::NotFound);
    write_full(&*new, b"!", 3).unwrap();
    assert_eq!(stage.bytes("old"), b"new!");
    stage
        .storage
        .rename(&stage.path("old"), &stage.path("old"))
        .unwrap();
    assert_eq!(stage.bytes("old"), b"new!");
}

fn a_removed_name_is_gone(stage: &Stage) {
    stage.make("f", b"old");
    stage.storage.remove_file(&stage.path("f")).unwrap();
    assert_eq!(stage.refusal("f", OpenMode::Read), ErrorKind::NotFound);
    stage.make("f", b"");
    assert_eq!(stage.bytes("f"), b"");
}

fn a_removed_file_is_readable_through_its_handle(stage: &Stage) {
    let file = stage.make("f", b"still");
    let reader = stage.open("f");
    stage.storage.remove_file(&stage.path("f")).unwrap();
    drop(file);
    write_full(&*reader, b" here", 5).unwrap();
    assert_eq!(all_of(&*reader), b"still here");
    reader.sync_data().unwrap();
}

fn a_directory_lists_names_and_kinds(stage: &Stage) {
    stage.make("f", b"");
    stage.storage.create_dir(&stage.path("d")).unwrap();
    let mut entries = stage.storage.read_dir(&stage.root).unwrap();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let found: Vec<_> = entries
        .iter()
        .map(|e| (e.name.to_str().unwrap(), e.kind))
        .collect();
    assert_eq!(found, [("d", Kind::Dir), ("f", Kind::File)]);
}

fn a_directory_is_removed_only_when_empty(stage: &Stage) {
    stage.storage.create_dir(&stage.path("d")).unwrap();
    stage.make("d/f", b"");
    assert_eq!(
        stage
            .storage
            .remove_dir(&stage.path("d"))
            .unwrap_err()
            .kind(),
        ErrorKind::DirectoryNotEmpty
    );
    stage
        .storage
        .rename(&stage.path("d/f"), &stage.path("f"))
        .unwrap();
    stage.storage.remove_dir(&stage.path("d")).unwrap();
    assert_eq!(stage.storage.read_dir(&stage.root).unwrap().len(), 1);
}

fn a_lock_is_taken_once(stage: &Stage) {
    let path = stage.path("LOCK");
    let lock = stage.storage.lock(&path).unwrap();
    assert_eq!(
        stage.storage.lock(&path).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    assert_eq!(lock.check().unwrap(), LockState::Held);
    stage.storage.lock(&stage.path("LOCK-2")).unwrap();
}

fn a_dropped_lock_can_be_taken_again(stage: &Stage) {
    let path = stage.path("LOCK");
    drop(stage.storage.lock(&path).unwrap());
    assert_eq!(
        stage.storage.read_dir(&stage.root).unwrap().len(),
        1,
        "the lock file stays"
    );
    assert_eq!(
        stage.storage.lock(&path).unwrap().check().unwrap(),
        LockState::Held
    );
}

fn a_lock_whose_file_is_gone_or_replaced_is_lost(stage: &Stage) {
    let path = stage.path("LOCK");
    let lock = stage.storage.lock(&path).unwrap();
    stage.storage.remove_file(&path).unwrap();
    assert_eq!(lock.check().unwrap(), LockState::Lost);
    let second = stage.storage.lock(&path).unwrap();
    assert_eq!(
        (lock.check().unwrap(), second.check().unwrap()),
        (LockState::Lost, LockState::Held)
    );
    drop(lock);
    assert_eq!(second.check().unwrap(), LockState::Held);
    assert_eq!(
        stage.storage.lock(&path).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
}

fn syncs_succeed(stage: &Stage) {
    let file = stage.make("f", b"x");
    file.sync_data().unwrap();
    file.sync_all().unwrap();
    stage.storage.sync_dir(&stage.root).unwrap();
}

fn a_sync_behind_ends_when_it_is_waited_for_or_dropped(stage: &Stage) {
    let file = stage.make("f", b"x");
    stage.storage.sync_behind(&file).wait().unwrap();
    let syncing = stage.storage.sync_behind(&file);
    write_full(&*file, b"yz", 0).unwrap();
    drop(syncing);
    assert_eq!(stage.bytes("f"), b"yz");
}

fn what_is_read_ahead_comes_in_order_and_ends(stage: &Stage) {
    let bytes: Vec<u8> = (0..7 * BLOCK / 2).map(|n| (n / 251) as u8).collect();
    let file = stage.make("f", &bytes);
    let reading = |at, end| Reading {
        file: Arc::clone(&file),
        at,
        end,
        room: 100,
    };
    let len = bytes.len() as u64;
    for (at, end) in [(0, len), (1, 2), (77, len - 1), (5, len + 9), (len, len)] {
        let mut ahead = stage.storage.read_ahead(reading(at, end));
        let (mut block, mut read) = (Block::default(), Vec::new());
        loop {
            block = ahead.next(block).unwrap();
            if block.bytes.len() == block.from {
                break;
            }
            assert!(block.from >= 100);
            read.extend_from_slice(&block.bytes[block.from..]);
        }
        let wanted = &bytes[at as usize..end.min(len) as usize];
        assert!(read == wanted, "{at}..{end}");
        assert!(ahead.next(block).unwrap().bytes.len() <= 100 + 64);
    }
    let mut ahead = stage.storage.read_ahead(reading(0, len));
    ahead.next(Block::default()).unwrap();
    drop(ahead); // with the rest unread
    drop(stage.storage.read_ahead(reading(0, len)));
}

fn many_files_are_synced_in_one_call(stage: &Stage) {
    for count in [0, 1, 2, 9, 20] {
        let files: Vec<_> = (0..count)
            .map(|n| stage.make(&format!("{count}-{n}"), b"x"))
            .collect();
        let results = stage.storage.sync_many(&files);
        assert_eq!(
            (results.len(), results.iter().all(Result::is_ok)),
            (count, true)
        );
    }
}

fn identity_stays_with_the_file_and_a_copy_has_another(stage: &Stage) {
    let file = stage.make("f", b"x");
    let id = stage.storage.identity(&stage.path("f")).unwrap();
    write_full(&*file, b"yz", 0).unwrap();
    drop(file);
    assert_eq!(stage.storage.identity(&stage.path("f")).unwrap(), id);
    stage.make("copy", b"yz");
    assert_ne!(stage.storage.identity(&stage.path("copy")).unwrap(), id);
    stage
        .storage
        .rename(&stage.path("f"), &stage.path("g"))
        .unwrap();
    assert_eq!(stage.storage.identity(&stage.path("g")).unwrap(), id);
}

fn a_map_shows_what_a_read_does(stage: &Stage) {
    let bytes: Vec<u8> = (0..9000_u32).map(|n| (n % 251) as u8).collect();
    let file = stage.make("f", &bytes);
    let map = file.map(8500).unwrap();
    drop(file);
    stage.storage.remove_file(&stage.path("f")).unwrap();
    assert_eq!((*map).as_ref(), &bytes[..8500]);
}

fn a_map_beyond_the_end_is_refused(stage: &Stage) {
    let file = stage.make("f", b"abc");
    assert_eq!(file.map(4).err().unwrap().kind(), ErrorKind::InvalidInput);
    assert!((*file.map(0).unwrap()).as_ref().is_empty());
}

fn resolving_makes_the_directories_above_and_takes_dots_out(stage: &Stage) {
    let path = stage.storage.resolve(&stage.path("a/b/c"), true).unwrap();
    assert_eq!(path, stage.path("a/b/c"));
    assert_eq!(
        stage
            .storage
            .resolve(&stage.path("a/./b/../b/c"), false)
            .unwrap(),
        path
    );
    assert_eq!(stage.storage.resolve(&path, true).unwrap(), path);
    assert!(!stage.storage.world_writable(&path).unwrap());
}

fn a_path_that_does_not_exist_is_resolved_only_to_be_made(stage: &Stage) {
    let missing = stage.path("missing/dir");
    assert_eq!(
        stage.storage.resolve(&missing, false).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert!(stage.storage.read_dir(&stage.root).unwrap().is_empty());
}

fn the_boot_stays_the_same(stage: &Stage) {
    assert_eq!(stage.storage.boot_id(), stage.storage.boot_id());
    assert_ne!(stage.storage.random(), stage.storage.random());
}
