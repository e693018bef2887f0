//! `windrow completions`: files that packages of the command install with it.

use clap::CommandFactory;

use crate::args::{Arguments, Completions};
use crate::exit::Code;
use crate::report;

/// Runs the command and reports the result.
pub(crate) fn run(options: Completions) -> Code {
    let mut command = Arguments::command();
    if let Some(folder) = options.man {
        return match clap_mangen::generate_to(command, &folder) {
            Ok(()) => Code::Done,
            Err(error) => {
                let folder = windrow_tokenizers::shown(&folder);
                report::error(format_args!("{folder}: {error}\nhint: name a folder that can be written"));
                Code::CannotCreate
            }
        };
    }
    let mut script = Vec::new();
    if let Some(shell) = options.shell {
        clap_complete::generate(shell, &mut command, "windrow", &mut script);
    }
    report::printed(report::print(String::from_utf8_lossy(&script).trim_end()), Code::Done)
}
