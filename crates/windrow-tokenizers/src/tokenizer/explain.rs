//! The engine of a tokenizer, the reason for its choice, and its use so far.

use std::fmt;

use super::Tokenizer;

/// The engine that encodes with a tokenizer, the reason for its choice, and its use so far. Displayed, it is a line or two.
///
/// ```
/// use windrow_tokenizers::tokenizer::{EngineChoice, LoadOptions, Tokenizer};
///
/// let options = LoadOptions { engine: EngineChoice::Tokenizers, ..LoadOptions::default() };
/// let explanation = Tokenizer::load("gpt2", &options)?.explain();
/// assert!(explanation.engine.starts_with("tokenizers 0.23"));
/// assert!(explanation.delegated.is_some() && explanation.cache.is_none());
/// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// Name and version of the engine.
    pub engine: String,
    /// The reason why the engine is not windrow's own; `None` if it is.
    pub delegated: Option<String>,
    /// The cache of windrow's own engine. `None` with another engine.
    pub cache: Option<CacheUse>,
}

/// The lookups in the cache of windrow's own engine, and the space in use.
///
/// ```
/// use windrow_tokenizers::tokenizer::{CacheUse, LoadOptions, Tokenizer};
///
/// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
/// tokenizer.encode_batch_ids(&["a word, a word"])?;
/// let CacheUse { pieces, merged, used, slots, .. } = tokenizer.explain().cache.expect("windrow's own engine has a cache");
/// assert_eq!((pieces, merged), (5, 4)); // one of them comes twice
/// assert!(used <= slots);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheUse {
    /// Pieces of text that were looked up.
    pub pieces: u64,
    /// Pieces that were merged because they were not in the cache.
    pub merged: u64,
    /// Slots in use, including those filled when the engine was built.
    pub used: usize,
    /// All slots.
    pub slots: usize,
    /// Memory in bytes.
    pub bytes: usize,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "engine: {}", self.engine)?;
        if let Some(reason) = &self.delegated {
            write!(f, ", because {reason}")?;
        }
        match &self.cache {
            Some(cache) => write!(f, "\ncache: {cache}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for CacheUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pieces, merged, used, slots, bytes } = *self;
        let share = 100.0 * merged as f64 / pieces.max(1) as f64;
        let mebibytes = bytes as f64 / f64::from(1 << 20);
        let plural = if pieces == 1 { "" } else { "s" };
        write!(f, "{pieces} piece{plural} looked up, {share:.2} % merged because they were not cached; ")?;
        write!(f, "{used} of {slots} slots used, {mebibytes:.1} MiB")
    }
}

impl Tokenizer {
    /// The engine that encodes with this tokenizer, the reason for its choice, and its use so far.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
    /// tokenizer.encode_batch_ids(&["the words, the words"])?;
    /// let cache = tokenizer.explain().cache.expect("windrow's own engine has a cache");
    /// assert_eq!(cache.pieces, 5);
    /// println!("{}", tokenizer.explain());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn explain(&self) -> Explanation {
        let cache = self.engine.own().map(|bpe| {
            let (counts, (used, slots, bytes)) = (bpe.engine().counts(), bpe.engine().cache_size());
            CacheUse { pieces: counts.pieces, merged: counts.misses, used, slots, bytes }
        });
        Explanation { engine: self.engine().name().to_owned(), delegated: self.delegated.clone(), cache }
    }

    /// True if a text has named a special token that counts as text since the last call. Only windrow's own engine notices it.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::load("gpt2", &LoadOptions { special_in_text: false, ..LoadOptions::default() })?;
    /// assert_eq!(tokenizer.encode_batch_ids(&["<|endoftext|>"])?.values.len(), 7);
    /// assert!(tokenizer.take_named_text());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn take_named_text(&self) -> bool {
        self.engine.own().is_some_and(|bpe| bpe.take_named_text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explanations_are_lines() {
        let cache = CacheUse { pieces: 4000, merged: 10, used: 70_000, slots: 1 << 17, bytes: 9 << 19 };
        let own = Explanation { engine: "windrow-bpe 1".to_owned(), delegated: None, cache: Some(cache) };
        let says = "engine: windrow-bpe 1\n\
                    cache: 4000 pieces looked up, 0.25 % merged because they were not cached; 70000 of 131072 slots used, 4.5 MiB";
        assert_eq!(own.to_string(), says);
        let other =
            Explanation { engine: "x 2".to_owned(), delegated: Some("the sky is high".to_owned()), cache: None };
        assert_eq!(other.to_string(), "engine: x 2, because the sky is high");
        let idle = CacheUse { pieces: 0, merged: 0, used: 0, slots: 8, bytes: 0 };
        assert!(idle.to_string().starts_with("0 pieces looked up, 0.00 % merged"));
    }
}
