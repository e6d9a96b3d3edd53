//! The oldest records go: by hand, or by the retention of their topic; and which files have to go with them.

use std::path::{Path, PathBuf};

use thalweg::{Offset, Result};

use super::{Key, World, valid};

impl World {
    /// Forgets all but the newest offsets.
    pub(super) fn trim(&mut self, key: Key, keep: u64) -> Result<()> {
        self.trims = true;
        let partition = self.partition(key)?;
        let start = partition.offsets().end.get().saturating_sub(keep);
        let began = self.disk.points();
        partition.delete_before(Offset::new(start))?;
        let acked = self.disk.points();
        self.tally(key).trimmed(start, began, acked);
        Ok(())
    }

    /// One pass, and what went by it.
    pub(super) fn maintain(&mut self) -> Result<()> {
        let log = self.log()?;
        let began = self.disk.points();
        log.maintain()?;
        let acked = self.disk.points();
        for (key, tally) in &mut self.tallies {
            let partition = log.topic(key.0)?.partition(key.1)?;
            tally.trimmed(valid(&partition).start, began, acked);
        }
        Ok(())
    }

    /// Does this file hold only what a partition has forgotten? `beside`: the files that were there with it.
    pub(crate) fn is_forgotten<'f>(
        &self,
        path: &Path,
        beside: impl IntoIterator<Item = &'f PathBuf>,
    ) -> bool {
        let (Some(base), Some(dir)) = (base_of(path), path.parent()) else {
            return false;
        };
        let here = |key: &&Key| {
            let prefix = format!("/log/topics/{}-", key.0);
            dir.ends_with(key.1.to_string()) && dir.to_string_lossy().starts_with(&prefix)
        };
        let Some(key) = self.tallies.keys().find(here) else {
            return false;
        };
        let start = self.tallies[key].start();
        let mut beside = beside
            .into_iter()
            .filter(|other| other.parent() == Some(dir));
        beside.any(|other| base_of(other).is_some_and(|other| base < other && other <= start))
    }

    /// Segment files that nothing needs any more.
    pub(crate) fn leftovers(&self) -> Vec<PathBuf> {
        let files = self.disk.files().into_iter().map(|(path, _)| path);
        let files: Vec<PathBuf> = files.collect();
        let left = files.iter().filter(|path| self.is_forgotten(path, &files));
        left.cloned().collect()
    }
}

/// The first offset of a segment file, by its name.
fn base_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?.strip_suffix(".log")?;
    name.split_once('-')?.0.parse().ok()
}
