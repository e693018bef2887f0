//! `windrow plan --profile`: calibrations that are kept in a file.

use serde_json::{Value, json};

use crate::common::Place;

const SHAPE: &str = "plan matmul-reduce-scatter --m 60 --n 64 --k 48 --ranks 2 --align 4";
const CALIBRATE: &str = "--calibrate in-process --link 200,300";

/// Everything of a plan that does not say where its costs come from.
fn without_origin(mut plan: Value) -> Value {
    let fields = plan.as_object_mut().unwrap();
    for key in ["cost", "notes", "refined"] {
        fields.remove(key);
    }
    plan
}

fn profiles(place: &Place) -> Vec<Value> {
    let file = place.json("p.json");
    assert_eq!(file["schema"], 1);
    file["profiles"].as_array().unwrap().clone()
}

#[test]
fn a_calibration_gives_the_same_plan_in_another_command() {
    let place = Place::new();
    let first = place.line(&format!("{SHAPE} {CALIBRATE} --profile p.json --json")).ok().summary();
    let again = place.line(&format!("{SHAPE} --profile p.json --json")).ok().summary();
    assert_eq!((&first["cost"], &again["cost"]), (&json!("the calibration"), &json!("p.json")));
    assert_eq!(without_origin(first.clone()), without_origin(again.clone()));
    assert!(
        first["margin"]["error"].as_f64().unwrap() >= 0.01 && first["margin"] == again["margin"],
        "{first} {again}"
    );

    let kept = profiles(&place);
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0]["link"], "200 MB/s, 300 us");
    assert!(kept[0]["machine"].as_str().unwrap().ends_with(" CPUs"), "{}", kept[0]["machine"]);
    assert_eq!(kept[0]["profile"]["operation"], "matmul-reduce-scatter");

    // The contention of the file is that of the plan.
    let mut file = place.json("p.json");
    file["profiles"][0]["profile"]["contention"] = json!({"compute": 1.25, "communicate": 1.5});
    place.file("p.json", file.to_string());
    let slowed = place.line(&format!("{SHAPE} --profile p.json --json")).ok().summary();
    assert_eq!(slowed["contention"], json!({"compute": 1.25, "communicate": 1.5}));
    assert!(!slowed["notes"].to_string().contains("contention was not measured"), "{slowed}");

    // Under other limits, by the same costs.
    let limited =
        place.line(&format!("{SHAPE} --profile p.json --max-tiles 1 --contention 1.5,1.25 --json")).ok().summary();
    assert_eq!(
        (&limited["tiles"], &limited["contention"]),
        (&json!([60]), &json!({"compute": 1.5, "communicate": 1.25}))
    );
    assert_eq!(limited["serial_us"], first["serial_us"]);
    let longer = place.line(&format!("{} --profile p.json --json", SHAPE.replace("--m 60", "--m 120"))).ok().summary();
    assert_eq!(longer["m"], 120);
}

/// Samples of a profile that a program has used: predictions were observed, and the profile re-fitted.
#[test]
fn a_plan_says_whether_its_profile_has_drifted() {
    let place = Place::new();
    place.line(&format!("{SHAPE} {CALIBRATE} --profile p.json")).ok();
    let fresh = place.json("p.json");
    let notes = |change: &dyn Fn(&mut Value)| {
        let mut file = fresh.clone();
        change(&mut file["profiles"][0]["profile"]);
        place.file("p.json", file.to_string());
        place.line(&format!("{SHAPE} --profile p.json --json")).ok().summary()["notes"].to_string()
    };
    let said = notes(&|_| ());
    assert!(!said.contains("drifted") && !said.contains("re-fit"), "{said}");
    let off = [1e3; 8];
    assert!(
        notes(&|profile| profile["errors"] = json!(off))
            .contains("predictions from p.json have drifted: calibrate again")
    );
    let done = json!({"after": 120, "compute": 1.5, "communicate": 1.0});
    let said = notes(&|profile| profile["refits"] = json!([done]));
    assert!(said.contains("re-fitted after 120 predictions: computation x 1.50, communication x 1.00"), "{said}");
    let refused = json!({"after": 130, "compute": 1.5, "communicate": 1.0, "refused": "no factor explains that"});
    let said = notes(&|profile| profile["refits"] = json!([done, refused]));
    assert!(
        said.contains("a re-fit of the profile after 130 predictions was refused: no factor explains that"),
        "{said}"
    );
    assert!(!said.contains("after 120"), "{said}");
}

#[test]
fn the_fastest_of_a_calibration_is_kept() {
    let place = Place::new();
    let first = place.line(&format!("{SHAPE} {CALIBRATE} --refine --profile p.json --json")).ok().summary();
    let again = place.line(&format!("{SHAPE} --profile p.json --json")).ok().summary();
    assert_eq!((&first["tiles"], &first["predicted_us"]), (&again["tiles"], &again["predicted_us"]));
    assert!(again["why"].as_str().unwrap().starts_with("the fastest of the cuts that were run"), "{again}");
    // One that was the fastest within a limit is not.
    place.line(&format!("{SHAPE} {CALIBRATE} --refine --max-tiles 1 --profile p.json")).ok();
    let again = place.line(&format!("{SHAPE} --profile p.json --json")).ok().summary();
    assert!(!again["why"].as_str().unwrap().contains("were run"), "{again}");
}

#[test]
fn calibrations_are_added_and_told_apart() {
    let place = Place::new();
    let calibrate = |flags: &str| place.line(&format!("{SHAPE} {flags} --profile p.json")).ok();
    calibrate(CALIBRATE);
    let first = profiles(&place);
    calibrate("--calibrate in-process");
    calibrate("--calibrate in-process --machine elsewhere --link-name wire");
    place.line(&format!("{} {CALIBRATE} --profile p.json", SHAPE.replace("--n 64", "--n 32"))).ok();
    let kept = profiles(&place);
    assert_eq!(kept.len(), 4);
    assert_eq!(kept[0], first[0]);
    let links: Vec<&Value> = kept.iter().map(|entry| &entry["link"]).collect();
    assert_eq!(links, ["200 MB/s, 300 us", "shared memory", "wire", "200 MB/s, 300 us"]);
    // The same again replaces the first one.
    calibrate(CALIBRATE);
    let kept = profiles(&place);
    assert!(kept.len() == 4 && kept[0] != first[0]);

    // The contention distinguishes the entries.
    let mut file = place.json("p.json");
    for (place, entry) in file["profiles"].as_array_mut().unwrap().iter_mut().enumerate() {
        entry["profile"]["contention"]["compute"] = json!([1.125, 1.25, 1.375, 1.5][place]);
    }
    place.file("p.json", file.to_string());
    let kept = profiles(&place);
    let line = format!("{SHAPE} --profile p.json");
    place.line(&line).fails(
        &line,
        2,
        &["for several links: 200 MB/s, 300 us; shared memory\n", "hint: choose one with --link-name"],
    );
    let chosen = |flags: &[&str]| {
        let arguments = line.split_whitespace().chain(flags.iter().copied()).chain(["--json"]);
        place.run(arguments).ok().summary()["contention"].clone()
    };
    assert_eq!(chosen(&["--link-name", "shared memory"]), kept[1]["profile"]["contention"]);
    assert_eq!(chosen(&["--link-name", "200 MB/s, 300 us"]), kept[0]["profile"]["contention"]);
    // There is one link there.
    assert_eq!(chosen(&["--machine", "elsewhere"]), kept[2]["profile"]["contention"]);
    for (line, says) in [
        (format!("{line} --link-name wire"), "k = 48, over wire on "),
        (format!("{line} --machine nowhere"), "on nowhere\n"),
        (format!("{line} --machine elsewhere --element f64"), "of f64, 2 ranks"),
    ] {
        place.line(&line).fails(
            &line,
            65,
            &["p.json has no profile for matmul-reduce-scatter of ", says, "hint: the file has "],
        );
    }
}

#[test]
fn files_that_are_none_are_refused_before_anything_is_measured() {
    let place = Place::new();
    let read = format!("{SHAPE} --profile p.json");
    place.line(&read).fails(&read, 2, &["p.json does not exist"]);
    for (text, says) in [
        ("not json", "p.json:1:2: "),
        ("{\"schema\": 1,\n\"profiles\": [3]}", "p.json:2:"),
        ("{\"schema\": 7}", "p.json: the profiles have version 7, but this windrow reads version 1"),
    ] {
        place.file("p.json", text);
        place.line(&read).fails(&read, 65, &[says, "hint: "]);
        // Whatever would be measured; nothing is, as this shape is refused later.
        let write = format!("{SHAPE} {CALIBRATE} --profile p.json --samples-out s.csv");
        place.line(&write).fails(&write, 65, &[says]);
        assert_eq!(place.read("p.json"), text.as_bytes());
        assert!(!place.path("s.csv").exists());
    }
    let both = format!("{SHAPE} --profile p.json --cost s.csv");
    place.line(&both).fails(&both, 2, &["cannot be used with"]);
    let incomplete = format!("{SHAPE} --machine m");
    place.line(&incomplete).fails(&incomplete, 2, &["--profile"]);
}

/// Profiles of these n and k, of a model: a constant rate of each lane.
fn measured(shapes: &[(u64, u64)]) -> String {
    let profile = |&(n, k): &(u64, u64)| {
        let sample = |stage: &str, m: u64, us: f64| json!({"stage": stage, "m": m, "microseconds": us});
        let samples: Vec<Value> = [256, 512, 1024, 2048]
            .into_iter()
            .flat_map(|m| {
                let compute = 2e-6 * (m * n * k) as f64;
                [sample("compute", m, compute), sample("communicate", m, 50.0 + 1e-3 * (m * n) as f64)]
            })
            .collect();
        json!({
            "machine": "a", "link": "ib0",
            "profile": {
                "operation": "matmul-all-reduce", "element": "f32", "ranks": 4, "n": n, "k": k, "align": 128,
                "tolerance": 0.1, "noise": 0.01, "contention": {"compute": 1.25, "communicate": 1.5}, "samples": samples,
            }
        })
    };
    json!({"schema": 1, "profiles": shapes.iter().map(profile).collect::<Vec<_>>()}).to_string()
}

#[test]
fn n_and_k_between_measured_ones_are_interpolated() {
    let place = Place::new();
    place.file("p.json", measured(&[(512, 512), (512, 2048), (2048, 512), (2048, 2048)]));
    let line = |n: u64, k: u64| {
        format!("plan matmul-all-reduce --m 4096 --n {n} --k {k} --ranks 4 --profile p.json --machine a")
    };
    let plan = place.line(&format!("{} --json", line(1024, 768))).ok().summary();
    assert_eq!((&plan["n"], &plan["k"], &plan["contention"]["compute"]), (&json!(1024), &json!(768), &json!(1.25)));
    let from = json!([[512, 512], [2048, 512], [512, 2048], [2048, 2048]]);
    assert_eq!(
        plan["interpolation"],
        json!({"from": from, "error": 0.1, "left_out": 0, "outside": false}),
        "the nearest first"
    );
    assert_eq!(plan["margin"]["error"], json!(0.1));
    let whole = |lane: &str| plan["fits"][lane]["whole_us"].as_f64().unwrap();
    let near = |time: f64, model: f64| assert!((time / model - 1.0).abs() < 0.001, "{time} {model}");
    near(whole("compute"), 2e-6 * (4096.0 * 1024.0 * 768.0));
    near(whole("communicate"), 50.0 + 1e-3 * (4096.0 * 1024.0));
    let said = place.line(&line(1024, 768)).ok().stdout;
    let says = "  costs: interpolated from measurements of n x k = 512 x 512, 2048 x 512, 512 x 2048, 2048 x 2048; \
                expected error 10.0 % (assumed, because there are too few shapes to measure it)\n";
    assert!(said.contains(says), "{said}");

    // What was measured is used as it is.
    let exact = place.line(&format!("{} --json", line(512, 2048))).ok().summary();
    assert!(exact.get("interpolation").is_none() && exact["margin"]["error"] == json!(0.01), "{exact}");

    // Outside the range only if asked for.
    let outside = line(4096, 512);
    place.line(&outside).fails(
        &outside,
        65,
        &[
            "p.json: n = 4096, k = 512 is outside the range of the measured shapes: n = 2048, k = 512, ",
            "hint: ",
            "--extrapolate",
        ],
    );
    let plan = place.line(&format!("{outside} --extrapolate --json")).ok().summary();
    assert_eq!(plan["interpolation"]["outside"], json!(true));
    assert!(place.line(&format!("{outside} --extrapolate")).ok().stdout.contains("  costs: extrapolated from"));
    let both = format!("{} --extrapolate --calibrate in-process", line(512, 512));
    place.line(&both).fails(&both, 2, &["cannot be used with"]);

    // With enough shapes, the error is measured.
    let all: Vec<(u64, u64)> = [512, 1024, 2048].into_iter().flat_map(|n| [512, 1024, 2048].map(|k| (n, k))).collect();
    place.file("p.json", measured(&all));
    let plan = place.line(&format!("{} --json", line(700, 700))).ok().summary();
    assert!(plan["interpolation"]["left_out"] == json!(5) && plan["margin"]["error"] == json!(0.01), "{plan}");
    assert!(
        place
            .line(&line(700, 700))
            .ok()
            .stdout
            .contains(", 5 others; expected error 0.0 % (measured by leaving out each of 5 shapes in turn)")
    );
}
