//! `cargo xtask sanitize`: the tests of safe code under AddressSanitizer.
//!
//! The sanitizer is part of stable Rust, but not promised to stay as it is: the compiler asks for a sign that this is known.

use anyhow::Result;

use crate::workspace::{self, Workspace, host, succeed};

/// The sanitizer, and the checks of a debug build. For a named target: build scripts stay without them.
const FLAGS: &str = "-Zsanitizer=address -Cdebug-assertions -Coverflow-checks";

/// Memory of a function that has returned stays unused for a while, so that its use is found. Leaks are not looked for: tests forget values
/// on purpose, and count the others.
const OPTIONS: &str = "detect_stack_use_after_return=1:detect_leaks=0";

/// Package, test program and filter: the tests of windrow-sync from safe code.
const DEFAULTS: [&str; 3] = ["windrow-sync", "it", "safe::"];

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The package; its tests are run.
    #[arg(long, default_value = DEFAULTS[0])]
    package: String,
    /// The test file.
    #[arg(long, default_value = DEFAULTS[1])]
    test: String,
    /// Only tests whose name contains this.
    #[arg(default_value = DEFAULTS[2])]
    filter: String,
}

impl Default for Options {
    fn default() -> Self {
        let [package, test, filter] = DEFAULTS.map(str::to_owned);
        Options { package, test, filter }
    }
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let (host, Options { package, test, filter }) = (host()?, options);
    let words = ["test", "--locked", "--target", &host, "--package", package, "--test", test, filter];
    let mut command = workspace::cargo(&workspace.root, &words);
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", FLAGS).env_remove("CARGO_ENCODED_RUSTFLAGS");
    command.env("ASAN_OPTIONS", OPTIONS).env("CARGO_TARGET_DIR", workspace.target.join("sanitize"));
    succeed(&mut command)
}
