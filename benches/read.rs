//! How fast do records come back, next to the least that checking or fetching the same bytes can take?
//!
//! * `replay`: every record of a log in batches of 500, checksums verified, over a CRC pass over mapped segment files. Beside it
//!   `replay_mapped` (`ReadMode::Mapped`), `replay_entries` (owned entries, one by one), `replay_single` (every record a batch of
//!   its own), `replay_poll` (through a consumer).
//! * `get`: one record by a random offset, over one `pread` of as many bytes at a random place of the same files. Every record
//!   is a batch of its own; `get_batched` is the same where 500 share a batch, and thus a checksum.

mod common;

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use common::raw::{crc_of, files_below};
use common::{Dice, Line, Run, Values, duel, rate};
use thalweg::{
    Durability, Entry, EntryRef, Error, Log, Offset, Partition, ReadMode, Record, TopicConfig,
};

const MIB: u64 = 1 << 20;
const BATCH: u64 = 500;
/// Bytes of segments that are read at a time: a fraction of a millisecond, so that few slices see another process run.
const SLICE_BYTES: u64 = MIB;

fn main() {
    let run = Run::from_args();
    let values = Values::new();
    let names = ["replay", "replay_mapped", "replay_entries", "replay_poll"];
    if names.iter().any(|name| run.wants(name)) {
        for value_bytes in [100, 1024] {
            replays(&run, &Filled::new(&run, &values, value_bytes, BATCH));
        }
    }
    if run.wants("replay_single") {
        let filled = Filled::new(&run, &values, 100, 1);
        let log = filled.open(ReadMode::Positioned);
        replay(&run, &filled, "replay_single", None, |range| {
            for_each(&partition(&log), range)
        });
    }
    if run.wants("get") {
        for value_bytes in [100, 1024] {
            let filled = Filled::new(&run, &values, value_bytes, 1);
            get(&run, &values, &filled, "get", Some(0.6));
        }
    }
    if run.wants("get_batched") {
        let filled = Filled::new(&run, &values, 100, BATCH);
        get(&run, &values, &filled, "get_batched", None);
    }
}

/// A log that was written and closed.
struct Filled {
    dir: tempfile::TempDir,
    value_bytes: usize,
    batch: u64,
    records: u64,
}

impl Filled {
    fn new(run: &Run, values: &Values, value_bytes: usize, batch: u64) -> Filled {
        let filled = Filled {
            dir: tempfile::tempdir().expect("a directory for the bench"),
            value_bytes,
            batch,
            records: (run.size(192 * MIB) / value_bytes as u64).next_multiple_of(batch),
        };
        let log = filled.open(ReadMode::Positioned);
        let config = TopicConfig::new()
            .partitions(1)
            .durability(Durability::Process);
        let topic = log.create_topic("bench", config).expect("a new topic");
        let partition = topic.partition(0).unwrap();
        for from in (0..filled.records).step_by(batch as usize) {
            let records = (from..from + batch).map(|i| Record::keyless(values.get(i, value_bytes)));
            partition.append_all(records).unwrap();
        }
        drop((topic, partition));
        log.close().unwrap();
        filled.compare(values);
        filled
    }

    fn open(&self, mode: ReadMode) -> Log {
        let log = Log::builder().read_mode(mode).open(self.dir.path());
        log.expect("a log of ours")
    }

    /// Every byte of every record, once, before anything is measured.
    fn compare(&self, values: &Values) {
        let mut next = 0;
        let log = self.open(ReadMode::Positioned);
        let check = |entry: EntryRef<'_>| {
            assert_eq!(entry.offset().get(), next);
            assert_eq!(entry.value(), Some(values.get(next, self.value_bytes)));
            next += 1;
            Ok::<_, Error>(())
        };
        partition(&log).entries(..).try_for_each_ref(check).unwrap();
        assert_eq!(next, self.records);
    }

    fn segments(&self) -> Vec<(PathBuf, u64)> {
        let topics = self.dir.path().join("topics");
        let files = files_below(&topics, ".log").into_iter();
        files
            .map(|path| {
                let len = path.metadata().expect("a segment").len();
                (path, len)
            })
            .collect()
    }

    fn bytes(&self) -> u64 {
        self.segments().iter().map(|(_, len)| len).sum()
    }
}

fn partition(log: &Log) -> Partition {
    log.topic("bench").unwrap().partition(0).unwrap()
}

fn replays(run: &Run, filled: &Filled) {
    let floor = (filled.value_bytes == 100).then_some(0.4);
    let log = filled.open(ReadMode::Positioned);
    let from = partition(&log);
    replay(run, filled, "replay", floor, |range| for_each(&from, range));
    replay(run, filled, "replay_entries", None, |range| {
        let len = |entry: Result<Entry, Error>| entry.unwrap().value().map_or(0, <[u8]>::len);
        from.entries(range).map(len).sum::<usize>() as u64
    });
    if run.wants("replay_poll") {
        let group = log.group("bench");
        let mut consumer = group.subscribe(["bench"]).join().unwrap();
        let _ = consumer.poll(Duration::ZERO).unwrap(); // it has its partitions from then on
        // A poll does not end at an offset of ours: what one slice reads too much, the next one reads too little.
        let (at, mut seen) = (from.topic_partition(), 0);
        replay(run, filled, "replay_poll", None, |range| {
            if range.start == Offset::ZERO {
                consumer.seek(&at.at(range.start)).unwrap();
                seen = 0;
            }
            while seen < range.end.get() * filled.value_bytes as u64 {
                let batch = consumer.poll(Duration::ZERO).unwrap();
                let lens = batch
                    .iter()
                    .map(|entry| entry.value().map_or(0, <[u8]>::len));
                seen += lens.sum::<usize>() as u64;
            }
            (range.end.get() - range.start.get()) * filled.value_bytes as u64
        });
        consumer.close().unwrap();
    }
    drop(from);
    log.close().unwrap();
    let log = filled.open(ReadMode::Mapped);
    let from = partition(&log);
    replay(run, filled, "replay_mapped", None, |range| {
        for_each(&from, range)
    });
}

/// The bytes of all values.
fn for_each(partition: &Partition, range: Range<Offset>) -> u64 {
    let mut bytes = 0;
    let add = |entry: EntryRef<'_>| {
        bytes += entry.value().map_or(0, <[u8]>::len) as u64;
        Ok::<_, Error>(())
    };
    partition.entries(range).try_for_each_ref(add).unwrap();
    bytes
}

/// Measures a way to read records, which tells how many bytes it saw: a slice of the log at a time, all of it several times.
fn replay(
    run: &Run,
    filled: &Filled,
    name: &str,
    floor: Option<f64>,
    mut ours: impl FnMut(Range<Offset>) -> u64,
) {
    if !run.wants(name) {
        return;
    }
    let segments = filled.segments();
    let slices = (filled.bytes() / SLICE_BYTES).max(1);
    let part = |of: u64, slice: u64| of * slice / slices..of * (slice + 1) / slices;
    let (mut ours_slice, mut raw_slice) = ((0..slices).cycle(), (0..slices).cycle());
    let per_slice = filled.records / slices;
    let result = duel(
        run.rounds(3 * slices as usize),
        || {
            let range = part(filled.records, ours_slice.next().unwrap());
            let bytes = (range.end - range.start) * filled.value_bytes as u64;
            rate(per_slice, || {
                let read = ours(Offset::new(range.start)..Offset::new(range.end));
                assert_eq!(read, bytes);
            })
        },
        || {
            let range = part(filled.bytes(), raw_slice.next().unwrap());
            rate(per_slice, || crc_of_part(&segments, range))
        },
    );
    Line::new(name)
        .count("value_bytes", filled.value_bytes as u64)
        .count("batch", filled.batch)
        .count("log_mib", filled.bytes() / MIB)
        .duel("crc_of_mapped_files", &result, floor)
        .print();
}

/// Sums a part of all these files, as if they were one.
fn crc_of_part(files: &[(PathBuf, u64)], range: Range<u64>) {
    let mut before = 0;
    for (path, len) in files {
        let from = range.start.clamp(before, before + len) - before;
        let to = range.end.clamp(before, before + len) - before;
        if from < to {
            std::hint::black_box(crc_of(path, from..to));
        }
        before += len;
    }
}

fn get(run: &Run, values: &Values, filled: &Filled, name: &str, floor: Option<f64>) {
    let log = filled.open(ReadMode::Positioned);
    let partition = partition(&log);
    let (value_bytes, records) = (filled.value_bytes, filled.records);
    let files = Files::open(filled.segments());
    let (mut ours_dice, mut raw_dice) = (Dice(2_463_534_242), Dice(2_463_534_242));
    let mut buffer = vec![0; value_bytes];
    let gets = run.size(100);
    let result = duel(
        run.rounds(3001),
        || {
            rate(gets, || {
                for _ in 0..gets {
                    let i = ours_dice.roll() % records;
                    let entry = partition.get(Offset::new(i)).unwrap();
                    let entry = entry.expect("an offset that was written");
                    assert_eq!(entry.value().map(|v| &v[..8]), Some(values.get(i, 8)));
                }
            })
        },
        || {
            rate(gets, || {
                for _ in 0..gets {
                    files.read(&mut buffer, raw_dice.roll());
                }
            })
        },
    );
    Line::new(name)
        .count("value_bytes", value_bytes as u64)
        .count("batch", filled.batch)
        .count("log_mib", filled.bytes() / MIB)
        .duel("pread", &result, floor)
        .print();
}

/// The segment files, read with plain calls: the same bytes, as they lie in the page cache.
struct Files(Vec<(File, u64)>);

impl Files {
    fn open(files: Vec<(PathBuf, u64)>) -> Files {
        let open = |(path, len)| (File::open(path).expect("a segment"), len);
        Files(files.into_iter().map(open).collect())
    }

    /// One `pread` at a random place.
    #[inline]
    fn read(&self, into: &mut [u8], roll: u64) {
        let total: u64 = self.0.iter().map(|(_, len)| len).sum();
        let mut at = roll % total;
        for (file, len) in &self.0 {
            if at < *len {
                let place = at.min(len - into.len() as u64);
                file.read_exact_at(into, place)
                    .expect("bytes that are there");
                return;
            }
            at -= len;
        }
    }
}
