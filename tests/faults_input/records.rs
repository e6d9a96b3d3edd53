//! Row F84: what is empty and what is missing are different things, and come back as they were.

use proptest::prelude::*;
use thalweg::{Entry, Offset, Record, Timestamp, TopicConfig};

use super::logs::{fresh, killed, open, reopened, scale, t0};

/// A record, owned.
#[derive(Clone, Debug, PartialEq)]
struct Plain {
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(String, Vec<u8>)>,
    time: Option<i64>,
}

impl Plain {
    fn record(&self) -> Record<'_> {
        let mut record = match (&self.key, &self.value) {
            (Some(key), Some(value)) => Record::new(key, value),
            (Some(key), None) => Record::tombstone(key),
            (None, Some(value)) => Record::keyless(value),
            (None, None) => Record::default(),
        };
        for (name, value) in &self.headers {
            record = record.header(name, value);
        }
        match self.time {
            Some(ms) => record.at(Timestamp::from_millis(ms)),
            None => record,
        }
    }

    /// As it comes out; a record without an event time shows the append time.
    fn is(&self, entry: &Entry) -> bool {
        let headers = entry
            .headers()
            .map(|(name, value)| (name.to_owned(), value.unwrap_or(b"missing").to_vec()));
        self.key.as_deref() == entry.key()
            && self.value.as_deref() == entry.value()
            && headers.eq(self.headers.iter().cloned())
            && self
                .time
                .is_none_or(|ms| entry.timestamp().as_millis() == ms)
    }
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        2 => Just(Vec::new()),
        4 => prop::collection::vec(any::<u8>(), 1..20),
        1 => prop::collection::vec(any::<u8>(), 100..400),
    ]
}

fn plain() -> impl Strategy<Value = Plain> {
    let name = prop_oneof![Just(String::new()), "[ab]", "\\PC{0,12}"];
    let headers = prop::collection::vec((name, bytes()), 0..4);
    let maybe = || prop::option::of(bytes());
    (maybe(), maybe(), headers, prop::option::of(any::<i64>())).prop_map(
        |(key, value, headers, time)| Plain {
            key,
            value,
            headers,
            time,
        },
    )
}

fn check(held: &thalweg::Partition, wanted: &[Plain]) -> Result<(), TestCaseError> {
    let entries: Vec<Entry> = held
        .entries(..)
        .collect::<thalweg::Result<_>>()
        .expect("all are readable");
    prop_assert_eq!(entries.len(), wanted.len());
    for (entry, wanted) in entries.iter().zip(wanted) {
        prop_assert!(wanted.is(entry), "{:?} came back as {:?}", wanted, entry);
        let alone = held
            .get(entry.offset())
            .expect("readable")
            .expect("it is there");
        prop_assert!(wanted.is(&alone));
        let copy = Plain {
            time: Some(alone.timestamp().as_millis()),
            ..wanted.clone()
        };
        prop_assert!(copy.is(&alone.detached()));
    }
    Ok(())
}

fn cases() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(100 * scale() as u32)
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn f84_every_record_comes_back_exactly(batches in prop::collection::vec(prop::collection::vec(plain(), 1..6), 1..8)) {
        let (disk, log, partition) = fresh(TopicConfig::new().segment_bytes(2000).index_interval(64));
        for batch in &batches {
            if let [alone] = &batch[..] {
                partition.append(alone.record()).expect("an append");
            } else {
                partition.append_all(batch.iter().map(Plain::record)).expect("an append");
            }
        }
        let wanted: Vec<Plain> = batches.concat();
        check(&partition, &wanted)?;
        check(&t0(&open(&killed(&disk))), &wanted)?;
        log.close().expect("a close");
        check(&t0(&open(&disk)), &wanted)?;
    }

    #[test]
    fn f84_a_record_made_of_an_entry_is_the_same_again(plain in plain()) {
        let (_disk, _log, partition) = fresh(TopicConfig::new());
        partition.append(plain.record()).expect("an append");
        let entry = partition.get(Offset::ZERO).expect("readable").expect("it is there");
        partition.append(Record::of(&entry)).expect("an append");
        let again = partition.get(Offset::new(1)).expect("readable").expect("it is there");
        prop_assert!(plain.is(&again), "{:?} came back as {:?}", plain, again);
    }
}

type KeyAndValue<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// Scenario B58: each of these is a record of its own kind, after a reopening too.
#[test]
fn f84_b58_empty_is_not_missing() {
    let (disk, log, partition) = fresh(TopicConfig::new());
    partition.append(("k1", "")).unwrap();
    partition.append(("k2", "x")).unwrap();
    partition.append(Record::tombstone("k2")).unwrap();
    partition.append(("", "e")).unwrap();
    partition.append(Record::keyless("n")).unwrap();
    partition.append(Record::tombstone("")).unwrap();
    partition.append(Record::keyless("")).unwrap();
    partition.append(Record::default()).unwrap();
    let wanted: [KeyAndValue<'_>; 8] = [
        (Some(b"k1"), Some(b"")),
        (Some(b"k2"), Some(b"x")),
        (Some(b"k2"), None),
        (Some(b""), Some(b"e")),
        (None, Some(b"n")),
        (Some(b""), None),
        (None, Some(b"")),
        (None, None),
    ];
    let see = |partition: &thalweg::Partition| {
        let entries: Vec<Entry> = partition.entries(..).map(Result::unwrap).collect();
        let seen: Vec<_> = entries
            .iter()
            .map(|entry| (entry.key(), entry.value()))
            .collect();
        assert_eq!(seen, wanted);
    };
    see(&partition);
    log.close().unwrap();
    let log = open(&disk);
    see(&t0(&log));
    let mut group = log.group("g").subscribe(["t"]).join().unwrap();
    let batch = group.poll(std::time::Duration::ZERO).unwrap();
    let seen: Vec<_> = batch
        .iter()
        .map(|entry| (entry.key(), entry.value()))
        .collect();
    assert_eq!(seen, wanted);
}

#[test]
fn f84_headers_repeat_are_empty_and_keep_their_order() {
    let (disk, log, partition) = fresh(TopicConfig::new());
    let record = Record::keyless("v")
        .header("a", "1")
        .header("b", "")
        .header("a", "2")
        .header("", "nameless");
    partition.append(record).unwrap();
    partition.append(Record::keyless("none")).unwrap();
    log.close().unwrap();
    let (_log, partition) = reopened(&disk);
    let entry = partition.get(Offset::ZERO).unwrap().unwrap();
    let all: Vec<_> = entry.headers().collect();
    let some = |bytes: &'static [u8]| Some(bytes);
    assert_eq!(
        all,
        [
            ("a", some(b"1")),
            ("b", some(b"")),
            ("a", some(b"2")),
            ("", some(b"nameless"))
        ]
    );
    assert_eq!(entry.header("a"), some(b"2"), "the last of that name");
    assert_eq!(entry.header("b"), some(b""));
    assert_eq!(entry.header("c"), None);
    assert_eq!(
        partition
            .get(Offset::new(1))
            .unwrap()
            .unwrap()
            .headers()
            .count(),
        0
    );
}
