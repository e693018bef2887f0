//! An engine that encodes at once and builds its fast tables when there is enough text for them.
//!
//! Both engines give the same ids, so either may encode any text. The first texts are encoded from ranks. The thread with the text
//! that makes the fast engine worthwhile builds that engine, while the other threads continue from ranks. Each encoder switches
//! at its next text. A large text or batch is reason enough to build it first.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::{BatchError, Bpe, Encoder, Engine, EngineError, Pipeline, Ragged, UnknownId, append_each, caught};

/// Bytes of text for which the fast engine is built at once: encoding that much from ranks takes longer than the build.
const LARGE: usize = 1 << 20;

/// Builds the fast engine.
type Build = Box<dyn Fn() -> Result<Bpe, String> + Send + Sync>;

/// The time spent on ranks that pays for the fast engine, as a multiple of the time to load the ranks. The fast engine takes 17 to 26
/// times as long to build, and saves most of the time to encode.
const WORTH_BUILDING: u32 = 32;

/// An engine that is ready at once and becomes fast later.
pub(crate) struct Early {
    /// Encodes from ranks.
    first: Pipeline,
    fast: OnceLock<Option<Bpe>>,
    build: Build,
    /// Time it took to load the ranks.
    loading: Duration,
    past: Mutex<Past>,
}

/// The texts encoded from ranks so far.
struct Past {
    bytes: u64,
    /// Encoding time, summed over all threads.
    time: Duration,
    /// Total bytes that the caller expects; 0 if unknown.
    expected: u64,
    /// True if a thread builds the fast engine, or has tried to.
    is_building: bool,
}

impl Past {
    /// True if a fast engine pays, given that loading the ranks took `loading`. If the amount is unknown, as much text is expected as was already
    /// encoded. Then the loss is no larger than the cost of the fast engine (the ski-rental rule).
    fn pays(&self, loading: Duration) -> bool {
        // Before that, the rate is unknown, and other threads may not have joined yet.
        if self.time < loading {
            return false;
        }
        let to_come = self.expected.saturating_sub(self.bytes).max(self.bytes);
        let worth = loading * WORTH_BUILDING;
        self.time.as_secs_f64() * to_come as f64 >= worth.as_secs_f64() * self.bytes as f64
    }
}

impl Early {
    /// `first` encodes from ranks, which took `loading` to load; the engine that `build` returns gives the same ids. `expected` is the
    /// amount of text to come in bytes, 0 if unknown.
    pub(crate) fn new(first: Pipeline, build: Build, loading: Duration, expected: u64) -> Self {
        let past = Past { bytes: 0, time: Duration::ZERO, expected, is_building: false };
        Self { first, fast: OnceLock::new(), build, loading, past: Mutex::new(past) }
    }

    /// The fast engine, if it is built or now worth building: with `bytes` of text at hand, or because of earlier texts.
    fn fast(&self, bytes: usize) -> Option<&Bpe> {
        if let Some(fast) = self.fast.get() {
            return fast.as_ref();
        }
        {
            let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
            // From ranks, this much text takes longer than the fast engine takes to build.
            if past.is_building || (bytes < LARGE && !past.pays(self.loading)) {
                return None;
            }
            past.is_building = true;
        }
        self.built()
    }

    /// The fast engine, which is built now if it was not. If there is no memory to build it, the ranks continue: the ids are the same.
    pub(crate) fn built(&self) -> Option<&Bpe> {
        self.fast.get_or_init(|| caught(&self.build).ok()?.ok()).as_ref()
    }

    /// The fast engine, if it was built.
    pub(crate) fn if_built(&self) -> Option<&Bpe> {
        self.fast.get()?.as_ref()
    }

    /// Appends the bytes of the tokens with these ids to `bytes`, up to the first id that no token has.
    pub(crate) fn decode(&self, ids: &[u32], bytes: &mut Vec<u8>) -> Result<(), UnknownId> {
        self.first.ranks.as_ref().expect("it encodes from ranks").decode(ids, bytes)
    }

    fn add(&self, bytes: usize, time: Duration) {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        past.bytes += bytes as u64;
        past.time += time;
    }
}

impl Engine for Early {
    /// The name of the fast engine, even if it was not built: both give the same ids.
    fn name(&self) -> &str {
        Bpe::NAME
    }

    fn encoder(&self) -> Box<dyn Encoder + '_> {
        Box::new(EarlyEncoder { early: self, encoder: self.first.encoder(), is_fast: false })
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.first.token_to_id(token)
    }

    fn cuts_documents(&self) -> bool {
        true
    }

    fn last_cut(&self, part: &[u8], from: usize) -> Option<usize> {
        self.fast(part.len())?.last_cut(part, from)
    }

    fn append_batch_while(
        &self,
        texts: &[&str],
        batch: &mut Ragged,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<bool, BatchError> {
        match self.fast(texts.iter().map(|text| text.len()).sum()) {
            Some(fast) => fast.append_batch_while(texts, batch, goes_on),
            None => append_each(self, texts, batch, goes_on),
        }
    }
}

struct EarlyEncoder<'a> {
    early: &'a Early,
    encoder: Box<dyn Encoder + 'a>,
    is_fast: bool,
}

impl EarlyEncoder<'_> {
    /// Runs `encode` on `bytes` bytes of text with the encoder that is best now.
    fn with_best<R>(&mut self, bytes: usize, encode: impl FnOnce(&mut dyn Encoder) -> R) -> R {
        if !self.is_fast
            && let Some(fast) = self.early.fast(bytes)
        {
            self.encoder = fast.encoder();
            self.is_fast = true;
        }
        if self.is_fast {
            return encode(self.encoder.as_mut());
        }
        let begin = Instant::now();
        let outcome = encode(self.encoder.as_mut());
        self.early.add(bytes, begin.elapsed());
        outcome
    }
}

impl Encoder for EarlyEncoder<'_> {
    fn encode(&mut self, text: &str, ids: &mut Vec<u32>) -> Result<(), EngineError> {
        self.with_best(text.len(), |encoder| encoder.encode(text, ids))
    }

    fn encode_all(&mut self, texts: &[&str], ids: &mut Vec<u32>, ends: &mut Vec<usize>) -> Result<(), BatchError> {
        let bytes = texts.iter().map(|text| text.len()).sum();
        self.with_best(bytes, |encoder| encoder.encode_all(texts, ids, ends))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::{LoadOptions, early_for_tests};

    #[test]
    fn encoders_change_over_and_give_the_same_ids() {
        let early = early_for_tests("r50k_base", &LoadOptions::default());
        let mut encoder = EarlyEncoder { early: &early, encoder: early.first.encoder(), is_fast: false };
        let text = "The windrow's 3 rows,\n\ntaken up  <|endoftext|> antidisestablishmentarianism. ";
        let ids = |encoder: &mut EarlyEncoder<'_>| {
            let mut ids = Vec::new();
            encoder.encode(text, &mut ids).map(|()| ids)
        };
        let first = ids(&mut encoder);
        assert!(!encoder.is_fast && early.fast.get().is_none(), "a short text is not worth it");
        early.add(1, early.loading * WORTH_BUILDING);
        assert_eq!(ids(&mut encoder), first);
        assert!(encoder.is_fast && early.fast.get().is_some_and(Option::is_some));
        assert_eq!(ids(&mut encoder), first);
    }

    #[test]
    fn an_engine_that_cannot_be_built_is_not_missed() {
        let Early { first, .. } = early_for_tests("r50k_base", &LoadOptions::default());
        let early = Early::new(first, Box::new(|| panic!("no memory")), Duration::ZERO, 0);
        let mut encoder = early.encoder();
        let mut ids = Vec::new();
        encoder.encode("Hello", &mut ids).unwrap();
        encoder.encode(" world", &mut ids).unwrap();
        assert!(matches!(early.fast.get(), Some(None)));
        assert_eq!(ids, [15496, 995]);
    }

    #[test]
    fn an_engine_pays_for_much_text() {
        let past =
            |bytes, millis, expected| Past { bytes, time: Duration::from_millis(millis), expected, is_building: false };
        let loading = Duration::from_millis(10);
        let worth = 10 * u64::from(WORTH_BUILDING);
        for (pays, case) in [
            (false, past(0, 0, 1 << 40)),
            (false, past(1000, 9, 1 << 40)),
            (true, past(1000, 10, 1 << 40)),
            // The remaining text is 32 times as much, or a little less.
            (true, past(1000, 10, 33_000)),
            (false, past(1000, 10, 32_900)),
            (false, past(1000, worth - 1, 0)),
            (false, past(1000, worth - 1, 1500)),
            (true, past(1000, worth, 0)),
        ] {
            let Past { bytes, time, expected, .. } = case;
            assert_eq!(case.pays(loading), pays, "{bytes} bytes in {time:?}, {expected} expected");
        }
    }
}
