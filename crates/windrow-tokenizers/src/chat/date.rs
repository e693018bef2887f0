//! A day, and how Python's `strftime` writes it.

use std::fmt;
use std::str::FromStr;

/// A day of the Gregorian calendar: `2024-07-26`.
///
/// ```
/// use windrow_tokenizers::chat::Date;
///
/// let date: Date = "2024-02-29".parse()?;
/// assert_eq!(date.to_string(), "2024-02-29");
/// assert!("2023-02-29".parse::<Date>().is_err(), "2023 is not a leap year");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

impl Date {
    fn is_leap(self) -> bool {
        self.year.is_multiple_of(4) && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400))
    }

    /// The days of its months.
    fn months(self) -> [u16; 12] {
        [31, if self.is_leap() { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    }

    /// The day of the year, from 1.
    fn of_year(self) -> u16 {
        self.months()[..usize::from(self.month) - 1].iter().sum::<u16>() + u16::from(self.day)
    }

    /// The day of the week, 0 for Sunday.
    fn of_week(self) -> usize {
        let before = usize::from(self.year) - 1;
        (before + before / 4 - before / 100 + before / 400 + usize::from(self.of_year())) % 7
    }

    /// The day, at midnight, in a format of `strftime`; the first directive that is not supported if there is one.
    pub(super) fn format(self, format: &str) -> Result<String, String> {
        let mut text = String::new();
        let mut rest = format.chars();
        while let Some(next) = rest.next() {
            if next != '%' {
                text.push(next);
                continue;
            }
            let directive = rest.next();
            let (directive, is_short) = if directive == Some('-') { (rest.next(), true) } else { (directive, false) };
            let two = |number: u16| if is_short { number.to_string() } else { format!("{number:02}") };
            let (year, month, day) = (self.year, u16::from(self.month), u16::from(self.day));
            let part = match directive {
                Some('Y') => format!("{year:04}"),
                Some('y') => two(year % 100),
                Some('m') => two(month),
                Some('d') => two(day),
                Some('e') => format!("{day:2}"),
                Some('j') => format!("{:03}", self.of_year()),
                Some('B') => MONTHS[usize::from(month) - 1].to_owned(),
                Some('b' | 'h') => MONTHS[usize::from(month) - 1][..3].to_owned(),
                Some('A') => DAYS[self.of_week()].to_owned(),
                Some('a') => DAYS[self.of_week()][..3].to_owned(),
                Some('w') => self.of_week().to_string(),
                Some('F') => self.to_string(),
                Some('H' | 'M' | 'S') => two(0),
                Some('I') => "12".to_owned(),
                Some('p') => "AM".to_owned(),
                Some('T') => "00:00:00".to_owned(),
                Some('%') => "%".to_owned(),
                Some(other) => return Err(format!("%{other}")),
                None => return Err("%".to_owned()),
            };
            text.push_str(&part);
        }
        Ok(text)
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl FromStr for Date {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let mut parts = text.split('-');
            let mut next = |digits| {
                let part = parts.next().filter(|part| part.len() == digits)?;
                part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse::<u16>().ok())?
            };
            let (year, month, day) = (next(4)?, next(2)?, next(2)?);
            let date = Self { year, month: u8::try_from(month).ok()?, day: u8::try_from(day).ok()? };
            let is_day = year > 0 && (1..=12).contains(&month) && parts.next().is_none();
            (is_day && (1..=date.months()[usize::from(month) - 1]).contains(&day)).then_some(date)
        };
        parse().ok_or_else(|| "give a day as 2024-07-26".to_owned())
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
        assert_eq!(written("1900-03-01", "%j %A"), Ok("060 Thursday".to_owned()));
        assert_eq!(written("2024-07-26", "%Z"), Err("%Z".to_owned()));
        for bad in ["", "2024", "2024-7-26", "2024-13-01", "2023-02-29", "2024-02-30", "0000-01-01", "2024-07-26-1"] {
            assert!(bad.parse::<Date>().is_err(), "{bad}");
        }
    }
}
