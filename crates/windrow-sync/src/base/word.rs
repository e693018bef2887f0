#![doc = include_str!("word.md")]

use crate::base::primitives::{AtomicU32, AtomicU64, Half, Sleepers};

/// 32 bits to park on. See the [module page](self).
///
/// ```
/// use windrow_sync::word::Word;
///
/// let word = Word::new(1);
/// // It is not 0, so the thread does not park.
/// let waiter = std::thread::spawn(move || word.wait(0));
/// assert!(waiter.join().is_ok());
/// ```
#[derive(Debug, Default)]
pub struct Word {
    value: AtomicU32,
    sleepers: Sleepers,
}

impl Word {
    /// A word that holds `value`.
    pub fn new(value: u32) -> Self {
        Self { value: AtomicU32::new(value), sleepers: Default::default() }
    }

    #[inline]
    pub(crate) fn value(&self) -> &AtomicU32 {
        &self.value
    }

    /// Parks while the word is `seen`; may return spuriously.
    pub fn wait(&self, seen: u32) {
        self.sleepers.wait(Half::all_of(&self.value), seen);
    }

    /// Wakes up to `sleepers` threads that are parked on the word.
    pub fn wake(&self, sleepers: u32) {
        self.sleepers.wake(Half::all_of(&self.value), sleepers);
    }
}

/// 64 bits; threads park on the upper half. See the [module page](self).
///
/// ```
/// use windrow_sync::word::WideWord;
///
/// let word = WideWord::new(1 << 32);
/// // Its upper half is not 0, so the thread does not park.
/// let waiter = std::thread::spawn(move || word.wait(0));
/// assert!(waiter.join().is_ok());
/// ```
#[derive(Debug, Default)]
pub struct WideWord {
    value: AtomicU64,
    sleepers: Sleepers,
}

impl WideWord {
    /// A word that holds `value`.
    pub fn new(value: u64) -> Self {
        Self { value: AtomicU64::new(value), sleepers: Default::default() }
    }

    #[inline]
    pub(crate) fn value(&self) -> &AtomicU64 {
        &self.value
    }

    /// Parks while the upper half is `seen`; may return spuriously.
    pub fn wait(&self, seen: u32) {
        self.sleepers.wait(Half::upper_of(&self.value), seen);
    }

    /// Wakes up to `sleepers` threads that are parked on the word: on Linux in the order in which they parked, elsewhere all of
    /// them.
    pub fn wake(&self, sleepers: u32) {
        self.sleepers.wake(Half::upper_of(&self.value), sleepers);
    }
}
