//! Locks, bells, atomics and threads as the coordinator of groups uses them: plain ones, or those of a scheduler that tries orders.
//!
//! A build with `--cfg shuttle` has its tests run by `shuttle`, which decides at each of these calls who goes on. (`Arc` needs no
//! such thing.) Everything else of this crate names `parking_lot` and `std` itself.

#[cfg(not(all(test, shuttle)))]
pub(crate) use {
    parking_lot::{Condvar, Mutex, MutexGuard},
    std::{sync::atomic::AtomicU64, thread},
};

#[cfg(all(test, shuttle))]
pub(crate) use {
    scheduled::{Condvar, Mutex, MutexGuard},
    shuttle::{sync::atomic::AtomicU64, thread},
};

/// The locks of `shuttle`, called as those of `parking_lot` are.
#[cfg(all(test, shuttle))]
mod scheduled {
    use std::ops::{Deref, DerefMut};
    use std::time::Duration;

    use shuttle::sync as theirs;

    #[derive(Default)]
    pub(crate) struct Mutex<T>(theirs::Mutex<T>);

    /// Always there, except while a bell is waited for.
    pub(crate) struct MutexGuard<'m, T>(Option<theirs::MutexGuard<'m, T>>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Mutex<T> {
            Mutex(theirs::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().unwrap()))
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            let guard = self.0.try_lock().ok()?;
            Some(MutexGuard(Some(guard)))
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().unwrap()
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().unwrap()
        }
    }

    #[derive(Default)]
    pub(crate) struct Condvar(theirs::Condvar);

    impl Condvar {
        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }

        pub(crate) fn wait_while<T>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            mut asleep: impl FnMut(&mut T) -> bool,
        ) {
            while asleep(guard) {
                let held = guard.0.take().unwrap();
                guard.0 = Some(self.0.wait(held).unwrap());
            }
        }

        /// No time passes under the scheduler: the limit is over as soon as somebody else has had a turn.
        pub(crate) fn wait_while_for<T>(
            &self,
            _: &mut MutexGuard<'_, T>,
            _: impl FnMut(&mut T) -> bool,
            _: Duration,
        ) {
            shuttle::thread::yield_now();
        }
    }
}
