//! B59: who reads from an offset that compaction removed goes on at the next record there is.

use std::time::Duration;

use thalweg::{Offset, Positions, TopicConfig, TopicPartition};

use super::{Scene, files};

const LONG: &str = "a value so long that two segments are too large for one another ------------------------------------";

/// Offsets 0, 1, 2, 3 | 7 of 0 to 7 are left; with `middle`, 4 to 6 had a segment of their own.
fn holey(segment_bytes: u64, middle: bool) -> Scene {
    let mut scene = Scene::new(TopicConfig::new().segment_bytes(segment_bytes));
    for key in ["a", "b", "c", "d"] {
        scene.put(key, Some(LONG));
    }
    scene.roll();
    for _ in 4..7 {
        scene.put("e", Some("-"));
    }
    if middle {
        scene.roll();
    }
    scene.put("e", Some(LONG));
    scene.roll();
    scene.put("z", Some("the last segment"));
    scene.compact();
    assert_eq!(scene.offsets(), [0, 1, 2, 3, 7, 8]);
    scene
}

#[test]
fn b59_positions_in_what_is_gone_go_on_at_the_next_record_in_the_same_poll() {
    let mut shapes = Vec::new();
    for (segment_bytes, middle) in [
        (64 << 10, false),
        (64 << 10, true),
        (400, false),
        (400, true),
    ] {
        let scene = holey(segment_bytes, middle);
        shapes.push(files(&scene.disk, "t", ".log").len());
        let at = TopicPartition::new("t", 0);
        for position in 3..=8 {
            let group = scene.log.group(&format!("g{position}"));
            let mut consumer = group.subscribe(["t"]).join().unwrap();
            let _ = consumer.poll(Duration::ZERO).unwrap(); // it has its partition
            let next: Positions = [at.at(Offset::new(position))].into_iter().collect();
            consumer.commit_at(&next).unwrap();
            drop(consumer);
            let mut consumer = group.subscribe(["t"]).max_poll_records(1).join().unwrap();
            let expected: Vec<u64> = [3, 7, 8].into_iter().filter(|o| *o >= position).collect();
            for offset in expected {
                let batch = consumer.poll(Duration::ZERO).unwrap();
                let got: Vec<u64> = batch.iter().map(|entry| entry.offset().get()).collect();
                assert_eq!(got, [offset], "from {position}");
                assert!(batch.resets().is_empty());
                let next = consumer.position(&at).unwrap().get();
                assert!((4..8).contains(&next) && offset == 3 || next == offset + 1);
            }
            assert!(consumer.poll(Duration::ZERO).unwrap().is_empty());
            consumer.commit().unwrap();
            assert_eq!(group.lag().unwrap(), [(at.clone(), 0)]);
        }
    }
    assert!(
        shapes.iter().any(|&count| count > 2) && shapes.contains(&2),
        "{shapes:?}"
    );
}
