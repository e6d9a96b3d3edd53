//! A partition: append, append at an expected end, read forwards, backwards, from both ends, one by one, across gaps.

use std::ops::Bound;

use thalweg::testing::Disk;
use thalweg::{Durability, Error, Log, Offset, Outcome, Partition, ReadMode, Scan, TopicConfig};

use super::logs::{Dice, end, fill, fresh, numbered, open, row, rows, scale, seed, t0, unplugged};

fn o(n: u64) -> Offset {
    Offset::new(n)
}

fn offsets(scan: impl Iterator<Item = thalweg::Result<thalweg::Entry>>) -> Vec<u64> {
    scan.map(|entry| entry.unwrap().offset().get()).collect()
}

#[test]
fn an_append_is_where_it_says() {
    let (_disk, _log, partition) = fresh(TopicConfig::new());
    assert_eq!(
        (
            partition.id().get(),
            partition.topic_partition().to_string()
        ),
        (0, "t-0".to_owned())
    );
    assert_eq!(partition.offsets(), o(0)..o(0));
    assert_eq!(partition.append(("k", "a")).unwrap().to_string(), "t-0@0");
    assert_eq!(
        partition.append_all([("k", "b"), ("k", "c")]).unwrap(),
        o(1)..o(3)
    );
    assert_eq!(partition.offsets(), o(0)..o(3));
    let owned: Vec<(String, Vec<u8>)> = vec![("k".into(), b"d".to_vec())];
    assert_eq!(partition.append_all(owned).unwrap(), o(3)..o(4));
    assert_eq!(rows(&partition)[3], (3, "d".to_owned()));
}

#[test]
fn append_at_succeeds_at_the_end_and_names_it_elsewhere() {
    let (disk, log, partition) = fresh(TopicConfig::new());
    assert_eq!(
        partition
            .append_at(o(0), [("k", "value-0000"), ("k", "value-0001")])
            .unwrap(),
        o(0)..o(2)
    );
    for wrong in [0, 1, 3, u64::MAX] {
        disk.mark();
        let error = partition.append_at(o(wrong), [("k", "v")]).unwrap_err();
        let Error::Conflict {
            at,
            expected_end,
            actual_end,
            ..
        } = &error
        else {
            panic!("{error:?}");
        };
        assert_eq!(
            (&**at, *expected_end, *actual_end),
            (&partition.topic_partition(), o(wrong), o(2))
        );
        assert_eq!(error.outcome(), Outcome::Rejected);
        assert!(disk.calls().is_empty());
    }
    partition.roll().unwrap();
    assert_eq!(
        partition.append_at(o(2), [("k", "value-0002")]).unwrap(),
        o(2)..o(3)
    );
    log.close().unwrap();
    let log = open(&disk);
    assert_eq!(
        t0(&log).append_at(o(3), [("k", "value-0003")]).unwrap(),
        o(3)..o(4)
    );
    assert_eq!(rows(&t0(&log)), numbered(0..4));
}

#[test]
fn every_kind_of_range_is_what_it_is_for_a_slice() {
    let (_disk, _log, partition) = fresh(TopicConfig::new().segment_bytes(500));
    fill(&partition, 0..20);
    let check = |scan: &dyn Fn() -> Scan, wanted: std::ops::Range<u64>| {
        assert_eq!(offsets(scan()), wanted.clone().collect::<Vec<_>>());
        assert_eq!(offsets(scan().rev()), wanted.rev().collect::<Vec<_>>());
    };
    check(&|| partition.entries(..), 0..20);
    check(&|| partition.entries(o(7)..), 7..20);
    check(&|| partition.entries(..o(7)), 0..7);
    check(&|| partition.entries(..=o(7)), 0..8);
    check(&|| partition.entries(o(5)..o(7)), 5..7);
    check(&|| partition.entries(o(5)..=o(5)), 5..6);
    check(&|| partition.entries(o(5)..o(5)), 0..0);
    check(&|| partition.entries(o(9)..o(5)), 0..0);
    check(&|| partition.entries(o(15)..o(99)), 15..20);
    check(&|| partition.entries(o(20)..), 0..0);
    check(&|| partition.entries(o(99)..), 0..0);
    check(
        &|| partition.entries((Bound::Excluded(o(3)), Bound::Included(o(6)))),
        4..7,
    );
}

#[test]
fn a_scan_is_a_snapshot() {
    let (_disk, _log, partition) = fresh(TopicConfig::new().segment_bytes(500));
    fill(&partition, 0..5);
    let (forwards, backwards) = (partition.entries(..), partition.entries(..).rev());
    fill(&partition, 5..20);
    assert_eq!(offsets(forwards), [0, 1, 2, 3, 4]);
    assert_eq!(offsets(backwards), [4, 3, 2, 1, 0]);
}

/// Both ends of a scan, in any order, meet once; against a plain deque.
#[test]
fn both_ends_of_a_scan_give_each_entry_once() {
    let mut dice = Dice(seed());
    for mode in [ReadMode::Positioned, ReadMode::Mapped] {
        let disk = Disk::new();
        let log = Log::builder().read_mode(mode).open_on(&disk).unwrap();
        let topic = log
            .create_topic("t", TopicConfig::new().segment_bytes(700).index_interval(1))
            .unwrap();
        let partition = topic.partition(0).unwrap();
        let mut next = 0;
        while next < 100 {
            let values = numbered(next..next + 1 + dice.below(5));
            partition
                .append_all(values.iter().map(|(_, value)| ("k", value)))
                .unwrap();
            next += values.len() as u64;
        }
        for _ in 0..50 * scale() {
            let (from, to) = (dice.below(next), dice.below(next + 5));
            let mut left: std::collections::VecDeque<u64> = (from..to.min(next)).collect();
            let mut scan = partition.entries(o(from)..o(to));
            loop {
                let (seen, wanted) = if dice.below(2) == 0 {
                    (scan.next(), left.pop_front())
                } else {
                    (scan.next_back(), left.pop_back())
                };
                let seen = seen.map(|entry| row(&entry.unwrap()));
                assert_eq!(
                    seen,
                    wanted.map(|n| numbered(n..n + 1).remove(0)),
                    "{from}..{to}"
                );
                if wanted.is_none() {
                    break;
                }
            }
            assert!(scan.next().is_none() && scan.next_back().is_none());
        }
    }
}

/// What a caller stops a scan with.
#[derive(Debug)]
struct Enough(u64);
impl From<Error> for Enough {
    fn from(error: Error) -> Enough {
        panic!("{error:?}")
    }
}

#[test]
fn reading_by_reference_gives_the_same_and_stops_at_the_callers_error() {
    let (_disk, _log, partition) = fresh(TopicConfig::new().segment_bytes(500));
    fill(&partition, 0..30);
    let mut seen = Vec::new();
    let mut scan = partition.entries(o(3)..o(27));
    scan.next();
    let all: thalweg::Result<()> = scan.try_for_each_ref(|entry| {
        seen.push((entry.offset().get(), entry.value_str()?.to_owned()));
        Ok(())
    });
    all.unwrap();
    assert_eq!(seen, numbered(4..27));
    let stopped = partition
        .entries(..)
        .try_for_each_ref(|entry| match entry.offset().get() {
            11 => Err(Enough(11)),
            _ => Ok(()),
        });
    assert!(matches!(stopped, Err(Enough(11))));
}

/// A power loss below `Power` leaves a gap: nothing is in it, and everything goes on behind it.
#[test]
fn a_gap_is_empty_from_every_side() {
    let config = TopicConfig::new()
        .durability(Durability::Process)
        .offset_span(100);
    let (disk, log, partition) = fresh(config);
    fill(&partition, 0..5);
    log.sync().unwrap();
    let log = open(&unplugged(&disk));
    let partition = t0(&log);
    assert_eq!(partition.offsets(), o(0)..o(100));
    for at in [5, 50, 99, 100] {
        assert!(partition.get(o(at)).unwrap().is_none());
    }
    assert_eq!(offsets(partition.entries(o(50)..)), Vec::<u64>::new());
    assert!(
        matches!(partition.append_at(o(5), [("k", "v")]), Err(Error::Conflict { actual_end, .. }) if actual_end == o(100))
    );
    assert_eq!(
        partition.append_at(o(100), [("k", "x")]).unwrap(),
        o(100)..o(101)
    );
    for from in [0, 4] {
        let wanted: Vec<u64> = (from..5).chain([100]).collect();
        assert_eq!(offsets(partition.entries(o(from)..)), wanted);
        assert_eq!(
            offsets(partition.entries(o(from)..).rev()),
            wanted.into_iter().rev().collect::<Vec<_>>()
        );
    }
    assert_eq!(offsets(partition.entries(o(50)..)), [100]);
    assert_eq!(offsets(partition.entries(o(50)..o(100))), Vec::<u64>::new());
    let mut member = log.group("g").subscribe(["t"]).join().unwrap();
    let batch = member.poll(std::time::Duration::ZERO).unwrap();
    assert_eq!(
        batch
            .iter()
            .map(|entry| entry.offset().get())
            .collect::<Vec<_>>(),
        [0, 1, 2, 3, 4, 100]
    );
    assert_eq!(
        batch.next_positions().next(&partition.topic_partition()),
        Some(o(101))
    );
}

#[test]
fn rolling_changes_nothing_that_is_seen() {
    let (disk, log, partition) = fresh(TopicConfig::new());
    partition.roll().unwrap();
    for n in 0..10 {
        fill(&partition, n..n + 1);
        partition.roll().unwrap();
        partition.roll().unwrap();
        assert_eq!(rows(&partition), numbered(0..n + 1));
    }
    assert!(
        partition.recover().unwrap().is_empty(),
        "nothing to recover"
    );
    log.close().unwrap();
    let log = open(&disk);
    assert!(log.recovery().is_empty());
    assert_eq!((end(&t0(&log)), rows(&t0(&log))), (10, numbered(0..10)));
}

/// What a reader that is not at its end is told when the log is closed: once, and then nothing more.
#[test]
fn a_scan_of_a_closed_log_ends_with_one_error() {
    let (_disk, log, partition) = fresh(TopicConfig::new().segment_bytes(500));
    fill(&partition, 0..100);
    let (mut forwards, mut backwards) = (partition.entries(..), partition.entries(..));
    let by_reference = partition.entries(..);
    log.close().unwrap();
    let told = |scan: &mut dyn Iterator<Item = thalweg::Result<thalweg::Entry>>| {
        let errors: Vec<Error> = scan.take(1000).filter_map(Result::err).collect();
        assert!(
            matches!(errors[..], [Error::Closed]),
            "{} errors",
            errors.len()
        );
    };
    told(&mut forwards);
    told(&mut std::iter::from_fn(|| backwards.next_back()));
    let stopped = by_reference.try_for_each_ref(|_| Ok::<(), Error>(()));
    assert!(matches!(stopped, Err(Error::Closed)));
    for error in closed_calls(&partition) {
        assert!(matches!(error, Error::Closed), "{error:?}");
    }
}

fn closed_calls(partition: &Partition) -> Vec<Error> {
    vec![
        partition.append(("k", "v")).unwrap_err(),
        partition.append_all([("k", "v")]).unwrap_err(),
        partition
            .append_at(partition.offsets().end, [("k", "v")])
            .unwrap_err(),
        partition.get(Offset::ZERO).unwrap_err(),
        partition
            .offset_for_time(thalweg::Timestamp::from_millis(0))
            .unwrap_err(),
        partition.roll().unwrap_err(),
        partition.recover().unwrap_err(),
    ]
}
