//! `links` needs a build script. The key makes Cargo refuse two versions of this crate in one program: each would know half of the
//! regions around its threads.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
