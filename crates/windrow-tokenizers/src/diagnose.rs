//! Diagnosis of a misnamed input, or of an input with a bad first record: cause and remedy, from a few bytes.

use std::path::Path;

use crate::compression::Compression;
/// Number of bytes at the beginning of an input that identify it; the mark of a tar archive is at 257.
pub(crate) const FIRST: usize = 512;

/// A kind of file that windrow does not read, or not under this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Foreign {
    /// A noun with its article, or a mass noun.
    pub(crate) what: &'static str,
    pub(crate) hint: &'static str,
}

/// Declares kinds, each with its remedy.
macro_rules! kinds {
    ($($name:ident: $what:literal, $hint:literal;)*) => {
        $(pub(crate) const $name: Foreign = Foreign { what: $what, hint: $hint };)*
    };
}

kinds! {
    POINTER: "a Git LFS pointer", "fetch the file that it stands for: git lfs pull";
    HTML: "an HTML page", "read the page, which may be an error or login page, and download the file again";
    XML: "XML", "download the file again if it is an error message from a store; otherwise, convert it to JSON lines";
    GZIP: "gzip data", "rename the file so that .gz follows the extension of its format, as in .jsonl.gz";
    ZSTD: "zstd data", "rename the file so that .zst follows the extension of its format, as in .jsonl.zst";
    XZ: "xz data", "rename the file so that .xz follows the extension of its format, as in .jsonl.xz";
    LZMA: "lzma data", "decompress it: xz --format=lzma -dc FILE | windrow encode - --input-format FORMAT, where FORMAT is text, lines or jsonl";
    LZIP: "lzip data", "decompress it: lzip -dc FILE | windrow encode - --input-format FORMAT, where FORMAT is text, lines or jsonl";
    BZIP2: "bzip2 data", "rename the file so that .bz2 follows the extension of its format, as in .jsonl.bz2";
    LZ4: "lz4 data", "decompress it: lz4 -dc FILE | windrow encode - --input-format FORMAT, where FORMAT is text, lines or jsonl";
    LZOP: "lzop data", "decompress it: lzop -dc FILE | windrow encode - --input-format FORMAT, where FORMAT is text, lines or jsonl";
    BROTLI: "brotli data", "decompress it: brotli -dc FILE | windrow encode - --input-format FORMAT, where FORMAT is text, lines or jsonl";
    SNAPPY: "snappy data", "decompress it: snzip -dc FILE | windrow encode - --input-format FORMAT, where FORMAT is text, lines or jsonl";
    COMPRESS: "data from the compress program", "decompress it: gzip -dc FILE | windrow encode - --input-format FORMAT, where FORMAT is text, lines or jsonl";
    ZIP: "a zip archive", "decompress it: unzip -p FILE | windrow encode - --input-format FORMAT, where FORMAT is text, lines or jsonl";
    SEVEN_ZIP: "a 7z archive", "unpack it with 7z x, and pass the folder instead";
    RAR: "a rar archive", "unpack it, and pass the folder instead";
    TAR: "a tar archive", "unpack it with tar -xf FILE -C FOLDER, and pass the folder instead";
    WARC: "a WARC archive", "extract the texts as JSON lines first";
    PARQUET: "Parquet", "pass --input-format parquet, or give the file the extension .parquet";
    ENCRYPTED: "encrypted Parquet", "write it again without encryption";
    ARROW: "Arrow data", "convert it to Parquet with datasets.load_from_disk(FOLDER).to_parquet(FILE) or pyarrow.parquet.write_table";
    AVRO: "Avro data", "convert it to Parquet or JSON lines";
    ORC: "ORC data", "convert it to Parquet with pyarrow.orc.read_table and pyarrow.parquet.write_table";
    NUMPY: "a numpy array", "write the texts as JSON lines";
    PICKLE: "a Python pickle", "write the texts as JSON lines with json.dumps";
    HDF5: "HDF5 data", "write the texts as JSON lines or Parquet";
    SQLITE: "an SQLite database", "select the texts: sqlite3 FILE \"select json_object('text', COLUMN) from TABLE\" | windrow encode - --input-format jsonl";
    PDF: "a PDF", "extract the text: pdftotext FILE - | windrow encode -";
    UTF_32: "UTF-32", "convert it with `iconv -f UTF-32 -t UTF-8`";
    UTF_32_LE: "UTF-32 without a byte order mark", "convert it with `iconv -f UTF-32LE -t UTF-8`";
    UTF_32_BE: "UTF-32 without a byte order mark", "convert it with `iconv -f UTF-32BE -t UTF-8`";
    UTF_16: "UTF-16", "convert it with `iconv -f UTF-16 -t UTF-8`";
    UTF_16_LE: "UTF-16 without a byte order mark", "convert it with `iconv -f UTF-16LE -t UTF-8`";
    UTF_16_BE: "UTF-16 without a byte order mark", "convert it with `iconv -f UTF-16BE -t UTF-8`";
    JSON: "JSON", "add --input-format jsonl if each line is an object; if the file is an array, split it into lines: jq -c '.[]' FILE";
    LINES_OF_JSON: "JSON lines", "add --input-format jsonl";
    ARRAY: "an array", "put each element on its own line: jq -c '.[]' FILE | windrow encode - --input-format jsonl";
    STRINGS: "lines of strings", "turn them into objects: jq -c '{text: .}' FILE | windrow encode - --input-format jsonl";
    TEXT: "plain text", "if it is text, pass --input-format text or --input-format lines";
    CSV: "a CSV or TSV table", "decompress it if it is compressed, and convert it to JSON lines: python3 -c 'import csv,json,sys; [print(json.dumps(row)) for row in csv.DictReader(sys.stdin)]' < FILE | windrow encode - --input-format jsonl";
}

/// Kinds of files by leading bytes that no text has.
const MAGIC: &[(&[u8], Foreign)] = &[
    (b"\x1f\x8b", GZIP),
    (b"\x28\xb5\x2f\xfd", ZSTD),
    (b"\xfd7zXZ\0", XZ),
    (b"LZIP\x01", LZIP),
    (b"\x04\x22\x4d\x18", LZ4),
    (b"\x02\x21\x4c\x18", LZ4),
    (b"\x89LZO\0", LZOP),
    (b"\xff\x06\0\0sNaPpY", SNAPPY),
    (b"\x1f\x9d", COMPRESS),
    (b"PK\x03\x04", ZIP),
    (b"PK\x05\x06", ZIP),
    (b"7z\xbc\xaf\x27\x1c", SEVEN_ZIP),
    (b"Rar!\x1a\x07", RAR),
    (b"PAR1", PARQUET),
    (b"PARE", ENCRYPTED),
    (b"ARROW1\0\0", ARROW),
    (b"\xff\xff\xff\xff", ARROW),
    (b"FEA1", ARROW),
    (b"Obj\x01", AVRO),
    (b"ORC\n", ORC),
    (b"ORC\x08", ORC),
    (b"\x93NUMPY", NUMPY),
    (b"\x89HDF\r\n\x1a\n", HDF5),
    (b"SQLite format 3\0", SQLITE),
    (b"%PDF-", PDF),
    (b"\xff\xfe\0\0", UTF_32),
    (b"\0\0\xfe\xff", UTF_32),
    (b"\xff\xfe", UTF_16),
    (b"\xfe\xff", UTF_16),
];

/// Kind of a file that begins with these bytes, for an input that should hold data: the kinds of [`binary`], and texts in the place of data.
pub(crate) fn foreign(first: &[u8]) -> Option<Foreign> {
    if is_pointer(first) {
        return Some(POINTER);
    }
    let text = first.strip_prefix(b"\xef\xbb\xbf").unwrap_or(first).trim_ascii_start();
    let begins = |word: &str| text.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word.as_bytes()));
    if ["<!doctype html", "<html", "<head", "<body", "<script"].iter().any(|word| begins(word)) {
        return Some(HTML);
    }
    if begins("<?xml") || begins("<error") {
        return Some(XML);
    }
    if begins("WARC/") {
        return Some(WARC);
    }
    binary(first)
}

/// Kind of a file that begins with these bytes, unless `--ext` could make it a text.
pub(crate) fn not_text(first: &[u8]) -> Option<Foreign> {
    if is_pointer(first) { Some(POINTER) } else { binary(first) }
}

/// Kind of a file that begins with these bytes, if it is neither UTF-8 nor read under this name.
pub(crate) fn binary(first: &[u8]) -> Option<Foreign> {
    if let Some((_, kind)) = MAGIC.iter().find(|(magic, _)| first.starts_with(magic)) {
        return Some(*kind);
    }
    match first {
        // A skippable frame, as parallel compressors write it.
        [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(ZSTD),
        _ if is_bzip2(first) => Some(BZIP2),
        // Properties, the dictionary size, and an unknown length.
        [0x5d, 0, 0, _, _, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, ..] => Some(LZMA),
        [0x80, 2..=5, b'}' | b']' | b'c' | 0x8c | 0x95, ..] => Some(PICKLE),
        // A first line may end after one character.
        [a, 0, 0, 0, b, 0, 0, 0, ..] if *a > 0 && *b > 0 => Some(UTF_32_LE),
        [b'{' | b'[', 0, 0, 0] => Some(UTF_32_LE),
        [0, 0, 0, a, 0, 0, 0, ..] if *a > 0 => Some(UTF_32_BE),
        [a, 0, b, 0, ..] if *a > 0 && *b > 0 => Some(UTF_16_LE),
        [b'{' | b'[', 0] => Some(UTF_16_LE),
        [0, a, 0, ..] if *a > 0 => Some(UTF_16_BE),
        _ if first.get(257..262) == Some(b"ustar") => Some(TAR),
        _ => None,
    }
}

/// The supported compression of a file that begins with these bytes.
pub(crate) fn compression_of(first: &[u8]) -> Compression {
    match binary(first) {
        Some(GZIP) => Compression::Gzip,
        Some(ZSTD) => Compression::Zstd,
        Some(XZ) => Compression::Xz,
        Some(BZIP2) => Compression::Bzip2,
        _ => Compression::None,
    }
}

/// True if bzip2 data begins with these bytes: with a block, or with the end of empty data.
fn is_bzip2(first: &[u8]) -> bool {
    let Some([b'B', b'Z', b'h', b'1'..=b'9', rest @ ..]) = first.get(..10) else { return false };
    rest == b"1AY&SY" || rest == b"\x17\x72\x45\x38\x50\x90"
}

/// True if a file is a Git LFS pointer to another file.
pub(crate) fn is_pointer(first: &[u8]) -> bool {
    [&b"version https://git-lfs.github.com/spec/"[..], b"version https://hawser.github.com/spec/"]
        .iter()
        .any(|line| first.starts_with(line))
}

/// Kind of a file that is not Parquet, by its first bytes: JSON lines are also another kind.
#[cfg(feature = "parquet")]
pub(crate) fn not_parquet(first: &[u8]) -> Option<Foreign> {
    let hint = "pass --input-format jsonl, or give the file the extension .jsonl";
    let is_json = first.strip_prefix(b"\xef\xbb\xbf").unwrap_or(first).trim_ascii_start().starts_with(b"{");
    foreign(first).filter(|found| *found != PARQUET).or(is_json.then_some(Foreign { what: "JSON lines", hint }))
}

/// Kind of a file by its name, if windrow does not read that kind.
pub(crate) fn by_name(path: &Path) -> Option<Foreign> {
    let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
    let kinds = [
        (".tar .tgz .tbz .tbz2 .txz .tzst", TAR),
        (".zip", ZIP),
        (".7z", SEVEN_ZIP),
        (".rar", RAR),
        (".warc .warc.wet .warc.wat .wet .wat", WARC),
        (".csv .tsv", CSV),
        (".arrow .feather .arrows .ipc", ARROW),
        (".avro", AVRO),
        (".orc", ORC),
        (".json", JSON),
        (".jl .jsonlines .jsonls", LINES_OF_JSON),
        (".pkl .pickle", PICKLE),
    ];
    let compressions = [
        (".lz4", LZ4),
        (".br", BROTLI),
        (".lzma", LZMA),
        (".lz", LZIP),
        (".lzo", LZOP),
        (".sz .snappy", SNAPPY),
        (".z", COMPRESS),
    ];
    let (stem, _) = Compression::of_name(&name);
    let compressed = of_suffix(stem, &compressions);
    let kind = of_suffix(compressed.map_or(stem, |(stem, _)| stem), &kinds).map(|(_, kind)| kind);
    let archive = |kind: &Foreign| [TAR, WARC].contains(kind);
    // `.tar.lz` is unpacked in one step; `.csv.lz` is decompressed first.
    kind.filter(archive).or(compressed.map(|(_, kind)| kind)).or(kind)
}

/// A name without the first of these suffixes that it has, and the suffix's kind.
fn of_suffix<'n>(name: &'n str, kinds: &[(&str, Foreign)]) -> Option<(&'n str, Foreign)> {
    let mut suffixes = kinds.iter().flat_map(|&(suffixes, kind)| suffixes.split(' ').map(move |suffix| (suffix, kind)));
    suffixes.find_map(|(suffix, kind)| Some((name.strip_suffix(suffix)?, kind)))
}

/// True if a file describes its folder, by its name.
pub(crate) fn is_about(path: &Path) -> bool {
    const NAMES: &str = "readme license licence copying copyright notice changelog changes citation authors contributing \
        code_of_conduct security checksums";
    let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let stem = name.split('.').next().unwrap_or_default();
    let is_one = |name| stem.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']));
    NAMES.split(' ').any(is_one) || stem.ends_with("sums") || stem.ends_with("md5sum")
}

/// The cause of a syntax error and its remedy, formatted to follow the parser's message, if the bytes at the error show the cause.
#[cold]
pub(crate) fn at_place(message: &str, line: &[u8], at: usize) -> String {
    let near = line.get(at.saturating_sub(1)..).unwrap_or_default();
    let from = line.get(at..).unwrap_or_default();
    let before = line[..at.min(line.len())].trim_ascii_end();
    let skipped = &line[before.len()..at.min(line.len())];
    // The parser may stop after the byte that it reports.
    let is_at = |mark: &[u8]| near.starts_with(mark) || from.starts_with(mark);
    let is_next = message.contains("trailing characters");
    let is_cut = message.contains("EOF while parsing");
    let (cause, hint) = if message.contains("control character") || message.contains("escape") {
        return String::new();
    } else if is_at(b"\0") {
        ("a NUL byte, as left by a crash or an incomplete write", NO_NULS)
    } else if is_at(b"\xef\xbb\xbf") {
        ("a byte order mark inside the file, as left by cat when it joins two files", NO_MARKS)
    } else if is_at(b"\x1e") {
        ("a record separator: the file is a JSON text sequence", NO_SEPARATORS)
    } else if is_next && skipped.contains(&b'\r') {
        ("the lines end with carriage returns only", FEEDS)
    } else if is_next && from.starts_with(b"{") {
        ("another object follows on the same line", LINES)
    } else if is_next && from.starts_with(b",") {
        ("a comma follows the object", "remove the commas after the objects: sed 's/,[[:space:]]*$//' FILE")
    } else if is_cut && line.trim_ascii_start().starts_with(b"[") {
        ("an array that spans several lines", ARRAY.hint)
    } else if is_cut && message.contains("string") {
        (
            "the line ends inside a string",
            "write a line feed inside a string as \\n; if the file is truncated, copy it again",
        )
    } else if is_cut && line.trim_ascii_start().starts_with(b"{") {
        ("the object spans more than one line, or is truncated", LINES)
    } else if from.starts_with(b"'") || near.starts_with(b"{'") {
        ("single quotes, as in a printed Python dictionary", "write the line with json.dumps")
    } else {
        return String::new();
    };
    format!(" ({cause}; hint: {hint})")
}

const LINES: &str = "put each object on its own line: jq -c . FILE | windrow encode - --input-format jsonl";
const FEEDS: &str = "replace them with line feeds: tr '\\r' '\\n' < FILE | windrow encode - --input-format jsonl";
const NO_NULS: &str = "remove the NUL bytes: tr -d '\\000' < FILE | windrow encode - --input-format jsonl";
const NO_MARKS: &str =
    "remove the byte order marks: sed 's/\\xef\\xbb\\xbf//g' FILE | windrow encode - --input-format jsonl";
const NO_SEPARATORS: &str = "remove the separators: tr -d '\\036' < FILE | windrow encode - --input-format jsonl";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_identify_the_kind() {
        let tar = [&[b'a'; 257][..], b"ustar\x0000"].concat();
        let cases: [(&[u8], &str, &str); 35] = [
            (
                b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
                "a Git LFS pointer",
                "git lfs pull",
            ),
            (b"\xef\xbb\xbf\n <!DocType HTML>", "an HTML page", "download"),
            (b"<html><head>", "an HTML page", "download"),
            (b"<?xml version=\"1.0\"?><Error>", "XML", "download"),
            (b"WARC/1.0\r\n", "a WARC archive", "extract"),
            (b"\x1f\x8b\x08\0", "gzip data", ".gz"),
            (b"\x28\xb5\x2f\xfd\0", "zstd data", ".zst"),
            (b"\x5a\x2a\x4d\x18\0", "zstd data", ".zst"),
            (b"\xfd7zXZ\0\0\x04", "xz data", ".xz"),
            (b"]\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff\xff\0", "lzma data", "xz --format=lzma -dc FILE |"),
            (b"LZIP\x01\x0c", "lzip data", "lzip -dc FILE |"),
            (b"BZh91AY&SY\0", "bzip2 data", ".bz2"),
            (b"BZh9\x17\x72\x45\x38\x50\x90\0", "bzip2 data", ".bz2"),
            (b"\x04\x22\x4d\x18\x64", "lz4 data", "lz4 -dc FILE |"),
            (b"\xff\x06\0\0sNaPpY", "snappy data", "snzip -dc FILE |"),
            (b"PK\x03\x04\x14", "a zip archive", "unzip -p FILE |"),
            (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "7z x"),
            (&tar, "a tar archive", "tar -xf FILE"),
            (b"PAR1\x15", "Parquet", "--input-format parquet"),
            (b"PARE\x15", "encrypted Parquet", "without encryption"),
            (b"ARROW1\0\0", "Arrow data", "to_parquet"),
            (b"\xff\xff\xff\xff\x10\0\0\0", "Arrow data", "to_parquet"),
            (b"Obj\x01\x04", "Avro data", "Parquet"),
            (b"\x93NUMPY\x01", "a numpy array", "JSON lines"),
            (b"\x80\x04\x95\0", "a Python pickle", "json.dumps"),
            (b"%PDF-1.7", "a PDF", "pdftotext FILE"),
            (b"\xff\xfe\0\0{\0\0\0", "UTF-32", "iconv -f UTF-32 "),
            (b"\0\0\xfe\xff\0\0\0{", "UTF-32", "iconv -f UTF-32 "),
            (b"{\0\0\0\"\0\0\0", "UTF-32 without", "iconv -f UTF-32LE "),
            (b"\0\0\0{\0\0\0\"", "UTF-32 without", "iconv -f UTF-32BE "),
            (b"\xff\xfe{\0", "UTF-16", "iconv -f UTF-16 "),
            (b"\xfe\xff\0{", "UTF-16", "iconv -f UTF-16 "),
            (b"{\0\"\0", "UTF-16 without", "iconv -f UTF-16LE "),
            (b"{\0", "UTF-16 without", "iconv -f UTF-16LE "),
            (b"\0{\0\"", "UTF-16 without", "iconv -f UTF-16BE "),
        ];
        for (first, what, hint) in cases {
            let found = foreign(first).unwrap_or_else(|| panic!("{what}"));
            assert!(found.what.starts_with(what) && found.hint.contains(hint), "{what}: {found:?}");
        }
        for first in
            [&b""[..], b"{", b"{\"text\": \"PAR1\"}", b"plain", b"\0", b"\0\0\0\0", b"\xef\xbb\xbf{", b"[", b"\xff"]
        {
            assert_eq!(foreign(first), None, "{first:?}");
        }
    }

    #[test]
    fn names_identify_the_kind() {
        for (name, what) in [
            ("a.jsonl.lz", "lzip data"),
            ("a.csv.xz", "a CSV or TSV table"),
            ("a.csv.lz4", "lz4 data"),
            ("a.tar.xz", "a tar archive"),
            ("a.tar.gz", "a tar archive"),
            ("a.tgz", "a tar archive"),
            ("CC-MAIN.warc.wet.gz", "a WARC archive"),
            ("a.csv.gz", "a CSV or TSV table"),
            ("data-00000-of-00001.arrow", "Arrow data"),
            ("a.json", "JSON"),
            ("a.jl", "JSON lines"),
            ("a.lz4", "lz4 data"),
            ("a.jsonl.br", "brotli data"),
            ("a.zip", "a zip archive"),
        ] {
            let found = by_name(Path::new(name));
            assert!(found.is_some_and(|kind| kind.what.starts_with(what)), "{name}: {found:?}");
        }
        for name in ["a.gz", "a.pdf", "Makefile", "xz", "a.dat", "A.TXT.BZ2", "a.jsonl.xz"] {
            assert_eq!(by_name(Path::new(name)), None, "{name}");
        }
        let about = ["README.md", "x/LICENSE.txt", "README_de.md", "SHA256SUMS.txt", "license-mit.txt", "notice"];
        assert!(about.iter().all(|name| is_about(Path::new(name))));
        assert!(!["a.txt", "noticeable.txt", "readmes.txt"].iter().any(|name| is_about(Path::new(name))));
    }
}
