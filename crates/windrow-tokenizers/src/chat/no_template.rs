//! Placeholders for chat templates without the feature `chat`.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use super::ChatIdentity;
use crate::document::Fault;

/// Rows as conversations. No value exists without the feature `chat`.
#[derive(Debug)]
pub enum Chat {}

/// A day of the Gregorian calendar. No value exists without the feature `chat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Date {}

impl Chat {
    /// True if masks are written.
    pub fn has_mask(&self) -> bool {
        match *self {}
    }

    /// The text of a JSON line.
    ///
    /// # Errors
    /// Never.
    pub fn render(&self, _: &str, _: &str) -> Result<(String, Vec<Range<usize>>), Fault> {
        match *self {}
    }

    /// The entry of a manifest.
    pub fn identity(&self) -> ChatIdentity {
        match *self {}
    }
}

impl fmt::Display for Date {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl FromStr for Date {
    type Err = String;

    fn from_str(_: &str) -> Result<Self, String> {
        Err("this build cannot render chat templates".to_owned())
    }
}
