//! A lock for moments.

use std::time::{Duration, Instant};

use crate::base::fork::Stranded;
use crate::base::machine;
use crate::base::primitives::{self, MutexGuard, const_fn};
use std::sync::{PoisonError, TryLockError};

/// The time for which a forked child waits for a lock that is held for moments.
///
/// Measure: chosen, because a holder may have lost its CPU for seconds, and a lock that was held at the fork never comes free.
const PATIENCE: Duration = Duration::from_secs(10);

/// A lock that threads hold for moments only: a panic of its holder does not poison it, and in a forked child a wait for it ends.
///
/// ```
/// use windrow_sync::Mutex;
///
/// let mutex = Mutex::new(1);
/// let panics = std::panic::catch_unwind(|| {
///     let _held = mutex.lock();
///     panic!("boom");
/// });
/// assert!(panics.is_err() && *mutex.lock() == 1);
/// ```
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(primitives::Mutex<T>);

impl<T> Mutex<T> {
    const_fn! {
        /// A free lock around `value`.
        pub fn new(value: T) -> Self {
            Self(primitives::Mutex::new(value))
        }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks, also after a panic of another holder.
    ///
    /// # Panics
    /// In a forked child, if the lock does not come free for ten seconds: it was held at the fork, by a thread that does not exist here.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        if cfg!(loom) {
            // A model has no forks; each further step is one more to order.
            return self.wait(None);
        }
        self.try_lock().unwrap_or_else(|| self.wait((machine::fork_generation() > 0).then_some(PATIENCE)))
    }

    /// Locks, unless another thread holds the lock.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    #[cold]
    fn wait(&self, patience: Option<Duration>) -> MutexGuard<'_, T> {
        let Some(patience) = patience else { return self.0.lock().unwrap_or_else(PoisonError::into_inner) };
        let begun = Instant::now();
        while begun.elapsed() < patience {
            match self.try_lock() {
                Some(guard) => return guard,
                None => std::thread::yield_now(),
            }
        }
        Stranded.raise()
    }

    /// The value, by the only owner of the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn a_child_gives_up_on_a_lock_that_does_not_come_free() {
        let mutex = Mutex::new(1);
        let held = mutex.lock();
        let why = catch_unwind(|| drop(mutex.wait(Some(Duration::from_millis(1))))).unwrap_err();
        assert_eq!(why.downcast_ref::<String>(), Some(&Stranded.to_string()));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| *mutex.wait(Some(Duration::from_secs(60))));
            let also = scope.spawn(|| *mutex.wait(None));
            drop(held);
            assert_eq!((waits.join().unwrap(), also.join().unwrap()), (1, 1));
        });
        let poisons = || {
            let _held = mutex.lock();
            std::panic::resume_unwind(Box::new("boom"));
        };
        catch_unwind(poisons).unwrap_err();
        assert_eq!(*mutex.lock(), 1, "also after a panic of its holder");
        assert_eq!((mutex.try_lock().map(|one| *one), mutex.into_inner()), (Some(1), 1));
    }
}
