//! Topics deleted and made while others write, read, commit, sync and close, on real threads: whoever is told something is told
//! what is so, and what is left is whole.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use thalweg::testing::Disk;
use thalweg::{
    Durability, Error, Log, Maintenance, Offset, Outcome, Result, StartFrom, Topic, TopicConfig,
};

const NOW: Duration = Duration::ZERO;
const LEVELS: [Durability; 3] = [
    Durability::Process,
    Durability::Interval {
        time: Duration::from_secs(3600),
        bytes: 2000,
    },
    Durability::Power,
];

fn scale() -> u64 {
    let given = std::env::var("THALWEG_LONG").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(1).max(1)
}

/// The topic `orders` in its n-th life: the number is one of its settings, so that every handle knows it.
fn life(n: u64, level: Durability) -> TopicConfig {
    let config = TopicConfig::new().partitions(2).durability(level);
    config.segment_bytes(4096 + n)
}

fn number(topic: &Topic) -> u64 {
    topic.settings().segment_bytes - 4096
}

/// Everything in a topic was written to this topic, and to none before it.
fn check(topic: &Topic) -> Result<()> {
    let life = number(topic).to_string();
    for partition in topic.partitions() {
        for (next, entry) in (0..).zip(partition.entries(..)) {
            let entry = entry?;
            assert_eq!(entry.offset(), Offset::new(next));
            let value = entry.value_str().unwrap();
            assert!(value.starts_with(&life), "{value} in life {life}");
        }
    }
    Ok(())
}

/// May this be what somebody is told whose topic is deleted meanwhile?
fn is_fair(error: &Error) -> bool {
    // Indeterminate: an append that had been written.
    matches!(
        error,
        Error::NotFound { what: "topic", .. } | Error::Closed | Error::Indeterminate { .. }
    )
}

/// Nothing, if it may be.
fn fair<T>(result: Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(e) => {
            assert!(is_fair(&e), "{e:?}");
            None
        }
    }
}

struct Shared {
    log: Log,
    done: AtomicBool,
    appended: AtomicU64,
}

impl Shared {
    fn goes_on(&self) -> bool {
        !self.done.load(Ordering::Acquire)
    }

    fn append(&self) {
        while self.goes_on() {
            let Some(topic) = fair(self.log.topic("orders")) else {
                continue;
            };
            let life = number(&topic);
            for n in 0..8 {
                let value = format!("{life} {n}");
                let appended = if n % 2 == 0 {
                    topic.append((&n.to_string(), &value)).map(drop)
                } else {
                    let records = (0..3).map(|k| (k.to_string(), value.clone()));
                    topic.append_all(records).map(drop)
                };
                if fair(appended).is_some() {
                    self.appended.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    fn read(&self) {
        while self.goes_on() {
            if let Some(topic) = fair(self.log.topic("orders")) {
                let _ = fair(check(&topic));
            }
        }
    }

    fn consume(&self) {
        let group = self.log.group("readers");
        let Some(mut consumer) = fair(group.subscribe(["orders", "keep"]).join()) else {
            return;
        };
        let mut kept = BTreeSet::new();
        while self.goes_on() {
            let Some(batch) = fair(consumer.poll(NOW)) else {
                return;
            };
            for entry in batch.topic("keep") {
                assert!(kept.insert(entry.offset()), "{} twice", entry.offset());
            }
            // A commit for a topic that is deleted meanwhile is no commit, and no error.
            match consumer.commit() {
                Err(Error::Closed) => return,
                other => other.unwrap(),
            }
        }
    }

    /// Everything that is not about a topic is never refused for the sake of one.
    fn sync(&self) {
        while self.goes_on() {
            match self.log.sync() {
                Err(Error::Closed) => return,
                other => other.unwrap(),
            }
            let committed = self.log.group("readers").committed();
            let _ = fair(committed).map(|positions| positions.iter().count());
        }
    }
}

/// Deletes and makes `orders` so many times while others do everything else; the number of its last life.
fn storm(shared: &Shared, level: Durability, lives: u64) -> u64 {
    let log = &shared.log;
    let keep = log
        .create_topic("keep", TopicConfig::new().partitions(1))
        .unwrap();
    log.create_topic("orders", life(0, level)).unwrap();
    let ready = Barrier::new(6);
    thread::scope(|scope| {
        let jobs: [fn(&Shared); 5] = [
            Shared::append,
            Shared::append,
            Shared::read,
            Shared::consume,
            Shared::sync,
        ];
        for job in jobs {
            let ready = &ready;
            scope.spawn(move || {
                ready.wait();
                job(shared);
            });
        }
        ready.wait();
        let mut old = log.topic("orders").unwrap();
        for n in 1..=lives {
            let enough = shared.appended.load(Ordering::Relaxed) + 4;
            while shared.appended.load(Ordering::Relaxed) < enough {
                thread::yield_now();
            }
            keep.append(("k", &n.to_string())).unwrap();
            log.delete_topic("orders").unwrap();
            assert!(matches!(log.topic("orders"), Err(Error::NotFound { .. })));
            let refused = old.append(("k", "v")).unwrap_err();
            assert_eq!(refused.outcome(), Outcome::Rejected, "{refused:?}");
            assert!(matches!(refused, Error::NotFound { .. }), "{refused:?}");
            let new = log.create_topic("orders", life(n, level)).unwrap();
            assert!(old.append(("k", "v")).is_err());
            old = new;
        }
        shared.done.store(true, Ordering::Release);
    });
    lives
}

/// What a storm left: two topics, whole, and nothing else.
fn look_again(log: &Log, last: u64) {
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
    let names: Vec<String> = log.topics().iter().map(|t| t.name().to_owned()).collect();
    assert_eq!(names, ["keep", "orders"]);
    let orders = log.topic("orders").unwrap();
    assert_eq!(number(&orders), last);
    check(&orders).unwrap();
    let kept = log.topic("keep").unwrap().partition(0).unwrap();
    assert_eq!(kept.entries(..).count() as u64, last);
    for position in log.group("readers").committed().unwrap().iter() {
        let topic = log.topic(position.topic()).unwrap();
        let end = topic.partition(position.partition()).unwrap().offsets().end;
        assert!(position.offset() <= end, "{position} of {end}");
    }
}

#[test]
fn f75_topics_are_deleted_under_everybody() {
    for level in LEVELS {
        let disk = Disk::new();
        let open = || {
            Log::builder()
                .maintenance(Maintenance::Manual)
                .open_on(&disk)
        };
        let shared = Shared {
            log: open().unwrap(),
            done: AtomicBool::new(false),
            appended: AtomicU64::new(0),
        };
        let last = storm(&shared, level, 30 * scale());
        println!(
            "{level:?}: {} appends",
            shared.appended.load(Ordering::Relaxed)
        );
        shared.log.close().unwrap();
        look_again(&open().unwrap(), last);
        assert_eq!(directories(&disk), 2);
    }
}

#[test]
fn f75_topics_are_deleted_under_everybody_on_real_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let shared = Shared {
        log: Log::open(&path).unwrap(),
        done: AtomicBool::new(false),
        appended: AtomicU64::new(0),
    };
    let last = storm(&shared, Durability::Process, 20 * scale());
    shared.log.close().unwrap();
    look_again(&Log::open(&path).unwrap(), last);
    assert_eq!(std::fs::read_dir(path.join("topics")).unwrap().count(), 2);
}

fn directories(disk: &Disk) -> usize {
    let files = disk.files().into_iter();
    let names = files.filter_map(|(path, _)| {
        let below = path.strip_prefix("/log/topics").ok()?.to_owned();
        below.iter().next().map(Path::new).map(Path::to_owned)
    });
    names.collect::<BTreeSet<_>>().len()
}

/// Closed in the middle of it: everybody is told, nobody hangs, and the next opening finds what was acknowledged.
#[test]
fn f113_a_log_is_closed_while_topics_come_and_go() {
    for round in 0..10 * scale() {
        let disk = Disk::new();
        let builder = || Log::builder().maintenance(Maintenance::Manual);
        let log = builder().open_on(&disk).unwrap();
        let keep = log.create_topic("keep", TopicConfig::new()).unwrap();
        let kept = AtomicU64::new(0);
        let ready = Barrier::new(4);
        let level = LEVELS[(round % 3) as usize];
        thread::scope(|scope| {
            scope.spawn(|| {
                ready.wait();
                for n in 0.. {
                    if fair(log.create_topic("orders", life(n, level))).is_none()
                        || fair(log.delete_topic("orders")).is_none()
                    {
                        return;
                    }
                }
            });
            scope.spawn(|| {
                ready.wait();
                while let Some(at) = fair(keep.append(("k", "v"))) {
                    kept.store(at.offset().get() + 1, Ordering::Release);
                }
            });
            scope.spawn(|| {
                let mut consumer = log.group("g").subscribe(["keep", "orders"]).join().unwrap();
                ready.wait();
                while fair(consumer.poll(NOW)).is_some() {
                    if fair(consumer.commit()).is_none() {
                        return;
                    }
                }
            });
            ready.wait();
            while kept.load(Ordering::Acquire) < 5 {
                thread::yield_now();
            }
            log.clone().close().unwrap();
        });
        drop((keep, log));
        let log = builder().open_on(&disk).unwrap();
        assert!(log.recovery().is_empty(), "{:?}", log.recovery());
        let there = log
            .topic("keep")
            .unwrap()
            .partition(0)
            .unwrap()
            .offsets()
            .end;
        assert!(there.get() >= kept.into_inner(), "{there}");
        assert_eq!(directories(&disk), log.topics().len());
    }
}

/// A consumer that waits for ever for records of a topic goes on with the next topic of that name.
#[test]
fn f75_a_sleeping_reader_wakes_in_the_next_topic_of_the_name() {
    let log = Log::in_memory();
    log.create_topic("orders", life(0, Durability::Process))
        .unwrap();
    let ready = Barrier::new(2);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let builder = log.group("g").subscribe(["orders"]);
            let mut consumer = builder.start_from(StartFrom::Latest).join().unwrap();
            let _ = consumer.poll(NOW).unwrap();
            ready.wait();
            let mut seen = Vec::new();
            while seen.len() < 3 {
                let batch = consumer.next_batch().unwrap().unwrap();
                seen.extend(batch.iter().map(|e| e.value_str().unwrap().to_owned()));
            }
            seen
        });
        ready.wait();
        for n in 1..=3 {
            log.delete_topic("orders").unwrap();
            log.create_topic("orders", life(n, Durability::Process))
                .unwrap();
        }
        let topic = log.topic("orders").unwrap();
        for n in 0..3 {
            topic
                .partition(0)
                .unwrap()
                .append(("k", &format!("3 {n}")))
                .unwrap();
        }
        assert_eq!(reader.join().unwrap(), ["3 0", "3 1", "3 2"]);
    });
}
