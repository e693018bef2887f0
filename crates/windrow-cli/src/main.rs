//! The command `windrow`: counts tokens, encodes corpora of text into token files, and plans overlapped operations.
//!
//! Data goes to stdout, all messages to stderr. Exit codes: 0 done, 1 failed, 2 usage, 65 bad input, 73 the output cannot be created,
//! 74 reading or writing failed, 129 SIGHUP, 130 Ctrl-C, 143 SIGTERM.
#![forbid(unsafe_code)]

mod args;
mod count;
mod doctor;
mod encode;
mod eos;
mod exit;
mod plan;
mod progress;
mod report;
mod signals;
mod size;
mod summary;

// Makes its allocator the global one.
#[cfg(feature = "mimalloc")]
use windrow_allocator as _;

use std::panic;
use std::process::ExitCode;

use clap::Parser;

use args::{Arguments, Command};

fn main() -> ExitCode {
    report::silence_panics();
    let arguments = Arguments::parse();
    let outcome = panic::catch_unwind(|| match arguments.command {
        Command::Count(options) => count::run(*options),
        Command::Encode(options) => encode::run(*options),
        Command::Plan(options) => plan::run(*options),
        Command::Doctor(options) => doctor::run(options),
    });
    match outcome {
        Ok(code) => code.into(),
        Err(_) => {
            report::panicked();
            exit::Code::Failed.into()
        }
    }
}
