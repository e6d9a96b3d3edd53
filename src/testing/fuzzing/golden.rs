//! Small logs whose every record is known, and what must hold of whatever is read back from a copy of one that was tampered with.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use crate::testing::{CrashModel, Disk, ManualClock};
use crate::{
    Durability, Entry, Error, Log, Maintenance, Offset, Partition, Record, Result, Timestamp,
    TopicConfig,
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
fn died(disk: &Disk) -> Disk {
    disk.crash(usize::MAX, CrashModel::ProcessKill, 0)
}

fn open(disk: &Disk) -> Result<Log> {
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
            .offset_span(1000)
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
    fn append(&mut self, partition: &Partition, records: &[Record<'_>]) -> Result<()> {
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

    fn check(&self, entry: &Entry) {
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

/// Two lives of a log on a disk that may hold anything: open, read everything, append, read again, die; open again, close.
///
/// # Panics
///
/// If a record comes out that is not the one that was appended there, or an error is none that bad bytes can cause.
pub(super) fn live(mut disk: Disk, mut known: Known) {
    for life in 0..2 {
        let log = match open(&disk) {
            Ok(log) => log,
            Err(e) => return judge(&e),
        };
        let partitions: Vec<_> = log
            .topics()
            .iter()
            .flat_map(crate::Topic::partitions)
            .collect();
        for partition in &partitions {
            read_all(partition, &known);
        }
        for partition in &partitions {
            let value = format!("life {life}");
            match known.append(partition, &[Record::keyless(value.as_str())]) {
                Ok(()) => {}
                Err(e) => judge(&e),
            }
            read_all(partition, &known);
        }
        drop(partitions);
        if life == 0 {
            disk = died(&disk);
        } else if let Err(e) = log.close() {
            judge(&e);
        }
    }
}

/// Forwards, over what is damaged; then backwards, and one by one.
fn read_all(partition: &Partition, known: &Known) {
    let offsets = partition.offsets();
    let mut from = offsets.start;
    while from < offsets.end {
        let mut on = None;
        for entry in partition.entries(from..) {
            match entry {
                Ok(entry) => {
                    assert!(entry.offset() >= from, "forwards");
                    from = entry.offset().next();
                    known.check(&entry);
                }
                Err(e) => {
                    judge(&e);
                    on = e.resume_at().map(|at| at.offset());
                    break;
                }
            }
        }
        match on {
            Some(on) => {
                assert!(on > from, "an error says where to go on: behind {from:?}");
                from = on;
            }
            None => break,
        }
    }
    for entry in partition.entries(..).rev() {
        match entry {
            Ok(entry) => known.check(&entry),
            Err(e) => {
                judge(&e);
                break;
            }
        }
    }
    for offset in (offsets.start.get()..offsets.end.get()).take(60) {
        match partition.get(Offset::new(offset)) {
            Ok(entry) => entry.iter().for_each(|entry| known.check(entry)),
            Err(e) => judge(&e),
        }
    }
    let _ = partition.offset_for_time(Timestamp::from_millis(1_577_836_800_010));
}

/// A disk that does not fail gives no I/O error, whatever is on it.
fn judge(error: &Error) {
    match error {
        Error::Corruption { .. } | Error::Incompatible { .. } | Error::NotFound { .. } => {}
        other => panic!("bytes are damaged, but the error is {other:?}"),
    }
}
