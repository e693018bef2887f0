//! Recursion by `join`: the same functions for every runtime, without manual tuning.

use std::rc::Rc;

use super::rust_peers::{in_chili, inside_rayon, with_scope};
use super::{Arm, CONTROL, Here, Loaded, Programs, SERIAL, Setting, outside, windrow_pool};
use crate::work::Item;
use crate::work::Random;

/// A way to do two things, perhaps in parallel. The context is what a runtime hands down the recursion.
trait Join {
    type Context<'a>;

    fn join<A: Send, B: Send>(
        context: &mut Self::Context<'_>,
        a: impl FnOnce(&mut Self::Context<'_>) -> A + Send,
        b: impl FnOnce(&mut Self::Context<'_>) -> B + Send,
    ) -> (A, B);
}

/// Runtimes that need no context.
macro_rules! joins {
    ($($runtime:ident, $a:ident, $b:ident, $join:expr;)*) => { $(
        struct $runtime;
        impl Join for $runtime {
            type Context<'a> = ();

            fn join<A: Send, B: Send>(
                _: &mut (),
                $a: impl FnOnce(&mut ()) -> A + Send,
                $b: impl FnOnce(&mut ()) -> B + Send,
            ) -> (A, B) {
                $join
            }
        }
    )* };
}

joins! {
    Serial, a, b, (a(&mut ()), b(&mut ()));
    Windrow, a, b, windrow::join(|| a(&mut ()), || b(&mut ()));
    Rayon, a, b, rayon::join(|| a(&mut ()), || b(&mut ()));
}

struct Chili;
impl Join for Chili {
    type Context<'a> = chili::Scope<'a>;

    fn join<A: Send, B: Send>(
        context: &mut chili::Scope<'_>,
        a: impl FnOnce(&mut chili::Scope<'_>) -> A + Send,
        b: impl FnOnce(&mut chili::Scope<'_>) -> B + Send,
    ) -> (A, B) {
        context.join(a, b)
    }
}

/// A recursion and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recursion {
    /// Fibonacci numbers; serial below 20.
    FibCutOff,
    /// The same, with joins down to 1.
    Fib,
    /// The sum over a balanced binary tree.
    Tree,
    /// Sorting random numbers.
    Quicksort,
    /// One join after another, with next to no work.
    Flat,
}

impl Recursion {
    /// All of them.
    pub const ALL: [Recursion; 5] = [Self::FibCutOff, Self::Fib, Self::Tree, Self::Quicksort, Self::Flat];

    /// Name in tables and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::FibCutOff => "fib-20",
            Self::Fib => "fib",
            Self::Tree => "tree",
            Self::Quicksort => "quicksort",
            Self::Flat => "flat",
        }
    }

    /// The argument, depth, or count.
    pub fn size(self) -> u64 {
        match self {
            Self::FibCutOff => 32,
            Self::Fib => 25,
            Self::Tree => 18,
            Self::Quicksort => 200_000,
            Self::Flat => 1000,
        }
    }

    /// Number of joins, if they are most of the work.
    pub fn joins(self) -> Option<u64> {
        match self {
            // Each call except those of 0 and 1.
            Self::Fib => Some(fib_serial(self.size() + 1) - 1),
            Self::Tree => Some((1 << self.size()) - 1),
            Self::Flat => Some(self.size()),
            Self::FibCutOff | Self::Quicksort => None,
        }
    }
}

/// The runtimes that can join.
pub const RUNTIMES: [&str; 6] = [SERIAL, CONTROL, "windrow", "rayon", "chili", "tbb"];

/// The cell of a recursion of some size. Its answer is the serial one.
pub fn cell(recursion: Recursion, size: u64) -> Rc<Loaded> {
    let items = vec![Item { seed: size, turns: 0 }];
    let expected = Inputs::default().run::<Serial>(recursion, &items, &mut ());
    Rc::new(Loaded { index: 0, items, expected: vec![expected] })
}

/// A recursion as an arm. Its cell has one item, whose seed is the size; the output is one number.
///
/// # Errors
/// When it cannot be built on this machine, or without the feature `join`.
///
/// # Panics
/// If there is no such runtime.
pub fn recursion(
    runtime: &str,
    recursion: Recursion,
    setting: Setting,
    programs: &mut Programs,
) -> Result<Box<dyn Arm>, String> {
    let threads = setting.threads;
    let mut inputs = Inputs::default();
    Ok(match runtime {
        SERIAL | CONTROL => {
            Here::arm(runtime, outside, move |_, items, out| out[0] = inputs.run::<Serial>(recursion, items, &mut ()))
        }
        "windrow" => Here::arm(runtime, windrow_pool(setting), move |_, items, out| {
            out[0] = inputs.run::<Windrow>(recursion, items, &mut ());
        }),
        "rayon" => Here::arm(runtime, inside_rayon(threads), move |_, items, out| {
            out[0] = inputs.run::<Rayon>(recursion, items, &mut ());
        }),
        "chili" => Here::arm(runtime, in_chili(threads), move |_, items, out| {
            out[0] = with_scope(|scope| inputs.run::<Chili>(recursion, items, scope));
        }),
        "tbb" => programs.arm(&format!("tbb-{}", recursion.name()), threads)?,
        _ => panic!("no runtime is called {runtime}"),
    })
}

/// The data of a recursion, built at its first call.
#[derive(Default)]
struct Inputs {
    nodes: Vec<Node>,
    shuffled: Vec<u64>,
    numbers: Vec<u64>,
}

impl Inputs {
    fn run<J: Join>(&mut self, recursion: Recursion, items: &[Item], context: &mut J::Context<'_>) -> u64 {
        let size = items[0].seed;
        match recursion {
            Recursion::FibCutOff => fib::<J>(context, size, 20),
            Recursion::Fib => fib::<J>(context, size, 1),
            Recursion::Tree => {
                if self.nodes.is_empty() {
                    grow(&mut self.nodes, size);
                }
                sum::<J>(context, &self.nodes, 0)
            }
            Recursion::Quicksort => {
                if self.shuffled.is_empty() {
                    let mut random = Random::new(0);
                    self.shuffled = (0..size).map(|_| random.bits()).collect();
                }
                self.numbers.clone_from(&self.shuffled);
                quicksort::<J>(context, &mut self.numbers);
                self.numbers.iter().fold(0, |sum, number| sum.wrapping_mul(31).wrapping_add(*number))
            }
            Recursion::Flat => (0..size).map(|at| pair::<J>(context, at)).sum(),
        }
    }
}

fn fib_serial(n: u64) -> u64 {
    if n <= 1 { n } else { fib_serial(n - 1) + fib_serial(n - 2) }
}

fn fib<J: Join>(context: &mut J::Context<'_>, n: u64, cut_off: u64) -> u64 {
    if n <= cut_off {
        return fib_serial(n);
    }
    let (a, b) = J::join(context, |c| fib::<J>(c, n - 1, cut_off), |c| fib::<J>(c, n - 2, cut_off));
    a + b
}

/// A node of a tree in one allocation, so that every arm and language has the same layout; 0 means no child.
struct Node {
    value: u64,
    children: [u32; 2],
}

/// Adds a balanced tree, depth first. Returns the place of its root.
fn grow(nodes: &mut Vec<Node>, depth: u64) -> u32 {
    let at = nodes.len();
    nodes.push(Node { value: depth, children: [0; 2] });
    if depth > 0 {
        nodes[at].children = [grow(nodes, depth - 1), grow(nodes, depth - 1)];
    }
    at as u32
}

fn sum<J: Join>(context: &mut J::Context<'_>, nodes: &[Node], at: u32) -> u64 {
    let Node { value, children: [left, right] } = nodes[at as usize];
    if left == 0 {
        return value;
    }
    let (left, right) = J::join(context, |c| sum::<J>(c, nodes, left), |c| sum::<J>(c, nodes, right));
    value + left + right
}

/// Runs up to this length are sorted by insertion, also serially.
const SMALL: usize = 20;

fn quicksort<J: Join>(context: &mut J::Context<'_>, numbers: &mut [u64]) {
    if numbers.len() <= SMALL {
        for end in 1..numbers.len() {
            let mut at = end;
            while at > 0 && numbers[at - 1] > numbers[at] {
                numbers.swap(at - 1, at);
                at -= 1;
            }
        }
        return;
    }
    // The numbers are random, so the last is as good a pivot as any.
    let last = numbers.len() - 1;
    let mut middle = 0;
    for at in 0..last {
        if numbers[at] < numbers[last] {
            numbers.swap(at, middle);
            middle += 1;
        }
    }
    numbers.swap(middle, last);
    let (less, more) = numbers.split_at_mut(middle);
    J::join(context, |c| quicksort::<J>(c, less), |c| quicksort::<J>(c, &mut more[1..]));
}

fn pair<J: Join>(context: &mut J::Context<'_>, at: u64) -> u64 {
    let (a, b) = J::join(context, |_| std::hint::black_box(at), |_| std::hint::black_box(1));
    a + b
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arms::{Ask, alone};

    #[test]
    fn serial_recursions_are_right() {
        let answer = |recursion, size| cell(recursion, size).expected[0];
        assert_eq!(answer(Recursion::Fib, 20), 6765);
        assert_eq!(answer(Recursion::FibCutOff, 25), 75025);
        assert_eq!(answer(Recursion::Tree, 3), 3 + 2 * 2 + 4);
        assert_eq!(answer(Recursion::Flat, 5), 15);
        let mut numbers: Vec<u64> = (0..1000).map(|at| at * 7919 % 1000).collect();
        quicksort::<Serial>(&mut (), &mut numbers);
        assert!(numbers.into_iter().eq(0..1000));
    }

    #[test]
    fn every_runtime_gives_what_serial_gives() {
        let _alone = alone();
        let mut programs = Programs::default();
        for (kind, size) in Recursion::ALL.into_iter().zip([24, 12, 8, 3000, 50]) {
            for runtime in RUNTIMES {
                match recursion(runtime, kind, Setting { threads: 2 }, &mut programs) {
                    Ok(mut arm) => {
                        arm.load(&cell(kind, size));
                        arm.run(Ask { calls: 2, ..Ask::default() });
                    }
                    Err(error) => assert!(runtime == "tbb", "{runtime}: {error}"),
                }
            }
        }
    }

    #[test]
    fn joins_are_counted_where_they_happen() {
        fn joins(n: u64, cut_off: u64) -> u64 {
            if n <= cut_off { 0 } else { 1 + joins(n - 1, cut_off) + joins(n - 2, cut_off) }
        }
        assert_eq!(Recursion::Fib.joins(), Some(joins(Recursion::Fib.size(), 1)));
    }
}
