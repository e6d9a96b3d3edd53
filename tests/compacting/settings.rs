//! When a partition is compacted: how much is new, how old it is, and which comes first.

use std::time::Duration;

use thalweg::testing::CrashModel;
use thalweg::{
    Compaction, Error, Offset, Record, Retention, RetentionTime, Timestamp, TopicConfig,
};

use super::HOUR;
use super::latest::Book;
use super::logs::files;
use super::world::{Opening, World};

const TICK: Duration = Duration::from_millis(1);

fn world(config: TopicConfig, how: Compaction) -> World {
    World::with(config.compacted(how), Opening::default())
}

/// A segment of three records.
fn three(world: &mut World) {
    for key in ["a", "b", "c"] {
        world.put(key, Some("v"));
    }
    world.roll();
}

#[test]
fn half_of_a_partition_must_be_new_and_more_than_that() {
    for how in [Compaction::new(), Compaction::new().min_dirty_ratio(0.5)] {
        let mut world = world(TopicConfig::new(), how);
        three(&mut world);
        world.maintain(); // clean
        three(&mut world);
        let lens: Vec<u64> = world.disk.files().into_iter().map(|(_, len)| len).collect();
        world.maintain();
        assert_eq!(world.offsets(), [0, 1, 2, 3, 4, 5], "half of {lens:?}");
        world.put("d", Some("v"));
        world.roll();
        assert_eq!(world.maintain().segments_compacted, 3);
        assert_eq!(world.offsets(), [3, 4, 5, 6]);
    }
}

#[test]
fn a_ratio_of_zero_is_met_by_anything_and_one_of_one_by_nothing() {
    let mut eager = world(TopicConfig::new(), Compaction::new().min_dirty_ratio(0.0));
    let mut never = world(TopicConfig::new(), Compaction::new().min_dirty_ratio(1.0));
    for world in [&mut eager, &mut never] {
        for _ in 0..5 {
            three(world);
        }
        world.compact();
        world.put("a", Some("v"));
        world.roll();
        world.maintain();
    }
    assert_eq!(eager.offsets(), [13, 14, 15]);
    assert_eq!(never.offsets(), [12, 13, 14, 15]);
    never.compact();
    assert_eq!(never.offsets(), [13, 14, 15]);
}

#[test]
fn what_is_younger_than_the_least_lag_stays_and_so_does_what_lies_behind_it() {
    let how = Compaction::new().min_lag(HOUR);
    let mut world = world(TopicConfig::new(), how);
    three(&mut world);
    three(&mut world);
    world.clock.advance(HOUR);
    world.put("a", Some("young"));
    world.roll();
    world.compact();
    world.maintain();
    assert_eq!(world.offsets().len(), 7, "not a moment before");
    world.clock.advance(TICK);
    assert_eq!(world.maintain().segments_compacted, 2);
    assert_eq!(
        world.offsets(),
        [3, 4, 5, 6],
        "the young one takes nothing's place"
    );
    world.clock.advance(HOUR);
    world.compact();
    assert_eq!(world.offsets(), [4, 5, 6]);
}

/// A time in the future holds nothing up, unless the topic says that record times count.
#[test]
fn the_lag_counts_from_the_time_that_retention_counts_from() {
    for (by, held) in [
        (RetentionTime::Smaller, false),
        (RetentionTime::AppendTime, false),
        (RetentionTime::RecordTime, true),
    ] {
        let how = Compaction::new().min_lag(HOUR);
        let world = world(TopicConfig::new().retention_time(by), how);
        let partition = world.partition();
        let future = Timestamp::from_millis(world.clock.now().as_millis() + 100 * 3_600_000);
        for value in ["a", "b"] {
            partition
                .append(Record::new("k", value).at(future))
                .unwrap();
        }
        partition.roll().unwrap();
        world.clock.advance(HOUR + TICK);
        world.maintain();
        assert_eq!(
            partition.entries(..).count(),
            if held { 2 } else { 1 },
            "{by:?}"
        );
    }
}

#[test]
fn what_is_older_than_the_greatest_lag_is_sealed_and_compacted_however_little_it_is() {
    let how = Compaction::new().min_dirty_ratio(1.0).max_lag(HOUR);
    let mut world = world(TopicConfig::new(), how);
    three(&mut world);
    world.compact();
    world.put("a", Some("1"));
    world.put("a", Some("2"));
    world.clock.advance(HOUR / 60 * 59);
    world.maintain();
    assert_eq!((world.segments().len(), world.offsets().len()), (2, 5));
    world.clock.advance(HOUR / 60 + TICK);
    world.maintain();
    assert_eq!(world.offsets(), [1, 2, 4]);
    // And never again while nothing is new.
    world.clock.advance(10 * HOUR);
    world.disk.mark();
    assert_eq!(world.maintain().segments_compacted, 0);
    assert_eq!(
        world.disk.calls().get(&thalweg::testing::DiskCall::Write),
        None
    );
}

#[test]
fn with_a_retention_too_the_latest_values_go_with_their_age_and_without_one_never() {
    let how = Compaction::new();
    let both = TopicConfig::new().retention(Retention::new().age(HOUR));
    for (config, kept) in [(TopicConfig::new(), 3), (both, 0)] {
        let mut world = world(config, how);
        three(&mut world);
        three(&mut world);
        world.maintain();
        assert_eq!(world.offsets(), [3, 4, 5]);
        world.clock.advance(HOUR + TICK);
        while world.maintain().more {}
        world.book.start = world.partition().offsets().start.get();
        assert_eq!(world.offsets().len(), kept);
        assert_eq!(world.partition().offsets().end, Offset::new(6));
        let deleted = world.partition().delete_before(Offset::new(6));
        let refused = matches!(
            deleted,
            Err(Error::InvalidSetting {
                setting: "retention",
                ..
            })
        );
        assert_eq!(refused, kept > 0, "{deleted:?}");
    }
}

#[test]
fn a_topic_that_is_not_compacted_is_not_compacted_by_hand_either() {
    let world = world(TopicConfig::new(), Compaction::new());
    let plain = world.log.create_topic("plain", TopicConfig::new()).unwrap();
    let refused = plain.compact().unwrap_err();
    assert!(
        matches!(
            refused,
            Error::InvalidSetting {
                setting: "compacted",
                ..
            }
        ),
        "{refused:?}"
    );
}

/// Of several partitions the one comes first of which most is new; all are done, and the bytes add up.
#[test]
fn the_filthiest_partition_is_compacted_first_and_the_bytes_are_those_of_the_files() {
    let how = Compaction::new().min_dirty_ratio(0.1);
    let world = world(TopicConfig::new().partitions(3), how);
    let partitions = world.topic().partitions();
    let mut books = [Book::default(), Book::default(), Book::default()];
    for (old, new) in [([6, 2, 4], false), ([2, 6, 4], true)] {
        for (n, partition) in partitions.iter().enumerate() {
            for turn in 0..old[n] {
                for key in ["a", "b", "c"] {
                    let key = if new {
                        key.to_owned()
                    } else {
                        format!("{key}{turn}")
                    };
                    books[n].put(partition, &world.clock, &key, Some("a value"));
                }
                partition.roll().unwrap();
            }
        }
        if !new {
            world.compact();
        }
    }
    let names = |disk: &thalweg::testing::Disk, n: usize| -> Vec<_> {
        let files = files(disk, "t", ".log").into_iter();
        let ours =
            |path: &std::path::PathBuf| path.parent().is_some_and(|d| d.ends_with(n.to_string()));
        files.filter(ours).collect()
    };
    let lens = || -> u64 {
        let files = files(&world.disk, "t", ".log").into_iter();
        files
            .map(|path| world.disk.read_file(path).unwrap().len() as u64)
            .sum()
    };
    let (begun, before) = (
        world.disk.points(),
        [0, 1, 2].map(|n| names(&world.disk, n)),
    );
    let bytes = lens();
    let report = world.maintain();
    assert_eq!(report.bytes_freed, bytes - lens());
    assert!(!report.more && report.segments_deleted == 0, "{report:?}");
    for (partition, book) in partitions.iter().zip(&books) {
        assert_eq!(book.judge(partition), Ok(book.left(book.end)));
    }
    let mut order = Vec::new();
    for after in begun..=world.disk.points() {
        let crashed = world.disk.crash(after, CrashModel::ProcessKill, 0);
        for (n, before) in before.iter().enumerate() {
            if !order.contains(&n) && names(&crashed, n) != *before {
                order.push(n);
            }
        }
    }
    assert_eq!(order, [1, 2, 0]);
}
