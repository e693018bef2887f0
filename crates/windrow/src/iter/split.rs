//! Sources that other crates define.
//!
//! A collection becomes a source by one of two safe traits: [`SplitAt`] if it can be split at any index, [`SplitInHalf`] if it can only be
//! split somewhere. They are rayon's `Producer` and `UnindexedProducer` (Stone, Matsakis) without consumers, folders and callbacks: a part
//! says how it is split, and is a serial iterator.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use windrow_sync::Mutex;
use windrow_sync::sources::VecItems;

use super::adaptors::FlattenIter;
use super::recipe::{Indexed, Indices, Maybe, Of, Plain};
use super::{Par, ParallelIterator};

/// Items that can be split at any index. [`from_split_at`] turns them into a parallel iterator with indices, for all adaptors and consumers.
///
/// A member that claims items splits them off, under a lock that all members share. So `split_at` should take well below a microsecond.
/// The items of a claim are iterated outside the lock. Items that no member claims are dropped with their part.
///
/// # Panics
/// A panic of any method reaches the caller as that panic. A split panics if the lengths of its parts do not add up. If a part gives fewer
/// items than its length, consumers that need one for each index panic. If it gives more, those are dropped or visited. No such fault is
/// undefined behaviour.
///
/// ```
/// use windrow::iter::{SplitAt, SplitAtIter, from_split_at};
/// use windrow::prelude::*;
///
/// /// Cells of a board, row by row.
/// struct Cells {
///     width: u32,
///     from: u32,
///     to: u32,
/// }
///
/// impl IntoIterator for Cells {
///     type Item = (u32, u32);
///     type IntoIter = Box<dyn Iterator<Item = (u32, u32)>>;
///     fn into_iter(self) -> Self::IntoIter {
///         Box::new((self.from..self.to).map(move |cell| (cell / self.width, cell % self.width)))
///     }
/// }
///
/// impl SplitAt for Cells {
///     fn len(&self) -> usize {
///         (self.to - self.from) as usize
///     }
///     fn split_at(self, at: usize) -> (Self, Self) {
///         let middle = self.from + at as u32;
///         (Cells { to: middle, ..self }, Cells { from: middle, ..self })
///     }
/// }
///
/// struct Board(u32, u32);
///
/// impl IntoParallelIterator for Board {
///     type Item = (u32, u32);
///     type Iter = SplitAtIter<Cells>;
///     fn into_par_iter(self) -> Self::Iter {
///         from_split_at(Cells { width: self.1, from: 0, to: self.0 * self.1 })
///     }
/// }
///
/// let diagonal: Vec<_> = Board(3, 3).into_par_iter().step_by(4).collect();
/// assert_eq!(diagonal, [(0, 0), (1, 1), (2, 2)]);
/// ```
pub trait SplitAt: IntoIterator<Item: Send> + Sized + Send {
    /// Number of items.
    fn len(&self) -> usize;

    /// True if there are no items.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first `at` items, and the others. `at` is above 0 and below the number of items.
    fn split_at(self, at: usize) -> (Self, Self);
}

/// Items that can be split somewhere. [`from_split_in_half`] turns them into a parallel iterator, in their order, without indices.
///
/// The calling thread splits the source before any item is visited, until there are 256 parts or no part can be split. Each part then
/// counts as one item: members claim whole parts. So parts should hold the same amount of work, and `split` should be cheap.
///
/// ```
/// use windrow::iter::{SplitInHalf, from_split_in_half};
/// use windrow::prelude::*;
///
/// #[derive(Clone)]
/// enum Tree {
///     Leaf(u32),
///     Node(Box<Tree>, Box<Tree>),
/// }
///
/// struct Leaves(Vec<Tree>);
///
/// impl Iterator for Leaves {
///     type Item = u32;
///     fn next(&mut self) -> Option<u32> {
///         loop {
///             match self.0.pop()? {
///                 Tree::Leaf(leaf) => return Some(leaf),
///                 Tree::Node(left, right) => self.0.extend([*right, *left]),
///             }
///         }
///     }
/// }
///
/// impl SplitInHalf for Leaves {
///     fn split(mut self) -> (Self, Option<Self>) {
///         match self.0.pop() {
///             Some(Tree::Node(left, right)) if self.0.is_empty() => (Leaves(vec![*left]), Some(Leaves(vec![*right]))),
///             top => {
///                 self.0.extend(top);
///                 (self, None)
///             }
///         }
///     }
/// }
///
/// let node = |left, right| Tree::Node(Box::new(left), Box::new(right));
/// let tree = node(node(Tree::Leaf(1), Tree::Leaf(2)), Tree::Leaf(3));
/// assert_eq!(from_split_in_half(Leaves(vec![tree])).collect::<Vec<_>>(), [1, 2, 3]);
/// ```
pub trait SplitInHalf: IntoIterator<Item: Send> + Sized + Send {
    /// Two parts, the first items in the first one; or `self`, if it cannot be split.
    fn split(self) -> (Self, Option<Self>);
}

/// The type of [`from_split_at`].
pub type SplitAtIter<S> = Par<Range<usize>, Of<SplitItems<S>>>;
/// The type of [`from_split_in_half`].
pub type SplitInHalfIter<S> = FlattenIter<Par<VecItems<S>, Plain>>;
/// The type of [`split`](fn@split).
pub type SplitParts<D> = Par<VecItems<D>, Plain>;
/// The type of [`walk_tree_prefix`] and [`walk_tree_postfix`].
pub type WalkTree<N, F> = SplitInHalfIter<Forest<N, F>>;

/// The items of `source`, with indices.
///
/// # Panics
/// Consumers panic as [`SplitAt`] says.
pub fn from_split_at<S: SplitAt>(source: S) -> SplitAtIter<S> {
    let total = source.len();
    let rest = if total == 0 { BTreeMap::new() } else { BTreeMap::from([(0, source)]) };
    Par::of(0..total, Of(SplitItems(Mutex::new(rest))))
}

/// The items of `source`, in order.
///
/// # Panics
/// With the panic of [`SplitInHalf::split`].
pub fn from_split_in_half<S: SplitInHalf>(source: S) -> SplitInHalfIter<S> {
    split(source, S::split).flatten_iter()
}

/// The parts of `data`. `splitter` splits `data` in two, and then each part, until there are 256 parts or no part can be split. The calling
/// thread splits before any part is visited.
///
/// ```
/// use windrow::prelude::*;
///
/// let halves = |range: std::ops::Range<u32>| {
///     let middle = range.start + range.len() as u32 / 2;
///     if range.len() < 2 { (range, None) } else { (range.start..middle, Some(middle..range.end)) }
/// };
/// assert_eq!(windrow::iter::split(0..10, halves).map(|part| part.sum::<u32>()).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
/// ```
pub fn split<D: Send, F: Fn(D) -> (D, Option<D>)>(data: D, splitter: F) -> SplitParts<D> {
    /// Sixteen parts for each of 16 members.
    ///
    /// Measure: count of parts.
    const PARTS: usize = 256;
    // `next` keeps the order of the source: for each part, the place of the part after it. `open` is a queue of parts that may be split,
    // oldest first, so that parts become equally small.
    let (mut parts, mut next, mut open) = (vec![Some(data)], vec![usize::MAX], VecDeque::from([0]));
    while parts.len() < PARTS
        && let Some(at) = open.pop_front()
        && let Some(part) = parts[at].take()
    {
        let (part, behind) = splitter(part);
        parts[at] = Some(part);
        if behind.is_some() {
            open.extend([at, parts.len()]);
            let follower = mem::replace(&mut next[at], parts.len());
            next.push(follower);
            parts.push(behind);
        }
    }
    let places = std::iter::successors(Some(0), |at| Some(next[*at]).filter(|next| *next != usize::MAX));
    Par::new(VecItems::new(places.filter_map(|at| parts[at].take()).collect()))
}

/// The rest of a source that is split at indices: parts, each under the index of its first item.
#[derive(Debug)]
pub struct SplitItems<S>(Mutex<BTreeMap<usize, S>>);

impl<S: Clone> Clone for SplitItems<S> {
    fn clone(&self) -> Self {
        SplitItems(Mutex::new(self.0.lock().clone()))
    }
}

impl<S> Indexed for SplitItems<S> {}

impl<S: SplitAt> Indices for SplitItems<S> {
    type Item = S::Item;

    #[inline]
    fn items(&self, run: Range<usize>) -> impl Iterator<Item = S::Item> {
        Maybe(self.take(run).map(S::into_iter))
    }
}

impl<S: SplitAt> SplitItems<S> {
    /// The items of `run`. An index is in one claim only, so one part holds all of `run`. `None` if that part was lost in a panic of its
    /// `split_at`.
    fn take(&self, run: Range<usize>) -> Option<S> {
        let mut rest = self.0.lock();
        let (&first, _) = rest.range(..=run.start).next_back()?;
        let (before, part) = cut(rest.remove(&first)?, run.start - first);
        rest.extend(before.map(|before| (first, before)));
        let (part, behind) = cut(part?, run.len());
        rest.extend(behind.map(|behind| (run.end, behind)));
        part
    }
}

/// The first `at` items and the others; `None` for a side without items.
fn cut<S: SplitAt>(part: S, at: usize) -> (Option<S>, Option<S>) {
    let len = part.len();
    if at == 0 {
        return (None, Some(part));
    }
    if at >= len {
        return (Some(part), None);
    }
    let (a, b) = part.split_at(at);
    let is_right = a.len() == at && b.len() == len - at;
    assert!(is_right, "splitting {len} items at {at} gave parts of {} and {} items", a.len(), b.len());
    (Some(a), Some(b))
}

/// The nodes of a tree, each before its children (depth first).
///
/// The calling thread visits the upper nodes until it has 256 subtrees: see [`SplitInHalf`].
///
/// ```
/// use windrow::prelude::*;
///
/// let nodes = windrow::iter::walk_tree_prefix(1, |&n| [2 * n, 2 * n + 1].into_iter().filter(|n| *n < 8));
/// assert_eq!(nodes.collect::<Vec<u32>>(), [1, 2, 4, 5, 3, 6, 7]);
/// ```
pub fn walk_tree_prefix<N, F, I>(root: N, children_of: F) -> WalkTree<N, F>
where
    N: Send,
    F: Fn(&N) -> I + Send + Sync,
    I: IntoIterator<Item = N>,
{
    from_split_in_half(Forest { nodes: vec![(root, true)], children_of: Arc::new(children_of), prefix: true })
}

/// The nodes of a tree, each after its children (depth first): otherwise as [`walk_tree_prefix`].
pub fn walk_tree_postfix<N, F, I>(root: N, children_of: F) -> WalkTree<N, F>
where
    N: Send,
    F: Fn(&N) -> I + Send + Sync,
    I: IntoIterator<Item = N>,
{
    from_split_in_half(Forest { nodes: vec![(root, true)], children_of: Arc::new(children_of), prefix: false })
}

/// The nodes of a tree, in the order of [`walk_tree_postfix`]. (In rayon the order is not specified.)
pub fn walk_tree<N, F, I>(root: N, children_of: F) -> WalkTree<N, F>
where
    N: Send,
    F: Fn(&N) -> I + Send + Sync,
    I: IntoIterator<Item = N>,
{
    walk_tree_postfix(root, children_of)
}

/// A part of a tree: a stack of nodes, the next one on top.
#[derive(Debug)]
pub struct Forest<N, F> {
    /// Each node with a flag: true until the node has been expanded.
    nodes: Vec<(N, bool)>,
    children_of: Arc<F>,
    prefix: bool,
}

impl<N, F: Fn(&N) -> I, I: IntoIterator<Item = N>> Forest<N, F> {
    /// Pushes `node` and its children, in the order of the walk.
    fn expand(&mut self, node: N) {
        let children = (self.children_of)(&node);
        let mut node = Some((node, false));
        if !self.prefix {
            self.nodes.extend(node.take());
        }
        let at = self.nodes.len();
        self.nodes.extend(children.into_iter().map(|child| (child, true)));
        self.nodes[at..].reverse();
        self.nodes.extend(node);
    }
}

impl<N, F: Fn(&N) -> I, I: IntoIterator<Item = N>> Iterator for Forest<N, F> {
    type Item = N;

    fn next(&mut self) -> Option<N> {
        loop {
            match self.nodes.pop()? {
                (node, false) => return Some(node),
                (node, true) => self.expand(node),
            }
        }
    }
}

impl<N, F, I> SplitInHalf for Forest<N, F>
where
    N: Send,
    F: Fn(&N) -> I + Send + Sync,
    I: IntoIterator<Item = N>,
{
    fn split(mut self) -> (Self, Option<Self>) {
        let has_children = |(_, to_come): &mut (N, bool)| *to_come;
        if self.nodes.len() == 1
            && let Some((node, _)) = self.nodes.pop_if(has_children)
        {
            self.expand(node);
        }
        let half = self.nodes.len() / 2;
        if half == 0 {
            return (self, None);
        }
        let first = self.nodes.split_off(half);
        (Forest { nodes: first, children_of: self.children_of.clone(), prefix: self.prefix }, Some(self))
    }
}
