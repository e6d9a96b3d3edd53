//! How a process may end without a close: nothing that was acknowledged is lost.

use std::os::unix::process::ExitStatusExt;

use thalweg::{Durability, Offset, Record};

use crate::child::{Running, play};
use crate::{check, open, partition};

/// Plays the role, and finds the twenty records that it said were acknowledged.
fn ends(role: &str, expected: impl Fn(std::process::ExitStatus) -> bool) {
    for (name, level) in [
        ("process", Durability::Process),
        ("power", Durability::Power),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut command = play(role, dir.path());
        command.env("LEVEL", name);
        let mut child = Running::start(command);
        let said: Vec<String> = std::iter::from_fn(|| child.line()).collect();
        let status = child.child.wait().unwrap();
        assert!(expected(status), "{role}: {status:?}");
        assert_eq!(said.len(), 20, "{role}");
        let log = open(dir.path()).unwrap();
        assert!(log.recovery().is_empty(), "{role}: {:?}", log.recovery());
        let partition = partition(&log, level);
        check(&partition, 20);
        // The machine ran on, so nothing can be missing, and there is no gap.
        let next = partition.append(Record::keyless("record 20")).unwrap();
        assert_eq!(next.offset(), Offset::new(20));
    }
}

#[test]
fn f102_a_host_that_aborts_loses_nothing() {
    ends("abort", |status| status.signal().is_some());
}

#[test]
fn f102_a_host_that_overflows_its_stack_loses_nothing() {
    ends("overflow", |status| status.signal().is_some());
}

#[test]
fn f102_a_host_that_panics_loses_nothing() {
    ends("panic", |status| !status.success());
}

#[test]
fn f103_a_host_that_exits_without_a_close_loses_nothing() {
    ends("exit", |status| status.success());
}
