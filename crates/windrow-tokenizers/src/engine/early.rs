//! An engine that encodes at once, and whose fast tables are built when there is text for them.
//!
//! Both give the same ids, so it does not matter which of them a text meets. The first texts are encoded from ranks. The thread at whose
//! text the fast engine begins to pay builds it, and the other threads go on from ranks: one more thread beside them would
//! take longer to build it than they all need to encode a hundred megabytes. Each encoder changes over at its next text.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::{Encoder, Engine, EngineError, Pipeline, caught};

/// Builds the fast engine.
type Build = Box<dyn Fn() -> Result<Pipeline, String> + Send + Sync>;

/// Time spent on ranks that pays for the fast engine, as a multiple of the time in which the ranks were loaded: the fast engine takes 50 to
/// 98 times as long to build, and saves half of the time of English text and code, nine tenths in other scripts.
const WORTH_BUILDING: u32 = 128;

/// An engine that is ready at once and becomes fast.
pub(crate) struct Early {
    /// Encodes from ranks.
    first: Pipeline,
    fast: OnceLock<Option<Pipeline>>,
    build: Build,
    /// How long it took to load the ranks.
    loading: Duration,
    past: Mutex<Past>,
}

/// What was encoded from ranks.
struct Past {
    bytes: u64,
    /// The sum over all threads.
    time: Duration,
    /// Bytes that the caller expects in all; 0 if it does not know.
    expected: u64,
    /// A thread builds the fast engine, or tried to.
    is_building: bool,
}

impl Past {
    /// Whether a fast engine pays, after ranks were loaded in this time. Where nothing more is expected, as much is still to come as there
    /// was: then the loss is at most as large as what the fast engine costs (the ski-rental rule).
    fn pays(&self, loading: Duration) -> bool {
        // The rate is not known before, and other threads may not have joined yet.
        if self.time < loading {
            return false;
        }
        let to_come = self.expected.saturating_sub(self.bytes).max(self.bytes);
        let worth = loading * WORTH_BUILDING;
        self.time.as_secs_f64() * to_come as f64 >= worth.as_secs_f64() * self.bytes as f64
    }
}

impl Early {
    /// `first` encodes from ranks, which took `loading` to load; what `build` returns gives the same ids. `expected` are the bytes of text to
    /// come, 0 if that is not known.
    pub(crate) fn new(first: Pipeline, build: Build, loading: Duration, expected: u64) -> Self {
        let past = Past { bytes: 0, time: Duration::ZERO, expected, is_building: false };
        Self { first, fast: OnceLock::new(), build, loading, past: Mutex::new(past) }
    }

    /// The fast engine, if it is there, or if it is now worth its while.
    fn fast(&self) -> Option<&Pipeline> {
        if let Some(fast) = self.fast.get() {
            return fast.as_ref();
        }
        {
            let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
            if past.is_building || !past.pays(self.loading) {
                return None;
            }
            past.is_building = true;
        }
        // Without the memory to build it, the ranks go on: the ids are the same.
        self.fast.get_or_init(|| caught(&self.build).ok()?.ok()).as_ref()
    }

    fn add(&self, bytes: usize, time: Duration) {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        past.bytes += bytes as u64;
        past.time += time;
    }
}

impl Engine for Early {
    fn name(&self) -> &str {
        self.first.name()
    }

    fn encoder(&self) -> Box<dyn Encoder + '_> {
        Box::new(EarlyEncoder { early: self, encoder: self.first.encoder(), is_fast: false })
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.first.token_to_id(token)
    }
}

struct EarlyEncoder<'a> {
    early: &'a Early,
    encoder: Box<dyn Encoder + 'a>,
    is_fast: bool,
}

impl Encoder for EarlyEncoder<'_> {
    fn encode(&mut self, text: &str, ids: &mut Vec<u32>) -> Result<(), EngineError> {
        if !self.is_fast
            && let Some(fast) = self.early.fast()
        {
            self.encoder = fast.encoder();
            self.is_fast = true;
        }
        if self.is_fast {
            return self.encoder.encode(text, ids);
        }
        let begin = Instant::now();
        let outcome = self.encoder.encode(text, ids);
        self.early.add(text.len(), begin.elapsed());
        outcome
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
            // 128 times as much is to come, or nothing beyond the same again.
            (true, past(1000, 10, 129_000)),
            (false, past(1000, 10, 128_900)),
            (false, past(1000, worth - 1, 0)),
            (false, past(1000, worth - 1, 1500)),
            (true, past(1000, worth, 0)),
        ] {
            let Past { bytes, time, expected, .. } = case;
            assert_eq!(case.pays(loading), pays, "{bytes} bytes in {time:?}, {expected} expected");
        }
    }
}
