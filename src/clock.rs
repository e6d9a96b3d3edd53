//! The crate's only source of time: [`Timestamp`] as users see it, and the clock that the host or a test gives.
//!
//! Two kinds of time are kept apart. *Now* is what a calendar says: it is stored with records, and it may jump, backwards too.
//! *Elapsed* only ever grows: every timeout is counted in it, so a corrected calendar neither ends a wait nor prolongs it.

use std::fmt::Debug;
use std::task::Waker;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::sleepers::Watch;

/// A point in time: milliseconds since the Unix epoch, negative before it.
///
/// ```
/// use thalweg::Timestamp;
///
/// let t = Timestamp::from_millis(1_357_034_400_000); // 2013-01-01 10:00 UTC
/// assert!(t < std::time::SystemTime::now().into());
/// assert_eq!(t.as_millis(), 1_357_034_400_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Before every other.
    pub const MIN: Timestamp = Timestamp(i64::MIN);
    /// After every other.
    pub const MAX: Timestamp = Timestamp(i64::MAX);

    /// The point `ms` milliseconds after the Unix epoch.
    #[inline]
    pub const fn from_millis(ms: i64) -> Self {
        Timestamp(ms)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// This much later, in whole milliseconds; stops at [`MAX`](Self::MAX).
    pub(crate) fn plus(self, by: Duration) -> Self {
        Timestamp::saturated(i128::from(self.0) + millis(by))
    }

    /// This much earlier, in whole milliseconds; stops at [`MIN`](Self::MIN).
    pub(crate) fn minus(self, by: Duration) -> Self {
        Timestamp::saturated(i128::from(self.0) - millis(by))
    }

    fn saturated(ms: i128) -> Self {
        let bound = if ms < 0 { i64::MIN } else { i64::MAX };
        Timestamp(i64::try_from(ms).unwrap_or(bound))
    }
}

/// Rounds down to a whole millisecond, before the epoch as well as after it.
impl From<SystemTime> for Timestamp {
    fn from(t: SystemTime) -> Self {
        match t.duration_since(UNIX_EPOCH) {
            Ok(after) => Timestamp(0).plus(after),
            Err(e) => {
                // Down is away from zero here: any part of a millisecond counts as a whole one.
                let before = e.duration().saturating_add(Duration::from_nanos(999_999));
                Timestamp(0).minus(before)
            }
        }
    }
}

/// The longest duration has 2⁷⁴ milliseconds, so that adding it to a timestamp cannot overflow.
fn millis(d: Duration) -> i128 {
    i128::try_from(d.as_millis()).unwrap_or(i128::from(i64::MAX))
}

/// What tells the time. Given once, through the builder of the log.
pub(crate) trait Clock: Send + Sync + Debug {
    /// What the calendar says. May jump, backwards too.
    fn now(&self) -> Timestamp;

    /// Time since some fixed point; never less than it was. For timeouts.
    fn elapsed(&self) -> Duration;

    /// May a call wait for time to pass? `false` where a test moves it, unless the test says so: the thread that would wait is
    /// the one that moves the time.
    fn waits(&self) -> bool;

    /// Where a test moves the time: `waker` is called at its next move, and who waits sleeps until then, whatever a real clock says
    /// meanwhile. Look at [`elapsed`](Clock::elapsed) afterwards, before sleeping. `None`: time passes by itself.
    fn watch(&self, _: &Waker) -> Option<Watch> {
        None
    }
}

/// The clock of the operating system.
#[derive(Debug)]
pub(crate) struct SystemClock {
    /// Where [`Clock::elapsed`] begins.
    began: Instant,
}

impl SystemClock {
    pub(crate) fn new() -> Self {
        SystemClock {
            began: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn waits(&self) -> bool {
        true
    }
}

#[cfg(feature = "testing")]
pub(crate) use manual::ManualClock;

#[cfg(feature = "testing")]
mod manual {
    use std::fmt;
    use std::sync::Arc;
    use std::task::Waker;
    use std::time::Duration;

    use parking_lot::Mutex;

    use super::{Clock, Timestamp};
    use crate::sleepers::{Sleepers, Watch};

    /// A clock that stands still until a test moves it.
    pub(crate) struct ManualClock {
        hands: Mutex<Hands>,
        sleepers: Arc<Sleepers>,
    }

    #[derive(Debug)]
    struct Hands {
        now: Timestamp,
        elapsed: Duration,
        waits: bool,
    }

    impl ManualClock {
        /// A clock that says `now`, and on which nothing waits.
        pub(crate) fn new(now: Timestamp) -> Self {
            ManualClock {
                hands: Mutex::new(Hands {
                    now,
                    elapsed: Duration::ZERO,
                    waits: false,
                }),
                sleepers: Arc::default(),
            }
        }

        /// Time passes: the calendar and the timeouts move on together. Who waits looks again.
        pub(crate) fn advance(&self, by: Duration) {
            self.move_on(by);
            self.sleepers.wake_all();
        }

        fn move_on(&self, by: Duration) {
            let mut hands = self.hands.lock();
            // Summed before rounding, so that two steps of half a millisecond make a whole one.
            let before = hands.elapsed;
            hands.elapsed = before.saturating_add(by);
            let passed = hands.elapsed.as_millis() - before.as_millis();
            hands.now = hands.now.plus(Duration::from_millis(
                u64::try_from(passed).unwrap_or(u64::MAX),
            ));
        }

        /// The calendar is corrected, to any point; no time passes.
        pub(crate) fn set(&self, now: Timestamp) {
            self.hands.lock().now = now;
        }

        /// For tests with threads: whether a call may wait until another thread moves the time.
        pub(crate) fn set_waits(&self, waits: bool) {
            self.hands.lock().waits = waits;
        }
    }

    impl Clock for ManualClock {
        fn now(&self) -> Timestamp {
            self.hands.lock().now
        }

        fn elapsed(&self) -> Duration {
            self.hands.lock().elapsed
        }

        fn waits(&self) -> bool {
            self.hands.lock().waits
        }

        fn watch(&self, waker: &Waker) -> Option<Watch> {
            Some(self.sleepers.watch(waker))
        }
    }

    impl fmt::Debug for ManualClock {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.hands.lock().fmt(f)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_time_rounds_down_on_both_sides_of_the_epoch() {
        let half = Duration::from_micros(1_500);
        assert_eq!(Timestamp::from(UNIX_EPOCH).as_millis(), 0);
        assert_eq!(Timestamp::from(UNIX_EPOCH + half).as_millis(), 1);
        assert_eq!(Timestamp::from(UNIX_EPOCH - half).as_millis(), -2);
        assert_eq!(
            Timestamp::from(UNIX_EPOCH - Duration::from_millis(2)).as_millis(),
            -2
        );
    }

    #[test]
    fn moving_a_timestamp_stops_at_its_bounds() {
        assert_eq!(Timestamp::MAX.plus(Duration::from_secs(1)), Timestamp::MAX);
        assert_eq!(Timestamp::MIN.minus(Duration::MAX), Timestamp::MIN);
        let now = Timestamp::from_millis(1_600_000_000_000);
        assert_eq!(now.minus(Duration::MAX), Timestamp::MIN);
        assert_eq!(
            Timestamp::from_millis(5)
                .minus(Duration::from_millis(7))
                .as_millis(),
            -2
        );
    }

    #[test]
    fn the_system_clock_never_goes_back_in_elapsed_time() {
        let clock = SystemClock::new();
        let first = clock.elapsed();
        assert!(clock.elapsed() >= first);
        assert!(clock.waits());
        assert!(clock.now() > Timestamp::from_millis(1_600_000_000_000)); // September 2020
    }

    #[cfg(feature = "testing")]
    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let clock = ManualClock::new(Timestamp::from_millis(1_000));
        clock.advance(Duration::from_micros(500));
        clock.advance(Duration::from_micros(2_500));
        assert_eq!(clock.now().as_millis(), 1_003);
        assert_eq!(clock.elapsed(), Duration::from_millis(3));
    }

    #[cfg(feature = "testing")]
    #[test]
    fn correcting_the_calendar_of_a_manual_clock_lets_no_time_pass() {
        let clock = ManualClock::new(Timestamp::from_millis(1_000));
        clock.advance(Duration::from_secs(1));
        clock.set(Timestamp::from_millis(-7));
        assert_eq!(clock.now().as_millis(), -7);
        assert_eq!(clock.elapsed(), Duration::from_secs(1));
    }

    #[cfg(feature = "testing")]
    #[test]
    fn a_manual_clock_waits_only_where_a_test_says_so() {
        let clock = ManualClock::new(Timestamp::from_millis(0));
        assert!(!clock.waits());
        clock.set_waits(true);
        assert!(clock.waits());
    }

    #[cfg(feature = "testing")]
    #[test]
    fn a_manual_clock_rings_when_it_moves_and_the_system_clock_never_does() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicUsize, Ordering};

        #[derive(Default)]
        struct Count(AtomicUsize);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }

        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        assert!(SystemClock::new().watch(&waker).is_none());
        let clock = ManualClock::new(Timestamp::from_millis(0));
        drop(clock.watch(&waker));
        clock.advance(Duration::from_secs(1));
        let watch = clock.watch(&waker);
        assert!(watch.is_some());
        clock.advance(Duration::from_secs(1));
        clock.advance(Duration::from_secs(1));
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }
}
