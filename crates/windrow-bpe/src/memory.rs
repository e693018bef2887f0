//! Memory that may not be there, and locks that may be lost.

use std::hint;
use std::sync::{Mutex, MutexGuard, TryLockError};

/// Attempts to lock: some microseconds, where a lock of this crate is held for a few instructions.
const ATTEMPTS: usize = 1000;

/// Buffers for longer pieces, in bytes, are freed.
pub(crate) const KEPT_SCRATCH: usize = 1 << 20;

/// The lock, unless another thread holds it for long. That thread may not exist: a fork copies locks, but no threads that would release them.
pub(crate) fn lock_briefly<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for _ in 0..ATTEMPTS {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            // What these locks protect is complete between any two instructions that can panic.
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => hint::spin_loop(),
        }
    }
    None
}

/// Makes space for `more` items. An error is the number of bytes that could not be allocated.
pub(crate) fn reserve<T>(items: &mut Vec<T>, more: usize) -> Result<(), usize> {
    items.try_reserve(more).map_err(|_| more.saturating_mul(size_of::<T>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_not_released_does_not_block() {
        let mutex = Mutex::new(1);
        let guard = lock_briefly(&mutex).unwrap();
        assert!(lock_briefly(&mutex).is_none());
        drop(guard);
        assert_eq!(lock_briefly(&mutex).map(|guard| *guard), Some(1));
    }
}
