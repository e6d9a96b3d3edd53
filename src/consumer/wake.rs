//! How one consumer sleeps, and everything that ends its sleep.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Wake, Waker};
use std::time::Duration;

use crate::sync::{AtomicU64, Condvar, Mutex};

/// Wakes a `poll` or `next_batch` from any thread. Sticky: if nothing waits now, the next call ends at once.
///
/// ```
/// use thalweg::{Log, TopicConfig};
///
/// let log = Log::in_memory();
/// log.create_topic("orders", TopicConfig::new())?;
/// let mut kitchen = log.group("kitchen").subscribe(["orders"]).join()?;
/// let handle = kitchen.wake_handle();
/// let stop = std::thread::spawn(move || handle.wake());
/// assert!(kitchen.next_batch()?.is_none());
/// stop.join().unwrap();
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone)]
pub struct WakeHandle {
    pub(crate) parker: Arc<Parker>,
}

impl WakeHandle {
    /// Ends the wait of the consumer, or its next one. No position moves.
    pub fn wake(&self) {
        let task = {
            let mut state = self.parker.state.lock();
            self.parker.called.store(1, Ordering::Release);
            state.woken = true;
            state.task.take()
        };
        self.parker.end_sleep(task);
    }
}

impl fmt::Debug for WakeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WakeHandle").finish_non_exhaustive()
    }
}

/// Where one consumer's thread sleeps. As a [`Wake`] it is what partitions call when they made progress.
#[derive(Default)]
pub(crate) struct Parker {
    /// 1: the user called `wake`, so it is worth asking `state`.
    called: AtomicU64,
    state: Mutex<State>,
    bell: Condvar,
}

#[derive(Default)]
struct State {
    /// The user called `wake`; stays until a poll has told it.
    woken: bool,
    /// Something may have changed since [`Parker::arm`].
    rung: bool,
    /// A task that sleeps here instead of the thread.
    task: Option<Waker>,
}

impl Parker {
    /// Did the user call `wake`? Tells it once.
    pub(super) fn take_woken(&self) -> bool {
        if self.called.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut state = self.state.lock();
        self.called.store(0, Ordering::Release);
        std::mem::take(&mut state.woken)
    }

    /// Did the user call `wake`, and nothing has told it yet?
    pub(super) fn is_woken(&self) -> bool {
        self.state.lock().woken
    }

    /// Something may have changed.
    pub(super) fn ring(&self) {
        let task = {
            let mut state = self.state.lock();
            state.rung = true;
            state.task.take()
        };
        self.end_sleep(task);
    }

    fn end_sleep(&self, task: Option<Waker>) {
        self.bell.notify_all();
        if let Some(task) = task {
            task.wake(); // foreign code: not under the lock
        }
    }

    /// To be called before the last look at what is waited for.
    pub(super) fn arm(&self) {
        self.state.lock().rung = false;
    }

    /// As [`arm`](Self::arm): what rings from now on wakes this task, once. `None`: no task sleeps here any more.
    pub(super) fn arm_task(&self, task: Option<Waker>) {
        let mut state = self.state.lock();
        state.rung = false;
        let old = std::mem::replace(&mut state.task, task);
        drop(state);
        drop(old); // foreign code too
    }

    /// Sleeps until something rings or `limit` has passed; `None` is no limit. At once if it rang since
    /// [`arm`](Self::arm).
    pub(super) fn park(&self, limit: Option<Duration>) {
        let mut state = self.state.lock();
        let asleep = |state: &mut State| !state.woken && !state.rung;
        match limit {
            Some(limit) => {
                self.bell.wait_while_for(&mut state, asleep, limit);
            }
            None => self.bell.wait_while(&mut state, asleep),
        }
    }
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_between_arming_and_parking_is_not_lost() {
        let parker = Arc::new(Parker::default());
        parker.arm();
        parker.wake_by_ref();
        parker.park(None);
    }

    #[test]
    fn a_wake_is_told_once_and_ends_the_park_before_it_is_told() {
        let handle = WakeHandle {
            parker: Arc::default(),
        };
        handle.wake();
        handle.parker.arm();
        handle.parker.park(None);
        assert!(handle.parker.take_woken());
        assert!(!handle.parker.take_woken());
    }

    #[test]
    fn a_park_ends_by_itself_when_its_time_is_over() {
        let parker = Parker::default();
        parker.arm();
        parker.park(Some(Duration::from_millis(1)));
    }

    #[test]
    fn another_thread_ends_a_park_without_limit() {
        let handle = WakeHandle {
            parker: Arc::default(),
        };
        let other = handle.clone();
        let thread = std::thread::spawn(move || other.wake());
        handle.parker.arm();
        handle.parker.park(None);
        assert!(handle.parker.take_woken());
        thread.join().unwrap();
    }
}
