//! Step 7: how far the last segment is right, and where the partition goes on.
//!
//! The evidence, strongest first: the file is shorter than a recovery point, or has a successor; the log was closed in order; the
//! same boot; and, for a byte that is not right, what [`super::torn`] makes of it.

use std::path::PathBuf;
use std::sync::Arc;

use super::damage::{gap, readable_end, report_damage};
use super::examine::{Again, Cut, Work};
use super::home::Home;
use super::place::Place;
use super::quarantine;
use super::report::{Finding, FindingKind, RecoveryReport};
use super::segments::{Segments, Slot, lost, read_header};
use super::settings::Settings;
use super::torn::Tail;
use super::writer::{Health, Rear};
use crate::error::{Error, Result};
use crate::format::accumulator::Accumulator;
use crate::format::footer::{FOOTER_LEN, Footer};
use crate::format::segment::{SEGMENT_HEADER_LEN, SegmentHeader};
use crate::format::state::Point;
use crate::io::{File, OpenMode};
use crate::offset::Offset;
use crate::segment::Segment;
use crate::segment::active::seal_of;
use crate::segment::index::Index;
use crate::segment::scan::{self, Scan, ScanStop, Start};

/// What the last segment says about the partition.
pub(crate) struct Verdict {
    pub(crate) rear: Rear,
    pub(crate) next: u64,
    pub(crate) durable: u64,
    pub(crate) last_append: u64,
    pub(crate) health: Health,
    pub(crate) work: Option<Work>,
    /// Offset after the last record, if the next one goes behind a gap.
    pub(crate) gap_from: Option<u64>,
}

/// What is known of a partition besides its last segment.
pub(crate) struct Known {
    /// The log was closed in order, and this partition has not been opened since.
    pub(crate) clean: bool,
    /// A later file was there that held nothing yet.
    pub(crate) remade: bool,
    /// It was open already.
    pub(crate) again: Option<Again>,
}

/// The last segment under examination.
pub(super) struct Last<'a> {
    place: &'a Place,
    pub(super) home: &'a Home,
    settings: &'a Settings,
    pub(super) file: Arc<dyn File>,
    path: PathBuf,
    pub(super) header: SegmentHeader,
    pub(super) len: u64,
    /// Everything below was synced (E1), and how far that is.
    synced: Option<Point>,
    pub(super) same_boot: bool,
    /// This process has synced everything below: what a failed sync took lies behind it.
    pub(super) synced_here: Option<u64>,
    /// Where its stream begins.
    stream: u64,
}

pub(crate) fn last_segment(
    place: &Place,
    home: &Home,
    settings: &Settings,
    segments: &Segments,
    known: &Known,
    report: &mut RecoveryReport,
) -> Result<Verdict> {
    let remade = known.remade;
    let (topic, partition) = (place.topic, place.at.partition().get());
    let point = home.evidence.point(topic, partition);
    let Some(slot) = segments.slots.last() else {
        return nothing_left(place, point.as_ref(), segments.log_start);
    };
    let mut last = Last::open(place, home, settings, slot, known)?;
    last.check_point(point.as_ref(), remade, segments.log_start)?;
    let checked = home.evidence.checked(topic, partition);
    let era = era(home, &last.header, point.as_ref(), checked.as_ref());
    let same_boot = home.evidence.same_boot_since(era);
    last.same_boot = same_boot;
    last.synced = point.filter(|p| last.holds(p));
    let before = segments.slots.len().checked_sub(2);
    let before = before.and_then(|at| segments.slots[at].opened());
    let before = before.and_then(|segment| segment.seal());
    let earlier = before.map_or(0, |seal| seal.footer.accumulator.last_append);
    let clean = known.clean && point.is_some();
    let newest = |c: &Point| point.is_none_or(|p| p.open_number <= c.open_number);
    let checked = checked.filter(|c| same_boot && last.holds(c) && newest(c));
    let mut verdict = if clean && !remade {
        last.strict(slot)
    } else {
        last.judge(slot, checked, remade, report)
    }?;
    // If it is empty, it says at least when it was begun: what stood before it may be gone.
    let begun = Some(last.header.created_ms).filter(|_| verdict.last_append == 0);
    verdict.last_append = verdict
        .last_append
        .max(earlier.max(begun.unwrap_or(0)).max(0) as u64)
        .min(super::writer::LATEST as u64);
    Ok(verdict)
}

/// No segment at all: fine if everything was removed in order, which leaves a manifest; else they are lost.
fn nothing_left(place: &Place, point: Option<&Point>, log_start: u64) -> Result<Verdict> {
    match point {
        Some(point) if point.offset > 0 || point.base > 0 => Err(Error::corruption(
            &place.dir,
            0,
            lost(&place.at, log_start, point.offset),
        )),
        _ => Ok(Verdict {
            rear: Rear::Closed(None),
            next: log_start,
            durable: log_start,
            last_append: 0,
            health: Health::Sound,
            work: None,
            gap_from: None,
        }),
    }
}

/// The opening since which this partition has had no other witness.
fn era(home: &Home, header: &SegmentHeader, point: Option<&Point>, checked: Option<&Point>) -> u64 {
    let number = |point: Option<&Point>| point.map_or(0, |point| point.open_number);
    header
        .open_number
        .max(number(point))
        .max(number(checked))
        .max(home.evidence.newest_close() + 1)
}

impl<'a> Last<'a> {
    fn open(
        place: &'a Place,
        home: &'a Home,
        settings: &'a Settings,
        slot: &Slot,
        known: &Known,
    ) -> Result<Last<'a>> {
        let file = home.ground.storage.open(&slot.path, OpenMode::Read);
        let file = file.map_err(|e| Error::io("open", &slot.path, e))?;
        let header = read_header(&*file, slot, place, home.log)?;
        let len = file.len().map_err(|e| Error::io("read", &slot.path, e))?;
        Ok(Last {
            place,
            home,
            settings,
            path: slot.path.clone(),
            file,
            header,
            len,
            synced: None,
            same_boot: false,
            synced_here: known.again.map(|again| again.synced),
            stream: known.again.map_or(0, |again| again.stream),
        })
    }

    /// A recovery point in a later segment says that segments are missing. (One that holds nothing is made anew, though a point
    /// says that it was made.)
    fn check_point(&self, point: Option<&Point>, remade: bool, log_start: u64) -> Result<()> {
        let header = &self.header;
        if let Some(point) = point
            && (point.base, point.generation) > (header.base, header.generation)
            && !(remade && point.position <= SEGMENT_HEADER_LEN as u64)
        {
            let lost = lost(&self.place.at, header.base.max(log_start), point.offset);
            return Err(Error::corruption(&self.path, self.len, lost));
        }
        Ok(())
    }

    /// Does the point lie in this segment? One that no sound opening can have written says nothing.
    fn holds(&self, point: &Point) -> bool {
        let header = &self.header;
        (point.base, point.generation) == (header.base, header.generation)
            && point.position >= SEGMENT_HEADER_LEN as u64
            && (header.base..=header.span_end()).contains(&point.offset)
    }
}

impl Last<'_> {
    pub(super) fn io(&self, e: std::io::Error) -> Error {
        Error::io("read", &self.path, e)
    }

    fn scan(&self, start: &Start) -> Result<Scan> {
        scan::scan(
            &*self.file,
            &self.header,
            start,
            self.len,
            self.settings.index_interval,
        )
        .map_err(|e| self.io(e))
    }

    fn beginning(&self) -> Start {
        let position = SEGMENT_HEADER_LEN as u64;
        Start {
            position,
            next: self.header.base,
            accumulator: Accumulator::default(),
        }
    }

    fn segment(&self, stream_start: Option<u64>) -> Segment {
        let (at, times) = (self.place.at.clone(), self.settings.timestamps);
        Segment::new(
            at,
            self.header,
            SEGMENT_HEADER_LEN as u64,
            self.path.clone(),
            times,
            stream_start,
        )
    }

    /// After a clean close the last segment ends exactly where its recovery point says.
    fn strict(&self, slot: &Arc<Slot>) -> Result<Verdict> {
        let Some(point) = &self.synced else {
            return Err(Error::corruption(&self.path, 0, None)); // closed in order, but in another segment
        };
        if point.position != self.len {
            let byte = point.position.min(self.len);
            return Err(Error::corruption(&self.path, byte, None));
        }
        let start = Start {
            position: point.position,
            next: point.offset,
            accumulator: point.accumulator,
        };
        if let Some(footer) = self.footer_before(start.position)? {
            return Ok(self.sealed(slot, footer, None));
        }
        let segment = self.segment(Some(self.stream));
        segment.set_index(Index::default(), start.position);
        Ok(self.resting(slot, segment, &start, start.position, None))
    }

    fn footer_before(&self, end: u64) -> Result<Option<Footer>> {
        let at = end.saturating_sub(FOOTER_LEN as u64);
        if at < SEGMENT_HEADER_LEN as u64 {
            return Ok(None);
        }
        let mut bytes = vec![0; FOOTER_LEN];
        crate::io::read_full(&*self.file, &mut bytes, at).map_err(|e| self.io(e))?;
        Ok(Footer::decode(&bytes, self.header.salt, at).ok())
    }

    /// The way after anything but a clean close.
    fn judge(
        &self,
        slot: &Arc<Slot>,
        checked: Option<Point>,
        remade: bool,
        report: &mut RecoveryReport,
    ) -> Result<Verdict> {
        let known = match (&checked, &self.synced) {
            (Some(checked), Some(synced)) if checked.position < synced.position => Some(synced),
            (Some(checked), _) => Some(checked),
            (None, synced) => synced.as_ref(),
        };
        let start = known.map_or(self.beginning(), |point| Start {
            position: point.position,
            next: point.offset,
            accumulator: point.accumulator,
        });
        if self.len < start.position {
            let lost = lost(&self.place.at, self.header.base, start.next);
            return Err(Error::corruption(&self.path, self.len, lost));
        }
        // A recovery point may lie behind a footer: after the seal was synced.
        if start.position == self.len
            && let Some(footer) = self.footer_before(self.len)?
        {
            return Ok(self.with_gap(self.sealed(slot, footer, None), report));
        }
        let scan = self.scan(&start)?;
        if let ScanStop::Sealed(footer) = scan.stop {
            let work = Work {
                distrust: self.distrust(self.len),
                ..Work::default()
            };
            let verdict = self.sealed(slot, footer, Some(work));
            return Ok(self.with_gap(verdict, report));
        }
        let tail = self.tail(&scan, remade)?;
        if tail == Tail::Damaged {
            return self.damaged(slot, &scan, report);
        }
        self.cut(slot, &start, scan, tail, report)
    }

    /// An earlier recovery sealed the segment for a gap, and got no further: the next one, which records it, is still to be made.
    fn with_gap(&self, mut verdict: Verdict, report: &mut RecoveryReport) -> Verdict {
        if let Some(from) = verdict.gap_from {
            report.add(self.gap_finding(from, verdict.next));
            verdict.work.get_or_insert_default().gap = Some(verdict.next);
        }
        verdict
    }

    fn damaged(
        &self,
        slot: &Arc<Slot>,
        scan: &Scan,
        report: &mut RecoveryReport,
    ) -> Result<Verdict> {
        let end = readable_end(self.home, self.place, slot)?
            .unwrap_or(scan.next)
            .max(scan.next);
        let end = end.max(self.synced.as_ref().map_or(0, |point| point.offset));
        let why = Error::corruption(
            &self.path,
            scan.end,
            lost(&self.place.at, scan.next, end.max(scan.next + 1)),
        );
        report_damage(self.place, &why, report);
        let segment = self.segment(None);
        segment.set_index(Index::default(), scan.end);
        slot.install(Arc::new(segment));
        Ok(Verdict {
            rear: Rear::Closed(None),
            next: end,
            durable: self.durable(scan),
            last_append: 0,
            health: Health::Damaged(Arc::new(why)),
            work: None,
            gap_from: None,
        })
    }

    fn durable(&self, scan: &Scan) -> u64 {
        self.synced
            .as_ref()
            .map_or(self.header.base, |point| point.offset)
            .max(scan.durable.min(scan.next))
    }

    /// From the recovery point on, the bytes may be in the cache alone.
    fn distrust(&self, end: u64) -> Option<(PathBuf, std::ops::Range<u64>)> {
        let from = self.synced.as_ref().map_or(0, |point| point.position);
        (from < end).then(|| (self.path.clone(), from..end))
    }

    /// The last segment is sealed: the next record goes into a new one.
    fn sealed(&self, slot: &Arc<Slot>, footer: Footer, work: Option<Work>) -> Verdict {
        let segment = self.segment(None);
        let seal = seal_of(footer, self.header.salt);
        let (next_base, last) = (seal.footer.next_base, seal.footer.last);
        let last_append = seal.footer.accumulator.last_append.max(0) as u64;
        segment.set_seal(seal);
        let durable = if work.is_some() {
            self.synced
                .as_ref()
                .map_or(self.header.base, |point| point.offset)
        } else {
            next_base
        };
        let segment = Arc::new(segment);
        slot.install(Arc::clone(&segment));
        let after = last.map_or(self.header.base, |last| last + 1);
        Verdict {
            rear: Rear::Closed(Some(segment)),
            next: next_base,
            durable,
            last_append,
            health: Health::Sound,
            work,
            gap_from: (after < next_base).then_some(after),
        }
    }

    fn resting(
        &self,
        slot: &Arc<Slot>,
        segment: Segment,
        end: &Start,
        len: u64,
        work: Option<Work>,
    ) -> Verdict {
        let segment = Arc::new(segment);
        slot.install(Arc::clone(&segment));
        let durable = self
            .synced
            .as_ref()
            .map_or(self.header.base, |point| point.offset);
        Verdict {
            rear: Rear::Resting {
                segment,
                len,
                next: end.next,
                accumulator: end.accumulator,
            },
            next: end.next,
            durable,
            last_append: end.accumulator.last_append.max(0) as u64,
            health: Health::Sound,
            work,
            gap_from: None,
        }
    }

    /// A tail that may be cut, or none: where the partition goes on.
    fn cut(
        &self,
        slot: &Arc<Slot>,
        start: &Start,
        scan: Scan,
        tail: Tail,
        report: &mut RecoveryReport,
    ) -> Result<Verdict> {
        let mut work = Work {
            distrust: self.distrust(scan.end),
            ..Work::default()
        };
        if tail != Tail::Whole {
            let cut = Cut {
                file: self.path.clone(),
                from: scan.end,
                to: self.len,
                quarantine: self.quarantine(scan.end)?,
            };
            report.add(self.cut_finding(&cut, tail, scan.next));
            work.cut = Some(cut);
        }
        let lost_acknowledged = !self.same_boot && self.header.below_power;
        if (tail == Tail::Suspect || lost_acknowledged) && !planted!(SPAN_SKIP_IGNORED) {
            work.gap = Some(
                self.header
                    .base
                    .saturating_add(u64::from(self.header.offset_span)),
            );
        }
        let segment = self.segment(Some(self.stream));
        segment.set_index(scan.places, start.position);
        let durable = scan.durable.min(scan.next);
        let end = Start {
            position: scan.end,
            next: scan.next,
            accumulator: scan.accumulator,
        };
        let gap = work.gap.filter(|&to| to > end.next);
        let mut verdict = self.resting(slot, segment, &end, end.position, Some(work));
        verdict.durable = verdict.durable.max(durable);
        if let Some(to) = gap {
            report.add(self.gap_finding(end.next, to));
            verdict.gap_from = Some(end.next);
            verdict.next = to;
        }
        Ok(verdict)
    }

    /// Where the tail is kept.
    fn quarantine(&self, from: u64) -> Result<PathBuf> {
        let (at, header) = (&self.place.at, &self.header);
        let name = format!(
            "{at}-{:020}-{:08x}-{from}-{}",
            header.base, header.generation, header.open_number
        );
        quarantine::place_for(self.home, &name, &*self.file, from..self.len).map_err(|e| self.io(e))
    }

    fn cut_finding(&self, cut: &Cut, tail: Tail, next: u64) -> Finding {
        let kind = if tail == Tail::Suspect {
            FindingKind::SuspectTail
        } else {
            FindingKind::TornTail
        };
        let mut finding = Finding::new(kind);
        finding.at = Some(self.place.at.clone());
        finding.offsets = Some(Offset::new(next)..Offset::new(next));
        finding.bytes = cut.to - cut.from;
        finding.file = Some(cut.file.clone());
        finding.byte = Some(cut.from);
        finding.quarantine = Some(cut.quarantine.clone());
        finding
    }

    fn gap_finding(&self, from: u64, to: u64) -> Finding {
        let mut finding = gap(self.place, from, to);
        finding.file = Some(self.path.clone());
        finding
    }
}
