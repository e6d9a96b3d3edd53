//! The clock that a test holds in its hand.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{self, Clock, Timestamp};

/// A clock that stands still until a test moves it, for [`LogBuilder::clock`](crate::LogBuilder::clock); a
/// [`TestLog`](super::TestLog) has one. Clones are the same clock.
///
/// ```
/// use std::time::Duration;
/// use thalweg::testing::{Disk, ManualClock};
/// use thalweg::{Log, TopicConfig};
///
/// let clock = ManualClock::new();
/// let log = Log::builder().clock(&clock).open_on(&Disk::new())?;
/// let orders = log.create_topic("orders", TopicConfig::new())?;
/// orders.append(("customer-7", "2 x espresso"))?;
/// clock.advance(Duration::from_secs(60));
/// orders.append(("customer-7", "1 x flat white"))?;
///
/// let mut kitchen = log.group("kitchen").subscribe(["orders"]).join()?;
/// let batch = kitchen.poll(Duration::from_secs(3600))?; // nothing waits on this clock
/// let times: Vec<i64> = batch.iter().map(|order| order.timestamp().as_millis()).collect();
/// assert_eq!(times[1] - times[0], 60_000);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    clock: Arc<clock::ManualClock>,
}

impl ManualClock {
    /// A clock at midnight before 1 January 2020, UTC. Nothing waits on it.
    pub fn new() -> Self {
        let start = Timestamp::from_millis(1_577_836_800_000);
        ManualClock {
            clock: Arc::new(clock::ManualClock::new(start)),
        }
    }

    /// What the calendar says.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Time passes: the calendar and all timeouts move on together. Nothing else is done: [`TestLog::advance`](super::TestLog::advance)
    /// also does what is due.
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// The calendar is corrected, backwards too; no time passes.
    pub fn set(&self, now: Timestamp) {
        self.clock.set(now);
    }

    /// Whether a call may wait until another thread moves the time.
    pub(super) fn set_waits(&self, waits: bool) {
        self.clock.set_waits(waits);
    }

    pub(crate) fn shared(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock) as Arc<dyn Clock>
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        ManualClock::new()
    }
}
