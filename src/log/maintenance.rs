//! Maintenance: what is done beside appends and reads, by a thread of the log or by the host.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use parking_lot::Mutex;

use super::inner::Inner;
use crate::error::{Error, Result};
use crate::partition::agenda::Ring;
use crate::partition::home::Home;

/// Who does what is not part of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Maintenance {
    /// A thread of the log, started when a topic below [`Durability::Power`](crate::Durability::Power) is made, or the log is opened
    /// with one, or a consumer joins, stopped when the log is closed. The default on disk.
    Background {
        /// How often it looks for what nobody asked for; 30 s by default. (Nothing of that kind exists yet.)
        every: Duration,
    },
    /// Nobody but the host: a sync that bytes demand is done inline, by who appends or commits; what time demands
    /// ([`Durability::Interval`](crate::Durability::Interval), committed offsets), and making the files of committed offsets
    /// smaller, waits for the next call of [`Log::maintain`](crate::Log::maintain). For programs and tests that want no thread;
    /// the default in memory.
    Manual,
}

/// What a pass of maintenance did. In this version it is about committed offsets alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MaintenanceReport {
    /// Segment files that were removed because nothing in them is kept any longer. Always 0 in this version.
    pub segments_deleted: u64,
    /// Segment files that were rewritten without what was superseded; several become one.
    pub segments_compacted: u64,
    /// Bytes that the files of the log take less than before.
    pub bytes_freed: u64,
    /// There is more to do: call again. Always `false` in this version.
    pub more: bool,
}

impl Inner {
    /// One pass, now.
    pub(super) fn maintain(&self) -> Result<MaintenanceReport> {
        self.home.check_open()?;
        self.held.check()?;
        self.home.agenda.healthy()?;
        let due = self.home.agenda.run_due();
        let mut report = MaintenanceReport::default();
        let ledger = self.ledger.maintain(&mut report);
        due.and(ledger)?;
        self.home.agenda.healthy()?;
        Ok(report)
    }
}

/// The thread, once there is one.
#[derive(Default)]
pub(super) struct Worker {
    running: Mutex<Option<(Sender<Ring>, JoinHandle<()>)>>,
}

impl Worker {
    /// Starts the thread if it is not running.
    pub(super) fn start(&self, home: &Arc<Home>) -> Result<()> {
        let mut running = self.running.lock();
        if running.is_some() {
            return Ok(());
        }
        let (bell, rings) = unbounded();
        let of = Arc::clone(home);
        let thread = thread::Builder::new()
            .name("thalweg-maintenance".into())
            .spawn(move || look_after(&of, &rings))
            .map_err(|e| Error::io("start a thread for", &home.root, e))?;
        home.agenda.serve(bell.clone());
        *running = Some((bell, thread));
        Ok(())
    }

    /// Ends the thread and waits for it, if it is not the caller (a task that it woke may drop the last handle); what it was asked
    /// for and did not do yet is left to the caller.
    pub(super) fn stop(&self) {
        let Some((bell, thread)) = self.running.lock().take() else {
            return;
        };
        // If it is gone already, there is nobody to tell.
        let _ = bell.send(Ring::Stop);
        if thread.thread().id() != thread::current().id() {
            let _ = thread.join();
        }
    }

    /// In a forked child there is no thread to end.
    pub(super) fn forget(&self) {
        self.running.lock().take();
    }
}

/// What the thread does: what is due, when it is due. Errors are told by those whom they concern: a failed sync has poisoned its
/// partition, and a pass that failed is tried again by who asks for one.
fn look_after(home: &Home, rings: &Receiver<Ring>) {
    loop {
        let rung = match home.agenda.until_due() {
            Some(wait) => rings.recv_timeout(wait),
            None => rings.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match rung {
            Ok(Ring::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Ok(Ring::Sooner) | Err(RecvTimeoutError::Timeout) => {
                let _ = home.agenda.run_due();
            }
        }
    }
}
