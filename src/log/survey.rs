//! A look over the directory of a log before anything is opened: what is there, what was left over, what is none of ours.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::names;
use crate::format::segment::{SEGMENT_HEADER_LEN, SegmentHeader};
use crate::io::{DirEntry, Kind, OpenMode, Storage, read_full};
use crate::partition::report::{Finding, FindingKind, RecoveryReport};
use crate::slotted::remove_if_there;

use super::config;
use super::root::sync_dir;

/// What a look over the directories found besides the topics of the catalogue.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Files that were never finished, and topics that never came to be: to be removed.
    pub(super) leftovers: Vec<(PathBuf, DirEntry)>,
    /// Topics with records that no catalogue names.
    pub(super) orphans: Vec<PathBuf>,
    unknown: u64,
    first_unknown: Option<PathBuf>,
}

/// What stands directly in the root.
const IN_ROOT: [&str; 8] = [
    names::LOCK,
    names::FORMAT,
    names::STATE,
    names::CATALOGUE,
    names::LEDGER,
    names::JOURNAL,
    names::QUARANTINE,
    names::TOPICS,
];

impl Survey {
    /// `topics` are the directories of the topics in the catalogue, with the number of partitions of each where it is known;
    /// `going` those of the topics that are being deleted.
    pub(super) fn of(
        storage: &dyn Storage,
        root: &Path,
        topics: &[(PathBuf, Option<u32>)],
        going: &[PathBuf],
    ) -> Result<Survey> {
        let mut survey = Survey::default();
        for entry in list(storage, root)? {
            if !IN_ROOT.iter().any(|name| entry.name == *name) {
                survey.file(root, entry, &IN_ROOT);
            }
        }
        let known: HashSet<&Path> = topics.iter().map(|(dir, _)| dir.as_path()).collect();
        let dir = root.join(names::TOPICS);
        for entry in list(storage, &dir)? {
            let path = dir.join(&entry.name);
            if going.contains(&path) {
                continue; // its deletion is finished elsewhere
            }
            match names::parse_topic_dir(&entry.name).filter(|_| entry.kind == Kind::Dir) {
                Some(false) if known.contains(path.as_path()) => {}
                Some(false) if !is_unborn(storage, &path)? => survey.orphans.push(path),
                Some(_) => survey.leftovers.push((dir.clone(), entry)),
                None => survey.unknown(path),
            }
        }
        for (dir, partitions) in topics {
            survey.topic(storage, dir, *partitions)?;
        }
        survey.topic(storage, &root.join(names::LEDGER), Some(1))?;
        Ok(survey)
    }

    fn topic(&mut self, storage: &dyn Storage, dir: &Path, partitions: Option<u32>) -> Result<()> {
        for entry in list(storage, dir)? {
            let partition =
                names::parse_partition_dir(&entry.name).filter(|_| entry.kind == Kind::Dir);
            let ours =
                partition.is_some_and(|number| partitions.is_none_or(|count| number < count));
            if !ours && entry.name != names::CONFIG {
                self.file(dir, entry, &[names::CONFIG]);
            }
        }
        Ok(())
    }

    /// A name that is not one of `finished`: one of them in the making, or none of ours.
    fn file(&mut self, dir: &Path, entry: DirEntry, finished: &[&str]) {
        let making = |name: &&str| entry.name == OsString::from(format!("{name}{}", names::TMP));
        if entry.kind == Kind::File && finished.iter().any(making) {
            self.leftovers.push((dir.to_owned(), entry));
        } else {
            self.unknown(dir.join(entry.name));
        }
    }

    fn unknown(&mut self, path: PathBuf) {
        self.unknown += 1;
        self.first_unknown.get_or_insert(path);
    }

    /// Says what was found, once.
    pub(super) fn report(&self, report: &mut RecoveryReport) {
        if let Some(first) = &self.first_unknown {
            let mut finding = Finding::new(FindingKind::UnknownFiles);
            finding.file = Some(first.clone());
            finding.bytes = self.unknown;
            report.add(finding);
        }
        for orphan in &self.orphans {
            let mut finding = Finding::new(FindingKind::Damaged);
            finding.file = Some(orphan.clone());
            report.add(finding);
        }
    }

    /// Removes the leftovers. What cannot be removed now stays for the next opening; it is in nobody's way.
    pub(super) fn clean_up(&self, storage: &dyn Storage) {
        for (dir, entry) in &self.leftovers {
            let removed = remove(storage, dir, entry);
            let _ = removed.and_then(|()| sync_dir(storage, dir));
        }
    }
}

/// A topic's directory that no catalogue names: was it never finished? Then it holds a description, no partition used.
/// Anything else is a topic that the catalogue lost, and is kept.
fn is_unborn(storage: &dyn Storage, dir: &Path) -> Result<bool> {
    let making = format!("{}{}", names::CONFIG, names::TMP);
    let only_config = list(storage, dir)?
        .iter()
        .all(|entry| entry.name == names::CONFIG || entry.name == *making);
    if !only_config {
        return Ok(false);
    }
    match config::read(storage, dir) {
        Ok(read) => Ok(!read.stored.used.contains(&true)),
        Err(e) if e.is_corruption() => Ok(list(storage, dir)?
            .iter()
            .all(|entry| entry.name != names::CONFIG)),
        Err(e) => Err(e),
    }
}

/// Removes a file, or a directory with all that is in it. A link goes, and not what it leads to.
pub(super) fn remove(storage: &dyn Storage, dir: &Path, entry: &DirEntry) -> Result<()> {
    let path = dir.join(&entry.name);
    if entry.kind != Kind::Dir {
        return remove_if_there(storage, &path);
    }
    for inner in list(storage, &path)? {
        remove(storage, &path, &inner)?;
    }
    storage
        .remove_dir(&path)
        .map_err(|e| Error::io("remove", &path, e))
}

/// The names in a directory; one that is not there has none. (Whether it should be is for others to say.)
pub(super) fn list(storage: &dyn Storage, dir: &Path) -> Result<Vec<DirEntry>> {
    match storage.read_dir(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.map_err(|e| Error::io("list", dir, e)),
    }
}

/// The last segment of every partition below `topic_dirs`.
pub(super) struct Lasts {
    /// The greatest opening that any of them names.
    pub(super) open_number: u64,
    /// Bytes in those of each directory.
    pub(super) bytes: Vec<u64>,
}

impl Lasts {
    /// Looks at them. What does not decode is passed over here: it is judged when its partition is opened.
    pub(super) fn of<'d>(
        storage: &dyn Storage,
        topic_dirs: impl Iterator<Item = &'d Path>,
    ) -> Result<Lasts> {
        let mut lasts = Lasts {
            open_number: 0,
            bytes: Vec::new(),
        };
        for dir in topic_dirs {
            lasts.bytes.push(0);
            for entry in list(storage, dir)? {
                if names::parse_partition_dir(&entry.name).is_some() && entry.kind == Kind::Dir {
                    lasts.take(storage, &dir.join(entry.name))?;
                }
            }
        }
        Ok(lasts)
    }

    fn take(&mut self, storage: &dyn Storage, dir: &Path) -> Result<()> {
        let segments = list(storage, dir)?;
        let last = segments
            .iter()
            .filter_map(|entry| names::parse_segment_name(&entry.name))
            .max();
        let Some((base, generation)) = last else {
            return Ok(());
        };
        let path = dir.join(names::segment_name(base, generation));
        let io = |e| Error::io("read", &path, e);
        let file = storage.open(&path, OpenMode::Read).map_err(io)?;
        let mut header = [0; SEGMENT_HEADER_LEN];
        let read = read_full(&*file, &mut header, 0).map_err(io)?;
        if let Ok((header, _)) = SegmentHeader::decode(header.get(..read).unwrap_or_default()) {
            self.open_number = self.open_number.max(header.open_number);
        }
        if let Some(bytes) = self.bytes.last_mut() {
            *bytes += file.len().map_err(io)?;
        }
        Ok(())
    }
}
