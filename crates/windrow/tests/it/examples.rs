//! The programs in `examples`, each of which checks its result.

#[path = "../../examples/compress.rs"]
mod compress;
#[cfg(feature = "ndarray")]
#[path = "../../examples/heat.rs"]
mod heat;
#[path = "../../examples/image.rs"]
mod image;
#[path = "../../examples/journal.rs"]
mod journal;
#[path = "../../examples/lu.rs"]
mod lu;

#[test]
fn compress_reads_packs_and_writes() {
    compress::main().unwrap();
}

#[cfg(feature = "ndarray")]
#[test]
fn heat_spreads() {
    heat::main();
}

#[test]
fn image_is_painted() {
    image::main().unwrap();
}

#[test]
fn journal_keeps_all_lines() {
    journal::main().unwrap();
}

#[test]
fn lu_solves_equations() {
    lu::main();
}
