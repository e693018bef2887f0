//! A forked child has its own value, even if other threads of the parent were building one.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use windrow_sync::fork::PerProcess;
use windrow_sync::machine::fork_generation;

/// Runs `child` in a forked child; returns whether `child` returned true. The child's own alarm kills it if it hangs.
fn forked(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child only runs `child` and `_exit`; what it calls takes no lock that another thread could hold.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork failed");
    if pid == 0 {
        // SAFETY: async-signal-safe.
        unsafe { libc::alarm(10) };
        let code = i32::from(!child());
        // SAFETY: async-signal-safe; no destructor of the parent's runs twice.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `pid` is a child of this process, and the status lives here.
    let waited = unsafe { libc::waitpid(pid, &mut status, 0) };
    assert_eq!(waited, pid);
    status == 0
}

#[test]
fn the_child_builds_its_own_value() {
    static VALUE: PerProcess<u32> = PerProcess::new();
    let here = fork_generation();
    assert_eq!((*VALUE.get(|| 1), *VALUE.get(|| 2)), (1, 1));
    assert!(forked(move || fork_generation() != here && *VALUE.get(|| 3) == 3 && *VALUE.get(|| 4) == 3));
    assert!(forked(|| forked(|| *VALUE.get(|| 5) == 5) && *VALUE.get(|| 6) == 6), "a child of a child");
    assert_eq!(*VALUE.get(|| 7), 1);
    assert_eq!(fork_generation(), here);
}

#[test]
fn a_fork_in_the_middle_of_building_does_not_hang() {
    static STOP: AtomicBool = AtomicBool::new(false);
    // The process that asks first is generation 0: that must not be a child of this process.
    assert_eq!(fork_generation(), 0);
    let builder = std::thread::spawn(|| {
        while !STOP.load(Relaxed) {
            // Leaks a few bytes per turn, as the cell does by design.
            let cell: &'static PerProcess<u32> = Box::leak(Box::new(PerProcess::new()));
            assert_eq!(*cell.get(|| 1), 1);
        }
    });
    for _ in 0..100 {
        static VALUE: PerProcess<u32> = PerProcess::new();
        assert!(forked(|| fork_generation() > 0));
        assert_eq!(*VALUE.get(|| 1), 1);
    }
    STOP.store(true, Relaxed);
    builder.join().unwrap();
}
