//! Which file of a crate uses which, by the paths in its code. A re-exported name leads to the file that defines it.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Item, UseTree};

use crate::cfg::{is_test, module_files};
use crate::source::Crate;

type Path = Vec<String>;

/// The files that each file uses.
pub type Uses = BTreeMap<String, BTreeSet<String>>;

#[derive(Default)]
struct Module {
    file: String,
    /// The names of its items.
    defines: BTreeSet<String>,
    /// The paths that it imports, by the name that each gets.
    imports: BTreeMap<String, Path>,
    /// The paths of which it imports all names.
    globs: Vec<Path>,
    /// All paths in its code.
    paths: Vec<Path>,
}

/// Reads the modules of a file, those within it too.
struct Walk<'a> {
    files: &'a Crate,
    modules: BTreeMap<Path, Module>,
    here: Path,
}

/// The files that each file of a crate uses, from its `src/lib.rs` or `src/main.rs` on. Tests do not count; neither do uses between a module and
/// those below it, which are parts of it.
pub fn uses(files: &Crate) -> Uses {
    let mut walk = Walk { files, modules: BTreeMap::new(), here: Path::new() };
    let root = ["src/lib.rs", "src/main.rs"].into_iter().find_map(|name| Some((name, files.get(name)?)));
    root.into_iter().for_each(|(name, source)| walk.module(name, &source.items()));
    let mut uses = Uses::new();
    for (here, module) in &walk.modules {
        let used = uses.entry(module.file.clone()).or_default();
        let imported = |path: &Path| module.imports.get(path.first()?).cloned();
        let targets = module.paths.iter().filter_map(|path| {
            let path = walk.absolute(here, &imported(path).unwrap_or_else(|| path.clone()))?;
            walk.target(&path, 9).filter(|target| !target.starts_with(here) && !here.starts_with(target))
        });
        used.extend(targets.map(|target| walk.modules[&target].file.clone()).filter(|file| *file != module.file));
    }
    uses
}

/// The sets of files of which each uses each, perhaps through others.
pub fn circles(uses: &Uses) -> BTreeSet<BTreeSet<String>> {
    let reach = |from: &String| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(file) = open.pop() {
            open.extend(uses.get(file).into_iter().flatten().filter(|next| seen.insert((*next).clone())));
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<String>> = uses.keys().map(|file| (file, reach(file))).collect();
    let circle = |(file, seen): (&&String, &BTreeSet<String>)| -> BTreeSet<String> {
        seen.iter().filter(|other| reached.get(other).is_some_and(|it| it.contains(*file))).cloned().collect()
    };
    reached.iter().map(circle).filter(|circle| circle.len() > 1).collect()
}

impl Walk<'_> {
    fn module(&mut self, file: &str, items: &[Item]) {
        self.modules.insert(self.here.clone(), Module { file: file.to_owned(), ..Module::default() });
        items.iter().for_each(|item| self.visit_item(item));
    }

    fn own(&mut self) -> &mut Module {
        self.modules.get_mut(&self.here).expect("it was inserted before its items are visited")
    }

    /// A path from the crate's root; nothing for other crates and for local names.
    fn absolute(&self, here: &Path, path: &Path) -> Option<Path> {
        let supers = path.iter().take_while(|name| *name == "super").count();
        let (base, rest) = match path.first()?.as_str() {
            "crate" => (&[][..], &path[1..]),
            "self" => (&here[..], &path[1..]),
            "super" => (&here[..here.len().checked_sub(supers)?], &path[supers..]),
            _ => (&here[..], &path[..]),
        };
        let is_child = || self.modules.contains_key(&[here, &path[..1]].concat());
        (base.len() < here.len() || ["crate", "self", "super"].contains(&path[0].as_str()) || is_child())
            .then(|| [base, rest].concat())
    }

    /// The module that defines what is at a path.
    fn target(&self, path: &Path, depth: u8) -> Option<Path> {
        let known = (0..=path.len()).rev().find(|n| self.modules.contains_key(&path[..*n]))?;
        let (module, found) = (path[..known].to_vec(), &self.modules[&path[..known]]);
        let Some(name) = path.get(known) else { return Some(module) };
        if depth == 0 || found.defines.contains(name) {
            return Some(module);
        }
        if let Some(import) = found.imports.get(name) {
            return self.target(&self.absolute(&module, import)?, depth - 1);
        }
        let named = |glob: &Path| {
            let target =
                self.target(&[&self.absolute(&module, glob)?[..], std::slice::from_ref(name)].concat(), depth - 1)?;
            self.modules[&target].defines.contains(name).then_some(target)
        };
        found.globs.iter().find_map(named).or(Some(module))
    }

    /// An import that is passed on is no use by itself.
    fn tree(&mut self, tree: &UseTree, is_private: bool, mut before: Path) {
        match tree {
            UseTree::Path(it) => {
                before.push(it.ident.to_string());
                self.tree(&it.tree, is_private, before);
            }
            UseTree::Group(it) => it.items.iter().for_each(|tree| self.tree(tree, is_private, before.clone())),
            UseTree::Glob(_) => {
                self.own().paths.extend(is_private.then(|| before.clone()));
                self.own().globs.push(before);
            }
            UseTree::Name(syn::UseName { ident, .. }) | UseTree::Rename(syn::UseRename { ident, .. }) => {
                let name = if let UseTree::Rename(it) = tree { &it.rename } else { ident };
                before.extend((ident != "self").then(|| ident.to_string()));
                let name = if name == "self" { before.last().cloned().unwrap_or_default() } else { name.to_string() };
                self.own().paths.extend(is_private.then(|| before.clone()));
                self.own().imports.insert(name, before);
            }
        }
    }
}

impl<'a> Visit<'a> for Walk<'_> {
    fn visit_item(&mut self, node: &'a Item) {
        if is_test(node) {
            return;
        }
        let name = match node {
            Item::Const(it) => Some(&it.ident),
            Item::Enum(it) => Some(&it.ident),
            Item::Fn(it) => Some(&it.sig.ident),
            Item::Macro(it) => it.ident.as_ref(),
            Item::Static(it) => Some(&it.ident),
            Item::Struct(it) => Some(&it.ident),
            Item::Trait(it) => Some(&it.ident),
            Item::Type(it) => Some(&it.ident),
            Item::Union(it) => Some(&it.ident),
            _ => None,
        };
        self.own().defines.extend(name.map(ToString::to_string));
        visit::visit_item(self, node);
    }

    fn visit_item_mod(&mut self, node: &'a syn::ItemMod) {
        let outer = self.own().file.clone();
        self.here.push(node.ident.to_string());
        match &node.content {
            Some((_, items)) => self.module(&outer, items),
            None => {
                let file = module_files(&outer, node).into_iter().find_map(|name| Some((self.files.get(&name)?, name)));
                file.into_iter().for_each(|(source, name)| self.module(&name, &source.items()));
            }
        }
        self.here.pop();
    }

    fn visit_item_use(&mut self, node: &'a syn::ItemUse) {
        self.tree(&node.tree, matches!(node.vis, syn::Visibility::Inherited), Path::new());
    }

    fn visit_path(&mut self, node: &'a syn::Path) {
        self.own().paths.push(node.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(name, text)| (format!("src/{name}.rs"), Source::new(text).unwrap())).collect();
        let shown = |circle: BTreeSet<String>| circle.into_iter().collect::<Vec<_>>().join(" ");
        circles(&uses(&files)).into_iter().map(shown).collect()
    }

    #[test]
    fn circles_go_through_imports_paths_and_parents() {
        let lib = ("lib", "mod a; mod b; mod c;");
        let a = ("a", "use crate::b::B; fn f() {} ");
        let circle = found(&[lib, a, ("b", "pub struct B; fn g() { crate::c::h() }"), ("c", "use super::a;")]);
        assert_eq!(circle, ["src/a.rs src/b.rs src/c.rs"]);
        assert_eq!(found(&[lib, a, ("b", "pub struct B;"), ("c", "use super::a;")]), Vec::<String>::new());
        let nested = |n| {
            found(&[
                ("lib", "mod a; mod b;"),
                ("a", "mod n; fn f() { n::g() }"),
                ("a/n", n),
                ("b", "use crate::a::n::g;"),
            ])
        };
        assert_eq!(nested("use super::f; pub fn g() {}"), Vec::<String>::new());
        assert_eq!(nested("use crate::b::h; pub fn g() {}"), ["src/a/n.rs src/b.rs"]);
    }

    #[test]
    fn a_name_leads_to_the_file_that_defines_it() {
        let lib = ("lib", "mod a; mod b; pub use a::A; pub use b::*; pub struct Own;");
        let b = ("b", "use crate::A; pub struct B;");
        assert_eq!(found(&[lib, ("a", "pub struct A; fn f(_: std::a::A) {}"), b]), Vec::<String>::new());
        assert_eq!(found(&[lib, ("a", "use crate::B; pub struct A;"), b]), ["src/a.rs src/b.rs"]);
    }

    #[test]
    fn tests_make_no_circle() {
        let b = ("b", "pub struct B; #[cfg(test)] mod tests { use crate::a::f; }");
        assert_eq!(found(&[("lib", "mod a; mod b;"), ("a", "use crate::b::B;"), b]), Vec::<String>::new());
        let own = ("a", "mod inner { use super::f; } fn f() { inner::g() }");
        assert_eq!(found(&[("lib", "mod a;"), own]), Vec::<String>::new());
    }
}
