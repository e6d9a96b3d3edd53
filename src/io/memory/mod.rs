//! Files in memory: the storage of in-memory logs, and with the feature `testing` the simulated disk.
//!
//! There is one tree behind one lock, and one way through this code for both: what they do differently is in [`state`].

mod content;
mod handle;
mod pages;
mod state;
mod tree;

#[cfg(feature = "testing")]
mod crash;
#[cfg(not(feature = "testing"))]
#[path = "no_crash.rs"]
mod crash;
#[cfg(feature = "testing")]
mod damage;
#[cfg(feature = "testing")]
pub(crate) mod errors;
#[cfg(feature = "testing")]
pub(crate) mod faults;
#[cfg(feature = "testing")]
pub(crate) mod models;
#[cfg(feature = "testing")]
mod platter;

#[cfg(all(test, unix, feature = "testing"))]
mod oracle;

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

#[cfg(feature = "testing")]
pub(crate) use self::crash::Setting;

use self::handle::{MemoryFile, MemoryLock};
use self::state::State;
use self::tree::{Change, Inode, Node, Tree};
use super::{
    Ahead, DirEntry, File, Identity, Kind, Lock, OpenMode, Reading, Storage, Syncing, create_dirs,
    retried,
};

/// A kind of call to the simulated disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[cfg_attr(
    not(feature = "testing"),
    expect(unreachable_pub, reason = "public under the feature `testing`")
)]
pub enum DiskCall {
    /// A file is opened or made.
    Open,
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// A file's bytes are made durable.
    SyncData,
    /// A file's bytes and all its metadata are made durable.
    SyncAll,
    /// The names in a directory are made durable.
    SyncDir,
    /// A file is cut or grown.
    SetLen,
    /// A file or directory gets another name.
    Rename,
    /// A file or directory is removed.
    Remove,
    /// A directory is made.
    CreateDir,
    /// The names in a directory are listed.
    ReadDir,
    /// A file is mapped.
    Map,
    /// A lock is taken.
    Lock,
    /// Length, identity or permissions are asked for.
    Metadata,
}

/// A tree of files in memory. Clones are the same tree.
#[derive(Clone)]
pub(crate) struct Memory {
    state: Arc<Mutex<State>>,
}

impl Memory {
    /// An empty tree in which syncs do nothing and nothing fails.
    pub(crate) fn new() -> Memory {
        Memory::from_state(State::new(Tree::new()))
    }

    fn from_state(state: State) -> Memory {
        Memory {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// One call after another, each again while it is interrupted, as a disk's are.
    fn call<T>(&self, mut call: impl FnMut(&mut State) -> io::Result<T>) -> io::Result<T> {
        retried(|| call(&mut self.state.lock()))
    }

    fn sync_names(&self, path: &Path) -> io::Result<()> {
        self.call(|state| {
            let dir = state.tree.find(path)?;
            state.tree.names(dir)?;
            state.sync(DiskCall::SyncDir, path, dir)
        })
    }

    fn remove(&self, path: &Path, kind: Kind) -> io::Result<()> {
        self.call(|state| {
            state.enter(DiskCall::Remove, path)?;
            let (dir, name) = state.tree.place(path)?;
            let inode = state
                .tree
                .lookup(dir, name)
                .ok_or(io::ErrorKind::NotFound)?;
            match (state.tree.node(inode), kind) {
                (Some(Node::Dir(_)), Kind::File) => return Err(io::ErrorKind::IsADirectory.into()),
                (Some(Node::File(_)), Kind::Dir) => return Err(io::ErrorKind::NotADirectory.into()),
                (Some(Node::Dir(names)), _) if !names.is_empty() => {
                    return Err(io::ErrorKind::DirectoryNotEmpty.into());
                }
                _ => {}
            }
            state.change(Change::Remove {
                dir,
                name: Cow::Borrowed(name),
            });
            state.lost_its_name(inode);
            Ok(())
        })
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

impl Storage for Memory {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let inode = self.call(|state| {
            state.enter(DiskCall::Open, path)?;
            let (dir, name) = state.tree.place(path)?;
            let inode = match (state.tree.lookup(dir, name), mode) {
                (Some(_), OpenMode::CreateNew) => return Err(io::ErrorKind::AlreadyExists.into()),
                (None, OpenMode::CreateNew) => state.create(dir, name, Kind::File),
                (Some(inode), _) => state.regular(inode, path)?,
                (None, _) => return Err(io::ErrorKind::NotFound.into()),
            };
            *state.open.entry(inode).or_default() += 1;
            Ok(inode)
        })?;
        Ok(Arc::new(MemoryFile::new(self.clone(), inode, path)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(|state| {
            state.enter(DiskCall::Rename, from)?;
            let (from, old) = state.tree.place(from)?;
            let (to, new) = state.tree.place(to)?;
            let moved = state
                .tree
                .lookup(from, old)
                .ok_or(io::ErrorKind::NotFound)?;
            let replaced = state.tree.lookup(to, new);
            if replaced == Some(moved) {
                return Ok(());
            }
            state.may_replace(moved, replaced)?;
            state.change(Change::Rename {
                from,
                old: Cow::Borrowed(old),
                to,
                new: Cow::Borrowed(new),
            });
            if let Some(replaced) = replaced {
                state.lost_its_name(replaced);
            }
            Ok(())
        })
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.remove(path, Kind::File)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.call(|state| {
            state.enter(DiskCall::CreateDir, path)?;
            let (dir, name) = state.tree.place(path)?;
            if state.tree.lookup(dir, name).is_some() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            state.create(dir, name, Kind::Dir);
            Ok(())
        })
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.remove(path, Kind::Dir)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.call(|state| {
            state.enter(DiskCall::ReadDir, path)?;
            let names = state.tree.names(state.tree.find(path)?)?;
            let entry = |(name, inode): (&std::ffi::OsString, &Inode)| DirEntry {
                name: name.clone(),
                kind: if state.tree.file(*inode).is_some() {
                    Kind::File
                } else {
                    Kind::Dir
                },
            };
            Ok(names.iter().map(entry).collect())
        })
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.sync_names(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        let inode = self.call(|state| {
            state.enter(DiskCall::Lock, path)?;
            let (dir, name) = state.tree.place(path)?;
            let inode = match state.tree.lookup(dir, name) {
                Some(inode) => state.regular(inode, path)?,
                None => state.create(dir, name, Kind::File),
            };
            if !state.locked.insert(inode) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            *state.open.entry(inode).or_default() += 1;
            Ok(inode)
        })?;
        Ok(Box::new(MemoryLock::new(self.clone(), inode, path)))
    }

    fn sync_many(&self, files: &[Arc<dyn File>]) -> Vec<io::Result<()>> {
        files.iter().map(|file| file.sync_data()).collect()
    }

    // What has a thread of its own on a disk is done when it is asked for, so that a simulation repeats itself.
    fn sync_behind(&self, file: &Arc<dyn File>) -> Syncing {
        Syncing::done(file.sync_data())
    }

    fn read_ahead(&self, reading: Reading) -> Ahead {
        Ahead::at_hand(reading)
    }

    fn boot_id(&self) -> Option<u128> {
        Some(self.state.lock().boot())
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        self.call(|state| {
            state.enter(DiskCall::Metadata, path)?;
            let inode = state.tree.find(path)?;
            Ok(Identity {
                device: state.device(),
                inode,
                born: i128::from(inode),
            })
        })
    }

    fn random(&self) -> u128 {
        self.state.lock().random()
    }

    fn resolve(&self, path: &Path, create: bool) -> io::Result<PathBuf> {
        let path = without_dots(path);
        if create {
            create_dirs(self, &path)?;
        }
        self.call(|state| {
            state.enter(DiskCall::Metadata, &path)?;
            state.tree.find(&path)
        })?;
        Ok(path)
    }

    fn world_writable(&self, path: &Path) -> io::Result<bool> {
        self.call(|state| {
            state.enter(DiskCall::Metadata, path)?;
            state.tree.find(path).map(|_| false)
        })
    }
}

/// Absolute, with `.` and `..` taken out: this tree has no links that they could mean something else behind.
fn without_dots(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => drop(clean.pop()),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    clean
}
