//! The public items of the published libraries, as rustdoc sees them, in `api/`. A change of the API shows in a change of these files.
//!
//! rustdoc's JSON has a version, so this check runs on the toolchain of its CI job only. It needs the feature `api`, since no other check
//! needs the crate that reads this JSON.

use anyhow::Result;

use crate::workspace::{self, Workspace, succeed};

/// Builds this program with the feature `api`, and runs it.
#[cfg(not(feature = "api"))]
pub(crate) fn run(workspace: &Workspace, write: bool) -> Result<()> {
    let words = ["run", "--quiet", "--locked", "--package", "xtask", "--features", "api", "--", "api"];
    succeed(workspace::cargo(&workspace.root, &words).args(write.then_some("--write")))
}

/// Compares the lists; with `write`, makes them again.
#[cfg(feature = "api")]
pub(crate) fn run(workspace: &Workspace, write: bool) -> Result<()> {
    let mut problems = Vec::new();
    for list in workspace.files()?.iter().filter_map(|file| file.strip_prefix("api/")) {
        let library = list.trim_end_matches(".txt");
        let words = ["rustdoc", "--quiet", "--locked", "--lib", "--package", library, "--"];
        let command = &mut workspace::cargo(&workspace.root, &words);
        // The format is not stable yet; any toolchain of its version will do.
        command.args(["-Z", "unstable-options", "--output-format", "json", "--cap-lints", "allow"]);
        succeed(command.env("RUSTC_BOOTSTRAP", "1"))?;
        let json = workspace.target.join(format!("doc/{}.json", library.replace('-', "_")));
        let builder =
            public_api::Builder::from_rustdoc_json(&json).omit_blanket_impls(true).omit_auto_trait_impls(true);
        let api = builder.omit_auto_derived_impls(true).build();
        let api = anyhow::Context::with_context(api, || format!("{}: not the JSON of rustdoc 1.95", json.display()))?;
        problems.extend(workspace.stale(&format!("api/{library}.txt"), &api.to_string(), "api", write)?);
    }
    workspace::unless_empty("api", &problems)
}
