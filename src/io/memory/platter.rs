//! What of the tree has reached the simulated medium, and what is still on its way there.
//!
//! The live tree is what the machine's cache shows. The [`Platter`] holds the tree that is durable for certain, and the calls
//! since, in order, that no sync has covered yet. A page is un-synced if and only if the two trees do not share it: a sync
//! makes them share, a write ends the sharing. That needs no marks on pages.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

use super::content::Content;
use super::pages::PAGE;
use super::tree::{Change, Inode, Tree};

/// One entry of the history: everything that could matter to a crash.
#[derive(Debug)]
pub(super) enum Op {
    Change(Change<'static>),
    SyncFile(Inode, Synced),
    SyncDir(Inode, Synced),
    /// A change behind the back of the file system: of the cache and of the medium, at once.
    Damage(Change<'static>),
}

/// What a sync did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Synced {
    Done,
    /// Nothing was made durable, and it counts as clean: it never will be, unless it is written again.
    Kept,
    /// Nothing was made durable, and the cache went back to what is.
    Reverted,
}

/// A call that no sync has covered yet.
#[derive(Clone, Debug)]
pub(super) enum Pending {
    /// A write or a change of length; `Op::Change` inside.
    Data { inode: Inode, op: Arc<Op> },
    /// Entries of directories: what a name is from now on. A rename has two, and happens as a whole.
    Names(Vec<Entry>),
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) dir: Inode,
    pub(super) name: OsString,
    pub(super) inode: Option<Inode>,
}

/// Contents of removed files that are kept for crashes to dig up; more would only cost memory.
const GRAVES: usize = 16;
/// So many files are not worth looking through.
const SWEEP_ABOVE: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Platter {
    pub(super) durable: Tree,
    pub(super) pending: Vec<Pending>,
    /// How many of them are data of a file.
    unsynced: BTreeMap<Inode, usize>,
    /// What the cache of a file held when a sync of it failed and left it marked clean.
    pub(super) forsaken: BTreeMap<Inode, Arc<Content>>,
    /// What removed files held.
    pub(super) graves: Vec<Arc<Content>>,
    /// More files than this are looked through for such that are gone.
    sweep_above: usize,
}

/// Cache and medium at one moment.
#[derive(Clone, Debug)]
pub(super) struct Image {
    pub(super) cache: Tree,
    pub(super) platter: Platter,
}

impl Image {
    pub(super) fn empty() -> Image {
        Image {
            cache: Tree::new(),
            platter: Platter::empty(),
        }
    }

    pub(super) fn apply(&mut self, op: &Arc<Op>) {
        self.platter.apply(op, &mut self.cache);
    }
}

impl Platter {
    pub(super) fn empty() -> Platter {
        Platter::holding(Tree::new(), Vec::new())
    }

    /// A medium that holds `durable` and on whose way nothing is.
    pub(super) fn holding(durable: Tree, graves: Vec<Arc<Content>>) -> Platter {
        Platter {
            durable,
            pending: Vec::new(),
            unsynced: BTreeMap::new(),
            forsaken: BTreeMap::new(),
            graves,
            sweep_above: SWEEP_ABOVE,
        }
    }

    /// Lets `op` happen to the cache, and to the medium as far as it reaches it.
    pub(super) fn apply(&mut self, op: &Arc<Op>, cache: &mut Tree) {
        match &**op {
            Op::Change(change) => {
                self.await_sync(change, op, cache);
                cache.apply(change);
            }
            Op::SyncFile(inode, synced) => self.sync_file(*inode, *synced, cache),
            Op::SyncDir(dir, synced) => self.sync_dir(*dir, *synced),
            Op::Damage(change) => self.damage(change, cache),
        }
    }

    /// Notes a change that is about to be made in the cache.
    fn await_sync(&mut self, change: &Change<'_>, op: &Arc<Op>, cache: &Tree) {
        let entry = |dir: &Inode, name: &std::ffi::OsStr, inode| Entry {
            dir: *dir,
            name: name.to_owned(),
            inode,
        };
        let pending = match change {
            Change::Create {
                dir,
                name,
                inode,
                kind,
            } => {
                self.durable.add(*inode, *kind);
                Pending::Names(vec![entry(dir, name, Some(*inode))])
            }
            Change::Remove { dir, name } => {
                self.bury(cache.lookup(*dir, name), cache);
                Pending::Names(vec![entry(dir, name, None)])
            }
            Change::Rename { from, old, to, new } => {
                self.bury(cache.lookup(*to, new), cache);
                let moved = cache.lookup(*from, old);
                Pending::Names(vec![entry(from, old, None), entry(to, new, moved)])
            }
            Change::Write { inode, .. } | Change::SetLen { inode, .. } => {
                *self.unsynced.entry(*inode).or_default() += 1;
                Pending::Data {
                    inode: *inode,
                    op: op.clone(),
                }
            }
        };
        self.pending.push(pending);
    }

    fn bury(&mut self, removed: Option<Inode>, cache: &Tree) {
        if let Some(content) = removed.and_then(|inode| cache.file(inode))
            && content.len() > 0
        {
            if self.graves.len() == GRAVES {
                self.graves.remove(0);
            }
            self.graves.push(content.clone());
        }
    }

    fn sync_file(&mut self, inode: Inode, synced: Synced, cache: &mut Tree) {
        let Some(content) = cache.file(inode).cloned() else {
            return;
        };
        match synced {
            Synced::Done => {
                let durable = self.written_back(inode, &content);
                self.durable.set_file(inode, durable);
            }
            Synced::Kept => drop(self.forsaken.insert(inode, content)),
            Synced::Reverted => {
                let durable = self.durable.file(inode).cloned().unwrap_or_default();
                cache.set_file(inode, durable);
                self.forsaken.remove(&inode);
            }
        }
        self.settle(inode);
    }

    /// No data of this file wait any more. Looks from the newest call back as far as there are any: a file that is synced after
    /// each write finds its own at once, however much of others waits.
    fn settle(&mut self, inode: Inode) {
        let is_its =
            |call: &Pending| matches!(call, Pending::Data { inode: of, .. } if *of == inode);
        let mut left = self.unsynced.remove(&inode).unwrap_or(0);
        let mut first = self.pending.len();
        while left > 0 && first > 0 {
            first -= 1;
            left -= usize::from(is_its(&self.pending[first]));
        }
        let newer = self.pending.split_off(first);
        self.pending
            .extend(newer.into_iter().filter(|call| !is_its(call)));
    }

    /// What a sync leaves on the medium: the cache, but for the pages that an earlier failure marked clean.
    fn written_back(&self, inode: Inode, cache: &Arc<Content>) -> Arc<Content> {
        let (Some(forsaken), Some(durable)) = (self.forsaken.get(&inode), self.durable.file(inode))
        else {
            return cache.clone();
        };
        let mut pages = cache.pages().clone();
        for (index, page) in forsaken.pages().iter() {
            if pages
                .get(index)
                .is_some_and(|present| Arc::ptr_eq(present, page))
            {
                match durable.pages().get(index) {
                    Some(old) => pages.insert(index, old.clone()),
                    None => pages.remove(index),
                }
            }
        }
        let len = if same_end(cache, forsaken) {
            durable.len()
        } else {
            cache.len()
        };
        Arc::new(Content::from_pages(pages, len))
    }

    /// Directories have no pages: a failed sync of one drops what waited for it, whatever else failed syncs do to files.
    fn sync_dir(&mut self, dir: Inode, synced: Synced) {
        let durable = &mut self.durable;
        self.pending.retain_mut(|call| {
            let Pending::Names(entries) = call else {
                return true;
            };
            let renamed = entries.len() > 1;
            entries.retain(|entry| {
                if entry.dir == dir && synced == Synced::Done {
                    entry.apply(renamed, durable);
                }
                entry.dir != dir
            });
            !entries.is_empty()
        });
    }

    /// Forgets the files that no crash can bring back, each time there are twice as many as the last time.
    pub(super) fn sweep_if_grown(&mut self, cache: &Tree) {
        if self.durable.count() <= self.sweep_above {
            return;
        }
        let waiting = self.pending.iter().flat_map(|call| match call {
            Pending::Names(entries) => entries.as_slice(),
            Pending::Data { .. } => &[],
        });
        let named = waiting.filter_map(|entry| entry.inode);
        self.durable.sweep_but(named.chain(cache.inodes()));
        let durable = &self.durable;
        self.forsaken
            .retain(|&inode, _| durable.node(inode).is_some());
        self.sweep_above = SWEEP_ABOVE + 2 * durable.count();
    }

    fn damage(&mut self, change: &Change<'_>, cache: &mut Tree) {
        let inode = match change {
            Change::Write { inode, .. } | Change::SetLen { inode, .. } => Some(*inode),
            _ => None,
        };
        let file = |tree: &Tree| inode.and_then(|inode| tree.file(inode)).cloned();
        let shared = match (file(cache), file(&self.durable)) {
            (Some(cached), Some(durable)) => Arc::ptr_eq(&cached, &durable),
            _ => false,
        };
        cache.apply(change);
        match (shared, inode, file(cache)) {
            // Nothing was un-synced before, so nothing is after.
            (true, Some(inode), Some(content)) => self.durable.set_file(inode, content),
            _ => self.durable.apply(change),
        }
    }
}

impl Entry {
    /// Makes the name what the entry says. Part of a rename, it takes the file's other name away with it: a crash between the
    /// syncs of two directories may lose a name or keep the old one, but no file system of ours makes two of one.
    pub(super) fn apply(&self, renamed: bool, tree: &mut Tree) {
        match self.inode {
            Some(inode) => {
                if renamed {
                    tree.unlink_everywhere(inode);
                }
                tree.link(self.dir, &self.name, inode);
            }
            None => tree.unlink(self.dir, &self.name),
        }
    }
}

/// Is the size still the one that a failed sync marked clean? Writing the last page again writes the size with it.
pub(super) fn same_end(cache: &Content, forsaken: &Content) -> bool {
    let last = |content: &Content| {
        let page = content.len().checked_sub(1)? / PAGE as u64;
        content.pages().get(page).map(Arc::as_ptr)
    };
    cache.len() == forsaken.len() && last(cache) == last(forsaken)
}

/// Lets a call that was never synced reach the medium after all.
pub(super) fn reach(call: &Pending, tree: &mut Tree) {
    match call {
        Pending::Data { op, .. } => {
            if let Op::Change(change) = &**op {
                tree.apply(change);
            }
        }
        Pending::Names(entries) => {
            for entry in entries {
                entry.apply(entries.len() > 1, tree);
            }
        }
    }
}
