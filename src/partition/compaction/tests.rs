//! What cannot be asked from outside: topics that were not always compacted.

use super::*;
use crate::error::Error;
use crate::offset::Offset;
use crate::partition::tests::{Bench, small};
use crate::record::Record;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// As long as there is something to do.
fn compact(partition: &Partition, memory: usize, now: Timestamp) {
    while partition.compact(memory, now).unwrap().more {}
}

fn offsets(partition: &Partition) -> Vec<u64> {
    let entries = partition.entries(..);
    entries.map(|entry| entry.unwrap().offset().get()).collect()
}

/// Case B67: no later record takes their place.
#[test]
fn b67_records_without_a_key_from_before_the_topic_was_compacted_are_kept() {
    for memory in [1024, 1 << 20] {
        let mut bench = Bench::new(small());
        let (partition, _) = bench.open();
        let keyless = |n: u64| n.is_multiple_of(3);
        for n in 0..120 {
            let key = format!("key-{}", n % 50);
            let record = match n % 6 {
                0 => Record::keyless("v"),
                3 => Record::default(), // neither key nor value
                4 => Record::tombstone(&key),
                _ => Record::new(&key, "v"),
            };
            partition.append_all([record]).unwrap();
        }
        partition.roll().unwrap();
        drop(partition);
        bench.settings.compaction = Some(Compaction::new());
        let (partition, report) = bench.open();
        assert!(report.is_empty(), "{report:?}");
        let now = partition.inner.home.clock.now();
        compact(&partition, memory, now);
        let is_last = |n: u64| n + 50 >= 120 || keyless(n + 50) && n + 100 >= 120;
        let left: Vec<u64> = (0..120).filter(|&n| keyless(n) || is_last(n)).collect();
        assert_eq!(offsets(&partition), left, "with {memory} bytes");
        compact(&partition, memory, now.plus(2 * DAY));
        let left: Vec<u64> = left.into_iter().filter(|n| n % 6 != 4).collect();
        assert_eq!(offsets(&partition), left, "without tombstones");
        let refused = partition.append(Record::keyless("v")).unwrap_err();
        assert!(matches!(refused, Error::KeyRequired { .. }), "{refused:?}");
        assert_eq!(partition.offsets().end, Offset::new(120));
    }
}
