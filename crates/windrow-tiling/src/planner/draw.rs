//! Draws plans: for each its two lanes, one below the other, with a box for every tile, over a common time axis.

use std::fmt::{self, Write};

use crate::Nanos;
use crate::tile::{Lane, TileSpan, counted_rows};

use super::{Course, PlannedOperation};

// Units of the drawing, which a browser shows as pixels.
const WIDTH: f64 = 1000.0;
const LEFT: f64 = 120.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 70.0;
const LANE: f64 = 30.0;
/// Height of a course: its name, two lanes, and some space below.
const COURSE: f64 = 24.0 + 2.0 * LANE + 18.0;
/// Width of a digit in a label, with some space.
const DIGIT: f64 = 7.5;
/// A narrower box is drawn without an outline, which would hide it.
const NARROW: f64 = 4.0;

/// The drawing, without scripts, fonts or other external parts.
pub(super) fn svg(planned: &PlannedOperation<'_>, courses: &[Course]) -> String {
    let mut svg = String::new();
    draw(&mut svg, planned, courses).expect("writing to a string cannot fail");
    svg
}

/// Maps times to positions.
struct Axis {
    longest: f64,
}

impl Axis {
    fn x(&self, micros: f64) -> f64 {
        LEFT + micros / self.longest * (WIDTH - LEFT - RIGHT)
    }

    /// Times to mark: multiples of 1, 2 or 5 times a power of ten, five to twelve of them.
    fn marks(&self) -> impl Iterator<Item = f64> {
        let power = 10_f64.powf((self.longest / 5.0).log10().floor());
        let step = [5.0, 2.0, 1.0].map(|times| times * power).into_iter().find(|step| self.longest / step >= 5.0);
        let step = step.unwrap_or(power);
        (0..=(self.longest / step) as u32).map(move |mark| f64::from(mark) * step)
    }
}

fn draw(svg: &mut String, planned: &PlannedOperation<'_>, courses: &[Course]) -> fmt::Result {
    let PlannedOperation { request, choice, .. } = planned;
    let longest = courses.iter().map(|course| course.end.as_micros()).fold(f64::MIN_POSITIVE, f64::max);
    let axis = Axis { longest };
    let bottom = TOP + COURSE * courses.len() as f64;
    let height = bottom + 40.0;
    // The other plans that ran would not fit into the line.
    let why = choice.why.split(';').next().unwrap_or_default();
    let title = format!(
        "{} of {} x {} times {} x {} on {} ranks",
        request.operation.name(),
        request.m,
        request.k,
        request.k,
        request.n,
        request.ranks,
    );
    writeln!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12">"#
    )?;
    writeln!(svg, "<title>{}</title>", escaped(&title))?;
    writeln!(svg, r#"<rect width="100%" height="100%" fill="white"/>"#)?;
    writeln!(svg, r#"<text x="10" y="22" font-size="14">{}</text>"#, escaped(&title))?;
    writeln!(svg, r#"<text x="10" y="42">{}</text>"#, escaped(why))?;
    for micros in axis.marks() {
        let x = axis.x(micros);
        writeln!(svg, r##"<path d="M{x:.1} {TOP}V{bottom}" stroke="#dddddd"/>"##)?;
        writeln!(svg, r#"<text x="{x:.1}" y="{:.1}" text-anchor="middle">{}</text>"#, bottom + 16.0, round(micros))?;
    }
    writeln!(svg, r#"<text x="{LEFT}" y="{:.1}">microseconds; numbers in boxes are row counts</text>"#, bottom + 32.0)?;
    for (place, course) in courses.iter().enumerate() {
        draw_course(svg, course, &axis, TOP + COURSE * place as f64)?;
    }
    let (x, bound) = (axis.x(choice.plan.bounds.contended.as_micros()), micros(choice.plan.bounds.contended));
    let anchor = if x > WIDTH / 2.0 { "end" } else { "start" };
    writeln!(svg, r##"<path d="M{x:.1} {TOP}V{bottom}" stroke="#b00020" stroke-dasharray="5 4"/>"##)?;
    writeln!(
        svg,
        r##"<text x="{x:.1}" y="{:.1}" text-anchor="{anchor}" fill="#b00020">no cut ends before {bound}</text>"##,
        TOP - 6.0
    )?;
    svg.write_str("</svg>\n")
}

fn draw_course(svg: &mut String, course: &Course, axis: &Axis, top: f64) -> fmt::Result {
    let Course { name, tiles, end, .. } = course;
    let said = format!("{name}: {}, {}", counted(tiles.len()), micros(*end));
    writeln!(svg, r#"<text x="10" y="{:.1}" font-weight="bold">{}</text>"#, top + 16.0, escaped(&said))?;
    let lanes = [(Lane::Compute, ["#9ec5e8", "#6fa8dc"]), (Lane::Communicate, ["#f9cb9c", "#f0a860"])];
    for (row, (lane, fills)) in lanes.into_iter().enumerate() {
        let y = top + 24.0 + LANE * row as f64;
        writeln!(svg, r#"<text x="10" y="{:.1}">{lane}</text>"#, y + 19.0)?;
        for (place, (rows, &TileSpan { start, end })) in tiles.iter().zip(course.spans(lane)).enumerate() {
            let (x, right) = (axis.x(start.as_micros()), axis.x(end.as_micros()));
            // Neighbours have different colours, so that the border between them is visible.
            let (width, fill) = (right - x, fills[place % 2]);
            let outline = if width < NARROW { "" } else { r##" stroke="#333333" stroke-width="0.7""## };
            write!(
                svg,
                r#"<rect x="{x:.2}" y="{:.1}" width="{width:.2}" height="{:.1}" fill="{fill}"{outline}>"#,
                y + 2.0,
                LANE - 4.0
            )?;
            let (start, end, size) = (micros(start), micros(end), counted_rows(rows));
            writeln!(svg, "<title>{lane} of tile {place}: {size}, {start} to {end}</title></rect>")?;
            let label = rows.to_string();
            if width > DIGIT * label.len() as f64 + 2.0 {
                let (x, y) = (x + width / 2.0, y + 19.0);
                // Tooltips belong to the box below.
                writeln!(
                    svg,
                    r#"<text x="{x:.1}" y="{y:.1}" text-anchor="middle" pointer-events="none">{label}</text>"#
                )?;
            }
        }
    }
    Ok(())
}

fn micros(time: Nanos) -> String {
    format!("{:.1} us", time.as_micros())
}

fn counted(tiles: usize) -> String {
    format!("{tiles} tile{}", if tiles == 1 { "" } else { "s" })
}

/// Rounds off digits that only come from adding up.
fn round(micros: f64) -> String {
    let digits = if micros == 0.0 || micros >= 10.0 { 0 } else { (1.0 - micros.log10().floor()) as usize };
    let text = format!("{micros:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn escaped(text: &str) -> String {
    // XML cannot represent most control characters.
    let text = text.replace(char::is_control, "\u{fffd}");
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_some_round_marks() {
        for (longest, marks) in [
            (1213.8, &["0", "200", "400", "600", "800", "1000", "1200"][..]),
            (10.0, &["0", "2", "4", "6", "8", "10"]),
            (0.36, &["0", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3", "0.35"]),
            (5e6, &["0", "1000000", "2000000", "3000000", "4000000", "5000000"]),
        ] {
            let shown: Vec<String> = Axis { longest }.marks().map(round).collect();
            assert_eq!(shown, marks, "{longest}");
        }
    }

    #[test]
    fn names_cannot_break_out() {
        assert_eq!(escaped("a<b>&\"c\u{1}"), "a&lt;b&gt;&amp;&quot;c\u{fffd}");
    }
}
