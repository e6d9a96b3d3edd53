//! The maintenance thread of a log in a real directory: it removes what is to go, without being asked.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use thalweg::{Durability, Log, Maintenance, Partition, Retention, TopicConfig};

use super::logs::{fill, numbered, one, rows, t0};
use super::{HOUR, start};

/// Long enough for the slowest machine; who waits so long has found a thread that does nothing.
const PATIENCE: Duration = Duration::from_secs(60);

fn open(path: &Path, every: Duration) -> Log {
    let builder = Log::builder().maintenance(Maintenance::Background { every });
    builder.open(path).unwrap()
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        thread::park_timeout(Duration::from_millis(1));
    }
}

fn config() -> TopicConfig {
    let config = TopicConfig::new().durability(Durability::Process);
    config
        .segment_bytes(400)
        .retention(Retention::new().bytes(1000))
}

/// Whatever went, nothing is missing behind it.
fn is_whole(partition: &Partition, end: u64) {
    let left = rows(partition);
    assert_eq!(left, numbered(left[0].0..end));
}

fn files(of: &Path) -> usize {
    let mut dirs = std::fs::read_dir(of.join("topics")).unwrap();
    let topic = dirs.next().unwrap().unwrap().path();
    let files = std::fs::read_dir(topic.join("0")).unwrap();
    files
        .filter(|file| {
            file.as_ref()
                .unwrap()
                .path()
                .extension()
                .is_some_and(|e| e == "log")
        })
        .count()
}

#[test]
fn the_thread_removes_what_comes_while_it_runs_and_what_it_finds_when_the_log_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let went = |partition: &Partition, below: u64| {
        let p = partition.clone();
        wait_for("the oldest go", move || start(&p) >= below);
    };
    let log = open(&path, Duration::from_millis(5));
    let partition = one(&log.create_topic("t", config()).unwrap());
    for turn in 0..3 {
        fill(&partition, 100 * turn..100 * turn + 100);
        went(&partition, 100 * turn + 50);
    }
    is_whole(&partition, 300);
    drop(partition);
    log.close().unwrap();

    // Nobody looks after it for a while.
    let log = Log::builder()
        .maintenance(Maintenance::Manual)
        .open(&path)
        .unwrap();
    fill(&t0(&log), 300..400);
    log.close().unwrap();
    assert!(files(&path) > 10);
    let log = open(&path, HOUR);
    let partition = t0(&log);
    went(&partition, 350);
    wait_for("the files go", || files(&path) < 10);
    is_whole(&partition, 400);
    log.sync().expect("nothing went wrong");
}

/// Nobody waits for the answer of the thread: who looks is told what it met, for as long as that is so.
#[test]
fn what_the_thread_meets_can_be_asked_for_until_it_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let log = open(&path, HOUR);
    let topic = log.create_topic("t", config().partitions(2)).unwrap();
    let [bad, good] = &topic.partitions()[..] else {
        panic!("two partitions");
    };
    for partition in [bad, good] {
        fill(partition, 0..100);
    }
    assert!(log.maintenance_failure().is_none());
    log.close().unwrap();
    let topics = std::fs::read_dir(path.join("topics")).unwrap();
    let partition = topics
        .map(|topic| topic.unwrap().path().join("0"))
        .next()
        .unwrap();
    let files = std::fs::read_dir(&partition)
        .unwrap()
        .map(|file| file.unwrap().path());
    let mut files: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|e| e == "log"))
        .collect();
    files.sort();
    let victim = &files[files.len() - 5];
    let mut bytes = std::fs::read(victim).unwrap();
    let footer = bytes.len() - 20;
    bytes[footer] ^= 1;
    std::fs::write(victim, bytes).unwrap();

    let log = open(&path, Duration::from_millis(5));
    wait_for("it is told", || log.maintenance_failure().is_some());
    let told = log.maintenance_failure().unwrap();
    assert!(told.is_corruption(), "{told:?}");
    let topic = log.topic("t").unwrap();
    let [bad, good] = &topic.partitions()[..] else {
        panic!("two partitions");
    };
    wait_for("the others are seen to", || start(good) > 50);
    assert_eq!(start(bad), 0);
    bad.delete_before(thalweg::Offset::new(99)).unwrap();
    wait_for("it is over", || log.maintenance_failure().is_none());
    log.close().unwrap();
}
