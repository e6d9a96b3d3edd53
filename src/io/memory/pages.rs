//! The pages of a file by number, so that a copy shares what nobody changes: of a large file that is written at one place, a copy
//! costs little more than of a small one.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes in a page.
pub(super) const PAGE: usize = 4096;
pub(super) type Page = [u8; PAGE];

/// Pages in a run.
const RUN: u64 = 32;
type Run = [Option<Arc<Page>>; RUN as usize];

/// Pages by number, in runs of neighbours. A run is shared between copies until one of them changes a page in it.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages {
    runs: BTreeMap<u64, Arc<Run>>,
}

impl Pages {
    pub(super) fn get(&self, index: u64) -> Option<&Arc<Page>> {
        self.runs.get(&(index / RUN))?[within(index)].as_ref()
    }

    /// The page at `index` if there is one, to be changed or replaced.
    pub(super) fn get_mut(&mut self, index: u64) -> Option<&mut Arc<Page>> {
        let run = self.runs.get_mut(&(index / RUN))?;
        Arc::make_mut(run)[within(index)].as_mut()
    }

    /// The page at `index`, to be changed; made of zeros if there is none.
    pub(super) fn get_or_make(&mut self, index: u64) -> &mut Arc<Page> {
        self.slot(index).get_or_insert_with(|| Arc::new([0; PAGE]))
    }

    /// Drops all pages from `index` on.
    pub(super) fn cut(&mut self, index: u64) {
        self.runs.split_off(&index.div_ceil(RUN));
        if let Some(run) = self.runs.get_mut(&(index / RUN))
            && run[within(index)..].iter().any(Option::is_some)
        {
            Arc::make_mut(run)[within(index)..].fill(None);
        }
    }

    fn slot(&mut self, index: u64) -> &mut Option<Arc<Page>> {
        let run = self
            .runs
            .entry(index / RUN)
            .or_insert_with(|| Arc::new([const { None }; RUN as usize]));
        &mut Arc::make_mut(run)[within(index)]
    }
}

#[cfg(any(test, feature = "testing"))]
impl Pages {
    /// In order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Arc<Page>)> {
        self.runs.iter().flat_map(|(number, run)| {
            let first = number * RUN;
            let pages = (first..).zip(run.iter());
            pages.filter_map(|(index, page)| Some((index, page.as_ref()?)))
        })
    }

    #[cfg(feature = "testing")]
    pub(super) fn insert(&mut self, index: u64, page: Arc<Page>) {
        *self.slot(index) = Some(page);
    }

    #[cfg(feature = "testing")]
    pub(super) fn remove(&mut self, index: u64) {
        if self.get(index).is_some() {
            *self.slot(index) = None;
        }
    }
}

fn within(index: u64) -> usize {
    (index % RUN) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_keeps_its_pages_and_shares_the_runs_that_are_not_changed() {
        let mut pages = Pages::default();
        for index in [0, 31, 32, 1000] {
            Arc::make_mut(pages.get_or_make(index))[0] = index as u8;
        }
        let copy = pages.clone();
        pages.get_or_make(33);
        pages.cut(31);
        let indices = |pages: &Pages| pages.iter().map(|(index, _)| index).collect::<Vec<_>>();
        assert_eq!(indices(&pages), [0]);
        assert_eq!(indices(&copy), [0, 31, 32, 1000]);
        assert_eq!(copy.get(31).unwrap()[0], 31);
    }

    #[test]
    fn a_cut_at_the_edge_of_a_run_keeps_that_run_whole() {
        let mut pages = Pages::default();
        for index in 30..34 {
            pages.get_or_make(index);
        }
        pages.cut(32);
        assert_eq!(pages.iter().count(), 2);
        pages.cut(0);
        assert_eq!(pages.iter().count(), 0);
    }
}
