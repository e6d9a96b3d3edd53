//! The end of a partition: everything is refused when its topic is deleted, and its files are let go of.

use std::sync::atomic::Ordering;

use super::segments::Segments;
use super::writer::Rear;
use super::{Inner, Partition};
use crate::error::{Error, Result};

/// A partition that refuses everything, until it is known whether its topic is deleted. What was written before is synced as ever:
/// the topic may stay.
pub(crate) struct Retired {
    partition: Partition,
}

impl Inner {
    /// May this partition be read?
    pub(crate) fn check_there(&self) -> Result<()> {
        self.home.check_open()?;
        if self.is_gone() {
            Err(self.not_found())
        } else {
            Ok(())
        }
    }

    /// As [`check_there`](Inner::check_there), for who only wants to know whether all is well.
    pub(crate) fn is_there(&self) -> bool {
        self.home.is_open() && !self.is_gone()
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire) // pairs with `set_gone`: what was done before it is seen
    }

    /// Is it decided?
    pub(super) fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Acquire) // pairs with `let_go`
    }

    #[cold]
    pub(crate) fn not_found(&self) -> Error {
        Error::not_found("topic", self.place.at.topic())
    }

    fn set_gone(&self, gone: bool) {
        self.gone.store(gone, Ordering::Release);
    }
}

impl Partition {
    /// May it be read?
    pub(crate) fn check_there(&self) -> Result<()> {
        self.inner.check_there()
    }

    /// Is its topic deleted, or about to be?
    pub(crate) fn is_gone(&self) -> bool {
        self.inner.is_gone()
    }

    /// Is its topic deleted, for certain?
    pub(crate) fn is_deleted(&self) -> bool {
        self.inner.is_deleted()
    }

    /// Wakes who sleeps here, to see that it is gone. Not done under any lock: a waker is foreign code.
    pub(crate) fn wake_sleepers(&self) {
        self.inner.progress.wake();
    }

    /// Refuses everything from now on; wake who sleeps here when nothing is locked. An append that is under way has been written;
    /// if it waits for a sync when the topic is
    /// deleted, it is told that it is not known whether it will be there.
    pub(crate) fn retire(&self) -> Retired {
        let _writer = self.inner.writer.lock();
        self.inner.set_gone(true);
        Retired {
            partition: Partition {
                inner: self.inner.clone(),
                _open: None,
            },
        }
    }
}

impl Retired {
    /// The topic was not deleted after all.
    pub(crate) fn reinstate(self) {
        let inner = &*self.partition.inner;
        let _writer = inner.writer.lock();
        inner.set_gone(false);
    }

    /// The topic is deleted: lets go of the files. Who reads one keeps it for as long. A pass over the segments ends first, which it
    /// does when it sees that it may not go on: after that nothing makes a file here.
    pub(crate) fn let_go(self) {
        let inner = &*self.partition.inner;
        let _alone = inner.lock_pass();
        let mut writer = inner.writer.lock();
        inner.deleted.store(true, Ordering::Release);
        writer.rear = Rear::Closed(None);
        writer.tail = None;
        writer.work = None;
        inner.change_segments(|segments| *segments = Segments::default());
    }
}
