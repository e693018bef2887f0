//! Bytes become records.

use std::io::{self, Read};

use crate::input_common::{in_memory, read_all, records_of};
use proptest::prelude::*;
use windrow_tokenizers::input::{Batch, Compression, ErrorClass, Format, InputError, InputFile, Reader, Stopped};

/// The text of each record.
fn texts(bytes: &[u8], format: Format) -> Vec<String> {
    records_of(bytes, format).into_iter().map(|(.., bytes)| String::from_utf8(bytes).unwrap()).collect()
}

#[test]
fn a_text_file_is_one_record_also_when_empty() {
    assert_eq!(texts(b"", Format::Text), [""]);
    assert_eq!(texts(b"a\r\nb\n", Format::Text), ["a\r\nb\n"]);
}

#[test]
fn lines_end_with_newlines_and_the_end_of_the_file_adds_none() {
    assert_eq!(texts(b"", Format::Lines), [""; 0]);
    assert_eq!(texts(b"a\nb", Format::Lines), ["a", "b"]);
    assert_eq!(texts(b"a\nb\n", Format::Lines), ["a", "b"]);
    assert_eq!(texts(b"\n\na\n\n", Format::Lines), ["", "", "a", ""]);
}

#[test]
fn a_carriage_return_belongs_to_a_line_unless_a_newline_follows() {
    assert_eq!(texts(b"a\r\n\r\nb\rc\r\r\nd\r", Format::Lines), ["a", "", "b\rc\r", "d\r"]);
}

#[test]
fn blank_jsonl_lines_are_no_records_but_count_as_lines() {
    let records = records_of(b"\n{}\r\n \t\r\n\n[]\n\r", Format::Jsonl);
    assert_eq!(records, [(0, 2, 1, b"{}\r".to_vec()), (0, 5, 10, b"[]".to_vec())]);
}

#[test]
fn other_white_space_than_json_has_is_a_record() {
    assert_eq!(texts("\u{a0}\n\u{b}\n".as_bytes(), Format::Jsonl), ["\u{a0}", "\u{b}"]);
}

#[test]
fn one_byte_order_mark_is_dropped_and_counted_in_offsets() {
    for format in [Format::Lines, Format::Jsonl] {
        assert_eq!(records_of(b"\xef\xbb\xbfa\nb\n", format), [(0, 1, 3, b"a".to_vec()), (0, 2, 5, b"b".to_vec())]);
    }
    assert_eq!(texts(b"\xef\xbb\xbf", Format::Text), [""]);
    assert_eq!(texts(b"\xef\xbb\xbf", Format::Lines), [""; 0]);
    assert_eq!(texts("\u{feff}\u{feff}a\n\u{feff}b".as_bytes(), Format::Lines), ["\u{feff}a", "\u{feff}b"]);
    assert_eq!(records_of(b"\xef\xbb", Format::Text), [(0, 1, 0, b"\xef\xbb".to_vec())]);
}

#[test]
fn every_file_has_its_own_byte_order_mark() {
    let files = || (0..3).map(|_| in_memory("\u{feff}x".as_bytes(), Format::Text, Compression::None)).collect();
    for batch_bytes in [1, 2, 3, 4, 5, 6, 7, 8, 1000] {
        let (records, _) = read_all(files(), batch_bytes).unwrap();
        assert_eq!(records, [0, 1, 2].map(|file| (file, 1, 3, b"x".to_vec())), "batches of {batch_bytes}");
    }
}

#[test]
fn nul_bytes_are_kept() {
    assert_eq!(texts(b"a\0b\n\0\n", Format::Lines), ["a\0b", "\0"]);
}

#[test]
fn utf_16_is_handed_on_as_it_is() {
    assert_eq!(records_of(b"\xff\xfea\0", Format::Text), [(0, 1, 0, b"\xff\xfea\0".to_vec())]);
}

#[test]
fn a_file_of_blank_lines_needs_no_more_memory_than_a_batch() {
    let blank = vec![b'\n'; 3 << 20];
    let mut held = 0;
    let mut reader = Reader::new(vec![in_memory(&blank, Format::Jsonl, Compression::None)], 1 << 10);
    let last = reader.next_batch(Batch::default(), &mut |bytes| {
        held += bytes;
        Ok(())
    });
    assert!(last.unwrap().is_none());
    assert_eq!(held, 1 << 10);
    assert_eq!(reader.reports()[0].decompressed_bytes, 3 << 20);
}

#[test]
fn a_huge_line_gets_its_own_batch_and_leaves_its_neighbours_whole() {
    let mut bytes = b"before\n".to_vec();
    bytes.extend(vec![b'x'; 5 << 20]);
    bytes.extend(b"\nafter\nlast");
    let mut reader = Reader::new(vec![in_memory(&bytes, Format::Lines, Compression::None)], 1 << 10);
    let mut batches = Vec::new();
    let mut recycled = Batch::default();
    while let Some(batch) = reader.next_batch(recycled, &mut |_| Ok(())).unwrap() {
        batches.push((batch.records.iter().map(|record| record.len).collect::<Vec<_>>(), batch.held));
        recycled = batch;
    }
    let sizes: Vec<_> = batches.iter().map(|(sizes, _)| sizes.clone()).collect();
    assert_eq!(sizes, [vec![6], vec![5 << 20], vec![5, 4]]);
    assert!(batches[1].1 >= 5 << 20 && batches[1].1 < 7 << 20, "{} bytes were asked for", batches[1].1);
    assert!(batches[2].1 < 10 << 10, "the huge buffer was given back: {} bytes are held", batches[2].1);
}

#[test]
fn many_short_records_do_not_hide_memory() {
    let bytes = vec![b'\n'; 1 << 20];
    let mut reader = Reader::new(vec![in_memory(&bytes, Format::Lines, Compression::None)], 1 << 16);
    let (mut total, mut recycled) = (0, Batch::default());
    while let Some(batch) = reader.next_batch(recycled, &mut |_| Ok(())).unwrap() {
        assert!(batch.held < 4 << 16, "{} bytes for a batch", batch.held);
        total += batch.records.len();
        recycled = batch;
    }
    assert_eq!(total, 1 << 20);
}

#[test]
fn hold_can_stop_the_run_while_a_record_grows() {
    let bytes = vec![b'x'; 1 << 20];
    let mut reader = Reader::new(vec![in_memory(&bytes, Format::Lines, Compression::None)], 1 << 12);
    let mut left: usize = 1 << 16;
    let mut hold = |bytes: usize| {
        left = left.checked_sub(bytes).ok_or(Stopped)?;
        Ok(())
    };
    let error = reader.next_batch(Batch::default(), &mut hold).unwrap_err();
    assert!(matches!(error, InputError::Stopped), "{error}");
    assert_eq!(error.class(), ErrorClass::Stopped);
    assert!(reader.next_batch(Batch::default(), &mut |_| Ok(())).is_err(), "a stopped reader does not start again");
    assert!(reader.reports().is_empty());
}

#[test]
fn the_size_of_a_plain_text_file_is_asked_for_at_once() {
    // A sparse file needs no disk.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("huge.txt");
    let size = 1_u64 << 42;
    let file = std::fs::File::create(&path).unwrap();
    if file.set_len(size).is_err() {
        println!("skipped: no sparse files of 4 TiB here");
        return;
    }
    let files = vec![InputFile::from_path(&path, Format::Text, Compression::None)];
    let mut asked = 0;
    let mut hold = |bytes| {
        asked += bytes as u64;
        if asked > 1 << 40 { Err(Stopped) } else { Ok(()) }
    };
    let error = Reader::new(files, 1 << 16).next_batch(Batch::default(), &mut hold).unwrap_err();
    assert!(matches!(error, InputError::Stopped), "{error}");
    assert!(asked >= size, "{asked} bytes were asked for");
}

#[test]
fn read_errors_name_the_byte() {
    struct Breaks(usize);
    impl Read for Breaks {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(io::Error::other("the disk is gone"));
            }
            let n = self.0.min(buf.len());
            self.0 -= n;
            buf[..n].fill(b'\n');
            Ok(n)
        }
    }
    for compression in [Some(Compression::None), None] {
        let file = InputFile::from_reader("tape", Breaks(1234), Format::Lines, compression);
        let error = read_all(vec![file], 1 << 20).unwrap_err().to_string();
        assert!(error.starts_with("tape: cannot be read at byte 1234: the disk is gone\nhint: "), "{error}");
    }
    for compression in [Compression::Gzip, Compression::Zstd, Compression::Xz, Compression::Bzip2] {
        let file = InputFile::from_reader("tape", Breaks(0), Format::Lines, Some(compression));
        let error = read_all(vec![file], 1 << 20).unwrap_err().to_string();
        assert!(error.starts_with("tape: cannot be read at byte 0: the disk is gone"), "{error}");
    }
}

#[test]
fn a_file_that_changes_is_an_error() {
    use std::io::Write;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("growing.txt");
    std::fs::write(&path, "one\ntwo\nthree\n").unwrap();
    let mut reader = Reader::new(vec![InputFile::from_path(&path, Format::Lines, Compression::None)], 4);
    reader.next_batch(Batch::default(), &mut |_| Ok(())).unwrap().expect("the first line");
    std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"four\n").unwrap();
    let error = loop {
        match reader.next_batch(Batch::default(), &mut |_| Ok(())) {
            Ok(batch) => assert!(batch.is_some(), "the change was not noticed"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("growing.txt: changed while being read\nhint: "), "{error}");
}

#[test]
fn reports_say_what_was_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.txt");
    std::fs::write(&path, "\u{feff}a\nb").unwrap();
    let packed = crate::input_common::gzip(b"{}\n\n{}\n");
    let files = vec![
        InputFile::from_path(&path, Format::Lines, Compression::None),
        in_memory(&packed, Format::Jsonl, Compression::Gzip),
        in_memory(b"", Format::Text, Compression::None),
    ];
    let (_, reports) = read_all(files, 1 << 16).unwrap();
    let summary: Vec<_> = reports.iter().map(|r| (r.bytes, r.decompressed_bytes, r.documents)).collect();
    assert_eq!(summary, [(6, 6, 2), (packed.len() as u64, 7, 2), (0, 0, 1)]);
    assert_eq!(reports[0].blake3, blake3::hash(&std::fs::read(&path).unwrap()).to_hex().as_str());
    assert_eq!(reports[1].blake3, blake3::hash(&packed).to_hex().as_str());
    assert_eq!(reports[0].name, path.display().to_string());
    let json = serde_json::to_value(&reports[1]).unwrap();
    assert_eq!((&json["format"], &json["compression"]), (&"jsonl".into(), &"gzip".into()));
}

#[test]
fn batches_count_the_stored_bytes() {
    let bytes = b"line\n".repeat(1000);
    let mut reader = Reader::new(vec![in_memory(&bytes, Format::Lines, Compression::None)], 512);
    let (mut sum, mut recycled) = (0, Batch::default());
    while let Some(batch) = reader.next_batch(recycled, &mut |_| Ok(())).unwrap() {
        sum += batch.stored;
        recycled = batch;
    }
    assert_eq!((sum, reader.stored()), (5000, 5000));
}

#[test]
fn no_files_no_records() {
    assert!(read_all(Vec::new(), 1).unwrap().0.is_empty());
}

/// A reader that returns few bytes per read, in random numbers, and is interrupted now and then.
struct Fitful {
    bytes: io::Cursor<Vec<u8>>,
    counts: Vec<usize>,
    turn: usize,
}

impl Read for Fitful {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.turn += 1;
        let count = self.counts[self.turn % self.counts.len()];
        if count == 0 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let n = count.min(buf.len());
        self.bytes.read(&mut buf[..n])
    }
}

/// A slow and readable implementation.
fn naive(file: u32, bytes: &[u8], format: Format) -> Vec<crate::input_common::Owned> {
    let (mark, body) = bytes.strip_prefix(b"\xef\xbb\xbf").map_or((0, bytes), |body| (3, body));
    if format == Format::Text {
        return vec![(file, 1, mark, body.to_vec())];
    }
    let mut lines: Vec<&[u8]> = body.split(|&byte| byte == b'\n').collect();
    let last = lines.pop().unwrap();
    let mut records = Vec::new();
    let mut offset = mark;
    let count = lines.len();
    lines.extend((!last.is_empty()).then_some(last));
    for (i, line) in lines.iter().enumerate() {
        let cut = if i < count { line.strip_suffix(b"\r").unwrap_or(line) } else { line };
        let blank = line.iter().all(|byte| b" \t\r".contains(byte));
        match format {
            Format::Lines => records.push((file, i as u64 + 1, offset, cut.to_vec())),
            _ if blank => {}
            _ => records.push((file, i as u64 + 1, offset, line.to_vec())),
        }
        offset += line.len() as u64 + 1;
    }
    records
}

fn some_bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(b"\n".to_vec()),
        2 => Just(b"\r\n".to_vec()),
        1 => Just(b"\r".to_vec()),
        1 => Just(b" \t".to_vec()),
        1 => Just(b"\xef\xbb\xbf".to_vec()),
        1 => Just(b"\xef\xbb".to_vec()),
        3 => prop::collection::vec(any::<u8>(), 0..12),
        1 => (0_usize..400).prop_map(|n| vec![b'x'; n]),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn some_format() -> impl Strategy<Value = Format> {
    prop_oneof![Just(Format::Text), Just(Format::Lines), Just(Format::Jsonl)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(windrow_testkit::cases(150)))]

    #[test]
    fn records_depend_neither_on_batches_nor_on_reads(
        files in prop::collection::vec((some_bytes(), some_format()), 0..5),
        batch_bytes in 1_usize..600,
        counts in prop::collection::vec(0_usize..40, 1..20),
    ) {
        prop_assume!(counts.iter().any(|&count| count > 0));
        let expected: Vec<_> =
            files.iter().enumerate().flat_map(|(i, (bytes, format))| naive(i as u32, bytes, *format)).collect();
        let inputs = files
            .iter()
            .map(|(bytes, format)| {
                let fitful = Fitful { bytes: io::Cursor::new(bytes.clone()), counts: counts.clone(), turn: 0 };
                InputFile::from_reader("fitful", fitful, *format, Some(Compression::None))
            })
            .collect();
        let (records, reports) = read_all(inputs, batch_bytes).unwrap();
        prop_assert_eq!(&records, &expected);
        prop_assert_eq!(reports.len(), files.len());
        prop_assert_eq!(reports.iter().map(|report| report.documents).sum::<u64>(), records.len() as u64);
        for (report, (bytes, _)) in reports.iter().zip(&files) {
            prop_assert_eq!(report.bytes, bytes.len() as u64);
            prop_assert_eq!(report.decompressed_bytes, bytes.len() as u64);
            prop_assert_eq!(&report.blake3, &blake3::hash(bytes).to_hex().to_string());
        }
    }
}
