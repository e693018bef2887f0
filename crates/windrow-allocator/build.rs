//! Sets `cfg(mimalloc)` on the targets where the manifest has that dependency; only the manifest lists the targets.

use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=Cargo.toml");
    println!("cargo::rustc-check-cfg=cfg(mimalloc)");
    let table = format!("[target.{}.dependencies", env::var("TARGET")?);
    // `cargo package` writes the same tables with the name of the dependency appended.
    if fs::read_to_string("Cargo.toml")?.lines().any(|line| line.starts_with(&table)) {
        println!("cargo::rustc-cfg=mimalloc");
    }
    Ok(())
}
