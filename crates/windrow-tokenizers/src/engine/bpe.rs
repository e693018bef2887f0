//! windrow's own engine, for byte-level BPE with the patterns of well-known models.

use tk_encode::utils::byte_level::char_to_byte;
use windrow_bpe::{Definition, EngineOptions, NoMemory, Ragged, Unsupported};

use super::{BatchError, Encoder, Engine, EngineError};

const NAME: &str = concat!("windrow-bpe ", env!("CARGO_PKG_VERSION"));

/// [`windrow_bpe::Engine`] with the ids that go around every document.
pub(crate) struct Bpe {
    engine: windrow_bpe::Engine,
    around: [Vec<u32>; 2],
}

impl Bpe {
    pub(crate) fn new(
        definition: &Definition,
        around: [Vec<u32>; 2],
        options: &EngineOptions,
    ) -> Result<Self, Unsupported> {
        Ok(Self { engine: windrow_bpe::Engine::new(definition, options)?, around })
    }

    /// Puts the ids that go around a document around those of each.
    fn surround(&self, batch: Ragged) -> Ragged {
        let [before, behind] = &self.around;
        if before.is_empty() && behind.is_empty() {
            return batch;
        }
        let mut all = Ragged { values: Vec::new(), offsets: vec![0] };
        for ids in batch.iter() {
            for part in [before, ids, behind] {
                all.values.extend_from_slice(part);
            }
            all.offsets.push(all.values.len() as u64);
        }
        all
    }
}

impl Engine for Bpe {
    fn name(&self) -> &str {
        NAME
    }

    fn encoder(&self) -> Box<dyn Encoder + '_> {
        Box::new(BpeEncoder { bpe: self })
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.engine.token_to_id(&token.chars().map(char_to_byte).collect::<Option<Vec<u8>>>()?)
    }

    fn encode_batch(&self, texts: &[&str]) -> Result<Ragged, BatchError> {
        let batch = self.engine.encode_batch(texts).map_err(|NoMemory { document, bytes }| {
            let error = EngineError::no_memory(NAME, texts.get(document).map_or(0, |text| text.len()), bytes);
            BatchError { document, error }
        })?;
        Ok(self.surround(batch))
    }
}

struct BpeEncoder<'a> {
    bpe: &'a Bpe,
}

impl Encoder for BpeEncoder<'_> {
    fn encode(&mut self, text: &str, ids: &mut Vec<u32>) -> Result<(), EngineError> {
        let [before, behind] = &self.bpe.around;
        let len = ids.len();
        ids.extend_from_slice(before);
        if let Err(NoMemory { bytes, .. }) = self.bpe.engine.encode(text, ids) {
            ids.truncate(len);
            return Err(EngineError::no_memory(NAME, text.len(), bytes));
        }
        ids.extend_from_slice(behind);
        Ok(())
    }
}
