//! B56 and B57: what `delete_before` leaves is read, and so is what comes after; passes beside a writer lose nothing of it.

use std::thread;
use std::time::Duration;

use thalweg::testing::{Disk, ManualClock};
use thalweg::{Error, Offset, Outcome, Retention, TopicConfig};

use super::logs::{end, files, fresh, killed, numbered, one, open_with, reopened, rows, t0};
use super::{start, ten_by_ten};

#[test]
fn b56_what_was_left_is_read_from_the_start_and_so_is_what_comes_after_all_was_deleted() {
    let (disk, log, partition) = fresh(TopicConfig::new());
    ten_by_ten(&partition);
    partition.delete_before(Offset::new(80)).unwrap();
    assert_eq!(rows(&partition), numbered(80..100));
    partition.delete_before(Offset::new(83)).unwrap();
    assert_eq!(rows(&partition), numbered(83..100), "within a segment");
    partition.delete_before(Offset::new(100)).unwrap();
    assert_eq!(rows(&partition), []);
    partition.append(("key", "x")).unwrap();
    let x = [(100, "x".to_owned())];
    assert_eq!(rows(&partition), x);
    for above in [102, u64::MAX] {
        let refused = partition.delete_before(Offset::new(above)).unwrap_err();
        let Error::OutOfRange {
            requested, valid, ..
        } = &refused
        else {
            panic!("{above}: {refused:?}");
        };
        assert_eq!(requested.offset(), Offset::new(above));
        assert_eq!(*valid, Offset::new(100)..Offset::new(101));
        assert_eq!(refused.outcome(), Outcome::Rejected);
    }
    for below in [0, 10, 100] {
        partition.delete_before(Offset::new(below)).unwrap();
        assert_eq!(start(&partition), 100, "it never goes back");
    }
    assert_eq!(files(&disk, "t", ".log").len(), 1);
    drop((partition, log));
    for disk in [killed(&disk), disk] {
        let (log, partition) = reopened(&disk);
        assert_eq!(rows(&partition), x);
        assert!(log.recovery().is_empty(), "{:?}", log.recovery());
    }
}

/// The least that a limit can be, and a thread that does nothing but passes.
#[test]
fn b57_passes_beside_a_writer_take_nothing_but_old_segments() {
    let (disk, clock) = (Disk::new(), ManualClock::new());
    let log = open_with(&disk, &clock);
    let least = Retention::new().bytes(1).age(Duration::from_millis(1));
    let config = TopicConfig::new().segment_bytes(400).retention(least);
    let partition = one(&log.create_topic("t", config).unwrap());
    let records = 1000;
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 0..records {
                let at = partition.append(("key", format!("value-{n:04}"))).unwrap();
                assert_eq!(at.offset().get(), n, "dense");
                clock.advance(Duration::from_millis(1));
            }
        });
        let mut last = 0;
        for pass in 0.. {
            let over = writer.is_finished();
            log.maintain().unwrap();
            if pass % 8 == 7 {
                let end = partition.offsets().end; // others stand behind it by now
                partition.delete_before(end).unwrap();
            }
            let valid = partition.offsets();
            assert!(valid.start.get() >= last && valid.start <= valid.end);
            last = valid.start.get();
            if over {
                break;
            }
        }
        assert!(last > 0, "something went");
    });
    let left = start(&partition);
    let log = open_with(&killed(&disk), &clock);
    let partition = t0(&log);
    assert_eq!((start(&partition), end(&partition)), (left, records));
    assert_eq!(rows(&partition), numbered(left..records));
}
