//! Values that people write: sizes, numbers of threads, tokens. JSON has them as numbers, or as the text that the command takes.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::thread;

use serde::de::{Error, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::encode::MaxSkipped;
use crate::manifest::{PartShare, Share};

/// A number of bytes, as a number or with a unit: `K`, `M`, `G`, `T` and `KiB`, ... are powers of 1024, `KB`, ... of 1000. It is never 0.
///
/// ```
/// use windrow_tokenizers::run::Size;
///
/// assert_eq!("2KiB".parse::<Size>()?, Size::new(2048).unwrap());
/// assert!("0".parse::<Size>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(usize);

impl Size {
    /// This number of bytes; `None` for 0.
    pub const fn new(bytes: usize) -> Option<Self> {
        if bytes == 0 { None } else { Some(Self(bytes)) }
    }

    /// The number of bytes.
    pub fn bytes(self) -> usize {
        self.0
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit = unit.trim().to_ascii_lowercase();
        let (base, letter) =
            match unit.strip_suffix("ib").or_else(|| unit.strip_suffix('b').filter(|rest| rest.is_empty())) {
                Some(letter) => (1024_usize, letter),
                None => unit.strip_suffix('b').map_or((1024, unit.as_str()), |letter| (1000, letter)),
            };
        let power = match letter {
            "" => 0,
            "k" => 1,
            "m" => 2,
            "g" => 3,
            "t" => 4,
            _ => {
                return Err(
                    "a size is a number with one of the units K, M, G, T (or KiB, KB, ...), such as 512M".into()
                );
            }
        };
        let number: usize = number.parse().map_err(|_| "a size begins with a whole number, such as 512M")?;
        let bytes =
            base.checked_pow(power).and_then(|unit| unit.checked_mul(number)).ok_or("this size is too large")?;
        Self::new(bytes).ok_or_else(|| "a size must not be 0".to_owned())
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// A number of threads, or `auto`: as many as the CPU affinity and the quota of the process allow.
///
/// ```
/// use windrow_tokenizers::run::Threads;
///
/// assert_eq!("auto".parse::<Threads>()?, Threads::default());
/// assert_eq!("3".parse::<Threads>()?.number(), 3);
/// assert!("0".parse::<Threads>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Threads(usize);

impl Threads {
    /// A larger number is a typing error.
    const MOST: usize = 1023;

    /// One thread.
    pub const ONE: Self = Self(1);

    /// The number; 0 for `auto`.
    pub fn number(self) -> usize {
        self.0
    }

    /// The number of threads that work.
    pub fn workers(self) -> usize {
        if self.0 == 0 { thread::available_parallelism().map_or(1, usize::from) } else { self.0 }
    }
}

impl FromStr for Threads {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "auto" => Ok(Self(0)),
            Ok(threads @ 1..=Self::MOST) => Ok(Self(threads)),
            _ => Err(format!("give `auto` or a number from 1 to {}", Self::MOST)),
        }
    }
}

impl fmt::Display for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { f.pad("auto") } else { self.0.fmt(f) }
    }
}

impl Serialize for Threads {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 == 0 { serializer.serialize_str("auto") } else { self.0.serialize(serializer) }
    }
}

/// A token, by its text or by the number of its id.
///
/// ```
/// use windrow_tokenizers::run::TokenName;
///
/// assert_eq!("</s>".parse::<TokenName>()?.as_str(), "</s>");
/// # Ok::<(), std::convert::Infallible>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TokenName(String);

impl TokenName {
    /// The text, or the digits of the id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TokenName {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for MaxSkipped {
    type Err = String;

    /// Reads a number of documents, or a share of them in percent.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "give a number such as 100, or a share such as 0.5%".to_owned();
        match text.strip_suffix('%') {
            // `parse` alone would accept `inf`, `1e9` and signs.
            Some(share) if share.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => {
                let share: f64 = share.parse().map_err(|_| wrong())?;
                if share <= 100.0 { Ok(Self::Percent(share)) } else { Err("a share is at most 100%".to_owned()) }
            }
            Some(_) => Err(wrong()),
            None if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse().map(Self::Documents).map_err(|_| wrong())
            }
            None => Err(wrong()),
        }
    }
}

impl Serialize for MaxSkipped {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Documents(most) => most.serialize(serializer),
            Self::Percent(_) => serializer.collect_str(self),
        }
    }
}

impl FromStr for PartShare {
    type Err = String;

    /// Reads `train=0.98`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, share) = text.split_once('=').ok_or("give a name and a share, such as train=0.98")?;
        Ok(Self { name: name.to_owned(), share: share.parse::<Share>().map_err(str::to_owned)? })
    }
}

/// Reads a value from its text, or from a number whose digits are that text.
pub(crate) fn number_or_text<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    struct Written<T>(PhantomData<T>);

    impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Written<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a number or a string")
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(|error| E::custom(format_args!("{text:?}: {error}")))
        }
    }

    deserializer.deserialize_any(Written(PhantomData))
}

macro_rules! deserialize_number_or_text {
    ($($type:ty),*) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                number_or_text(deserializer)
            }
        }
    )*};
}

deserialize_number_or_text!(Size, Threads, TokenName, MaxSkipped);

/// Reads a list of strings, of which one alone is a list of one.
pub(crate) fn one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct Strings;

    impl<'de> Visitor<'de> for Strings {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string or several")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
            Ok(vec![text.to_owned()])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            let mut strings = Vec::new();
            while let Some(string) = items.next_element()? {
                strings.push(string);
            }
            Ok(strings)
        }
    }

    deserializer.deserialize_any(Strings)
}

/// Reads extensions.
pub(crate) fn extensions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let names = one_or_several(deserializer)?;
    names.iter().map(|name| extension(name).map_err(|why| D::Error::custom(format_args!("{name:?}: {why}")))).collect()
}

/// An extension in the form for comparisons: in lower case, without a dot.
pub(crate) fn extension(text: &str) -> Result<String, String> {
    match text.strip_prefix('.').unwrap_or(text) {
        "" => Err("an extension is missing".into()),
        "gz" | "zst" | "zstd" => Err("this is a compression, and no kind of text".into()),
        name if name.contains(['/', '.', '*']) => Err("give the last part of the name only, such as rs".into()),
        name => Ok(name.to_ascii_lowercase()),
    }
}

/// Reads parts and their shares: an object with a share by name, or a list of `train=0.98` or of objects with a name and a share.
pub(crate) fn parts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PartShare>, D::Error> {
    struct Parts;

    struct Part(PartShare);

    impl<'de> Deserialize<'de> for Part {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(OnePart).map(Self)
        }
    }

    struct OnePart;

    impl<'de> Visitor<'de> for OnePart {
        type Value = PartShare;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a name and a share, such as train=0.98")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<PartShare, E> {
            text.parse().map_err(|error| E::custom(format_args!("{text:?}: {error}")))
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PartShare, A::Error> {
            PartShare::deserialize(MapAccessDeserializer::new(map))
        }
    }

    impl<'de> Visitor<'de> for Parts {
        type Value = Vec<PartShare>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("shares by name, such as {\"train\": 0.98, \"val\": 0.02}")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            let mut parts = Vec::new();
            while let Some(Part(part)) = items.next_element()? {
                parts.push(part);
            }
            Ok(parts)
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

/// Schemas of values that JSON has in several forms.
#[cfg(feature = "schema")]
pub(crate) mod schemas {
    use std::borrow::Cow;

    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

    macro_rules! schemas {
        ($($type:ty, $name:literal, $schema:tt;)*) => {$(
            impl JsonSchema for $type {
                fn inline_schema() -> bool {
                    true
                }

                fn schema_name() -> Cow<'static, str> {
                    $name.into()
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    json_schema!($schema)
                }
            }
        )*};
    }

    /// A string or several.
    pub(crate) struct Strings;

    /// A share by name.
    pub(crate) struct Shares;

    /// The path of a file.
    pub(crate) struct FilePath;

    /// A day.
    pub(crate) struct Day;

    schemas! {
        super::Size, "Size", {"type": ["integer", "string"]};
        super::Threads, "Threads", {"type": ["integer", "string"]};
        super::TokenName, "TokenName", {"type": ["string", "integer"]};
        super::MaxSkipped, "MaxSkipped", {"type": ["integer", "string"]};
        super::Share, "Share", {"type": ["number", "string"]};
        Strings, "Strings", {"type": ["string", "array"], "items": {"type": "string"}};
        Shares, "Shares", {"type": "object", "additionalProperties": {"type": ["number", "string"]}};
        FilePath, "FilePath", {"type": "string", "format": "path"};
        Day, "Day", {"type": "string", "format": "date"};
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_shares_of_bad_documents() {
        let most_skipped = str::parse::<MaxSkipped>;
        assert_eq!(most_skipped("0"), Ok(MaxSkipped::Documents(0)));
        assert_eq!(most_skipped("100"), Ok(MaxSkipped::Documents(100)));
        assert_eq!(most_skipped("0.5%"), Ok(MaxSkipped::Percent(0.5)));
        assert_eq!(most_skipped("100%"), Ok(MaxSkipped::Percent(100.0)));
        for text in ["", "%", ".%", "-1", "+1", "1.5", "101%", "inf%", "1e2%", "many", "99999999999999999999"] {
            assert!(most_skipped(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("1", 1),
            ("1b", 1),
            ("2k", 2 << 10),
            ("2K", 2 << 10),
            ("2KB", 2_000),
            ("2kb", 2_000),
            ("2KiB", 2 << 10),
            ("3M", 3 << 20),
            ("3MiB", 3 << 20),
            ("3 MB", 3_000_000),
            ("1G", 1 << 30),
            ("1GiB", 1 << 30),
            ("1T", 1 << 40),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in ["", "G", "-1", "0", "0K", "1X", "1.5G", "1GG", "1Gi", "99999999999999999999", "99999999999T"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_of_threads() {
        assert_eq!("1".parse(), Ok(Threads::ONE));
        assert_eq!("1023".parse(), Ok(Threads(1023)));
        assert_eq!("auto".parse(), Ok(Threads::default()));
        for text in ["", "0", "-1", "1024", "two", "AUTO", "1.0"] {
            assert!(text.parse::<Threads>().is_err(), "{text}");
        }
    }
}
