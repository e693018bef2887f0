//! Makes `unicode/classes.bin`, the table of `src/unicode.rs`: `cargo run -p windrow-bpe --example classes > unicode/classes.bin`.

use std::io::Write;

/// The classes, in the order of `Class`. A later one takes precedence.
const CLASSES: [&str; 7] = [r"\p{any}", r"[\p{Lu}\p{Lt}]", r"\p{Ll}", r"[\p{Lm}\p{Lo}]", r"\p{M}", r"\p{N}", r"\s"];

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(&table())
}

fn table() -> Vec<u8> {
    let mut flat = vec![0_u32; 0x11_0000];
    for (number, pattern) in (0..).zip(CLASSES) {
        let hir = regex_syntax::parse(pattern).expect("a class");
        let regex_syntax::hir::HirKind::Class(regex_syntax::hir::Class::Unicode(class)) = hir.kind() else {
            unreachable!("{pattern} is a class")
        };
        for range in class.ranges() {
            flat[range.start() as usize..=range.end() as usize].fill(number);
        }
    }
    let mut bytes = Vec::new();
    for at in 1..=flat.len() {
        if flat.get(at) != Some(&flat[at - 1]) {
            bytes.extend_from_slice(&(at as u32 | flat[at - 1] << 21).to_le_bytes()[..3]);
        }
    }
    bytes
}

#[test]
fn the_table_is_up_to_date() {
    assert!(table() == include_bytes!("../unicode/classes.bin"), "make it again");
}
