//! The arms of windrow.

use std::cell::RefCell;

use windrow::Pool;
use windrow_tokenizers::engine::Ragged;
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

use crate::arms::{Encoder, Ids};

/// windrow with a pool of so many threads.
pub struct Windrow {
    tokenizer: Tokenizer,
    pool: Pool,
    /// The last result, if its memory is used again.
    spare: Option<RefCell<Ragged>>,
}

impl Windrow {
    pub fn load(tokenizer_json: &[u8], threads: usize, recycles: bool) -> Self {
        let tokenizer = Tokenizer::from_json(tokenizer_json, "tokenizer.json", &LoadOptions::default()).expect("loads");
        Self { tokenizer, pool: Pool::new(threads), spare: recycles.then(RefCell::default) }
    }
}

impl Encoder for Windrow {
    fn prepare<'a>(&'a self, texts: &'a [&'a str]) -> Box<dyn FnOnce() -> Ids + 'a> {
        Box::new(|| {
            let batch = self.pool.install(|| match &self.spare {
                None => self.tokenizer.encode_batch_ids(texts),
                Some(spare) => {
                    let mut batch = spare.take();
                    self.tokenizer.encode_batch_ids_into(texts, &mut batch).map(|()| batch)
                }
            });
            let Ragged { values, offsets } = batch.expect("windrow encodes");
            Ids::Offsets(values, offsets)
        })
    }

    fn recycle(&self, ids: Ids) {
        if let (Some(spare), Ids::Offsets(values, offsets)) = (&self.spare, ids) {
            spare.replace(Ragged { values, offsets });
        }
    }
}
