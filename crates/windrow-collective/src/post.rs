//! What ranks post about their calls, and the check that the calls of all ranks match.

use crate::{Call, Error};

/// A rank's call and its step within it, or why the call fails.
#[derive(Debug)]
pub(crate) struct Post {
    pub(crate) step: u8,
    pub(crate) call: Result<Call, Error>,
}

/// `Ok` if all ranks called the same and the lengths fit. A rank that refused or left fails the call; the error is that of the first such
/// rank.
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
