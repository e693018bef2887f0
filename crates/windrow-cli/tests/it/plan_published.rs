//! `windrow plan` with what people publish: other units and tables, one size, ragged rows, a size off the line, and the break-even.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use windrow_tiling::Nanos;

use crate::common::Place;
use crate::plan::samples;

const SHAPE: &str = "--m 4096 --n 8192 --k 3072 --ranks 8 --json";

/// The plan of an all-reduce after a product, from files with these names and contents.
#[track_caller]
fn plan(files: &[(&str, &str)], flags: &str) -> Value {
    let place = Place::new();
    for (name, content) in files {
        place.file(name, content);
    }
    place.line(&format!("plan matmul-all-reduce {SHAPE} {flags}")).ok().summary()
}

#[track_caller]
fn refused(content: &str, flags: &str, code: i32, says: &[&str]) {
    let place = Place::new();
    place.file("t.csv", content);
    let line = format!("plan matmul-all-reduce {SHAPE} --cost t.csv {flags}");
    place.line(&line).fails(&line, code, says);
}

fn rows(tiles: &Value) -> Vec<u64> {
    serde_json::from_value(tiles.clone()).unwrap()
}

fn notes(plan: &Value) -> String {
    plan["notes"].to_string()
}

/// One size of a product and a reduce-scatter.
const ONE_SIZE: &str = "m,compute,communicate\n16384,200,405\n";
const ONE_SHAPE: &str = "plan matmul-reduce-scatter --m 16384 --n 2048 --k 2048 --ranks 8 --cost t.csv";

/// The verdict is the printed one on this side of a break-even, and the other one beyond it.
#[test]
fn the_verdict_flips_at_the_break_even() {
    let place = Place::new();
    place.file("t.csv", ONE_SIZE);
    let line = format!("{ONE_SHAPE} --fixed-costs 5,10");
    let plan = |flags: &str| place.line(&format!("{line} --json {flags}")).ok().summary();
    let base = plan("");
    let even = |key: &str| base["break_even"][key].as_f64().unwrap();
    let (factor, micros) = (even("contention"), even("per_tile_us"));
    assert!((1.48..1.50).contains(&factor) && (20.0..25.0).contains(&micros), "{base}");
    for (flags, verdict) in [
        (format!("--contention {0},{0}", factor - 0.01), "tile"),
        (format!("--contention {0},{0}", factor + 0.01), "do-not-tile"),
        (format!("--per-tile {}", micros - 0.5), "tile"),
        (format!("--per-tile {}", micros + 0.5), "do-not-tile"),
    ] {
        assert_eq!(plan(&flags)["verdict"], verdict, "{flags}");
    }
    let said = |flags: &str| place.line(&format!("{line} {flags}")).ok().stdout;
    let tile = format!(
        "  break-even: tile, unless both lanes take more than {factor:.2} times as long when they run together\n  \
         break-even: tile, unless each tile adds more than {micros:.1} us of overhead in each lane\n"
    );
    assert!(said("").contains(&tile), "{}", said(""));
    let not = format!(
        "break-even: do not tile, unless both lanes take less than {factor:.2} times as long when they run together\n"
    );
    assert!(said("--contention 1.95,1.95").contains(&not), "{}", said("--contention 1.95,1.95"));
    let not = format!("break-even: do not tile, unless each tile adds less than {micros:.1} us of overhead");
    assert!(said("--per-tile 60").contains(&not), "{}", said("--per-tile 60"));
    // Cutting never pays, so nothing is even.
    let none = plan("--max-tiles 1");
    assert_eq!(none["break_even"], json!({"contention": null, "per_tile_us": null}));
}

#[test]
fn tiles_pay_for_themselves_and_one_tile_does_not() {
    let place = Place::new();
    place.file("t.csv", ONE_SIZE).file("two.json", "[8192, 8192]").file("one.json", "[16384]");
    let line = format!("{ONE_SHAPE} --fixed-costs 5,10 --replay two.json --replay one.json");
    let plan = |flags: &str| place.line(&format!("{line} --json {flags}")).ok().summary();
    let (free, costly) = (plan(""), plan("--per-tile 20"));
    let took = |plan: &Value, replay: usize| plan["replays"][replay]["predicted_us"].as_f64().unwrap();
    // The first tile is computed, then both are communicated.
    assert!((took(&costly, 0) - took(&free, 0) - 3.0 * 20.0).abs() < 1e-6, "{costly}");
    assert_eq!(took(&costly, 1), took(&free, 1));
    assert_eq!((&costly["per_tile_us"], &costly["serial_us"]), (&json!(20.0), &free["serial_us"]));
    assert!(rows(&costly["tiles"]).len() < rows(&free["tiles"]).len(), "{costly}");
    let said = place.line(&format!("{line} --per-tile 20")).ok().stdout;
    let model = "model: two tiled kernels; each tile takes as long as samples of its size plus 20 us in each lane\n";
    assert!(said.contains(model), "{said}");
    assert!(said.contains("of these two kernels; a kernel that fuses both may take less\n"), "{said}");
}

/// The same times in other units and as other tables give the same plan.
#[test]
fn tables_have_units() {
    let sizes = [256, 512, 1024];
    let (compute, communicate) = (|m: f64| 0.25 * m, |m: f64| 50.0 + 0.125 * m);
    let of_samples = plan(&[("t.csv", &samples(&sizes, compute, communicate))], "--cost t.csv");
    let table = |head: &str, unit: f64, row: &dyn Fn(u64, f64, f64) -> String| {
        let line = |&m: &u64| row(m, compute(m as f64) / unit, communicate(m as f64) / unit);
        head.to_owned() + "\n" + &sizes.iter().map(line).collect::<String>()
    };
    let wide = |m: u64, compute: f64, communicate: f64| format!("{m},{compute},{communicate}\n");
    let markdown = |m: u64, compute: f64, communicate: f64| format!("| {m} | {compute} | {communicate} | 1.5x |\n");
    let with_units = |m: u64, compute: f64, communicate: f64| format!("{m},{compute}ms,{communicate} ms\n");
    let in_bytes = |m: u64, compute: f64, communicate: f64| format!("{} KiB,{compute},{communicate}\n", 16 * m);
    for table in [
        table("m,compute,communicate", 1.0, &wide),
        table("rows,compute_ms,communicate_ms", 1e3, &wide),
        table("M,gemm (s),comm (s)", 1e6, &wide),
        table("| M | gemm (us) | comm (us) | speed |\n|---|--:|:-:|---|", 1.0, &markdown),
        table("m,compute,communicate", 1e3, &with_units),
        table("size,matmul,collective us", 1.0, &in_bytes),
        samples(&sizes, |m| compute(m) / 1e3, |m| communicate(m) / 1e3).replace("microseconds", "milliseconds"),
        samples(&sizes, |m| compute(m) / 1e6, |m| communicate(m) / 1e6).replace("microseconds", "s"),
    ] {
        let this = plan(&[("t.csv", &table)], "--cost t.csv --element-bytes 2");
        assert_eq!((&this["tiles"], &this["notes"]), (&of_samples["tiles"], &of_samples["notes"]), "{table}");
        let [this, other] = [&this, &of_samples].map(|plan| plan["predicted_us"].as_f64().unwrap());
        assert!((this / other - 1.0).abs() < 1e-9, "{table}: {this} {other}");
    }
    // A lane may have fewer sizes than the other, in one file or in two.
    let gaps = "m,gemm,comm\n256,64,\n512,128,114\n1024,256,178\n2048,,306\n";
    let this = plan(&[("t.csv", gaps)], "--cost t.csv");
    assert_eq!([&this["fits"]["compute"], &this["fits"]["communicate"]].map(|fit| fit["smallest"].clone()), [256, 512]);
    let files =
        [("a.csv", "m,gemm\n256,64\n512,128\n1024,256\n"), ("b.csv", "m,comm_ms\n256,.082\n512,.114\n1024,.178\n")];
    assert_eq!(plan(&files, "--cost a.csv --cost b.csv")["tiles"], of_samples["tiles"]);

    refused(
        "m,compute,communicate\n256,50\n",
        "",
        65,
        &["t.csv:2: expected 3 fields, found 2", "every line must have the columns m,compute,communicate"],
    );
    refused(
        "m,gemm_ms\n256,fast\n",
        "",
        65,
        &["t.csv:2: gemm_ms is \"fast\"", "hint: a time must be a positive number"],
    );
    refused("m,gemm\n0,1\n", "", 65, &["t.csv:2: m is \"0\""]);
    refused("m,speed\n1,1\n", "", 65, &["t.csv:1: the header is", "m,compute,communicate"]);
    refused("m,gemm,matmul\n1,1,1\n", "", 65, &["t.csv:1: the header is"]);
    refused(
        "size,comm\n1 TiB,1\n",
        "--element-bytes 2",
        65,
        &["t.csv:2: the size is \"1 TiB\"", "such as 65536 or 64 KiB"],
    );
    refused(
        "size,comm\n64 KiB,1\n",
        "",
        2,
        &[
            "t.csv:2: the number of rows in 65536 bytes is unknown",
            "hint: specify the size of an element",
            "--element-bytes 2",
        ],
    );
}

/// The output of all_reduce_perf: messages, two lines of columns, a size a line with the times out of place and in place.
fn nccl_tests(sizes: &[u64], time: impl Fn(f64) -> f64) -> String {
    let mut text = "# nThread 1 nGpus 8 minBytes 8 maxBytes 67108864 step: 2(factor)\n#\n# Using devices\n#  Rank  0 on node\n#\n\
                    #                                                      out-of-place                       in-place\n\
                    #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n\
                    #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n\
                    node: some message of a library\n"
        .to_owned();
    for &bytes in sizes {
        let (time, count) = (time(bytes as f64), bytes / 2);
        text += &format!(
            " {bytes:>11} {count:>13}      half     sum      -1  {time:>7} 1.00 1.00   0  {:>7} 1.00 1.00  0\n",
            2.0 * time
        );
    }
    text + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.0\n"
}

#[test]
fn nccl_tests_give_the_times_of_messages() {
    let time = |bytes: f64| 40.0 + bytes / 65536.0;
    let gemm = "m,compute\n256,64\n512,128\n1024,256\n";
    // A row has 8192 elements of 2 bytes. 8 bytes and 16,000 are no rows.
    let text = nccl_tests(&[8, 16_000, 1 << 22, 1 << 23, 1 << 24], time);
    let files = [("gemm.csv", gemm), ("t.txt", &text)];
    let flags = "--cost gemm.csv --cost t.txt --format nccl-tests --element-bytes 2";
    let this = plan(&files, flags);
    let wide = "m,compute,communicate\n256,64,104\n512,128,168\n1024,256,296\n";
    let same = plan(&[("t.csv", wide)], "--cost t.csv");
    assert_eq!((&this["tiles"], &this["predicted_us"]), (&same["tiles"], &same["predicted_us"]));
    assert!(
        notes(&this).contains("sizes ignored in t.txt because they are not multiples of the row size, 16384 bytes: 2"),
        "{this}"
    );
    // What is gathered has k columns, and bytes are those of all ranks.
    let place = Place::new();
    for (name, content) in files {
        place.file(name, content);
    }
    let gathered =
        place.line(&format!("plan all-gather-matmul --m 4096 --n 3072 --k 4096 --ranks 8 --json {flags}")).ok();
    assert_eq!(gathered.summary()["fits"]["communicate"]["smallest"], 512);

    let other = "--format nccl-tests --element-bytes 2";
    refused(&text, "", 65, &["t.csv:1: the header is", "needs --format nccl-tests --element-bytes 2"]);
    refused(&text, other, 65, &["t.csv has no samples for stage compute"]);
    refused(
        &text,
        "--format nccl-tests",
        2,
        &["t.csv:10: the number of rows in 8 bytes is unknown", "--element-bytes 2"],
    );
    refused(&text.replace("     104 ", "     N/A "), other, 65, &["t.csv:12: time is \"N/A\"", "hint: "]);
}

#[test]
fn one_size_has_an_assumed_fixed_cost() {
    let place = Place::new();
    place.file("t.csv", ONE_SIZE);
    let plan = |flags: &str| place.line(&format!("{ONE_SHAPE} --json {flags}")).ok().summary();
    let this = plan("");
    let of_fits = |plan: &Value, key: &str| ["compute", "communicate"].map(|lane| plan["fits"][lane][key].clone());
    assert_eq!(of_fits(&this, "source"), ["assumed", "assumed"]);
    assert_eq!(of_fits(&this, "sizes"), [1, 1]);
    assert_eq!(this["min_tile"], 4096);
    let fixed = |plan: &Value| {
        ["compute", "communicate"].map(|lane| plan["fits"][lane]["pieces"][0]["a_us"].as_f64().unwrap().round())
    };
    assert_eq!((fixed(&this), fixed(&plan("--fixed-costs 20,30"))), ([5.0, 10.0], [20.0, 30.0]));
    assert!((this["serial_us"].as_f64().unwrap() - 605.0).abs() < 1e-6, "{this}");
    // The cost of a tile is a guess: the plan says what tiles would gain, and does not tile.
    let (given, even) = (plan("--fixed-costs 5,10"), |plan: &Value| plan["break_even"].clone());
    assert_eq!((&this["verdict"], &given["verdict"]), (&json!("do-not-tile"), &json!("tile")), "{this}");
    assert_eq!((even(&this), &this["predicted_us"]), (even(&given), &this["serial_us"]), "{this}");
    let why = this["why"].as_str().unwrap();
    assert!(why.contains("one size was measured") && why.contains("pass --fixed-costs or --per-tile"), "{why}");
    assert_eq!(this["alternative_tiles"]["assumed"], given["tiles"], "{this}");
    let says = "the communication was measured at one size, 16384 rows; assuming a fixed cost of 10.0 us plus, from \
                4096 rows on, a time proportional to the number of rows (set the fixed cost with --fixed-costs C,M)";
    assert!(notes(&this).contains(says), "{this}");
    let said = place.line(ONE_SHAPE).ok().stdout;
    assert!(
        said.contains("  computation: one size, 16384 rows, in t.csv, with an assumed fixed cost\n    t = 5.0"),
        "{said}"
    );
    assert!(said.contains("break-even: tiles would pay, unless both lanes take more than"), "{said}");
    let line = format!("{ONE_SHAPE} --fixed-costs 200,1");
    let says = "t.csv, computation: 16384 rows took 200.0 us, which is no more than the fixed cost of 200.0 us";
    place.line(&line).fails(&line, 2, &[says, "hint: pass smaller --fixed-costs"]);
    // A message that is shorter than the usual fixed cost.
    place.file("t.csv", "m,compute,communicate\n16384,200,8\n");
    assert_eq!(fixed(&plan("")), [5.0, 4.0]);
}

#[test]
fn two_sizes_are_a_line() {
    let this = plan(&[("t.csv", "m,compute,communicate\n512,100,170\n1024,200,280\n")], "--cost t.csv");
    assert!(
        notes(&this).contains("the communication was measured at two sizes, 512 and 1024 rows; assuming a linear cost"),
        "{this}"
    );
    let fit = &this["fits"]["communicate"];
    assert_eq!((&fit["source"], &fit["sizes"], &fit["smallest"]), (&json!("assumed"), &json!(2), &json!(512)));
    assert!((fit["pieces"][0]["a_us"].as_f64().unwrap() - 60.0).abs() < 1e-6, "{fit}");
}

/// Rows that the ranks do not divide are padded for operations that deal them out.
#[test]
fn ragged_rows_are_padded() {
    let place = Place::new();
    place.file("t.csv", samples(&[256, 1024, 4096], |m| 0.2 * m, |m| 20.0 + 0.2 * m));
    let plan = |operation: &str, m: u64| {
        place.line(&format!("plan {operation} --m {m} --n 7168 --k 2048 --ranks 8 --cost t.csv --json")).ok().summary()
    };
    for operation in ["matmul-reduce-scatter", "all-gather-matmul"] {
        for (m, padded) in [(8193, 8200), (65_535, 65_536), (3, 8)] {
            let this = plan(operation, m);
            assert_eq!((this["m"].as_u64(), rows(&this["tiles"]).iter().sum::<u64>()), (Some(padded), padded));
            assert!(rows(&this["tiles"]).iter().all(|tile| tile % 8 == 0), "{this}");
            let says = format!("m is padded from {m} to {padded} rows, so that each of the 8 ranks has the same");
            assert!(notes(&this).contains(&says), "{this}");
        }
    }
    for (operation, m) in [("matmul-reduce-scatter", 8192), ("matmul-all-reduce", 8193)] {
        let this = plan(operation, m);
        assert!(this["m"] == m && !notes(&this).contains("padded"), "{this}");
    }
}

/// One size off the line of the others is named and skipped; two are too many, and of three sizes none can be spared.
#[test]
fn one_size_off_the_line_is_skipped() {
    let sizes = [256, 512, 1024, 2048, 4096];
    let straight = |m: f64| 20.0 + 0.2 * m;
    let off = |wrong: [u64; 2]| move |m: f64| straight(m) * if wrong.contains(&(m as u64)) { 4.0 } else { 1.0 };
    for wrong in [256, 512, 1024, 4096] {
        let text = samples(&sizes, straight, off([wrong; 2]));
        let this = plan(&[("t.csv", &text)], "--cost t.csv");
        assert_eq!(this["fits"]["communicate"]["sizes"], 4, "{this}");
        assert!(this["fits"]["communicate"]["worst"].as_f64().unwrap() < 1e-6, "{this}");
        let m = wrong as f64;
        let says = format!(
            "one measured size of the communication does not fit the others and is ignored: {m} rows took {}; \
             the predicted {} is off by 75.0 %",
            Nanos::micros(4.0 * straight(m)),
            Nanos::micros(straight(m))
        );
        assert!(notes(&this).contains(&says), "{this}");
    }
    // The published table that a fit missed by 38.5 %: that size is named, for any number of rows.
    let table = "m,compute,communicate\n128,18,18\n512,18.6,48.4\n3000,34.9,86.5\n8193,69.4,290.1\n";
    let place = Place::new();
    place.file("t.csv", table);
    let line = "plan matmul-reduce-scatter --m 3000 --n 7168 --k 2048 --ranks 4 --cost t.csv --json";
    let this = place.line(line).ok().summary();
    assert!(notes(&this).contains("512 rows took 48.4 us") && this["verdict"] == "do-not-tile", "{this}");
    let says = ["stage communicate: ", " rows take ", "--tolerance "];
    refused(&samples(&sizes, straight, off([512, 2048])), "", 65, &says);
    refused(&samples(&[256, 512, 1024], straight, off([512; 2])), "", 65, &["stage communicate: ", "hint: "]);
}

const PUBLISHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/published");

/// The record of published scenarios is what the command answers, and its README has the number of right verdicts.
#[test]
fn published_scenarios_have_the_recorded_answers() {
    let place = Place::new();
    let read = |name: &str| fs::read_to_string(Path::new(PUBLISHED).join(name)).unwrap();
    let (table, readme) = (read("scenarios.csv"), read("README.md"));
    let mut lines = table.lines();
    let header = "kind,id,source,op,ranks,n,k,m,cost,serial_us,fused_us,verdict,serial_error,fused_error";
    assert_eq!(lines.next(), Some(header));
    let mut right = BTreeMap::new();
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let [kind, id, _, op, ranks, n, k, m, cost, serial, fused, verdict, serial_error, fused_error] = fields[..]
        else {
            panic!("{line}");
        };
        place.file(cost, read(cost));
        let plan = format!("plan {op} --ranks {ranks} --n {n} --k {k} --m {m} --cost {cost} --json");
        let plan = place.line(&plan).ok().summary();
        assert_eq!(plan["verdict"], verdict, "{id}");
        let number = |text: &str| text.parse::<f64>().unwrap();
        for (key, took, recorded) in [("serial_us", serial, serial_error), ("predicted_us", fused, fused_error)] {
            let error = 100.0 * (plan[key].as_f64().unwrap() / number(took) - 1.0);
            assert!(
                (error - number(recorded)).abs() < 0.1,
                "{id}: {key} is off by {error:.1} %, recorded {recorded} %"
            );
        }
        let ratio = number(fused) / number(serial);
        let is_right = (0.97..=1.03).contains(&ratio) || (verdict == "tile") == (ratio < 0.97);
        let counts: &mut [u32; 2] = right.entry(kind).or_default();
        *counts = [counts[0] + u32::from(is_right), counts[1] + 1];
    }
    for (kind, [right, all]) in &right {
        let row = readme.lines().find(|line| line.starts_with(&format!("| `{kind}` |"))).unwrap_or_default();
        assert!(row.ends_with(&format!("| {right} of {all} |")), "{kind}: {right} of {all} are right\n{row}");
    }
    assert!(right.keys().eq(["in-kernel", "tiled"].iter()), "{right:?}");
}
