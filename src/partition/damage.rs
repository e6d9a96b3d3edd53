//! A partition that cannot be trusted as a whole: what can be read of it is read, nothing is written, and the report says so.

use std::sync::Arc;

use super::examine::{Found, header_of, is_no_directory};
use super::home::Home;
use super::manifest::{self, Stored};
use super::place::Place;
use super::report::{Finding, FindingKind, RecoveryReport};
use super::segments::{Segments, Slot, read_header};
use super::settings::Settings;
use super::writer::{Health, Rear};
use crate::error::{Error, Result};
use crate::format::segment::SEGMENT_HEADER_LEN;
use crate::io::OpenMode;
use crate::offset::Offset;
use crate::segment::{Segment, scan};

/// Offsets that no record will have.
pub(crate) fn gap(place: &Place, from: u64, to: u64) -> Finding {
    let mut finding = Finding::new(FindingKind::Gap);
    finding.at = Some(place.at.clone());
    finding.offsets = Some(Offset::new(from)..Offset::new(to));
    finding
}

/// The offset after the last valid batch of a segment file, damaged or not; `None` if its header cannot be used.
pub(crate) fn readable_end(home: &Home, place: &Place, slot: &Slot) -> Result<Option<u64>> {
    let file = match home.ground.storage.open(&slot.path, OpenMode::Read) {
        Ok(file) => file,
        Err(e)
            if matches!(
                e.kind(),
                std::io::ErrorKind::InvalidInput | std::io::ErrorKind::NotFound
            ) =>
        {
            return Ok(None);
        }
        Err(e) => return Err(Error::io("open", &slot.path, e)),
    };
    let header = match read_header(&*file, slot, place, home.log) {
        Ok(header) => header,
        Err(e) if e.is_corruption() => return Ok(None),
        Err(e) => return Err(e),
    };
    let io = |e| Error::io("read", &slot.path, e);
    let len = file.len().map_err(io)?;
    let mut end = header.base;
    let mut from = SEGMENT_HEADER_LEN as u64;
    while let Some((position, batch)) = scan::next_batch(&*file, &header, from, len).map_err(io)? {
        end = header.base + u64::from(batch.base_delta) + u64::from(batch.last_delta) + 1;
        from = position + batch.total_len();
    }
    Ok(Some(end))
}

pub(crate) fn report_damage(place: &Place, why: &Error, report: &mut RecoveryReport) {
    let mut finding = Finding::new(FindingKind::Damaged);
    finding.at = Some(place.at.clone());
    if let Error::Corruption {
        file, byte, lost, ..
    } = why
    {
        finding.file = Some(file.to_path_buf());
        finding.byte = Some(*byte);
        finding.offsets = lost.as_ref().map(|lost| lost.1.clone());
    }
    report.add(finding);
}

/// Lets readers into the last segment if it has no footer: the way through it is looked for when it is read.
fn show_unsealed(place: &Place, home: &Home, settings: &Settings, slot: &Slot) -> Result<()> {
    let times = settings.timestamps;
    match slot.open_sealed(&home.ground, place, home.log, times) {
        Err(e) if e.is_corruption() => {}
        other => return other.map(drop),
    }
    match header_of(home, place, slot) {
        Ok(header) => {
            let (at, path) = (place.at.clone(), slot.path.clone());
            let header_len = SEGMENT_HEADER_LEN as u64;
            let segment = Segment::new(at, header, header_len, path, times, None);
            slot.show(Arc::new(segment));
            Ok(())
        }
        Err(e) if e.is_corruption() => Ok(()),
        Err(e) => Err(e),
    }
}

/// The partition cannot be trusted as a whole: what can be read is read, and nothing is written.
pub(crate) fn damaged(
    place: &Place,
    home: &Home,
    settings: &Settings,
    slots: Vec<Arc<Slot>>,
    why: Error,
    report: &mut RecoveryReport,
) -> Result<Found> {
    let mut slots = slots;
    slots.dedup_by_key(|slot| slot.base); // of several generations the oldest is shown; a repair chooses
    let known = |point: Option<crate::format::state::Point>| point.map_or(0, |point| point.offset);
    let (topic, partition) = (place.topic, place.at.partition().get());
    let recorded = known(home.evidence.point(topic, partition))
        .max(known(home.evidence.checked(topic, partition)));
    let last = slots
        .last()
        .map(|slot| readable_end(home, place, slot))
        .transpose()?
        .flatten();
    let next = recorded
        .max(last.unwrap_or(0))
        .max(slots.last().map_or(0, |slot| slot.base));
    report_damage(place, &why, report);
    if let Some(slot) = slots.last() {
        show_unsealed(place, home, settings, slot)?;
    }
    // What lies below it was removed in order, as the manifest says; anything else that is not there is missing.
    let log_start = match manifest::read(&home.ground, place) {
        Ok(stored) => stored.manifest.log_start,
        Err(e) if e.is_corruption() => slots.first().map_or(0, |slot| slot.base),
        Err(Error::Io { source, .. }) if is_no_directory(&source) => 0,
        Err(e) => return Err(e),
    };
    Ok(Found {
        segments: Segments {
            slots,
            log_start,
            ..Segments::default()
        },
        rear: Rear::Closed(None),
        next,
        durable: recorded,
        last_append: 0,
        health: Health::Damaged(Arc::new(why)),
        work: None,
        manifest: Stored::default(),
    })
}
