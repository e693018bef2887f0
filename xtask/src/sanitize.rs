//! `cargo xtask sanitize`: the tests of safe code under AddressSanitizer.
//!
//! The sanitizer is part of stable Rust, but not promised to stay as it is: the compiler asks for a sign that this is known.

use anyhow::Result;

use crate::workspace::{self, PROTOCOLS, Workspace, host, package, succeed};

/// The sanitizer, and the checks of a debug build. For a named target: build scripts stay without them.
const FLAGS: &str = "-Zsanitizer=address -Cdebug-assertions -Coverflow-checks";

/// Memory of a function that has returned stays unused for a while, so that its use is found. Leaks are not looked for: tests forget values
/// on purpose, and count the others.
const OPTIONS: &str = "detect_stack_use_after_return=1:detect_leaks=0";

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Packages whose tests are run.
    #[arg(long, default_values = PROTOCOLS.map(package))]
    package: Vec<String>,
    /// Test file to run.
    #[arg(long, default_value = "it")]
    test: String,
    /// Run only tests whose names contain this.
    #[arg(default_value = "safe::")]
    filter: String,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let (host, Options { package: packages, test, filter }) = (host()?, options);
    let words = ["test", "--locked", "--target", &host, "--test", test, filter];
    let mut command = workspace::cargo(&workspace.root, &words);
    packages.iter().for_each(|package| _ = command.args(["--package", package]));
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", FLAGS).env_remove("CARGO_ENCODED_RUSTFLAGS");
    command.env("ASAN_OPTIONS", OPTIONS).env("CARGO_TARGET_DIR", workspace.target.join("sanitize"));
    succeed(&mut command)
}
