//! A tree of directories and files as plain data: what [`super::Memory`] changes under its lock, and what a crash chooses from.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path};
use std::sync::Arc;

use super::content::Content;
use crate::io::Kind;

/// Number of a file or directory; never used again for another.
pub(super) type Inode = u64;

/// The directory that every path begins at.
pub(super) const ROOT: Inode = 1;

pub(super) type Names = BTreeMap<OsString, Inode>;

/// Shared, so that a copy of a tree costs little: a crash test makes thousands.
#[derive(Clone, Debug)]
pub(super) enum Node {
    File(Arc<Content>),
    Dir(Arc<Names>),
}

/// One change of a tree, checked before by whoever makes it.
#[derive(Clone, Debug)]
pub(super) enum Change<'a> {
    Create {
        dir: Inode,
        name: Cow<'a, OsStr>,
        inode: Inode,
        kind: Kind,
    },
    Remove {
        dir: Inode,
        name: Cow<'a, OsStr>,
    },
    Rename {
        from: Inode,
        old: Cow<'a, OsStr>,
        to: Inode,
        new: Cow<'a, OsStr>,
    },
    Write {
        inode: Inode,
        bytes: Cow<'a, [u8]>,
        position: u64,
    },
    SetLen {
        inode: Inode,
        len: u64,
    },
}

/// Files and directories by number. One without a name stays until it is forgotten: somebody may have it open.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    nodes: BTreeMap<Inode, Node>,
    next: Inode,
}

impl Tree {
    pub(super) fn new() -> Tree {
        Tree {
            nodes: BTreeMap::from([(ROOT, Node::Dir(Arc::default()))]),
            next: ROOT + 1,
        }
    }

    /// The number that the next file will have.
    pub(super) fn next_inode(&self) -> Inode {
        self.next
    }

    pub(super) fn find(&self, path: &Path) -> io::Result<Inode> {
        let mut at = ROOT;
        for part in path.components() {
            match part {
                Component::Normal(name) => {
                    at = *self.names(at)?.get(name).ok_or(io::ErrorKind::NotFound)?;
                }
                // Paths are made absolute without `..` by `Storage::resolve`; one with it names nothing here.
                Component::ParentDir => return Err(io::ErrorKind::NotFound.into()),
                Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
            }
        }
        Ok(at)
    }

    /// The directory that `path` is in, and its name there.
    pub(super) fn place<'p>(&self, path: &'p Path) -> io::Result<(Inode, &'p OsStr)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let dir = self.find(path.parent().unwrap_or(Path::new("")))?;
        self.names(dir)?;
        Ok((dir, name))
    }

    /// What `name` is in `dir`, if anything.
    pub(super) fn lookup(&self, dir: Inode, name: &OsStr) -> Option<Inode> {
        self.names(dir).ok()?.get(name).copied()
    }

    pub(super) fn node(&self, inode: Inode) -> Option<&Node> {
        self.nodes.get(&inode)
    }

    /// The names in a directory. `NotADirectory` if it is a file.
    pub(super) fn names(&self, inode: Inode) -> io::Result<&Names> {
        match self.nodes.get(&inode) {
            Some(Node::Dir(names)) => Ok(names),
            Some(Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn file(&self, inode: Inode) -> Option<&Arc<Content>> {
        match self.nodes.get(&inode) {
            Some(Node::File(content)) => Some(content),
            _ => None,
        }
    }

    pub(super) fn apply(&mut self, change: &Change<'_>) {
        match change {
            Change::Create {
                dir,
                name,
                inode,
                kind,
            } => {
                self.add(*inode, *kind);
                self.link(*dir, name, *inode);
            }
            Change::Remove { dir, name } => self.unlink(*dir, name),
            Change::Rename { from, old, to, new } => {
                if let Some(inode) = self.lookup(*from, old) {
                    self.unlink(*from, old);
                    self.link(*to, new, inode);
                }
            }
            Change::Write {
                inode,
                bytes,
                position,
            } => {
                if let Some(content) = self.file_mut(*inode) {
                    content.write(bytes, *position);
                }
            }
            Change::SetLen { inode, len } => {
                if let Some(content) = self.file_mut(*inode) {
                    content.set_len(*len);
                }
            }
        }
    }

    /// Makes an empty file or directory without a name.
    pub(super) fn add(&mut self, inode: Inode, kind: Kind) {
        let node = if kind == Kind::Dir {
            Node::Dir(Arc::default())
        } else {
            Node::File(Arc::default())
        };
        self.nodes.insert(inode, node);
        self.next = self.next.max(inode + 1);
    }

    pub(super) fn link(&mut self, dir: Inode, name: &OsStr, inode: Inode) {
        if let Some(names) = self.names_mut(dir) {
            names.insert(name.to_owned(), inode);
        }
    }

    pub(super) fn unlink(&mut self, dir: Inode, name: &OsStr) {
        if let Some(names) = self.names_mut(dir) {
            names.remove(name);
        }
    }

    /// Drops a file that has no name and that nobody has open.
    pub(super) fn forget(&mut self, inode: Inode) {
        self.nodes.remove(&inode);
    }

    /// Bytes in all files, holes included.
    #[cfg(feature = "testing")]
    pub(super) fn used(&self) -> u64 {
        self.files().map(|(_, content)| content.len()).sum()
    }

    #[cfg(feature = "testing")]
    pub(super) fn files(&self) -> impl Iterator<Item = (Inode, &Arc<Content>)> {
        self.nodes.iter().filter_map(|(&inode, node)| match node {
            Node::File(content) => Some((inode, content)),
            Node::Dir(_) => None,
        })
    }

    #[cfg(feature = "testing")]
    pub(super) fn set_file(&mut self, inode: Inode, content: Arc<Content>) {
        self.nodes.insert(inode, Node::File(content));
    }

    /// How many files and directories there are, those without a name included.
    #[cfg(feature = "testing")]
    pub(super) fn count(&self) -> usize {
        self.nodes.len()
    }

    #[cfg(feature = "testing")]
    pub(super) fn inodes(&self) -> impl Iterator<Item = Inode> {
        self.nodes.keys().copied()
    }

    /// Takes the node's name away, wherever that is.
    #[cfg(feature = "testing")]
    pub(super) fn unlink_everywhere(&mut self, inode: Inode) {
        for node in self.nodes.values_mut() {
            if let Node::Dir(names) = node
                && names.values().any(|&named| named == inode)
            {
                Arc::make_mut(names).retain(|_, named| *named != inode);
            }
        }
    }

    /// Forgets everything that no path leads to, as opening the file system after a crash does.
    #[cfg(feature = "testing")]
    pub(super) fn sweep(&mut self) {
        self.sweep_but([]);
    }

    /// As [`sweep`](Tree::sweep), but for these, and what is in them.
    #[cfg(feature = "testing")]
    pub(super) fn sweep_but(&mut self, spared: impl IntoIterator<Item = Inode>) {
        let mut reached = std::collections::BTreeSet::new();
        let mut todo: Vec<Inode> = [ROOT].into_iter().chain(spared).collect();
        while let Some(inode) = todo.pop() {
            if reached.insert(inode)
                && let Some(Node::Dir(names)) = self.nodes.get(&inode)
            {
                todo.extend(names.values());
            }
        }
        self.nodes.retain(|inode, _| reached.contains(inode));
    }

    fn names_mut(&mut self, inode: Inode) -> Option<&mut Names> {
        match self.nodes.get_mut(&inode) {
            Some(Node::Dir(names)) => Some(Arc::make_mut(names)),
            _ => None,
        }
    }

    fn file_mut(&mut self, inode: Inode) -> Option<&mut Content> {
        match self.nodes.get_mut(&inode) {
            Some(Node::File(content)) => Some(Arc::make_mut(content)),
            _ => None,
        }
    }
}

impl Change<'_> {
    /// The same change with its own bytes, for the history.
    pub(super) fn into_owned(self) -> Change<'static> {
        let own = |name: Cow<'_, OsStr>| Cow::Owned(name.into_owned());
        match self {
            Change::Create {
                dir,
                name,
                inode,
                kind,
            } => Change::Create {
                dir,
                name: own(name),
                inode,
                kind,
            },
            Change::Remove { dir, name } => Change::Remove {
                dir,
                name: own(name),
            },
            Change::Rename { from, old, to, new } => Change::Rename {
                from,
                old: own(old),
                to,
                new: own(new),
            },
            Change::Write {
                inode,
                bytes,
                position,
            } => Change::Write {
                inode,
                bytes: Cow::Owned(bytes.into_owned()),
                position,
            },
            Change::SetLen { inode, len } => Change::SetLen { inode, len },
        }
    }
}
