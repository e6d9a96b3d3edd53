//! Whether a member still is one: the little that its own calls and those who may fence it share.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::consumer::wake::Parker;
use crate::error::FencedBy;
use crate::sync::{AtomicU64, Mutex, MutexGuard};

/// After so long a member that was just committing is looked at again.
const AGAIN: Duration = Duration::from_secs(1);

/// One member, as itself and the others see it.
pub(in crate::consumer) struct Standing {
    /// Grows with everything that the member has to look at.
    version: AtomicU64,
    parker: Arc<Parker>,
    gate: Mutex<Gate>,
}

/// Held while a member stores a commit, so that nobody fences it meanwhile and hands its partitions on.
pub(in crate::consumer) struct Gate {
    fenced: Option<FencedBy>,
    /// When it last polled.
    polled: Duration,
    /// It is in a poll that waits: however long, that is no silence.
    waiting: bool,
}

impl Standing {
    pub(super) fn new(parker: &Arc<Parker>, now: Duration) -> Standing {
        Standing {
            version: AtomicU64::new(1),
            parker: Arc::clone(parker),
            gate: Mutex::new(Gate {
                fenced: None,
                polled: now,
                waiting: false,
            }),
        }
    }

    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire) // pairs with `tell`
    }

    /// There is something to look at. Ring its [`parker`](Self::parker) when nothing is locked any more.
    pub(super) fn tell(&self) {
        // Release: who sees the new version finds what made it, behind the lock that is still held.
        self.version.fetch_add(1, Ordering::Release);
    }

    pub(super) fn parker(&self) -> &Arc<Parker> {
        &self.parker
    }

    /// It polls.
    pub(super) fn beat(&self, now: Duration, limit: Duration) -> Beat {
        let mut gate = self.gate.lock();
        if let Some(why) = gate.fenced {
            return Beat::Fenced(why);
        }
        let late = |silent: Duration| silent >= limit && !planted!(SILENT_NEVER_FENCED);
        if gate.silence(now).is_some_and(late) {
            return Beat::Late;
        }
        gate.polled = now;
        Beat::Alive
    }

    /// It begins or ends to wait within a poll. Did it wait before?
    pub(super) fn waits(&self, waiting: bool, now: Duration) -> bool {
        let mut gate = self.gate.lock();
        gate.polled = gate.polled.max(now);
        std::mem::replace(&mut gate.waiting, waiting)
    }

    /// Stays a member while what is returned is held.
    pub(super) fn hold(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock()
    }

    /// Shuts it out, if nobody did. Of all reasons only one is for good, and goes before the others: that it was replaced.
    pub(super) fn fence(&self, why: FencedBy) {
        let mut gate = self.gate.lock();
        if gate.fenced.is_none() || why == FencedBy::NewerInstance {
            gate.fenced = Some(why);
        }
        drop(gate);
        self.tell();
    }

    /// Shuts it out if it was silent for so long. Not while it commits: who does that is alive, and its disk may be slow.
    pub(super) fn fence_if_silent(&self, now: Duration, limit: Duration) -> bool {
        let Some(mut gate) = self.gate.try_lock() else {
            return false;
        };
        match gate.silence(now) {
            Some(silent_for)
                if silent_for >= limit
                    && gate.fenced.is_none()
                    && !planted!(SILENT_NEVER_FENCED) =>
            {
                gate.fenced = Some(FencedBy::PollInterval { limit, silent_for });
                drop(gate);
                self.tell();
                true
            }
            _ => false,
        }
    }

    /// When it will have been silent for so long, if it does not poll before.
    pub(super) fn silent_at(&self, now: Duration, limit: Duration) -> Duration {
        match self.gate.try_lock() {
            Some(gate) if gate.waiting => now.saturating_add(limit),
            Some(gate) => gate.polled.saturating_add(limit),
            None => now.saturating_add(AGAIN.min(limit)),
        }
    }
}

/// What [`Standing::beat`] found.
pub(super) enum Beat {
    Alive,
    /// It was silent for too long, and nobody has fenced it yet.
    Late,
    Fenced(FencedBy),
}

impl Gate {
    pub(super) fn fenced(&self) -> Option<FencedBy> {
        self.fenced
    }

    /// How long it has not polled; `None` while it waits in a poll.
    pub(super) fn silence(&self, now: Duration) -> Option<Duration> {
        (!self.waiting).then(|| now.saturating_sub(self.polled))
    }
}
