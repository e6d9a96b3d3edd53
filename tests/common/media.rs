//! Logs to be damaged, and the judge of what they give afterwards: what was written, or an error that names it, and nothing else.
#![allow(dead_code)] // each test uses a part of it

use std::path::PathBuf;
use std::time::Duration;

use thalweg::testing::{CrashModel, Disk, ManualClock, Variants};
use thalweg::{
    Durability, EntryRef, Error, Finding, FindingKind, Log, LogBuilder, Maintenance, Offset,
    Partition, ReadMode, RecoveryReport, Result, TopicConfig,
};

use crate::common::{Dice, Rec};
use crate::forge;

/// How a log came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Closed,
    Killed,
    /// The power fails; everything written happens to be on the disk.
    Unplugged,
}

/// A log with one topic `t` of one partition, and what was written to it.
#[derive(Clone)]
pub(crate) struct Golden {
    pub(crate) disk: Disk,
    pub(crate) written: Vec<Written>,
    /// The files of the partition's segments, in order.
    pub(crate) segments: Vec<PathBuf>,
}

/// A record that was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) offset: u64,
    rec: Rec,
    appended_ms: i64,
}

/// What a golden log should be like.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) config: TopicConfig,
    pub(crate) segment_bytes: u64,
    pub(crate) segments: usize,
    /// How full the last segment is, in bytes.
    pub(crate) last_bytes: u64,
    pub(crate) end: End,
}

impl Plan {
    /// Segments of 4 KiB, the last one half full.
    pub(crate) fn small(segments: usize, durability: Durability, end: End) -> Plan {
        Plan {
            config: TopicConfig::new()
                .durability(durability)
                .segment_age(std::time::Duration::MAX) // later lives have the clock of the machine
                .index_interval(512),
            segment_bytes: 4096,
            segments,
            last_bytes: 2048,
            end,
        }
    }
}

/// Where the partition lies: `/log/topics/t-…/0`.
pub(crate) fn partition_dir(disk: &Disk) -> PathBuf {
    let first = segments(disk).into_iter().next();
    let file = first.expect("a partition that was written");
    file.parent().expect("a directory").to_owned()
}

pub(crate) fn segments(disk: &Disk) -> Vec<PathBuf> {
    files(disk, "/log/topics/t-", ".log")
}

/// Files whose path begins and ends so.
pub(crate) fn files(disk: &Disk, begins: &str, ends: &str) -> Vec<PathBuf> {
    let paths = disk.files().into_iter().map(|(path, _)| path);
    paths
        .filter(|path| {
            let path = path.to_string_lossy();
            path.starts_with(begins) && path.ends_with(ends)
        })
        .collect()
}

pub(crate) fn builder() -> LogBuilder {
    Log::builder().maintenance(Maintenance::Manual)
}

pub(crate) fn open(disk: &Disk) -> Result<Log> {
    builder().open_on(disk)
}

/// Partition 0 of the topic `t`.
pub(crate) fn partition(log: &Log) -> Partition {
    let topic = log.topic("t").expect("the topic t");
    topic.partition(0).expect("partition 0")
}

/// The disk as it is, to be damaged: this one is not changed.
pub(crate) fn copy(disk: &Disk) -> Disk {
    disk.crash(disk.points(), CrashModel::ProcessKill, 0)
}

/// How many of the states that a crash may leave are tried: all if they are few, else so many.
pub(crate) fn choices(disk: &Disk, after: usize, model: CrashModel, most: u64) -> u64 {
    match disk.variants(after, model) {
        Variants::All(count) => count.min(most),
        _ => most.div_ceil(2),
    }
}

impl Golden {
    pub(crate) fn new(plan: Plan) -> Golden {
        let (disk, clock) = (Disk::seeded(7), ManualClock::new());
        let log = builder().clock(&clock).open_on(&disk).expect("a new log");
        let config = plan.config.segment_bytes(plan.segment_bytes);
        let topic = log.create_topic("t", config).expect("a new topic");
        let partition = topic.partition(0).expect("partition 0");
        let (mut written, mut dice) = (Vec::new(), Dice::new(7));
        while !is_full(&disk, plan.segments, plan.last_bytes) {
            clock.advance(Duration::from_secs(1));
            let count = if dice.once_in(5) {
                2 + dice.below(5)
            } else {
                1
            };
            let first = written.len() as u64;
            let recs: Vec<Rec> = (first..first + count)
                .map(|n| {
                    let len = 40 + dice.below(160) as usize;
                    Rec::of_any_shape(n, len, &mut dice)
                })
                .collect();
            let offsets = partition
                .append_all(recs.iter().map(Rec::record))
                .expect("an append");
            assert_eq!(offsets, Offset::new(first)..Offset::new(first + count));
            let appended_ms = clock.now().as_millis();
            written.extend(recs.into_iter().zip(first..).map(|(rec, offset)| Written {
                offset,
                rec,
                appended_ms,
            }));
        }
        let disk = match plan.end {
            End::Closed => {
                log.close().expect("an orderly end");
                disk
            }
            End::Killed => copy(&disk),
            End::Unplugged => {
                let whole = copy(&disk);
                whole.set_boot_id(whole.boot_id() + 1);
                whole
            }
        };
        disk.forget_history();
        let segments = segments(&disk);
        assert_eq!(segments.len(), plan.segments, "the log is as planned");
        Golden {
            disk,
            written,
            segments,
        }
    }

    /// The same log on a disk of its own, to be damaged.
    pub(crate) fn copy(&self) -> Disk {
        copy(&self.disk)
    }

    pub(crate) fn bytes(&self, segment: usize) -> Vec<u8> {
        let path = &self.segments[segment];
        self.disk.read_file(path).expect("a segment")
    }

    pub(crate) fn batches(&self, segment: usize) -> Vec<forge::BatchAt> {
        forge::batches(&self.bytes(segment))
    }

    /// Is this a record that was written at this offset, bit for bit?
    pub(crate) fn wrote(&self, entry: EntryRef<'_>) -> bool {
        let written = self.written.get(entry.offset().get() as usize);
        written.is_some_and(|written| is_same(written, entry))
    }

    /// The offset behind the last record.
    pub(crate) fn end(&self) -> u64 {
        self.written.len() as u64
    }

    /// Opens a damaged copy and judges what it gives. `Err`: it gave what was never written, or kept a loss to itself.
    pub(crate) fn judge(&self, disk: &Disk) -> Result<Verdict, String> {
        self.judge_opened(open(disk))
    }

    pub(crate) fn judge_in(&self, disk: &Disk, mode: ReadMode) -> Result<Verdict, String> {
        self.judge_opened(builder().read_mode(mode).open_on(disk))
    }

    pub(crate) fn judge_opened(&self, opened: Result<Log>) -> Result<Verdict, String> {
        let log = match opened {
            Ok(log) => log,
            Err(error) => return refused(error),
        };
        let partition = match log.topic("t").and_then(|topic| topic.partition(0)) {
            Ok(partition) => partition,
            Err(error) => return refused(error),
        };
        let found = self.read(&partition, log.recovery())?;
        Ok(Verdict::Opened(Opened {
            log,
            partition,
            found,
        }))
    }

    /// Reads everything and compares it.
    fn read(&self, partition: &Partition, report: &RecoveryReport) -> Result<Found, String> {
        let mut reading = Reading {
            written: &self.written,
            at: 0,
            excused: 0,
            found: Found::default(),
        };
        for item in partition.entries(..) {
            match item {
                Ok(entry) => reading.entry((&entry).into())?,
                Err(error) => reading.error(error)?,
            }
        }
        reading.rest(report)
    }
}

fn is_full(disk: &Disk, wanted: usize, last_bytes: u64) -> bool {
    let segments = segments(disk);
    let len = |path: &PathBuf| disk.read_file(path).expect("a segment").len() as u64;
    segments.len() >= wanted && segments.last().is_none_or(|last| len(last) >= last_bytes)
}

/// What a damaged log gave.
pub(crate) enum Verdict {
    /// It was not opened, or its topic was not, and the error says why.
    Refused(Error),
    Opened(Opened),
}

pub(crate) struct Opened {
    pub(crate) log: Log,
    pub(crate) partition: Partition,
    pub(crate) found: Found,
}

/// What was read, and what was not.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Offsets that could not be read, each told by an error.
    pub(crate) lost: Vec<u64>,
    /// Offsets of the end that are gone, as the report says.
    pub(crate) cut: Vec<u64>,
    pub(crate) errors: Vec<Error>,
}

impl Verdict {
    /// The log, which must have been opened.
    pub(crate) fn opened(self) -> Opened {
        match self {
            Verdict::Opened(opened) => opened,
            Verdict::Refused(error) => panic!("the log was not opened: {error:?}"),
        }
    }
}

impl Found {
    /// Everything was there, and no error came.
    pub(crate) fn is_whole(&self) -> bool {
        self.lost.is_empty() && self.cut.is_empty() && self.errors.is_empty()
    }
}

/// Only errors that say what is wrong with the bytes.
fn refused(error: Error) -> Result<Verdict, String> {
    match error {
        Error::Corruption { .. } | Error::Incompatible { .. } => Ok(Verdict::Refused(error)),
        other => Err(format!("damage was told as {other:?}")),
    }
}

/// A walk over what was written, beside what is read.
struct Reading<'g> {
    written: &'g [Written],
    at: usize,
    /// Below it, records may be missing: an error said so.
    excused: u64,
    found: Found,
}

impl Reading<'_> {
    fn entry(&mut self, entry: EntryRef<'_>) -> Result<(), String> {
        let offset = entry.offset().get();
        self.skip_to(offset)?;
        let Some(written) = self.written.get(self.at) else {
            return Err(format!("{offset} was never written"));
        };
        if written.offset != offset {
            return Err(format!("{offset} came twice, or out of order"));
        }
        if !is_same(written, entry) {
            let seen = Rec::of(entry);
            return Err(format!("{offset} is {seen:?}, not {:?}", written.rec));
        }
        self.at += 1;
        Ok(())
    }

    /// Everything before `offset` that was not read must be excused by an error.
    fn skip_to(&mut self, offset: u64) -> Result<(), String> {
        while let Some(missing) = self.written.get(self.at).map(|written| written.offset) {
            if missing >= offset {
                break;
            }
            if missing >= self.excused {
                return Err(format!("{missing} is missing, and no error says so"));
            }
            self.found.lost.push(missing);
            self.at += 1;
        }
        Ok(())
    }

    fn error(&mut self, error: Error) -> Result<(), String> {
        let lost = match &error {
            Error::Corruption { lost, .. } => lost,
            Error::Incompatible { unread, .. } => unread,
            other => return Err(format!("damage was told as {other:?}")),
        };
        let Some(lost) = lost.as_ref().map(|lost| lost.1.clone()) else {
            return Err(format!("{error:?} does not say which records are lost"));
        };
        if lost.is_empty() {
            return Err(format!("{error:?} is about no record"));
        }
        let next = self.written.get(self.at).map_or(u64::MAX, |w| w.offset);
        if lost.start.get() > next.max(self.excused) {
            return Err(format!("{error:?}, but {next} was not read before"));
        }
        self.excused = self.excused.max(lost.end.get());
        self.found.errors.push(error);
        Ok(())
    }

    /// What lies behind the last entry must be excused by an error or by the report.
    fn rest(mut self, report: &RecoveryReport) -> Result<Found, String> {
        self.skip_to(self.excused)?;
        for written in &self.written[self.at..] {
            let offset = written.offset;
            let tail = |kind| matches!(kind, FindingKind::TornTail | FindingKind::SuspectTail);
            let ours = |finding: &&Finding| finding.at.as_ref().is_none_or(|at| at.topic() == "t");
            let told = report.findings().iter().filter(ours).find(|finding| {
                let offsets = finding.offsets.as_ref();
                match finding.kind {
                    FindingKind::Damaged => offsets
                        .is_none_or(|lost| (lost.start.get()..lost.end.get()).contains(&offset)),
                    kind if tail(kind) => offsets.is_some_and(|cut| cut.start.get() <= offset),
                    _ => false,
                }
            });
            match told.map(|finding| finding.kind) {
                Some(FindingKind::Damaged) => self.found.lost.push(offset),
                Some(_) => self.found.cut.push(offset),
                None => {
                    return Err(format!(
                        "{offset} is missing at the end, and nothing says so"
                    ));
                }
            }
        }
        Ok(self.found)
    }
}

/// Bit for bit, without copying.
fn is_same(written: &Written, entry: EntryRef<'_>) -> bool {
    let rec = &written.rec;
    let time = rec.event_time.unwrap_or(written.appended_ms);
    entry.key() == rec.key.as_deref()
        && entry.value() == rec.value.as_deref()
        && entry.timestamp().as_millis() == time
        && entry.headers().eq(rec
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_deref())))
}

/// Appends one record and reads it back. `None`: it was refused as it should be in a damaged partition.
pub(crate) fn append_probe(partition: &Partition) -> Option<u64> {
    match partition.append(("probe", "after the damage")) {
        Ok(position) => {
            let entry = partition
                .get(position.offset())
                .expect("a record just written");
            let entry = entry.expect("a record just written");
            assert_eq!(entry.value(), Some(&b"after the damage"[..]));
            Some(position.offset().get())
        }
        Err(Error::Corruption { .. }) => None,
        Err(other) => panic!("an append into a damaged partition gave {other:?}"),
    }
}
