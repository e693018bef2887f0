//! Models that give a word its ids: WordPiece and Unigram, as `tokenizers` 0.23 has them, and BPE on characters.
//!
//! The ids are the library's. Time is linear in the word for a given vocabulary, and a model needs no more than the vocabulary to begin.

use std::cell::RefCell;

use serde_json::{Map, Value};
use windrow_bpe::{ByteBpe, CharacterBpe, CharacterDefinition, PieceFault};

use super::byte_level;
use super::trie::Trie;

/// A model whose ids windrow computes itself.
pub(crate) enum WordModel {
    Bytes(ByteBpe),
    Characters(CharacterBpe),
    WordPiece(WordPiece),
    Unigram(Unigram),
}

impl WordModel {
    /// Appends the ids of `word`, which is not empty.
    pub(crate) fn encode(&self, word: &str, ids: &mut Vec<u32>) -> Result<(), PieceFault> {
        match self {
            Self::Bytes(model) => match byte_level(word) {
                Some(bytes) => model.encode(&bytes, ids),
                None => Err(PieceFault::Refused("a character is outside the byte-level alphabet".to_owned())),
            },
            Self::Characters(model) => model.encode(word, ids),
            Self::WordPiece(model) => {
                model.encode(word, ids);
                Ok(())
            }
            Self::Unigram(model) => model.encode(word, ids),
        }
    }

    /// The id of a token.
    pub(crate) fn token_to_id(&self, token: &str) -> Option<u32> {
        match self {
            Self::Bytes(model) => model.token_to_id(&byte_level(token)?),
            Self::Characters(model) => model.token_to_id(token),
            Self::WordPiece(model) => model.token_to_id(token),
            Self::Unigram(model) => model.tokens.find(token.as_bytes()),
        }
    }
}

/// BPE on characters with these options of a file; `None` if an option or a merge is not known here.
pub(crate) fn characters(
    options: &Map<String, Value>,
    tokens: &[(String, u32)],
    merges: &[(String, String)],
) -> Option<WordModel> {
    let flag = |name: &str| options.get(name).and_then(Value::as_bool).unwrap_or(false);
    let is_known = |(name, value): (&String, &Value)| match name.as_str() {
        "unk_token" | "fuse_unk" | "byte_fallback" | "ignore_merges" => true,
        "continuing_subword_prefix" | "end_of_word_suffix" => value.is_null() || value.as_str() == Some(""),
        _ => value.is_null(),
    };
    if !options.iter().all(is_known) {
        return None;
    }
    let definition = CharacterDefinition {
        tokens,
        merges,
        unknown: options.get("unk_token").and_then(Value::as_str),
        fuses_unknown: flag("fuse_unk"),
        falls_back_to_bytes: flag("byte_fallback"),
        ignores_merges: flag("ignore_merges"),
    };
    CharacterBpe::new(&definition).ok().map(WordModel::Characters)
}

/// WordPiece with these options of a file: see [`characters`].
pub(crate) fn word_piece(options: &Map<String, Value>, tokens: &[(String, u32)]) -> Option<WordModel> {
    let text = |name: &str| options.get(name).and_then(Value::as_str);
    let most = usize::try_from(options.get("max_input_chars_per_word")?.as_u64()?).ok()?;
    let model = WordPiece::new(tokens, text("unk_token")?, text("continuing_subword_prefix")?, most)?;
    (options.len() == 3).then_some(WordModel::WordPiece(model))
}

/// Unigram with these options of a file: see [`characters`]. `tokens` have scores.
pub(crate) fn unigram(options: &Map<String, Value>, tokens: &[(String, f64)]) -> Option<WordModel> {
    let unknown = u32::try_from(options.get("unk_id")?.as_u64()?).ok()?;
    let falls_back = options.get("byte_fallback").and_then(Value::as_bool).unwrap_or(false);
    if options.iter().any(|(name, value)| !["unk_id", "byte_fallback"].contains(&name.as_str()) && !value.is_null()) {
        return None;
    }
    Unigram::new(tokens, unknown, falls_back).map(WordModel::Unigram)
}

/// No token.
const NONE: u32 = u32::MAX;

/// Cuts a word into the longest tokens from left to right (Schuster and Nakajima, 2012; Devlin et al., 2018).
pub(crate) struct WordPiece {
    /// The tokens that begin a word, and the others without their prefix.
    first: Trie,
    rest: Trie,
    prefix: String,
    unknown: u32,
    /// Words with more characters are unknown.
    most: usize,
}

impl WordPiece {
    /// `None` if the vocabulary does not have the token of unknown words, or is too large.
    pub(crate) fn new(vocab: &[(String, u32)], unknown: &str, prefix: &str, most: usize) -> Option<Self> {
        let tokens = vocab.iter().map(|(token, id)| (token.as_bytes(), *id));
        let rest = tokens.clone().filter_map(|(token, id)| Some((token.strip_prefix(prefix.as_bytes())?, id)));
        let (first, rest) = (Trie::new(tokens)?, Trie::new(rest)?);
        let unknown = first.find(unknown.as_bytes())?;
        Some(Self { first, rest, prefix: prefix.to_owned(), unknown, most })
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.first.find(token.as_bytes()).or_else(|| self.rest.find(token.strip_prefix(&self.prefix)?.as_bytes()))
    }

    fn encode(&self, word: &str, ids: &mut Vec<u32>) {
        let begin = ids.len();
        let is_long = word.len() > self.most && word.chars().count() > self.most;
        let (mut at, mut trie) = (0, &self.first);
        while at < word.len() && !is_long {
            let mut longest = None;
            trie.prefixes(&word.as_bytes()[at..], |len, id| longest = Some((len, id)));
            let Some((len, id)) = longest else { break };
            ids.push(id);
            (at, trie) = (at + len, &self.rest);
        }
        if at < word.len() {
            ids.truncate(begin);
            ids.push(self.unknown);
        }
    }
}

/// Cuts a word into the tokens with the highest sum of scores (Kudo, 2018).
pub(crate) struct Unigram {
    tokens: Trie,
    /// Scores by id.
    scores: Vec<f64>,
    unknown: u32,
    unknown_score: f64,
    /// The tokens of all bytes, if unknown characters become them.
    bytes: Vec<Option<u32>>,
}

/// The score of an unknown character below that of the worst token.
const UNKNOWN_PENALTY: f64 = 10.0;

/// The best way to the end of a token.
#[derive(Clone, Copy)]
struct Way {
    score: f64,
    id: u32,
    start: u32,
}

impl Unigram {
    /// `vocab` are the tokens and their scores by id. `None` if a token is empty or there twice, a score is no finite number, or the vocabulary is too
    /// large.
    pub(crate) fn new(vocab: &[(String, f64)], unknown: u32, falls_back_to_bytes: bool) -> Option<Self> {
        let strings = vocab.iter().zip(0..).map(|((token, _), id)| (token.as_bytes(), id));
        let tokens = Trie::new(strings.clone())?;
        let is_usable = |((token, score), id): (&(String, f64), u32)| {
            score.is_finite() && !token.is_empty() && tokens.find(token.as_bytes()) == Some(id)
        };
        if vocab.get(unknown as usize).is_none() || !vocab.iter().zip(0..).all(is_usable) {
            return None;
        }
        let scores: Vec<f64> = vocab.iter().map(|(_, score)| *score).collect();
        let unknown_score = scores.iter().copied().fold(f64::INFINITY, f64::min) - UNKNOWN_PENALTY;
        let byte = |byte: u8| tokens.find(format!("<0x{byte:02X}>").as_bytes());
        let bytes = if falls_back_to_bytes { (0..=255).map(byte).collect() } else { Vec::new() };
        Some(Self { tokens, scores, unknown, unknown_score, bytes })
    }

    /// Of two ways with one score, that of the token that begins first wins.
    fn encode(&self, word: &str, ids: &mut Vec<u32>) -> Result<(), PieceFault> {
        thread_local! {
            static WAYS: RefCell<Vec<Way>> = const { RefCell::new(Vec::new()) };
        }
        const NO_WAY: Way = Way { score: 0.0, id: NONE, start: NONE };
        let len = u32::try_from(word.len()).map_err(|_| PieceFault::NoMemory(word.len()))?;
        WAYS.with_borrow_mut(|ways| {
            ways.clear();
            let space = word.len().saturating_add(1).saturating_mul(size_of::<Way>());
            ways.try_reserve(word.len() + 1).map_err(|_| PieceFault::NoMemory(space))?;
            ways.resize(word.len() + 1, NO_WAY);
            for (at, character) in word.char_indices() {
                let so_far = ways[at].score;
                let mut is_known = false;
                let mut reach = |end: usize, id: u32, score: f64| {
                    let way = &mut ways[end];
                    if way.start == NONE || score > way.score {
                        *way = Way { score, id, start: at as u32 };
                    }
                };
                self.tokens.prefixes(&word.as_bytes()[at..], |len, id| {
                    is_known |= len == character.len_utf8();
                    reach(at + len, id, self.scores[id as usize] + so_far);
                });
                if !is_known {
                    reach(at + character.len_utf8(), self.unknown, self.unknown_score + so_far);
                }
            }
            let begin = ids.len();
            let mut end = len;
            while end > 0 {
                let Way { id, mut start, .. } = ways[end as usize];
                if id != self.unknown {
                    ids.push(id);
                } else {
                    while start > 0 && ways[start as usize].id == self.unknown {
                        start = ways[start as usize].start;
                    }
                    self.push_unknown(&word[start as usize..end as usize], ids);
                }
                end = start;
            }
            ids[begin..].reverse();
            if word.len() > KEPT_WAYS {
                *ways = Vec::new();
            }
            Ok(())
        })
    }

    /// Pushes the ids of a run of unknown characters, the last one first. A run may be a token that is not the best way.
    fn push_unknown(&self, run: &str, ids: &mut Vec<u32>) {
        let byte = |byte: &u8| self.bytes.get(usize::from(*byte)).copied().flatten();
        if let Some(id) = self.tokens.find(run.as_bytes()) {
            ids.push(id);
        } else if run.as_bytes().iter().all(|other| byte(other).is_some()) {
            ids.extend(run.as_bytes().iter().rev().filter_map(byte));
        } else {
            ids.push(self.unknown);
        }
    }
}

/// Buffers for longer words, in bytes, are freed.
const KEPT_WAYS: usize = 1 << 20;
