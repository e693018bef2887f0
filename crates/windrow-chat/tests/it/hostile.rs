//! Chat templates that try to exhaust stack, memory or time. They run in a child process, so that an abort fails the test with their name.

use std::env;
use std::process::{Command, Stdio};

use windrow_chat::{ChatTemplate, SpecialTokens};

/// Set in the child.
const CHILD: &str = "WINDROW_HOSTILE_CHAT";
/// Kilobytes of address space of the child.
const MEMORY: &str = "4000000";

/// Runs `body` in a child, which writes a line before each case.
fn in_child(name: &str, body: impl FnOnce()) {
    if env::var_os(CHILD).is_some() {
        return body();
    }
    let program = env::current_exe().unwrap();
    let limited = format!("ulimit -v {MEMORY}; exec \"$0\" \"$@\"");
    let mut child = Command::new("sh");
    child.args(["-c", &limited]).arg(program).args(["--exact", name, "--nocapture", "--test-threads", "1"]);
    let ran = child.env(CHILD, "1").stderr(Stdio::piped()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    let last = out.lines().rfind(|line| line.starts_with("case ")).unwrap_or("no case began");
    assert!(ran.status.success(), "{last}: {}\n{err}", ran.status);
    assert!(out.contains("case "), "{out}");
}

/// Compiles a template, and renders a row with it: what it refuses, if it does.
fn render(case: &str, source: &str, steps: u64) -> Option<String> {
    println!("case {case}");
    let template = match ChatTemplate::from_source("t.jinja", source, SpecialTokens::default()) {
        Ok(template) => template.with_steps(steps),
        Err(error) => return Some(error.to_string()),
    };
    let _ = template.unknown_tokens();
    template.render(r#"[{"role": "user", "content": "a"}]"#).err().map(|refused| refused.to_string())
}

#[test]
fn chains_of_syntax_do_not_exhaust_the_stack() {
    // What is repeated before an expression, the expression, and what is repeated after it.
    let expressions = [
        ["-", "1", ""],
        ["not ", "1", ""],
        ["(", "1", ")"],
        ["[", "1", "]"],
        ["{'a': ", "1", "}"],
        ["(", "1", ",)"],
        ["", "1", " + 1"],
        ["", "1", " ~ 1"],
        ["", "''", "~''"],
        ["", "1", " * 1"],
        ["", "1", " ** 1"],
        ["", "1", " // 1"],
        ["", "1", " and 1"],
        ["", "1", " or 1"],
        ["", "1", " < 1"],
        ["", "1", " == 1"],
        ["", "1", " in [1]"],
        ["", "1", " not in [1]"],
        ["", "1", " is odd"],
        ["", "1", " is not odd"],
        ["", "1", " is eq 1"],
        ["", "1", "|d"],
        ["", "a", ".a"],
        ["", "a", ".0"],
        ["", "a", "[0]"],
        ["", "a", "[:]"],
        ["", "a", "()"],
        ["1 if 1 else ", "1", ""],
        ["", "1", " if 1"],
        ["", "'a'", " 'a'"],
        ["f(", "1", ")"],
        ["f(a=", "1", ")"],
        ["f(*", "1", ")"],
        ["f(**", "1", ")"],
        ["a[", "1", "]"],
        ["a[:", "1", "]"],
        ["1|d(", "1", ")"],
        ["1 is odd(", "1", ")"],
        ["-(", "1", ")"],
        ["", "1", " ~ -1"],
        ["", "1", ", 1"],
        ["[", "1", "] * 2"],
        ["", "1", "*2|d"],
    ];
    let blocks = [
        ["{% if 0 %}", "{% elif 0 %}", "", "{% endif %}"],
        ["", "{% if 0 %}{% else %}", "{% endif %}", ""],
        ["", "{% if 0 %}{% elif 0 %}{% elif 0 %}", "{% endif %}", ""],
        ["", "{% for x in [1] %}", "{% endfor %}", ""],
        ["", "{% for x in [] %}{% else %}", "{% endfor %}", ""],
        ["", "{% with a = 1 %}", "{% endwith %}", ""],
        ["", "{% set x %}", "{% endset %}", ""],
        ["", "{% filter upper %}", "{% endfilter %}", ""],
        ["", "{% macro m() %}", "{% endmacro %}", ""],
        ["", "{% call m() %}", "{% endcall %}", ""],
        ["", "{% generation %}", "{% endgeneration %}", ""],
        ["", "{% autoescape true %}", "{% endautoescape %}", ""],
        ["", "{% set x = [x] %}", "", "{{ x }}"],
        ["{% set ", "(", ")", " = 1 %}"],
        ["{% for ", "(", ")", " in [] %}{% endfor %}"],
        ["{% set ", "a,", "", "b = 1 %}"],
        ["{% set a", ".b", "", " = 1 %}"],
        ["{% filter upper", "|upper", "", " %}{% endfilter %}"],
        ["{% with a = 1", ", a = [a, a]", "", " %}{% endwith %}"],
        ["{% macro m(a", ", a", "", ") %}{% endmacro %}"],
        ["", "{% raw %}", "", ""],
        ["", "{#", "", ""],
        ["", "{{", "", ""],
        ["", "{%", "", ""],
        ["{{ '", "a", "", "' }}"],
    ];
    in_child("hostile::chains_of_syntax_do_not_exhaust_the_stack", || {
        // A tag of 500 words and signs holds 160 operators of three, 240 of two or 490 of one.
        for length in [160, 240, 490, 50_000] {
            for [before, middle, after] in expressions {
                // The deepest that is compiled, for the length of what is repeated, and what is refused.
                let deepest = [490, 490, 240, 160][before.len().max(after.len()).min(3)];
                if length != deepest && length < 1000 && windrow_testkit::step(4) > 1 {
                    continue;
                }
                let expression = before.repeat(length) + middle + &after.repeat(length);
                for [begin, end] in [["{{ ", " }}"], ["{% set x = ", " %}"], ["{% if ", " %}{% endif %}"]] {
                    let case = format!("{begin}{before}{middle}{after} {length}");
                    render(&case, &[begin, &expression, end].concat(), 10_000);
                    if length > 1000 {
                        break;
                    }
                }
            }
            // The deepest expressions in the deepest blocks.
            if length == 490 {
                let [open, close] = ["{% if 1 %}".repeat(80), "{% endif %}".repeat(80)];
                let chain = "{% if 0 %}".to_owned() + &"{% elif 0 %}".repeat(100);
                for expression in
                    ["-".repeat(490) + "1", "not ".repeat(490) + "1", "f(".repeat(60) + "1" + &")".repeat(60)]
                {
                    let source = format!("{open}{chain}{{{{ {expression} }}}}{{% endif %}}{close}");
                    let refused = render("blocks around an expression", &source, 10_000).unwrap();
                    assert!(refused.contains("omits message"), "it is compiled and run: {refused}");
                }
            }
            for [begin, open, close, end] in blocks {
                let source = [begin, &open.repeat(length), &close.repeat(length), end].concat();
                render(&format!("{begin}{open}{close}{end} {length}"), &source, 10_000);
            }
        }
    });
}

#[test]
fn values_that_hold_each_other_end_the_row() {
    let name = "{% set n = namespace(x=[1], y=[1]) %}";
    let steps = [
        "[n.x]",
        "{'a': n.x}",
        "(n.x, 1)",
        "n.x, 1",
        "[n.x] if 1",
        "n.x|batch(1)",
        "n.x|slice(1)",
        "n.x|zip",
        "[n.x|reverse]",
        "[n.x|list|unique]",
        "dict(a=n.x)",
        "{'a': n.x}.items()",
        "[n.x|chain([1])]",
        "n",
        "[n]",
        "{n: 1}",
        "namespace(x=n.x)",
        "[loop]",
    ];
    let twice = "{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% set n.y = [n.y, n.y] %}{% endfor %}";
    let operators = [
        "n.x == n.y",
        "n.x < n.y",
        "n.x in [n.y]",
        "{n.x: 1, 2: 3}",
        "{1: 1, 2: 2}[n.x]",
        "[n.x, n.y]|sort",
        "[n.x, n.y]|unique",
        "n.x|string",
        "n.x|tojson",
        "n.x ~ 'a'",
        "n.x|join",
        "[n.x]|zip|string",
        "n.x|list == n.y|list",
        "n.x is eq(n.y)",
        "[n.x, n.y]|max",
        "[n.x].count(n.y)",
        "'%s'|format(n.x)",
        "'{}'.format(n.x)",
        "n.x|replace('a', 'b')",
        "n.x|upper",
        "n.x|trim",
        "(n.x,) == (n.y,)",
        "[{'a': n.x}, {'a': n.y}]|groupby('a')",
        "raise_exception(n.x)",
    ];
    let bound = ["{% macro m(x, y, i) %}{{ x == y if i > 60 else m([x, x], [y, y], i + 1) }}{% endmacro %}{{ m([1], [1], 0) }}".to_owned(),
        "{% for x in [[1]] recursive %}{{ loop([[x, x]]) }}{% endfor %}".to_owned(),
        format!("{{% with a=[1], b=[1] %}}{}{{{{ a == b }}}}{}{{% endwith %}}", "{% with a=[a, a], b=[b, b] %}".repeat(60), "{% endwith %}".repeat(60)),
        format!("{{% for a, b in [([1], [1])] %}}{}{{{{ a == b }}}}{}{{% endfor %}}", "{% for a, b in [([a, a], [b, b])] %}".repeat(60), "{% endfor %}".repeat(60)),
        "{% set n = namespace(x=1) %}{% for i in range(9999) %}{% for j in [n.x] %}{% set n.x = loop %}{% endfor %}{% endfor %}".to_owned(),
        "{{ ([[0] * 999999] * 999999) ~ '' }}".to_owned(), "{{ [[0] * 99999] * 99999 == [[0] * 99999] * 99999 }}".to_owned(),
        "{{ [1] * 999999 }}".to_owned(), "{% for x in 3 * [1] * 999999 %}{% endfor %}".to_owned()];
    in_child("hostile::values_that_hold_each_other_end_the_row", || {
        for step in steps {
            // Nothing but the depth ends the loop, or the steps end it.
            let source = format!(
                "{name}{{% for i in range(20000) %}}{{% set n.x = {step} %}}{{% endfor %}}{{{{ n.x }}}}{{{{ messages[0].content }}}}"
            );
            let refused = render(step, &source, 1_000_000).unwrap_or_default();
            assert!(
                refused.contains("nested more than") || refused.contains("inside another value"),
                "{step}: {refused}"
            );
        }
        for operator in operators {
            for source in [
                format!("{{{{ {operator} }}}}"),
                format!("{{% for i in range(9) %}}{{% if {operator} %}}{{% endif %}}{{% endfor %}}"),
            ] {
                let refused = render(&source, &format!("{name}{twice}{source}"), 50_000);
                assert!(
                    refused.as_ref().is_some_and(|reason| reason.contains("refuses the conversation")),
                    "{source}: {refused:?}"
                );
            }
        }
        for source in bound {
            let refused = render(&source, &source, 50_000);
            assert!(
                refused.as_ref().is_some_and(|reason| reason.contains("refuses the conversation")),
                "{source}: {refused:?}"
            );
        }
    });
}

#[test]
fn numbers_do_not_become_reservations() {
    let number = "10000000000";
    let expressions = [
        "'{:N}'.format('a')",
        "'{:>N}'.format('a')",
        "'{:.Nf}'.format(1.5)",
        "'{:{}}'.format('a', N)",
        "'{0:{1}}'.format('a', N)",
        "'{:0N}'.format(1)",
        "'%Nd' % 1",
        "'%Nd'|format(1)",
        "'%-Nd'|format(1)",
        "'%.Nf'|format(1.0)",
        "'%*d'|format(N, 1)",
        "'a'.center(N)",
        "'a'.ljust(N)",
        "'a'.rjust(N)",
        "'a'.zfill(N)",
        "'a\\t'.expandtabs(N)",
        "'a'|center(N)",
        "'a' * N",
        "N * 'a'",
        "[1] * N",
        "(1,) * N",
        "[1]|batch(N, 0)",
        "[1]|batch(100000000, 0)",
        "[1]|slice(N)",
        "[]|slice(20000000)",
        "range(N)|list",
        "[[1]]|tojson(indent=N)",
        "'a\\nb'|indent(N)",
        "'a\\nb'|indent(width=300000000)",
        "1.5|round(N)",
        "1.5|round(2000000000)",
        "'a b'|wordwrap(N)",
        "'a'|truncate(N)",
        "10 ** N",
        "10.0 ** N",
        "('a' * 1000000).replace('a', 'b' * 1000)",
        "('a' * 1000000)|replace('a', 'b' * 1000)",
        "('a' * 100000).join(range(10000))",
        "range(10000)|join('a' * 100000)",
        "('a' * 90000000).split('')",
        "lipsum(n=N)",
        "'a'[:N:N]",
        "[1][N]",
        "'N'|int",
        "'a'|attr('a' * 1000)",
    ];
    in_child("hostile::numbers_do_not_become_reservations", || {
        for expression in expressions {
            let expression = expression.replace('N', number);
            render(
                &expression,
                &format!("{{{{ ({expression})|string|length }}}}{{{{ messages[0].content }}}}"),
                20_000_000,
            );
        }
        let long = render("a long reason", "{{ raise_exception('x' * 9000000) }}", 20_000_000).unwrap();
        assert!(long.len() < 2000, "{}", long.len());
    });
}
