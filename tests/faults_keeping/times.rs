//! `offset_for_time` in what is left: never nothing while a later record qualifies, never a record that went.

use thalweg::{Offset, Partition, Record, Timestamp, TopicConfig};

use super::made;

fn found(partition: &Partition, ms: i64) -> Option<u64> {
    let found = partition.offset_for_time(Timestamp::from_millis(ms));
    found.unwrap().map(Offset::get)
}

fn write(partition: &Partition, times: &[i64]) {
    let records = times
        .iter()
        .map(|ms| Record::new("k", "v").at(Timestamp::from_millis(*ms)));
    partition.append_all(records.collect::<Vec<_>>()).unwrap();
}

/// The greatest time of the first segment went, so what it has left is younger than its footer says.
#[test]
fn a_search_goes_on_where_what_is_left_of_a_segment_is_too_early() {
    for rolled in [true, false] {
        let (disk, clock, log, partition) = made(TopicConfig::new());
        write(&partition, &[100, 900, 200, 300]);
        partition.roll().unwrap();
        write(&partition, &[150, 700]);
        if rolled {
            partition.roll().unwrap();
        }
        assert_eq!(found(&partition, 800), Some(1));
        partition.delete_before(Offset::new(2)).unwrap();
        let check = |partition: &Partition| {
            assert_eq!(found(partition, 0), Some(2));
            assert_eq!(found(partition, 250), Some(3));
            assert_eq!(
                found(partition, 301),
                Some(5),
                "it goes on to the next segment"
            );
            assert_eq!(found(partition, 800), None);
        };
        check(&partition);
        drop((partition, log));
        let log = super::logs::open_with(&disk, &clock);
        check(&super::logs::t0(&log));
    }
}

/// Each start, each time: as a look at every record says.
#[test]
fn a_search_finds_what_a_look_at_every_record_finds() {
    let times: Vec<i64> = (0..40).map(|n| (n * 37) % 41 * 10).collect();
    let (_disk, _clock, _log, partition) = made(TopicConfig::new().index_interval(1));
    for (n, batch) in times.chunks(3).enumerate() {
        write(&partition, batch);
        if n % 2 == 1 {
            partition.roll().unwrap();
        }
    }
    for start in 0..=40 {
        partition.delete_before(Offset::new(start)).unwrap();
        for ms in (-5..420).step_by(5) {
            let mut left = (start as usize..40).filter(|n| times[*n] >= ms);
            let expected = left.next().map(|n| n as u64);
            assert_eq!(found(&partition, ms), expected, "{ms} from {start}");
        }
    }
}
