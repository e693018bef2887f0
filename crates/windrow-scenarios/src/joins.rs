//! Recursion by `join`, at every level, against plain recursion and against a cut-off by hand.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::measure::{Arm, Ask, Bound, Role, Scenario};
use crate::work::{Item, TurnCosts, work};
use crate::{Run, ScenarioGroup, crew};

/// A node of a recursion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Node {
    /// A Fibonacci number: almost no work in a node, and one part larger than the other.
    Fib(u64),
    /// The sum over a balanced tree of this depth: every leaf costs the same number of turns.
    Tree { depth: u32, seed: u64, turns: u64 },
}

pub(crate) enum Step {
    Leaf(u64),
    Inner(Node, Node),
}

impl Node {
    #[inline]
    pub(crate) fn step(self) -> Step {
        match self {
            Node::Fib(n @ 0..2) => Step::Leaf(n),
            Node::Fib(n) => Step::Inner(Node::Fib(n - 1), Node::Fib(n - 2)),
            Node::Tree { depth: 0, seed, turns } => Step::Leaf(work(Item { seed, turns })),
            Node::Tree { depth, seed, turns } => {
                let half = |seed| Node::Tree { depth: depth - 1, seed, turns };
                Step::Inner(half(2 * seed), half(2 * seed + 1))
            }
        }
    }

    pub(crate) fn plain(self) -> u64 {
        match self.step() {
            Step::Leaf(value) => value,
            Step::Inner(left, right) => left.plain().wrapping_add(right.plain()),
        }
    }

    /// The nodes at this depth, and leaves above it.
    fn cut(self, depth: u32, nodes: &mut Vec<Node>) {
        match self.step() {
            Step::Inner(left, right) if depth > 0 => {
                left.cut(depth - 1, nodes);
                right.cut(depth - 1, nodes);
            }
            _ => nodes.push(self),
        }
    }

    /// The depth of the deepest leaf.
    fn depth(self) -> u32 {
        match self {
            Node::Fib(n) => n.saturating_sub(1) as u32,
            Node::Tree { depth, .. } => depth,
        }
    }
}

type Site = fn(Node) -> u64;

macro_rules! site {
    () => {{
        fn joined(node: Node) -> u64 {
            match node.step() {
                Step::Leaf(value) => value,
                Step::Inner(left, right) => {
                    let (left, right) = windrow::join(|| joined(left), || joined(right));
                    left.wrapping_add(right)
                }
            }
        }
        joined
    }};
}

/// Call sites: see `loops`.
static SITES: [Site; 8] = [site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!()];

const FIBS: [u64; 4] = [10, 15, 20, 27];
const DEPTHS: [u32; 4] = [3, 6, 10, 15];
/// Nanoseconds of a leaf of a tree.
const LEAF: f64 = 100.0;
/// The deepest cut-off that is tried.
const DEEPEST: u32 = 12;

fn timed(ask: Ask, expected: u64, mut run: impl FnMut() -> u64) -> Result<f64, String> {
    let mut wrong = 0;
    let mut call = || wrong += u64::from(run() != expected);
    (0..ask.warm_up).for_each(|_| call());
    let start = Instant::now();
    (0..ask.calls).for_each(|_| call());
    let nanos = start.elapsed().as_nanos() as f64 / ask.calls as f64;
    if wrong == 0 { Ok(nanos) } else { Err("the answer differs from that of plain recursion".to_owned()) }
}

/// The nodes at a depth are the items of a loop, which threads claim one at a time.
fn by_hand(ask: Ask, nodes: &[Node], expected: u64, threads: usize) -> Result<f64, String> {
    // The calls of a turn add up.
    let sum = AtomicU64::new(0);
    let nanos = crew::timed(ask, (threads, nodes.len(), 1), &|range| {
        let part = nodes[range].iter().map(|node| black_box(*node).plain()).fold(0, u64::wrapping_add);
        // Relaxed: the counter of finished items orders it.
        sum.fetch_add(part, Ordering::Relaxed);
    });
    let calls = (ask.warm_up + ask.calls) as u64;
    if sum.into_inner() == expected.wrapping_mul(calls) {
        Ok(nanos)
    } else {
        Err("the answer differs from that of plain recursion".to_owned())
    }
}

/// Measures all recursions.
pub(crate) fn run(run: &mut Run<'_>) -> Result<(), String> {
    let turns = TurnCosts::measure().turns(LEAF);
    let fibs = FIBS.map(|n| ("fib", n, Node::Fib(n)));
    let trees = DEPTHS.map(|depth| ("tree of 100ns", 1 << depth, Node::Tree { depth, seed: 1, turns }));
    let (threads, peer) = (run.settings.threads, run.peer);
    for (index, (family, size, node)) in run.wanted(fibs.into_iter().chain(trees)) {
        let (expected, site) = (node.plain(), SITES[index]);
        let arm = |name: &str, role, run: Site| {
            Arm::new(name, role, move |ask| timed(ask, expected, || run(black_box(node))))
        };
        let mut arms = vec![
            arm("plain recursion", Role::Serial, Node::plain),
            arm("control", Role::Control, Node::plain),
            arm("windrow", Role::Windrow, site),
        ];
        arms.extend((1..=node.depth().min(DEEPEST)).map(|depth| {
            let mut nodes = Vec::new();
            node.cut(depth, &mut nodes);
            let turn = move |ask| by_hand(ask, &nodes, expected, threads);
            Arm::new(format!("depth {depth}"), Role::Fixed(f64::from(depth)), turn)
        }));
        arms.extend(peer.map(|pool| {
            let turn = move |ask| pool.install(|| timed(ask, expected, || on_rayon(black_box(node))));
            Arm::new("rayon", Role::Rayon, turn)
        }));
        let why = move || crate::explained(|| _ = site(black_box(node)));
        let sweep = ("cut-off depth", Bound::Share(1.0 / run.width() as f64));
        run.measure(Scenario::new(ScenarioGroup::Loops, family, size as f64, sweep, arms, why))?;
    }
    Ok(())
}

/// Number of cells.
pub(crate) fn count() -> usize {
    FIBS.len() + DEPTHS.len()
}

/// The recursion on rayon, called inside its pool.
fn on_rayon(node: Node) -> u64 {
    match node.step() {
        Step::Leaf(value) => value,
        Step::Inner(left, right) => {
            let (left, right) = rayon::join(|| on_rayon(left), || on_rayon(right));
            left.wrapping_add(right)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rayon_gives_what_plain_code_gives() {
        let node = Node::Tree { depth: 6, seed: 1, turns: 2 };
        assert_eq!(on_rayon(node), node.plain());
    }

    #[test]
    fn every_way_gives_what_plain_recursion_gives() {
        let ask = Ask { warm_up: 1, calls: 2, ..Ask::default() };
        assert_eq!((Node::Fib(15).plain(), count()), (610, SITES.len()));
        for node in [Node::Fib(15), Node::Tree { depth: 6, seed: 1, turns: 2 }] {
            let expected = node.plain();
            assert_eq!(SITES[0](node), expected);
            for depth in 0..=node.depth() {
                let mut nodes = Vec::new();
                node.cut(depth, &mut nodes);
                assert!(by_hand(ask, &nodes, expected, 2).is_ok(), "{node:?} at {depth}");
                assert!(by_hand(ask, &nodes, expected + 1, 2).is_err());
            }
            assert!(timed(ask, expected, || node.plain()).is_ok());
            assert!(timed(ask, expected, || node.plain() + 1).is_err());
        }
    }
}
