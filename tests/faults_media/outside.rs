//! F50 and F51: files that somebody cuts or changes while the log is open.

use std::fs;
use std::path::Path;

use thalweg::testing::Disk;
use thalweg::{Durability, Entry, Error, Log, Offset, ReadMode, TopicConfig};

use crate::forge;
use crate::media::{self, End, Golden, Plan};

#[test]
fn f50_a_sealed_segment_cut_short_under_an_open_log_is_corruption() {
    let golden = Golden::new(Plan::small(3, Durability::Power, End::Closed));
    for mode in [ReadMode::Positioned, ReadMode::Mapped] {
        for len in [0, 1, 127, 128, 129, 1000, 4000] {
            let disk = golden.copy();
            let log = media::builder().read_mode(mode).open_on(&disk).unwrap();
            let partition = media::partition(&log);
            // Header and footer are known from here on; its batches are not in memory.
            assert!(partition.get(Offset::new(0)).unwrap().is_some());
            disk.resize(&golden.segments[0], len).unwrap();
            let items: Vec<_> = partition.entries(..).collect();
            let batches = golden.batches(0);
            let whole = batches
                .iter()
                .filter(|b| b.end() as u64 <= len)
                .map(crate::forge::BatchAt::last);
            let readable = whole.max().map_or(0, |last| last + 1);
            let behind = golden.batches(1)[0].first;
            let expected = (0..readable).chain(behind..golden.end());
            let offsets = items.iter().flatten().map(|entry| entry.offset().get());
            // (A simulated map is a copy made at the first read, so it may still show everything.)
            if mode == ReadMode::Positioned {
                assert!(offsets.eq(expected), "{mode:?}, {len}");
                let errors = items.iter().filter_map(|item| item.as_ref().err());
                assert!(errors.clone().all(Error::is_corruption), "{mode:?}, {len}");
                assert_eq!(
                    errors.count(),
                    usize::from(readable < behind),
                    "{mode:?}, {len}"
                );
            }
        }
    }
}

#[test]
fn f50_a_large_segment_cut_short_is_told_at_once() {
    let disk = Disk::new();
    let log = media::open(&disk).unwrap();
    let config = TopicConfig::new()
        .durability(Durability::Process)
        .segment_bytes(8 << 20);
    let partition = log.create_topic("t", config).unwrap().partition(0).unwrap();
    let value = vec![7; 500_000];
    while media::segments(&disk).len() < 2 {
        partition.append(("k", &value)).unwrap();
    }
    log.close().unwrap();
    let log = media::open(&disk).unwrap();
    let partition = media::partition(&log);
    assert!(partition.get(Offset::new(0)).unwrap().is_some());
    disk.resize(&media::segments(&disk)[0], 1000).unwrap();
    disk.mark();
    let errors = partition.entries(..).filter(Result::is_err).count();
    assert_eq!(errors, 1);
    let calls: u64 = disk.calls().values().sum();
    assert!(calls < 1000, "{calls} calls to tell that a file was cut");
}

#[test]
fn f50_the_last_segment_cut_short_under_an_open_log_never_gives_other_data() {
    let golden = Golden::new(Plan::small(2, Durability::Power, End::Closed));
    for len in [0, 100, 128, 500, 1500] {
        let disk = golden.copy();
        let log = media::open(&disk).unwrap();
        let partition = media::partition(&log);
        disk.resize(&golden.segments[1], len).unwrap();
        let readable = golden
            .batches(1)
            .iter()
            .filter(|b| b.end() as u64 <= len)
            .count();
        let items: Vec<_> = partition
            .entries(Offset::new(golden.batches(1)[0].first)..)
            .collect();
        let good = items.iter().flatten().count() as u64;
        let expected: u64 = golden.batches(1)[..readable]
            .iter()
            .map(|batch| batch.count)
            .sum();
        assert_eq!(good, expected, "{len}");
        assert!(
            items
                .last()
                .unwrap()
                .as_ref()
                .is_err_and(Error::is_corruption),
            "{len}"
        );
    }
}

#[test]
fn f51_an_entry_owns_its_bytes_and_a_new_read_notices_the_change() {
    let golden = Golden::new(Plan::small(2, Durability::Power, End::Closed));
    let disk = golden.copy();
    let log = media::open(&disk).unwrap();
    let partition = media::partition(&log);
    let batch = golden.batches(0)[1];
    let entry: Entry = partition.get(Offset::new(batch.first)).unwrap().unwrap();
    let before = (
        entry.key().map(<[u8]>::to_vec),
        entry.value().map(<[u8]>::to_vec),
    );
    let file = &golden.segments[0];
    let body = (batch.position + forge::BATCH_HEADER) as u64;
    disk.zero(file, body..batch.end() as u64).unwrap();
    assert_eq!(
        (
            entry.key().map(<[u8]>::to_vec),
            entry.value().map(<[u8]>::to_vec)
        ),
        before
    );
    let again = partition.get(Offset::new(batch.first));
    assert!(matches!(again, Err(Error::Corruption { .. })), "{again:?}");
}

#[test]
fn f51_what_the_newest_bytes_in_memory_begin_with_is_checked_as_the_file_is() {
    let disk = Disk::new();
    let log = media::open(&disk).unwrap();
    let config = TopicConfig::new().durability(Durability::Process);
    let partition = log.create_topic("t", config).unwrap().partition(0).unwrap();
    partition.append(("k", "early")).unwrap();
    assert_eq!(partition.entries(..).count(), 1); // somebody reads at the end: the next append keeps the newest bytes
    let file = media::segments(&disk).remove(0);
    let last = disk.read_file(&file).unwrap().len() as u64 - 1;
    disk.flip_bit(&file, 8 * last).unwrap();
    partition.append(("k", "late")).unwrap();
    let first = partition.entries(..).next().unwrap();
    assert!(first.is_err_and(|e| e.is_corruption()));
    let late = partition.get(Offset::new(1)).unwrap().unwrap();
    assert_eq!(late.value_str().unwrap(), "late");
}

#[test]
fn f51_a_segment_replaced_by_a_stale_version_of_itself_is_noticed() {
    // The state of the same file at an earlier time, under the log that has gone on since.
    let disk = Disk::new();
    let log = media::open(&disk).unwrap();
    let config = TopicConfig::new().segment_bytes(4096);
    let partition = log.create_topic("t", config).unwrap().partition(0).unwrap();
    partition.append(("k", "early")).unwrap();
    let file = media::segments(&disk).remove(0);
    let stale = disk.read_file(&file).unwrap();
    for n in 0..20 {
        partition.append(("k", format!("late {n}"))).unwrap();
    }
    log.close().unwrap();
    disk.write_file(&file, &stale).unwrap();
    let log = media::open(&disk).unwrap();
    let partition = media::partition(&log);
    assert!(
        !log.recovery().is_empty(),
        "20 acknowledged records are gone, and nothing is said"
    );
    let items: Vec<_> = partition.entries(..).collect();
    assert_eq!(items[0].as_ref().unwrap().value_str().unwrap(), "early");
    assert!(items[1..].iter().all(Result::is_err));
    assert!(matches!(
        partition.append(("k", "v")),
        Err(Error::Corruption { .. })
    ));
    assert_eq!(
        partition.offsets().end.get(),
        21,
        "no offset is given out again"
    );
}

/// In a child of its own: a mapped file is cut under the log, and read.
#[cfg(unix)]
#[test]
fn f50_under_a_map_an_outside_truncation_ends_the_process_or_is_corruption_and_no_other_data() {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    const ME: &str = "outside::f50_under_a_map_an_outside_truncation_ends_the_process_or_is_corruption_and_no_other_data";
    if let Some(dir) = std::env::var_os("THALWEG_F50_DIR") {
        read_under_the_knife(Path::new(&dir));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let log = media::builder().open(dir.path().join("log")).unwrap();
    let config = TopicConfig::new()
        .durability(Durability::Process)
        .segment_bytes(64 << 10);
    let topic = log.create_topic("t", config).unwrap();
    for n in 0..1500 {
        topic.append(("k", format!("value {n:060}"))).unwrap();
    }
    log.close().unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", ME])
        .env("THALWEG_F50_DIR", dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    // SIGBUS is 7 on Linux and 10 on macOS.
    let bus = status
        .signal()
        .is_some_and(|signal| signal == 7 || signal == 10);
    assert!(status.success() || bus, "{status:?}");
}

#[cfg(unix)]
fn read_under_the_knife(dir: &Path) {
    let log: Log = media::builder()
        .read_mode(ReadMode::Mapped)
        .open(dir.join("log"))
        .unwrap();
    let partition = media::partition(&log);
    assert!(partition.get(Offset::new(0)).unwrap().is_some()); // it is mapped now
    let topic = fs::read_dir(dir.join("log/topics"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let first = topic.path().join("0/00000000000000000000-00000000.log");
    fs::OpenOptions::new()
        .write(true)
        .open(first)
        .unwrap()
        .set_len(8192 + 77)
        .unwrap();
    for (n, item) in partition.entries(..).enumerate() {
        match item {
            Ok(entry) => {
                let offset = entry.offset().get();
                let expected = format!("value {offset:060}");
                assert_eq!(entry.value_str().unwrap(), expected, "item {n}");
            }
            Err(error) => assert!(error.is_corruption(), "{error:?}"),
        }
    }
}
