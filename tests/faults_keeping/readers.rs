//! Row F72: who reads what is being removed finishes what it has, and then goes on at the log start and says so, or is told where
//! the log begins. Nothing is left out in silence, nothing comes twice, nothing is called damaged.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use thalweg::testing::{Disk, ManualClock};
use thalweg::{
    Consumer, Durability, EntryRef, Error, Log, Maintenance, Offset, OnOutOfRange, Partition,
    ReadMode, Record, Retention, Timestamp, TopicConfig,
};

use super::logs::{Dice, one, scale, seed};
use super::start;

/// The time of record 0; each is a second older than the next.
const BEGAN: i64 = 1_500_000_000_000;

fn time_of(n: u64) -> Timestamp {
    Timestamp::from_millis(BEGAN + 1000 * n.cast_signed())
}

fn is_whole<'e>(entry: impl Into<EntryRef<'e>>) {
    let entry = entry.into();
    let n = entry.offset().get();
    assert_eq!(entry.value_str().unwrap(), format!("value-{n:04}"));
    assert_eq!(entry.timestamp(), time_of(n));
}

/// Valid from where, if this is what an overtaken reader is told.
fn valid_from(error: Error, requested: u64) -> u64 {
    match error {
        Error::OutOfRange {
            requested: at,
            valid,
            ..
        } => {
            assert_eq!(at.offset().get(), requested);
            assert!(valid.start.get() > requested);
            valid.start.get()
        }
        other => panic!("at {requested}: {other:?}"),
    }
}

fn forwards(partition: &Partition) {
    let from = start(partition);
    let mut next = from;
    for entry in partition.entries(Offset::new(from)..) {
        match entry {
            Ok(entry) => {
                assert_eq!(entry.offset().get(), next, "left out, or twice");
                is_whole(&entry);
                next += 1;
            }
            Err(e) => next = valid_from(e, next),
        }
    }
}

fn backwards(partition: &Partition) {
    let mut before: Option<u64> = None;
    for entry in partition.entries(..).rev() {
        match entry {
            Ok(entry) => {
                let at = entry.offset().get();
                assert!(
                    before.is_none_or(|before| at + 1 == before),
                    "{at} before {before:?}"
                );
                is_whole(&entry);
                before = Some(at);
            }
            Err(Error::OutOfRange { valid, .. }) => {
                let told = valid.start.get();
                assert!(
                    before.is_none_or(|before| before <= told),
                    "{before:?}, {told}"
                );
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

fn one_by_one(partition: &Partition, dice: &mut Dice) {
    let valid = partition.offsets(); // at once: the one may pass the other meanwhile
    let (low, end) = (valid.start.get(), valid.end.get());
    if low == end {
        return;
    }
    let at = low + dice.below(end - low);
    match partition.get(Offset::new(at)) {
        Ok(Some(entry)) => {
            assert_eq!(entry.offset().get(), at);
            is_whole(&entry);
        }
        Ok(None) => panic!("{at} below {end} is no gap"),
        Err(e) => drop(valid_from(e, at)),
    }
    let found = partition.offset_for_time(time_of(at)).unwrap();
    let after = start(partition);
    let found = found.map(Offset::get);
    let last = partition.offsets().end.get();
    match found {
        Some(found) => assert!(
            found >= at.max(low) && found <= at.max(after),
            "{at}: {found}"
        ),
        None => assert!(after == last || after > at, "{at}: a later one is there"),
    }
}

/// All that a consumer is given, until `written` are there and read.
fn consumed(mut consumer: Consumer, then: OnOutOfRange, records: u64) {
    let mut next = 0;
    while next < records {
        let batch = match consumer.poll(Duration::ZERO) {
            Ok(batch) => batch,
            Err(e) if then == OnOutOfRange::Fail => {
                let resume = e.resume_at().expect("where to go on");
                next = valid_from(e, next);
                assert_eq!(resume.offset().get(), next);
                consumer.seek(&resume).unwrap();
                continue;
            }
            Err(e) => panic!("{e:?}"),
        };
        let mut resets = batch.resets().iter().peekable();
        for entry in &batch {
            let at = entry.offset().get();
            while let Some(reset) =
                resets.next_if(|reset| reset.from.offset().get() == next && at > next)
            {
                next = reset.to.get();
            }
            assert_eq!(at, next, "left out, or twice");
            is_whole(entry);
            next += 1;
        }
        for reset in resets {
            assert_eq!(reset.from.offset().get(), next, "told where it was");
            next = reset.to.get();
        }
        if batch.is_empty() {
            thread::yield_now();
        }
    }
    consumer.commit().unwrap();
}

/// A writer, whose passes remove what is not newest, and readers of every kind.
fn readers_beside(log: &Log, clock: &ManualClock, records: u64, seed: u64) {
    let keep = Retention::new().bytes(1500);
    let config = TopicConfig::new().segment_bytes(500).index_interval(128);
    let config = config.retention(keep).durability(Durability::Process);
    let partition = &one(&log.create_topic("t", config).unwrap());
    let written = &AtomicU64::new(0);
    let going = || written.load(Ordering::Acquire) < records;
    let mut dice = Dice(seed);
    let join = |then| {
        let builder = log.group(&format!("{then:?}")).subscribe(["t"]);
        let builder = builder.on_out_of_range(then).max_poll_records(7);
        builder.join().unwrap() // before the first record: it is to see all of them
    };
    let (skips, fails) = (join(OnOutOfRange::LogStart), join(OnOutOfRange::Fail));
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..records {
                let value = format!("value-{n:04}");
                partition
                    .append(Record::new("key", &value).at(time_of(n)))
                    .unwrap();
                match n % 16 {
                    0..3 => drop(log.maintain().unwrap()),
                    9 => partition
                        .delete_before(Offset::new(n.saturating_sub(5)))
                        .unwrap(),
                    13 => partition.roll().unwrap(),
                    _ => {}
                }
                clock.advance(Duration::from_millis(1)); // not so much that a member is shut out
                written.store(n + 1, Ordering::Release);
            }
        });
        scope.spawn(|| {
            while going() {
                forwards(partition);
            }
        });
        scope.spawn(|| {
            while going() {
                backwards(partition);
            }
        });
        scope.spawn(|| {
            while going() {
                one_by_one(partition, &mut dice);
            }
        });
        scope.spawn(|| consumed(skips, OnOutOfRange::LogStart, records));
        scope.spawn(|| consumed(fails, OnOutOfRange::Fail, records));
    });
    assert!(start(partition) > 0);
}

#[test]
fn f72_readers_of_every_kind_beside_passes_are_told_what_they_missed() {
    let seed = seed();
    let records = 600 * scale();
    for mode in [ReadMode::Positioned, ReadMode::Mapped] {
        let dir = tempfile::tempdir().unwrap();
        let (clock, disk) = (ManualClock::new(), Disk::new());
        let builder = || {
            let builder = Log::builder().maintenance(Maintenance::Manual);
            builder.read_mode(mode).clock(&clock)
        };
        for log in [
            builder().open(dir.path().join("log")),
            builder().open_on(&disk),
        ] {
            readers_beside(&log.unwrap(), &clock, records, seed);
        }
    }
}

/// A pass between any two steps of a reader: each is a crossing that threads may or may not meet.
#[test]
fn f72_a_trim_between_any_two_steps_of_a_reader_is_never_passed_over_in_silence() {
    for mode in [ReadMode::Positioned, ReadMode::Mapped] {
        for taken in 0..=24_u64 {
            for cut in [0, 1, 3, 4, 5, 8, 11, 12, 19, 20, 22, 24] {
                let builder = Log::builder().maintenance(Maintenance::Manual);
                let log = builder.read_mode(mode).open_on(&Disk::new()).unwrap();
                let partition = one(&log.create_topic("t", TopicConfig::new()).unwrap());
                super::by_fours(&partition, 6);
                let (mut on, mut back) = (partition.entries(..), partition.entries(..));
                for n in 0..taken {
                    assert_eq!(on.next().unwrap().unwrap().offset().get(), n);
                    assert_eq!(back.next_back().unwrap().unwrap().offset().get(), 23 - n);
                }
                partition.delete_before(Offset::new(cut)).unwrap();
                let state = format!("{mode:?}, {taken} taken, below {cut}");
                let mut next = taken;
                for entry in on {
                    match entry {
                        Ok(entry) => {
                            assert_eq!(entry.offset().get(), next, "{state}");
                            next += 1;
                        }
                        Err(e) => next = valid_from(e, next),
                    }
                }
                assert_eq!(next, 24, "{state}");
                let (mut next, mut told) = (24 - taken, 0);
                for entry in back.rev() {
                    match entry {
                        Ok(entry) => {
                            next -= 1;
                            assert_eq!(entry.offset().get(), next, "{state}");
                        }
                        Err(Error::OutOfRange { valid, .. }) => {
                            assert_eq!(valid.start.get(), cut, "{state}");
                            told += 1;
                        }
                        Err(other) => panic!("{state}: {other:?}"),
                    }
                }
                // It had what it had read; what it had not, it was told of.
                assert!(
                    next <= cut && (next == 0 || told == 1),
                    "{state}: {next}, told {told}"
                );
            }
        }
    }
}
