//! The partition alone, on plain memory: what goes in comes out, and recovery finds what was left.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::home::{Evidence, Home, HomeParts, Owner};
use super::place::Place;
use super::report::RecoveryReport;
use super::settings::{Durability, OnSuspectTail, Settings};
use super::{Partition, report::FindingKind};
use crate::clock::SystemClock;
use crate::error::{Error, Result};
use crate::format::state::Point;
use crate::io::memory::Memory;
use crate::io::{OpenMode, Storage};
use crate::offset::{Offset, PartitionId, TopicPartition};
use crate::record::Record;
use crate::segment::{Ground, ReadMode};

/// What a log would know: kept over reopenings, as `STATE` is.
#[derive(Default)]
struct Known {
    points: Mutex<HashMap<u32, Point>>,
    checked: Mutex<HashMap<u32, Point>>,
    same_boot: AtomicBool,
    clean: AtomicBool,
    number: AtomicU64,
}

impl Evidence for Known {
    fn same_boot_since(&self, _: u64) -> bool {
        self.same_boot.load(Ordering::SeqCst)
    }
    fn clean(&self) -> bool {
        self.clean.load(Ordering::SeqCst)
    }
    fn newest_close(&self) -> u64 {
        0
    }
    fn point(&self, _: u128, partition: u32) -> Option<Point> {
        self.points.lock().get(&partition).copied()
    }
    fn checked(&self, _: u128, partition: u32) -> Option<Point> {
        self.checked.lock().get(&partition).copied()
    }
    fn open_number(&self) -> Result<u64> {
        self.clean.store(false, Ordering::SeqCst);
        Ok(self.number.load(Ordering::SeqCst))
    }
    fn held(&self) -> Result<()> {
        Ok(())
    }
    fn doubt(&self) {}
    fn record_point(&self, point: &Point) {
        self.points.lock().insert(point.partition, *point);
    }
    fn record_checked(&self, point: &Point) {
        self.checked.lock().insert(point.partition, *point);
    }
}

struct Topic(Arc<AtomicBool>);

impl Owner for Topic {
    fn mark_used(&self, _: PartitionId) -> Result<()> {
        self.0.store(true, Ordering::SeqCst);
        Ok(())
    }
    fn settle(&self) -> Result<()> {
        Ok(())
    }
}

pub(super) struct Bench {
    pub(super) storage: Memory,
    known: Arc<Known>,
    used: Arc<AtomicBool>,
    pub(super) settings: Settings,
    pub(super) mode: ReadMode,
}

impl Bench {
    pub(super) fn new(settings: Settings) -> Bench {
        let storage = Memory::new();
        storage.create_dir(Path::new("/log")).unwrap();
        storage.create_dir(Path::new("/log/t")).unwrap();
        let known = Arc::new(Known::default());
        known.same_boot.store(true, Ordering::SeqCst);
        Bench {
            storage,
            known,
            used: Arc::default(),
            settings,
            mode: ReadMode::Positioned,
        }
    }

    pub(super) fn dir() -> PathBuf {
        PathBuf::from("/log/t/0")
    }

    pub(super) fn open(&self) -> (Partition, RecoveryReport) {
        let storage: Arc<dyn Storage> = Arc::new(self.storage.clone());
        let home = Home::new(HomeParts {
            ground: Ground::new(storage, 8, self.mode),
            clock: Arc::new(SystemClock::new()),
            evidence: Arc::clone(&self.known) as Arc<dyn Evidence>,
            log: 1,
            root: PathBuf::from("/log"),
            on_suspect_tail: OnSuspectTail::Cut,
            read_only: false,
        });
        let place = Place {
            dir: Bench::dir(),
            at: TopicPartition::new("t", 0),
            topic: 2,
            used: self.used.load(Ordering::SeqCst),
        };
        let mut report = RecoveryReport::default();
        let owner = Arc::new(Topic(Arc::clone(&self.used)));
        let partition =
            Partition::open(place, home, owner, self.settings.clone(), &mut report).unwrap();
        if !self.settings.below_power() {
            partition.finish_recovery().unwrap();
        }
        (partition, report)
    }

    fn last_file(&self) -> PathBuf {
        let mut names: Vec<_> = self
            .storage
            .read_dir(&Bench::dir())
            .unwrap()
            .into_iter()
            .map(|e| e.name)
            .collect();
        names.retain(|name| Path::new(name).extension().is_some_and(|end| end == "log"));
        names.sort();
        Bench::dir().join(names.last().unwrap())
    }

    fn append_bytes(&self, bytes: &[u8]) {
        let file = self
            .storage
            .open(&self.last_file(), OpenMode::Write)
            .unwrap();
        let len = file.len().unwrap();
        file.write_at(bytes, len).unwrap();
    }
}

pub(super) fn small() -> Settings {
    Settings {
        segment_bytes: 700,
        index_interval: 100,
        ..Settings::default()
    }
}

fn values(partition: &Partition) -> Vec<(u64, String)> {
    partition
        .entries(..)
        .map(|e| e.unwrap())
        .map(|e| (e.offset().get(), e.value_str().unwrap().to_owned()))
        .collect()
}

fn numbered(range: std::ops::Range<u64>) -> Vec<(u64, String)> {
    range.map(|n| (n, format!("value-{n}"))).collect()
}

fn fill(partition: &Partition, range: std::ops::Range<u64>) {
    for n in range {
        let at = partition
            .append((format!("k{n}"), format!("value-{n}")))
            .unwrap();
        assert_eq!(at.offset().get(), n);
    }
}

#[test]
fn records_come_back_in_order_over_many_segments_in_both_read_modes() {
    for mode in [ReadMode::Positioned, ReadMode::Mapped] {
        let mut bench = Bench::new(small());
        bench.mode = mode;
        let (partition, _) = bench.open();
        fill(&partition, 0..100);
        assert_eq!(values(&partition), numbered(0..100));
        for n in 0..100 {
            let entry = partition.get(Offset::new(n)).unwrap().unwrap();
            assert_eq!(entry.value_str().unwrap(), format!("value-{n}"));
        }
        assert!(partition.get(Offset::new(100)).unwrap().is_none());
        let mut back: Vec<_> = partition
            .entries(..)
            .rev()
            .map(|e| e.unwrap().offset().get())
            .collect();
        back.reverse();
        assert_eq!(back, (0..100).collect::<Vec<_>>());
    }
}

#[test]
fn both_ends_of_a_scan_meet_in_the_middle() {
    let bench = Bench::new(small());
    let (partition, _) = bench.open();
    fill(&partition, 0..50);
    let mut scan = partition.entries(Offset::new(5)..Offset::new(45));
    let mut seen = Vec::new();
    for turn in 0.. {
        let next = if turn % 3 == 0 {
            scan.next_back()
        } else {
            scan.next()
        };
        match next {
            Some(entry) => seen.push(entry.unwrap().offset().get()),
            None => break,
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (5..45).collect::<Vec<_>>());
}

#[test]
fn a_partition_goes_on_after_being_closed_and_after_being_dropped() {
    for durability in [Durability::Power, Durability::Process] {
        for clean in [true, false] {
            let bench = Bench::new(Settings {
                durability,
                ..small()
            });
            for life in 0..5 {
                let (partition, report) = bench.open();
                assert!(report.is_empty(), "{report:?}");
                assert_eq!(values(&partition), numbered(0..life * 13));
                fill(&partition, life * 13..(life + 1) * 13);
                if clean {
                    assert!(partition.close().unwrap());
                    bench.known.clean.store(true, Ordering::SeqCst);
                }
            }
        }
    }
}

#[test]
fn a_torn_tail_is_cut_kept_aside_and_reported() {
    let bench = Bench::new(Settings::default());
    let (partition, _) = bench.open();
    fill(&partition, 0..10);
    drop(partition);
    bench.append_bytes(b"\xb5\x4c torn");
    let (partition, report) = bench.open();
    assert_eq!(report.findings()[0].kind, FindingKind::TornTail);
    let kept = report.findings()[0].quarantine.clone().unwrap();
    assert!(bench.storage.open(&kept, OpenMode::Read).is_ok());
    fill(&partition, 10..12);
    assert_eq!(values(&partition), numbered(0..12));
    let (partition, report) = bench.open();
    assert!(report.is_empty());
    assert_eq!(values(&partition), numbered(0..12));
}

#[test]
fn after_a_power_loss_below_power_no_offset_is_used_again() {
    let settings = Settings {
        durability: Durability::Process,
        offset_span: 1000,
        ..Settings::default()
    };
    let bench = Bench::new(settings);
    let (partition, _) = bench.open();
    fill(&partition, 0..10);
    drop(partition);
    bench.known.same_boot.store(false, Ordering::SeqCst);
    let (partition, report) = bench.open();
    assert_eq!(report.findings()[0].kind, FindingKind::Gap);
    assert_eq!(partition.offsets(), Offset::ZERO..Offset::new(1000));
    assert_eq!(values(&partition), numbered(0..10));
    assert_eq!(
        partition.append("x".to_record()).unwrap().offset(),
        Offset::new(1000)
    );
    let all: Vec<_> = partition
        .entries(..)
        .map(|e| e.unwrap().offset().get())
        .collect();
    assert_eq!(all, (0..10).chain([1000]).collect::<Vec<_>>());
    bench.known.same_boot.store(true, Ordering::SeqCst);
    let (partition, report) = bench.open();
    assert!(report.is_empty());
    assert_eq!(
        partition
            .get(Offset::new(1000))
            .unwrap()
            .unwrap()
            .value_str()
            .unwrap(),
        "x"
    );
    assert!(partition.get(Offset::new(500)).unwrap().is_none());
}

/// It was not deleted after all, and took appends as if its sync had not failed.
#[test]
fn a_sync_that_fails_while_the_topic_may_be_deleted_stops_the_partition_if_it_stays() {
    let bench = Bench::new(small());
    let (partition, _) = bench.open();
    fill(&partition, 0..3);
    let retired = partition.retire();
    let refused = partition.append(("key", "v"));
    assert!(
        matches!(refused, Err(Error::NotFound { .. })),
        "{refused:?}"
    );
    let failed = std::io::Error::other("a sync that had begun before");
    let cause = Arc::new(Error::io("sync", &bench.last_file(), failed));
    partition
        .inner
        .stop(&mut partition.inner.writer.lock(), cause);
    retired.reinstate();
    let refused = partition.append(("key", "v"));
    assert!(
        matches!(refused, Err(Error::Poisoned { .. })),
        "{refused:?}"
    );
    assert_eq!(values(&partition), numbered(0..3));
}

#[test]
fn damage_in_the_middle_is_never_cut() {
    let bench = Bench::new(Settings::default());
    let (partition, _) = bench.open();
    fill(&partition, 0..10);
    drop(partition);
    let file = bench
        .storage
        .open(&bench.last_file(), OpenMode::Write)
        .unwrap();
    bench.known.points.lock().clear();
    file.write_at(b"X", 128 + 36 + 10).unwrap();
    let (partition, report) = bench.open();
    assert_eq!(report.findings()[0].kind, FindingKind::Damaged);
    assert!(matches!(
        partition.append(("k", "v")),
        Err(Error::Corruption { .. })
    ));
    let entries: Vec<_> = partition.entries(..).collect();
    assert!(entries[0].as_ref().is_err_and(Error::is_corruption));
    let rest: Vec<_> = entries[1..]
        .iter()
        .map(|e| e.as_ref().unwrap().offset().get())
        .collect();
    assert_eq!(rest, (1..10).collect::<Vec<_>>());
    assert_eq!(partition.offsets().end, Offset::new(10));
}

trait ToRecord {
    fn to_record(&self) -> Record<'_>;
}

impl ToRecord for &str {
    fn to_record(&self) -> Record<'_> {
        Record::keyless(*self)
    }
}
