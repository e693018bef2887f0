//! Lists of numbers of rows, as `--table-m` takes them.

use super::Unplanned;

/// Maximum number of rows that a table is made for: a plan takes milliseconds.
const MOST: usize = 4096;

/// A list of numbers of rows and ranges of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spans(Vec<Span>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    from: u64,
    to: u64,
    /// The alignment if not given.
    step: Option<u64>,
}

impl Spans {
    /// Reads a list such as `512,1024..8192`.
    ///
    /// # Errors
    /// Says what a list is.
    pub fn parse(text: &str) -> Result<Self, String> {
        let span = |text: &str| {
            let numbers: Option<Vec<u64>> =
                text.split("..").map(|number| number.trim().parse().ok().filter(|&number| number > 0)).collect();
            let (from, to, step) = match numbers?[..] {
                [one] => (one, one, None),
                [from, to] => (from, to, None),
                [from, to, step] => (from, to, Some(step)),
                _ => return None,
            };
            (from <= to).then_some(Span { from, to, step })
        };
        let spans: Option<Vec<Span>> = text.split(',').map(span).collect();
        let hint = "expected row counts and ranges, such as 512,1024..8192 or 1024..8192..512";
        spans.map(Self).ok_or_else(|| hint.to_owned())
    }

    /// The numbers, in ascending order. Ranges without a step go by `align`; their last number is always one of them.
    pub(super) fn rows(&self, align: u64) -> Result<Vec<u64>, Unplanned> {
        let mut rows = Vec::new();
        for Span { from, to, step } in &self.0 {
            let step = step.unwrap_or(align).max(1);
            // Counted first: a list of the numbers might not fit into memory.
            if (to - from) / step >= MOST as u64 || rows.len() > MOST {
                return Err(Unplanned::usage(format_args!(
                    "--table-m lists more than {MOST} row counts\nhint: pass a larger step: FROM..TO..STEP"
                )));
            }
            rows.extend((0..=(to - from) / step).map(|place| from + place * step));
            rows.push(*to);
        }
        rows.sort_unstable();
        rows.dedup();
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges_of_rows() {
        let rows = |text: &str| Spans::parse(text).unwrap().rows(128).unwrap();
        assert_eq!(rows("512"), [512]);
        assert_eq!(rows("700, 512,128..512"), [128, 256, 384, 512, 700]);
        assert_eq!(rows("100..300..100,1..2..9"), [1, 2, 100, 200, 300]);
        assert_eq!(rows("128..300"), [128, 256, 300]);
        assert_eq!(rows("1..18446744073709551615..18446744073709551615"), [1, u64::MAX]);
        for text in ["", "0", "1,", "2..1", "1..2..0", "1..2..3..4", "-1", "x", "1...2"] {
            assert!(Spans::parse(text).is_err(), "{text}");
        }
        for text in ["1..4097..1", "1..4096..1,1..4096..1,1..2..1", "1..18446744073709551615"] {
            assert!(Spans::parse(text).unwrap().rows(1).is_err(), "{text}");
        }
        assert_eq!(Spans::parse("1..4096..1").unwrap().rows(128).unwrap().len(), 4096);
    }
}
