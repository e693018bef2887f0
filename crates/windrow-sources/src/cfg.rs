//! What `cfg` compiles, and where the file of a module is.

use quote::ToTokens;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Attribute, Meta, Token};

/// Known values of `cfg` names while a predicate is evaluated; all other names stay open.
pub(crate) type Facts = &'static str;

/// A build without tests; the product; and the build of the loom models, in which weakening cannot test what they compile out.
pub(crate) const BUILDS: [Facts; 3] =
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

/// The attributes in front of a node.
pub(crate) fn attributes(node: &impl ToTokens) -> Vec<Attribute> {
    let parser = |input: ParseStream| {
        let attributes = input.call(Attribute::parse_outer)?;
        input.parse::<proc_macro2::TokenStream>().map(|_| attributes)
    };
    parser.parse2(node.to_token_stream()).unwrap_or_default()
}

/// Whether a build with these facts leaves a node out that has these attributes.
pub(crate) fn is_off(attributes: &[Attribute], facts: Facts) -> bool {
    let cfgs = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    cfgs.filter_map(|attribute| attribute.parse_args().ok()).any(|predicate| judge(&predicate, facts) == Some(false))
}

/// Whether only tests compile a node.
pub(crate) fn is_test(node: &impl ToTokens) -> bool {
    is_off(&attributes(node), BUILDS[0])
}

/// The possible places of `mod name;` in `file`.
pub(crate) fn module_files(file: &str, module: &syn::ItemMod) -> [String; 2] {
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

    #[test]
    fn predicates_have_three_values() {
        let judged = |text: &str| judge(&syn::parse_str(text).expect("a predicate"), BUILDS[2]);
        assert_eq!(judged("test"), Some(false));
        assert_eq!(judged("not(loom)"), Some(false));
        assert_eq!(judged("all(target_arch = \"x86_64\", not(loom))"), Some(false));
        assert_eq!(judged("all(debug_assertions, loom)"), None);
        assert_eq!(judged("not(any(feature = \"portable\", test))"), Some(true));
    }
}
