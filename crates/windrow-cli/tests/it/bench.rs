//! `windrow bench`: what it prints and writes, and its page in a browser.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::common::{Place, Ran};

/// A run of few cells. On a busy machine a result may look faster than possible, and the run then fails as it should.
fn measured(place: &Place, line: &str) -> Ran {
    let ran = place.line(&format!("bench --tiny --threads 2 {line}"));
    assert!(ran.code == Some(0) || ran.stderr.contains("which is impossible"), "{}", ran.stderr);
    ran
}

#[test]
fn a_run_is_measured_and_written_completely_and_its_page_fits_all_windows() {
    let place = Place::new();
    let ran = measured(&place, "--quick --only loops,batch,overlap --json out.json --report out.html");
    assert_eq!(place.names(), ["out.html", "out.json"], "nothing else is left");
    let run = place.json("out.json");
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(
        keys(&run),
        "cells command commit cpus date load machine optimized schema seconds summaries threads timelines version"
    );
    assert_eq!(
        (&run["command"], &run["threads"]),
        (&json!("windrow bench --quick --only loops,batch,overlap --threads 2 --tiny"), &json!(2))
    );
    assert_eq!(keys(&run["load"]), "after before note");
    let busy = run["load"]["note"].as_str();
    // The note is on stderr, in the table and on the page, or nowhere.
    let page = fs::read_to_string(place.path("out.html")).unwrap();
    for text in [&ran.stderr, &ran.stdout, &page] {
        assert_eq!(text.contains("other programs kept the CPUs busy (load "), busy.is_some(), "{text}");
    }
    assert!(ran.stderr.contains("measuring loops (0 of "), "stderr is no terminal: {}", ran.stderr);
    let cells = run["cells"].as_array().unwrap();
    for (at, shape) in ["loops", "batch", "overlap"].into_iter().enumerate() {
        let count = cells.iter().filter(|cell| cell["shape"] == shape).count();
        assert!(count > 0 && run["summaries"][at]["cells"] == json!(count), "{cells:?}");
    }
    for cell in cells.iter().filter(|cell| cell["shape"] == "loops") {
        assert_eq!(
            keys(cell),
            "beats_bound best bound by_rayon calls cold control family harm name regret repetitions serial shape size sweep \
             sweep_by unit why windrow"
        );
        let number = |pointer: &str| {
            cell.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer}: {cell}"))
        };
        for pointer in
            ["/harm/value", "/harm/halves/1", "/control/value", "/serial/median", "/windrow/low", "/regret/value"]
        {
            assert!(number(pointer) > 0.0, "{pointer}: {cell}");
        }
        assert!((0.0..=1.0).contains(&number("/bound")), "{cell}");
        assert!(!cell["why"].as_str().unwrap().is_empty(), "{cell}");
    }
    let sweep = |name: &str| {
        let cell = cells.iter().find(|cell| cell["name"] == name).unwrap_or_else(|| panic!("{name}"));
        cell["sweep"].as_array().unwrap().iter().map(|fixed| fixed["value"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(sweep("uniform/10us/10"), [1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 8.0, 10.0]);
    assert!(ran.stdout.starts_with(run["machine"].as_str().unwrap()), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("\nshape      cells    lost    harm   worst control  regret   worst   bound\nloops "),
        "{}",
        ran.stdout
    );
    assert!(!ran.stdout.contains("rayon") && run["cells"][0]["by_rayon"].is_null(), "{}", ran.stdout);
    fits(&place, &page, &run);
}

#[test]
fn rayon_is_measured_on_request() {
    let place = Place::new();
    let ran = measured(&place, "--only loops,rounds --against rayon --json out.json --quiet");
    let run = place.json("out.json");
    assert_eq!(run["command"], json!("windrow bench --only loops,rounds --against rayon --threads 2 --tiny"));
    let measured = |cell: &Value| cell.pointer("/by_rayon/value").and_then(Value::as_f64).is_some_and(|it| it > 0.0);
    let cells = run["cells"].as_array().unwrap();
    let (pools, others): (Vec<&Value>, Vec<&Value>) =
        cells.iter().partition(|cell| cell["name"].as_str().unwrap().starts_with("pools"));
    assert!(others.iter().all(|cell| measured(cell)) && !pools.iter().any(|cell| measured(cell)), "{cells:?}");
    assert!(ran.stdout.contains("   bound   rayon\n"), "{}", ran.stdout);
    let at = |title: &str| ran.stdout.find(title).unwrap_or_else(|| panic!("{title}: {}", ran.stdout));
    assert!(at("\nFaster than plain code") < at("\nSlower than plain code"), "{}", ran.stdout);
    at("\nSlower than rayon");
}

#[test]
fn what_cannot_be_written_or_run_is_refused_before_the_run() {
    let place = Place::new();
    place.file("there.html", "mine");
    let before = place.contents();
    for (line, code, says) in [
        ("--report there.html", 73, "there.html already exists\nhint: pass --overwrite"),
        ("--json missing/out.json", 73, "missing does not exist\nhint: create it first: mkdir -p missing"),
        ("--json .", 2, "is not a file name"),
        ("--json out --report ./out", 2, "--report and --json name the same file\nhint: choose another path"),
        ("--only knitting", 2, "possible values: loops, rounds, batch, overlap, encode"),
        ("--against tbb", 2, "possible values: rayon"),
        ("--threads 0", 2, "expected `auto` or a number from 1 to 1023"),
        ("more", 2, "unexpected argument"),
    ] {
        let line = format!("bench --tiny {line}");
        place.line(&line).fails(&line, code, &[says]);
        assert_eq!(place.contents(), before, "{line}");
    }
    let mut command = place.command(["bench", "--tiny", "--only", "loops"]);
    let ran = Ran::of(command.env("TMPDIR", "no-such-folder").output().unwrap());
    ran.fails("TMPDIR", 73, &["cannot create no-such-folder/windrow-bench-", "hint: set TMPDIR"]);
}

#[test]
fn an_existing_file_is_replaced_on_request() {
    let place = Place::new();
    place.file("out.json", "mine");
    measured(&place, "--only rounds --json out.json --overwrite --quiet");
    assert_eq!(place.json("out.json")["cells"][0]["name"], "numbers/300");
}

/// A browser of this machine.
fn chromium() -> Option<PathBuf> {
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let found = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    found.into_iter().find(|path| path.is_file())
}

/// What the script of [`opened`] sees in the page: whether it is wider than its window, overlapping labels, and the text of all rows.
const LOOK: &str = r#"
frame.onload = () => {
  const page = frame.contentDocument, seen = element => element.getClientRects().length > 0;
  const overlaps = [];
  for (const svg of [...page.querySelectorAll("svg")].filter(seen)) {
    const texts = [...svg.querySelectorAll("text")].map(text => [text.textContent, text.getBoundingClientRect()]);
    const around = svg.getBoundingClientRect();
    texts.forEach(([one, a], at) => {
      if (a.left < around.left - 1 || a.right > around.right + 1) overlaps.push(one + " leaves its picture");
      for (const [other, b] of texts.slice(at + 1)) {
        const [x, y] = [Math.min(a.right, b.right) - Math.max(a.left, b.left), Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)];
        if (x > 1 && y > 3) overlaps.push(one + " on " + other);
      }
    });
  }
  const rows = [...page.querySelectorAll("table")].map(table => [...table.rows].map(row => [...row.cells].map(cell => cell.textContent)));
  const root = page.documentElement, paper = frame.contentWindow.getComputedStyle(page.body).backgroundColor;
  const pictures = ["wide", "narrow"].map(kind => [...page.querySelectorAll("svg." + kind)].filter(seen).length);
  said.textContent = JSON.stringify({ width: root.scrollWidth, window: root.clientWidth, overlaps, rows, paper, pictures });
};
"#;

/// Opens a page in a window of this width, and returns what [`LOOK`] says.
fn opened(chromium: &Path, place: &Place, page: &str, width: u32, is_dark: bool) -> Value {
    let escaped = page.replace('&', "&amp;").replace('"', "&quot;");
    let frame = format!(
        "<!DOCTYPE html><iframe id=\"frame\" style=\"width:{width}px;height:900px;border:0\"></iframe><pre id=\"said\"></pre>\n\
         <script>{LOOK}</script><textarea hidden id=\"page\">{}</textarea>\n\
         <script>frame.srcdoc = page.value;</script>",
        // As the text of an element: the frame gets it unescaped.
        escaped
    );
    place.file("frame.html", frame);
    let mut command = Command::new(chromium);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--window-size=1400,1000",
        "--dump-dom",
    ]);
    command.args([
        "--virtual-time-budget=10000",
        &format!("--blink-settings=preferredColorScheme={}", u8::from(!is_dark)),
    ]);
    command.arg(format!("--user-data-dir={}", place.path("profile").display()));
    command.arg(format!("file://{}", place.path("frame.html").display()));
    let output = command.stderr(Stdio::null()).output().unwrap();
    let dom = String::from_utf8(output.stdout).unwrap();
    let said = dom
        .split_once("<pre id=\"said\">")
        .and_then(|(_, rest)| rest.split_once("</pre>"))
        .map_or("", |(said, _)| said);
    let said = said.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said:?} in {} bytes", dom.len()))
}

/// Windows of all widths show the page whole, with the numbers of the JSON.
fn fits(place: &Place, page: &str, run: &Value) {
    let Some(chromium) = chromium() else {
        println!("skipped: no Chromium on this machine");
        return;
    };
    let mut papers = Vec::new();
    for (width, is_dark, wide) in [(390, false, false), (1280, true, true)] {
        let look = opened(&chromium, place, page, width, is_dark);
        assert_eq!((&look["width"], &look["window"]), (&json!(width), &json!(width)), "at {width} px");
        assert_eq!(look["overlaps"], json!([]), "at {width} px");
        let pictures: Vec<u64> = serde_json::from_value(look["pictures"].clone()).unwrap();
        assert!(pictures[usize::from(!wide)] > 0 && pictures[usize::from(wide)] == 0, "{pictures:?} at {width} px");
        papers.push(look["paper"].as_str().unwrap().to_owned());
        let tables: Vec<Vec<Vec<String>>> = serde_json::from_value(look["rows"].clone()).unwrap();
        let table = |head: &str| {
            tables.iter().find(|rows| rows[0].iter().any(|text| text == head)).unwrap_or_else(|| panic!("no {head}"))
        };
        let (harm, regret) = (table("quartiles"), table("choices"));
        for cell in run["cells"].as_array().unwrap() {
            let title = format!("{}: {}", cell["shape"].as_str().unwrap(), cell["name"].as_str().unwrap());
            let number = |pointer: &str| {
                cell.pointer(pointer).and_then(Value::as_f64).map_or("-".to_owned(), |it| format!("{it:.2}"))
            };
            let row = |rows: &[Vec<String>]| {
                rows.iter().find(|row| row[0] == title).cloned().unwrap_or_else(|| panic!("no row {title}"))
            };
            let quartiles = format!("{} to {}", number("/harm/low"), number("/harm/high"));
            assert_eq!(row(harm)[1..3], [number("/harm/value"), quartiles], "{title}");
            assert_eq!(row(harm)[5..7], [number("/control/value"), number("/bound")], "{title}");
            let halves = format!("{}, {}", number("/regret/halves/0"), number("/regret/halves/1"));
            let best = cell["best"].as_str().unwrap_or("-").to_owned();
            assert_eq!(row(regret)[1..4], [number("/regret/value"), best, halves], "{title}");
        }
    }
    assert_ne!(papers[0], papers[1], "both colour schemes");
}
