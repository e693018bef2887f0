//! The public items of the published libraries, as rustdoc sees them, in `api/`. A change of the API shows in a change of these files.
//!
//! rustdoc's JSON has a version, so this check runs on the toolchain of its CI job only.

use anyhow::{Context, Result, ensure};
use public_api::Builder;

use crate::workspace::{self, Workspace};

const LIBRARIES: [&str; 10] = [
    "windrow",
    "windrow-bpe",
    "windrow-collections",
    "windrow-collective",
    "windrow-plan",
    "windrow-product",
    "windrow-sqlite",
    "windrow-sync",
    "windrow-tiling",
    "windrow-tokenizers",
];

pub(crate) fn run(workspace: &Workspace, write: bool) -> Result<()> {
    let mut problems = Vec::new();
    for library in LIBRARIES {
        let words = ["rustdoc", "--quiet", "--locked", "--lib", "--package", library, "--"];
        let command = &mut workspace::cargo(&workspace.root, &words);
        // The format is not stable yet; any toolchain of its version will do.
        command.args(["-Z", "unstable-options", "--output-format", "json", "--cap-lints", "allow"]);
        let status = command.env("RUSTC_BOOTSTRAP", "1").status().context("cannot start cargo")?;
        ensure!(status.success(), "{library}: {status}");
        let json = workspace.target.join(format!("doc/{}.json", library.replace('-', "_")));
        let builder = Builder::from_rustdoc_json(&json).omit_blanket_impls(true).omit_auto_trait_impls(true);
        let api = builder.omit_auto_derived_impls(true).build();
        let api = api.with_context(|| format!("{}: not the JSON of rustdoc 1.95", json.display()))?;
        problems.extend(workspace.stale(&format!("api/{library}.txt"), &api.to_string(), "api", write)?);
    }
    workspace::unless_empty("api", &problems)
}
