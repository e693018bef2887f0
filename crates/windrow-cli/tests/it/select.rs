//! `--limit`, `--sample` and `--seed` on the command line.

use serde_json::json;

use crate::common::{Case, Place, ids_of, tiny, tiny_ids};

fn corpus() -> Place {
    let place = Place::new();
    let line = |i: usize| match i % 50 {
        9 => "[]\n".to_owned(),
        _ => format!("{}\n", json!({"text": format!("{i} the path")})),
    };
    place.file("tiny.json", tiny().to_string());
    place.file("1.jsonl", (0..500).map(line).collect::<String>());
    place.file("2.jsonl", (500..1000).map(line).collect::<String>());
    place
}

const ENCODE: &str = "encode 1.jsonl 2.jsonl -o out --tokenizer tiny.json --on-error skip --format jsonl --overwrite";

#[test]
fn a_limit_ends_the_run_and_the_manifest_says_where() {
    let place = corpus();
    for (limit, inputs, ended_at, read) in
        [(5, 1, Some(5), 5), (490, 1, Some(500), 500), (491, 2, Some(1), 501), (981, 2, None, 1000)]
    {
        for threads in [1, 3] {
            let ran = place.line(&format!("{ENCODE} --limit {limit} --threads {threads} --json")).ok();
            assert_eq!(
                ran.stderr.contains("note: --limit was reached; the rest of the input was not read"),
                ended_at.is_some()
            );
            let written = limit.min(980);
            assert_eq!(
                (&ran.summary()["documents"]["read"], &ran.summary()["documents"]["written"]),
                (&json!(read), &json!(written))
            );
            let manifest = place.json("out.manifest.json");
            assert_eq!(manifest["options"]["limit"], limit);
            let listed = manifest["inputs"].as_array().unwrap();
            assert_eq!(listed.len(), inputs);
            assert_eq!(listed[inputs - 1].get("ended_at"), ended_at.map(|line| json!(line)).as_ref());
            assert_eq!(ids_of(&place.read("out.jsonl")).len(), written);
            place.line("verify out").ok();
        }
    }
    // What is wrong after the limit does not matter.
    place.file("2.jsonl.gz", "no gzip");
    let line = "encode 1.jsonl 2.jsonl.gz -o end --tokenizer tiny.json --overwrite --limit 9";
    place.line(line).ok();
    place.line(&line.replace("--limit 9", "")).fails(line, 65, &["1.jsonl:10:"]);
    place.line(&line.replace("--limit 9", "--limit 10")).fails(line, 65, &["1.jsonl:10:"]);
    // A pipe that nothing closes is not waited for.
    let ran = place.run_with("encode - -o piped --lines --tokenizer tiny.json --limit 2", b"the\npath\nof\n").ok();
    assert!(ran.stderr.contains("2 documents"), "{}", ran.stderr);
}

#[test]
fn a_sample_is_counted_and_does_not_depend_on_neighbours() {
    let place = corpus();
    let sampled = |options: &str| {
        let ran = place.line(&format!("{ENCODE} {options} --json")).ok();
        let documents = ran.summary()["documents"].clone();
        let of = |name: &str| documents[name].as_u64().unwrap();
        let listed = place.json("out.manifest.json")["documents"]["left_out"].as_u64();
        assert_eq!(of("read"), of("written") + of("skipped") + of("left_out"), "{documents}");
        assert_eq!(listed.unwrap_or(0), of("left_out"));
        assert!(
            ran.stderr.contains(&format!("({} skipped, {} deselected)", of("skipped"), of("left_out"))),
            "{}",
            ran.stderr
        );
        place.line("verify out").ok();
        ids_of(&place.read("out.jsonl"))
    };
    let all = sampled("--sample 100%");
    assert_eq!(all.len(), 980);
    let tenth = sampled("--sample 10%");
    assert!((60..140).contains(&tenth.len()), "{}", tenth.len());
    assert_eq!(sampled("--sample 0.1 --seed 0 --threads 1"), tenth);
    assert_ne!(sampled("--sample 0.1 --seed 1"), tenth);
    let third = sampled("--sample 0.3");
    assert!(tenth.iter().all(|ids| third.contains(ids)));
    assert!(third.contains(&tiny_ids("499 the path")) || third.len() > 200);
    assert_eq!(sampled("--sample 10% --limit 7"), tenth[..7]);
    let manifest = place.json("out.manifest.json");
    assert_eq!((&manifest["options"]["sample"], &manifest["options"]["seed"]), (&json!(0.1), &json!(0)));
}

#[test]
fn what_cannot_be_chosen_is_refused() {
    for (options, says) in [
        ("--limit 0", "invalid value '0' for '--limit"),
        ("--sample 1.5", "a share must be at most 1, or 100%"),
        ("--sample many", "expected a share such as 0.01 or 1%"),
        ("--shuffle 1 --shard-size 1K --resume", "a run with --shuffle cannot be resumed"),
        ("--seed 3", "--seed has no effect without --sample or --split"),
    ] {
        let line = format!("encode in.txt -o out --tokenizer tiny.json {options}");
        Case { files: vec![("in.txt", b"the".to_vec())], line: &line, code: 2, says: &[says] }.check();
    }
}

#[test]
fn a_divided_output_is_read_back_part_by_part() {
    let place = corpus();
    for format in ["npy", "nanogpt --eos 258", "megatron", "datatrove", "jsonl"] {
        for shards in ["", "--shard-size 500"] {
            let options = format!("--format {format} --split train=0.9,val=10% --seed 4 {shards}");
            let line =
                format!("encode 1.jsonl 2.jsonl -o out --tokenizer tiny.json --on-error skip --overwrite {options}");
            let ran = place.line(&format!("{line} --json")).ok();
            let parts = ran.summary()["parts"].clone();
            let documents = [0, 1].map(|part| parts[part]["documents"].as_u64().unwrap());
            assert_eq!(documents[0] + documents[1], 980);
            assert!((60..140).contains(&documents[1]), "{parts}");
            assert!(ran.stderr.contains(&format!("val: {} documents, ", documents[1])), "{}", ran.stderr);
            assert_eq!(place.json("out.manifest.json")["parts"], parts);
            place.line("verify out").ok();
            let counted = place.line("stat out --part val --json").ok().summary();
            assert_eq!((&counted["documents"], &counted["tokens"]), (&json!(documents[1]), &parts[1]["tokens"]));
            assert_eq!(place.line("stat out --json").ok().summary()["documents"], 980);
            let first = place.line("decode out 0 --part val --ids").ok().stdout;
            assert_eq!(place.line(&format!("decode out {} --ids", documents[0])).ok().stdout, first);
            let line = format!("decode out --part val --doc {}", documents[1]);
            place.line(&line).fails(&line, 2, &[&format!("{} were written", documents[1])]);
            place.line("stat out --part test").fails(
                "test",
                2,
                &["there is no part test", "the output has the parts train, val"],
            );
        }
    }
    for name in ["out.val-00001.bin", "out.val-00001.ds.metadata"] {
        assert!(place.names().iter().any(|other| other == name), "{:?}", place.names());
    }
    for (options, says) in [
        ("--split train=0.9,val=0.2", "the shares of the parts do not add up to 1"),
        ("--split train", "expected a name and a share, such as train=0.98"),
        ("--split a.b=1", "a part cannot have the name \"a.b\""),
        ("--split a=0.5,b=0.5 --shard-size 1K --resume", "an output that is divided into parts cannot be resumed"),
        ("--split a=0.5,b=0.5 --format mds", "the mds format cannot be divided into parts"),
    ] {
        let line = format!("encode in.txt -o out --tokenizer tiny.json {options}");
        Case { files: vec![("in.txt", b"the".to_vec())], line: &line, code: 2, says: &[says] }.check();
    }
}

#[test]
fn a_shuffled_output_has_all_documents_with_their_fields() {
    let place = corpus();
    let lines = |from: usize| -> String {
        (from..from + 2_000).map(|i| format!("{}\n", json!({"id": i, "text": format!("{i} the path")}))).collect()
    };
    place.file("1.jsonl", lines(0)).file("2.jsonl", lines(2_000));
    // A killed run has left it.
    place.file("out.shuffle.windrow-part", "documents");
    let mut orders = Vec::new();
    for options in ["--shuffle 7", "--shuffle 7 --memory 64K --threads 1", "--shuffle 8"] {
        place.line(&format!("{ENCODE} --keep id {options}")).ok();
        let kept = String::from_utf8(place.read("out.kept.jsonl")).unwrap();
        let id = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_u64().unwrap();
        let order: Vec<u64> = kept.lines().map(id).collect();
        let expected: Vec<_> = order.iter().map(|id| tiny_ids(&format!("{id} the path"))).collect();
        assert!(ids_of(&place.read("out.jsonl")) == expected, "{options}");
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert!(sorted.iter().copied().eq(0..4_000), "{options}");
        assert_eq!(place.names().iter().find(|name| name.contains("windrow-part")), None);
        orders.push(order);
    }
    assert!(orders[0] == orders[1] && orders[0] != orders[2]);
    // Neighbours are no longer neighbours.
    let distance: u64 = orders[0].windows(2).map(|pair| pair[0].abs_diff(pair[1])).sum::<u64>() / 3_999;
    assert!((1_200..1_500).contains(&distance), "{distance}, of 1333");
}

#[test]
fn a_packed_output_is_read_back() {
    let place = corpus();
    for format in ["npy", "nanogpt", "megatron", "datatrove", "jsonl", "arrow", "arrow-stream", "parquet"] {
        for (options, padding) in [
            ("", false),
            ("--pad 0", true),
            ("--pack-mode whole --pad 0", true),
            ("--shard-size 2000 --split a=0.5,b=0.5", false),
        ] {
            let options = format!("--format {format} --append-eos --eos 258 --pack 32 {options}");
            let line =
                format!("encode 1.jsonl 2.jsonl -o out --tokenizer tiny.json --on-error skip --overwrite {options}");
            let ran = place.line(&format!("{line} --json")).ok();
            let packed = ran.summary()["packed"].clone();
            let rows = packed["rows"].as_u64().unwrap();
            assert!(
                ran.stderr.contains(&format!("{} of 32 ids, ", windrow_tokenizers::counted(rows, "row"))),
                "{}",
                ran.stderr
            );
            assert_eq!(packed["padding"].as_u64().unwrap() > 0, padding, "{options}: {packed}");
            assert_eq!(place.json("out.manifest.json")["packed"], packed);
            place.line("verify out").ok();
            let counted = place.line("stat out --json").ok().summary();
            let tokens = ran.summary()["tokens"].as_u64().unwrap() + packed["padding"].as_u64().unwrap();
            assert_eq!((&counted["documents"], &counted["tokens"]), (&json!(rows), &json!(tokens)));
            if !options.contains("--split") {
                assert_eq!(place.line("decode out 12").ok().stdout, "13 the path<|end|>\n", "{options}");
            }
            // Rows are put together alike, whatever holds them.
            if format != "npy" && format != "arrow-stream" {
                continue;
            }
            let all = place.line("decode out").ok().stdout;
            let documents = place.json("out.manifest.json")["documents"]["written"].as_u64().unwrap();
            assert_eq!(all.lines().count() as u64, documents, "{options}");
            let line = |number: usize| format!("{}\n", all.lines().nth(number).unwrap());
            assert_eq!(place.line("decode out 40..42").ok().stdout, line(40) + &line(41), "{options}");
        }
    }
    for (options, says) in [
        ("--pack 0", "invalid value '0' for '--pack"),
        ("--pad 3", "--pack <N>"),
        ("--pack 8 --pack-mode whole", "rows of whole documents need a padding id"),
        ("--pack 8 --pad 259", "--pad 259: the largest id of tiny.json is 258"),
        ("--pack 8 --shard-size 1K --resume", "a packed output cannot be resumed"),
        ("--pack 8 --format mds", "the mds format cannot be packed"),
    ] {
        let line = format!("encode in.txt -o out --tokenizer tiny.json {options}");
        Case { files: vec![("in.txt", b"the".to_vec())], line: &line, code: 2, says: &[says] }.check();
    }
}
