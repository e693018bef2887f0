//! From ids back to bytes.

use thiserror::Error;

use super::BpeEngine;
use crate::added::AddedToken;

/// An id without a token.
///
/// ```
/// # use windrow_bpe::{Definition, BpeEngine, EngineOptions, Grammar, UnknownId};
/// # let tokens = (0..=255).map(|byte| (vec![byte], u32::from(byte))).collect();
/// # let definition = Definition { grammar: Grammar::Gpt2, tokens, merges: vec![], ignore_merges: false, added: vec![], nfc: false };
/// # let engine = BpeEngine::new(&definition, &EngineOptions::default())?;
/// let mut bytes = Vec::new();
/// assert_eq!(engine.decode(&[97, 98, 9999, 99], &mut bytes), Err(UnknownId { index: 2, id: 9999 }));
/// assert_eq!(bytes, b"ab");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("id {id}, at index {index}, has no token")]
pub struct UnknownId {
    /// Where it is among the ids.
    pub index: usize,
    /// The id.
    pub id: u32,
}

/// The texts of added tokens by their ids, ascending.
pub(super) struct Contents(Vec<(u32, Box<str>)>);

impl Contents {
    /// Of two tokens with one id, the last one counts.
    pub(super) fn new(added: &[AddedToken]) -> Self {
        let with_ids = added.iter().rev().filter_map(|token| Some((token.id?, token.content.as_str().into())));
        let mut contents: Vec<(u32, Box<str>)> = with_ids.collect();
        contents.sort_by_key(|&(id, _)| id);
        contents.dedup_by_key(|&mut (id, _)| id);
        Self(contents)
    }

    fn get(&self, id: u32) -> Option<&str> {
        let at = self.0.binary_search_by_key(&id, |&(other, _)| other).ok()?;
        Some(&self.0[at].1)
    }
}

impl BpeEngine {
    /// Appends the bytes of the tokens with these ids to `bytes`.
    ///
    /// They are UTF-8 only as a whole: a token may end inside of a character. An added token without an id in the [`Definition`](super::Definition)
    /// has none here.
    ///
    /// ```
    /// # use windrow_bpe::{Definition, BpeEngine, EngineOptions, Grammar};
    /// # let tokens = (0..=255).map(|byte| (vec![byte], u32::from(byte))).collect();
    /// # let definition = Definition { grammar: Grammar::Gpt2, tokens, merges: vec![], ignore_merges: false, added: vec![], nfc: false };
    /// # let engine = BpeEngine::new(&definition, &EngineOptions::default())?;
    /// let (ids, mut bytes) = (engine.encode_batch(&["café"])?.values, Vec::new());
    /// engine.decode(&ids, &mut bytes)?;
    /// assert_eq!(String::from_utf8(bytes)?, "café");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The first id that no token has. `bytes` then has the bytes of the ids before it.
    pub fn decode(&self, ids: &[u32], bytes: &mut Vec<u8>) -> Result<(), UnknownId> {
        for (index, &id) in ids.iter().enumerate() {
            match self.contents.get(id) {
                Some(content) => bytes.extend_from_slice(content.as_bytes()),
                None => match self.token(id) {
                    [] => return Err(UnknownId { index, id }),
                    token => bytes.extend_from_slice(token),
                },
            }
        }
        Ok(())
    }
}
