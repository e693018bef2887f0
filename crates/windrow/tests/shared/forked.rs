//! Forked children, without unsafe code of our own.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fork::{Fork, fork};

/// Runs `child` in a forked child and waits for it: whether it returned true. A child that hangs is ended by its own alarm.
pub(crate) fn forked(child: impl FnOnce() -> bool) -> bool {
    match fork().expect("fork") {
        Fork::Child => {
            nix::unistd::alarm::set(60);
            let went_well = catch_unwind(AssertUnwindSafe(child)).unwrap_or_else(|payload| {
                // What a test prints is kept in memory, and this memory is about to go.
                let said = payload.downcast_ref::<String>().map(String::as_str);
                let said = said.or(payload.downcast_ref().copied()).unwrap_or("a panic without words");
                let _ = writeln!(std::io::stderr(), "child: {said}");
                false
            });
            std::process::exit(i32::from(!went_well));
        }
        Fork::Parent(pid) => fork::waitpid(pid).expect("the child is there") == 0,
    }
}
