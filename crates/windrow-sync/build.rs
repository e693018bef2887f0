//! `links` needs a build script. The key makes Cargo refuse two versions of this crate in one program: each would know half of what its
//! threads are inside of.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
