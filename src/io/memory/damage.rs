//! Corruption, and whole trees in and out: what happens to files behind the back of the file system.
//!
//! A change made here is on the medium at once and in the cache too, is no call, and is remembered as part of the history.

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::Memory;
use super::crash::Sim;
use super::tree::{Change, Inode, Node, ROOT, Tree};
use crate::io::Kind;

impl Memory {
    /// A file's bytes.
    pub(crate) fn read_file(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.with_sim(|_, tree| {
            let content = tree
                .file(regular(tree, path)?)
                .ok_or(io::ErrorKind::NotFound)?;
            Ok(content.prefix(u64::MAX))
        })
    }

    /// Makes a file of these bytes, with the directories above it, or replaces the bytes of the one there is.
    pub(crate) fn write_file(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.with_sim(|sim, tree| {
            let inode = match tree.find(path) {
                Ok(_) => regular(tree, path)?,
                Err(_) => make(sim, tree, path, Kind::File)?,
            };
            sim.damage(Change::SetLen { inode, len: 0 }, tree);
            write(sim, tree, inode, 0, bytes);
            Ok(())
        })
    }

    /// Makes a directory, with those above it.
    pub(crate) fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.with_sim(|sim, tree| make(sim, tree, path, Kind::Dir).map(drop))
    }

    /// Removes a file or a whole directory.
    pub(crate) fn wipe(&self, path: &Path) -> io::Result<()> {
        self.with_sim(|sim, tree| {
            tree.find(path)?;
            let (dir, name) = tree.place(path)?;
            sim.damage(
                Change::Remove {
                    dir,
                    name: Cow::Owned(name.to_owned()),
                },
                tree,
            );
            Ok(())
        })
    }

    /// Replaces the bytes in a range by what `edit` makes of them. The range must lie within the file.
    pub(crate) fn edit(
        &self,
        path: &Path,
        range: Range<u64>,
        edit: impl FnOnce(&mut [u8]),
    ) -> io::Result<()> {
        self.with_sim(|sim, tree| {
            let inode = regular(tree, path)?;
            let content = tree.file(inode).ok_or(io::ErrorKind::NotFound)?;
            if range.start > range.end || range.end > content.len() {
                let message = format!(
                    "{range:?} is not within the {} bytes of {}",
                    content.len(),
                    path.display()
                );
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
            let mut bytes = vec![0; (range.end - range.start) as usize];
            content.read(&mut bytes, range.start);
            edit(&mut bytes);
            write(sim, tree, inode, range.start, &bytes);
            Ok(())
        })
    }

    /// Cuts the file, or grows it by zeros.
    pub(crate) fn resize(&self, path: &Path, len: u64) -> io::Result<()> {
        self.with_sim(|sim, tree| {
            let inode = regular(tree, path)?;
            sim.damage(Change::SetLen { inode, len }, tree);
            Ok(())
        })
    }

    /// All files with their lengths, and all directories with `None`, in the order of their paths.
    pub(crate) fn list(&self) -> Vec<(PathBuf, Option<u64>)> {
        self.with_sim(|_, tree| {
            let mut found = Vec::new();
            let mut todo = vec![(PathBuf::from("/"), ROOT)];
            while let Some((path, inode)) = todo.pop() {
                match tree.node(inode) {
                    Some(Node::File(content)) => found.push((path, Some(content.len()))),
                    Some(Node::Dir(names)) => {
                        todo.extend(names.iter().map(|(name, &inode)| (path.join(name), inode)));
                        found.push((path, None));
                    }
                    None => {}
                }
            }
            found.sort();
            found
        })
    }
}

fn regular(tree: &Tree, path: &Path) -> io::Result<Inode> {
    let inode = tree.find(path)?;
    if tree.file(inode).is_some() {
        Ok(inode)
    } else {
        Err(io::ErrorKind::IsADirectory.into())
    }
}

fn write(sim: &mut Sim, tree: &mut Tree, inode: Inode, position: u64, bytes: &[u8]) {
    sim.damage(
        Change::Write {
            inode,
            bytes: Cow::Owned(bytes.to_vec()),
            position,
        },
        tree,
    );
}

/// Makes `path`, and above it the directories that are missing.
fn make(sim: &mut Sim, tree: &mut Tree, path: &Path, kind: Kind) -> io::Result<Inode> {
    if let Ok(inode) = tree.find(path) {
        return Ok(inode);
    }
    if let Some(parent) = path.parent() {
        make(sim, tree, parent, Kind::Dir)?;
    }
    let (dir, name) = tree.place(path)?;
    let inode = tree.next_inode();
    sim.damage(
        Change::Create {
            dir,
            name: Cow::Owned(name.to_owned()),
            inode,
            kind,
        },
        tree,
    );
    Ok(inode)
}
