//! windrow's own engine, with the ids around every document.

use std::sync::Arc;

use windrow_bpe::{BpeEngine, Definition, EngineOptions, Ragged, TextError, Unsupported};

use super::parts::{LateLibrary, error_of};
use super::{BatchError, Encoded, Encoder, Engine, EngineError, Steps, byte_level};

/// [`windrow_bpe::BpeEngine`] with the ids around every document.
pub(crate) struct Bpe {
    engine: BpeEngine,
    around: [Vec<u32>; 2],
    /// Knows the tokens if the engine does not.
    tokens: Option<Tokens>,
}

/// The tokens of an engine that encodes parts.
pub(crate) struct Tokens {
    pub(crate) steps: Option<Arc<Steps>>,
    pub(crate) library: Arc<dyn LateLibrary>,
}

impl Bpe {
    pub(crate) const NAME: &str = concat!("windrow-bpe ", env!("CARGO_PKG_VERSION"));

    pub(crate) fn new(
        definition: &Definition,
        around: [Vec<u32>; 2],
        options: &EngineOptions,
    ) -> Result<Self, Unsupported> {
        Ok(Self { engine: BpeEngine::new(definition, options)?, around, tokens: None })
    }

    /// An engine for a vocabulary of ranks.
    pub(crate) fn of_ranks(engine: BpeEngine) -> Self {
        Self { engine, around: Default::default(), tokens: None }
    }

    /// An engine that encodes parts of texts.
    pub(crate) fn of_parts(engine: BpeEngine, around: [Vec<u32>; 2], tokens: Tokens) -> Self {
        Self { engine, around, tokens: Some(tokens) }
    }

    /// The engine, without the ids around a document.
    pub(crate) fn engine(&self) -> &BpeEngine {
        &self.engine
    }

    /// True if a text has named an added token that counts as text since the last call. Not known where the library encodes parts.
    pub(crate) fn take_named_text(&self) -> bool {
        match &self.tokens {
            Some(Tokens { steps, .. }) => steps.as_ref().is_some_and(|steps| steps.front.take_named_text()),
            None => self.engine.take_named_text(),
        }
    }

    /// The ids of `text`, without the ids around a document.
    pub(crate) fn encode_plain(&self, text: &str) -> Result<Vec<u32>, EngineError> {
        let (mut ids, mut ends) = (Vec::new(), Vec::new());
        let encoded = self.engine.encode_all(&[text], &mut ids, &mut ends);
        encoded.map(|()| ids).map_err(|failed| error_in(&[text], failed).error)
    }

    /// The ids of `text`, and the range of bytes of `text` for each id: not trimmed yet.
    pub(crate) fn encode_with_offsets(&self, text: &str) -> Result<Encoded, EngineError> {
        let located = self.engine.encode_with_offsets(text);
        let (ids, offsets) = located.map_err(|failed| error_in(&[text], failed).error)?;
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
        match &self.tokens {
            Some(Tokens { steps: Some(steps), .. }) => steps.model.token_to_id(token),
            Some(Tokens { library, .. }) => library.get().ok()?.token_to_id(token),
            None => self.engine.token_to_id(&byte_level(token)?),
        }
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
        let is_whole = is_whole.map_err(|failed| error_in(texts, failed))?;
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
        let Bpe { engine, around: [before, after], .. } = *self;
        if before.is_empty() && after.is_empty() {
            return engine.encode_all(texts, ids, ends).map_err(|failed| error_in(texts, failed));
        }
        let (ids_before, ends_before) = (ids.len(), ends.len());
        for (document, text) in texts.iter().enumerate() {
            ids.extend_from_slice(before);
            if let Err(failed) = engine.encode_all(&[text], ids, &mut Vec::new()) {
                ids.truncate(ids_before);
                ends.truncate(ends_before);
                return Err(error_in(texts, TextError { document, ..failed }));
            }
            ids.extend_from_slice(after);
            ends.push(ids.len());
        }
        Ok(())
    }
}

fn error_in(texts: &[&str], TextError { document, fault }: TextError) -> BatchError {
    // A batch without texts can also fail.
    let text = texts.get(document).map_or(0, |text| text.len());
    BatchError { document, error: error_of(Bpe::NAME, fault, text) }
}
