//! Reads the rank files of tiktoken: a line for each token, with its bytes in base64 and its rank.
//!
//! A rank file has neither the pattern that splits text nor the special tokens. So only the published files are accepted, whatever their names: a
//! file must have the tokens of a vocabulary that windrow knows, all of them. That also finds files that were cut off.

use std::collections::HashMap;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::embedded::{self, Embedded};
use super::fault::Fault;
use crate::counted;
use crate::diagnose::FIRST;

/// Maximum number of tokens. The largest published file has 199,998.
const MAX_TOKENS: usize = 1 << 22;

/// True if a file begins with a line of a rank file.
pub(super) fn is_likely(file: &[u8]) -> bool {
    let line = file[..file.len().min(FIRST)].split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii_end();
    let Some((token, rank)) = str::from_utf8(line).ok().and_then(|line| line.split_once(' ')) else { return false };
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    !token.is_empty() && token.len() % 4 == 0 && token.bytes().all(is_base64) && rank.parse::<u32>().is_ok()
}

/// The vocabulary of a file. Its path is for messages.
pub(super) fn read(file: &[u8], path: &Path) -> Result<Embedded, Fault> {
    let tokens = parse(file)?;
    let unknown = |reason| {
        let hint = format!(
            "windrow knows only the rank files of {}; for another model, use its tokenizer.json",
            embedded::NAMES
        );
        Fault::new("", reason, hint)
    };
    for embedded in embedded::ALL {
        if embedded.tokens().map_err(|error| unknown(error.to_string()))? == tokens {
            return Ok(embedded);
        }
    }
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    if embedded::find(stem).is_some() {
        let number = counted(tokens.len() as u64, "token");
        let reason = format!("it has {number}, but the tokens are not those of the published {stem}");
        return Err(Fault::new("", reason, "download the file again; a modified vocabulary needs a tokenizer.json"));
    }
    Err(unknown("not one of the published rank files, so its pattern and special tokens are unknown".to_owned()))
}

/// The tokens, ordered by their ranks.
fn parse(file: &[u8]) -> Result<Vec<(Vec<u8>, u32)>, Fault> {
    const HINT: &str = "each line must consist of a token in base64, a space and a rank; download the file again";
    let mut tokens = Vec::new();
    let mut numbers: HashMap<u32, usize> = HashMap::new();
    for (line, number) in file.split(|&byte| byte == b'\n').zip(1..) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let fault = |reason: String| Fault::new(format!("line {number}"), reason, HINT);
        if tokens.len() == MAX_TOKENS {
            return Err(fault(format!("there are more than {MAX_TOKENS} tokens")));
        }
        let space = line.iter().position(|&byte| byte == b' ');
        let (token, rank) = line.split_at(space.ok_or_else(|| fault("there is no space".to_owned()))?);
        let token = STANDARD.decode(token).map_err(|_| fault("the token is not in base64".to_owned()))?;
        if token.is_empty() {
            return Err(fault("the token is empty".to_owned()));
        }
        let digits = str::from_utf8(&rank[1..]).ok().filter(|rank| rank.bytes().all(|byte| byte.is_ascii_digit()));
        let rank: u32 = digits
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| fault(format!("the rank is not a whole number from 0 to {}", u32::MAX)))?;
        if let Some(other) = numbers.insert(rank, number) {
            return Err(fault(format!("rank {rank} is already used on line {other}")));
        }
        tokens.push((token, rank));
    }
    if tokens.is_empty() {
        return Err(Fault::new("", "the file is empty", HINT));
    }
    tokens.sort_unstable_by_key(|&(_, rank)| rank);
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_strictly() {
        for (text, bytes) in
            [("", &b""[..]), ("IQ==", b"!"), ("ICA=", b"  "), ("AP+/", b"\x00\xff\xbf"), ("ICAgIA==", b"    ")]
        {
            assert_eq!(STANDARD.decode(text).as_deref(), Ok(bytes), "{text}");
        }
        for text in ["I", "IQ", "IQ=", "IR==", "ICB=", "I===", "====", "IQ==IQ==", "I Q=", "IQ=A", "IQ\u{e9}="] {
            assert!(STANDARD.decode(text).is_err(), "{text}");
        }
    }
}
