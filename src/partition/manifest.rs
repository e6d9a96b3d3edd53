//! What was removed or replaced in a partition: absent until something was.

use std::path::PathBuf;

use super::place::Place;
use crate::error::{Error, Result};
use crate::format::names;
use crate::format::root::{Manifest, Swap};
use crate::format::slots::SlotFile;
use crate::segment::Ground;
use crate::slotted::SlottedFile;

/// The manifest as it is on disk.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    pub(crate) manifest: Manifest,
    /// 0: there is none.
    pub(crate) generation: u64,
    /// One of its two copies could not be read.
    pub(crate) lost_slot: bool,
    file: Option<SlottedFile>,
    /// Files, by base and generation, that may still be there although others took their place, or that never became live.
    pub(crate) debris: Vec<SegmentName>,
    /// The one that is being made, and not live yet.
    pub(crate) making: Option<SegmentName>,
    /// No name with a greater generation was ever given to a file that this process made.
    given: u32,
}

/// Base and generation.
pub(crate) type SegmentName = (u64, u32);

impl Stored {
    /// A generation above every one that was live, or stands in the directory: no name that was live is used again.
    pub(crate) fn next_generation(&mut self, ground: &Ground, place: &Place) -> Result<u32> {
        let dir = &place.dir;
        let entries = ground.storage.read_dir(dir);
        let entries = entries.map_err(|e| Error::io("list", dir, e))?;
        let names = entries
            .iter()
            .filter_map(|entry| names::parse_segment_name(&entry.name));
        let highest = names.map(|(_, generation)| generation).max().unwrap_or(0);
        let highest = highest
            .max(self.manifest.highest_generation)
            .max(self.given);
        self.given = highest.checked_add(1).ok_or(Error::LimitExceeded {
            setting: "generation",
            limit: u64::from(u32::MAX),
        })?;
        Ok(self.given)
    }
}

pub(crate) fn path(place: &Place) -> PathBuf {
    place.dir.join(names::MANIFEST)
}

pub(crate) fn read(ground: &Ground, place: &Place) -> Result<Stored> {
    let path = path(place);
    let Some((file, slotted)) = SlottedFile::open(&*ground.storage, &path, SlotFile::Manifest)?
    else {
        return Ok(Stored::default());
    };
    let manifest =
        Manifest::decode(&slotted.payload).map_err(|_| Error::corruption(&path, 0, None))?;
    Ok(Stored {
        manifest,
        generation: slotted.generation,
        lost_slot: slotted.bad_other,
        file: Some(file),
        ..Stored::default()
    })
}

/// An earlier process may have left the manifest in the cache alone: it is durable when this returns.
pub(crate) fn settle(ground: &Ground, stored: &mut Stored) -> Result<()> {
    match &mut stored.file {
        Some(file) => file.settle(&*ground.storage),
        None => Ok(()),
    }
}

/// Makes `manifest` the truth: durable when this returns.
pub(crate) fn write(
    ground: &Ground,
    place: &Place,
    stored: &mut Stored,
    manifest: Manifest,
) -> Result<()> {
    let (storage, payload) = (&*ground.storage, manifest.encode());
    let file = match &mut stored.file {
        Some(file) => {
            file.write(storage, &payload)?;
            file
        }
        none => none.insert(SlottedFile::create(
            storage,
            &path(place),
            SlotFile::Manifest,
            &payload,
        )?),
    };
    stored.generation = file.generation();
    stored.manifest = manifest;
    Ok(())
}

/// From now on `live` has the place of `replaced`: durable when this returns. The directory was synced since the last removal.
///
/// Raising the highest generation would make live what else lies around below it, so all of that is named as replaced too.
pub(crate) fn swap(
    ground: &Ground,
    place: &Place,
    stored: &mut Stored,
    replaced: &[SegmentName],
    live: SegmentName,
) -> Result<()> {
    let mut manifest = stored.manifest.clone();
    manifest.highest_generation = manifest.highest_generation.max(live.1);
    let mut names = replaced.to_vec();
    names.extend(&stored.debris);
    names.extend(stored.making.filter(|&making| making != live));
    manifest.swap = Some(Swap {
        replaced: names,
        live,
    });
    write(ground, place, stored, manifest)?;
    stored.debris.extend(replaced);
    if stored.making == Some(live) {
        stored.making = None;
    }
    Ok(())
}
