//! What opening a log had to repair, in words and numbers: nothing is cut, skipped or left out in silence.

use std::ops::Range;
use std::path::PathBuf;

use crate::offset::{Offset, TopicPartition};

/// What opening had to repair. Empty after a clean open, unless there are files of somebody else.
#[derive(Clone, Debug, Default)]
pub struct RecoveryReport {
    findings: Vec<Finding>,
}

impl RecoveryReport {
    /// Nothing had to be repaired.
    pub fn is_empty(&self) -> bool {
        self.findings.is_empty()
    }

    /// Everything that was found, in the order in which it was.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    pub(crate) fn add(&mut self, finding: Finding) {
        self.findings.push(finding);
    }
}

/// One thing that opening found and what it did about it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// What it is.
    pub kind: FindingKind,
    /// The partition, where it concerns one.
    pub at: Option<TopicPartition>,
    /// The offsets that are gone, skipped or unreadable, where they are known.
    pub offsets: Option<Range<Offset>>,
    /// How many bytes were cut, or cannot be used; of [`FindingKind::UnknownFiles`], how many files.
    pub bytes: u64,
    /// The file.
    pub file: Option<PathBuf>,
    /// The first bad position in `file`.
    pub byte: Option<u64>,
    /// Where the bytes that are cut off are kept then.
    pub quarantine: Option<PathBuf>,
}

impl Finding {
    pub(crate) fn new(kind: FindingKind) -> Finding {
        Finding {
            kind,
            at: None,
            offsets: None,
            bytes: 0,
            file: None,
            byte: None,
            quarantine: None,
        }
    }
}

/// The kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FindingKind {
    /// An interrupted write at the end of a partition: it is not shown, and cut off before the first write.
    TornTail,
    /// A tail was cut that may have been acknowledged. See `LogBuilder::on_suspect_tail`.
    SuspectTail,
    /// Damage that opening must not decide about: the partition is read, and refuses appends.
    Damaged,
    /// Offsets were skipped, so that none that may have been given out is given to another record.
    Gap,
    /// A decided transaction was applied again.
    Reapplied,
    /// A part of a decided transaction belongs to a topic that is gone.
    Skipped,
    /// One of the two copies of a small file could not be read; the other was used.
    LostSlot,
    /// Files that are none of this log's. They are left alone.
    UnknownFiles,
    /// A read-only view of a log that another process writes.
    MayBeBehind,
    /// A repair changed something.
    Repaired,
}
