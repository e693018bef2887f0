//! Finds every memory ordering of a crate in its syntax trees: its function, its call, and what `cfg` compiles it.

use std::ops::Range;

use quote::ToTokens;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Meta, Token};

use crate::orderings::Crate;

/// An `Ordering::X` in a crate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ordering {
    pub(crate) file: String,
    /// The innermost function around it: `Type::name` for a method, else `name`; `-` outside of all functions.
    pub(crate) function: String,
    pub(crate) name: String,
    /// Where `Ordering::X` stands in the file.
    pub(crate) span: Range<usize>,
    pub(crate) call: Call,
    pub(crate) in_test: bool,
    /// Whether only the loom models compile it.
    pub(crate) in_model: bool,
    /// Whether the loom models compile it.
    pub(crate) in_loom: bool,
}

/// The call that an ordering is an argument of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) span: Range<usize>,
    /// The number of orderings among its arguments, up to this one.
    pub(crate) orderings: usize,
}

/// Known values of `cfg` names while a predicate is evaluated; all other names stay open.
type Facts = &'static str;

/// A build without tests; the product; and the build of the loom models, in which weakening cannot test what they compile out.
const BUILDS: [Facts; 3] =
    ["!test", "!test !loom", "!test !miri loom unix !windows target_os=\"linux\" !feature=\"portable\""];

/// `None` when the facts leave the predicate open.
fn judge(predicate: &Meta, facts: Facts) -> Option<bool> {
    let Meta::List(list) = predicate else {
        let name = predicate.to_token_stream().to_string().replace(' ', "");
        let fact = facts.split(' ').find(|fact| fact.trim_start_matches('!') == name)?;
        return Some(!fact.starts_with('!'));
    };
    let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
    let parts: Vec<Option<bool>> = parts.iter().map(|part| judge(part, facts)).collect();
    // One part with the deciding value decides; otherwise every part must be known.
    let is_any = list.path.is_ident("any");
    match list.path.get_ident()?.to_string().as_str() {
        "not" => parts.first()?.map(|value| !value),
        "any" | "all" if parts.contains(&Some(is_any)) => Some(is_any),
        "any" | "all" if !parts.contains(&None) => Some(!is_any),
        _ => None,
    }
}

/// Every ordering of the modules below `src/lib.rs`, in the order of the files.
pub(crate) fn orderings(files: &Crate) -> Vec<Ordering> {
    let place = Ordering { function: "-".to_owned(), ..Ordering::default() };
    let mut walk = Walk { files, found: Vec::new(), place, owner: None, off: [false; 3] };
    walk.file("src/lib.rs");
    walk.found.sort_by_key(|it| (it.file.clone(), it.span.start));
    walk.found
}

struct Walk<'a> {
    files: &'a Crate,
    found: Vec<Ordering>,
    /// An ordering at the place of the walk, except for its name and span.
    place: Ordering,
    /// The type or trait whose methods are walked over.
    owner: Option<String>,
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
        let cfgs = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
        let cfgs: Vec<Meta> = cfgs.filter_map(|attribute| attribute.parse_args().ok()).collect();
        let is_off = |facts| cfgs.iter().any(|predicate| judge(predicate, facts) == Some(false));
        let off = std::array::from_fn(|build| self.off[build] || is_off(BUILDS[build]));
        self.within(|walk| &mut walk.off, off, inside);
    }
}

/// Overrides for the nodes that can have a `cfg`, and for functions.
macro_rules! nodes {
    (compiled: $($name:ident $node:ty),*; functions: $($function:ident $item:ty),*) => {
        $(fn $name(&mut self, node: &$node) {
            let attributes = |input: ParseStream| {
                let attributes = input.call(Attribute::parse_outer)?;
                input.parse::<proc_macro2::TokenStream>().map(|_| attributes)
            };
            let attributes = attributes.parse2(node.to_token_stream()).unwrap_or_default();
            self.compiled(&attributes, |walk| visit::$name(walk, node));
        })*
        $(fn $function(&mut self, node: &$item) {
            let name = self.owner.iter().map(|owner| format!("{owner}::")).collect::<String>();
            let name = format!("{name}{}", node.sig.ident);
            // A function inside of a method is no method.
            self.within(|walk| &mut walk.owner, None, |walk| {
                walk.within(|walk| &mut walk.place.function, name, |walk| visit::$function(walk, node));
            });
        })*
    };
}

impl Visit<'_> for Walk<'_> {
    nodes! {
        compiled: visit_item syn::Item, visit_impl_item syn::ImplItem, visit_trait_item syn::TraitItem,
            visit_stmt syn::Stmt, visit_arm syn::Arm, visit_field syn::Field, visit_field_value syn::FieldValue;
        functions: visit_item_fn syn::ItemFn, visit_impl_item_fn syn::ImplItemFn, visit_trait_item_fn syn::TraitItemFn
    }

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

    fn visit_item_impl(&mut self, node: &syn::ItemImpl) {
        let name = match &*node.self_ty {
            syn::Type::Path(it) => it.path.segments.last().map(|last| last.ident.to_string()),
            other => Some(other.to_token_stream().to_string()),
        };
        self.within(|walk| &mut walk.owner, name, |walk| visit::visit_item_impl(walk, node));
    }

    fn visit_item_trait(&mut self, node: &syn::ItemTrait) {
        let name = Some(node.ident.to_string());
        self.within(|walk| &mut walk.owner, name, |walk| visit::visit_item_trait(walk, node));
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

/// The possible places of `mod name;` in `file`.
fn module_files(file: &str, module: &syn::ItemMod) -> [String; 2] {
    let (folder, stem) = file.rsplit_once('/').unwrap_or(("", file));
    let path = module.attrs.iter().find(|attribute| attribute.path().is_ident("path"));
    if let Some(Meta::NameValue(path)) = path.map(|path| &path.meta) {
        return [format!("{folder}/{}", path.value.to_token_stream().to_string().trim_matches('"')), String::new()];
    }
    let folder = match stem {
        "lib.rs" | "mod.rs" => folder.to_owned(),
        stem => format!("{folder}/{}", stem.trim_end_matches(".rs")),
    };
    [format!("{folder}/{}.rs", module.ident), format!("{folder}/{}/mod.rs", module.ident)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    #[test]
    fn predicates_have_three_values() {
        let judged = |text: &str| judge(&syn::parse_str(text).expect("a predicate"), BUILDS[2]);
        assert_eq!(judged("test"), Some(false));
        assert_eq!(judged("not(loom)"), Some(false));
        assert_eq!(judged("target_arch = \"x86_64\""), None);
        assert_eq!(judged("all(target_arch = \"x86_64\", not(loom))"), Some(false));
        assert_eq!(judged("all(debug_assertions, loom)"), None);
        assert_eq!(judged("any(debug_assertions, loom,)"), Some(true));
        assert_eq!(judged("not(any(feature = \"portable\", test))"), Some(true));
    }

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

    #[test]
    fn functions_carry_their_type() {
        let text = "fn free(x: impl Fn() -> [u8; 4]) -> impl A { let f: fn(u8) = g; Ordering::A }
            impl<T: Fn() -> u8> Drop for a::Guard<'_, T> where T: B {
                fn drop(&mut self) { fn inner() { Ordering::B } Ordering::C }
            }
            trait Park { fn wait(&self); fn wake(&self) { Ordering::D } }
            const C: u8 = Ordering::E;";
        let names: Vec<String> = found(text).into_iter().map(|it| it.function).collect();
        assert_eq!(names, ["free", "inner", "Guard::drop", "Park::wake", "-"]);
    }

    #[test]
    fn a_declared_module_has_a_name_or_a_path() {
        let files = |file: &str, text: &str| module_files(file, &syn::parse_str(text).expect("a module"));
        assert_eq!(files("src/a/b.rs", "mod c;"), ["src/a/b/c.rs", "src/a/b/c/mod.rs"]);
        assert_eq!(files("src/a/mod.rs", "mod c;"), ["src/a/c.rs", "src/a/c/mod.rs"]);
        assert_eq!(files("src/lib.rs", "#[path = \"odd.rs\"] mod x;")[0], "src/odd.rs");
    }
}
