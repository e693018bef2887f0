#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod args;
#[cfg(feature = "bench")]
mod bench;
mod completions;
mod count;
mod dataset;
mod doctor;
mod encode;
mod exit;
mod load;
mod plan;
mod progress;
mod report;
mod signals;
mod staged;
mod watched;

use std::ffi::OsString;
use std::panic;

use clap::parser::ValueSource;
use clap::{CommandFactory, Error, FromArgMatches};
use windrow_tokenizers::shown_lines;

use args::{Arguments, Command};

/// Runs the command with these words, of which the first is its name, and returns the exit code.
///
/// The process is the command's: it replaces the panic hook and the handlers of signals, and ends the process if it is interrupted.
///
/// ```
/// assert_eq!(windrow_cli::run(["windrow", "encode", "no-such-file.txt", "-o", "out"]), 2);
/// ```
pub fn run(words: impl IntoIterator<Item: Into<OsString> + Clone>) -> u8 {
    report::silence_panics();
    let arguments = match parsed(words) {
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
        #[cfg(feature = "bench")]
        Command::Bench(options) => bench::run(&options),
        Command::Doctor(options) => doctor::run(options),
        Command::Completions(options) => completions::run(options),
    });
    let code = outcome.unwrap_or_else(|_| {
        report::panicked();
        exit::Code::Failed
    });
    code.number()
}

/// The options in these words.
fn parsed(words: impl IntoIterator<Item: Into<OsString> + Clone>) -> Result<Arguments, Error> {
    let mut command = Arguments::command();
    let matches = command.try_get_matches_from_mut(words)?;
    let mut arguments = Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    if let (Command::Encode(options), Some(("encode", matches))) = (&mut arguments.command, matches.subcommand()) {
        let given = matches.ids().map(|id| id.as_str());
        let given = given.filter(|id| matches.value_source(id) == Some(ValueSource::CommandLine));
        options.given = given.map(str::to_owned).collect();
    }
    Ok(arguments)
}
