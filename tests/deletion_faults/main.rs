//! Deletions that meet damage, errors and limits, and what of a topic may never be deleted: rows F75 and F75b beside
//! `deletion.rs`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use thalweg::testing::{CrashModel, Disk};
use thalweg::{Durability, Error, Log, Maintenance, Result, Topic, TopicConfig};

mod damage;
mod limits;
mod undecided;

const NOW: Duration = Duration::ZERO;

fn open(disk: &Disk) -> Log {
    try_open(disk).unwrap()
}

fn try_open(disk: &Disk) -> Result<Log> {
    let builder = Log::builder().maintenance(Maintenance::Manual);
    builder.open_on(disk)
}

/// A topic of one partition, with these values.
fn topic_of(log: &Log, name: &str, level: Durability, values: &[&str]) -> Topic {
    let topic = log.create_topic(name, TopicConfig::new().durability(level));
    let topic = topic.unwrap();
    for value in values {
        topic.append(("k", *value)).unwrap();
    }
    topic
}

fn values(log: &Log, name: &str) -> Vec<String> {
    let partition = log.topic(name).unwrap().partition(0).unwrap();
    let entries = partition.entries(..);
    entries
        .map(|e| e.unwrap().value_str().unwrap().to_owned())
        .collect()
}

fn commit(log: &Log, topic: &str) {
    let mut consumer = log.group("g").subscribe([topic]).join().unwrap();
    let _ = consumer.poll(NOW).unwrap();
    consumer.commit().unwrap();
}

/// The directories of topics, by name.
fn dirs(disk: &Disk) -> Vec<String> {
    let names = disk.files().into_iter().filter_map(|(path, _)| {
        let below = path.strip_prefix("/log/topics").ok()?;
        Some(below.iter().next()?.to_string_lossy().into_owned())
    });
    let mut names: Vec<String> = names.collect();
    names.dedup();
    names
}

fn files_of(disk: &Disk, name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let prefix = format!("/log/topics/{name}-");
    let ours = |path: &Path| path.to_string_lossy().starts_with(&prefix);
    let all = disk.files().into_iter().map(|(path, _)| path);
    let ours = all.filter(|path| ours(path));
    ours.map(|path| (path.clone(), disk.read_file(&path).unwrap()))
        .collect()
}

fn is_not_found<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::NotFound { what: "topic", .. }))
}

fn is_corruption<T>(result: &Result<T>) -> bool {
    result.as_ref().is_err_and(Error::is_corruption)
}

fn power_loss(disk: &Disk) -> Disk {
    disk.crash(disk.points(), CrashModel::LostSuffix, 0)
}

fn kill(disk: &Disk) -> Disk {
    disk.crash(disk.points(), CrashModel::ProcessKill, 0)
}
