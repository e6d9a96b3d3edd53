//! B58, B61, B62, B63: what a tombstone is, what it takes with it, and when it goes.

use thalweg::{Timestamp, TopicConfig};

use super::{HOUR, Rec, Scene, rec};

#[test]
fn b58_an_empty_value_is_no_tombstone_and_an_empty_key_is_a_key() {
    let mut scene = Scene::new(TopicConfig::new());
    scene.put("k1", Some("x"));
    scene.put("k1", Some(""));
    scene.put("k2", Some("x"));
    scene.put("k2", None);
    scene.put("", Some("d"));
    scene.put("", Some("e"));
    scene.roll();
    scene.compact();
    assert_eq!(scene.offsets(), [1, 3, 5]);
    scene.reopen();
    assert_eq!(scene.offsets(), [1, 3, 5]);
    scene.clock.advance(2 * HOUR);
    scene.compact();
    assert_eq!(scene.offsets(), [1, 5]);
    scene.reopen();
    assert_eq!(scene.offsets(), [1, 5]);
    // The empty key can be deleted like any other.
    scene.put("", None);
    scene.roll();
    scene.compact();
    assert_eq!(scene.offsets(), [1, 6]);
}

#[test]
fn b61_the_time_of_a_tombstone_does_not_depend_on_the_times_of_records() {
    let mut scene = Scene::new(TopicConfig::new());
    let begun = scene.clock.now();
    let minute = HOUR / 60;
    let at = |key: &str, value, after: u64| Rec {
        event_time: Some(begun.as_millis() + 1000 * after.cast_signed()),
        ..rec(key, value)
    };
    scene.batch(&[at("k0", Some("v"), 3610)]);
    scene.roll();
    scene.compact();
    scene.batch(&[at("k1", Some("v"), 0)]);
    scene.batch(&[at("k1", None, 0)]);
    scene.roll();
    scene.put("k2", Some("v"));
    scene.roll();
    scene.compact();
    assert_eq!(scene.offsets(), [0, 2, 3]);
    scene.clock.advance(59 * minute);
    scene.compact();
    assert_eq!(scene.offsets(), [0, 2, 3]);
    scene.clock.advance(2 * minute);
    scene.compact();
    assert_eq!(scene.offsets(), [0, 3]);
}

#[test]
fn b62_a_quiet_topic_loses_its_tombstones_in_time_over_a_reopening_too() {
    let mut scene = Scene::new(TopicConfig::new());
    scene.put("k", Some("v"));
    scene.put("k", None);
    scene.roll();
    let pass = |scene: &Scene| scene.log.maintain().unwrap().segments_compacted;
    assert_eq!(pass(&scene), 1);
    assert_eq!(scene.offsets(), [1]);
    scene.clock.advance(HOUR / 2);
    assert_eq!(pass(&scene), 0);
    assert_eq!(scene.offsets(), [1]);
    scene.reopen();
    scene.clock.advance(HOUR * 3 / 2);
    assert_eq!(pass(&scene), 1);
    assert_eq!(scene.offsets(), []);
    // There is nothing left to do, now or later.
    scene.disk.mark();
    for _ in 0..3 {
        scene.clock.advance(HOUR);
        assert_eq!(pass(&scene), 0);
    }
    let calls = scene.disk.calls();
    assert!(
        !calls
            .keys()
            .any(|call| *call == thalweg::testing::DiskCall::Write),
        "{calls:?}"
    );
}

#[test]
fn b63_a_tombstone_takes_nothing_with_it_from_its_batch() {
    let mut scene = Scene::new(TopicConfig::new());
    scene.put("k2", Some("v2"));
    scene.batch(&[
        rec("k1", Some("v1")),
        rec("k2", None),
        rec("k3", Some("v3")),
    ]);
    scene.roll();
    scene.compact();
    assert_eq!(scene.offsets(), [1, 2, 3]);
    scene.clock.advance(2 * HOUR);
    scene.compact();
    assert_eq!(scene.offsets(), [1, 3]);
    scene.reopen();
    assert_eq!(scene.offsets(), [1, 3]);
}

#[test]
fn b63_empty_and_all_deleted_topics_are_compacted_and_go_on_at_their_end() {
    let records: [&[Rec]; 4] = [
        &[],
        &[rec("k", None)],
        &[rec("a", None), rec("b", None), rec("a", None)],
        &[rec("a", Some("v")), rec("b", Some("v")), rec("b", None)],
    ];
    for records in records {
        let mut scene = Scene::new(TopicConfig::new());
        scene.compact();
        for record in records {
            scene.batch(std::slice::from_ref(record));
        }
        for _ in 0..3 {
            scene.roll();
            scene.compact();
            scene.clock.advance(2 * HOUR);
        }
        let values = records.iter().filter(|rec| rec.value.is_some()).count();
        assert_eq!(scene.offsets().len(), values.min(1), "{records:?}");
        scene.reopen();
        let end = records.len() as u64;
        assert_eq!(scene.book.end, end);
        scene.put("c", Some("v"));
        assert_eq!(scene.offsets().last(), Some(&end), "{records:?}");
    }
}

#[test]
fn b67_a_record_without_a_key_is_refused_with_its_batch_and_nothing_is_written() {
    let mut scene = Scene::new(TopicConfig::new());
    let keyless = Rec {
        value: Some("x".into()),
        ..Rec::default()
    };
    let partition = scene.partition();
    let points = scene.disk.points();
    for batch in [
        &[keyless.clone()][..],
        &[rec("k1", Some("v")), keyless.clone()],
        &[keyless, rec("k1", Some("v"))],
    ] {
        let refused = partition
            .append_all(batch.iter().map(Rec::record))
            .unwrap_err();
        assert!(
            matches!(refused, thalweg::Error::KeyRequired { .. }),
            "{refused:?}"
        );
        assert_eq!(refused.outcome(), thalweg::Outcome::Rejected);
    }
    assert_eq!(
        (partition.offsets().end.get(), scene.disk.points()),
        (0, points)
    );
    // What is there keeps its offset and its time.
    let times: [i64; 3] = [5, 3, 9];
    for time in times {
        let key = if time == 9 { "b" } else { "a" };
        let mut record = rec(key, Some("v"));
        record.event_time = Some(time);
        scene.batch(&[record]);
    }
    scene.roll();
    scene.compact();
    assert_eq!(scene.offsets(), [1, 2]);
    let found = partition
        .offset_for_time(Timestamp::from_millis(4))
        .unwrap();
    assert_eq!(found.unwrap().get(), 2);
}
