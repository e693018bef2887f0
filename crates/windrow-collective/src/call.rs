//! Calls of collectives, and the parts that they divide data into.

use std::fmt;
use std::ops::Range;

/// What a rank called. All ranks of a group make the same calls, in the same order.
///
/// ```
/// use windrow_collective::Call;
///
/// let call = Call { name: "all_gather", element: "f32", gives: 2, gets: 4, root: None };
/// assert_eq!(call.to_string(), "all_gather of 2 f32 to 4");
/// ```
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

/// The range of one of `parts` parts of `len` elements. Some parts are longer by one.
pub(crate) fn part(len: usize, parts: usize, part: usize) -> Range<usize> {
    let (each, rest) = (len / parts, len % parts);
    let start = |part: usize| part * each + part.min(rest);
    start(part)..start(part + 1)
}
