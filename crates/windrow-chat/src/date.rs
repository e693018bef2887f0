//! A day, and its formats in Python's `strftime`.

use std::fmt::{self, Write};
use std::str::FromStr;

use chrono::{NaiveDate, NaiveTime};

/// A day of the Gregorian calendar: `2024-07-26`.
///
/// ```
/// use windrow_chat::Date;
///
/// let date: Date = "2024-02-29".parse()?;
/// assert_eq!(date.to_string(), "2024-02-29");
/// assert!("2023-02-29".parse::<Date>().is_err(), "2023 is not a leap year");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date(NaiveDate);

/// The directives that `chrono` formats exactly like Python.
const DIRECTIVES: &str = "YymdejBbhAawFHMSIpT%";

impl Date {
    /// The day, at midnight, in a format of `strftime`. An error is the first directive that is not supported.
    pub(super) fn format(self, format: &str) -> Result<String, String> {
        let mut rest = format.chars();
        while let Some(next) = rest.next() {
            if next == '%' {
                match rest.by_ref().find(|&flag| flag != '-') {
                    Some(directive) if DIRECTIVES.contains(directive) => {}
                    directive => return Err(directive.map_or_else(|| "%".to_owned(), |other| format!("%{other}"))),
                }
            }
        }
        let mut text = String::new();
        let midnight = self.0.and_time(NaiveTime::MIN);
        write!(text, "{}", midnight.format(format)).map_err(|_| format.to_owned())?;
        Ok(text)
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Date {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The parser also accepts other spellings.
        let date = text.parse().map(Self).ok().filter(|date| date.to_string() == text && !text.starts_with("0000"));
        date.ok_or_else(|| "expected a valid date in the form 2024-07-26".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_written_as_strftime_does() {
        let written = |date: &str, format: &str| date.parse::<Date>().unwrap().format(format);
        assert_eq!(written("2024-07-26", "%d %b %Y, %A"), Ok("26 Jul 2024, Friday".to_owned()));
        assert_eq!(written("2024-12-31", "%j %-d/%-m/%y %a %w %%"), Ok("366 31/12/24 Tue 2 %".to_owned()));
        assert_eq!(written("2000-03-01", "%F %T %e %B"), Ok("2000-03-01 00:00:00  1 March".to_owned()));
        assert_eq!(written("2000-03-01", "%I %p %-H %h"), Ok("12 AM 0 Mar".to_owned()));
        assert_eq!(written("1900-03-01", "%j %A"), Ok("060 Thursday".to_owned()));
        assert_eq!(written("2024-07-26", "%Z"), Err("%Z".to_owned()));
        assert_eq!(written("2024-07-26", "100%"), Err("%".to_owned()));
        for bad in ["", "2024", "2024-7-26", "2024-13-01", "2023-02-29", "2024-02-30", "0000-01-01", "2024-07-26-1"] {
            assert!(bad.parse::<Date>().is_err(), "{bad}");
        }
    }
}
