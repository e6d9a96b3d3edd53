//! B22: files of an earlier topic of the same name.

use std::time::Duration;

use thalweg::testing::{CrashModel, Disk};
use thalweg::{Error, Log, TopicConfig};

use super::logs::{fill, numbered, one, open, rows, t0};

fn make(log: &Log) {
    let config = TopicConfig::new().segment_bytes(512);
    log.create_topic("t", config).unwrap();
}

#[test]
fn b22_files_of_an_earlier_topic_are_never_loaded_as_those_of_a_later_one() {
    let disk = Disk::new();
    let log = open(&disk);
    make(&log);
    fill(&t0(&log), 0..10);
    t0(&log).roll().unwrap();
    let mut consumer = log.group("g").subscribe(["t"]).join().unwrap();
    let _ = consumer.poll(Duration::ZERO).unwrap();
    consumer.commit().unwrap();
    drop(consumer);
    log.sync().unwrap();
    let begun = disk.points();
    log.delete_topic("t").unwrap();
    let mut there = 0;
    for after in begun..=disk.points() {
        for model in [
            CrashModel::ProcessKill,
            CrashModel::LostSuffix,
            CrashModel::LostPages,
            CrashModel::GarbagePages,
        ] {
            for seed in 0..4 {
                let state = format!("{model:?} after {after}, seed {seed}");
                let crashed = disk.crash(after, model, seed);
                let log = open(&crashed);
                let committed = log.group("g").committed().unwrap().iter().count();
                match log.topic("t") {
                    // Fully there, and then it can be deleted once more.
                    Ok(topic) => {
                        there += 1;
                        assert_eq!(rows(&one(&topic)), numbered(0..10), "{state}");
                        assert_eq!(committed, 1, "{state}");
                        drop(topic);
                        log.delete_topic("t").unwrap();
                    }
                    Err(Error::NotFound { .. }) => assert_eq!(committed, 0, "{state}"),
                    Err(e) => panic!("{state}: {e:?}"),
                }
                make(&log);
                t0(&log).append(("a", "z")).unwrap();
                log.close().unwrap();
                let log = open(&crashed);
                assert!(log.recovery().is_empty(), "{state}: {:?}", log.recovery());
                assert_eq!(rows(&t0(&log)), [(0, "z".to_owned())], "{state}");
                assert!(log.group("g").committed().unwrap().is_empty(), "{state}");
            }
        }
    }
    assert!(there > 0);
}
