//! F108 on the thread of the log: a task that it wakes may drop the last handle there.

use std::time::Duration;

use thalweg::testing::{Disk, DiskCall, DiskError, FailedSync, Fault};
use thalweg::{Durability, TopicConfig};

use super::dropping::{asleep, open};
use super::{NOW, SECOND, in_time};

/// A sync that fails on the thread of the log wakes those who wait for the partition, there. (If the task falls asleep too late
/// for it, it is tried again with more time.)
#[test]
fn f108_the_log_may_be_dropped_by_its_own_thread() {
    for millis in [20, 100, 500, 2500] {
        let woken_by = in_time("own thread", move || drop_on_its_thread(millis));
        if let Some(thread) = woken_by {
            assert_eq!(thread, "thalweg-maintenance");
            return;
        }
    }
    panic!("nobody woke it");
}

/// The thread that woke a task, which dropped the log then. `None`: it fell asleep too late.
fn drop_on_its_thread(millis: u64) -> Option<String> {
    let time = Duration::from_millis(millis);
    let disk = Disk::new();
    let log = open(&disk);
    let bytes = u64::MAX;
    let config = TopicConfig::new()
        .partitions(1)
        .durability(Durability::Interval { time, bytes });
    let topic = log.create_topic("t", config).unwrap();
    let mut consumer = log.group("g").subscribe(["t"]).join().unwrap();
    topic.append(("", "x")).unwrap();
    log.sync().unwrap();
    assert_eq!(consumer.poll(NOW).unwrap().len(), 1);
    let (call, then) = (DiskCall::SyncData, FailedSync::Keep);
    disk.fail(Fault::sync(call, then, DiskError::Io));
    topic.append(("", "y")).unwrap(); // its sync is due soon, and fails
    assert_eq!(consumer.poll(NOW).unwrap().len(), 1);
    drop((topic, log));
    let tells = asleep(consumer);
    let thread = tells.recv_timeout(2 * time + SECOND).ok()?;
    let came_back = tells.recv_timeout(5 * SECOND);
    assert!(came_back.is_ok(), "the drop never came back");
    drop(open(&disk)); // nothing is left locked
    thread
}
