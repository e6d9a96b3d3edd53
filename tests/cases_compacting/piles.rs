//! B65, B66: replacing files, the whole of it or nothing; and no piles of files that hold nothing.

use thalweg::testing::{CrashModel, DiskCall, DiskError, Fault};
use thalweg::{Durability, TopicConfig};

use super::{Scene, files, logs, open_with};

const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Five keys, each written in each of four segments.
fn rewritten() -> Scene {
    let mut scene = Scene::new(TopicConfig::new());
    for turn in 0..4 {
        for key in KEYS {
            scene.put(key, Some(&format!("{key} {turn}")));
        }
        scene.roll();
    }
    scene
}

#[test]
fn b65_a_crash_or_an_error_while_files_are_replaced_leaves_the_old_ones_or_the_new_one() {
    let scene = rewritten();
    let begun = scene.disk.points();
    scene.compact();
    let whole: Vec<u64> = (0..20).collect();
    let mut found = [0, 0];
    for after in begun..=scene.disk.points() {
        for model in [CrashModel::ProcessKill, CrashModel::LostPages] {
            for seed in 0..3 {
                let state = format!("{model:?} after {after}, seed {seed}");
                let disk = scene.disk.crash(after, model, seed);
                let log = open_with(&disk, &scene.clock);
                let offsets = scene.book.judge(&logs::t0(&log));
                let offsets = offsets.unwrap_or_else(|why| panic!("{state}: {why}"));
                assert!(
                    offsets == whole || offsets == whole[15..],
                    "{state}: {offsets:?}"
                );
                found[usize::from(offsets == whole)] += 1;
                let count = if offsets == whole { 5 } else { 2 };
                assert_eq!(files(&disk, "t", ".log").len(), count, "{state}");
                log.topic("t").unwrap().compact().unwrap();
                assert_eq!(scene.book.judge(&logs::t0(&log)).unwrap(), whole[15..]);
            }
        }
    }
    assert!(found[0] > 10 && found[1] > 10, "{found:?}");

    // A write that fails in the middle.
    let scene = rewritten();
    let before = files(&scene.disk, "t", "");
    scene
        .disk
        .fail(Fault::error(DiskCall::Write, DiskError::Io).on(".log"));
    let failed = scene.log.topic("t").unwrap().compact().unwrap_err();
    assert!(matches!(failed, thalweg::Error::Io { .. }), "{failed:?}");
    assert_eq!(files(&scene.disk, "t", ""), before);
    assert_eq!(scene.offsets(), whole);
    scene.compact();
    assert_eq!(scene.offsets(), whole[15..]);
}

#[test]
fn b66_a_key_that_was_written_a_thousand_times_leaves_one_small_file() {
    let config = TopicConfig::new().durability(Durability::Process);
    let mut scene = Scene::new(config.segment_bytes(1024));
    for n in 0..1000 {
        scene.put("k", Some(&format!("value {n:020}")));
    }
    let before = scene.segments();
    assert!((80..200).contains(&before), "{before}");
    scene.roll();
    scene.compact();
    let there = files(&scene.disk, "t", ".log");
    assert!(there.len() <= 3, "{there:?}");
    assert_eq!(scene.offsets(), [999]);
    scene.reopen();
    assert_eq!(scene.partition().offsets().start.get(), 0);
    scene.disk.mark();
    assert_eq!(scene.partition().entries(..).count(), 1);
    let reads = scene.disk.calls()[&DiskCall::Read];
    assert!(reads < 20, "{reads} reads for one record");
    scene.put("k", Some("more"));
    assert_eq!(scene.offsets(), [999, 1000]);
}
