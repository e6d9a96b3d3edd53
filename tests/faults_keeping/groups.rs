//! Row F74 as far as groups go, and what is told of a group when records went: it holds nothing back, and its lag is what it can read.

use std::time::Duration;

use thalweg::testing::CrashModel;
use thalweg::{Durability, Offset, Positions, Retention, StartFrom, TopicConfig, TopicPartition};

use super::logs::{end, fill, open_with, t0};
use super::{HOUR, by_fours, later, made, start};

const NOW: Duration = Duration::ZERO;

fn t() -> TopicPartition {
    TopicPartition::new("t", 0)
}

#[test]
fn f74_a_group_that_has_committed_nothing_or_little_holds_nothing_back() {
    let config = TopicConfig::new().retention(Retention::new().age(HOUR));
    let (_disk, clock, log, partition) = made(config);
    by_fours(&partition, 3);
    let mut slow = log
        .group("slow")
        .subscribe(["t"])
        .max_poll_records(2)
        .join()
        .unwrap();
    assert_eq!(slow.poll(NOW).unwrap().len(), 2);
    slow.commit().unwrap();
    let idle = log.group("idle").subscribe(["t"]).join().unwrap();
    log.group("far")
        .set_positions(&Positions::from_iter([t().at(Offset::new(11))]))
        .unwrap();
    clock.advance(2 * HOUR);
    fill(&partition, 12..14);
    assert_eq!(log.maintain().unwrap().segments_deleted, 3);
    assert_eq!(start(&partition), 12);
    for group in ["slow", "far"] {
        let lag = log.group(group).lag().unwrap();
        assert_eq!(lag, [(t(), 2)], "{group}: what it can read");
    }
    let told = log.group("slow").describe().unwrap();
    let [of] = &told.partitions[..] else {
        panic!("{told:?}");
    };
    assert_eq!((of.committed, of.lag), (Some(Offset::new(2)), 2));
    assert_eq!(slow.lag(&t()), Some(2));
    partition.delete_before(Offset::new(14)).unwrap();
    for group in ["slow", "far"] {
        assert_eq!(log.group(group).lag().unwrap(), [(t(), 0)], "{group}");
    }
    drop(idle);
}

#[test]
fn every_start_of_a_new_group_lies_in_what_is_left() {
    let (_disk, clock, log, partition) = made(TopicConfig::new());
    let began = clock.now();
    for _ in 0..5 {
        by_fours(&partition, 1);
        clock.advance(HOUR);
    }
    partition.delete_before(Offset::new(10)).unwrap();
    let starts = [
        (StartFrom::Earliest, 10),
        (StartFrom::Latest, 20),
        (StartFrom::Time(began), 10),
        (StartFrom::Time(later(began, HOUR)), 10),
        (StartFrom::Time(later(began, 3 * HOUR)), 12),
        (StartFrom::Ago(HOUR), 16),
        (StartFrom::Ago(100 * HOUR), 10),
        (StartFrom::Time(later(began, 100 * HOUR)), 20),
    ];
    for (n, (from, expected)) in starts.into_iter().enumerate() {
        let group = log.group(&format!("g{n}"));
        let mut consumer = group.subscribe(["t"]).start_from(from).join().unwrap();
        let batch = consumer.poll(NOW).unwrap();
        assert_eq!(batch.resets(), [], "{from:?}: nothing was missed");
        let first = batch.iter().next().map_or(20, |entry| entry.offset().get());
        assert_eq!(first, expected, "{from:?}");
        consumer.seek_to_start(&[t()]).unwrap();
        assert_eq!(consumer.position(&t()), Some(Offset::new(10)));
        drop(batch);
        consumer.close().unwrap();
        group
            .set_positions(&Positions::from_iter([t().at(Offset::new(13))]))
            .unwrap();
        let set = group.reset(from).unwrap();
        assert_eq!(set.next(&t()).map(Offset::get), Some(expected), "{from:?}");
    }
}

/// What stands below the new log start, and what does above it, was in the cache alone.
#[test]
fn f74_what_is_deleted_below_power_is_synced_first_so_the_end_is_never_below_the_start() {
    for level in [Durability::Process, Durability::Power] {
        for keep in [0, 1, 5, 30] {
            let (disk, clock, _log, partition) = made(TopicConfig::new().durability(level));
            by_fours(&partition, 3);
            fill(&partition, 12..40);
            partition.delete_before(Offset::new(40 - keep)).unwrap();
            for model in [
                CrashModel::LostSuffix,
                CrashModel::LostPages,
                CrashModel::GarbagePages,
            ] {
                for seed in 0..8 {
                    let crashed = disk.crash(disk.points(), model, seed);
                    let log = open_with(&crashed, &clock);
                    let partition = t0(&log);
                    assert_eq!(start(&partition), 40 - keep, "{level:?}");
                    assert!(end(&partition) >= 40, "{level:?}: all of it was synced");
                    assert_eq!(partition.entries(..).count() as u64, keep);
                    assert!(partition.append(("k", "v")).unwrap().offset().get() >= 40);
                }
            }
        }
    }
}
