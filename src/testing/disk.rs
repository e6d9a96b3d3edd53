//! The simulated disk that a test holds in its hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{CrashModel, DiskCall, Fault, Variants};
use crate::io::Storage;
use crate::io::memory::{Memory, Setting};

/// A simulated disk: a file system in memory that remembers what was synced.
///
/// It remembers every operation, so that a crash can be asked for after any of them; a test that only crashes where it is takes a
/// [`TestLog`](super::TestLog). Clones are the same disk. Paths begin at its own root, `/`; relative ones do too.
#[derive(Clone, Debug)]
pub struct Disk {
    pub(super) memory: Memory,
}

impl Default for Disk {
    fn default() -> Self {
        Disk::new()
    }
}

impl Disk {
    /// An empty disk.
    pub fn new() -> Disk {
        Disk::seeded(0)
    }

    /// An empty disk whose random numbers, from which the library draws identities and salts, follow from `seed`.
    pub fn seeded(seed: u64) -> Disk {
        Disk {
            memory: Memory::simulated(seed),
        }
    }

    /// What the library is given to work on.
    pub(crate) fn storage(&self) -> Arc<dyn Storage> {
        Arc::new(self.memory.clone())
    }

    // ── crashes

    /// How many operations are remembered: each successful change and each sync is one. A crash can be asked for after none of
    /// them, after all of them, and after any number in between.
    pub fn points(&self) -> usize {
        self.memory.points()
    }

    /// How many different states a crash after the first `after` operations may leave.
    pub fn variants(&self, after: usize, model: CrashModel) -> Variants {
        self.memory.variants(after, model)
    }

    /// The disk as a crash after the first `after` operations leaves it (after all, if there are fewer).
    ///
    /// `seed` chooses among the states that `model` allows. This disk is not changed; the new one has no rules for faults, no
    /// locks, another boot (unless only the process died), and remembers operations of its own, so that it can crash again.
    #[must_use = "this disk does not crash: the crashed one is returned"]
    pub fn crash(&self, after: usize, model: CrashModel, seed: u64) -> Disk {
        Disk {
            memory: self.memory.crash(after, model, seed),
        }
    }

    /// As [`crash`](Disk::crash), but instead of the boot the files' identities are others: a copy of what a crash would have
    /// left, opened on the same machine.
    #[must_use = "this disk does not crash: the crashed one is returned"]
    pub fn crash_copy(&self, after: usize, model: CrashModel, seed: u64) -> Disk {
        let copy = self.crash(after, model, seed);
        copy.set_boot_id(self.boot_id());
        copy.set_identity(self.memory.device().wrapping_add(1));
        copy
    }

    /// Begins a new history at the present state. What is not synced stays so.
    pub fn forget_history(&self) {
        self.memory.forget_history();
    }

    /// With `true` a page can be torn: the disk writes 512 bytes as a whole, not 4096. The default is `false`.
    pub fn set_torn_pages(&self, torn: bool) {
        self.memory
            .set(Setting::Unit(if torn { 512 } else { 4096 }));
    }

    /// What the library takes as the machine's boot; it is another one after each power loss.
    pub fn boot_id(&self) -> u128 {
        self.memory.boot_id().unwrap_or_default()
    }

    /// Pretends that the machine was started again, or was not.
    pub fn set_boot_id(&self, boot: u128) {
        self.memory.set(Setting::Boot(boot));
    }

    /// Pretends that the files lie on another device: they are a copy. The default is 1.
    pub fn set_identity(&self, device: u64) {
        self.memory.set(Setting::Device(device));
    }

    /// From now on it is a forked child of the process that calls: locks that are held were not taken by it.
    pub fn fork(&self) {
        self.memory.set(Setting::Forked);
    }

    // ── faults

    /// Adds a rule by which calls fail.
    pub fn fail(&self, fault: Fault) {
        self.memory.fail(fault);
    }

    /// Drops all rules.
    pub fn heal(&self) {
        self.memory.heal();
    }

    /// How many calls the rules have struck so far: a test of a fault that never struck has tested nothing.
    pub fn struck(&self) -> u64 {
        self.memory.struck()
    }

    /// How many bytes all files may have together; `None`, the default, for no bound. Holes count, names do not. Bytes come back
    /// when files are cut or removed (and closed).
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.memory.set(Setting::Capacity(bytes));
    }

    /// Bytes that all files have together.
    pub fn used(&self) -> u64 {
        self.memory.used()
    }

    /// Starts counting calls anew.
    pub fn mark(&self) {
        self.memory.mark();
    }

    /// How many calls of each kind came since the mark, failed ones included. Kinds that did not come are left out, so that an
    /// empty map means "not one call".
    pub fn calls(&self) -> BTreeMap<DiskCall, u64> {
        self.memory.calls()
    }
}
