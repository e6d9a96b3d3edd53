//! Bytes in the middle that are not what was written there: B3 and B13.

use std::path::Path;

use thalweg::testing::Disk;
use thalweg::{Error, Log, Offset, Partition, ReadMode, TopicConfig};

use super::logs::{end, files, fill, fresh, len, numbered, one, open, row, rows, t0};

const MODES: [ReadMode; 2] = [ReadMode::Positioned, ReadMode::Mapped];

fn open_reading(disk: &Disk, mode: ReadMode) -> Log {
    Log::builder().read_mode(mode).open_on(disk).unwrap()
}

/// Rows that can be read, and the errors between them.
fn read(partition: &Partition, from: u64) -> (Vec<(u64, String)>, Vec<Error>) {
    let (mut held, mut errors) = (Vec::new(), Vec::new());
    for entry in partition.entries(Offset::new(from)..) {
        match entry {
            Ok(entry) => held.push(row(&entry)),
            Err(error) => errors.push(error),
        }
    }
    (held, errors)
}

/// Three segments of ten, closed in order.
fn three_segments() -> Disk {
    let (disk, log, partition) = fresh(TopicConfig::new());
    for from in [0, 10, 20] {
        fill(&partition, from..from + 10);
        if from < 20 {
            partition.roll().unwrap();
        }
    }
    log.close().unwrap();
    disk
}

fn find(disk: &Disk, path: &Path, text: &[u8]) -> u64 {
    let bytes = disk.read_file(path).unwrap();
    let mut places = bytes
        .windows(text.len())
        .enumerate()
        .filter(|(_, bytes)| *bytes == text);
    let (at, _) = places.next().expect("the text is in the file");
    at as u64
}

#[test]
fn b03_one_damaged_record_takes_no_other_with_it() {
    for mode in MODES {
        let disk = three_segments();
        let segments = files(&disk, "t", ".log");
        let at = find(&disk, &segments[1], b"value-0015");
        disk.flip_bit(&segments[1], 8 * at + 3).unwrap();
        let newest = disk.read_file(&segments[2]).unwrap();
        let log = open_reading(&disk, mode);
        let partition = t0(&log);
        assert_eq!(partition.offsets(), Offset::ZERO..Offset::new(30));
        let (held, errors) = read(&partition, 0);
        assert_eq!(held, [numbered(0..15), numbered(16..30)].concat());
        let [
            Error::Corruption {
                file, byte, lost, ..
            },
        ] = &errors[..]
        else {
            panic!("{errors:?}");
        };
        assert_eq!(&**file, segments[1], "the right file is named");
        assert!(*byte <= at && at < byte + 100);
        let lost = lost.as_ref().expect("what is lost is known");
        assert_eq!(lost.1, Offset::new(15)..Offset::new(16));
        assert_eq!(errors[0].resume_at().map(|at| at.offset().get()), Some(16));
        assert_eq!(errors[0].partition(), Some(&partition.topic_partition()));
        assert_eq!(read(&partition, 20).0, numbered(20..30));
        assert!(partition.get(Offset::new(15)).unwrap_err().is_corruption());
        let backwards: Vec<_> = partition
            .entries(..)
            .rev()
            .filter_map(Result::ok)
            .map(|e| row(&e))
            .collect();
        assert!(backwards.iter().rev().eq(&held));
        assert_eq!(
            disk.read_file(&segments[2]).unwrap(),
            newest,
            "not a byte of it is touched"
        );
        fill(&partition, 30..31);
    }
}

/// Damage in the segment that was being written, behind records that were synced: nothing is cut.
#[test]
fn b03_damage_in_the_newest_segment_is_not_cut_off_either() {
    let (disk, _log, partition) = fresh(TopicConfig::new());
    fill(&partition, 0..20);
    let segment = files(&disk, "t", ".log").pop().unwrap();
    let disk = super::logs::killed(&disk);
    let at = find(&disk, &segment, b"value-0007");
    disk.flip_bit(&segment, 8 * at).unwrap();
    let before = disk.read_file(&segment).unwrap();
    let log = open(&disk);
    let (held, errors) = read(&t0(&log), 0);
    assert_eq!(held, [numbered(0..7), numbered(8..20)].concat());
    assert!(errors.len() == 1 && errors[0].is_corruption(), "{errors:?}");
    assert_eq!(end(&t0(&log)), 20);
    log.close().unwrap();
    assert_eq!(disk.read_file(&segment).unwrap(), before);
}

/// The bytes of one record over those of another of the same size: each checksum holds, the place does not.
#[test]
fn b13_bytes_of_another_record_are_never_served() {
    for mode in MODES {
        let (disk, log, partition) = fresh(TopicConfig::new());
        let segment = files(&disk, "t", ".log");
        assert!(segment.is_empty());
        let mut places = Vec::new();
        for n in 0..10 {
            fill_one(&partition, n);
            places.push(len(&disk, &files(&disk, "t", ".log")[0]));
        }
        log.close().unwrap();
        let path = files(&disk, "t", ".log").pop().unwrap();
        let size = (places[1] - places[0]) as usize;
        let bytes = disk.read_file(&path).unwrap();
        let frame = |n: usize| places[n] as usize - size;
        disk.replace(&path, frame(5) as u64, &bytes[frame(3)..frame(3) + size])
            .unwrap();
        let log = open_reading(&disk, mode);
        let partition = t0(&log);
        let (held, errors) = read(&partition, 0);
        assert_eq!(held, [wanted(0..5), wanted(6..10)].concat());
        assert!(errors.len() == 1 && errors[0].is_corruption());
        assert!(partition.get(Offset::new(5)).unwrap_err().is_corruption());
    }
}

fn fill_one(partition: &Partition, n: u64) {
    partition.append(("k", format!("v{n}"))).unwrap();
}

fn wanted(range: std::ops::Range<u64>) -> Vec<(u64, String)> {
    range.map(|n| (n, format!("v{n}"))).collect()
}

#[test]
fn b13_frames_that_changed_places_are_both_refused() {
    let (disk, log, partition) = fresh(TopicConfig::new());
    let mut places = vec![128];
    for n in 0..10 {
        fill_one(&partition, n);
        places.push(len(&disk, &files(&disk, "t", ".log")[0]));
    }
    log.close().unwrap();
    let path = files(&disk, "t", ".log").pop().unwrap();
    disk.swap(&path, places[2], places[7], places[3] - places[2])
        .unwrap();
    let (held, errors) = read(&t0(&open(&disk)), 0);
    assert_eq!(held, [wanted(0..2), wanted(3..7), wanted(8..10)].concat());
    assert!(
        errors.len() == 2 && errors.iter().all(Error::is_corruption),
        "{errors:?}"
    );
}

/// A whole file in the place of another: of another partition, or of another topic.
#[test]
fn b13_a_file_of_another_partition_is_not_taken_for_ones_own() {
    let disk = Disk::new();
    let log = open(&disk);
    for name in ["t", "u"] {
        let topic = log
            .create_topic(name, TopicConfig::new().partitions(2))
            .unwrap();
        for number in 0..2 {
            let partition = topic.partition(number).unwrap();
            for n in 0..5 {
                partition
                    .append(("k", format!("{name}/{number}/{n}")))
                    .unwrap();
            }
        }
    }
    log.close().unwrap();
    let (t, u) = (files(&disk, "t", ".log"), files(&disk, "u", ".log"));
    for other in [&t[1], &u[0]] {
        let image = super::logs::killed(&disk);
        image.copy_over(other, &t[0]).unwrap();
        let log = open(&image);
        let (held, errors) = read(&t0(&log), 0);
        assert!(held.is_empty(), "{held:?}");
        assert!(errors.iter().all(Error::is_corruption), "{errors:?}");
        assert!(t0(&log).append(("k", "v")).unwrap_err().is_corruption());
        assert_eq!(rows(&one(&log.topic("u").unwrap())).len(), 5);
    }
}
