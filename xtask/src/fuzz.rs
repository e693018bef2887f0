//! `cargo xtask fuzz`: the targets of windrow-fuzz, driven by libFuzzer.
//!
//! The compiler passes that count coverage are part of stable Rust, so no other toolchain is needed. They are switched on for the host as a
//! named target, so that build scripts stay without them.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workspace::{self, Workspace, host, succeed};

/// Coverage as libFuzzer wants it, and the checks of a debug build.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Coverflow-checks";

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Targets to run. Default: all.
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Seconds for which each target runs.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let corpus = workspace.root.join("crates/windrow-fuzz/corpus");
    let mut known = Vec::new();
    for entry in fs::read_dir(&corpus).with_context(|| format!("cannot read {}", corpus.display()))? {
        known.push(entry?.file_name().to_string_lossy().into_owned());
    }
    known.sort();
    let targets = if options.targets.is_empty() { &known } else { &options.targets };
    for target in targets {
        ensure!(known.contains(target), "{target} is not a target\n  hint: the targets are {}", known.join(", "));
    }
    let place = workspace.target.join("fuzz");
    let host = host()?;
    let words = ["build", "--release", "--locked", "--package", "windrow-fuzz", "--bin", "windrow-fuzz"];
    let words = [&words[..], &["--features", "libfuzzer", "--target", &host]].concat();
    let mut build = workspace::cargo(&workspace.root, &words);
    succeed(build.env("CARGO_TARGET_DIR", &place).env("RUSTFLAGS", FLAGS).env_remove("CARGO_ENCODED_RUSTFLAGS"))?;
    let findings = place.join("findings");
    for target in targets {
        let grown = place.join("corpus").join(target);
        for folder in [&grown, &findings] {
            fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        println!("fuzz: {target} for {} s", options.seconds);
        let mut fuzzer = Command::new(place.join(&host).join("release/windrow-fuzz"));
        // What is new goes into the first folder.
        fuzzer.arg(&grown).arg(corpus.join(target)).env("WINDROW_FUZZ", target);
        fuzzer.arg(format!("-max_total_time={}", options.seconds));
        fuzzer.arg(format!("-artifact_prefix={}/{target}-", findings.display()));
        let more = ["-rss_limit_mb=4096", "-timeout=20", "-max_len=16384", "-print_final_stats=1", "-verbosity=1"];
        succeed(fuzzer.args(more).current_dir(&place)).with_context(|| {
            format!(
                "fuzz target {target} failed: see {}\n  hint: copy the input to {}",
                findings.display(),
                corpus.join(target).display()
            )
        })?;
    }
    Ok(())
}
