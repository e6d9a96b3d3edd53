//! What the model knows, and the listener that writes into it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use thalweg::{BoxError, Offset, Rebalance, RebalanceListener, TopicPartition};

/// The group as it should be.
#[derive(Default)]
pub(crate) struct Book {
    pub(crate) committed: BTreeMap<TopicPartition, u64>,
    /// Everything that was ever committed: a power loss may bring it back.
    pub(crate) past: BTreeMap<TopicPartition, BTreeSet<u64>>,
    /// By the number of a consumer.
    pub(crate) readers: BTreeMap<u64, Reader>,
    pub(crate) fault: Option<String>,
}

/// One consumer as it should be.
#[derive(Default)]
pub(crate) struct Reader {
    /// It was shut out, and has not polled since.
    pub(crate) fenced: bool,
    pub(crate) owned: BTreeMap<TopicPartition, Place>,
}

/// One partition as its owner reads it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Place {
    pub(crate) next: u64,
    pub(crate) paused: bool,
    /// The next commit stores it.
    pub(crate) moved: bool,
}

impl Book {
    pub(crate) fn reader(&mut self, number: u64) -> &mut Reader {
        self.readers.entry(number).or_default()
    }

    pub(crate) fn commit(&mut self, at: &TopicPartition, next: u64) {
        self.committed.insert(at.clone(), next);
        self.past.entry(at.clone()).or_default().insert(next);
    }

    /// Everything that has moved, of those that are `wanted`.
    pub(crate) fn commit_moved(&mut self, number: u64, wanted: impl Fn(&TopicPartition) -> bool) {
        let owned = &mut self.reader(number).owned;
        let mut done = Vec::new();
        for (at, place) in owned.iter_mut().filter(|(at, _)| wanted(at)) {
            if std::mem::take(&mut place.moved) {
                done.push((at.clone(), place.next));
            }
        }
        for (at, next) in done {
            self.commit(&at, next);
        }
    }

    fn blame(&mut self, what: String) {
        self.fault.get_or_insert(what);
    }
}

/// Of the consumer of this number.
pub(crate) struct Writer {
    pub(crate) number: u64,
    pub(crate) book: Arc<Mutex<Book>>,
    /// In `revoked`, what goes.
    pub(crate) commits: bool,
}

impl RebalanceListener for Writer {
    fn assigned(
        &mut self,
        rebalance: &mut Rebalance<'_>,
        added: &[TopicPartition],
    ) -> Result<(), BoxError> {
        let mut book = self.book.lock().unwrap();
        let me = self.number;
        if book.reader(me).fenced {
            book.blame(format!(
                "{me} was given {added:?} before it was told what it lost"
            ));
        }
        for at in added {
            let others = book.readers.iter();
            let mut others = others.filter(|(of, reader)| **of != me && !reader.fenced);
            if let Some((other, _)) = others.find(|(_, reader)| reader.owned.contains_key(at)) {
                let what = format!("{at} was given to {me} while {other} had it");
                book.blame(what);
            }
            let next = book.committed.get(at).copied().unwrap_or(0);
            if rebalance.position(at) != Some(Offset::new(next)) {
                let position = rebalance.position(at);
                book.blame(format!(
                    "{me} begins {at} at {position:?} instead of {next}"
                ));
            }
            let place = Place {
                next,
                ..Place::default()
            };
            if book.reader(me).owned.insert(at.clone(), place).is_some() {
                book.blame(format!("{me} was given {at} twice"));
            }
        }
        Ok(())
    }

    fn revoked(
        &mut self,
        rebalance: &mut Rebalance<'_>,
        going: &[TopicPartition],
    ) -> Result<(), BoxError> {
        let me = self.number;
        if self.book.lock().unwrap().reader(me).fenced {
            let what = format!("{me} was shut out, and told {going:?} as going");
            self.book.lock().unwrap().blame(what);
        }
        if self.commits {
            rebalance.commit()?;
            let wanted = |at: &TopicPartition| going.contains(at);
            self.book.lock().unwrap().commit_moved(me, wanted);
        }
        let mut book = self.book.lock().unwrap();
        for at in going {
            if book.reader(me).owned.remove(at).is_none() {
                book.blame(format!("{at} goes from {me}, who did not have it"));
            }
        }
        Ok(())
    }

    fn lost(&mut self, gone: &[TopicPartition]) -> Result<(), BoxError> {
        let mut book = self.book.lock().unwrap();
        let me = self.number;
        let reader = book.reader(me);
        let had: Vec<TopicPartition> = reader.owned.keys().cloned().collect();
        let fenced = std::mem::take(&mut reader.fenced);
        reader.owned.clear();
        if !fenced || had != gone || gone.is_empty() {
            book.blame(format!("{me} lost {gone:?} of {had:?}, shut out: {fenced}"));
        }
        Ok(())
    }
}
