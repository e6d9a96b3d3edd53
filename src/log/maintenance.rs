//! Maintenance: what is done beside appends and reads, by threads of the log or by the host.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use parking_lot::Mutex;

use super::inner::Inner;
use super::topic::TopicCore;
use crate::error::{Error, Result};
use crate::partition::agenda::{Agenda, Ring};
use crate::partition::home::Home;

/// Who does what is not part of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Maintenance {
    /// Two threads of the log, one for syncs and one for what takes longer, started when a topic is made that needs them, or the log
    /// is opened with one, or a consumer joins, and stopped
    /// when the log is closed. A topic needs them below [`Durability::Power`](crate::Durability::Power), and with a
    /// [`Retention`](crate::Retention) or a [`Compaction`](crate::Compaction); [`offsets_retention`](crate::LogBuilder::offsets_retention)
    /// needs them from the start. The default on disk.
    Background {
        /// How often they look for segments to be removed, topics to be compacted and committed offsets that expire; 30 s by default. They
        /// do so at once, too, when the log is opened.
        every: Duration,
    },
    /// Nobody but the host: a sync that bytes demand is done inline, by who appends or commits; what time demands
    /// ([`Durability::Interval`](crate::Durability::Interval), committed offsets), and removing, compacting and expiring, waits for the next call
    /// of [`Log::maintain`](crate::Log::maintain). For programs and tests that want no thread;
    /// the default in memory.
    Manual,
}

impl Maintenance {
    /// How often the log's threads look for what nobody asked for; `None` if there are none.
    pub(super) fn every(self) -> Option<Duration> {
        match self {
            Maintenance::Background { every } => Some(every),
            Maintenance::Manual => None,
        }
    }
}

/// What a pass of maintenance did, or [`Topic::compact`](crate::Topic::compact).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MaintenanceReport {
    /// Segment files that were removed because nothing in them is kept any longer.
    pub segments_deleted: u64,
    /// Segment files that were rewritten without what was superseded; several become one.
    pub segments_compacted: u64,
    /// Committed offsets that were forgotten since they were kept long enough, see
    /// [`LogBuilder::offsets_retention`](crate::LogBuilder::offsets_retention): one for each group and partition.
    pub offsets_expired: u64,
    /// Bytes that the files of the log take less than before.
    pub bytes_freed: u64,
    /// There is more to do: call again.
    pub more: bool,
    /// How far the clock of the log has jumped ahead, if it did by an hour or more within the last hour. A pass then removes one segment
    /// of a partition for its age and no more, and compacts no topic, so that a wrong clock does not empty the log at once.
    pub clock_jump: Option<Duration>,
}

impl Inner {
    /// One pass, now.
    pub(super) fn maintain(&self) -> Result<MaintenanceReport> {
        self.home.check_open()?;
        self.held.check()?;
        self.home.healthy()?;
        let mut report = MaintenanceReport::default();
        let due = self.home.run_due();
        let topics = self.upkeep.pass(&mut report);
        let ledger = self.ledger.maintain(&mut report);
        due.and(topics).and(ledger)?;
        self.home.healthy()?;
        Ok(report)
    }
}

impl Inner {
    /// What the threads met last, if all is not well since.
    pub(super) fn maintenance_failure(&self) -> Option<Arc<Error>> {
        self.upkeep.failure().or_else(|| self.ledger.failure())
    }

    /// Compacts a topic, now.
    pub(super) fn compact(&self, core: &TopicCore) -> Result<MaintenanceReport> {
        self.home.check_open()?;
        self.held.check()?;
        core.check_there()?;
        if core.now().settings.compaction.is_none() {
            return Err(Error::invalid("compacted", "the topic is not compacted"));
        }
        let mut report = MaintenanceReport::default();
        self.upkeep.compact_now(core, &mut report)?;
        Ok(report)
    }
}

/// The threads, once there are any.
#[derive(Default)]
pub(super) struct Worker {
    running: Mutex<Vec<(Sender<Ring>, JoinHandle<()>)>>,
}

/// A thread's name, and what it looks after.
type Post = (&'static str, fn(&Home) -> &Agenda);

/// What takes long has a thread of its own: syncs are done in time, however much there is to compact.
const POSTS: [Post; 2] = [
    ("thalweg-maintenance", |home| &home.agenda),
    ("thalweg-upkeep", |home| &home.upkeep),
];

impl Worker {
    /// Starts the threads that are not running.
    pub(super) fn start(&self, home: &Arc<Home>) -> Result<()> {
        let mut running = self.running.lock();
        let started = running.len();
        for (name, agenda) in &POSTS[started..] {
            let (bell, rings) = unbounded();
            let of = Arc::clone(home);
            let thread = thread::Builder::new()
                .name((*name).into())
                .spawn(move || look_after(agenda(&of), &rings))
                .map_err(|e| Error::io("start a thread for", &home.root, e))?;
            agenda(home).serve(bell.clone());
            running.push((bell, thread));
        }
        Ok(())
    }

    /// Ends the threads and waits for them, but for the caller, if it is one (a task that it woke may drop the last handle); what they
    /// were asked for and did not do yet is left to the caller.
    pub(super) fn stop(&self) {
        let running = std::mem::take(&mut *self.running.lock());
        for (bell, _) in &running {
            // If it is gone already, there is nobody to tell.
            let _ = bell.send(Ring::Stop);
        }
        for (_, thread) in running {
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }

    /// In a forked child there are no threads to end.
    pub(super) fn forget(&self) {
        self.running.lock().clear();
    }
}

/// What a thread does: what is due, when it is due. Errors are kept by those whom they concern: a failed sync has poisoned its
/// partition, and what a pass met is kept for [`Log::maintenance_failure`](crate::Log::maintenance_failure).
fn look_after(agenda: &Agenda, rings: &Receiver<Ring>) {
    loop {
        let rung = match agenda.until_due() {
            Some(wait) => rings.recv_timeout(wait),
            None => rings.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match rung {
            Ok(Ring::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Ok(Ring::Sooner) | Err(RecvTimeoutError::Timeout) => {
                let _ = agenda.run_due();
            }
        }
    }
}
