//! Limits that the operating system really sets: the size of a file, open files, a full file system, a sync that fails.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use thalweg::Durability;

use crate::child::{Running, has, through};
use crate::{append, check, open, partition};

/// What the child said: the records that were acknowledged, and the rest.
fn run(mut command: Command, level: &str) -> (Vec<u64>, Vec<String>, std::process::ExitStatus) {
    command.env("LEVEL", level);
    let mut child = Running::start(command);
    let said: Vec<String> = std::iter::from_fn(|| child.line()).collect();
    let (numbers, words): (Vec<_>, Vec<_>) = said
        .into_iter()
        .partition(|line| line.parse::<u64>().is_ok());
    let numbers = numbers.iter().map(|line| line.parse().unwrap()).collect();
    (numbers, words, child.child.wait().unwrap())
}

fn at_least(dir: &Path, level: Durability, acknowledged: &[u64]) {
    let log = open(dir).unwrap();
    let partition = partition(&log, level);
    let end = partition.offsets().end.get();
    assert!(
        acknowledged.iter().all(|&number| number < end),
        "{end} of {acknowledged:?}"
    );
    check(&partition, end);
    append(&partition, end..end + 1);
}

#[test]
fn f31_the_signal_of_a_file_that_is_too_large_ends_the_host_and_loses_nothing() {
    if !has("prlimit") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // No file above 1500 bytes: a segment of 2048 does not get full. The signal is the host's business, and ends it.
    let command = through(&["prlimit", "--fsize=1500", "--core=0"], "fill", dir.path());
    let (acknowledged, words, status) = run(command, "process");
    assert!(!acknowledged.is_empty() && words.is_empty(), "{words:?}");
    assert!(status.signal().is_some(), "{status:?}");
    at_least(dir.path(), Durability::Process, &acknowledged);
}

#[test]
fn f31_with_the_signal_ignored_it_is_as_a_full_disk() {
    if !has("prlimit") {
        return;
    }
    for level in ["process", "power"] {
        let dir = tempfile::tempdir().unwrap();
        let ignoring = [
            "sh",
            "-c",
            "trap '' XFSZ; exec prlimit --fsize=1500 \"$@\"",
            "sh",
        ];
        let (acknowledged, words, status) = run(through(&ignoring, "fill", dir.path()), level);
        assert_eq!(words, ["no space", "no space", "read"]);
        assert!(status.success() && !acknowledged.is_empty());
        let level = if level == "power" {
            Durability::Power
        } else {
            Durability::Process
        };
        at_least(dir.path(), level, &acknowledged);
    }
}

#[test]
fn f32_with_few_open_files_allowed_many_segments_are_read_and_written() {
    if !has("prlimit") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path()).unwrap();
    append(&partition(&log, Durability::Process), 0..2000);
    log.close().unwrap();
    let command = through(&["prlimit", "--nofile=20"], "files", dir.path());
    let (_, words, status) = run(command, "process");
    assert!(status.success(), "{words:?}");
    assert_eq!(words[..2], ["read", "written"]);
    assert!(
        words[2].ends_with(" failed") && words[2] != "0 failed",
        "{words:?}"
    );
    let log = open(dir.path()).unwrap();
    assert!(log.recovery().is_empty());
    let partition = partition(&log, Durability::Process);
    check(&partition, partition.offsets().end.get());
}

#[test]
fn f25_on_a_file_system_that_is_really_full_appends_are_refused_and_go_on_later() {
    if !has("unshare") {
        return;
    }
    for level in ["process", "power"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        // 128 KiB, of which half are taken by a file that the child removes in the end.
        let script = "mount -t tmpfs -o size=128k tmpfs \"$0\" || exit 77; \
                      head -c 65536 /dev/zero > \"$0/log.filler\"; exec \"$@\"";
        let place = dir.path().to_str().unwrap();
        let private = ["unshare", "--mount", "sh", "-c", script, place];
        let (acknowledged, words, status) = run(through(&private, "fill", &path), level);
        if status.code() == Some(77) || (words.is_empty() && acknowledged.is_empty()) {
            println!("skipped: no file system can be mounted here ({status:?})");
            return;
        }
        assert_eq!(words, ["no space", "no space", "read", "again"]);
        assert!(acknowledged.len() > 100, "{}", acknowledged.len());
    }
}

#[test]
fn f21_an_fdatasync_that_really_fails_stops_the_partition() {
    if !has("strace") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let inject = "inject=fdatasync:error=EIO:when=12";
    let trace = [
        "strace",
        "-f",
        "-qq",
        "-e",
        "trace=fdatasync",
        "-e",
        inject,
        "-o",
        "/dev/null",
    ];
    let (acknowledged, words, status) = run(through(&trace, "fill", dir.path()), "power");
    if words.is_empty() && acknowledged.is_empty() {
        println!("skipped: nothing can be traced here ({status:?})");
        return;
    }
    assert_eq!(words, ["indeterminate", "poisoned", "read"]);
    assert!(!acknowledged.is_empty());
    at_least(dir.path(), Durability::Power, &acknowledged);
}

#[test]
fn f29_system_calls_that_are_really_interrupted_are_made_again() {
    if !has("strace") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let calls = "fdatasync,fsync,pwrite64,pread64,openat,ftruncate";
    let inject = format!("inject={calls}:error=EINTR:when=40+7");
    let traced = format!("trace={calls}");
    let trace = [
        "strace",
        "-f",
        "-qq",
        "-e",
        &traced,
        "-e",
        &inject,
        "-o",
        "/dev/null",
    ];
    let (acknowledged, words, status) = run(through(&trace, "exit", dir.path()), "power");
    if words.is_empty() && acknowledged.is_empty() {
        println!("skipped: nothing can be traced here ({status:?})");
        return;
    }
    assert_eq!(acknowledged.len(), 20, "{words:?}");
    at_least(dir.path(), Durability::Power, &acknowledged);
}
