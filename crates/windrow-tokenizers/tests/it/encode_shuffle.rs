//! Shuffled outputs: all documents, in the order of a hash, whatever the memory. The reference sorts all documents in memory.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;
use std::num::NonZeroU64;
use windrow_tokenizers::dataset::Dataset;
use windrow_tokenizers::encode::{Job, encode_with};
use windrow_tokenizers::manifest::{OnError, PartShare, Selection};
use windrow_tokenizers::output::{Format, Output, OutputErrorKind, OutputOptions};

use crate::encode_account::{Bytes, corpus, kept, run_to};
use crate::encode_select::{documents, hash};
use crate::encode_split::{EOS, contents, divisible, read};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(windrow_testkit::cases(8)))]

    #[test]
    fn documents_are_in_the_order_of_their_hashes(
        corpora in vec(corpus(), 1..5),
        format in select(Format::ALL.to_vec()),
        machines in [(1..5_usize, select(vec![1_usize, 50, 1 << 16]), select(vec![1_usize, 5_000, 100_000, 1 << 30])),
            (1..5_usize, select(vec![1_usize, 50, 1 << 16]), select(vec![1_usize, 5_000, 100_000, 1 << 30]))],
        shard_bytes in select(vec![None, Some(1_u64), Some(500)]),
        is_divided in any::<bool>(),
        seed in 0..1000_u64,
        limit in option::weighted(0.3, 1..40_u64),
    ) {
        let is_divided = is_divided && divisible().contains(&format);
        let names: &[&str] = if is_divided { &["a", "b"] } else { &[] };
        let half = |name: &&str| PartShare { name: (*name).to_owned(), share: "50%".parse().unwrap() };
        let split: Vec<PartShare> = names.iter().map(half).collect();
        let limit = limit.and_then(NonZeroU64::new);
        let selection = Selection { limit, split, shuffle: Some(seed), ..Selection::default() };
        // The reference.
        let ids = corpora.iter().flat_map(|corpus| kept(corpus.format, &corpus.bytes));
        let good = documents(&corpora).into_iter().zip(ids).filter(|(document, _)| document.text.is_ok());
        let mut good: Vec<_> = good.take(limit.map_or(usize::MAX, |limit| limit.get() as usize)).collect();
        good.sort_by_key(|(document, _)| {
            (hash(seed, 0x53_4855_4646_4c45, document.file, document.number), document.file, document.number)
        });
        let mut expected = vec![Vec::new(); names.len().max(1)];
        for (document, id) in good {
            let is_second = is_divided && hash(0, 0x53_504c_4954, document.file, document.number) >> 63 == 1;
            let text = document.text.unwrap();
            expected[usize::from(is_second)].push((text.bytes().map(u32::from).chain([EOS]).collect::<Vec<u32>>(), id));
        }
        let expected = expected.concat();
        if expected.is_empty() {
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
                parts: names.iter().map(|&name| name.to_owned()).collect(),
                ..OutputOptions::new(&prefix, 257)
            };
            let summary = run_to(&options, &corpora, job).unwrap();
            prop_assert!(summary.documents.is_balanced());
            prop_assert_eq!(summary.documents.written, expected.len() as u64);
            let dataset = Dataset::open(&prefix).unwrap();
            prop_assert_eq!(dataset.verify().faults, vec![]);
            prop_assert!(read(&dataset).iter().eq(expected.iter().map(|(ids, _)| ids)));
            let files = contents(directory.path());
            prop_assert_eq!(files.len(), dataset.manifest().outputs.len() + 1, "{:?}", files.keys());
            if !format.has_columns() {
                let lists = dataset.manifest().outputs.iter().filter(|output| output.file.ends_with(".kept.jsonl"));
                let lines = lists.flat_map(|output| files[&output.file].split_inclusive(|&byte| byte == b'\n'));
                let ids = lines.map(|line| serde_json::from_slice::<Value>(line).unwrap()["id"].take());
                prop_assert_eq!(ids.collect::<Vec<_>>(), expected.iter().map(|(_, id)| id.clone()).collect::<Vec<_>>());
            }
            if let Some(before) = &before {
                prop_assert_eq!(before, &files);
            }
            before = Some(files);
        }
    }
}

#[test]
fn an_output_that_does_not_match_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let check = |options: OutputOptions, change: &dyn Fn(&mut Selection), says: &str| {
        let mut job = Job::new(Vec::new());
        change(&mut job.reading.selection);
        let output = Output::create(&options).unwrap();
        let failed = encode_with(job, &Bytes, Default::default(), output, &()).unwrap_err();
        assert!(failed.to_string().contains(says), "{failed}");
        let windrow_tokenizers::encode::EncodeError::Output(error) = failed.error else { panic!("another error") };
        assert_eq!(error.kind(), OutputErrorKind::Usage);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    };
    let options = || OutputOptions::new(directory.path().join("out"), 256);
    let resumed = OutputOptions { shard_bytes: Some(1), resume: true, ..options() };
    check(resumed, &|selection| selection.shuffle = Some(1), "a shuffled output cannot be resumed");
    let divided = OutputOptions { parts: vec!["a".to_owned()], ..options() };
    check(divided, &|_| {}, "the parts of the output differ from those of the selection");
    let part = PartShare { name: "a".to_owned(), share: "1".parse().unwrap() };
    check(options(), &|selection| selection.split = vec![part.clone()], "the parts of the output differ from those");
}
