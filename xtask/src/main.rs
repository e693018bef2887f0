//! `cargo xtask`: the checks of the windrow workspace, each runnable alone and all of them by `cargo xtask ci`.
#![forbid(unsafe_code)]

mod arrows;
mod ci;
mod house;
mod licences;
mod loom;
mod mutants;
mod orderings;
mod results;
mod scopes;
mod source;
mod spdx;
mod suite;
mod workspace;

use std::process::ExitCode;

use workspace::{Failure, Workspace};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Failure> {
    let (command, rest) = arguments.split_first().map_or(("help", &[][..]), |(first, rest)| (first.as_str(), rest));
    match command {
        "ci" => ci::run(&Workspace::load()?, rest),
        "repeat" => ci::repeat(&Workspace::load()?, &suite::Repeat::parse(rest)?),
        "mutants" => {
            let options = mutants::Options::parse(rest)?;
            mutants::run(&Workspace::load()?, &options)
        }
        "help" | "--help" | "-h" => {
            println!("{}", help());
            Ok(())
        }
        "arrows" => alone(command, rest, arrows::run),
        "licences" => alone(command, rest, licences::run),
        "house" => alone(command, rest, house::run),
        "orderings" => alone(command, rest, orderings::run),
        "results" if rest == ["--write"] => results::update(&Workspace::load()?),
        "results" => alone(command, rest, results::run),
        unknown => Err(Failure(format!("xtask has no command {unknown}\n  hint: cargo xtask help"))),
    }
}

fn alone(name: &str, rest: &[String], check: fn(&Workspace) -> Result<(), Failure>) -> Result<(), Failure> {
    if let Some(extra) = rest.first() {
        return Err(Failure(format!("unexpected argument {extra}")));
    }
    check(&Workspace::load()?)?;
    println!("{name}: ok");
    Ok(())
}

fn help() -> String {
    format!(
        "Checks of the windrow workspace.

Usage: cargo xtask COMMAND

  ci [STEP...]  run all steps, or the named ones, and stop at the first failure
{}
  repeat N [NAME...]  run the tests N times, every second time beside two busy processes;
                all test binaries, or those whose names (package::target) contain a NAME
  arrows        which crate may depend on which
  licences      every dependency has a licence on the list
  house         size of files, unsafe code, comments on orderings, forbidden words
  orderings     crates/windrow-sync/orderings.txt equals the source
  results       figures, verdicts and bench/RESULTS.md are what bench/record says
      --write            make it anew
  mutants       weaken every memory ordering; a loom model must fail each time
      --only PATTERN     only orderings whose line in the list contains PATTERN
      --jobs N           N copies at a time, each with its own build (default 1)
      --timeout SECONDS  limit of a test file (default: 10 times the unchanged run, at least 60)
      --write-list       write the list anew, keeping its reasons
  help          this text",
        ci::describe()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_command_is_an_error() {
        assert!(run(&["mutant".to_owned()]).is_err());
        assert!(run(&["arrows".to_owned(), "now".to_owned()]).is_err());
    }

    #[test]
    fn help_lists_every_command() {
        let help = help();
        let checks = ["arrows", "licences", "house", "orderings", "results", "mutants", "test-portable", "bench"];
        for command in ["ci", "repeat", "help"].into_iter().chain(checks) {
            assert!(help.lines().any(|line| line.trim_start().starts_with(command)), "{command}");
        }
    }
}
