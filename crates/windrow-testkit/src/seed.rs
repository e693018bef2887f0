//! The seed of what fails.

use std::thread;

/// Prints the seed if it is dropped by a panic.
#[derive(Debug)]
pub struct Seed(
    /// What is made from it.
    pub &'static str,
    /// The seed.
    pub u64,
);

impl Drop for Seed {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the {} of seed {:#x} failed", self.0, self.1);
        }
    }
}
