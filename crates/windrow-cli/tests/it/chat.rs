//! `--chat`: conversations, by the template of a tokenizer or of a file.

use serde_json::{Value, json};

use crate::common::{Place, tiny, tiny_ids};

const TEMPLATE: &str = "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %} of{% generation %} {{ m.content }}{% endgeneration %}\
    {% elif m.role == 'user' %} the {{ m.content }}{% else %}{{ raise_exception('no role ' + m.role) }}{% endif %}{% endfor %}";

/// A place with a tokenizer and conversations, of which the second is bad.
fn place() -> Place {
    let place = Place::new();
    let rows = [
        json!({"messages": [{"role": "user", "content": "path"}, {"role": "assistant", "content": "thorns"}]}),
        json!({"messages": [{"role": "critic", "content": "path"}]}),
        json!({"messages": [{"role": "user", "content": "thorns"}], "id": 7}),
    ];
    let rows: String = rows.iter().map(|row| format!("{row}\n")).collect();
    place.file("in.jsonl", rows).file("t/tokenizer.json", tiny().to_string());
    place.file("t/tokenizer_config.json", json!({"chat_template": TEMPLATE}).to_string());
    place.file("other.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}{{ strftime_now('%d') }}");
    place
}

fn line(place: &Place, name: &str) -> Vec<Value> {
    let text = String::from_utf8(place.read(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_template_of_the_tokenizer_gives_ids_and_masks() {
    let place = place();
    let command = "encode in.jsonl -o out --tokenizer t --chat --loss assistant --on-error skip --overwrite --format jsonl --json";
    let ran = place.line(command).ok();
    let lines = line(&place, "out.jsonl");
    assert_eq!(lines[0]["ids"], json!(tiny_ids(" the path of thorns")));
    let masks: Vec<u64> = lines[0]["mask"].as_array().unwrap().iter().map(|one| one.as_u64().unwrap()).collect();
    let answer = tiny_ids(" thorns").len();
    assert_eq!(masks.iter().sum::<u64>(), answer as u64);
    assert!(masks[masks.len() - answer..].iter().all(|&one| one == 1), "{masks:?}");
    assert_eq!(lines[1]["mask"], json!(vec![0; tiny_ids(" the thorns").len()]));
    let summary: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(summary["loss_tokens"], answer);
    assert_eq!(summary["documents_without_loss"], 1);
    assert_eq!(place.json("out.manifest.json")["documents_without_loss"], 1);
    assert!(ran.stderr.contains("no tokens with loss in 1 document: "), "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!(", {answer} with loss (jsonl)")), "{}", ran.stderr);
    assert!(ran.stderr.contains("bos_token is empty"), "{}", ran.stderr);
    let skipped = line(&place, "out.skipped.jsonl");
    let reason = "the chat template refuses the conversation (t/tokenizer_config.json, line 1): no role critic";
    assert_eq!(skipped.len(), 1);
    assert_eq!((skipped[0]["line"].as_u64(), skipped[0]["reason"].as_str()), (Some(2), Some(reason)));
    let manifest = place.json("out.manifest.json");
    assert_eq!(manifest["chat"]["template"], "t/tokenizer_config.json");
    assert_eq!([&manifest["options"]["chat"], &manifest["options"]["loss"]], ["auto", "assistant"]);
    let ran = place.line("verify out").ok();
    assert!(!ran.stderr.contains("error"), "{}", ran.stderr);

    // datatrove has its own file of masks, without a header.
    let command = command.replace("jsonl --json", "datatrove");
    place.line(&command).ok();
    place.line("verify out").ok();
    let bytes: Vec<u8> = masks.iter().map(|&one| one as u8).chain(vec![0; tiny_ids(" the thorns").len()]).collect();
    assert_eq!(place.read("out.ds.loss"), bytes);
    place.line(&command.replace("datatrove", "mds")).ok();
    place.line("verify out").ok();
    let index = place.json("out/index.json");
    assert_eq!(index["shards"][0]["column_names"], json!(["mask", "tokens"]));
    assert_eq!(index["shards"][0]["column_encodings"], json!(["ndarray:uint8", "ndarray:uint16"]));

    // Without --on-error skip the first bad row ends the run.
    let ran = place.line("encode in.jsonl -o other --tokenizer t --chat");
    assert_eq!(ran.code, Some(65));
    assert!(ran.stderr.contains(&format!("in.jsonl:2:1: {reason}")), "{}", ran.stderr);
}

#[test]
fn a_template_may_be_in_a_file_and_needs_its_date() {
    let place = place();
    let command = "encode in.jsonl -o out --tokenizer t --chat=other.jinja --format jsonl";
    let ran = place.line(command);
    assert_eq!(ran.code, Some(65));
    assert!(ran.stderr.contains("hint: set the date, as in --chat-date 2024-07-26"), "{}", ran.stderr);
    place.line(&format!("{command} --chat-date 2024-07-26")).ok();
    let lines = line(&place, "out.jsonl");
    assert_eq!(lines[0], json!({"ids": tiny_ids("paththorns26")}));
    assert_eq!(place.json("out.manifest.json").get("loss_tokens"), None);
}

#[test]
fn a_template_without_marks_has_masks_or_is_refused() {
    let place = place();
    let prompt = "{% if add_generation_prompt %}>{% endif %}";
    place.file(
        "a.jinja",
        "{% for m in messages %}{% if m.role == 'assistant' %}>{% endif %}{{ m.content }} {% endfor %}".to_owned()
            + prompt,
    );
    let command = "encode in.jsonl -o a --tokenizer t --chat=a.jinja --loss assistant --format jsonl";
    place.line(command).ok();
    let masks: u64 =
        line(&place, "a.jsonl")[0]["mask"].as_array().unwrap().iter().map(|one| one.as_u64().unwrap()).sum();
    assert_eq!(masks as usize, tiny_ids("thorns ").len());
    place.file("b.jinja", "{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}");
    let ran = place.line("encode in.jsonl -o b --tokenizer t --chat=b.jinja --loss assistant");
    assert_eq!(ran.code, Some(65));
    assert!(
        ran.stderr.contains(
            "in.jsonl:1:1: the chat template refuses the conversation (b.jinja): the template has no generation blocks"
        ),
        "{}",
        ran.stderr
    );
    assert!(!place.names().iter().any(|name| name.starts_with("b.") && name != "b.jinja"), "nothing is published");
}

#[test]
fn conversations_do_not_vanish() {
    let place = place();
    // It takes words and omits lists, as some published templates do.
    place.file(
        "known.jinja",
        "{{ bos_token }}{% for m in messages %}{% if m.role in ['user', 'assistant'] and m.content is string %}{{ m.role }}: {{ m.content | trim }}\n\
         {% elif m.role == 'system' and not loop.last %}{{ m.content }}{% endif %}{% endfor %}",
    );
    let said = |role: &str, content: Value| json!({"role": role, "content": content});
    let rows = |messages: &[Value]| json!({"messages": messages}).to_string();
    let path = || said("user", json!("path"));
    let nothing = |at: usize, role: &str| format!("omits message {at} (counting from 0), whose role is \"{role}\"");
    let unknown = |at: usize, role: &str, hint: &str| {
        format!("{}, which the template does not know\nhint: {hint}", nothing(at, role))
    };
    let escaped = rows(&[path(), said("\u{1b}[2J", json!("thorns"))]);
    for (row, says) in [
        (
            rows(&[json!({"from": "human", "value": "path"})]),
            "has the fields from and value instead of role and content".to_owned(),
        ),
        (rows(&[said("human", json!("path"))]), unknown(0, "human", "rename the role to \"user\"")),
        (rows(&[said("USER", json!("path"))]), unknown(0, "USER", "rename the role to \"user\"")),
        // The others are written, and its words stand in the text of another one.
        (rows(&[path(), said("gpt", json!("path"))]), unknown(1, "gpt", "rename the role to \"assistant\"")),
        (
            rows(&[path(), said("tool", json!("path"))]),
            unknown(1, "tool", "rename the role to one that the template knows"),
        ),
        (rows(&[path(), said("assistant", json!([{"type": "text", "text": "thorns"}]))]), nothing(1, "assistant")),
        (rows(&[path(), said("assistant", json!(7))]), nothing(1, "assistant")),
        (
            rows(&[said("user", json!(null))]),
            "field \"messages\": message 0 (counting from 0) has no content".to_owned(),
        ),
        (rows(&[]), "field \"messages\": the conversation has no messages".to_owned()),
        (json!({"messages": rows(&[path()])}).to_string(), "is a string, not an array of messages".to_owned()),
        (
            json!({"conversations": [path()]}).to_string(),
            "field \"messages\" is missing\nhint: the line has only the field \"conversations\"".to_owned(),
        ),
        (rows(&[said("user", json!("  "))]), nothing(0, "user")),
        (escaped, "whose role is \"\\u{1b}[2J\"".to_owned()),
    ] {
        place.file("row.jsonl", format!("{row}\n"));
        let ran = place.line("encode row.jsonl -o out --tokenizer t --chat=known.jinja --loss assistant");
        if row.contains("\"  \"") {
            // Its text is not empty, but nothing of it counts.
            assert!(ran.stderr.contains("no id in 1 good document counts towards the loss"), "{}", ran.stderr);
        } else {
            assert!(ran.stderr.contains("row.jsonl:1:") && ran.stderr.contains(&says), "{row}: {}", ran.stderr);
        }
        assert_eq!(ran.code, Some(65), "{row}");
        assert!(!place.names().iter().any(|name| name.starts_with("out")), "{row}");
    }
    // What a template does with a role that it knows is its decision, and so is what it does with tool calls.
    let calls = json!({"role": "assistant", "content": "thorns", "tool_calls": [{"function": {"name": "path"}}]});
    let good = [
        rows(&[path(), said("assistant", json!(" path")), said("system", json!("of"))]),
        rows(&[path(), calls]),
        // White space as Python has it: nothing is lost.
        rows(&[path(), said("tool", json!("\u{1f} \u{1f}"))]),
    ];
    place.file("row.jsonl", good.join("\n"));
    let ran = place.line("encode row.jsonl -o out --tokenizer t --chat=known.jinja --json").ok();
    let summary: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&summary["documents"]["written"], summary.get("documents_without_loss")), (&json!(3), None));
}

#[test]
fn options_that_contradict_chat_are_refused() {
    let place = place();
    place.file("in.txt", "the path").file("broken.jinja", "{% if %}").file("plain/tokenizer.json", tiny().to_string());
    for (rest, code, says) in [
        ("in.jsonl --tokenizer t --loss assistant", 2, "--chat[=<auto|FILE>]"),
        ("in.txt --tokenizer t --chat", 2, "in.txt: --chat reads JSON lines and Parquet, but this file is neither"),
        (
            "in.jsonl --tokenizer t --chat --add-special-tokens",
            2,
            "--add-special-tokens cannot be combined with --chat",
        ),
        ("in.jsonl --tokenizer t --chat --field a --field b", 2, "--chat takes its messages from one field"),
        ("in.jsonl --tokenizer plain --chat", 2, "there is no chat template for plain/tokenizer.json"),
        ("in.jsonl --tokenizer gpt2 --chat", 2, "there is no chat template for r50k_base"),
        ("in.jsonl --tokenizer t --chat=none.jinja", 2, "chat template none.jinja: "),
        ("in.jsonl --tokenizer t --chat=broken.jinja", 65, "chat template broken.jinja: line 1: "),
        ("in.jsonl --tokenizer t --chat --chat-date 2024", 2, "expected a valid date in the form 2024-07-26"),
        (
            "in.jsonl --tokenizer t --chat --loss assistant --keep mask --format arrow",
            2,
            "cannot have the name \"mask\"",
        ),
        ("in.jsonl --tokenizer t --chat --loss assistant --keep mask --format mds", 2, "cannot have the name \"mask\""),
    ] {
        let ran = place.line(&format!("encode {rest} -o out"));
        assert_eq!(ran.code, Some(code), "{rest}: {}", ran.stderr);
        assert!(ran.stderr.contains(says), "{rest}: {}", ran.stderr);
        assert!(!place.names().iter().any(|name| name.starts_with("out")), "{rest}");
    }
}
