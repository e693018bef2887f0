//! Sizes and counts on the command line.

use windrow_tokenizers::encode::MaxSkipped;
use windrow_tokenizers::manifest::{PartShare, Share};

/// Maximum number of threads; a larger number is a typing error.
const MOST_THREADS: usize = 1023;

/// Bytes: a number with an optional unit. `K`, `M`, `G`, `T` and `KiB`, ... are powers of 1024, `KB`, ... of 1000.
pub(crate) fn bytes(text: &str) -> Result<usize, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let (base, letter) = match unit.strip_suffix("ib").or_else(|| unit.strip_suffix('b').filter(|rest| rest.is_empty()))
    {
        Some(letter) => (1024_usize, letter),
        None => unit.strip_suffix('b').map_or((1024, unit.as_str()), |letter| (1000, letter)),
    };
    let power = match letter {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return Err("a size is a number with one of the units K, M, G, T (or KiB, KB, ...), such as 512M".into()),
    };
    let number: usize = number.parse().map_err(|_| "a size begins with a whole number, such as 512M")?;
    if number == 0 {
        return Err("a size must not be 0".into());
    }
    base.checked_pow(power).and_then(|unit| unit.checked_mul(number)).ok_or_else(|| "this size is too large".into())
}

/// A number of threads, or 0 for `auto`: as many as the CPU affinity and the quota of this process allow.
pub(crate) fn threads(text: &str) -> Result<usize, String> {
    if text == "auto" {
        return Ok(0);
    }
    match text.parse() {
        Ok(threads @ 1..=MOST_THREADS) => Ok(threads),
        _ => Err(format!("give `auto` or a number from 1 to {MOST_THREADS}")),
    }
}

/// A number of documents, or a share of them in percent.
pub(crate) fn most_skipped(text: &str) -> Result<MaxSkipped, String> {
    let wrong = || "give a number such as 100, or a share such as 0.5%".to_owned();
    match text.strip_suffix('%') {
        // `parse` alone would accept `inf`, `1e9` and signs.
        Some(share) if share.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => {
            let share: f64 = share.parse().map_err(|_| wrong())?;
            if share <= 100.0 { Ok(MaxSkipped::Percent(share)) } else { Err("a share is at most 100%".to_owned()) }
        }
        Some(_) => Err(wrong()),
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.parse().map(MaxSkipped::Documents).map_err(|_| wrong())
        }
        None => Err(wrong()),
    }
}

/// A share of the documents.
pub(crate) fn share(text: &str) -> Result<Share, String> {
    text.parse().map_err(str::to_owned)
}

/// A part of the output, and its share of the documents.
pub(crate) fn part(text: &str) -> Result<PartShare, String> {
    let (name, of) = text.split_once('=').ok_or("give a name and a share, such as train=0.98")?;
    Ok(PartShare { name: name.to_owned(), share: share(of)? })
}

/// A number of things.
pub(crate) fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Bytes in decimal units, like rates.
pub(crate) fn decimal(bytes: u64) -> String {
    match bytes {
        0..1_000 => counted(bytes, "byte"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_decimal_units() {
        assert_eq!(decimal(0), "0 bytes");
        assert_eq!(decimal(1), "1 byte");
        assert_eq!(decimal(999), "999 bytes");
        assert_eq!(decimal(1_500), "1.5 kB");
        assert_eq!(decimal(6_488_666), "6.5 MB");
        assert_eq!(decimal(12_340_000_000), "12.34 GB");
    }

    #[test]
    fn numbers_and_shares_of_bad_documents() {
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
        for (text, bytes_of) in [
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
            assert_eq!(bytes(text), Ok(bytes_of), "{text}");
        }
        for text in ["", "G", "-1", "0", "0K", "1X", "1.5G", "1GG", "1Gi", "99999999999999999999", "99999999999T"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_of_threads() {
        assert_eq!(threads("1"), Ok(1));
        assert_eq!(threads("1023"), Ok(1023));
        assert_eq!(threads("auto"), Ok(0));
        for text in ["", "0", "-1", "1024", "two", "AUTO", "1.0"] {
            assert!(threads(text).is_err(), "{text}");
        }
    }
}
