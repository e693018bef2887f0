//! `windrow plan`: what it prints and writes.

use serde_json::{Value, json};
use windrow_collective::{Measured, Operation, Profile, Shape, Stage};
use windrow_tiling::tile::Contention;

use crate::common::Place;

/// The example of the MC2 guide.
const GUIDE: &str = "plan matmul-all-reduce --m 4096 --n 8192 --k 3072 --ranks 8 --cost samples.csv";

/// Samples of two functions of the rows, in microseconds.
pub(crate) fn samples(sizes: &[u64], compute: impl Fn(f64) -> f64, communicate: impl Fn(f64) -> f64) -> String {
    let mut csv = "stage,m,microseconds\n".to_owned();
    for &rows in sizes {
        csv += &format!("compute,{rows},{}\ncommunicate,{rows},{}\n", compute(rows as f64), communicate(rows as f64));
    }
    csv
}

/// The guide's cost functions, at enough sizes to find their pieces. A row of the product has 16 KiB.
pub(crate) fn guide() -> String {
    let sizes = [64, 128, 192, 256, 320, 384, 448, 512, 768, 1024, 1536, 2048, 3072, 4096];
    let communicate = |rows: f64| {
        let x = rows * 2.0 * 8192.0 / 1024.0 / 1024.0;
        if x < 8.0 { -0.9698202 * x * x + 27.0622573 * x + 14.769 } else { 13.58491263 * x + 61.508333 }
    };
    samples(&sizes, |rows| 0.19608 * rows, communicate)
}

fn with_guide() -> Place {
    let place = Place::new();
    place.file("samples.csv", guide());
    place
}

#[track_caller]
fn near(value: &Value, expected: f64, within: f64) {
    let value = value.as_f64().unwrap_or_else(|| panic!("{value} is no number"));
    assert!((value - expected).abs() <= within, "{value} instead of {expected}");
}

fn rows(tiles: &Value) -> Vec<u64> {
    serde_json::from_value(tiles.clone()).unwrap()
}

#[test]
fn the_example_of_the_guide() {
    let plan = with_guide().line(&format!("{GUIDE} --json")).ok().summary();
    assert_eq!(plan["tiles"], json!([128, 512, 768, 1152, 1536]));
    assert_eq!((&plan["verdict"], &plan["gap"], &plan["grain"]), (&json!("tile"), &json!(0.0), &json!(128)));
    near(&plan["predicted_us"], 1213.8, 0.5);
    near(&plan["bound_us"], 930.9, 0.5);
    near(&plan["serial_us"], 1734.1, 0.5);
    near(&plan["benefit"], (1734.1 - 1213.8) / 1734.1, 0.001);
    near(&plan["alternatives"]["serial"], 1734.1, 0.5);
    near(&plan["alternatives"]["uniform"], 1316.3, 0.5);
    near(&plan["alternatives"]["two_sizes"], 1266.1, 0.5);
    near(&plan["alternatives"]["short_long_rule"], 1282.9, 0.5);
    assert_eq!(plan["alternative_tiles"]["short_long_rule"], json!([512, 896, 896, 896, 896]));
    assert_eq!(plan["alternative_tiles"]["uniform"], json!([1024, 1024, 1024, 1024]));
    near(&plan["fits"]["compute"]["whole_us"], 803.1, 0.5);
    near(&plan["fits"]["communicate"]["whole_us"], 930.9, 0.5);
    let why = plan["why"].as_str().unwrap();
    assert!(why.starts_with("communication is the bottleneck, and the tiles hide the computation; 121"), "{why}");
    let losses = ["whole_us", "expansion_us", "contention_us", "waiting_us"].map(|key| &plan["losses"][key]);
    near(&plan["predicted_us"], losses.iter().map(|loss| loss.as_f64().unwrap()).sum(), 1e-6);
}

#[test]
fn every_key_is_there() {
    let place = with_guide();
    place.file("mine.json", r#"{"tiles": [2048, 2048]}"#);
    let plan = place.line(&format!("{GUIDE} --replay mine.json --json")).ok().summary();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(
        keys(&plan),
        "align alternative_tiles alternatives benefit bound_us bound_with_contention_us break_even contention cost \
         family fits gap grain k losses m margin max_tiles min_tile n notes op per_tile_us predicted_us ranks replays rule schema serial_us tiles verdict why"
    );
    assert_eq!(keys(&plan["alternatives"]), "exact serial short_long_rule two_sizes uniform");
    assert_eq!(keys(&plan["alternative_tiles"]), keys(&plan["alternatives"]));
    assert_eq!(keys(&plan["fits"]["compute"]), "largest pieces sizes smallest source whole_us worst");
    assert_eq!(keys(&plan["fits"]["compute"]["pieces"][0]), "a_us b_us c_us from");
    assert_eq!(keys(&plan["rule"]), "factor limit steps thresholds tiles");
    assert_eq!(keys(&plan["margin"]), "error per_call_us");
    assert_eq!(keys(&plan["break_even"]), "contention per_tile_us");
    assert_eq!(keys(&plan["losses"]), "contention_us expansion_us lane waiting_us whole_us");
    assert_eq!(keys(&plan["replays"][0]), "above_plan benefit file losses predicted_us tiles");
    for (key, value) in [
        ("schema", json!(1)),
        ("op", json!("matmul-all-reduce")),
        ("m", json!(4096)),
        ("n", json!(8192)),
        ("k", json!(3072)),
        ("ranks", json!(8)),
        ("align", json!(128)),
        ("max_tiles", json!(null)),
        ("min_tile", json!(64)),
        ("family", json!("any")),
        ("contention", json!({"compute": 1.0, "communicate": 1.0})),
        ("cost", json!("samples.csv")),
        ("per_tile_us", json!(0.0)),
    ] {
        assert_eq!(plan[key], value, "{key}");
    }
}

#[test]
fn people_get_the_same_in_words() {
    let said = with_guide().line(GUIDE).ok();
    assert_eq!(said.stderr, "");
    for part in [
        "tile {128, 512, 768, 1152, 1536}: communication is the bottleneck, and the tiles hide the computation\n",
        "matmul-all-reduce of 4096 x 3072 times 3072 x 8192 on 8 ranks, tiles aligned to 128\n",
        "model: two tiled kernels; each tile takes as long as samples of its size\n",
        "{1024 x 4}\n",
        "{512, 896 x 4}\n",
        "bound ",
        "break-even: tile, unless both lanes take more than 1.",
        "break-even: tile, unless each tile adds more than ",
        "why: 121",
        "saved: 30.0 % of serial\n",
        "gap: 0; no cut at multiples of 128 rows is better\n",
        "computation: 14 sizes from 64 to 4096 rows in samples.csv, fitted to within 0.",
        "note: contention was not measured; assuming none (set it with --contention C,M)\n",
    ] {
        assert!(said.stdout.contains(part), "lacks {part:?}\n{}", said.stdout);
    }
    assert!(!said.stdout.contains("extrapolated"), "{}", said.stdout);
}

#[test]
fn operations_in_both_spellings() {
    let place = with_guide();
    let plan = |operation: &str| {
        let line = GUIDE.replace("matmul-all-reduce", operation);
        place.line(&format!("{line} --json")).ok().summary()
    };
    for operation in ["matmul-all-reduce", "matmul-reduce-scatter", "all-gather-matmul"] {
        let this = plan(operation);
        assert_eq!(this["op"], operation);
        assert_eq!(this, plan(&operation.replace('-', "_")));
    }
    // Communication comes first, so the sizes fall.
    let gathered = rows(&plan("all-gather-matmul")["tiles"]);
    assert_eq!(gathered, [1536, 1152, 768, 512, 128]);
}

/// Over shapes, alignments, limits and contention: tiles sum to m, verdict and limits hold, and no plan is slower than an alternative
/// within the limits.
#[test]
fn tiles_sum_to_m_and_one_tile_is_not_to_tile() {
    let place = Place::new();
    place.file("samples.csv", guide());
    place.file("costly.csv", samples(&[256, 512, 1024], |m| 500.0 + 0.2 * m, |m| 900.0 + 0.3 * m));
    let (mut tiled, mut whole, mut compared) = (0, 0, 0);
    for m in [1, 127, 128, 129, 1000, 4096, 50_000] {
        for (cost, flags) in [
            ("samples.csv", "--align 1"),
            ("samples.csv", "--align 128 --contention 1.15,1.15"),
            ("samples.csv", "--align 96 --max-tiles 3"),
            ("samples.csv", "--max-tiles 1"),
            ("samples.csv", "--contention 2.5,2.5"),
            ("costly.csv", ""),
        ] {
            let line = format!("plan matmul_all_reduce --m {m} --n 512 --k 64 --ranks 4 --cost {cost} --json {flags}");
            let plan = place.line(&line).ok().summary();
            let tiles = rows(&plan["tiles"]);
            assert_eq!(tiles.iter().sum::<u64>(), m, "{line}");
            assert_eq!(plan["verdict"] == "do-not-tile", tiles.len() == 1, "{line}");
            assert!(plan["verdict"] == "do-not-tile" || plan["verdict"] == "tile", "{line}");
            assert!(tiles.len() <= plan["max_tiles"].as_u64().unwrap_or(u64::MAX) as usize, "{line}");
            let number = |key: &str| plan[key].as_f64().unwrap();
            assert!(number("predicted_us") <= number("serial_us") && number("benefit") >= 0.0, "{line}");
            assert!(number("predicted_us") >= number("bound_with_contention_us") * (1.0 - 1e-9), "{line}");
            assert!(number("bound_with_contention_us") >= number("bound_us") * (1.0 - 1e-9), "{line}");
            near(&plan["benefit"], (number("serial_us") - number("predicted_us")) / number("serial_us"), 1e-12);
            let align = plan["align"].as_u64().unwrap();
            let aligned = |tiles: &[u64]| tiles.iter().rev().skip(1).all(|tile| tile.is_multiple_of(align));
            assert!(aligned(&tiles), "{line}");
            let most = plan["max_tiles"].as_u64().unwrap_or(u64::MAX);
            for (name, other) in plan["alternative_tiles"].as_object().unwrap() {
                let other = rows(other);
                assert_eq!(other.iter().sum::<u64>(), m, "{line}: {name}");
                if other.len() as u64 <= most && aligned(&other) {
                    let takes = plan["alternatives"][name].as_f64().unwrap();
                    assert!(number("predicted_us") <= takes * (1.0 + 1e-9), "{line}: {name}");
                    compared += 1;
                }
            }
            if tiles.len() > 1 { tiled += 1 } else { whole += 1 }
        }
    }
    assert!(tiled >= 10 && whole >= 10, "{tiled} tiled, {whole} whole");
    assert!(compared > 3 * (tiled + whole), "{compared} compared");
}

#[test]
fn why_not_to_tile() {
    let place = with_guide();
    for (flags, says) in [
        ("--max-tiles 1", "only one tile is allowed"),
        ("--align 8192", "there are too few rows for two aligned tiles"),
        ("--contention 3,3", "the lanes slow each other down by more than the overlap saves"),
    ] {
        let said = place.line(&format!("{GUIDE} {flags}")).ok().stdout;
        assert!(said.starts_with(&format!("do not tile: {says}\n")), "{said}");
    }
    let place = Place::new();
    place.file("samples.csv", samples(&[256, 512, 1024], |m| 500.0 + 0.1 * m, |m| 900.0 + 0.1 * m));
    let said = place.line(GUIDE).ok().stdout;
    assert!(said.starts_with("do not tile: additional tiles cost more time than they hide\n"), "{said}");
    assert!(said.contains("saved: 0.0 % of serial"), "{said}");
}

#[test]
fn sizes_beyond_the_samples_are_mentioned() {
    let place = Place::new();
    place.file("samples.csv", samples(&[256, 512, 768, 1024, 2048], |m| 0.2 * m, |m| 10.0 + 0.2 * m));
    // Tiles are no smaller than what was measured, so only one size is beyond it.
    let plan = place.line(&format!("{GUIDE} --json")).ok().summary();
    assert!(rows(&plan["tiles"]).iter().all(|tile| (256..=2048).contains(tile)), "{plan}");
    assert_eq!(plan["min_tile"], 256);
    let says = "computation was measured from 256 to 2048 rows; its time is extrapolated for all 4096 rows in one tile";
    assert_eq!(plan["notes"][0], says);
    assert!(place.line(GUIDE).ok().stdout.contains("tiles aligned to 128, at least 256 rows each\n"));
    // Unless that is asked for.
    let plan = place.line(&format!("{GUIDE} --min-tile 128 --json")).ok().summary();
    assert!(rows(&plan["tiles"]).contains(&128), "{plan}");
    for (place, lane) in ["computation", "communication"].into_iter().enumerate() {
        let says = format!(
            "{lane} was measured from 256 to 2048 rows; its time is extrapolated for the planned tiles of \
             128 rows and all 4096 rows in one tile"
        );
        assert_eq!(plan["notes"][place], says);
    }
}

#[test]
fn contention_is_taken_into_account() {
    let place = with_guide();
    let plan = place.line(&format!("{GUIDE} --contention 1.15,1.15 --json")).ok().summary();
    assert_eq!(plan["contention"], json!({"compute": 1.15, "communicate": 1.15}));
    near(&plan["alternatives"]["short_long_rule"], 1387.5, 1.0);
    near(&plan["bound_with_contention_us"], 803.14 * 1.15 + (930.94 - 803.14), 0.5);
    near(&plan["bound_us"], 930.9, 0.5);
    assert_eq!(plan["notes"], json!([]));
    let said = place.line(&format!("{GUIDE} --contention 1.15,1.15")).ok().stdout;
    assert!(said.contains("with contention") && said.contains(" us of contention"), "{said}");
}

#[test]
fn many_places_to_cut_are_taken_in_multiples() {
    let place = with_guide();
    let plan = place.line(&format!("{GUIDE} --align 1 --json")).ok().summary();
    assert_eq!(plan["grain"], 32);
    assert!(plan["notes"].to_string().contains("only cuts at multiples of 32 rows were"), "{}", plan["notes"]);

    // The maximum number of rows: no data structure grows with it.
    let line =
        "plan matmul-all-reduce --m 4000000000000000000 --n 1 --k 1 --ranks 2 --cost samples.csv --align 1 --json";
    let plan = place.line(line).ok().summary();
    assert_eq!(rows(&plan["tiles"]).iter().sum::<u64>(), 4_000_000_000_000_000_000);
    assert!(plan["notes"].to_string().contains("rule may produce more than 1048576 tiles here"), "{plan}");
    assert_eq!(plan["alternatives"].get("short_long_rule"), None);
}

#[test]
fn spreadsheets_write_csv_too() {
    let place = Place::new();
    let csv = guide()
        .replace("compute", " \"compute\" ")
        .replace('\n', "\r\n")
        .replace("communicate,512", "\r\ncommunicate , 512");
    place.file("samples.csv", format!("\u{feff}{csv}"));
    let plan = place.line(&format!("{GUIDE} --json")).ok().summary();
    assert_eq!(plan, with_guide().line(&format!("{GUIDE} --json")).ok().summary());
}

#[test]
fn plans_are_replayed_and_compared() {
    let place = with_guide();
    place.file("rule.json", r#"{"tiles": [512, 896, 896, 896, 896]}"#);
    place.file("ragged.json", r#"{"tiles": [4000, 96], "written by": "hand"}"#);
    let saved = place.line(&format!("{GUIDE} --json")).ok().stdout;
    place.file("saved.json", &saved);
    let line = format!("{GUIDE} --replay rule.json --replay ragged.json --replay saved.json");
    let plan = place.line(&format!("{line} --json")).ok().summary();
    let [rule, ragged, same] = [0, 1, 2].map(|replay| &plan["replays"][replay]);
    near(&rule["predicted_us"], 1282.9, 0.5);
    assert_eq!(rule["predicted_us"], plan["alternatives"]["short_long_rule"]);
    near(&rule["above_plan"], 1282.9 / 1213.8 - 1.0, 0.001);
    assert_eq!((&rule["file"], rows(&rule["tiles"]).len()), (&json!("rule.json"), 5));
    assert_eq!(rule.get("stated_us"), None);
    assert!(ragged["above_plan"].as_f64().unwrap() > 0.3);
    assert_eq!((&same["predicted_us"], &same["stated_us"]), (&plan["predicted_us"], &plan["predicted_us"]));
    near(&same["above_plan"], 0.0, 1e-12);
    assert_eq!(same["tiles"], plan["tiles"]);
    assert!(plan["notes"].to_string().contains("ragged.json has tiles that are not aligned to 128 rows"));

    let said = place.line(&line).ok().stdout;
    for part in [
        "rule.json            1282.",
        "+5.7 %  {512, 896 x 4}\n",
        "saved.json: the file predicts 121",
        "rule.json: 128",
    ] {
        assert!(said.contains(part), "lacks {part:?}\n{said}");
    }

    // With other costs, and for another operation than the plan was made for.
    place.file("slower.csv", samples(&[128, 1024, 4096], |m| 0.4 * m, |m| 10.0 + 0.5 * m));
    let line = line.replace("samples.csv", "slower.csv").replace("--ranks 8", "--ranks 16");
    let plan = place.line(&format!("{line} --json --max-tiles 4")).ok().summary();
    let same = &plan["replays"][2];
    assert!(same["predicted_us"].as_f64().unwrap() > 1.5 * same["stated_us"].as_f64().unwrap());
    let notes = plan["notes"].to_string();
    assert!(notes.contains("saved.json was made for ranks = 8\""), "{notes}");
    assert!(notes.contains("rule.json has 5 tiles, more than --max-tiles"), "{notes}");
}

#[test]
fn a_drawing_and_a_trace() {
    let place = with_guide();
    place.file("a<b>&.json", r#"{"tiles": [2048, 2048]}"#);
    let line = format!("{GUIDE} --svg out.svg --trace t.json --replay a<b>&.json");
    let before = place.names().len();
    place.line(&line).ok();
    assert_eq!(place.names().len(), before + 2, "{:?}", place.names());

    let svg = String::from_utf8(place.read("out.svg")).unwrap();
    assert!(
        svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=") && svg.ends_with("</svg>\n"),
        "{svg}"
    );
    // A background, and two lanes of five and of two tiles.
    assert_eq!(svg.matches("<rect ").count(), 1 + 2 * (5 + 2));
    assert_eq!(svg.matches(">computation</text>").count(), 2);
    assert_eq!(svg.matches(">communication</text>").count(), 2);
    assert!(svg.contains("<title>communication of tile 4: 1536 rows, "), "{svg}");
    assert!(svg.contains(">1536</text>") && svg.contains("planned: 5 tiles, 1213."), "{svg}");
    assert!(svg.contains("a&lt;b&gt;&amp;.json: 2 tiles"), "{svg}");
    assert!(!svg.contains("script") && !svg.contains("href") && !svg.contains("NaN"), "{svg}");
    for tag in ["svg", "text", "title"] {
        assert_eq!(svg.matches(&format!("<{tag}")).count(), svg.matches(&format!("</{tag}>")).count(), "{tag}");
    }

    let plan = place.line(&format!("{GUIDE} --json")).ok().summary();
    let trace = place.json("t.json");
    let events = trace["traceEvents"].as_array().unwrap();
    let spans = |process: u64, category: &str| -> Vec<(f64, f64, u64)> {
        let of = |event: &&Value| event["ph"] == "X" && event["pid"] == process && event["cat"] == category;
        let span = |event: &Value| {
            let (begin, length) = (event["ts"].as_f64().unwrap(), event["dur"].as_f64().unwrap());
            (begin, begin + length, event["args"]["rows"].as_u64().unwrap())
        };
        events.iter().filter(of).map(span).collect()
    };
    let (compute, communicate) = (spans(0, "computation"), spans(0, "communication"));
    assert_eq!((compute.len(), communicate.len(), spans(1, "communication").len()), (5, 5, 2));
    assert_eq!(communicate.iter().map(|span| span.2).collect::<Vec<_>>(), rows(&plan["tiles"]));
    for ((tile, next), before) in communicate.iter().zip(&communicate[1..]).zip(&compute) {
        assert!(
            before.1 <= tile.0 + 1e-6 && tile.1 <= next.0 + 1e-6,
            "no tile is communicated before it is computed, nor two at once"
        );
    }
    near(&plan["predicted_us"], communicate[4].1, 1e-6);
    let names: Vec<&Value> =
        events.iter().filter(|event| event["ph"] == "M").map(|event| &event["args"]["name"]).collect();
    for name in ["planned", "a<b>&.json", "computation", "communication"] {
        assert!(names.contains(&&json!(name)), "{names:?}");
    }
}

#[test]
fn files_are_replaced_when_that_is_asked_for() {
    let place = with_guide();
    place.file("out.svg", "precious").file("t.json", "precious");
    let line = format!("{GUIDE} --svg out.svg --trace t.json");
    place.line(&line).fails(&line, 73, &["out.svg already exists", "hint: pass --overwrite"]);
    assert_eq!(place.read("out.svg"), b"precious");
    let names = place.names();
    place.line(&format!("{line} --overwrite")).ok();
    assert!(place.read("out.svg").starts_with(b"<svg "));
    assert!(place.json("t.json")["traceEvents"].is_array());
    assert_eq!(place.names(), names);
}

#[test]
fn two_equal_runs_say_and_write_the_same() {
    let place = with_guide();
    let line = format!("{GUIDE} --json --svg out.svg --trace t.json --overwrite");
    let first = place.line(&line).ok().stdout;
    let contents = place.contents();
    assert_eq!(place.line(&line).ok().stdout, first);
    assert_eq!(place.contents(), contents);
}

#[test]
fn help_has_examples() {
    let help = Place::new().line("plan --help").ok().stdout;
    assert!(help.find("Examples:").unwrap() < help.find("Usage:").unwrap(), "{help}");
    for part in [
        "matmul-all-reduce",
        "matmul-reduce-scatter",
        "all-gather-matmul",
        "stage,m,microseconds",
        "--contention",
        "over all ranks",
        "that one rank computes",
        "that one rank holds",
        "mpiexec -n 2 windrow plan",
    ] {
        assert!(help.contains(part), "{help}");
    }
}

/// If rows are divided among ranks, every tile has equally many of each rank.
#[test]
fn tiles_are_dealt_out_to_ranks() {
    let place = with_guide();
    place.file("odd.json", r#"{"tiles": [128, 2872]}"#).file("even.json", r#"{"tiles": [384, 2616]}"#);
    for operation in ["matmul-reduce-scatter", "all-gather-matmul"] {
        let line = format!("plan {operation} --m 3000 --n 8192 --k 3072 --ranks 3 --cost samples.csv");
        let line = format!("{line} --replay odd.json --replay even.json");
        let plan = place.line(&format!("{line} --json")).ok().summary();
        let tiles = rows(&plan["tiles"]);
        assert!(tiles.len() > 1 && tiles.iter().all(|tile| tile.is_multiple_of(3)), "{tiles:?}");
        assert!(tiles.iter().rev().skip(1).all(|tile| tile.is_multiple_of(384)), "{tiles:?}");
        for (name, tiles) in plan["alternative_tiles"].as_object().unwrap() {
            assert!(rows(tiles).iter().all(|tile| tile.is_multiple_of(3)), "{name}: {tiles}");
        }
        assert_eq!((&plan["align"], &plan["grain"]), (&json!(128), &json!(384)));
        let notes = plan["notes"].to_string();
        let says = "multiples of 384 rows, the least common multiple of the alignment (128) and the number of ranks";
        assert!(notes.contains(says), "{notes}");
        let says = "odd.json cannot be run: its tile of 128 rows cannot be divided evenly among 3 ranks";
        assert!(notes.contains(says) && !notes.contains("even.json"), "{notes}");
        assert!(place.line(&line).ok().stdout.contains("on 3 ranks, tiles aligned to 384\n"));
    }
    // All ranks have all rows.
    let line = "plan matmul-all-reduce --m 3001 --n 8192 --k 3072 --ranks 3 --cost samples.csv --json";
    let plan = place.line(line).ok().summary();
    assert_eq!(plan["grain"], 128);
    assert!(!plan["notes"].to_string().contains("least common multiple"), "{plan}");
}

/// Times that no fit comes near, for every possible tile: they are looked up. A note says so, and what a fit would miss.
#[test]
fn what_was_measured_for_all_tiles_needs_no_fit() {
    let place = Place::new();
    // The time of a tile depends on its rows in a way that no pieces can express.
    let jagged = |m: f64| if (m / 128.0) as u64 % 3 == 1 { 0.9 * m } else { 0.2 * m };
    place.file("samples.csv", samples(&[128, 256, 384, 512, 640, 768, 896, 1024], jagged, |m| 20.0 + 0.2 * m));
    let line = "plan matmul-all-reduce --n 512 --k 64 --ranks 4 --cost samples.csv";
    let plan = place.line(&format!("{line} --m 1024 --json")).ok().summary();
    assert_eq!((&plan["fits"]["compute"]["source"], &plan["fits"]["compute"]["worst"]), (&json!("table"), &json!(0.0)));
    assert_eq!(plan["fits"]["communicate"]["source"], "fit");
    near(&plan["fits"]["compute"]["whole_us"], jagged(1024.0), 1e-9);
    // One tile of 1024 rows is computed in 205 us. Tiles of 256 or 384 rows cost no more per row; those of 128 and 512 do.
    let tiles = rows(&plan["tiles"]);
    assert!(tiles.iter().sum::<u64>() == 1024 && tiles.iter().all(|tile| tile / 128 % 3 != 1), "{plan}");
    assert!(
        plan["notes"]
            .to_string()
            .contains("every possible tile size was measured, so the computation time is looked up"),
        "{plan}"
    );
    let said = place.line(&format!("{line} --m 1024")).ok().stdout;
    assert!(
        said.contains("computation: 8 sizes from 128 to 1024 rows in samples.csv, looked up instead of fitted\n"),
        "{said}"
    );
    // One more tile, without a measurement: that needs a fit, and none exists.
    let line = format!("{line} --m 1152");
    place.line(&line).fails(&line, 65, &["samples.csv, stage compute: ", "--tolerance "]);
    place.line(&format!("{line} {ANY}")).ok();
}

/// The command and the library have one rule: a file of samples has the plan of a profile made of the same samples.
#[test]
fn samples_and_their_profile_have_one_plan() {
    let place = Place::new();
    let (mut cut, mut whole, mut fewer) = (0, 0, 0);
    for (number, (start, fixed, each, scatter)) in [
        (3.0, 20.0, 0.2, 0.0),
        (3.0, 1.0, 0.3, 0.0),
        (0.0, 0.2, 0.25, 0.004),
        (3.0, 5.0, 0.02, 0.0),
        (50.0, 60.0, 0.1, 0.04),
        (40.0, 40.0, 0.1, 0.02),
        (3.0, 80.0, 0.05, 0.0),
        (0.1, 10.0, 0.2, 0.08),
    ]
    .into_iter()
    .enumerate()
    {
        let off = |m: f64| if ((m / 256.0) as u64).is_multiple_of(2) { 1.0 + scatter } else { 1.0 - scatter };
        // A file has as many digits as a profile keeps, so both have the same numbers.
        let rounded = |time: f64| (1e3 * time).round() / 1e3;
        let compute = |m: f64| rounded(start + 0.1 * m);
        let communicate = |m: f64| rounded((fixed + each * m) * off(m));
        let sizes = [128, 256, 384, 512, 640, 1024, 1536, 2048];
        place.file("s.csv", samples(&sizes, compute, communicate));
        let measured = |stage, m: u64, microseconds| Measured { stage, m, microseconds };
        let measured = sizes.into_iter().flat_map(|m| {
            let rows = m as f64;
            [measured(Stage::Compute, m, compute(rows)), measured(Stage::Communicate, m, communicate(rows))]
        });
        let shape = Shape { operation: Operation::MatmulAllReduce, element: "f32".to_owned(), ranks: 4, n: 512, k: 64 };
        let contention = Contention { compute: 1.1, communicate: 1.2 };
        let profile = Profile::new(shape, measured.collect(), contention).unwrap();
        for m in [256, 512, 1024, 4096] {
            let line = format!("plan matmul-all-reduce --m {m} --n 512 --k 64 --ranks 4 --cost s.csv --json");
            let said = place.line(&format!("{line} --contention 1.1,1.2")).ok().summary();
            let plan = profile.plan(m).unwrap();
            let case = format!("{number}, {m} rows: {said}");
            assert_eq!(rows(&said["tiles"]), plan.tiles.iter().map(|tile| tile.0).collect::<Vec<_>>(), "{case}");
            near(&said["predicted_us"], plan.predicted.as_micros(), 1e-6 * plan.predicted.as_micros());
            near(&said["margin"]["error"], plan.inputs.margin.error, 1e-6);
            near(&said["gap"], plan.gap, 1e-6);
            assert!(said["why"].as_str().unwrap().starts_with(plan.why), "{case}");
            let exact = &said["alternative_tiles"]["exact"];
            if plan.tiles.len() > 1 {
                cut += 1
            } else {
                whole += 1
            }
            fewer += usize::from(*exact != said["tiles"]);
        }
    }
    assert!(cut > 5 && whole > 5 && fewer > 1, "{cut} {whole} {fewer}");
}

/// A gain within the error of the predictions is no reason to cut; the best cut by the samples is still shown.
#[test]
fn a_cut_has_to_gain_more_than_predictions_are_off_by() {
    let place = Place::new();
    let scatter = |m: f64| if ((m / 256.0) as u64).is_multiple_of(2) { 1.04 } else { 0.96 };
    let file = samples(&[256, 512, 768, 1024, 1280, 2048], |m| 60.0 + 0.1 * m, |m| scatter(m) * (60.0 + 0.1 * m));
    place.file("samples.csv", file);
    let line = "plan matmul-all-reduce --m 2048 --n 512 --k 64 --ranks 4 --cost samples.csv --contention 1.3,1.3";
    let plan = place.line(&format!("{line} --json")).ok().summary();
    assert_eq!((&plan["verdict"], &plan["tiles"]), (&json!("do-not-tile"), &json!([2048])), "{plan}");
    assert!(
        plan["why"].as_str().unwrap().starts_with("the gain of the best cut is within the error of the predictions")
    );
    let [exact, serial] = ["exact", "serial"].map(|name| plan["alternatives"][name].as_f64().unwrap());
    let error = plan["margin"]["error"].as_f64().unwrap();
    assert!(exact < serial && exact * (1.0 + error) >= serial && error > 0.01, "{plan}");
    assert!(rows(&plan["alternative_tiles"]["exact"]).len() > 1, "{plan}");
    let said = place.line(line).ok().stdout;
    let margin = format!(
        "margin: a cut has to gain more than {:.1} %, because it may take that much longer than predicted\n",
        100.0 * error
    );
    assert!(said.contains(&margin) && said.contains("  exact "), "{said}");
    let two = place.line(&format!("{line} --family two-sizes --json")).ok().summary();
    assert_eq!((&two["verdict"], &two["margin"]), (&plan["verdict"], &plan["margin"]));
}

/// Between 10 % and 30 %, a fit gives a plan that says how far it can be trusted.
#[test]
fn a_loose_fit_gives_a_plan_and_says_what_that_means() {
    let place = Place::new();
    let bent = |m: f64| if m == 512.0 { 0.26 * m } else { 0.2 * m };
    place.file("samples.csv", samples(&[256, 512, 1024], bent, |m| 20.0 + 0.2 * m));
    let line = "plan matmul-all-reduce --m 4096 --n 512 --k 64 --ranks 4 --cost samples.csv";
    let plan = place.line(&format!("{line} --json")).ok().summary();
    let worst = plan["fits"]["compute"]["worst"].as_f64().unwrap();
    assert!((0.1..0.3).contains(&worst), "{plan}");
    let notes = plan["notes"].to_string();
    assert!(notes.contains("the fit of the computation is loose: 512 rows took 133.1 us; the predicted "), "{notes}");
    let off = format!(
        "predictions may be off by {:.1} %; if the time of a lane is off by the error of its fit, another cut is \
         at most ",
        100.0 * worst
    );
    assert!(notes.contains(&off), "{notes}");
    assert!(
        notes.contains(" % faster; alternatives predicted to be so close to the plan that they may be faster: ")
            && notes.contains("uniform"),
        "{notes}"
    );
    let strict = format!("{line} --tolerance 5%");
    let remedy = format!("--tolerance {}%", (100.0 * worst).ceil());
    place.line(&strict).fails(
        &strict,
        65,
        &["samples.csv, stage compute: the fit gives", "more than the allowed 5.0 %", &remedy],
    );
    place.line(&format!("{line} {remedy}")).ok();
}

#[test]
fn a_list_of_tiles_is_a_plan() {
    let place = with_guide();
    place
        .file("list.json", " [512, 896, 896, 896, 896]\n")
        .file("object.json", r#"{"tiles": [512, 896, 896, 896, 896]}"#);
    let plan = place.line(&format!("{GUIDE} --replay list.json --replay object.json --json")).ok().summary();
    let [list, object] = [0, 1].map(|replay| &plan["replays"][replay]);
    assert_eq!((&list["tiles"], &list["predicted_us"]), (&object["tiles"], &object["predicted_us"]));
}

/// A plan from twenty thousand sizes, for which not all divisions are compared.
#[test]
fn there_may_be_many_sizes() {
    let place = Place::new();
    let sizes: Vec<u64> = (1..=20_000).collect();
    place.file(
        "samples.csv",
        samples(&sizes, |m| 5.0 + 0.2 * m, |m| if m < 3000.0 { 20.0 + 0.3 * m } else { 200.0 + 0.25 * m }),
    );
    let plan = place.line("plan matmul-all-reduce --m 4096 --n 512 --k 64 --ranks 4 --cost samples.csv --json").ok();
    let plan = plan.summary();
    assert_eq!(plan["fits"]["communicate"]["sizes"], 20_000);
    near(&plan["fits"]["communicate"]["worst"], 0.0, 1e-6);
}

const SHAPE: &str = "plan matmul-reduce-scatter --m 60 --n 64 --k 48 --ranks 2 --align 4";
const CALIBRATE: &str = "--calibrate in-process --link 200,300";

/// A tolerance with which no samples are refused.
const ANY: &str = "--tolerance 100000000%";

#[test]
fn ranks_of_this_process_calibrate() {
    let place = Place::new();
    place.line(&format!("{SHAPE} {CALIBRATE} --refine --samples-out s.csv --json")).ok();
    let text = std::fs::read_to_string(place.path("s.csv")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // As many passes as were needed.
    let each = (lines.len() - 1) / 2;
    assert!(lines[0] == "stage,m,microseconds" && lines.len() == 1 + 2 * each, "{text}");
    assert!([3, 6, 12].map(|passes| 5 * passes).contains(&each), "{each} samples of a stage");
    let sizes = [4, 8, 16, 30, 60];
    for (number, line) in lines[1..].iter().enumerate() {
        let stage = if number < each { "compute" } else { "communicate" };
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!((fields[0], fields[1].parse()), (stage, Ok(sizes[number % 5])), "{line}");
        let micros: f64 = fields[2].parse().unwrap();
        // A tile is on the link for 300 us or more.
        assert!(micros > if stage == "compute" { 0.0 } else { 300.0 }, "{line}");
    }
    // The samples are enough for a plan.
    place.line(&format!("{SHAPE} --cost s.csv --json {ANY}")).ok();
}

/// A calibration ends with a plan, however its samples scatter, unless a tolerance was given: then the samples are still written.
#[test]
fn a_calibration_beyond_its_tolerance_is_refused_with_its_samples() {
    let place = Place::new();
    let line = format!("{SHAPE} {CALIBRATE} --refine --samples-out s.csv --tolerance 0.0000001%");
    let hint = "or plan with this less exact fit: --tolerance ";
    let ran = place.line(&line);
    assert!(ran.code == Some(65) && ran.stderr.contains(hint) && ran.stdout.is_empty(), "{}", ran.stderr);
    assert_eq!(place.read("s.csv").iter().filter(|&&byte| byte == b'\n').count(), 1 + 2 * 5 * 12);
}

#[test]
fn a_calibration_gives_a_plan() {
    let place = Place::new();
    let line = format!("{SHAPE} {CALIBRATE} --samples-out s.csv --overwrite --json");
    let plan = place.line(&line).ok().summary();
    assert_eq!(rows(&plan["tiles"]).iter().sum::<u64>(), 60);
    assert_eq!((&plan["cost"], plan.get("refined")), (&json!("the calibration"), None));
    assert!(plan["contention"]["compute"].as_f64().unwrap() >= 1.0);
    let of_samples = place.line(&format!("{SHAPE} --cost s.csv --json {ANY}")).ok().summary();
    // A file stores times in thousandths of a microsecond.
    near(&of_samples["serial_us"], plan["serial_us"].as_f64().unwrap(), 0.01);
    // The best plan according to the samples is an alternative, and better only by as much as they scatter; unless it gains too little.
    let exact = plan["alternatives"]["exact"].as_f64().unwrap();
    if plan["why"].as_str().unwrap().contains("within the error of the predictions") {
        assert_eq!(plan["verdict"], "do-not-tile");
    } else {
        near(&plan["predicted_us"], exact, 0.011 * exact);
    }
    assert!(plan["gap"].as_f64().unwrap() >= plan["predicted_us"].as_f64().unwrap() / exact - 1.0 - 1e-9);
}

#[test]
fn what_was_the_fastest_is_kept() {
    let place = Place::new();
    let limits = "--refine --max-tiles 2 --contention 1.5,1.25 --json --svg t.svg --trace t.json --overwrite";
    let plan = place.line(&format!("{SHAPE} {CALIBRATE} {limits}")).ok().summary();
    let refined = plan["refined"].as_array().unwrap();
    assert!((1..=3).contains(&refined.len()), "{plan}");
    let took = |run: &Value| run["took_us"].as_f64().unwrap();
    for run in refined {
        let tiles = rows(&run["tiles"]);
        assert!(tiles.iter().sum::<u64>() == 60 && tiles.len() <= 2, "{plan}");
        assert!(took(run) > 300.0 && took(run) >= took(&refined[0]), "{plan}");
    }
    assert_eq!((&plan["tiles"], &plan["predicted_us"]), (&refined[0]["tiles"], &refined[0]["predicted_us"]));
    assert_eq!(plan["verdict"] == "do-not-tile", rows(&plan["tiles"]).len() == 1);
    assert_eq!(plan["contention"], json!({"compute": 1.5, "communicate": 1.25}));
    let why = plan["why"].as_str().unwrap();
    assert!(why.contains("run, at ") && why.contains(&format!("{:.1} us", took(&refined[0]))), "{why}");
    // The planner's cut was run; otherwise the predictions came from elsewhere.
    assert!(refined.iter().any(|run| run["tiles"] == plan["alternative_tiles"]["planned"]), "{plan}");
    assert!(plan["alternatives"]["planned"].is_number());
    let drawn = String::from_utf8(place.read("t.svg")).unwrap();
    assert!(
        drawn.contains("refined: ") && place.read("t.json").windows(9).any(|part| part == b"\"refined\""),
        "{drawn}"
    );
}

#[test]
fn calibrations_that_cannot_be_are_refused() {
    let place = with_guide();
    let shape = "plan matmul-all-reduce --m 4096 --n 64 --k 64";
    let refused = |line: &str, why: &str| place.line(line).fails(line, 2, &[why]);
    refused(&format!("{GUIDE} --calibrate in-process"), "cannot be used with");
    refused(&format!("{GUIDE} --refine"), "cannot be used with");
    refused(&format!("{shape} --ranks 2 --refine"), "--calibrate");
    refused(&format!("{shape} --ranks 100 --calibrate in-process"), "100 ranks are too many");
    refused(&format!("{shape} --ranks 2 --calibrate in-process --link 0,5"), "megabytes per second");
    refused("plan matmul-all-reduce --m 2 --n 4 --k 4 --ranks 2 --calibrate in-process", "m = 2 is too small");
    let huge = "plan matmul-all-reduce --m 4096 --n 2000000 --k 2000000 --ranks 4 --calibrate in-process";
    refused(huge, "GiB is free");
    let long = "plan matmul-all-reduce --m 4000000000000000000 --n 1 --k 1 --ranks 2 --calibrate in-process";
    refused(long, "hint: pass a larger --align");
    refused(&format!("{shape} --ranks 2 --calibrate mpi --link 100,5"), "MPI ranks already have one");
    let dealt = "plan all-gather-matmul --m 4097 --n 64 --k 64 --ranks 2 --calibrate in-process --samples-out new.csv";
    refused(dealt, "4097 rows cannot be divided evenly among 2 ranks");
    assert!(!place.path("new.csv").exists(), "nothing was measured");
    let taken = format!("{shape} --ranks 2 --calibrate in-process --samples-out samples.csv");
    place.line(&taken).fails(&taken, 73, &["already exists"]);
}

#[cfg(not(feature = "mpi"))]
#[test]
fn without_mpi_it_says_how_to_get_it() {
    let line = "plan matmul-all-reduce --m 4096 --n 64 --k 64 --ranks 2 --calibrate mpi";
    let says = ["no MPI support", "cargo install --path crates/windrow-cli --features mpi", "Fused::calibrate"];
    Place::new().line(line).fails(line, 2, &says);
}
