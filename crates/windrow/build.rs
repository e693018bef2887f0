//! `links = "windrow"` needs a build script. The key makes Cargo refuse two versions of this crate in one program, and
//! with them two global pools that would compete for the same CPUs.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
