//! Weakens every memory ordering of the protocols, one at a time; a loom model must fail each time.
//!
//! If no model notices a weaker ordering, the ordering is untested or stronger than needed. Both are failures.

use std::fs;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use windrow_sources::{Crate, Ordering, Source};

use crate::loom::{is_named_after, models, with_loom};
use crate::suite::{self, TIMED_OUT, Tests};
use crate::workspace::{self, PROTOCOLS, Workspace, package};

/// Orderings that synchronize.
const NAMES: [&str; 4] = ["Acquire", "Release", "AcqRel", "SeqCst"];

/// A limit is this many times the unmutated run, so that a timeout means a hang and not a slow machine.
const HEADROOM: u32 = 10;
const SHORTEST_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Weaken only orderings whose place contains this text, such as `gate.rs` or `gate.rs:120`.
    #[arg(long, value_name = "PATTERN", default_value = "")]
    only: String,
    /// Number of copies at a time, each with its own build. Default: one per processor, because a model has one
    /// thread.
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// List the mutants without running any.
    #[arg(long)]
    list: bool,
}

/// Every synchronizing ordering of the production code, in the order of the files. Code for loom only is a model of the machine, not a part
/// of the product.
fn sites(files: &Crate) -> Vec<Ordering> {
    let is_site = |it: &Ordering| NAMES.contains(&it.name.as_str()) && !it.in_test && !it.in_model;
    windrow_sources::orderings(files).into_iter().filter(is_site).collect()
}

/// An ordering's file and line.
fn place(files: &Crate, site: &Ordering) -> String {
    format!("{}:{}", site.file, files[&site.file].line(site.span.start))
}

/// An edit of the source that weakens an ordering.
struct Mutant<'a> {
    /// The file of the ordering, and its text.
    file: &'a str,
    text: &'a str,
    /// `src/region/gate.rs:12  AcqRel -> Acquire`.
    name: String,
    span: Range<usize>,
    replacement: String,
}

impl Mutant<'_> {
    fn applied(&self) -> String {
        format!("{}{}{}", &self.text[..self.span.start], self.replacement, &self.text[self.span.end..])
    }
}

fn mutants<'a>(files: &'a Crate, found: &'a Ordering) -> Vec<Mutant<'a>> {
    let (from, text) = (found.name.as_str(), files[&found.file].text.as_str());
    let mutant = |label: String, span: &Range<usize>, replacement: String| {
        let name = format!("{}  {label}", place(files, found));
        Mutant { file: &found.file, text, name, span: span.clone(), replacement }
    };
    let call = found.call.name.as_str();
    let is_fence = call == "fence" || call == "compiler_fence";
    if is_fence && (from == "Acquire" || from == "Release") {
        // A relaxed fence does not exist: it panics, and the kill would test nothing.
        return vec![mutant(format!("{from} fence -> none"), &found.call.span, "()".to_owned())];
    }
    // The second ordering of these is for a failed comparison.
    let compares =
        ["compare_exchange", "compare_exchange_weak", "fetch_update", "try_update", "update"].contains(&call);
    let weaker: &[&str] = match from {
        "SeqCst" if call == "load" || (compares && found.call.orderings == 2) => &["Acquire"],
        "SeqCst" if call == "store" => &["Release"],
        "SeqCst" => &["AcqRel"],
        "AcqRel" => &["Acquire", "Release"],
        _ => &["Relaxed"],
    };
    weaker.iter().map(|to| mutant(format!("{from} -> {to}"), &found.span, format!("Ordering::{to}"))).collect()
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let survivors =
        PROTOCOLS.map(|folder| survivors(workspace, options, folder)).into_iter().collect::<Result<Vec<_>>>()?;
    workspace::unless_empty("mutants that no model notices", &survivors.concat())
}

/// The mutants of a crate that its models do not notice.
fn survivors(workspace: &Workspace, options: &Options, folder: &'static str) -> Result<Vec<String>> {
    let files = Source::load(&workspace.root.join(folder))?;
    let sites = sites(&files);
    let without_model = sites.iter().filter(|site| !site.in_loom).map(|site| place(&files, site));
    workspace::unless_empty("orderings that loom does not compile", &without_model.collect::<Vec<_>>())?;
    let chosen = sites.iter().filter(|site| place(&files, site).contains(&options.only));
    let mutants: Vec<Mutant> = chosen.flat_map(|site| mutants(&files, site)).collect();
    println!("{}: {} mutants of {} orderings", package(folder), mutants.len(), sites.len());
    if options.list {
        mutants.iter().for_each(|mutant| println!("  {}", mutant.name));
        return Ok(vec![]);
    }
    let target = workspace.target.join("mutants");
    let jobs = options.jobs.or(thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get).min(mutants.len());
    let scratches = (0..jobs).map(|n| Scratch::new(workspace, folder, target.join(n.to_string())));
    let scratches: Vec<Scratch> = scratches.collect::<Result<_>>()?;
    let Some(first) = scratches.first() else { return Ok(vec![]) };
    let limits = limits(first)?;
    let verdicts = suite::side_by_side(scratches, mutants, |scratch, mutant| {
        let verdict = judge(&mutant, scratch, &limits).with_context(|| mutant.name.clone())?;
        let line = format!("{:72}  {}", mutant.name, verdict.as_deref().unwrap_or("SURVIVED"));
        println!("{line}");
        Ok((line, verdict.is_none()))
    });
    let verdicts = verdicts.into_iter().collect::<Result<Vec<(String, bool)>>>()?;
    let count = verdicts.len();
    let survivors: Vec<String> = verdicts.into_iter().filter(|verdict| verdict.1).map(|verdict| verdict.0).collect();
    println!("{count} mutants: {} killed, {} survived", count - survivors.len(), survivors.len());
    Ok(survivors)
}

/// A workspace that holds copies of the crates of protocols, one of which is changed and tested.
struct Scratch {
    root: PathBuf,
    /// The folder of that crate.
    folder: &'static str,
}

impl Scratch {
    /// Each folder has a separate build, so folders can be used side by side.
    fn new(workspace: &Workspace, folder: &'static str, root: PathBuf) -> Result<Scratch> {
        let _ = fs::remove_dir_all(root.join("crates"));
        fs::create_dir_all(root.join("crates")).with_context(|| format!("cannot write {}", root.display()))?;
        for folder in PROTOCOLS {
            workspace::output_of(
                Command::new("cp").arg("-rL").arg(workspace.root.join(folder)).arg(root.join("crates")),
            )?;
        }
        workspace::write(&root.join("Cargo.toml"), &manifest(&workspace.read("Cargo.toml")?)?)?;
        // The same versions as in the workspace; Cargo drops what these crates do not need.
        workspace::write(&root.join("Cargo.lock"), &workspace.read("Cargo.lock")?)?;
        Ok(Scratch { root, folder })
    }

    fn build(&self) -> Result<Tests> {
        // Rebuilt for every mutant and run for seconds: no debug information, and only what changed.
        let command =
            &mut workspace::cargo(&self.root, &["test", "--quiet", "--no-run", "--package", package(self.folder)]);
        let command = with_loom(command).env("CARGO_PROFILE_RELEASE_INCREMENTAL", "true");
        let built = suite::built(command.env("CARGO_TARGET_DIR", self.root.join("target")))?;
        built.tests.into_iter().next().context("Cargo has built no models")
    }

    /// Runs a module of models until its end, its first failure or the limit.
    fn run(&self, binary: &Tests, model: &str, limit: Duration) -> Result<suite::Ran> {
        // One at a time, so that the last name printed is the test that runs.
        let words = ["--test-threads=1", &format!("{model}::")];
        suite::one(binary, &self.root.join("logs"), limit, &words, None, |log| failed_test(log).is_some())
    }
}

/// The manifest of the workspace, with the crates of protocols as its only members.
fn manifest(whole: &str) -> Result<String> {
    let is_kept = |line: &&str| !line.starts_with("default-members") && !line.starts_with("members");
    let kept: Vec<&str> = whole.lines().filter(is_kept).collect();
    ensure!(
        kept.len() + 2 == whole.lines().count(),
        "Cargo.toml does not have one `members` line and one `default-members` line"
    );
    let members = PROTOCOLS.map(|folder| folder.trim_end_matches('/'));
    Ok(kept.join("\n").replacen("[workspace]", &format!("[workspace]\nmembers = {members:?}"), 1))
}

/// Runs the unchanged models and gives each module its limit.
fn limits(scratch: &Scratch) -> Result<Vec<(String, Duration)>> {
    let (binary, mut limits) = (scratch.build()?, Vec::new());
    for model in models(&scratch.root, scratch.folder)? {
        // Long but finite: an endless model must not stop the whole run.
        let ran = scratch.run(&binary, &model, Duration::from_secs(1800))?;
        ensure!(ran.failed.is_none(), "the unchanged models must pass, but {model}\n{}", ran.output);
        let limit = SHORTEST_LIMIT.max(ran.took * HEADROOM);
        println!("  {model:32} {:6.1} s, limit {} s", ran.took.as_secs_f64(), limit.as_secs());
        limits.push((model, limit));
    }
    Ok(limits)
}

/// Changes the scratch copy, runs its models, and changes it back. Says what killed the mutant.
fn judge(mutant: &Mutant, scratch: &Scratch, limits: &[(String, Duration)]) -> Result<Option<String>> {
    let (file, path) = (mutant.file, scratch.root.join(scratch.folder).join(mutant.file));
    workspace::write(&path, &mutant.applied())?;
    let binary = scratch.build();
    workspace::write(&path, mutant.text)?;
    let binary = binary?;
    // The likely ones to fail come first.
    let (likely, others): (Vec<_>, Vec<_>) = limits.iter().partition(|(model, _)| is_named_after(model, file));
    for (model, limit) in likely.into_iter().chain(others) {
        let ran = scratch.run(&binary, model, *limit)?;
        if let Some(how) = ran.failed {
            let which = failed_test(&ran.output).or_else(|| running_test(&ran.output)).unwrap_or("?");
            let by = if how == TIMED_OUT { "the time limit in " } else { "" };
            return Ok(Some(format!("killed by {by}{which}")));
        }
    }
    Ok(None)
}

/// The name of a failed test in a report of libtest.
fn failed_test(output: &str) -> Option<&str> {
    output.lines().find_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
}

/// The last test that was started; libtest prints its name before it runs.
fn running_test(output: &str) -> Option<&str> {
    output.lines().rev().find_map(|line| Some(line.strip_prefix("test ")?.split_once(" ...")?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every mutant of a function body, as changed text.
    fn mutated(body: &str) -> Vec<String> {
        let text = format!("fn f() {{ {body} }}");
        let files: Crate = [("src/lib.rs".to_owned(), Source::new(&text).unwrap())].into();
        let changed = |mutant: Mutant| mutant.applied().replace("fn f() { ", "").trim_end_matches(" }").to_owned();
        sites(&files).iter().flat_map(|site| mutants(&files, site)).map(changed).collect()
    }

    #[test]
    fn each_ordering_is_weakened_by_one_step() {
        assert_eq!(mutated("a.load(Ordering::Acquire)"), ["a.load(Ordering::Relaxed)"]);
        assert_eq!(
            mutated("a.swap(g(1), Ordering::AcqRel)"),
            ["a.swap(g(1), Ordering::Acquire)", "a.swap(g(1), Ordering::Release)"]
        );
        assert_eq!(mutated("assert!(a.load(Ordering::Acquire) > 0, \"{a}\")").len(), 1);
        assert_eq!(mutated("a.store(b.len(), Ordering::SeqCst)"), ["a.store(b.len(), Ordering::Release)"]);
        assert_eq!(
            mutated("a.compare_exchange(0, g(1), Ordering::SeqCst, Ordering::SeqCst)"),
            [
                "a.compare_exchange(0, g(1), Ordering::AcqRel, Ordering::SeqCst)",
                "a.compare_exchange(0, g(1), Ordering::SeqCst, Ordering::Acquire)"
            ]
        );
        assert_eq!(mutated("x; fence( Ordering::Release );"), ["x; ();"]);
        assert_eq!(mutated("fence(Ordering::SeqCst)"), ["fence(Ordering::AcqRel)"]);
    }

    #[test]
    fn models_are_no_sites() {
        let lib = "#[cfg(not(loom))] fn a() { b.load(Ordering::Acquire); b.load(Ordering::Relaxed); c(Ordering::Less) }
            #[cfg(loom)] fn d() { b.load(Ordering::Acquire) }
            fn e() { b.load(Ordering::Acquire); }";
        let files: Crate = [("src/lib.rs".to_owned(), Source::new(lib).unwrap())].into();
        let sites = sites(&files);
        let places: Vec<(String, bool)> = sites.iter().map(|site| (place(&files, site), site.in_loom)).collect();
        assert_eq!(places, [("src/lib.rs:1".to_owned(), false), ("src/lib.rs:3".to_owned(), true)]);
    }

    #[test]
    fn reports_of_libtest_are_read() {
        let report = "running 2 tests\ntest a ... ok\ntest b::c - should panic ... FAILED\n";
        assert_eq!(failed_test(report), Some("b::c - should panic"));
        assert_eq!(failed_test("test a ... ok\ntest b ... "), None);
        assert_eq!(running_test("test a ... ok\ntest b ... "), Some("b"));
    }
}
