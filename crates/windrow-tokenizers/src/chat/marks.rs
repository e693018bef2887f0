//! `{% generation %}` blocks, which the template engine does not know.
//!
//! They become `{% call %}` blocks of a function that notes where it is called. Both are blocks, so white space around them is trimmed
//! alike, and both run their body as a macro, so that variables have the same scope.

/// The name of the function.
pub(super) const FUNCTION: &str = "__windrow_generation";

/// The template with `{% call %}` blocks, and whether it has any.
pub(super) fn replace(source: &str) -> (String, bool) {
    let mut replaced = String::with_capacity(source.len());
    let (mut copied, mut at, mut has_marks) = (0, 0, false);
    while let Some(found) = source[at..].find('{') {
        let begin = at + found;
        let inside = begin + 2;
        at = match source.as_bytes().get(begin + 1) {
            Some(b'#') => source[inside..].find("#}").map_or(source.len(), |end| inside + end + 2),
            Some(b'{') => expression_end(source, inside, "}}"),
            Some(b'%') => {
                let end = expression_end(source, inside, "%}");
                let body = source[inside..end].strip_suffix("%}").unwrap_or("");
                let is_control = |character| character == '-' || character == '+';
                let left = body.strip_prefix(is_control).unwrap_or(body);
                let name = left.strip_suffix(is_control).unwrap_or(left);
                let call = match name.trim() {
                    "generation" => format!(" call {FUNCTION}() "),
                    "endgeneration" => " endcall ".to_owned(),
                    "raw" => {
                        at = raw_end(source, end);
                        continue;
                    }
                    _ => {
                        at = end;
                        continue;
                    }
                };
                has_marks = true;
                let start = inside + body.len() - left.len();
                replaced.push_str(&source[copied..start]);
                replaced.push_str(&call);
                copied = start + name.len();
                end
            }
            _ => begin + 1,
        };
    }
    replaced.push_str(&source[copied..]);
    (replaced, has_marks)
}

/// The end of a tag that begins before `at`, behind its `close`. Strings in it may hold anything.
fn expression_end(source: &str, mut at: usize, close: &str) -> usize {
    let bytes = source.as_bytes();
    let mut depth = 0_usize;
    while at < bytes.len() {
        if depth == 0 && source[at..].starts_with(close) {
            return at + close.len();
        }
        let step = match bytes[at] {
            quote @ (b'\'' | b'"') => {
                let mut end = at + 1;
                while end < bytes.len() && bytes[end] != quote {
                    end += if bytes[end] == b'\\' { 2 } else { 1 };
                }
                end + 1 - at
            }
            b'{' | b'(' | b'[' => {
                depth += 1;
                1
            }
            b'}' | b')' | b']' => {
                depth = depth.saturating_sub(1);
                1
            }
            _ => 1,
        };
        at += step;
        while at < source.len() && !source.is_char_boundary(at) {
            at += 1;
        }
    }
    source.len()
}

/// The end of a `{% raw %}` block whose first tag ends at `from`.
fn raw_end(source: &str, from: usize) -> usize {
    let mut at = from;
    while let Some(found) = source[at..].find("{%") {
        let begin = at + found + 2;
        let end = source[begin..].find("%}").map_or(source.len(), |end| begin + end);
        let name = source[begin..end].trim_matches(['-', '+']).trim();
        at = (end + 2).min(source.len());
        if name == "endraw" {
            return at;
        }
        // Another tag may begin inside of this one.
        at = at.min(begin);
    }
    source.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tags_are_replaced() {
        let call = |source: &str| replace(source).0.replace(FUNCTION, "g");
        assert_eq!(call("a{% generation %}b{% endgeneration %}c"), "a{% call g() %}b{% endcall %}c");
        assert_eq!(call("{%- generation -%}\n{%+endgeneration+%}"), "{%- call g() -%}\n{%+ endcall +%}");
        assert_eq!(call("{%generation%}{%endgeneration%}"), "{% call g() %}{% endcall %}");
        for same in [
            "no tags { % generation % } {",
            "{# {% generation %} #}{{ '{% generation %}' }}{{ \"\\\"{% generation %}\" }}",
            "{% raw %}{% generation %}{% x {%- endraw -%}",
            "{% set generation = '%}{% generation %}' %}{{ {'a': {}}['a'] }}",
            "{% if generation %}é{{ 'é",
            "{% generations %}",
            "{%",
            "{{",
            "{#",
            "{% raw %}{%",
        ] {
            assert_eq!(replace(same), (same.to_owned(), false));
        }
        assert!(replace("{{ {'a': {}} }}{% generation %}").1);
    }
}
