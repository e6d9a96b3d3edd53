//! Who holds the log, who waits for it, and what both cost: B18, B19, B20, B21, B100 and B102.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use thalweg::testing::{Disk, DiskCall, DiskError, Fault, ManualClock};
use thalweg::{
    Consumer, Durability, Error, FindingKind, Log, Maintenance, Offset, Partitioner, StartFrom,
    TopicConfig,
};

use super::logs::{
    end, files, fill, fresh, killed, kinds, last_segment, len, numbered, one, open, open_with,
    rows, t0, try_open,
};

fn polled(member: &mut Consumer) -> Vec<(u64, String)> {
    let batch = member.poll(Duration::ZERO).unwrap();
    let all = batch
        .iter()
        .map(|entry| (entry.offset().get(), entry.value_str().unwrap().to_owned()));
    all.collect()
}

#[test]
fn b18_a_second_opening_is_refused_and_the_first_unharmed() {
    let (disk, log, partition) = fresh(TopicConfig::new());
    fill(&partition, 0..3);
    let before = disk.hash();
    assert!(matches!(try_open(&disk), Err(Error::AlreadyOpen { .. })));
    assert_eq!(disk.hash(), before);
    fill(&partition, 3..5);
    let dead = killed(&disk);
    assert_eq!(
        rows(&t0(&open(&dead))),
        numbered(0..5),
        "no lock is left by a dead process"
    );
    log.close().unwrap();
    assert_eq!(rows(&t0(&open(&disk))), numbered(0..5));
}

#[test]
fn b18_on_real_files_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let log = Log::open(&path).unwrap();
    let partition = one(&log.create_topic("t", TopicConfig::new()).unwrap());
    fill(&partition, 0..3);
    for again in [Log::open(&path), Log::open(dir.path().join("log/../log"))] {
        assert!(matches!(again, Err(Error::AlreadyOpen { .. })));
    }
    fill(&partition, 3..5);
    drop((partition, log));
    let log = Log::open(&path).unwrap();
    assert!(log.recovery().is_empty());
    assert_eq!(rows(&t0(&log)), numbered(0..5));
}

/// A panic in the host's own partitioner unwinds through the last handles.
#[test]
fn b19_a_panic_does_not_mark_the_log_as_closed_in_order() {
    let disk = Disk::new();
    let worker = disk.clone();
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let chosen = |key: &[u8], _| {
            if key == b"boom" {
                panic!("in the host's partitioner")
            } else {
                0
            }
        };
        let log = Log::builder()
            .maintenance(Maintenance::Manual)
            .partitioner("p", chosen)
            .open_on(&worker)
            .unwrap();
        let config = TopicConfig::new()
            .partitioner(Partitioner::Custom("p".into()))
            .durability(Durability::Process);
        let topic = log.create_topic("t", config).unwrap();
        for n in 0..5 {
            topic.append(("key", format!("value-{n:04}"))).unwrap();
        }
        topic.append(("boom", "never")).unwrap();
    }));
    assert!(panicked.is_err());
    // Marked as closed in order, a shorter file would be damage; as it is, the tail is looked at.
    let path = last_segment(&disk);
    disk.resize(&path, len(&disk, &path) - 3).unwrap();
    let log = open(&disk);
    assert_eq!(kinds(log.recovery()), [FindingKind::TornTail]);
    let partition = t0(&log);
    assert_eq!((rows(&partition), end(&partition)), (numbered(0..4), 4));
    fill(&partition, 4..6);
}

/// The thread that panics is not the only one: the others go on.
#[test]
fn b19_a_panic_of_one_thread_leaves_the_handles_of_others_usable() {
    let disk = Disk::new();
    let chosen = |key: &[u8], _| {
        if key == b"boom" {
            panic!("in the host's partitioner")
        } else {
            0
        }
    };
    let log = Log::builder()
        .maintenance(Maintenance::Manual)
        .partitioner("p", chosen)
        .open_on(&disk)
        .unwrap();
    let config = TopicConfig::new().partitioner(Partitioner::Custom("p".into()));
    let topic = log.create_topic("t", config).unwrap();
    let theirs = (log.clone(), topic.clone());
    let panicked = thread::spawn(move || theirs.1.append(("boom", "never")).map(drop)).join();
    assert!(panicked.is_err());
    fill(&one(&topic), 0..5);
    let mut member = log.group("g").subscribe(["t"]).join().unwrap();
    assert_eq!(polled(&mut member), numbered(0..5));
    drop(member);
    drop(topic);
    log.close().unwrap();
    assert!(open(&disk).recovery().is_empty());
}

#[test]
fn b20_a_reader_goes_on_over_days_without_a_writer() {
    let (mut disk, clock) = (Disk::new(), ManualClock::new());
    let config = TopicConfig::new()
        .segment_age(Duration::from_secs(1))
        .durability(Durability::Process);
    let log = open_with(&disk, &clock);
    let partition = one(&log.create_topic("t", config).unwrap());
    fill(&partition, 0..2);
    let mut member = log.group("g").subscribe(["t"]).join().unwrap();
    assert_eq!(polled(&mut member), numbered(0..2));
    member.commit().unwrap();
    drop(member);
    for life in 0..3 {
        disk = killed(&disk);
        clock.advance(Duration::from_secs(86_400));
        let log = open_with(&disk, &clock);
        let partition = t0(&log);
        let mut member = log.group("g").subscribe(["t"]).join().unwrap();
        assert_eq!(polled(&mut member), []);
        for n in 2 + 3 * life..5 + 3 * life {
            clock.advance(Duration::from_secs(3));
            fill(&partition, n..n + 1);
            assert_eq!(
                polled(&mut member),
                numbered(n..n + 1),
                "promptly, and nothing else"
            );
        }
        member.commit().unwrap();
    }
    assert!(files(&disk, "t", ".log").len() > 3);
}

/// One that sleeps is woken by the append behind a dead writer's segment, and by the first one of a new segment.
#[test]
fn b20_a_sleeping_reader_is_woken_across_segments() {
    let (disk, _log, partition) = fresh(TopicConfig::new());
    fill(&partition, 0..2);
    let log = open(&killed(&disk));
    let partition = t0(&log);
    let mut member = log.group("g").subscribe(["t"]).join().unwrap();
    assert_eq!(polled(&mut member), numbered(0..2));
    for n in 2..12 {
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let batch = member.poll(Duration::from_secs(600)).unwrap();
                batch
                    .iter()
                    .map(|entry| entry.offset().get())
                    .collect::<Vec<_>>()
            });
            if n % 2 == 0 {
                partition.roll().unwrap();
            }
            fill(&partition, n..n + 1);
            assert_eq!(reader.join().unwrap(), [n]);
        });
    }
}

#[test]
fn b21_the_end_is_right_when_the_newest_segment_is_empty() {
    let (disk, log, partition) = fresh(TopicConfig::new());
    fill(&partition, 0..5);
    partition.roll().unwrap();
    partition.roll().unwrap();
    assert_eq!(
        files(&disk, "t", ".log").len(),
        2,
        "an empty segment is not rolled"
    );
    let at_the_end = |log: &Log, group: &str, next: u64| {
        let partition = t0(log);
        assert_eq!(end(&partition), next);
        let newest = partition.entries(..).next_back().unwrap().unwrap();
        assert_eq!(newest.offset().get(), next - 1);
        let mut member = log
            .group(group)
            .subscribe(["t"])
            .start_from(StartFrom::Latest)
            .join()
            .unwrap();
        assert_eq!(polled(&mut member), []);
        let position = member.position(&partition.topic_partition());
        assert_eq!(position, Some(Offset::new(next)));
        fill(&partition, next..next + 1);
        assert_eq!(polled(&mut member), numbered(next..next + 1));
        assert_eq!(polled(&mut member), []);
    };
    let dead = killed(&disk);
    log.close().unwrap();
    for disk in [disk, dead] {
        let log = open(&disk);
        at_the_end(&log, "a", 5);
        t0(&log).roll().unwrap();
        at_the_end(&log, "b", 6);
    }
}

fn open_files() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count())
}

/// More segments on real files than files that stay open, and how many of them are.
#[test]
fn b100_cold_segments_hold_no_open_files() {
    let dir = tempfile::tempdir().unwrap();
    let builder = || Log::builder().maintenance(Maintenance::Manual);
    let log = builder().open(dir.path()).unwrap();
    let config = TopicConfig::new()
        .partitions(4)
        .segment_bytes(400)
        .durability(Durability::Process);
    let topic = log.create_topic("t", config).unwrap();
    let value = "x".repeat(300);
    for _ in 0..100 {
        for partition in topic.partitions() {
            partition.append(("k", &value)).unwrap();
        }
    }
    let bound = |what| {
        let open = open_files().unwrap_or(0);
        assert!(open < 256 + 60, "{open} open files after {what}");
    };
    bound("writing");
    let read = |topic: &thalweg::Topic| {
        for partition in topic.partitions() {
            assert_eq!(partition.entries(..).flatten().count(), 100);
        }
    };
    read(&topic);
    bound("reading");
    drop(topic);
    log.close().unwrap();
    let log = builder().open(dir.path()).unwrap();
    read(&log.topic("t").unwrap());
    bound("reading after a reopening");
    log.topic("t")
        .unwrap()
        .partition(0)
        .unwrap()
        .append(("k", "v"))
        .unwrap();
}

/// No file can be opened any more: an error that says so, no panic, no damage; later everything works.
#[test]
fn b100_running_out_of_files_is_an_error_and_passes() {
    let (disk, log, partition) = fresh(TopicConfig::new().segment_bytes(400));
    fill(&partition, 0..40);
    log.close().unwrap();
    for error in [DiskError::TooManyFiles, DiskError::TooManyFilesInAll] {
        let log = open(&disk);
        let partition = t0(&log);
        disk.fail(Fault::error(DiskCall::Open, error).lasting());
        let cold = partition.get(Offset::ZERO).unwrap_err();
        assert!(
            matches!(cold, Error::Io { .. }) && !cold.is_corruption(),
            "{cold:?}"
        );
        let read: Vec<_> = partition.entries(..).collect();
        assert!(
            read.iter()
                .filter_map(|entry| entry.as_ref().err())
                .all(|e| matches!(e, Error::Io { .. }))
        );
        let made = log.create_topic("another", TopicConfig::new());
        assert!(matches!(made, Err(Error::Io { .. })), "{made:?}");
        let appended = partition.append(("k", "v")).unwrap_err();
        assert!(matches!(appended, Error::Io { .. }), "{appended:?}");
        disk.heal();
        assert_eq!(rows(&partition), numbered(0..40));
        drop((partition, log));
        disk.fail(Fault::error(DiskCall::Open, error).lasting());
        assert!(matches!(try_open(&disk), Err(Error::Io { .. })));
        disk.heal();
    }
    fill(&t0(&open(&disk)), 40..41);
    open(&disk)
        .create_topic("another", TopicConfig::new())
        .unwrap();
}

#[test]
fn b102_a_record_larger_than_a_poll_is_delivered_alone() {
    let config = TopicConfig::new()
        .segment_bytes(2000)
        .max_record_bytes(20_000);
    let (disk, log, partition) = fresh(config);
    let sizes = [100, 10_240, 100, 10_240, 10_240, 100];
    for size in sizes {
        partition.append(("k", "x".repeat(size))).unwrap();
    }
    let too_large = partition.append(("k", "x".repeat(30_000))).unwrap_err();
    assert!(
        matches!(
            too_large,
            Error::RecordTooLarge {
                setting: "max_record_bytes",
                ..
            }
        ),
        "{too_large:?}"
    );
    assert_eq!(end(&partition), 6);
    assert!(files(&disk, "t", ".log").len() <= 6, "no endless rolling");
    let mut member = log
        .group("g")
        .subscribe(["t"])
        .max_poll_bytes(1024)
        .join()
        .unwrap();
    let mut seen = Vec::new();
    for _ in 0..20 {
        let batch = member.poll(Duration::ZERO).unwrap();
        let lens: Vec<usize> = batch
            .iter()
            .map(|entry| entry.value().unwrap().len())
            .collect();
        assert!(
            lens.len() <= 1 || lens.iter().all(|len| *len < 1024),
            "{lens:?}"
        );
        seen.extend(lens);
    }
    assert_eq!(seen, sizes);
}
