//! The results on stdout: a line for each shape, then the cells that gain most, and all that lose.

use std::fmt::Write;

use crate::result::{BenchReport, Cell, LOSS, REGRET, Summary};

impl BenchReport {
    /// The table and the cells that gain and lose, for a terminal.
    pub fn text(&self) -> String {
        text(self)
    }

    /// A sentence for each cell whose result is impossible.
    pub fn impossible(&self) -> Vec<String> {
        self.cells.iter().filter(|cell| cell.beats_bound).map(impossible).collect()
    }
}

/// Gains that are listed.
pub(crate) const SHOWN_WINS: usize = 6;

/// A time with three digits and its unit.
pub(crate) fn time(nanos: f64) -> String {
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

/// A ratio with two decimals.
pub(crate) fn ratio(value: f64) -> String {
    format!("{value:.2}")
}

pub(crate) fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), ratio)
}

/// The whole output.
fn text(report: &BenchReport) -> String {
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
    let mut head = ["shape", "cells", "lost", "harm", "worst", "control", "regret", "worst", "bound"].to_vec();
    let is_against = report.cells.iter().any(|cell| cell.by_rayon.is_some());
    head.extend(is_against.then_some("rayon"));
    line(&mut text, &head.into_iter().map(str::to_owned).collect::<Vec<_>>());
    report.summaries.iter().for_each(|summary| line(&mut text, &row(summary, is_against)));
    text.push_str(
        "\nharm: time relative to plain code, median and worst; control: plain code relative to itself, worst\n\
         regret: time relative to the best hand-picked choice; bound: time relative to the shortest possible time, median\n\
         worst and lost: confirmed by both halves of the repetitions\n",
    );
    if is_against {
        text.push_str("rayon: time relative to rayon, median\n");
    }
    let percent = 100.0 * (LOSS - 1.0);
    let wins = report.wins();
    let title =
        format!("Faster than plain code by more than {percent:.0} %, {} of {} cells", wins.len(), report.cells.len());
    let shown = wins.into_iter().take(SHOWN_WINS).map(|cell| (cell, by_plain_code(cell)));
    section(&mut text, &title, shown.collect());
    let losses = report.losses().into_iter().map(|cell| (cell, by_plain_code(cell)));
    section(&mut text, &format!("Slower than plain code by more than {percent:.0} %"), losses.collect());
    let regrets = report.regrets().into_iter().map(|cell| {
        let regret = cell.regret.map_or(f64::NAN, |regret| regret.value);
        (cell, format!("{}  best: {}", ratio(regret), cell.best.as_deref().unwrap_or("-")))
    });
    let title = format!("More than {:.0} % slower than the best hand-picked choice", 100.0 * (REGRET - 1.0));
    section(&mut text, &title, regrets.collect());
    if is_against {
        let losses = report.slower_than_rayon().into_iter().map(|(cell, by)| (cell, ratio(by.value)));
        section(&mut text, &format!("Slower than rayon by more than {percent:.0} %"), losses.collect());
    }
    text.truncate(text.trim_end().len());
    text
}

/// Harm with both halves, and both times.
fn by_plain_code(cell: &Cell) -> String {
    let [one, other] = cell.harm.halves.map(ratio);
    let (windrow, plain) = (time(cell.windrow.median), time(cell.serial.median));
    format!("{}  ({one} and {other})  {windrow} instead of {plain}", ratio(cell.harm.value))
}

fn row(summary: &Summary, is_against: bool) -> Vec<String> {
    let Summary { shape, cells, lost, harm_median, harm_worst, control_worst, .. } = summary;
    let mut row = vec![
        shape.name().to_owned(),
        cells.to_string(),
        lost.to_string(),
        ratio(*harm_median),
        ratio(*harm_worst),
        ratio(*control_worst),
        optional(summary.regret_median),
        optional(summary.regret_worst),
        optional(summary.bound_median),
    ];
    row.extend(is_against.then(|| optional(summary.rayon_median)));
    row
}

fn line(text: &mut String, row: &[String]) {
    let [shape, rest @ ..] = row else { return };
    let rest: Vec<String> = rest.iter().map(|cell| format!("{cell:>8}")).collect();
    writeln!(text, "{shape:<8}{}", rest.concat()).expect("memory");
}

fn section(text: &mut String, title: &str, cells: Vec<(&Cell, String)>) {
    if cells.is_empty() {
        writeln!(text, "\n{title}: none").expect("memory");
        return;
    }
    writeln!(text, "\n{title}:").expect("memory");
    let width = cells.iter().map(|(cell, _)| cell.title().chars().count()).max().unwrap_or(0);
    for (cell, line) in cells {
        writeln!(text, "  {:<width$}  {line}", cell.title()).expect("memory");
        if !cell.why.is_empty() {
            writeln!(text, "      {}", cell.why).expect("memory");
        }
    }
}

/// The reason why a result is impossible.
fn impossible(cell: &Cell) -> String {
    let bound = cell.bound.unwrap_or(f64::NAN);
    format!(
        "{}: {} of the time of plain code, which is impossible: the bound is {}",
        cell.title(),
        ratio(cell.harm.value),
        ratio(bound)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{ScenarioGroup, samples};
    use crate::stats::Ratio;

    #[test]
    fn times_have_three_digits_and_a_unit() {
        let times = [0.5, 9.994, 12.34, 999.4, 1e3, 99_960.0, 999_600.0, 2.5e9];
        let shown = times.map(time);
        assert_eq!(shown, ["0.50 ns", "9.99 ns", "12.3 ns", "999 ns", "1.00 us", "100 us", "1.00 ms", "2.50 s"]);
    }

    #[test]
    fn the_worst_cells_are_named_with_their_reason() {
        let report = samples::report(vec![
            samples::cell(ScenarioGroup::Loops, "items/1", 1.3, Some(1.4)),
            samples::cell(ScenarioGroup::Loops, "items/2", 1.6, Some(1.0)),
            samples::cell(ScenarioGroup::Encode, "text/1", 0.6, None),
        ]);
        let text = text(&report);
        let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        assert!(
            place("Faster than plain code by more than 5 %, 1 of 3 cells:") < place("Slower than plain code"),
            "{text}"
        );
        assert!(place("loops: items/2  1.60  (1.60 and 1.60)") < place("loops: items/1  1.30"), "{text}");
        assert!(text.contains("\n      on 1 thread: too short to be shared\n"), "{text}");
        assert!(text.contains("loops: items/1  1.40  best: grain 16"), "{text}");
        assert!(text.contains("encode         1       0    0.60    0.60    1.00       -       -    1.20"), "{text}");
    }

    #[test]
    fn rayon_has_a_column_and_its_losses_if_it_was_measured() {
        let mut cell = samples::cell(ScenarioGroup::Loops, "items/1", 0.6, None);
        assert!(!text(&samples::report(vec![cell.clone()])).contains("rayon"));
        cell.by_rayon = Some(Ratio { value: 1.5, low: 1.4, high: 1.6, halves: [1.4, 1.6] });
        let text = text(&samples::report(vec![cell]));
        assert!(
            text.contains("   bound   rayon\n") && text.contains("rayon by more than 5 %:\n  loops: items/1  1.50\n"),
            "{text}"
        );
    }

    #[test]
    fn no_losses_are_said_too() {
        let report = samples::report(vec![samples::cell(ScenarioGroup::Loops, "items/1", 0.6, None)]);
        assert!(text(&report).contains("\nSlower than plain code by more than 5 %: none\n"));
    }
}
