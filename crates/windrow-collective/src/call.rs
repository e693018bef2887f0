//! Calls of collectives, and the check that the calls of all ranks match.

use std::fmt;
use std::ops::Range;

use crate::Error;

/// What a rank called. All ranks of a group make the same calls, in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// Which collective.
    pub name: &'static str,
    /// The kind of the elements.
    pub element: &'static str,
    /// Elements this rank gives.
    pub gives: usize,
    /// Elements this rank gets.
    pub gets: usize,
    /// The source rank of a broadcast.
    pub root: Option<usize>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call { name, element, gives, gets, root } = self;
        match (gives, gets) {
            (0, 0) if element.is_empty() => write!(f, "{name}")?,
            (gives, gets) if gives == gets => write!(f, "{name} of {gives} {element}")?,
            (gives, gets) => write!(f, "{name} of {gives} {element} to {gets}")?,
        }
        root.map_or(Ok(()), |root| write!(f, " from rank {root}"))
    }
}

/// A rank's call and its step within it, or why the call fails.
#[derive(Debug)]
pub(crate) struct Post {
    pub(crate) step: u8,
    pub(crate) call: Result<Call, Error>,
}

/// `Ok` if all ranks called the same and the lengths fit. A rank that refused or left fails the call; the first such rank names the error.
pub(crate) fn judge(posts: &[Post]) -> Result<(), Error> {
    let size = posts.len();
    let mut calls = Vec::with_capacity(size);
    for post in posts {
        calls.push((post.step, *post.call.as_ref().map_err(Clone::clone)?));
    }
    let (step, call) = calls[0];
    if let Some(other) = calls.iter().position(|other| *other != (step, call)) {
        return Err(Error::Mismatch { calls: Box::new([(0, call), (other, calls[other].1)]) });
    }
    let Call { gives, gets, root, .. } = call;
    let fits = match call.name {
        "reduce_scatter" => gets.checked_mul(size) == Some(gives),
        "all_gather" => gives.checked_mul(size) == Some(gets),
        _ => true,
    };
    match root {
        Some(root) if root >= size => Err(Error::Root { root, size }),
        _ if fits => Ok(()),
        _ => Err(Error::Lengths { rank: 0, call, size }),
    }
}

/// The range of one of `parts` parts of `len` elements. Some parts are longer by one.
pub(crate) fn part(len: usize, parts: usize, part: usize) -> Range<usize> {
    let (each, rest) = (len / parts, len % parts);
    let start = |part: usize| part * each + part.min(rest);
    start(part)..start(part + 1)
}
