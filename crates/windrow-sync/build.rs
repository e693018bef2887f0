//! `links` needs a build script. The key makes Cargo refuse two versions of this crate in one program, and with them two sets of workers
//! that would compete for the same CPUs.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
