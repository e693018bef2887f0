//! Busy neighbours: processes that each keep one CPU busy.

use std::io::Read;
use std::process::{Child, Command, Stdio};

/// A running neighbour process, not bound to any CPU. It ends when this is dropped.
#[derive(Debug)]
pub struct Neighbour(Child);

/// This environment variable makes a process a neighbour.
const ROLE: &str = "WINDROW_BENCH_NEIGHBOUR";

impl Neighbour {
    /// Starts this executable again as a neighbour.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start() -> Self {
        let executable = std::env::current_exe().expect("this executable has a path");
        let child = Command::new(executable).env(ROLE, "1").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        Self(child.expect("this executable can be started again"))
    }

    /// `main` must call this first. In a neighbour process, it keeps a CPU busy until the parent ends it or dies, and then returns true.
    pub fn is_this_process() -> bool {
        if std::env::var_os(ROLE).is_none() {
            return false;
        }
        let parent = std::thread::spawn(|| std::io::stdin().read_to_end(&mut Vec::new()));
        while !parent.is_finished() {
            std::hint::spin_loop();
        }
        true
    }
}

/// The neighbours of a measurement.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Neighbours {
    /// Number of processes that each keep a CPU busy.
    #[arg(long = "neighbours", default_value_t = 0)]
    count: u16,
}

impl Neighbours {
    /// Starts them.
    ///
    /// # Panics
    /// If the system refuses to start a process.
    pub fn start(self) -> Vec<Neighbour> {
        (0..self.count).map(|_| Neighbour::start()).collect()
    }

    /// The end of a record's name.
    pub fn suffix(self) -> String {
        if self.count == 0 { String::new() } else { format!("-beside-{}", self.count) }
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // It ends when its standard input ends, but the next run must not overlap with it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
