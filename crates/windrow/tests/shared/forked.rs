//! Forked children, without unsafe code of our own.

use fork::{Fork, fork};

/// Runs `child` in a forked child and waits for it: whether it returned true. A child that hangs is ended by its own alarm.
pub(crate) fn forked(child: impl FnOnce() -> bool) -> bool {
    match fork().expect("fork") {
        Fork::Child => {
            nix::unistd::alarm::set(20);
            let child = std::panic::AssertUnwindSafe(child);
            let went_well = std::panic::catch_unwind(child).unwrap_or(false);
            std::process::exit(i32::from(!went_well));
        }
        Fork::Parent(pid) => fork::waitpid(pid).expect("the child is there") == 0,
    }
}
