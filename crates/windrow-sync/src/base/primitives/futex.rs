//! Parked threads kept by the Linux kernel.

use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

/// The kernel keeps the sleepers.
#[derive(Debug, Default)]
pub(crate) struct Sleepers;

/// The address of the 32 bits.
pub(crate) struct Half(*const u32);

impl Half {
    pub(crate) fn all_of(value: &AtomicU32) -> Self {
        Self(value.as_ptr())
    }
    pub(crate) fn upper_of(value: &AtomicU64) -> Self {
        let halves = value.as_ptr().cast::<u32>();
        Self(halves.wrapping_add(usize::from(cfg!(target_endian = "little"))))
    }
}

impl Sleepers {
    #[cold]
    pub(crate) fn wait(&self, half: Half, seen: u32, at_most: Option<Duration>) {
        let timeout = at_most.map(|time| libc::timespec {
            tv_sec: time.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: time.subsec_nanos().into(),
        });
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let op = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the 32 bits are live and aligned: they belong to a word that is borrowed for this call. The timeout is null, which
        // means "no limit", or that of this frame. Every outcome (woken, changed meanwhile, interrupted, too late) is a legal return
        // of `wait`.
        unsafe { libc::syscall(libc::SYS_futex, half.0, op, seen, timeout) };
    }

    #[cold]
    pub(crate) fn wake(&self, half: Half, sleepers: u32) {
        let op = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        let sleepers = i32::try_from(sleepers).unwrap_or(i32::MAX);
        // SAFETY: the kernel takes the address as a key and does not read through it.
        unsafe { libc::syscall(libc::SYS_futex, half.0, op, sleepers) };
    }
}
