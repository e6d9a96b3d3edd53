//! F118: entries that are kept for long. They stay readable whatever becomes of what they came from, and hold nothing else up.

use thalweg::testing::Disk;
use thalweg::{Entry, Error, Log, Maintenance, ReadMode};

use super::{NOW, join, log_with, make, t};

fn values(entries: &[Entry]) -> Vec<&str> {
    let values = entries.iter().map(|entry| entry.value_str().unwrap());
    values.collect()
}

#[test]
fn f118_an_entry_outlives_its_topic_its_consumer_and_its_log() {
    let log = log_with(1, 3);
    let mut consumer = join(&log);
    let batch = consumer.poll(NOW).unwrap();
    assert!(batch.pinned_bytes() > 0);
    let held: Vec<Entry> = batch.into_iter().collect();
    log.delete_topic("t").unwrap();
    assert!(matches!(log.topic("t"), Err(Error::NotFound { .. })));
    assert_eq!(values(&held), ["0", "1", "2"]);
    // Its name is free, and another topic of it is another one.
    make(&log, "t", 1, 2);
    assert_eq!(consumer.poll(NOW).unwrap().len(), 2);
    assert_eq!(values(&held), ["0", "1", "2"]);
    drop(consumer);
    log.close().unwrap();
    assert_eq!(values(&held), ["0", "1", "2"]);
    assert_eq!(held[2].topic_partition(), &t(0));
    // It can go to a thread of its own, too.
    let there = std::thread::spawn(move || values(&held).len());
    assert_eq!(there.join().unwrap(), 3);
}

#[test]
fn f118_an_entry_that_is_detached_pins_nothing_of_what_it_came_from() {
    let disk = Disk::new();
    let log = Log::builder()
        .maintenance(Maintenance::Manual)
        .open_on(&disk)
        .unwrap();
    make(&log, "t", 1, 100);
    let mut consumer = join(&log);
    let batch = consumer.poll(NOW).unwrap();
    let all = batch.pinned_bytes();
    let one = batch.iter().next().unwrap().to_entry();
    let alone = one.clone().detached();
    assert!(all >= 100, "a block is shared by all of its records");
    drop(batch);
    log.delete_topic("t").unwrap();
    assert_eq!(
        (one.value_str().unwrap(), alone.value_str().unwrap()),
        ("0", "0")
    );
    assert_eq!(one.position(), alone.position());
}

/// On a real disk and over maps: the files of a deleted topic go though an entry is held, and the others live on.
#[test]
fn f118_files_of_a_deleted_topic_go_though_an_entry_of_it_is_held() {
    for mode in [ReadMode::Positioned, ReadMode::Mapped] {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("log");
        let builder = Log::builder().maintenance(Maintenance::Manual);
        let log = builder.read_mode(mode).open(&place).unwrap();
        let old = make(&log, "t", 1, 50);
        old.partition(0).unwrap().roll().unwrap(); // sealed, so that it can be mapped
        let kept = make(&log, "u", 1, 1);
        let mut consumer = join(&log);
        let held: Vec<Entry> = consumer.poll(NOW).unwrap().into_iter().collect();
        assert_eq!(held.len(), 50);
        let files = |of: &str| {
            let topics = std::fs::read_dir(place.join("topics")).unwrap();
            let names = topics.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.filter(|name| name.starts_with(of)).count()
        };
        assert_eq!(files("t-"), 1);
        log.delete_topic("t").unwrap();
        assert_eq!(files("t-"), 0, "{mode:?}");
        assert_eq!(held[49].value_str().unwrap(), "49", "{mode:?}");
        kept.append(("", "x")).unwrap();
        drop(consumer);
        log.close().unwrap();
        assert_eq!(values(&held)[17], "17", "{mode:?}");
    }
}
