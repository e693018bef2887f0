//! An engine that encodes at once, while the tables of the fast one are built beside it.
//!
//! Both give the same ids, so it does not matter which of them a text meets. The first texts are encoded from ranks. Enough of
//! them justify a fast engine: a thread builds it, and each encoder changes over at its next text.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use super::{Encoder, Engine, EngineError, Pipeline, caught};

/// Builds the fast engine.
type Build = Box<dyn Fn() -> Result<Pipeline, String> + Send + Sync>;

/// Bytes of text after which the fast engine is built. An estimate: the build takes hundreds of milliseconds of one CPU, which a corpus
/// earns back and a handful of files does not.
const WORTH_BUILDING: usize = 1 << 20;

/// An engine that is ready at once and becomes fast.
pub(crate) struct Early {
    shared: Arc<Shared>,
}

struct Shared {
    /// Encodes from ranks.
    first: Pipeline,
    fast: OnceLock<Option<Pipeline>>,
    build: Build,
    /// Bytes of text that may still be encoded before a fast engine is due.
    budget: Mutex<usize>,
}

impl Early {
    /// `first` encodes from ranks; what `build` returns gives the same ids.
    pub(crate) fn new(first: Pipeline, build: Build) -> Self {
        Self { shared: Arc::new(Shared { first, fast: OnceLock::new(), build, budget: Mutex::new(WORTH_BUILDING) }) }
    }
}

impl Shared {
    /// The fast engine, if it is there. `bytes` of text are about to be encoded.
    fn fast(self: &Arc<Self>, bytes: usize) -> Option<&Pipeline> {
        if let Some(fast) = self.fast.get() {
            return fast.as_ref();
        }
        let mut budget = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
        let due = *budget > 0 && bytes >= *budget;
        *budget = budget.saturating_sub(bytes);
        drop(budget);
        if due {
            let shared = Arc::clone(self);
            // Without a thread, and without the memory to build it, the ranks go on: the ids are the same.
            let _ = thread::Builder::new().name("windrow-engine".to_owned()).spawn(move || shared.build());
        }
        None
    }

    fn build(&self) {
        self.fast.get_or_init(|| caught(&self.build).ok()?.ok());
    }
}

impl Engine for Early {
    fn name(&self) -> &str {
        self.shared.first.name()
    }

    fn encoder(&self) -> Box<dyn Encoder + '_> {
        Box::new(EarlyEncoder { shared: &self.shared, encoder: self.shared.first.encoder(), is_fast: false })
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.shared.first.token_to_id(token)
    }
}

struct EarlyEncoder<'a> {
    shared: &'a Arc<Shared>,
    encoder: Box<dyn Encoder + 'a>,
    is_fast: bool,
}

impl Encoder for EarlyEncoder<'_> {
    fn encode(&mut self, text: &str, ids: &mut Vec<u32>) -> Result<(), EngineError> {
        if !self.is_fast
            && let Some(fast) = self.shared.fast(text.len())
        {
            self.encoder = fast.encoder();
            self.is_fast = true;
        }
        self.encoder.encode(text, ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::{LoadOptions, early_for_tests};

    #[test]
    fn encoders_change_over_and_give_the_same_ids() {
        let early = early_for_tests("r50k_base", &LoadOptions::default());
        let mut encoder = EarlyEncoder { shared: &early.shared, encoder: early.shared.first.encoder(), is_fast: false };
        let text = "The windrow's 3 rows,\n\ntaken up  <|endoftext|> antidisestablishmentarianism. ";
        let ids = |encoder: &mut EarlyEncoder<'_>, text: &str| {
            let mut ids = Vec::new();
            encoder.encode(text, &mut ids).map(|()| ids)
        };
        let first = ids(&mut encoder, text);
        assert!(!encoder.is_fast && early.shared.fast.get().is_none(), "a short text is not worth it");
        let long = text.repeat(WORTH_BUILDING / text.len() + 1);
        let long_first = ids(&mut encoder, &long);
        assert!(early.shared.fast.wait().is_some());
        assert_eq!(ids(&mut encoder, text), first);
        assert!(encoder.is_fast);
        assert_eq!(ids(&mut encoder, &long), long_first);
    }

    #[test]
    fn an_engine_that_cannot_be_built_is_not_missed() {
        let early = early_for_tests("r50k_base", &LoadOptions::default());
        let first = Arc::into_inner(early.shared).expect("the only owner").first;
        let early = Early::new(first, Box::new(|| panic!("no memory")));
        *early.shared.budget.lock().unwrap() = 1;
        let mut encoder = early.encoder();
        let mut ids = Vec::new();
        encoder.encode("Hello", &mut ids).unwrap();
        assert!(early.shared.fast.wait().is_none());
        encoder.encode(" world", &mut ids).unwrap();
        assert_eq!(ids, [15496, 995]);
    }
}
