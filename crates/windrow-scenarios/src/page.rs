//! The page of `--report`: one file of HTML with inline SVG, without scripts and external resources.
//!
//! Every picture stands above a table of its numbers. Gains come first, then all losses. All numbers come from the JSON, rounded.

mod pictures;
mod svg;

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::result::{BenchReport, Cell, LOSS, REGRET, ScenarioGroup, Summary, Timeline};
use crate::table::{SHOWN_WINS, optional, ratio, time};
use svg::escaped;

const STYLE: &str = include_str!("page/style.css");
/// Sweeps that are drawn above the others: those with the largest regret.
const FIRST_SWEEPS: usize = 8;

/// A part of the page, in order.
struct Page(String);

impl Page {
    fn add(&mut self, html: impl Display) {
        self.0.push_str(&html.to_string());
        self.0.push('\n');
    }

    fn heading(&mut self, id: &str, title: &str) {
        self.add(format_args!(r#"<h2 id="{id}">{}</h2>"#, escaped(title)));
    }

    /// Adds an explanation of the picture below.
    fn read(&mut self, text: &str) {
        self.add(format_args!(r#"<p class="read">{}</p>"#, escaped(text)));
    }

    fn figure(&mut self, caption: &str, content: &str) {
        self.add(format_args!("<figure>\n<figcaption>{}</figcaption>\n{content}</figure>", escaped(caption)));
    }

    /// A table that scrolls by itself where it is wider than the window. The first column names the row; `why` columns are text.
    fn table(&mut self, label: &str, head: &[&str], rows: &[Vec<Entry>]) {
        let of = |entry: &Entry, element: &str| {
            let scope = if element == "th" { r#" scope="row""# } else { "" };
            let class = if entry.class.is_empty() { String::new() } else { format!(r#" class="{}""#, entry.class) };
            format!("<{element}{scope}{class}>{}</{element}>", escaped(&entry.text))
        };
        let heads = head.iter().map(|text| {
            let class = if *text == WHY { r#" class="why""# } else { "" };
            format!(r#"<th scope="col"{class}>{}</th>"#, escaped(text))
        });
        let cards = if head.contains(&WHY) { " cards" } else { "" };
        let mut html = format!(
            "<div class=\"scroll{cards}\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n<table>\n<thead><tr>{}</tr></thead>\n<tbody>\n",
            escaped(label),
            heads.collect::<String>()
        );
        for row in rows {
            let [first, rest @ ..] = &row[..] else { continue };
            let rest = rest.iter().zip(&head[1..]).map(|(entry, head)| {
                // In a narrow window a row is a card, whose entries name their column.
                let is_named = !cards.is_empty() && *head != WHY;
                let named = if is_named { format!(r#"<td data-head="{}""#, escaped(head)) } else { "<td".to_owned() };
                of(entry, "td").replacen("<td", &named, 1)
            });
            let rest: String = rest.collect();
            html += &format!("<tr>{}{rest}</tr>\n", of(first, "th"));
        }
        self.add(html + "</tbody>\n</table>\n</div>");
    }

    fn details(&mut self, summary: &str, open: bool, content: impl FnOnce(&mut Self)) {
        let open = if open { " open" } else { "" };
        self.add(format_args!("<details{open}>\n<summary>{}</summary>", escaped(summary)));
        content(self);
        self.add("</details>");
    }

    fn legend(&mut self, entries: &[(&str, &str)]) {
        let mut html = r#"<ul class="legend">"#.to_owned();
        for (mark, text) in entries {
            html += &format!(r#"<li><svg viewBox="0 0 26 12" aria-hidden="true">{mark}</svg>{}</li>"#, escaped(text));
        }
        self.add(html + "</ul>");
    }
}

/// The head of columns that hold sentences.
const WHY: &str = "why";

struct Entry {
    text: String,
    class: &'static str,
}

fn entry(text: impl Into<String>) -> Entry {
    Entry { text: text.into(), class: "" }
}

fn marked(text: impl Into<String>, is_bad: bool) -> Entry {
    Entry { text: text.into(), class: if is_bad { "bad" } else { "" } }
}

fn because(text: &str) -> Entry {
    Entry { text: text.to_owned(), class: "why" }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

impl BenchReport {
    /// The page.
    pub fn html(&self) -> String {
        html(self)
    }
}

/// The whole page.
fn html(report: &BenchReport) -> String {
    let mut page = Page(String::new());
    page.add("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">");
    page.add("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    page.add(format_args!("<title>windrow bench, {}</title>", escaped(&report.date)));
    page.add(format_args!("<style>\n{STYLE}</style>\n</head>\n<body>"));
    header(&mut page, report);
    page.add("<main>");
    wins(&mut page, report);
    losses(&mut page, report);
    summary(&mut page, report);
    harm(&mut page, report);
    regret(&mut page, report);
    sizes(&mut page, report);
    timelines(&mut page, report);
    page.add("</main>");
    footer(&mut page);
    page.add("</body>\n</html>");
    page.0
}

fn header(page: &mut Page, report: &BenchReport) {
    page.add("<header>\n<h1>windrow bench</h1>");
    let (cells, wins, losses) = (report.cells.len(), report.wins().len(), report.losses());
    let lede = match losses.first() {
        None => format!("None of {cells} cells is slower than plain code by more than {:.0} %.", 100.0 * (LOSS - 1.0)),
        Some(worst) => format!(
            "{} of {cells} cells {} slower than plain code by more than {:.0} %. The worst one, {}, takes {} times as long.",
            losses.len(),
            if losses.len() == 1 { "is" } else { "are" },
            100.0 * (LOSS - 1.0),
            worst.title(),
            ratio(worst.harm.value)
        ),
    };
    let are = if wins == 1 { "is" } else { "are" };
    let wins =
        format!("{wins} of {cells} cells {are} faster than plain code by more than {:.0} %.", 100.0 * (LOSS - 1.0));
    page.add(format_args!(r#"<p class="lede">{} {}</p>"#, escaped(wins), escaped(lede)));
    let wrong: Vec<String> = report.impossible().iter().map(escaped).collect();
    if !wrong.is_empty() {
        let wrong = wrong.join("<br>");
        page.add(format_args!(r#"<p class="alarm">This run failed: do not use its numbers.<br>{wrong}</p>"#));
    }
    if !report.optimized {
        page.add(r#"<p class="alarm">This windrow was built without optimization: its times are meaningless.</p>"#);
    }
    if let Some(note) = &report.load.note {
        page.add(format_args!(r#"<p class="alarm">This run was disturbed: {}.</p>"#, escaped(note)));
    }
    page.add("<dl>");
    for (name, value) in [
        ("machine", report.machine.clone()),
        ("threads", report.threads.to_string()),
        ("command", report.command.clone()),
        ("version", version(report)),
        ("date", report.date.clone()),
        ("duration", format!("{:.0} s", report.seconds)),
    ] {
        page.add(format_args!("<dt>{name}</dt><dd>{}</dd>", escaped(value)));
    }
    page.add("</dl>\n</header>");
}

/// The version, and the commit if it is known.
fn version(report: &BenchReport) -> String {
    let commit = report.commit.as_ref().map_or_else(String::new, |commit| format!(", commit {commit}"));
    format!("windrow {}{commit}", report.version)
}

fn wins(page: &mut Page, report: &BenchReport) {
    page.heading("wins", "Where windrow wins");
    page.read("The cells in which windrow gains most over the plain code, in both halves of the repetitions.");
    let rows: Vec<Vec<Entry>> = report.wins().into_iter().take(SHOWN_WINS).map(by_plain_code).collect();
    if rows.is_empty() {
        page.add("<p>None.</p>");
    } else {
        page.table("cells that gain", &["cell", "harm", "halves", "plain code", "windrow", WHY], &rows);
    }
}

fn losses(page: &mut Page, report: &BenchReport) {
    page.heading("losses", "Where windrow loses");
    let losses = report.losses();
    page.read(
        "Cells in which windrow is slower than the plain code in both halves of the repetitions, worst first. \
         Harm is windrow's time divided by that of the plain code; next to it is its value in each half.",
    );
    if losses.is_empty() {
        page.add("<p>None.</p>");
    } else {
        let rows: Vec<Vec<Entry>> = losses.into_iter().map(by_plain_code).collect();
        page.table("cells that lose", &["cell", "harm", "halves", "plain code", "windrow", WHY], &rows);
    }
    let regrets = report.regrets();
    let title = format!("More than {:.0} % slower than the best hand-picked choice", 100.0 * (REGRET - 1.0));
    page.add(format_args!("<h3>{}</h3>", escaped(title)));
    if regrets.is_empty() {
        page.add("<p>None.</p>");
    } else {
        let row = |cell: &&Cell| {
            let regret = cell.regret.map(|regret| regret.value);
            let best = cell.best.as_deref().unwrap_or("-");
            vec![entry(cell.title()), marked(optional(regret), true), entry(best), because(&cell.why)]
        };
        let rows: Vec<Vec<Entry>> = regrets.iter().map(row).collect();
        page.table("cells with regret", &["cell", "regret", "best by hand", WHY], &rows);
    }
}

fn by_plain_code(cell: &Cell) -> Vec<Entry> {
    let [one, other] = cell.harm.halves;
    vec![
        entry(cell.title()),
        marked(ratio(cell.harm.value), cell.loses()),
        entry(format!("{}, {}", ratio(one), ratio(other))),
        entry(time(cell.serial.median)),
        entry(time(cell.windrow.median)),
        because(&cell.why),
    ]
}

fn summary(page: &mut Page, report: &BenchReport) {
    page.heading("summary", "Summary");
    page.read(
        "One row per shape of work. The worst value is one that both halves of the repetitions reach. The control is \
         the plain code compared with itself; smaller differences are noise. The bound is the time divided by the \
         shortest possible time.",
    );
    let head = [
        "shape",
        "cells",
        "lost",
        "harm, median",
        "worst",
        "control, worst",
        "regret, median",
        "worst",
        "bound, median",
    ];
    let row = |summary: &Summary| {
        let Summary { shape, cells, lost, harm_median, harm_worst, control_worst, .. } = summary;
        vec![
            entry(shape.name()),
            entry(cells.to_string()),
            marked(lost.to_string(), *lost > 0),
            entry(ratio(*harm_median)),
            marked(ratio(*harm_worst), *harm_worst > LOSS),
            entry(ratio(*control_worst)),
            entry(optional(summary.regret_median)),
            marked(optional(summary.regret_worst), summary.regret_worst.is_some_and(|worst| worst > REGRET)),
            entry(optional(summary.bound_median)),
        ]
    };
    page.table("summary", &head, &report.summaries.iter().map(row).collect::<Vec<_>>());
}

fn harm(page: &mut Page, report: &BenchReport) {
    page.heading("harm", "Harm");
    page.read(
        "Each dot is a cell. To the left of the line at 1, windrow is faster than the plain code; to the right, it is slower. Red dots with a rim are cells in which windrow is slower in both halves of the repetitions.",
    );
    let cells: Vec<&Cell> = report.cells.iter().collect();
    let label = ("time relative to plain code", "slower");
    page.figure(
        "windrow's time divided by that of the plain code",
        &pictures::dots(&cells, label, |cell| Some(cell.harm.value), Cell::loses),
    );
    page.details(&format!("All {}", counted(cells.len(), "cell")), true, |page| {
        // In a narrow window the first columns are seen.
        let mut head = vec!["cell", "harm", "quartiles", "plain code", "windrow", "control", "bound", "runs"];
        let is_against = cells.iter().any(|cell| cell.by_rayon.is_some());
        head.extend(is_against.then_some("relative to rayon"));
        let row = |cell: &&Cell| {
            let mut row = vec![
                entry(cell.title()),
                marked(ratio(cell.harm.value), cell.loses()),
                entry(format!("{} to {}", ratio(cell.harm.low), ratio(cell.harm.high))),
                entry(time(cell.serial.median)),
                entry(time(cell.windrow.median)),
                entry(ratio(cell.control.value)),
                entry(optional(cell.bound)),
                entry(cell.repetitions.to_string()),
            ];
            row.extend(is_against.then(|| entry(optional(cell.by_rayon.map(|by| by.value)))));
            row
        };
        page.table(
            "harm of all cells",
            &head,
            &sorted(&cells, |cell| cell.harm.value).iter().map(row).collect::<Vec<_>>(),
        );
    });
}

/// The cells by shape, the largest value first.
fn sorted<'a>(cells: &[&'a Cell], value: impl Fn(&Cell) -> f64) -> Vec<&'a Cell> {
    let mut cells = cells.to_vec();
    cells.sort_by(|one, other| one.shape.cmp(&other.shape).then(value(other).total_cmp(&value(one))));
    cells
}

fn regret_of(cell: &Cell) -> f64 {
    cell.regret.map_or(f64::NAN, |regret| regret.value)
}

fn regret(page: &mut Page, report: &BenchReport) {
    let cells: Vec<&Cell> = report.cells.iter().filter(|cell| cell.regret.is_some()).collect();
    if cells.is_empty() {
        return;
    }
    page.heading("regret", "Regret");
    page.read(
        "The same cells compared with the best of a sweep of hand-picked choices: grains, cut-off depths, widths, \
         limits, tiles, threads, and the plain code. To the right of the line, a hand-picked choice is faster. The \
         best one is chosen from one half of the repetitions, and its time is taken from the other half.",
    );
    page.figure(
        "windrow's time divided by that of the best hand-picked choice",
        &pictures::dots(
            &cells,
            ("time relative to the best hand-picked choice", "more than 25 % slower"),
            |cell| Some(regret_of(cell)),
            Cell::regrets,
        ),
    );
    page.add("<h3>Sweeps</h3>");
    page.read(
        "Each picture is one cell. The dots are hand-picked choices, the dashed line is the plain code, and the blue \
         line is windrow. Both axes are logarithmic; the vertical one shows the time relative to the plain code.",
    );
    let mut drawn: Vec<&Cell> = cells.iter().filter(|cell| cell.sweep.len() > 1).copied().collect();
    drawn.sort_by(|one, other| regret_of(other).total_cmp(&regret_of(one)));
    let (first, rest) = drawn.split_at(drawn.len().min(FIRST_SWEEPS));
    page.figure("The cells with the largest regret", &sweeps(first));
    for shape in ScenarioGroup::ALL {
        let of_shape: Vec<&Cell> = rest.iter().filter(|cell| cell.shape == shape).copied().collect();
        if !of_shape.is_empty() {
            let title = format!("{}: {}", shape.name(), counted(of_shape.len(), "other sweep"));
            page.details(&title, false, |page| page.figure(shape.name(), &sweeps(&of_shape)));
        }
    }
    page.details(&format!("All {}", counted(cells.len(), "cell")), true, |page| {
        let head = ["cell", "regret", "best by hand", "halves", "choices", "varied"];
        let row = |cell: &&Cell| {
            let [one, other] = cell.regret.map_or([f64::NAN; 2], |regret| regret.halves);
            vec![
                entry(cell.title()),
                marked(ratio(regret_of(cell)), cell.regrets()),
                entry(cell.best.as_deref().unwrap_or("-")),
                entry(format!("{}, {}", ratio(one), ratio(other))),
                entry((cell.sweep.len() + 1).to_string()),
                entry(cell.sweep_by),
            ]
        };
        page.table("regret of all cells", &head, &sorted(&cells, regret_of).iter().map(row).collect::<Vec<_>>());
    });
}

fn sweeps(cells: &[&Cell]) -> String {
    let panel = |cell: &&Cell| {
        let best = cell.best.as_deref().unwrap_or("-");
        format!(
            "<div><h4>{}</h4><p>regret {}, best {}</p>{}</div>\n",
            escaped(cell.title()),
            ratio(regret_of(cell)),
            escaped(best),
            pictures::sweep(cell)
        )
    };
    format!("<div class=\"panels sweeps\">\n{}</div>\n", cells.iter().map(panel).collect::<String>())
}

/// The meaning of the sizes of a shape.
fn size_label(cell: &Cell) -> &'static str {
    match cell.shape {
        ScenarioGroup::Loops if cell.family == "fib" => "argument",
        ScenarioGroup::Loops if cell.family.starts_with("tree") => "leaves",
        ScenarioGroup::Loops => "items",
        ScenarioGroup::Rounds => "numbers per round",
        ScenarioGroup::Batch => "callers",
        ScenarioGroup::Overlap => "microseconds of computation",
        ScenarioGroup::Encode => "KiB of text",
    }
}

fn sizes(page: &mut Page, report: &BenchReport) {
    let mut families: BTreeMap<(ScenarioGroup, usize), Vec<&Cell>> = BTreeMap::new();
    let mut names: Vec<(ScenarioGroup, &str)> = Vec::new();
    for cell in &report.cells {
        let key = (cell.shape, &*cell.family);
        let place = names.iter().position(|name| *name == key).unwrap_or_else(|| {
            names.push(key);
            names.len() - 1
        });
        families.entry((cell.shape, place)).or_default().push(cell);
    }
    let several: Vec<Vec<&Cell>> = families.into_values().filter(|cells| cells.len() > 1).collect();
    if several.is_empty() {
        return;
    }
    page.heading("sizes", "Time against size");
    page.read(
        "Cells that differ only in size. Where the blue dots lie on the squares, windrow runs the plain code; where \
         they drop below the squares, sharing pays off. The dotted line is the physical bound, if one is known. All axes \
         are logarithmic.",
    );
    let mut html = "<div class=\"panels\">\n".to_owned();
    for cells in &several {
        let title = format!("{}: {}", cells[0].shape.name(), cells[0].family);
        html += &format!(
            "<div><h4>{}</h4><p>time of {}</p>{}</div>\n",
            escaped(title),
            cells[0].unit.one(),
            pictures::sizes(cells, size_label(cells[0]))
        );
    }
    page.legend(&[
        (
            r#"<path d="M1 6H25" class="line plain"/><rect x="9.5" y="2.5" width="7" height="7" class="plain"/>"#,
            "plain code",
        ),
        (r#"<path d="M1 6H25" class="line windrow"/><circle cx="13" cy="6" r="3" class="windrow"/>"#, "windrow"),
        (r#"<path d="M1 6H25" class="line bound"/>"#, "physical bound"),
    ]);
    page.figure("Time against size", &(html + "</div>\n"));
}

fn timelines(page: &mut Page, report: &BenchReport) {
    if report.timelines.is_empty() {
        return;
    }
    page.heading("timelines", "Overlap timelines");
    page.read(
        "One run of each cell, with a box for every tile in the lane that computes and in the lane that sends. Where \
         boxes of the two lanes lie one above the other, the computation hides the communication. If the plan is one tile, \
         windrow runs the plain code.",
    );
    page.legend(&[
        (r#"<rect x="0" y="1" width="13" height="10" class="lane0 shade0"/><rect x="13" y="1" width="13" height="10" class="lane0 shade1"/>"#, "compute"),
        (r#"<rect x="0" y="1" width="13" height="10" class="lane1 shade0"/><rect x="13" y="1" width="13" height="10" class="lane1 shade1"/>"#, "send"),
    ]);
    let mut rest = &report.timelines[..];
    while let [first, ..] = rest {
        let count = rest.iter().take_while(|run| run.cell == first.cell).count();
        let (runs, after) = rest.split_at(count);
        page.figure(&first.cell, &pictures::timelines(&runs.iter().collect::<Vec<_>>()));
        rest = after;
    }
    page.details("All lanes", true, |page| {
        let rows = report.timelines.iter().flat_map(|run: &Timeline| {
            run.lanes.iter().map(|lane| {
                let busy: f64 = lane.tiles.iter().map(|(start, end)| end - start).sum();
                vec![
                    entry(run.cell.clone()),
                    entry(run.arm.clone()),
                    entry(lane.name.clone()),
                    entry(lane.tiles.len().to_string()),
                    entry(time(busy)),
                    entry(time(run.end)),
                ]
            })
        });
        page.table("lanes", &["cell", "run", "lane", "tiles", "busy", "end"], &rows.collect::<Vec<_>>());
    });
}

fn footer(page: &mut Page) {
    page.add(
        "<footer>\n<p>All arms of a cell are interleaved in one run: every repetition runs each of them, in alternating order. Times are medians; ratios are medians of the ratios of each repetition. Every answer was compared with that of the plain code. Hand-picked choices run on threads that spin between calls and claim their items from a shared counter.</p>\n</footer>",
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::samples;

    fn sample() -> BenchReport {
        samples::report(vec![
            samples::cell(ScenarioGroup::Loops, "items of 1us/1", 1.31, Some(1.42)),
            samples::cell(ScenarioGroup::Loops, "items of 1us/100", 0.61, Some(1.03)),
            samples::cell(ScenarioGroup::Batch, "file, <synced>/2", 0.52, None),
        ])
    }

    /// Checks that elements are closed in order, and returns their names.
    fn elements(html: &str) -> Vec<String> {
        let (mut open, mut names): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        for part in html.split('<').skip(1) {
            let (tag, text) = part.split_once('>').unwrap_or_else(|| panic!("an element without end: {part}"));
            assert!(!text.contains('>') || open.last().is_some_and(|name| name == "style"), "{text}");
            let name: String = tag.chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
            if let Some(closed) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(closed), "{tag}");
            } else if !tag.starts_with('!') {
                names.push(name.clone());
                if !tag.ends_with('/') && !["meta", "br"].contains(&&*name) {
                    open.push(name);
                }
            }
        }
        assert_eq!(open, Vec::<String>::new());
        names
    }

    #[test]
    fn the_page_is_well_formed_and_needs_nothing_else() {
        let html = html(&sample());
        let names = elements(&html);
        assert!(!names.iter().any(|name| ["script", "link", "img", "iframe"].contains(&&**name)), "{names:?}");
        assert!(!html.contains("http") && !html.contains("url(") && !html.contains("@import"));
        assert!(!html.contains("NaN") && !html.contains("inf\""), "{html}");
        let count = |name: &str| names.iter().filter(|other| *other == name).count();
        assert_eq!((count("h1"), count("main"), count("title") > 3), (1, 1, true));
    }

    #[test]
    fn text_of_cells_is_escaped() {
        let html = html(&sample());
        assert!(html.contains("file, &lt;synced&gt;/2") && html.contains("--quick &lt;&amp;&gt;"), "{html}");
    }

    #[test]
    fn the_commit_stands_behind_the_version_if_it_is_known() {
        let mut report = sample();
        assert!(html(&report).contains("<dd>windrow 0.1.0, commit 0123abc</dd>"));
        report.commit = None;
        assert!(html(&report).contains("<dd>windrow 0.1.0</dd>"));
    }

    #[test]
    fn losses_come_first_with_their_reason() {
        let html = html(&sample());
        let place = |part: &str| html.find(part).unwrap_or_else(|| panic!("{part}"));
        assert!(html.contains("1 of 3 cells is slower than plain code by more than 5 %. The worst one, loops: items of 1us/1, takes 1.31 times as long."));
        assert!(html.contains("2 of 3 cells are faster than plain code by more than 5 %. 1 of 3 cells is slower"));
        assert!(place("id=\"wins\"") < place("id=\"losses\"") && place("id=\"losses\"") < place("id=\"summary\""));
        assert!(html.contains("on 1 thread: too short to be shared"));
    }

    #[test]
    fn a_failed_run_says_so_at_the_top() {
        let mut report = sample();
        assert!(!html(&report).contains("class=\"alarm\""));
        report.cells[1].beats_bound = true;
        report.optimized = false;
        report.load.note = Some("other programs kept the CPUs busy <&>".to_owned());
        let html = html(&report);
        assert_eq!(html.matches("class=\"alarm\"").count(), 3);
        assert!(html.contains(
            "<p class=\"alarm\">This run was disturbed: other programs kept the CPUs busy &lt;&amp;&gt;.</p>"
        ));
        assert!(html.contains(
            "loops: items of 1us/100: 0.61 of the time of plain code, which is impossible: the bound is 0.50"
        ));
    }

    #[test]
    fn every_cell_is_in_every_table_that_it_belongs_to() {
        let html = html(&sample());
        let rows = |start: &str| html.matches(&format!("<tr><th scope=\"row\">{start}</th>")).count();
        // Losses, regrets, harm, regret.
        assert_eq!(rows("loops: items of 1us/1"), 4);
        // Wins instead of losses and regrets.
        assert_eq!(rows("loops: items of 1us/100"), 3);
        assert_eq!(rows("batch: file, &lt;synced&gt;/2"), 2);
    }

    #[test]
    fn an_empty_run_has_a_page() {
        elements(&html(&samples::report(Vec::new())));
    }
}
