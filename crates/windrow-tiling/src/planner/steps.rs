//! How the numbers of a plan come about: the pieces of its fits, and the steps of the short-long rule.

use std::fmt;

use crate::Rows;
use crate::cost::Piece;
use crate::tile::{GUIDE_FACTOR, ShortLong};
use serde::Serialize;

/// A piece of a fit in microseconds: `t = a + b m + c m^2`, from some rows on.
#[derive(Serialize)]
pub(super) struct Polynomial {
    from: u64,
    a_us: f64,
    b_us: f64,
    c_us: f64,
}

impl Polynomial {
    pub(super) fn of(piece: &Piece<Rows>) -> Self {
        let [a_us, b_us, c_us] = piece.coefficients().map(|nanos| nanos / 1e3);
        Self { from: piece.from.0, a_us, b_us, c_us }
    }
}

impl fmt::Display for Polynomial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, a_us, b_us, c_us } = self;
        write!(f, "t = {}", digits(*a_us))?;
        for (factor, power) in [(b_us, "m"), (c_us, "m^2")] {
            let sign = if *factor < 0.0 { '-' } else { '+' };
            if *factor != 0.0 {
                write!(f, " {sign} {} {power}", digits(factor.abs()))?;
            }
        }
        write!(f, " us from m = {from} on")
    }
}

/// A number with six digits, without an exponent as long as twelve places after the point show them.
fn digits(number: f64) -> String {
    const DIGITS: f64 = 6.0;
    const PLACES: f64 = 12.0;
    let places = DIGITS - 1.0 - number.abs().log10().floor();
    match number {
        0.0 => "0".to_owned(),
        _ if places > PLACES => format!("{number:.5e}"),
        _ => format!("{number:.*}", places.max(0.0) as usize),
    }
}

/// The steps of the short-long rule. Those after the thresholds are null if the operation is too short for the rule.
#[derive(Serialize)]
pub(super) struct Rule {
    limit: String,
    thresholds: [u64; 3],
    factor: f64,
    steps: Option<Numbers>,
    tiles: Vec<u64>,
}

#[derive(Serialize)]
struct Numbers {
    short: u64,
    time_us: f64,
    expanded_us: f64,
    balanced: u64,
    long: u64,
    ratio: f64,
    count: u64,
    even: u64,
    long_tile: u64,
    short_tile: u64,
}

impl Rule {
    pub(super) fn of(rule: &ShortLong) -> Self {
        let steps = rule.steps.as_ref().map(|steps| Numbers {
            short: steps.short.0,
            time_us: steps.time.as_micros(),
            expanded_us: steps.expanded.as_micros(),
            balanced: steps.balanced.0,
            long: steps.long.0,
            ratio: steps.ratio,
            count: steps.count,
            even: steps.even.0,
            long_tile: steps.long_tile.0,
            short_tile: steps.short_tile.0,
        });
        Self {
            limit: rule.limit.to_string(),
            thresholds: rule.thresholds.map(|rows| rows.0),
            factor: GUIDE_FACTOR,
            steps,
            tiles: rule.tiles.iter().map(|tile| tile.0).collect(),
        }
    }
}

/// The steps of the short-long rule for `m` rows, a line each.
pub(super) fn text(rule: &ShortLong, m: u64) -> Vec<String> {
    let Rule { limit, thresholds: [a, b, c], factor, steps, .. } = Rule::of(rule);
    let short = a.max(b).max(c);
    let first = format!("  short-long rule: {limit} is the bottleneck, m0 = max({a}, {b}, {c}) = {short}");
    let Some(Numbers { time_us, expanded_us, balanced, long, ratio, count, even, long_tile, short_tile, .. }) = steps
    else {
        return vec![format!("{first}; m = {m} is too small for a short and a long tile")];
    };
    vec![
        first,
        format!("    {limit} of {short} rows takes {time_us:.1} us; times {factor} = {expanded_us:.1} us"),
        format!("    the other lane takes {expanded_us:.1} us for m1 = {balanced}, aligned to {long}"),
        format!("    count = ({m} - {short}) / {long} = {ratio:.2}, rounded down to {count}"),
        format!("    m1 = ({m} - {short}) / {count} = {even}, aligned to {long_tile}"),
        format!("    m0 = {m} - {count} x {long_tile} = {short_tile}: {}", rule.tiles),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_six_digits() {
        let shown = [0.0, 14.769, 0.42284777, -0.000_236_772, 123_456_789.0, 2.5e-9].map(digits);
        assert_eq!(shown, ["0", "14.7690", "0.422848", "-0.000236772", "123456789", "2.50000e-9"]);
    }

    #[test]
    fn pieces_are_shown_as_polynomials() {
        let shown = |from, c: [f64; 3]| Polynomial::of(&Piece::polynomial(Rows(from), c)).to_string();
        assert_eq!(shown(0, [0.0, 196.08, 0.0]), "t = 0 + 0.196080 m us from m = 0 on");
        assert_eq!(shown(512, [14e3, 500.0, -0.25]), "t = 14.0000 + 0.500000 m - 0.000250000 m^2 us from m = 512 on");
        assert_eq!(shown(0, [7e3, 0.0, 0.0]), "t = 7.00000 us from m = 0 on");
    }
}
