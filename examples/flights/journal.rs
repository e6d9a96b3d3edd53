//! The outside world of a group: a file that notes what the group handled and when it committed, for the parent to check afterwards.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use thalweg::{BoxError, EntryRef, Result};

use crate::child::journal_path;

/// The line that says: everything above was committed.
const COMMITTED: &str = "committed";

/// One group in one life, while it runs. One line per record: partition, offset, row of the CSV.
pub(crate) struct Journal {
    file: File,
    lines: String,
}

impl Journal {
    pub(crate) fn create(dir: &Path, group: &str, life: u32) -> Result<Self, BoxError> {
        Ok(Journal {
            file: File::create(journal_path(dir, group, life))?,
            lines: String::new(),
        })
    }

    pub(crate) fn handled(&mut self, entry: EntryRef<'_>, row: usize) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.lines,
            "{} {} {row}",
            entry.partition().get(),
            entry.offset().get()
        );
    }

    /// Hands what was noted to the operating system, where it survives a kill.
    pub(crate) fn write(&mut self) -> Result<(), BoxError> {
        self.file.write_all(self.lines.as_bytes())?;
        self.lines.clear();
        Ok(())
    }

    /// To be called after a commit returned `Ok`.
    pub(crate) fn committed(&mut self) -> Result<(), BoxError> {
        self.lines.push_str(COMMITTED);
        self.lines.push('\n');
        self.write()
    }
}

/// A record that was handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handled {
    pub(crate) partition: u32,
    pub(crate) offset: u64,
    pub(crate) row: usize,
}

/// What one group did in one life, in order.
#[derive(Debug, Default)]
pub(crate) struct Life {
    pub(crate) handled: Vec<Handled>,
    /// So many of them lie before the last commit.
    pub(crate) committed: usize,
}

impl Life {
    /// Reads a journal back. A kill may have torn its last line: such a record counts as not handled.
    pub(crate) fn read(dir: &Path, group: &str, life: u32) -> Result<Self, BoxError> {
        let text = match fs::read_to_string(journal_path(dir, group, life)) {
            Err(e) if e.kind() == ErrorKind::NotFound => String::new(), // killed before it began
            text => text?,
        };
        let whole_lines = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut life = Life::default();
        for line in whole_lines.lines() {
            if line == COMMITTED {
                life.committed = life.handled.len();
            } else {
                life.handled.push(
                    parse_handled(line)
                        .ok_or_else(|| format!("not a line of a journal: {line}"))?,
                );
            }
        }
        Ok(life)
    }
}

fn parse_handled(line: &str) -> Option<Handled> {
    let mut fields = line.split(' ');
    let mut field = || fields.next();
    Some(Handled {
        partition: field()?.parse().ok()?,
        offset: field()?.parse().ok()?,
        row: field()?.parse().ok()?,
    })
}
