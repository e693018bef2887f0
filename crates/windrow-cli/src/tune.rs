//! `windrow tune`: what synchronization costs on this machine.

use std::io;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use windrow::tuning::{self, Tuned};
use windrow_tokenizers::shown;

use crate::exit::Code;
use crate::report;

pub(crate) const HELP: &str = "\
{about}

Examples:
  windrow tune
  windrow tune --dry-run
  WINDROW_PROFILE=node.profile windrow tune

Takes a few seconds; nothing else should run meanwhile. Programs that use windrow read the result when
their first pool starts: first calls are then decided from what was measured, not from a guess.
WINDROW_PROFILE=FILE names another file, WINDROW_PROFILE=0 has none read.

{usage-heading} {usage}

{all-args}{after-help}
";

pub(crate) const AFTER_HELP: &str = "Exit codes: 0 done, 1 failed, 2 usage, 73 the profile cannot be written.";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Measure and print, and store nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Runs the command and reports the result.
pub(crate) fn run(options: &Options) -> Code {
    let tuned = measured();
    let table: Vec<String> = tuned.primitives.iter().map(ToString::to_string).collect();
    if let Err(error) = report::print(table.join("\n")) {
        report::error(format_args!("cannot write to stdout: {error}\nhint: check where it leads to"));
        return Code::Io;
    }
    if options.dry_run {
        return Code::Done;
    }
    match tuned.store() {
        Ok(path) => {
            report::say(format_args!("stored in {}", shown(&path)));
            Code::Done
        }
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            report::note(format_args!("nothing is stored: {error}"));
            Code::Done
        }
        Err(error) => {
            report::error(format_args!("the profile cannot be stored: {error}\nhint: set WINDROW_PROFILE to a file"));
            Code::CannotCreate
        }
    }
}

fn measured() -> Tuned {
    let bar = ProgressBar::new(tuning::PRIMITIVES as u64);
    bar.set_style(ProgressStyle::with_template("{percent:>3}% [{bar:24}] {msg}").expect("a constant"));
    bar.tick();
    let tuned = tuning::measure(|primitive| {
        bar.set_message(primitive.name);
        bar.inc(1);
        // The bar is drawn by this thread, between two measurements.
        bar.tick();
    });
    bar.finish_and_clear();
    tuned
}
