//! Row F87: settings that make no sense are refused by name; those that are taken work, and come back.

use std::time::Duration;

use thalweg::testing::Disk;
use thalweg::{Durability, Error, Log, Maintenance, Retention, TopicConfig};

use super::logs::{Dice, fill, numbered, one, open, rows, scale, seed};

fn refused(log: &Log, config: TopicConfig) -> &'static str {
    let error = log.create_topic("nonsense", config).unwrap_err();
    let Error::InvalidSetting { setting, .. } = error else {
        panic!("{error:?}");
    };
    assert!(
        error.to_string().contains(setting),
        "{error} does not name {setting}"
    );
    assert!(
        matches!(log.topic("nonsense"), Err(Error::NotFound { .. })),
        "nothing was made"
    );
    setting
}

#[test]
fn f87_nonsense_is_refused_by_name_and_writes_nothing() {
    let disk = Disk::new();
    let log = open(&disk);
    let before = disk.hash();
    let new = TopicConfig::new;
    let interval = |time, bytes| new().durability(Durability::Interval { time, bytes });
    let cases = [
        ("partitions", new().partitions(0)),
        ("partitions", new().partitions(1_000_000)),
        ("partitions", new().partitions(u32::MAX)),
        ("segment_bytes", new().segment_bytes(0)),
        ("segment_bytes", new().segment_bytes(1)),
        ("segment_bytes", new().segment_bytes(u64::MAX)),
        ("segment_age", new().segment_age(Duration::ZERO)),
        ("segment_age", new().segment_age(Duration::from_nanos(1))),
        ("offset_span", new().offset_span(0)),
        ("index_interval", new().index_interval(0)),
        ("max_record_bytes", new().max_record_bytes(0)),
        ("max_record_bytes", new().max_record_bytes(u32::MAX)),
        ("max_batch_bytes", new().max_batch_bytes(0)),
        ("max_batch_bytes", new().max_batch_bytes(u32::MAX)),
        (
            "max_batch_bytes",
            new().max_record_bytes(1000).max_batch_bytes(999),
        ),
        ("retention", new().retention(Retention::new().bytes(0))),
        (
            "retention",
            new().retention(Retention::new().age(Duration::ZERO)),
        ),
        ("durability", interval(Duration::ZERO, 1)),
        ("durability", interval(Duration::from_secs(1), 0)),
    ];
    for (setting, config) in cases {
        let shown = format!("{config:?}");
        assert_eq!(refused(&log, config), setting, "{shown}");
    }
    assert_eq!(disk.hash(), before);
}

#[test]
fn f87_a_builder_refuses_nonsense_too() {
    let every = Duration::ZERO;
    let error = Log::builder()
        .maintenance(Maintenance::Background { every })
        .open_on(&Disk::new());
    assert!(matches!(
        error,
        Err(Error::InvalidSetting {
            setting: "maintenance",
            ..
        })
    ));
    let log = open(&Disk::new());
    log.create_topic("t", TopicConfig::new()).unwrap();
    let group = || log.group("g").subscribe(["t"]);
    for (setting, builder) in [
        ("max_poll_records", group().max_poll_records(0)),
        ("max_poll_bytes", group().max_poll_bytes(0)),
    ] {
        let error = builder.join().expect_err("it is refused");
        assert!(
            matches!(&error, Error::InvalidSetting { setting: named, .. } if *named == setting),
            "{error:?}"
        );
    }
}

/// One number out of the corners and the middle.
fn number(dice: &mut Dice) -> u64 {
    match dice.below(8) {
        0 => 0,
        1 => 1,
        2 => u64::MAX,
        3 => u64::from(u32::MAX),
        4 => 1 << 31,
        5 => dice.roll() >> dice.below(64),
        6 => 400 + dice.below(5000),
        _ => 1 << dice.below(64),
    }
}

fn duration(dice: &mut Dice) -> Duration {
    match dice.below(5) {
        0 => Duration::MAX,
        1 => Duration::from_nanos(number(dice)),
        2 => Duration::from_secs(number(dice)),
        _ => Duration::from_millis(number(dice)),
    }
}

fn random(dice: &mut Dice) -> TopicConfig {
    let small = |n: u64| n as u32;
    let mut config = TopicConfig::new();
    for _ in 0..dice.below(4) {
        let n = number(dice);
        config = match dice.below(12) {
            0 => config.partitions(small(n % 40)),
            1 => config.segment_bytes(n),
            2 => config.segment_age(duration(dice)),
            3 => config.offset_span(small(n)),
            4 => config.index_interval(small(n)),
            5 => config.max_record_bytes(small(n)),
            6 => config.max_batch_bytes(small(n)),
            7 => config.retention(Retention::new().bytes(n)),
            8 => config.retention(Retention::new().age(duration(dice))),
            9 => config.timestamp_limits(duration(dice), duration(dice)),
            10 => config.durability(Durability::Interval {
                time: duration(dice),
                bytes: n,
            }),
            _ => config.durability(Durability::Process),
        };
    }
    config
}

/// Whatever is taken works: it is written, read, described and opened again; the rest is refused by name, or record by record.
#[test]
fn f87_any_config_is_refused_by_name_or_works() {
    let mut dice = Dice(seed());
    let mut taken = 0;
    for _ in 0..300 * scale() {
        let (disk, config) = (Disk::new(), random(&mut dice));
        let log = open(&disk);
        let shown = format!("{config:?}");
        let topic = match log.create_topic("t", config.clone()) {
            Ok(topic) => topic,
            Err(Error::InvalidSetting { .. }) => continue,
            Err(other) => panic!("{shown}: {other:?}"),
        };
        taken += 1;
        let partition = one(&topic);
        let written = match partition.append(("key-0", "value-0000")) {
            Ok(_) => 20,
            Err(Error::RecordTooLarge { .. }) => 0,
            Err(other) => panic!("{shown}: {other:?}"),
        };
        fill(&partition, written.min(1)..written);
        assert_eq!(rows(&partition), numbered(0..written), "{shown}");
        let settings = format!("{:?}", topic.settings());
        log.close().unwrap();
        let log = open(&disk);
        assert!(log.recovery().is_empty(), "{shown}: {:?}", log.recovery());
        let topic = log
            .topic_or_create("t", config)
            .unwrap_or_else(|e| panic!("{shown}: {e:?}"));
        assert_eq!(format!("{:?}", topic.settings()), settings, "{shown}");
        assert_eq!(rows(&one(&topic)), numbered(0..written), "{shown}");
    }
    assert!(taken > 50, "only {taken} were taken");
}

/// A stored topic is opened as it is; what cannot change is named with its stored value.
#[test]
fn f87_opening_with_other_settings_says_what_is_stored() {
    let log = open(&Disk::new());
    log.create_topic("t", TopicConfig::new().partitions(3))
        .unwrap();
    let error = log
        .topic_or_create("t", TopicConfig::new().partitions(4))
        .unwrap_err();
    assert!(
        matches!(&error, Error::ConfigMismatch { setting: "partitions", stored, .. } if &**stored == "3"),
        "{error:?}"
    );
    let kafka = TopicConfig::new().partitioner(thalweg::Partitioner::Kafka);
    let error = log.topic_or_create("t", kafka).unwrap_err();
    assert!(
        matches!(
            error,
            Error::ConfigMismatch {
                setting: "partitioner",
                ..
            }
        ),
        "{error:?}"
    );
    log.topic_or_create("t", TopicConfig::new().segment_bytes(4096))
        .unwrap();
    let error = log.create_topic("t", TopicConfig::new()).unwrap_err();
    assert!(matches!(error, Error::AlreadyExists { .. }), "{error:?}");
}
