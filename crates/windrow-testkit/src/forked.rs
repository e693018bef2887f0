//! Forked children, without unsafe code of our own.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fork::{Fork, fork};
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, alarm};

const WELL: Signal = Signal::SIGUSR1;
const BADLY: Signal = Signal::SIGUSR2;

/// After this many seconds a child is taken to hang.
const DEADLINE: u32 = 30;

/// The two processes after a [`split`].
#[derive(Debug)]
pub enum Side {
    /// This is the child. It ends by [`end_child`], or with its last thread.
    Child,
    /// This is the parent.
    Parent(ForkedChild),
}

/// A child, as its parent sees it.
#[derive(Debug)]
pub struct ForkedChild(Pid);

impl ForkedChild {
    /// Waits for the child: how it went wrong, if it did.
    pub fn fault(self) -> Option<String> {
        match waitpid(self.0, None).expect("the child is there") {
            WaitStatus::Signaled(_, WELL, _) | WaitStatus::Exited(_, 0) => None,
            WaitStatus::Signaled(_, Signal::SIGALRM, _) => Some("the child hangs".to_owned()),
            other => Some(format!("{other:?}")),
        }
    }
}

/// Forks. A child that hangs is ended by its own alarm.
pub fn split() -> Side {
    match fork().expect("fork") {
        Fork::Child => {
            alarm::set(DEADLINE);
            Side::Child
        }
        Fork::Parent(pid) => Side::Parent(ForkedChild(Pid::from_raw(pid))),
    }
}

/// Ends this child by a signal.
///
/// The standard library's `exit` takes a lock that it also takes whenever a thread starts or ends; a thread of the parent may have held it
/// at the fork.
pub fn end_child(well: bool) -> ! {
    let raised = raise(if well { WELL } else { BADLY });
    unreachable!("{raised:?}: the signal ends the process");
}

/// Runs `child` in a forked child and waits for it: whether it returned true. A child that hangs is ended by its own alarm.
pub fn forked(child: impl FnOnce() -> bool) -> bool {
    match split() {
        Side::Child => {
            let went_well = catch_unwind(AssertUnwindSafe(child)).unwrap_or_else(|payload| {
                // What a test prints is kept in memory, and this memory is about to go.
                let said = payload.downcast_ref::<String>().map(String::as_str);
                let said = said.or(payload.downcast_ref().copied()).unwrap_or("a panic without words");
                let _ = writeln!(std::io::stderr(), "child: {said}");
                false
            });
            end_child(went_well)
        }
        Side::Parent(child) => child.fault().is_none(),
    }
}
