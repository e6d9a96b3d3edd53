//! Directories: which names a crash leaves.

use super::*;

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
