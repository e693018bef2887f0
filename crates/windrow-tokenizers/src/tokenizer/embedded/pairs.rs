//! The pairs that make up the tokens of a rank file. `examples/vocabularies.rs` stores them for the embedded vocabularies.

use std::collections::HashMap;

/// Tokens of `p50k_base` after those of `r50k_base`: runs of 2 to 25 spaces. The id between is that of `<|endoftext|>`.
const SPACES: std::ops::RangeInclusive<usize> = 2..=25;
const FIRST_SPACES: u32 = 50_257;

pub(super) fn runs_of_spaces() -> Vec<(Vec<u8>, u32)> {
    SPACES.map(|len| vec![b' '; len]).zip(FIRST_SPACES..).collect()
}

/// A token, the length of the left half of its pair (0 for a single byte), and its id.
type PairedToken<'a> = (&'a [u8], u8, u32);

/// Adds tokens to those of lower rank.
pub(super) fn with_more<'a>(
    mut tokens: Vec<PairedToken<'a>>,
    more: &'a [(Vec<u8>, u32)],
) -> Result<Vec<PairedToken<'a>>, String> {
    let known = tokens.iter().map(|&(token, _, id)| (token, id));
    let ranks: HashMap<&[u8], u32> = match more {
        [] => return Ok(tokens),
        more => known.chain(more.iter().map(|(token, id)| (token.as_slice(), *id))).collect(),
    };
    for (token, id) in more {
        let left = last_pair(token, *id, &ranks)?.unwrap_or(0);
        tokens.push((token, u8::try_from(left).map_err(|error| error.to_string())?, *id));
    }
    Ok(tokens)
}

/// The place where the last merge of a token joins its two halves; `None` for a single byte.
///
/// A rank file orders tokens; a `tokenizer.json` orders pairs. The pair of a token is the last pair left when byte pair encoding runs on the
/// token's bytes with lower ranks only. One pair per token is enough. Inside the bytes of a token nothing depends on the text around it, so every
/// text reaches the same pair.
pub(super) fn last_pair(token: &[u8], rank: u32, ranks: &HashMap<&[u8], u32>) -> Result<Option<usize>, String> {
    if token.len() == 1 {
        return Ok(None);
    }
    let lower = |from: usize, to: usize| ranks.get(&token[from..to]).copied().filter(|&other| other < rank);
    // Part i is token[starts[i]..starts[i + 1]], and joined[i] the rank of parts i and i + 1 together.
    let mut starts: Vec<usize> = (0..=token.len()).collect();
    let mut joined: Vec<Option<u32>> = starts.windows(3).map(|part| lower(part[0], part[2])).collect();
    while let Some((at, _)) =
        joined.iter().enumerate().filter_map(|(at, rank)| Some((at, (*rank)?))).min_by_key(|&(_, rank)| rank)
    {
        starts.remove(at + 1);
        joined.remove(at);
        if at < joined.len() {
            joined[at] = lower(starts[at], starts[at + 2]);
        }
        if at > 0 {
            joined[at - 1] = lower(starts[at - 1], starts[at + 1]);
        }
    }
    match starts[..] {
        [_, middle, _] => Ok(Some(middle)),
        _ => Err(format!("the token of rank {rank} is not the concatenation of two tokens of lower rank")),
    }
}
