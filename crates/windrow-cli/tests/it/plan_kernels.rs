//! `windrow plan` for authors of kernels: two sizes, minimum sizes, the numbers of a plan, and tables of plans.

use serde_json::{Value, json};

use crate::common::Place;
use crate::plan::{guide, samples};

const GUIDE: &str = "plan matmul-all-reduce --m 4096 --n 8192 --k 3072 --ranks 8 --cost samples.csv";

fn with_guide() -> Place {
    let place = Place::new();
    place.file("samples.csv", guide());
    place
}

fn rows(tiles: &Value) -> Vec<u64> {
    serde_json::from_value(tiles.clone()).unwrap()
}

/// Whether these are equal tiles with one tile of another size before or after them, or equal tiles.
fn of_two_sizes(tiles: &[u64]) -> bool {
    let equal = |tiles: &[u64]| tiles.windows(2).all(|pair| pair[0] == pair[1]);
    equal(&tiles[1..]) || equal(&tiles[..tiles.len() - 1])
}

#[test]
fn two_sizes_are_the_best_that_a_kernel_can_run() {
    let place = with_guide();
    let any = place.line(&format!("{GUIDE} --json")).ok().summary();
    let two = place.line(&format!("{GUIDE} --family two-sizes --json")).ok().summary();
    assert_eq!((&two["family"], &two["tiles"]), (&json!("two-sizes"), &any["alternative_tiles"]["two_sizes"]));
    assert_eq!(rows(&two["tiles"]), [768, 768, 768, 1792]);
    assert_eq!(
        (&two["alternative_tiles"]["exact"], &two["alternatives"]["exact"]),
        (&any["tiles"], &any["predicted_us"])
    );
    // The gap is relative to all cuts.
    let number = |plan: &Value, key: &str| plan[key].as_f64().unwrap();
    let above = number(&two, "predicted_us") / number(&any, "predicted_us") - 1.0;
    assert!(above > 0.0 && (number(&two, "gap") - above).abs() < 1e-9, "{two}");

    for (flags, most, least) in
        [("--max-tiles 2", 2, 1), ("--max-tiles 3 --min-tile 1024", 3, 1024), ("--min-tile 600", 99, 600)]
    {
        let plan = place.line(&format!("{GUIDE} --family two-sizes --json {flags}")).ok().summary();
        let tiles = rows(&plan["tiles"]);
        assert!(tiles.len() > 1 && tiles.len() <= most && of_two_sizes(&tiles), "{flags}: {tiles:?}");
        assert!(tiles.iter().all(|&tile| tile >= least), "{flags}: {tiles:?}");
        let any = place.line(&format!("{GUIDE} --json {flags}")).ok().summary();
        let tiles = rows(&any["tiles"]);
        assert!(tiles.len() <= most && tiles.iter().all(|&tile| tile >= least), "{flags}: {tiles:?}");
        assert!(number(&any, "predicted_us") <= number(&plan, "predicted_us"), "{flags}");
    }
    let whole = place.line(&format!("{GUIDE} --family two-sizes --min-tile 2049")).ok().stdout;
    assert!(whole.starts_with("do not tile: there are too few rows for two tiles of the minimum size\n"), "{whole}");
}

/// The pieces of the guide's fit of its all-reduce, and every step of its example.
#[test]
fn the_numbers_of_the_guide_s_example_are_printed() {
    let said = with_guide().line(GUIDE).ok().stdout;
    let lines: Vec<&str> = said.lines().map(str::trim).collect();
    for line in [
        "t = 0 + 0.196080 m us from m = 0 on",
        "short-long rule: communication is the bottleneck, m0 = max(171, 192, 384) = 384",
        "communication of 384 rows takes 142.2 us; times 1.15 = 163.6 us",
        "the other lane takes 163.6 us for m1 = 834, aligned to 768",
        "count = (4096 - 384) / 768 = 4.83, rounded down to 4",
        "m1 = (4096 - 384) / 4 = 928, aligned to 896",
        "m0 = 4096 - 4 x 896 = 512: {512, 896 x 4}",
    ] {
        assert!(lines.contains(&line), "lacks {line:?}\n{said}");
    }
    let plan = with_guide().line(&format!("{GUIDE} --json")).ok().summary();
    let pieces = plan["fits"]["communicate"]["pieces"].as_array().unwrap();
    assert_eq!(pieces.len(), 2, "{plan}");
    // The guide has 27.06 us a MiB and 13.58 us a MiB; a row has 16 KiB.
    for (piece, a, b, c) in
        [(&pieces[0], 14.769, 27.062_257_3, -0.969_820_2), (&pieces[1], 61.508_333, 13.584_912_63, 0.0)]
    {
        for (key, value) in [("a_us", a), ("b_us", b / 64.0), ("c_us", c / 64.0 / 64.0)] {
            let fitted = piece[key].as_f64().unwrap();
            assert!((fitted - value).abs() <= 1e-3 * f64::abs(value), "{key}: {fitted} instead of {value}");
        }
    }
    // The pieces give the times that the plan uses.
    let at = |m: f64| {
        let piece = pieces.iter().rev().find(|piece| piece["from"].as_f64().unwrap() <= m).unwrap();
        let [a, b, c] = ["a_us", "b_us", "c_us"].map(|key| piece[key].as_f64().unwrap());
        a + b * m + c * m * m
    };
    let whole = plan["fits"]["communicate"]["whole_us"].as_f64().unwrap();
    assert!((at(4096.0) / whole - 1.0).abs() < 1e-9, "{} {whole}", at(4096.0));
    let steps = &plan["rule"]["steps"];
    assert_eq!(plan["rule"]["thresholds"], json!([171, 192, 384]));
    for (key, value) in
        [("short", 384), ("long", 768), ("count", 4), ("even", 928), ("long_tile", 896), ("short_tile", 512)]
    {
        assert_eq!(steps[key], value, "{key}: {plan}");
    }
    assert_eq!(plan["rule"]["tiles"], json!([512, 896, 896, 896, 896]));

    let short = with_guide().line(&GUIDE.replace("--m 4096", "--m 300")).ok().stdout;
    assert!(short.contains("= 384; m = 300 is too small for a short and a long tile\n"), "{short}");
}

/// A reader of tables, as a kernel would be one.
struct Table(Vec<[u64; 6]>);

impl Table {
    fn read(text: &str) -> Self {
        let numbers = |line: &str| -> Option<Vec<u64>> {
            let line = line.trim().trim_start_matches('{').trim_end_matches(',').trim_end_matches('}');
            line.split(',').map(|number| number.trim().parse().ok()).collect()
        };
        let row = |line: &str| numbers(line)?.try_into().ok();
        Self(text.lines().filter_map(row).collect())
    }

    /// The tiles of `m` rows.
    fn tiles(&self, m: u64) -> Vec<u64> {
        let row = self.0.iter().find(|row| (row[0]..=row[1]).contains(&m)).unwrap_or_else(|| panic!("no row for {m}"));
        let [_, _, tile, tiles, tail, tails] = *row;
        let (mut left, mut cut) = (m, Vec::new());
        for rows in std::iter::repeat_n(tile, tiles as usize).chain(std::iter::repeat_n(tail, tails as usize)) {
            cut.extend(Some(rows.min(left)).filter(|&rows| rows > 0));
            left = left.saturating_sub(rows);
        }
        assert_eq!(left, 0, "the tiles of {row:?} do not cover {m} rows");
        cut
    }
}

#[test]
fn a_table_has_the_plan_of_every_m() {
    let place = with_guide();
    let list = "1000,256..2048,4096..8192..1024";
    let line = format!("{GUIDE} --family two-sizes --max-tiles 16 --min-tile 512 --table-m {list}");
    place.line(&format!("{line} --table t.csv")).ok();
    place.line(&format!("{line} --table t.h")).ok();
    let [csv, header] = ["t.csv", "t.h"].map(|name| String::from_utf8(place.read(name)).unwrap());
    assert!(csv.starts_with("m_from,m_to,tileM,tileNum,tailM,tailNum\n"), "{csv}");
    let (table, same) = (Table::read(&csv), Table::read(&header));
    assert_eq!(table.0, same.0);
    assert!(header.starts_with("/* ") && header.ends_with("};\n"), "{header}");

    let mut all: Vec<u64> = (2..=16).map(|step| 128 * step).chain((4..=8).map(|step| 1024 * step)).collect();
    all.push(1000);
    let (mut tiled, mut whole) = (0, 0);
    for m in all {
        let line = GUIDE.replace("--m 4096", &format!("--m {m}"));
        let plan =
            place.line(&format!("{line} --family two-sizes --max-tiles 16 --min-tile 512 --json")).ok().summary();
        assert_eq!(table.tiles(m), rows(&plan["tiles"]), "{m}: {csv}");
        if plan["verdict"] == "tile" { tiled += 1 } else { whole += 1 }
    }
    assert!(tiled > 5 && whole > 1, "{tiled} {whole}");
    // Without a gap from the first m to the last one, and with rows for the numbers in between.
    assert_eq!((table.0[0][0], table.0[table.0.len() - 1][1]), (256, 8192));
    assert!(table.0.windows(2).all(|pair| pair[0][1] + 1 == pair[1][0]), "{csv}");
    for m in [257, 999, 1001, 3000, 8191] {
        assert_eq!(table.tiles(m).iter().sum::<u64>(), m);
    }
    // Operations that are not tiled share a row.
    assert!(table.0.len() < 22, "{csv}");
}

/// A table that was written is read back with the same tiles, for the numbers of rows that it was made for and for those in between.
#[test]
fn a_table_can_be_replayed() {
    let place = with_guide();
    let family = "--family two-sizes --max-tiles 16";
    for table in ["t.csv", "t.h"] {
        place.line(&format!("{GUIDE} {family} --table {table} --table-m 256..8192..256")).ok();
    }
    for m in [256, 1024, 3072, 4096, 8192] {
        let line = GUIDE.replace("--m 4096", &format!("--m {m}"));
        let plan = place.line(&format!("{line} {family} --replay t.csv --replay t.h --json")).ok().summary();
        for replay in [0, 1] {
            let replay = &plan["replays"][replay];
            assert_eq!((&replay["tiles"], &replay["predicted_us"]), (&plan["tiles"], &plan["predicted_us"]), "{m}");
        }
        assert!(!plan["notes"].to_string().contains("t.csv"), "{plan}");
    }
    let between =
        place.line(&format!("{} {family} --replay t.csv --json", GUIDE.replace("4096", "4000"))).ok().summary();
    assert_eq!(rows(&between["replays"][0]["tiles"]).iter().sum::<u64>(), 4000);
    let line = format!("{} --replay t.h", GUIDE.replace("--m 4096", "--m 8193"));
    place.line(&line).fails(
        &line,
        65,
        &[
            "t.h: the table has no entry for m = 8193; its entries begin at m = 256 and end at m = 8192\n",
            "hint: write another table with --table-m 8193",
        ],
    );
    place.file("t.csv", "m_from,m_to,tileM,tileNum,tailM,tailNum\n1,2,3\n");
    let line = format!("{GUIDE} --replay t.csv");
    place.line(&line).fails(&line, 65, &["t.csv:2: \"1,2,3\" is not a row of a table", "hint: "]);
}

/// If rows are dealt out to ranks, so are those of every tile of a table.
#[test]
fn a_table_is_of_tiles_that_can_be_dealt_out() {
    let place = with_guide();
    let line = "plan matmul-reduce-scatter --m 3072 --n 8192 --k 3072 --ranks 3 --cost samples.csv --family two-sizes";
    place.line(&format!("{line} --table t.csv --table-m 384..6144")).ok();
    let table = Table::read(std::str::from_utf8(&place.read("t.csv")).unwrap());
    assert!(table.0.iter().any(|row| row[3] + row[5] > 1) && table.0[0][0] == 384);
    for m in (384..=6144).step_by(384) {
        assert!(table.tiles(m).iter().all(|tile| tile.is_multiple_of(3)), "{m}");
    }
}

#[test]
fn tables_that_cannot_be_are_refused() {
    let place = with_guide();
    let refused = |flags: &str, says: &str| {
        let line = format!("{GUIDE} {flags}");
        place.line(&line).fails(&line, 2, &[says]);
    };
    refused("--table t.csv --table-m 256", "hint: add --family two-sizes");
    refused("--family two-sizes --table t.csv", "--table-m");
    refused("--family two-sizes --table-m 256", "--table");
    refused("--family two-sizes --table t.csv --table-m 512..256", "such as 512,1024..8192");
    refused("--family two-sizes --table t.csv --table-m 1..5000..1", "more than 4096 row counts");
    refused("--family three", "two-sizes");
    refused("--min-tile 0", "at least 1");
    let dealt = "plan all-gather-matmul --m 4096 --n 64 --k 64 --ranks 4 --cost samples.csv --family two-sizes";
    let line = format!("{dealt} --table t.csv --table-m 256,1001");
    place.line(&line).fails(&line, 2, &["1001 rows cannot be divided evenly among 4 ranks"]);
    let refined =
        "plan matmul-all-reduce --m 64 --n 8 --k 8 --ranks 2 --calibrate in-process --refine --family two-sizes";
    place.line(refined).fails(refined, 2, &["because --refine runs cuts of any family"]);
    place.file("t.csv", "precious");
    let line = format!("{GUIDE} --family two-sizes --table t.csv --table-m 256");
    place.line(&line).fails(&line, 73, &["t.csv already exists"]);
    assert_eq!(place.read("t.csv"), b"precious");
}

/// A first line of any length is cut in the message about it.
#[test]
fn long_lines_are_cut_in_messages() {
    let place = Place::new();
    let long = "x".repeat(3_000_000);
    for (text, code) in [
        (long.clone(), 65),
        (format!("stage,m,microseconds\n{long},1,2\n"), 65),
        (format!("stage,m,microseconds\ncompute,{long},2\n"), 65),
        (format!("stage,m,microseconds\ncompute,1,{long}\n"), 65),
    ] {
        place.file("samples.csv", text);
        let ran = place.line(GUIDE);
        assert_eq!(ran.code, Some(code));
        assert!(
            ran.stderr.len() < 1000 && ran.stderr.contains("xxx") && ran.stderr.contains("samples.csv:"),
            "{}",
            ran.stderr
        );
    }
    place.file("samples.csv", samples(&[256, 512, 1024], |m| m, |m| m));
    for text in [long.clone(), format!("{{\"tiles\": \"{long}\"}}"), format!("[{long}]")] {
        place.file("mine.json", text);
        let ran = place.line(&format!("{GUIDE} --replay mine.json"));
        assert!(ran.code == Some(65) && ran.stderr.len() < 1000, "{} bytes", ran.stderr.len());
    }
}
