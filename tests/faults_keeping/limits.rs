//! Where retention may not go, and what it meets: damage, gaps, compressed and large batches, and logs and topics that are closed,
//! deleted, or only read.

use thalweg::testing::{CrashModel, Disk, ManualClock};
use thalweg::{
    Compression, Durability, Error, FindingKind, Log, Maintenance, Offset, Partition, Retention,
    TopicConfig,
};

use super::logs::{end, fill, last_segment, len, numbered, one, open, open_with, rows, t0};
use super::{HOUR, SECOND, by_fours, made, segments, start};

fn by_age() -> TopicConfig {
    TopicConfig::new().retention(Retention::new().age(HOUR))
}

/// Damage that is found when the segment is weighed: nothing goes, and every other partition is looked after.
#[test]
fn what_cannot_be_weighed_stays_and_so_does_what_lies_behind_it() {
    for victim in [0, 2] {
        let (disk, clock, log, _) = made(by_age().partitions(2));
        let topic = log.topic("t").unwrap();
        let [bad, good] = &topic.partitions()[..] else {
            panic!("two partitions");
        };
        by_fours(bad, 5);
        let files = segments(&disk);
        by_fours(good, 5);
        log.close().unwrap();
        let footer = len(&disk, &files[victim]) - 20;
        disk.zero(&files[victim], footer..footer + 4).unwrap();
        clock.advance(2 * HOUR);
        let log = open_with(&disk, &clock);
        for _ in 0..2 {
            let told = log.maintain().unwrap_err();
            assert!(
                matches!(&told, Error::Corruption { file, .. } if **file == *files[victim]),
                "{told:?}"
            );
        }
        let topic = log.topic("t").unwrap();
        let [bad, good] = &topic.partitions()[..] else {
            panic!("two partitions");
        };
        assert_eq!((start(bad), start(good)), (0, 20));
        let left = segments(&disk);
        assert!(files.iter().all(|file| left.contains(file)), "{left:?}");
        // Who says so by hand lets go of the damage.
        bad.delete_before(Offset::new(4 * victim as u64 + 4))
            .unwrap();
        assert_eq!(rows(bad), numbered(4 * victim as u64 + 4..20));
        log.maintain().unwrap();
        assert_eq!(start(bad), 20);
    }
}

#[test]
fn a_damaged_partition_keeps_everything_and_says_why() {
    let (disk, clock, log, partition) = made(by_age());
    by_fours(&partition, 3);
    fill(&partition, 12..20);
    drop(partition);
    log.close().unwrap();
    let last = last_segment(&disk);
    disk.flip_bit(&last, 8 * 200).unwrap();
    let cut = len(&disk, &last) - 1;
    disk.resize(&last, cut).unwrap();
    clock.advance(2 * HOUR);
    let log = open_with(&disk, &clock);
    let kinds: Vec<_> = log.recovery().findings().iter().map(|f| f.kind).collect();
    assert_eq!(kinds, [FindingKind::Damaged]);
    let (hash, partition) = (disk.hash(), t0(&log));
    assert_eq!(log.maintain().unwrap().segments_deleted, 0);
    for offset in [3, 4, 12] {
        let refused = partition.delete_before(Offset::new(offset)).unwrap_err();
        assert!(refused.is_corruption(), "{refused:?}");
    }
    assert_eq!(disk.hash(), hash);
    assert_eq!(start(&partition), 0);
}

const SPAN: u64 = 1000;

/// Three records, and behind them a gap that a power loss has left and that no segment records yet.
fn behind_a_gap() -> (Disk, ManualClock, Log, Partition) {
    let config = TopicConfig::new().durability(Durability::Process);
    let (disk, clock, log, partition) = made(config.offset_span(SPAN as u32));
    fill(&partition, 0..3);
    log.sync().unwrap();
    fill(&partition, 3..5);
    let disk = disk.crash(disk.points(), CrashModel::LostSuffix, 0);
    let log = open_with(&disk, &clock);
    let partition = t0(&log);
    assert_eq!((rows(&partition).len(), end(&partition)), (3, SPAN));
    (disk, clock, log, partition)
}

/// The log start may lie in a gap: before it, in it, behind it; there is nothing to read in it, and nothing of it counts as lag.
#[test]
fn f65_the_log_start_may_lie_in_a_gap() {
    for start_at in [2, 3, 4, 500, SPAN - 1, SPAN, SPAN + 1] {
        let (disk, clock, log, partition) = behind_a_gap();
        if start_at < SPAN {
            partition.delete_before(Offset::new(start_at)).unwrap();
        }
        fill(&partition, SPAN..SPAN + 2);
        partition.delete_before(Offset::new(start_at)).unwrap();
        let check = |log: &Log| {
            let partition = t0(log);
            assert_eq!(start(&partition), start_at);
            let mut left = numbered(start_at..3.max(start_at));
            left.retain(|row| row.0 < 3);
            left.extend(numbered(SPAN.max(start_at)..SPAN + 2));
            assert_eq!(rows(&partition), left);
            let back = partition
                .entries(..)
                .rev()
                .map(|entry| entry.unwrap().offset().get());
            let offsets = left.iter().rev().map(|row| row.0);
            assert!(back.eq(offsets), "from {start_at}");
            let mut consumer = log.group("g").subscribe(["t"]).join().unwrap();
            let batch = consumer.poll(std::time::Duration::ZERO).unwrap();
            assert_eq!((batch.len(), batch.resets().len()), (left.len(), 0));
            drop(batch);
            consumer
                .seek_to_start(&[partition.topic_partition()])
                .unwrap();
            assert_eq!(
                consumer.lag(&partition.topic_partition()),
                Some(left.len() as u64)
            );
        };
        check(&log);
        for crashed in [super::logs::killed(&disk), super::logs::unplugged(&disk)] {
            let log = open_with(&crashed, &clock);
            if end(&t0(&log)) == SPAN + 2 {
                check(&log);
            }
        }
        partition.delete_before(Offset::new(SPAN + 1)).unwrap();
        assert_eq!(rows(&partition), numbered(SPAN + 1..SPAN + 2));
        assert_eq!(segments(&disk).len(), 1);
        drop(partition);
        log.close().unwrap();
        let log = open_with(&disk, &clock);
        assert!(log.recovery().is_empty());
        assert_eq!(rows(&t0(&log)), numbered(SPAN + 1..SPAN + 2));
    }
}

fn compressions() -> Vec<Compression> {
    vec![
        Compression::None,
        #[cfg(feature = "lz4")]
        Compression::Lz4,
        #[cfg(feature = "zstd")]
        Compression::Zstd,
    ]
}

/// Within a compressed batch, and within one that is larger than a segment.
#[test]
fn a_batch_of_which_a_part_went_gives_the_rest() {
    for how in compressions() {
        for level in [Durability::Power, Durability::Process] {
            let config = TopicConfig::new().compression(how).durability(level);
            let (disk, clock, log, partition) = made(config.segment_bytes(2000));
            let value = |n: u64| format!("value-{n:04} {}", "abc ".repeat(200));
            for batch in 0..6 {
                let records = (20 * batch..20 * batch + 20).map(|n| ("key", value(n)));
                partition.append_all(records.collect::<Vec<_>>()).unwrap();
            }
            for from in [1, 19, 20, 33, 99, 100, 119] {
                partition.delete_before(Offset::new(from)).unwrap();
                let killed = open_with(&super::logs::killed(&disk), &clock);
                for partition in [&partition, &t0(&killed)] {
                    let left = rows(partition);
                    let expected: Vec<_> = (from..120).map(|n| (n, value(n))).collect();
                    assert!(left == expected, "{how:?} from {from}");
                    let got = partition.get(Offset::new(from)).unwrap().unwrap();
                    assert_eq!(got.offset().get(), from);
                    let below = partition.get(Offset::new(from - 1)).unwrap_err();
                    assert!(matches!(below, Error::OutOfRange { .. }), "{below:?}");
                }
            }
            drop(log);
        }
    }
}

#[test]
fn who_only_reads_removes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let builder = || Log::builder().maintenance(Maintenance::Manual);
    let log = builder().open(&path).unwrap();
    let topic = log.create_topic("t", TopicConfig::new().retention(Retention::new().bytes(1)));
    let partition = one(&topic.unwrap());
    by_fours(&partition, 3);
    let reader = Log::open_read_only(&path).unwrap();
    let refused = reader.maintain().unwrap_err();
    assert!(matches!(refused, Error::ReadOnly { .. }), "{refused:?}");
    for offset in [0, 2, 12, 13] {
        let refused = t0(&reader).delete_before(Offset::new(offset)).unwrap_err();
        assert!(matches!(refused, Error::ReadOnly { .. }), "{refused:?}");
    }
    assert_eq!(rows(&partition), numbered(0..12));
    log.maintain().unwrap();
    let later = Log::open_read_only(&path).unwrap();
    assert_eq!((start(&t0(&later)), rows(&t0(&later))), (12, Vec::new()));
}

#[test]
fn a_log_that_is_closed_and_a_topic_that_is_deleted_remove_nothing() {
    let (disk, clock, log, partition) = made(by_age());
    by_fours(&partition, 3);
    clock.advance(2 * HOUR);
    log.clone().close().unwrap();
    let hash = disk.hash();
    for offset in [0, 4, 12, 99] {
        let refused = partition.delete_before(Offset::new(offset)).unwrap_err();
        assert!(matches!(refused, Error::Closed), "{refused:?}");
    }
    assert!(matches!(log.maintain().unwrap_err(), Error::Closed));
    assert_eq!(disk.hash(), hash);
    let log = open_with(&disk, &clock);
    let partition = t0(&log);
    log.delete_topic("t").unwrap();
    let new = one(&log.create_topic("t", by_age()).unwrap());
    by_fours(&new, 1);
    let gone = partition.delete_before(Offset::new(4)).unwrap_err();
    assert!(
        matches!(gone, Error::NotFound { what: "topic", .. }),
        "{gone:?}"
    );
    assert_eq!(log.maintain().unwrap().segments_deleted, 0);
    assert_eq!(rows(&new), numbered(0..4));
}

/// What was never written has nothing to lose; what is compacted keeps its latest records unless it was told otherwise.
#[test]
fn what_may_not_go_is_refused_with_the_reason() {
    let (disk, clock, log, partition) = made(by_age());
    let files = disk.files().len();
    partition.delete_before(Offset::ZERO).unwrap();
    let above = partition.delete_before(Offset::new(1)).unwrap_err();
    assert!(matches!(above, Error::OutOfRange { .. }), "{above:?}");
    clock.advance(2 * HOUR);
    log.maintain().unwrap();
    assert_eq!(disk.files().len(), files, "and no file is made for it");
    let compacted = TopicConfig::new().compacted(thalweg::Compaction::new());
    let latest = one(&log.create_topic("latest", compacted.clone()).unwrap());
    fill(&latest, 0..4);
    let refused = latest.delete_before(Offset::new(1)).unwrap_err();
    let reason = |e: &Error| {
        matches!(
            e,
            Error::InvalidSetting {
                setting: "retention",
                ..
            }
        )
    };
    assert!(reason(&refused), "{refused:?}");
    assert_eq!(rows(&latest), numbered(0..4));
    let both = compacted.retention(Retention::new().age(HOUR));
    let both = one(&log.create_topic("both", both).unwrap());
    fill(&both, 0..4);
    both.delete_before(Offset::new(1)).unwrap();
    clock.advance(HOUR + SECOND);
    log.maintain().unwrap();
    assert_eq!((start(&latest), start(&both)), (0, 4));
}

/// Hundreds of partitions at each level, of which every third is old.
#[test]
fn many_partitions_lose_what_is_theirs() {
    for level in [Durability::Power, Durability::Process] {
        let disk = Disk::new();
        let clock = ManualClock::new();
        let log = open_with(&disk, &clock);
        let config = by_age().partitions(150).durability(level);
        let partitions = log.create_topic("t", config).unwrap().partitions();
        for (n, partition) in partitions.iter().enumerate() {
            if n % 3 == 0 {
                fill(partition, 0..2);
            }
        }
        clock.advance(HOUR);
        for (n, partition) in partitions.iter().enumerate() {
            if n % 3 == 1 {
                fill(partition, 0..2);
            }
        }
        clock.advance(SECOND);
        assert_eq!(log.maintain().unwrap().segments_deleted, 50);
        log.close().unwrap();
        let log = open(&disk);
        for (n, partition) in log.topic("t").unwrap().partitions().iter().enumerate() {
            let (begins, ends) = [(2, 2), (0, 2), (0, 0)][n % 3];
            assert_eq!((start(partition), end(partition)), (begins, ends), "{n}");
        }
    }
}

/// A pass is bounded: what is left of very many is said to be left.
#[test]
fn a_pass_removes_ten_thousand_segments_at_most_and_says_that_there_are_more() {
    let config = TopicConfig::new().durability(Durability::Process);
    let (disk, clock, log, _) = made(config.retention(Retention::new().age(HOUR)).partitions(2));
    let [many, few] = &log.topic("t").unwrap().partitions()[..] else {
        panic!("two partitions");
    };
    for (partition, segments) in [(many, 10_010), (few, 30)] {
        for _ in 0..segments {
            partition.append(("k", "v")).unwrap();
            partition.roll().unwrap();
        }
    }
    clock.advance(2 * HOUR);
    for (deleted, more, starts) in [
        (10_000, true, (10_000, 0)),
        (40, false, (10_010, 30)),
        (0, false, (10_010, 30)),
    ] {
        let report = log.maintain().unwrap();
        assert_eq!((report.segments_deleted, report.more), (deleted, more));
        assert_eq!((start(many), start(few)), starts);
    }
    assert_eq!(segments(&disk).len(), 2);
}
