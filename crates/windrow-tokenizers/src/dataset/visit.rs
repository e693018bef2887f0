//! How documents are handed out.

use std::ops::ControlFlow;

/// Takes the ids of documents until it breaks.
pub(super) type Visitor<'v> = &'v mut dyn FnMut(&[u32]) -> ControlFlow<()>;
