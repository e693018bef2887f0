//! Packed outputs: rows of equally many ids, and where the documents are in them. The reference packs all documents in memory.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use windrow_tokenizers::dataset::Dataset;
use windrow_tokenizers::encode::Job;
use windrow_tokenizers::manifest::{OnError, Pack, PackMode, Packed, PartShare};
use windrow_tokenizers::output::{Dtype, Format, Output, OutputErrorKind, OutputOptions};

use crate::encode_account::{Corpus, corpus, run_to};
use crate::encode_select::{documents, hash};
use crate::encode_split::{EOS, contents, divisible, read};
use crate::output_columns;
use crate::output_formats::read_webdataset;

const PAD: u32 = 257;

/// Rows, and for each its segments: the number of the document, or -1, and its ids there.
type Rows = Vec<Vec<(i64, Vec<u32>)>>;

fn length(row: &[(i64, Vec<u32>)]) -> usize {
    row.iter().map(|(_, ids)| ids.len()).sum()
}

/// What a naive run makes of the documents. There are never as many incomplete rows as the window holds.
fn packed(documents: &[Vec<u32>], row: usize, mode: PackMode, pads: bool) -> (Rows, Packed) {
    let (mut rows, mut open): (Rows, Rows) = Default::default();
    for (number, ids) in documents.iter().enumerate() {
        if mode == PackMode::Split {
            // Id by id.
            for &id in ids {
                if open.is_empty() {
                    open.push(Vec::new());
                }
                match open[0].last_mut() {
                    Some((last, ids)) if *last == number as i64 => ids.push(id),
                    _ => open[0].push((number as i64, vec![id])),
                }
                if length(&open[0]) == row {
                    rows.append(&mut open);
                }
            }
            continue;
        }
        for piece in ids.chunks(row) {
            let mut best: Option<usize> = None;
            for (index, other) in open.iter().enumerate() {
                let fits = row - length(other) >= piece.len();
                if fits && best.is_none_or(|best| length(other) > length(&open[best])) {
                    best = Some(index);
                }
            }
            let index = best.unwrap_or_else(|| {
                open.push(Vec::new());
                open.len() - 1
            });
            open[index].push((number as i64, piece.to_vec()));
            if length(&open[index]) == row {
                rows.push(open.remove(index));
            }
        }
    }
    let mut counts = Packed::default();
    for mut last in open {
        let missing = row - length(&last);
        if pads {
            last.push((-1, vec![PAD; missing]));
            counts.padding += missing as u64;
            rows.push(last);
        } else {
            counts.dropped += length(&last) as u64;
        }
    }
    counts.rows = rows.len() as u64;
    (rows, counts)
}

fn numbers<const N: usize>(bytes: &[u8], from: fn([u8; N]) -> i64) -> Vec<i64> {
    bytes.as_chunks::<N>().0.iter().map(|number| from(*number)).collect()
}

/// The ids of all rows, one after the other, as the format's own layout has them.
fn flat(directory: &Path, format: Format, stem: &str, options: &OutputOptions) -> Vec<i64> {
    let read = |suffix: &str| fs::read(directory.join(format!("{stem}{suffix}"))).unwrap();
    let two = |bytes: &[u8]| numbers(bytes, |number: [u8; 2]| u16::from_le_bytes(number).into());
    match format {
        Format::Npy => two(&read(".ids.npy")[128..]),
        Format::Nanogpt | Format::Megatron => two(&read(".bin")),
        Format::Datatrove => two(&read(".ds")),
        Format::Jsonl => {
            let text = String::from_utf8(read(".jsonl")).unwrap();
            let ids = |line| serde_json::from_str::<BTreeMap<String, Vec<i64>>>(line).unwrap().remove("ids").unwrap();
            text.lines().flat_map(ids).collect()
        }
        Format::Arrow | Format::ArrowStream | Format::Parquet => {
            let options = OutputOptions { prefix: directory.join(stem), ..options.clone() };
            output_columns::read(&options).0.concat().into_iter().map(i64::from).collect()
        }
        Format::Webdataset => read_webdataset(&read(".tar"), Dtype::U16).concat().into_iter().map(i64::from).collect(),
        Format::Mds => unreachable!("it has no rows"),
    }
}

/// The rows of a part, by the two files of segments. An npy file has the shape of the rows.
fn rows_of(directory: &Path, format: Format, stem: &str, row: usize, options: &OutputOptions) -> Rows {
    let read = |suffix: &str| fs::read(directory.join(format!("{stem}{suffix}"))).unwrap();
    let ids = flat(directory, format, stem, options);
    if format == Format::Npy {
        let header = String::from_utf8_lossy(&read(".ids.npy")[10..128]).into_owned();
        assert!(header.contains(&format!("'shape': ({}, {row})", ids.len() / row)), "{header}");
    }
    let ends = numbers(&read(".cu_seqlens.npy")[128..], |end: [u8; 8]| u64::from_le_bytes(end) as i64);
    let documents = numbers(&read(".docs.npy")[128..], i64::from_le_bytes);
    assert_eq!((ends[0], ends.len(), *ends.last().unwrap()), (0, documents.len() + 1, ids.len() as i64));
    let mut rows = vec![Vec::new(); ids.len() / row];
    for (ends, &document) in ends.windows(2).zip(&documents) {
        let [begin, end] = [ends[0] as usize, ends[1] as usize];
        assert_eq!(begin / row, (end - 1) / row, "a segment is in one row");
        rows[begin / row].push((document, ids[begin..end].iter().map(|&id| id as u32).collect()));
    }
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(windrow_testkit::cases(8)))]

    #[test]
    fn rows_are_those_of_the_documents(
        corpora in vec(corpus(), 1..4),
        format in select(divisible()),
        machines in [(1..5_usize, select(vec![1_usize, 50, 1 << 16]), select(vec![1_usize, 100_000, 1 << 30])),
            (1..5_usize, select(vec![1_usize, 50, 1 << 16]), select(vec![1_usize, 100_000, 1 << 30]))],
        shard_bytes in select(vec![None, None, Some(1_u64), Some(500)]),
        row in select(vec![1_usize, 2, 7, 16, 40, 300]),
        mode in select(PackMode::ALL.to_vec()),
        pads in any::<bool>(),
        is_divided in any::<bool>(),
        keeps in any::<bool>(),
        bos in option::of(Just(258_u32)),
    ) {
        let pads = pads || mode == PackMode::Whole;
        let keeps = keeps && shard_bytes.is_none() && !format.has_columns();
        let names: &[&str] = if is_divided { &["a", "b"] } else { &[] };
        let half = |name: &&str| PartShare { name: (*name).to_owned(), share: "50%".parse().unwrap() };
        let mut good = vec![Vec::new(); names.len().max(1)];
        for document in documents(&corpora) {
            let is_second = is_divided && hash(0, 0x53_504c_4954, document.file, document.number) >> 63 == 1;
            let Ok(text) = document.text else { continue };
            let ids = bos.into_iter().chain(text.bytes().map(u32::from)).chain([EOS]);
            good[usize::from(is_second)].push(ids.collect::<Vec<u32>>());
        }
        if good.iter().all(Vec::is_empty) {
            return Ok(());
        }
        let expected: Vec<(Rows, Packed)> = good.iter().map(|part| packed(part, row, mode, pads)).collect();

        let mut before = None;
        for (threads, chunk_bytes, memory) in machines {
            let mut job = Job { threads, chunk_bytes, memory, ..Job::new(Vec::new()) };
            job.reading.on_error = OnError::Skip;
            job.reading.selection.split = names.iter().map(half).collect();
            job.reading.keep = if keeps { vec!["id".to_owned()] } else { Vec::new() };
            let directory = tempfile::tempdir().unwrap();
            let options = OutputOptions {
                format,
                append_eos: Some(EOS),
                prepend_bos: bos,
                keep: job.reading.keep.clone(),
                list_skipped: true,
                shard_bytes,
                parts: names.iter().map(|&name| name.to_owned()).collect(),
                pack: Some(Pack { length: NonZeroUsize::new(row).unwrap(), mode, pad: pads.then_some(PAD) }),
                ..OutputOptions::new(directory.path().join("out"), 259)
            };
            let summary = run_to(&options, &corpora, job).unwrap();
            prop_assert!(summary.documents.is_balanced());
            prop_assert_eq!(summary.documents.written as usize, good.concat().len());
            let dataset = Dataset::open(&options.prefix).unwrap();
            prop_assert_eq!(dataset.verify().faults, vec![]);
            let counts = |sum: fn(&Packed) -> u64| expected.iter().map(|(_, counts)| sum(counts)).sum::<u64>();
            let all = Packed {
                rows: counts(|one| one.rows),
                padding: counts(|one| one.padding),
                dropped: counts(|one| one.dropped),
            };
            prop_assert_eq!(dataset.manifest().packed, Some(all));
            let tokens = good.concat().concat().len() as u64;
            prop_assert_eq!((summary.tokens, dataset.manifest().tokens), (tokens - all.dropped, tokens - all.dropped));
            prop_assert_eq!(dataset.statistics().unwrap().documents, all.rows);
            for (number, (rows, counts)) in expected.iter().enumerate() {
                let stem = names.get(number).map_or_else(|| "out".to_owned(), |name| format!("out.{name}"));
                if shard_bytes.is_none() {
                    let found = rows_of(directory.path(), format, &stem, row, &options);
                    prop_assert_eq!(&found, rows);
                }
                if is_divided {
                    prop_assert_eq!(dataset.manifest().parts[number].packed, Some(*counts));
                }
                // Documents come back from their pieces, but for what was dropped at the end.
                let part = if is_divided { dataset.part(names[number]).unwrap() } else { dataset.clone() };
                let found = read(&part);
                prop_assert_eq!(found.len(), good[number].len());
                let (found, written) = (found.concat(), good[number].concat());
                prop_assert_eq!(found.as_slice(), &written[..written.len() - counts.dropped as usize]);
            }
            let files = contents(directory.path());
            prop_assert_eq!(files.len(), dataset.manifest().outputs.len() + 1);
            if let Some(before) = &before {
                prop_assert_eq!(before, &files);
            }
            before = Some(files);
        }
    }
}

#[test]
fn what_cannot_be_packed_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let check = |change: &dyn Fn(&mut OutputOptions), says: &str| {
        let pack = Pack { length: NonZeroUsize::MIN, mode: PackMode::Split, pad: None };
        let mut options = OutputOptions { pack: Some(pack), ..OutputOptions::new(directory.path().join("out"), 256) };
        change(&mut options);
        let error = Output::create(&options).unwrap_err();
        assert_eq!(error.kind(), OutputErrorKind::Usage);
        assert!(error.to_string().contains(says) && error.to_string().contains("hint: "), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    };
    let whole = |options: &mut OutputOptions| options.pack.as_mut().unwrap().mode = PackMode::Whole;
    check(&whole, "rows of whole documents need a padding id");
    let resumes = |options: &mut OutputOptions| (options.resume, options.shard_bytes) = (true, Some(1));
    check(&resumes, "a packed output cannot be resumed");
    let keeps = |options: &mut OutputOptions| (options.keep, options.format) = (vec!["id".into()], Format::Arrow);
    check(&keeps, "fields cannot be kept");
    check(&|options| options.format = Format::Mds, "the mds format cannot be packed");
    let wide = |options: &mut OutputOptions| {
        options.pack.as_mut().unwrap().pad = Some(70_000);
        options.format = Format::Megatron;
        options.dtype = Some(windrow_tokenizers::output::Dtype::U16);
    };
    check(&wide, "ids up to 70000 do not fit in u16");
}

#[test]
fn damaged_segments_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("out");
    let lines = Corpus { format: windrow_tokenizers::input::Format::Lines, bytes: b"one\ntwo\nthree\n".to_vec() };
    let pack = Some(Pack { length: NonZeroUsize::new(5).unwrap(), mode: PackMode::Whole, pad: Some(7) });
    let options = OutputOptions { pack, ..OutputOptions::new(&prefix, 256) };
    run_to(&options, &[lines], Job::new(Vec::new())).unwrap();
    // Rows: three; one and padding; two and padding.
    let check = |file: &str, at: usize, value: u8, says: &str| {
        let path = directory.path().join(file);
        let whole = fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        bytes[at] = value;
        fs::write(&path, bytes).unwrap();
        let faults: Vec<String> =
            Dataset::open(&prefix).unwrap().verify().faults.iter().map(ToString::to_string).collect();
        assert!(faults.iter().any(|fault| fault.contains(says)), "lacks {says}: {faults:?}");
        fs::write(&path, whole).unwrap();
    };
    assert_eq!(Dataset::open(&prefix).unwrap().verify().faults, vec![]);
    check("out.cu_seqlens.npy", 128, 1, "end 0 is 1, not 0");
    check("out.cu_seqlens.npy", 128 + 8, 0, "end 1: 0 is not greater than the previous end, 0");
    check("out.cu_seqlens.npy", 128 + 8, 6, "end 1: 6 is beyond the end of its row, 5");
    check("out.docs.npy", 128, 3, "segment 0 belongs to document 3, but the number of documents is 3");
    check("out.ids.npy", 128 + 2 * 8, 8, "segment 2 is marked as padding but contains other ids");
    check("out.cu_seqlens.npy", 60, b'9', "the header does not match the expected format");
}
