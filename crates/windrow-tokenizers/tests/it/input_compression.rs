//! Compressed inputs: complete ones read as their plain bytes, all others give errors with a place.

use std::io::Write;

use crate::input_common::{bzip2, gzip, in_memory, read_all, records_of, xz, zstd};
use proptest::prelude::*;
use windrow_tokenizers::input::{Batch, Compression, ErrorClass, Format, InputError, InputFile, Reader};

type Compress = fn(&[u8]) -> Vec<u8>;

const CODECS: [(Compression, Compress); 4] =
    [(Compression::Gzip, gzip), (Compression::Zstd, zstd), (Compression::Xz, xz), (Compression::Bzip2, bzip2)];

fn read(bytes: &[u8], compression: Compression) -> Result<Vec<crate::input_common::Owned>, InputError> {
    Ok(read_all(vec![in_memory(bytes, Format::Lines, compression)], 1 << 12)?.0)
}

/// The error message and the offset in it; reading must fail.
fn failure(bytes: &[u8], compression: Compression) -> (String, u64) {
    let error = read(bytes, compression).expect_err("damaged data must not read as whole");
    assert_eq!(error.class(), ErrorClass::Data);
    let InputError::Compressed { offset, .. } = error else { panic!("{error}") };
    let message = error.to_string();
    assert!(message.starts_with("memory: ") && message.contains("\nhint: "), "{message}");
    assert!(message.contains(&format!("at byte {offset} of the compressed file")), "{message}");
    (message, offset)
}

/// Lines that do not compress well, so that streams have several blocks.
fn noisy_lines(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u64;
    let mut lines = Vec::with_capacity(bytes + 40);
    while lines.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        lines.extend(format!("{state:x} {:x}\n", state >> 7).bytes());
    }
    lines
}

#[test]
fn whole_streams_read_as_their_plain_bytes() {
    let plain = noisy_lines(700_000);
    for (compression, compress) in CODECS {
        assert_eq!(read(&compress(&plain), compression).unwrap(), records_of(&plain, Format::Lines));
        assert!(read(&compress(b""), compression).unwrap().is_empty());
    }
}

#[test]
fn every_cut_is_noticed() {
    for (compression, compress) in CODECS {
        let two_parts = [compress(b"one\ntwo\n"), compress(b"three\n")].concat();
        let first = compress(b"one\ntwo\n").len();
        for cut in (0..two_parts.len()).filter(|&cut| cut != first) {
            let (message, offset) = failure(&two_parts[..cut], compression);
            assert!(offset <= cut as u64, "{message}");
        }
        let (message, offset) = failure(&two_parts[..two_parts.len() - 1], compression);
        assert!(message.contains("ends too early"), "{message}");
        assert_eq!(offset, two_parts.len() as u64 - 1);
    }
}

#[test]
fn a_late_cut_in_a_large_stream_is_noticed() {
    for (compression, compress) in CODECS {
        let packed = compress(&noisy_lines(3_000_000));
        let (message, offset) = failure(&packed[..packed.len() - 7], compression);
        assert!(message.contains("ends too early"), "{message}");
        assert!(offset + 300_000 > packed.len() as u64 && offset < packed.len() as u64, "{message}");
    }
}

#[test]
fn any_changed_byte_of_the_data_is_noticed() {
    for (compression, compress) in CODECS {
        let packed = compress(b"some line\nand another one\n");
        // The gzip header has fields (time, system) without a checksum.
        let header = if compression == Compression::Gzip { 10 } else { 0 };
        for at in header..packed.len() {
            let mut damaged = packed.clone();
            damaged[at] ^= 0x10;
            if let Ok(records) = read(&damaged, compression) {
                // A flipped flag may not concern the data.
                assert_eq!(records, records_of(b"some line\nand another one\n", Format::Lines), "byte {at}");
            }
        }
    }
}

#[test]
fn a_wrong_checksum_is_named() {
    let mut packed = gzip(b"text\n");
    let at = packed.len() - 8;
    packed[at] ^= 1;
    let (message, offset) = failure(&packed, Compression::Gzip);
    assert!(message.contains("checksum"), "{message}");
    assert_eq!(offset, packed.len() as u64);

    let mut packed = zstd(b"text\n");
    *packed.last_mut().unwrap() ^= 1;
    let (message, _) = failure(&packed, Compression::Zstd);
    assert!(message.contains("checksum"), "{message}");
}

#[test]
fn damage_is_placed_near_where_it_is() {
    for (compression, compress) in CODECS {
        let mut packed = compress(&noisy_lines(3_000_000));
        let at = packed.len() / 2;
        // Long enough to hit the header of a zstd block, which cannot have all bits set.
        packed[at..at + 200_000].fill(0xff);
        let (message, offset) = failure(&packed, compression);
        assert!(message.contains("corrupt"), "{message}");
        // Damaged deflate data may still decode; then only the checksum at its end reveals it.
        let latest = if compression == Compression::Gzip { packed.len() } else { at + 256 * 1024 };
        assert!((at as u64 - 256 * 1024..=latest as u64).contains(&offset), "damaged at {at}: {message}");
    }
}

#[test]
fn bytes_after_the_last_part_are_an_error() {
    for (compression, compress) in CODECS {
        let whole = compress(b"text\n");
        for garbage in [&b"\0"[..], b"\0\0\0\0\0\0\0\0", b"text", b"\n"] {
            if compression == Compression::Xz && garbage.len() == 8 {
                // Padding, as the format has it.
                assert_eq!(read(&[&whole, garbage, &whole].concat(), compression).unwrap().len(), 2);
                continue;
            }
            let (message, offset) = failure(&[&whole, garbage].concat(), compression);
            assert!(message.contains("data is followed by other data"), "{message}");
            assert_eq!(offset, whole.len() as u64);
        }
    }
}

#[test]
fn a_misnamed_file_is_reported() {
    for (compression, compress) in CODECS {
        let other = CODECS.into_iter().find(|(other, _)| *other != compression).unwrap().1;
        for bytes in [b"plain text\n".to_vec(), b"x".to_vec(), other(b"text\n")] {
            let (message, offset) = failure(&bytes, compression);
            assert!(message.contains(": at byte 0 of") && message.contains(" data"), "{message}");
            assert_eq!(offset, 0);
        }
        let (message, _) = failure(&compress(b"x")[..0], compression);
        assert!(message.contains("found the end of the file"), "{message}");
    }
}

#[test]
fn a_zstd_window_beyond_128_mib_is_refused_with_the_remedy() {
    // Frame header: no single segment, no checksum, window descriptor for 2^31 bytes; then an empty last block.
    let wide = [0x28, 0xb5, 0x2f, 0xfd, 0x00, (31 - 10) << 3, 0x01, 0x00, 0x00];
    let (message, _) = failure(&wide, Compression::Zstd);
    assert!(message.contains("zstd -dc --long=31 FILE | windrow encode -"), "{message}");
    let narrow = [0x28, 0xb5, 0x2f, 0xfd, 0x00, (27 - 10) << 3, 0x01, 0x00, 0x00];
    assert!(read(&narrow, Compression::Zstd).unwrap().is_empty());
}

#[test]
fn an_xz_window_beyond_128_mib_is_refused_with_the_remedy() {
    let packed = |window: u32| {
        let mut options = liblzma::stream::LzmaOptions::new_preset(0).unwrap();
        let mut filters = liblzma::stream::Filters::new();
        filters.lzma2(options.dict_size(window));
        let stream = liblzma::stream::Stream::new_stream_encoder(&filters, liblzma::stream::Check::Crc32).unwrap();
        let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
        encoder.write_all(b"text\n").unwrap();
        encoder.finish().unwrap()
    };
    let (message, _) = failure(&packed(192 << 20), Compression::Xz);
    assert!(message.contains("xz -dc FILE | windrow encode -"), "{message}");
    assert_eq!(read(&packed(128 << 20), Compression::Xz).unwrap(), records_of(b"text\n", Format::Lines));
}

#[test]
fn a_zstd_frame_has_the_length_that_it_declares() {
    // One segment of 5 bytes; a block of 4 bytes; an empty last block, after which the library does not compare lengths.
    let wrong = [&[0x28, 0xb5, 0x2f, 0xfd, 0x20, 5, 4 << 3, 0, 0][..], b"text", &[1, 0, 0]].concat();
    let (message, offset) = failure(&wrong, Compression::Zstd);
    assert!(message.contains("a frame that declares 5 bytes has 4"), "{message}");
    assert_eq!(offset, wrong.len() as u64);
    let mut right = wrong.clone();
    right[5] = 4;
    let two = [&right[..], &zstd(b"a\n")].concat();
    assert_eq!(read(&two, Compression::Zstd).unwrap(), records_of(b"texta\n", Format::Lines));
    failure(&[&right[..], &wrong].concat(), Compression::Zstd);
}

#[test]
fn skippable_zstd_frames_are_skipped() {
    let skippable = [&[0x5a, 0x2a, 0x4d, 0x18, 5, 0, 0, 0][..], b"notes"].concat();
    let packed = [&skippable[..], &zstd(b"a\n"), &skippable, &zstd(b"b\n")].concat();
    assert_eq!(read(&packed, Compression::Zstd).unwrap(), records_of(b"a\nb\n", Format::Lines));
    failure(&packed[..skippable.len() - 2], Compression::Zstd);
}

#[test]
fn gzip_headers_may_have_names_and_comments() {
    use std::io::Write;
    let mut encoder = flate2::GzBuilder::new()
        .filename("corpus.txt")
        .comment("a comment")
        .extra(vec![7; 300])
        .write(Vec::new(), flate2::Compression::fast());
    encoder.write_all(b"a\nb\n").unwrap();
    let packed = encoder.finish().unwrap();
    assert_eq!(read(&packed, Compression::Gzip).unwrap(), records_of(b"a\nb\n", Format::Lines));
    failure(&packed[..200], Compression::Gzip);
}

#[test]
fn the_compression_of_streams_is_detected() {
    let plain = b"a\nb\n";
    for bytes in [plain.to_vec(), gzip(plain), zstd(plain), xz(plain), bzip2(plain), bzip2(b"")] {
        let plain = if bytes.starts_with(b"BZh1\x17") { b"" } else { &plain[..] };
        let file = InputFile::from_reader("-", std::io::Cursor::new(bytes), Format::Lines, None);
        assert_eq!(read_all(vec![file], 1 << 12).unwrap().0, records_of(plain, Format::Lines));
    }
    for short in [&b""[..], b"\x1f", b"\x28\xb5\x2f", b"\xfd7zXZ", b"BZh91AY&S", b"BZh9 is text"] {
        let file = InputFile::from_reader("-", short, Format::Text, None);
        assert_eq!(read_all(vec![file], 1 << 12).unwrap().0, records_of(short, Format::Text));
    }
}

#[test]
fn a_byte_order_mark_inside_the_compressed_data_is_dropped() {
    for (compression, compress) in CODECS {
        let parts = [compress(b"\xef"), compress(b""), compress(b"\xbb\xbfa\n")].concat();
        assert_eq!(read(&parts, compression).unwrap(), records_of(b"\xef\xbb\xbfa\n", Format::Lines));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(windrow_testkit::cases(20)))]

    #[test]
    fn cuts_into_members_and_frames_change_nothing(
        lines in prop::collection::vec("[ab\r]{0,9}", 0..200),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        batch_bytes in 1_usize..400,
        format in prop_oneof![Just(Format::Text), Just(Format::Lines), Just(Format::Jsonl)],
    ) {
        let plain = lines.join("\n").into_bytes();
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(plain.len() + 1)).collect();
        cuts.extend([0, plain.len()]);
        cuts.sort_unstable();
        for (compression, compress) in CODECS {
            let packed: Vec<u8> = cuts.windows(2).flat_map(|cut| compress(&plain[cut[0]..cut[1]])).collect();
            let (records, reports) = read_all(vec![in_memory(&packed, format, compression)], batch_bytes).unwrap();
            prop_assert_eq!(&records, &records_of(&plain, format));
            prop_assert_eq!(reports[0].bytes, packed.len() as u64);
            prop_assert_eq!(reports[0].decompressed_bytes, plain.len() as u64);
        }
    }
}

/// The first error, a bad line or the damage after it, must not depend on how records are batched.
#[test]
fn complete_records_go_ahead_of_the_damage() {
    let lines = "{\"text\": \"a\"}\nnot json\n".repeat(3000);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    encoder.write_all(lines.as_bytes()).unwrap();
    let whole = encoder.finish().unwrap();
    for batch_bytes in [1 << 10, 64 << 10, 16 << 20] {
        let cut = std::io::Cursor::new(whole[..whole.len() - 9].to_vec());
        let file = InputFile::from_reader("cut.jsonl.gz", cut, Format::Jsonl, Some(Compression::Gzip));
        let mut reader = Reader::new(vec![file], batch_bytes);
        let mut records = 0;
        let error = loop {
            match reader.next_batch(Batch::default(), &mut |_| Ok(())) {
                Ok(Some(batch)) => records += batch.records.len(),
                Ok(None) => panic!("the damage was not noticed"),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("ends too early"), "{error}");
        assert!(records >= 5900, "{records} of 6000 records with batches of {batch_bytes}");
    }
}
