//! What the golden log holds, and how it was written.

use std::time::Duration;

use thalweg::testing::{Disk, ManualClock};
use thalweg::{Durability, Log, Partition, Partitioner, Topic, TopicConfig};

use crate::common::{self, Rec};

/// Small, so that each topic has several segments.
pub(crate) const SEGMENT_BYTES: u64 = 1024;
pub(crate) const GROUP: &str = "readers";

/// Records by topic, with their offsets; all of them in partition 0.
pub(crate) struct Written {
    sure: Vec<(u64, Rec)>,
    fast: Vec<(u64, Rec)>,
    /// Where the group reads on in `fast`.
    pub(crate) committed: u64,
}

impl Written {
    /// Every shape of a record: with and without key, value, headers and event time; empty is not missing.
    pub(crate) fn story() -> Written {
        let number = |records: Vec<Rec>| (0..).zip(records).collect();
        Written {
            sure: number((0..40).map(shaped).collect()),
            fast: number((100..130).map(shaped).collect()),
            committed: 7,
        }
    }

    pub(crate) fn topics(&self) -> [(&str, &Vec<(u64, Rec)>); 2] {
        [("sure", &self.sure), ("fast", &self.fast)]
    }
}

fn shaped(n: u64) -> Rec {
    let bytes = |text: String| Some(text.into_bytes());
    let mut rec = Rec {
        key: bytes(format!("key-{}", n % 5)),
        value: bytes(format!("the value of record {n}")),
        ..Rec::default()
    };
    match n % 8 {
        1 => rec.key = None,
        2 => rec.value = None,
        3 => (rec.key, rec.value) = (Some(Vec::new()), Some(Vec::new())),
        4 => rec.event_time = Some(-1),
        5 => rec.event_time = Some(1_357_016_400_000 + n.cast_signed()),
        6 => {
            rec.headers
                .push(("trace".to_owned(), bytes(format!("{n:x}"))));
            rec.headers.push(("trace".to_owned(), Some(Vec::new())));
        }
        _ => {}
    }
    rec
}

/// Writes the golden log, in the same bytes each time.
pub(crate) fn write() -> Disk {
    let disk = Disk::seeded(0);
    let clock = ManualClock::new();
    let log = common::open(&disk, &clock).expect("an empty disk takes a log");
    let story = Written::story();
    let config = TopicConfig::new()
        .segment_bytes(SEGMENT_BYTES)
        .index_interval(256);
    let sure = config.clone().partitions(2).durability(Durability::Power);
    let fast = config.partitions(1).durability(Durability::Process);
    let sure = log.create_topic("sure", sure).expect("a new topic");
    let fast = log
        .create_topic("fast", fast.partitioner(Partitioner::Kafka))
        .expect("a new topic");
    fill(&first(&sure), &story.sure, &clock);
    fill(&first(&fast), &story.fast, &clock);
    commit(&log, story.committed);
    log.close().expect("a sound disk");
    disk
}

fn first(topic: &Topic) -> Partition {
    topic.partition(0).expect("every topic has one")
}

/// Alone, then five at once, and so on; time passes in between.
fn fill(partition: &Partition, records: &[(u64, Rec)], clock: &ManualClock) {
    let mut rest = records;
    for n in 0.. {
        let take = if n % 2 == 0 { 1 } else { 5 }.min(rest.len());
        let (batch, behind) = rest.split_at(take);
        if batch.is_empty() {
            return;
        }
        let offsets = partition
            .append_all(batch.iter().map(|(_, rec)| rec.record()))
            .expect("a sound disk takes records");
        assert_eq!(offsets.start.get(), batch[0].0);
        clock.advance(Duration::from_millis(250));
        rest = behind;
    }
}

fn commit(log: &Log, next: u64) {
    let mut reader = log
        .group(GROUP)
        .subscribe(["fast"])
        .max_poll_records(usize::try_from(next).expect("a few"))
        .join()
        .expect("a new group");
    let batch = reader.poll(Duration::ZERO).expect("a sound log");
    assert_eq!(batch.len() as u64, next);
    reader.commit().expect("a sound log");
    reader.close().expect("a sound log");
}
