//! Compressed record batches: the same data out, smaller on disk, and damage never decompressed into other data.

use thalweg::testing::Disk;
use thalweg::{Compression, Entry, Error, Offset, ReadMode, Record, Timestamp, TopicConfig};

use super::logs::{Dice, files, fresh, killed, len, one, open, row, seed, t0};

/// Every codec of this build.
fn codecs() -> Vec<Compression> {
    vec![
        Compression::None,
        #[cfg(feature = "lz4")]
        Compression::Lz4,
        #[cfg(feature = "zstd")]
        Compression::Zstd,
    ]
}

fn wanted() -> Vec<(u64, String)> {
    let mut dice = Dice(7);
    let text = |n: u64, dice: &mut Dice| match n % 4 {
        0 => String::new(),
        1 => "the same again ".repeat(1 + n as usize),
        2 => format!("short {n}"),
        _ => (0..200)
            .map(|_| char::from(b'a' + (dice.roll() % 26) as u8))
            .collect(),
    };
    (0..60).map(|n| (n, text(n, &mut dice))).collect()
}

fn filled(codec: Compression) -> (Disk, thalweg::Log) {
    let (disk, log, partition) = fresh(TopicConfig::new().compression(codec).segment_bytes(4000));
    for batch in wanted().chunks(7) {
        let record = |(n, value): &(u64, String)| {
            Record::new(format!("key-{n}"), value.clone())
                .header("n", "h")
                .at(Timestamp::from_millis(*n as i64))
        };
        partition.append_all(batch.iter().map(record)).unwrap();
    }
    (disk, log)
}

#[test]
fn what_is_compressed_comes_back_the_same() {
    for codec in codecs() {
        let (disk, log) = filled(codec);
        let dead = killed(&disk);
        log.close().unwrap();
        for (disk, mode) in [
            (&disk, ReadMode::Positioned),
            (&dead, ReadMode::Positioned),
            (&disk, ReadMode::Mapped),
        ] {
            let log = thalweg::Log::builder()
                .read_mode(mode)
                .open_on(disk)
                .unwrap();
            let partition = t0(&log);
            let entries: Vec<Entry> = partition.entries(..).map(Result::unwrap).collect();
            assert_eq!(
                entries.iter().map(row).collect::<Vec<_>>(),
                wanted(),
                "{codec:?}"
            );
            for (n, entry) in entries.iter().enumerate() {
                assert_eq!(entry.key_str().unwrap(), format!("key-{n}"));
                assert_eq!(
                    (entry.header("n"), entry.timestamp().as_millis()),
                    (Some(&b"h"[..]), n as i64)
                );
                let alone = partition.get(entry.offset()).unwrap().unwrap();
                assert_eq!(row(&alone), row(entry));
            }
            let back: Vec<_> = partition
                .entries(..)
                .rev()
                .map(|e| row(&e.unwrap()))
                .collect();
            assert!(back.into_iter().rev().eq(wanted()));
            let found = partition
                .offset_for_time(Timestamp::from_millis(33))
                .unwrap();
            assert_eq!(found, Some(Offset::new(33)));
            log.close().unwrap();
        }
    }
}

/// 1000 to 1 and more, within the limit of a batch: small on disk, whole in memory.
#[test]
fn what_compresses_well_takes_little_room() {
    for codec in codecs() {
        let (disk, log, partition) = fresh(
            TopicConfig::new()
                .compression(codec)
                .max_record_bytes(8 << 20)
                .max_batch_bytes(9 << 20),
        );
        let long = vec![b'0'; 8_000_000];
        partition.append(("k", &long)).unwrap();
        let size = len(&disk, &files(&disk, "t", ".log")[0]);
        assert!(
            codec == Compression::None || size < 100_000,
            "{codec:?}: {size}"
        );
        let error = partition.append(("k", vec![b'0'; 9_000_000])).unwrap_err();
        assert!(
            matches!(error, Error::RecordTooLarge { .. }),
            "the limit is of the uncompressed size: {error:?}"
        );
        log.close().unwrap();
        let log = open(&disk);
        let entry = t0(&log).get(Offset::ZERO).unwrap().unwrap();
        assert_eq!(entry.value().unwrap(), &long[..]);
    }
}

/// Any bit of a compressed log: the same data or an error.
#[test]
fn damage_in_compressed_batches_is_never_other_data() {
    let mut dice = Dice(seed());
    for codec in codecs() {
        let (disk, log) = filled(codec);
        log.close().unwrap();
        let segments = files(&disk, "t", ".log");
        for _ in 0..200 * super::logs::scale() {
            let path = &segments[dice.below(segments.len() as u64) as usize];
            let bit = dice.below(8 * len(&disk, path));
            let image = killed(&disk);
            image.flip_bit(path, bit).unwrap();
            let log = open(&image);
            let mut errors = 0;
            for entry in one(&log.topic("t").unwrap()).entries(..) {
                match entry {
                    Ok(entry) => assert_eq!(
                        Some(&row(&entry)),
                        wanted().get(entry.offset().get() as usize)
                    ),
                    Err(error) => {
                        assert!(
                            error.is_corruption() || matches!(error, Error::Incompatible { .. }),
                            "{error:?}"
                        );
                        errors += 1;
                    }
                }
            }
            assert!(errors < 60, "{codec:?}, bit {bit} of {path:?}");
        }
    }
}
