//! One call site of windrow for every cell.
//!
//! windrow may remember what a call site cost. Cells that are different loops of a program are different call sites there, and so
//! they are here: 31 places in the source, each with a closure type of its own. (`--shared` sends all cells through one.)

use windrow::prelude::*;

use crate::cells::CELLS;
use crate::work::{Item, work};

type Site = fn(&[Item], &mut [u64]);

macro_rules! site {
    () => {
        |items, out| items.par_iter().zip(out.par_iter_mut()).for_each(|(item, out)| *out = work(*item))
    };
}

#[rustfmt::skip]
pub(super) static FOR_EACH: [Site; CELLS] = [
    site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(),
    site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(),
    site!(), site!(), site!(),
];
