//! The outside world of a group: files that note what was handled and when it was committed, for the parent to check afterwards.
//!
//! There is one file per partition and life, to which the member that owns the partition appends. A partition has one owner at a
//! time, who notes what it did before it polls again: so the lines stand in the order in which things happened, whoever wrote them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use thalweg::{BoxError, EntryRef, PartitionId, Positions, Result};

use crate::child::{Job, journal_path};

/// What begins a line that says: the group has committed up to here.
const COMMITTED: &str = "committed";

/// What one member of a group notes in one life.
pub(crate) struct Journal<'j> {
    job: &'j Job,
    group: &'static str,
    member: usize,
    pages: BTreeMap<PartitionId, Page>,
}

/// The file of one partition, and lines that are not in it yet.
struct Page {
    file: File,
    lines: String,
}

impl<'j> Journal<'j> {
    pub(crate) fn new(job: &'j Job, group: &'static str, member: usize) -> Self {
        Journal {
            job,
            group,
            member,
            pages: BTreeMap::new(),
        }
    }

    pub(crate) fn handled(&mut self, entry: EntryRef<'_>, row: usize) -> Result<(), BoxError> {
        let (member, offset) = (self.member, entry.offset());
        let page = self.page(entry.partition())?;
        Ok(writeln!(page.lines, "{member} {offset} {row}")?)
    }

    /// To be called after a commit of these positions returned `Ok`.
    pub(crate) fn committed(&mut self, next: &Positions) -> Result<(), BoxError> {
        for position in next {
            let page = self.page(position.partition())?;
            writeln!(page.lines, "{COMMITTED} {}", position.offset())?;
        }
        self.write()
    }

    /// Hands what was noted to the operating system, where it survives a kill.
    pub(crate) fn write(&mut self) -> Result<(), BoxError> {
        for page in self.pages.values_mut() {
            page.file.write_all(page.lines.as_bytes())?;
            page.lines.clear();
        }
        Ok(())
    }

    fn page(&mut self, of: PartitionId) -> Result<&mut Page, BoxError> {
        let Journal { job, group, .. } = self;
        match self.pages.entry(of) {
            Entry::Occupied(page) => Ok(page.into_mut()),
            Entry::Vacant(none) => {
                let path = journal_path(&job.dir, group, of.get(), job.life);
                let file = File::options().append(true).create(true).open(path)?;
                let lines = String::new();
                Ok(none.insert(Page { file, lines }))
            }
        }
    }
}

/// A line of a journal, read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Handled {
        member: usize,
        offset: u64,
        row: usize,
    },
    /// Everything below this offset.
    Committed { next: u64 },
}

/// What was noted of one partition in one life, in order. A kill may have torn the last line: it counts as not written.
pub(crate) fn read(
    dir: &Path,
    group: &str,
    partition: u32,
    life: u32,
) -> Result<Vec<Line>, BoxError> {
    let text = match fs::read_to_string(journal_path(dir, group, partition, life)) {
        Err(e) if e.kind() == ErrorKind::NotFound => String::new(), // killed before it began
        text => text?,
    };
    let whole_lines = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole_lines.lines().map(|line| {
        parse(line).ok_or_else(|| BoxError::from(format!("not a line of a journal: {line}")))
    });
    lines.collect()
}

fn parse(line: &str) -> Option<Line> {
    let (first, rest) = line.split_once(' ')?;
    if first == COMMITTED {
        let next = rest.parse().ok()?;
        return Some(Line::Committed { next });
    }
    let (offset, row) = rest.split_once(' ')?;
    Some(Line::Handled {
        member: first.parse().ok()?,
        offset: offset.parse().ok()?,
        row: row.parse().ok()?,
    })
}
