//! BPE on characters, as sentencepiece trains it: a piece of text becomes the tokens of its characters, which the merges join.

use crate::fault::PieceFault;
use crate::fault::Unsupported;
use crate::merge::{MergeScratch, Merges};
use crate::vocabulary::Vocabulary;

/// A BPE model of text, as Hugging Face's `tokenizers` 0.23 encodes with it.
///
/// ```
/// use windrow_bpe::{CharacterBpe, CharacterDefinition};
///
/// let tokens: Vec<_> = ["<unk>", "a", "b", "ab"].into_iter().zip(0..).map(|(token, id)| (token.to_owned(), id)).collect();
/// let merges = [("a".to_owned(), "b".to_owned())];
/// let definition = CharacterDefinition { tokens: &tokens, merges: &merges, unknown: Some("<unk>"), ..Default::default() };
/// let mut ids = Vec::new();
/// CharacterBpe::new(&definition)?.encode("baby", &mut ids)?;
/// assert_eq!(ids, [2, 3, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CharacterBpe {
    vocabulary: Vocabulary,
    merges: Merges,
    /// The tokens of bytes, `None` where there is none; empty without byte fallback.
    bytes: Vec<Option<u32>>,
    /// The tokens of ASCII characters.
    ascii: [Option<u32>; 128],
    unknown: Option<u32>,
    fuses_unknown: bool,
    ignores_merges: bool,
}

/// A [`CharacterBpe`], as data.
#[derive(Clone, Debug, Default)]
pub struct CharacterDefinition<'a> {
    /// Each token and its id.
    pub tokens: &'a [(String, u32)],
    /// The two tokens of each merge, in the order of their priorities.
    pub merges: &'a [(String, String)],
    /// The token of characters without one. Without it, they have no ids.
    pub unknown: Option<&'a str>,
    /// True if a run of unknown characters is one token.
    pub fuses_unknown: bool,
    /// True if a character without a token becomes the tokens of its bytes, `<0x00>` to `<0xFF>`, if it has all of them.
    pub falls_back_to_bytes: bool,
    /// True if a piece that is a token becomes that token.
    pub ignores_merges: bool,
}

impl CharacterBpe {
    /// # Errors
    /// Two tokens are the same, a merge is of unknown tokens or there twice, or an id is 1,048,575 or more.
    pub fn new(definition: &CharacterDefinition<'_>) -> Result<Self, Unsupported> {
        let CharacterDefinition { tokens, merges, unknown, fuses_unknown, falls_back_to_bytes, ignores_merges } =
            definition;
        let vocabulary = Vocabulary::new(tokens).map_err(Unsupported::new)?;
        let mut union = Vec::new();
        let mut triples = Vec::with_capacity(merges.len());
        for (priority, (left, right)) in merges.iter().enumerate() {
            let (left, right) = (left.as_bytes(), right.as_bytes());
            union.clear();
            union.extend_from_slice(left);
            union.extend_from_slice(right);
            let [left, right, merged] = [left, right, &union].map(|token| vocabulary.id(token));
            let known = left.zip(right).zip(merged).map(|((left, right), merged)| (left, right, merged));
            let unknown = || Unsupported::new(format!("merge {priority} joins unknown tokens or produces one"));
            triples.push(known.ok_or_else(unknown)?);
        }
        let merges = Merges::new(triples.into_iter()).map_err(Unsupported::new)?;
        let unknown = match unknown {
            Some(token) => {
                let id = vocabulary.id(token.as_bytes());
                Some(id.ok_or_else(|| Unsupported::new(format!("{token:?} is not a token")))?)
            }
            None => None,
        };
        let byte = |byte: u8| vocabulary.id(format!("<0x{byte:02X}>").as_bytes());
        let bytes = if *falls_back_to_bytes { (0..=255).map(byte).collect() } else { Vec::new() };
        let mut ascii = [None; 128];
        for (byte, id) in (0..128_u8).zip(&mut ascii) {
            *id = vocabulary.id(&[byte]);
        }
        let (fuses_unknown, ignores_merges) = (*fuses_unknown, *ignores_merges);
        Ok(Self { vocabulary, merges, bytes, ascii, unknown, fuses_unknown, ignores_merges })
    }

    /// Appends the ids of `piece`.
    ///
    /// # Errors
    /// There is no memory for the piece.
    pub fn encode(&self, piece: &str, ids: &mut Vec<u32>) -> Result<(), PieceFault> {
        thread_local! {
            static SCRATCH: std::cell::RefCell<MergeScratch> = std::cell::RefCell::default();
        }
        if self.ignores_merges
            && let Some(id) = self.vocabulary.id(piece.as_bytes())
        {
            ids.push(id);
            return Ok(());
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let encoded = self.symbols(piece, &mut scratch.ids).and_then(|()| self.merges.merge(scratch));
            if encoded.is_ok() {
                ids.extend_from_slice(&scratch.ids);
            }
            if piece.len() > crate::memory::KEPT_SCRATCH {
                *scratch = MergeScratch::default();
            }
            encoded.map_err(PieceFault::NoMemory)
        })
    }

    /// The tokens of the characters. As in the reference, tokens of bytes come before an unknown token that waits to be fused.
    fn symbols(&self, piece: &str, ids: &mut Vec<u32>) -> Result<(), usize> {
        ids.clear();
        // Every character has at most a token for each of its bytes, and one waits.
        crate::memory::reserve(ids, piece.len() + 1)?;
        let mut waiting = None;
        for (at, character) in piece.char_indices() {
            let bytes = &piece.as_bytes()[at..at + character.len_utf8()];
            let id = match bytes {
                [byte] => self.ascii[usize::from(*byte & 0x7f)],
                bytes => self.vocabulary.id(bytes),
            };
            if let Some(id) = id {
                ids.extend(waiting.take());
                ids.push(id);
                continue;
            }
            let token = |byte: &u8| self.bytes.get(usize::from(*byte)).copied().flatten();
            if bytes.iter().all(|byte| token(byte).is_some()) {
                ids.extend(bytes.iter().filter_map(token));
                continue;
            }
            if waiting.is_some() && !self.fuses_unknown {
                ids.extend(waiting);
            }
            waiting = self.unknown;
        }
        ids.extend(waiting);
        Ok(())
    }

    /// The id of a token.
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.vocabulary.id(token.as_bytes())
    }

    /// The token with this id; empty if there is none.
    pub fn token(&self, id: u32) -> &str {
        std::str::from_utf8(self.vocabulary.token(id)).unwrap_or_default()
    }
}
