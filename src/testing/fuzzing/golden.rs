//! Small logs whose every record is known.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use crate::testing::{CrashModel, Disk, ManualClock};
use crate::{
    Durability, Entry, Log, Maintenance, Offset, Partition, Record, Result, Timestamp, TopicConfig,
};

/// How the life of a golden log ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Image {
    /// By `close`.
    Closed,
    /// The process died.
    Killed,
    /// The machine lost power, though nothing got lost.
    PowerLost,
}

impl Image {
    pub(super) fn chosen(by: u8) -> Image {
        [Image::Closed, Image::Killed, Image::PowerLost][usize::from(by) % 3]
    }
}

/// A record as it was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fact {
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(String, Option<Vec<u8>>)>,
    time: Timestamp,
}

/// Every record that was ever acknowledged, by topic, partition and offset.
#[derive(Clone, Debug, Default)]
pub(super) struct Known(BTreeMap<(String, u32, u64), Fact>);

/// A copy of a golden log, and what is in it.
pub(super) fn copy(image: Image) -> (Disk, Known) {
    static IMAGES: OnceLock<[(Disk, Known); 3]> = OnceLock::new();
    let images = IMAGES.get_or_init(|| [Image::Closed, Image::Killed, Image::PowerLost].map(write));
    let (disk, known) = &images[image as usize];
    (died(disk), known.clone())
}

/// The segment files of the topics, in the order of their paths.
pub(super) fn segments(image: Image) -> Vec<(PathBuf, Vec<u8>)> {
    let (disk, _) = copy(image);
    let files = disk.files().into_iter().map(|(path, _)| path);
    files
        .filter(|path| path.starts_with("/log/topics"))
        .filter(|path| path.extension().is_some_and(|ending| ending == "log"))
        .filter_map(|path| Some((path.clone(), disk.read_file(path).ok()?)))
        .collect()
}

/// The disk as the death of the process leaves it.
pub(super) fn died(disk: &Disk) -> Disk {
    disk.crash(usize::MAX, CrashModel::ProcessKill, 0)
}

pub(super) fn open(disk: &Disk) -> Result<Log> {
    Log::builder()
        .maintenance(Maintenance::Manual)
        .clock(&ManualClock::new())
        .open_on(disk)
}

fn write(image: Image) -> (Disk, Known) {
    let disk = Disk::seeded(7);
    let mut known = Known::default();
    let log = open(&disk).expect("an empty disk takes a log");
    for (name, durability) in [("sure", Durability::Power), ("fast", Durability::Process)] {
        let config = TopicConfig::new()
            .partitions(2)
            .durability(durability)
            .segment_bytes(700)
            .offset_span(64)
            .index_interval(64);
        let topic = log.create_topic(name, config).expect("a new topic");
        let partition = topic.partition(0).expect("the first of two");
        fill(&partition, &mut known).expect("a sound disk takes records");
    }
    read_some(&log);
    let ended = match image {
        Image::Closed => {
            log.close().expect("a sound disk");
            disk
        }
        Image::Killed => died(&disk),
        Image::PowerLost => disk.crash(usize::MAX, CrashModel::LostPages, 1),
    };
    (died(&ended), known)
}

/// One of each kind of record, alone and in batches, over several segments.
fn fill(partition: &Partition, known: &mut Known) -> Result<()> {
    for round in 0..4_i64 {
        let value = format!("value {round}");
        let at = |ms| Timestamp::from_millis(1_577_836_800_000 + ms);
        known.append(partition, &[Record::new("key", value.as_str())])?;
        known.append(partition, &[Record::keyless(&[0; 40])])?;
        known.append(partition, &[Record::tombstone("key")])?;
        known.append(partition, &[Record::new("", "")])?;
        let batch: Vec<_> = (0..6)
            .map(|n| {
                Record::new("k", "v")
                    .at(at(round * 10 - n))
                    .header("name", "x")
            })
            .collect();
        known.append(partition, &batch)?;
    }
    Ok(())
}

/// A group that has read something, so that the ledger holds a commit.
fn read_some(log: &Log) {
    let mut reader = log
        .group("readers")
        .subscribe(["fast"])
        .join()
        .expect("a group can be joined");
    let batch = reader.poll(Duration::ZERO).expect("a sound log is read");
    assert!(!batch.is_empty());
    reader.commit().expect("a sound log takes commits");
    reader.close().expect("a sound log");
}

impl Known {
    /// Appends and remembers what was acknowledged.
    pub(super) fn append(&mut self, partition: &Partition, records: &[Record<'_>]) -> Result<()> {
        let offsets = partition.append_all(records.iter().cloned())?;
        let name = partition.topic_partition().topic().to_owned();
        let number = partition.id().get();
        for (offset, record) in (offsets.start.get()..).zip(records) {
            let entry = partition.get(Offset::new(offset))?;
            let fact = entry.as_ref().map(Fact::of).expect("it was acknowledged");
            assert_eq!(fact.key.as_deref(), record.key(), "it comes back as it was");
            self.0.insert((name.clone(), number, offset), fact);
        }
        Ok(())
    }

    /// The records of a partition.
    pub(super) fn of(&self, partition: &Partition) -> usize {
        let (at, number) = (partition.topic_partition(), partition.id().get());
        let here = |(topic, of, _): &&(String, u32, u64)| topic == at.topic() && *of == number;
        self.0.keys().filter(here).count()
    }

    /// Is this what was appended there?
    pub(super) fn check(&self, entry: &Entry) {
        let at = entry.position();
        let place = (
            at.topic().to_owned(),
            at.partition().get(),
            at.offset().get(),
        );
        match self.0.get(&place) {
            Some(fact) => assert_eq!(&Fact::of(entry), fact, "wrong data at {at}"),
            None => panic!("a record at {at} that nobody appended"),
        }
    }
}

impl Fact {
    fn of(entry: &Entry) -> Fact {
        let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        Fact {
            key: owned(entry.key()),
            value: owned(entry.value()),
            headers: entry
                .headers()
                .map(|(name, value)| (name.to_owned(), owned(value)))
                .collect(),
            time: entry.timestamp(),
        }
    }
}
