//! Outputs on simulated disks, and in folders with planted files.

mod faults;
#[cfg(unix)]
mod planted;
#[cfg(unix)]
mod simulated_disk;
