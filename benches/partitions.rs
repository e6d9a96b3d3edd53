//! What do ten thousand partitions cost: to be opened, in memory, in open files?
//!
//! A child makes a topic of so many partitions, appends a record to each, and closes the log (`partitions_clean`) or is killed
//! (`partitions_killed`); then this process opens it. `ms`: until the topic is there to be read. `mib` and `files`: what this process
//! has more than before, `bytes_each` the same for each partition. `partitions_unused` is the topic alone.

mod common;

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Line, Run, float, millis};
use thalweg::{Durability, Log, Topic, TopicConfig};

const PARTITIONS: u64 = 10_000;
const CHILD: &str = "fill";

fn main() {
    let args: Vec<String> = env::args().collect();
    if let [_, mark, dir, how, partitions] = args.as_slice()
        && mark == CHILD
    {
        child(Path::new(dir), how, partitions.parse().expect("a number"));
        return;
    }
    let run = Run::from_args();
    for (name, how) in [
        ("partitions_unused", "unused"),
        ("partitions_clean", "clean"),
        ("partitions_killed", "killed"),
    ] {
        if run.wants(name) {
            measure(&run, name, how);
        }
    }
}

fn child(dir: &Path, how: &str, partitions: u32) {
    let log = Log::open(dir).expect("a directory for the bench");
    let config = TopicConfig::new()
        .partitions(partitions)
        .durability(Durability::Process);
    let topic = log.create_topic("bench", config).expect("a new topic");
    if how != "unused" {
        for partition in topic.partitions() {
            partition.append(("key", "value")).expect("room");
        }
    }
    drop(topic);
    if how == "killed" {
        std::process::exit(0); // nothing is closed
    }
    log.close().expect("a disk that works");
}

fn measure(run: &Run, name: &str, how: &str) {
    let partitions = run.size(PARTITIONS);
    let dir = tempfile::tempdir().expect("a directory for the bench");
    let status = Command::new(env::current_exe().expect("this program"))
        .args([
            CHILD,
            &dir.path().to_string_lossy(),
            how,
            &partitions.to_string(),
        ])
        .status()
        .expect("a second process");
    assert!(status.success(), "the child failed");
    let (memory, files) = (resident(), open_files());
    let began = Instant::now();
    let log = Log::open(dir.path()).expect("a log that can be opened");
    let topic = log.topic("bench").expect("a topic that was made");
    let ms = millis(began.elapsed());
    let (memory, files) = (resident() - memory, open_files() - files);
    check(&log, &topic, if how == "unused" { 0 } else { partitions });
    Line::new(name)
        .count("partitions", partitions)
        .number("ms", ms)
        .number("ceiling_ms", 2000.0)
        .number("mib", memory / f64::from(1 << 20))
        .number("ceiling_mib", 100.0)
        .number("bytes_each", memory / float(partitions))
        .number("files", files)
        .print();
}

/// Everything is there, and can be read by a group.
fn check(log: &Log, topic: &Topic, records: u64) {
    let ends = topic.partitions().into_iter();
    assert_eq!(
        ends.map(|partition| partition.offsets().end.get())
            .sum::<u64>(),
        records
    );
    let mut consumer = log.group("g").subscribe(["bench"]).join().unwrap();
    let mut seen = 0;
    loop {
        let batch = consumer.poll(Duration::ZERO).unwrap();
        if batch.is_empty() {
            break;
        }
        seen += batch.len() as u64;
    }
    assert_eq!(seen, records);
}

/// Bytes of memory that this process has.
fn resident() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib * 1024.0)
}

fn open_files() -> f64 {
    fs::read_dir("/proc/self/fd").map_or(f64::NAN, |files| float(files.count() as u64))
}
