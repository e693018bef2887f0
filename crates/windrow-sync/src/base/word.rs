#![doc = include_str!("word.md")]

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::base::primitives::{AtomicU32, AtomicU64, Ordering, Sleepers};
use crate::base::unwind::quietly;

/// The function to call when a wait lasts, and after which time. Never set in a model of loom, whose waits have no end.
static LONG_WAITS: OnceLock<(Duration, fn(Duration))> = OnceLock::new();

/// From now on `call` is called on each thread whose wait for other threads of a call has lasted for `after`, with the time that the
/// thread has waited. Then the thread waits on, also after a panic of `call`: other threads use what the waiting frame owns. Only the
/// first call of this function in a process has an effect.
///
/// Waits for other threads of a call are those of a [`Word`], and those for a batch. Idle workers are parked on a [`WideWord`].
pub fn report_long_waits(after: Duration, call: fn(Duration)) {
    let _ = LONG_WAITS.set((after, call));
}

/// Waits by `wait`. If long waits are reported, the first wait ends after their time, and a second one follows. Both may return spuriously.
/// A wait without a limit checks again for the event: the wake that it waits for may have ended the first wait, late.
pub(crate) fn wait_watched(wait: impl Fn(Option<Duration>)) {
    let Some((after, call)) = LONG_WAITS.get() else { return wait(None) };
    let begun = Instant::now();
    wait(Some(*after));
    let waited = begun.elapsed();
    if waited >= *after {
        quietly(|| call(waited));
        wait(None);
    }
}

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
        wait_watched(|at_most| self.wait_for(seen, at_most));
    }

    /// [`wait`](Self::wait) without a report, for `at_most`.
    pub(crate) fn wait_for(&self, seen: u32, at_most: Option<Duration>) {
        // Relaxed: see `Sleepers::wait`.
        self.sleepers.wait(self.address(), seen, at_most, || self.value.load(Ordering::Relaxed));
    }

    /// Wakes up to `sleepers` threads that are parked on the word.
    pub fn wake(&self, sleepers: u32) {
        self.sleepers.wake(self.address(), sleepers);
    }

    fn address(&self) -> *const u32 {
        std::ptr::from_ref(&self.value).cast()
    }
}

/// 64 bits; threads park on the upper half. See the [module page](self).
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
        // Relaxed: see `Sleepers::wait`.
        self.sleepers.wait(self.upper(), seen, None, || (self.value.load(Ordering::Relaxed) >> 32) as u32);
    }

    /// Wakes up to `sleepers` threads that are parked on the word: on Linux in the order in which they parked, elsewhere all of
    /// them.
    pub fn wake(&self, sleepers: u32) {
        self.sleepers.wake(self.upper(), sleepers);
    }

    fn upper(&self) -> *const u32 {
        std::ptr::from_ref(&self.value).cast::<u32>().wrapping_add(usize::from(cfg!(target_endian = "little")))
    }
}
