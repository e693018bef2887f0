#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod args;
mod bench;
mod calls;
mod chat;
mod count;
mod dataset;
mod doctor;
mod encode;
mod eos;
mod exit;
mod load;
mod plan;
mod progress;
mod report;
mod signals;
mod size;
mod staged;
mod summary;
mod texts;
mod threads;
mod timeline;
mod watched;

use std::ffi::OsString;
use std::panic;

use clap::Parser;
use windrow_tokenizers::shown_lines;

use args::{Arguments, Command};

pub use calls::{EncodeFiles, Failed, FailureKind, count_files};

/// Runs the command with these words, of which the first is its name, and returns the exit code.
///
/// The process is the command's: it replaces the panic hook and the handlers of signals, and ends the process if it is interrupted.
///
/// ```
/// assert_eq!(windrow_cli::run(["windrow", "encode", "no-such-file.txt", "-o", "out"]), 2);
/// ```
pub fn run(words: impl IntoIterator<Item: Into<OsString> + Clone>) -> u8 {
    report::silence_panics();
    let arguments = match Arguments::try_parse_from(words) {
        Ok(arguments) => arguments,
        Err(message) => {
            let text = message.render().to_string();
            if message.use_stderr() && shown_lines(&text).to_string() != text {
                report::say(text.trim_end());
            } else {
                // With colors. If the stream is closed, the message is lost.
                let _ = message.print();
            }
            return message.exit_code() as u8;
        }
    };
    let outcome = panic::catch_unwind(|| match arguments.command {
        Command::Count(options) => count::run(*options),
        Command::Encode(options) => encode::run(*options),
        Command::Verify(options) => dataset::verify(&options),
        Command::Decode(options) => dataset::decode(&options),
        Command::Stat(options) => dataset::stat(&options),
        Command::Plan(options) => plan::run(*options),
        Command::Bench(options) => bench::run(&options),
        Command::Doctor(options) => doctor::run(options),
    });
    let code = outcome.unwrap_or_else(|_| {
        report::panicked();
        exit::Code::Failed
    });
    code.number()
}
