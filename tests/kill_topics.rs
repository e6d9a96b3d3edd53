//! The real thing for topics: a child process makes topics, writes, commits and deletes them, and is killed with SIGKILL. What it
//! was told is so: a deleted topic is gone, with its commits; one that is there is whole; the one beside it has lost nothing.
//!
//! 15 kills unless `THALWEG_LONG` says more: 150 with `THALWEG_LONG=10`.
#![cfg(unix)]

#[path = "common/mod.rs"]
mod common;

#[path = "common/child.rs"]
mod child;

use std::path::Path;
use std::time::Duration;

use child::{Running, given, given_dir, in_memory_dir, play, role, say};
use common::{Dice, scale, seed};
use thalweg::{Durability, Error, FindingKind, Log, TopicConfig};

const RECORDS: u64 = 3;

fn level(name: &str) -> Durability {
    match name {
        "power" => Durability::Power,
        _ => Durability::Process,
    }
}

#[test]
fn the_child_process() {
    if role().as_deref() == Some("topics") {
        make_and_delete_for_ever();
    }
}

/// Round by round: made, written, committed, deleted; a line after each. `keep` gets a record in between.
fn make_and_delete_for_ever() {
    let log = Log::open(given_dir()).unwrap();
    let level = level(&given("LEVEL"));
    let config = || TopicConfig::new().partitions(1).durability(level);
    let keep = log.topic_or_create("keep", TopicConfig::new()).unwrap();
    if log.topic("orders").is_ok() {
        log.delete_topic("orders").unwrap();
    }
    let first: u64 = given("ROUND").parse().unwrap();
    for round in first.. {
        let orders = log.create_topic("orders", config()).unwrap();
        say(&format!("made {round}"));
        for n in 0..RECORDS {
            orders.append(("k", &format!("{round} {n}"))).unwrap();
        }
        say(&format!("written {round}"));
        let mut consumer = log.group("g").subscribe(["orders"]).join().unwrap();
        let _ = consumer.poll(Duration::ZERO).unwrap();
        consumer.commit().unwrap();
        drop(consumer);
        say(&format!("committed {round}"));
        let at = keep.append(("k", &round.to_string())).unwrap();
        say(&format!("kept {}", at.offset()));
        log.delete_topic("orders").unwrap();
        say(&format!("deleted {round}"));
    }
}

/// What the child had been told of last.
#[derive(Debug, Default)]
struct Told {
    round: u64,
    step: String,
    kept: u64,
}

impl Told {
    fn take(&mut self, line: &str) {
        let (step, number) = line.split_once(' ').unwrap();
        let number: u64 = number.parse().unwrap();
        if step == "kept" {
            self.kept = number + 1;
        } else {
            self.round = number;
        }
        step.clone_into(&mut self.step);
    }
}

fn check(dir: &Path, told: &Told) {
    let log = Log::open(dir).unwrap_or_else(|e| panic!("{told:?}: {e:?}"));
    let torn = |f: &thalweg::Finding| f.kind == FindingKind::TornTail;
    let report = log.recovery();
    assert!(report.findings().iter().all(torn), "{told:?}: {report:?}");
    let keep = log.topic("keep").unwrap().partition(0).unwrap();
    assert!(keep.offsets().end.get() >= told.kept, "{told:?}");
    let dirs = std::fs::read_dir(dir.join("topics")).unwrap().count();
    assert_eq!(dirs, log.topics().len(), "{told:?}");
    let committed = log.group("g").committed().unwrap();
    let committed = committed.iter().next().map(|at| at.offset().get());
    let orders = match log.topic("orders") {
        Err(Error::NotFound { .. }) => {
            // Deleted, or about to be; or the next one was not made yet.
            assert!(["kept", "deleted"].contains(&&*told.step), "{told:?}");
            assert_eq!(committed, None, "{told:?}");
            return;
        }
        orders => orders.unwrap(),
    };
    let entries = orders.partition(0).unwrap().entries(..);
    let values: Vec<String> = entries
        .map(|e| e.unwrap().value_str().unwrap().to_owned())
        .collect();
    let round = if told.step == "deleted" {
        told.round + 1
    } else {
        told.round
    };
    let whole: Vec<String> = (0..RECORDS).map(|n| format!("{round} {n}")).collect();
    assert!(whole.starts_with(&values), "{told:?}: {values:?}");
    if ["written", "committed", "kept"].contains(&&*told.step) {
        assert_eq!(values, whole, "{told:?}");
    }
    if ["committed", "kept"].contains(&&*told.step) {
        assert_eq!(committed, Some(RECORDS), "{told:?}");
    }
    assert!(
        committed.is_none_or(|next| next == values.len() as u64),
        "{told:?}: {committed:?}"
    );
}

#[test]
fn f75_a_process_that_is_killed_leaves_topics_whole_or_gone() {
    let mut dice = Dice::new(seed());
    let on_disk = tempfile::tempdir().unwrap();
    let in_memory = in_memory_dir();
    let dirs: Vec<&Path> = std::iter::once(on_disk.path())
        .chain(in_memory.iter().map(tempfile::TempDir::path))
        .collect();
    let mut told: Vec<Told> = dirs.iter().map(|_| Told::default()).collect();
    for kill in 0..15 * scale() {
        let place = (kill % dirs.len() as u64) as usize;
        let (dir, told) = (dirs[place].join("log"), &mut told[place]);
        let level = if dice.once_in(3) { "power" } else { "process" };
        let mut command = play("topics", &dir);
        // A round that no earlier life used, so that its records are nobody else's.
        command
            .env("ROUND", (1000 * (kill + 1)).to_string())
            .env("LEVEL", level);
        let mut running = Running::start(command);
        for _ in 0..=dice.below(60) {
            let line = running
                .line()
                .expect("the child goes on until it is killed");
            told.take(&line);
        }
        for line in running.kill() {
            told.take(&line);
        }
        check(&dir, told);
    }
}
