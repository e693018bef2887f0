//! windrow's own engine, for byte-level BPE with the patterns of well-known models.

use windrow_bpe::{Definition, EngineOptions, NoMemory, Ragged, Unsupported};

use super::{BatchError, Encoded, Encoder, Engine, EngineError, byte_level};

/// [`windrow_bpe::BpeEngine`] with the ids around every document.
pub(crate) struct Bpe {
    engine: windrow_bpe::BpeEngine,
    around: [Vec<u32>; 2],
}

impl Bpe {
    pub(crate) const NAME: &str = concat!("windrow-bpe ", env!("CARGO_PKG_VERSION"));

    pub(crate) fn new(
        definition: &Definition,
        around: [Vec<u32>; 2],
        options: &EngineOptions,
    ) -> Result<Self, Unsupported> {
        Ok(Self { engine: windrow_bpe::BpeEngine::new(definition, options)?, around })
    }

    /// The engine, without the ids around a document.
    pub(crate) fn engine(&self) -> &windrow_bpe::BpeEngine {
        &self.engine
    }

    /// The ids of `text`, without the ids around a document.
    pub(crate) fn encode_plain(&self, text: &str) -> Result<Vec<u32>, EngineError> {
        let (mut ids, mut ends) = (Vec::new(), Vec::new());
        let encoded = self.engine.encode_all(&[text], &mut ids, &mut ends);
        encoded.map(|()| ids).map_err(|failed| no_memory(&[text], failed).error)
    }

    /// The ids of `text`, and the range of bytes of `text` for each id: not trimmed yet.
    pub(crate) fn encode_with_offsets(&self, text: &str) -> Result<Encoded, EngineError> {
        let located = self.engine.encode_with_offsets(text);
        let (ids, offsets) = located.map_err(|failed| no_memory(&[text], failed).error)?;
        let [before, after] = &self.around;
        let around = |ids: &[u32]| vec![0..0; ids.len()];
        Ok(Encoded {
            ids: [before, &ids[..], after].concat(),
            offsets: [&around(before)[..], &offsets, &around(after)].concat(),
        })
    }

    /// Adds the ids around a document to each document from `first` on.
    fn surround(&self, batch: &mut Ragged, first: usize) {
        let [before, after] = &self.around;
        if before.is_empty() && after.is_empty() {
            return;
        }
        let begin = batch.offsets[first];
        let ids = batch.values.split_off(begin as usize);
        let mut read = begin;
        for end in &mut batch.offsets[first + 1..] {
            let ids = &ids[(read - begin) as usize..(*end - begin) as usize];
            read = *end;
            for part in [before, ids, after] {
                batch.values.extend_from_slice(part);
            }
            *end = batch.values.len() as u64;
        }
    }
}

impl Engine for Bpe {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn encoder(&self) -> Box<dyn Encoder + '_> {
        Box::new(self)
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.engine.token_to_id(&byte_level(token)?)
    }

    fn cuts_documents(&self) -> bool {
        self.around.iter().all(Vec::is_empty) && self.engine.cuts_documents()
    }

    fn last_cut(&self, part: &[u8], from: usize) -> Option<usize> {
        self.engine.last_cut(part, from).filter(|_| self.cuts_documents())
    }

    fn append_batch_while(
        &self,
        texts: &[&str],
        batch: &mut Ragged,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<bool, BatchError> {
        let first = batch.len();
        let is_whole = self.engine.append_batch_while(texts, batch, goes_on);
        let is_whole = is_whole.map_err(|failed| no_memory(texts, failed))?;
        if is_whole {
            self.surround(batch, first);
        }
        Ok(is_whole)
    }
}

impl Encoder for &Bpe {
    fn encode(&mut self, text: &str, ids: &mut Vec<u32>) -> Result<(), EngineError> {
        self.encode_all(&[text], ids, &mut Vec::new()).map_err(|failed| failed.error)
    }

    fn encode_all(&mut self, texts: &[&str], ids: &mut Vec<u32>, ends: &mut Vec<usize>) -> Result<(), BatchError> {
        let Bpe { engine, around: [before, after] } = *self;
        if before.is_empty() && after.is_empty() {
            return engine.encode_all(texts, ids, ends).map_err(|failed| no_memory(texts, failed));
        }
        let (ids_before, ends_before) = (ids.len(), ends.len());
        for (document, text) in texts.iter().enumerate() {
            ids.extend_from_slice(before);
            if let Err(failed) = engine.encode_all(&[text], ids, &mut Vec::new()) {
                ids.truncate(ids_before);
                ends.truncate(ends_before);
                return Err(no_memory(texts, NoMemory { document, ..failed }));
            }
            ids.extend_from_slice(after);
            ends.push(ids.len());
        }
        Ok(())
    }
}

fn no_memory(texts: &[&str], NoMemory { document, bytes }: NoMemory) -> BatchError {
    // A batch without texts can also fail.
    let text = texts.get(document).map_or(0, |text| text.len());
    BatchError { document, error: EngineError::no_memory(Bpe::NAME, text, bytes) }
}
