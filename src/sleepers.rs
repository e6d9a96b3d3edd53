//! Who sleeps until something moves: parked threads and tasks alike, as a list of [`Waker`]s.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;

use parking_lot::Mutex;

/// Wakers that are called, each once, at the next [`wake_all`](Self::wake_all).
#[derive(Default)]
pub(crate) struct Sleepers {
    count: AtomicUsize,
    list: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    next: u64,
    wakers: Vec<(u64, Waker)>,
}

/// A waker that is called when what it watches moves. Dropped: forgotten.
#[must_use = "dropping it forgets the waker"]
pub(crate) struct Watch {
    sleepers: Arc<Sleepers>,
    key: u64,
}

impl Sleepers {
    /// Registers a waker. Look again at what is waited for afterwards, before sleeping.
    pub(crate) fn watch(self: &Arc<Self>, waker: &Waker) -> Watch {
        let mut list = self.list.lock();
        let key = list.next;
        list.next += 1;
        list.wakers.push((key, waker.clone()));
        self.count.store(list.wakers.len(), Ordering::SeqCst);
        Watch {
            sleepers: Arc::clone(self),
            key,
        }
    }

    /// As [`wake_all`](Self::wake_all); one load where nobody sleeps. Whoever moves something with `SeqCst` before it misses no
    /// sleeper: either that one sees the move when it looks again, or it is seen here.
    #[inline]
    pub(crate) fn wake_if_any(&self) {
        if self.count.load(Ordering::SeqCst) > 0 {
            self.wake_all();
        }
    }

    pub(crate) fn wake_all(&self) {
        let woken = {
            let mut list = self.list.lock();
            self.count.store(0, Ordering::SeqCst);
            std::mem::take(&mut list.wakers)
        };
        for (_, waker) in woken {
            waker.wake();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut list = self.sleepers.list.lock();
        let dropped = list
            .wakers
            .iter()
            .position(|(key, _)| *key == self.key)
            .map(|at| list.wakers.swap_remove(at));
        self.sleepers
            .count
            .store(list.wakers.len(), Ordering::SeqCst);
        drop(list);
        drop(dropped); // a waker's drop is foreign code: not under the lock
    }
}
