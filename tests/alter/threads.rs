//! Levels that change while others append and look: what was acknowledged or seen at `Power` survives, and no offset is used again.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use thalweg::testing::{CrashModel, Disk};
use thalweg::{Durability, Error, Partition, Topic};

use super::logs::{Dice, end, one, open, rows, seed};
use super::{INTERVAL, new};

const APPENDERS: u64 = 3;
const ROUNDS: u64 = 12;

/// A number that is even while the level is `Power` for certain, and changes with each alteration.
#[derive(Default)]
struct Certain(AtomicU64);

impl Certain {
    fn is_since(&self, before: u64) -> bool {
        before.is_multiple_of(2) && self.0.load(Ordering::SeqCst) == before
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// What one was told.
struct Told {
    offset: u64,
    value: String,
    /// From this number of disk operations on.
    point: usize,
    /// At `Power`, from beginning to end.
    power: bool,
}

/// An end that was seen, and the operations by then; `Power` from before to after.
type Seen = (u64, usize);

struct Stage<'a> {
    disk: &'a Disk,
    topic: &'a Topic,
    partition: &'a Partition,
    certain: &'a Certain,
    done: &'a AtomicBool,
}

impl Stage<'_> {
    fn append(&self, appender: u64) -> Vec<Told> {
        let mut told = Vec::new();
        while !self.done.load(Ordering::Acquire) {
            let value = format!("{appender} {}", told.len());
            let before = self.certain.now();
            // In turn: a small record, a batch, and one on condition.
            let offset = match told.len() % 3 {
                0 => self.partition.append(("k", &value)).unwrap().offset(),
                1 => self.partition.append_all([("k", &value)]).unwrap().start,
                _ => match self
                    .partition
                    .append_at(self.partition.offsets().end, [("k", &value)])
                {
                    Ok(offsets) => offsets.start,
                    Err(Error::Conflict { .. }) => {
                        self.topic.append(("k", &value)).unwrap().offset()
                    }
                    Err(e) => panic!("{e:?}"),
                },
            };
            let power = self.certain.is_since(before);
            told.push(Told {
                offset: offset.get(),
                value,
                point: self.disk.points(),
                power,
            });
            assert!(self.partition.offsets().end > offset, "told, and not seen");
        }
        told
    }

    /// Looks at the end, which never goes back.
    fn look(&self) -> Vec<Seen> {
        let (mut seen, mut last) = (Vec::new(), 0);
        while !self.done.load(Ordering::Acquire) {
            let before = self.certain.now();
            let (end, point) = (end(self.partition), self.disk.points());
            assert!(end >= last, "{end} after {last}");
            if self.certain.is_since(before) && end > last {
                seen.push((end, point));
            }
            last = end;
            thread::yield_now();
        }
        seen
    }

    /// Up and down, each time when some more was appended. What had been acknowledged before each raise, and when that had returned.
    fn alter(&self) -> Vec<Seen> {
        let mut raised = Vec::new();
        for round in 0..ROUNDS {
            self.await_more(20);
            self.certain.0.fetch_add(1, Ordering::SeqCst); // uncertain
            let level = if round % 3 == 0 {
                INTERVAL
            } else {
                Durability::Process
            };
            self.topic.alter(new().durability(level)).unwrap();
            self.await_more(20);
            let before = end(self.partition);
            self.topic
                .alter(new().durability(Durability::Power))
                .unwrap();
            raised.push((before, self.disk.points()));
            self.certain.0.fetch_add(1, Ordering::SeqCst);
        }
        self.await_more(20);
        raised
    }

    fn await_more(&self, records: u64) {
        let enough = end(self.partition) + records;
        while end(self.partition) < enough {
            thread::yield_now();
        }
    }
}

/// Sets it also when this thread panics.
struct Ends<'d>(&'d AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The machine dies after so many operations: of all that was not synced nothing is left.
fn judge(disk: &Disk, point: usize, told: &[Told], promised: &[Seen]) {
    let log = open(&disk.crash(point, CrashModel::LostPages, 0));
    let partition = one(&log.topic("t").unwrap());
    let there = rows(&partition);
    let by_offset: std::collections::BTreeMap<u64, &str> = there
        .iter()
        .map(|(offset, value)| (*offset, &**value))
        .collect();
    for one in told {
        let found = by_offset.get(&one.offset);
        assert!(
            found.is_none_or(|value| *value == one.value),
            "{} is another",
            one.offset
        );
        if one.power && one.point <= point {
            assert!(
                found.is_some(),
                "{} was acknowledged at power, and is lost",
                one.offset
            );
        }
    }
    for &(end, at) in promised.iter().filter(|seen| seen.1 <= point) {
        let all = told.iter().filter(|one| one.offset < end);
        let lost = all
            .into_iter()
            .find(|one| !by_offset.contains_key(&one.offset));
        assert!(
            lost.is_none(),
            "{end} was promised at {at}, {:?} is lost",
            lost.map(|one| one.offset)
        );
    }
    let next = partition.append(("k", "v")).unwrap().offset().get();
    let used = told
        .iter()
        .filter(|one| one.point <= point)
        .map(|one| one.offset);
    assert!(
        used.max().is_none_or(|used| used < next),
        "{next} was another record's"
    );
}

#[test]
fn what_was_acknowledged_or_seen_at_power_survives_levels_that_change_beside_it() {
    let disk = Disk::new();
    let log = open(&disk);
    let config = new().segment_bytes(4000).offset_span(10_000);
    let topic = log.create_topic("t", config).unwrap();
    let partition = one(&topic);
    partition.append(("k", "first")).unwrap();
    let begun = disk.points();
    let (certain, done) = (Certain::default(), AtomicBool::new(false));
    let told = Mutex::new(Vec::new());
    let stage = Stage {
        disk: &disk,
        topic: &topic,
        partition: &partition,
        certain: &certain,
        done: &done,
    };
    let promised = thread::scope(|scope| {
        let (stage, told) = (&stage, &told);
        for appender in 0..APPENDERS {
            scope.spawn(move || {
                let _ends = Ends(stage.done);
                told.lock().unwrap().extend(stage.append(appender));
            });
        }
        let looks = scope.spawn(|| stage.look());
        let ends = Ends(stage.done);
        let mut promised = stage.alter();
        drop(ends);
        promised.extend(looks.join().unwrap());
        promised
    });
    let told = told.into_inner().unwrap();
    let power = told.iter().filter(|one| one.power).count();
    println!(
        "{} records, {power} at power, {} ends",
        told.len(),
        promised.len()
    );
    assert!(power > 20 && told.len() > power + 20);
    let mut dice = Dice(seed());
    for _ in 0..60 {
        let point = begun + dice.below((disk.points() - begun) as u64 + 1) as usize;
        judge(&disk, point, &told, &promised);
    }
    // Also when a level has just been raised.
    let raised = promised[..ROUNDS as usize].iter().map(|seen| seen.1);
    for point in raised.chain([disk.points()]) {
        judge(&disk, point, &told, &promised);
    }
}

/// Somebody deletes it, closes the log, or adds partitions meanwhile.
#[test]
fn a_topic_that_is_altered_beside_its_end_or_its_growth_is_gone_or_whole() {
    for turn in 0..3 {
        let disk = Disk::new();
        let log = open(&disk);
        let topic = log.create_topic("t", new()).unwrap();
        let (added, altered) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for n in 0..2 {
                let (topic, altered) = (&topic, &altered);
                scope.spawn(move || {
                    for round in 0.. {
                        let level = [Durability::Process, Durability::Power][round % 2];
                        let changes = new().durability(level).index_interval(round as u32 + n + 1);
                        let appended = topic.append(("k", "v")).map(drop);
                        match appended.and_then(|()| topic.alter(changes)) {
                            Ok(()) => _ = altered.fetch_add(1, Ordering::Release),
                            Err(Error::Closed) if turn == 0 => break,
                            // The sync that it waited for was of a topic that is gone now.
                            Err(Error::NotFound { .. } | Error::Indeterminate { .. })
                                if turn == 1 =>
                            {
                                break;
                            }
                            Err(e) => panic!("{e:?}"),
                        }
                        if turn == 2 && round == 60 {
                            break;
                        }
                    }
                });
            }
            while altered.load(Ordering::Acquire) < 10 {
                thread::yield_now();
            }
            match turn {
                0 => log.clone().close().unwrap(),
                1 => log.delete_topic("t").unwrap(),
                _ => {
                    for _ in 0..20 {
                        topic.add_partitions_breaking_key_order(1).unwrap();
                        added.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        let left = format!("{:?}", topic.settings());
        if turn == 2 {
            topic.alter(new().max_record_bytes(99)).unwrap();
            assert!(
                topic
                    .partitions()
                    .iter()
                    .all(|p| p.append(("k", "x".repeat(100))).is_err())
            );
            log.clone().close().unwrap();
        }
        drop((topic, log));
        let log = open(&disk);
        assert!(log.recovery().is_empty(), "{:?}", log.recovery());
        match log.topic("t") {
            Ok(topic) => {
                assert_eq!(topic.settings().partitions, 1 + added.into_inner() as u32);
                assert!(turn == 2 || format!("{:?}", topic.settings()) == left);
            }
            Err(e) => assert_eq!(turn, 1, "{e:?}"),
        }
    }
}
