//! Values that people write: sizes, thread counts, tokens. JSON has them as numbers, or as the command's text.

use std::fmt;
use std::str::FromStr;
use std::thread;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Number;

/// A number of bytes, as a number or with a unit: `K`, `M`, `G`, `T` and `KiB`, ... are powers of 1024, `KB`, ... of 1000. It is never 0.
///
/// ```
/// use windrow_tokenizers::run::Size;
///
/// assert_eq!("2KiB".parse::<Size>()?, Size::new(2048).unwrap());
/// assert!("0".parse::<Size>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Size(usize);

impl Size {
    /// A number of bytes; `None` for 0.
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
                    "a size is a whole number with an optional unit (K, M, G, T, KiB, KB, ...), such as 512M".into()
                );
            }
        };
        let number: usize = number.parse().map_err(|_| "a size must begin with a whole number, as in 512M")?;
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
    /// Limit of thread counts. A larger number is a typing error.
    const MOST: usize = 1023;

    /// One thread.
    pub const ONE: Self = Self(1);

    /// The number; 0 for `auto`.
    pub fn number(self) -> usize {
        self.0
    }

    /// The number of worker threads.
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
            _ => Err(format!("expected `auto` or a number from 1 to {}", Self::MOST)),
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenName(String);

impl TokenName {
    /// The text, or the digits of the id.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id, if the token is given by its id.
    pub fn id(&self) -> Option<u32> {
        self.0.parse().ok().filter(|id: &u32| id.to_string() == self.0)
    }
}

impl From<u32> for TokenName {
    fn from(id: u32) -> Self {
        Self(id.to_string())
    }
}

impl Serialize for TokenName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.id() {
            Some(id) => id.serialize(serializer),
            None => self.0.serialize(serializer),
        }
    }
}

impl FromStr for TokenName {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number or a string")]
pub(crate) enum NumberOrText {
    Number(Number),
    Text(String),
}

impl NumberOrText {
    pub(crate) fn parse<T: FromStr<Err: fmt::Display>, E: Error>(self) -> Result<T, E> {
        let text = match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text,
        };
        text.parse().map_err(|error| E::custom(format_args!("{text:?}: {error}")))
    }
}

/// Reads a value from its text, or from a number whose digits are that text.
pub(crate) fn number_or_text<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    NumberOrText::deserialize(deserializer)?.parse()
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

deserialize_number_or_text!(Size, Threads, TokenName);

/// Reads a list of strings. A single string is a list of one.
pub(crate) fn one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected one or more strings")]
    enum Strings {
        One(String),
        Several(Vec<String>),
    }
    Ok(match Strings::deserialize(deserializer)? {
        Strings::One(string) => vec![string],
        Strings::Several(strings) => strings,
    })
}

/// Reads extensions.
pub(crate) fn extensions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let names = one_or_several(deserializer)?;
    names.iter().map(|name| extension(name).map_err(|why| D::Error::custom(format_args!("{name:?}: {why}")))).collect()
}

/// An extension, normalized for comparisons: in lower case, without a dot.
pub(crate) fn extension(text: &str) -> Result<String, String> {
    match text.strip_prefix('.').unwrap_or(text) {
        "" => Err("an extension is missing".into()),
        "gz" | "zst" | "zstd" | "xz" | "bz2" => Err("this is a compression format, not a kind of text".into()),
        name if name.contains(['/', '.', '*']) => Err("pass only the last part of the extension, such as rs".into()),
        name => Ok(name.to_ascii_lowercase()),
    }
}

/// Schemas of values with several forms in JSON.
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

    /// A string or several strings.
    pub(crate) struct Strings;

    /// A number of documents, or a share in percent.
    pub(crate) struct CountOrPercent;

    /// A share.
    pub(crate) struct NumberOrPercent;

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
        CountOrPercent, "CountOrPercent", {"type": ["integer", "string"]};
        NumberOrPercent, "NumberOrPercent", {"type": ["number", "string"]};
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
