//! The results on stdout: a line for each shape, then the cells that lose.

use std::fmt::Write;

use super::result::{Cell, LOSS, REGRET, Report, Summary};

/// A time with three digits and its unit.
pub(super) fn time(nanos: f64) -> String {
    let (value, unit) = match nanos {
        _ if nanos < 999.5 => (nanos, "ns"),
        _ if nanos < 999.5e3 => (nanos / 1e3, "us"),
        _ if nanos < 999.5e6 => (nanos / 1e6, "ms"),
        _ => (nanos / 1e9, "s"),
    };
    let digits = match value {
        _ if value < 9.995 => 2,
        _ if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

/// A ratio with two digits behind the point.
pub(super) fn ratio(value: f64) -> String {
    format!("{value:.2}")
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), ratio)
}

/// The whole output.
pub(super) fn text(report: &Report) -> String {
    let mut text = format!(
        "{}, {} {}; {:.0} s\n\n",
        report.machine,
        report.threads,
        if report.threads == 1 { "thread" } else { "threads" },
        report.seconds,
    );
    if let Some(note) = &report.load.note {
        text.push_str(&format!("{note}\n\n"));
    }
    let head = ["shape", "cells", "lost", "harm", "worst", "control", "regret", "worst", "bound"];
    let rows: Vec<[String; 9]> = report.summaries.iter().map(row).collect();
    line(&mut text, &head.map(str::to_owned));
    rows.iter().for_each(|row| line(&mut text, row));
    text.push_str(
        "\nharm: time relative to plain code, median and worst; control: plain code relative to itself, worst\n\
         regret: time relative to the best choice by hand; bound: time relative to the least that is possible, median\n\
         worst and lost: what both halves of the repetitions show\n",
    );
    let losses = report.losses();
    section(
        &mut text,
        &format!("Slower than plain code by more than {:.0} %", 100.0 * (LOSS - 1.0)),
        &losses,
        |cell| {
            let halves = cell.harm.halves;
            format!(
                "{}  ({} and {})  {} instead of {}",
                ratio(cell.harm.value),
                ratio(halves[0]),
                ratio(halves[1]),
                time(cell.windrow.median),
                time(cell.serial.median),
            )
        },
    );
    let regrets = report.regrets();
    let title = format!("More than {:.0} % behind the best choice by hand", 100.0 * (REGRET - 1.0));
    section(&mut text, &title, &regrets, |cell| {
        let regret = cell.regret.map_or(f64::NAN, |regret| regret.value);
        let best = cell.best.as_deref().unwrap_or("-");
        format!("{}  best: {best}", ratio(regret))
    });
    text.truncate(text.trim_end().len());
    text
}

fn row(summary: &Summary) -> [String; 9] {
    let Summary { shape, cells, lost, harm_median, harm_worst, control_worst, .. } = summary;
    [
        shape.name().to_owned(),
        cells.to_string(),
        lost.to_string(),
        ratio(*harm_median),
        ratio(*harm_worst),
        ratio(*control_worst),
        optional(summary.regret_median),
        optional(summary.regret_worst),
        optional(summary.bound_median),
    ]
}

fn line(text: &mut String, row: &[String; 9]) {
    let [shape, rest @ ..] = row;
    let rest: Vec<String> = rest.iter().map(|cell| format!("{cell:>8}")).collect();
    writeln!(text, "{shape:<8}{}", rest.concat()).expect("memory");
}

fn section(text: &mut String, title: &str, cells: &[&Cell], of: impl Fn(&Cell) -> String) {
    if cells.is_empty() {
        writeln!(text, "\n{title}: no cell").expect("memory");
        return;
    }
    writeln!(text, "\n{title}:").expect("memory");
    let width = cells.iter().map(|cell| cell.title().chars().count()).max().unwrap_or(0);
    for cell in cells {
        writeln!(text, "  {:<width$}  {}", cell.title(), of(cell)).expect("memory");
        if !cell.why.is_empty() {
            writeln!(text, "      {}", cell.why).expect("memory");
        }
    }
}

/// Why a result cannot be.
pub(super) fn impossible(cell: &Cell) -> String {
    let bound = cell.bound.unwrap_or(f64::NAN);
    format!(
        "{}: {} of the time of plain code, which cannot be: the bound is {}",
        cell.title(),
        ratio(cell.harm.value),
        ratio(bound)
    )
}

#[cfg(test)]
mod tests {
    use super::super::result::{Shape, samples};
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_unit() {
        let times = [0.5, 9.994, 12.34, 999.4, 1e3, 99_960.0, 999_600.0, 2.5e9];
        let shown = times.map(time);
        assert_eq!(shown, ["0.50 ns", "9.99 ns", "12.3 ns", "999 ns", "1.00 us", "100 us", "1.00 ms", "2.50 s"]);
    }

    #[test]
    fn the_worst_cells_are_named_with_their_reason() {
        let report = samples::report(vec![
            samples::cell(Shape::Loops, "items/1", 1.3, Some(1.4)),
            samples::cell(Shape::Loops, "items/2", 1.6, Some(1.0)),
            samples::cell(Shape::Encode, "text/1", 0.6, None),
        ]);
        let text = text(&report);
        let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        assert!(place("loops: items/2  1.60  (1.60 and 1.60)") < place("loops: items/1  1.30"), "{text}");
        assert!(text.contains("\n      on 1 thread: too short to be shared\n"), "{text}");
        assert!(text.contains("loops: items/1  1.40  best: grain 16"), "{text}");
        assert!(text.contains("encode         1       0    0.60    0.60    1.00       -       -    1.20"), "{text}");
    }

    #[test]
    fn no_losses_are_said_too() {
        let report = samples::report(vec![samples::cell(Shape::Loops, "items/1", 0.6, None)]);
        assert!(text(&report).contains("\nSlower than plain code by more than 5 %: no cell\n"));
    }
}
