//! One text has one answer: `bindings/doors.json` has the ids of texts, which the tests of the packages compare, too.

use std::fs;

use serde_json::Value;

use crate::common::{Place, ids_of};

#[test]
fn files_have_the_ids_that_all_doors_give() {
    let Ok(doors) = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bindings/doors.json")) else {
        return println!("skipped: the table is part of the workspace, not of this crate");
    };
    let doors: Value = serde_json::from_slice(&doors).unwrap();
    let place = Place::new();
    place.file("tokenizer.json", doors["tokenizer"].to_string());
    let texts = doors["texts"].as_array().unwrap();
    for row in texts {
        let (text, about) = (row["json"].as_str().unwrap(), &row["about"]);
        place.file("in.jsonl", format!("{{\"text\": {text}}}\n"));
        let encode = "encode in.jsonl -o out --format jsonl --tokenizer tokenizer.json --overwrite --json";
        let (encoded, counted) = (place.line(encode), place.line("count in.jsonl --tokenizer tokenizer.json --json"));
        match row["file"].as_array() {
            Some(ids) => {
                let (tokens, ids) = (counted.ok().summary()["total"]["tokens"].clone(), Value::from(ids.clone()));
                encoded.ok();
                let written = serde_json::to_value(&ids_of(&place.read("out.jsonl"))[0]).unwrap();
                assert_eq!((&written, tokens.as_u64()), (&ids, ids.as_array().map(|ids| ids.len() as u64)), "{about}");
            }
            None => {
                for ran in [encoded, counted] {
                    assert_eq!(ran.code, Some(65), "{about}: {ran:?}");
                    assert!(ran.stderr.contains("in.jsonl:1:"), "{about}: {ran:?}");
                }
            }
        }
    }
    assert_eq!(texts.len(), 5);
}
