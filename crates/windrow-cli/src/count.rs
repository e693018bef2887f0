//! `windrow count`: tokens per file and in total.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process;

use windrow_tokenizers::input::InputError;
use windrow_tokenizers::run::Failed;

use crate::exit::Code;
use crate::progress::{Line, Progress};
use crate::report;
use crate::signals;
use crate::watched::Watched;

pub(crate) mod args;

pub(crate) use args::Options;

/// Runs the command and reports the result.
pub(crate) fn run(mut options: Options) -> Code {
    if options.spec.inputs.is_empty() {
        if io::stdin().is_terminal() {
            report::error(InputError::NoInputs);
            return Code::Usage;
        }
        options.spec.inputs.push(OsString::from("-"));
    }
    count(&options).unwrap_or_else(|failed| {
        report::error(&failed);
        failed.kind.into()
    })
}

fn count(options: &Options) -> Result<Code, Failed> {
    let spec = &options.spec;
    let found = spec.find()?;
    let tokenizer = found.load()?;
    if !options.quiet {
        tokenizer.notes().iter().chain(found.notes()).for_each(report::note);
    }
    let bar = Line::default();
    let is_shown = !options.quiet && !options.no_progress && io::stderr().is_terminal();
    let progress = is_shown.then(|| {
        let cleared = bar.clone();
        // Without this watcher, the signal would end the process with the bar on the screen.
        let _ = signals::watch_by(move |number| {
            cleared.finish();
            process::exit(Code::Signal(number).number().into());
        });
        Progress::start(bar.clone(), found.stored(), "")
    });
    let shown = Watched::new(progress, spec.memory.bytes(), spec.threads.workers(), options.quiet);
    let mut broken = None;
    let print_line = |line: &str| match bar.suspend(|| print(line)) {
        Ok(()) => true,
        Err(error) => {
            broken = Some(error);
            false
        }
    };
    let counted = found.count(&tokenizer, options.json, &shown, &|| true, print_line);
    drop(shown);
    let outcome = match (broken, counted) {
        (Some(error), _) => Err(error),
        (None, counted) => {
            let counted = counted?;
            print(&counted.text).map(|()| counted)
        }
    };
    let counted = match outcome {
        Ok(counted) => counted,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Code::Done),
        Err(error) => {
            report::error(format_args!("cannot write to stdout: {error}\nhint: check where stdout points"));
            return Ok(Code::Io);
        }
    };
    if !options.quiet {
        counted.notes.iter().for_each(report::note);
    }
    counted.failed.iter().for_each(report::error);
    // A file that cannot be read is a more serious failure than one that is not text, and the latter than a missing one.
    let codes = counted.failed.iter().map(|failed| Code::from(failed.kind));
    Ok(codes.max_by_key(|code| code.number()).unwrap_or(Code::Done))
}

fn print(text: &str) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
