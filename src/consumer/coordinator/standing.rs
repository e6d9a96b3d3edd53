//! Whether a member still is one: the little that its own calls and those who may fence it share.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::consumer::wake::Parker;
use crate::error::FencedBy;
use crate::sync::{AtomicU64, Mutex, MutexGuard};

/// After so long a member that was just committing is looked at again.
const AGAIN: Duration = Duration::from_secs(1);

/// It waits within a poll: however long, that is no silence.
const WAITING: u64 = u64::MAX;
/// It was shut out; why, its [`Gate`] says.
const OUT: u64 = u64::MAX - 1;

/// One member, as itself and the others see it.
pub(in crate::consumer) struct Standing {
    /// Grows with everything that the member has to look at.
    version: AtomicU64,
    parker: Arc<Parker>,
    /// When it last polled, in nanoseconds of the clock, or [`WAITING`], or [`OUT`] for good. Who shuts it out for its silence and
    /// the member that polls at this very moment exchange it for what they saw, so that one of them finds out.
    polled: AtomicU64,
    gate: Mutex<Gate>,
}

/// Held while a member stores a commit, so that nobody fences it meanwhile and hands its partitions on.
pub(in crate::consumer) struct Gate {
    fenced: Option<FencedBy>,
}

impl Standing {
    pub(super) fn new(parker: &Arc<Parker>, now: Duration) -> Standing {
        Standing {
            version: AtomicU64::new(1),
            parker: Arc::clone(parker),
            polled: AtomicU64::new(instant(now)),
            gate: Mutex::new(Gate { fenced: None }),
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
        let polled = self.polled.load(Ordering::Acquire);
        match silence_since(polled, now) {
            Some(silent) if silent >= limit && !planted!(SILENT_NEVER_FENCED) => Beat::Late,
            Some(_) if self.exchange(polled, instant(now)) => Beat::Alive,
            None if polled == WAITING => Beat::Alive,
            _ => self.gate.lock().fenced.map_or(Beat::Late, Beat::Fenced),
        }
    }

    fn exchange(&self, from: u64, to: u64) -> bool {
        let exchanged = self
            .polled
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        exchanged.is_ok()
    }

    /// It begins or ends to wait within a poll. Did it wait before?
    pub(super) fn waits(&self, waiting: bool, now: Duration) -> bool {
        let polled = if waiting { WAITING } else { instant(now) };
        let before = self.polled.load(Ordering::Acquire);
        before != OUT && self.exchange(before, polled) && before == WAITING
    }

    /// How long it has not polled; `None` while it waits in a poll, and when it was shut out.
    pub(super) fn silence(&self, now: Duration) -> Option<Duration> {
        silence_since(self.polled.load(Ordering::Acquire), now)
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
            self.polled.store(OUT, Ordering::Release);
        }
        drop(gate);
        self.tell();
    }

    /// Shuts it out if it was silent for so long. Not while it commits: who does that is alive, and its disk may be slow.
    pub(super) fn fence_if_silent(&self, now: Duration, limit: Duration) -> bool {
        let Some(mut gate) = self.gate.try_lock() else {
            return false;
        };
        let polled = self.polled.load(Ordering::Acquire);
        match silence_since(polled, now) {
            Some(silent_for)
                if silent_for >= limit
                    && !planted!(SILENT_NEVER_FENCED)
                    && self.exchange(polled, OUT) =>
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
        let since = now.saturating_sub(self.silence(now).unwrap_or_default());
        match self.gate.try_lock() {
            Some(_) => since.saturating_add(limit),
            None => now.saturating_add(AGAIN.min(limit)),
        }
    }
}

/// `None` if that is no time.
fn silence_since(polled: u64, now: Duration) -> Option<Duration> {
    (polled < OUT).then(|| now.saturating_sub(Duration::from_nanos(polled)))
}

/// Stops short of [`OUT`], after 584 years.
fn instant(now: Duration) -> u64 {
    super::nanos(now).min(OUT - 1)
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
}
