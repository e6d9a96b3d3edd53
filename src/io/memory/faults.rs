//! Errors that a test asks for: which call fails, when, and how.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use super::errors::{DiskError, FailedSync, Short};
use super::tree::Inode;
use super::{DiskCall, Memory};

/// A rule by which calls to the simulated disk fail. Without more it strikes the next matching call, once.
///
/// ```
/// use thalweg::testing::{Disk, DiskCall, DiskError, Fault};
///
/// let disk = Disk::new();
/// // The third write to a segment from now finds the disk full.
/// disk.fail(Fault::error(DiskCall::Write, DiskError::NoSpace).on(".log").after(2));
/// ```
#[derive(Clone, Debug)]
#[must_use = "a fault does nothing until it is given to `Disk::fail`"]
pub struct Fault {
    call: Option<DiskCall>,
    part: Option<String>,
    place: Option<fn(&Path) -> bool>,
    range: Option<Range<u64>>,
    skip: u64,
    lasting: bool,
    effect: Effect,
    /// The error of the call that follows a short one.
    then: Option<DiskError>,
}

/// What happens to the call that a rule strikes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Effect {
    Error(DiskError),
    Short(Short),
    Sync(FailedSync, DiskError),
}

impl Fault {
    fn new(call: Option<DiskCall>, effect: Effect) -> Fault {
        Fault {
            call,
            part: None,
            place: None,
            range: None,
            skip: 0,
            lasting: false,
            effect,
            then: None,
        }
    }

    /// The call returns `error` and does nothing. A file whose sync fails so stays un-synced: the next sync makes it durable.
    pub fn error(call: DiskCall, error: DiskError) -> Fault {
        Fault::new(Some(call), Effect::Error(error))
    }

    /// As [`error`](Fault::error), whatever the call is.
    pub fn any(error: DiskError) -> Fault {
        Fault::new(None, Effect::Error(error))
    }

    /// A read ([`DiskCall::Read`]) or write ([`DiskCall::Write`]) moves fewer bytes than asked for.
    pub fn short(call: DiskCall, short: Short) -> Fault {
        Fault::new(Some(call), Effect::Short(short))
    }

    /// A write moves fewer bytes than asked for, and the next one returns `error`.
    pub fn short_write_then(short: Short, error: DiskError) -> Fault {
        Fault {
            then: Some(error),
            ..Fault::short(DiskCall::Write, short)
        }
    }

    /// A sync ([`DiskCall::SyncData`], [`DiskCall::SyncAll`] or [`DiskCall::SyncDir`]) fails in one of the ways of real systems.
    pub fn sync(call: DiskCall, failed: FailedSync, error: DiskError) -> Fault {
        Fault::new(Some(call), Effect::Sync(failed, error))
    }

    /// Only for paths that contain `part`. A file's path is the one it was opened by.
    pub fn on(mut self, part: impl Into<String>) -> Fault {
        self.part = Some(part.into());
        self
    }

    /// Only for paths of which this is true.
    pub(crate) fn at(mut self, place: fn(&Path) -> bool) -> Fault {
        self.place = Some(place);
        self
    }

    /// Only for reads and writes that touch these bytes of the file.
    pub fn within(mut self, bytes: Range<u64>) -> Fault {
        self.range = Some(bytes);
        self
    }

    /// Lets so many matching calls through first.
    pub fn after(mut self, calls: u64) -> Fault {
        self.skip = calls;
        self
    }

    /// Strikes every matching call from then on, not one.
    pub fn lasting(mut self) -> Fault {
        self.lasting = true;
        self
    }

    fn matches(&self, call: DiskCall, path: &Path, position: u64, len: usize) -> bool {
        self.call.is_none_or(|of| of == call)
            && self
                .part
                .as_ref()
                .is_none_or(|part| path.to_string_lossy().contains(part.as_str()))
            && self.place.is_none_or(|place| place(path))
            && self.range.as_ref().is_none_or(|bytes| {
                position < bytes.end && bytes.start < position.saturating_add(len as u64)
            })
    }

    /// The rule is met. What it does now, and what is left of it.
    fn strike(mut self) -> (Effect, Option<Fault>) {
        let effect = self.effect;
        if let Some(error) = self.then.take() {
            let next = Fault {
                effect: Effect::Error(error),
                skip: 0,
                ..self
            };
            return (effect, Some(next));
        }
        if matches!(effect, Effect::Error(DiskError::Interrupted)) {
            self.skip = 1;
        }
        let left = self.lasting.then_some(self);
        (effect, left)
    }
}

/// The rules in force, and what has happened so far.
#[derive(Debug, Default)]
pub(super) struct Faults {
    rules: Vec<Fault>,
    struck: u64,
    calls: BTreeMap<DiskCall, u64>,
    late: BTreeMap<Inode, DiskError>,
}

impl Faults {
    /// Counts the call and tells what is to happen to it. The first rule that strikes wins.
    pub(super) fn strike(
        &mut self,
        call: DiskCall,
        path: &Path,
        position: u64,
        len: usize,
    ) -> Option<Effect> {
        *self.calls.entry(call).or_default() += 1;
        for at in 0..self.rules.len() {
            let rule = &mut self.rules[at];
            if !rule.matches(call, path, position, len) {
                continue;
            }
            if rule.skip > 0 {
                rule.skip -= 1;
                continue;
            }
            let (effect, left) = self.rules.remove(at).strike();
            if let Some(left) = left {
                self.rules.insert(at, left);
            }
            self.struck += 1;
            return Some(effect);
        }
        None
    }

    pub(super) fn report_late(&mut self, inode: Inode, error: DiskError) {
        self.late.insert(inode, error);
    }

    /// The error that a sync of this file owes from an earlier one.
    pub(super) fn late(&mut self, inode: Inode) -> Option<DiskError> {
        self.late.remove(&inode)
    }
}

impl Memory {
    pub(crate) fn fail(&self, fault: Fault) {
        self.with_sim(|sim, _| sim.faults.rules.push(fault));
    }

    /// Drops all rules.
    pub(crate) fn heal(&self) {
        self.with_sim(|sim, _| sim.faults.rules.clear());
    }

    /// How many calls were struck so far.
    pub(crate) fn struck(&self) -> u64 {
        self.with_sim(|sim, _| sim.faults.struck)
    }

    /// Starts counting calls anew.
    pub(crate) fn mark(&self) {
        self.with_sim(|sim, _| sim.faults.calls.clear());
    }

    /// Calls since the mark.
    pub(crate) fn calls(&self) -> BTreeMap<DiskCall, u64> {
        self.with_sim(|sim, _| sim.faults.calls.clone())
    }
}
