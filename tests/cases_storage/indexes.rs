//! Indexes are caches: B9, B10 and B11.

use std::path::PathBuf;

use thalweg::testing::Disk;
use thalweg::{Offset, Partition, ReadMode, Record, Timestamp, TopicConfig};

use super::logs::{
    end, files, fill, fresh, killed, last_segment, len, numbered, open, row, rows, t0,
};

fn each_alone(partition: &Partition, wanted: &[(u64, String)]) {
    for (offset, value) in wanted {
        let from = partition
            .entries(Offset::new(*offset)..)
            .next()
            .expect("one more")
            .unwrap();
        assert_eq!(row(&from), (*offset, value.clone()));
        let alone = partition
            .get(Offset::new(*offset))
            .unwrap()
            .expect("it is there");
        assert_eq!(row(&alone), (*offset, value.clone()));
    }
}

#[test]
fn b09_an_index_is_not_written_twice() {
    let (disk, log, partition) = fresh(TopicConfig::new().index_interval(1));
    fill(&partition, 0..1000);
    log.close().unwrap();
    let index_len = |disk: &Disk| {
        let all = files(disk, "t", ".idx");
        assert_eq!(all.len(), 1, "{all:?}");
        len(disk, &all[0])
    };
    let first = index_len(&disk);
    let log = open(&disk);
    fill(&t0(&log), 1000..1010);
    log.close().unwrap();
    let second = index_len(&disk);
    assert!(
        second > first && second < first + first / 50,
        "{first}, then {second}"
    );
    for _ in 0..2 {
        let log = open(&disk);
        each_alone(&t0(&log), &numbered(0..1010));
        log.close().unwrap();
        assert_eq!(index_len(&disk), second);
    }
    let log = open(&disk);
    fill(&t0(&log), 1010..1011);
    each_alone(&t0(&log), &numbered(0..1011));
}

const START: i64 = 1_700_000_000_000;

/// 100 records over three segments, a second apart, closed in order.
fn hundred() -> Disk {
    let (disk, log, partition) = fresh(TopicConfig::new().index_interval(1));
    for n in 0..100_u64 {
        let (key, value) = (format!("key-{n}"), format!("value-{n:04}"));
        let record = Record::new(key, value).at(Timestamp::from_millis(START + 1000 * n as i64));
        partition.append(record).unwrap();
        if n == 33 || n == 66 {
            partition.roll().unwrap();
        }
    }
    log.close().unwrap();
    disk
}

/// What is done to an index, in words and in deeds.
type Harm<'a> = (&'a str, &'a dyn Fn(&Disk));

fn hundred_are_right(disk: &Disk, mode: ReadMode, context: &str) {
    let log = thalweg::Log::builder()
        .read_mode(mode)
        .open_on(disk)
        .unwrap();
    assert!(log.recovery().is_empty(), "{context}: {:?}", log.recovery());
    let partition = t0(&log);
    // Look-ups first: reading forwards needs no index.
    for n in (0..100_u64).rev() {
        let alone = partition
            .get(Offset::new(n))
            .unwrap_or_else(|e| panic!("{context}, {n}: {e:?}"));
        assert_eq!(
            alone.map(|e| row(&e)),
            numbered(n..n + 1).pop(),
            "{context}"
        );
        for (off, found) in [(-999, n), (0, n), (1, n + 1)] {
            let time = Timestamp::from_millis(START + 1000 * n as i64 + off);
            let found = (found < 100).then_some(Offset::new(found));
            assert_eq!(
                partition.offset_for_time(time).unwrap(),
                found,
                "{context}, {n}"
            );
        }
    }
    assert_eq!(rows(&partition), numbered(0..100), "{context}");
    log.close().unwrap();
}

#[test]
fn b10_a_damaged_index_changes_nothing_but_speed() {
    let disk = hundred();
    let indexes = files(&disk, "t", ".idx");
    assert_eq!(indexes.len(), 3);
    for mode in [ReadMode::Positioned, ReadMode::Mapped] {
        hundred_are_right(&killed(&disk), mode, "untouched");
        for (n, path) in indexes.iter().enumerate() {
            let other = &indexes[(n + 1) % 3];
            let whole = len(&disk, path);
            let harms: [Harm<'_>; 8] = [
                ("deleted", &|disk| disk.remove(path).unwrap()),
                ("cut by 3 bytes", &|disk| {
                    disk.resize(path, whole - 3).unwrap();
                }),
                ("empty", &|disk| disk.resize(path, 0).unwrap()),
                ("all ones", &|disk| {
                    disk.write_file(path, &vec![0xff; whole as usize]).unwrap();
                }),
                ("zeros", &|disk| disk.zero(path, 0..whole).unwrap()),
                ("longer", &|disk| disk.extend(path, &[0xff; 64]).unwrap()),
                ("twice", &|disk| {
                    disk.extend(path, &disk.read_file(path).unwrap()).unwrap();
                }),
                ("another segment's", &|disk| {
                    disk.copy_over(other, path).unwrap();
                }),
            ];
            for (harm, do_it) in harms {
                let image = killed(&disk);
                do_it(&image);
                hundred_are_right(&image, mode, &format!("{mode:?}, index {n} {harm}"));
            }
        }
    }
}

#[test]
fn b10_all_indexes_are_made_again_when_they_are_gone() {
    let disk = hundred();
    for path in files(&disk, "t", ".idx") {
        disk.remove(path).unwrap();
    }
    hundred_are_right(&disk, ReadMode::Positioned, "all gone");
    hundred_are_right(&disk, ReadMode::Positioned, "all gone, opened again");
}

/// Something that is no file stands where an index should be.
#[test]
fn b10_a_directory_in_the_place_of_an_index_is_in_nobodys_way() {
    let disk = hundred();
    let path = files(&disk, "t", ".idx").remove(1);
    disk.remove(&path).unwrap();
    disk.write_file(path.join("x"), b"y").unwrap();
    let log = open(&disk);
    let partition = t0(&log);
    each_alone(&partition, &numbered(0..100));
    fill(&partition, 100..101);
}

/// The end is cut at record 90; the index still knows what stood there, and other bytes take the place.
#[test]
fn b11_an_index_that_outlived_a_cut_does_not_lead_astray() {
    let (disk, log, partition) = fresh(TopicConfig::new().index_interval(1));
    let long = |n: u64| format!("{n}{}", "-".repeat(50));
    let short = |n: u64| format!("{n}'");
    for n in 0..90 {
        partition.append(("k", long(n))).unwrap();
    }
    let image = killed(&disk);
    let path: PathBuf = last_segment(&image);
    let from = len(&image, &path) as usize;
    for n in 90..100 {
        partition.append(("k", long(n))).unwrap();
    }
    log.close().unwrap();
    let frames = disk.read_file(&path).unwrap().split_off(from);
    image.extend(&path, &frames[..frames.len() / 15]).unwrap();
    let stale = disk.read_file(&files(&disk, "t", ".idx")[0]).unwrap();
    image
        .write_file(path.with_extension("idx"), &stale)
        .unwrap();

    let log = open(&image);
    let partition = t0(&log);
    assert_eq!(end(&partition), 90);
    let mut wanted: Vec<_> = (0..90).map(|n| (n, long(n))).collect();
    for n in 90..100 {
        partition.append(("k", short(n))).unwrap();
        wanted.push((n, short(n)));
    }
    each_alone(&partition, &wanted);
    let dead = killed(&image);
    each_alone(&t0(&open(&dead)), &wanted);
    log.close().unwrap();
    let log = open(&image);
    each_alone(&t0(&log), &wanted);
    t0(&log).roll().unwrap();
    each_alone(&t0(&log), &wanted);
    assert_eq!(end(&t0(&log)), 100);
}
