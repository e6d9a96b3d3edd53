//! The maintenance thread: syncs in the background, when a topic below `Power` asks for it.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use parking_lot::Mutex;

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::partition::Partition;
use crate::partition::home::{Home, Job};

/// Who does what is not part of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Maintenance {
    /// A thread of the log, started when a topic below [`Durability::Power`](crate::Durability::Power) is opened or
    /// a consumer joins, stopped when the log is closed. The default on disk.
    Background {
        /// How often it looks for what nobody asked for. (Nothing of that kind exists yet.)
        every: Duration,
    },
    /// Nobody but who appends: a sync that bytes demand is done inline, and one that only time demands
    /// ([`Durability::Interval`](crate::Durability::Interval), committed offsets) waits for the next call of
    /// [`Log::sync`](crate::Log::sync) or `close`. For programs and tests that want no thread; the default in memory.
    Manual,
}

/// The thread, once there is one.
#[derive(Default)]
pub(super) struct Worker {
    running: Mutex<Option<(Sender<Job>, JoinHandle<()>)>>,
}

impl Worker {
    /// Starts the thread if it is not running.
    pub(super) fn start(&self, home: &Home) -> Result<()> {
        let mut running = self.running.lock();
        if running.is_some() {
            return Ok(());
        }
        let (jobs, inbox) = unbounded();
        let clock = Arc::clone(&home.clock);
        let thread = thread::Builder::new()
            .name("thalweg-maintenance".into())
            .spawn(move || {
                Rounds {
                    inbox,
                    clock,
                    due: BTreeMap::new(),
                    asked: 0,
                }
                .run();
            })
            .map_err(|e| Error::io("start a thread for", &home.root, e))?;
        home.set_jobs(jobs.clone());
        *running = Some((jobs, thread));
        Ok(())
    }

    /// Ends the thread and waits for it; what it was asked for and did not do yet is left to the caller.
    pub(super) fn stop(&self) {
        let Some((jobs, thread)) = self.running.lock().take() else {
            return;
        };
        // If it is gone already, there is nobody to tell; its panic was reported when it happened.
        let _ = jobs.send(Job::Stop);
        let _ = thread.join();
    }

    /// In a forked child there is no thread to end.
    pub(super) fn forget(&self) {
        self.running.lock().take();
    }
}

/// What the thread does: jobs as they come, and those with a time when it is due.
struct Rounds {
    inbox: Receiver<Job>,
    clock: Arc<dyn Clock>,
    /// By due time on [`Clock::elapsed`], then in the order asked.
    due: BTreeMap<(Duration, u64), Partition>,
    asked: u64,
}

impl Rounds {
    fn run(mut self) {
        loop {
            let job = match self.until_due() {
                Some(wait) => match self.inbox.recv_timeout(wait) {
                    Ok(job) => Some(job),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return,
                },
                None => match self.inbox.recv() {
                    Ok(job) => Some(job),
                    Err(_) => return,
                },
            };
            match job {
                Some(Job::Stop) => return,
                Some(Job::SyncNow(partition)) => sync(&partition),
                Some(Job::SyncWithin(partition, time)) => {
                    self.asked += 1;
                    let at = self.clock.elapsed().saturating_add(time);
                    self.due.insert((at, self.asked), partition);
                }
                None => {}
            }
            self.sync_due();
        }
    }

    fn until_due(&self) -> Option<Duration> {
        let (at, _) = self.due.first_key_value()?.0;
        Some(at.saturating_sub(self.clock.elapsed()))
    }

    fn sync_due(&mut self) {
        while let Some(entry) = self.due.first_entry() {
            if entry.key().0 > self.clock.elapsed() {
                return;
            }
            sync(&entry.remove());
        }
    }
}

/// A failed sync has poisoned its partition, which tells whoever writes next. A panic ends this job and nothing else.
fn sync(partition: &Partition) {
    let _ = catch_unwind(AssertUnwindSafe(|| partition.sync()));
}
