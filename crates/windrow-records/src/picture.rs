//! The picture of the first page: the time of each loop relative to the plain loop, a row of dots for each runtime.

use std::fmt::Write as _;

use crate::record::Record;
use crate::value::{evaluate, rows};

/// The record, and its arms from top to bottom.
const RECORD: &str = "cells-warm-peers-1";
const ARMS: [(&str, &str); 6] = [
    ("windrow", "windrow"),
    ("rayon-inside", "rayon, inside its pool"),
    ("rayon", "rayon, from main"),
    ("omp-static", "OpenMP static, gcc's"),
    ("omp-llvm-static", "OpenMP static, LLVM's"),
    ("tbb-auto", "oneTBB auto"),
];

/// The peers whose versions stand below, as the record names them.
const PEERS: [&str; 3] = ["rayon ", "OpenMP ", "oneTBB "];

const WIDTH: f64 = 860.0;
/// The first row's middle, and the distance of rows.
const TOP: f64 = 66.0;
const ROW: f64 = 44.0;
/// Ends of the axis, from left to right.
const AXIS: (f64, f64) = (190.0, 730.0);
const RANGE: (f64, f64) = (0.45, 32.0);
const RADIUS: f64 = 4.0;
/// Above this a loop counts as slower than the plain one.
const SLOWER: f64 = 1.05;

const STYLE: &str = "text{fill:#20262c}.dim{fill:#59636d}.b{font-weight:600}.page{fill:#fff}.grid{stroke:#dcdcd6}.one{stroke:#20262c;stroke-dasharray:4 3}\
circle{fill:#1c6a94;fill-opacity:.85}.red{fill:#c23b22}\
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.dim{fill:#9aa5b1}.page{fill:#0d1117}.grid{stroke:#30363d}.one{stroke:#e6edf3}\
circle{fill:#58a6ff}.red{fill:#ff7b72}}";

/// The picture as SVG.
pub(crate) fn svg(records: &[Record]) -> Result<String, String> {
    let record = records.iter().find(|it| it.name == RECORD).ok_or_else(|| format!("no record is called {RECORD}"))?;
    let column = record.column("ratio").ok_or_else(|| format!("{RECORD} has no column ratio"))?;
    let bottom = TOP + ROW * (ARMS.len() as f64 - 0.5);
    let height = bottom + 58.0;
    let mut dots = String::new();
    let mut loops = 0;
    for (at, (arm, label)) in ARMS.iter().enumerate() {
        let middle = TOP + ROW * at as f64;
        let rows = rows(record, &[((*arm).to_owned(), true)])?;
        let mut ratios: Vec<f64> = rows.iter().filter_map(|row| row[column].parse().ok()).collect();
        ratios.sort_by(f64::total_cmp);
        loops = ratios.len();
        let value = |field: &str| evaluate(&format!("{RECORD} '{arm}' {field}"), records, None);
        let weight = if at == 0 { " class=\"b\"" } else { "" };
        let _ = writeln!(dots, "<text x=\"10\" y=\"{:.0}\"{weight}>{label}</text>", middle + 4.0);
        let (mean, worst) = (value("geomean")?, value("worst")?);
        let (x, y) = (WIDTH - 60.0, middle + 4.0);
        let _ = writeln!(dots, "<text x=\"{x:.0}\" y=\"{y:.0}\"{weight} text-anchor=\"end\">{mean:.2}</text>");
        let worst_digits = if worst < 10.0 { 2 } else { 1 };
        let (x, red) = (WIDTH - 10.0, if worst > SLOWER { " class=\"red\"" } else { "" });
        let _ =
            writeln!(dots, "<text x=\"{x:.0}\" y=\"{y:.0}\"{red} text-anchor=\"end\">{worst:.worst_digits$}x</text>");
        dots.push_str(&swarm(&ratios, middle));
    }
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" role=\"img\" \
         font-family=\"system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif\" font-size=\"13\">\n\
         <!-- Made from {RECORD} by cargo xtask results. -->\n<style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"{WIDTH:.0}\" height=\"{height:.0}\" rx=\"6\"/>\n\
         <text class=\"b\" x=\"10\" y=\"22\" font-size=\"15\">{loops} loops: time relative to the plain loop (left is faster)</text>\n\
         <text class=\"dim\" x=\"{:.0}\" y=\"38\" text-anchor=\"end\">mean</text><text class=\"dim\" x=\"{:.0}\" y=\"38\" text-anchor=\"end\">worst</text>\n",
        WIDTH - 60.0,
        WIDTH - 10.0
    );
    for (tick, name, class) in [
        (0.5, "0.5 ideal", "grid"),
        (1.0, "1 plain loop", "one"),
        (2.0, "2x", "grid"),
        (4.0, "4x", "grid"),
        (8.0, "8x", "grid"),
        (16.0, "16x", "grid"),
        (32.0, "32x", "grid"),
    ] {
        let x = place(tick);
        let _ = writeln!(svg, "<line class=\"{class}\" x1=\"{x:.1}\" y1=\"44\" x2=\"{x:.1}\" y2=\"{bottom:.0}\"/>");
        let y = bottom + 16.0;
        let _ = writeln!(svg, "<text class=\"dim\" x=\"{x:.1}\" y=\"{y:.0}\" text-anchor=\"middle\">{name}</text>");
    }
    svg.push_str(&dots);
    let foot =
        format!("{}; {}. Red: slower than the plain loop by more than 5 %.", record.fact("machine"), versions(record));
    let _ =
        writeln!(svg, "<text class=\"dim\" x=\"10\" y=\"{:.0}\" font-size=\"11\">{foot}</text>\n</svg>", height - 12.0);
    Ok(svg)
}

/// The versions of the peers, each once.
fn versions(record: &Record) -> String {
    let first = |peer| record.comments.iter().find(|line| line.starts_with(peer)).map(String::as_str);
    PEERS.into_iter().filter_map(first).collect::<Vec<_>>().join(", ")
}

fn place(ratio: f64) -> f64 {
    let share = (ratio / RANGE.0).ln() / (RANGE.1 / RANGE.0).ln();
    AXIS.0 + share.clamp(0.0, 1.0) * (AXIS.1 - AXIS.0)
}

/// Dots side by side: each takes the free place that is nearest to the middle.
fn swarm(sorted: &[f64], middle: f64) -> String {
    let (mut placed, mut text): (Vec<(f64, f64)>, _) = (Vec::new(), String::new());
    for &ratio in sorted {
        let x = place(ratio);
        let levels = (0..7).map(|level| middle + f64::from((level + 1) / 2) * if level % 2 == 0 { 6.0 } else { -6.0 });
        let is_free = |y: &f64| placed.iter().all(|(px, py)| (px - x).hypot(py - y) > 1.4 * RADIUS);
        // A crowd that fills all levels overlaps.
        let y = levels.into_iter().find(is_free).unwrap_or(middle);
        placed.push((x, y));
        let red = if ratio > SLOWER { " class=\"red\"" } else { "" };
        let _ = writeln!(text, "<circle{red} cx=\"{x:.1}\" cy=\"{y:.0}\" r=\"{RADIUS}\"/>");
    }
    text
}

#[test]
fn each_loop_is_a_dot_and_slow_ones_are_red() {
    let rows: String = ARMS.iter().map(|(arm, _)| format!("a,{arm},0.5,ok\nb,{arm},2,LOSES\n")).collect();
    let text =
        format!("# machine: m x2\n# rayon 1.12.0\n# rayon-core 1.13.0\n# oneTBB 1\ncell,arm,ratio,verdict\n{rows}");
    let svg = svg(&[Record::parse(RECORD, &text)]).unwrap();
    assert_eq!(svg.matches("<circle ").count(), 12);
    assert_eq!(svg.matches("<circle class=\"red\"").count(), 6);
    let comment = svg.split("<!--").nth(1).and_then(|it| it.split("-->").next());
    assert!(comment.is_some_and(|it| !it.contains("--")), "no XML");
    assert!(svg.contains(">m x2; rayon 1.12.0, oneTBB 1. Red:"), "{svg}");
    assert!(svg.contains(">2 loops:") && svg.contains(">1.00</text>") && svg.contains(">2.00x</text>"), "{svg}");
}
