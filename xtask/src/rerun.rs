//! `cargo xtask rerun`: runs the command of a record again, and says what moved.
//!
//! The new record stays in the target folder. A value is compared as `windrow_records::Rerun` says: by the reference arm of its cell.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use windrow_records::{BarChanges, Change, Record, Rerun};

use crate::workspace::{self, Workspace};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The record's name: its file without date and ending.
    #[arg(value_name = "RECORD")]
    record: String,
    /// How often the command runs. A value has moved if it did so in every run.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    runs: u8,
    /// The change that counts, in percent, beside the spread of both records.
    #[arg(long, default_value_t = 10.0, value_name = "PERCENT")]
    by: f64,
    /// A folder with the inputs: records name files without their folder.
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let bench = workspace.root.join("bench");
    let records = Record::load_all(&bench.join("record"))?;
    let name = &options.record;
    let before = records.iter().find(|record| record.name == *name);
    let before = before.with_context(|| format!("no record is called {name}\n  hint: {}", similar(name, &records)))?;
    let command = found_in(before.fact("command"), options.data.as_deref())?;
    println!("{name}: {command}");
    let mut runs = Vec::new();
    for number in 1..=options.runs {
        runs.push(once(workspace, name, &command, number)?);
    }
    let compared = runs.iter().map(|run| Rerun::of(before, run)).collect::<Result<Vec<_>, String>>();
    let compared = Rerun::closest(compared.map_err(|why| anyhow::anyhow!("record {why}"))?);
    println!("the record: {}", origin(before));
    println!("now:        {}", origin(&runs[0]));
    print!("{}", report(&compared, options.by / 100.0));
    let bars = workspace::read(&bench.join("bars.txt"))?;
    let BarChanges { met, missed, unjudged } = BarChanges::of(&bars, &records, &runs)?;
    unjudged.iter().for_each(|bar| println!("  without a value now: {bar}"));
    println!("bars: the record meets {met}; now {} are missed, {} have no value", missed.len(), unjudged.len());
    workspace::unless_empty(&format!("record {name}: bars that were met are missed"), &missed)
}

fn origin(record: &Record) -> String {
    format!("commit {} on {}", record.fact("commit"), record.fact("machine"))
}

/// The names that contain the wanted one, or all.
fn similar(name: &str, records: &[Record]) -> String {
    let names = || records.iter().map(|record| record.name.as_str());
    let like: Vec<&str> = names().filter(|known| known.contains(name)).collect();
    format!("there are {}", if like.is_empty() { names().collect::<Vec<_>>() } else { like }.join(", "))
}

/// The command with the place of every word that is a file in the folder of inputs.
fn found_in(command: &str, data: Option<&Path>) -> Result<String> {
    let Some(data) = data else { return Ok(command.to_owned()) };
    let files = files_below(data)?;
    let place = |word: &str| {
        let file = files.iter().find(|file| file.file_name().is_some_and(|name| name == word));
        file.map_or_else(|| word.to_owned(), |file| format!("'{}'", file.display()))
    };
    Ok(command.split(' ').map(place).collect::<Vec<_>>().join(" "))
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in windrow_records::tools::entries(folder)? {
        if path.is_dir() { files.extend(files_below(&path)?) } else { files.push(path) }
    }
    Ok(files)
}

/// Runs the command, and reads the record of that name that it writes.
fn once(workspace: &Workspace, name: &str, command: &str, number: u8) -> Result<Record> {
    let folder = workspace.target.join("rerun").join(format!("{name}-{number}"));
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // The record is not kept, so the code need not be committed.
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(&workspace.root);
    shell.env("WINDROW_RECORD_FOLDER", &folder).env("WINDROW_RECORD_DIRTY", "1");
    let status = shell.status().with_context(|| format!("record {name}: cannot start sh"))?;
    // A program may fail after its record is written, by its own bars.
    let mut written = Record::load_all(&folder)?;
    let names: Vec<&str> = written.iter().map(|record| record.name.as_str()).collect();
    let hint = "hint: if it needs an input, --data FOLDER; else make what it names, or measure by hand";
    ensure!(!written.is_empty(), "record {name}: its command wrote no record ({status}): {command}\n  {hint}");
    let at = names.iter().position(|written| *written == name);
    let at = at.with_context(|| format!("record {name}: its command writes {}\n  hint: run that", names.join(", ")))?;
    println!("{}", folder.display());
    Ok(written.swap_remove(at))
}

/// The lines of the report: what moved, the largest change first, and a summary.
fn report(compared: &Rerun, by: f64) -> String {
    let Rerun { changes, unpaired } = compared;
    let moved: Vec<&Change> = changes.iter().filter(|change| change.has_moved(by)).collect();
    let mut text = String::new();
    for it in &moved {
        let Change { cell, arm, measure, before, after, spread, .. } = it;
        let of = it.reference.as_ref().map_or("raw".to_owned(), |reference| format!("by {reference}"));
        let (before, after) = (short(*before), short(*after));
        text.push_str(&format!("  x{:.2}  {cell} {arm}: {measure} {of}, {before} -> {after}", it.factor()));
        text.push_str(&format!(", spread x{spread:.2}\n"));
    }
    let mut arms: BTreeMap<(&str, bool), Vec<&str>> = BTreeMap::new();
    unpaired.iter().for_each(|it| arms.entry((&it.arm, it.is_new)).or_default().push(&it.value));
    for ((arm, is_new), values) in arms {
        let (count, first, when) = (values.len(), values[0], if is_new { "now" } else { "in the record" });
        text.push_str(&format!("  not compared: {count} of {arm}, which are only {when} ({first}, ..)\n"));
    }
    let (count, all, percent) = (moved.len(), changes.len(), by * 100.0);
    text.push_str(&format!("{count} of {all} values moved by more than {percent} % and their spread\n"));
    text
}

/// Four digits.
fn short(value: f64) -> String {
    let digits = if value.abs() >= 1000.0 || value == 0.0 { 0 } else { 3 - value.abs().log10().floor() as i32 };
    format!("{value:.*}", usize::try_from(digits).unwrap_or(0).min(6))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> Workspace {
        Workspace::load().expect("cargo metadata works here")
    }

    fn failure(name: &str, command: &str) -> String {
        format!("{:#}", once(&workspace(), name, command, 1).expect_err("it must fail"))
    }

    #[test]
    fn the_report_has_what_moved_and_a_summary() {
        let record = |own: u32, text: &str| {
            Record::parse("r", &format!("cell,arm,nanoseconds\na,serial,100\na,windrow,{own}\na,rayon,50\n{text}"))
        };
        let compared = Rerun::of(&record(50, "a,old,1\n"), &record(75, "")).expect("comparable");
        assert_eq!(
            report(&compared, 0.1),
            "  x1.50  a windrow: nanoseconds by serial, 0.5000 -> 0.7500, spread x1.00\n  \
             not compared: 1 of old, which are only in the record (a nanoseconds, ..)\n1 of 2 values moved by more than 10 % and their spread\n"
        );
        assert!(report(&compared, 0.6).ends_with("0 of 2 values moved by more than 60 % and their spread\n"));
    }

    #[test]
    fn numbers_have_four_digits() {
        let shown = [0.0, 0.012_36, 1.0, 12.347, 123.45, 1234.5].map(short);
        assert_eq!(shown, ["0", "0.01236", "1.000", "12.35", "123.5", "1234"]);
    }

    #[test]
    fn a_command_runs_into_its_folder() {
        let write = "mkdir -p $WINDROW_RECORD_FOLDER/m && printf '# commit: x\\narm,nanoseconds\\na,7\\n' \
                     > $WINDROW_RECORD_FOLDER/m/2026-01-01-made-up.csv";
        let record = once(&workspace(), "made-up", write, 1).expect("it writes the record");
        assert_eq!((record.name.as_str(), record.fact("commit")), ("made-up", "x"));
        // What an earlier run left is no result of this one.
        let error = failure("made-up", "true");
        assert!(
            error.starts_with("record made-up: its command wrote no record (exit status: 0): true\n  hint: "),
            "{error}"
        );
        let error = failure("another", write);
        assert!(error.starts_with("record another: its command writes made-up\n  hint: "), "{error}");
    }

    #[test]
    fn an_unknown_record_names_similar_ones() {
        let records = ["joins", "cells-warm-1", "cells-warm-2"].map(|name| Record::parse(name, "a\n"));
        assert_eq!(similar("cells", &records), "there are cells-warm-1, cells-warm-2");
        assert_eq!(similar("x", &records), "there are joins, cells-warm-1, cells-warm-2");
    }

    #[test]
    fn inputs_get_their_folder() {
        let folder = workspace().root.join("xtask");
        let src = folder.join("src");
        let placed = found_in("cargo run -- rerun.rs --x", Some(&folder)).expect("the folder exists");
        assert_eq!(placed, format!("cargo run -- '{}' --x", src.join("rerun.rs").display()));
        assert_eq!(found_in("a b", None).expect("no folder"), "a b");
    }

    /// Every record of this repository can be compared, and equals itself.
    #[test]
    fn no_record_moves_beside_itself() {
        let records = Record::load_all(&workspace().root.join("bench/record")).expect("the records are sound");
        for record in &records {
            let compared = Rerun::of(record, record).unwrap_or_else(|why| panic!("{why}"));
            assert!(!compared.changes.is_empty(), "{} has no value", record.name);
            let moved: Vec<&Change> = compared.changes.iter().filter(|change| change.has_moved(0.0)).collect();
            assert!(moved.is_empty() && compared.unpaired.is_empty(), "{}: {moved:?}", record.name);
        }
    }
}
