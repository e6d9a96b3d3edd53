//! Rows F80 to F82: offsets at their end, at the end of a segment's span, and positions at the end of a file's.

use thalweg::testing::Disk;
use thalweg::{Durability, Error, Offset, Outcome, Partition, TopicConfig};

use super::logs::{
    Dice, end, files, fill, fresh, killed, numbered, one, open, reopened, rows, seed, t0, unplugged,
};

const MAX: u64 = i64::MAX as u64;

/// A partition that begins so far below the last offset there is.
fn near_the_end(left: u64, span: u32) -> (Disk, thalweg::Log, Partition) {
    let config = TopicConfig::new()
        .first_offset(Offset::new(MAX - left))
        .offset_span(span);
    fresh(config)
}

fn offsets(partition: &Partition) -> Vec<u64> {
    let entries = partition.entries(..).map(|entry| entry.expect("readable"));
    entries.map(|entry| entry.offset().get()).collect()
}

#[test]
fn f80_the_last_offsets_are_given_out_and_then_no_more() {
    let (disk, log, partition) = near_the_end(10, 1);
    assert_eq!(end(&partition), MAX - 10);
    for n in 0..9 {
        assert_eq!(
            partition.append(("k", "v")).unwrap().offset().get(),
            MAX - 10 + n
        );
    }
    for refused in 0..3 {
        disk.mark();
        let error = match refused {
            0 => partition.append_all([("k", "v"); 2]).map(drop),
            1 => partition.append(("k", "v")).map(drop),
            _ => partition
                .append_at(Offset::new(MAX - 1), [("k", "v")])
                .map(drop),
        };
        let error = error.unwrap_err();
        assert!(
            matches!(error, Error::LimitExceeded { limit: MAX | 1, .. }),
            "{error:?}"
        );
        assert_eq!(error.outcome(), Outcome::Rejected);
        assert!(
            disk.calls().is_empty(),
            "before any write: {:?}",
            disk.calls()
        );
    }
    let given: Vec<u64> = (MAX - 10..MAX - 1).collect();
    assert_eq!(offsets(&partition), given);
    assert!(partition.get(Offset::new(MAX)).unwrap().is_none());
    log.close().unwrap();
    let (_log, partition) = reopened(&disk);
    assert_eq!(offsets(&partition), given);
    assert!(matches!(
        partition.append(("k", "v")),
        Err(Error::LimitExceeded { .. })
    ));
}

/// Base and span together stay below the limit, so that a gap after a power loss finds room.
#[test]
fn f80_the_span_of_the_last_segment_counts_too() {
    let (disk, _log, partition) = near_the_end(100, 60);
    let range = partition.append_all((0..40).map(|_| ("k", "v"))).unwrap();
    assert_eq!(range, Offset::new(MAX - 100)..Offset::new(MAX - 60));
    let error = partition.append(("k", "v")).unwrap_err();
    assert!(matches!(error, Error::LimitExceeded { .. }), "{error:?}");
    let (_log, partition) = reopened(&killed(&disk));
    assert_eq!(end(&partition), MAX - 60);
    assert!(matches!(
        partition.append(("k", "v")),
        Err(Error::LimitExceeded { .. })
    ));
}

#[test]
fn f80_a_gap_at_the_very_end_leaves_a_partition_that_is_read() {
    let config = TopicConfig::new()
        .first_offset(Offset::new(MAX - 20))
        .offset_span(15)
        .durability(Durability::Process);
    let (disk, _log, partition) = fresh(config);
    for _ in 0..5 {
        partition.append(("k", "v")).unwrap();
    }
    let log = open(&unplugged(&disk));
    let partition = t0(&log);
    let left = offsets(&partition);
    assert!(left.len() <= 5 && left.iter().zip(MAX - 20..).all(|(a, b)| *a == b));
    assert_eq!(end(&partition), MAX - 5);
    let error = partition.append(("k", "v")).unwrap_err();
    assert!(matches!(error, Error::LimitExceeded { .. }), "{error:?}");
    assert_eq!(offsets(&partition), left);
}

#[test]
fn f80_positions_and_reads_at_the_last_offsets_do_not_wrap() {
    let (_disk, _log, partition) = fresh(TopicConfig::new());
    fill(&partition, 0..3);
    for far in [MAX, MAX - 1, u64::MAX, 1 << 32] {
        let far = Offset::new(far);
        assert!(partition.get(far).unwrap().is_none());
        assert_eq!(partition.entries(far..).count(), 0);
        assert_eq!(partition.entries(..far).count(), 3);
        assert_eq!(partition.entries(..=far).rev().count(), 3);
        let error = partition.append_at(far, [("k", "v")]).unwrap_err();
        assert!(matches!(error, Error::Conflict { .. }), "{error:?}");
    }
    assert_eq!(Offset::new(u64::MAX), Offset::new(MAX));
    assert_eq!(Offset::new(MAX).next(), Offset::new(MAX));
    assert_eq!(rows(&partition), numbered(0..3));
}

/// The base of a segment, from its name.
fn bases(disk: &Disk) -> Vec<u64> {
    let names = files(disk, "t", ".log");
    let base = |path: &std::path::PathBuf| path.file_name()?.to_str()?.get(..20)?.parse().ok();
    names
        .iter()
        .map(|path| base(path).expect("a base"))
        .collect()
}

#[test]
fn f81_no_segment_reaches_the_end_of_its_span() {
    let mut dice = Dice(seed());
    for span in [1, 2, 3, 7, 64] {
        let (disk, log, partition) = fresh(TopicConfig::new().offset_span(span));
        while end(&partition) < 100 {
            let count = 1 + dice.below(u64::from(span));
            let from = end(&partition);
            let values: Vec<String> = (from..from + count)
                .map(|n| format!("value-{n:04}"))
                .collect();
            partition
                .append_all(values.iter().map(|v| ("k", v)))
                .unwrap();
        }
        let wanted = numbered(0..end(&partition));
        assert_eq!(rows(&partition), wanted);
        let mut bases = bases(&disk);
        bases.push(end(&partition));
        let longest = bases.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(longest <= Some(u64::from(span)), "span {span}: {bases:?}");
        log.close().unwrap();
        assert_eq!(rows(&t0(&open(&disk))), wanted);
    }
}

#[test]
fn f81_a_batch_of_more_records_than_the_span_is_refused_whole() {
    let (disk, _log, partition) = fresh(TopicConfig::new().offset_span(4));
    fill(&partition, 0..1);
    disk.mark();
    let error = partition.append_all([("k", "v"); 5]).unwrap_err();
    assert!(
        matches!(
            error,
            Error::LimitExceeded {
                limit: 4,
                setting: "offset_span",
                ..
            }
        ),
        "{error:?}"
    );
    assert!(disk.calls().is_empty());
    partition.append_all([("k", "v"); 4]).unwrap();
    assert_eq!(end(&partition), 5);
}

/// Gaps of 2³² offsets: relative offsets, look-ups and indexes stay right across them.
#[test]
fn f81_gaps_as_wide_as_32_bits_are_crossed_without_a_cast() {
    let span = u32::MAX;
    let config = TopicConfig::new()
        .offset_span(span)
        .durability(Durability::Process)
        .index_interval(1);
    let (mut disk, log, partition) = fresh(config);
    log.sync().unwrap();
    let mut wanted = Vec::new();
    let (mut log, mut partition) = (log, partition);
    for life in 0..4_u64 {
        for n in 0..5 {
            let offset = life * u64::from(span) + n;
            let at = partition.append(("key", format!("{life}/{n}"))).unwrap();
            assert_eq!(at.offset().get(), offset);
            wanted.push((offset, format!("{life}/{n}")));
        }
        log.sync().unwrap();
        disk = unplugged(&disk);
        log = open(&disk);
        partition = t0(&log);
        assert_eq!(rows(&partition), wanted);
        assert_eq!(end(&partition), (life + 1) * u64::from(span));
        for (offset, value) in &wanted {
            let entry = partition
                .get(Offset::new(*offset))
                .unwrap()
                .expect("it is there");
            assert_eq!(entry.value_str().unwrap(), value);
            assert!(partition.get(Offset::new(offset + 5)).unwrap().is_none());
        }
    }
    let back: Vec<u64> = partition
        .entries(..)
        .rev()
        .map(|e| e.unwrap().offset().get())
        .collect();
    assert!(
        back.iter()
            .rev()
            .eq(wanted.iter().map(|(offset, _)| offset))
    );
    let middle = Offset::new(u64::from(span) + 3)..Offset::new(2 * u64::from(span) + 2);
    let middle: Vec<u64> = partition
        .entries(middle)
        .map(|e| e.unwrap().offset().get())
        .collect();
    let (one, two) = (u64::from(span), 2 * u64::from(span));
    assert_eq!(middle, [one + 3, one + 4, two, two + 1]);
}

#[test]
fn f82_no_segment_is_larger_than_a_position_can_say() {
    let log = open(&Disk::new());
    for (name, bytes) in [("a", (1 << 31) + 1), ("b", 1 << 32), ("c", u64::MAX)] {
        let error = log
            .create_topic(name, TopicConfig::new().segment_bytes(bytes))
            .unwrap_err();
        assert!(
            matches!(
                error,
                Error::InvalidSetting {
                    setting: "segment_bytes",
                    ..
                }
            ),
            "{error:?}"
        );
    }
    let most = TopicConfig::new().segment_bytes(1 << 31);
    fill(&one(&log.create_topic("most", most).unwrap()), 0..3);
}
