//! The tree behind the lock, who has what of it open, and the hooks of the simulation.
//!
//! Every change of the tree goes through [`State::change`], every call through [`State::enter`], [`State::allow`] or
//! [`State::sync`]; they ask the simulation first, if there is one. Without the feature `testing` there cannot be one.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::Path;

use super::DiskCall;
use super::crash::Sim;
use super::tree::{Change, Inode, Node, Tree};
use crate::io::Kind;

pub(super) struct State {
    pub(super) tree: Tree,
    /// How many handles each file has.
    pub(super) open: BTreeMap<Inode, usize>,
    /// Files that lost their name while somebody had them open.
    pub(super) nameless: BTreeSet<Inode>,
    pub(super) locked: BTreeSet<Inode>,
    pub(super) sim: Option<Box<Sim>>,
}

impl State {
    pub(super) fn new(tree: Tree) -> State {
        State {
            tree,
            open: BTreeMap::new(),
            nameless: BTreeSet::new(),
            locked: BTreeSet::new(),
            sim: None,
        }
    }

    /// Every change of the tree.
    pub(super) fn change(&mut self, change: Change<'_>) {
        if let Some(sim) = &mut self.sim {
            return sim.change(change.into_owned(), &mut self.tree);
        }
        self.tree.apply(&change);
    }

    /// The beginning of every call that moves no bytes: the place where it may fail.
    pub(super) fn enter(&mut self, call: DiskCall, path: &Path) -> io::Result<()> {
        self.allow(call, path, 0, 0).map(drop)
    }

    /// The beginning of every call that moves bytes: how many of `len` it may move.
    pub(super) fn allow(
        &mut self,
        call: DiskCall,
        path: &Path,
        position: u64,
        len: usize,
    ) -> io::Result<usize> {
        if let Some(sim) = &mut self.sim {
            return sim.allow(call, path, position, len);
        }
        Ok(len)
    }

    /// How many of `len` bytes at `position` the disk has room for.
    pub(super) fn room(&self, inode: Inode, position: u64, len: u64) -> io::Result<u64> {
        if let Some(sim) = &self.sim {
            return sim.room(&self.tree, inode, position, len);
        }
        Ok(len)
    }

    /// A sync of a file or of the names in a directory.
    pub(super) fn sync(&mut self, call: DiskCall, path: &Path, inode: Inode) -> io::Result<()> {
        if let Some(sim) = &mut self.sim {
            return sim.sync(call, path, inode, &mut self.tree);
        }
        Ok(())
    }

    /// Where there is no simulation the files die with the process, so that every boot is the only one.
    pub(super) fn boot(&self) -> u128 {
        self.sim.as_ref().map_or(1, |sim| sim.boot())
    }

    pub(super) fn device(&self) -> u64 {
        self.sim.as_ref().map_or(1, |sim| sim.device())
    }

    /// The number of the process that calls come from.
    pub(super) fn process(&self) -> u64 {
        self.sim.as_ref().map_or(0, |sim| sim.process())
    }

    pub(super) fn random(&mut self) -> u128 {
        if let Some(sim) = &mut self.sim {
            return sim.random();
        }
        let key = || u128::from(RandomState::new().build_hasher().finish());
        key() << 64 | key()
    }

    pub(super) fn create(&mut self, dir: Inode, name: &OsStr, kind: Kind) -> Inode {
        let inode = self.tree.next_inode();
        self.change(Change::Create {
            dir,
            name: Cow::Borrowed(name),
            inode,
            kind,
        });
        inode
    }

    pub(super) fn regular(&self, inode: Inode, path: &Path) -> io::Result<Inode> {
        if self.tree.file(inode).is_some() {
            return Ok(inode);
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} is not a regular file", path.display()),
        ))
    }

    /// As POSIX: a file replaces a file, a directory an empty directory.
    pub(super) fn may_replace(&self, moved: Inode, replaced: Option<Inode>) -> io::Result<()> {
        let moves_a_file = self.tree.file(moved).is_some();
        match replaced.and_then(|inode| self.tree.node(inode)) {
            Some(Node::File(_)) if !moves_a_file => Err(io::ErrorKind::NotADirectory.into()),
            Some(Node::Dir(_)) if moves_a_file => Err(io::ErrorKind::IsADirectory.into()),
            Some(Node::Dir(names)) if !names.is_empty() => {
                Err(io::ErrorKind::DirectoryNotEmpty.into())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn lost_its_name(&mut self, inode: Inode) {
        if self.open.contains_key(&inode) {
            self.nameless.insert(inode);
        } else {
            self.tree.forget(inode);
        }
    }

    /// One handle less.
    pub(super) fn release(&mut self, inode: Inode) {
        let left = self
            .open
            .get(&inode)
            .map_or(0, |handles| handles.saturating_sub(1));
        if left > 0 {
            self.open.insert(inode, left);
            return;
        }
        self.open.remove(&inode);
        if self.nameless.remove(&inode) {
            self.tree.forget(inode);
        }
    }
}
