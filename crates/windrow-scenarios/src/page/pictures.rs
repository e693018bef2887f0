//! The pictures of the page. Those as wide as the page exist twice, for wide and for narrow windows; the style sheet shows one of them.

use super::svg::{Anchor, Linear, Scale, Svg, beeswarm};
use crate::result::{Cell, ScenarioGroup, Timeline};
use crate::table::{ratio, time};

/// Width of a picture in its units, which are pixels in a window of about that width.
const WIDE: f64 = 900.0;
const NARROW: f64 = 358.0;
/// Height of a line of text.
const TEXT: f64 = 16.0;
const RADIUS: f64 = 4.0;

/// The picture in both widths.
fn both(draw: impl Fn(f64, &'static str) -> String) -> String {
    draw(WIDE, "wide") + &draw(NARROW, "narrow")
}

/// A number without needless digits.
fn short(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{}M", value / 1e6),
        _ if value >= 1e3 => format!("{}k", value / 1e3),
        _ => format!("{}", (value * 1e4).round() / 1e4),
    }
}

/// A dot for every cell on one axis, a band for each shape, and a line at 1.
pub(crate) fn dots(
    cells: &[&Cell],
    (label, verdict): (&str, &str),
    value: impl Fn(&Cell) -> Option<f64>,
    is_bad: impl Fn(&Cell) -> bool,
) -> String {
    let values = || cells.iter().filter_map(|cell| value(cell));
    both(|width, class| {
        let mut svg = Svg::new(width, class, label);
        // Both ends leave room for half a label.
        let scale = Scale::log(values().chain([0.8, 1.25]), (16.0, width - 16.0));
        let mut marks = Svg::new(width, class, "");
        let mut top = 4.0;
        for shape in ScenarioGroup::ALL {
            let of_shape: Vec<(&Cell, f64)> = cells
                .iter()
                .filter(|cell| cell.shape == shape)
                .filter_map(|cell| Some((*cell, value(cell)?)))
                .collect();
            if of_shape.is_empty() {
                continue;
            }
            let positions: Vec<f64> = of_shape.iter().map(|(_, value)| scale.at(*value)).collect();
            let offsets = beeswarm(&positions, RADIUS);
            let reach = offsets.iter().fold(0.0_f64, |reach, offset| reach.max(offset.abs())) + RADIUS + 5.0;
            let bad = of_shape.iter().filter(|(cell, _)| is_bad(cell)).count();
            let count = of_shape.len();
            marks.text(
                (0.0, top + 12.0),
                Anchor::Start,
                "strong halo",
                format!("{}: {bad} of {count} {verdict}", shape.name()),
            );
            let middle = top + TEXT + reach;
            marks.line((0.0, middle), (width, middle), "grid");
            for (((cell, value), x), offset) in of_shape.iter().zip(positions).zip(offsets) {
                let class = if is_bad(cell) { "bad" } else { "good" };
                marks.dot((x, middle + offset), RADIUS, class, format!("{}: {}", cell.title(), ratio(*value)));
            }
            top = middle + reach + 6.0;
        }
        for mark in scale.marks(Some(1.0), 38.0) {
            let x = scale.at(mark);
            let class = if mark == 1.0 { "one" } else { "grid" };
            svg.line((x, 0.0), (x, top), class);
            svg.text((x, top + 14.0), Anchor::Middle, if mark == 1.0 { "strong" } else { "soft" }, short(mark));
        }
        svg.text((width / 2.0, top + 32.0), Anchor::Middle, "soft", label);
        svg.append(marks);
        svg.finish(top + 38.0)
    })
}

/// The axes of a small picture: its frame, marks and labels. Returns the two scales.
fn axes(
    svg: &mut Svg,
    (width, height): (f64, f64),
    x: &[f64],
    y: &[f64],
    y_label: impl Fn(f64) -> String,
) -> (Scale, Scale) {
    let (left, right, top, bottom) = (46.0, width - 8.0, 8.0, height - 34.0);
    let (x, y) = (Scale::log(x.iter().copied(), (left, right)), Scale::log(y.iter().copied(), (bottom, top)));
    for mark in x.marks(None, 34.0) {
        let at = x.at(mark);
        svg.line((at, top), (at, bottom), "grid");
        svg.text((at.min(right - 6.0), bottom + 14.0), Anchor::Middle, "soft", short(mark));
    }
    for mark in y.marks(None, 20.0) {
        let at = y.at(mark);
        svg.line((left, at), (right, at), "grid");
        svg.text((left - 5.0, at + 4.0), Anchor::End, "soft", y_label(mark));
    }
    (x, y)
}

/// A round time, as an axis shows it.
fn round_time(nanos: f64) -> String {
    let (value, unit) = match nanos {
        _ if nanos < 1e3 => (nanos, "ns"),
        _ if nanos < 1e6 => (nanos / 1e3, "us"),
        _ if nanos < 1e9 => (nanos / 1e6, "ms"),
        _ => (nanos / 1e9, "s"),
    };
    format!("{} {unit}", (value * 100.0).round() / 100.0)
}

/// Time against size for the cells of one family: plain code, windrow and the bound.
pub(crate) fn sizes(cells: &[&Cell], x_label: &str) -> String {
    const SIZE: (f64, f64) = (300.0, 210.0);
    let [first, ..] = cells else { return String::new() };
    let label = format!("{}: time of {} against {x_label}", first.family, first.unit.one());
    let mut svg = Svg::new(SIZE.0, "panel", label);
    let bound = |cell: &Cell| cell.bound.map(|bound| bound * cell.serial.median);
    let x: Vec<f64> = cells.iter().map(|cell| cell.size).collect();
    let times = cells.iter().flat_map(|cell| [Some(cell.serial.median), Some(cell.windrow.median), bound(cell)]);
    let y: Vec<f64> = times.flatten().collect();
    let (x, y) = axes(&mut svg, SIZE, &x, &y, round_time);
    let bounds: Vec<(f64, f64)> = cells.iter().filter_map(|cell| Some((x.at(cell.size), y.at(bound(cell)?)))).collect();
    if bounds.len() > 1 {
        svg.path(&bounds, "line bound");
    }
    for (class, of) in [("plain", plain as fn(&Cell) -> f64), ("windrow", windrow)] {
        let points: Vec<(f64, f64)> = cells.iter().map(|cell| (x.at(cell.size), y.at(of(cell)))).collect();
        svg.path(&points, &format!("line {class}"));
        for (cell, point) in cells.iter().zip(points) {
            let title = format!("{}, {class}: {}", cell.name, time(of(cell)));
            if class == "plain" {
                svg.rect((point.0 - 3.5, point.1 - 3.5), (7.0, 7.0), class, title);
            } else {
                svg.dot(point, 3.0, class, title);
            }
        }
    }
    svg.text(((SIZE.0 + 46.0) / 2.0, SIZE.1 - 4.0), Anchor::Middle, "soft", x_label);
    svg.finish(SIZE.1)
}

fn plain(cell: &Cell) -> f64 {
    cell.serial.median
}

fn windrow(cell: &Cell) -> f64 {
    cell.windrow.median
}

/// Choices by hand relative to plain code, with windrow and plain code as lines.
pub(crate) fn sweep(cell: &Cell) -> String {
    const SIZE: (f64, f64) = (240.0, 150.0);
    let label = format!("{}: time relative to plain code against {}", cell.title(), cell.sweep_by);
    let mut svg = Svg::new(SIZE.0, "panel", label);
    let relative = |nanos: f64| nanos / cell.serial.median;
    let x: Vec<f64> = cell.sweep.iter().map(|fixed| fixed.value).collect();
    let y: Vec<f64> = cell.sweep.iter().map(|fixed| relative(fixed.nanos)).chain([1.0, cell.harm.value]).collect();
    let (x, y) = axes(&mut svg, SIZE, &x, &y, short);
    let (left, right) = (46.0, SIZE.0 - 8.0);
    svg.line((left, y.at(1.0)), (right, y.at(1.0)), "one");
    let points: Vec<(f64, f64)> =
        cell.sweep.iter().map(|fixed| (x.at(fixed.value), y.at(relative(fixed.nanos)))).collect();
    svg.path(&points, "line fixed");
    for (fixed, point) in cell.sweep.iter().zip(&points) {
        svg.dot(*point, 2.5, "fixed", format!("{}: {}", fixed.name, ratio(relative(fixed.nanos))));
    }
    let at = y.at(cell.harm.value);
    svg.line((left, at), (right, at), "line windrow");
    svg.text(((SIZE.0 + 46.0) / 2.0, SIZE.1 - 4.0), Anchor::Middle, "soft", cell.sweep_by);
    svg.finish(SIZE.1)
}

/// The lanes of the runs of one cell over a common time axis: a box for each tile.
pub(crate) fn timelines(runs: &[&Timeline]) -> String {
    const LANE: f64 = 15.0;
    let longest = runs.iter().map(|run| run.end).fold(1.0, f64::max);
    let cell = runs.first().map_or("", |run| &run.cell);
    both(|width, class| {
        let mut svg = Svg::new(width, class, format!("{cell}: which tile was in which lane, and when"));
        let x = Linear { high: longest, from: 0.0, to: width - 1.0 };
        let bottom: f64 =
            4.0 + runs.iter().map(|run| TEXT + 4.0 + (LANE + 3.0) * run.lanes.len() as f64 + 8.0).sum::<f64>();
        // The last mark leaves room for half its label.
        for mark in x.marks(width / 90.0).into_iter().filter(|mark| x.at(*mark) < width - 24.0) {
            let at = x.at(mark).max(0.5);
            svg.line((at, 0.0), (at, bottom), "grid");
            let anchor = if mark == 0.0 { Anchor::Start } else { Anchor::Middle };
            svg.text((at, bottom + 14.0), anchor, "soft", if mark == 0.0 { "0".to_owned() } else { round_time(mark) });
        }
        let mut top = 4.0;
        for run in runs {
            let tiles = run.lanes.first().map_or(0, |lane| lane.tiles.len());
            let tiles = if tiles == 1 { "1 tile".to_owned() } else { format!("{tiles} tiles") };
            svg.text(
                (2.0, top + 12.0),
                Anchor::Start,
                "strong halo",
                format!("{}: {}, {tiles}", run.arm, time(run.end)),
            );
            top += TEXT + 4.0;
            for (number, lane) in run.lanes.iter().enumerate() {
                for (tile, &(start, end)) in lane.tiles.iter().enumerate() {
                    // Neighbours have different shades, so that the border between them is visible.
                    let class = format!("lane{} shade{}", number % 2, tile % 2);
                    let title = format!("{}, tile {}: {} to {}", lane.name, tile + 1, time(start), time(end));
                    svg.rect((x.at(start), top), (x.at(end) - x.at(start), LANE), &class, title);
                }
                top += LANE + 3.0;
            }
            top += 8.0;
        }
        svg.finish(bottom + 20.0)
    })
}
