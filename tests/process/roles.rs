//! What the child processes of this suite do. Each says a line per acknowledged append, or what it met.

use std::path::PathBuf;

use thalweg::{Durability, Error, Log, Record};

use crate::child::{given, given_dir, hear, say};
use crate::{check, open, partition, small};

pub(crate) fn play(role: &str) {
    let dir = given_dir();
    match role {
        "hold" => hold(&dir),
        "try" => say(kind(open(&dir).err().as_ref())),
        "chdir" => chdir(),
        "abort" => {
            let _log = append_twenty(&dir);
            std::process::abort();
        }
        "overflow" => {
            let _log = append_twenty(&dir);
            println!("{}", overflow(1));
        }
        "exit" => {
            let log = append_twenty(&dir);
            std::mem::forget(log);
            std::process::exit(0);
        }
        "panic" => {
            let _log = append_twenty(&dir);
            panic!("this child ends so");
        }
        "fill" => fill(&dir),
        "files" => many_files(&dir),
        other => panic!("no such role: {other}"),
    }
}

/// The name of an error's variant, or `ok`.
fn kind(error: Option<&Error>) -> &'static str {
    match error {
        None => "ok",
        Some(Error::AlreadyOpen { .. }) => "already open",
        Some(Error::NoSpace { .. }) => "no space",
        Some(Error::Indeterminate { .. }) => "indeterminate",
        Some(Error::Poisoned { .. }) => "poisoned",
        Some(Error::Io { .. }) => "io",
        Some(_) => "other",
    }
}

fn level() -> Durability {
    match given("LEVEL").as_str() {
        "process" => Durability::Process,
        _ => Durability::Power,
    }
}

/// Opens the log, appends a record, and keeps it open until it is told otherwise.
fn hold(dir: &std::path::Path) {
    let log = open(dir).unwrap();
    crate::append(&partition(&log, Durability::Power), 0..1);
    say("open");
    hear();
    drop(log);
    say("closed");
    hear();
}

/// Opens by a relative path through a link, goes elsewhere, and appends over several segments.
fn chdir() {
    std::env::set_current_dir(given_dir()).unwrap();
    let log = open(&PathBuf::from("link/log")).unwrap();
    std::env::set_current_dir("/").unwrap();
    let partition = partition(&log, Durability::Power);
    crate::append(&partition, 0..100);
    check(&partition, 100);
    log.create_topic("another", small(Durability::Power))
        .unwrap();
    log.close().unwrap();
    say("done");
}

fn append_twenty(dir: &std::path::Path) -> Log {
    let log = open(dir).unwrap();
    let partition = partition(&log, level());
    for number in 0..20 {
        partition
            .append(Record::keyless(format!("record {number}")))
            .unwrap();
        say(&number.to_string());
    }
    log
}

#[expect(unconditional_recursion, reason = "it ends the process")]
fn overflow(n: u64) -> u64 {
    let large = std::hint::black_box([n; 1000]);
    overflow(n + 1) + large[n as usize % 1000]
}

/// Appends until something stops it, makes room if it can, and goes on.
fn fill(dir: &std::path::Path) {
    let log = open(dir).unwrap();
    let partition = partition(&log, level());
    let mut number = partition.offsets().end.get();
    check(&partition, number);
    let error = loop {
        match partition.append(Record::keyless(format!("record {number}"))) {
            Ok(_) => {
                say(&number.to_string());
                number += 1;
            }
            Err(e) => break Some(e),
        }
        if number == 5000 {
            break None;
        }
    };
    say(kind(error.as_ref()));
    let again = partition.append(Record::keyless(format!("record {number}")));
    say(kind(again.err().as_ref()));
    check(&partition, number); // reads go on
    say("read");
    let filler = dir.with_extension("filler");
    if std::fs::remove_file(filler).is_ok() {
        crate::append(&partition, number..number + 1);
        say(&number.to_string());
        log.close().unwrap();
        let log = open(dir).unwrap();
        check(&crate::partition(&log, level()), number + 1);
        say("again");
    }
}

/// Reads and writes more segments than it may have files open.
fn many_files(dir: &std::path::Path) {
    let log = open(dir).unwrap();
    let partition = partition(&log, level());
    let number = partition.offsets().end.get();
    check(&partition, number);
    say("read");
    crate::append(&partition, number..number + 300);
    check(&partition, number + 300);
    say("written");
    // With every file that it may have: an error, and everything goes on afterwards.
    let mut held = Vec::new();
    let mut failed = 0;
    let mut end = number + 300;
    for _ in 0..300 {
        while let Ok(file) = std::fs::File::open("/dev/null") {
            held.push(file);
        }
        match partition.append(Record::keyless(format!("record {end}"))) {
            Ok(_) => end += 1,
            Err(Error::Io { .. }) => failed += 1,
            Err(e) => panic!("{e:?}"),
        }
    }
    drop(held);
    check(&partition, end);
    crate::append(&partition, end..end + 100);
    check(&partition, end + 100);
    log.close().unwrap();
    say(&format!("{failed} failed"));
}
