//! B103: a test suite that opens a log per test. Alone in its process, since it counts threads, files and memory.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::time::Duration;

use thalweg::{Durability, Log, TopicConfig};

/// What this process has: threads, open files, KiB of memory.
fn held() -> [usize; 3] {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let of = |name: &str| -> usize {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let files = std::fs::read_dir("/proc/self/fd").unwrap().count();
    [of("Threads:"), files, of("VmRSS:")]
}

/// A life of a log: four partitions, a consumer, ten records; dropped without a close.
fn live(log: Log) {
    let config = TopicConfig::new()
        .partitions(4)
        .durability(Durability::Process);
    let topic = log.topic_or_create("t", config).unwrap();
    let mut consumer = log.group("g").subscribe(["t"]).join().unwrap();
    for n in 0..10 {
        topic.append((&format!("key-{n}"), "value")).unwrap();
    }
    assert_eq!(consumer.poll(Duration::ZERO).unwrap().len(), 10);
    consumer.commit().unwrap();
    drop(log);
}

#[test]
fn b103_logs_that_come_and_go_leave_no_thread_no_file_and_no_memory() {
    let given = std::env::var("THALWEG_LONG").ok();
    let long: usize = given.and_then(|text| text.parse().ok()).unwrap_or(1);
    let dir = tempfile::tempdir().unwrap();
    let on_disk = |n: usize| {
        let path = dir.path().join(n.to_string());
        live(Log::open(&path).unwrap());
        std::fs::remove_dir_all(Path::new(&path)).unwrap();
    };
    let in_memory = |_: usize| live(Log::in_memory());
    let kinds: [(&dyn Fn(usize), usize); 2] = [(&in_memory, 1000), (&on_disk, 100 * long.min(10))];
    for (life, rounds) in kinds {
        (0..50).for_each(life);
        let before = held();
        (50..rounds).for_each(life);
        let after = held();
        println!("threads, files, KiB: {before:?}, then {after:?}");
        assert_eq!(after[..2], before[..2], "threads and files");
        assert!(after[2] < before[2] + 4096, "{before:?} {after:?}");
    }
}
