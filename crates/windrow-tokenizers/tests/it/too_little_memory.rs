//! Memory that is there for a batch, and no longer there when its good texts are encoded again.

use std::sync::atomic::{AtomicUsize, Ordering};

use windrow_tokenizers::encode::{EncodeError, Job, encode_with};
use windrow_tokenizers::engine::{BatchError, Encoder, Engine, EngineError};
use windrow_tokenizers::input::{Format, InputFile};
use windrow_tokenizers::manifest::TokenizerIdentity;
use windrow_tokenizers::output::{Output, OutputOptions};

/// Refuses the fourth text at first. Then there is no memory for the second.
struct Worse(AtomicUsize);

impl Engine for Worse {
    fn name(&self) -> &str {
        "worse 1.0"
    }

    fn encoder(&self) -> Box<dyn Encoder + '_> {
        Box::new(WorseEncoder(self))
    }

    fn token_to_id(&self, _: &str) -> Option<u32> {
        None
    }
}

struct WorseEncoder<'a>(&'a Worse);

impl Encoder for WorseEncoder<'_> {
    fn encode(&mut self, _: &str, ids: &mut Vec<u32>) -> Result<(), EngineError> {
        ids.push(7);
        Ok(())
    }

    fn encode_all(&mut self, texts: &[&str], ids: &mut Vec<u32>, ends: &mut Vec<usize>) -> Result<(), BatchError> {
        let engine = "worse 1.0".to_owned();
        // Relaxed: one thread encodes.
        match self.0.0.fetch_add(1, Ordering::Relaxed) {
            0 => Err(BatchError { document: 3, error: EngineError::Refused { engine, reason: "no".to_owned() } }),
            1 => Err(BatchError { document: 1, error: EngineError::NoMemory { engine, text: 1, bytes: 1 } }),
            _ => texts.iter().try_for_each(|text| {
                ends.push(ids.len() + 1);
                self.encode(text, ids).map_err(|error| BatchError { document: 0, error })
            }),
        }
    }
}

#[test]
fn a_text_that_had_ids_may_have_none_the_next_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let corpus = InputFile::from_reader("memory", &b"a\nb\nc\nd\ne"[..], Format::Lines, None);
    let output = Output::create(&OutputOptions::new(folder.path().join("out"), 9)).expect("a new output");
    let identity = TokenizerIdentity { name: "worse".into(), vocab_size: 9, ..TokenizerIdentity::default() };
    let failed = encode_with(Job::new(vec![corpus]), &Worse(AtomicUsize::new(0)), identity, output, &()).unwrap_err();
    match failed.error {
        EncodeError::NoMemory(bad) => assert_eq!((bad.file.as_str(), bad.line), ("memory", 2)),
        other => panic!("{other}"),
    }
    assert_eq!(failed.summary.documents.written, 1);
}
