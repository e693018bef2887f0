//! URLs as arguments: the same rules for objects of stores as for files and directories.

use std::path::{Path, PathBuf};

use super::{FIRST_BLOCK, Found, Identity, Kind, PassedOver, begins_as_text, of_unknown};
use crate::diagnose;
use crate::input::store::{self, Object};
use crate::input::url::Url;
use crate::input::walk::WalkedTree;
use crate::input::{InputError, InputFile, Origin};

impl Found<'_> {
    /// Adds the objects for which a URL stands.
    pub(super) fn remote(&mut self, url: &Url) -> Result<(), InputError> {
        match self.stores.find(url)? {
            store::Found::Object(object) => {
                let path = Path::new(object.key());
                let kind = self.options.kind_named(path);
                let kind = kind.ok_or_else(|| of_unknown(object.name(), diagnose::by_name(path)))?;
                self.add_object(object, kind, true);
                Ok(())
            }
            store::Found::Folder(objects) => self.folder(url, objects),
        }
    }

    fn folder(&mut self, url: &Url, objects: Vec<Object>) -> Result<(), InputError> {
        let (name, before) = (url.to_string(), self.files.len());
        let root = Path::new(&name);
        let (mut passed_over, mut excluded) = (PassedOver::default(), WalkedTree::default());
        for object in objects {
            let below = Path::new(object.key().strip_prefix(url.key.as_str()).unwrap_or(object.key()));
            let leaving = self.options.walk.leaving_above(below, |_| false);
            let is_hidden =
                !self.options.walk.hidden && below.iter().any(|part| part.as_encoded_bytes().starts_with(b"."));
            if is_hidden || leaving.is_some() {
                excluded.hidden += 1;
                leaving.into_iter().for_each(|name| excluded.leavings.add(name));
                continue;
            }
            let kind = self.options.kind_below(&root.join(below), &mut passed_over, || begins(&object))?;
            if let Some(kind) = kind {
                self.add_object(object, kind, false);
            }
        }
        if self.files.len() == before && !self.options.others_are_text {
            return Err(passed_over.nothing_else(root, excluded.hidden));
        }
        excluded.note_excluded(root);
        self.notes.append(&mut excluded.notes);
        self.note_passed_over(root, &passed_over);
        self.note_mixture(root, before);
        Ok(())
    }

    fn add_object(&mut self, object: Object, kind: Kind, is_named: bool) {
        let name = object.name();
        if !self.seen.insert(Identity::Name(PathBuf::from(&name))) {
            self.repeated.push(PathBuf::from(&name));
        }
        let Kind { format, compression, is_guessed } = kind;
        let (bytes, is_raw) = (Some(object.size()), self.options.raw);
        let file = InputFile::new(name, format, Some(compression), Origin::Object(object));
        self.files.push(InputFile { bytes, is_named, is_guessed, is_raw, ..file });
    }
}

/// True if an object begins as text.
fn begins(object: &Object) -> Result<bool, InputError> {
    let first = object.first(FIRST_BLOCK as u64);
    first.map(|block| begins_as_text(&block)).map_err(|source| InputError::read(&object.name(), 0, source))
}
