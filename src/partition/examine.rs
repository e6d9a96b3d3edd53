//! Opening a partition, steps 4 to 8: what its files say, read only. Nothing is changed here, whatever is found.
//!
//! The result says what is readable, where the next record goes, and what work [`super::recovery`] has to do before the first
//! write. Damage is a finding of this partition, not an error of the log; an I/O error says nothing about the bytes and is
//! returned as itself.

use std::path::PathBuf;
use std::sync::Arc;

use super::classify::{self, Verdict};
use super::damage::{self, damaged};
use super::home::Home;
use super::manifest::{self, Stored};
use super::place::Place;
use super::report::{Finding, FindingKind, RecoveryReport};
use super::segments::{Segments, Slot, follows, read_header};
use super::settings::Settings;
use super::writer::{Health, Rear};
use crate::error::{Error, Result};
use crate::format::names;
use crate::format::segment::SEGMENT_HEADER_LEN;
use crate::io::Kind;
use crate::segment::Segment;

/// What opening found of one partition.
pub(crate) struct Found {
    pub(crate) segments: Segments,
    pub(crate) rear: Rear,
    /// The assigned end: the offset that the next record gets.
    pub(crate) next: u64,
    pub(crate) durable: u64,
    pub(crate) last_append: u64,
    pub(crate) health: Health,
    pub(crate) work: Option<Work>,
    pub(crate) manifest: Stored,
}

/// What is left to do before anything is written: steps 9, 10, 12, 13 and 14.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Work {
    /// The tail to keep aside and cut off.
    pub(crate) cut: Option<Cut>,
    /// Bytes of the last file that are in the cache, but perhaps not on the medium.
    pub(crate) distrust: Option<(PathBuf, std::ops::Range<u64>)>,
    /// Go on at this offset, in a new segment, so that none that was given out is given to another record.
    pub(crate) gap: Option<u64>,
    pub(crate) leftovers: Vec<PathBuf>,
    /// The manifest may be in the cache alone: no recovery point says that this one is durable.
    pub(crate) settle: bool,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Cut {
    pub(crate) file: PathBuf,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) quarantine: PathBuf,
}

/// The names in a partition's directory.
#[derive(Default)]
struct Names {
    segments: Vec<(u64, u32)>,
    /// Replacements of a small file that were not finished, and indexes of segments that are gone.
    useless: Vec<PathBuf>,
    unknown: u64,
}

/// What is known of a partition that was open already. (A clean close of the opening before counts for nothing then.)
#[derive(Clone, Copy)]
pub(crate) struct Again {
    /// This process has synced everything below, and perhaps more.
    pub(crate) synced: u64,
    /// Where the positions of its stream go on, beyond all that were used.
    pub(crate) stream: u64,
}

pub(crate) fn examine(
    place: &Place,
    home: &Home,
    settings: &Settings,
    again: Option<Again>,
    report: &mut RecoveryReport,
) -> Result<Found> {
    let names = match list(place, home) {
        Ok(names) => names,
        Err(Error::Io { source, .. }) if is_no_directory(&source) => {
            return if place.used {
                damaged(
                    place,
                    home,
                    settings,
                    Vec::new(),
                    Error::corruption(&place.dir, 0, None),
                    report,
                )
            } else {
                Ok(Found::unused(settings))
            };
        }
        Err(e) => return Err(e),
    };
    if names.unknown > 0 {
        let mut finding = Finding::new(FindingKind::UnknownFiles);
        finding.at = Some(place.at.clone());
        finding.file = Some(place.dir.clone());
        finding.bytes = names.unknown;
        report.add(finding);
    }
    if !place.used {
        return unused(place, home, settings, &names, report);
    }
    let all = names
        .segments
        .iter()
        .map(|&(base, generation)| Arc::new(Slot::named(place, base, generation)));
    let all: Vec<_> = all.collect();
    if all.is_empty() {
        // A partition in use has a first segment, and keeps a last one: whoever took them all did not mean well.
        let why = Error::corruption(&place.dir, 0, None);
        return damaged(place, home, settings, all, why, report);
    }
    match assemble(
        place,
        home,
        settings,
        all.clone(),
        names.useless,
        again,
        report,
    ) {
        Err(e) if e.is_corruption() => damaged(place, home, settings, all, e, report),
        result => result,
    }
}

/// Nothing is there, or something that is no directory.
pub(super) fn is_no_directory(e: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    matches!(e.kind(), NotFound | NotADirectory)
}

fn list(place: &Place, home: &Home) -> Result<Names> {
    let entries = home
        .ground
        .storage
        .read_dir(&place.dir)
        .map_err(|e| Error::io("list", &place.dir, e))?;
    let (mut names, mut indexes) = (Names::default(), Vec::new());
    for entry in entries {
        let index = names::parse_index_name(&entry.name).filter(|_| entry.kind == Kind::File);
        indexes.extend(index);
        let ours = entry.name == names::MANIFEST || index.is_some();
        match names::parse_segment_name(&entry.name) {
            Some(name) => names.segments.push(name),
            None if ours && entry.kind == Kind::File => {}
            None if entry.name == "MANIFEST.tmp" => {
                names.useless.push(place.dir.join("MANIFEST.tmp"));
            }
            None => names.unknown += 1,
        }
    }
    names.segments.sort_unstable();
    indexes.retain(|name| names.segments.binary_search(name).is_err());
    let path = |(base, generation)| place.dir.join(names::index_name(base, generation));
    names.useless.extend(indexes.into_iter().map(path));
    Ok(names)
}

impl Found {
    /// A failed write-back took records that readers saw, below `visible`: none of their offsets is given to another record.
    pub(crate) fn spare_below(&mut self, visible: u64, place: &Place, report: &mut RecoveryReport) {
        let (Health::Sound, true) = (&self.health, self.next < visible) else {
            return;
        };
        let last = match &self.rear {
            Rear::Resting { segment, .. } | Rear::Closed(Some(segment)) => Some(segment),
            _ => None,
        };
        let to = last.map_or(visible, |segment| segment.span_end().max(visible));
        report.add(damage::gap(place, self.next, to));
        self.segments.gap_from.get_or_insert(self.next);
        self.next = to;
        self.work.get_or_insert_default().gap = Some(to);
    }

    fn unused(settings: &Settings) -> Found {
        Found {
            segments: Segments::default(),
            rear: Rear::Closed(None),
            next: settings.first_offset,
            durable: settings.first_offset,
            last_append: 0,
            health: Health::Sound,
            work: None,
            manifest: Stored::default(),
        }
    }
}

/// A directory without its `USED` bit: a first append that did not get so far, if it holds nothing but a header.
fn unused(
    place: &Place,
    home: &Home,
    settings: &Settings,
    names: &Names,
    report: &mut RecoveryReport,
) -> Result<Found> {
    for &(base, generation) in &names.segments {
        let slot = Slot::named(place, base, generation);
        let file = home
            .ground
            .storage
            .open(&slot.path, crate::io::OpenMode::Read);
        let len = file
            .and_then(|file| file.len())
            .map_err(|e| Error::io("open", &slot.path, e))?;
        if len > SEGMENT_HEADER_LEN as u64 || base != settings.first_offset {
            let all = names
                .segments
                .iter()
                .map(|&(base, generation)| Arc::new(Slot::named(place, base, generation)));
            let why = Error::corruption(&slot.path, SEGMENT_HEADER_LEN as u64, None);
            return damaged(place, home, settings, all.collect(), why, report);
        }
    }
    Ok(Found::unused(settings))
}

/// Steps 4 to 8 for a partition that has been used.
fn assemble(
    place: &Place,
    home: &Home,
    settings: &Settings,
    all: Vec<Arc<Slot>>,
    useless: Vec<PathBuf>,
    again: Option<Again>,
    report: &mut RecoveryReport,
) -> Result<Found> {
    let manifest = manifest::read(&home.ground, place)?;
    if manifest.lost_slot {
        let mut finding = Finding::new(FindingKind::LostSlot);
        finding.at = Some(place.at.clone());
        finding.file = Some(manifest::path(place));
        report.add(finding);
    }
    let point = home.evidence.point(place.topic, place.at.partition().get());
    if point
        .as_ref()
        .is_some_and(|point| point.manifest_generation > manifest.generation)
    {
        return Err(Error::corruption(&manifest::path(place), 0, None));
    }
    let (mut slots, mut leftovers) = choose(place, home, &manifest, all)?;
    leftovers.extend(useless);
    let remade = drop_unborn(home, place, &mut slots)?;
    check_start(home, place, settings, &slots, manifest.manifest.log_start)?;
    let segments = Segments {
        slots,
        log_start: manifest.manifest.log_start,
        ..Segments::default()
    };
    let known = classify::Known {
        clean: again.is_none() && home.evidence.clean(),
        remade,
        again,
    };
    let verdict = classify::last_segment(place, home, settings, &segments, &known, report)?;
    let settled = point.map_or(0, |point| point.manifest_generation);
    let left = Work {
        leftovers,
        settle: !known.clean && manifest.generation > settled,
        ..Work::default()
    };
    Ok(found(verdict, segments, manifest, left))
}

fn found(verdict: Verdict, mut segments: Segments, manifest: Stored, left: Work) -> Found {
    segments.gap_from = verdict.gap_from;
    let work = Work {
        leftovers: left.leftovers,
        settle: left.settle,
        ..verdict.work.unwrap_or_default()
    };
    let work = Some(work).filter(|work| *work != Work::default());
    Found {
        segments,
        rear: verdict.rear,
        next: verdict.next,
        durable: verdict.durable,
        last_append: verdict.last_append,
        health: verdict.health,
        work,
        manifest,
    }
}

/// Step 4: which of the names are live, and which are left over from a replacement that did not finish, or that did.
fn choose(
    place: &Place,
    home: &Home,
    stored: &Stored,
    all: Vec<Arc<Slot>>,
) -> Result<(Vec<Arc<Slot>>, Vec<PathBuf>)> {
    let manifest = &stored.manifest;
    let replaced = |slot: &Slot| {
        manifest
            .swap
            .as_ref()
            .is_some_and(|swap| swap.replaced.contains(&(slot.base, slot.generation)))
    };
    let (above, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|slot| {
        slot.generation > manifest.highest_generation && !planted!(LEFTOVER_REUSED)
    });
    let (gone, live): (Vec<_>, Vec<_>) = rest.into_iter().partition(|slot| replaced(slot));
    // A segment lies wholly below the log start if one that follows it begins there or before. Looked at first: what the log start
    // left behind is neither missed nor one too many.
    let floor = live.iter().map(|slot| slot.base);
    let floor = floor.filter(|&base| base <= manifest.log_start).max();
    let below = |base: u64| floor.is_some_and(|floor| base < floor);
    let (past, live): (Vec<_>, Vec<_>) = live.into_iter().partition(|slot| below(slot.base));
    if let Some(swap) = &manifest.swap
        && !below(swap.live.0)
        && !live
            .iter()
            .any(|slot| (slot.base, slot.generation) == swap.live)
    {
        return Err(Error::corruption(
            &Slot::named(place, swap.live.0, swap.live.1).path,
            0,
            None,
        ));
    }
    for slot in above.iter().filter(|slot| !below(slot.base)) {
        if !planted!(LEFTOVER_REMOVED_UNCOVERED) && !covered(home, place, slot, &live)? {
            return Err(Error::corruption(&slot.path, 0, None));
        }
    }
    if let Some(pair) = live.windows(2).find(|pair| pair[0].base == pair[1].base) {
        return Err(Error::corruption(&pair[1].path, 0, None));
    }
    let leftovers = above.iter().chain(&gone).chain(&past);
    let leftovers = leftovers.map(|slot| slot.path.clone()).collect();
    Ok((live, leftovers))
}

/// Do the files that stay hold the offsets of this one?
fn covered(home: &Home, place: &Place, slot: &Slot, live: &[Arc<Slot>]) -> Result<bool> {
    let Some(below) = live.iter().rposition(|other| other.base <= slot.base) else {
        return Ok(false);
    };
    let Some(end) = end_of(home, place, slot)?.filter(|&end| end > slot.base) else {
        return Ok(true); // unfinished, or without a record: nothing is lost with it
    };
    let mut reach = slot.base;
    for other in &live[below..] {
        if other.base > reach {
            break; // what lies between is in this one alone
        }
        reach = reach.max(end_of(home, place, other)?.unwrap_or(other.base));
    }
    Ok(reach >= end)
}

/// The offset at which a segment ends, by its footer or else by its batches; `None` if not even its header can be used.
fn end_of(home: &Home, place: &Place, slot: &Slot) -> Result<Option<u64>> {
    let times = crate::entry::TimestampType::EventTime;
    let look = Slot::named(place, slot.base, slot.generation); // nothing of this look is kept
    match look.open_sealed(&home.ground, place, home.log, times) {
        Ok(segment) => Ok(segment.seal().map(|seal| seal.footer.next_base)),
        Err(e) if e.is_corruption() => damage::readable_end(home, place, slot),
        Err(e) => Err(e),
    }
}

/// A last file whose header is not whole and that holds nothing: the roll that made it did not finish. It is made anew.
fn drop_unborn(home: &Home, place: &Place, slots: &mut Vec<Arc<Slot>>) -> Result<bool> {
    let Some(last) = slots.last() else {
        return Ok(false);
    };
    let file = match home
        .ground
        .storage
        .open(&last.path, crate::io::OpenMode::Read)
    {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::InvalidInput => {
            return Err(Error::corruption(&last.path, 0, None));
        }
        Err(e) => return Err(Error::io("open", &last.path, e)),
    };
    let len = file.len().map_err(|e| Error::io("read", &last.path, e))?;
    match read_header(&*file, last, place, home.log) {
        Err(e) if e.is_corruption() && len <= SEGMENT_HEADER_LEN as u64 => {
            slots.pop();
            Ok(true)
        }
        Err(e) => Err(e),
        Ok(_) => Ok(false),
    }
}

/// Step 5: the first segment, and that the one before the last is sealed and linked to it.
fn check_start(
    home: &Home,
    place: &Place,
    settings: &Settings,
    slots: &[Arc<Slot>],
    log_start: u64,
) -> Result<()> {
    let Some(first) = slots.first() else {
        return Ok(());
    };
    let header = header_of(home, place, first)?;
    if header.expected > log_start {
        let lost = super::segments::lost(&place.at, log_start, first.base);
        return Err(Error::corruption(&first.path, 0, lost));
    }
    if let [.., before, last] = slots {
        let before = before.open_sealed(&home.ground, place, home.log, settings.timestamps)?;
        let header = header_of(home, place, last)?;
        let path = last.path.clone();
        let segment = Segment::new(
            place.at.clone(),
            header,
            SEGMENT_HEADER_LEN as u64,
            path,
            settings.timestamps,
            None,
        );
        if !follows(&segment, &before) {
            return Err(Error::corruption(&last.path, 0, None));
        }
    }
    Ok(())
}

pub(super) fn header_of(
    home: &Home,
    place: &Place,
    slot: &Slot,
) -> Result<crate::format::segment::SegmentHeader> {
    let file = match home
        .ground
        .storage
        .open(&slot.path, crate::io::OpenMode::Read)
    {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::InvalidInput => {
            return Err(Error::corruption(&slot.path, 0, None));
        }
        Err(e) => return Err(Error::io("open", &slot.path, e)),
    };
    read_header(&*file, slot, place, home.log)
}
