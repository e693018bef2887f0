//! `limit` and `sample`: which documents are written, and the account of the others. The reference chooses from all documents in memory.

use std::fs;
use std::num::NonZeroU64;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use windrow_tokenizers::encode::{EncodeError, Job};
use windrow_tokenizers::input::Format;
use windrow_tokenizers::manifest::{Documents, Manifest, OnError, Selection};

use crate::encode_account::{Corpus, corpus, reference, run, texts};

/// The documented hash: SplitMix64 over the seed, the purpose, the index of the file and the number of the document there.
pub(crate) fn hash(seed: u64, purpose: u64, file: usize, number: usize) -> u64 {
    let mixed = |state: u64| {
        let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^ (state >> 31)
    };
    mixed(mixed(mixed(mixed(seed) ^ purpose) ^ file as u64) ^ number as u64)
}

/// A document of the inputs.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) file: usize,
    /// Its number in the file, from 1.
    pub(crate) number: usize,
    /// Its text, or the line of a bad one.
    pub(crate) text: Result<String, u64>,
}

pub(crate) fn documents(corpora: &[Corpus]) -> Vec<Document> {
    let of_file = |(file, corpus): (usize, &Corpus)| {
        let texts = reference(corpus.format, &corpus.bytes).into_iter().zip(1..);
        texts.map(move |(text, number)| Document { file, number, text }).collect::<Vec<_>>()
    };
    corpora.iter().enumerate().flat_map(of_file).collect()
}

/// What a naive run does with the documents.
#[derive(Debug, Default)]
struct Expected {
    counts: Documents,
    texts: Vec<String>,
    bad: Vec<(String, u64)>,
    /// The document that reached the limit.
    last: Option<Document>,
}

fn expected(documents: &[Document], sample: Option<u64>, seed: u64, limit: Option<usize>, skips: bool) -> Expected {
    let mut all = Expected::default();
    for document in documents {
        let Document { file, number, text } = document;
        all.counts.read += 1;
        // Thousandths, exactly.
        let point = hash(seed, 0x5341_4d50_4c45, *file, *number);
        if sample.is_some_and(|share| (u128::from(point) * 1_000_000_000) >> 64 >= u128::from(share * 1_000_000)) {
            all.counts.deselected += 1;
            continue;
        }
        match text {
            Ok(text) => {
                all.counts.written += 1;
                all.texts.push(text.clone());
            }
            Err(line) => {
                all.bad.push((format!("file-{file}"), *line));
                if !skips {
                    all.counts.failed += 1;
                    return all;
                }
                all.counts.skipped += 1;
            }
        }
        if limit == Some(all.texts.len()) {
            all.last = Some(document.clone());
            return all;
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(windrow_testkit::cases(12)))]

    #[test]
    fn wanted_documents_are_written_and_the_others_counted(
        corpora in vec(corpus(), 1..6),
        (threads, chunk_bytes) in (1..5_usize, select(vec![1_usize, 50, 300, 1 << 16])),
        memory in select(vec![1_usize, 100_000, 1 << 30]),
        shard_bytes in select(vec![None, Some(1_u64), Some(200), Some(5_000)]),
        sample in option::weighted(0.7, select(vec![0_u64, 10, 300, 700, 999, 1000])),
        seed in 0..1000_u64,
        limit in option::of(1..40_usize),
        skips in any::<bool>(),
    ) {
        let mut job = Job { threads, chunk_bytes, memory, ..Job::new(Vec::new()) };
        job.reading.keep = vec!["id".to_owned()];
        job.reading.on_error = if skips { OnError::Skip } else { OnError::Fail };
        job.reading.selection = Selection {
            limit: limit.and_then(|limit| NonZeroU64::new(limit as u64)),
            sample: sample.map(|share| format!("{}.{}%", share / 10, share % 10).parse().unwrap()),
            seed: Some(seed),
            ..Selection::default()
        };
        let all = documents(&corpora);
        let Expected { counts, texts: good, bad, last } = expected(&all, sample, seed, limit, skips);
        prop_assert!(counts.is_balanced());
        let directory = tempfile::tempdir().unwrap();
        let outcome = run(directory.path(), &corpora, job, shard_bytes);
        if counts.failed > 0 || (good.is_empty() && !bad.is_empty()) {
            let failed = outcome.unwrap_err();
            match &failed.error {
                EncodeError::Document(document) => prop_assert_eq!(Some(&(document.file.clone(), document.line)), bad.last()),
                EncodeError::AllSkipped { read, .. } => prop_assert_eq!(*read, counts.skipped),
                _ => panic!("another error: {failed}"),
            }
            prop_assert_eq!(failed.summary.documents, counts);
            prop_assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
            return Ok(());
        }
        let summary = outcome.unwrap();
        prop_assert_eq!(summary.documents, counts);
        prop_assert_eq!(summary.is_limited, last.is_some());
        prop_assert_eq!(summary.tokens, good.concat().len() as u64);
        prop_assert_eq!(texts(directory.path(), shard_bytes), good);
        let manifest = fs::read(directory.path().join("out.manifest.json")).unwrap();
        let manifest: Manifest = serde_json::from_slice(&manifest).unwrap();
        prop_assert_eq!(manifest.documents, counts);
        let listed: Vec<_> = manifest.skipped.iter().map(|bad| (bad.file.clone(), bad.line)).collect();
        prop_assert_eq!(listed, bad);
        // The inputs are listed up to the one with the last document, which is complete only if it is one document.
        let files = last.as_ref().map_or(corpora.len(), |last| last.file + 1);
        prop_assert_eq!(manifest.inputs.len(), files);
        prop_assert_eq!(manifest.inputs.iter().map(|input| input.documents).sum::<u64>(), counts.read);
        for (number, input) in manifest.inputs.iter().enumerate() {
            let is_partial = last.as_ref().is_some_and(|last| last.file == number)
                && corpora[number].format != Format::Text;
            prop_assert_eq!(input.ended_at.is_some(), is_partial, "{:?}", input);
            let hash = blake3::hash(&corpora[number].bytes).to_hex();
            prop_assert_eq!(&*input.blake3, if is_partial { "" } else { hash.as_str() });
        }
    }
}
