//! Pages and sizes: which bytes a crash leaves.

use super::super::Setting;
use super::*;

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
    disk.set(Setting::Unit(512));
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
