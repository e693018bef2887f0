//! Which targets get mimalloc, according to Cargo, for the command with that feature.

use std::process::Command;

const MEASURED: [&str; 3] = ["aarch64-apple-darwin", "aarch64-unknown-linux-gnu", "x86_64-unknown-linux-gnu"];

const OTHERS: [&str; 5] = [
    "aarch64-unknown-linux-musl",
    "s390x-unknown-linux-gnu",
    "x86_64-apple-darwin",
    "x86_64-pc-windows-msvc",
    "x86_64-unknown-linux-musl",
];

/// The packages of the binary `windrow` on a target.
fn packages(target: &str, features: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    command.args(["tree", "--package", "windrow-cli", "--edges", "normal", "--prefix", "none", "--target", target]);
    command.args(features).arg("--locked").current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let output = command.output().expect("cargo starts");
    assert!(output.status.success(), "{target}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("names of packages")
}

fn has_mimalloc(target: &str, features: &[&str]) -> bool {
    packages(target, features).lines().any(|line| line.starts_with("mimalloc "))
}

#[test]
fn measured_targets_have_mimalloc_and_no_others() {
    for target in MEASURED {
        assert!(has_mimalloc(target, &["--features", "mimalloc"]), "{target}");
    }
    for target in OTHERS {
        assert!(!has_mimalloc(target, &["--features", "mimalloc"]), "{target}");
    }
}

#[test]
fn without_the_feature_no_target_has_mimalloc() {
    for target in MEASURED {
        assert!(!has_mimalloc(target, &[]), "{target}");
    }
}

/// The attribute must be set exactly on the targets that have the crate: `build.rs` reads the manifest to decide.
#[test]
fn the_manifest_lists_the_measured_targets() {
    let manifest = include_str!("../Cargo.toml");
    let tables: Vec<&str> =
        manifest.lines().filter_map(|line| line.strip_prefix("[target.")?.strip_suffix(".dependencies]")).collect();
    assert_eq!(tables, MEASURED);
}
