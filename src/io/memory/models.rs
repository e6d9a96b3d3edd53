//! What a crash may leave: the models M0–M4, each a choice among un-synced pages, sizes and names.
//!
//! All models start from what is durable for certain and add some of what is not. A choice is a yes or no, asked for in a fixed
//! order: first the names (one per call that made, removed or renamed one), then for each file its size and its pages. So a
//! number is a state: with few choices its bits are the answers, and counting up to 2ⁿ visits every state.

use std::sync::Arc;

use super::content::Content;
use super::pages::{PAGE, Page};
use super::platter::{Image, Pending, Platter, reach, same_end};
use super::tree::{Inode, Tree};

/// What a crash takes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CrashModel {
    /// The process dies, the machine runs on: every call that returned has happened.
    ProcessKill,
    /// Power fails, and of the calls that no sync covers the last ones never reached the disk.
    LostSuffix,
    /// Power fails; of what no sync covers, each page, each size and each name is old or new, independently of the others.
    /// Pages within the size that never were on the disk read as zeros.
    LostPages,
    /// As [`LostPages`](CrashModel::LostPages), but pages that never were on the disk read as garbage, or as bytes of a removed
    /// file.
    GarbagePages,
    /// Power fails, and the last syncs, at least one, had done nothing though they succeeded; the rest is as with
    /// [`LostPages`](CrashModel::LostPages).
    LyingDevice,
}

/// How many different states a crash may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Variants {
    /// Each number below this one, given as the seed, is a state of its own, and there are no others.
    All(u64),
    /// Too many to count: seeds draw from them. Seed 0 keeps nothing that was not synced, seed 1 everything.
    Sampled,
}

/// Up to so many choices all of their combinations are numbered.
const COUNTED: u32 = 10;

pub(super) fn variants(image: &Image, model: CrashModel, unit: usize) -> Variants {
    match model {
        CrashModel::ProcessKill => Variants::All(1),
        CrashModel::LostSuffix => Variants::All(image.platter.pending.len() as u64 + 1),
        CrashModel::LostPages => match choices(image, unit) {
            few @ 0..=COUNTED => Variants::All(1 << few),
            _ => Variants::Sampled,
        },
        CrashModel::GarbagePages | CrashModel::LyingDevice => Variants::Sampled,
    }
}

/// The tree that the machine finds when it starts again.
pub(super) fn survivors(image: &Image, model: CrashModel, unit: usize, seed: u64) -> Tree {
    let mut dice = Dice::seeded(&[seed, model as u64]);
    let mut tree = match model {
        CrashModel::ProcessKill => image.cache.clone(),
        CrashModel::LostSuffix => prefix(&image.platter, seed),
        CrashModel::LostPages => {
            let few = choices(image, unit);
            if few <= COUNTED {
                let mut answers = seed;
                subset(image, unit, None, &mut || {
                    let keep = answers & 1 == 1;
                    answers >>= 1;
                    keep
                })
            } else {
                subset(image, unit, None, &mut sampled(seed, &mut dice))
            }
        }
        CrashModel::GarbagePages => {
            let mut filler = Filler {
                dice: Dice::seeded(&[seed, !0]),
                graves: &image.platter.graves,
            };
            subset(
                image,
                unit,
                Some(&mut filler),
                &mut sampled(seed, &mut dice),
            )
        }
        CrashModel::LyingDevice => subset(image, unit, None, &mut sampled(seed, &mut dice)),
    };
    tree.sweep();
    tree
}

/// Nothing for seed 0, everything for seed 1, then one in two, most, or few.
fn sampled(seed: u64, dice: &mut Dice) -> impl FnMut() -> bool {
    let eighths = match seed {
        0 => 0,
        1 => 8,
        _ => [4, 7, 1, 4][(seed % 4) as usize],
    };
    move || dice.roll() % 8 < eighths
}

fn prefix(platter: &Platter, seed: u64) -> Tree {
    let mut tree = platter.durable.clone();
    let kept = seed % (platter.pending.len() as u64 + 1);
    for call in platter.pending.iter().take(kept as usize) {
        reach(call, &mut tree);
    }
    tree
}

/// How many yes-or-no choices there are.
fn choices(image: &Image, unit: usize) -> u32 {
    let mut count = 0;
    subset(image, unit, None, &mut || {
        count += 1;
        false
    });
    count
}

/// What is durable, and of the rest what `keep` says yes to.
fn subset(
    image: &Image,
    unit: usize,
    mut filler: Option<&mut Filler<'_>>,
    keep: &mut dyn FnMut() -> bool,
) -> Tree {
    let platter = &image.platter;
    let mut tree = platter.durable.clone();
    for call in &platter.pending {
        if matches!(call, Pending::Names(_)) && keep() {
            reach(call, &mut tree);
        }
    }
    for (inode, durable) in platter.durable.files() {
        if let Some(cache) = image.cache.file(inode)
            && !Arc::ptr_eq(cache, durable)
        {
            let file = HalfWritten {
                durable,
                cache,
                forsaken: forsaken(platter, inode),
                unit,
            };
            tree.set_file(inode, Arc::new(file.settle(filler.as_deref_mut(), keep)));
        }
    }
    tree
}

fn forsaken(platter: &Platter, inode: Inode) -> Option<&Content> {
    platter.forsaken.get(&inode).map(|content| &**content)
}

/// A file whose cache and medium differ.
struct HalfWritten<'a> {
    durable: &'a Content,
    cache: &'a Content,
    /// Pages that are shared with this one will not be written any more.
    forsaken: Option<&'a Content>,
    unit: usize,
}

impl HalfWritten<'_> {
    fn settle(
        &self,
        mut filler: Option<&mut Filler<'_>>,
        keep: &mut dyn FnMut() -> bool,
    ) -> Content {
        let forgotten = self
            .forsaken
            .is_some_and(|content| same_end(self.cache, content));
        let resized = self.cache.len() != self.durable.len() && !forgotten;
        let len = if resized && keep() {
            self.cache.len()
        } else {
            self.durable.len()
        };
        let mut pages = self.durable.pages().clone();
        for index in self.touched() {
            let page = self.settle_page(index, filler.as_deref_mut(), keep);
            pages.insert(index, Arc::new(page));
        }
        Content::from_pages(pages, len)
    }

    /// The pages that are not the same in cache and medium, in order.
    fn touched(&self) -> Vec<u64> {
        let (cache, durable) = (self.cache.pages(), self.durable.pages());
        let same = |a: Option<&Arc<Page>>, b: Option<&Arc<Page>>| match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        };
        let both = cache.iter().chain(durable.iter());
        let mut touched: Vec<u64> = both.map(|(index, _)| index).collect();
        touched.sort_unstable();
        touched.dedup();
        touched.retain(|index| {
            let cached = cache.get(*index);
            let given_up = self
                .forsaken
                .is_some_and(|content| same(content.pages().get(*index), cached));
            !same(cached, durable.get(*index)) && !given_up
        });
        touched
    }

    fn settle_page(
        &self,
        index: u64,
        mut filler: Option<&mut Filler<'_>>,
        keep: &mut dyn FnMut() -> bool,
    ) -> Page {
        let zeros = [0; PAGE];
        let new = self.cache.pages().get(index).map_or(&zeros, |page| page);
        let old = self.durable.pages().get(index);
        let never_durable = old.is_none() && index >= self.durable.len().div_ceil(PAGE as u64);
        let mut page = *old.map_or(&zeros, |page| page);
        for start in (0..PAGE).step_by(self.unit) {
            let unit = start..start + self.unit;
            if page[unit.clone()] == new[unit.clone()] && !never_durable {
                continue;
            }
            if keep() {
                page[unit.clone()].copy_from_slice(&new[unit]);
            } else if let Some(filler) = filler.as_deref_mut()
                && never_durable
            {
                filler.fill(&mut page, unit, index);
            }
        }
        page
    }
}

/// Bytes for pages that were given to a file and never written.
struct Filler<'a> {
    dice: Dice,
    graves: &'a [Arc<Content>],
}

impl Filler<'_> {
    /// Bytes of a removed file, mostly from the same place in it: what checks its position is not fooled by another place.
    fn fill(&mut self, page: &mut Page, unit: std::ops::Range<usize>, index: u64) {
        let stale = self
            .dice
            .roll()
            .is_multiple_of(2)
            .then(|| self.stale_page(index))
            .flatten();
        match stale {
            Some(stale) => page[unit.clone()].copy_from_slice(&stale[unit]),
            None => page[unit].fill_with(|| self.dice.roll() as u8),
        }
    }

    fn stale_page(&mut self, index: u64) -> Option<Arc<Page>> {
        let count = self.graves.len() as u64;
        let grave = self
            .graves
            .get(self.dice.roll().checked_rem(count)? as usize)?;
        let pages = grave.pages();
        match pages.get(index) {
            Some(page) if !self.dice.roll().is_multiple_of(4) => Some(page.clone()),
            _ => {
                let count = pages.iter().count() as u64;
                let any = self.dice.roll().checked_rem(count)?;
                pages.iter().nth(any as usize).map(|(_, page)| page.clone())
            }
        }
    }
}

/// Numbers that look random and follow from a seed: `SplitMix64`.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    /// Different for every list of parts.
    pub(super) fn seeded(parts: &[u64]) -> Dice {
        let mut dice = Dice(parts.len() as u64);
        for part in parts {
            dice.0 = dice.roll() ^ part;
        }
        dice
    }

    pub(super) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
