//! The simulation in a build without the feature `testing`: a type without values, so that asking it costs nothing.

use std::io;
use std::path::Path;

use super::DiskCall;
use super::tree::{Change, Inode, Tree};

/// Stands in for the real one, method for method; none can be called.
pub(super) enum Sim {}

impl Sim {
    pub(super) fn boot(&self) -> u128 {
        match *self {}
    }

    pub(super) fn device(&self) -> u64 {
        match *self {}
    }

    pub(super) fn process(&self) -> u64 {
        match *self {}
    }

    pub(super) fn random(&mut self) -> u128 {
        match *self {}
    }

    pub(super) fn change(&mut self, _: Change<'static>, _: &mut Tree) {
        match *self {}
    }

    pub(super) fn allow(&mut self, _: DiskCall, _: &Path, _: u64, _: usize) -> io::Result<usize> {
        match *self {}
    }

    pub(super) fn room(&self, _: &Tree, _: Inode, _: u64, _: u64) -> io::Result<u64> {
        match *self {}
    }

    pub(super) fn sync(&mut self, _: DiskCall, _: &Path, _: Inode, _: &mut Tree) -> io::Result<()> {
        match *self {}
    }
}
