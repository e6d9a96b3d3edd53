//! Settings that are changed while a topic is open: each counts at once, for every handle, and in every later life.

#[path = "../common/logs.rs"]
mod logs;

mod crashes;
mod errors;
mod levels;
mod refused;
mod threads;

use std::time::Duration;

use thalweg::testing::{CrashModel, Disk, DiskCall, ManualClock};
use thalweg::{
    Compaction, Durability, Error, Log, Partition, Partitioner, Record, Retention, RetentionTime,
    Timestamp, TimestampType, Topic, TopicConfig,
};

use logs::{files, open_with, t0};

const MODELS: [CrashModel; 4] = [
    CrashModel::ProcessKill,
    CrashModel::LostSuffix,
    CrashModel::LostPages,
    CrashModel::GarbagePages,
];

const INTERVAL: Durability = Durability::Interval {
    time: Duration::from_secs(1),
    bytes: 1 << 20,
};

fn new() -> TopicConfig {
    TopicConfig::new()
}

/// A log on a simulated disk, with a clock that stands still.
struct World {
    disk: Disk,
    clock: ManualClock,
    log: Log,
}

impl World {
    fn on(disk: Disk) -> World {
        World::later(disk, ManualClock::new())
    }

    fn later(disk: Disk, clock: ManualClock) -> World {
        let log = open_with(&disk, &clock);
        World { disk, clock, log }
    }

    fn topic(&self) -> Topic {
        self.log.topic("t").unwrap()
    }

    fn partition(&self) -> Partition {
        t0(&self.log)
    }

    fn segments(&self) -> usize {
        files(&self.disk, "t", ".log").len()
    }

    fn append(&self, len: usize) {
        self.partition().append(("k", "x".repeat(len))).unwrap();
    }
}

/// One setting: the topic before, what is changed, and whether the change is in force.
struct Setting {
    name: &'static str,
    before: fn() -> TopicConfig,
    change: fn() -> TopicConfig,
    is_new: fn(&World) -> bool,
}

const SETTINGS: &[Setting] = &[
    Setting {
        name: "max_record_bytes",
        before: new,
        change: || new().max_record_bytes(1000),
        is_new: |world| is_too_large(world.topic().append(("k", "x".repeat(2000)))),
    },
    Setting {
        name: "max_batch_bytes",
        before: || new().max_record_bytes(1000),
        change: || new().max_batch_bytes(2000),
        is_new: |world| {
            let batch = || (0..30).map(|_| ("k", "x".repeat(100)));
            let refused = is_too_large(world.partition().append_all(batch()));
            assert_eq!(is_too_large(world.topic().append_all(batch())), refused);
            refused
        },
    },
    Setting {
        name: "compacted",
        before: new,
        change: || new().compacted(Compaction::new()),
        is_new: |world| !takes_keyless(world),
    },
    Setting {
        name: "not_compacted",
        before: || new().compacted(Compaction::new()),
        change: || new().not_compacted(),
        is_new: takes_keyless,
    },
    Setting {
        name: "segment_bytes",
        before: || new().segment_bytes(1 << 20),
        change: || new().segment_bytes(1000),
        is_new: |world| {
            let before = world.segments();
            (0..3).for_each(|_| world.append(600));
            world.segments() > before + 1
        },
    },
    Setting {
        name: "segment_age",
        before: new,
        change: || new().segment_age(Duration::from_secs(5)),
        is_new: |world| {
            world.append(10);
            let before = world.segments();
            world.clock.advance(Duration::from_secs(6));
            world.append(10);
            world.segments() > before
        },
    },
    Setting {
        name: "offset_span",
        before: new,
        change: || new().offset_span(3),
        is_new: |world| {
            let appended = world.partition().append_all([("k", "v"); 4]);
            let spanned = |e: &Error| matches!(e, Error::LimitExceeded { setting, .. } if *setting == "offset_span");
            appended.is_err_and(|e| spanned(&e))
        },
    },
    Setting {
        name: "index_interval",
        before: || new().index_interval(1 << 20),
        change: || new().index_interval(64),
        is_new: |world| {
            world.partition().roll().unwrap();
            (0..100).for_each(|_| world.append(100));
            world.partition().roll().unwrap();
            let index = files(&world.disk, "t", ".idx").pop().unwrap();
            world.disk.read_file(index).unwrap().len() > 500
        },
    },
    Setting {
        name: "timestamp_limits",
        before: new,
        change: || new().timestamp_limits(Duration::from_secs(60), Duration::from_secs(60)),
        is_new: |world| {
            let old = Record::new("k", "v").at(Timestamp::from_millis(1000));
            let refused = world.partition().append(old);
            refused.is_err_and(|e| matches!(e, Error::InvalidTimestamp { .. }))
        },
    },
    Setting {
        name: "durability, lower",
        before: new,
        change: || new().durability(Durability::Process),
        is_new: |world| !syncs(world),
    },
    Setting {
        name: "durability, higher",
        before: || new().durability(INTERVAL),
        change: || new().durability(Durability::Power),
        is_new: syncs,
    },
    Setting {
        name: "retention",
        before: new,
        change: || new().retention(Retention::new().bytes(1 << 30)),
        is_new: |world| world.topic().settings().retention == Retention::new().bytes(1 << 30),
    },
    #[cfg(feature = "lz4")]
    Setting {
        name: "compression",
        before: new,
        change: || new().compression(thalweg::Compression::Lz4),
        is_new: |world| {
            let before = world.disk.used();
            world.append(10_000);
            world.disk.used() - before < 5000
        },
    },
];

fn is_too_large<T: std::fmt::Debug>(appended: thalweg::Result<T>) -> bool {
    match appended {
        Ok(_) => false,
        Err(Error::RecordTooLarge { .. }) => true,
        Err(e) => panic!("{e:?}"),
    }
}

fn takes_keyless(world: &World) -> bool {
    match world.topic().append(Record::keyless("v")) {
        Ok(_) => true,
        Err(Error::KeyRequired { .. }) => false,
        Err(e) => panic!("{e:?}"),
    }
}

/// Does an append wait for a sync? (The first one may begin a segment.)
fn syncs(world: &World) -> bool {
    world.append(10);
    world.disk.mark();
    world.append(10);
    world.disk.calls().contains_key(&DiskCall::SyncData)
}

#[test]
fn every_setting_counts_at_once_and_in_every_later_life() {
    for Setting {
        name,
        before,
        change,
        is_new,
    } in SETTINGS
    {
        let world = World::on(Disk::new());
        let topic = world.log.create_topic("t", before().partitions(2)).unwrap();
        let partition = topic.partition(0).unwrap();
        world.append(100);
        assert!(!is_new(&world), "{name}");
        let (clone, asked) = (topic.clone(), world.topic());
        topic.alter(change()).unwrap();
        for handle in [&clone, &asked, &world.topic()] {
            let shown = (format!("{:?}", handle.settings()), topic.settings());
            assert_eq!(shown.0, format!("{:?}", shown.1), "{name}");
        }
        let point = world.disk.points();
        assert!(is_new(&world), "{name}: not at once");
        assert_eq!(partition.offsets(), world.partition().offsets());
        let end = partition.offsets().end;
        // Partitions that are added later have it too.
        topic.add_partitions_breaking_key_order(1).unwrap();
        world.log.close().unwrap();
        let closed = World::later(world.disk.clone(), world.clock.clone());
        assert!(
            closed.log.recovery().is_empty(),
            "{name}: {:?}",
            closed.log.recovery()
        );
        assert_eq!(closed.partition().offsets().end, end, "{name}");
        assert!(is_new(&closed), "{name}: not after closing");
        for (model, seed) in MODELS
            .into_iter()
            .flat_map(|model| [(model, 0), (model, 1)])
        {
            let crashed = World::later(world.disk.crash(point, model, seed), world.clock.clone());
            assert!(is_new(&crashed), "{name}: not after {model:?}");
        }
    }
}

#[test]
fn a_partition_that_is_added_later_goes_by_the_new_settings() {
    let log = Log::in_memory();
    let topic = log.create_topic("t", new()).unwrap();
    topic.alter(new().max_record_bytes(1000)).unwrap();
    topic.add_partitions_breaking_key_order(1).unwrap();
    let added = topic.partition(1).unwrap();
    assert!(is_too_large(added.append(("k", "x".repeat(2000)))));
}

#[test]
fn what_is_not_set_stays_and_what_is_set_as_it_is_writes_nothing() {
    let disk = Disk::new();
    let log = logs::open(&disk);
    let config = || {
        new()
            .partitions(3)
            .partitioner(Partitioner::Kafka)
            .timestamps(TimestampType::AppendTime)
            .durability(INTERVAL)
            .retention(Retention::new().age(Duration::from_secs(9)))
            .retention_time(RetentionTime::AppendTime)
            .compacted(Compaction::new().min_dirty_ratio(0.25))
            .segment_bytes(1 << 20)
    };
    let topic = log.create_topic("t", config()).unwrap();
    let before = format!("{:?}", topic.settings());
    let points = disk.points();
    for nothing in [new(), config(), new().partitions(3)] {
        topic.alter(nothing).unwrap();
    }
    assert_eq!(disk.points(), points);
    topic.alter(new().segment_age(Duration::MAX)).unwrap();
    topic.alter(new().max_record_bytes(77)).unwrap();
    let after = format!("{:?}", topic.settings());
    let but = |text: &str| text.replace("max_record_bytes: 1048576", "max_record_bytes: 77");
    let but = |text: &str| {
        // No limit.
        but(text).replace("segment_age: Some(604800s)", "segment_age: None")
    };
    assert_eq!(after, but(&before));
    log.close().unwrap();
    let log = logs::open(&disk);
    let topic = log.topic("t").unwrap();
    assert_eq!(format!("{:?}", topic.settings()), after);
    log.topic_or_create("t", config()).unwrap();
}

/// What was stored before is read as it was, whatever the topic refuses now.
#[test]
fn what_is_stored_stays_as_it_is() {
    let world = World::on(Disk::new());
    let topic = world.log.create_topic("t", new()).unwrap();
    let large = "x".repeat(100_000);
    topic.append(Record::keyless(&large)).unwrap();
    let batch = || (0..50).map(|n| ("k", format!("{n} {large}")));
    topic.append_all(batch()).unwrap();
    let before = logs::rows(&world.partition());
    let small = new()
        .max_record_bytes(100)
        .max_batch_bytes(200)
        .segment_bytes(1000)
        .offset_span(10)
        .compacted(Compaction::new());
    topic.alter(small).unwrap();
    assert_eq!(logs::rows(&world.partition()), before);
    topic.append(("k", "small")).unwrap();
    world.log.close().unwrap();
    let world = World::on(world.disk);
    let mut after = logs::rows(&world.partition());
    assert_eq!(after.pop().unwrap().1, "small");
    assert_eq!(after, before);
    let mut reader = world.log.group("g").subscribe(["t"]).join().unwrap();
    let mut seen = 0;
    loop {
        match reader.poll(Duration::ZERO).unwrap().len() {
            0 => break,
            some => seen += some,
        }
    }
    assert_eq!(seen, before.len() + 1);
}

/// All records of a call go by one set of settings, so that none is refused when others were written.
#[test]
fn a_topic_that_is_altered_within_an_append_takes_all_of_it() {
    let log = Log::in_memory();
    let topic = log.create_topic("t", new().partitions(8)).unwrap();
    let records = (0..64).map(|n| {
        if n == 63 {
            topic.alter(new().max_record_bytes(200)).unwrap();
        }
        (format!("key-{n}"), "x".repeat(500))
    });
    assert_eq!(topic.append_all(records).unwrap().len(), 64);
    assert!(is_too_large(topic.append(("k", "x".repeat(500)))));
}
