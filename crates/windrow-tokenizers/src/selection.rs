//! Selection of the wanted documents of the inputs.
//!
//! A document is chosen by a hash of the seed, the index of its input and its number there. So the choice depends neither on other
//! documents nor on threads, and a larger share chooses a superset.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::values::NumberOrText;
#[cfg(feature = "schema")]
use crate::values::schemas::{NumberOrPercent, Shares};

/// A share of documents, from 0 to 1, exact to nine digits.
///
/// ```
/// use windrow_tokenizers::manifest::Share;
///
/// let share: Share = "2.5%".parse()?;
/// assert_eq!(share, "0.025".parse()?);
/// assert_eq!(f64::from(share), 0.025);
/// assert!("101%".parse::<Share>().is_err());
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "f64", try_from = "NumberOrText")]
pub struct Share {
    billionths: u32,
}

/// Billionths in a whole.
const WHOLE: u32 = 1_000_000_000;

/// Number of digits after the point in a billionth.
const DIGITS: usize = 9;

impl Share {
    /// True if a hash is within the share.
    fn holds(self, point: u64) -> bool {
        scaled(point) < self.billionths
    }
}

/// A hash as billionths of its range.
fn scaled(point: u64) -> u32 {
    ((u128::from(point) * u128::from(WHOLE)) >> 64) as u32
}

impl From<Share> for f64 {
    fn from(share: Share) -> Self {
        Self::from(share.billionths) / Self::from(WHOLE)
    }
}

impl TryFrom<f64> for Share {
    type Error = &'static str;

    fn try_from(share: f64) -> Result<Self, Self::Error> {
        if !(0.0..=1.0).contains(&share) {
            return Err("a share must be between 0 and 1");
        }
        Ok(Self { billionths: (share * f64::from(WHOLE)).round() as u32 })
    }
}

impl TryFrom<NumberOrText> for Share {
    type Error = &'static str;

    fn try_from(written: NumberOrText) -> Result<Self, Self::Error> {
        match written {
            NumberOrText::Number(share) => share.as_f64().unwrap_or(-1.0).try_into(),
            NumberOrText::Text(share) => share.parse(),
        }
    }
}

impl FromStr for Share {
    type Err = &'static str;

    /// Reads `0.25` or `25%`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "expected a share such as 0.01 or 1%";
        let (number, shift) = text.strip_suffix('%').map_or((text, 0), |number| (number, 2));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(fraction) || (whole.is_empty() && fraction.is_empty()) {
            return Err(WRONG);
        }
        // In a percentage, two digits before the point are after it in the share.
        let padded = format!("{whole:0>2}");
        let (whole, moved) = if shift == 0 { (padded.as_str(), "") } else { padded.split_at(padded.len() - shift) };
        let fraction = format!("{moved}{fraction}");
        let fraction = fraction.trim_end_matches('0');
        if fraction.len() > DIGITS {
            return Err("a share can have at most nine digits after the decimal point (seven as a percentage)");
        }
        let whole = if whole.is_empty() { Ok(0) } else { whole.parse::<u64>() };
        let billionths: u64 = format!("{fraction:0<DIGITS$}").parse().map_err(|_| WRONG)?;
        let billionths = whole.ok().and_then(|whole| whole.checked_mul(WHOLE.into())?.checked_add(billionths));
        match billionths {
            Some(billionths) if billionths <= WHOLE.into() => Ok(Self { billionths: billionths as u32 }),
            _ => Err("a share must be at most 1, or 100%"),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f64::from(*self).fmt(f)
    }
}

/// Selection of the wanted documents. The default selects all.
///
/// ```
/// use windrow_tokenizers::encode::{Job, encode};
/// # use windrow_tokenizers::input::{Format, InputFile};
/// use windrow_tokenizers::manifest::Selection;
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
/// # let directory = tempfile::tempdir()?;
/// # let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
/// # let corpus = InputFile::from_reader("memory", &b"one\ntwo\nthree\n"[..], Format::Lines, None);
/// # let output = Output::create(&OutputOptions::new(directory.path().join("corpus"), tokenizer.vocab_size()))?;
///
/// let mut job = Job::new(vec![corpus]);
/// job.reading.selection = Selection { limit: std::num::NonZero::new(2), ..Selection::default() };
/// let summary = encode(job, &tokenizer, output, &())?;
/// assert_eq!((summary.documents.written, summary.is_limited), (2, true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Selection {
    /// Stop after the N-th good document; the rest is not read.
    #[cfg_attr(feature = "command", arg(long, value_name = "N"))]
    pub limit: Option<NonZeroU64>,

    /// Encode a share of the documents, such as 0.01 or 1%, chosen by a hash of the seed, the input and the document's number in it.
    #[cfg_attr(feature = "schema", schemars(with = "NumberOrPercent"))]
    #[cfg_attr(feature = "command", arg(long, value_name = "P|P%"))]
    pub sample: Option<Share>,

    /// Divide the documents by a hash: with train=0.98,val=0.02 into OUT.train.bin and OUT.val.bin. The shares must add up to 1.
    #[serde(deserialize_with = "parts")]
    #[cfg_attr(feature = "schema", schemars(with = "Shares"))]
    #[cfg_attr(feature = "command", arg(long, value_name = "NAME=P,...", value_delimiter = ','))]
    pub split: Vec<PartShare>,

    /// Shuffle the documents, with this number as the seed. They are spilled to the disk of OUT if they do not fit in --memory.
    #[cfg_attr(feature = "command", arg(long, value_name = "SEED"))]
    pub shuffle: Option<u64>,

    /// Seed for --sample and the parts of --split: a different number chooses different documents [default: 0].
    #[cfg_attr(feature = "command", arg(long, value_name = "S"))]
    pub seed: Option<u64>,
}

/// A part of an output, and its share of the documents.
///
/// ```
/// use windrow_tokenizers::manifest::{PartShare, Selection};
///
/// let part = |name: &str, share: &str| share.parse().map(|share| PartShare { name: name.to_owned(), share });
/// let mut selection = Selection { split: vec![part("train", "90%")?], ..Selection::default() };
/// assert!(!selection.is_whole());
/// selection.split.push(part("test", "10%")?);
/// assert!(selection.is_whole());
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartShare {
    /// Its name, which is part of the names of its files.
    pub name: String,
    /// The share of the documents that belong to it.
    pub share: Share,
}

impl FromStr for PartShare {
    type Err = String;

    /// Reads `train=0.98`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, share) = text.split_once('=').ok_or("expected a name and a share, such as train=0.98")?;
        Ok(Self { name: name.to_owned(), share: share.parse::<Share>().map_err(str::to_owned)? })
    }
}

/// Reads parts and their shares: an object with a share by name, or a list of objects with a name and a share.
fn parts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PartShare>, D::Error> {
    struct Parts;

    impl<'de> Visitor<'de> for Parts {
        type Value = Vec<PartShare>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("shares by name, such as {\"train\": 0.98, \"val\": 0.02}")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(items))
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut parts = Vec::new();
            while let Some((name, share)) = map.next_entry()? {
                parts.push(PartShare { name, share });
            }
            Ok(parts)
        }
    }

    deserializer.deserialize_any(Parts)
}

/// Constants that separate the purposes of hashes.
const SAMPLE: u64 = 0x5341_4d50_4c45;
const SPLIT: u64 = 0x53_504c_4954;
const SHUFFLE: u64 = 0x53_4855_4646_4c45;

impl Selection {
    /// True if some documents are deselected.
    pub(crate) fn leaves_out(&self) -> bool {
        self.sample.is_some()
    }

    /// True if the document with this number, from 1, in the input with this index is chosen.
    pub(crate) fn chooses(&self, file: u32, number: u64) -> bool {
        self.sample.is_none_or(|share| share.holds(self.hash(SAMPLE, file, number)))
    }

    /// The index of the part for the document with this number, from 1, in the input with this index.
    pub(crate) fn part_of(&self, file: u32, number: u64) -> usize {
        if self.split.is_empty() {
            return 0;
        }
        let point = scaled(self.hash(SPLIT, file, number));
        let mut end = 0;
        let is_beyond = |part: &&PartShare| {
            end += part.share.billionths;
            point >= end
        };
        self.split.iter().take_while(is_beyond).count().min(self.split.len() - 1)
    }

    /// True if the shares of the parts add up to 1.
    pub fn is_whole(&self) -> bool {
        let sum: u64 = self.split.iter().map(|part| u64::from(part.share.billionths)).sum();
        self.split.is_empty() || sum == u64::from(WHOLE)
    }

    /// The sort key of a document in a shuffled output.
    pub(crate) fn key_of(&self, file: u32, number: u64) -> u64 {
        hash(self.shuffle.unwrap_or(0), SHUFFLE, file, number)
    }

    fn hash(&self, purpose: u64, file: u32, number: u64) -> u64 {
        hash(self.seed.unwrap_or(0), purpose, file, number)
    }
}

fn hash(seed: u64, purpose: u64, file: u32, number: u64) -> u64 {
    [purpose, file.into(), number].into_iter().fold(mixed(seed), |hash, next| mixed(hash ^ next))
}

/// A step of SplitMix64: each bit of the result depends on all bits of `state`.
fn mixed(state: u64) -> u64 {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(text: &str) -> Result<u32, &'static str> {
        text.parse::<Share>().map(|share| share.billionths)
    }

    #[test]
    fn shares_are_exact() {
        for (text, billionths) in [
            ("0", 0),
            ("1", WHOLE),
            ("1.0", WHOLE),
            ("100%", WHOLE),
            ("100.000%", WHOLE),
            ("0.98", 980_000_000),
            (".5", 500_000_000),
            ("5.%", 50_000_000),
            ("12.5%", 125_000_000),
            ("0.000000001", 1),
            ("0.0000001%", 1),
            ("007%", 70_000_000),
        ] {
            assert_eq!(share(text), Ok(billionths), "{text}");
            let whole: Share = text.parse().unwrap();
            assert_eq!(Share::try_from(f64::from(whole)), Ok(whole), "{text}");
        }
        for text in ["", "%", ".", ".%", "-1", "+0.1", "1e-3", "1.1", "101%", "0.0000000001", "0.00000001%", "a", "0x1"]
        {
            assert!(share(text).is_err(), "{text}");
        }
        assert!(share("99999999999999999999999").is_err());
        let read = serde_json::from_str::<Share>;
        assert_eq!(read("0.01").unwrap(), read("\"1%\"").unwrap());
        for json in ["-0.1", "1.1", "\"1.1\"", "null"] {
            assert!(read(json).is_err(), "{json}");
        }
    }

    #[test]
    fn a_larger_share_chooses_a_superset_of_its_size() {
        let chosen = |share: &str, seed| -> Vec<(u32, u64)> {
            let selection =
                Selection { sample: Some(share.parse().unwrap()), seed: Some(seed), ..Selection::default() };
            let all = (0..10).flat_map(|file| (1..=10_000).map(move |number| (file, number)));
            all.filter(|&(file, number)| selection.chooses(file, number)).collect()
        };
        assert_eq!(chosen("0", 1).len(), 0);
        assert_eq!(chosen("100%", 1).len(), 100_000);
        for seed in 0..5 {
            let (small, large) = (chosen("1%", seed), chosen("0.3", seed));
            assert!(small.iter().all(|document| large.contains(document)));
            // Five standard deviations.
            assert!(small.len().abs_diff(1_000) < 160 && large.len().abs_diff(30_000) < 730, "{seed}");
            for file in 0..10 {
                let of_file = large.iter().filter(|&&(other, _)| other == file).count();
                assert!(of_file.abs_diff(3_000) < 230, "{seed}: {of_file} of file {file}");
            }
        }
        assert_ne!(chosen("1%", 0), chosen("1%", 1));
    }

    #[test]
    fn parts_have_their_shares() {
        let part = |share: &str| PartShare { name: share.to_owned(), share: share.parse().unwrap() };
        let counts = |shares: &[&str]| {
            let split = shares.iter().map(|share| part(share)).collect();
            let selection = Selection { split, seed: Some(9), ..Selection::default() };
            let mut counts = vec![0_usize; shares.len()];
            (1..=100_000).for_each(|number| counts[selection.part_of(3, number)] += 1);
            (selection.is_whole(), counts)
        };
        let (is_whole, found) = counts(&["0.9", "7%", "0", "0.03"]);
        assert!(is_whole);
        for (found, expected) in found.into_iter().zip([90_000, 7_000, 0, 3_000_usize]) {
            assert!(found.abs_diff(expected) < 500, "{found} of {expected}");
        }
        assert_eq!(counts(&["1"]), (true, vec![100_000]));
        assert_eq!(counts(&["0", "1", "0"]), (true, vec![0, 100_000, 0]));
        assert!(!counts(&["0.5", "0.499999999"]).0 && !counts(&["1", "0.000000001"]).0);
    }
}
