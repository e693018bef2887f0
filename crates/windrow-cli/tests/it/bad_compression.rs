//! Damaged or incomplete compressed files.

use crate::common::{Place, bzip2, check_inputs, gzip, ids_of, tiny, tiny_ids, xz, zstd};

/// Some KB that compress to more than a few bytes.
fn text() -> Vec<u8> {
    (0..2_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8 % 60 + 32).collect()
}

fn with_flipped_bit(mut bytes: Vec<u8>, at: usize) -> Vec<u8> {
    bytes[at] ^= 0x10;
    bytes
}

#[test]
fn damage_is_an_error_and_never_a_shorter_document() {
    let (gz, zst) = (gzip(&text()), zstd(&text()));
    let (middle, end) = (gz.len() / 2, gz.len() - 1);
    let jsonl = gzip(b"{\"text\": \"a\"}\n{\"text\": \"b\"}\n");
    check_inputs(&[
        ("in.txt.gz", &gz[..middle], "", 65, &["in.txt.gz: ", "at byte ", "hint: "]),
        ("in.txt.gz", &gz[..end], "", 65, &["in.txt.gz: ", "at byte "]),
        ("in.txt.gz", &gz[..5], "", 65, &["in.txt.gz: ", "at byte "]),
        ("in.txt.gz", &with_flipped_bit(gz.clone(), middle), "", 65, &["in.txt.gz: ", "at byte "]),
        ("in.txt.gz", &with_flipped_bit(gz.clone(), end - 5), "", 65, &["in.txt.gz: ", "at byte "]),
        ("in.txt.gz", &[&gz, &gz[..end]].concat(), "", 65, &["in.txt.gz: ", "at byte "]),
        ("in.txt.gz", &[&gz, &b"trailing"[..]].concat(), "", 65, &["in.txt.gz: ", "at byte "]),
        ("in.txt.gz", b"plain text", "", 65, &["in.txt.gz: ", "at byte 0"]),
        ("in.jsonl.gz", &jsonl[..jsonl.len() - 3], "--on-error skip", 65, &["in.jsonl.gz: ", "at byte "]),
        ("in.txt.zst", &zst[..zst.len() / 2], "", 65, &["in.txt.zst: ", "at byte "]),
        ("in.txt.zst", &zst[..zst.len() - 1], "--lines", 65, &["in.txt.zst: ", "at byte "]),
        ("in.txt.zst", &with_flipped_bit(zst.clone(), 2), "", 65, &["in.txt.zst: ", "at byte "]),
        ("in.txt.zst", &[&zst, &b"trailing"[..]].concat(), "", 65, &["in.txt.zst: ", "at byte "]),
        ("in.txt.zst", b"plain text", "", 65, &["in.txt.zst: ", "at byte 0"]),
        ("in.txt.zst", &gz, "", 65, &["in.txt.zst: ", "at byte 0"]),
        ("in.txt.gz", &zst, "", 65, &["in.txt.gz: ", "at byte 0"]),
    ]);
    for (name, packed) in [("in.txt.xz", xz(&text())), ("in.txt.bz2", bzip2(&text()))] {
        let (middle, end) = (packed.len() / 2, packed.len() - 1);
        let says: &[&str] = &[&format!("{name}: "), "at byte ", "hint: "];
        check_inputs(&[
            (name, &packed[..middle], "", 65, says),
            (name, &packed[..end], "", 65, says),
            (name, &packed[..5], "--lines", 65, says),
            (name, &with_flipped_bit(packed.clone(), middle), "", 65, says),
            (name, &[&packed, &packed[..end]].concat(), "", 65, says),
            (name, &[&packed, &b"trailing"[..]].concat(), "", 65, says),
            (name, b"plain text", "--on-error skip", 65, says),
            (name, &gz, "", 65, says),
        ]);
    }
}

#[test]
fn several_members_and_frames_are_one_file() {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string());
    place.file("a.txt.gz", [gzip(b"the "), gzip(b""), gzip(b"end")].concat());
    place.file("b.txt.zst", [zstd(b"the "), zstd(b""), zstd(b"end")].concat());
    place.file("c.txt.xz", [xz(b"the "), xz(b""), xz(b"end")].concat());
    place.file("d.txt.bz2", [bzip2(b"the "), bzip2(b""), bzip2(b"end")].concat());
    place.line("encode a.txt.gz b.txt.zst c.txt.xz d.txt.bz2 -o out --tokenizer tiny.json --format jsonl").ok();
    assert_eq!(ids_of(&place.read("out.jsonl")), ["the end"; 4].map(tiny_ids));
}
