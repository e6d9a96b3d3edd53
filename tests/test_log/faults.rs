//! Calls that fail when the test says so.

use std::io::ErrorKind;

use thalweg::testing::{Call, Survives, TestLog};
use thalweg::{Durability, Error, Offset, Outcome, TopicConfig};

use crate::{EIO, append, at, join, poll, topic, values};

#[test]
fn a_write_that_fails_is_rejected_once_and_leaves_nothing() {
    for level in [Durability::Power, Durability::Process] {
        let test = TestLog::new();
        let topic = topic(&test, level);
        for n in 0..3 {
            test.fail_next(Call::Write, ErrorKind::StorageFull);
            let error = topic.append(("customer-7", "lost")).unwrap_err();
            assert!(matches!(error, Error::NoSpace { .. }), "{error}");
            assert_eq!(error.outcome(), Outcome::Rejected);
            append(&topic, n..=n);
        }
        test.crash(Survives::Everything).unwrap();
        assert_eq!(values(&test), [0, 1, 2]);
    }
}

#[test]
fn the_kind_of_the_error_is_given_back() {
    let test = TestLog::new();
    let topic = topic(&test, Durability::Power);
    append(&topic, 0..1);
    let source = |wanted: ErrorKind| {
        test.fail_next(Call::Write, wanted);
        match topic.append(("customer-7", "lost")).unwrap_err() {
            Error::Io { source, .. } => source,
            other => panic!("{wanted:?}: {other}"),
        }
    };
    for wanted in [
        ErrorKind::OutOfMemory,
        ErrorKind::PermissionDenied,
        ErrorKind::ResourceBusy,
        ErrorKind::StaleNetworkFileHandle,
    ] {
        assert_eq!(source(wanted).kind(), wanted);
    }
    for full in [
        ErrorKind::StorageFull,
        ErrorKind::QuotaExceeded,
        ErrorKind::FileTooLarge,
    ] {
        test.fail_next(Call::Write, full);
        let error = topic.append(("customer-7", "lost")).unwrap_err();
        assert!(matches!(error, Error::NoSpace { .. }), "{full:?}: {error}");
    }
    for other in [ErrorKind::Other, ErrorKind::NotFound, ErrorKind::WouldBlock] {
        assert_eq!(source(other).raw_os_error(), Some(EIO), "{other:?}");
    }
    test.fail_next(Call::Write, ErrorKind::Interrupted);
    append(&topic, 1..2); // tried again
    assert_eq!(values(&test), [0, 1]);
}

#[test]
fn an_append_whose_sync_fails_is_indeterminate_and_the_partition_stops_until_it_recovers() {
    let test = TestLog::new();
    let topic = topic(&test, Durability::Power);
    append(&topic, 0..1);
    test.fail_next(Call::Sync, ErrorKind::Other);
    let error = topic.append(("customer-7", "1")).unwrap_err();
    assert!(matches!(error, Error::Indeterminate { .. }), "{error}");
    let error = topic.append(("customer-7", "2")).unwrap_err();
    assert!(matches!(error, Error::Poisoned { .. }), "{error}");
    assert_eq!(values(&test), [0]); // reads go on

    topic.partition(0).unwrap().recover().unwrap();
    append(&topic, 3..4);
    let found = values(&test);
    assert!(found == [0, 3] || found == [0, 1, 3], "{found:?}");
}

#[test]
fn what_a_failed_sync_left_in_memory_survives_the_process_and_not_the_power() {
    for (survives, wanted) in [
        (Survives::Everything, vec![0, 1]),
        (Survives::SyncedOnly, vec![0]),
    ] {
        let test = TestLog::new();
        let topic = topic(&test, Durability::Power);
        append(&topic, 0..1);
        test.fail_next(Call::Sync, ErrorKind::Other);
        topic.append(("customer-7", "1")).unwrap_err();
        test.crash(survives).unwrap();
        assert_eq!(values(&test), wanted, "{survives:?}");
        append(&test.log().topic("orders").unwrap(), 2..3); // reopening made it sound again
    }
}

#[test]
fn the_first_append_of_a_topic_meets_a_failing_sync_as_any_other_does() {
    let test = TestLog::new();
    let topic = topic(&test, Durability::Power);
    test.fail_next(Call::Sync, ErrorKind::Other);
    let error = topic.append(("customer-7", "0")).unwrap_err();
    assert!(matches!(error, Error::Indeterminate { .. }), "{error}");
}

#[test]
fn a_sync_of_the_log_tells_that_it_failed() {
    let test = TestLog::new();
    let topic = topic(&test, Durability::Process);
    append(&topic, 0..1);
    test.fail_next(Call::Sync, ErrorKind::Other);
    assert!(test.log().sync().is_err());
    let error = topic.append(("customer-7", "1")).unwrap_err();
    assert!(matches!(error, Error::Poisoned { .. }), "{error}");
}

#[test]
fn a_topic_whose_rename_fails_is_not_there_and_can_be_made_again() {
    let test = TestLog::new();
    test.fail_next(Call::Rename, ErrorKind::PermissionDenied);
    let made = test.log().create_topic("orders", TopicConfig::new());
    assert!(matches!(made, Err(Error::Io { call: "rename", .. })));
    assert!(matches!(
        test.log().topic("orders"),
        Err(Error::NotFound { .. })
    ));
    append(&topic(&test, Durability::Power), 0..1);
    assert_eq!(values(&test), [0]);
}

#[test]
fn a_commit_that_fails_was_not_done_and_appends_do_not_meet_its_fault() {
    let test = TestLog::new();
    let topic = topic(&test, Durability::Power);
    append(&topic, 0..2);
    let mut kitchen = join(&test);
    assert_eq!(poll(&mut kitchen), [0, 1]);
    test.fail_next(Call::Commit, ErrorKind::StorageFull);
    append(&topic, 2..3);
    let error = kitchen.commit().unwrap_err();
    assert!(matches!(error, Error::NoSpace { .. }), "{error}");
    assert_eq!(kitchen.committed(&at()).unwrap(), None);
    kitchen.commit().unwrap();
    assert_eq!(kitchen.committed(&at()).unwrap(), Some(Offset::new(2)));
    test.crash(Survives::Everything).unwrap();
    assert_eq!(poll(&mut join(&test)), [2]);
}

#[test]
fn faults_that_were_asked_for_twice_happen_twice_and_a_crash_forgets_them() {
    let test = TestLog::new();
    let topic = topic(&test, Durability::Power);
    for _ in 0..2 {
        test.fail_next(Call::Write, ErrorKind::StorageFull);
    }
    assert!(topic.append(("customer-7", "lost")).is_err());
    assert!(topic.append(("customer-7", "lost")).is_err());
    append(&topic, 0..1);
    test.fail_next(Call::Write, ErrorKind::StorageFull);
    test.crash(Survives::Everything).unwrap();
    append(&test.log().topic("orders").unwrap(), 1..2);
}
