//! Divided outputs: each document is in its part, in order, in every format. The reference divides all documents in memory.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU64;
use std::path::Path;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use windrow_tokenizers::dataset::Dataset;
use windrow_tokenizers::encode::Job;
use windrow_tokenizers::manifest::{OnError, PartShare, Selection};
use windrow_tokenizers::output::{Format, OutputErrorKind, OutputOptions};

use crate::encode_account::{corpus, run_to};
use crate::encode_select::{documents, hash};

/// The end of every document; no text has it.
pub(crate) const EOS: u32 = 256;

/// The files in a directory and in its folders.
pub(crate) fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            files.extend(contents(&path).into_iter().map(|(file, bytes)| (format!("{name}/{file}"), bytes)));
        } else {
            files.insert(name.to_owned(), fs::read(&path).unwrap());
        }
    }
    files
}

/// The formats whose output can be divided, or become rows.
pub(crate) fn divisible() -> Vec<Format> {
    Format::ALL.into_iter().filter(|&format| format != Format::Mds).collect()
}

/// All documents of a data set or a part.
pub(crate) fn read(dataset: &Dataset) -> Vec<Vec<u32>> {
    (0..).map_while(|number| dataset.document(number).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(windrow_testkit::cases(8)))]

    #[test]
    fn parts_have_their_documents_in_order(
        corpora in vec(corpus(), 1..5),
        format in select(divisible()),
        machines in [(1..5_usize, select(vec![1_usize, 50, 1 << 16]), select(vec![1_usize, 100_000, 1 << 30])),
            (1..5_usize, select(vec![1_usize, 50, 1 << 16]), select(vec![1_usize, 100_000, 1 << 30]))],
        shard_bytes in select(vec![None, Some(1_u64), Some(500)]),
        shares in select(vec![vec![500_u64, 500], vec![900, 90, 10], vec![1000], vec![0, 1000]]),
        seed in 0..1000_u64,
        limit in option::weighted(0.3, 1..40_u64),
    ) {
        let name = |number: usize| format!("part_{number}");
        let split = shares.iter().enumerate().map(|(number, share)| PartShare {
            name: name(number),
            share: format!("{}.{}%", share / 10, share % 10).parse().unwrap(),
        });
        let split: Vec<_> = split.collect();
        let selection = Selection {
            limit: limit.and_then(NonZeroU64::new),
            split: split.clone(),
            seed: Some(seed),
            ..Selection::default()
        };
        // The reference: thousandths, exactly.
        let mut expected = vec![Vec::new(); shares.len()];
        let good = documents(&corpora).into_iter().filter(|document| document.text.is_ok());
        for document in good.take(limit.map_or(usize::MAX, |limit| limit as usize)) {
            let point = (u128::from(hash(seed, 0x53_504c_4954, document.file, document.number)) * 1_000_000_000) >> 64;
            let ends = shares.iter().scan(0, |end, share| { *end += share * 1_000_000; Some(*end) });
            let part = ends.take_while(|&end| point >= u128::from(end)).count();
            let text = document.text.unwrap();
            expected[part].push(text.bytes().map(u32::from).chain([EOS]).collect::<Vec<u32>>());
        }
        if expected.iter().all(Vec::is_empty) {
            // A run in which every document is bad fails.
            return Ok(());
        }

        let mut before = None;
        for (threads, chunk_bytes, memory) in machines {
            let mut job = Job { threads, chunk_bytes, memory, ..Job::new(Vec::new()) };
            job.reading.on_error = OnError::Skip;
            job.reading.selection = selection.clone();
            job.reading.keep = vec!["id".to_owned()];
            let directory = tempfile::tempdir().unwrap();
            let prefix = directory.path().join("out");
            let options = OutputOptions {
                format,
                append_eos: Some(EOS),
                keep: job.reading.keep.clone(),
                list_skipped: true,
                shard_bytes,
                parts: split.iter().map(|part| part.name.clone()).collect(),
                ..OutputOptions::new(&prefix, 257)
            };
            let summary = run_to(&options, &corpora, job).unwrap();
            let counts: Vec<u64> = expected.iter().map(|part| part.len() as u64).collect();
            prop_assert!(summary.documents.is_balanced());
            prop_assert_eq!(summary.documents.written, counts.iter().sum::<u64>());
            let tokens: Vec<u64> = expected.iter().map(|part| part.concat().len() as u64).collect();
            prop_assert_eq!(summary.tokens, tokens.iter().sum::<u64>());

            let dataset = Dataset::open(&prefix).unwrap();
            prop_assert_eq!(dataset.verify().faults, vec![]);
            prop_assert_eq!(read(&dataset), expected.concat());
            let listed = dataset.manifest().parts.iter().map(|part| (part.documents, part.tokens));
            prop_assert_eq!(listed.collect::<Vec<_>>(), counts.iter().copied().zip(tokens).collect::<Vec<_>>());
            for (number, documents) in expected.iter().enumerate() {
                let part = dataset.part(&name(number)).unwrap();
                prop_assert_eq!(part.documents(), documents.len() as u64);
                prop_assert_eq!(&read(&part), documents);
                prop_assert_eq!(part.statistics().unwrap().documents, documents.len() as u64);
                // One line of kept fields for each document.
                let stem = format!("out.{}", name(number));
                let files = contents(directory.path());
                let kept = files.iter().filter(|(name, _)| name.starts_with(&stem) && name.ends_with(".kept.jsonl"));
                let lines = kept.flat_map(|(_, bytes)| bytes.split_inclusive(|&byte| byte == b'\n')).count();
                prop_assert_eq!(lines, if format.has_columns() { 0 } else { documents.len() });
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
fn parts_that_no_output_can_have_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let check = |parts: &[&str], resume: bool, says: &str| {
        let parts = parts.iter().map(|&part| part.to_owned()).collect();
        let shard_bytes = Some(1);
        let prefix = directory.path().join("out");
        let options = OutputOptions { parts, resume, shard_bytes, ..OutputOptions::new(prefix, 256) };
        let error = windrow_tokenizers::output::Output::create(&options).unwrap_err();
        assert_eq!(error.kind(), OutputErrorKind::Usage);
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    };
    for name in ["", "a/b", "..", "a.b", "a-1", "\u{e9}", "Skipped", "kept", "ids"] {
        check(&[name], false, "a part cannot have the name");
    }
    check(&["val", "train", "VAL"], false, "two parts have the name \"VAL\"");
    check(&["train", "val"], true, "an output that is divided into parts cannot be resumed");
    let parts = vec!["train".to_owned()];
    let options = OutputOptions { format: Format::Mds, parts, ..OutputOptions::new(directory.path().join("out"), 256) };
    let error = windrow_tokenizers::output::Output::create(&options).unwrap_err();
    assert_eq!(error.kind(), OutputErrorKind::Usage);
    assert!(error.to_string().starts_with("output in the mds format cannot be divided into parts: "), "{error}");
    assert!(error.to_string().contains("\nhint: omit --split"), "{error}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn an_older_output_with_other_parts_stays_and_damage_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("out");
    let part = |name: &str, share: &str| PartShare { name: name.to_owned(), share: share.parse().unwrap() };
    let lines = crate::encode_account::Corpus {
        format: windrow_tokenizers::input::Format::Lines,
        bytes: b"one\ntwo\nthree\nfour\nfive\nsix\nseven\n".to_vec(),
    };
    let encode = |split: Vec<PartShare>| {
        let parts = split.iter().map(|part| part.name.clone()).collect();
        let options = OutputOptions { parts, overwrite: true, ..OutputOptions::new(&prefix, 256) };
        let mut job = Job::new(Vec::new());
        job.reading.selection.split = split;
        run_to(&options, std::slice::from_ref(&lines), job).unwrap()
    };
    encode(vec![part("train", "0.6"), part("val", "0.4")]);
    let before = contents(directory.path());
    encode(vec![part("train", "0.6"), part("test", "0.4")]);
    let after = contents(directory.path());
    assert_eq!(after["out.val.ids.npy"], before["out.val.ids.npy"]);
    assert_eq!(after["out.test.ids.npy"], before["out.val.ids.npy"]);
    let dataset = Dataset::open(&prefix).unwrap();
    let error = dataset.part("val").unwrap_err().to_string();
    assert!(
        error.contains("there is no part val") && error.contains("the output has the parts train, test"),
        "{error}"
    );
    // Documents that move from one part to another leave the sums as they are.
    let manifest = String::from_utf8(after["out.manifest.json"].clone()).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let [train, test] = [0, 1].map(|part| json["parts"][part]["documents"].as_u64().unwrap());
    json["parts"][0]["documents"] = (train + 1).into();
    json["parts"][1]["documents"] = (test - 1).into();
    fs::write(directory.path().join("out.manifest.json"), json.to_string()).unwrap();
    let faults = Dataset::open(&prefix).unwrap().verify().faults;
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(faults[0].contains(&format!("its number of documents in part train is {}", train + 1)), "{faults:?}");
}
