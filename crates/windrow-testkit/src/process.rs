//! Tests that need a process without other tests.

use std::process::{Command, Output};
use std::thread;
use std::time::Duration;
#[cfg(target_os = "linux")]
use std::time::Instant;

/// A process that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// The variable that names the one test of a child.
const ALONE: &str = "WINDROW_TEST_ALONE";

/// The full name of a test of a module: what the test program takes as its argument. `module` is `module_path!()`.
pub fn path_of(module: &str, test: &str) -> String {
    module.split_once("::").map_or(test.to_owned(), |(_, module)| format!("{module}::{test}"))
}

/// Runs `body` in a separate process: this test program, started again for the calling test. `module` is `module_path!()`, `test` the name of
/// the calling test, and `set` changes the child's environment. In the child this returns none, after `body`.
///
/// # Panics
///
/// If the child fails, or runs for longer than a minute.
pub fn alone(module: &str, test: &str, set: impl FnOnce(&mut Command), body: impl FnOnce()) -> Option<Output> {
    let path = path_of(module, test);
    if std::env::var_os(ALONE).is_some_and(|name| *name == *path) {
        let watchdog = || {
            thread::sleep(LIMIT);
            eprintln!("the process hangs");
            std::process::abort();
        };
        // A test may make the default size of stacks impossible.
        thread::Builder::new().stack_size(1 << 16).spawn(watchdog).expect("a thread");
        body();
        return None;
    }
    let mut command = Command::new(std::env::current_exe().expect("a test program"));
    command.args([&*path, "--exact", "--nocapture", "--test-threads=1"]).env(ALONE, &path);
    set(&mut command);
    let output = command.output().expect("a process");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{command:?}: {out}\n{err}");
    Some(output)
}

/// Threads of this process that belong to pools with the usual names.
#[cfg(target_os = "linux")]
fn threads_of_pools() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux lists threads");
    let name = |task: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(task.ok()?.path().join("comm")).ok();
    tasks.filter_map(name).filter(|name| name.starts_with("windrow-")).count()
}

/// Whether the threads of all pools with the usual names have ended. The kernel's list still has a thread that was joined just now for a
/// moment; after ten seconds this takes no for an answer. Where threads cannot be listed, the answer is yes.
pub fn has_no_threads() -> bool {
    #[cfg(target_os = "linux")]
    {
        let start = Instant::now();
        while threads_of_pools() > 0 && start.elapsed() < Duration::from_secs(10) {
            thread::yield_now();
        }
        threads_of_pools() == 0
    }
    #[cfg(not(target_os = "linux"))]
    true
}
