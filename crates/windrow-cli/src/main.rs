//! The command `windrow`: corpora of text in, token files out; and plans of overlapped operations.
//!
//! Data goes to stdout, every message to stderr. Exit codes: 0 done, 1 failed, 2 usage, 65 bad input, 73 the output cannot
//! be created, 74 reading or writing failed, 129 SIGHUP, 130 Ctrl-C, 143 SIGTERM.
#![forbid(unsafe_code)]

mod args;
mod encode;
mod eos;
mod exit;
mod plan;
mod progress;
mod report;
mod signals;
mod size;
mod summary;

use std::panic;
use std::process::ExitCode;

use clap::Parser;

use args::{Arguments, Command};

/// At the binary's edge, never in a library. A run that does little but load o200k_base takes 0.33 s with it and 0.43 s with
/// the system's allocator, at a peak of 133 MiB instead of 111 (bench/record/amd-epyc-x2/2026-11-21-allocator.csv).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    report::silence_panics();
    let arguments = Arguments::parse();
    let outcome = panic::catch_unwind(|| match arguments.command {
        Command::Encode(options) => encode::run(*options),
        Command::Plan(options) => plan::run(*options),
    });
    match outcome {
        Ok(code) => code.into(),
        Err(_) => {
            report::panicked();
            exit::Code::Failed.into()
        }
    }
}
