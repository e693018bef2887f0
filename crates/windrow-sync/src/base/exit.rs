//! The end of the process.

/// Runs `f` when the process ends normally: after `main` has returned, or by `std::process::exit`; not after a signal or an abort. Functions
/// run in the reverse order of their registration. Other threads may still run. A forked child inherits what was registered.
///
/// Does nothing where the system has no such call.
pub fn at_exit(f: extern "C" fn()) {
    #[cfg(all(any(unix, windows), not(miri)))]
    {
        unsafe extern "C" {
            fn atexit(f: extern "C" fn()) -> core::ffi::c_int;
        }
        // SAFETY: the declaration is that of the C standard. A function of Rust that is called by C aborts instead of unwinding, and it
        // stays in memory as long as its module, which runs it before it is unloaded. A refusal (no memory) is no harm.
        unsafe { atexit(f) };
    }
    #[cfg(not(all(any(unix, windows), not(miri))))]
    let _ = f;
}
