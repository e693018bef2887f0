//! The forms in which added tokens are searched in normalized text.

use ahash::AHashMap as HashMap;

use super::check::Checked;
use super::fault::{Fault, quoted};
use super::file::File;
use crate::engine::Released;

/// The form of each added token with `normalized`, in the order of the file.
pub(super) type Forms = Vec<String>;

fn contents<'a>(file: &'a File<'_>) -> impl Iterator<Item = &'a str> {
    file.added.iter().filter(|token| token.normalized).map(|token| token.content.as_str())
}

/// The forms that the library searches.
pub(super) fn of_released(file: &File<'_>) -> Result<Forms, Fault> {
    Released::normalized(&file.parts, contents(file)).map_err(|(content, reason)| {
        let reason = format!("token {} cannot be normalized: {reason}", quoted(content));
        Fault::new("added_tokens", reason, REMEDY)
    })
}

const REMEDY: &str = "set `normalized` of this token to false, or remove the token";
const REMEDY_OF_TWO: &str = "set `normalized` of one of the two tokens to false, or remove it";

/// Refuses two tokens of one form. `tokenizers` 0.23.2 takes the id of one of them, which can differ from
/// process to process. It also refuses a token without a form.
pub(super) fn check(file: &File<'_>, checked: &Checked, forms: &Forms) -> Result<(), Fault> {
    // If several tokens have an id, the last one counts.
    let owners: HashMap<u32, usize> = checked.added.iter().enumerate().map(|(at, &id)| (id, at)).collect();
    let normalized = file.added.iter().enumerate().filter(|(_, token)| token.normalized);
    let mut known: HashMap<&str, &str> = HashMap::new();
    for ((at, token), form) in normalized.zip(forms) {
        if owners.get(&checked.added[at]) != Some(&at) {
            continue;
        }
        let place = || format!("added_tokens[{at}]");
        if form.is_empty() {
            let reason = format!("nothing is left of token {} after normalization", quoted(&token.content));
            return Err(Fault::new(place(), reason, REMEDY));
        }
        if let Some(other) = known.insert(form, &token.content) {
            let [other, content, form] = [other, &token.content, form].map(quoted);
            let reason = format!("tokens {other} and {content} are both {form} after normalization");
            return Err(Fault::new(place(), reason, REMEDY_OF_TWO));
        }
    }
    Ok(())
}
