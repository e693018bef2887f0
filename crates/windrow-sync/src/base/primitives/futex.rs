//! Parked threads kept by the Linux kernel.

use std::time::Duration;

/// The kernel keeps the sleepers.
#[derive(Debug, Default)]
pub(crate) struct Sleepers;

impl Sleepers {
    /// Parks while the 32 bits at the address of a word are `seen`. The kernel loads them.
    #[cold]
    pub(crate) fn wait(&self, word: *const u32, seen: u32, at_most: Option<Duration>, _load: impl Fn() -> u32) {
        let timeout = at_most.map(|time| libc::timespec {
            tv_sec: time.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: time.subsec_nanos().into(),
        });
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let op = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the 32 bits are live and aligned: they belong to a word that is borrowed for this call. The timeout is null, which
        // means "no limit", or that of this frame. Every outcome (woken, changed meanwhile, interrupted, too late) is a legal return
        // of `wait`.
        unsafe { libc::syscall(libc::SYS_futex, word, op, seen, timeout) };
    }

    #[cold]
    pub(crate) fn wake(&self, word: *const u32, sleepers: u32) {
        let op = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        let sleepers = i32::try_from(sleepers).unwrap_or(i32::MAX);
        // SAFETY: the kernel takes the address as a key and does not read through it.
        unsafe { libc::syscall(libc::SYS_futex, word, op, sleepers) };
    }
}
