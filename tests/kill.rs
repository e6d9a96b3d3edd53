//! The real thing: a child process appends under load and is killed with SIGKILL; nothing that it was told is lost.
//!
//! The child says a line for each acknowledged append. The parent kills it after a random number of lines, opens the log, and
//! looks: every acknowledged record is at its offset, byte for byte; each writer's records are in its order without a hole; a
//! batch is whole or absent; there is nothing that nobody sent. Several lives follow one another in one directory.
//!
//! 20 kills unless `THALWEG_LONG` says more: 200 with `THALWEG_LONG=10`.
#![cfg(unix)]

#[path = "common/mod.rs"]
mod common;

#[path = "common/child.rs"]
mod child;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use child::{Running, given, given_dir, in_memory_dir, play, role, say};
use common::{Dice, scale, seed};
use thalweg::{Durability, FindingKind, Log, Offset, Partition, Record, TopicConfig};

const LEVELS: [(&str, u64); 3] = [("process", 400), ("interval", 300), ("power", 40)];
const LOADS: [&str; 3] = ["single", "batch", "threads"];
const PARTITIONS: u32 = 2;

fn level(name: &str) -> Durability {
    match name {
        "process" => Durability::Process,
        "power" => Durability::Power,
        _ => Durability::Interval {
            time: Duration::from_millis(5),
            bytes: 20_000,
        },
    }
}

/// Which record: the life that sent it, its writer, and its number among that writer's.
type Name = (u64, u64, u64);

/// The value of a record follows from its name.
fn value(name: Name) -> String {
    let (life, writer, number) = name;
    let mut dice = Dice::new(life << 40 ^ writer << 32 ^ number);
    let len = 10 + dice.below(400) as usize;
    let fill: String = (0..len)
        .map(|_| char::from(b'a' + dice.below(26) as u8))
        .collect();
    format!("{life} {writer} {number} {fill}")
}

fn name_of(value: &str) -> Name {
    let mut words = value
        .split(' ')
        .map(|word| word.parse().unwrap_or(u64::MAX));
    let mut word = || words.next().unwrap_or(u64::MAX);
    (word(), word(), word())
}

/// How many records the writer's call has that begins with this number.
fn batch_of(load: &str, name: Name) -> u64 {
    match load {
        "single" => 1,
        _ => 1 + Dice::new(name.0 ^ name.1 << 20 ^ name.2 << 8).below(20),
    }
}

#[test]
fn the_child_process() {
    match role().as_deref() {
        Some("load") => append_for_ever(),
        Some("large") => append_large(),
        _ => {}
    }
}

fn append_for_ever() {
    let load = given("LOAD");
    let life: u64 = given("LIFE").parse().unwrap();
    let config = TopicConfig::new()
        .partitions(PARTITIONS)
        .durability(level(&given("LEVEL")))
        .segment_bytes(64 << 10);
    let log = Log::open(given_dir()).unwrap();
    let topic = log.topic_or_create("t", config).unwrap();
    let writers = if load == "threads" { 4 } else { 1 };
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let partition = topic.partition(writer as u32 % PARTITIONS).unwrap();
            let load = &load;
            scope.spawn(move || write(&partition, load, life, writer));
        }
    });
}

fn write(partition: &Partition, load: &str, life: u64, writer: u64) {
    let mut number = 0;
    loop {
        let count = batch_of(load, (life, writer, number));
        let values: Vec<String> = (number..number + count)
            .map(|number| value((life, writer, number)))
            .collect();
        let first = if count == 1 {
            partition
                .append(Record::keyless(&values[0]))
                .unwrap()
                .offset()
        } else {
            let records = values.iter().map(Record::keyless);
            partition.append_all(records).unwrap().start
        };
        say(&format!(
            "{} {first} {count} {life} {writer} {number}",
            partition.id().get()
        ));
        number += count;
    }
}

/// What was acknowledged: by partition and offset.
#[derive(Default)]
struct Tally {
    acknowledged: BTreeMap<(u32, u64), Name>,
    lines: u64,
}

impl Tally {
    fn take(&mut self, line: &str) {
        let words: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let [partition, first, count, life, writer, number] = words[..] else {
            panic!("{line:?}");
        };
        for n in 0..count {
            let at = (partition as u32, first + n);
            let before = self.acknowledged.insert(at, (life, writer, number + n));
            assert_eq!(before, None, "{at:?} was given out twice");
        }
        self.lines += 1;
    }

    /// Everything that was acknowledged is there, in order, and nothing that was not sent.
    fn check(&self, log: &Log, load: &str) {
        let mut found = BTreeMap::new();
        let mut next: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        let topic = log.topic("t").unwrap();
        for partition in topic.partitions() {
            for entry in partition.entries(..) {
                let entry = entry.unwrap();
                let text = entry.value_str().unwrap();
                let name = name_of(text);
                assert_eq!(text, value(name), "these bytes were sent");
                let next = next.entry((name.0, name.1)).or_insert(0);
                assert_eq!(name.2, *next, "{name:?} is in its writer's order");
                *next += 1;
                found.insert((partition.id().get(), entry.offset().get()), name);
            }
        }
        for (at, name) in &self.acknowledged {
            assert_eq!(found.get(at), Some(name), "acknowledged at {at:?}");
        }
        for ((life, writer), end) in next {
            let mut number = 0;
            while number < end {
                number += batch_of(load, (life, writer, number));
            }
            assert_eq!(
                number, end,
                "the last batch of {writer} in life {life} is whole"
            );
        }
    }
}

/// One directory, one level, one load, one life after the other.
struct Case {
    dir: tempfile::TempDir,
    place: &'static str,
    level: (&'static str, u64),
    load: &'static str,
    tally: Tally,
    life: u64,
}

impl Case {
    fn kill_once(&mut self, dice: &mut Dice) {
        self.life += 1;
        let dir = self.dir.path().join("log");
        let mut command = play("load", &dir);
        command
            .env("LEVEL", self.level.0)
            .env("LOAD", self.load)
            .env("LIFE", self.life.to_string());
        let mut child = Running::start(command);
        for _ in 0..=dice.below(self.level.1) {
            let line = child.line().expect("the child appends until it is killed");
            self.tally.take(&line);
        }
        for line in child.kill() {
            self.tally.take(&line);
        }
        // Half of the time the next child finds the log as the kill left it.
        let looks_only = dice.once_in(2);
        let log = if looks_only {
            Log::open_read_only(&dir)
        } else {
            Log::open(&dir)
        };
        let log = log.unwrap();
        for finding in log.recovery().findings() {
            let harmless = matches!(
                finding.kind,
                FindingKind::TornTail | FindingKind::MayBeBehind
            );
            assert!(harmless, "a kill tears a tail and no more: {finding:?}");
        }
        self.tally.check(&log, self.load);
        if !looks_only {
            log.close().unwrap();
        }
    }
}

#[test]
fn a_killed_process_loses_nothing_that_it_acknowledged() {
    let mut dice = Dice::new(seed());
    let mut cases = Vec::new();
    for level in LEVELS {
        for load in LOADS {
            let places = [
                ("disk", tempfile::tempdir().ok()),
                ("memory", in_memory_dir()),
            ];
            for (place, dir) in places {
                let Some(dir) = dir else { continue };
                let (tally, life) = (Tally::default(), 0);
                cases.push(Case {
                    dir,
                    place,
                    level,
                    load,
                    tally,
                    life,
                });
            }
        }
    }
    let kills = 20 * scale() as usize;
    for kill in 0..kills {
        let count = cases.len();
        cases[kill % count].kill_once(&mut dice);
    }
    let (mut lines, mut records) = (0, 0);
    for case in &cases {
        println!(
            "{:8} {:8} {:6} {:3} kills, {:6} appends and {:7} records acknowledged and found",
            case.level.0,
            case.load,
            case.place,
            case.life,
            case.tally.lines,
            case.tally.acknowledged.len()
        );
        lines += case.tally.lines;
        records += case.tally.acknowledged.len();
    }
    println!("{kills} kills, {lines} appends, {records} records: none lost, none added");
}

/// Appends one small record and one batch of `MIB` records of a MiB each: one write.
fn append_large() {
    let mib: usize = given("MIB").parse().unwrap();
    let config = TopicConfig::new()
        .durability(Durability::Process)
        .segment_bytes(1 << 30)
        .max_record_bytes(2 << 20)
        .max_batch_bytes(512 << 20);
    let log = Log::open(given_dir()).unwrap();
    let partition = log
        .topic_or_create("t", config)
        .unwrap()
        .partition(0)
        .unwrap();
    partition.append(Record::keyless("small")).unwrap();
    let value = "m".repeat(1 << 20);
    say("now");
    partition
        .append_all((0..mib).map(|_| Record::keyless(&value)))
        .unwrap();
    say("done");
    child::hear();
}

fn segment_len(dir: &Path) -> u64 {
    let mut dirs = vec![dir.join("topics")];
    let mut largest = 0;
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            } else if entry
                .path()
                .extension()
                .is_some_and(|ending| ending == "log")
            {
                largest = largest.max(entry.metadata().unwrap().len());
            }
        }
    }
    largest
}

#[test]
fn f16b_a_kill_within_one_large_write_leaves_a_short_file_and_costs_that_batch_alone() {
    let mut dice = Dice::new(seed());
    let mut torn = 0;
    for round in 0..6 * scale() {
        let mib = [16, 64, 256][round as usize % 3];
        let Some(temporary) = in_memory_dir().or_else(|| tempfile::tempdir().ok()) else {
            return;
        };
        let dir = temporary.path().join("log");
        let mut command = play("large", &dir);
        command.env("MIB", mib.to_string());
        let mut child = Running::start(command);
        assert_eq!(child.line().unwrap(), "now");
        let mark = dice.below(mib << 20);
        while segment_len(&dir) <= mark {
            std::thread::yield_now();
        }
        let whole = child.kill().contains(&"done".to_owned());
        let len = segment_len(&dir);
        // The same boot, or judged as if it were another.
        let other_boot = dice.once_in(2);
        let builder = Log::builder();
        let builder = if other_boot {
            builder.assume_power_loss()
        } else {
            builder
        };
        let log = builder.open(&dir).unwrap();
        let partition = log.topic("t").unwrap().partition(0).unwrap();
        let records = partition.entries(..).map(Result::unwrap).count() as u64;
        let state = format!("{len} bytes of {mib} MiB, other boot {other_boot}");
        assert!(
            records == 1 || records == 1 + mib,
            "{state}: {records} records"
        );
        assert!(records > 1 || !whole, "{state}: it was acknowledged");
        let report: Vec<_> = log
            .recovery()
            .findings()
            .iter()
            .map(|found| found.kind)
            .collect();
        if records == 1 && len > 1000 {
            torn += 1;
            assert_eq!(report[0], FindingKind::TornTail, "{state}");
            let cut = &log.recovery().findings()[0];
            assert_eq!(cut.bytes + cut.byte.unwrap(), len, "{state}");
        }
        let next = partition.append(Record::keyless("after")).unwrap().offset();
        if other_boot {
            assert!(next >= Offset::new(records), "{state}");
        } else {
            assert_eq!(next, Offset::new(records), "{state}: no gap");
        }
        log.close().unwrap();
    }
    println!("{torn} of {} kills fell within the write", 6 * scale());
}
