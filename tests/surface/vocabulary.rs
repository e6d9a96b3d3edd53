//! Offsets, positions, records, entries and errors as values.

use std::collections::HashSet;
use std::error::Error as _;

use thalweg::{
    Batch, BatchIntoIter, Consumer, ConsumerGroup, Entry, EntryRef, Error, Log, Offset, Outcome,
    Partition, PartitionId, Position, Positions, Record, RecoveryReport, Scan, Timestamp, Topic,
    TopicConfig, TopicPartition, WakeHandle,
};

use super::logs::{fresh, one};

const _: () = {
    const fn shared<T: Send + Sync + 'static>() {}
    const fn moves<T: Send + 'static>() {}
    shared::<Log>();
    shared::<Topic>();
    shared::<Partition>();
    shared::<ConsumerGroup>();
    shared::<WakeHandle>();
    shared::<Entry>();
    shared::<EntryRef<'static>>();
    shared::<Record<'static>>();
    shared::<Position>();
    shared::<Positions>();
    shared::<RecoveryReport>();
    shared::<TopicConfig>();
    shared::<Error>();
    moves::<Consumer>();
    moves::<Batch>();
    moves::<BatchIntoIter>();
    moves::<Scan>();
    assert!(size_of::<Error>() <= 64);
};

#[test]
fn positions_hold_the_next_offset_of_each_partition() {
    let at = |topic: &str, n: u32, offset| TopicPartition::new(topic, n).at(Offset::new(offset));
    let mut next = Positions::new();
    assert!(next.is_empty());
    next.set(at("b", 0, 5));
    next.set(at("a", 1, 7));
    next.set(at("b", 0, 3));
    assert_eq!(
        next.next(&TopicPartition::new("b", 0)),
        Some(Offset::new(3)),
        "`set` goes back"
    );
    assert_eq!(next.next(&TopicPartition::new("b", 1)), None);
    assert!(
        next.covers(&at("b", 0, 2)) && !next.covers(&at("b", 0, 3)) && !next.covers(&at("c", 0, 0))
    );
    let again: Positions = next.iter().cloned().collect();
    assert_eq!(again, next);
    let (_disk, _log, partition) = fresh(TopicConfig::new());
    partition.append_all([("k", "a"), ("k", "b")]).unwrap();
    let mut done = Positions::new();
    for entry in partition.entries(..).rev() {
        done.done(&entry.unwrap());
    }
    assert_eq!(
        done.next(&partition.topic_partition()),
        Some(Offset::new(2)),
        "`done` does not go back"
    );
}

#[test]
fn a_position_is_read_from_what_it_is_shown_as() {
    let (_disk, log, _) = fresh(TopicConfig::new());
    let odd = log
        .create_topic("a-b.c_d-7", TopicConfig::new().partitions(3))
        .unwrap();
    let at = odd.partition(2).unwrap().append(("k", "v")).unwrap();
    assert_eq!(at.to_string(), "a-b.c_d-7-2@0");
    assert_eq!(at.to_string().parse::<Position>().unwrap(), at);
    assert_eq!(
        (at.topic(), at.partition(), at.offset()),
        ("a-b.c_d-7", PartitionId::new(2), Offset::ZERO)
    );
    assert!(matches!(
        "a-b".parse::<Position>(),
        Err(Error::InvalidName { .. })
    ));
    let set: HashSet<Position> = [at.clone(), at].into();
    assert_eq!(set.len(), 1);
}

#[test]
fn nothing_that_is_printed_for_debugging_shows_contents() {
    let (_disk, log, partition) = fresh(TopicConfig::new());
    let record = Record::new("secret-key", "secret-value").header("secret-name", "secret-header");
    let shown = format!("{record:?}");
    partition.append(record).unwrap();
    let entry = partition.get(Offset::ZERO).unwrap().unwrap();
    let mut scan = partition.entries(..);
    scan.next();
    let mut member = log.group("g").subscribe(["t"]).join().unwrap();
    let batch = member.poll(std::time::Duration::ZERO).unwrap();
    let topic = one(&log.topic("t").unwrap());
    let (view, headers) = (entry.as_ref(), entry.headers());
    let shown = format!("{shown} {entry:?} {view:?} {headers:?} {scan:?} {batch:?}");
    let shown = format!("{shown} {partition:?} {topic:?} {log:?} {member:?}");
    assert!(!shown.contains("secret"), "{shown}");
    let bytes = format!("{:?}", b"secret");
    assert!(!shown.contains(&bytes[1..bytes.len() - 1]), "{shown}");
}

#[test]
fn an_error_prints_its_message_and_its_sources_for_main() {
    let (disk, log, partition) = fresh(TopicConfig::new());
    disk.fail(
        thalweg::testing::Fault::error(
            thalweg::testing::DiskCall::Write,
            thalweg::testing::DiskError::Io,
        )
        .on(".log"),
    );
    let error = partition.append(("k", "v")).unwrap_err();
    let shown = format!("{error:?}");
    assert!(shown.starts_with(&error.to_string()), "{shown}");
    let source = error
        .source()
        .expect("what the operating system said")
        .to_string();
    assert!(shown.contains(&source), "{shown}");
    assert!(
        error
            .to_string()
            .chars()
            .next()
            .is_some_and(char::is_lowercase)
    );
    assert_eq!(error.outcome(), Outcome::Rejected);
    assert!(!error.is_corruption() && !error.is_woken());
    let missing = log.topic("nothing").unwrap_err();
    assert!(missing.to_string().contains("nothing") && missing.partition().is_none());
}

#[test]
fn an_entry_outlives_everything_it_came_from() {
    let (disk, log, partition) = fresh(TopicConfig::new());
    let time = Timestamp::from_millis(1234);
    partition
        .append(Record::new("key", "value").header("h", "x").at(time))
        .unwrap();
    let entry = partition.get(Offset::ZERO).unwrap().unwrap();
    let (clone, detached) = (entry.clone(), entry.clone().detached());
    log.close().unwrap();
    drop((partition, disk));
    for entry in [entry, clone, detached] {
        assert_eq!(
            (entry.key_str().unwrap(), entry.value_str().unwrap()),
            ("key", "value")
        );
        assert_eq!(
            (entry.topic(), entry.partition(), entry.offset()),
            ("t", PartitionId::new(0), Offset::ZERO)
        );
        assert_eq!(entry.position().to_string(), "t-0@0");
        assert_eq!(entry.topic_partition(), &TopicPartition::new("t", 0));
        assert_eq!(
            (entry.header("h"), entry.timestamp()),
            (Some(&b"x"[..]), time)
        );
        assert_eq!(entry.as_ref().to_entry().value(), entry.value());
    }
}

#[test]
fn text_that_is_missing_or_no_text_is_a_decode_error_with_its_position() {
    let (_disk, _log, partition) = fresh(TopicConfig::new());
    partition.append(Record::tombstone(b"\xff\xfe")).unwrap();
    let entry = partition.get(Offset::ZERO).unwrap().unwrap();
    for error in [entry.key_str().unwrap_err(), entry.value_str().unwrap_err()] {
        assert!(
            matches!(&error, Error::Decode { at, .. } if at.to_string() == "t-0@0"),
            "{error:?}"
        );
    }
}
