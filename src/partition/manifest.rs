//! What was removed or replaced in a partition: absent until something was.

use std::path::PathBuf;

use super::place::Place;
use crate::error::{Error, Result};
use crate::format::names;
use crate::format::root::Manifest;
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
