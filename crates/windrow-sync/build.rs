//! `links` needs a build script. The key makes Cargo refuse two versions of this crate in one program: each would know of
//! only some of the regions that a thread is in.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
