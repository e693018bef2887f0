//! `links = "rayon-core"` needs a build script. The key makes Cargo refuse this crate beside the published one.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
