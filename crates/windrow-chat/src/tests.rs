//! Templates in the environment, and the spans of assistants.

use super::row::Row;
use super::*;

fn template(source: &str) -> ChatTemplate {
    let mut tokens = SpecialTokens::default();
    tokens.set("eos_token", "</s>");
    ChatTemplate::from_source("t.jinja", source, tokens).unwrap()
}

/// Renders with a template that may drop messages, like most templates here.
fn render(template: &ChatTemplate, messages: &str) -> Result<String, String> {
    let row = Row::read(&messages.into()).unwrap();
    let text = template.text(template.source(&row), &row, &row.messages, false);
    text.map_err(|refused| refused.to_string())
}

/// Renders like [`render`], with spans.
fn marked(template: &ChatTemplate, messages: &str) -> Result<Rendered, String> {
    let row = Row::read(&messages.into()).unwrap();
    template.with_spans(template.source(&row), &row).map_err(|refused| refused.to_string())
}

fn text(source: &str) -> Result<String, String> {
    render(&template(source), r#"[{"role": "user", "content": "hi", "n": 1.5, "none": null}]"#)
}

/// The text of each span.
fn spans(source: &str, messages: &str) -> Result<Vec<String>, String> {
    let Rendered { text, spans } = marked(&template(source), messages)?;
    Ok(spans.into_iter().map(|span| text[span].to_owned()).collect())
}

const TALK: &str = r#"[{"role": "user", "content": "a"}, {"role": "assistant", "content": "bé"},
    {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]"#;

#[test]
fn the_environment_is_that_of_transformers() {
    assert_eq!(text("{{ messages[0]['content'] }}{{ eos_token }}{{ bos_token }}"), Ok("hi</s>".into()));
    assert_eq!(text("{% if true %}\n  {% if true %}\nx\n  {% endif %}\n{% endif %}\ny\n"), Ok("x\ny".into()));
    assert_eq!(
        text("{% for i in range(9) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}"),
        Ok("012".into())
    );
    assert_eq!(
        text("{{ messages | tojson }}{{ {'b': [1, none, true], 'a': 'é<'} | tojson(indent=1) }}"),
        Ok("[{\"role\": \"user\", \"content\": \"hi\", \"n\": 1.5}]{\n \"b\": [\n  1,\n  null,\n  true\n ],\n \"a\": \"é<\"\n}".into())
    );
    assert_eq!(
        text("{{ tools is none }}{{ documents is defined }}{{ add_generation_prompt }}"),
        Ok("TrueTrueFalse".into())
    );
    assert_eq!(text("{{ ' a\u{1f}'.strip() }}|{{ 'a,b'.split(',')[-1] }}|{{ ' x ' | trim }}"), Ok("a|b|x".into()));
    assert_eq!(text("{{ 'abc'[::-1] }}{{ 'a' is sequence }}{{ 'a' is iterable }}"), Ok("cbaTrueTrue".into()));
    assert_eq!(text("{{ 'ab'.startswith('a') and not 'ab'.endswith('a') }}"), Ok("True".into()));
}

#[test]
fn refusals_name_template_and_line() {
    assert_eq!(
        text("\n{{ raise_exception('no\nsuch role') }}"),
        Err("the chat template refuses the conversation (t.jinja, line 2): no such role".into())
    );
    let loops = "{% for i in range(10000) %}{% for i in range(10000) %}{% for i in range(100) %}{% endfor %}{% endfor %}{% endfor %}";
    assert_eq!(
        text(loops),
        Err("the chat template refuses the conversation (t.jinja, line 1): rendering takes too long".into())
    );
    assert!(text("{{ strftime_now('%Y') }}").unwrap_err().contains("--chat-date"));
    let dated = template("{{ strftime_now('%d %b %Y') }}").with_date("2024-07-26".parse().unwrap());
    assert_eq!(render(&dated, r#"[{"role": "user", "content": "hi"}]"#).unwrap(), "26 Jul 2024");
    let broken = ChatTemplate::from_source("t.jinja", "a\n{% if %}", SpecialTokens::default()).unwrap_err();
    assert!(broken.to_string().starts_with("chat template t.jinja: line 2: "), "{broken}");
    // Tens of thousands of operators would exhaust the stack.
    let long = format!("a\n{{{{ 1{} }}}}", "+1".repeat(30_000));
    let long = ChatTemplate::from_source("t.jinja", &long, SpecialTokens::default()).unwrap_err().to_string();
    assert!(long.starts_with("chat template t.jinja: line 2: a tag has more than 500 words and symbols\n"), "{long}");
}

#[test]
fn templates_end_soon_and_make_little() {
    let few_steps = |source: &str| {
        let template = template(source).with_steps(100_000);
        render(&template, r#"[{"role": "user", "content": [1, 2]}]"#)
    };
    assert_eq!(few_steps("{% for i in range(1000) %}{{ i % 10 }}{% endfor %}").map(|text| text.len()), Ok(1000));
    // Each of these makes gigabytes in one step, or in the last one.
    let nested = "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}";
    let objects = nested.replace("[n.x, n.x]", "{'a': n.x, 'b': n.x}");
    for source in [
        "{{ range(100000) | join('x' * 100000) }}".to_owned(),
        "{{ range(100000) | list | tojson(indent='x' * 100000) }}".to_owned(),
        "{{ messages | tojson(separators=['x' * 6000000, 'x' * 6000000]) }}".to_owned(),
        "{{ ('a ' * 2000000).split() | length }}".to_owned(),
        "{{ ('a\n' * 2000000).splitlines() | length }}".to_owned(),
        format!("{nested}{{{{ n.x }}}}"),
        format!("{nested}{{{{ n.x | string }}}}"),
        format!("{nested}{{{{ n.x | trim }}}}"),
        format!("{nested}{{{{ n.x | tojson }}}}"),
        format!("{nested}{{{{ raise_exception(n.x) }}}}"),
        format!("{objects}{{{{ n.x }}}}"),
        format!("{objects}{{{{ n.x | tojson }}}}"),
    ] {
        let refused = few_steps(&source).unwrap_err();
        assert!(refused.ends_with(": rendering takes too long"), "{source}: {refused}");
    }
    let deep = "{% set n = namespace(x=[1]) %}{% for i in range(300) %}{% set n.x = [n.x] %}{% endfor %}";
    for shown in ["{{ n.x }}", "{{ n.x | tojson }}"] {
        let refused = few_steps(&format!("{deep}{shown}")).unwrap_err();
        assert!(refused.ends_with(": a value is nested more than 256 levels deep"), "{refused}");
    }
}

#[test]
fn texts_out_of_proportion_are_refused() {
    let many = "{% for i in range(70) %}{{ 'x' * 1000000 }}{% endfor %}";
    let refused = text(many).unwrap_err();
    assert!(refused.ends_with(": the rendered text exceeds both 64 MiB and 16 bytes per byte of the row"), "{refused}");
}

#[test]
fn all_runs_for_a_row_have_a_limit() {
    let source = "{% for m in messages %}{{ m.content }}{% endfor %}{% for i in range(2000) %}{% endfor %}";
    let few_steps = template(source).with_steps(10_000);
    let row = |count: usize| {
        let talk = r#"{"role": "user", "content": ""}, {"role": "assistant", "content": ""}"#;
        format!("[{}]", vec![talk; count].join(", "))
    };
    let answers = |count: usize| marked(&few_steps, &row(count));
    assert_eq!(answers(10).map(|rendered| rendered.spans.len()), Ok(10));
    let refused = answers(100).unwrap_err();
    assert_eq!(refused, "the chat template refuses the conversation (t.jinja): rendering takes too long");
    assert!(render(&few_steps, &row(100)).is_ok());
}

#[test]
fn generation_blocks_are_found() {
    let marked = "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}!{% endgeneration %}\
        {% else %}{{ m.content }}{% endif %}{% endfor %}";
    assert_eq!(spans(marked, TALK), Ok(vec!["bé!".into(), "d!".into()]));
    assert!(template(marked).has_marks());
    // White space is trimmed as around other blocks, and loop variables are seen.
    let spaced =
        "{% for m in messages %}\n  {%- generation -%}\n {{ loop.index }} \n  {%- endgeneration +%} . \n{% endfor %}";
    assert_eq!(spans(spaced, TALK), Ok(vec!["1".into(), "2".into(), "3".into(), "4".into()]));
    assert_eq!(spans("{% for m in messages %}{% generation %}{% endgeneration %}{% endfor %}", TALK).unwrap().len(), 4);
}

#[test]
fn generation_blocks_inside_others_are_found_or_refused() {
    let inside = "{% macro say(m) %}<{{ m.role }}>{% generation %}{{ m.content }}{% endgeneration %}.{% endmacro %}\
        {% for m in messages %}{{ say(m) }}{% endfor %}";
    assert_eq!(spans(inside, TALK), Ok(vec!["a".into(), "bé".into(), "c".into(), "d".into()]));
    let set = "{% set x %}  {% generation %} a {% endgeneration %}{% endset %}{{ x | trim }}";
    assert!(spans(set, TALK).unwrap_err().contains("the position of the generated text is unknown"));
    // Messages cannot forge the characters that mark places.
    let forged = r#"[{"role": "user", "content": "\ufdd0x\ufdd1"}]"#;
    assert!(spans(inside, forged).unwrap_err().contains("the position of the generated text is unknown"));
    let plain = "{% generation %}{{ messages[0].content }}{% endgeneration %}";
    assert_eq!(spans(plain, forged), Ok(vec!["\u{fdd0}x\u{fdd1}".into()]));
}

#[test]
fn without_marks_the_prefixes_decide() {
    let chatml = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
    assert_eq!(spans(chatml, TALK), Ok(vec!["bé</>\n".into(), "d</>\n".into()]));
    assert!(!template(chatml).has_marks());
    // A template that drops the text of earlier answers.
    let drops = "{% for m in messages %}<{{ m.role }}>{% if m.role == 'user' or loop.last %}{{ m.content }}{% endif %}{% endfor %}\
        {% if add_generation_prompt %}<assistant>{% endif %}";
    assert!(spans(drops, TALK).unwrap_err().contains("the mask is unknown"), "{:?}", spans(drops, TALK));
    // A template without a prompt also marks the header.
    let unprompted = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";
    assert_eq!(spans(unprompted, TALK), Ok(vec!["<assistant>bé".into(), "<assistant>d".into()]));
    assert!(
        spans(chatml, r#"[{"role": "assistant", "content": "a"}]"#).unwrap_err().contains("begins with the assistant")
    );
    assert_eq!(spans(chatml, r#"[{"role": "user", "content": "a"}]"#), Ok(vec![]));
}

#[test]
fn tokens_that_nothing_names_are_reported() {
    let unknown = template("{{ bos_token }}{{ eos_token }}{% set my_token = 1 %}{{ my_token }}").unknown_tokens();
    assert_eq!(unknown, ["bos_token"]);
}
