//! Drawings: axes, scales and marks of inline SVG. Colours come from classes, so that the page's style sheet knows both colour schemes.

use std::fmt::{Display, Write};

/// Text inside an element or an attribute.
pub(crate) fn escaped(text: impl Display) -> String {
    let text = text.to_string();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A drawing of a fixed size in its own units, which a browser scales to the width of its place.
pub(crate) struct Svg {
    width: f64,
    class: &'static str,
    label: String,
    body: String,
}

/// The position of a text relative to its point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// A drawing that screen readers call `label`.
    pub(crate) fn new(width: f64, class: &'static str, label: impl Into<String>) -> Self {
        Self { width, class, label: label.into(), body: String::new() }
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        writeln!(self.body, "{element}").expect("a string takes everything");
    }

    pub(crate) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: impl Display) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        self.add(format_args!(r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" class="{class}">{text}</text>"#));
    }

    /// A straight line.
    pub(crate) fn line(&mut self, (x, y): (f64, f64), (to_x, to_y): (f64, f64), class: &str) {
        self.add(format_args!(r#"<path d="M{x:.1} {y:.1}L{to_x:.1} {to_y:.1}" class="{class}"/>"#));
    }

    /// A line through points.
    pub(crate) fn path(&mut self, points: &[(f64, f64)], class: &str) {
        let mut data = String::new();
        for (at, (x, y)) in points.iter().enumerate() {
            write!(data, "{}{x:.1} {y:.1}", if at == 0 { 'M' } else { 'L' }).expect("a string takes everything");
        }
        self.add(format_args!(r#"<path d="{data}" class="{class}"/>"#));
    }

    /// A dot, and the text that a pointer over it shows.
    pub(crate) fn dot(&mut self, (x, y): (f64, f64), radius: f64, class: &str, title: impl Display) {
        let title = escaped(title);
        self.add(format_args!(
            r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius}" class="{class}"><title>{title}</title></circle>"#
        ));
    }

    /// A rectangle from its upper left corner, and the text that a pointer over it shows.
    pub(crate) fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), class: &str, title: impl Display) {
        let title = escaped(title);
        let (width, height) = (width.max(0.5), height.max(0.5));
        self.add(format_args!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" class="{class}"><title>{title}</title></rect>"#
        ));
    }

    /// Adds the marks of another drawing on top.
    pub(crate) fn append(&mut self, other: Svg) {
        self.body.push_str(&other.body);
    }

    /// The element, with this height.
    pub(crate) fn finish(self, height: f64) -> String {
        let Self { width, class, label, body } = self;
        let label = escaped(label);
        format!(
            "<svg class=\"{class}\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{label}\">\n{body}</svg>\n"
        )
    }
}

/// Maps positive values to positions, by their logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// A scale from the smallest of the values at `from` to the largest at `to`, with a margin at both ends. Values that are not positive numbers
    /// are ignored.
    pub(crate) fn log(values: impl IntoIterator<Item = f64>, (from, to): (f64, f64)) -> Self {
        let mut range = (f64::INFINITY, 0.0_f64);
        for value in values.into_iter().filter(|value| value.is_finite() && *value > 0.0) {
            range = (range.0.min(value), range.1.max(value));
        }
        if range.1 == 0.0 {
            range = (1.0, 1.0);
        }
        let margin = ((range.1 / range.0).ln() * 0.04).max(0.03).exp();
        Self { low: (range.0 / margin).ln(), high: (range.1 * margin).ln(), from, to }
    }

    pub(crate) fn at(&self, value: f64) -> f64 {
        self.from + (value.ln() - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    fn has(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value.ln())
    }

    /// Round values to mark, `apart` units or more from each other: `first`, if it is in range, then multiples of 1, 2 and 5 times powers of
    /// ten, powers of ten before the others.
    pub(crate) fn marks(&self, first: Option<f64>, apart: f64) -> Vec<f64> {
        let powers = |digit: f64| {
            let from = (self.low / std::f64::consts::LN_10).floor() as i32;
            let to = (self.high / std::f64::consts::LN_10).ceil() as i32;
            (from..=to).map(move |power| digit * 10f64.powi(power))
        };
        let candidates = first.into_iter().chain(powers(1.0)).chain(powers(5.0)).chain(powers(2.0));
        let mut marks: Vec<f64> = Vec::new();
        for value in candidates.filter(|value| self.has(*value)) {
            if marks.iter().all(|mark| (self.at(*mark) - self.at(value)).abs() >= apart) {
                marks.push(value);
            }
        }
        marks.sort_by(f64::total_cmp);
        marks
    }
}

/// Maps values from 0 on to positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Linear {
    pub(crate) high: f64,
    pub(crate) from: f64,
    pub(crate) to: f64,
}

impl Linear {
    pub(crate) fn at(&self, value: f64) -> f64 {
        self.from + value / self.high * (self.to - self.from)
    }

    /// Multiples of 1, 2 or 5 times a power of ten from 0 on, approximately `about` of them.
    pub(crate) fn marks(&self, about: f64) -> Vec<f64> {
        let power = 10_f64.powf((self.high / about).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| self.high / step <= about);
        let step = step.unwrap_or(power);
        (0..=(self.high / step + 1e-9) as u32).map(|mark| f64::from(mark) * step).collect()
    }
}

/// Offsets of dots of this radius from their line, such that no two of them overlap: each as near to the line as the ones before allow.
pub(crate) fn beeswarm(positions: &[f64], radius: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..positions.len()).collect();
    order.sort_by(|&one, &other| positions[one].total_cmp(&positions[other]));
    let mut placed: Vec<(f64, f64)> = Vec::new();
    let mut offsets = vec![0.0; positions.len()];
    let distance = 2.0 * radius + 1.0;
    for at in order {
        let x = positions[at];
        // 0, then up and down in half steps.
        let candidates =
            (0..).map(|step: i32| f64::from((step + 1) / 2 * if step % 2 == 0 { 1 } else { -1 }) * distance / 2.0);
        let free = |offset: &f64| placed.iter().all(|(other, at)| (other - x).hypot(at - offset) >= distance);
        let offset = candidates.take(4 * positions.len() + 1).find(free).unwrap_or(0.0);
        placed.push((x, offset));
        offsets[at] = offset;
    }
    offsets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_maps_the_ends_inside_and_equal_factors_to_equal_distances() {
        let scale = Scale::log([1.0, 10.0, 100.0], (0.0, 100.0));
        let [one, ten, hundred] = [1.0, 10.0, 100.0].map(|value| scale.at(value));
        assert!(one > 0.0 && hundred < 100.0 && (ten - one - (hundred - ten)).abs() < 1e-9, "{one} {ten} {hundred}");
        // From bottom to top, as on a vertical axis.
        let scale = Scale::log([1.0, 2.0], (50.0, 0.0));
        assert!(scale.at(1.0) > scale.at(2.0));
        // One value, or none, is no reason to divide by zero.
        assert!(Scale::log([3.0], (0.0, 10.0)).at(3.0).is_finite());
        assert!(Scale::log([0.0, f64::NAN], (0.0, 10.0)).at(1.0).is_finite());
    }

    #[test]
    fn marks_are_round_in_range_and_apart() {
        let scale = Scale::log([0.3, 40.0], (0.0, 300.0));
        let marks = scale.marks(Some(1.0), 30.0);
        assert!(marks.contains(&1.0) && marks.contains(&10.0), "{marks:?}");
        assert!(marks.windows(2).all(|pair| scale.at(pair[1]) - scale.at(pair[0]) >= 30.0), "{marks:?}");
        assert!(marks.iter().all(|mark| (0.28..43.0).contains(mark)), "{marks:?}");
        let linear = Linear { high: 7.3, from: 0.0, to: 100.0 };
        assert_eq!(linear.marks(4.0), [0.0, 2.0, 4.0, 6.0]);
        assert_eq!(linear.at(7.3), 100.0);
    }

    #[test]
    fn dots_do_not_overlap() {
        let positions: Vec<f64> = (0..60).map(|at| f64::from(at % 7) * 3.0).collect();
        let offsets = beeswarm(&positions, 4.0);
        for one in 0..positions.len() {
            for other in 0..one {
                let apart = (positions[one] - positions[other]).hypot(offsets[one] - offsets[other]);
                assert!(apart >= 9.0 - 1e-9, "{one} and {other}: {apart}");
            }
        }
        assert_eq!(beeswarm(&[0.0, 100.0], 4.0), [0.0, 0.0]);
    }

    #[test]
    fn text_is_escaped() {
        let mut svg = Svg::new(10.0, "wide", "a \"label\"");
        svg.text((1.0, 2.0), Anchor::Middle, "soft", "<&>");
        let svg = svg.finish(5.0);
        assert!(svg.contains("viewBox=\"0 0 10 5\" role=\"img\" aria-label=\"a &quot;label&quot;\">"), "{svg}");
        assert!(svg.contains(">&lt;&amp;&gt;</text>"), "{svg}");
    }
}
