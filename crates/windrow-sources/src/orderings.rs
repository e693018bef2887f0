//! Finds every memory ordering of a crate in its syntax trees: its function, its call, and what `cfg` compiles it.

use std::ops::Range;

use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Token};

use crate::cfg::{BUILDS, attributes, is_off, module_files};
use crate::source::Crate;

/// An `Ordering::X` in a crate.
#[derive(Clone, Debug, Default)]
pub struct Ordering {
    /// The file, relative to the crate.
    pub file: String,
    /// `X`.
    pub name: String,
    /// Where `Ordering::X` stands in the file.
    pub span: Range<usize>,
    /// The call around it.
    pub call: Call,
    /// Whether only tests compile it.
    pub in_test: bool,
    /// Whether only the loom models compile it.
    pub in_model: bool,
    /// Whether the loom models compile it.
    pub in_loom: bool,
}

/// The call that an ordering is an argument of.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// The name of the function.
    pub name: String,
    /// Where the call stands in the file; empty for a method.
    pub span: Range<usize>,
    /// The number of orderings among its arguments, up to this one.
    pub orderings: usize,
}

/// Every ordering of the modules below `src/lib.rs`, in the order of the files.
pub fn orderings(files: &Crate) -> Vec<Ordering> {
    let mut walk = Walk { files, found: Vec::new(), place: Ordering::default(), off: [false; 3] };
    walk.file("src/lib.rs");
    walk.found.sort_by_key(|it| (it.file.clone(), it.span.start));
    walk.found
}

struct Walk<'a> {
    files: &'a Crate,
    found: Vec<Ordering>,
    /// An ordering at the place of the walk, except for its name and span.
    place: Ordering,
    /// Which of the builds leave this place out.
    off: [bool; 3],
}

impl Walk<'_> {
    fn file(&mut self, path: &str) {
        let Some(source) = self.files.get(path) else { return };
        let file = syn::parse_file(&source.text).unwrap_or_else(|error| panic!("{path}: {error}"));
        self.within(|walk| &mut walk.place.file, path.to_owned(), |walk| walk.visit_file(&file));
    }

    /// Sets a field while it walks over something.
    fn within<T>(&mut self, field: fn(&mut Self) -> &mut T, value: T, inside: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(field(self), value);
        inside(self);
        *field(self) = outer;
    }

    /// Walks over something with these attributes.
    fn compiled(&mut self, attributes: &[Attribute], inside: impl FnOnce(&mut Self)) {
        let off = std::array::from_fn(|build| self.off[build] || is_off(attributes, BUILDS[build]));
        self.within(|walk| &mut walk.off, off, inside);
    }
}

/// Overrides for the nodes that can have a `cfg`.
macro_rules! nodes {
    ($($name:ident $node:ty),*) => {
        $(fn $name(&mut self, node: &$node) {
            self.compiled(&attributes(node), |walk| visit::$name(walk, node));
        })*
    };
}

impl Visit<'_> for Walk<'_> {
    nodes!(visit_item syn::Item, visit_impl_item syn::ImplItem, visit_trait_item syn::TraitItem, visit_stmt syn::Stmt,
        visit_arm syn::Arm, visit_field syn::Field, visit_field_value syn::FieldValue);

    fn visit_file(&mut self, node: &syn::File) {
        self.compiled(&node.attrs, |walk| visit::visit_file(walk, node));
    }

    fn visit_item_mod(&mut self, node: &syn::ItemMod) {
        if node.content.is_none() {
            for path in module_files(&self.place.file, node) {
                self.file(&path);
            }
        }
        visit::visit_item_mod(self, node);
    }

    fn visit_expr_call(&mut self, node: &syn::ExprCall) {
        let name = node.func.to_token_stream().into_iter().last().map_or(String::new(), |last| last.to_string());
        let call = Call { name, span: node.span().byte_range(), orderings: 0 };
        self.within(|walk| &mut walk.place.call, call, |walk| visit::visit_expr_call(walk, node));
    }

    fn visit_expr_method_call(&mut self, node: &syn::ExprMethodCall) {
        self.visit_expr(&node.receiver);
        let call = Call { name: node.method.to_string(), ..Call::default() };
        let inside = |walk: &mut Self| node.args.iter().for_each(|argument| walk.visit_expr(argument));
        self.within(|walk| &mut walk.place.call, call, inside);
    }

    /// Most macros take expressions; an ordering in another one is not found, and `cargo xtask house` refuses it.
    fn visit_macro(&mut self, node: &syn::Macro) {
        let arguments = node.parse_body_with(Punctuated::<syn::Expr, Token![,]>::parse_terminated);
        arguments.iter().flatten().for_each(|argument| self.visit_expr(argument));
    }

    fn visit_path(&mut self, node: &syn::Path) {
        visit::visit_path(self, node);
        let names: Vec<&syn::Ident> = node.segments.iter().map(|segment| &segment.ident).collect();
        let [.., ordering, name] = names[..] else { return };
        if ordering == "Ordering" {
            self.place.call.orderings += 1;
            let [in_test, in_model, without_loom] = self.off;
            let span = ordering.span().byte_range().start..name.span().byte_range().end;
            let (name, in_model) = (name.to_string(), in_model && !in_test);
            self.found.push(Ordering { name, span, in_test, in_model, in_loom: !without_loom, ..self.place.clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    fn found(text: &str) -> Vec<Ordering> {
        orderings(&[("src/lib.rs".to_owned(), Source::new(text).unwrap())].into())
    }

    #[test]
    fn a_cfg_ends_with_its_item() {
        let text = "#[cfg(test)] mod tests { fn f() { Ordering::A } }
            #[cfg(test)] #[inline] fn f<A, B>() { Ordering::B }
            fn g() { #[cfg(test)] h(Ordering::C); #[cfg(unix)] h(Ordering::D) }
            impl X { #[cfg(test)] fn h() { match x { _ => Ordering::E } } fn i() { Ordering::F } }
            fn j() { match x { #[cfg(test)] A => Ordering::G, B => Ordering::H } S { #[cfg(test)] a: Ordering::I, b } }";
        let of =
            |in_test| found(text).into_iter().filter(|it| it.in_test == in_test).map(|it| it.name).collect::<String>();
        assert_eq!([of(true), of(false)], ["ABCEGI", "DFH"]);
        assert!(found("#![cfg(test)]\nfn f() { Ordering::A }")[0].in_test);
    }
}
