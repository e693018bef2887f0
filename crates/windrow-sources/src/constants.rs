//! Numeric constants and the measure that their comments state, and times and real numbers that are written into code.

use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use windrow_records::tools::pattern;

use crate::cfg::is_test;
use crate::source::{Source, matches};

/// A constant or static of a numeric type; or a time or a real number in the code, which has no name.
#[derive(Clone, Debug, Default)]
pub struct Constant {
    /// Its name; empty for a time or a real number in the code.
    pub name: String,
    /// Its type, as written; `f64` for a real number in the code.
    pub ty: String,
    /// Its value, as written.
    pub value: String,
    /// What the last line of its comment states, `Measure: ..`. A constant directly below another shares its measure.
    pub measure: Option<String>,
    /// Where it is.
    pub at: usize,
}

/// The numeric constants of a file, without those of its tests.
pub fn constants(source: &Source) -> Vec<Constant> {
    let mut walk = Walk { source, found: Vec::new(), last: None };
    source.items().iter().for_each(|item| walk.visit_item(item));
    walk.found
}

struct Walk<'a> {
    source: &'a Source,
    found: Vec<Constant>,
    /// The line at which the last constant ends, and its measure.
    last: Option<(usize, Option<String>)>,
}

impl Walk<'_> {
    fn text(&self, at: Range<usize>) -> String {
        self.source.text[at].split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn constant(&mut self, name: &syn::Ident, ty: &syn::Type, value: &syn::Expr) {
        let (at, value) = (name.span().byte_range().start, value.span().byte_range());
        let comments = self.source.comments_about(at);
        let stated = matches(r"(?m)Measure: (.+?)\.?$", &comments).last().map(|it| it.1.to_owned());
        let (first, last) = (self.source.line(at), self.source.line(value.end));
        let shared = self.last.take().filter(|(line, _)| line + 1 == first).and_then(|(_, measure)| measure);
        let measure = stated.or(shared);
        self.last = Some((last, measure.clone()));
        let (ty, value) = (self.text(ty.span().byte_range()), self.text(value));
        if pattern(r"^\[?\s*([uif](8|16|32|64|128|size)|(\w+::)*(Nanos|Duration))\b").is_match(&ty) {
            self.found.push(Constant { name: name.to_string(), ty, value, measure, at });
        }
    }
}

impl<'a> Visit<'a> for Walk<'_> {
    fn visit_item_const(&mut self, node: &'a syn::ItemConst) {
        self.constant(&node.ident, &node.ty, &node.expr);
    }

    fn visit_item_static(&mut self, node: &'a syn::ItemStatic) {
        self.constant(&node.ident, &node.ty, &node.expr);
    }

    fn visit_impl_item_const(&mut self, node: &'a syn::ImplItemConst) {
        self.constant(&node.ident, &node.ty, &node.expr);
    }

    fn visit_item(&mut self, node: &'a syn::Item) {
        if !is_test(node) {
            visit::visit_item(self, node);
        }
    }

    fn visit_expr_call(&mut self, node: &'a syn::ExprCall) {
        let (at, value) = (node.span().byte_range().start, self.text(node.span().byte_range()));
        if pattern(r"^(Nanos|Duration::from_\w+)\( ?[\d._]*[1-9][\d._]*(e\d+)? ?\)$").is_match(&value) {
            self.found.push(Constant { value, at, ..Constant::default() });
        }
        visit::visit_expr_call(self, node);
    }

    /// 0, 1 and 2 belong to formulas, 1000 and larger powers of ten to units.
    fn visit_lit_float(&mut self, node: &'a syn::LitFloat) {
        if !pattern(r"^([012]\.0|1000\.0|1e[3-9]|1e1\d)$").is_match(&node.to_string()) {
            let (value, at) = (node.to_string(), node.span().byte_range().start);
            self.found.push(Constant { value, at, ty: "f64".to_owned(), ..Constant::default() });
        }
    }
}
