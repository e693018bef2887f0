//! The program `windrow`: [`windrow_cli`] with its allocator.
#![forbid(unsafe_code)]

// Makes its allocator the global one.
#[cfg(feature = "mimalloc")]
use windrow_allocator as _;

use std::process::ExitCode;

fn main() -> ExitCode {
    windrow_cli::run(std::env::args_os()).into()
}
