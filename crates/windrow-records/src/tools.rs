//! Small things that the checks of the workspace share.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use regex::Regex;

/// A regular expression, compiled once.
///
/// # Panics
/// If it is not one.
pub fn pattern(text: &str) -> Rc<Regex> {
    thread_local!(static COMPILED: RefCell<HashMap<String, Rc<Regex>>> = RefCell::default());
    let compile = || Rc::new(Regex::new(text).expect("patterns of the checks are valid"));
    COMPILED.with_borrow_mut(|compiled| compiled.entry(text.to_owned()).or_insert_with(compile).clone())
}

/// The line of an offset, counted from 1.
pub fn line(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

/// Fails with the list of `problems`, if there are any.
///
/// # Errors
/// If there are any.
pub fn unless_empty(what: &str, problems: &[String]) -> Result<()> {
    ensure!(problems.is_empty(), "{what}: {} problem(s)\n  {}", problems.len(), problems.join("\n  "));
    Ok(())
}

/// The text of a file.
///
/// # Errors
/// If it cannot be read; the message names it.
pub fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// What a folder holds, in the order of the names.
///
/// # Errors
/// If it cannot be listed; the message names it.
pub fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(folder).and_then(|entries| entries.map(|entry| entry.map(|it| it.path())).collect());
    let mut paths: Vec<PathBuf> = entries.with_context(|| format!("cannot list {}", folder.display()))?;
    paths.sort();
    Ok(paths)
}
