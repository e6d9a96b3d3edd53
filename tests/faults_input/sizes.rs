//! Rows F83, F85 and F86: records and batches that are too large, empty, or of very many parts.

use thalweg::{Error, Offset, Outcome, Record, TopicConfig};

use super::logs::{end, files, fill, fresh, killed, numbered, one, open, rows, t0};

fn too_large(error: &Error) -> (u64, u64, &'static str) {
    match error {
        Error::RecordTooLarge {
            size,
            limit,
            setting,
            ..
        } => {
            assert_eq!(error.outcome(), Outcome::Rejected);
            assert!(
                error.to_string().contains(setting),
                "{error} does not name {setting}"
            );
            (*size, *limit, setting)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn f83_a_record_of_the_limit_passes_and_one_byte_more_does_not() {
    let (disk, log, partition) = fresh(TopicConfig::new().max_record_bytes(1000));
    let value = vec![b'x'; 5000];
    let (size, limit, setting) = too_large(&partition.append(("key", &value)).unwrap_err());
    assert_eq!((limit, setting), (1000, "max_record_bytes"));
    let fits = value.len() - usize::try_from(size - limit).unwrap();
    disk.mark();
    too_large(&partition.append(("key", &value[..=fits])).unwrap_err());
    assert!(disk.calls().is_empty(), "before any I/O");
    partition.append(("key", &value[..fits])).unwrap();
    assert_eq!(end(&partition), 1);
    // Headers and keys count as the value does.
    let long = String::from_utf8(value).unwrap();
    too_large(&partition.append((&long, "")).unwrap_err());
    too_large(
        &partition
            .append(Record::keyless("").header(&long, ""))
            .unwrap_err(),
    );
    too_large(
        &partition
            .append(Record::keyless("").header("", &long))
            .unwrap_err(),
    );
    too_large(&partition.append(Record::tombstone(&long)).unwrap_err());
    assert_eq!(end(&partition), 1);
    log.close().unwrap();
    let entry = t0(&open(&disk)).get(Offset::ZERO).unwrap().unwrap();
    assert_eq!(entry.value().unwrap(), &long.as_bytes()[..fits]);
}

#[test]
fn f83_one_record_too_large_refuses_its_whole_batch() {
    let (disk, log, partition) = fresh(TopicConfig::new().max_record_bytes(200));
    let long = "x".repeat(500);
    disk.mark();
    too_large(
        &partition
            .append_all([("a", "1"), ("b", &long), ("c", "3")])
            .unwrap_err(),
    );
    too_large(
        &partition
            .append_at(Offset::ZERO, [("a", "1"), ("b", &long)])
            .unwrap_err(),
    );
    too_large(&log.topic("t").unwrap().append(("b", &long)).unwrap_err());
    too_large(
        &log.topic("t")
            .unwrap()
            .append_all([("a", "1"), ("b", &long)])
            .unwrap_err(),
    );
    assert!(disk.calls().is_empty());
    assert_eq!(end(&partition), 0);
    fill(&partition, 0..2);
}

#[test]
fn f83_a_batch_above_its_limit_is_refused_and_names_it() {
    let config = TopicConfig::new()
        .max_record_bytes(1000)
        .max_batch_bytes(2000);
    let (disk, log, partition) = fresh(config);
    let value = "x".repeat(100);
    disk.mark();
    let error = partition
        .append_all((0..30).map(|_| ("key", &value)))
        .unwrap_err();
    let (size, limit, setting) = too_large(&error);
    assert_eq!((limit, setting), (2000, "max_batch_bytes"));
    assert!(size > 2000);
    assert!(disk.calls().is_empty());
    partition
        .append_all((0..15).map(|_| ("key", &value)))
        .unwrap();
    assert_eq!(end(&partition), 15);
    drop(log);
    assert_eq!(end(&t0(&open(&killed(&disk)))), 15);
}

/// What was written when it was allowed is read when it is not any more, in every way and in every later life.
#[test]
fn f83_a_limit_that_is_lowered_later_leaves_what_is_stored_readable() {
    let (disk, log, partition) = fresh(TopicConfig::new());
    let topic = log.topic("t").unwrap();
    let long = "x".repeat(100_000);
    partition.append(("key", &long)).unwrap();
    let batch = || (0..40).map(|n| ("key", format!("{n} {long}")));
    partition.append_all(batch()).unwrap();
    let before = rows(&partition);
    let lower = TopicConfig::new()
        .max_record_bytes(500)
        .max_batch_bytes(900);
    topic.alter(lower).unwrap();
    let (_, limit, setting) = too_large(&partition.append(("key", &long)).unwrap_err());
    assert_eq!((limit, setting), (500, "max_record_bytes"));
    let many = (0..20).map(|_| ("key", &long[..100]));
    let (_, limit, setting) = too_large(&partition.append_all(many).unwrap_err());
    assert_eq!((limit, setting), (900, "max_batch_bytes"));
    partition.append(("key", "short")).unwrap();
    let kill = killed(&disk);
    log.close().unwrap();
    for disk in [kill, disk] {
        let log = open(&disk);
        let partition = t0(&log);
        let mut held = rows(&partition);
        assert_eq!(held.pop().unwrap(), (41, "short".to_owned()));
        assert_eq!(held, before);
        let last = partition.get(Offset::new(40)).unwrap().unwrap();
        assert_eq!(last.value().unwrap().len(), long.len() + 3);
        assert_eq!(partition.entries(..).rev().count(), 42);
        too_large(&partition.append(("key", &long)).unwrap_err());
    }
}

/// An iterator without an end is stopped by the limit, and so is memory.
#[test]
fn f83_records_without_end_are_refused() {
    let (_disk, log, partition) = fresh(TopicConfig::new().max_batch_bytes(1 << 20));
    let endless = || std::iter::repeat_with(|| ("key", "value"));
    too_large(&partition.append_all(endless()).unwrap_err());
    too_large(&log.topic("t").unwrap().append_all(endless()).unwrap_err());
    assert_eq!(end(&partition), 0);
}

/// Row F87 too: a batch that is larger than a segment gets one of its own, and the next one goes on.
#[test]
fn f83_a_batch_above_the_segment_size_has_a_segment_of_its_own() {
    let config = TopicConfig::new().segment_bytes(1000);
    let (disk, log, partition) = fresh(config);
    let long = "y".repeat(5000);
    for turn in 0..3 {
        partition.append(("k", "short")).unwrap();
        partition.append(("k", &long)).unwrap();
        partition.append(("k", &long)).unwrap();
        assert_eq!(end(&partition), 3 * (turn + 1));
    }
    assert_eq!(files(&disk, "t", ".log").len(), 9, "each alone");
    log.close().unwrap();
    let held = rows(&t0(&open(&disk)));
    let wanted = ["short", &long, &long].into_iter().cycle().take(9);
    assert!(held.iter().map(|(_, value)| value.as_str()).eq(wanted));
}

#[test]
fn f85_no_records_are_no_batch_and_no_call() {
    let none: [(&str, &str); 0] = [];
    let (disk, log, partition) = fresh(TopicConfig::new());
    let topic = log.topic("t").unwrap();
    for from in [0, 3] {
        fill(&partition, end(&partition)..from);
        let here = Offset::new(from);
        disk.mark();
        assert_eq!(partition.append_all(none).unwrap(), here..here);
        assert_eq!(partition.append_at(here, none).unwrap(), here..here);
        assert_eq!(topic.append_all(none).unwrap(), []);
        let error = partition.append_at(here.next(), none).unwrap_err();
        assert!(
            matches!(&error, Error::Conflict { expected_end, actual_end, .. } if (*expected_end, *actual_end) == (here.next(), here)),
            "{error:?}"
        );
        assert!(disk.calls().is_empty(), "{:?}", disk.calls());
        assert_eq!(end(&partition), from);
    }
    log.close().unwrap();
    assert!(matches!(partition.append_all(none), Err(Error::Closed)));
    assert_eq!(rows(&t0(&open(&disk))), numbered(0..3));
}

#[test]
fn f86_a_million_records_are_one_batch() {
    let (disk, log, partition) = fresh(TopicConfig::new());
    let count = 1_000_000_u64;
    let value = |n: u64| [b"0123456789abcdef"[(n % 16) as usize]];
    let records = (0..count).map(|n| Record::keyless(value(n).to_vec()));
    let range = partition.append_all(records).unwrap();
    assert_eq!(range, Offset::ZERO..Offset::new(count));
    log.close().unwrap();
    let log = open(&disk);
    let mut next = 0;
    let scan = t0(&log).entries(..);
    let all: thalweg::Result<()> = scan.try_for_each_ref(|entry| {
        assert_eq!(
            (entry.offset().get(), entry.value()),
            (next, Some(&value(next)[..]))
        );
        next += 1;
        Ok(())
    });
    all.unwrap();
    assert_eq!(next, count);
    let some = t0(&log).get(Offset::new(654_321)).unwrap().unwrap();
    assert_eq!(some.value().unwrap(), value(654_321));
}

#[test]
fn f86_65536_headers_come_back_in_order() {
    let (disk, log, partition) = fresh(TopicConfig::new().max_record_bytes(4 << 20));
    let names: Vec<String> = (0..65_536).map(|n| format!("h{}", n % 1000)).collect();
    let mut record = Record::new("k", "v");
    for name in &names {
        record = record.header(name, name);
    }
    partition.append(record).unwrap();
    log.close().unwrap();
    let entry = t0(&open(&disk)).get(Offset::ZERO).unwrap().unwrap();
    let back = entry.headers().map(|(name, value)| {
        assert_eq!(value, Some(name.as_bytes()));
        name
    });
    assert!(back.eq(names.iter().map(String::as_str)));
    assert_eq!(entry.header("h7"), Some(&b"h7"[..]));
}

/// 2 GiB in all, borrowed from one MiB: the limit stops it long before.
#[test]
fn f86_two_gib_in_one_call_are_refused() {
    let (disk, log, partition) = fresh(TopicConfig::new().max_record_bytes(2 << 20));
    let block = vec![b'z'; 1 << 20];
    disk.mark();
    let records = || (0..2048).map(|_| ("key", &block));
    let (size, limit, _) = too_large(&partition.append_all(records()).unwrap_err());
    assert!(limit == 8 << 20 && size < 10 << 20);
    too_large(
        &one(&log.topic("t").unwrap())
            .append_at(Offset::ZERO, records())
            .unwrap_err(),
    );
    too_large(&log.topic("t").unwrap().append_all(records()).unwrap_err());
    assert!(disk.calls().is_empty());
}
