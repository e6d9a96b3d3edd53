//! How far a partition has come, and who sleeps until it goes on: two numbers and a list of wakers.
//!
//! Publishing is one store when nobody sleeps. Parked threads and tasks are kept alike, as [`Waker`]s.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use crate::offset::Offset;
use crate::sleepers::Sleepers;

pub(crate) use crate::sleepers::Watch;

/// The visible and the durable end of a partition.
#[derive(Default)]
pub(crate) struct Progress {
    /// Readers see records below it.
    end: AtomicU64,
    /// Records below it are synced in the partition's own files.
    durable: AtomicU64,
    /// How often there was an error to see.
    errors: AtomicU64,
    sleepers: Arc<Sleepers>,
}

impl Progress {
    pub(crate) fn new(end: u64, durable: u64) -> Progress {
        Progress {
            end: AtomicU64::new(end),
            durable: AtomicU64::new(durable),
            errors: AtomicU64::new(0),
            sleepers: Arc::default(),
        }
    }

    /// The offset after the last visible record.
    pub(crate) fn end(&self) -> Offset {
        Offset::new(self.end.load(Ordering::SeqCst)) // pairs with `publish`: the bytes are there before, and no wake-up is lost
    }

    /// Every offset below was synced.
    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    pub(crate) fn set_durable(&self, end: u64) {
        self.durable.fetch_max(end, Ordering::AcqRel);
    }

    /// Makes everything below `end` visible. The end never goes back. Who waits for it is to be [woken](Self::wake).
    pub(crate) fn publish(&self, end: u64) {
        self.end.fetch_max(end, Ordering::SeqCst); // as `wake_if_any` asks
    }

    /// Wakes who waits here: something was published, or there is an error to see. Not under any lock: a waker is foreign code,
    /// and may write to the very partition that it waits for.
    #[inline]
    pub(crate) fn wake(&self) {
        self.sleepers.wake_if_any();
    }

    /// There is an error to see, where nothing was published. Who waits is to be woken.
    #[cold]
    pub(crate) fn failed(&self) {
        self.errors.fetch_add(1, Ordering::SeqCst);
    }

    /// Wakes when it is dropped, if there was something to wake for meanwhile: goes before the lock.
    pub(crate) fn waking(&self) -> Waking<'_> {
        Waking {
            progress: self,
            before: self.state(),
        }
    }

    fn state(&self) -> (u64, u64) {
        let errors = self.errors.load(Ordering::SeqCst);
        (self.end.load(Ordering::SeqCst), errors)
    }

    /// Registers a waker for the next progress. Look at the end again afterwards, before sleeping.
    pub(crate) fn watch(&self, waker: &Waker) -> Watch {
        self.sleepers.watch(waker)
    }
}

/// See [`Progress::waking`].
#[must_use = "it wakes when it is dropped"]
pub(crate) struct Waking<'p> {
    progress: &'p Progress,
    before: (u64, u64),
}

impl Drop for Waking<'_> {
    fn drop(&mut self) {
        if self.progress.state() != self.before {
            self.progress.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_publication_wakes_each_watcher_once() {
        let progress = Progress::new(0, 0);
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let _first = progress.watch(&waker);
        let _second = progress.watch(&waker);
        progress.publish(3);
        progress.wake();
        progress.publish(4);
        progress.wake();
        assert_eq!(count.0.load(Ordering::SeqCst), 2);
        assert_eq!(progress.end(), Offset::new(4));
    }

    #[test]
    fn a_dropped_watch_is_not_woken_and_the_end_never_goes_back() {
        let progress = Progress::new(7, 0);
        let count = Arc::new(Count::default());
        drop(progress.watch(&Waker::from(Arc::clone(&count))));
        progress.publish(5);
        progress.wake();
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
        assert_eq!(progress.end(), Offset::new(7));
    }
}
