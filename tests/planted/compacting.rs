//! Scenarios about compacted topics: what goes, and not before it may.

use std::time::Duration;

use thalweg::testing::{Disk, ManualClock};
use thalweg::{Compaction, Log, Maintenance, Record, Topic, TopicConfig};

const HOUR: Duration = Duration::from_secs(3600);

/// A compacted topic of one partition, of a log in which the keys of few records find room while it is compacted.
fn begin(clock: &ManualClock) -> Topic {
    let builder = Log::builder().maintenance(Maintenance::Manual);
    let builder = builder.compaction_memory(1024).clock(clock);
    let log = builder
        .open_on(&Disk::new())
        .expect("an empty disk takes a log");
    let how = Compaction::new().tombstone_retention(HOUR);
    log.create_topic("orders", TopicConfig::new().compacted(how))
        .expect("a new topic")
}

fn roll(topic: &Topic) {
    let partition = topic.partition(0).expect("the first");
    partition.roll().expect("nothing fails");
}

/// The offsets that are there.
fn compacted(topic: &Topic) -> Vec<u64> {
    topic.compact().expect("nothing fails");
    let partition = topic.partition(0).expect("the first");
    let offset = |entry: thalweg::Result<thalweg::Entry>| entry.expect("sound").offset().get();
    partition.entries(..).map(offset).collect()
}

/// Told in one round, it is looked at again in the next.
pub(crate) fn a_tombstone_stays_until_its_time_is_up() {
    let clock = ManualClock::new();
    let topic = begin(&clock);
    topic.append(("k", "v")).expect("nothing fails");
    topic.append(Record::tombstone("k")).expect("nothing fails");
    roll(&topic);
    assert_eq!(compacted(&topic), [1]);
    clock.advance(HOUR / 2);
    topic.append(("other", "v")).expect("nothing fails");
    roll(&topic);
    assert_eq!(compacted(&topic), [1, 2], "half an hour later");
    clock.advance(HOUR);
    assert_eq!(compacted(&topic), [2]);
}

/// More keys than a round has room for, in one batch: it ends in the middle of that.
pub(crate) fn what_a_round_has_not_reached_stays() {
    let clock = ManualClock::new();
    let topic = begin(&clock);
    let records = (0..100).map(|n| (format!("key-{n}"), "v"));
    topic.append_all(records).expect("nothing fails");
    topic.append(("key-0", "again")).expect("nothing fails");
    roll(&topic);
    assert_eq!(compacted(&topic), (1..=100).collect::<Vec<_>>());
}
