//! Forked children, without unsafe code of our own.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fork::{Fork, fork};
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, alarm};

/// Runs `child` in a forked child and waits for it: whether it returned true. A child that hangs is ended by its own alarm.
///
/// The child ends itself by a signal. The standard library's `exit` takes a lock that it also takes whenever a thread starts or
/// ends; a thread of the parent may have held it at the fork.
pub fn forked(child: impl FnOnce() -> bool) -> bool {
    const WELL: Signal = Signal::SIGUSR1;
    const BADLY: Signal = Signal::SIGUSR2;
    match fork().expect("fork") {
        Fork::Child => {
            alarm::set(60);
            let went_well = catch_unwind(AssertUnwindSafe(child)).unwrap_or_else(|payload| {
                // What a test prints is kept in memory, and this memory is about to go.
                let said = payload.downcast_ref::<String>().map(String::as_str);
                let said = said.or(payload.downcast_ref().copied()).unwrap_or("a panic without words");
                let _ = writeln!(std::io::stderr(), "child: {said}");
                false
            });
            let raised = raise(if went_well { WELL } else { BADLY });
            unreachable!("{raised:?}: the signal ends the process");
        }
        Fork::Parent(pid) => {
            let ended = waitpid(Pid::from_raw(pid), None).expect("the child is there");
            matches!(ended, WaitStatus::Signaled(_, WELL, _))
        }
    }
}
