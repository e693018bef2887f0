//! `windrow plan --measured`: runs of a program next to their predictions.

use serde_json::{Value, json};

use crate::common::Place;
use crate::plan::guide;

const GUIDE: &str = "plan matmul-all-reduce --m 4096 --n 8192 --k 3072 --ranks 8 --cost samples.csv";

fn place() -> Place {
    let place = Place::new();
    place.file("samples.csv", guide());
    place
}

/// A run of two tiles.
fn run() -> Value {
    json!({
        "schema": 1, "tiles": [2048, 2048], "compute_us": [[0.0, 410.5], [411.0, 830.0]],
        "communicate_us": [[412.0, 920.0], [930.0, 1450.0]], "end_us": 1460.5, "elapsed_us": 1502.25,
    })
}

#[test]
fn a_run_is_compared_with_its_prediction_and_drawn_below_it() {
    let place = place();
    place.file("run.json", run().to_string());
    let line = format!("{GUIDE} --measured run.json");
    let plan = place.line(&format!("{line} --svg t.svg --trace t.json --json")).ok().summary();
    let measured = &plan["measured"][0];
    assert_eq!((&measured["file"], &measured["tiles"]), (&json!("run.json"), &json!([2048, 2048])));
    assert_eq!((&measured["took_us"], &measured["elapsed_us"]), (&json!(1460.5), &json!(1502.25)));
    let replayed = place.line(&format!("{line} --replay run.json --json")).ok().summary();
    // A run is a plan, too.
    assert_eq!(measured["predicted_us"], replayed["replays"][0]["predicted_us"]);
    let predicted = measured["predicted_us"].as_f64().unwrap();
    assert!((measured["late"].as_f64().unwrap() - (1460.5 / predicted - 1.0)).abs() < 1e-12, "{measured}");
    let said = place.line(&line).ok().stdout;
    assert!(said.contains("  run.json: {2048 x 2} took 1460.5 us (1"), "{said}");

    // The plan, the prediction of the run's tiles, and the run.
    let svg = String::from_utf8(place.read("t.svg")).unwrap();
    for part in ["planned: 5 tiles", "run.json, predicted: 2 tiles", "run.json, measured: 2 tiles, 1460.5 us"] {
        assert!(svg.contains(part), "{svg}");
    }
    assert!(svg.contains("<title>communication of tile 1: 2048 rows, 930.0 us to 1450.0 us</title>"), "{svg}");
    let trace = place.json("t.json");
    let events = trace["traceEvents"].as_array().unwrap();
    let of_run = |event: &&Value| event["pid"] == 2 && event["ph"] == "X" && event["cat"] == "computation";
    let spans: Vec<(&Value, &Value)> =
        events.iter().filter(of_run).map(|event| (&event["ts"], &event["dur"])).collect();
    assert_eq!(spans, [(&json!(0.0), &json!(410.5)), (&json!(411.0), &json!(419.0))]);

    // A run of the plan is below the plan.
    let mut same = run();
    same["tiles"] = plan["tiles"].clone();
    for lane in ["compute_us", "communicate_us"] {
        same[lane] = json!([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]]);
    }
    place.file("same.json", same.to_string());
    place.line(&format!("{GUIDE} --measured same.json --svg t.svg --overwrite")).ok();
    let svg = String::from_utf8(place.read("t.svg")).unwrap();
    assert!(svg.contains("same.json, measured: 5 tiles") && !svg.contains("same.json, predicted"), "{svg}");
    // Without runs, there is no key.
    assert!(place.line(&format!("{GUIDE} --json")).ok().summary().get("measured").is_none());
}

#[test]
fn runs_that_cannot_be_are_refused() {
    let place = place();
    let line = format!("{GUIDE} --measured run.json");
    place.line(&line).fails(&line, 2, &["run.json does not exist"]);
    let with = |key: &str, value: Value| {
        let mut run = run();
        run[key] = value;
        run.to_string()
    };
    for (text, says) in [
        ("not json".to_owned(), "run.json: expected ident"),
        ("[512]".to_owned(), "run.json: "),
        (with("schema", json!(2)), "run.json: the timeline has version 2, but this windrow reads version 1"),
        (with("tiles", json!([4096])), "run.json: 1 tiles, but compute_us has 2 spans"),
        (with("tiles", json!([4096, 0])), "run.json: tile 1 has no rows"),
        (with("compute_us", json!([[0, 1], [2, 1]])), "run.json: span 1 of compute_us is [2.0, 1.0]"),
        (with("communicate_us", json!([[-1, 1], [1, 2]])), "run.json: span 0 of communicate_us is [-1.0, 1.0]"),
        (with("end_us", json!(-5)), "run.json: end_us is -5"),
        (
            with("tiles", json!([2048, 2049])),
            "run.json: its tiles have 4097 rows, but the operation has 4096\nhint: check --m",
        ),
    ] {
        place.file("run.json", text);
        place.line(&line).fails(&line, 65, &[says, "hint: "]);
    }
    place.file("run.json", run().to_string());
    let onto = format!("{line} --svg run.json --overwrite");
    place.line(&onto).fails(&onto, 73, &["run.json is an input of this run"]);
}
