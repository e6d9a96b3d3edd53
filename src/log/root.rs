//! The directory of a log: found or made, locked, and known by its `FORMAT`.
//!
//! A new log is made from the inside out, and `FORMAT` comes last: a directory without it holds no log yet, and an
//! interrupted creation is simply done again. A directory that lost its `FORMAT` looks different, and is left alone.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::evidence::Here;
use super::held::Held;
use super::ledger;
use crate::error::{Error, Result};
use crate::format::names;
use crate::format::root::{Catalogue, FormatFile};
use crate::format::slots::SlotFile;
use crate::io::{Kind, Storage};
use crate::slotted::{SlottedFile, bad_content};

/// Required features that this version can deal with: none is in use yet.
const SUPPORTED: u64 = 0;

/// Does an opening write?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Write,
    ReadOnly,
}

/// A directory that holds a log.
pub(super) struct Root {
    pub(super) storage: Arc<dyn Storage>,
    /// Absolute and without links, so that a change of the working directory changes nothing.
    pub(super) dir: PathBuf,
    pub(super) held: Arc<Held>,
    /// Identity of the log.
    pub(super) log: u128,
    pub(super) here: Here,
    /// One slot of `FORMAT` could not be read.
    pub(super) lost_slot: bool,
}

impl Root {
    /// Finds, locks and identifies the log at `path`; makes one if there is none.
    pub(super) fn open(
        storage: Arc<dyn Storage>,
        path: &Path,
        access: Access,
        allow_world_writable: bool,
    ) -> Result<Root> {
        let write = access == Access::Write;
        let dir = storage.resolve(path, write).map_err(|e| {
            if !write && e.kind() == ErrorKind::NotFound {
                Error::not_found("log", &path.to_string_lossy())
            } else {
                Error::io("open", path, e)
            }
        })?;
        let writable = storage
            .world_writable(&dir)
            .map_err(|e| Error::io("open", &dir, e))?;
        if write && writable && !allow_world_writable {
            return Err(Error::invalid(
                "allow_world_writable",
                format!(
                    "everybody may write to {}: change its mode, or allow it",
                    dir.display()
                ),
            ));
        }
        let held = if write && !planted!(LOCK_AFTER_RECOVERY) {
            Held::take(&*storage, &dir)?
        } else {
            Held::read_only(&dir)
        };
        let path = dir.join(names::FORMAT);
        let slotted = match SlottedFile::read(&*storage, &path, SlotFile::Format)? {
            Some(slotted) => slotted,
            None if !write => return Err(Error::not_found("log", &dir.to_string_lossy())),
            None => {
                create(&*storage, &dir)?;
                SlottedFile::read(&*storage, &path, SlotFile::Format)?
                    .ok_or_else(|| Error::corruption(&path, 0, None))?
            }
        };
        let format = FormatFile::decode(&slotted.payload, SUPPORTED)
            .map_err(|bad| bad_content(&path, bad))?;
        let identity = storage
            .identity(&path)
            .map_err(|e| Error::io("identify", &path, e))?;
        let here = Here {
            boot: storage.boot_id(),
            identity: (identity.device, identity.inode, identity.born),
        };
        Ok(Root {
            storage,
            dir,
            held,
            log: format.log,
            here,
            lost_slot: slotted.bad_other,
        })
    }
}

/// Makes a log. The numbered steps are crash points; each does nothing if an interrupted creation did it.
fn create(storage: &dyn Storage, dir: &Path) -> Result<()> {
    check_unborn(storage, dir)?;
    // 1. The catalogue, of no topics.
    let catalogue = dir.join(names::CATALOGUE);
    if SlottedFile::read(storage, &catalogue, SlotFile::Catalogue)?.is_none() {
        SlottedFile::create(
            storage,
            &catalogue,
            SlotFile::Catalogue,
            &Catalogue::default().encode(),
        )?;
    }
    // 2. The directories.
    for name in [names::TOPICS, names::LEDGER] {
        create_dir(storage, &dir.join(name))?;
    }
    sync_dir(storage, dir)?;
    // 3. The ledger's description: from here on an absent one is a loss.
    let config = dir.join(names::LEDGER).join(names::CONFIG);
    if SlottedFile::read(storage, &config, SlotFile::TopicConfig)?.is_none() {
        SlottedFile::create(
            storage,
            &config,
            SlotFile::TopicConfig,
            &ledger::description().encode(),
        )?;
    }
    sync_dir(storage, &dir.join(names::LEDGER))?; // an interrupted creation may have made it, and not got so far
    // 4. The directory's own name, as far up as this process may say.
    for parent in dir.ancestors().skip(1) {
        match storage.sync_dir(parent) {
            Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => break,
            synced => synced.map_err(|e| Error::io("sync", parent, e))?,
        }
    }
    // 5. `FORMAT`: now it is a log.
    let format = FormatFile {
        major: crate::format::MAJOR,
        required: 0,
        optional: 0,
        log: storage.random(),
    };
    SlottedFile::create(
        storage,
        &dir.join(names::FORMAT),
        SlotFile::Format,
        &format.encode(),
    )?;
    Ok(())
}

/// Without `FORMAT` there may be what [`create`] makes before it, and nothing that only a finished log has.
fn check_unborn(storage: &dyn Storage, dir: &Path) -> Result<()> {
    let lost = || Err(Error::corruption(&dir.join(names::FORMAT), 0, None));
    let list = |dir: &Path| match storage.read_dir(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.map_err(|e| Error::io("list", dir, e)),
    };
    let finished = [names::STATE, names::JOURNAL, names::QUARANTINE];
    if list(dir)?
        .iter()
        .any(|entry| finished.iter().any(|name| entry.name == *name))
    {
        return lost();
    }
    let in_ledger = list(&dir.join(names::LEDGER))?;
    if !list(&dir.join(names::TOPICS))?.is_empty()
        || in_ledger.iter().any(|entry| entry.kind == Kind::Dir)
    {
        return lost();
    }
    let catalogue = dir.join(names::CATALOGUE);
    if let Some(slotted) = SlottedFile::read(storage, &catalogue, SlotFile::Catalogue)? {
        let decoded =
            Catalogue::decode(&slotted.payload).map_err(|bad| bad_content(&catalogue, bad))?;
        if !decoded.entries.is_empty() {
            return lost();
        }
    }
    Ok(())
}

/// Makes a directory; that it is there is fine.
pub(super) fn create_dir(storage: &dyn Storage, dir: &Path) -> Result<()> {
    match storage.create_dir(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => Err(Error::io("create", dir, e)),
        _ => Ok(()),
    }
}

pub(super) fn sync_dir(storage: &dyn Storage, dir: &Path) -> Result<()> {
    storage.sync_dir(dir).map_err(|e| Error::io("sync", dir, e))
}
