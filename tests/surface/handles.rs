//! Handles of a log: clones, the last one, closing, reading only, memory, and both ways of reading.

use thalweg::testing::Disk;
use thalweg::{Durability, Error, FindingKind, Log, ReadMode, TopicConfig};

use super::logs::{end, fill, fresh, killed, kinds, numbered, one, open, rows, t0, try_open};

const LEVELS: [Durability; 2] = [Durability::Power, Durability::Process];

#[test]
fn a_closed_log_answers_closed_and_opens_again_clean() {
    for level in LEVELS {
        let (disk, log, partition) = fresh(TopicConfig::new().durability(level));
        fill(&partition, 0..5);
        let (clone, topic) = (log.clone(), log.topic("t").unwrap());
        log.close().unwrap();
        let closed = [
            clone.topic("t").map(drop),
            clone.create_topic("u", TopicConfig::new()).map(drop),
            clone.sync(),
            clone.group("g").subscribe(["t"]).join().map(drop),
            clone.group("g").committed().map(drop),
            topic.append(("k", "v")).map(drop),
            partition.append(("k", "v")).map(drop),
            clone.clone().close(),
        ];
        for answer in closed {
            assert!(matches!(answer, Err(Error::Closed)), "{answer:?}");
        }
        let log = open(&disk);
        assert!(log.recovery().is_empty());
        assert_eq!(rows(&t0(&log)), numbered(0..5));
    }
}

/// A clean log that is only looked at is not written to.
#[test]
fn opening_and_reading_a_clean_log_writes_nothing() {
    let (disk, log, partition) = fresh(TopicConfig::new());
    fill(&partition, 0..5);
    log.close().unwrap();
    let before = disk.hash();
    for _ in 0..2 {
        let log = open(&disk);
        assert_eq!(rows(&t0(&log)), numbered(0..5));
        log.close().unwrap();
    }
    drop(open(&disk));
    assert_eq!(disk.hash(), before);
}

#[test]
fn dropping_the_last_handle_closes_in_order_and_not_before() {
    let (disk, log, partition) = fresh(TopicConfig::new());
    fill(&partition, 0..5);
    let topic = log.topic("t").unwrap();
    drop(log);
    assert!(
        matches!(try_open(&disk), Err(Error::AlreadyOpen { .. })),
        "the topic keeps it open"
    );
    fill(&partition, 5..6);
    drop(topic);
    assert!(
        matches!(try_open(&disk), Err(Error::AlreadyOpen { .. })),
        "the partition keeps it open"
    );
    fill(&partition, 6..7);
    drop(partition);
    let log = open(&disk);
    assert!(log.recovery().is_empty());
    assert_eq!(rows(&t0(&log)), numbered(0..7));
}

#[test]
fn a_log_in_memory_does_all_the_same() {
    let log = Log::in_memory();
    let partition = one(&log
        .create_topic("t", TopicConfig::new().segment_bytes(500))
        .unwrap());
    fill(&partition, 0..50);
    assert_eq!(rows(&partition), numbered(0..50));
    let mut member = log.group("g").subscribe(["t"]).join().unwrap();
    assert_eq!(member.poll(std::time::Duration::ZERO).unwrap().len(), 50);
    member.commit().unwrap();
    member.close().unwrap();
    log.sync().unwrap();
    assert!(log.recovery().is_empty());
    let other = Log::in_memory();
    assert!(other.topics().is_empty(), "each is alone");
    log.close().unwrap();
}

#[test]
fn reading_only_takes_no_lock_writes_nothing_and_says_that_it_may_be_behind() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    assert!(matches!(
        Log::open_read_only(&path),
        Err(Error::NotFound { .. } | Error::Io { .. })
    ));
    let log = Log::open(&path).unwrap();
    let partition = one(&log
        .create_topic("t", TopicConfig::new().segment_bytes(500))
        .unwrap());
    fill(&partition, 0..20);
    let image = || {
        let disk = Disk::new();
        disk.import(&path, "/log").unwrap();
        disk.hash()
    };
    let before = image();
    let view = Log::open_read_only(&path).unwrap();
    assert!(kinds(view.recovery()).contains(&FindingKind::MayBeBehind));
    assert_eq!(rows(&t0(&view)), numbered(0..20));
    for refused in [
        t0(&view).append(("k", "v")).map(drop),
        view.create_topic("u", TopicConfig::new()).map(drop),
    ] {
        assert!(
            matches!(refused, Err(Error::ReadOnly { .. })),
            "{refused:?}"
        );
    }
    view.close().unwrap();
    assert_eq!(image(), before);
    fill(&partition, 20..25);
    assert_eq!(
        rows(&t0(&Log::open_read_only(&path).unwrap())),
        numbered(0..25)
    );
}

#[test]
fn both_ways_of_reading_give_the_same_on_real_files() {
    let dir = tempfile::tempdir().unwrap();
    for (life, mode) in [
        ReadMode::Positioned,
        ReadMode::Mapped,
        ReadMode::Positioned,
        ReadMode::Mapped,
    ]
    .into_iter()
    .enumerate()
    {
        let log = Log::builder().read_mode(mode).open(dir.path()).unwrap();
        let topic = log
            .topic_or_create("t", TopicConfig::new().segment_bytes(2000))
            .unwrap();
        let partition = one(&topic);
        let from = 100 * life as u64;
        assert_eq!(rows(&partition), numbered(0..from));
        fill(&partition, from..from + 100);
        assert_eq!(rows(&partition), numbered(0..from + 100));
        let back: Vec<_> = partition
            .entries(..)
            .rev()
            .map(|e| super::logs::row(&e.unwrap()))
            .collect();
        assert!(back.into_iter().rev().eq(numbered(0..from + 100)));
        log.close().unwrap();
    }
}

/// Mapped or not, an entry keeps its bytes when its segment, its log and its file are gone.
#[test]
fn an_entry_from_a_map_outlives_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::builder()
        .read_mode(ReadMode::Mapped)
        .open(dir.path())
        .unwrap();
    let partition = one(&log.create_topic("t", TopicConfig::new()).unwrap());
    fill(&partition, 0..10);
    partition.roll().unwrap();
    fill(&partition, 10..11);
    let entries: Vec<_> = partition.entries(..).map(Result::unwrap).collect();
    log.close().unwrap();
    drop(partition);
    drop(dir);
    let held: Vec<_> = entries.iter().map(super::logs::row).collect();
    assert_eq!(held, numbered(0..11));
}

#[test]
fn progress_of_opening_is_told_and_ends_at_the_whole() {
    let (disk, _log, partition) = fresh(TopicConfig::new());
    fill(&partition, 0..50);
    let (send, told) = std::sync::mpsc::channel();
    let log = Log::builder()
        .on_recovery_progress(move |done, all| send.send((done, all)).unwrap())
        .open_on(&killed(&disk))
        .unwrap();
    let told: Vec<(u64, u64)> = told.try_iter().collect();
    assert!(
        told.iter().all(|(done, all)| done <= all) && told.is_sorted(),
        "{told:?}"
    );
    let (done, all) = told.last().expect("at least the end");
    assert!(done == all && *all > 1000, "{told:?}");
    assert_eq!(end(&t0(&log)), 50);
}
