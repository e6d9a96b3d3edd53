//! What is to be done in the background, and when: kept for the maintenance thread, and for who calls `Log::maintain`.
//!
//! Each chore stands here once, with the earliest time that was asked for. Chores are held weakly: an agenda keeps nothing open.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crossbeam_channel::Sender;
use parking_lot::Mutex;

use crate::clock::Clock;
use crate::error::{Error, Result};

/// Something that is done beside appends and reads, by one thread or several.
pub(crate) trait Chore: Send + Sync {
    /// Does what there is to do now.
    fn run(&self) -> Result<()>;
    /// Whose work it is, for messages.
    fn whose(&self) -> String;
}

/// What wakes the maintenance thread.
pub(crate) enum Ring {
    /// Something is due earlier than it knew.
    Sooner,
    Stop,
}

/// The chores of one open log.
pub(crate) struct Agenda {
    clock: Arc<dyn Clock>,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    /// By due time on [`Clock::elapsed`], then in the order asked.
    due: BTreeMap<Due, Weak<dyn Chore>>,
    /// Where each chore stands in `due`, by its address: that of a chore is not given to another while it stands there.
    places: HashMap<usize, Due>,
    asked: u64,
    /// The thread that looks after this, once there is one.
    bell: Option<Sender<Ring>>,
    /// What panicked, until somebody was told.
    panicked: Option<Error>,
    closed: bool,
}

type Due = (Duration, u64);

/// A chore that panicked is tried again after so long, and not before: it would most likely panic again.
const PAUSE_AFTER_PANIC: Duration = Duration::from_secs(10);

impl Agenda {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Agenda {
        Agenda {
            clock,
            list: Mutex::default(),
        }
    }

    /// From now on a thread that is woken so looks after it.
    pub(crate) fn serve(&self, bell: Sender<Ring>) {
        self.list.lock().bell = Some(bell);
    }

    /// `within` from now this is done, by the thread or by the next call of `Log::maintain` after that.
    pub(crate) fn ask(&self, chore: &Weak<dyn Chore>, within: Duration) {
        let at = self.clock.elapsed().saturating_add(within);
        self.list.lock().add(chore, at);
    }

    /// This is done soon, if there is a thread to do it. `false`: the caller does it.
    pub(crate) fn ask_thread(&self, chore: &Weak<dyn Chore>) -> bool {
        let mut list = self.list.lock();
        if list.bell.is_none() || list.closed {
            return false;
        }
        list.add(chore, Duration::ZERO);
        true
    }

    /// How long nothing is due; `None` if nothing is asked for.
    pub(crate) fn until_due(&self) -> Option<Duration> {
        let list = self.list.lock();
        let ((at, _), _) = list.due.first_key_value()?;
        Some(at.saturating_sub(self.clock.elapsed()))
    }

    /// Does what is due now. A panic of one chore is kept for [`healthy`](Self::healthy), and the others go on; the first error is
    /// returned.
    pub(crate) fn run_due(&self) -> Result<()> {
        let now = self.clock.elapsed();
        let mut result = Ok(());
        while let Some(chore) = self.take_due(now) {
            match catch_unwind(AssertUnwindSafe(|| chore.run())) {
                Ok(done) => result = result.and(done),
                Err(panic) => self.panicked(&chore, &*panic),
            }
        }
        result
    }

    fn take_due(&self, now: Duration) -> Option<Arc<dyn Chore>> {
        let mut list = self.list.lock();
        loop {
            let first = list.due.first_entry()?;
            if first.key().0 > now {
                return None;
            }
            let chore = first.remove();
            list.places.remove(&address(&chore));
            if let Some(chore) = chore.upgrade() {
                return Some(chore);
            }
        }
    }

    #[cold]
    fn panicked(&self, chore: &Arc<dyn Chore>, panic: &(dyn Any + Send)) {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let error = Error::Panicked {
            what: chore.whose().into(),
            message: text.unwrap_or("without a message").into(),
        };
        self.list.lock().panicked.get_or_insert(error);
        self.ask(&Arc::downgrade(chore), PAUSE_AFTER_PANIC);
    }

    /// Has a chore panicked since this was last asked?
    ///
    /// # Errors
    ///
    /// `Panicked`, once.
    pub(crate) fn healthy(&self) -> Result<()> {
        self.list.lock().panicked.take().map_or(Ok(()), Err)
    }

    /// Nothing is asked for any more.
    pub(crate) fn close(&self) {
        let mut list = self.list.lock();
        list.closed = true;
        list.bell = None;
        list.due.clear();
        list.places.clear();
    }
}

impl List {
    fn add(&mut self, chore: &Weak<dyn Chore>, at: Duration) {
        let place = address(chore);
        let known = self.places.get(&place).copied();
        if self.closed || known.is_some_and(|(earlier, _)| earlier <= at) {
            return;
        }
        if let Some(later) = known {
            self.due.remove(&later);
        }
        self.asked += 1;
        let due = (at, self.asked);
        self.due.insert(due, Weak::clone(chore));
        self.places.insert(place, due);
        let first = self
            .due
            .first_key_value()
            .is_some_and(|(&key, _)| key == due);
        if let Some(bell) = self.bell.as_ref().filter(|_| first) {
            let _ = bell.send(Ring::Sooner); // if the thread is gone, who calls `maintain` does it
        }
    }
}

fn address(chore: &Weak<dyn Chore>) -> usize {
    chore.as_ptr().cast::<()>().addr()
}

#[cfg(test)]
mod tests;
